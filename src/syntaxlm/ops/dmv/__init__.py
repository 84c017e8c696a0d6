"""Projective dependency trees under the dependency model with valence: `log_partition`, counts, most probable trees."""

from syntaxlm.ops.dmv import reference
from syntaxlm.ops.dmv.fast import best_heads, expected_counts, log_partition
from syntaxlm.ops.dmv.lexicalised import best_heads_with_spans, expected_counts_with_spans, log_partition_with_spans
from syntaxlm.ops.dmv.types import ADJACENT, LEFT, RIGHT, ZERO, Decisions

__all__ = [
    "ADJACENT",
    "LEFT",
    "RIGHT",
    "ZERO",
    "Decisions",
    "best_heads",
    "best_heads_with_spans",
    "expected_counts",
    "expected_counts_with_spans",
    "log_partition",
    "log_partition_with_spans",
    "reference",
]
