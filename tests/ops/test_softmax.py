"""The softmax over the vocabulary, with compiled kernels and without."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.ops import native
from syntaxlm.ops.softmax import fast, reference, target_log_probs


@pytest.mark.parametrize("elements", [1, 30, 11 * 7, 1 << 23])
@pytest.mark.parametrize("rows", [1, 7, 20])
def test_target_log_probs_equal_log_softmax_and_gather_in_value_and_every_gradient(monkeypatch, rows, elements):
    """elements: number of logits at a time: one row, a few rows, or all."""
    for chunk in ("FORWARD_CHUNK", "BACKWARD_CHUNK"):
        monkeypatch.setattr(fast, chunk, elements)
    for fewest in ("FORWARD_ROWS", "BACKWARD_ROWS"):
        monkeypatch.setattr(fast, fewest, 1)
    torch.manual_seed(0)
    hidden = torch.randn(rows, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (rows,))
    outer = torch.randn(rows, dtype=torch.float64)
    value = target_log_probs(hidden, weight, bias, targets)
    expected = torch.log_softmax(hidden @ weight.T + bias, -1).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-13)
    gradients = torch.autograd.grad((value * outer).sum(), (hidden, weight, bias))
    wanted = torch.autograd.grad((expected * outer).sum(), (hidden, weight, bias))
    for found, right in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-13)


def test_parts_have_many_rows_even_of_a_large_vocabulary():
    """With one row in a part, every row would read all weights."""
    for chunk, fewest in ((fast.FORWARD_CHUNK, fast.FORWARD_ROWS), (fast.BACKWARD_CHUNK, fast.BACKWARD_ROWS)):
        parts = list(fast._parts(700, 10_000_000, chunk, fewest))
        assert [part.start for part in parts] == list(range(0, 700, fewest))
        assert fewest >= 64


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


def tensors(rows: int, size: int, width: int = 20, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Hidden rows, weight, bias, targets, and an output gradient."""
    numbers = torch.Generator().manual_seed(seed)
    hidden, weight, bias, outer = (
        torch.randn(*shape, generator=numbers) for shape in ((rows, width), (size, width), (size,), (rows,))
    )
    targets = torch.randint(size, (rows,), generator=numbers)
    return hidden.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), targets, outer


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("size", [2, 1023, 1024, 2500])
@pytest.mark.parametrize("low", [False, True])
def test_float32_and_bfloat16_agree_with_the_reference_compiled_or_not(monkeypatch, compiled, size, low):
    if not compiled:
        monkeypatch.setattr(fast, "usable", lambda *arguments: None)
    elif native.library(fast._SOURCE) is None:
        pytest.skip("no C compiler")
    hidden, weight, bias, targets, outer = tensors(33, size)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        value = target_log_probs(hidden, weight, bias, targets)
    expected = reference.target_log_probs(hidden, weight, bias, targets)
    assert value.dtype == torch.float32
    tolerance = 0.1 if low else 2e-5
    torch.testing.assert_close(value, expected, rtol=0, atol=tolerance)
    found = torch.autograd.grad((value * outer).sum(), (hidden, weight, bias))
    wanted = torch.autograd.grad((expected * outer).sum(), (hidden, weight, bias))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=0, atol=(0.05 if low else 1e-4) * float(theirs.abs().max().clamp(min=1))
        )


def test_a_target_outside_the_vocabulary_raises_an_error():
    hidden, weight, bias, _, _ = tensors(2, 5)
    for target in (-1, 5):
        with pytest.raises(IndexError, match="expected 0 to 4"):
            target_log_probs(hidden, weight, bias, torch.tensor([0, target]))


def test_nan_and_infinity_reach_the_loss():
    hidden, weight, bias, targets, _ = tensors(3, 2000)
    for value in (float("nan"), float("inf")):
        with torch.no_grad():
            broken = hidden.clone()
            broken[1, 3] = value
        assert not torch.isfinite(target_log_probs(broken, weight, bias, targets))[1]
