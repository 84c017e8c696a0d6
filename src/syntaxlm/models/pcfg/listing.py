"""The most probable rules and words of a grammar's symbols, found without a table of all rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from syntaxlm.models.abilities import EmittedWord, HasGrammar, SymbolRule
from syntaxlm.models.pcfg.config import of_vocabulary
from syntaxlm.models.pcfg.grammars import Grammar
from syntaxlm.ops.inside import Rules, TableRules

_TOGETHER = 1 << 20  # most probabilities of pairs of children in memory


class ListsGrammar(HasGrammar):
    """Lists the rules and words of a grammar's symbols. For a compound grammar, the rules are those at z = 0."""

    grammar: Grammar

    @abstractmethod
    def _all_tables(self) -> tuple[Rules, Tensor]:
        """Return the rules, and natural log p(w | T) of all words: (V, t)."""

    @property
    def labels(self) -> Sequence[str]:  # type: ignore[override]
        nonterminals = (f"NT-{number}" for number in range(self.nonterminal_count))
        return [*nonterminals, *(f"T-{number}" for number in range(self.grammar.preterminal_count))]

    @property
    def nonterminal_count(self) -> int:  # type: ignore[override]
        return self.grammar.nonterminal_count

    @property
    def rules_note(self) -> str:  # type: ignore[override]
        return "rules at the sentence vector z = 0, the mean of its prior" if self.grammar.latent_size else ""

    def start_probabilities(self) -> Tensor:
        return self._all_tables()[0].root

    def top_rules(self, nonterminal: int, count: int) -> list[SymbolRule]:
        return top_rules(self._all_tables()[0], nonterminal, count)

    def top_words(self, preterminal: int, count: int) -> list[EmittedWord]:
        return top_words(self._all_tables()[1], preterminal - self.nonterminal_count, count)


@torch.no_grad()
def top_rules(rules: Rules, nonterminal: int, count: int) -> list[SymbolRule]:
    """Return the most probable binary rules of a nonterminal, in descending order.

    Exact, in O(m + t) memory for factored rules. p(A -> B C) = sum_l parent_Al left_lB right_lC is at most
    sum_l parent_Al left_lB max_C right_lC, so left children are tried in descending order of this bound until no other
    left child can be among the best.
    """
    if isinstance(rules, TableRules):
        symbols = rules.binary.shape[-1]
        found = rules.binary[nonterminal].flatten().topk(min(count, symbols**2))
        pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [SymbolRule(place // symbols, place % symbols, probability) for place, probability in pairs]
    if rules.parent is None:
        left, right = rules.left[nonterminal, None].double(), rules.right[nonterminal, None].double()
    else:
        left, right = rules.parent[nonterminal, :, None].double() * rules.left.double(), rules.right.double()
    symbols = left.shape[1]
    bounds, order = (right.amax(1) @ left).sort(descending=True)
    size = max(1, _TOGETHER // symbols)
    best: list[SymbolRule] = []
    for low in range(0, symbols, size):
        if len(best) == count and float(bounds[low]) <= best[-1].probability:
            break
        chosen = order[low : low + size]
        table = left[:, chosen].T @ right
        values, places = table.flatten().topk(min(count, table.numel()))
        for value, place in zip(values.tolist(), places.tolist(), strict=True):
            best.append(SymbolRule(int(chosen[place // symbols]), place % symbols, value))
        best = sorted(best, key=lambda rule: -rule.probability)[:count]
    return best


@torch.no_grad()
def top_words(emissions: Tensor, preterminal: int, count: int) -> list[EmittedWord]:
    """Return the most probable words of a preterminal, in descending order. emissions: (V, t) natural log p(w | T)."""
    values, words = emissions[:, preterminal].double().exp().topk(min(count, len(emissions)))
    return [EmittedWord(of_vocabulary(word), p) for word, p in zip(words.tolist(), values.tolist(), strict=True)]
