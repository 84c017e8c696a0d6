"""The inside algorithm of probabilistic context-free grammars: `log_partition`, and beside it its `reference`."""

from syntaxlm.ops.inside import reference
from syntaxlm.ops.inside.fast import Posteriors, log_partition, posteriors
from syntaxlm.ops.inside.types import FactoredRules, Layout, Rules, TableRules

__all__ = ["FactoredRules", "Layout", "Posteriors", "Rules", "TableRules", "log_partition", "posteriors", "reference"]
