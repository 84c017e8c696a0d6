"""DIORA's inside and outside passes."""

from syntaxlm.ops.diora.fast import inside, outside, split_scores
from syntaxlm.ops.diora.types import Composition

__all__ = ["Composition", "inside", "outside", "split_scores"]
