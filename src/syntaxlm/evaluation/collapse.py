"""Detects a collapsed grammar: all trees branch to the same side, or nearly all spans have the same label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.parsing.structure import structure_of
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.averaging import branching_f1
from syntaxlm.trees.f1 import PROTOCOLS

SENTENCES = 300  # number of sentences that are parsed
ONE_SIDED = 0.90  # trees count as right (left) branching if their F1 with right- (left-)branching trees is this or more
FEWEST_SYMBOLS = 1.5  # effective number of labels; with two labels, 86% of the spans have the same one


@dataclass(frozen=True)
class TreeFigures:
    """Statistics of a model's trees that need no gold trees.

    Attributes:
        right_branching: F1 with right-branching trees, 0 to 1, protocol wsj-test.
        left_branching: F1 with left-branching trees, 0 to 1, protocol wsj-test.
        symbols: effective number of span labels, the exponential of their entropy; None for a model without labels.
        sentences: number of sentences.
    """

    right_branching: float
    left_branching: float
    symbols: float | None
    sentences: int

    @property
    def warning(self) -> str | None:
        """Describes the collapse; None if it has not collapsed."""
        if side := branching_side(self.right_branching, self.left_branching):
            value = max(self.right_branching, self.left_branching)
            return f"the parser has collapsed: nearly all trees are {side} branching (F1 {100 * value:.0f})"
        if self.symbols is not None and self.symbols < FEWEST_SYMBOLS:
            return (
                "the grammar has collapsed: most spans have the same label"
                f" (effective number of labels {self.symbols:.1f})"
            )
        return None

    def __str__(self) -> str:
        symbols = "" if self.symbols is None else f"   effective number of labels {self.symbols:.1f}"
        figures = (
            f"trees of {self.sentences} validation sentences: F1 with right branching"
            f" {100 * self.right_branching:.1f}, with left branching {100 * self.left_branching:.1f}{symbols}"
        )
        return figures if self.warning is None else f"{figures}\nwarning: {self.warning}"


def tree_figures(bundle: ModelBundle, corpus: EncodedCorpus, sentences: int = SENTENCES) -> TreeFigures | None:
    """Return statistics of the trees of a corpus's first sentences with three words or more; None if it has none.

    Args:
        sentences: maximum number of sentences.

    Raises:
        InputError: for a model that does not parse.
    """
    chosen = np.flatnonzero(corpus.lengths > 2)[:sentences]
    if not len(chosen):
        return None
    structure = structure_of(bundle, corpus.select(chosen))
    branching = branching_f1(structure.decode(structure.decoders[0]), PROTOCOLS["wsj-test"])
    symbols = None
    if structure.labels:
        labelled = structure.labelled(structure.decoders[0])
        assert labelled.labels is not None
        symbols = effective_number(np.bincount(labelled.labels[labelled.ends - labelled.starts > 1]))
    return TreeFigures(branching.right, branching.left, symbols, branching.sentences)


def effective_number(counts: npt.NDArray[Any]) -> float:
    """Return the exponential of the entropy of the shares of counts: k if k counts are equal and the others are 0.

    Args:
        counts: at least 0, not all 0.
    """
    shares = counts[counts > 0] / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def branching_side(right: float, left: float) -> Literal["right", "left"] | None:
    """Return the side to which nearly all trees branch, or None.

    Args:
        right: F1 of the trees with right-branching trees, 0 to 1.
        left: F1 of the trees with left-branching trees, 0 to 1.
    """
    if max(right, left) < ONE_SIDED:
        return None
    return "right" if right >= left else "left"
