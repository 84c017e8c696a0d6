"""The recurrence along the paths of dependency trees: `recurrence`, and its `reference`."""

from syntaxlm.ops.tree_levels import reference
from syntaxlm.ops.tree_levels.fast import recurrence
from syntaxlm.ops.tree_levels.types import EDGES, EdgeWeights, Levels, States

__all__ = ["EDGES", "EdgeWeights", "Levels", "States", "recurrence", "reference"]
