"""Models that encode sentences: an independent vector for each sentence."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import EncodesSentences
from syntaxlm.models.registry import MODELS, build_encoder
from tests.models.variants import WORDS, built, config_of, every, ragged

every_model = every(EncodesSentences)
LEFT_OUT: dict[str, set[str]] = {
    "diora": {"decoder.weight", "root", "unigrams"},
    "gumbel-tree-lstm": set(),
    "rl-spinn": set(),
}


@every_model
def test_features_of_a_sentence_do_not_depend_on_padding_or_the_rest_of_the_batch(name):
    model, batch = built(name), ragged()
    together = model.encode(batch).features
    assert together.shape == (4, model.feature_size)
    for column, length in enumerate(batch.lengths.tolist()):
        part = slice(length), slice(column, column + 1)
        alone = dataclasses.replace(batch, tokens=batch.tokens[part], targets=batch.targets[part], lengths=None)
        torch.testing.assert_close(model.encode(alone).features[0], together[column], rtol=0, atol=1e-12)


@every_model
def test_features_depend_on_every_token_and_not_on_targets(name):
    model, batch = built(name), ragged(3, (3, 3))
    expected = model.encode(batch).features
    torch.testing.assert_close(model.encode(dataclasses.replace(batch, targets=batch.tokens)).features, expected)
    for step in range(3):
        tokens = batch.tokens.clone()
        tokens[step, 0] = (tokens[step, 0] + 1) % WORDS
        found = model.encode(dataclasses.replace(batch, tokens=tokens)).features
        assert (found[0] - expected[0]).abs().max() > 1e-9
        torch.testing.assert_close(found[1], expected[1], rtol=0, atol=1e-12)


@every_model
def test_evaluation_has_no_penalties(name):
    assert not built(name).encode(ragged()).penalties


@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if kind.encoder is not None])
def test_an_encoder_is_the_model_without_its_decoder(name):
    model = built(name, tied=False)
    encoder = build_encoder(config_of(name, tied=False), WORDS).double().eval()
    left_out = {key for key in model.state_dict() if key not in encoder.state_dict()}
    assert left_out == LEFT_OUT.get(name, {"decoder.weight", "decoder.bias"})
    encoder.load_state_dict({key: value for key, value in model.state_dict().items() if key not in left_out})
    torch.testing.assert_close(encoder.encode(ragged()).features, model.encode(ragged()).features)
    assert encoder.feature_size == model.feature_size


@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if kind.encoder is None])
def test_the_error_for_a_model_type_that_does_not_encode_lists_those_that_do(name):
    encoders = ", ".join(other for other, kind in MODELS.items() if kind.encoder is not None)
    assert {"prpn", "lstm", "on-lstm", "palm"} <= set(encoders.split(", "))
    with pytest.raises(
        InputError, match=rf"^{name}: .* does not encode sentences\. Model types that can: {encoders}\.$"
    ):
        build_encoder(MODELS[name].config(), WORDS)


def test_an_encoder_checks_its_settings():
    with pytest.raises(InputError, match=r"layers: found 0"):
        build_encoder(dataclasses.replace(MODELS["lstm"].config(), layers=0), WORDS)
