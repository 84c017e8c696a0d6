"""Neural probabilistic context-free grammars: SN-PCFG, TN-PCFG, N-PCFG and C-PCFG, trained on plain text."""

from __future__ import annotations

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import memory_size
from syntaxlm.models.pcfg.config import (
    SPECIALS,
    CompoundPCFGConfig,
    NeuralPCFGConfig,
    SimplePCFGConfig,
    TensorPCFGConfig,
)
from syntaxlm.models.pcfg.exact import PCFG
from syntaxlm.models.pcfg.grammars import CompoundGrammar, Grammar, NeuralGrammar, SimpleGrammar, TensorGrammar
from syntaxlm.models.pcfg.model import SentencePCFG

__all__ = [
    "PCFG",
    "CompoundPCFGConfig",
    "NeuralPCFGConfig",
    "SentencePCFG",
    "SimplePCFGConfig",
    "TensorPCFGConfig",
    "build",
]

_BYTES = 4  # of a probability

PCFGConfig = SimplePCFGConfig | TensorPCFGConfig | NeuralPCFGConfig | CompoundPCFGConfig


def build(config: PCFGConfig, vocabulary_size: int) -> SentencePCFG:
    """Return a neural PCFG with fresh weights. Raises InputError for a vocabulary without words."""
    words = vocabulary_size - SPECIALS
    if words < 2:
        raise InputError(f"the vocabulary of {vocabulary_size} tokens has no words that a grammar could emit")
    if (size := _BYTES * words * config.preterminals) > memory_size():
        raise InputError(
            f"model.preterminals: found {config.preterminals:,}; the probabilities of {words:,} words given each need"
            f" {size / 2**30:,.1f} GiB; this machine has {memory_size() / 2**30:,.1f} GiB of memory"
        )
    sizes = config.nonterminals, config.preterminals, words, config.embedding_size
    training = config.end_bias, config.end_bias_epochs, config.focus
    grammar: Grammar
    if isinstance(config, CompoundPCFGConfig):
        return SentencePCFG(CompoundGrammar(*sizes, config.latent_size, config.encoder_size), *training)
    if isinstance(config, TensorPCFGConfig):
        grammar = TensorGrammar(*sizes, config.rank)
    elif isinstance(config, NeuralPCFGConfig):
        grammar = NeuralGrammar(*sizes)
    else:
        grammar = SimpleGrammar(*sizes)
    return PCFG(grammar, *training)
