"""The one contract between models and the rest of the house.

A model reads a batch and a state and returns an `Output`. Loss, perplexity, surprisal, parses and pictures come from
that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from syntaxlm.ops.tree_levels.types import EDGES, Levels, States

if TYPE_CHECKING:
    from typing_extensions import Self

State = dict[str, Tensor] | None
"""What a model carries from chunk to chunk, by name; None at the start. Only the model looks into it."""

Reads = Literal["tokens", "trees"]
"""What a model reads: the batches are a `TokenBatch` or a `TreeBatch`."""


class Batch(Protocol):
    """What training and evaluation ask of a batch, whatever it holds: tokens here, trees for a model of trees.

    targets: what the model predicts, in the shape that `Output.log_probs` takes.
    carries: whether the state of the batch before goes on in this one.
    """

    @property
    def targets(self) -> Tensor: ...

    @property
    def carries(self) -> bool: ...

    def token_count(self) -> int: ...

    def sentence_count(self) -> int: ...

    def to(self, device: torch.device | str) -> Self: ...


@dataclass(frozen=True)
class TokenBatch:
    """A batch of token sequences, time-major.

    tokens:  (T, B) int64, what the model reads.
    targets: (T, B) int64, the token after each.
    lengths: (B,) int64, how many steps of each column are real, longest first; None when all T are. Steps past a length
             are padding: they count nowhere, and the state of their column is not defined.
    carries: whether the state of the batch before goes on in this one (streams) or starts anew (sentences).
    indices: (B,) int64, which sentence of the corpus each column is; None for streams.
    spans: (n, 3) int64, of gold trees, where training is given them: step t, column, length of each constituent that
        ends just before t.
    """

    tokens: Tensor
    targets: Tensor
    lengths: Tensor | None = None
    carries: bool = False
    indices: Tensor | None = None
    spans: Tensor | None = None

    def __post_init__(self) -> None:
        if self.lengths is not None and bool((self.lengths[1:] > self.lengths[:-1]).any()):
            raise ValueError("the columns of a batch must come longest first")

    def mask(self) -> Tensor:
        """(T, B) bool, true on real steps."""
        steps, columns = self.tokens.shape
        if self.lengths is None:
            return torch.ones(steps, columns, dtype=torch.bool, device=self.tokens.device)
        return torch.arange(steps, device=self.tokens.device)[:, None] < self.lengths.to(self.tokens.device)

    def last_rows(self) -> Tensor:
        """(B,) int64: of each column, which row its last real step is among all real ones, in the order of `mask()`."""
        steps, columns = self.tokens.shape
        if self.lengths is None:
            return torch.arange((steps - 1) * columns, steps * columns, device=self.tokens.device)
        rows = self.mask().flatten().cumsum(0).view(steps, columns) - 1
        return rows.gather(0, (self.lengths - 1).to(rows.device)[None])[0]

    def token_count(self) -> int:
        """How many tokens the batch predicts."""
        return self.tokens.numel() if self.lengths is None else int(self.lengths.sum())

    def sentence_count(self) -> int:
        """How many sentences it holds, where it holds whole ones."""
        return self.tokens.shape[1]

    def to(self, device: torch.device | str) -> TokenBatch:
        """The same batch on another device (lengths stay where they are: loops read them on the host)."""
        return TokenBatch(
            self.tokens.to(device, non_blocking=True),
            self.targets.to(device, non_blocking=True),
            self.lengths,
            self.carries,
            self.indices,
            None if self.spans is None else self.spans.to(device, non_blocking=True),
        )


@dataclass(frozen=True)
class TreeBatch:
    """The steps that generate the words of dependency trees, of all trees together, without padding.

    Row r is a step: `words[r]` is the word that its edge leaves, `targets[r]` the one that is generated. Rows are
    sorted by path depth and, within a depth, by edge type. The type, and which row's state the step goes on from, are
    in `levels`; its pool has one state before the first step, ROOT's.

    words:     (n,) int64, w'_t, the vocabulary's begin for ROOT.
    targets:   (n,) int64, w_t.
    labels:    (n,) int64, of the edge between w'_t and its own head, the label vocabulary's begin for ROOT.
    trees:     (n,) int64, which of the batch's trees each step is of.
    positions: (n,) int64, of the word generated in its sentence, 0 first.
    indices:   (B,) int64, which sentence of the corpus each tree is.
    """

    words: Tensor
    targets: Tensor
    labels: Tensor
    trees: Tensor
    positions: Tensor
    indices: Tensor
    levels: Levels

    @property
    def carries(self) -> bool:
        """No state goes from tree to tree."""
        return False

    def token_count(self) -> int:
        """How many tokens the batch predicts: all words, and no ends of sentences."""
        return len(self.targets)

    def sentence_count(self) -> int:
        return len(self.indices)

    def continuations(self) -> Tensor:
        """(n, 4) bool, whether an edge of each type leaves the word that a step generates."""
        found = torch.zeros(1 + len(self.targets), EDGES, dtype=torch.bool, device=self.targets.device)
        found[self.levels.parents, self.levels.edges()] = True
        return found[1:]

    def to(self, device: torch.device | str) -> TreeBatch:
        """The same batch on another device (indices stay on the host, where results are put in place)."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("words", "targets", "labels", "trees", "positions")
        }
        return TreeBatch(**moved, indices=self.indices, levels=self.levels.to(device))


