"""Attachment scores of dependency trees: percentage of words with the correct head (UAS), or head and label (LAS).

Both are computed over all words and over words that are not punctuation. A word is punctuation if its gold tag is PUNCT
or, if its tag is not from Universal Dependencies, if all its characters have a Unicode category of punctuation.
Labels are compared in full, including subtypes (nsubj:pass).
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

NO_PUNCTUATION, ALL_WORDS = range(2)  # rows of `Counts`: which words are counted
WORDS, HEADS, LABELLED = range(3)  # columns: all words, those with the correct head, with the correct head and label

_PUNCTUATION = "PUNCT"
_UNIVERSAL_TAGS = PREPROCESSINGS["ud"].known_tags
_DRAWN = 2_000_000  # sampled sentences in memory at a time, in the bootstrap


def is_punctuation(word: str, tag: str) -> bool:
    """Whether a word is punctuation: by its tag if that is from Universal Dependencies, else by its characters."""
    if tag in _UNIVERSAL_TAGS:
        return tag == _PUNCTUATION
    return all(unicodedata.category(character)[0] == "P" for character in word)


def attachment(predicted: DependencyTree, gold: DependencyTree, place: str = "", gold_place: str = "") -> Counts:
    """Counts of correct attachments: (2, 3), rows NO_PUNCTUATION, ALL_WORDS, columns WORDS, HEADS, LABELLED.

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
        """UAS as a fraction, over the words of all sentences; None if there are no words."""
        return self._share(HEADS, words)

    def las(self, words: int = NO_PUNCTUATION) -> float | None:
        """LAS, like `uas`; also None if the gold trees have no labels."""
        return self._share(LABELLED, words) if self.labelled else None

    def words(self, words: int = NO_PUNCTUATION) -> int:
        """Number of words."""
        return int(self.counts[:, words, WORDS].sum())

    def to_dict(self) -> dict[str, float | None]:
        """The scores as fractions from 0 to 1."""
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
    """Paired bootstrap over the sentences of two sets of trees, for UAS without punctuation.

    Raises InputError if sentences differ in number or size, or all words are punctuation.
    """
    words, others = (one.counts[:, NO_PUNCTUATION, WORDS] for one in (first, second))
    if not np.array_equal(words, others):
        raise InputError(f"found scores of {len(words)} and {len(others)} sentences, expected the same sentences")
    if not words.any():
        raise InputError("found only punctuation, expected other words to compare")
    gains = first.counts[:, NO_PUNCTUATION, HEADS] - second.counts[:, NO_PUNCTUATION, HEADS]
    generator = np.random.default_rng(seed)
    step = max(1, _DRAWN // len(words))
    drawn: list[Counts] = []
    for low in range(0, samples, step):
        places = generator.integers(len(words), size=(min(step, samples - low), len(words)), dtype=np.int32)
        drawn.append(gains[places].sum(1) / np.maximum(words[places].sum(1), 1))
    return BootstrapResult.of(float(gains.sum() / words.sum()), np.concatenate(drawn), len(words), "UAS")
