"""The spans of many sentences in flat arrays, all sentences concatenated: output of decoders, input of scoring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags, Integers
from syntaxlm.core.errors import InputError
from syntaxlm.trees.tree import INDUCED_LABEL, Constituent, Tree, escaped

Positions = npt.NDArray[np.int32]
AnyIntegers = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class SpanSets:
    """Spans [start, end) of S sentences; those of sentence i are at offsets[i] to offsets[i + 1] of the flat arrays.

    Spans of one word and repeated spans are allowed: scoring drops them.

    Attributes:
        lengths: (S,) number of words of each sentence.
        offsets: (S + 1,).
        starts: (N,) first word of each span, from 0.
        ends: (N,) the word after its last.
        labels: (N,) indices into `label_names`, or None.
    """

    lengths: Integers
    offsets: Integers
    starts: Positions
    ends: Positions
    labels: Positions | None = None
    label_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.offsets) != len(self.lengths) + 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.starts):
            raise ValueError(
                f"{len(self.lengths)} sentences, {len(self.offsets)} offsets and {len(self.starts)} spans do not fit"
            )
        if len(self.ends) != len(self.starts) or (self.labels is not None and len(self.labels) != len(self.starts)):
            raise ValueError("starts, ends and labels must have the same length")

    @staticmethod
    def of(trees: Iterable[Tree]) -> SpanSets:
        """Return the constituents of trees, with their labels, in the trees' order."""
        trees = list(trees)
        spans = list(chain.from_iterable(tree.constituents for tree in trees))
        names: dict[str, int] = {}
        codes = [names.setdefault(span.label, len(names)) for span in spans]
        return SpanSets(
            np.array([len(tree.words) for tree in trees], np.int64),
            offsets_of(np.array([len(tree.constituents) for tree in trees], np.int64)),
            np.array([span.start for span in spans], np.int32),
            np.array([span.end for span in spans], np.int32),
            np.array(codes, np.int32),
            tuple(names),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def sentences(self) -> Integers:
        """(N,) the sentence index of each span."""
        return np.repeat(np.arange(len(self.lengths)), np.diff(self.offsets))

    def sentence(self, index: int) -> set[tuple[int, int]]:
        """Return the spans of one sentence."""
        items = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return set(zip(self.starts[items].tolist(), self.ends[items].tolist(), strict=True))

    def in_preorder(self, smallest: int = 1) -> SpanSets:
        """Return the spans of at least so many words, the outer before the inner; equal spans keep their order."""
        sentences = self.sentences()
        width = int(self.ends.max(initial=0)) + 1
        # Stable; one key is sorted six times as fast as three.
        order = np.argsort((sentences * width + self.starts) * width + width - self.ends, kind="stable")
        order = order[(self.ends - self.starts)[order] >= smallest]
        offsets = offsets_of(np.bincount(sentences[order], minlength=len(self)))
        labels = None if self.labels is None else self.labels[order]
        return SpanSets(self.lengths, offsets, self.starts[order], self.ends[order], labels, self.label_names)

    def select(self, indices: Sequence[int] | Integers | Flags) -> SpanSets:
        """Return the sentences at `indices` (or where a mask is True), in that order."""
        chosen = np.asarray(indices)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        offsets = offsets_of(np.diff(self.offsets)[chosen])
        spans = item_indices(self.offsets, chosen)
        labels = None if self.labels is None else self.labels[spans]
        return SpanSets(self.lengths[chosen], offsets, self.starts[spans], self.ends[spans], labels, self.label_names)


def offsets_of(counts: Integers | Flags) -> Integers:
    """(S,) counts -> (S + 1,) offsets."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def item_indices(offsets: Integers, chosen: Integers) -> Integers:
    """Return the indices, in a flat array, of all items of the chosen sentences, one sentence after the other.

    Args:
        offsets: (S + 1,); the items of sentence i are at offsets[i] to offsets[i + 1].
    """
    starts, ends = offsets[:-1][chosen], offsets[1:][chosen]
    counts = ends - starts
    chosen_offsets = offsets_of(counts)
    shifts = starts - chosen_offsets[:-1]
    indices: Integers = np.repeat(shifts, counts) + np.arange(chosen_offsets[-1])
    return indices


def sorted_by_sentence(lengths: Integers, groups: Sequence[tuple[Integers, AnyIntegers, AnyIntegers]]) -> SpanSets:
    """Sort spans, given as (sentence, start, end) arrays, by sentence."""
    if not groups:
        return SpanSets(lengths, np.zeros(len(lengths) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
    sentences, starts, ends = map(np.concatenate, zip(*groups, strict=True))
    order = np.argsort(sentences, kind="stable")
    offsets = offsets_of(np.bincount(sentences, minlength=len(lengths)))
    return SpanSets(lengths, offsets, starts[order].astype(np.int32), ends[order].astype(np.int32))


def top_down(lengths: Integers, split_of: Callable[[Integers, Integers, Integers], Integers]) -> SpanSets:
    """Return binary trees that are built from the whole sentences down.

    At each level, all spans of all sentences are split at once.

    Args:
        lengths: (S,).
        split_of: maps (sentence, start, end) of spans of two or more words, (k,) each, k > 0, to the start of the right
            part of each.

    Returns:
        All spans of two or more words.
    """
    sentence = np.arange(len(lengths))
    start = np.zeros_like(lengths)
    end = lengths
    levels: list[tuple[Integers, Integers, Integers]] = []
    while True:
        # Spans of one word are leaves, which are neither returned nor split.
        splittable = end - start > 1
        sentence = sentence[splittable]
        start = start[splittable]
        end = end[splittable]
        if not len(sentence):
            return sorted_by_sentence(lengths, levels)
        levels.append((sentence, start, end))

        # The next level: the left parts of all spans, then the right parts.
        split = split_of(sentence, start, end)
        sentence = np.concatenate([sentence, sentence])
        start = np.concatenate([start, split])
        end = np.concatenate([split, end])


def trees_of(
    spans: SpanSets, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]] | None = None
) -> list[Tree]:
    """Return trees over the words of each sentence, labelled X if the spans have no labels.

    Args:
        tags: the tags of the words; None: words have no tags.

    Raises:
        InputError: the message names the sentence (from 1) whose number of words differs or whose spans cross.
    """
    if len(words) != len(spans):
        raise InputError(f"found the words of {len(words)} sentences; expected the words of {len(spans)} sentences")
    spans = spans.in_preorder()
    starts = spans.starts.tolist()
    ends = spans.ends.tolist()
    labels = [INDUCED_LABEL] * len(starts)
    if spans.labels is not None:
        labels = [spans.label_names[code] for code in spans.labels]
    trees: list[Tree] = []
    for sentence, (first, last) in enumerate(pairwise(spans.offsets.tolist())):
        if len(words[sentence]) != spans.lengths[sentence]:
            sizes = f"found {len(words[sentence])} words; expected {spans.lengths[sentence]}"
            raise InputError(f"sentence {sentence + 1}: {sizes}: {' '.join(words[sentence][:12])}")
        constituents = tuple(map(Constituent, labels[first:last], starts[first:last], ends[first:last]))
        _check_nested(constituents, sentence + 1)
        sentence_tags = ("",) * len(words[sentence]) if tags is None else tuple(tags[sentence])
        trees.append(Tree(tuple(words[sentence]), sentence_tags, constituents))
    return trees


def _check_nested(constituents: Sequence[Constituent], number: int) -> None:
    """Raise InputError if two constituents of a sentence cross.

    Args:
        constituents: in pre-order.
        number: the number of the sentence, for the message.
    """
    open_spans: list[Constituent] = []  # those around the current one, the innermost last
    for span in constituents:
        while open_spans and open_spans[-1].end <= span.start:
            open_spans.pop()
        if open_spans and open_spans[-1].end < span.end:
            outer = open_spans[-1]
            raise InputError(
                f"sentence {number}: found spans ({outer.start}, {outer.end}) and ({span.start}, {span.end}), which"
                " cross; expected a tree"
            )
        open_spans.append(span)


def format_spans(
    spans: SpanSets, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]] | None = None
) -> list[str]:
    """Return induced trees as lines of bracketed text, `(X the (X old cat))`: `format_brackets` for many trees at once.

    Args:
        words: the words of all sentences in order, in lists of any length.
        tags: the tags of the words; None: words are bare leaves.
        spans: nested, including the whole sentence if it has more than one word; labels are not written.

    Raises:
        InputError: for words that contain white space.
    """
    # The text is leaves and what stands between two leaves. Each word is escaped once.
    flat = list(chain.from_iterable(words))
    written = {word: word if word.isalnum() else escaped(word, "word") for word in dict.fromkeys(flat)}
    leaves = list(map(written.__getitem__, flat))
    if tags is not None:
        leaves = [
            f"({escaped(tag, 'tag')} {leaf})" for leaf, tag in zip(leaves, chain.from_iterable(tags), strict=True)
        ]

    # The brackets that open before each leaf and close after it. A single bare leaf has a bracket of its own.
    offsets = offsets_of(spans.lengths)
    first_words = offsets[:-1][spans.sentences()]
    opened = np.bincount(first_words + spans.starts, minlength=len(flat))
    closed = np.bincount(first_words + spans.ends - 1, minlength=len(flat))
    single = offsets[:-1][spans.lengths == 1]
    opened[single] = closed[single] = tags is None
    opened = np.append(opened, 0)  # after the last leaf
    is_last = np.zeros(len(flat), np.int64)
    is_last[offsets[1:] - 1] = 1

    # What stands between leaves (closing brackets, a space or a line end, opening brackets) has few different forms.
    shape = int(opened.max()) + 1, int(closed.max(initial=0)) + 1, 2
    codes = np.ravel_multi_index((opened[1:], closed, is_last), shape).tolist()
    between = {}
    for code in set(codes):
        opening, closing, is_end = map(int, np.unravel_index(code, shape))
        between[code] = ")" * closing + (" \n"[is_end]) + f"({INDUCED_LABEL} " * opening

    pieces = [f"({INDUCED_LABEL} " * int(opened[0])] * (2 * len(flat) + 1)
    pieces[1::2] = leaves
    pieces[2::2] = map(between.__getitem__, codes)
    return "".join(pieces).split("\n")[:-1]  # no leaf contains a line end


def union(sets: Sequence[SpanSets]) -> SpanSets:
    """Combine several sets of spans of the same sentences, with repetitions and without labels."""
    return sorted_by_sentence(sets[0].lengths, [(spans.sentences(), spans.starts, spans.ends) for spans in sets])


def concatenate(sets: Sequence[SpanSets]) -> SpanSets:
    """Combine the spans of several groups of sentences, one group after the other, without labels."""
    return SpanSets(
        np.concatenate([spans.lengths for spans in sets]),
        offsets_of(np.concatenate([np.diff(spans.offsets) for spans in sets])),
        np.concatenate([spans.starts for spans in sets]),
        np.concatenate([spans.ends for spans in sets]),
    )


# Spans of many sentences as sorted integer keys, which makes sets of spans fast to count and compare.


def key_bases(lengths: Integers) -> Integers:
    """(S + 1,) the first key of each sentence, which has (n + 1)^2 keys, one per start and end."""
    return offsets_of((lengths + 1) ** 2)


def keys_of(spans: SpanSets) -> Integers:
    """(N,) the key of each span."""
    sentences = spans.sentences()
    starts = spans.starts.astype(np.int64)
    ends = spans.ends.astype(np.int64)
    keys: Integers = key_bases(spans.lengths)[:-1][sentences] + starts * (spans.lengths[sentences] + 1) + ends
    return keys


def counted(spans: SpanSets, keep_whole: bool) -> Flags:
    """(N,) whether each span has two or more words and, unless `keep_whole`, is not its whole sentence."""
    widths = spans.ends - spans.starts
    is_counted: Flags = widths > 1
    return is_counted if keep_whole else is_counted & (widths < spans.lengths[spans.sentences()])


def span_keys(spans: SpanSets, keep_whole: bool) -> tuple[Integers, Integers]:
    """Return sorted keys of the distinct spans that are `counted`, and their number in each sentence, (S,)."""
    keys = keys_of(spans)[counted(spans, keep_whole)]
    keys.sort()  # three times as fast as np.unique, which hashes
    if len(keys):
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return keys, counts_of(keys, spans.lengths)


def spans_of_keys(keys: Integers, lengths: Integers) -> SpanSets:
    """Return the spans of sorted keys."""
    bases = key_bases(lengths)
    sentences = np.searchsorted(bases, keys, side="right") - 1
    starts, ends = np.divmod(keys - bases[sentences], lengths[sentences] + 1)
    return SpanSets(lengths, offsets_of(counts_of(keys, lengths)), starts.astype(np.int32), ends.astype(np.int32))


def counts_of(keys: Integers, lengths: Integers) -> Integers:
    """(S,) the number of sorted keys in each sentence."""
    return np.diff(np.searchsorted(keys, key_bases(lengths)))


def common(first: Integers, second: Integers, lengths: Integers) -> Integers:
    """(S,) the number of keys that two sorted arrays of distinct keys share in each sentence."""
    merged = np.concatenate([first, second])
    merged.sort(kind="stable")  # merges two sorted runs
    return counts_of(merged[1:][merged[1:] == merged[:-1]], lengths)


def contained(keys: Integers, among: Integers) -> Flags:
    """Return which keys are in `among`, which is sorted."""
    if not len(among):
        return np.zeros(len(keys), np.bool_)
    candidates = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return among[candidates] == keys
