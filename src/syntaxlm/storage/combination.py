"""Combination of several trained models in one bundle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.combination import (
    PARSER_TYPES,
    SCORER_TYPES,
    Combination,
    CombinationConfig,
    ParserCombination,
    ParserCombinationConfig,
)
from syntaxlm.models.sizes import without_memory
from syntaxlm.storage.folder import ModelBundle


def combine(parsers: Sequence[ModelBundle], scorer: ModelBundle | None = None) -> ModelBundle:
    """Return one model of several: grammars, whose span probabilities are averaged, and a language model.

    Their weights are shared with the result. Its vocabulary is that of the scorer, or of the grammar with the most
    words. All must have the same normaliser.
    Raises InputError for models that do not fit together.
    """
    base = scorer or max(parsers, key=lambda parser: len(parser.vocabulary))
    for number, parser in enumerate(parsers, 1):
        if parser.name not in PARSER_TYPES:
            raise InputError(f"combine: found a {parser.name} model as a parser; expected {', '.join(PARSER_TYPES)}")
        if parser.normaliser != base.normaliser:
            raise InputError(
                f"combine: parser {number} has another normaliser than {'the scorer' if scorer else 'the others'};"
                " expected models that read text in the same way"
            )
    members: dict[str, Any] = {
        "parsers": tuple(parser.settings.model for parser in parsers),
        "vocabulary_sizes": tuple(len(parser.vocabulary) for parser in parsers),
    }
    config: ParserCombinationConfig
    with without_memory():
        if scorer is None:
            config = ParserCombinationConfig(**members)
            model = ParserCombination(config, len(base.vocabulary))
        elif scorer.name in SCORER_TYPES:
            config = CombinationConfig(**members, scorer=scorer.settings.model)
            model = Combination(config, len(base.vocabulary))
            model.scorer = scorer.model
        else:
            raise InputError(f"combine: found a {scorer.name} model as the scorer; expected {', '.join(SCORER_TYPES)}")
    tokens = torch.tensor([parser.vocabulary.encode(base.vocabulary.tokens) for parser in parsers])
    model.put([parser.model for parser in parsers], tokens)
    return ModelBundle(model.eval(), dataclasses.replace(base.settings, model=config), base.vocabulary)
