"""StructFormer: a masked language model whose attention follows induced constituents and dependencies.

Shen, Tay, Zheng, Bahri, Metzler, Courville 2021, "StructFormer: Joint Unsupervised Induction of Dependency and
Constituency Structure from Masked Language Modeling". Where the paper is silent, this is the authors' program. A masked
word is predicted from words on both sides, so the model gives no probability of a sentence.
Shapes: B sentences, n words of the longest, D features, H heads, V vocabulary size. `real` is true at words, false at
padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, leaky_relu, pad

from syntaxlm.core.settings import Bounds, Fraction, Layers, Size
from syntaxlm.models.abilities import (
    Criterion,
    Loss,
    Model,
    ParsesDependencies,
    PredictsNextToken,
    ScoresSentences,
    ScoresTokens,
    TrainsByGradient,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import dropout
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import BOS, EOS
from syntaxlm.models.structures import DistancesAndHeights
from syntaxlm.ops.softmax import target_log_probs

UNKNOWN, PADDING, MASK = 0, BOS, EOS  # sentences are read without BOS and EOS, whose embeddings are free
_LOWEST_EXPONENT = -40.0  # in float32, the square of the inverse of exp(-45) would overflow


@dataclass(frozen=True)
class StructFormerConfig(BaseConfig):
    """Settings of StructFormer (Shen et al. 2021).

    Attributes:
        embedding_size: D, number of features of a word in all layers
        layers: layers of the Transformer encoder
        heads: attention heads of a layer; embedding_size must be a multiple of this number
        parser_layers: convolutions of the parser
        parser_width: words that a convolution reads, an odd number
        positions: number of learned position embeddings; later words use the last one
        margin: whether distances are calibrated by sentence or, as in the released program, by batch
        mask_rate: share of known words that are masked and predicted
        dropout: rate on the output of attention, in and after feed-forward layers, and at the end
        attention_dropout: rate on attention weights
    """

    omits_unknown_words = True
    name: Literal["structformer"] = "structformer"
    embedding_size: Size = 512
    layers: Layers = 8
    heads: Size = 8
    parser_layers: Layers = 3
    parser_width: Annotated[int, Bounds(ge=1, le=99)] = 9
    positions: Size = 500
    margin: Literal["sentence", "batch"] = "sentence"
    mask_rate: Annotated[float, Bounds(gt=0, lt=1)] = 0.3
    dropout: Fraction = 0.1
    attention_dropout: Fraction = 0.0

    def contradictions(self) -> list[str]:
        faults = []
        if self.embedding_size % self.heads:
            faults.append(
                f"heads: found {self.heads} with embedding_size {self.embedding_size}; expected embedding_size to be a"
                " multiple of heads"
            )
        if self.parser_width % 2 == 0:
            faults.append(f"parser_width: found {self.parser_width}; expected an odd number")
        return faults


# ---- from heights and distances to dependencies


def margins(heights: Tensor, distances: Tensor, real: Tensor) -> Tensor:
    """Return the calibration margin of each sentence, (B,): what distances must fall by so that no block is cut off.

    A span other than the whole sentence is cut off if both gaps around it are above all of its words.

    Args:
        heights: (B, n).
        distances: (B, n - 1) of the gaps between words.
    """
    length = heights.shape[1]
    below, gaps = _below(length, real.device), real[:, 1:]
    outside = distances.masked_fill(~gaps, torch.inf)  # the ends of a sentence are above everything
    before = pad(outside, (1, 0), value=torch.inf)
    after = pad(outside, (0, 1), value=torch.inf)
    highest = heights[:, None].expand(-1, length, -1).masked_fill(below, -torch.inf).cummax(2)[0]
    excess = torch.minimum(before[:, :, None], after[:, None]) - highest
    spans = real[:, None] & ~below
    spans[torch.arange(len(real), device=real.device), 0, real.sum(1) - 1] = False  # whole sentences
    return excess.masked_fill(~spans, -torch.inf).flatten(1).max(1)[0].relu()


def reach(heights: Tensor, distances: Tensor, scale: Tensor, real: Tensor) -> Tensor:
    """Return how far word j is in the block (constituent) of word i: (B, n, n), by i and j; 1 for the word itself.

    That is sigmoid(scale (height_i - d)), where d is the greatest distance between i and j.
    """
    length = heights.shape[1]
    between = pad(distances, (1, 0))[:, None].expand(-1, length, -1)  # column j: the gap before j
    later = torch.ones(length, length, dtype=torch.bool, device=real.device).triu(1)
    greatest = between.masked_fill(~later, -torch.inf).cummax(2)[0].masked_fill(~later, 0)
    blocks = torch.sigmoid(scale * (heights[:, :, None] - greatest - greatest.mT))
    blocks = blocks.masked_fill(torch.eye(length, dtype=torch.bool, device=real.device), 1)
    return blocks * (real[:, :, None] & real[:, None])


def dependencies(heights: Tensor, distances: Tensor, scales: Tensor, real: Tensor) -> Tensor:
    """Return p(j | i), the probability that word j is the head of word i: (B, n, n), by i and j; 0 for j = i.

    The sum over all blocks l..r of a word i, p(l, r | i) = left_il right_ir, and over the words of each, which are its
    head by a softmax of their heights. With e_j = exp(height_j) and U_lr = 1 / (e_l + ... + e_r), two products of
    matrices and two cumulative sums give it in O(n^3) time.

    Args:
        scales: (2,), factors of heights and distances in `reach`, and of heights in the softmax.
    """
    # The probability that the block of word i starts at l, and that it ends at r: (B, n, n), by i and l or r.
    blocks = reach(heights, distances, scales[0], real)
    left = (blocks - pad(blocks, (1, 0))[..., :-1]).tril()
    right = (blocks - pad(blocks, (0, 1))[..., 1:]).triu()

    # e_j, relative to the highest word, and U_lr, of the block from l to r.
    scaled = scales[1] * heights
    exponents = (scaled - scaled.masked_fill(~real, -torch.inf).amax(1, keepdim=True)).masked_fill(~real, 0)
    weights = exponents.clamp(min=_LOWEST_EXPONENT).exp()
    length = heights.shape[1]
    below = _below(length, real.device)
    sums = weights[:, None].expand(-1, length, -1).masked_fill(below, 0).cumsum(2)
    inverse = (1 / sums.masked_fill(below, 1)).masked_fill(below, 0)

    # A head before a word is in the blocks that start at or before it, one after it in those that end at or after it.
    before = (left * (right @ inverse.mT)).cumsum(2).tril(-1)
    after = (right * (left @ inverse)).flip(2).cumsum(2).flip(2).triu(1)
    return weights[:, None] * (before + after)


def _below(length: int, device: torch.device) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).tril(-1)


# ---- networks


class HeightParser(nn.Module):
    """Convolutions, then two heads: a height for each word and a distance for each gap between words."""

    def __init__(self, config: StructFormerConfig) -> None:
        super().__init__()
        size, width = config.embedding_size, config.parser_width
        self.convolutions = nn.ModuleList(
            nn.Conv1d(size, size, width, padding=width // 2) for _ in range(config.parser_layers)
        )
        self.height, self.height_score = nn.Linear(size, size), nn.Linear(size, 1)
        self.distance, self.distance_score = nn.Linear(2 * size, size), nn.Linear(size, 1)

    def forward(self, embedded: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return heights, (B, n), and distances, (B, n - 1), of embedded words (B, n, D)."""
        hidden = embedded
        for convolution in self.convolutions:
            hidden = _squashed(convolution((hidden * real[..., None]).mT).mT)
        pairs = torch.cat([hidden[:, :-1], hidden[:, 1:]], 2)
        heights = self.height_score(_squashed(self.height(hidden)))
        distances = self.distance_score(_squashed(self.distance(pairs)))
        dtype = embedded.dtype
        return heights[..., 0].to(dtype), distances[..., 0].to(dtype)


