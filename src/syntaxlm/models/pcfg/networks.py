"""Networks that compute rule probabilities from embeddings of symbols.

Two kinds. `standard` is the network of the papers on neural PCFGs: residual blocks of relu layers, then a linear layer.
`collapse-relaxing` follows Park and Kim (2025), whose aim is that the rule distributions of different symbols do not
become equal: blocks normalise before each layer and end without an activation, the last block's output is normalised,
and the output layer has no bias and rows of length 1, so that neither the norm of a symbol's features nor that of a
child's weights can decide the distribution of every parent.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, relu

from syntaxlm.models.layers import Linear, RMSNorm
from syntaxlm.ops.softmax import emission_log_probs
from syntaxlm.ops.unit_rows import unit_rows

RuleNetwork = Literal["standard", "collapse-relaxing"]


class ResidualLayer(Linear):
    """x + relu(W x + b): (..., d) -> (..., d)."""

    def forward(self, input: Tensor) -> Tensor:
        return relu(super().forward(input)) + input


class ResidualBlock(nn.Module):
    """x + relu(second(relu(first(x)))): (..., d) -> (..., d)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.second = Linear(size, size), Linear(size, size)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + relu(self.second(relu(self.first(inputs))))


class NormalisedBlock(nn.Module):
    """x + second(gelu(norm(first(gelu(norm(x)))))): (..., d) -> (..., d)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first_norm, self.first = RMSNorm(size), Linear(size, size)
        self.second_norm, self.second = RMSNorm(size), Linear(size, size)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(gelu(self.first_norm(inputs)))
        return inputs + self.second(gelu(self.second_norm(hidden)))


class UnitLength(nn.Module):
    """Divides vectors by their length: (..., d) -> (..., d)."""

    def forward(self, inputs: Tensor) -> Tensor:
        return unit_rows(inputs)


class UnitRows(nn.Module):
    """A linear layer without bias, whose rows are divided by their length: (..., d) -> (..., outputs)."""

    bias = None

    def __init__(self, size: int, outputs: int) -> None:
        super().__init__()
        self.directions = nn.Parameter(torch.empty(outputs, size))

    @property
    def weight(self) -> Tensor:
        """(outputs, d), rows of length 1."""
        return unit_rows(self.directions)

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight)


def rule_network(
    kind: RuleNetwork, input_size: int, size: int, blocks: int, output_size: int | None = None
) -> nn.Sequential:
    """Return a linear layer, residual blocks and, if `output_size` is given, an output layer.

    Args:
        kind: standard or collapse-relaxing.
        input_size: features of the input.
        size: features of the hidden layers.
        blocks: number of residual blocks.
        output_size: number of scores.
    """
    layers: list[nn.Module] = [Linear(input_size, size)]
    if kind == "standard":
        layers += [ResidualBlock(size) for _ in range(blocks)]
        layers += [] if output_size is None else [nn.Linear(size, output_size)]
    else:
        layers += [*(NormalisedBlock(size) for _ in range(blocks)), RMSNorm(size)]
        layers += [] if output_size is None else [UnitRows(size, output_size)]
    return nn.Sequential(*layers)


def network_emissions(network: nn.Sequential, inputs: Tensor, columns: Tensor) -> Tensor:
    """Return log p(w | T) from a network whose last layer maps to words: (t, features), (u,) -> (u, t)."""
    words = network[-1]
    assert isinstance(words, nn.Linear | UnitRows)
    return emission_log_probs(network[:-1](inputs), words.weight, words.bias, columns)


def embedding(count: int, size: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(count, size)))


def initialise(module: nn.Module) -> None:
    """Initialise matrices Xavier-uniformly, which matters according to the papers; biases keep torch's default."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter)
