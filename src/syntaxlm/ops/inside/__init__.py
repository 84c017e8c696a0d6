"""The inside algorithm of probabilistic context-free grammars.

`rules`: grammars, and the layout of charts.  `partition`: probabilities of sentences and posteriors of spans.
`prefix`: probabilities of prefixes and of next words.  `long`: charts of long sentences for these.  `growing`: a chart
that grows by one word at a time.
`incremental`: beliefs about the tree after each word.  `best`: most probable derivations.  `sample`: samples of trees.

They do not share one recursion over a semiring. Sums of large grammars are matrix products of scaled probabilities, in
bfloat16 for training, 50 to 190 times as fast as the recursion in logarithms (`log_partition_reference`); a left-corner
closure needs float64; a maximum is no matrix product and needs back-pointers.
"""

from syntaxlm.ops.inside.best import Derivation, best_derivations
from syntaxlm.ops.inside.growing import GrowingChart, empty_chart
from syntaxlm.ops.inside.incremental import (
    OUTSIDE_TOGETHER,
    DerivationEntropies,
    IncrementalBeliefs,
    belief_updates,
    derivation_entropies,
    incremental_beliefs,
)
from syntaxlm.ops.inside.partition import Posteriors, log_partition, log_partition_reference, posteriors
from syntaxlm.ops.inside.prefix import (
    NextWords,
    PrefixLogProbs,
    next_words,
    next_words_after_each,
    prefix_log_probs,
    prefix_log_probs_reference,
)
from syntaxlm.ops.inside.rules import FactoredRules, Layout, Rules, TableRules
from syntaxlm.ops.inside.sample import sample_trees

__all__ = [
    "OUTSIDE_TOGETHER",
    "Derivation",
    "DerivationEntropies",
    "FactoredRules",
    "GrowingChart",
    "IncrementalBeliefs",
    "Layout",
    "NextWords",
    "Posteriors",
    "PrefixLogProbs",
    "Rules",
    "TableRules",
    "belief_updates",
    "best_derivations",
    "derivation_entropies",
    "empty_chart",
    "incremental_beliefs",
    "log_partition",
    "log_partition_reference",
    "next_words",
    "next_words_after_each",
    "posteriors",
    "prefix_log_probs",
    "prefix_log_probs_reference",
    "sample_trees",
]
