"""Arrays that the kernels of the inside algorithm read and write."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from syntaxlm.ops.inside.types import Layout


@dataclass
class Work:
    """Charts of a batch, one row per span as in `layout`; R factors.

    inside: (rows, R) o = beta / exp(scale).  children: (rows, 2R) a and b, with the same scale.
    scales: (rows,) float64, natural logarithms.  weights: (rows,) float64, of spans, included in the scales, or None.
    Backward: inside_grads (rows, R) G, of o; children_grads (rows, 2R) H, of a and b.
    """

    layout: Layout
    inside: Tensor
    children: Tensor
    scales: Tensor
    weights: Tensor | None = None
    inside_grads: Tensor | None = None
    children_grads: Tensor | None = None
    marginals: Tensor | None = None

    @property
    def size(self) -> int:
        return self.inside.shape[1]
