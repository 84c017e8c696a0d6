"""The batches that models read: sequences of tokens, and the steps that generate the words of dependency trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from syntaxlm.ops.tree_levels import EDGES, Levels
from syntaxlm.trees.dependencies import Edge
from syntaxlm.trees.marks import MarkSide, violations

if TYPE_CHECKING:
    from typing import Self

State = dict[str, Tensor] | None
"""State carried from one batch of a stream to the next, by name; None at the start of a text."""

Reads = Literal["tokens", "sentences", "trees"]
"""What a model reads: "tokens": `TokenBatch`; "sentences": `TokenBatch` of whole sentences with their ends; "trees":
`TreeBatch`.
"""


@dataclass(frozen=True)
class TextMode:
    """How text is read; by default as in training.

    Attributes:
        carry_state: whether the text is one stream; otherwise sentences are read independently.
        predict_eos: whether the ends of sentences are predicted.
    """

    carry_state: bool = False
    predict_eos: bool = True

    def __str__(self) -> str:
        if self.carry_state:
            return "one stream, state carried across sentences"
        return "sentence by sentence" + ("" if self.predict_eos else ", ends of sentences not predicted")


class Batch(Protocol):
    """The interface of batches that training and scoring require.

    Attributes:
        carries: whether the batch continues the previous one, so that the model's state is carried over.
    """

    @property
    def carries(self) -> bool: ...

    def to(self, device: torch.device | str) -> Self: ...


@dataclass(frozen=True)
class TokenBatch:
    """A batch of token sequences, time-major.

    Attributes:
        tokens: (T, B) int64, the input tokens.
        targets: (T, B) int64, the token after each input token.
        lengths: (B,) int64, number of real steps of each column, in descending order; None if all T steps are real.
            Steps past a length are padding: they are never counted, and the state of their column is undefined.
        carries: whether the batch continues the previous one (streams) or starts from the initial state (sentences).
        indices: (B,) int64, index of each column's sentence in the corpus; None for streams.
        spans: (n, 3) int64, constituents of given trees to train on: step t, column, and length of each constituent
            that ends just before t; None without trees.
        marks: (T, B) int16, the classes of the dropped punctuation marks that follow each input token, see
            `trees.marks`; 0 without marks. None if they were not read.
        ends: (T, B) bool, whether each input token is an EOS, before the next sentence; None but for streams with
            spans.
    """

    tokens: Tensor
    targets: Tensor
    lengths: Tensor | None = None
    carries: bool = False
    indices: Tensor | None = None
    spans: Tensor | None = None
    marks: Tensor | None = None
    ends: Tensor | None = None

    def __post_init__(self) -> None:
        if self.lengths is not None and bool((self.lengths[1:] > self.lengths[:-1]).any()):
            raise ValueError("the columns of a batch must be sorted by length, longest first")

    def mask(self) -> Tensor:
        """(T, B) bool, True at real steps."""
        device = self.tokens.device
        return torch.arange(len(self.tokens), device=device)[:, None] < self.step_counts().to(device)

    def last_rows(self) -> Tensor:
        """(B,) int64: index of each column's last real step among all real steps, in the order of `mask()`."""
        rows = self.mask().flatten().cumsum(0).view_as(self.tokens) - 1
        return rows.gather(0, (self.step_counts() - 1).to(rows.device)[None])[0]

    def step_counts(self) -> Tensor:
        """Return the number of real steps of each column, (B,), on the CPU."""
        return torch.full(self.tokens.shape[1:], len(self.tokens)) if self.lengths is None else self.lengths

    def columns_by_length(self) -> list[int]:
        """For each number of steps from 0 to T, the number of columns with at least so many: the first ones."""
        exactly = torch.bincount(self.step_counts(), minlength=len(self.tokens) + 1)
        return exactly.flip(0).cumsum(0).flip(0).tolist()

    def span_steps(self) -> Tensor:
        """Return the spans that are wholly in this batch: column, and the steps of first and last token, (k, 3)."""
        assert self.spans is not None
        after, column, length = self.spans.unbind(1)
        spans = torch.stack([column, after - length, after - 1], 1)
        return spans[spans[:, 1] >= 0]

    def word_counts(self, others: int) -> Tensor:
        """Return the number of words of each column, (B,), on the CPU.

        Args:
            others: see `by_length`.
        """
        return (self.step_counts() - others).clamp(min=0)

    def by_length(self, others: int, most: Callable[[int], int]) -> Iterator[tuple[slice, Tensor]]:
        """Yield sentences of one length together, longest first: their columns, and their words, (b, n).

        Columns without words are left out.

        Args:
            others: number of tokens of a column that are not words: 0, 1 (BOS), or 2 (also EOS).
            most: maps a length to the number of sentences that are yielded together; at least one is.
        """
        counts = self.word_counts(others)
        words = self.tokens[min(others, 1) :]
        start = 0
        for length in counts.unique_consecutive().tolist():
            if not length:  # the last columns
                return
            end = int((counts >= length).sum())
            step = max(1, most(length))
            for first in range(start, end, step):
                columns = slice(first, min(first + step, end))
                yield columns, words[:length, columns].T
            start = end

    def inner(self) -> TokenBatch:
        """Return the words of whole sentences with BOS and EOS: the batch without each column's first and last step.

        Targets are left out, and every sentence needs a word.
        """
        words = self.tokens[1:-1]
        return TokenBatch(words, words, None if self.lengths is None else self.lengths - 2, indices=self.indices)

    def violations(self, lengths: Tensor, side: MarkSide) -> Tensor | None:
        """(B, n, n) float32, the violation of each span, by first and last word; see `trees.marks`.

        None if marks were not read.

        Args:
            lengths: (B,) number of words, n at most.
        """
        if self.marks is None:
            return None
        longest = int(lengths.max())
        first, last = np.indices((longest, longest)).reshape(2, -1)
        marks = self.marks[:longest].T.cpu().numpy() != 0  # before each word
        values = violations(marks, first, last + 1, lengths.cpu().numpy(), side)
        return torch.from_numpy(values).to(self.marks.device).unflatten(1, (longest, longest))

    def token_count(self) -> int:
        """Return the number of predicted tokens."""
        return self.tokens.numel() if self.lengths is None else int(self.lengths.sum())

    def sentence_count(self) -> int:
        """Return the number of columns; if the batch has whole sentences, the number of sentences."""
        return self.tokens.shape[1]

    def to(self, device: torch.device | str) -> TokenBatch:
        """Return the same batch on another device. Lengths stay on the CPU, for use in Python loops."""

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, non_blocking=True)

        return replace(
            self,
            tokens=self.tokens.to(device, non_blocking=True),
            targets=self.targets.to(device, non_blocking=True),
            spans=moved(self.spans),
            marks=moved(self.marks),
            ends=moved(self.ends),
        )


