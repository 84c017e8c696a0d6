"""Several trained models as one: grammars that parse together, and a language model for the probabilities."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor, nn

from syntaxlm.core.settings import Count, Settings
from syntaxlm.models import pcfg
from syntaxlm.models.abilities import HasHiddenStates, Model, ParsesSentences, PredictsNextToken, TokenScores
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.on_lstm import ONLSTMConfig
from syntaxlm.models.palm import PaLMConfig
from syntaxlm.models.pcfg import CompoundPCFGConfig, NeuralPCFGConfig, SentencePCFG, SimplePCFGConfig, TensorPCFGConfig
from syntaxlm.models.prpn import PRPNConfig
from syntaxlm.models.structures import SpanMarginals

_Parser = SimplePCFGConfig | TensorPCFGConfig | NeuralPCFGConfig | CompoundPCFGConfig
_Scorer = LSTMConfig | ONLSTMConfig | PRPNConfig | PaLMConfig
ParserConfig = Annotated[_Parser, Field(discriminator="name")]
ScorerConfig = Annotated[_Scorer, Field(discriminator="name")]
PARSER_TYPES: tuple[str, ...] = tuple(kind.name for kind in get_args(_Parser))
SCORER_TYPES: tuple[str, ...] = tuple(kind.name for kind in get_args(_Scorer))


@dataclass(frozen=True)
class CombinationConfig(Settings, section="model"):
    """Settings of a combination of trained models, which `syntaxlm combine` writes. Its vocabulary is the scorer's."""

    name: Literal["combination"] = "combination"
    parsers: Annotated[tuple[ParserConfig, ...], Field(min_length=1, max_length=100)] = (
        SimplePCFGConfig(),
    )  # the grammars whose span probabilities are averaged
    vocabulary_sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=100)] = (10_000,)  # of the parsers
    scorer: ScorerConfig = field(default_factory=LSTMConfig)  # the language model

    def contradictions(self) -> list[str]:
        sizes, parsers = len(self.vocabulary_sizes), len(self.parsers)
        return [f"vocabulary_sizes: found {sizes}; expected {parsers}, one for each parser"] * (sizes != parsers)


class Combination(Model, HasHiddenStates, PredictsNextToken, ParsesSentences):
    """A language model that parses with one or more grammars.

    A span's probability is the mean of its probabilities under the parsers. Token probabilities and hidden states are
    those of the scorer.
    parser_tokens: (parsers, V) the token of each parser for every token of the scorer.
    """

    structure_type = SpanMarginals
    parser_tokens: Tensor
    parsers: Sequence[SentencePCFG]

    def __init__(self, parsers: Sequence[SentencePCFG], scorer: NeuralModel) -> None:
        super().__init__()
        self.vocabulary_size = scorer.vocabulary_size
        self.parsers, self.scorer = nn.ModuleList(parsers), scorer  # type: ignore[assignment]
        self.register_buffer("parser_tokens", torch.zeros(len(parsers), self.vocabulary_size, dtype=torch.int32))

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Check the stored tokens of the parsers; no buffer is resized."""
        stored = tensors.get("parser_tokens")
        if stored is None or stored.is_meta or stored.shape != self.parser_tokens.shape:
            return []
        sizes = torch.tensor([parser.vocabulary_size for parser in self.parsers])[:, None]
        if bool(((stored >= 0) & (stored < sizes)).all()):
            return []
        return ["parser_tokens has ids that are not in the vocabularies of the parsers"]

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        return self.scorer.token_log_probs(batch, state)

    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        return self.scorer.next_log_probs(batch, state)

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        found = []
        for parser, tokens in zip(self.parsers, self.parser_tokens, strict=True):
            read = dataclasses.replace(batch, tokens=tokens[batch.tokens].long())
            found.append(parser.structure(read).values.float())
        return SpanMarginals(torch.stack(found).mean(0))


def build(
    config: CombinationConfig, vocabulary_size: int, build_scorer: Callable[[Any, int], NeuralModel]
) -> Combination:
    """Return a combination with fresh weights. build_scorer: builds a language model from settings and vocabulary
    size.
    """
    parsers = [pcfg.build(one, size) for one, size in zip(config.parsers, config.vocabulary_sizes, strict=True)]
    return Combination(parsers, build_scorer(config.scorer, vocabulary_size))
