"""A plain LSTM or Elman RNN language model, nn.LSTM or nn.RNN inside: the baseline of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.core.settings import Fraction, Layers, NonNegative, Positive, Size
from syntaxlm.models.backbone import (
    Backbone,
    BackboneOutput,
    Cutoffs,
    Mixture,
    NeuralConfig,
    neural_model,
    softmax_faults,
    with_tree_states,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import TreeLoss
from syntaxlm.models.layers import Linear, Rows, dropout
from syntaxlm.models.structures import SplitScores
from syntaxlm.ops.on_lstm import CellWeights, recurrence


@dataclass(frozen=True)
class LSTMConfig(NeuralConfig):
    """Settings of the LSTM language model (Hochreiter & Schmidhuber 1997) and the simple RNN (Elman 1990).

    Attributes:
        cell: an LSTM, or with rnn the tanh network of Elman 1990
        embedding_size: features of a token's embedding
        hidden_size: features of each layer's state
        layers: number of stacked layers
        tied: whether the decoder shares the embedding's weight; a projection is added if their sizes differ
        dropout: rate on embeddings and on the decoder's input
        layer_dropout: rate between layers
        supervision: weight of the loss of TreeReg on the last layer's states, with text.trees
        init_range: initial weights of embedding and decoder are uniform in (-init_range, init_range)
        cutoffs: word ids from which embeddings are a quarter, a sixteenth, ... as large, for an adaptive softmax
        mixture: number of softmaxes of a mixture, each of a projection of the last states; 1 is a plain softmax
    """

    name: Literal["lstm"] = "lstm"
    cell: Literal["lstm", "rnn"] = "lstm"
    embedding_size: Size = 200
    hidden_size: Size = 400
    layers: Layers = 2
    tied: bool = True
    dropout: Fraction = 0.2
    layer_dropout: Fraction = 0.2
    supervision: NonNegative = 0.0
    init_range: Positive = 0.1
    cutoffs: Cutoffs = ()
    mixture: Mixture = 1

    @property
    def tree_loss(self) -> TreeLoss:
        return "states"

    def contradictions(self) -> list[str]:
        return softmax_faults(self.cutoffs, self.tied, self.mixture)


@neural_model("lstm", LSTMConfig)
class LSTMBackbone(Backbone):
    """Stacked recurrent layers, and a projection to the embedding size if tied weights need one."""

    structure_type: type[SplitScores] | None = SplitScores

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.config = config
        if not config.supervision:
            self.structure_type = None
        cell = nn.RNN if config.cell == "rnn" else nn.LSTM
        self.lstm = cell(  # the name of the weights in stored models
            config.embedding_size,
            config.hidden_size,
            config.layers,
            dropout=config.layer_dropout if config.layers > 1 else 0.0,
        )
        projected = config.tied and config.mixture == 1 and config.hidden_size != config.embedding_size
        self.projection = Linear(config.hidden_size, config.embedding_size) if projected else nn.Identity()
        self.output_size = config.embedding_size if projected else config.hidden_size

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        rate = self.config.dropout
        inputs = dropout(embedded, rate, self.training)
        rows = Rows(len(inputs), inputs.shape[1], batch.lengths, inputs.device)
        if self.config.cell == "lstm" and inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            tokens, after = self._read_rows(rows.of(inputs), rows, state)
            hidden = rows.padded(tokens)
        else:
            hidden, after = self._read(inputs, state)
            tokens = rows.of(hidden)
        tokens = self.projection(dropout(tokens, rate, self.training))
        output = BackboneOutput(tokens, {name: part.detach() for name, part in after.items()})
        return with_tree_states(output, hidden, batch, self.config.supervision, self.training)

    def _read(self, inputs: Tensor, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the states of the last layer, (T, B, D), and the state for the next batch."""
        if self.config.cell == "rnn":
            hidden, last = self.lstm(inputs, None if state is None else state["hidden"])
            return hidden, {"hidden": last}
        if len(inputs) == 1 and state is not None and not torch.is_grad_enabled() and inputs.device.type == "cpu":
            return self._read_word(inputs[0], state)
        hidden, (last, cell) = self.lstm(inputs, None if state is None else (state["hidden"], state["cell"]))
        return hidden, {"hidden": last, "cell": cell}

    def _read_word(self, inputs: Tensor, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what `_read` does for one word of each column, (B, E) -> (1, B, D), as in sampling.

        nn.LSTM copies its weights into another layout at each call, which takes longer than a single step.
        """
        assert state is not None
        hidden, after = inputs, []
        for number, weights in enumerate(self.lstm.all_weights):
            if number:
                hidden = dropout(hidden, self.config.layer_dropout, self.training)
            after.append(torch.lstm_cell(hidden, (state["hidden"][number], state["cell"][number]), *weights))
            hidden = after[-1][0]
        last, cell = (torch.stack(parts) for parts in zip(*after, strict=True))
        return hidden[None], {"hidden": last, "cell": cell}

    def _read_rows(self, inputs: Tensor, rows: Rows, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what `_read` does for real tokens alone, (n, E) -> (n, D).

        In training with bfloat16 on a CPU, this needs two thirds of the time of nn.LSTM.
        """
        size = self.config.hidden_size
        before = [inputs.new_zeros(self.config.layers, rows.columns, size) for _ in range(2)]
        if state is not None:
            before = [state["hidden"], state["cell"]]
        after: list[tuple[Tensor, ...]] = []
        hidden = inputs
        for number, layer in enumerate(self.lstm.all_weights):
            if number:
                hidden = dropout(hidden, self.config.layer_dropout, self.training)
            input_weight, recurrent_weight, input_bias, recurrent_bias = layer
            weights = CellWeights(input_weight, recurrent_weight, input_bias + recurrent_bias, chunk=None)
            result = recurrence(hidden, weights, (before[0][number], before[1][number]), rows.counts)
            hidden = result.hidden
            after.append(result.state)
        last, cell = (torch.stack(parts) for parts in zip(*after, strict=True))
        return hidden, {"hidden": last, "cell": cell}
