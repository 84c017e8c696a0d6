"""The kernels of inside.c, called on torch tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from syntaxlm.ops.inside.work import Work
from syntaxlm.ops.native import address

SOURCE = Path(__file__).with_name("inside.c")
BLOCK = 64  # the number of factors must be a multiple of this
LONGEST = 4096  # most words of a sentence
CACHED = 1 << 21  # inside probabilities per block, so that a block's charts stay in cache

_POINTERS = (
    "lengths", "begins", "starts", "counts", "inside", "children", "scales", "weights", "inside_grads",
    "children_grads", "marginals",
)  # fmt: skip


class _Chart(ctypes.Structure):
    """`Chart` of inside.c, field by field."""

    _fields_ = (
        ("size", ctypes.c_int64),
        ("half", ctypes.c_int),
        ("threads", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


class NativeKernels:
    """Compiled functions over a `Work`: float32 or bfloat16 on the CPU; contiguous; R a multiple of `BLOCK`."""

    def __init__(self, library: ctypes.CDLL, work: Work) -> None:
        assert work.size % BLOCK == 0
        assert work.scales.dtype == torch.float64
        self.library, self.work = library, work
        layout = work.layout
        tensors = {name: getattr(layout, name) for name in _POINTERS[:4]}
        tensors |= {name: getattr(work, name) for name in _POINTERS[4:]}
        self._chart = _Chart(
            size=work.size,
            half=work.inside.dtype == torch.bfloat16,
            threads=torch.get_num_threads(),
            **{name: address(tensor) for name, tensor in tensors.items()},
        )

    def inside(self, width: int, block: range) -> None:
        """o and scales of all spans of a width of some sorted sentences."""
        self._of_block(self.library.inside_width, width, block)

    def gather(self, width: int, block: range) -> None:
        """H of all spans of a width of some sorted sentences, from G of longer ones."""
        self._of_block(self.library.outside_width, width, block)

    def _of_block(self, function: Callable[..., None], width: int, block: range) -> None:
        function(ctypes.byref(self._chart), *map(ctypes.c_int64, (width, block.start, block.stop)))

    def scatter(self, width: int, block: range) -> None:
        """No copy is needed; see `gather`."""

    def span_marginals(self, rows: slice) -> Tensor:
        assert self.work.marginals is not None
        self.library.inside_marginals(ctypes.byref(self._chart), ctypes.c_int64(rows.start), ctypes.c_int64(rows.stop))
        return self.work.marginals[rows]
