"""The inside algorithm of probabilistic context-free grammars: `log_partition`, and its `reference`."""

from syntaxlm.ops.inside import reference
from syntaxlm.ops.inside.emissions import emission_log_probs
from syntaxlm.ops.inside.fast import Posteriors
from syntaxlm.ops.inside.next_word import NextWords, next_words
from syntaxlm.ops.inside.operations import log_partition, posteriors
from syntaxlm.ops.inside.prefix import PrefixLogProbs, prefix_log_probs
from syntaxlm.ops.inside.softmax import product_softmax
from syntaxlm.ops.inside.tiles import tiles_usable
from syntaxlm.ops.inside.types import FactoredRules, Layout, Rules, TableRules
from syntaxlm.ops.inside.viterbi import Derivation, best_derivations

__all__ = [
    "Derivation",
    "FactoredRules",
    "Layout",
    "NextWords",
    "Posteriors",
    "PrefixLogProbs",
    "Rules",
    "TableRules",
    "best_derivations",
    "emission_log_probs",
    "log_partition",
    "next_words",
    "posteriors",
    "prefix_log_probs",
    "product_softmax",
    "reference",
    "tiles_usable",
]
