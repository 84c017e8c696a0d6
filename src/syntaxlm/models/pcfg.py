"""Neural probabilistic context-free grammars: rule probabilities computed by a network, trained on plain text.

Four parametrisations over one interface, `Grammar`: `SimpleGrammar` (SN-PCFG, Liu et al. 2023), `TensorGrammar`
(TN-PCFG, Yang et al. 2021), `NeuralGrammar` and `CompoundGrammar` (N-PCFG and C-PCFG, Kim et al. 2019). m nonterminals,
t preterminals, V words, d embedding size. Symbols are ordered nonterminals first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from syntaxlm.ops.inside import FactoredRules, Rules, TableRules
from syntaxlm.ops.inside.emissions import emission_log_probs
from syntaxlm.ops.inside.softmax import product_softmax


class ResidualBlock(nn.Module):
    """x + relu(second(relu(first(x)))): (..., d) -> (..., d)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + relu(self.second(relu(self.first(inputs))))


def _embedding(rows: int, size: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, size)))


def _residual_network(input_size: int, size: int, blocks: int, output_size: int | None = None) -> nn.Sequential:
    """A linear layer, residual blocks, and a linear layer to the output if there is one."""
    layers: list[nn.Module] = [nn.Linear(input_size, size), *(ResidualBlock(size) for _ in range(blocks))]
    if output_size is not None:
        layers.append(nn.Linear(size, output_size))
    return nn.Sequential(*layers)


def _initialise(module: nn.Module) -> None:
    """Xavier-uniform matrices, which the papers found to matter; biases stay as torch draws them."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter)


class Grammar(nn.Module, ABC):
    """What turns weights into the probabilities of rules."""

    nonterminal_count: int
    preterminal_count: int
    vocabulary_size: int

    @abstractmethod
    def rules(self) -> Rules:
        """The probabilities of start and binary rules."""

    @abstractmethod
    def emissions(self, columns: Tensor) -> Tensor:
        """Natural log p(w | T) of distinct words: (u,) int64 -> (u, t)."""


class SimpleGrammar(Grammar):
    """SN-PCFG: left and right child are independent given the parent, p(A -> B C) = p_L(B | A) p_R(C | A).

    With p_A = relu(P e_A) + e_A, l_X = relu(L e_X) + e_X, q_X = relu(R e_X) + e_X: p_L(. | A) = softmax_X(l_X . p_A),
    p_R(. | A) = softmax_X(q_X . p_A), r = softmax_A(s . e_A); with h_T = f(e_T) + e_T: p(w | T) = softmax_w(h_T . v_w).
    Liu et al. 2023, section 4 and appendix.
    """

    def __init__(self, nonterminals: int, preterminals: int, vocabulary_size: int, embedding_size: int) -> None:
        super().__init__()
        self.nonterminal_count, self.preterminal_count = nonterminals, preterminals
        self.vocabulary_size = vocabulary_size
        self.symbols = _embedding(nonterminals + preterminals, embedding_size)
        self.start = _embedding(1, embedding_size)
        self.words = _embedding(vocabulary_size, embedding_size)
        self.parent, self.left, self.right = (nn.Linear(embedding_size, embedding_size) for _ in range(3))
        self.emission = _residual_network(embedding_size, embedding_size, blocks=3)
        _initialise(self)

    def rules(self) -> FactoredRules:
        symbols, count = self.symbols, self.nonterminal_count
        parents = symbols[:count]
        parents = relu(self.parent(parents)) + parents
        left, right = (product_softmax(parents, relu(side(symbols)) + symbols) for side in (self.left, self.right))
        return FactoredRules(torch.softmax(linear(self.start, symbols[:count])[0].to(left.dtype), 0), left, right)

    def emissions(self, columns: Tensor) -> Tensor:
        preterminals = self.symbols[self.nonterminal_count :]
        return emission_log_probs(self.emission(preterminals) + preterminals, self.words, None, columns)


class TensorGrammar(Grammar):
    """TN-PCFG: the table of binary rules has a low rank, p(A -> B C) = sum_l U_Al V_Bl W_Cl.

    U is a softmax over the rank, V and W over symbols. Yang et al. 2021, section 4.
    """

    def __init__(
        self, nonterminals: int, preterminals: int, vocabulary_size: int, embedding_size: int, rank: int
    ) -> None:
        super().__init__()
        self.nonterminal_count, self.preterminal_count = nonterminals, preterminals
        self.vocabulary_size = vocabulary_size
        self.symbols = _embedding(nonterminals + preterminals, embedding_size)
        self.start = _embedding(1, embedding_size)
        self.parent, self.left, self.right = (
            nn.Sequential(nn.Linear(embedding_size, embedding_size), nn.ReLU(), nn.Linear(embedding_size, rank))
            for _ in range(3)
        )
        self.emission = _residual_network(embedding_size, embedding_size, 2, vocabulary_size)
        self.root = _residual_network(embedding_size, embedding_size, 2, nonterminals)
        _initialise(self)

    def rules(self) -> FactoredRules:
        dtype = self.symbols.dtype
        parent = torch.softmax(self.parent(self.symbols[: self.nonterminal_count]).to(dtype), 1)
        left, right = (torch.softmax(side(self.symbols).to(dtype), 0).T for side in (self.left, self.right))
        return FactoredRules(torch.softmax(self.root(self.start)[0].to(dtype), 0), left, right, parent)

    def emissions(self, columns: Tensor) -> Tensor:
        return _network_emissions(self.emission, self.symbols[self.nonterminal_count :], columns)


