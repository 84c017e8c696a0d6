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
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.vocabulary import Vocabulary

UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"  # of a grammar, in this order


def combine(parsers: Sequence[ModelBundle], scorer: ModelBundle | None = None) -> ModelBundle:
    """Return one model of several: parsers, whose span probabilities are averaged, and a language model.

    Their weights are shared with the result. Its vocabulary is that of the scorer, or of the parser with the most
    words. All must have the same normaliser, but a scorer may read the punctuation that all parsers drop.

    Raises:
        InputError: for models that do not fit together.
    """
    base = scorer or max(parsers, key=lambda parser: len(parser.vocabulary))
    drops = scorer is not None and scorer.normaliser != parsers[0].normaliser
    expected = base.settings.normaliser
    if drops:
        expected = dataclasses.replace(expected, drop_punctuation=True)
    for number, parser in enumerate(parsers, 1):
        if parser.name not in PARSER_TYPES:
            raise InputError(f"combine: found a {parser.name} model as a parser; expected {', '.join(PARSER_TYPES)}")
        normaliser = parser.settings.normaliser
        if normaliser != expected:
            differing = [name for name, value in vars(expected).items() if vars(normaliser)[name] != value]
            settings = ", ".join(f"normaliser.{name}" for name in differing)
            raise InputError(
                f"combine: parser {number} has another normaliser than {'the scorer' if scorer else 'the others'}"
                f" ({settings}); expected models that read text in the same way"
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
            config = CombinationConfig(**members, scorer=scorer.settings.model, drop_punctuation=drops)
            model = Combination(config, len(base.vocabulary))
            model.scorer = scorer.model
        else:
            raise InputError(f"combine: found a {scorer.name} model as the scorer; expected {', '.join(SCORER_TYPES)}")
    tokens = torch.tensor([parser.vocabulary.encode(base.vocabulary.tokens) for parser in parsers])
    model.put([parser.model for parser in parsers], tokens)
    return ModelBundle(model.eval(), dataclasses.replace(base.settings, model=config), base.vocabulary)


def only_or_member(bundle: ModelBundle, number: int | None = None) -> ModelBundle:
    """Return a parser of a combination, by default the first, or another model, which has no number.

    Raises:
        InputError: like `member`.
    """
    is_combination = isinstance(bundle.model, ParserCombination)
    return member(bundle, number or 1) if is_combination or number is not None else bundle


def member(bundle: ModelBundle, number: int) -> ModelBundle:
    """Return a parser of a combination as a model of its own.

    Words that the combination does not tell apart have the name of a class of unknown words.

    Args:
        number: the number of the parser, from 1.

    Raises:
        InputError: for a model that is not a combination, and for another number.
    """
    model = bundle.model
    if not isinstance(model, ParserCombination):
        raise InputError(f"member {number}: the model is of type {bundle.name}; expected a combination of parsers")
    if not 1 <= number <= len(model.parsers):
        raise InputError(f"member: found {number}; expected 1 to {len(model.parsers)}, a parser of the combination")
    config: Any = bundle.settings.model
    vocabulary = bundle.vocabulary
    size = config.vocabulary_sizes[number - 1]
    names: dict[int, set[str]] = {}
    for token, word in zip(vocabulary.tokens, model.parser_tokens[number - 1].tolist(), strict=True):
        names.setdefault(word, set()).add(token)
    special = {vocabulary.unknown, vocabulary.begin, vocabulary.end}
    tokens = [UNKNOWN, BEGIN, END]
    for word in range(len(tokens), size):
        of_word = names.get(word, set()) - special
        classes = sorted(of_word & {vocabulary.tokens[place] for place in vocabulary.unknown_ids})
        only = [*classes, *of_word] if classes or len(of_word) == 1 else []
        tokens.append(only[0] if only and only[0] not in (UNKNOWN, BEGIN, END) else f"<unk:{word}>")
    parser = model.parsers[number - 1]
    settings = ModelSettings(config.parsers[number - 1], bundle.parser_normaliser.settings)
    return ModelBundle(parser, settings, Vocabulary(tokens, UNKNOWN, BEGIN, END))
