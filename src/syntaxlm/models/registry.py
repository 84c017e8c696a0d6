"""The models by name: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from syntaxlm.errors import InputError
from syntaxlm.models import lstm, ngram, on_lstm, palm, prpn, tree_rnn
from syntaxlm.models.contract import LanguageModel, Reads

ModelConfig = Annotated[
    prpn.PRPNConfig
    | lstm.LSTMConfig
    | on_lstm.ONLSTMConfig
    | palm.PaLMConfig
    | ngram.NGramConfig
    | tree_rnn.TreeRNNConfig,
    Field(discriminator="name"),
]

MODELS: dict[str, tuple[type, Callable[[Any, int], LanguageModel]]] = {
    "prpn": (prpn.PRPNConfig, prpn.build),
    "lstm": (lstm.LSTMConfig, lstm.build),
    "on-lstm": (on_lstm.ONLSTMConfig, on_lstm.build),
    "palm": (palm.PaLMConfig, palm.build),
    "ngram": (ngram.NGramConfig, ngram.build),
    "tree-rnn": (tree_rnn.TreeRNNConfig, tree_rnn.build),
}


def reads(config: ModelConfig | type) -> Reads:
    """What a model with these settings reads."""
    found: Reads = getattr(config, "reads", "tokens")
    return found


def build_model(config: ModelConfig, vocabulary_size: int) -> LanguageModel:
    """A model with fresh weights. Raises InputError where memory cannot hold it."""
    try:
        return MODELS[config.name][1](config, vocabulary_size)
    except RuntimeError as error:  # torch cannot allocate a tensor
        raise InputError(f"a model of these sizes cannot be built: {str(error).splitlines()[0]}") from error
