"""Matrix products in autocast's precision.

Products of a chart have a different number of rows for every width of every batch. oneDNN, which is used on the CPU,
compiles and keeps a kernel for each new shape: for bfloat16 100 ms for a product of 1 ms, for float32 0.6 MiB. In
bfloat16 the products of kernels/tiles.c, in AMX tiles or AVX-512 registers, take any number of rows; otherwise rows are
padded to few numbers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, pad

from syntaxlm.ops.backend import KERNELS, applied, call, library, parts

_TILES_PACKED, _TILES_INNER = 262144, 1024  # as in tiles.c
_ROWS_SUMMED_TOGETHER = 1024  # for a weight gradient: they are copied for the product
_TRANSPOSED_FROM = 1 << 20  # entries of a weight in bfloat16, from which its gradient is faster from a transposed copy


def product_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of matrix products: autocast's if it is on for a float32 tensor, else the tensor's own.

    Ops with their own backward call this once, in forward, because autocast does not apply inside them.
    """
    device = tensor.device.type
    if tensor.dtype == torch.float32 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


# oneDNN's linear on a packed weight is private in torch, so it may disappear.
_CAN_PACK_WEIGHTS = torch.backends.mkldnn.is_available() and all(
    hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
)


def fast_bfloat16(device: torch.device) -> bool:
    """Return whether products in bfloat16 are worthwhile: not on processors without instructions for them (AVX-512).

    There torch's are 40 times slower than float32, and some of its operations refuse them.
    """
    return device.type != "cpu" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class RepeatedProduct:
    """x -> x weight^T + bias for one weight and many small x, without autograd.

    On the CPU the weight is packed once for oneDNN, which is 10 to 30% faster than using it directly (measured with 64
    rows, float32 and bfloat16).

    Args:
        weight: (F, G).
        rows: number of rows of the products.
        bias: (F,) or None.
    """

    def __init__(self, weight: Tensor, rows: int, bias: Tensor | None = None) -> None:
        self.bias = None if bias is None else bias.contiguous()  # oneDNN ignores its stride
        self.dtype = weight.dtype
        is_fast = weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and fast_bfloat16(weight.device))
        self.packed = _CAN_PACK_WEIGHTS and weight.device.type == "cpu" and is_fast
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
    if _CAN_PACK_WEIGHTS and rows.device.type == "cpu" and rows.dtype == torch.float32:
        bias = None if bias is None else bias.contiguous()  # oneDNN ignores its stride
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows.contiguous(), weight.contiguous(), bias, "none", [], ""
        )
        return product
    return linear(rows, weight, bias)


