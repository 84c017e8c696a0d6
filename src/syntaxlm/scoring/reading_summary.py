"""What a model does not know, read or distinguish of a text that it scores, in one line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from syntaxlm.core.errors import amount, shortened
from syntaxlm.core.option_names import option_name
from syntaxlm.scoring.reading_counts import EXAMPLES, LONGEST_EXAMPLE, MANY_UNKNOWN, ReadingCounts
from syntaxlm.scoring.surprisal import WordSurprisal
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.doubts import has_letters
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import REMEMBERED_WORDS, TextReader

REMEMBERED_UNKNOWN = 100_000  # maximum number of distinct unknown words that are counted
REMEMBERED_SENTENCES = 20_000  # maximum number of distinct sentences that are compared


class ReadingSummary:
    """Counts what a model does not know, read or distinguish, and reports it, with advice on unknown words."""

    def __init__(self, bundle: ModelBundle, options: TextOptions) -> None:
        """Create a counter for a model.

        Args:
            options: those with which the rows were read.
        """
        self._reader = TextReader.of(bundle.normaliser, bundle.vocabulary, options)
        self._auto = TextReader.of(bundle.normaliser, bundle.vocabulary, TextOptions())
        self._not_read_of = lru_cache(REMEMBERED_WORDS)(self._find_not_read)
        self._reads_trees = bundle.model.reads == "trees"  # each word is a token, whatever the normaliser drops of text
        self.clear()

    def clear(self) -> None:
        """Start the counts again."""
        self.words = 0  # words that the model read, without ends of sentences
        self.not_read: Counter[str] = Counter()  # dropped words and punctuation marks
        self.alike: list[tuple[int, int]] = []  # sentences that differ as written, but not as read
        self._sentences: dict[tuple[str, ...], tuple[int, list[str]]] = {}  # by tokens: number and words
        self.unknown: Counter[str] = Counter()
        self.unknown_count = 0
        self.unknown_without_letters = 0
        self.impossible = 0  # words of probability 0, which an n-gram model or a DMV may give

    def add(self, rows: Sequence[WordSurprisal]) -> None:
        """Count the rows of a sentence."""
        self._compare_with_earlier(rows)
        for row in rows:
            if not row.word.isalnum() and row.token.replace(" ", "").lower() != row.word.lower():
                by_normaliser = [] if self._reads_trees else self._not_read_of(row.word)
                is_dropped = not row.token and row.word.strip()  # the tokenizer of the model may drop words, too
                self.not_read.update(by_normaliser or ([row.word] if is_dropped else []))
            if row.word and row.in_vocabulary is not None:
                self.words += 1
                self.impossible += row.surprisal == math.inf
                if not row.in_vocabulary:
                    self._count_unknown(row.word)

    def _compare_with_earlier(self, rows: Sequence[WordSurprisal]) -> None:
        """Keep a sentence, or note that it differs from an earlier one as written, but not as read."""
        tokens = tuple(row.token for row in rows if row.token)
        if not tokens or (tokens not in self._sentences and len(self._sentences) >= REMEMBERED_SENTENCES):
            return
        number = rows[0].sentence
        words = [row.word for row in rows]
        first_number, first_words = self._sentences.setdefault(tokens, (number, words))
        if first_words != words:
            self.alike.append((first_number, number))

    def _count_unknown(self, word: str) -> None:
        self.unknown_count += 1
        self.unknown_without_letters += not has_letters(word)
        if word in self.unknown or len(self.unknown) < REMEMBERED_UNKNOWN:
            self.unknown[word] += 1

    def _find_not_read(self, word: str) -> list[str]:
        return [part.written for part in self._reader.align(word) if part.token is None]

    def __str__(self) -> str:
        """Return a line such as "120 words, 3 unknown (2.5%)", with advice if the share is large."""
        if not self.alike:
            return self.counts().text()
        first, second = self.alike[0]
        further = f" and {amount(len(self.alike) - 1, 'other')}" if len(self.alike) > 1 else ""
        return self.counts().text(
            f"Sentence {second}{further} cannot be distinguished from another one, such as sentence {first}"
        )

    def counts(self) -> ReadingCounts:
        """Return the counts, without the sentences that are alike."""
        counts = ReadingCounts(
            units="characters" if self._reader.normaliser.units == "characters" else "words",
            words=self.words,
            unknown=self.unknown_count,
            without_letters=self.unknown_without_letters,
            impossible=self.impossible,
            not_read=self.not_read.total(),
            examples=tuple(_most_frequent(self.not_read)),
        )
        return counts._replace(advice=self._advice()) if counts.share > MANY_UNKNOWN else counts

    def _advice(self) -> str:
        for word, _ in self.unknown.most_common():
            if known := self._known_after_splitting(word):
                return (
                    f"{shortened(word, LONGEST_EXAMPLE)!r} is unknown, but {shortened(known, LONGEST_EXAMPLE)!r} is"
                    f" known: use {option_name('--punctuation', 'auto')} and {option_name('--contractions', 'auto')}"
                )
        return (
            f"Most frequent: {', '.join(_most_frequent(self.unknown))}. The surprisal of an unknown word is not"
            " informative; expected text that is similar to the model's training text"
        )

    def _known_after_splitting(self, word: str) -> str:
        """Return what the model knows of an unknown word if marks and contractions are split off; "" if it does not."""
        parts = [part for part in self._auto.align(word) if part.token is not None]
        tokens = [str(part.token) for part in parts]
        if not tokens or not all(map(self._auto.vocabulary.knows, tokens)):
            return ""
        if all(map(self._reader.vocabulary.knows, self._reader.tokens(word))):
            return ""
        written = " ".join(part.written for part in parts)
        return written if written != word else " ".join(tokens)


def _most_frequent(counts: Counter[str]) -> list[str]:
    """Return the most frequent words, for a message."""
    return [shortened(word, LONGEST_EXAMPLE) for word, _ in counts.most_common(EXAMPLES)]
