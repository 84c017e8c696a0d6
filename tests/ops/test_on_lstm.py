"""The recurrence of ordered neurons and of a plain LSTM: agreement of fast form, reference and nn.LSTM."""

from __future__ import annotations

import shutil
import warnings
from functools import partial

import pytest
import torch
from torch import nn

from syntaxlm.ops import fused, on_lstm
from syntaxlm.ops.native import usable
from syntaxlm.ops.on_lstm import CellWeights, fast
from syntaxlm.ops.on_lstm.native import SOURCE
from syntaxlm.ops.on_lstm.reference import cumax
from syntaxlm.ops.on_lstm.steps import backward_step, forward_step

CASES = {  # steps, counts, size, chunk
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
NAMES = "inputs", "input", "recurrent", "bias", "hidden", "cell"


@pytest.fixture
def threads():
    """Sets torch's number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def random(*shape, seed):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tensors_of(counts, size, chunk, columns):
    width = 4 * size + (0 if chunk is None else 2 * (size // chunk))
    shapes = (sum(counts), INPUT), (width, INPUT), (width, size), (width,), (columns, size), (columns, size)
    return [random(*shape, seed=n).requires_grad_() for n, shape in enumerate(shapes)]


def run(op, tensors, chunk, counts, dtype=torch.float64):
    inputs, input_weight, recurrent, bias, hidden, cell = (tensor.to(dtype) for tensor in tensors)
    return op.recurrence(inputs, CellWeights(input_weight, recurrent, bias, chunk), (hidden, cell), counts)


def flat(result):
    parts = result.hidden, *result.state, result.distances, result.input_distances
    return [part for part in parts if part is not None]


def gradients(outputs, inputs):
    """Gradients of a random weighting of the outputs, so that gradients of outputs do not cancel."""
    loss = sum((out * random(*out.shape, seed=9 + n)).sum() for n, out in enumerate(outputs) if out.requires_grad)
    return torch.autograd.grad(loss, inputs)


@pytest.mark.parametrize("form", ["torch", "compiled", "compiled, 2 threads"])
@pytest.mark.parametrize("case", CASES)
def test_fast_form_equals_reference_in_value_state_and_every_gradient(case, form, threads):
    """The torch form in float64 and the compiled form in float32 are compared with the reference in float64."""
    counts, size, chunk = CASES[case]
    compiled = form != "torch"
    if compiled and usable(SOURCE, torch.float32) is None:
        pytest.skip("no C compiler")
    threads(2 if form.endswith("2 threads") else 1)
    columns = counts[0] + (case == "a column without a step")
    tensors = tensors_of(counts, size, chunk, columns)
    ours = flat(run(on_lstm, tensors, chunk, counts, torch.float32 if compiled else torch.float64))
    expected = flat(run(on_lstm.reference, tensors, chunk, counts))
    assert len(ours) == (3 if chunk is None else 5)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-5 if compiled else 1e-12)
    for name, one, other in zip(NAMES, gradients(ours, tensors), gradients(expected, tensors), strict=True):
        tolerance = 1e-4 * (1 + float(other.abs().max())) if compiled else 1e-10
        torch.testing.assert_close(one, other, rtol=1e-9, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("case", ["ragged", "plain, ragged", "wide"])
def test_the_torch_form_equals_the_compiled_form_in_float32(case, monkeypatch):
    counts, size, chunk = CASES[case]
    tensors = tensors_of(counts, size, chunk, counts[0])
    found = []
    for library in (fast.usable, lambda *_: None):
        monkeypatch.setattr(fast, "usable", library)
        outputs = flat(run(on_lstm, tensors, chunk, counts, torch.float32))
        found.append((outputs, gradients(outputs, tensors)))
    (one, one_grads), (other, other_grads) = found
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    for compiled, eager in zip(one_grads, other_grads, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=0, atol=1e-4 * (1 + float(eager.abs().max())))


@pytest.mark.parametrize("chunk", [2, 6, None])
def test_a_step_after_its_products_equals_the_reference_in_value_and_gradient(chunk):
    """The functions that are compiled on a GPU, uncompiled, in float64."""
    rows, size = 3, 6
    tensors = tensors_of([rows], size, chunk, rows)
    inputs, input_weight, recurrent, bias, hidden, cell = tensors
    weights = CellWeights(input_weight, recurrent, bias, chunk)
    expected = on_lstm.reference.recurrence(inputs, weights, (hidden, cell), [rows])
    input_logits = nn.functional.linear(inputs, input_weight, bias)
    step = forward_step(input_logits, hidden @ recurrent.T, cell, chunk, torch.float64)
    torch.testing.assert_close((step.hidden, step.cell), expected.state, rtol=0, atol=1e-14)
    torch.testing.assert_close(step.low, step.hidden, rtol=0, atol=0)
    if chunk is not None:
        means = torch.stack([1 - expected.input_distances, 1 - expected.distances], dim=-1)
        torch.testing.assert_close(step.means, means, rtol=0, atol=1e-14)
    output_grad, later_grad, cell_grad = (random(rows, size, seed=n) for n in (20, 21, 22))
    loss = ((output_grad + later_grad) * expected.hidden).sum() + (cell_grad * expected.state[1]).sum()
    wanted = torch.autograd.grad(loss, [bias, cell, hidden])
    kept = cell, step.cell, step.gates, step.softmaxes, step.sums
    found, before = backward_step(*kept, output_grad, later_grad, cell_grad, torch.float64)
    torch.testing.assert_close((found.sum(0), before, found @ recurrent), wanted, rtol=0, atol=1e-13)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_steps_compiled_by_torch_equal_the_reference_in_value_state_and_every_gradient(monkeypatch):
    monkeypatch.setattr(fast, "usable", lambda *_: None)
    monkeypatch.setattr(fused, "worthwhile", lambda tensor: True)
    torch._dynamo.reset()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a failed compilation would warn
        for name in ("ragged", "plain, ragged"):
            counts, size, chunk = CASES[name]
            tensors = tensors_of(counts, size, chunk, counts[0])
            ours, expected = (flat(run(op, tensors, chunk, counts)) for op in (on_lstm, on_lstm.reference))
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12, msg=lambda text, n=name: f"{n}: {text}")
            torch.testing.assert_close(gradients(ours, tensors), gradients(expected, tensors), rtol=1e-9, atol=1e-10)
    # Forward and backward, of ordered neurons and of a plain LSTM, for one row and for more.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before == 8


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", ["ragged", "plain, ragged", "wide"])
def test_on_a_gpu_steps_are_compiled_and_equal_the_reference(case):
    counts, size, chunk = CASES[case]
    tensors = tensors_of(counts, size, chunk, counts[0])
    on_gpu = [tensor.detach().cuda().requires_grad_() for tensor in tensors]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ours = flat(run(on_lstm, on_gpu, chunk, counts))
        expected = flat(run(on_lstm.reference, tensors, chunk, counts))
        weights = [random(*out.shape, seed=n) for n, out in enumerate(expected)]
        found = [
            torch.autograd.grad(
                sum((o * w.to(o.device)).sum() for o, w in zip(outs, weights, strict=True) if o.requires_grad), ins
            )
            for outs, ins in ((ours, on_gpu), (expected, tensors))
        ]
    torch.testing.assert_close([one.cpu() for one in ours], expected, rtol=0, atol=1e-10)
    torch.testing.assert_close([one.cpu() for one in found[0]], list(found[1]), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("case", ["seven steps, three columns", "plain, ragged"])
def test_bfloat16_products_keep_states_in_float32_and_are_close(case, native, monkeypatch):
    counts, size, chunk = CASES[case]
    if not native:
        monkeypatch.setattr(fast, "usable", lambda *_: None)
    tensors = [(tensor.detach() * 0.5).requires_grad_() for tensor in tensors_of(counts, size, chunk, counts[0])]
    with torch.autocast("cpu", torch.bfloat16):
        ours = flat(run(on_lstm, tensors, chunk, counts, torch.float32))
    expected = flat(run(on_lstm.reference, tensors, chunk, counts))
    assert all(part.dtype == torch.float32 for part in ours)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=0.03)
    for one, other in zip(gradients(ours, tensors), gradients(expected, tensors), strict=True):
        assert float((one - other).norm() / other.norm()) < 0.05


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_a_sequence_in_two_parts_equals_the_whole_through_the_state_and_its_gradient(cut):
    counts, size, chunk = CASES["ragged"]
    tensors = tensors_of(counts, size, chunk, 3)
    inputs, *weights, hidden, cell = tensors
    weights = CellWeights(*weights, chunk)
    whole = on_lstm.recurrence(inputs, weights, (hidden, cell), counts)
    place = sum(counts[:cut])
    first = on_lstm.recurrence(inputs[:place], weights, (hidden, cell), counts[:cut])
    second = on_lstm.recurrence(inputs[place:], weights, first.state, counts[cut:])
    states = torch.cat([first.hidden, second.hidden])
    torch.testing.assert_close(states, whole.hidden, rtol=0, atol=1e-13)
    torch.testing.assert_close(second.state, whole.state, rtol=0, atol=1e-13)
    ours, expected = (gradients(outputs, tensors) for outputs in ([states, *second.state], flat(whole)[:3]))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("op", [on_lstm, on_lstm.reference], ids=["fast", "reference"])
def test_the_plain_cell_equals_nn_lstm(op):
    torch.manual_seed(1)
    lstm = nn.LSTM(INPUT, 6).double()
    inputs, hidden, cell = random(7, 3, INPUT, seed=1), random(3, 6, seed=2), random(3, 6, seed=3)
    weights = CellWeights(lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0, None)
    ours = op.recurrence(inputs.flatten(0, 1), weights, (hidden, cell), [3] * 7)
    states, last = lstm(inputs, (hidden[None], cell[None]))
    torch.testing.assert_close(ours.hidden.view(7, 3, 6), states)
    torch.testing.assert_close(torch.stack(ours.state), torch.cat(last))
    ours, expected = (torch.autograd.grad((part**2).sum(), list(lstm.parameters())) for part in (ours.hidden, states))
    torch.testing.assert_close(ours, expected)


def test_torchs_own_lstm_equals_reference_in_value_state_and_every_gradient():
    counts, size, chunk = CASES["plain, seven steps"]
    tensors = tensors_of(counts, size, chunk, 3)
    inputs, *weights, hidden, cell = tensors
    ours = flat(fast.lstm_of_torch(inputs, CellWeights(*weights, None), (hidden, cell), len(counts)))
    expected = flat(run(on_lstm.reference, tensors, chunk, counts))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(ours, tensors), gradients(expected, tensors), rtol=1e-9, atol=1e-10)


def test_tensors_without_gradients_get_none_and_do_not_affect_other_gradients():
    counts, size, chunk = CASES["ragged"]
    tensors = tensors_of(counts, size, chunk, 3)
    every = gradients([run(on_lstm, tensors, chunk, counts).hidden], tensors)
    fixed = [
        tensor if name in ("input", "bias") else tensor.detach() for name, tensor in zip(NAMES, tensors, strict=True)
    ]
    some = gradients([run(on_lstm, fixed, chunk, counts).hidden], [tensors[1], tensors[3]])
    torch.testing.assert_close(some, (every[1], every[3]))


def test_cumax_increases_to_one():
    gate = cumax(random(20, 9, seed=4) * 5)
    assert (gate.diff(dim=-1) >= 0).all()
    torch.testing.assert_close(gate[:, -1], torch.ones(20, dtype=torch.float64))
    torch.testing.assert_close(cumax(torch.zeros(4)), torch.tensor([0.25, 0.5, 0.75, 1.0]))


def test_neurons_of_one_chunk_with_equal_gates_share_their_memory():
    """Chunks share master gates: if o, g, i, f of a chunk's neurons are equal, so are its cells."""
    size, chunk, master = 6, 3, 2
    tensors = tensors_of([2] * 4, size, chunk, 2)
    with torch.no_grad():
        for tensor in tensors[1:4]:
            gates = tensor[2 * master :].unflatten(0, (4, master, chunk))
            gates[:] = gates[:, :, :1]
        tensors[4][:], tensors[5][:] = 0, 0
    cells = run(on_lstm, tensors, chunk, [2] * 4).state[1].unflatten(1, (master, chunk))
    assert (cells - cells[..., :1]).abs().max() == 0
    assert (cells[:, 0] - cells[:, 1]).abs().min() > 0


@pytest.mark.parametrize(("rows", "chunk"), [(24 + 6, 4), (24, 2), (24 + 6, None)])
def test_weights_of_wrong_shapes_raise_an_error(rows, chunk):
    new = partial(torch.zeros, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"chunks of 4|rows; expected"):
        CellWeights(new(rows, 3), new(rows, 6), new(rows), chunk)