def affine(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return rows weight^T + bias, as torch's `linear` also in autocast: (n, G), (F, G), (F,) or None -> (n, F).

    On the CPU its products, and those of its backward, are the fastest (`large_product`, `weight_gradient`).
    """
    dtype = product_dtype(weight)
    if rows.device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return linear(rows, weight, bias)
    result: Tensor = applied(_Affine, rows, weight, bias, dtype)
    return result


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        low_rows, low_weight = rows.to(dtype), weight.to(dtype)
        ctx.save_for_backward(low_rows, low_weight)
        ctx.row_dtype, ctx.weight_dtype = rows.dtype, weight.dtype
        return large_product(low_rows, low_weight, None if bias is None else bias.to(dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        (rows, weight) = ctx.saved_tensors
        needed = ctx.needs_input_grad
        return (
            large_product(grad, weight.T).to(ctx.row_dtype) if needed[0] else None,
            weight_gradient(grad, rows).to(ctx.weight_dtype) if needed[1] else None,
            grad.sum(0, dtype=ctx.weight_dtype) if needed[2] else None,
            None,
        )


def weight_gradient(grads: Tensor, rows: Tensor) -> Tensor:
    """Return grads^T rows, without autograd: (n, F), (n, G) -> (F, G), all of the same dtype."""
    if _CAN_PACK_WEIGHTS and grads.device.type == "cpu" and grads.dtype == torch.bfloat16:
        if grads.shape[1] * rows.shape[1] < _TRANSPOSED_FROM:
            return grads.T @ rows
        return grads.T.contiguous() @ rows
    return large_product(grads.T, rows.T)


def product_into(weight: Tensor, columns: bool, tiled: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function (rows, out) that writes rows weight^T, for any number of rows, into `out`.

    Args:
        weight: of all products.
        columns: whether the products are rows weight instead.
        tiled: whether to use tiles (`tiles_usable`); then the weight must be contiguous, and rows and out may be slices
            of columns of larger matrices.
    """
    if not tiled:
        right = weight if columns else weight.T
        if weight.device.type == "cpu" and weight.dtype == torch.float32:
            repeated = RepeatedProduct(right.T, 64)
            return lambda rows, out: out.copy_(repeated(padded_rows(rows, 64))[: len(rows)])

        def product(rows: Tensor, out: Tensor) -> Tensor:
            if rows.dtype == torch.bfloat16 and rows.device.type == "cpu":
                return out.copy_(torch.mm(padded_rows(rows, 64), right)[: len(rows)])
            if out.dtype == rows.dtype:
                return torch.mm(rows, right, out=out)
            return out.copy_(torch.mm(rows, right))

        return product
    tiles: Any = _tiles()
    inner, size = weight.shape if columns else weight.T.shape
    packed = torch.empty(inner * size, dtype=torch.bfloat16)
    call(tiles.tiles_pack, weight, inner, size, not columns, packed)
    scratch = torch.empty(max(_TILES_PACKED, 32 * inner), dtype=torch.bfloat16)

    def tiled_product(rows: Tensor, out: Tensor) -> Tensor:
        assert rows.shape == (len(out), inner)
        assert out.shape[1] == size
        call(
            tiles.tiles_product, *_strided(rows), len(rows), inner, packed, size, *_strided(out),
            out.dtype == torch.bfloat16, scratch, torch.get_num_threads(),
        )  # fmt: skip
        return out

    return tiled_product


def product_of_sums(left: Tensor, right: Tensor, tiled: bool = False) -> Tensor:
    """Return left^T right, the gradient of a weight: (n, F), (n, G) -> (F, G), at least float32.

    Args:
        tiled: whether to use tiles (`tiles_usable`), for bfloat16.
    """
    if not tiled:
        sums = torch.float64 if left.dtype == torch.float64 else torch.float32
        total = left.new_zeros(left.shape[1], right.shape[1], dtype=sums)
        for part in parts(len(left), _ROWS_SUMMED_TOGETHER if left.device.type == "cpu" else max(1, len(left))):
            total += weight_gradient(padded_rows(left[part], 512), padded_rows(right[part], 512))
        return total
    tiles: Any = _tiles()
    (inner, rows), columns = left.shape, right.shape[1]
    out = torch.empty(rows, columns) if inner else torch.zeros(rows, columns)
    scratch = torch.empty(min(_TILES_INNER, (inner + 31) // 32 * 32) * columns, dtype=torch.bfloat16)
    matrices = *_strided(left), *_strided(right)
    call(tiles.tiles_product_of_sums, *matrices, inner, rows, columns, out, scratch, torch.get_num_threads())
    return out


def padded_rows(rows: Tensor, step: int) -> Tensor:
    """Pad rows with zeros to a multiple of `step` if kernels are compiled per shape, to limit the number of shapes."""
    compiled_per_shape = rows.device.type == "cpu" and rows.dtype in (torch.bfloat16, torch.float32)
    return pad(rows, (0, 0, 0, -len(rows) % step)) if compiled_per_shape and len(rows) % step else rows


@functools.cache
def _tiles() -> ctypes.CDLL | None:
    """Return the functions of kernels/tiles.c; None if this processor has neither tiles nor AVX-512 for bfloat16."""
    loaded = library(KERNELS / "tiles.c")
    return loaded if loaded is not None and loaded.tiles_usable() else None


def tiles_usable(*sizes: int) -> bool:
    """Return whether kernels/tiles.c can compute products of these sizes, multiples of 32, on this processor."""
    return all(size % 32 == 0 for size in sizes) and _tiles() is not None


def _strided(matrix: Tensor) -> tuple[ctypes.c_void_p, int]:
    """Return the address of a matrix whose rows are contiguous, and the distance of its rows."""
    assert matrix.stride(1) == 1 or not matrix.numel()
    return ctypes.c_void_p(matrix.data_ptr()), matrix.stride(0)
