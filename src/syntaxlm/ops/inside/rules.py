"""The rules of a probabilistic context-free grammar, and the layout of the charts of a batch of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class FactoredRules:
    """Binary rules whose children are independent given a factor: p(A -> B C) = sum_l parent_Al left_lB right_lC.

    m nonterminals, t preterminals, R factors. Symbols are ordered nonterminals first.

    SN-PCFG (Liu et al. 2023): parent None.  TN-PCFG (Yang et al. 2021, equation 4): parent U, left V, right W.

    Attributes:
        root: (m,) p(S -> A).
        left: (R, m + t), probabilities of the left child; rows sum to 1.
        right: (R, m + t), probabilities of the right child; rows sum to 1.
        parent: (m, R), rows sum to 1; None if each nonterminal is its own factor (R = m): p(A -> B C) = left_AB
            right_AC.
    """

    root: Tensor
    left: Tensor
    right: Tensor
    parent: Tensor | None = None

    def __post_init__(self) -> None:
        count, factors = len(self.root), len(self.left)
        parent = (count, factors) if self.parent is None else tuple(self.parent.shape)
        expected = (count, count if self.parent is None else factors)
        if parent != expected or self.left.shape != self.right.shape or self.left.shape[1] <= count:
            raise ValueError(
                f"found rules of shapes: root {tuple(self.root.shape)}, left {tuple(self.left.shape)}, right"
                f" {tuple(self.right.shape)}, parent {parent}; expected (m,), (R, m + t), (R, m + t), {expected}"
            )

    @property
    def nonterminals(self) -> int:
        return len(self.root)

    @property
    def preterminals(self) -> int:
        return self.left.shape[1] - len(self.root)

    def over_factors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the root and the rules of both children over factors instead of nonterminals: (R,), (R, R + t) twice.

        A chart over factors never reads the m^2 rules of two nonterminal children.
        """
        if self.parent is None:
            return self.root, self.left, self.right
        count = len(self.root)
        left, right = (
            torch.cat([side[:, :count] @ self.parent, side[:, count:]], 1) for side in (self.left, self.right)
        )
        return self.root @ self.parent, left, right

    def double(self) -> FactoredRules:
        parent = None if self.parent is None else self.parent.double()
        return FactoredRules(self.root.double(), self.left.double(), self.right.double(), parent)

    def table(self) -> Tensor:
        """(m, m + t, m + t) p(A -> B C), for small grammars."""
        if self.parent is None:
            return self.left[:, :, None] * self.right[:, None, :]
        return torch.einsum("al,lb,lc->abc", self.parent, self.left, self.right)


@dataclass(frozen=True)
class TableRules:
    """Binary rules as a full table, either of one grammar or one for each sentence of a batch.

    N-PCFG and, with one grammar per sentence, C-PCFG (Kim et al. 2019).

    Attributes:
        root: (m,) or (B, m).
        binary: (m, m + t, m + t) or (B, m, m + t, m + t), p(A -> B C).
    """

    root: Tensor
    binary: Tensor

    def __post_init__(self) -> None:
        nonterminals = self.root.shape[-1]
        symbols = self.binary.shape[-1]
        expected = (*self.root.shape, symbols, symbols)
        if tuple(self.binary.shape) != expected or symbols <= nonterminals:
            raise ValueError(
                f"found binary rules of shape {tuple(self.binary.shape)}; expected {expected} with m + t > m symbols"
            )

    @property
    def nonterminals(self) -> int:
        return self.root.shape[-1]

    @property
    def preterminals(self) -> int:
        return self.binary.shape[-1] - self.root.shape[-1]

    def double(self) -> TableRules:
        return TableRules(self.root.double(), self.binary.double())

    def of(self, sentences: int | Tensor) -> TableRules:
        """Return the rules of one sentence, or of several."""
        return self if self.root.ndim == 1 else TableRules(self.root[sentences], self.binary[sentences])

    def table(self) -> Tensor:
        """Return the binary rules, like `FactoredRules.table`."""
        return self.binary


Rules = FactoredRules | TableRules


