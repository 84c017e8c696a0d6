"""Products of bfloat16 matrices in AMX tiles if the processor has them, otherwise by torch.

The products of a chart have a different number of rows for every width of every batch. oneDNN, which torch uses,
compiles a kernel for each new shape, 100 ms for a product of 1 ms. Here one kernel handles any number of rows, and the
right factor is packed once for all products.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from syntaxlm.ops.native import address, library

_SOURCE = Path(__file__).with_name("tiles.c")
_PACKED, _INNER = 262144, 1024  # as in tiles.c


@functools.cache
def _library() -> ctypes.CDLL | None:
    loaded = library(_SOURCE)
    return loaded if loaded is not None and loaded.tiles_usable() else None


def tiles_usable(*sizes: int) -> bool:
    """Return whether the processor has tiles and all sizes are multiples of 32."""
    return all(size % 32 == 0 for size in sizes) and _library() is not None


class TiledProduct:
    """x -> x w^T, or x -> x w with `columns`, for one w and many x. Needs `tiles_usable`.

    w: (F, G) bfloat16, contiguous, sizes multiples of 32.  x: (n, G), or (n, F) with `columns`.
    """

    def __init__(self, weight: Tensor, columns: bool = False) -> None:
        assert weight.dtype == torch.bfloat16
        self.inner, self.columns = weight.shape if columns else weight.T.shape
        self.packed = torch.empty(self.inner * self.columns, dtype=torch.bfloat16)
        self._call = _require()
        self._call.tiles_pack(
            address(weight), ctypes.c_int64(self.inner), ctypes.c_int64(self.columns), ctypes.c_int(not columns),
            address(self.packed),
        )  # fmt: skip
        self._scratch = torch.empty(max(_PACKED, 32 * self.inner), dtype=torch.bfloat16)

    def __call__(self, rows: Tensor, out: Tensor) -> Tensor:
        """Return out: (n, columns), bfloat16 or float32. rows and out may be slices of columns of larger matrices."""
        assert rows.stride(1) == out.stride(1) == 1
        assert rows.shape == (len(out), self.inner)
        assert out.shape[1] == self.columns
        count = len(rows)
        self._call.tiles_product(
            ctypes.c_void_p(rows.data_ptr()), ctypes.c_int64(rows.stride(0)), ctypes.c_int64(count),
            ctypes.c_int64(self.inner), address(self.packed), ctypes.c_int64(self.columns),
            ctypes.c_void_p(out.data_ptr()), ctypes.c_int64(out.stride(0)), ctypes.c_int(out.dtype == torch.bfloat16),
            address(self._scratch), torch.get_num_threads(),
        )  # fmt: skip
        return out


def tiled_product_of_sums(left: Tensor, right: Tensor) -> Tensor:
    """Return left^T right: (n, F), (n, G) bfloat16 -> (F, G) float32; F and G multiples of 32. Needs `tiles_usable`."""
    (inner, rows), columns = left.shape, right.shape[1]
    assert left.stride(1) == right.stride(1) == 1
    out = torch.empty(rows, columns)
    scratch = torch.empty(min(_INNER, (inner + 31) // 32 * 32) * columns, dtype=torch.bfloat16)
    _require().tiles_product_of_sums(
        ctypes.c_void_p(left.data_ptr()), ctypes.c_int64(left.stride(0)), ctypes.c_void_p(right.data_ptr()),
        ctypes.c_int64(right.stride(0)), ctypes.c_int64(inner), ctypes.c_int64(rows), ctypes.c_int64(columns),
        address(out), address(scratch), torch.get_num_threads(),
    )  # fmt: skip
    return out


def repeated_product(weight: Tensor, columns: bool, tiled: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """(rows, out) -> out = rows weight^T, or rows weight with `columns`; by `TiledProduct` or by torch."""
    if tiled:
        return TiledProduct(weight, columns)
    right = weight if columns else weight.T

    def product(rows: Tensor, out: Tensor) -> Tensor:
        if out.dtype == rows.dtype and not _compiled_per_shape(rows):
            return torch.mm(rows, right, out=out)
        return out.copy_(torch.mm(_padded(rows, 64), right)[: len(rows)])

    return product


def product_of_sums(left: Tensor, right: Tensor, tiled: bool) -> Tensor:
    """Return left^T right: (n, F), (n, G) -> (F, G), at least float32."""
    if tiled:
        return tiled_product_of_sums(left, right)
    sums = torch.float64 if left.dtype == torch.float64 else torch.float32
    return torch.mm(_padded(left, 512).T, _padded(right, 512)).to(sums)


def _compiled_per_shape(rows: Tensor) -> bool:
    """Return whether torch computes products of this dtype with oneDNN, which compiles a kernel per shape."""
    return rows.device.type == "cpu" and rows.dtype == torch.bfloat16


def _padded(rows: Tensor, step: int) -> Tensor:
    """Pad rows with zeros to a multiple of `step` if kernels are compiled per shape, to limit the number of shapes."""
    missing = -len(rows) % step if _compiled_per_shape(rows) else 0
    return torch.nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def _require() -> ctypes.CDLL:
    loaded = _library()
    if loaded is None:
        raise RuntimeError("this processor has no AMX tiles; check tiles_usable() first")
    return loaded
