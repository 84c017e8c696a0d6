"""Trees of the training text, hand-made or automatic, for supervised models: the constituents of every sentence.

Sentence i of the text belongs to tree i; both are compared token by token, as the model reads them. The spans of the
whole corpus are flat arrays, so that a batch finds its spans without a loop over sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

import numpy as np

from syntaxlm.core.arrays import Flags, Integers
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.treebanks import Preprocessing, Treebank, check_tags, read_treebank
from syntaxlm.text.normaliser import TAG_MARK, Normaliser, split_words
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.averaging import average
from syntaxlm.trees.preprocessing import find_preprocessing
from syntaxlm.trees.spans import SpanSets, offsets_of, sorted_by_sentence, span_keys, spans_of_keys

# A few sentences may be spelled differently from their trees. If fewer than this share have the words of their trees,
# text and trees have different preprocessing or are not aligned.
FEWEST_SUPERVISED = 0.5
SENTENCES_NAMED = 3  # differing sentences that are shown; all are counted
_BEFORE, _SHOWN = 3, 12  # tokens of a sentence in a message: before the first difference, and in total

# The reader of trees replaces these escapes. Text from another tool may still contain them, also in lower case.
_ESCAPE = re.compile(r"-[lr][rcs]b-|\\[/*]", re.IGNORECASE)
_MARKS = {
    "-lrb-": "(", "-rrb-": ")", "-lcb-": "{", "-rcb-": "}", "-lsb-": "[", "-rsb-": "]", "\\/": "/", "\\*": "*",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Supervision:
    """The constituents of a corpus, from hand-made or automatic trees.

    Attributes:
        source: the path of the trees, for messages.
        spans: those of every sentence of the corpus, over its tokens: each span once, of two or more words, without the
            whole sentence unless it is asked for. There are none if the sentence is not supervised.
        supervised: (S,) bool, whether a sentence has exactly the words of its tree.
        differing: descriptions of the first few sentences that differ from their trees.
        limit: number of sentences, from the first, whose trees are used.
    """

    source: str
    spans: SpanSets
    supervised: Flags
    differing: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def count(self) -> int:
        """The number of supervised sentences."""
        return int(np.count_nonzero(self.supervised))

    def binary(self) -> Supervision:
        """Return binary trees with whole sentences, for models whose trees are binary.

        Nodes with more than two children branch to the right. Trees without smaller constituents are left out.
        """
        spans, counts = self.spans, np.diff(self.spans.offsets)
        is_binary = (counts > 0) & (counts >= spans.lengths - 1)
        is_wide = (counts > 1) & ~is_binary
        trees = average([spans.select(is_wide)], ties="first")
        sentences = spans.sentences()
        kept = is_binary[sentences]
        groups = [
            (sentences[kept], spans.starts[kept], spans.ends[kept]),
            (np.flatnonzero(is_wide)[trees.sentences()], trees.starts, trees.ends),
        ]
        return replace(self, spans=sorted_by_sentence(spans.lengths, groups))

    def __str__(self) -> str:
        lines = [f"{self.source}: trees of {self.count:,} of {len(self.supervised):,} training sentences"]
        limit = len(self.supervised) if self.limit is None else self.limit
        if limit < len(self.supervised):
            lines[0] += f", from the first {limit:,} of them"
        spans = self.spans
        if np.all(spans.ends - spans.starts == np.repeat(spans.lengths, np.diff(spans.offsets))):
            lines.append("no constituent is smaller than its sentence, so there is nothing to learn from these trees")
        lines += self.differing
        if more := limit - self.count - len(self.differing):
            lines.append(f"and {more:,} more sentences that differ from their trees")
        return "\n".join(lines)


def read_supervision(
    path: str | Path,
    preprocessing: Preprocessing,
    corpus: EncodedCorpus,
    normaliser: Normaliser,
    vocabulary: Vocabulary,
    keep_whole: bool = False,
    share: float = 1.0,
) -> Supervision:
    """Return the constituents of a corpus's sentences, from their trees in the same order.

    Args:
        path: see `read_treebank`.
        preprocessing: selects the words of the trees that are in the text.
        normaliser: the normaliser that encoded the corpus. Words that it drops or splits are dropped or split in the
            trees, too.
        vocabulary: the vocabulary that encoded the corpus. All unknown words are equal.
        keep_whole: whether whole sentences are among the spans.
        share: the share of the sentences, from the first, whose trees are used; all are compared.

    Raises:
        InputError: if the files are not constituency trees, if the numbers of trees and sentences differ (trees without
            remaining tokens do not count), and if fewer than half of the sentences have the words of their trees.
    """
    preprocessing = find_preprocessing(preprocessing)
    treebank = read_treebank(path, preprocessing)
    aligned = _Alignment(treebank, corpus, normaliser, vocabulary)
    same, source = aligned.same(), corpus.source or "the text"
    trees, sentences = len(aligned.numbers), len(corpus)
    if trees != sentences:
        empty = len(treebank.emptied) + len(treebank) - trees
        left_out = f" ({empty:,} more have no word left after preprocessing {preprocessing.name})" if empty else ""
        if not same.all():
            first = f"that differ: {aligned.difference(int(np.argmin(same)))}"
        else:
            what, (place, tokens) = (
                ("a tree", aligned.line(trees)) if trees < sentences else ("a sentence", aligned.tree(sentences))
            )
            first = f"without {what}: {place}: {_around(tokens, 0)}"
        raise InputError(
            f"{path}: found {trees:,} trees{left_out} for the {sentences:,} sentences of {source}; expected one tree"
            f" for each sentence, in the same order.\nThe first {first}"
        )
    differing = tuple(aligned.difference(place) for place in np.flatnonzero(~same)[:SENTENCES_NAMED].tolist())
    if np.count_nonzero(same) < FEWEST_SUPERVISED * sentences:
        raise InputError(
            f"{path}: found {np.count_nonzero(same):,} of {trees:,} trees with the words of their sentences in"
            f" {source};"
            f" expected the same sentences in the same order, with the words that preprocessing"
            f" {preprocessing.name} keeps.\n" + "\n".join(differing)
        )
    limit = math.ceil(Fraction(str(share)) * sentences)  # of floats, 0.07 * 100 is above 7
    differing = tuple(text for text, place in zip(differing, np.flatnonzero(~same), strict=False) if place < limit)
    same[limit:] = False
    return Supervision(str(path), aligned.spans(same, keep_whole), same, differing, limit)


class _Alignment:
    """The tokens of trees beside those of the sentences at the same positions. Trees without remaining tokens are left
    out.

    Tokens are compared by codes: two tokens have the same code if they are equal for the model or after unescaping
    brackets.

    Attributes:
        numbers: (S,) the 0-based index of each tree in the treebank.
        lengths: (S,) its number of tokens.
    """

    def __init__(
        self, treebank: Treebank, corpus: EncodedCorpus, normaliser: Normaliser, vocabulary: Vocabulary
    ) -> None:
        self.treebank = treebank
        self.corpus = corpus
        self.normaliser = normaliser
        self.vocabulary = vocabulary
        self._trees = [sentence.tree for sentence in treebank if sentence.tree is not None]
        if len(self._trees) < len(treebank):
            raise InputError(f"{treebank.source}: found dependency trees; expected constituency trees")
        if normaliser.units == "tags":
            check_tags(treebank)
        code_of = {_plain(vocabulary.unknown): 0}
        known = (_plain(token if vocabulary.knows(token) else vocabulary.unknown) for token in vocabulary.tokens)
        codes_of_ids = np.array([code_of.setdefault(token, len(code_of)) for token in known], np.int64)
        self._text_codes: Integers = codes_of_ids[corpus.ids]
        # White space may be a token, which separates words. It comes before each of them.
        space = [] if normaliser.space is None else [normaliser.space]
        words = list(chain.from_iterable(self._written(tree.words, tree.tags) for tree in self._trees))
        codes_of: dict[str, tuple[int, ...]] = {}
        for word in dict.fromkeys(words):
            tokens = self._tokens([word])
            codes_of[word] = tuple(code_of.get(_plain(token), 0) for token in (space + tokens if tokens else ()))
        sizes = np.fromiter((len(codes_of[word]) for word in words), np.int64, len(words))
        self._words_before = offsets_of(np.array([len(tree) for tree in self._trees], np.int64))
        self._tokens_before, self._kept_before = offsets_of(sizes), offsets_of((sizes > 0).astype(np.int64))
        self._lead = len(space)
        begins = self._tokens_before[self._words_before]
        self.numbers: Integers = np.flatnonzero(np.diff(begins))
        self.lengths: Integers = np.diff(begins)[self.numbers] - self._lead
        codes = np.fromiter(chain.from_iterable(codes_of[word] for word in words), np.int64, int(sizes.sum()))
        # There is no white space before the first word.
        self._gold_codes: Integers = np.delete(codes, begins[self.numbers]) if space else codes
        self._gold_offsets = offsets_of(self.lengths)

    def _written(self, words: Sequence[str], tags: Sequence[str]) -> Sequence[str]:
        """Return the words of a tree as written in a text: with their tags if the units are tags."""
        if self.normaliser.units != "tags":
            return words
        return [f"{word}{TAG_MARK}{tag}" for word, tag in zip(words, tags, strict=True)]

    def _tokens(self, words: Sequence[str]) -> list[str]:
        """Return the tokens of a line with these words. White space within words is removed, like in `write_words`."""
        return self.normaliser.tokens(" ".join("".join(split_words(word)) for word in words))

    def same(self) -> Flags:
        """Return which sentences have the same codes as their trees.

        The result is bool of shape (n,), where n is the smaller of the numbers of sentences and trees.
        """
        both = min(len(self.corpus), len(self.numbers))
        lengths = self.corpus.lengths[:both]
        others = self.lengths[:both]
        same: Flags = lengths == others
        text = self._text_codes[: self.corpus.offsets[both]]
        gold = self._gold_codes[: self._gold_offsets[both]]
        differ = text[np.repeat(same, lengths)] != gold[np.repeat(same, others)]
        same[np.repeat(np.arange(both), lengths * same)[differ]] = False
        return same

    def spans(self, chosen: Flags, keep_whole: bool) -> SpanSets:
        """Return the constituents over tokens of the chosen sentences; others have none.

        Args:
            chosen: (S,) bool.
        """
        spans = SpanSets.of(self._trees).select(self.numbers)
        sentences = spans.sentences()
        begins = self._words_before[self.numbers][sentences]
        firsts, ends = begins + spans.starts, begins + spans.ends
        # A word with several tokens is not a constituent.
        kept = chosen[sentences] & (self._kept_before[ends] - self._kept_before[firsts] > 1)
        begins, firsts, ends = (self._tokens_before[places[kept]] for places in (begins, firsts, ends))
        counts = np.bincount(sentences[kept], minlength=len(chosen))
        starts = (firsts - begins).astype(np.int32)
        ends = (ends - begins - self._lead).astype(np.int32)
        lengths = self.corpus.lengths
        keys, _ = span_keys(SpanSets(lengths, offsets_of(counts), starts, ends), keep_whole)
        return spans_of_keys(keys, lengths)

    def difference(self, place: int) -> str:
        """Describe where a sentence and its tree differ, with the words around this position."""
        text = self._text_codes[slice(*self.corpus.offsets[place : place + 2])]
        gold = self._gold_codes[slice(*self._gold_offsets[place : place + 2])]
        shorter = min(len(text), len(gold))
        first = int(np.argmax(np.append(text[:shorter] != gold[:shorter], True)))
        (line, words) = self.line(place)
        (tree, gold_words) = self.tree(place)
        return (
            f"{line} and {tree} differ from word {first + 1} on\n"
            f"  text: {_around(words, first)}\n  tree: {_around(gold_words, first)}"
        )

    def line(self, place: int) -> tuple[str, list[str]]:
        """Return place and tokens of a sentence of the text."""
        return self.corpus.place(place), self.vocabulary.decode(self.corpus.sentence(place))

    def tree(self, place: int) -> tuple[str, list[str]]:
        """Return place and tokens of a tree."""
        sentence = self.treebank.sentences[self.numbers[place]]
        tokens = self._tokens(self._written(sentence.words, sentence.tags))
        return f"{self.treebank.source}, tree {sentence.number}", tokens


def _plain(token: str) -> str:
    """Replace treebank escapes in a token, such as -LRB- by "("."""
    return _ESCAPE.sub(lambda escape: _MARKS[escape.group().lower()], token)


def _around(tokens: Sequence[str], place: int) -> str:
    """Return some tokens of a sentence around a position."""
    begin = max(0, place - _BEFORE)
    shown = tokens[begin : begin + _SHOWN]
    return ("... " if begin else "") + " ".join(shown) + (" ..." if begin + len(shown) < len(tokens) else "")
