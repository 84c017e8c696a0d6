"""Checks that two sources have trees of the same sentences: the same number of trees, with equal numbers of words."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError
from syntaxlm.trees.preprocessing import PREPROCESSINGS
from syntaxlm.trees.significance import BootstrapResult, RunScores, compare_runs
from syntaxlm.trees.tree import DependencyTree, Tree, read_brackets

_SHOWN = 12  # number of words of a sentence in a message
GOLD_ADVICE = (
    "Expected one predicted tree for each gold tree, with the same number of words as after gold-tree preprocessing."
)


@dataclass(frozen=True)
class Side:
    """One of the two sources, for messages.

    source: the file.  name: label of its words.  subject: description of its tree, such as "the prediction".
    """

    source: str
    name: str
    subject: str


def gold_sides(predicted_source: str, gold_source: str) -> tuple[Side, Side]:
    """Return the sources of predictions and gold trees, for messages."""
    return Side(predicted_source, "predicted", "the prediction"), Side(gold_source, "gold", "the tree")


def read_matching(
    trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str
) -> Sequence[Tree]:
    """Return `trees` if they match the others; otherwise read the file again without labels.

    Some files can be read with and without labels.
    side, other_side: the sources, for messages; side.source is the file of `trees`.  advice: the end of messages.
    Raises InputError like `check_matching` if neither reading matches.
    """
    try:
        check_matching(trees, others, side, other_side, advice)
    except InputError:
        trees = read_brackets(side.source, labelled=False)
        if [len(tree) for tree in trees] != [len(tree) for tree in others]:
            raise
    return trees


def check_matching(trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str) -> None:
    """Check that two sources have equally many trees, with the same numbers of words; the words may differ.

    Raises InputError with the sources, the number of the first sentence that differs, and both sentences.
    """
    if len(trees) != len(others):
        raise wrong_number(trees, others, side, other_side, advice)
    place = _first_difference(trees, others)
    if place < len(trees):
        tree, other = trees[place], others[place]
        raise InputError(
            f"{other_side.source}, sentence {place + 1}: the tree has {len(other)} words, but {side.subject} has"
            f" {len(tree)}.\n{_both(tree, other, side, other_side)}   ({side.source}, tree {place + 1})\n{advice}"
        )


def wrong_number(
    trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str
) -> InputError:
    """Return the error for two files with different numbers of trees."""
    place = _first_difference(trees, others)
    tree, other = (source[place] if place < len(source) else None for source in (trees, others))
    return InputError(
        f"{side.source}: found {len(trees):,} trees, expected {len(others):,} as in {other_side.source}.\n"
        f"First difference: sentence {place + 1}\n{_both(tree, other, side, other_side)}\n{advice}"
    )


def _first_difference(trees: Sequence[Tree], others: Sequence[Tree]) -> int:
    """Return the index of the first sentence that differs in length or has no partner."""
    pairs = enumerate(zip(trees, others, strict=False))
    return next((place for place, (tree, other) in pairs if len(tree) != len(other)), min(len(trees), len(others)))


def _both(tree: Tree | None, other: Tree | None, side: Side, other_side: Side) -> str:
    width = max(len(side.name), len(other_side.name)) + 1
    lines = []
    for name, shown in ((other_side.name, other), (side.name, tree)):
        lines.append(f"  {name + ':':{width}} {'(no tree)' if shown is None else beginning(shown.words)}")
    return "\n".join(lines)


def check_same_words(words: Sequence[str], expected: Sequence[str], place: str, expected_place: str) -> None:
    """Raise InputError with the position of the first word that differs.

    place, expected_place: files and lines of the two sentences, for messages.
    """
    for position, (word, other) in enumerate(zip(words, expected, strict=False), 1):
        if word != other:
            raise InputError(f"{place}: found {word!r} as word {position}, expected {other!r} as in {expected_place}")
    if len(words) != len(expected):
        raise InputError(f"{place}: found {len(words)} words, expected {len(expected)} as in {expected_place}")


def beginning(words: Sequence[str]) -> str:
    """Return the first words of a sentence, for a message."""
    return " ".join(words[:_SHOWN]) + (" ..." if len(words) > _SHOWN else "")


# Attachment scores of dependency trees: percentage of words with the correct head (UAS), or head and label (LAS).
#
# Both are computed over all words and over words that are not punctuation. A word is punctuation if its gold tag is
# PUNCT or, if its tag is not from Universal Dependencies, if all its characters have a Unicode category of punctuation.
# Labels are compared in full, including subtypes (nsubj:pass).


Counts = npt.NDArray[np.float64]

NO_PUNCTUATION, ALL_WORDS = range(2)  # rows of `Counts`: which words are counted
WORDS, HEADS, LABELLED = range(3)  # columns: all words, those with the correct head, with the correct head and label

_PUNCTUATION = "PUNCT"
_UNIVERSAL_TAGS = PREPROCESSINGS["ud"].known_tags


def is_punctuation(word: str, tag: str) -> bool:
    """Return whether a word is punctuation: by its Universal Dependencies tag, or else by its characters."""
    if tag in _UNIVERSAL_TAGS:
        return tag == _PUNCTUATION
    return all(unicodedata.category(character)[0] == "P" for character in word)


def attachment(predicted: DependencyTree, gold: DependencyTree, place: str = "", gold_place: str = "") -> Counts:
    """Count correct attachments: (2, 3), rows NO_PUNCTUATION, ALL_WORDS, columns WORDS, HEADS, LABELLED.

    place, gold_place: location of the two trees, for messages; by default their names.
    Raises InputError naming the position of the first word that differs.
    """
    if predicted.words != gold.words:
        places = place or f"sentence {predicted.name}", gold_place or f"the gold sentence {gold.name}"
        check_same_words(predicted.words, gold.words, *places)
    heads = np.array(predicted.heads) == np.array(gold.heads)
    labels = np.fromiter(map(str.__eq__, predicted.labels, gold.labels), bool, len(gold))
    marks = np.fromiter(map(is_punctuation, gold.words, gold.tags), bool, len(gold))
    everywhere = np.ones(len(gold))
    return np.stack([~marks, everywhere]) @ np.stack([everywhere, heads, heads & labels], axis=1)


@dataclass(frozen=True, eq=False)
class AttachmentScores:
    """The attachment scores of a set of trees.  counts: (S, 2, 3), for each sentence, as returned by `attachment`.

    labelled: whether the gold trees have labels; without labels there is no LAS.
    """

    counts: Counts
    labelled: bool = True

    def uas(self, words: int = NO_PUNCTUATION) -> float | None:
        """Return UAS as a fraction, over the words of all sentences; None if there are no words."""
        return self._share(HEADS, words)

    def las(self, words: int = NO_PUNCTUATION) -> float | None:
        """Return LAS, like `uas`; also None if the gold trees have no labels."""
        return self._share(LABELLED, words) if self.labelled else None

    def words(self, words: int = NO_PUNCTUATION) -> int:
        """Return the number of words."""
        return int(self.counts[:, words, WORDS].sum())

    def to_dict(self) -> dict[str, float | None]:
        """Return the scores as fractions from 0 to 1."""
        return {
            "uas": self.uas(),
            "las": self.las(),
            "uas_all_words": self.uas(ALL_WORDS),
            "las_all_words": self.las(ALL_WORDS),
        }

    def _share(self, column: int, words: int) -> float | None:
        total = self.counts[:, words, WORDS].sum()
        return float(self.counts[:, words, column].sum() / total) if total else None


def compare_attachment(
    first: AttachmentScores, second: AttachmentScores, samples: int = 10_000, seed: int = 0
) -> BootstrapResult:
    """Compare two sets of trees by a paired bootstrap over sentences, for UAS without punctuation.

    Raises InputError if sentences differ in number or size, or all words are punctuation.
    """
    words, others = (scores.counts[:, NO_PUNCTUATION, WORDS] for scores in (first, second))
    if not np.array_equal(words, others):
        raise InputError(f"found scores of {len(words)} and {len(others)} sentences, expected the same sentences")
    if not words.any():
        raise InputError("found only punctuation, expected other words to compare")
    run, other = (RunScores(scores.counts[None, :, NO_PUNCTUATION, HEADS], words[None]) for scores in (first, second))
    return compare_runs(run, other, "UAS", samples, seed)
