"""PRPN's gated memory: `slot_gates`, `read`, `attend`, and a `reference` of each."""

from syntaxlm.ops.gated_memory import reference
from syntaxlm.ops.gated_memory.fast import attend, read, slot_gates
from syntaxlm.ops.gated_memory.types import Comparison, ReaderWeights

__all__ = ["Comparison", "ReaderWeights", "attend", "read", "reference", "slot_gates"]
