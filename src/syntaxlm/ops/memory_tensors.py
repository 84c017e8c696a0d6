"""The tensors that forward and backward of the gated memory share, with each other and with kernels/gated_memory.c.

Fields of the named tuples have the names of the fields of the struct of C. Shapes: see `gated_memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Structure
from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.backend import c_struct, filled

# The fields of struct Layer in kernels/gated_memory.c, in its order.
_Layer = c_struct(
    "hidden slots columns length",
    "starts history keys attentions exponentials totals largest cell_reads befores attended activations"
    " input_means input_scales input_factors means scales factors cell_means cell_scales cell_factors cell_tanhs"
    " states gates input_gain gain bias cell_gain cell_bias key_input_mask key_output_mask input_keys inputs"
    " output_grads key_grads slot_grads score_grads read_grads input_grads recurrent_grads key_grads_half carried"
    " history_grads state_grads sums",
)


class WindowShape(NamedTuple):
    """The sizes of a chunk and of its memory.

    Attributes:
        hidden: H.
        slots: N.
        columns: B.
        length: N + T, steps of the history.
    """

    hidden: int
    slots: int
    columns: int
    length: int

    @staticmethod
    def of(history: Tensor, keys: Tensor, attentions: Tensor) -> WindowShape:
        return WindowShape(keys.shape[1], attentions.shape[1], *history.shape[:2])


def layer_struct(tensors: Mapping[str, Tensor | None], shape: WindowShape, dtype: torch.dtype) -> Structure:
    """Return the struct of tensors, which must outlive it; fields without a tensor are null.

    Args:
        tensors: by the name of their field.
        shape: of the history.
        dtype: of the matrix products.
    """
    return filled(_Layer, tensors, **shape._asdict(), half=dtype == torch.bfloat16)


def first_rows(counts: Sequence[int]) -> Tensor:
    """Return the first row of each step, and the number of rows: (T + 1,)."""
    return torch.tensor([0, *counts]).cumsum(0)


# ---- the reading network


class ReadSteps(NamedTuple):
    """What the steps of forward write for backward, one row per token, and the tensors that both of them read.

    Attributes:
        history: (B, N + T, 2H), [h ; c] of the N steps before the chunk, then of the chunk.
        keys: (n, H).
        attentions: (n, N), oldest slot first, as all slots here.
        exponentials: (n, N), exp(score - largest score).
        totals: (n,), sum of the gated exponentials, by which the attention is divided.
        largest: (n,) int64, the slot with the largest score.
        cell_reads: (n, H), attended cells.
        befores: (n, H), input of the key's product: the masked hidden state of the step before; in its dtype.
        attended: (n, H), input of the gates' product: attended hidden states; in its dtype.
        activations: (n, 4H), the gates i, f, g, o after their activation.
        scales: (n,), of the layer norm of the recurrent side; see `normalise`.
        factors: (n,), of the layer norm of the recurrent side.
        cell_scales: (n,), of the layer norm of the cell.
        cell_factors: (n,), of the layer norm of the cell.
        cell_tanhs: (n, H), tanh of the normalised cell.
        gates: (n, N).
        input_gain: (4H,), as the next two from `ReaderWeights`.
        gain: (4H,).
        cell_gain: (H,).
        key_input_mask: (n, H), or None.
        key_output_mask: (n, H), or None.
        input_scales: (n,) or (n, 1), of the layer norm of the input side.
        input_factors: (n,) or (n, 1), of the layer norm of the input side.
    """

    history: Tensor
    keys: Tensor
    attentions: Tensor
    exponentials: Tensor
    totals: Tensor
    largest: Tensor
    cell_reads: Tensor
    befores: Tensor
    attended: Tensor
    activations: Tensor
    scales: Tensor
    factors: Tensor
    cell_scales: Tensor
    cell_factors: Tensor
    cell_tanhs: Tensor
    gates: Tensor
    input_gain: Tensor
    gain: Tensor
    cell_gain: Tensor
    key_input_mask: Tensor | None
    key_output_mask: Tensor | None
    input_scales: Tensor
    input_factors: Tensor


class TorchNorms(NamedTuple):
    """Normalised rows that backward needs in torch.

    Attributes:
        inputs: (n, 4H), the input side of the gates.
        gates: (n, 4H), the recurrent side of the gates.
        cells: (n, H).
    """

    inputs: Tensor
    gates: Tensor
    cells: Tensor


class CompiledNorms(NamedTuple):
    """What backward computes normalised rows from in C.

    Attributes:
        inputs: (n, 4H), the input side of the gates, in the dtype of products.
        input_means: (n,).
        means: (n,), of the recurrent side of the gates.
        cell_means: (n,).
    """

    inputs: Tensor
    input_means: Tensor
    means: Tensor
    cell_means: Tensor


class ForwardTensors(NamedTuple):
    """The tensors that only forward uses.

    Attributes:
        states: (n, H), the hidden states, which forward writes.
        input_keys: (n, H), the input side of the keys.
        bias: (4H,), of the gates.
        cell_bias: (H,).
    """

    states: Tensor
    input_keys: Tensor
    bias: Tensor
    cell_bias: Tensor


class ReadGradients(NamedTuple):
    """Gradients of the rows, which the steps of backward write.

    Attributes:
        output_grads: (n, H), of the hidden states as outputs; it is only read.
        key_grads: (n, H).
        key_grads_half: (n, H), the same in the dtype of products.
        slot_grads: (n, N), of the gates of the slots.
        recurrent_grads: (n, 4H), of the gates' product, in its dtype.
    """

    output_grads: Tensor
    key_grads: Tensor
    key_grads_half: Tensor
    slot_grads: Tensor
    recurrent_grads: Tensor


class ChunkGradients(NamedTuple):
    """Gradients that are complete after the first step.

    Attributes:
        tape: (B, N, 2H); None if it is not needed.
        inputs: (n, 4H), of the input side of the gates.
        weight_rows: (_, 18H), rows whose sum are the gradients of input gain, gain, bias, recurrent bias, cell gain and
            cell bias.
    """

    tape: Tensor | None
    inputs: Tensor
    weight_rows: Tensor


# ---- the predict network


class AttentionSteps(NamedTuple):
    """What the predict network's attention writes for backward.

    Attributes:
        history: (B, N + T, H), hidden states. The others: see `ReadSteps`.
        keys: (n, H).
        attentions: (n, N).
        exponentials: (n, N).
        totals: (n,).
        largest: (n,) int64.
        gates: (n, N).
    """

    history: Tensor
    keys: Tensor
    attentions: Tensor
    exponentials: Tensor
    totals: Tensor
    largest: Tensor
    gates: Tensor
