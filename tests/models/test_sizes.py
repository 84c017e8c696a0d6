"""Sizes of models: computed without allocation, equal to those of the real model, and limited."""

from __future__ import annotations

import time

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models import sizes
from syntaxlm.models.registry import MODELS, build_model, model_shapes
from syntaxlm.models.sizes import MOST_TENSORS, shapes_of

VARIANTS = [
    *((name, {}) for name in MODELS),
    ("prpn", {"form": "paper"}),
    ("tree-rnn", {"cell": "lstm", "labelled": True, "loss": "nce"}),
]


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_meta_shapes_equal_those_of_the_model_and_use_no_random_numbers(name, settings):
    config = MODELS[name].config(**settings)
    before = torch.get_rng_state()
    began = time.perf_counter()
    shapes = model_shapes(config, 50).state_dict()
    assert time.perf_counter() - began < 1, "torch computed values on the meta device"
    assert torch.equal(torch.get_rng_state(), before)
    real = build_model(config, 50).state_dict()
    assert all(tensor.is_meta for tensor in shapes.values())
    assert {key: (one.shape, one.dtype) for key, one in shapes.items()} == {
        key: (one.shape, one.dtype) for key, one in real.items()
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lstm", {"layers": 10**8}),
        ("lstm", {"hidden_size": 10**400}),
        ("lstm", {"hidden_size": 10**12}),
        ("prpn", {"residual_blocks": 10**9}),
        ("prpn", {"layers": 10**9, "hidden_size": 2}),
        ("prpn", {"look_back": 10**15}),
        ("ngram", {"order": 10**9}),
        ("tree-rnn", {"hidden_size": 10**12}),
        ("palm", {"scorer_size": 10**30}),
        ("on-lstm", {"layer_sizes": (10**9, 200)}),
    ],
)
def test_a_model_larger_than_any_memory_raises_an_error_quickly(name, settings):
    # The limits of single settings come first; without them, the size of the whole is still refused.
    config = MODELS[name].config()
    for key, value in settings.items():
        object.__setattr__(config, key, value)
    began = time.perf_counter()
    with pytest.raises(InputError, match=r"parameters \(|weight tensors|cannot be built"):
        build_model(config, 100)
    assert time.perf_counter() - began < 30


def test_the_message_has_the_number_of_parameters_and_the_memory(monkeypatch):
    monkeypatch.setattr(sizes, "memory_size", lambda: 1 << 20)
    with pytest.raises(InputError, match=r"has over [\d,]+ parameters \(0\.\d GiB\), but this machine has 0\.0 GiB"):
        shapes_of(lambda: torch.nn.Linear(10_000, 1000))


def test_tied_weights_count_once_and_other_errors_are_not_hidden(monkeypatch):
    monkeypatch.setattr(sizes, "memory_size", lambda: 1_200_000)

    def tied() -> torch.nn.Module:
        first, second = torch.nn.Linear(500, 500), torch.nn.Linear(500, 500)
        second.weight = first.weight
        return torch.nn.ModuleList([first])

    with pytest.raises(InputError):  # 2 MB, though one is thrown away at once
        shapes_of(tied)
    monkeypatch.setattr(sizes, "memory_size", lambda: 2_100_000)
    shapes_of(tied)
    with pytest.raises(TypeError):
        shapes_of(lambda: torch.nn.Linear("three", None, None, None, None, None))
    assert MOST_TENSORS < 10_000
