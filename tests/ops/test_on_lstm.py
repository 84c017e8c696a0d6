"""The recurrence of ordered neurons and of a plain LSTM: agreement of every form, reference and nn.LSTM."""

from __future__ import annotations

import shutil
import warnings
from functools import partial

import pytest
import torch
from torch import nn

from syntaxlm.ops import backend
from syntaxlm.ops.on_lstm import (
    CellWeights,
    backward_step,
    cumax,
    forward_step,
    lstm_of_torch,
    recurrence,
    recurrence_reference,
)
from tests.ops.harness import check, every_form, flat, gradients, leaves, random

CASES = {  # counts, size, chunk
    "one step": ([1], 6, 2),
    "one step, three columns": ([3], 6, 3),
    "seven steps, three columns": ([3] * 7, 6, 2),
    "63 steps": ([1] * 63, 4, 1),
    "63 steps, ragged": ([3] * 30 + [2] * 20 + [1] * 13, 6, 2),
    "ragged": ([3, 3, 2, 2, 2, 1, 1], 6, 6),
    "a column without a step": ([2, 1], 4, 2),
    "wide": ([4, 4, 3, 1], 70, 5),
    "plain, seven steps": ([3] * 7, 6, None),
    "plain, one step": ([1], 5, None),
    "plain, ragged": ([3, 3, 2, 2, 2, 1, 1], 7, None),
    "plain, wide": ([4, 4, 3, 1], 70, None),
}
INPUT = 5


