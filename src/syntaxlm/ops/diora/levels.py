"""Which spans are combined, for each width: the pairs of vectors that the inside and the outside pass compose.

The spans of a sentence of n words are numbered by width, then by start, as in `trees.charts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class Level:
    """The spans of one width, and the pairs that each is composed from.

    begin, end: the spans are begin .. end - 1.  ways: K, number of pairs of each span.
    firsts, seconds: (K * m,) int64, the spans of the first and the second vector of each pair, by way, then by span.
    """

    begin: int
    end: int
    ways: int
    firsts: Tensor
    seconds: Tensor

    @property
    def own(self) -> slice:
        """The spans, as a slice of a chart."""
        return slice(self.begin, self.end)

    @property
    def cells(self) -> int:
        """m, number of spans."""
        return self.end - self.begin

    @property
    def pairs(self) -> int:
        """Number of pairs of all spans."""
        return self.ways * self.cells


def span_count(length: int) -> int:
    """Return s, the number of spans of a sentence."""
    return length * (length + 1) // 2


def _numbers(start: Tensor, end: Tensor, length: int) -> Tensor:
    """Return the numbers of the spans [start, end)."""
    narrower = end - start - 1
    return narrower * length - narrower * (narrower - 1) // 2 + start


def _level(width: int, length: int, ways: int, firsts: Tensor, seconds: Tensor, device: torch.device) -> Level:
    begin = int(_numbers(torch.tensor(0), torch.tensor(width), length))
    return Level(begin, begin + length - width + 1, ways, firsts.flatten().to(device), seconds.flatten().to(device))


@lru_cache(maxsize=128)
def inside_levels(length: int, device: torch.device) -> tuple[Level, ...]:
    """Return widths 2 to n: pairs of left and right part, shortest left part first."""
    levels = []
    for width in range(2, length + 1):
        start, split = torch.arange(length - width + 1), torch.arange(1, width)[:, None]
        middle = start + split
        pairs = _numbers(start.expand_as(middle), middle, length), _numbers(middle, start + width, length)
        levels.append(_level(width, length, width - 1, *pairs, device))
    return tuple(levels)


@lru_cache(maxsize=128)
def outside_levels(length: int, device: torch.device) -> tuple[Level, ...]:
    """Return widths n - 1 to 1: pairs of sibling and parent.

    Each span [s, e) has n - width pairs. Pair r has the left sibling [r, s) if r < s, otherwise the right sibling that
    starts at e and ends at r + width + 1.
    """
    levels = []
    for width in range(length - 1, 0, -1):
        start, way = torch.arange(length - width + 1), torch.arange(length - width)[:, None]
        end, of_left = start + width, way < start
        far = torch.where(of_left, way, way + width + 1)
        siblings = torch.where(of_left, _numbers(way, start, length), _numbers(end, far, length))
        parents = torch.where(of_left, _numbers(far, end, length), _numbers(start, far, length))
        levels.append(_level(width, length, length - width, siblings, parents, device))
    return tuple(levels)
