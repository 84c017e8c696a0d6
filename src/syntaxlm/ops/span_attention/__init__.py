"""Attention of each step to the spans that end before it: `span_attention`, and its `reference`."""

from syntaxlm.ops.span_attention import reference
from syntaxlm.ops.span_attention.fast import span_attention
from syntaxlm.ops.span_attention.types import Form, SpanReading, SpanWeights

__all__ = ["Form", "SpanReading", "SpanWeights", "reference", "span_attention"]