def tensors_of(case):
    counts, size, chunk = CASES[case]
    columns = counts[0] + (case == "a column without a step")
    width = 4 * size + (0 if chunk is None else 2 * (size // chunk))
    return leaves({
        "inputs": (sum(counts), INPUT), "input": (width, INPUT), "recurrent": (width, size), "bias": (width,),
        "hidden": (columns, size), "cell": (columns, size),
    })  # fmt: skip


def run(op, case, given):
    counts, _, chunk = CASES[case]
    weights = CellWeights(given["input"], given["recurrent"], given["bias"], chunk)
    return op(given["inputs"], weights, (given["hidden"], given["cell"]), counts)


@every_form
@pytest.mark.parametrize("case", CASES)
def test_every_form_equals_the_reference_in_value_state_and_every_gradient(case, form):
    ops = partial(run, recurrence, case), partial(run, recurrence_reference, case)
    check(*ops, tensors_of(case), form, "on_lstm", ("on_lstm", case))


@pytest.mark.parametrize("chunk", [2, 6, None])
def test_a_step_after_its_products_equals_the_reference_in_value_and_gradient(chunk):
    """The functions that are compiled on a GPU, uncompiled, in float64."""
    rows, size = 3, 6
    width = 4 * size + (0 if chunk is None else 2 * (size // chunk))
    shapes = {"logits": (rows, width), "recurrent": (width, size), "hidden": (rows, size), "cell": (rows, size)}
    logits, recurrent, hidden, cell = leaves(shapes).values()
    weights = CellWeights(torch.eye(width, dtype=torch.float64), recurrent, logits.new_zeros(width), chunk)
    expected = recurrence_reference(logits, weights, (hidden, cell), [rows])
    after, state, low, gates, means = forward_step(logits, hidden @ recurrent.T, cell, chunk, torch.float64)
    torch.testing.assert_close((state, after), expected.state, rtol=0, atol=1e-14)
    torch.testing.assert_close(low, state, rtol=0, atol=0)
    if chunk is not None:
        distances = torch.stack([expected.input_distances, expected.distances], dim=-1)
        torch.testing.assert_close(1 - means, distances, rtol=0, atol=1e-14)
    output_grad, later_grad, cell_grad = (random(rows, size, seed=n) for n in (20, 21, 22))
    loss = ((output_grad + later_grad) * expected.hidden).sum() + (cell_grad * expected.state[1]).sum()
    wanted = torch.autograd.grad(loss, [logits, cell, hidden])
    grads = output_grad, later_grad, cell_grad
    found, before = backward_step(cell, after, gates, *grads, chunk, torch.float64)
    torch.testing.assert_close((found, before, found @ recurrent), wanted, rtol=0, atol=1e-13)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_steps_compiled_by_torch_equal_the_reference_in_value_state_and_every_gradient(monkeypatch):
    monkeypatch.setattr(backend, "library", lambda source: None)
    monkeypatch.setattr(backend, "worthwhile", lambda tensor: True)
    torch._dynamo.reset()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a failed compilation would warn
        for case in ("ragged", "plain, ragged"):
            tensors = tensors_of(case)
            ours, expected = (flat(run(op, case, tensors)) for op in (recurrence, recurrence_reference))
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
            grads = [gradients(outputs, list(tensors.values())) for outputs in (ours, expected)]
            torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-10)
    # Forward and backward, of ordered neurons and of a plain LSTM, for one row and for more.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before == 8


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", ["ragged", "plain, ragged", "wide"])
def test_on_a_gpu_steps_are_compiled_and_equal_the_reference(case):
    tensors = tensors_of(case)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ours = flat(run(recurrence, case, {name: tensor.cuda() for name, tensor in tensors.items()}))
        grads = gradients(ours, list(tensors.values()))
    expected = flat(run(recurrence_reference, case, tensors))
    torch.testing.assert_close([part.cpu() for part in ours], expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(grads, gradients(expected, list(tensors.values())), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("op", [recurrence, recurrence_reference], ids=["fast", "reference"])
def test_the_plain_cell_equals_nn_lstm(op):
    torch.manual_seed(1)
    lstm = nn.LSTM(INPUT, 6).double()
    inputs, hidden, cell = random(7, 3, INPUT, seed=1), random(3, 6, seed=2), random(3, 6, seed=3)
    weights = CellWeights(lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0, None)
    ours = op(inputs.flatten(0, 1), weights, (hidden, cell), [3] * 7)
    states, last = lstm(inputs, (hidden[None], cell[None]))
    torch.testing.assert_close(ours.hidden.view(7, 3, 6), states)
    torch.testing.assert_close(torch.stack(ours.state), torch.cat(last))
    ours, expected = (torch.autograd.grad((part**2).sum(), list(lstm.parameters())) for part in (ours.hidden, states))
    torch.testing.assert_close(ours, expected)


def test_torchs_own_lstm_equals_the_reference_in_value_state_and_every_gradient():
    tensors = tensors_of("plain, seven steps")
    inputs, *weights, hidden, cell = tensors.values()
    ours = lstm_of_torch(inputs, CellWeights(*weights, None), (hidden, cell), 7)
    expected = run(recurrence_reference, "plain, seven steps", tensors)
    torch.testing.assert_close(flat(ours), flat(expected), rtol=0, atol=1e-12)
    grads = (gradients(outputs, list(tensors.values())) for outputs in (ours, expected))
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-10)


def test_tensors_without_gradients_get_none_and_do_not_affect_other_gradients():
    tensors = tensors_of("ragged")
    needed = [tensors["input"], tensors["bias"]]
    every = gradients(run(recurrence, "ragged", tensors).hidden, needed)
    fixed = {name: tensor if name in ("input", "bias") else tensor.detach() for name, tensor in tensors.items()}
    torch.testing.assert_close(gradients(run(recurrence, "ragged", fixed).hidden, needed), every)


def test_cumax_increases_to_one():
    gate = cumax(random(20, 9, seed=4) * 5)
    assert (gate.diff(dim=-1) >= 0).all()
    torch.testing.assert_close(gate[:, -1], torch.ones(20, dtype=torch.float64))
    torch.testing.assert_close(cumax(torch.zeros(4)), torch.tensor([0.25, 0.5, 0.75, 1.0]))


@pytest.mark.parametrize(("rows", "chunk"), [(24 + 6, 4), (24, 2), (24 + 6, None)])
def test_weights_of_wrong_shapes_raise_an_error(rows, chunk):
    new = partial(torch.zeros, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"chunks of 4|rows; expected"):
        CellWeights(new(rows, 3), new(rows, 6), new(rows), chunk)
