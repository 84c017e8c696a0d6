"""The inside algorithm of one long sentence in float64, by matrix products over blocks of spans.

Boundaries between words are numbered from 0 to n; a span (s, e) has the words between s and e. For each factor, the sum
over splits is a product of two triangular matrices, beta = a b, whose entries are needed in the order of their width:

    beta(s, e) = sum_{s < m < e} a(s, m) * b(m, e),  a = left beta,  b = right beta

Matrices are cut into blocks of boundaries, which are filled by block diagonals. In the block (I, J), splits in the
blocks between I and J are matrix products; splits in I and in J itself are added diagonal by diagonal, for all blocks
of the block diagonal at once. A value is read from memory `BLOCK` times less often than by a sum for each span.

Values have no scale of their own: the probability of each word is divided by one that is expected of it, so that those
of spans stay within the range of float64 as long as what is expected is about right, see `LARGEST`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 24  # boundaries
LARGEST = 1e100  # value of a chart that is in no danger of leaving the range of float64


class LongChart(NamedTuple):
    """The spans of one sentence of n words.

    Attributes:
        lefts: a, of each block of first boundaries: (R, `BLOCK`, boundaries from the block's first on); 0 where there
            is no span.
        wholes: (n + 1,), the probability of the first words as a whole sentence; 0 for those of no or one word.
    """

    lefts: list[Tensor]
    wholes: Tensor

    def reach(self, root: Tensor, closure: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Return C and H of every boundary, see `prefix`: (n + 1, R) each.

        Args:
            root: (R,).
            closure: Q, (R, R).
            right: rules of right children that are nonterminals, (R, R).
        """
        count = len(self.wholes)
        size = len(self.lefts) * BLOCK
        opened, reached = root.new_zeros(2, len(root), size)
        onwards = right @ closure
        for number, diagonal in enumerate(self.lefts):
            start = number * BLOCK
            block = slice(start, start + BLOCK)
            # C(e) = sum over s < e of H(s) * a(s, e);  H(e) = C(e) right Q
            for earlier, lefts in enumerate(self.lefts[:number]):
                first = earlier * BLOCK
                before = reached[:, None, first : first + BLOCK]
                opened[:, block] += (before @ lefts[:, :, start - first : start - first + BLOCK])[:, 0]
            for end in range(start, min(start + BLOCK, count)):
                inner = diagonal[:, : end - start, end - start]
                opened[:, end] += (reached[:, start:end] * inner).sum(1)
                reached[:, end] = opened[:, end] @ onwards if end else root @ closure
        return opened.T[:count], reached.T[:count]


def long_chart(root: Tensor, left: Tensor, right: Tensor, words: Tensor) -> LongChart | None:
    """Return the chart of one sentence; None if a value exceeds `LARGEST`.

    Args:
        root: (R,).
        left: rules of left children, (R, R + t).
        right: rules of right children, (R, R + t).
        words: (n, t), the probability of each word given each preterminal, divided by an expected one.
    """
    count, length = len(root), len(words)
    blocks = length // BLOCK + 1
    sides = torch.cat([left[:, :count], right[:, :count]]).T.contiguous()
    single = words.new_zeros(blocks * BLOCK, 2 * count)
    single[:length] = words @ torch.cat([left[:, count:], right[:, count:]]).T
    single = single.view(blocks, BLOCK, 2 * count)
    lefts = [words.new_empty(count, BLOCK, (blocks - number) * BLOCK) for number in range(blocks)]
    rights = [words.new_empty(count, (number + 1) * BLOCK, BLOCK) for number in range(blocks)]
    wholes = words.new_zeros(blocks * BLOCK)
    inner: tuple[_Diagonals, _Diagonals] | None = None  # a and b of the blocks (I, I)
    for distance in range(blocks):
        number = blocks - distance
        between = None
        if distance > 1:
            between = words.new_empty(number, count, BLOCK, BLOCK)
            for first in range(number):
                last = first + distance
                torch.bmm(
                    lefts[first][:, :, BLOCK : distance * BLOCK],
                    rights[last][:, (first + 1) * BLOCK : last * BLOCK],
                    out=between[first],
                )
            between = between.permute(2, 3, 0, 1)
        edge = single[:, :-1].transpose(0, 1) if distance == 0 else single[:-1, -1:].transpose(0, 1)
        children = _filled(distance, number, between, inner, edge, sides, root, wholes)
        inner = inner or children
        for side, values in enumerate(children):
            square = values.square(number)
            if not float(square.max()) < LARGEST:
                return None
            for first in range(number):
                block = square[:, :, first].permute(2, 0, 1)
                if side == 0:
                    lefts[first][:, :, distance * BLOCK : (distance + 1) * BLOCK] = block
                else:
                    rights[first + distance][:, first * BLOCK : (first + 1) * BLOCK] = block
    return LongChart(lefts, wholes[: length + 1])


class _Diagonals:
    """Values of the spans of the blocks of one block diagonal, by the diagonals of a block, from its lower left corner.

    A diagonal q has the entries (i, i + q) of the block, from i = `_first(q)` on.
    """

    def __init__(self) -> None:
        self.values: dict[int, Tensor] = {}  # (entries, blocks, R)

    def rows(self, diagonal: int, start: int, end: int) -> Tensor:
        """Return the values of the entries of a diagonal in the rows [start, end) of the block."""
        first = _first(diagonal)
        return self.values[diagonal][start - first : end - first]

    def square(self, number: int) -> Tensor:
        """Return all values: (`BLOCK`, `BLOCK`, blocks, R)."""
        values = next(iter(self.values.values()))
        result = values.new_zeros(BLOCK, BLOCK, number, values.shape[2])
        for diagonal, entries in self.values.items():
            result.diagonal(diagonal).permute(2, 0, 1).copy_(entries)
        return result


def _first(diagonal: int) -> int:
    return max(0, -diagonal)


def _filled(
    distance: int,
    number: int,
    between: Tensor | None,
    inner: tuple[_Diagonals, _Diagonals] | None,
    edge: Tensor,
    sides: Tensor,
    root: Tensor,
    wholes: Tensor,
) -> tuple[_Diagonals, _Diagonals]:
    """Return a and b of the blocks (I, I + distance).

    Args:
        number: of these blocks.
        between: sums over splits in the blocks between, (`BLOCK`, `BLOCK`, blocks, R); None if there are none.
        inner: a and b of the blocks (I, I); None for distance 0, where they are computed.
        edge: a and b of the single words in these blocks, (entries, blocks, 2R).
        sides: rules of both children, (R, 2R).
        wholes: is filled.
    """
    count = len(root)
    lefts, rights = _Diagonals(), _Diagonals()
    inner_lefts, inner_rights = inner or (lefts, rights)
    words = 1 if distance == 0 else 1 - BLOCK  # the diagonal of single words
    for diagonal in range(words if distance < 2 else 1 - BLOCK, BLOCK):
        start, end = _first(diagonal), min(BLOCK, BLOCK - diagonal)
        if distance < 2 and diagonal == words:
            children = edge
        else:
            if between is None:
                sums = sides.new_zeros(end - start, number, count)
            else:
                sums = between.diagonal(diagonal).permute(2, 0, 1).contiguous()
            for width in range(1, BLOCK if distance else diagonal):
                # Splits in the first block: (i, i + width) and what follows it.
                last = min(end, BLOCK - width)
                if distance and start < last:
                    sums[: last - start].addcmul_(
                        inner_lefts.rows(width, start, last)[:, :number],
                        rights.rows(diagonal - width, start + width, last + width),
                    )
                # Splits in the last block: what precedes (j - width, j), and that.
                first = max(start, width - diagonal)
                if first < end:
                    second = first + diagonal - width, end + diagonal - width
                    sums[first - start :].addcmul_(
                        lefts.rows(diagonal - width, first, end), inner_rights.rows(width, *second)[:, distance:]
                    )
            if diagonal >= 0:
                wholes[distance * BLOCK + diagonal] = sums[0, 0] @ root
            children = sums @ sides
        lefts.values[diagonal], rights.values[diagonal] = children[..., :count], children[..., count:]
    return lefts, rights
