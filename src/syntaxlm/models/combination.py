"""Several trained models as one: grammars that parse together, and a language model for the probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from syntaxlm.models import pcfg
from syntaxlm.models.abilities import (
    HasHiddenStates,
    Model,
    Parses,
    PredictsNextToken,
    SpanMarginals,
    TokenScores,
)
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.on_lstm import ONLSTMConfig
from syntaxlm.models.palm import PaLMConfig
from syntaxlm.models.pcfg import (
    CompoundPCFGConfig,
    NeuralPCFGConfig,
    SentencePCFG,
    SimplePCFGConfig,
    TensorPCFGConfig,
)
from syntaxlm.models.pcfg.words import SPECIALS
from syntaxlm.models.prpn import PRPNConfig
from syntaxlm.settings import Settings

ParserConfig = Annotated[
    SimplePCFGConfig | TensorPCFGConfig | NeuralPCFGConfig | CompoundPCFGConfig, Field(discriminator="name")
]
PARSER_TYPES = ("simple-pcfg", "tensor-pcfg", "neural-pcfg", "compound-pcfg")
SCORER_TYPES = ("lstm", "on-lstm", "prpn", "palm")
ScorerConfig = Annotated[LSTMConfig | ONLSTMConfig | PRPNConfig | PaLMConfig, Field(discriminator="name")]


@dataclass(frozen=True)
class CombinationConfig(Settings, section="model"):
    """Settings of a combination of trained models, which `syntaxlm combine` writes.

    The vocabulary is that of the scorer. The parsers have the same words in the same order, but their own BOS and EOS.
    """

    name: Literal["combination"] = "combination"
    parsers: Annotated[tuple[ParserConfig, ...], Field(min_length=1)] = (
        SimplePCFGConfig(),
    )  # the grammars whose span probabilities are averaged
    scorer: ScorerConfig = field(default_factory=LSTMConfig)  # the language model
    specials: Literal[1, 2] = 2  # number of tokens for BOS and EOS in the vocabulary: 1 if they are the same token


class Combination(Model, HasHiddenStates, PredictsNextToken, Parses):
    """A language model that parses with one or more grammars.

    A span's probability is the mean of its probabilities under the parsers. Token probabilities and hidden states are
    those of the scorer.
    """

    structure_type = SpanMarginals

    scorer: NeuralModel
    parsers: Sequence[SentencePCFG]

    def __init__(self, parsers: Sequence[SentencePCFG], scorer: NeuralModel, specials: int) -> None:
        super().__init__()
        self.vocabulary_size, self.specials = scorer.vocabulary_size, specials
        self.parsers, self.scorer = nn.ModuleList(parsers), scorer  # type: ignore[assignment]

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        return self.scorer.token_log_probs(batch, state)

    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        return self.scorer.next_log_probs(batch, state)

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        tokens = torch.where(batch.tokens > self.specials, batch.tokens + SPECIALS - self.specials, batch.tokens)
        read = TokenBatch(tokens, batch.targets, batch.lengths, indices=batch.indices)
        found = [parser.structure(read).values.float() for parser in self.parsers]
        return SpanMarginals(torch.stack(found).mean(0))


def build(
    config: CombinationConfig, vocabulary_size: int, build_scorer: Callable[[Any, int], NeuralModel]
) -> Combination:
    """A combination with fresh weights. build_scorer: builds a language model from settings and vocabulary size."""
    of_parsers = vocabulary_size + SPECIALS - config.specials
    parsers = [pcfg.build(one, of_parsers) for one in config.parsers]
    return Combination(parsers, build_scorer(config.scorer, vocabulary_size), config.specials)
