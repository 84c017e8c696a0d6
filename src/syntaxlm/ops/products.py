"""Matrix products in autocast's precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear


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
        self.bias = bias
        self.packed = _PACKED and weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
        weight = weight.contiguous()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, rows) if self.packed else weight

    def __call__(self, rows: Tensor) -> Tensor:
        if self.packed:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
            return product
        return linear(rows, self.weight, self.bias)


def product_or_zeros(weight: Tensor | None, rows: int, like: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a `RepeatedProduct` with a square weight; without a weight, a function that returns the same zeros, (n,
    G).

    like: (_, G), in the dtype of the products.
    """
    if weight is not None:
        return RepeatedProduct(weight, rows)
    zeros = like.new_zeros(rows, like.shape[1])
    return lambda inputs: zeros[: len(inputs)]


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


def product_of_sums(grads: Tensor, inputs: Tensor) -> Tensor:
    """Return sum over rows of grad^T input, one product in the dtype of grads: (n, F), (n, G) -> (F, G), dtype of
    inputs.
    """
    return (grads.T @ inputs.to(grads.dtype)).to(inputs.dtype)
