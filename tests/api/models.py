"""Models in memory, like those that `load` returns, and their results."""

from __future__ import annotations

from typing import Any

from syntaxlm.api import LanguageModel
from syntaxlm.storage.folder import ModelBundle
from tests.fresh_models import fresh
from tests.grammar_models import grammar

TEXTS = ["the old cat sees a dog", "", "a dog"]


def language_model(stored: ModelBundle) -> LanguageModel:
    return LanguageModel(**vars(stored))


def results_of_every_type() -> list[Any]:
    lstm, pcfg = language_model(fresh("lstm")), language_model(grammar("simple-pcfg"))
    return [
        lstm.surprisal(TEXTS),
        lstm.surprisal(TEXTS[0]),
        lstm.surprisal(""),
        pcfg.parse(TEXTS, labels=True),
        pcfg.parse(TEXTS[0]),
        pcfg.parse("the"),
        lstm.generate(2),
        pcfg.generate(2, trees=True),
    ]
