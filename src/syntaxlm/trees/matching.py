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
from syntaxlm.trees.tree import DependencyTree, Tree

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
    """Return `trees` if there are equally many others, with the same numbers of words; the words may differ.

    side, other_side: the sources, for messages; side.source is the file of `trees`.  advice: the end of messages.
    Raises InputError as in `mismatch` otherwise.
    """
    lengths = [len(tree) for tree in others]
    if [len(tree) for tree in trees] == lengths:
        return trees
    raise mismatch(trees, others, side, other_side, advice)


def mismatch(trees: Sequence[Tree], others: Sequence[Tree], side: Side, other_side: Side, advice: str) -> InputError:
    """Return the error for files with trees of different numbers or lengths: the first sentence that differs."""
    pairs = enumerate(zip(trees, others, strict=False))
    place = next((place for place, (tree, other) in pairs if len(tree) != len(other)), min(len(trees), len(others)))
    width = max(len(side.name), len(other_side.name)) + 1
    shown = []
    for name, source in ((other_side.name, others), (side.name, trees)):
        sentence = beginning(source[place].words) if place < len(source) else "(no tree)"
        shown.append(f"  {name + ':':{width}} {sentence}")
    if len(trees) != len(others):
        return InputError(
            f"{side.source}: found {len(trees):,} trees, expected {len(others):,} as in {other_side.source}.\n"
            f"First difference: sentence {place + 1}\n" + "\n".join([*shown, advice])
        )
    return InputError(
        f"{other_side.source}, sentence {place + 1}: the tree has {len(others[place])} words, but {side.subject} has"
        f" {len(trees[place])}.\n" + "\n".join(shown) + f"   ({side.source}, tree {place + 1})\n{advice}"
    )


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
