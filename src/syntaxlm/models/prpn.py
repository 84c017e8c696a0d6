"""PRPN, the Parsing-Reading-Predict Network.

Shen, Lin, Huang, Courville 2018, "Neural Language Modeling by Jointly Learning Syntax and Lexicon". `form` selects the
paper's equations or those of the authors' released program where they differ. The ablations of the paper's table 3 are
settings: `parsing`, `reading_attention`, `predict_attention`; each removes one component and changes nothing else.
Shapes: T time, B batch, E embedding size, H hidden size, N memory slots, L look-back, n real tokens of a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, linear

from syntaxlm.core.settings import Bounds, Fraction, Layers, NonNegative, Positive, Size
from syntaxlm.models.abilities import Maps
from syntaxlm.models.backbone import (
    Backbone,
    BackboneOutput,
    Embedding,
    Mixture,
    NeuralConfig,
    neural_model,
    ranking_penalty,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import TreeLoss
from syntaxlm.models.layers import Linear, RowBatchNorm, Rows, dropout
from syntaxlm.models.structures import Distances, Structure
from syntaxlm.ops.dropout import dropout_mask
from syntaxlm.ops.gated_memory import GateComparison, attend, slot_gates
from syntaxlm.ops.memory_reader import ReaderWeights, read
from syntaxlm.ops.products import affine, product_dtype

_CACHED_ROWS = 4096  # rows that fit in the processor's cache


@dataclass(frozen=True)
class PRPNConfig(NeuralConfig):
    """Settings of PRPN: Shen et al. 2018, tables 1 (characters), 2 (words) and 3 (ablations).

    Attributes:
        embedding_size: features of a token's embedding
        hidden_size: features of each reading layer's state, and of the parsing network's convolution
        layers: layers of the reading network
        parsing: false: no distances; all gates are 1, so attention reaches all memory slots
        reading_attention: false: the reading network is a plain layer-normalised LSTM
        predict_attention: false: the decoder reads the top layer's state alone
        memory_slots: earlier steps that attention can reach
        look_back: earlier tokens that the parsing network reads
        residual_blocks: residual blocks of the predict network
        tied: the decoder shares the embedding's weight
        dropout: rate on embeddings and on the decoder's input
        layer_dropout: rate between layers, on keys, and before each convolution
        recurrent_dropout: rate on the attended hidden state, one mask per layer and chunk
        form: distances, their comparison, gates
        comparison: hardtanh (equation 6) or, in the released form only, a sigmoid
        resolution: difference at which two distances count as distinct (released form)
        temperature: tau of equation 6 (paper form); infinite in evaluation
        supervision: weight of the ranking loss of distances, with text.trees
        margin: by which a distance must exceed those within the constituents beside it, with supervision
        init_range: initial weights of embedding and decoder: uniform in (-init_range, init_range)
        mixture: softmaxes of a mixture, each of a projection of the output; 1: a plain softmax
    """

    name: Literal["prpn"] = "prpn"
    embedding_size: Size = 200
    hidden_size: Size = 400
    layers: Layers = 2
    parsing: bool = True
    reading_attention: bool = True
    predict_attention: bool = True
    memory_slots: Annotated[int, Bounds(ge=1, le=1024)] = 15
    look_back: Annotated[int, Bounds(ge=0, le=1024)] = 5
    residual_blocks: Annotated[int, Bounds(ge=0, le=100)] = 1
    tied: bool = True
    dropout: Fraction = 0.2
    layer_dropout: Fraction = 0.2
    recurrent_dropout: Fraction = 0.0
    form: Literal["released", "paper"] = "released"
    comparison: Literal["hard", "soft"] = "hard"
    resolution: Positive = 0.1
    temperature: Positive = 10.0
    supervision: NonNegative = 0.0
    margin: Positive = 0.1
    init_range: Positive = 0.01
    mixture: Mixture = 1

    @property
    def tree_loss(self) -> TreeLoss:
        return "distances"

    def contradictions(self) -> list[str]:
        faults = []
        if self.supervision and not self.parsing:
            faults.append(
                f"supervision: found {self.supervision}; expected 0, or parsing true, because trees order distances"
            )
        if self.parsing and self.hidden_size % 2:
            faults.append(
                f"hidden_size: found {self.hidden_size}; expected an even number, because each distance reads half"
            )
        if self.parsing and not self.has_attention:
            faults.append(
                "parsing: found true; expected false, or reading_attention or predict_attention, because distances"
                " only gate attention"
            )
        if self.form == "paper" and self.comparison == "soft":
            faults.append(
                "comparison: found soft; expected hard, or model.form released, because the paper has only hard"
            )
        return faults

    @property
    def has_attention(self) -> bool:
        return self.reading_attention or self.predict_attention


class _Windows(torch.autograd.Function):
    """The `size` last words of each row of a batch, oldest first: (L + T, B, E) -> (n, size E), with L = size - 1."""

    @staticmethod
    def forward(ctx: Any, words: Tensor, size: int, rows: Rows, dtype: torch.dtype) -> Tensor:
        ctx.rows = rows
        ctx.shape = words.shape
        ctx.dtype = words.dtype
        windows = words.new_empty(sum(rows.counts), size, words.shape[-1], dtype=dtype)
        for lag, window in enumerate(windows.unbind(1)):
            window.copy_(rows.of(words[lag : lag + rows.steps]))
        return windows.flatten(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        rows = ctx.rows
        features = ctx.shape[-1]
        result = grad.new_zeros(ctx.shape, dtype=ctx.dtype)
        for lag, window in enumerate(grad.unflatten(1, (-1, features)).unbind(1)):
            words = result[lag : lag + rows.steps].view(-1, features)
            if rows.index is None:
                words += window
            else:
                words.index_add_(0, rows.index, window.to(words.dtype))
        return result, None, None, None


class ParsingNetwork(nn.Module):
    """The distance of each token, from it and the L tokens before it, and an estimate of the next: equations 7, 8, 13.

    The estimate is only computed if the predict network's attention, which reads it, is on.
    """

    def __init__(self, config: PRPNConfig) -> None:
        super().__init__()
        size = config.embedding_size
        hidden = config.hidden_size
        outputs = 1 + config.predict_attention
        self.look_back = config.look_back
        self.rate = config.layer_dropout
        self.released = config.form == "released"
        # Released form: each distance reads its own half of the features; paper: both read all features.
        features = outputs * hidden // 2 if self.released else hidden
        self.convolution = nn.Conv1d(size, features, config.look_back + 1)
        self.norm = RowBatchNorm(features)
        self.head = nn.Conv1d(features, outputs, 1, groups=outputs if self.released else 1)

    def forward(self, embedded: Tensor, before: Tensor, rows: Rows) -> list[Tensor]:
        """Return d_t and d'_{t+1}, (n,) each.

        Args:
            embedded: (T, B, E).
            before: (L, B, E), the preceding embeddings.
        """
        words = dropout(torch.cat([before, embedded]), self.rate, self.training)
        head_bias = self.head.bias
        assert head_bias is not None
        kernel = self.convolution.weight.transpose(1, 2).flatten(1)
        windows: Tensor = _Windows.apply(words, self.look_back + 1, rows, product_dtype(words))
        features = affine(windows, kernel, self.convolution.bias)
        hidden = dropout(torch.relu(self.norm(features)), self.rate, self.training)
        # Not a matrix product: autocast would compute it in bfloat16, and `compare` scales differences up to 20-fold.
        values = (hidden.unflatten(1, (self.head.groups, -1)) * self.head.weight[..., 0]).sum(-1) + head_bias
        return list((torch.sigmoid(values) if self.released else torch.relu(values)).unbind(1))

    def distances_of_words(self, tokens: Tensor, embedding: Embedding) -> Tensor:
        """Return d_t of whole sentences, (T, B) -> (T, B), in evaluation mode.

        The convolution is linear in the embeddings, so each word type is projected once, and a token's features are the
        sum of L + 1 table rows. Only the features that d_t depends on are computed. Batch norm is part of the table.
        """
        steps, columns = tokens.shape
        norm = self.norm
        bias = self.convolution.bias
        head_bias = self.head.bias
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert bias is not None
        assert head_bias is not None

        # Batch norm is a scale and a shift of the features that the head reads.
        weight = self.head.weight[0, :, 0]
        count, taps = len(weight), self.look_back + 1
        scale = (norm.weight / torch.sqrt(norm.running_var + norm.eps))[:count]
        shift = (bias - norm.running_mean)[:count] * scale + norm.bias[:count]

        # One row of the table for each word type and tap, and a row of zeros for what precedes the sentence.
        types, words = torch.unique(tokens, return_inverse=True)
        kernel = self.convolution.weight[:count].permute(2, 0, 1) * scale[:, None]  # (L + 1, count, E)
        projected = linear(embedding(types), kernel.flatten(0, 1)).view(-1, count)
        table = torch.cat([projected, projected.new_zeros(1, count)])
        before = words.new_full((self.look_back, columns), -1)
        rows = torch.cat([before, words]).unfold(0, taps, 1)  # (T, B, L + 1), the last tap is the token itself
        rows = rows * taps + torch.arange(taps, device=tokens.device)
        rows = rows.masked_fill_(rows < 0, len(table) - 1).flatten(0, 1)
        values = [  # in parts that fit in the processor's cache
            torch.relu_(embedding_bag(part, table, mode="sum").add_(shift)) @ weight
            for part in rows.split(_CACHED_ROWS)
        ]
        logits = torch.cat(values).add_(head_bias[0]).view(steps, columns)
        return torch.sigmoid(logits) if self.released else torch.relu(logits)


class NormWeights(nn.Module):
    """Gain and bias of a layer norm that `read` computes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))


