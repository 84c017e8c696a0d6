"""The recurrences of other cells than the LSTM's: the recurrent highway network, and the cell of NAS.

Zilly, Srivastava, Koutník, Schmidhuber 2016, "Recurrent Highway Networks", section 4, with coupled gates;
Zoph, Le 2016, "Neural Architecture Search with Reinforcement Learning", in the form of TensorFlow's NASCell.
A step is its equations, differentiated by autograd. Only the gradient of the recurrent weight is not: it is one product
at the end, because adding that of each step rewrites the weight T times, in bfloat16 with T rounding errors.
In autocast, products are in its dtype; states and gates keep that of the state.

Shapes: B batch, D neurons, F gates, L products of a step, n real tokens; r rows, the columns that are real at a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from syntaxlm.ops.backend import applied
from syntaxlm.ops.on_lstm import Recurrence
from syntaxlm.ops.products import large_product, product_dtype

States = tuple[Tensor, ...]
Product = Callable[[int, Tensor], Tensor]
"""Of a layer number and states, (r, D) -> (r, F), with the bias."""


def highway(inputs: Tensor, recurrent: Tensor, bias: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
    """Return a recurrent highway layer over a sequence: the state passes L highway layers at each step.

    For l = 1 to L, with s_0 the last state of the previous step and [x_h; x_t] read in the first of them only:
    h = tanh(x_h + R_h s_{l-1} + b_h), t = sigmoid(x_t + R_t s_{l-1} + b_t), s_l = h t + s_{l-1} (1 - t).

    Rows are real tokens, time-major: step t has the first counts[t] columns; counts never increase.

    Args:
        inputs: (n, 2D), the products of the inputs, h before t.
        recurrent: (L, 2D, D).
        bias: (L, 2D).
        state: the hidden state before the first step, (B, D).
    """

    def step(product: Product, read: Tensor, hidden: Tensor) -> States:
        # s_l = h t + s_{l-1} (1 - t)
        for number in range(len(recurrent)):
            gates = product(number, hidden)
            h, t = (gates if number else gates + read).chunk(2, dim=-1)
            hidden = torch.lerp(hidden, torch.tanh(h), torch.sigmoid(t))
        return (hidden,)

    return _unrolled(step, inputs, recurrent, bias, state, counts)


def nas(inputs: Tensor, recurrent: Tensor, bias: Tensor, state: States, counts: Sequence[int]) -> Recurrence:
    """Return a layer of the cell found by neural architecture search over a sequence.

    With x_k the k-th of the eight products of the input, u_k that of the state, and z_k = x_k + u_k:
    c_t = tanh(tanh(sigmoid(z_0) relu(z_1)) + c_{t-1}) tanh(sigmoid(z_2) + relu(x_3 u_3)),
    h_t = tanh(c_t tanh(tanh(tanh(z_4) sigmoid(z_5)) + sigmoid(tanh(z_6) + sigmoid(z_7)))).

    Args:
        inputs: (n, 8D), the products of the inputs.
        recurrent: (8D, D).
        bias: (8D,), of u.
        state: hidden and cell before the first step, each (B, D).
        counts: see `highway`.
    """

    def step(product: Product, read: Tensor, hidden: Tensor, cell: Tensor) -> States:
        # c_t = tanh(tanh(s(z0) relu(z1)) + c_{t-1}) tanh(s(z2) + relu(x3 u3)), and h_t = tanh(c_t tanh(...))
        recurrent_side = product(0, hidden)
        x, u, z = (part.chunk(8, dim=-1) for part in (read, recurrent_side, read + recurrent_side))
        kept = torch.tanh(torch.tanh(torch.sigmoid(z[0]) * torch.relu(z[1])) + cell)
        cell = kept * torch.tanh(torch.sigmoid(z[2]) + torch.relu(x[3] * u[3]))
        written = torch.tanh(torch.tanh(z[4]) * torch.sigmoid(z[5]))
        shown = torch.tanh(written + torch.sigmoid(torch.tanh(z[6]) + torch.sigmoid(z[7])))
        return torch.tanh(cell * shown), cell

    return _unrolled(step, inputs, recurrent[None], bias[None], state, counts)


def _unrolled(
    step: Callable[..., States], inputs: Tensor, recurrent: Tensor, bias: Tensor, state: States, counts: Sequence[int]
) -> Recurrence:
    """Apply a step to the columns that have not ended.

    Args:
        step: (product, inputs, *state) -> state, hidden first.
    """
    hidden, *after = applied(_Unrolled, step, tuple(counts), inputs.to(state[0].dtype), recurrent, bias, *state)
    return Recurrence(hidden, tuple(after))


class _Unrolled(torch.autograd.Function):
    """Its graph has the bias of each single product as a leaf, whose gradient is that of the product."""

    @staticmethod
    def forward(
        ctx: Any,
        step: Callable[..., States],
        counts: tuple[int, ...],
        inputs: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        *state: Tensor,
    ) -> States:
        keep = any(ctx.needs_input_grad)
        weights = recurrent.to(product_dtype(recurrent)).unbind()
        biases: list[list[Tensor]] = [[] for _ in weights]
        befores: list[list[Tensor]] = [[] for _ in weights]

        def product(number: int, hidden: Tensor) -> Tensor:
            leaf = bias[number].detach().expand(len(hidden), -1).requires_grad_(keep)
            low = hidden.to(weights[number].dtype)
            if keep:
                biases[number].append(leaf)
                befores[number].append(low.detach())
            return linear(low, weights[number]).to(leaf.dtype) + leaf

        with torch.set_grad_enabled(keep):
            leaves = [part.detach().requires_grad_(keep) for part in (inputs, *state)]
            outputs, state = [], tuple(leaves[1:])
            for count, read in zip(counts, leaves[0].split(counts), strict=True):
                new = step(product, read, *(part[:count] for part in state))
                outputs.append(new[0])
                state = tuple(torch.cat([part, before[count:]]) for part, before in zip(new, state, strict=True))
            results = torch.cat(outputs), *state
        ctx.leaves = leaves
        ctx.results = results
        ctx.biases = biases
        ctx.befores = befores
        return tuple(part.detach() for part in results)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        leaves = [*ctx.leaves, *(leaf for layer_biases in ctx.biases for leaf in layer_biases)]
        leaf_grads = torch.autograd.grad(ctx.results, leaves, grads, retain_graph=True)
        inputs_grad, *state_grads = leaf_grads[: len(ctx.leaves)]

        # The gradients of the products of each layer, at all steps, give the gradient of its weight in one product.
        by_layer = leaf_grads[len(ctx.leaves) :]
        steps = len(ctx.biases[0])
        product_grads = [torch.cat(by_layer[first : first + steps]) for first in range(0, len(by_layer), steps)]
        weight_grads = [
            large_product(grad.to(part[0].dtype).T, torch.cat(part).T).to(grad.dtype)
            for grad, part in zip(product_grads, ctx.befores, strict=True)
        ]
        bias_grad = torch.stack([grad.sum(0) for grad in product_grads])
        return None, None, inputs_grad, torch.stack(weight_grads), bias_grad, *state_grads
