"""The models of the house, by name: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syntaxlm.models import lstm, prpn
from syntaxlm.models.base import LanguageModel

ModelConfig = prpn.PRPNConfig | lstm.LSTMConfig

MODELS: dict[str, tuple[type, Callable[[Any, int], LanguageModel]]] = {
    "prpn": (prpn.PRPNConfig, prpn.build),
    "lstm": (lstm.LSTMConfig, lstm.build),
}


def build_model(config: ModelConfig, vocabulary_size: int) -> LanguageModel:
    """A model with fresh weights."""
    return MODELS[config.name][1](config, vocabulary_size)
