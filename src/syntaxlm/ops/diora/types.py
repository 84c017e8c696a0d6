"""The weights of a composition function."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Composition(NamedTuple):
    """A network of two layers that composes two vectors, and the bilinear score of composing them.

    first: (D, 2D) and first_bias: (D,), the first layer, applied to both vectors concatenated.
    second: (D, D) and second_bias: (D,), the second layer.
    score: (D, D), S of the score a^T S b.
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    score: Tensor
