"""Matrix products in autocast's precision.

Products of a chart have a different number of rows for every width of every batch. For bfloat16 on the CPU torch uses
oneDNN, which compiles a kernel for each new shape: 100 ms for a product of 1 ms. AMX tiles (kernels/tiles.c), if the
processor has them, take any number of rows; otherwise rows are padded to few numbers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from syntaxlm.ops.backend import KERNELS, call, library, threads

_TILES_PACKED, _TILES_INNER = 262144, 1024  # as in tiles.c


def product_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of matrix products: autocast's if it is on for a float32 tensor, else the tensor's own.

    Ops with their own backward call this once, in forward, because autocast does not apply inside them.
    """
    device = tensor.device.type
    if tensor.dtype == torch.float32 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def _has_packed_products() -> bool:
    """Return whether oneDNN's linear on a packed weight is available. It is private in torch, so it may disappear."""
    operators = torch.ops.mkldnn
    return torch.backends.mkldnn.is_available() and all(
        hasattr(operators, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
    )


_PACKED = _has_packed_products()


class RepeatedProduct:
    """x -> x weight^T + bias for one weight and many small x, without autograd.

    On the CPU the weight is packed once for oneDNN, which is 10 to 30% faster than using it directly (measured with 64
    rows, float32 and bfloat16).
    weight: (F, G); rows: number of rows of the products; bias: (F,) or None.
    """

    def __init__(self, weight: Tensor, rows: int, bias: Tensor | None = None) -> None:
        self.bias, self.dtype = bias, weight.dtype
        self.packed = _PACKED and weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
        weight = weight.contiguous()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, rows) if self.packed else weight

    def __call__(self, rows: Tensor) -> Tensor:
        if self.packed:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
            return product
        return linear(rows, self.weight, self.bias)


def large_product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return rows weight^T + bias, without autograd: (n, G), (F, G), (F,) or None -> (n, F), all of the same dtype.

    Uses oneDNN if available: on some processors it is twice as fast as torch's choice for large float32 matrices.
    For bfloat16, torch uses it anyway.
    """
    if _PACKED and rows.device.type == "cpu" and rows.dtype == torch.float32:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows.contiguous(), weight.contiguous(), bias, "none", [], ""
        )
        return product
    return linear(rows, weight, bias)


def product_into(weight: Tensor, columns: bool, tiled: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function (rows, out) that writes rows weight^T, or rows weight with `columns`, into `out`.

    For one weight and any numbers of rows.  tiled: whether to use tiles (`tiles_usable`).
    """
    if tiled:
        return TiledProduct(weight, columns)
    right = weight if columns else weight.T

    def product(rows: Tensor, out: Tensor) -> Tensor:
        if out.dtype == rows.dtype and not _compiled_per_shape(rows):
            return torch.mm(rows, right, out=out)
        return out.copy_(torch.mm(_padded(rows, 64), right)[: len(rows)])

    return product


def product_of_sums(left: Tensor, right: Tensor, tiled: bool = False) -> Tensor:
    """Return left^T right, the gradient of a weight: (n, F), (n, G) -> (F, G), at least float32."""
    if tiled:
        return tiled_product_of_sums(left, right)
    sums = torch.float64 if left.dtype == torch.float64 else torch.float32
    return torch.mm(_padded(left, 512).T, _padded(right, 512)).to(sums)


def _compiled_per_shape(rows: Tensor) -> bool:
    return rows.device.type == "cpu" and rows.dtype == torch.bfloat16


def _padded(rows: Tensor, step: int) -> Tensor:
    """Pad rows with zeros to a multiple of `step` if kernels are compiled per shape, to limit the number of shapes."""
    missing = -len(rows) % step if _compiled_per_shape(rows) else 0
    return pad(rows, (0, 0, 0, missing)) if missing else rows


@functools.cache
def _tiles() -> ctypes.CDLL | None:
    loaded = library(KERNELS / "tiles.c")
    return loaded if loaded is not None and loaded.tiles_usable() else None


def tiles_usable(*sizes: int) -> bool:
    """Return whether the processor has tiles and all sizes are multiples of 32."""
    return all(size % 32 == 0 for size in sizes) and _tiles() is not None


def _loaded_tiles() -> ctypes.CDLL:
    loaded = _tiles()
    if loaded is None:
        raise RuntimeError("this processor has no AMX tiles; check tiles_usable() first")
    return loaded


class TiledProduct:
    """x -> x w^T, or x -> x w with `columns`, for one w and many x. Needs `tiles_usable`.

    w: (F, G) bfloat16, contiguous, sizes multiples of 32.  x: (n, G), or (n, F) with `columns`.
    """

    def __init__(self, weight: Tensor, columns: bool = False) -> None:
        assert weight.dtype == torch.bfloat16
        self.inner, self.columns = weight.shape if columns else weight.T.shape
        self.packed = torch.empty(self.inner * self.columns, dtype=torch.bfloat16)
        self._library = _loaded_tiles()
        call(self._library.tiles_pack, weight, self.inner, self.columns, not columns, self.packed)
        self._scratch = torch.empty(max(_TILES_PACKED, 32 * self.inner), dtype=torch.bfloat16)

    def __call__(self, rows: Tensor, out: Tensor) -> Tensor:
        """Write into out: (n, columns), bfloat16 or float32. rows and out may be slices of columns of larger
        matrices.
        """
        assert rows.shape == (len(out), self.inner)
        assert out.shape[1] == self.columns
        call(
            self._library.tiles_product, *_strided(rows), len(rows), self.inner, self.packed, self.columns,
            *_strided(out), out.dtype == torch.bfloat16, self._scratch, threads(),
        )  # fmt: skip
        return out


def tiled_product_of_sums(left: Tensor, right: Tensor) -> Tensor:
    """Return left^T right: (n, F), (n, G) bfloat16 -> (F, G) float32; F and G multiples of 32. Needs `tiles_usable`."""
    (inner, rows), columns = left.shape, right.shape[1]
    out = torch.empty(rows, columns)
    scratch = torch.empty(min(_TILES_INNER, (inner + 31) // 32 * 32) * columns, dtype=torch.bfloat16)
    call(
        _loaded_tiles().tiles_product_of_sums, *_strided(left), *_strided(right), inner, rows, columns, out, scratch,
        threads(),
    )  # fmt: skip
    return out


def _strided(matrix: Tensor) -> tuple[ctypes.c_void_p, int]:
    """Return the address of a matrix whose rows are contiguous, and the distance of its rows."""
    assert matrix.stride(1) == 1
    return ctypes.c_void_p(matrix.data_ptr()), matrix.stride(0)
