"""Models with fresh weights and a small vocabulary, as if they had been read from a folder."""

from __future__ import annotations

import dataclasses
import string

import pytest

from syntaxlm.models.abilities import ScoresSentences
from syntaxlm.models.batches import TextMode
from syntaxlm.scoring.options import PerplexityOptions
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from tests.models.variants import SENTENCE_VARIANTS, TOKEN_SCORERS, WORDS, built, config_of, names_with

every_model = pytest.mark.parametrize("name", TOKEN_SCORERS)
every_sentence_model = pytest.mark.parametrize("name", names_with(ScoresSentences, among=list(SENTENCE_VARIANTS)))

KNOWN = {
    "tags": "DT NN VBZ , . JJ",
    "words": "the cat dog sees . , ! N a old",
    "characters": "_ t h e c a d o g s . N \\_ ! é",
}


SENTENCES, STREAM, OPEN = TextMode(), TextMode(carry_state=True), TextMode(predict_eos=False)
"""Sentence by sentence, as one stream, and sentence by sentence without their ends."""


def fresh(name: str, mode: TextMode = SENTENCES, **normalising: object) -> ModelBundle:
    """A model of `tests.models.variants`, with a vocabulary of `KNOWN` tokens and letters; in float64."""
    normaliser = NormaliserSettings(**normalising)
    special = ["<unk>", "<eos>"] if mode.carry_state else ["<unk>", "<s>", "</s>"]
    tokens = list(dict.fromkeys([*special, *KNOWN[normaliser.units].split(), *string.ascii_lowercase]))[:WORDS]
    settings = ModelSettings(config_of(name), normaliser, mode.carry_state, mode.predict_eos)
    vocabulary = Vocabulary(tokens, begin=special[1], end=special[-1])
    return ModelBundle(built(name), settings, vocabulary)


def layered(mode: TextMode = SENTENCES) -> ModelBundle:
    """An ON-LSTM of three layers."""
    sizes = {"layer_sizes": (8, 4, 6)}
    stored = fresh("on-lstm", mode)
    settings = dataclasses.replace(stored.settings, model=config_of("on-lstm", **sizes))
    return dataclasses.replace(stored, model=built("on-lstm", **sizes), settings=settings)


def reading(mode: TextMode | None) -> PerplexityOptions:
    """Options that read a text in this mode; None: as in training."""
    if mode is None:
        return PerplexityOptions()
    return PerplexityOptions(context="carry" if mode.carry_state else "reset", predict_eos=mode.predict_eos)
