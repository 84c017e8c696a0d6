"""Settings of the four neural PCFGs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from syntaxlm.core.settings import NonNegative, Positive, Settings, Size

# Conversion between vocabulary ids and a grammar's words. A grammar has no BOS and EOS; word 0 is the unknown word.


BOS, EOS = 1, 2
SPECIALS = 2  # BOS and EOS, which a grammar does not have


def counts_of_grammar(counts: Tensor) -> Tensor:
    """Count per token, without BOS and EOS: (V,) -> (V - 2,)."""
    return torch.cat([counts[:1], counts[SPECIALS + 1 :]])


def to_grammar(tokens: Tensor) -> Tensor:
    """Return the grammar's words for tokens; BOS and EOS inside a sentence become unknown words."""
    return (tokens - SPECIALS).clamp(min=0)


def of_vocabulary(word: int) -> int:
    """Return the token of a grammar's word."""
    return word + SPECIALS if word else 0


_LARGEST_TABLE = 1 << 28  # most probabilities of binary rules in one table


@dataclass(frozen=True)
class _PCFGConfig(Settings, section="model"):
    """Settings that all neural PCFGs share."""

    name: str = ""
    nonterminals: Size = 512  # number of constituent symbols
    preterminals: Size = 1024  # number of word symbols (preterminals)
    embedding_size: Size = 256  # features of a symbol's embedding
    end_bias: NonNegative = 0.0  # weight of the end bias at the start of training; 0: none
    end_bias_epochs: Positive = 1.0  # epochs in which the end bias falls linearly to 0
    focus: NonNegative = 0.0  # penalty in training, in nats, of a span in no tree of text.focus; 0: none


@dataclass(frozen=True)
class SimplePCFGConfig(_PCFGConfig, section="model"):
    """Settings of SN-PCFG: left and right child are independent given the parent."""

    name: Literal["simple-pcfg"] = "simple-pcfg"

    def contradictions(self) -> list[str]:
        return _table_faults(self, "nonterminals", self.nonterminals * (self.nonterminals + self.preterminals))


@dataclass(frozen=True)
class TensorPCFGConfig(_PCFGConfig, section="model"):
    """Settings of TN-PCFG: the binary rule table has low rank."""

    name: Literal["tensor-pcfg"] = "tensor-pcfg"
    nonterminals: Size = 250  # number of constituent symbols
    preterminals: Size = 500  # number of word symbols (preterminals)
    rank: Size = 500  # rank of the binary rule table

    def contradictions(self) -> list[str]:
        return _table_faults(self, "rank", self.rank * (self.nonterminals + self.preterminals))


@dataclass(frozen=True)
class NeuralPCFGConfig(_PCFGConfig, section="model"):
    """Settings of N-PCFG: a full binary rule table."""

    name: Literal["neural-pcfg"] = "neural-pcfg"
    nonterminals: Size = 30  # number of constituent symbols
    preterminals: Size = 60  # number of word symbols (preterminals)

    def contradictions(self) -> list[str]:
        return _full_table_faults(self)


@dataclass(frozen=True)
class CompoundPCFGConfig(_PCFGConfig, section="model"):
    """Settings of C-PCFG: an N-PCFG whose rules also depend on a sentence vector."""

    name: Literal["compound-pcfg"] = "compound-pcfg"
    nonterminals: Size = 30  # number of constituent symbols
    preterminals: Size = 60  # number of word symbols (preterminals)
    latent_size: Size = 64  # features of the sentence vector
    encoder_size: Size = 512  # features of each direction of the BiLSTM that infers the vector, and of its embeddings

    def contradictions(self) -> list[str]:
        return _full_table_faults(self)


def _full_table_faults(config: _PCFGConfig) -> list[str]:
    size = config.nonterminals * (config.nonterminals + config.preterminals) ** 2
    return _table_faults(config, "nonterminals", size, ", or model.name simple-pcfg, which needs no full table")


def _table_faults(config: _PCFGConfig, name: str, size: int, otherwise: str = "") -> list[str]:
    """Return the error if a table of rules is too large. name: the setting to reduce.  otherwise: what else would
    do.
    """
    if size <= _LARGEST_TABLE:
        return []
    others = f"{config.preterminals} preterminals"
    if name != "nonterminals":
        others = f"{config.nonterminals} nonterminals and {others}"
    return [
        f"{name}: found {getattr(config, name)} with {others}, a table of {size:,} rules;"
        f" expected at most {_LARGEST_TABLE:,}{otherwise}"
    ]


# The end bias: which words end constituents, estimated from the words that end sentences.


PSEUDO_COUNT = 10.0  # added occurrences of each word, with the overall rate of sentence ends


def end_scores(words: Tensor, final_words: Tensor) -> Tensor:
    """(V,) float64 log-weights, at most 0, of constituents that end in each word but not at the sentence's end.

    words, final_words: (V,) number of occurrences of each word in sentences of two or more words, and as their last
    word. The log-weight is min(0, log(p(end | w) / p(end))), estimated from plain text: words that rarely end
    sentences, such as articles, prepositions and auxiliaries, rarely end constituents. As a bias in the first part of
    training, it makes grammars attach such words to what follows them, whatever the random seed. The bias falls to 0,
    so the final grammar is trained on the likelihood alone.
    """
    counts, ends = words.double(), final_words.double()
    rate = ends.sum() / counts.sum()
    shares = (ends + PSEUDO_COUNT * rate) / (counts + PSEUDO_COUNT)
    return torch.log(shares / rate).clamp(max=0)


def end_weights(scores: Tensor, words: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """(B, n, n) log-weights of spans, indexed by first and last word, inclusive; 0 for spans that end the sentence.

    scores: (V,) from `end_scores`.  words: (N,) of all sentences, concatenated.  lengths: of the B sentences.
    """
    sizes = torch.tensor(lengths, device=words.device)
    longest = int(sizes.max())
    places = torch.arange(longest, device=words.device)
    of_last = scores.new_zeros(len(lengths), longest)
    of_last[places < sizes[:, None]] = scores[words]
    of_last[places == sizes[:, None] - 1] = 0
    return of_last[:, None].expand(-1, longest, -1)
