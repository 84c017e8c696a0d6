"""Models with fresh weights and a small vocabulary, as if they had been read from a folder."""

from __future__ import annotations

import dataclasses
import string

import pytest

from syntaxlm.model_io import Mode, ModelBundle, ModelSettings
from syntaxlm.models.registry import MODELS
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from tests.models.test_contract import TEXT_MODELS, WORDS, built

every_model = pytest.mark.parametrize("name", TEXT_MODELS)

KNOWN = {
    "tags": "DT NN VBZ , . JJ",
    "words": "the cat dog sees . , ! N a old",
    "characters": "_ t h e c a d o g s . N \\_ ! é",
}


def fresh(name: str, mode: Mode = "sentences", **normalising: object) -> ModelBundle:
    """A model of the contract test, with a vocabulary of `KNOWN` tokens and letters; in float64."""
    normaliser = Normaliser(**normalising)
    special = ["<unk>", "<s>", "</s>"] if mode != "stream" else ["<unk>", "<eos>"]
    tokens = list(dict.fromkeys([*special, *KNOWN[normaliser.units].split(), *string.ascii_lowercase]))[:WORDS]
    settings = ModelSettings(MODELS[name][0](), normaliser, mode)
    vocabulary = Vocabulary(tokens, begin=special[1], end=special[-1])
    return ModelBundle(built(name), settings, vocabulary)


def layered(mode: Mode = "sentences") -> ModelBundle:
    """An ON-LSTM of three layers."""
    model = built("on-lstm", layer_sizes=(8, 4, 6))
    stored = fresh("on-lstm", mode)
    settings = dataclasses.replace(stored.settings, model=model.core.config)
    return dataclasses.replace(stored, model=model, settings=settings)