@dataclass(frozen=True)
class TextCounts:
    """What a model of trees may ask of its training text before its first step.

    words: (V,) int64, how often each word of the vocabulary is in it.  labels: of edges, how many there are.
    """

    words: Tensor
    labels: int


@dataclass(frozen=True)
class Syntax:
    """What a model says of the structure of the batch it read. Every part is optional; a model gives what it has.

    distances: (layers, T, B), between each token and the one before it; larger where constituents part.
    span_scores: (T, B, m), the score at step t of the spans of length 1..m that end at t-1.
    maps: named pictures of looking back, (T, B, slots): slot k of step t is of step t - 1 - k. Gates, attention.
    units: named pictures of what units do, (T, B, units): master gates.
    """

    distances: Tensor | None = None
    span_scores: Tensor | None = None
    maps: dict[str, Tensor] = field(default_factory=dict)
    units: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """What a model returns for a batch.

    log_probs: targets (T, B) -> (T, B), natural log-probability of each target given all before it.
    state: carried to the next chunk.
    penalties: named scalars, already weighted, that training adds to the loss.
    syntax: None for a model without.
    next_log_probs: () -> (B, V), natural log-probability of every token after the last real step of each column, for
        sampling; None for a model that does not go word by word.
    hidden: (n, F), what the decoder reads for each real step, in the order of `TokenBatch.mask()`'s true entries, or of
        a `TreeBatch`'s rows; None for a model without hidden states.
    training_loss: targets -> the loss that training lowers, in nats, summed over all targets; None: it is their
        negative log-probability.
    """

    log_probs: Callable[[Tensor], Tensor]
    state: State = None
    penalties: dict[str, Tensor] = field(default_factory=dict)
    syntax: Syntax | None = None
    next_log_probs: Callable[[], Tensor] | None = None
    hidden: Tensor | None = None
    training_loss: Callable[[Tensor], Tensor] | None = None


class LanguageModel(nn.Module):
    """What every model is to the rest of the house. One that no gradient trains keeps what it learnt in buffers."""

    vocabulary_size: int
    reads: Reads = "tokens"
    reads_labels: bool = False  # whether it reads the labels of trees' edges, too
    label_count: int | None = None  # labels that it has room for; None: it reads none
    distance_layers: int = 0  # how many layers of distances `syntax` gives; 0: none
    default_layer: int = 1  # the one of them, 1 is the first, whose trees are the model's where none is named
    gives_span_scores: bool = False  # whether `syntax` gives those
    # Whether a batch's tokens are normalised together. Then batches of sentences must mix lengths: the statistics of
    # sentences of one length betray it, and so the sentence's end, to training alone.
    has_batch_statistics: bool = False
    is_counted: bool = False  # whether it learns by `count`, all of a text at once, and no gradient trains it

    @property
    def device(self) -> torch.device:
        """Where it reads batches."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def parameter_count(self) -> int:
        """How many numbers it learnt: weights, tied ones once."""
        return sum(weight.numel() for weight in self.parameters())

    @property
    def parses(self) -> bool:
        """Whether `syntax` gives what trees are read from."""
        return self.distance_layers > 0 or self.gives_span_scores

    def forward(self, batch: Any, state: State = None) -> Output:
        """Reads the batch, a `TokenBatch` or a `TreeBatch` as `reads` says, from `state`.

        `Output.log_probs(targets)` is 0 on padding.
        """
        raise NotImplementedError

    def syntax(self, batch: TokenBatch) -> Syntax | None:
        """The structure of whole sentences, without the cost of what structure does not need; None without any."""
        return None

    def count(self, batches: Iterable[TokenBatch]) -> dict[str, Any]:
        """Learns from a text, given once and whole, where it `is_counted`. Returns what a reader of the run may ask."""
        raise NotImplementedError

    def prepare(self, counts: TextCounts) -> None:
        """Takes from the training text, where the model reads trees, what it needs before its first step."""

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Gives what has sizes that depend on the text those of stored tensors, which are put into it next.

        Returns what is wrong with the stored ones, their shapes aside.
        """
        return []


class TreeModel(LanguageModel):
    """A model of trees that also takes one level of steps at a time, where the next one is not known yet: for sampling.

    state_size: D, features of a step's hidden state.  word_size: of a word's embedding.  input_size: E, of all that is
    read of the word that an edge leaves: its embedding and, where the model reads labels, its label's.
    """

    reads = "trees"
    state_size: int
    word_size: int
    input_size: int

    def root_states(self) -> States:
        """Those before the first step: one row, ROOT's."""
        raise NotImplementedError

    def embedded(self, words: Tensor) -> Tensor:
        """(n,) -> (n, word_size)."""
        raise NotImplementedError

    def inputs(self, words: Tensor, labels: Tensor) -> Tensor:
        """What steps read of words that edges leave, and of the labels above them: (n,), (n,) -> (n, E)."""
        raise NotImplementedError

    def follow(self, inputs: Tensor, levels: Levels, before: States) -> States:
        """The states of steps, (n, E) -> (n, D), that go on from those before, which `levels.parents` counts."""
        raise NotImplementedError

    def all_log_probs(self, hidden: Tensor, levels: Levels) -> Tensor:
        """Natural log-probability of every word at each step: (n, D) -> (n, V)."""
        raise NotImplementedError
