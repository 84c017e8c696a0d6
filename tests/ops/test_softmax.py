"""Softmaxes of products in every form, compared with their references."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from syntaxlm.ops import softmax
from syntaxlm.ops.softmax import (
    emission_log_probs,
    emission_log_probs_reference,
    product_softmax,
    target_log_probs,
    target_log_probs_reference,
)
from tests.ops.harness import FORMS, TORCH, check, every_form, leaves, random


def check_targets(rows: int, words: int, form, size: int = 5) -> None:
    tensors = leaves({"rows": (rows, size), "weight": (words, size), "bias": (words,)})
    targets = torch.randint(words, (rows,), generator=torch.Generator().manual_seed(0))
    check(
        lambda given: target_log_probs(**given, targets=targets),
        lambda given: target_log_probs_reference(**given, targets=targets),
        tensors, form, "softmax",
    )  # fmt: skip


@pytest.mark.parametrize("elements", [1, 30, 11 * 7])
@pytest.mark.parametrize("rows", [1, 7, 20])
def test_parts_of_any_size_change_nothing(monkeypatch, rows, elements):
    """elements: number of logits at a time: one row, a few rows, or all."""
    for name, value in {"LOGITS": elements, "ROWS": 1}.items():
        monkeypatch.setattr(softmax, f"FORWARD_{name}", value)
        monkeypatch.setattr(softmax, f"BACKWARD_{name}", value)
    check_targets(rows, 11, TORCH)


@pytest.mark.parametrize("elements", [1, 30 * 11, 1 << 21])
@pytest.mark.parametrize("words", [2, 15, 16, 512, 1023, 2500])
def test_log_probs_without_gradients_are_those_with_gradients(monkeypatch, words, elements):
    monkeypatch.setattr(softmax, "FORWARD_LOGITS", elements)
    tensors = leaves({"rows": (150, 20), "weight": (words, 20), "bias": (words,)})
    float32 = {name: tensor.detach().float().requires_grad_() for name, tensor in tensors.items()}
    targets = torch.randint(words, (150,), generator=torch.Generator().manual_seed(0))
    with_gradients = target_log_probs(**float32, targets=targets)
    with torch.no_grad():
        assert torch.allclose(target_log_probs(**float32, targets=targets), with_gradients, atol=1e-6)


@every_form
@pytest.mark.parametrize("words", [2, 1023, 1024, 2500])
def test_log_probs_of_targets_equal_the_reference_in_value_and_every_gradient(words, form):
    check_targets(33, words, form, size=20)


def test_no_rows_give_no_log_probabilities_and_zero_gradients():
    weight, bias = torch.randn(4, 3, requires_grad=True), torch.zeros(4, requires_grad=True)
    value = target_log_probs(torch.zeros(0, 3), weight, bias, torch.zeros(0, dtype=torch.int64))
    value.sum().backward()
    assert value.shape == (0,)
    assert not weight.grad.any()


def test_huge_logits_give_finite_log_probs_and_gradients():
    rows = torch.full((1, 1), 1e4, requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]])
    value = target_log_probs(rows, weight, torch.zeros(2), torch.tensor([1]))
    value.sum().backward()
    assert value.tolist() == [-2e4]
    assert torch.isfinite(rows.grad).all()


def test_a_target_outside_the_vocabulary_raises_an_error():
    for target in (-1, 5):
        with pytest.raises(IndexError, match="expected 0 to 4"):
            target_log_probs(torch.zeros(2, 3), torch.zeros(5, 3), torch.zeros(5), torch.tensor([0, target]))


def test_targets_may_be_any_integers_and_a_bias_of_another_dtype_raises_an_error():
    rows, weight = random(3, 5, dtype=torch.float32), random(7, 5, seed=1, dtype=torch.float32)
    targets = torch.tensor([[0, 1], [6, 1], [3, 1]])[:, 0]
    expected = target_log_probs_reference(rows, weight, torch.zeros(7), targets)
    for given in (targets, targets.int(), targets.to(torch.uint8)):
        torch.testing.assert_close(target_log_probs(rows, weight, torch.zeros(7), given), expected)
    with pytest.raises(RuntimeError, match="dtype"):
        target_log_probs(rows, weight, torch.zeros(7, dtype=torch.float64), targets)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_reach_the_loss(value):
    rows = random(3, 20, dtype=torch.float32)
    rows[1, 3] = value
    weight, targets = random(2000, 20, seed=1, dtype=torch.float32), torch.zeros(3, dtype=torch.int64)
    finite = torch.isfinite(target_log_probs(rows, weight, torch.zeros(2000), targets))
    assert finite.tolist() == [True, False, True]


@every_form
@pytest.mark.parametrize("sizes", [(5, 4, 70), (130, 64, 2100), (64, 32, 999)], ids=str)
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_emissions_equal_the_reference_in_value_and_every_gradient(sizes, biased, form):
    preterminals, size, words = sizes
    tensors = leaves({"hidden": (preterminals, size), "words": (words, size), "bias": (words,) if biased else None})
    columns = torch.randperm(words, generator=torch.Generator().manual_seed(0))[:9]
    check(
        lambda given: emission_log_probs(**given, columns=columns),
        lambda given: emission_log_probs_reference(**given, columns=columns),
        tensors, form, "emissions",
    )  # fmt: skip


@pytest.mark.parametrize("form", [FORMS[0], FORMS[4]], ids=str)
def test_the_softmax_of_a_product_equals_torch_in_value_and_every_gradient(form):
    tensors = leaves({"rows": (5, 6), "columns": (7, 6)})
    form = replace(form, gradient=4 * form.gradient)  # the gradients of a softmax are differences
    check(
        lambda given: product_softmax(**given),
        lambda given: torch.softmax(given["rows"] @ given["columns"].T, 1),
        tensors, form,
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_word_that_is_no_number_reaches_the_log_probs_of_all_words(form):
    hidden, words = random(5, 8, dtype=form.dtype), random(20, 8, seed=1, dtype=form.dtype)
    words[7] = torch.nan
    with form.running("emissions"):
        assert emission_log_probs(hidden, words, None, torch.tensor([1, 2])).isnan().all()


@pytest.mark.parametrize("form", FORMS[:3], ids=str)
def test_parts_of_the_vocabulary_may_have_the_probability_0(monkeypatch, form):
    monkeypatch.setattr(softmax, "_EMISSIONS_IN_CACHE", 1)
    hidden, words, bias = random(5, 8), random(20, 8, seed=1), torch.zeros(20, dtype=torch.float64)
    bias[:13] = -torch.inf
    columns = torch.tensor([13, 19, 0])
    with form.running("emissions"):
        found = emission_log_probs(*(part.to(form.dtype) for part in (hidden, words, bias)), columns)
    expected = emission_log_probs_reference(hidden, words, bias, columns)
    torch.testing.assert_close(found.double(), expected, rtol=form.value, atol=form.value)


def test_no_words_give_no_log_probabilities_and_zero_gradients():
    hidden, words = random(64, 32, dtype=torch.float32).requires_grad_(), random(70, 32, seed=1, dtype=torch.float32)
    torch.use_deterministic_algorithms(True)  # uninitialised memory is NaN
    try:
        with torch.autocast("cpu", torch.bfloat16):
            value = emission_log_probs(hidden, words, None, torch.zeros(0, dtype=torch.int64))
            value.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert value.shape == (0, 64)
    assert torch.equal(hidden.grad, torch.zeros(64, 32))
