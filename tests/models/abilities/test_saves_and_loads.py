"""Models of all types and settings are stored and read back unchanged."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.models.abilities import LabelsSpans, ParsesSentences, ScoresSentences, ScoresTokens, TrainsByCounting
from syntaxlm.models.structures import Heads, SpanMarginals
from syntaxlm.storage.folder import ModelBundle, ModelSettings, distinct_tensors, read_model, write_model
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from tests.models import tree_variants
from tests.models.variants import (
    EVERY,
    TREE_VARIANTS,
    VARIANTS,
    WORDS,
    batch_for,
    built,
    closed_sentences,
    config_of,
    log_probs,
    marked,
)

VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(WORDS - 3))])


def stored(name: str, **settings: object) -> ModelBundle:
    """A model in single precision, as models are stored."""
    model = built(name, **settings)
    if not isinstance(model, TrainsByCounting):
        model.float()
    config = config_of(name, **settings)
    if name in TREE_VARIANTS:
        how = ModelSettings(config, NormaliserSettings(), carry_state=False, predict_eos=False)
        return ModelBundle(model, how, tree_variants.VOCABULARY, tree_variants.LABELS)
    return ModelBundle(model, ModelSettings(config, NormaliserSettings()), VOCABULARY)


@pytest.mark.parametrize("name", EVERY)
def test_a_written_model_is_read_back_with_the_same_probabilities_and_structure(name, tmp_path):
    bundle, batch = stored(name), batch_for(name)
    write_model(tmp_path, bundle)
    again = read_model(tmp_path)
    models = bundle.model, again.model
    assert type(again.model) is type(bundle.model)
    assert (again.settings, again.vocabulary, again.labels) == (bundle.settings, bundle.vocabulary, bundle.labels)
    assert not again.model.training
    tensors, others = map(distinct_tensors, models)
    assert tensors.keys() == others.keys()
    for key, tensor in tensors.items():
        assert torch.equal(tensor, others[key].to(tensor)), key
    assert again.model.parameter_count == bundle.model.parameter_count
    if isinstance(again.model, ScoresTokens):
        assert torch.equal(*(log_probs(model, batch) for model in models))
    if isinstance(again.model, ScoresSentences):
        assert torch.equal(*(model.sentence_log_probs(batch) for model in models))
    if not isinstance(again.model, ParsesSentences):
        return
    if again.model.structure_type is Heads:
        assert torch.equal(*(model.structure(closed_sentences()).values for model in models))
    elif again.model.structure_type is SpanMarginals:
        method = "labelled_structure" if isinstance(again.model, LabelsSpans) else "structure"
        found, expected = (getattr(model, method)(closed_sentences()) for model in models)
        assert torch.equal(found.values, expected.values)
        assert (found.labels is None) == (method == "structure")
        assert found.labels is None or torch.equal(found.labels, expected.labels)
    else:
        mask = batch.mask()
        values = (model.structure(batch).values for model in models)
        assert torch.equal(*(value[:, mask] if again.model.distance_layers else value[mask] for value in values))


@pytest.mark.parametrize(
    "name", [marked(name) for name in VARIANTS if "tied" in vars(config_of(name)) and "adaptive" not in name]
)
def test_untied_weights_are_stored_separately_and_tied_ones_once(name, tmp_path):
    for tied in (True, False):
        bundle = stored(name, tied=tied)
        write_model(tmp_path / str(tied), bundle)
        again = read_model(tmp_path / str(tied)).model
        assert (again.decoder.weight is again.embedding.weight) == tied
        assert torch.equal(log_probs(bundle.model, batch_for(name)), log_probs(again, batch_for(name)))
