"""Models in memory, like those that `load` returns."""

from __future__ import annotations

from syntaxlm.api import LanguageModel
from syntaxlm.storage.folder import ModelBundle


def language_model(stored: ModelBundle) -> LanguageModel:
    return LanguageModel(**vars(stored))
