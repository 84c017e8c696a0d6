"""Models of all types and settings are stored and read back unchanged."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.models.abilities import LabelsSpans, ParsesSentences, ScoresSentences, ScoresTokens, TrainsByCounting
from syntaxlm.models.structures import Heads, SpanMarginals
from syntaxlm.storage.folder import ModelBundle, ModelSettings, distinct_tensors, read_model, write_model
from syntaxlm.text.normaliser import Normaliser
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
    every,
    log_probs,
)

VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(WORDS - 3))])


def stored(name: str, **settings: object) -> ModelBundle:
    """A model in single precision, as models are stored."""
    model = built(name, **settings)
    if not isinstance(model, TrainsByCounting):
        model.float()
    config = config_of(name, **settings)
    if name in TREE_VARIANTS:
        how = ModelSettings(config, Normaliser(), carry_state=False, predict_eos=False)
        return ModelBundle(model, how, tree_variants.VOCABULARY, tree_variants.LABELS)
    return ModelBundle(model, ModelSettings(config, Normaliser()), VOCABULARY)


@pytest.mark.parametrize("name", EVERY)
def test_a_written_model_is_read_back_unchanged(name, tmp_path):
    bundle = stored(name)
    write_model(tmp_path, bundle)
    again = read_model(tmp_path)
    assert type(again.model) is type(bundle.model)
    assert (again.settings, again.vocabulary, again.labels) == (bundle.settings, bundle.vocabulary, bundle.labels)
    assert not again.model.training
    one, other = distinct_tensors(bundle.model), distinct_tensors(again.model)
    assert one.keys() == other.keys()
    for key, tensor in one.items():
        assert torch.equal(tensor, other[key].to(tensor)), key
    assert again.model.parameter_count == bundle.model.parameter_count


@every(ScoresTokens)
def test_probabilities_are_unchanged_after_reading(name, tmp_path):
    bundle = stored(name)
    write_model(tmp_path, bundle)
    again = read_model(tmp_path).model
    assert torch.equal(log_probs(bundle.model, batch_for(name)), log_probs(again, batch_for(name)))


@every(ScoresSentences)
def test_sentence_probabilities_are_unchanged_after_reading(name, tmp_path):
    bundle = stored(name)
    write_model(tmp_path, bundle)
    again, batch = read_model(tmp_path).model, batch_for(name)
    assert torch.equal(bundle.model.sentence_log_probs(batch), again.sentence_log_probs(batch))


@every(ParsesSentences)
def test_structure_is_unchanged_after_reading(name, tmp_path):
    bundle = stored(name)
    write_model(tmp_path, bundle)
    again = read_model(tmp_path).model
    if again.structure_type is SpanMarginals:
        method = "labelled_structure" if isinstance(again, LabelsSpans) else "structure"
        one, other = (getattr(model, method)(closed_sentences()) for model in (bundle.model, again))
        assert torch.equal(one.values, other.values)
        assert (one.labels is None) == (method == "structure")
        assert one.labels is None or torch.equal(one.labels, other.labels)
        return
    if again.structure_type is Heads:
        one, other = (model.structure(closed_sentences()).values for model in (bundle.model, again))
        assert torch.equal(one, other)
        assert all(map(torch.equal, bundle.model.state_dict().values(), again.state_dict().values()))
        return
    mask = batch_for(name).mask()
    one, other = (model.structure(batch_for(name)).values for model in (bundle.model, again))
    of_words = (one[:, mask], other[:, mask]) if again.distance_layers else (one[mask], other[mask])
    assert torch.equal(*of_words)


@pytest.mark.parametrize("name", [name for name in VARIANTS if "tied" in vars(config_of(name))])
def test_untied_weights_are_stored_separately_and_tied_ones_once(name, tmp_path):
    for tied in (True, False):
        bundle = stored(name, tied=tied)
        write_model(tmp_path / str(tied), bundle)
        again = read_model(tmp_path / str(tied)).model
        assert (again.decoder.weight is again.embedding.weight) == tied
        assert torch.equal(log_probs(bundle.model, batch_for(name)), log_probs(again, batch_for(name)))