def _squashed(rows: Tensor) -> Tensor:
    return layer_norm(rows, rows.shape[-1:]).tanh()


class Layer(nn.Module):
    """Attention to heads and dependents, and a feed-forward layer, each added to what it reads.

    Attributes:
        relations: (H, 2), logits of the weight of a word's head and of its dependents.
    """

    def __init__(self, config: StructFormerConfig) -> None:
        super().__init__()
        size, self.heads = config.embedding_size, config.heads
        self.dropout = config.dropout
        self.attention_dropout = config.attention_dropout
        self.attention_norm, self.feedforward_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query_key_value, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.relations = nn.Parameter(torch.empty(config.heads, 2))
        for weight in (*self.query_key_value.weight.chunk(3), self.output.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.output.bias)
        nn.init.normal_(self.relations, std=0.1)

    def forward(self, hidden: Tensor, probabilities: Tensor) -> Tensor:
        """(B, n, D) -> (B, n, D).

        Args:
            probabilities: the probabilities of `dependencies`, 0 for padding.
        """
        attended = self.output(self._attend(self.attention_norm(hidden), probabilities))
        hidden = hidden + dropout(attended, self.dropout, self.training)
        inner = leaky_relu(self.up(self.feedforward_norm(hidden)))
        inner = self.down(dropout(inner, self.dropout, self.training))
        return hidden + dropout(inner, self.dropout, self.training)

    def _attend(self, inputs: Tensor, probabilities: Tensor) -> Tensor:
        batch, length, size = inputs.shape
        split = self.query_key_value(inputs).view(batch, length, 3, self.heads, size // self.heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)  # each (B, H, n, D / H)
        to_head, to_dependents = self.relations.softmax(1).T[:, :, None, None]
        allowed = to_head * probabilities[:, None] + to_dependents * probabilities.mT[:, None]
        attention = torch.sigmoid(queries @ keys.mT / sqrt(size // self.heads)) * allowed
        attention = dropout(attention, self.attention_dropout, self.training).to(values.dtype)
        return (attention @ values).transpose(1, 2).reshape(batch, length, size)


@model("structformer", StructFormerConfig)
class StructFormer(Model, TrainsByGradient, ParsesDependencies):
    """One embedding of words feeds the parser and the encoder, and is the weight of the output layer.

    Attributes:
        scales: (2,), logarithms of the scales of `dependencies`.
    """

    reads = "sentences"
    criterion = Criterion("masked negative log-likelihood", "nats per masked word")
    structure_type = DistancesAndHeights
    distance_layers = 1
    reasons: ClassVar = dict.fromkeys(
        (ScoresSentences, ScoresTokens, PredictsNextToken),
        "predicts masked words from both sides and has no left-to-right probabilities",
    )

    def __init__(self, config: StructFormerConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size = config, vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        self.positions = nn.Embedding(config.positions, config.embedding_size)
        self.parser = HeightParser(config)
        self.scales = nn.Parameter(torch.zeros(2))
        self.encoder = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.embedding_size)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.positions.weight, -0.1, 0.1)

    # ---- training

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """Return cross-entropy of masked words, which training draws at random; in evaluation they are fixed."""
        words, real = _words(batch, others=1)
        is_masked = self._masked(words, real)
        hidden = self.encode(words.masked_fill(is_masked, MASK), real)[is_masked]
        hidden = dropout(self.norm(hidden), self.config.dropout, self.training)
        log_probs = target_log_probs(hidden, self.embedding.weight, self.bias, words[is_masked])
        return Loss(-log_probs.sum(), int(is_masked.sum()), batch.sentence_count())

    def encode(self, words: Tensor, real: Tensor) -> Tensor:
        """Return the output of the last layer, (B, n, D), for words and masks, (B, n)."""
        embedded = self.embedding(words)
        places = torch.arange(words.shape[1], device=words.device).clamp(max=self.config.positions - 1)
        probabilities = self.dependencies(embedded, real)
        hidden = embedded + self.positions(places)
        for layer in self.encoder:
            hidden = layer(hidden, probabilities)
        return hidden

    def dependencies(self, embedded: Tensor, real: Tensor) -> Tensor:
        """Return the probability of each head, see `dependencies`, in the precision of the weights."""
        heights, distances = self.parser(embedded, real)
        with torch.autocast(heights.device.type, enabled=False):
            margin = margins(heights, distances, real)
            if self.config.margin == "batch":
                margin = margin.max().expand(len(margin))
            return dependencies(heights, distances - margin[:, None], self.scales.exp(), real)

    def _masked(self, words: Tensor, real: Tensor) -> Tensor:
        """Return which words are masked and predicted, (B, n): a share of the known words."""
        draws = torch.rand(words.shape, device=words.device) if self.training else fixed_draws(words)
        return real & (words != UNKNOWN) & (draws < self.config.mask_rate)

    # ---- structure

    @torch.no_grad()
    def structure(self, batch: TokenBatch) -> DistancesAndHeights:
        """Return heights, and distances without the margin.

        There is no gap before the first word: its distance is the least of the sentence.
        """
        words, real = _words(batch, others=2)
        heights, distances = self.parser(self.embedding(words), real)

        # A distance before each word, of which the first has no gap.
        least = pad(distances.masked_fill(~real[:, 1:], torch.inf), (0, 1), value=torch.inf).amin(1, keepdim=True)
        distances = torch.cat([least.nan_to_num(posinf=0.0), distances], 1)

        # Steps of BOS, EOS and padding have 0.
        steps, longest = len(batch.tokens), real.shape[1]
        around = 0, 0, 1, max(1, steps - longest - 1)
        step_distances = pad((distances * real).T, around)[:steps]
        step_heights = pad((heights * real).T, around)[:steps]
        return DistancesAndHeights(step_distances[None], step_heights)


def _words(batch: TokenBatch, others: int) -> tuple[Tensor, Tensor]:
    """Return the words of whole sentences and which are real, (B, n) each; n is at least 1.

    BOS and EOS inside a sentence are read as unknown words.

    Args:
        others: see `TokenBatch.by_length`.
    """
    counts = batch.word_counts(others).to(batch.tokens.device)
    longest = max(1, int(counts.max()))
    words = pad(batch.tokens[1 : longest + 1].T, (0, max(0, longest + 1 - len(batch.tokens))), value=PADDING)
    real = torch.arange(longest, device=words.device) < counts[:, None]
    words = words.masked_fill((words == BOS) | (words == EOS), UNKNOWN)
    return words.masked_fill(~real, PADDING), real


def fixed_draws(words: Tensor) -> Tensor:
    """Return a number in [0, 1) for each word, (B, n), which depends only on its sentence and its place in it.

    Padding, which has the id PADDING, has no effect on other words. Integers are mixed as in splitmix64.
    """
    places = torch.arange(1, words.shape[1] + 1, device=words.device) * _MIX_INCREMENT
    sentences = _mixed((words + 1) * _mixed(places)).masked_fill(words == PADDING, 0).sum(1, keepdim=True)
    return (_mixed(sentences + places) & 0xFFFFFF).double() / (1 << 24)


# The constants of splitmix64, as signed numbers.
_MIX_INCREMENT = -0x61C8864680B583EB
_MIX_FIRST_FACTOR = -0x40A7B892E31B1A47
_MIX_SECOND_FACTOR = -0x6B2FB644ECCEEE15


def _mixed(values: Tensor) -> Tensor:
    """Return int64 values whose bits are mixed; products wrap around."""
    values = (values ^ _shifted(values, 30)) * _MIX_FIRST_FACTOR
    values = (values ^ _shifted(values, 27)) * _MIX_SECOND_FACTOR
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, places: int) -> Tensor:
    return (values >> places) & ((1 << (64 - places)) - 1)