class ReadingLayer(nn.Module):
    """A layer-normalised LSTM whose recurrent input is attended from a gated memory: equations (9) to (12).

    Without reading attention h~ and c~ are h_{t-1} and c_{t-1}, and there is no key: a plain LSTM with the same dropout
    and layer norms (on the input and recurrent sides of the gates, and on the cell before its tanh). The same op
    computes it, with a memory of one step, the only one that attention can read.
    """

    def __init__(self, input_size: int, config: PRPNConfig, input_rate: float) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.input_rate = input_rate
        self.key_rate = config.layer_dropout
        self.recurrent_rate = config.recurrent_dropout
        self.key = Linear(input_size + hidden, hidden) if config.reading_attention else None
        self.input = Linear(input_size, 4 * hidden)
        self.input_norm = NormWeights(4 * hidden)
        self.recurrent = Linear(hidden, 4 * hidden)
        self.recurrent_norm = NormWeights(4 * hidden)
        self.cell_norm = NormWeights(hidden)

    def forward(
        self, inputs: Tensor, gates: Tensor | None, tapes: tuple[Tensor, Tensor], counts: list[int]
    ) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
        """Return hidden states, (n, H), updated tapes, and attention, (n, N).

        Args:
            inputs: (n, F).
            gates: (n, N).
            tapes: (N, B, H). Without reading attention, N is 1 and gates is None.
        """
        size, hidden = inputs.shape[-1], self.recurrent.in_features
        like = self.cell_norm.gain
        input_mask = output_mask = recurrent_mask = None
        if self.training and self.key_rate and self.key is not None:
            input_mask = dropout_mask((len(inputs), hidden), self.key_rate, like)
            output_mask = dropout_mask((len(inputs), hidden), self.key_rate, like)
        if self.training and self.recurrent_rate:
            recurrent_mask = dropout_mask((hidden,), self.recurrent_rate, like)
        input_gates = self.input(dropout(inputs, self.input_rate, self.training))
        if self.key is None:
            key_weight = None
            input_keys = like.new_zeros(len(inputs), hidden)
            gates = like.new_ones(len(inputs), 1)
        else:
            assert gates is not None
            key_weight = self.key.weight[:, size:]
            key_inputs = dropout(inputs, self.key_rate, self.training)
            input_keys = affine(key_inputs, self.key.weight[:, :size], self.key.bias).to(like.dtype)
        weights = ReaderWeights(
            key_weight,
            self.recurrent.weight,
            self.recurrent.bias,
            self.input_norm.gain,
            self.recurrent_norm.gain,
            self.input_norm.bias + self.recurrent_norm.bias,
            self.cell_norm.gain,
            self.cell_norm.bias,
            input_mask,
            output_mask,
            recurrent_mask,
        )
        return read(input_gates, input_keys, gates, tapes, weights, counts)


