"""The gated memory: agreement of the fast form with the reference, and properties of gates."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.ops import gated_memory
from syntaxlm.ops.gated_memory import Comparison, ReaderWeights, native

COMPARISONS = {
    "released hard": Comparison(20.0, 1.0, hard=True),
    "released soft": Comparison(100.0, 5.0, hard=False),
    "paper": Comparison(10.0, 0.0, hard=True),
}
SIZES = [(1, 1, 4, 3), (7, 3, 6, 5), (63, 2, 4, 15), (5, 3, 2, 1)]  # steps, batch, hidden, slots
RAGGED_COUNTS = [1], [3, 3, 3, 2, 2, 1, 1], [2] * 30 + [1] * 33, [3, 1, 1, 1, 1]
RAGGED = [(*size, counts) for size, counts in zip(SIZES, RAGGED_COUNTS, strict=True)]
WIDE = (9, 4, 70, 6, [4, 4, 4, 3, 3, 2, 1, 1, 1])  # wider than SIMD vectors, and not a multiple of their size
FULL = [(*size, [size[1]] * size[0]) for size in SIZES]


@pytest.fixture
def threads():
    """Sets torch's number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def random(*shape, seed):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gradients(outputs, inputs, seed=99):
    """Gradients of a random weighting of the outputs, so that gradients of outputs do not cancel."""
    loss = sum((out * random(*out.shape, seed=seed + n)).sum() for n, out in enumerate(outputs) if out.requires_grad)
    return torch.autograd.grad(loss, inputs)


WEIGHTS = "key", "recurrent", "recurrent_bias", "gain", "bias", "cell_gain", "cell_bias"


def read(op, tensors, masks, counts, dtype):
    """The outputs of one form of the reader in a dtype."""
    own = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    own.setdefault("key", None)
    own_masks = [mask if mask is None else mask.to(dtype) for mask in masks]
    weights = ReaderWeights(*(own[name] for name in WEIGHTS), *own_masks)
    tapes = own["hidden_tape"], own["cell_tape"]
    return op.read(own["input_gates"], own["input_keys"], own["gates"], tapes, weights, counts)


@cache
def reference_read(steps, batch, hidden, slots, counts, dropout, keyed):
    """Inputs, dropout masks, and outputs and gradients of the reference, in float64."""
    rows = sum(counts)
    shapes = {
        "input_gates": (rows, 4 * hidden),
        "input_keys": (rows, hidden),
        "gates": (rows, slots),
        "hidden_tape": (slots, batch, hidden),
        "cell_tape": (slots, batch, hidden),
        "key": (hidden, hidden),
        "recurrent": (4 * hidden, hidden),
        "recurrent_bias": (4 * hidden,),
        "gain": (4 * hidden,),
        "bias": (4 * hidden,),
        "cell_gain": (hidden,),
        "cell_bias": (hidden,),
    }
    tensors = {name: random(*shape, seed=n) for n, (name, shape) in enumerate(shapes.items())}
    tensors["gates"] = torch.sigmoid(tensors["gates"])
    tensors = {name: tensor.requires_grad_() for name, tensor in tensors.items() if keyed or name != "key"}
    masks = [None] * 3
    if dropout:
        sizes = (rows, hidden), (rows, hidden), (hidden,)
        masks = [(random(*size, seed=50 + n) > 0).double() * 2 for n, size in enumerate(sizes)]
    states, tapes, attention = read(gated_memory.reference, tensors, masks, counts, torch.float64)
    expected = [states, *tapes, attention]
    return tensors, masks, [one.detach() for one in expected], gradients([states], list(tensors.values()))


