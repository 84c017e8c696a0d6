"""Measures of words from what a grammar believes about the tree of a sentence after each of its words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from syntaxlm.core.arrays import Numbers
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.abilities import HasTreeBeliefs, TreeBeliefs
from syntaxlm.models.registry import require
from syntaxlm.ops.inside import belief_updates
from syntaxlm.scoring.engine import Scorer


@dataclass(frozen=True)
class BeliefMeasures:
    """The beliefs about one sentence, and how each token changes them.

    Attributes:
        beliefs: about the sentence.
        updates: (n + 1,), belief updates of tokens and of the end, in bits, of order 1/2.
        updates_kl: (n + 1,), of order 1.
    """

    beliefs: TreeBeliefs
    updates: Numbers
    updates_kl: Numbers

    def of_tokens(self, first: int, after: int) -> dict[str, Any]:
        """Return the measures of a word with the tokens [first, after), or of the end of the sentence.

        What tokens add, such as constituents that end, is summed. Other measures are those of its first token, or
        after its last one. The end of a sentence is in no constituent.
        """
        beliefs = self.beliefs
        last = after - 1
        entropy = float(beliefs.entropies[last]) / math.log(2)
        before = None if first == 0 else float(beliefs.entropies[first - 1]) / math.log(2)
        values = {
            "belief_update": float(self.updates[first:after].sum()),
            "belief_update_kl": float(self.updates_kl[first:after].sum()),
            "derivation_entropy": entropy,
            "derivation_entropy_reduction": None if before is None else max(0.0, before - entropy),
            "lexical_surprisal": float(beliefs.lexical[first:after].sum()),
            "structural_surprisal": float(beliefs.structural[first:after].sum()),
        }
        in_constituents = dict.fromkeys(("expected_ended", "expected_open", "expected_depth", "low_attachment"))
        if first == len(beliefs.open):
            return values | in_constituents
        return values | {
            "expected_ended": float(beliefs.ended[first:after].sum()),
            "expected_open": float(beliefs.open[last]),
            "expected_depth": float(beliefs.open[first] + beliefs.ended[first]),
            "low_attachment": float(beliefs.low[first]),
        }


def belief_measures(scorer: Scorer, corpus: EncodedCorpus) -> dict[tuple[int, ...], BeliefMeasures]:
    """Return the measures of each distinct sentence of a corpus, by its token ids.

    Raises:
        InputError: for a model that has no beliefs about trees, and for a sentence too long for the memory.
    """
    model = require(scorer.model, HasTreeBeliefs, scorer.name, "beliefs about trees")
    sentences = list(dict.fromkeys(tuple(corpus.sentence(number)) for number in range(len(corpus))))
    measures = {}
    for sentence, beliefs in zip(sentences, model.tree_beliefs(sentences), strict=True):
        spans = torch.from_numpy(beliefs.spans)
        updates, updates_kl = (belief_updates(spans, order).numpy() for order in (0.5, 1.0))
        measures[sentence] = BeliefMeasures(beliefs, updates, updates_kl)
    return measures
