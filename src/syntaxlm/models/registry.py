"""The models of the house, by name: the one place that knows them all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from syntaxlm.errors import InputError
from syntaxlm.models import lstm, ngram, on_lstm, palm, prpn, tree_rnn
from syntaxlm.models.contract import LanguageModel, Reads
from syntaxlm.models.sizes import shapes_of
from syntaxlm.settings import Limits, range_faults

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


def _at_least(least: int) -> tuple[str, Callable[[float], bool]]:
    return f"{least} or more", lambda value: value >= least


_RATE = "a number from 0 to under 1", lambda value: 0 <= value < 1
_POSITIVE = "a positive number", lambda value: 0 < value < math.inf
_NOT_NEGATIVE = "0 or more", lambda value: 0 <= value < math.inf

# What a setting of this name may be, in whichever model.
_LIMITS: Limits = {
    "embedding_size": _at_least(1),
    "layer_sizes": ("one or more sizes, each 1 or more", lambda sizes: len(sizes) > 0 and min(sizes) >= 1),
    "chunk_size": _at_least(1),
    "attention_after": _at_least(1),
    "span_size": _at_least(2),
    "scorer_size": _at_least(1),
    "maximum_span": _at_least(1),
    "supervision": _NOT_NEGATIVE,
    "order": _at_least(1),
    "minimum_counts": (
        "one or more counts, the first 1, none under the one before",
        lambda counts: list(counts[:1]) == [1] and list(counts) == sorted(counts),
    ),
    "hidden_size": _at_least(1),
    "label_size": _at_least(1),
    "noise_words": _at_least(1),
    "log_normaliser": ("a number", math.isfinite),
    "layers": _at_least(1),
    "memory_slots": _at_least(1),
    "look_back": _at_least(0),
    "residual_blocks": _at_least(0),
    "dropout": _RATE,
    "layer_dropout": _RATE,
    "recurrent_dropout": _RATE,
    "input_dropout": _RATE,
    "embedding_dropout": _RATE,
    "weight_drop": _RATE,
    "ar": _NOT_NEGATIVE,
    "tar": _NOT_NEGATIVE,
    "resolution": _POSITIVE,
    "temperature": _POSITIVE,
    "init_range": _POSITIVE,
}


def reads(config: ModelConfig | type) -> Reads:
    """What a model of these settings reads."""
    found: Reads = getattr(config, "reads", "tokens")
    return found


def config_faults(config: ModelConfig) -> list[str]:
    """Settings that are out of range: "model.hidden_size: found 0; expected 1 or more"."""
    return range_faults(_LIMITS, lambda name: getattr(config, name, None), "model.")


def build_model(config: ModelConfig, vocabulary_size: int) -> LanguageModel:
    """A model with fresh weights. Raises InputError for settings out of range or too large for the memory."""
    model_shapes(config, vocabulary_size)
    try:
        return MODELS[config.name][1](config, vocabulary_size)
    except RuntimeError as error:  # torch's word for a tensor that memory cannot hold
        raise InputError(f"a model of these sizes cannot be made: {str(error).splitlines()[0]}") from error


def model_shapes(config: ModelConfig, vocabulary_size: int) -> LanguageModel:
    """The model on torch's meta device: shapes and dtypes, no values, no memory. Raises InputError as `build_model`."""
    faults = config_faults(config)
    if faults:
        raise InputError("\n".join(faults))
    return shapes_of(lambda: MODELS[config.name][1](config, vocabulary_size))