class Layout:
    """Rows of the spans of a batch's sentences: one row per span, ordered by width, then sentence, then first word.

    Sentences are sorted by length, longest first, so the sentences that have spans of a width come first: there is no
    padding, and the spans of one width are consecutive rows.

    Args:
        lengths: words of each sentence in the caller's order, at least 2.

    Attributes:
        order: (B,) the caller's index of each sorted sentence.
        starts: (n + 2,) the first row of each width, n being the longest; starts[n + 1] is the number of rows.
        counts: (n + 1,) number of sentences that have spans of each width.
        rows: the number of spans.
        whole_rows: (B,) the row of the whole-sentence span of each sorted sentence.
        words_order: (N,) for each word of the sorted sentences, its index among the given words.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu") -> None:
        if not len(lengths) or min(lengths) < 2:
            raise ValueError(f"found sentences of {sorted(set(lengths))} words; grammars need at least two words")
        self.device = torch.device(device)
        unsorted = torch.tensor(lengths)
        self.order = torch.argsort(unsorted, descending=True, stable=True)
        self.lengths = unsorted[self.order]
        self.begins = self.lengths.cumsum(0) - self.lengths  # index of each sentence's first word among all words
        self.longest = int(self.lengths[0])

        # The first row of each width: as many rows as sentences of this length or more have spans.
        widths = torch.arange(self.longest + 1)
        self.counts = (self.lengths[:, None] >= widths).sum(0)
        words = torch.cat([self.begins, self.lengths.sum()[None]])
        rows = words[self.counts] - self.counts * (widths - 1)
        rows[0] = 0
        self.starts = torch.cat([torch.zeros(1, dtype=torch.int64), rows.cumsum(0)])
        self._starts, self._counts, self._begins = (
            [int(number) for number in numbers.tolist()] for numbers in (self.starts, self.counts, words)
        )
        self.rows = self._starts[-1]

        # From the words of the sorted sentences to the given words, and from sentences to their spans.
        sentences = torch.arange(len(unsorted))
        first = unsorted.cumsum(0) - unsorted
        sentence = sentences.repeat_interleave(self.lengths)
        order = (first[self.order] - self.begins)[sentence] + torch.arange(len(sentence))
        self.words_order = order.to(self.device)
        self.whole_rows = self.row(sentences, 0, self.lengths).to(self.device)

    def __len__(self) -> int:
        return len(self.lengths)

    def of_width(self, width: int) -> slice:
        """Return the rows of all spans of a width."""
        return slice(self._starts[width], self._starts[width + 1])

    def blocks(self, rows: int) -> list[range]:
        """Return ranges of consecutive sorted sentences with at most `rows` spans, or one sentence with more."""
        spans = (self.lengths * (self.lengths + 1) // 2).tolist()
        result: list[range] = []
        first = total = 0
        for sentence, count in enumerate(spans):
            if total and total + count > rows:
                result.append(range(first, sentence))
                first, total = sentence, 0
            total += count
        return [*result, range(first, len(spans))]

    def of_block(self, width: int, block: range) -> tuple[slice, slice, slice]:
        """Return the rows of a width that belong to the sorted sentences of a block.

        Returns:
            The rows of parts of sentences, the rows of whole sentences, which follow them, and these sentences.
        """
        longer = self._counts[width + 1] if width < self.longest else 0
        longer, last = (min(max(end, block.start), block.stop) for end in (longer, self._counts[width]))
        first, middle, end = (
            self._starts[width] + self._begins[sentence] - sentence * (width - 1)
            for sentence in (block.start, longer, last)
        )
        return slice(first, middle), slice(middle, end), slice(longer, last)

    @cached_property
    def spans(self) -> tuple[Tensor, Tensor, Tensor]:
        """(rows,) each: sorted sentence, first word and width of every row."""
        per_width = self.starts[2:] - self.starts[1:-1]
        width = torch.arange(1, self.longest + 1).repeat_interleave(per_width)
        within = torch.arange(self.rows) - self.starts[width]
        sentence = torch.empty_like(width)
        for each in range(1, self.longest + 1):
            count = int(self.counts[each])
            sentence[self.of_width(each)] = torch.arange(count).repeat_interleave(self.lengths[:count] - each + 1)
        first = within - self.begins[sentence] + sentence * (width - 1)
        return sentence, first, width

    def row(self, sentence: Tensor, first: Tensor | int, width: Tensor) -> Tensor:
        """Return the rows of spans given by sorted sentence, first word and width; int64, all of one shape."""
        return self.starts[width] + self.begins[sentence] - sentence * (width - 1) + first

    def squares(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """(rows,) -> (B, n, n), in the caller's order, indexed by first and last word, both inclusive."""
        sentence, first, width = self.spans
        result = values.new_full((len(self), self.longest, self.longest), fill)
        places = self.order[sentence].to(values.device)
        result[places, first.to(values.device), (first + width - 1).to(values.device)] = values
        return result

    def flat(self, squares: Tensor) -> Tensor:
        """Return the inverse of `squares`: (B, n, n) in the caller's order, by first and last word -> (rows,)."""
        sentence, first, width = (part.to(squares.device) for part in self.spans)
        return squares[self.order.to(squares.device)[sentence], first, first + width - 1].contiguous()

    def splits(self, width: int, lefts: range) -> tuple[Tensor, Tensor]:
        """(rows, k) each: the rows of the left and right child of all spans of a width, by width of the left child."""
        sentence, first, _ = (part[self.of_width(width), None] for part in self.spans)
        left = torch.tensor(lefts)[None].expand(len(sentence), -1)
        sentence = sentence.expand_as(left)
        first = first.expand_as(left)
        children = self.row(sentence, first, left), self.row(sentence, first + left, width - left)
        return children[0].to(self.device), children[1].to(self.device)
