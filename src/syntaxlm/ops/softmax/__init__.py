"""The softmax over the vocabulary: `target_log_probs`, and its `reference`."""

from syntaxlm.ops.softmax import reference
from syntaxlm.ops.softmax.fast import target_log_probs

__all__ = ["reference", "target_log_probs"]
