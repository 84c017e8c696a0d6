"""Models with gates or attention to draw."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.models.abilities import HasMaps
from syntaxlm.models.batches import TokenBatch
from tests.models.variants import VARIANTS, built, every, ragged, read

every_model = every(HasMaps)


@every_model
@pytest.mark.parametrize(("steps", "columns"), [(1, 1), (7, 3), (20, 2)])
def test_maps_have_a_row_for_each_step_and_need_no_gradient(name, steps, columns):
    maps = built(name).maps(read(steps, columns))
    assert maps
    for values in (*maps.earlier_tokens.values(), *maps.units.values()):
        assert values.shape[:2] == (steps, columns)
        assert values.dim() == 3
        assert not values.requires_grad
        assert ((values >= 0) & (values <= 1 + 1e-12)).all()


@every_model
def test_maps_in_a_padded_batch_are_those_of_each_sentence_alone(name):
    model, batch = built(name), ragged(9, (9, 5, 2))
    together = model.maps(batch)
    for column, length in enumerate(batch.lengths.tolist()):
        part = slice(length), slice(column, column + 1)
        alone = model.maps(TokenBatch(batch.tokens[part], batch.targets[part]))
        for kind in ("earlier_tokens", "units"):
            for key, values in getattr(alone, kind).items():
                found = getattr(together, kind)[key][:length, column]
                torch.testing.assert_close(found, values[:, 0], rtol=0, atol=1e-12)


@every_model
def test_attention_sums_to_at_most_one(name):
    """It sums to less than one if gates are closed."""
    for key, values in built(name).maps(read(8, 2)).earlier_tokens.items():
        if "attention" in key:
            assert (values.sum(-1) <= 1 + 1e-12).all()


@pytest.mark.parametrize("name", ["lstm", "awd-lstm", "ngram"])
def test_models_without_gates_or_attention_declare_it(name):
    assert name in VARIANTS
    assert not isinstance(built(name), HasMaps)
