"""Limits of a request, so that none occupies the server for long, and the messages of requests above them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import Count, Settings

CHARACTERS_PER_WORD = 20  # most characters of a sentence, per word of the limit


@dataclass(frozen=True)
class Limits(Settings):
    """The largest requests that the server answers.

    Attributes:
        max_words: words of a sentence, also of a generated one; time grows with up to the cube of it
        max_sentences: sentences of a request, also generated ones
        max_body: bytes of a request
        max_waiting: requests that wait for one model
        max_seconds: time until an answer, with the time of waiting
    """

    max_words: Count = 100
    max_sentences: Count = 50
    max_body: Count = 262_144
    max_waiting: Count = 100
    max_seconds: Count = 60

    @property
    def max_characters(self) -> int:
        """Most characters of a sentence."""
        return self.max_words * CHARACTERS_PER_WORD

    def check(self, sentences: Sequence[str], given: str | None = None) -> None:
        """Raise InputError for too many sentences, and for one that is too long, before a model reads it.

        Args:
            given: what is read before each sentence, and counts as a part of it.
        """
        if len(sentences) > self.max_sentences:
            raise InputError(
                f"found {len(sentences):,} sentences; expected at most {self.max_sentences:,} in a request. Send them"
                " in several requests"
            )
        for text, place in with_places(sentences, given):
            self.check_text(text, place)

    def check_text(self, text: str, place: str) -> None:
        """Raise InputError for a text with too many words or characters.

        Args:
            place: what the text is, for the message.
        """
        self.check_words(len(text.split()), place)
        if len(text) > self.max_characters:
            raise InputError(
                f"{place}: found {len(text):,} characters; expected at most {self.max_characters:,}. Split it"
            )

    def check_words(self, words: int, place: str) -> None:
        """Raise InputError for too many words.

        Args:
            place: what has the words, for the message.
        """
        if words > self.max_words:
            raise InputError(
                f"{place}: found {words:,} words; expected at most {self.max_words:,}. Split it, or start the server"
                f" with --max-words {words}"
            )


def with_places(sentences: Sequence[str], given: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield sentences, after what is read before each of them, and their places for messages."""
    for number, sentence in enumerate(sentences, 1):
        place = f"sentence {number}"
        yield (sentence, place) if given is None else (f"{given} {sentence}", f"{place} with given")
