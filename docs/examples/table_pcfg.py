"""A probabilistic context-free grammar whose rule probabilities are the parameters themselves, without a network.

After Lari & Young 1990, "The estimation of stochastic context-free grammars using the inside-outside algorithm",
trained by gradient descent on the likelihood of sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.models.pcfg.grammars import Grammar, PCFGConfig
from syntaxlm.models.pcfg.model import PCFG
from syntaxlm.models.registry import model
from syntaxlm.ops.inside import TableRules


@dataclass(frozen=True)
class TablePCFGConfig(PCFGConfig):
    """Settings of the grammar of tables.

    Attributes:
        nonterminals: number of constituent symbols
        preterminals: number of word symbols (preterminals)
    """

    name: Literal["table-pcfg"] = "table-pcfg"
    nonterminals: int = 10
    preterminals: int = 20

    def grammar(self, words: int) -> Grammar:
        return TableGrammar(self, words)


class TableGrammar(Grammar):
    """m nonterminals, t preterminals and V words; each distribution is the softmax of a row of a table."""

    def __init__(self, config: TablePCFGConfig, words: int) -> None:
        super().__init__(config, words)
        symbols = config.nonterminals + config.preterminals
        self.root = nn.Parameter(torch.randn(config.nonterminals))
        self.binary = nn.Parameter(torch.randn(config.nonterminals, symbols * symbols))
        self.emission = nn.Parameter(torch.randn(words, config.preterminals))

    def rules(self) -> TableRules:
        symbols = self.nonterminal_count + self.preterminal_count
        binary = self.binary.softmax(-1).unflatten(-1, (symbols, symbols))  # p(A -> B C), (m, m + t, m + t)
        return TableRules(self.root.softmax(-1), binary)

    def emissions(self, columns: Tensor) -> Tensor:
        return self.emission.log_softmax(0)[columns]  # log p(w | T), (words asked for, t)


@model("table-pcfg", TablePCFGConfig)
class TablePCFG(PCFG):
    """The grammar as a language model and parser."""
