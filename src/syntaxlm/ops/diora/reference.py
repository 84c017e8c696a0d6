"""DIORA's inside and outside recursions as in the paper, one split at a time, differentiated by autograd."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, normalize

from syntaxlm.ops.diora.types import Composition

Span = tuple[int, int]
TINY = 1e-8  # smallest norm by which a vector is divided


class Cell(NamedTuple):
    """A span's entry in a chart. vector: (D,), of norm 1.  score: scalar."""

    vector: Tensor
    score: Tensor


class Charts(NamedTuple):
    """Charts of one sentence. Spans are [start, end).

    inside, outside: the cells of all spans.
    splits: the scores of the splits of each span of two or more words, (width - 1,), shortest left part first.
    """

    inside: dict[Span, Cell]
    splits: dict[Span, Tensor]
    outside: dict[Span, Cell]


def inside_outside(
    leaves: Tensor, root: Tensor, composition: Composition, outside: Composition | None = None
) -> Charts:
    """Return charts of one sentence.

    leaves: (n, D), the inside vectors of the words, of norm 1.  root: (D,), the outside vector of the sentence, of norm
    1.  composition: of the inside pass.  outside: of the outside pass; None: the same one.
    Drozdov et al. 2019, section 2.
    """
    length, outside = len(leaves), outside or composition
    zero = leaves.new_zeros(())
    inner = {(word, word + 1): Cell(leaves[word], zero) for word in range(length)}
    splits: dict[Span, Tensor] = {}
    for width in range(2, length + 1):
        for start in range(length - width + 1):
            end = start + width
            parts = [(inner[start, split], inner[split, end]) for split in range(start + 1, end)]
            inner[start, end], splits[start, end] = _combined(parts, composition)
    outer = {(0, length): Cell(root, zero)}
    for width in range(length - 1, 0, -1):
        for start in range(length - width + 1):
            end = start + width
            of_left_siblings = [(inner[other, start], outer[other, end]) for other in range(start)]
            of_right_siblings = [(inner[end, other], outer[start, other]) for other in range(end + 1, length + 1)]
            outer[start, end], _ = _combined(of_left_siblings + of_right_siblings, outside)
    return Charts(inner, splits, outer)


def _combined(parts: list[tuple[Cell, Cell]], composition: Composition) -> tuple[Cell, Tensor]:
    """Return the mean of the compositions of pairs of cells, weighted by the softmax of their scores, and the
    scores.
    """
    scores = torch.stack(
        [one.vector @ composition.score @ other.vector + one.score + other.score for one, other in parts]
    )
    vectors = torch.stack([_composed(one.vector, other.vector, composition) for one, other in parts])
    weights = scores.softmax(0)
    return Cell(normalize(weights @ vectors, dim=0, eps=TINY), weights @ scores), scores


def _composed(one: Tensor, other: Tensor, composition: Composition) -> Tensor:
    hidden = linear(torch.cat([one, other]), composition.first, composition.first_bias).relu()
    return linear(hidden, composition.second, composition.second_bias).relu()
