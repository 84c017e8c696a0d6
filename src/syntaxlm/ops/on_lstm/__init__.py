"""The recurrence of ordered neurons and of a plain LSTM: `recurrence`, and its `reference`."""

from syntaxlm.ops.on_lstm import reference
from syntaxlm.ops.on_lstm.fast import recurrence
from syntaxlm.ops.on_lstm.types import CellWeights, Recurrence

__all__ = ["CellWeights", "Recurrence", "recurrence", "reference"]
