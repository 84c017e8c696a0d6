"""Attachment scores of dependency trees: words with the correct head (UAS), with the correct head and label (LAS).

Each is given over all words, and over those that are not punctuation. A word is punctuation if its gold tag is PUNCT;
one that has no tag of Universal Dependencies is, if all its characters are of a Unicode category of punctuation.
Labels are compared as they are written, subtypes (nsubj:pass) included.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from syntaxlm.errors import InputError
from syntaxlm.trees.matching import check_same_words
from syntaxlm.trees.preprocessing import PREPROCESSINGS
from syntaxlm.trees.significance import BootstrapResult
from syntaxlm.trees.tree import DependencyTree

Counts = npt.NDArray[np.float64]

NO_PUNCTUATION, ALL_WORDS = range(2)  # which words count
WORDS, HEADS, LABELLED = range(3)  # how many there are, with the right head, with the right head and label

_PUNCTUATION = "PUNCT"
_UNIVERSAL_TAGS = PREPROCESSINGS["ud"].known_tags
_DRAWN = 2_000_000  # sentence draws held at once: bounds the memory of the bootstrap


def is_punctuation(word: str, tag: str) -> bool:
    """By the tag where it is one of Universal Dependencies, else by the characters."""
    if tag in _UNIVERSAL_TAGS:
        return tag == _PUNCTUATION
    return all(unicodedata.category(character)[0] == "P" for character in word)


def attachment(predicted: DependencyTree, gold: DependencyTree, place: str = "", gold_place: str = "") -> Counts:
    """How well a tree is attached: (2, 3), rows NO_PUNCTUATION, ALL_WORDS, columns WORDS, HEADS, LABELLED.

    place, gold_place: of the two trees, for messages; their names when not given.
    Raises InputError naming the first word, by its position, that is not the gold tree's.
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
    """The scores of one set of trees.  counts: (S, 2, 3), of each sentence, as `attachment` has them.

    labelled: whether the gold trees have labels; else there is no LAS.
    """

    counts: Counts
    labelled: bool = True

    def uas(self, words: int = NO_PUNCTUATION) -> float | None:
        """A fraction, over the words of all sentences; None of no words."""
        return self._share(HEADS, words)

    def las(self, words: int = NO_PUNCTUATION) -> float | None:
        """As `uas`; None, too, of gold trees without labels."""
        return self._share(LABELLED, words) if self.labelled else None

    def words(self, words: int = NO_PUNCTUATION) -> int:
        """How many there are."""
        return int(self.counts[:, words, WORDS].sum())

    def to_dict(self) -> dict[str, float | None]:
        """Fractions from 0 to 1."""
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
    """UAS without punctuation of two sets of trees of the same sentences, drawn anew with replacement.

    Raises InputError where sentences differ in number or size, or have no word that counts.
    """
    words, others = (one.counts[:, NO_PUNCTUATION, WORDS] for one in (first, second))
    if not np.array_equal(words, others):
        raise InputError(f"found scores of {len(words)} and {len(others)} sentences, expected the same sentences")
    if not words.any():
        raise InputError("found no word but punctuation, expected some to compare by")
    gains = first.counts[:, NO_PUNCTUATION, HEADS] - second.counts[:, NO_PUNCTUATION, HEADS]
    generator = np.random.default_rng(seed)
    step = max(1, _DRAWN // len(words))
    drawn: list[Counts] = []
    for low in range(0, samples, step):
        places = generator.integers(len(words), size=(min(step, samples - low), len(words)), dtype=np.int32)
        drawn.append(gains[places].sum(1) / np.maximum(words[places].sum(1), 1))
    return BootstrapResult.of(float(gains.sum() / words.sum()), np.concatenate(drawn), "UAS")