@dataclass(frozen=True)
class TreeBatch:
    """The steps that generate the words of several dependency trees, without padding.

    Row r is a step: its edge goes from `words[r]` to the generated word `targets[r]`. Rows are sorted by path depth,
    then by edge type. `levels` has the edge types and the row whose state each step continues; the first state is that
    of ROOT.

    Attributes:
        words: (n,) int64, w'_t; the vocabulary's BOS for ROOT.
        targets: (n,) int64, w_t. Some are also read, as left dependents, if the model reads them.
        labels: (n,) int64, label of the edge between w'_t and its head; the label vocabulary's BOS for ROOT.
        trees: (n,) int64, index of each step's tree in the batch.
        positions: (n,) int64, position of the generated word in its sentence, from 0.
        indices: (B,) int64, index of each tree in the corpus.
    """

    carries = False  # trees are independent: no state is carried
    words: Tensor
    targets: Tensor
    labels: Tensor
    trees: Tensor
    positions: Tensor
    indices: Tensor
    levels: Levels

    def token_count(self) -> int:
        """Return the number of predicted words. Ends of sentences are not predicted."""
        return len(self.targets)

    def sentence_count(self) -> int:
        return len(self.indices)

    def continuations(self) -> Tensor:
        """(n, 4) bool: whether an edge of each type leaves the generated word."""
        leaving = torch.zeros(1 + len(self.targets), EDGES, dtype=torch.bool, device=self.targets.device)
        leaving[self.levels.parents, self.levels.edges()] = True
        return leaving[1:]

    def left_dependents(self) -> tuple[Tensor, Tensor]:
        """Return the left dependents of each word that a RIGHT edge leaves.

        Returns:
            (L, k) int64, the words of the left dependents for each of the k RIGHT steps, in the order of the rows: from
            the farthest dependent to the closest, then padding; and (k,) int64, their numbers, on the CPU.
        """
        # Of each state, from ROOT's on: the steps that follow it by LEFT and by NX-LEFT, numbered from 1; 0 for none.
        parents, edges = self.levels.parents, self.levels.edges()
        numbers = torch.arange(1, len(parents) + 1, device=parents.device)
        closest, next_ones = parents.new_zeros(2, len(parents) + 1)
        for following, edge in ((closest, Edge.LEFT), (next_ones, Edge.NX_LEFT)):
            following[parents[edges == edge]] = numbers[edges == edge]

        # Follow the dependents of all these words from the closest outwards, until none has a further one.
        outwards = [closest[parents[edges == Edge.RIGHT]]]
        while outwards[-1].any():
            outwards.append(next_ones[outwards[-1]])
        steps = torch.stack(outwards)[:-1]

        # The order in which they are read is the opposite one.
        lengths = (steps > 0).sum(0)
        places = lengths - 1 - torch.arange(len(steps), device=steps.device)[:, None]
        inwards = steps.gather(0, places.clamp(min=0))
        return self.targets[(inwards - 1).clamp(min=0)], lengths.cpu()

    def to(self, device: torch.device | str) -> TreeBatch:
        """Return the same batch on another device. Indices stay on the CPU, where results are sorted."""
        return TreeBatch(
            words=self.words.to(device, non_blocking=True),
            targets=self.targets.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            trees=self.trees.to(device, non_blocking=True),
            positions=self.positions.to(device, non_blocking=True),
            indices=self.indices,
            levels=self.levels.to(device),
        )
