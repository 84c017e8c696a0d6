"""Limits of a request, so that none occupies the server for long, and the messages of requests above them."""

from __future__ import annotations

from collections.abc import Sequence
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

    def check(self, sentences: Sequence[str]) -> None:
        """Raise InputError for too many sentences, and for one that is too long, before a model reads it."""
        if len(sentences) > self.max_sentences:
            raise InputError(
                f"found {len(sentences):,} sentences; expected at most {self.max_sentences:,} in a request. Send them"
                " in several requests"
            )
        for number, sentence in enumerate(sentences, 1):
            self.check_words(len(sentence.split()), number)
            if len(sentence) > self.max_characters:
                raise InputError(
                    f"sentence {number}: found {len(sentence):,} characters; expected at most"
                    f" {self.max_characters:,}. Split it"
                )

    def check_words(self, words: int, number: int) -> None:
        """Raise InputError for a sentence with too many words.

        Args:
            number: the number of the sentence, from 1.
        """
        if words > self.max_words:
            raise InputError(
                f"sentence {number}: found {words:,} words; expected at most {self.max_words:,}. Split it, or start the"
                f" server with --max-words {words}"
            )
