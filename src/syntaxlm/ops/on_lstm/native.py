"""The steps of the recurrence in C, forward and backward, except their matrix products: see on_lstm.c."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from syntaxlm.ops.native import address
from syntaxlm.ops.on_lstm.types import Gradients, Kept, Made

SOURCE = Path(__file__).with_name("on_lstm.c")


class NativeForward:
    """See `types.Forward`. input_gates: (n, F); hidden, cell: (B, D); chunk: C; counts: columns of each step."""

    def __init__(
        self,
        library: ctypes.CDLL,
        input_gates: Tensor,
        hidden: Tensor,
        cell: Tensor,
        chunk: int | None,
        counts: Sequence[int],
    ) -> None:
        (total, width), (columns, size), new = input_gates.shape, hidden.shape, hidden.new_empty
        befores = torch.empty(total, size, dtype=input_gates.dtype)
        befores[: counts[0]] = hidden[: counts[0]]
        cells = new(columns + total, size)
        cells[:columns] = cell
        self._made = Made(Kept(befores, cells, new(total, width)), new(total, size), new(total), new(total))
        self._function, self._starts, self._steps = library.on_lstm_forward, (0, *accumulate(counts)), len(counts)
        self._tensors = {
            "starts": torch.tensor(self._starts),
            "input_gates": input_gates,
            "gates": self._made.kept.gates,
            "cells": cells,
            "befores": befores,
            "states": self._made.states,
            "distances": self._made.distances,
            "input_distances": self._made.input_distances,
        }
        self._layer = _layer(size, columns, chunk, befores.dtype, self._tensors)

    def before(self, t: int) -> Tensor:
        return self._made.kept.befores[self._starts[t] : self._starts[t + 1]]

    def step(self, t: int, product: Tensor) -> None:
        _call(self._function, self._layer, t, self._steps, product)

    def made(self) -> Made:
        return self._made


class NativeBackward:
    """See `types.Backward`. chunk: C."""

    def __init__(
        self, library: ctypes.CDLL, kept: Kept, grads: Gradients, chunk: int | None, counts: Sequence[int]
    ) -> None:
        (total, size), columns = kept.befores.shape, len(grads.cells)
        self._gate_grads = torch.empty(total, kept.gates.shape[1], dtype=kept.befores.dtype)
        self._cell_grads = grads.cells.clone()
        self._function, self._starts, self._steps = library.on_lstm_backward, (0, *accumulate(counts)), len(counts)
        self._tensors = {
            "starts": torch.tensor(self._starts),
            "befores": kept.befores,
            "cells": kept.cells,
            "gates": kept.gates,
            "output_grads": grads.states,
            "last_hidden_grads": grads.hidden,
            "cell_grads": self._cell_grads,
            "gate_grads": self._gate_grads,
        }
        self._layer = _layer(size, columns, chunk, kept.befores.dtype, self._tensors)

    def step(self, t: int, product: Tensor | None) -> Tensor:
        _call(self._function, self._layer, t, self._steps, product)
        return self._gate_grads[self._starts[t] : self._starts[t + 1]]

    def ended(self) -> tuple[Tensor, Tensor]:
        return self._gate_grads, self._cell_grads


def _call(function: ctypes._NamedFuncPointer, layer: _Layer, t: int, steps: int, product: Tensor | None) -> None:
    function(ctypes.byref(layer), ctypes.c_int64(t), ctypes.c_int64(steps), address(product))


_INTEGERS = ("size", "masters", "chunk", "columns")
_POINTERS = (
    "starts", "input_gates", "gates", "cells", "befores", "states", "distances", "input_distances", "output_grads",
    "last_hidden_grads", "cell_grads", "gate_grads",
)  # fmt: skip


class _Layer(ctypes.Structure):
    """The struct `Layer` of on_lstm.c, which the C functions read and write."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _INTEGERS),
        ("half", ctypes.c_int),
        ("threads", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


def _layer(
    size: int, columns: int, chunk: int | None, dtype: torch.dtype, tensors: Mapping[str, Tensor | None]
) -> _Layer:
    """Return the struct over contiguous tensors, which must outlive it."""
    return _Layer(
        size=size,
        masters=0 if chunk is None else size // chunk,
        chunk=chunk or 0,
        columns=columns,
        half=dtype == torch.bfloat16,
        threads=torch.get_num_threads(),
        **{name: address(tensor) for name, tensor in tensors.items()},
    )