@pytest.mark.parametrize("form", ["torch", "compiled", "compiled, 2 threads"])
@pytest.mark.parametrize(("dropout", "keyed"), [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize(("steps", "batch", "hidden", "slots", "counts"), [*FULL, *RAGGED, WIDE])
def test_fast_reader_equals_reference_in_value_state_and_every_gradient(
    steps, batch, hidden, slots, counts, dropout, keyed, form, threads
):
    """The torch form in float64 and the compiled form in float32 are compared with the reference in float64."""
    compiled = form != "torch"
    if compiled and native.library_for(slots, hidden, torch.zeros(1)) is None:
        pytest.skip("no C compiler")
    threads(2 if form.endswith("2 threads") else 1)
    tensors, masks, expected, expected_gradients = reference_read(
        steps, batch, hidden, slots, tuple(counts), dropout, keyed
    )
    states, tapes, attention = read(gated_memory, tensors, masks, counts, torch.float32 if compiled else torch.float64)
    assert ("NativeRead" in states.grad_fn.name()) == compiled
    for ours, other in zip([states, *tapes, attention], expected, strict=True):
        torch.testing.assert_close(ours.double(), other, rtol=0, atol=2e-5 if compiled else 1e-12)
    for name, ours, other in zip(tensors, gradients([states], list(tensors.values())), expected_gradients, strict=True):
        loose = 1e-3 if hidden < 4 else 1e-4  # the norm of two numbers may divide by almost 0
        tolerance = loose * (1 + float(other.abs().max())) if compiled else 1e-10
        torch.testing.assert_close(
            ours, other, rtol=1e-9, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize(("steps", "batch", "hidden", "slots"), SIZES)
def test_attending_to_all_steps_at_once_equals_reference(steps, batch, hidden, slots):
    keys, states = (random(steps, batch, hidden, seed=n).requires_grad_() for n in (1, 2))
    tape = random(slots, batch, hidden, seed=3).requires_grad_()
    gates = torch.sigmoid(random(steps, batch, slots, seed=4)).requires_grad_()
    inputs = [keys, gates, states, tape]
    ours, expected = gated_memory.attend(*inputs), gated_memory.reference.attend(*inputs)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(ours, inputs), gradients(expected, inputs), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("count_self", [True, False])
@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
@pytest.mark.parametrize(("steps", "batch", "slots"), [(1, 1, 3), (7, 3, 5), (63, 2, 15), (4, 2, 1)])
def test_gates_of_all_steps_at_once_equal_reference(steps, batch, slots, comparison, count_self):
    queries, distances = (torch.sigmoid(random(steps, batch, seed=n)).requires_grad_() for n in (1, 2))
    tape = torch.sigmoid(random(slots, batch, seed=3))
    tape[: slots // 2] = math.inf
    arguments = queries, distances, tape, slots, comparison, count_self
    ours, expected = gated_memory.slot_gates(*arguments), gated_memory.reference.slot_gates(*arguments)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-14)
    if not expected.requires_grad:
        return
    inputs = [queries, distances]
    for one, other in zip(
        torch.autograd.grad((ours * random(*ours.shape, seed=5)).sum(), inputs, allow_unused=True),
        torch.autograd.grad((expected * random(*ours.shape, seed=5)).sum(), inputs, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(torch.zeros(()) if one is None else one, torch.zeros(()) if other is None else other)


def test_gates_of_steps_before_the_start_are_closed_except_the_initial_state():
    distances = torch.tensor([[0.5], [0.4]], dtype=torch.float64)
    tape = torch.full((4, 1), math.inf, dtype=torch.float64)
    gates = gated_memory.slot_gates(distances, distances, tape, 4, COMPARISONS["released hard"], count_self=True)
    assert gates[0, 0].tolist() == [1, 0, 0, 0]
    soft = gated_memory.slot_gates(distances, distances, tape, 4, COMPARISONS["released soft"], count_self=True)
    assert soft[0, 0, 0].item() == pytest.approx(1 / (1 + math.exp(-5)))


@given(st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=14, unique=True), st.booleans())
def test_dependency_ranges_never_partially_overlap_at_infinite_temperature(distances, released):
    """Appendix C: step t's memory reaches back to l_t, and no two ranges [l_t, t] cross when memory is long enough."""
    column = torch.tensor(distances, dtype=torch.float64)[:, None]
    steps = len(column)
    tape = torch.full((steps, 1), math.inf, dtype=torch.float64)
    comparison = Comparison(math.inf, 1.0 if released else 0.0, hard=True)
    gates = gated_memory.slot_gates(column, column, tape, steps, comparison, count_self=released)[:, 0]
    assert set(gates.unique().tolist()) <= {0.0, 1.0}
    reach = [t - max(int(row.sum()), 1) for t, row in enumerate(gates)]  # the earliest step in t's memory
    ranges = [(start, t) for t, start in enumerate(reach)]
    for start, end in ranges:
        for other_start, other_end in ranges:
            assert not (start < other_start < end < other_end)
