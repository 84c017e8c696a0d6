"""DIORA's passes: agreement of the fast form, with its kernels, and the recursion, in values and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from syntaxlm.ops import diora
from syntaxlm.ops.diora import Composition, kernels, reference
from syntaxlm.ops.native import usable

COLUMNS = 3
every_length = pytest.mark.parametrize("length", [1, 2, 3, 6])
either_sharing = pytest.mark.parametrize("shared", [True, False], ids=["shared", "own outside weights"])


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def tensors(length: int, size: int = 7, shared: bool = True, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Leaves, root, and the weights of one composition or two."""
    shapes = [(size, 2 * size), (size,), (size, size), (size,), (size, size)] * (1 if shared else 2)
    found = [
        normalize(random(COLUMNS, length, size, seed=1, dtype=dtype), dim=-1),
        normalize(random(size, seed=2, dtype=dtype), dim=0),
        *(random(*shape, seed=3 + number, dtype=dtype) for number, shape in enumerate(shapes)),
    ]
    return [one.requires_grad_() for one in found]


def compositions(weights: list[Tensor]) -> tuple[Composition, ...]:
    return tuple(Composition(*weights[place : place + 5]) for place in range(0, len(weights), 5))


def outside_by_recursion(leaves: Tensor, root: Tensor, *weights: Tensor) -> Tensor:
    found = [reference.inside_outside(one, root, *compositions(list(weights))).outside for one in leaves]
    words = range(leaves.shape[1])
    return torch.stack([torch.stack([charts[word, word + 1].vector for word in words]) for charts in found])


def outside(leaves: Tensor, root: Tensor, *weights: Tensor) -> Tensor:
    return diora.outside(leaves, root, *compositions(list(weights)))


def gradients(result: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Of a random weighting of the result."""
    found = torch.autograd.grad(
        (result * random(*result.shape, seed=9, dtype=result.dtype)).sum(), inputs, allow_unused=True
    )
    return [torch.zeros_like(one) if grad is None else grad for one, grad in zip(inputs, found, strict=True)]


def assert_close(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@every_length
@either_sharing
def test_outside_vectors_and_every_gradient_equal_those_of_the_recursion(length, shared):
    inputs = tensors(length, shared=shared)
    fast, expected = outside(*inputs), outside_by_recursion(*inputs)
    assert_close([fast, *gradients(fast, inputs)], [expected, *gradients(expected, inputs)], 1e-11)


@every_length
def test_sentence_vectors_and_every_gradient_equal_those_of_the_recursion(length):
    leaves, root, *weights = tensors(length)
    (composition,) = compositions(weights)
    fast = diora.inside(leaves, composition)
    charts = [reference.inside_outside(one, root, composition) for one in leaves]
    expected = torch.stack([one.inside[0, length].vector for one in charts])
    inputs = [leaves, *weights]
    assert_close([fast, *gradients(fast, inputs)], [expected, *gradients(expected, inputs)], 1e-11)


@every_length
def test_split_scores_equal_those_of_the_recursion_in_the_order_of_charts(length):
    leaves, root, *weights = tensors(length)
    (composition,) = compositions(weights)
    found = diora.split_scores(leaves, composition)
    assert found.shape == (math.comb(length + 1, 3), COLUMNS)
    for column, one in enumerate(leaves):
        splits = reference.inside_outside(one, root, composition).splits
        expected = [
            splits[start, start + width][left - 1]
            for width in range(2, length + 1)
            for left in range(1, width)
            for start in range(length - width + 1)
        ]
        if expected:
            torch.testing.assert_close(found[:, column], torch.stack(expected), rtol=0, atol=1e-11)


@pytest.mark.skipif(usable(kernels.SOURCE, torch.float32) is None, reason="no C compiler")
@pytest.mark.parametrize("size", [1, 7, 40])
@either_sharing
def test_compiled_kernels_agree_with_torch(monkeypatch, size, shared):
    inputs = tensors(6, size, shared, torch.float32)
    compiled = outside(*inputs)
    compiled_gradients = gradients(compiled, inputs)
    monkeypatch.setattr(kernels, "usable", lambda *_: None)
    eager = outside(*inputs)
    assert_close([compiled, *compiled_gradients], [eager, *gradients(eager, inputs)], 1e-4)


@pytest.mark.parametrize("compiled", [True, False])
def test_bfloat16_products_give_nearly_the_same(monkeypatch, compiled):
    """Their rows are padded to fewer sizes, which changes nothing."""
    inputs = tensors(6, 40, dtype=torch.float32)
    exact = outside(*inputs)
    exact_gradients = gradients(exact, inputs)
    if not compiled:
        monkeypatch.setattr(kernels, "usable", lambda *_: None)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = outside(*inputs)
    assert (rounded - exact).norm() < 0.05 * exact.norm()
    for one, other in zip(gradients(rounded, inputs), exact_gradients, strict=True):
        assert (one - other).norm() < 0.2 * other.norm()


@every_length
def test_vectors_have_norm_1(length):
    leaves, root, *weights = tensors(length)
    for found in (outside(leaves, root, *weights), diora.inside(leaves, *compositions(weights))):
        torch.testing.assert_close(found.norm(dim=-1), torch.ones(found.shape[:-1], dtype=torch.float64))
