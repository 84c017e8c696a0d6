"""What a reader believes about the tree of a sentence after each word, by a PCFG with sentences of one word."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from syntaxlm.models.abilities import TreeBeliefs
from syntaxlm.models.pcfg.grammars import Tables
from syntaxlm.ops.inside import DerivationEntropies, derivation_entropies, incremental_beliefs


@torch.no_grad()
def tree_beliefs(
    tables: Tables,
    emission_entropies: Tensor | None,
    alone: Tensor,
    share: Tensor,
    length: int,
    with_spans: bool = True,
) -> list[TreeBeliefs]:
    """Return the beliefs about B sentences of n words.

    With probability q, a sentence has one word. After the first word this is a possibility beside those of the grammar,
    with a preterminal of its own; the second word excludes it.

    Args:
        tables: rules and emissions, with words of shape (B, max(2, n)); the second word of a single one is ignored.
        emission_entropies: (t,), entropy of the words of each preterminal, in nats; None: derivations have the entropy
            NaN.
        alone: (B,), natural logarithms of the probabilities of the first words in sentences of one word.
        share: q.
        length: n.
        with_spans: whether to compute the probabilities of spans; otherwise they are NaN.
    """
    rules, emissions, words, _ = tables
    grammar = incremental_beliefs(rules, emissions, words, with_spans)
    if emission_entropies is None:
        nothing = torch.full_like(grammar.log_probs, torch.nan)
        entropies = DerivationEntropies(nothing, nothing[:, 0])
    else:
        entropies = derivation_entropies(rules, emissions, words, emission_entropies, grammar)
    lexical, structural = grammar.lexical_and_structural(emissions.double()[words])

    # After the first word: the probability that there are more, and the parts of its surprisal.
    log_more = torch.log1p(-share.double()) + grammar.log_probs[:, 0]
    log_alone = share.double().log() + alone.double()
    log_word = torch.logaddexp(log_more, log_alone)
    more, only = (log_more - log_word).exp(), (log_alone - log_word).exp()
    lexical[:, 0] = more * lexical[:, 0] - only * alone.double() / math.log(2)
    structural[:, 0] = -log_word / math.log(2) - lexical[:, 0]
    after_first = torch.special.entr(more) + torch.special.entr(only) + more * entropies.prefixes[:, 0]

    # The end of the sentence has no word to choose, so its surprisal is structural.
    if length > 1:
        structural[:, 1] -= (log_more - log_word) / math.log(2)
        end, parses = grammar.log_probs[:, -1] - grammar.sentence_log_probs, entropies.sentences
    else:
        end, parses = log_word - log_alone, torch.zeros_like(log_alone)
    columns = [
        grammar.spans if length > 1 else torch.zeros_like(grammar.spans[:, 1:, :1, :1]),
        torch.cat([more[:, None] * grammar.open[:, :1], grammar.open[:, 1:length]], 1),
        torch.cat([more[:, None, None] * grammar.open_from[:, :1], grammar.open_from[:, 1:]], 1)[:, :length, :length],
        grammar.ended[:, :length],
        torch.cat([more[:, None] * grammar.low[:, :1], grammar.low[:, 1:length]], 1),
        torch.cat([after_first[:, None], entropies.prefixes[:, 1:length], parses[:, None]], 1),
        torch.cat([lexical[:, :length], torch.zeros_like(end)[:, None]], 1),
        torch.cat([structural[:, :length], end[:, None] / math.log(2)], 1),
    ]
    return [TreeBeliefs(*arrays) for arrays in zip(*(column.cpu().numpy() for column in columns), strict=True)]
