"""Several trained models as one: parsers whose span probabilities are averaged, and perhaps a language model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.core.settings import Bounds, Count
from syntaxlm.models.abilities import (
    HasHiddenStates,
    HasTreeBeliefs,
    Model,
    PredictsNextToken,
    ScoresTrees,
    TokenScores,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.registry import MODELS, config_among, model
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.ops.sampling import TreeSpans

PARSER_TYPES = "simple-pcfg", "holographic-pcfg", "tensor-pcfg", "neural-pcfg", "compound-pcfg", "span-parser"
SCORER_TYPES = "lstm", "on-lstm", "prpn", "palm"


@dataclass(frozen=True)
class ParserCombinationConfig(BaseConfig):
    """Settings of a combination of trained parsers, which `syntaxlm combine` writes.

    Attributes:
        parsers: settings of the parsers, whose span probabilities are averaged
        vocabulary_sizes: size of the vocabulary of each parser
    """

    name: Literal["parser-combination"] = "parser-combination"
    parsers: Annotated[
        tuple[Annotated[BaseConfig, config_among(PARSER_TYPES)], ...], Bounds(min_length=1, max_length=100)
    ] = field(default_factory=lambda: (MODELS["simple-pcfg"].config(),))
    vocabulary_sizes: Annotated[tuple[Count, ...], Bounds(min_length=1, max_length=100)] = (10_000,)

    @property
    def parser_settings(self) -> Sequence[BaseConfig]:
        return self.parsers

    def contradictions(self) -> list[str]:
        sizes, parsers = len(self.vocabulary_sizes), len(self.parsers)
        if sizes == parsers:
            return []
        return [f"vocabulary_sizes: found {sizes}; expected {parsers}, one for each parser"]


@dataclass(frozen=True)
class CombinationConfig(ParserCombinationConfig):
    """Settings of a combination of trained models, which `syntaxlm combine` writes. Its vocabulary is the scorer's.

    Attributes:
        scorer: settings of the language model
        drop_punctuation: whether the parsers do not read the punctuation marks that the scorer reads
    """

    name: Literal["combination"] = "combination"  # type: ignore[assignment]
    scorer: Annotated[BaseConfig, config_among(SCORER_TYPES)] = field(default_factory=lambda: MODELS["lstm"].config())
    drop_punctuation: bool = False


@model("parser-combination", ParserCombinationConfig)
class ParserCombination(Model, ScoresTrees):
    """Several parsers as one: a span's probability is the mean of its probabilities under them.

    Attributes:
        parser_tokens: (parsers, V) the token of each parser for every token of the combination.
    """

    structure_type = SpanMarginals
    parser_tokens: Tensor

    def __init__(self, config: ParserCombinationConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        sizes = zip(config.parsers, config.vocabulary_sizes, strict=True)
        self.parsers: Any = nn.ModuleList(MODELS[parser.name].build(parser, size) for parser, size in sizes)
        self.register_buffer("parser_tokens", torch.zeros(len(self.parsers), vocabulary_size, dtype=torch.int32))

    def put(self, parsers: Sequence[Model], parser_tokens: Tensor) -> None:
        """Share the weights of trained parsers."""
        self.parsers = nn.ModuleList(parsers)
        self.parser_tokens = parser_tokens.int()

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Check the stored tokens of the parsers; no buffer is resized."""
        stored = tensors.get("parser_tokens")
        if stored is None or stored.is_meta or stored.shape != self.parser_tokens.shape:
            return []
        sizes = torch.tensor([parser.vocabulary_size for parser in self.parsers])[:, None]
        if bool(((stored >= 0) & (stored < sizes)).all()):
            return []
        return ["parser_tokens has ids that are not in the vocabularies of the parsers"]

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        marginals = [parser.structure(read).values.float() for parser, read in self._readings(batch)]
        return SpanMarginals(torch.stack(marginals).mean(0))

    def tree_log_probs(self, batch: TokenBatch, spans: Tensor) -> Tensor:
        """Return ln P(tree | sentence), where P is the mean of the probabilities under the parsers."""
        log_probs = [parser.tree_log_probs(read, spans) for parser, read in self._readings(batch)]
        return torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))

    def sample_trees(self, batch: TokenBatch, count: int, generator: np.random.Generator) -> list[list[TreeSpans]]:
        """Return trees of which each is drawn from a parser, which is drawn first."""
        samples = [parser.sample_trees(read, count, generator) for parser, read in self._readings(batch)]
        parsers = generator.integers(len(samples), size=(batch.sentence_count(), count)).tolist()
        return [
            [samples[parser][column][number] for number, parser in enumerate(column_parsers)]
            for column, column_parsers in enumerate(parsers)
        ]

    def _readings(self, batch: TokenBatch) -> Iterator[tuple[Any, TokenBatch]]:
        """Yield each parser with the batch as it reads it."""
        for parser, tokens in zip(self.parsers, self.parser_tokens, strict=True):
            yield parser, dataclasses.replace(batch, tokens=tokens[batch.tokens].long())


@model("combination", CombinationConfig)
class Combination(ParserCombination, HasHiddenStates, PredictsNextToken):
    """A language model that parses with one or more parsers.

    Token probabilities and hidden states are those of the scorer.

    Attributes:
        drops_punctuation: whether the parsers do not read the punctuation marks that the scorer reads.
    """

    def __init__(self, config: CombinationConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        self.drops_punctuation = config.drop_punctuation
        self.scorer: Any = MODELS[config.scorer.name].build(config.scorer, vocabulary_size)

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        return self.scorer.token_log_probs(batch, state)

    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        return self.scorer.next_log_probs(batch, state)

    def each_next_log_probs(self, batch: TokenBatch, state: State = None) -> Iterator[Tensor]:
        yield from self.scorer.each_next_log_probs(batch, state)


def believing_parser(model: Model) -> int | None:
    """Return the place of the parser whose beliefs about trees are those of a combination: the first one with any.

    The beliefs of several grammars are not averaged, because an entropy of derivations is of one grammar. None for a
    combination without such a parser, and for a model that is not a combination.
    """
    parsers = model.parsers if isinstance(model, ParserCombination) else ()
    return next((place for place, parser in enumerate(parsers) if isinstance(parser, HasTreeBeliefs)), None)
