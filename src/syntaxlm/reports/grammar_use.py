"""Counts how often each symbol of a grammar is used, in parses of a text or in sampled sentences, with examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from syntaxlm.data.corpora import read_sentences
from syntaxlm.errors import InputError
from syntaxlm.generation.sampling import MAXIMUM
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import HasGrammar
from syntaxlm.parsing.structure import structure_of
from syntaxlm.text.normaliser import UntaggedTokenError

READ_TOGETHER = 1_000  # lines read at a time
KEPT = 1 << 18  # most distinct constituents counted as examples, over all symbols

LabelledSpan = tuple[int, int, int]


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence with its tree.

    spans: (first word, last word, nonterminal) of spans of two or more words, both words inclusive.
    word_labels: the label of each word.
    """

    tokens: Sequence[str]
    spans: Sequence[LabelledSpan]
    word_labels: Sequence[int]


@dataclass(frozen=True, eq=False)
class SymbolUse:
    """How often a grammar's symbols are used in some sentences of two or more words.

    counts: (m + t,), number of constituents of each nonterminal and of words of each preterminal.
    sentences: their number.  skipped: number of sentences of one word, which the grammar does not generate.
    """

    counts: npt.NDArray[np.int64]
    nonterminal_count: int
    sentences: int
    skipped: int
    examples: dict[int, Counter[tuple[str, ...]]]

    @property
    def constituents(self) -> int:
        return int(self.counts[: self.nonterminal_count].sum())

    @property
    def words(self) -> int:
        return int(self.counts[self.nonterminal_count :].sum())

    def most_used(self, nonterminals: bool, count: int) -> list[int]:
        """The most used nonterminals or preterminals, ties in symbol order; unused symbols are omitted."""
        symbols = np.arange(len(self.counts))
        chosen = symbols[(symbols < self.nonterminal_count) == nonterminals]
        order = chosen[np.argsort(-self.counts[chosen], kind="stable")][:count]
        return [int(symbol) for symbol in order if self.counts[symbol]]

    def used(self, nonterminals: bool) -> int:
        """Number of nonterminals or preterminals that occur."""
        return len(self.most_used(nonterminals, len(self.counts)))

    def share(self, symbol: int) -> float:
        """The share of a nonterminal among the constituents, or of a preterminal among the words."""
        total = self.constituents if symbol < self.nonterminal_count else self.words
        return float(self.counts[symbol] / total)

    def examples_of(self, symbol: int, count: int) -> list[tuple[str, ...]]:
        """The most frequent constituents of a nonterminal; of equally frequent ones the shortest first."""
        found = self.examples.get(symbol, Counter())
        return sorted(found, key=lambda words: (-found[words], len(words)))[:count]


def use_of(sentences: Iterable[LabelledSentence], model: HasGrammar) -> SymbolUse:
    """Counts the symbols of a model in sentences with trees."""
    counts = np.zeros(len(model.labels), np.int64)
    examples: dict[int, Counter[tuple[str, ...]]] = {}
    number = skipped = kept = 0
    for sentence in sentences:
        if len(sentence.tokens) < 2:
            skipped += 1
            continue
        number += 1
        np.add.at(counts, list(sentence.word_labels), 1)
        for first, last, symbol in sentence.spans:
            counts[symbol] += 1
            own = examples.setdefault(symbol, Counter())
            words = tuple(sentence.tokens[first : last + 1])
            if words in own or kept < KEPT:
                kept += words not in own
                own[words] += 1
    return SymbolUse(counts, model.nonterminal_count, number, skipped, examples)


def sampled_sentences(stored: ModelBundle, count: int, seed: int) -> Iterator[LabelledSentence]:
    """Sentences sampled from the grammar, with unknown words."""
    model = stored.require(HasGrammar, "sampling")
    longest = MAXIMUM[stored.normaliser.units]
    generator = np.random.default_rng(seed)
    for _ in range(count):
        (drawn,) = model.sample(1, longest, generator)
        yield LabelledSentence(stored.vocabulary.decode(drawn.words), drawn.spans, drawn.word_labels)


def parsed_sentences(stored: ModelBundle, path: str | Path) -> Iterator[LabelledSentence]:
    """The sentences of a text file with their minimum Bayes risk trees and each span's most probable label.

    Raises InputError like `read_sentences`, and for a text without a sentence of two or more words.
    """
    lines = read_sentences(path, stored.normaliser)
    found = False
    for chunk in iter(lambda: list(islice(lines, READ_TOGETHER)), []):
        tokens = [_tokens(stored, line, path, number) for number, line in chunk]
        for sentence in _parsed(stored, [one for one in tokens if len(one) > 1]):
            found = True
            yield sentence
        yield from (LabelledSentence(one, (), ()) for one in tokens if len(one) == 1)
    if not found:
        raise InputError(f"{path}: no sentence has two or more words, as grammars need")


def _tokens(stored: ModelBundle, line: str, path: str | Path, number: int) -> list[str]:
    try:
        return stored.normaliser.tokens(line)
    except UntaggedTokenError as error:
        raise error.at(f"{path}, line {number}") from None


def _parsed(stored: ModelBundle, sentences: list[list[str]]) -> Iterator[LabelledSentence]:
    """Parses sentences of two or more words."""
    if not sentences:
        return
    trees = structure_of(stored, sentences).labelled("mbr")
    assert trees.labels is not None
    rows = list(zip(trees.starts.tolist(), (trees.ends - 1).tolist(), trees.labels.tolist(), strict=True))
    for tokens, begin, end in zip(sentences, trees.offsets[:-1].tolist(), trees.offsets[1:].tolist(), strict=True):
        own = rows[begin:end]
        words = sorted((first, label) for first, last, label in own if first == last)
        yield LabelledSentence(tokens, [span for span in own if span[0] < span[1]], [label for _, label in words])