class ConvolutionBlock(nn.Module):
    """ReLU(x + BN(W2 drop(ReLU(BN(W1 x))))). (n, size) -> (n, size)."""

    def __init__(self, size: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.first, self.first_norm = Linear(size, size), RowBatchNorm(size)
        self.second, self.second_norm = Linear(size, size), RowBatchNorm(size)

    def forward(self, rows: Tensor) -> Tensor:
        inner = dropout(torch.relu(self.first_norm(self.first(rows))), self.rate, self.training)
        return torch.relu(rows + self.second_norm(self.second(inner)))


class PredictNetwork(nn.Module):
    """Maps the top layer's states to the decoder's input: attention by the next distance, residual blocks, projection.

    Without attention, blocks and projection read the state alone, so they are half as wide.
    """

    def __init__(self, config: PRPNConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.rate = config.layer_dropout
        self.key = Linear(hidden, hidden) if config.predict_attention else None
        size = 2 * hidden if config.predict_attention else hidden
        self.blocks = nn.Sequential(*(ConvolutionBlock(size, self.rate) for _ in range(config.residual_blocks)))
        self.projection = Linear(size, config.embedding_size)
        self.norm = RowBatchNorm(config.embedding_size)

    def attend(self, states: Tensor, gates: Tensor, tape: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the attended earlier states, (n, H), and the attention, (T, B, N).

        Args:
            states: (n, H).
            gates: (T, B, N).
            tape: (N, B, H).
        """
        assert self.key is not None
        keys = dropout(self.key(dropout(states, self.rate, self.training)), self.rate, self.training)
        attended, attention = attend(keys, rows.of(gates), states, tape, rows.counts)
        return attended, rows.padded(attention)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the decoder's input, (n, E), from states, with the attended ones if any, (n, H or 2H)."""
        hidden = dropout(self.blocks(rows), self.rate, self.training)
        return torch.tanh(self.norm(self.projection(hidden)))


@neural_model("prpn", PRPNConfig)
class PRPNBackbone(Backbone):
    """Parsing, reading and predict networks. The distances of the first gate the memory of the others."""

    mixes_lengths = True
    structure_type: type[Distances] | None = Distances
    distance_layers = 1
    has_maps = True

    def __init__(self, config: PRPNConfig) -> None:
        super().__init__()
        self.config = config
        self.output_size = config.embedding_size
        if not config.parsing:
            self.structure_type, self.distance_layers = None, 0
        self.has_maps = config.parsing or config.has_attention
        self.parser = ParsingNetwork(config) if config.parsing else None
        self.reader = nn.ModuleList(
            ReadingLayer(
                config.hidden_size if layer else config.embedding_size,
                config,
                config.layer_dropout if layer else config.dropout,
            )
            for layer in range(config.layers)
        )
        self.predictor = PredictNetwork(config)

    @property
    def comparison(self) -> GateComparison:
        """The comparison alpha of this form: scale, shift, hard or soft."""
        if not self.config.parsing:
            return GateComparison(1.0, 1.0, hard=True)  # 1 for equal distances, 0 for slots before the first step
        if self.config.form == "paper":
            return GateComparison(self.config.temperature if self.training else math.inf, 0.0, hard=True)
        if self.config.comparison == "hard":
            return GateComparison(2 / self.config.resolution, 1.0, hard=True)
        return GateComparison(10 / self.config.resolution, 5.0, hard=False)

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        config = self.config
        steps, columns, _ = embedded.shape
        before = self._initial_state(columns, embedded) if state is None else state
        rows = Rows(steps, columns, batch.lengths, embedded.device)
        after: dict[str, Tensor] = {}
        maps: dict[str, Tensor] = {}

        # The parsing network: a distance for each token, and an estimate of the distance of the next token.
        # Without a parsing network all distances are 0, so gates are 0 before the first step and 1 elsewhere.
        distances = next_distances = embedded.new_zeros(steps, columns)
        if self.parser is not None:
            distances, *estimate = map(rows.padded, self.parser(embedded, before["embeddings"], rows))
            next_distances = estimate[0] if estimate else distances
            after["embeddings"] = _last(before["embeddings"], embedded, config.look_back)
        if config.has_attention:
            after["distances"] = _last(before["distances"], distances, config.memory_slots)

        def gates_of(name: str, queries: Tensor) -> Tensor:
            """Return gates of the memory slots for these queries, (T, B, N); drawn if there are distances."""
            # The paper omits the comparison of a distance with itself, but not that of the next distance's estimate.
            count_self = config.form == "released" or queries is not distances
            tape, slots = before["distances"], config.memory_slots
            gates = slot_gates(queries, distances, tape, slots, self.comparison, count_self=count_self)
            if config.parsing:
                maps[name] = gates
            return gates

        # The reading network: layers that attend to the memory through its gates.
        hidden = rows.of(embedded)
        gates = rows.of(gates_of("memory gate", distances)) if config.reading_attention else None
        for layer, reading_layer in enumerate(self.reader):
            names = f"hidden.{layer}", f"cell.{layer}"
            hidden, tapes, attention = reading_layer(hidden, gates, (before[names[0]], before[names[1]]), rows.counts)
            after |= zip(names, tapes, strict=True)
            if config.reading_attention:
                maps[f"attention of layer {layer + 1}"] = rows.padded(attention)

        # The predict network: attention to earlier states through the gates of the next token.
        states = hidden
        if config.predict_attention:
            tape = before["top"] if "top" in before else before[f"hidden.{config.layers - 1}"]
            next_gates = gates_of("next gate", next_distances)
            attended, maps["predict attention"] = self.predictor.attend(hidden, next_gates, tape, rows)
            states = torch.cat([hidden, attended], dim=-1)
            if "top" in before:
                after["top"] = _last(tape, rows.padded(hidden), config.memory_slots)

        weight = config.supervision if self.training else 0.0
        return BackboneOutput(
            dropout(self.predictor(states), config.dropout, self.training),
            {name: part.detach() for name, part in after.items()},
            ranking_penalty(distances, batch, weight, config.margin),
            distances=distances.detach()[None] if config.parsing else None,
            maps=Maps({name: part.detach() for name, part in maps.items()}),
        )

    def _initial_state(self, columns: int, like: Tensor) -> dict[str, Tensor]:
        """Return zero embeddings, (L, B, E), and memory, (N, B, H); infinite distances, (N, B), close all gates."""
        config = self.config
        slots = config.memory_slots if config.reading_attention else 1
        tapes = [f"{tape}.{layer}" for layer in range(config.layers) for tape in ("hidden", "cell")]
        state = {name: like.new_zeros(slots, columns, config.hidden_size) for name in tapes}
        if config.parsing:
            state["embeddings"] = like.new_zeros(config.look_back, columns, config.embedding_size)
        if config.has_attention:
            state["distances"] = like.new_full((config.memory_slots, columns), math.inf)
        if config.predict_attention and not config.reading_attention:
            state["top"] = like.new_zeros(config.memory_slots, columns, config.hidden_size)
        return state

    def structure(self, batch: TokenBatch, embedding: Embedding) -> Structure:
        """Return distances of whole sentences, by the parsing network alone."""
        assert self.parser is not None
        return Distances(self.parser.distances_of_words(batch.tokens, embedding)[None])


def _last(before: Tensor, now: Tensor, count: int) -> Tensor:
    """Return the last `count` steps of a tape with new steps appended."""
    return torch.cat([before, now])[len(before) + len(now) - count :]
