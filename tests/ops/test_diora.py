"""DIORA's passes: agreement of the fast form, with its kernels, and the recursion, in values and gradients."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from syntaxlm.ops import diora
from syntaxlm.ops.diora import Composition, inside_outside_reference
from tests.ops.harness import FORMS, TORCH, check, random

COLUMNS = 3
every_length = pytest.mark.parametrize("length", [1, 2, 3, 6])
either_sharing = pytest.mark.parametrize("shared", [True, False], ids=["shared", "own outside weights"])


def tensors(length: int, size: int = 7, shared: bool = True) -> dict[str, Tensor]:
    """Leaves, root, and the weights of one composition or two."""
    shapes = [(size, 2 * size), (size,), (size, size), (size,), (size, size)] * (1 if shared else 2)
    found = {
        "leaves": normalize(random(COLUMNS, length, size, seed=1), dim=-1),
        "root": normalize(random(size, seed=2), dim=0),
        **{f"weight {number}": random(*shape, seed=3 + number) for number, shape in enumerate(shapes)},
    }
    return {name: tensor.requires_grad_() for name, tensor in found.items()}


def compositions(given: dict[str, Tensor]) -> tuple[Composition, ...]:
    weights = list(given.values())[2:]
    return tuple(Composition(*weights[place : place + 5]) for place in range(0, len(weights), 5))


def charts(given: dict[str, Tensor]):
    return [inside_outside_reference(leaves, given["root"], *compositions(given)) for leaves in given["leaves"]]


def outside_reference(given: dict[str, Tensor]) -> Tensor:
    words = range(given["leaves"].shape[1])
    return torch.stack(
        [torch.stack([chart.outside[word, word + 1].vector for word in words]) for chart in charts(given)]
    )


def outside(given: dict[str, Tensor]) -> Tensor:
    return diora.outside(given["leaves"], given["root"], *compositions(given))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("length", "size"), [(1, 7), (2, 7), (3, 7), (6, 7), (6, 1), (6, 40)])
@either_sharing
def test_outside_vectors_and_every_gradient_equal_those_of_the_recursion(form, length, size, shared):
    """With bfloat16 products, rows are padded to fewer sizes, which changes nothing."""
    if form.low:
        if size < 40:
            return
        form = replace(form, value=0.05, gradient=0.2)
    else:
        form = replace(form, gradient=5 * form.gradient)
    kernel = "diora" if form.dtype == torch.float32 else None
    check(outside, outside_reference, tensors(length, size, shared), form, kernel, ("outside", length, size, shared))


@every_length
def test_sentence_vectors_and_every_gradient_equal_those_of_the_recursion(length):
    def inside(given: dict[str, Tensor]) -> Tensor:
        return diora.inside(given["leaves"], *compositions(given))

    def inside_reference(given: dict[str, Tensor]) -> Tensor:
        return torch.stack([chart.inside[0, length].vector for chart in charts(given)])

    given = tensors(length)
    given["root"] = given["root"].detach()
    check(inside, inside_reference, given, TORCH)


@every_length
def test_split_scores_equal_those_of_the_recursion_in_the_order_of_charts(length):
    given = tensors(length)
    found = diora.split_scores(given["leaves"], *compositions(given))
    assert found.shape == (math.comb(length + 1, 3), COLUMNS)
    for column, chart in enumerate(charts(given)):
        splits = chart.splits
        expected = [
            splits[start, start + width][left - 1]
            for width in range(2, length + 1)
            for left in range(1, width)
            for start in range(length - width + 1)
        ]
        if expected:
            torch.testing.assert_close(found[:, column], torch.stack(expected), rtol=0, atol=1e-11)


@pytest.mark.parametrize("form", FORMS[:5], ids=str)
@pytest.mark.parametrize("number", range(5))
def test_weights_that_are_no_numbers_give_nan(number, form):
    given = {name: tensor.detach().to(form.dtype) for name, tensor in tensors(4).items()}
    given[f"weight {number}"][:] = torch.nan
    with form.running():
        assert outside(given).isnan().all()


def test_a_weight_that_changes_before_backward_raises_an_error():
    given = tensors(3)
    result = outside(given)
    with torch.no_grad():
        given["weight 2"].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_a_second_backward_raises_an_error():
    result = outside(tensors(3)).sum()
    result.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="no second backward"):
        result.backward()
