"""PRPN's layer norm: `layer_norm`, and its `reference`."""

from syntaxlm.ops.layer_norm import reference
from syntaxlm.ops.layer_norm.fast import layer_norm

__all__ = ["layer_norm", "reference"]
