"""Small PCFGs of all types, and batches of sentences for them. Words are numbered as in a grammar; 0 is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch

from syntaxlm.models.abilities import TextCounts
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.pcfg.grammars import (
    CompoundPCFGConfig,
    Grammar,
    NeuralPCFGConfig,
    PCFGConfig,
    SimplePCFGConfig,
    TensorPCFGConfig,
)
from syntaxlm.models.pcfg.model import PCFG
from syntaxlm.models.pcfg.sentence_pcfg import SentencePCFG
from syntaxlm.models.registry import build_model
from syntaxlm.trees.decoding import SpanTable

BOS, EOS = 1, 2
WORDS = 7
EXACT = ["simple", "tensor", "neural", "relaxed-simple", "relaxed-neural"]
EVERY = [*EXACT, "compound"]
TEXT = [[3, 1], [5, 5, 2, 0], [4], [1, 2, 3, 4, 5, 6], [0]]


CONFIGS: dict[str, PCFGConfig] = {
    "simple": SimplePCFGConfig(nonterminals=4, preterminals=5, embedding_size=6),
    "tensor": TensorPCFGConfig(nonterminals=4, preterminals=5, embedding_size=6, rank=3),
    "neural": NeuralPCFGConfig(nonterminals=3, preterminals=4, embedding_size=6),
    "relaxed-simple": SimplePCFGConfig(nonterminals=4, preterminals=5, embedding_size=6, network="collapse-relaxing"),
    "relaxed-neural": NeuralPCFGConfig(nonterminals=3, preterminals=4, embedding_size=6, network="collapse-relaxing"),
    "compound": CompoundPCFGConfig(nonterminals=3, preterminals=4, embedding_size=6, latent_size=2, encoder_size=5),
}


def small_grammar(name: str) -> Grammar:
    return CONFIGS[name].grammar(WORDS)


def small_model(name: str, seed: int = 0, **settings: float) -> SentencePCFG:
    """A model in float64 and evaluation mode, with sharper rules than initially, set up with the counts of `TEXT`."""
    torch.manual_seed(seed)
    model = build_model(replace(CONFIGS[name], **settings), WORDS + 2)
    assert isinstance(model, SentencePCFG)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2
    model.double().eval()
    model.setup(counts_of(TEXT))
    return model


def exact_model(name: str, seed: int = 0) -> PCFG:
    model = small_model(name, seed)
    assert isinstance(model, PCFG)
    return model


def token(word: int) -> int:
    """The id of a grammar's word in a vocabulary."""
    return word + 2 if word else 0


def counts_of(text: Iterable[Sequence[int]]) -> TextCounts:
    text = list(text)

    def counted(words: Iterable[int]) -> torch.Tensor:
        tokens = torch.tensor([token(word) for word in words], dtype=torch.int64)
        return torch.bincount(tokens, minlength=WORDS + 2)

    return TextCounts(
        counted(word for sentence in text for word in sentence),
        first_words=counted(sentence[0] for sentence in text if len(sentence) > 1),
        final_words=counted(sentence[-1] for sentence in text if len(sentence) > 1),
        one_word_sentences=counted(sentence[0] for sentence in text if len(sentence) == 1),
    )


def batch_of(text: Iterable[Sequence[int]], closed: bool = False) -> TokenBatch:
    """Sentences, longest first, as in training; closed: with EOS as an input, as in parsing."""
    sentences = [[BOS, *map(token, sentence), EOS] for sentence in text]
    assert sorted(map(len, sentences), reverse=True) == list(map(len, sentences)), "longest first"
    if closed:
        sentences = [[*sentence, EOS] for sentence in sentences]
    steps = max(map(len, sentences)) - 1
    tokens = torch.tensor([sentence[:-1] + [EOS] * (steps - len(sentence) + 1) for sentence in sentences]).T
    targets = torch.tensor([sentence[1:] + [EOS] * (steps - len(sentence) + 1) for sentence in sentences]).T
    return TokenBatch(tokens, targets, torch.tensor([len(sentence) - 1 for sentence in sentences]))


SORTED = sorted(TEXT, key=len, reverse=True)


def scores_of(marginals: torch.Tensor, lengths: Sequence[int]) -> SpanTable:
    """Span marginals (B, n, n) as scores to decode."""
    values = []
    for chart, length in zip(marginals.numpy(), lengths, strict=True):
        last, width = np.tril_indices(length)
        values.append(chart[last - width, last])
    return SpanTable(np.array(lengths), np.concatenate(values))
