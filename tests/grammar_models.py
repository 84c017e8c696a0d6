"""PCFGs of every type with fresh weights and a small vocabulary, as if they had been read from a folder."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.models.abilities import HasGrammar
from syntaxlm.models.registry import MODELS, build_model, model_types_with
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from tests.models.variants import SENTENCE_VARIANTS

WORDS = ["the", "a", "cat", "dog", "<b>", "sees", "sleeps", "old"]
SIZES = {"nonterminals": 4, "preterminals": 8, "embedding_size": 6}
MORE = {"tensor-pcfg": {"rank": 3}, "compound-pcfg": {"latent_size": 2, "encoder_size": 5}}
GRAMMARS = model_types_with(HasGrammar)

every_grammar = pytest.mark.parametrize("name", GRAMMARS)


def grammar(name: str, one_word_share: float = 0.1, sharpness: float = 1.5) -> ModelBundle:
    """A model in float64. sharpness: factor of the fresh weights, for rules that differ."""
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *WORDS])
    model_type, settings = SENTENCE_VARIANTS.get(name, (name, {}))
    config = MODELS[model_type].config(**SIZES, **MORE.get(model_type, {}), **settings)
    torch.manual_seed(1)
    model = build_model(config, len(vocabulary)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(sharpness)
        model.one_word_share.fill_(one_word_share)
        model.unigrams.fill_(-float(torch.tensor(len(model.unigrams)).log()))
    return ModelBundle(model.eval(), ModelSettings(config, NormaliserSettings()), vocabulary)
