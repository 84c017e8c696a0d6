"""Combination of several trained models in one bundle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.combination import PARSER_TYPES, SCORER_TYPES, Combination, CombinationConfig
from syntaxlm.storage.folder import ModelBundle


def combine(parsers: Sequence[ModelBundle], scorer: ModelBundle) -> ModelBundle:
    """Return one model of several: grammars, whose span probabilities are averaged, and a language model.

    Their weights are shared with the result, whose vocabulary is that of the scorer. All must have the same normaliser.
    Raises InputError for models that do not fit together.
    """
    for number, parser in enumerate(parsers, 1):
        if parser.name not in PARSER_TYPES:
            raise InputError(f"combine: found a {parser.name} model as a parser; expected {', '.join(PARSER_TYPES)}")
        if parser.normaliser != scorer.normaliser:
            raise InputError(
                f"combine: parser {number} has another normaliser than the scorer; expected models that read text in"
                " the same way"
            )
    if scorer.name not in SCORER_TYPES:
        raise InputError(f"combine: found a {scorer.name} model as the scorer; expected {', '.join(SCORER_TYPES)}")
    config = CombinationConfig(
        parsers=tuple(parser.settings.model for parser in parsers),
        vocabulary_sizes=tuple(len(parser.vocabulary) for parser in parsers),
        scorer=scorer.settings.model,
    )
    tokens = torch.tensor([parser.vocabulary.encode(scorer.vocabulary.tokens) for parser in parsers])
    model = Combination.of(config, [parser.model for parser in parsers], scorer.model, tokens)
    settings = dataclasses.replace(scorer.settings, model=config)
    return ModelBundle(model.eval(), settings, scorer.vocabulary)
