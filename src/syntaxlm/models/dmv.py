"""The dependency model with valence (Klein & Manning 2004), trained by EM, and DEP-PCFG (Carroll & Charniak 1992).

A root word is drawn; then every word draws its dependents on the left and on the right, closest first. Before each it
decides whether to stop, which depends on the word, the side, and whether there is no dependent on that side yet:

    P(tree) = P(root) prod over h, side, a of P(go | h, side, adjacent) P(a | h, side) * P(stop | h, side, adjacent)

The sum over all projective trees is the probability of a sentence of exactly these words: no end of the sentence is
generated. The algorithms are in `ops.dmv`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import NonNegative
from syntaxlm.models.abilities import (
    Model,
    ParsesDependencies,
    SampledSentence,
    SamplesSentences,
    ScoresSentences,
    TrainsByCounting,
)
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import PROBABILITIES
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import BOS, EOS, SPECIALS, draw_short, token_of
from syntaxlm.models.sizes import check_chart
from syntaxlm.models.structures import Heads
from syntaxlm.ops.dmv import ADJACENT, LEFT, RIGHT, ZERO, TreeDecisions, best_heads, expected_counts, log_partition
from syntaxlm.ops.sampling import Values, draw_from

_LARGEST_CHOICE_TABLE = 1 << 28  # most probabilities of dependents
_DIVISIONS_TOGETHER = 1 << 22  # most divisions of spans, n^3 of a sentence, in a group: all have gradients in memory
_BYTES_PER_DIVISION = 16  # in all charts of a sentence


@dataclass(frozen=True)
class DMVConfig(BaseConfig):
    """Settings of the dependency model with valence (Klein & Manning 2004).

    Attributes:
        valence: whether the decision to stop depends on the presence of a dependent on this side; if
            not, the model is DEP-PCFG
        smoothing: added to the expected count of every decision in each round; 0 adds nothing
    """

    name: Literal["dmv"] = "dmv"
    valence: bool = True
    smoothing: NonNegative = 0.0


class ProjectiveParser(ParsesDependencies):
    """Finds dependency trees by charts of sentences of one length."""

    @abstractmethod
    def best_heads(self, batch: TokenBatch) -> Iterator[tuple[slice, Tensor]]:
        """Return columns of a batch with BOS and EOS, and the heads of their most probable trees, (b, n)."""

    @torch.no_grad()
    def structure(self, batch: TokenBatch) -> Heads:
        """Return the most probable dependency tree of each sentence.

        If a sentence is impossible, the most probable of the trees with the fewest impossible decisions.
        """
        longest = max(1, int(batch.word_counts(2).max()))
        heads = torch.full((batch.sentence_count(), longest), -1, device=batch.tokens.device)
        for columns, best in self.best_heads(batch):
            heads[columns, : best.shape[1]] = best
        return Heads(heads)


@model("dmv", DMVConfig)
class DMV(Model, TrainsByCounting, ScoresSentences, SamplesSentences, ProjectiveParser):
    """Probabilities of roots, dependents and stopping. Uniform before training.

    The first round sets them from the harmonic start, which prefers short arcs; each further round is one of EM.

    Attributes:
        root: (V,).
        choose: (V, 2, V) by head, side and dependent.
        stop: (V, 2, 2) by head, side and whether the head has no dependent there yet, as in `TreeDecisions`.
        started: 1 after the first round.
    """

    reads = "sentences"
    value_ranges: ClassVar = {"root": PROBABILITIES, "choose": PROBABILITIES, "stop": PROBABILITIES}
    root: Tensor
    choose: Tensor
    stop: Tensor
    started: Tensor

    def __init__(self, config: DMVConfig, vocabulary_size: int) -> None:
        super().__init__()
        table = 2 * vocabulary_size**2
        if vocabulary_size <= SPECIALS:
            raise InputError(f"found a vocabulary of {vocabulary_size} tokens without words; expected one word or more")
        if table > _LARGEST_CHOICE_TABLE:
            most = int((_LARGEST_CHOICE_TABLE / 2) ** 0.5)
            raise InputError(
                f"found a vocabulary of {vocabulary_size:,} tokens, which needs a table of {table:,} pairs of head and"
                f" dependent; expected at most {most:,} tokens. Set text.vocabulary.maximum_size, or read tags"
                " (text.normaliser.units: tags)"
            )
        self.config, self.vocabulary_size = config, vocabulary_size
        root = torch.full((vocabulary_size,), 1 / (vocabulary_size - SPECIALS), dtype=torch.float64)
        root[BOS] = root[EOS] = 0
        self.register_buffer("root", root)
        self.register_buffer("choose", root.new_empty(vocabulary_size, 2, vocabulary_size).copy_(root))
        self.register_buffer("stop", torch.full((vocabulary_size, 2, 2), 0.5, dtype=torch.float64))
        self.register_buffer("started", torch.zeros((), dtype=torch.int64))
        self._clear()

    def _clear(self) -> None:
        self._counts: TreeDecisions | None = None
        self._log_likelihood, self._tokens = 0.0, 0

    # ---- training

    def accumulate(self, batch: TokenBatch) -> None:
        """Add the expected counts of whole sentences; in the first round, those of the harmonic start."""
        for _, words in self.groups(batch):
            if self.started:
                log_probs, counts, _ = expected_counts(self.decisions(words))
                self._log_likelihood += float(log_probs.sum())
            else:
                counts = harmonic_counts(len(words), words.shape[1], words.device)
            self.add_counts(words, counts)
        self._tokens += batch.token_count()

    def add_counts(self, words: Tensor, counts: TreeDecisions) -> None:
        """Add the counts of the decisions in sentences of one length.

        Args:
            words: (b, n).
        """
        if self._counts is None:
            tables = (self.root, self.choose, self.stop, self.stop)
            self._counts = TreeDecisions(*(torch.zeros_like(table) for table in tables))
        flat = words.flatten()
        self._counts.root.index_add_(0, flat, counts.root.flatten())
        self._counts.stop.index_add_(0, flat, counts.stop.flatten(0, 1))
        self._counts.go.index_add_(0, flat, counts.go.flatten(0, 1))
        heads, dependents = words[:, :, None], words[:, None]
        places = (heads * 2 + _sides(words)) * self.vocabulary_size + dependents
        self._counts.arcs.view(-1).index_add_(0, places.flatten(), counts.arcs.flatten())

    def maximise(self) -> dict[str, Any]:
        """Set the probabilities to the shares of the counts; those of words without counts are unchanged.

        The first round, which only counts the harmonic start, has no objective.
        """
        if self._counts is None:
            raise InputError("dependency model: found no sentence to estimate from; expected one or more")
        root, arcs, stop, go = self._counts

        # Without valence, a stop does not depend on earlier dependents; smoothing adds to every decision.
        if not self.config.valence:
            stop, go = (part.sum(-1, keepdim=True).expand(-1, -1, 2) for part in (stop, go))
        if self.config.smoothing:
            added = self.config.smoothing * (torch.arange(self.vocabulary_size, device=self.device) != BOS)
            added[EOS] = 0
            root, arcs = root + added, arcs + added
            stop = stop + self.config.smoothing
            go = go + self.config.smoothing

        for table, counts, totals in (
            (self.root, root, root.sum()),
            (self.choose, arcs, arcs.sum(-1, keepdim=True)),
            (self.stop, stop, stop + go),
        ):
            table.copy_(torch.where(totals > 0, counts / totals, table))
        figures = {"objective": -self._log_likelihood / max(1, self._tokens)} if self.started else {}
        self.started.fill_(1)
        self._clear()
        return figures

    # ---- probabilities

    @torch.no_grad()
    def sentence_log_probs(self, batch: TokenBatch) -> Tensor:
        """Return natural log-probability of exactly these words, (B,); -inf if impossible or without words."""
        result = self.root.new_full((batch.sentence_count(),), -torch.inf, dtype=torch.float64)
        for columns, words in self.groups(batch):
            log_probs = log_partition(self.decisions(words))
            result[columns] = log_probs.masked_fill(log_probs < ZERO / 2, -torch.inf)
        return result

    # ---- structure

    def best_heads(self, batch: TokenBatch) -> Iterator[tuple[slice, Tensor]]:
        for columns, words in self.groups(batch, closed=True):
            yield columns, best_heads(self.decisions(words))[1]

    # ---- sampling

    def sample(
        self, count: int, maximum_words: int, generator: np.random.Generator, *, omitted: int = 0
    ) -> list[SampledSentence]:
        """Sample dependency trees from the root. The spans are each head with all its descendants."""
        words = torch.tensor([token_of(word) for word in range(self.vocabulary_size - SPECIALS)])
        root = self.root.cpu()[words].cumsum(0).numpy()

        def draw(sums: Values) -> int | None:
            nothing = sums[-1] <= (sums[omitted - 1] if omitted else 0.0)
            return None if nothing else token_of(draw_from(sums, generator, omitted))

        def tree() -> SampledSentence | None:
            """Return a tree, or None if it would have too many words, or a word that cannot be replaced."""
            tokens: list[int] = []
            before: list[list[int]] = []
            after: list[list[int]] = []

            def add(drawn: int | None) -> bool:
                if drawn is None or len(tokens) == maximum_words:
                    return False
                tokens.append(drawn)
                before.append([])
                after.append([])
                return True

            # Every head draws its dependents on both sides, closest first, until it stops.
            if not add(draw(root)):
                return None
            for head, token in enumerate(tokens):  # grows during the loop
                for side, dependents in ((LEFT, before[head]), (RIGHT, after[head])):
                    sums = self.choose[token, side].cpu()[words].cumsum(0).numpy()
                    while generator.random() >= float(self.stop[token, side, 0 if dependents else ADJACENT]):
                        dependents.append(len(tokens))
                        if not add(draw(sums)):
                            return None
            return _in_order(tokens, before, after)

        return [draw_short(tree, maximum_words) for _ in range(count)]

    # ---- arguments of the algorithms

    def groups(self, batch: TokenBatch, closed: bool = False) -> Iterator[tuple[slice, Tensor]]:
        """Yield sentences of one length whose charts fit in memory: their columns, and their words, (b, n).

        Args:
            closed: whether the tokens include EOS. BOS and EOS inside a sentence are read as unknown words.

        Raises:
            InputError: for a sentence that is too long for the memory.
        """
        for columns, words in words_by_length(batch, closed, _DIVISIONS_TOGETHER):
            length = words.shape[1]
            self.check_length(length)
            yield columns, words

    def check_length(self, words: int) -> None:
        check_chart(words, words**3 * _BYTES_PER_DIVISION)

    def decisions(self, words: Tensor) -> TreeDecisions:
        """Return the log-probabilities of the decisions in sentences of one length.

        Args:
            words: (b, n).
        """
        arcs = self.choose[words[:, :, None], _sides(words), words[:, None]]
        stop = self.stop[words]
        parts = (part.double() for part in (self.root[words], arcs, stop, 1 - stop))
        return TreeDecisions(*(torch.where(part == 0, ZERO, part.log()) for part in parts))  # NaN stays NaN


def harmonic_counts(sentences: int, words: int, device: torch.device | str | None = None) -> TreeDecisions:
    """Return the counts of the harmonic start, in sentences of one length.

    Each word is the root with mass 1 / n, and depends on every other word with mass proportional to 1 / distance. Each
    word stops once on each side, and goes on as often as the mass of its dependents says, whether adjacent or not.
    """
    places = torch.arange(words, dtype=torch.float64, device=device)
    distances = (places[:, None] - places).abs()
    closeness = torch.where(distances > 0, 1 / distances, 0)
    arcs = closeness / closeness.sum(0).clamp(min=1e-300) * (1 - 1 / words)
    go = torch.stack([arcs.tril().sum(1), arcs.triu().sum(1)], -1)
    every = (
        torch.full_like(places, 1 / words),
        arcs,
        torch.ones(words, 2, 2, dtype=torch.float64, device=device),
        go[..., None].expand(-1, -1, 2),
    )
    return TreeDecisions(*(part.expand(sentences, *part.shape).contiguous() for part in every))


def _sides(words: Tensor) -> Tensor:
    """(n, n) the side of each head, in rows, on which each dependent is."""
    places = torch.arange(words.shape[1], device=words.device)
    return torch.where(places > places[:, None], RIGHT, LEFT)


def words_by_length(batch: TokenBatch, closed: bool, chart: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield sentences of one length: their columns, and their words, (b, n), without BOS and EOS inside a sentence.

    Args:
        closed: whether the tokens include EOS.
        chart: most divisions of spans of the sentences that are given together.
    """
    for columns, words in batch.by_length(2 if closed else 1, lambda length: chart // length**3):
        yield columns, words.masked_fill((words == BOS) | (words == EOS), 0)


def _in_order(tokens: list[int], before: list[list[int]], after: list[list[int]]) -> SampledSentence:
    """Return the sentence of a tree.

    Args:
        tokens: of the words, root first, each head before its dependents.
        before: the dependents of each word on the left, closest first.
        after: the dependents of each word on the right, closest first.
    """
    # The number of words of each subtree; dependents come after their heads.
    sizes = [1] * len(tokens)
    for head in reversed(range(len(tokens))):
        sizes[head] += sum(sizes[dependent] for dependent in before[head] + after[head])

    # Where each subtree starts, and the place of its head in it: after the subtrees on the left.
    starts, places = [0] * len(tokens), [0] * len(tokens)
    for head, start in enumerate(starts):
        for dependent in reversed(before[head]):
            starts[dependent] = start
            start += sizes[dependent]
        places[head] = start
        start += 1
        for dependent in after[head]:
            starts[dependent] = start
            start += sizes[dependent]

    words = [token for _, token in sorted(zip(places, tokens, strict=True))]
    spans = [(start, start + size - 1, -1) for start, size in zip(starts, sizes, strict=True) if size > 1]
    return SampledSentence(tuple(words), tuple(sorted(spans, key=lambda span: (span[0], -span[1]))))
