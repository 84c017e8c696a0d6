"""The gated memory: agreement of every form with the reference, and properties of gates."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.ops.gated_memory import GateComparison, attend, attend_reference, slot_gates, slot_gates_reference
from syntaxlm.ops.memory_reader import ReaderWeights, read, read_reference
from tests.ops.harness import TORCH, check, every_form, leaves, random

COMPARISONS = {
    "released hard": GateComparison(20.0, 1.0, hard=True),
    "released soft": GateComparison(100.0, 5.0, hard=False),
    "paper": GateComparison(10.0, 0.0, hard=True),
}
SIZES = [(1, 1, 4, 3), (7, 3, 6, 5), (63, 2, 4, 15), (5, 3, 2, 1)]  # steps, batch, hidden, slots
RAGGED_COUNTS = [1], [3, 3, 3, 2, 2, 1, 1], [2] * 30 + [1] * 33, [3, 1, 1, 1, 1]
RAGGED = [(*size, counts) for size, counts in zip(SIZES, RAGGED_COUNTS, strict=True)]
WIDE = (9, 4, 70, 6, [4, 4, 4, 3, 3, 2, 1, 1, 1])  # wider than SIMD vectors, and not a multiple of their size
NO_STEP = (2, 3, 6, 2, [2, 1])  # a column without a step
FULL = [
    pytest.param(*size, [size[1]] * size[0], marks=pytest.mark.long if size[0] == 63 else ())  # as ragged ones
    for size in SIZES
]


def read_with(op, masks, counts, given):
    """The outputs of one form of the reader. masks: of dropout."""
    names = "key", "recurrent", "recurrent_bias", "input_gain", "gain", "bias", "cell_gain", "cell_bias"
    masks = [None if mask is None else mask.to(given["gain"].dtype) for mask in masks]
    weights = ReaderWeights(*(given[name] for name in names), *masks)
    tapes = given["hidden_tape"], given["cell_tape"]
    states, after, attention = op(
        given["input_gates"], given["input_keys"], torch.sigmoid(given["gates"]), tapes, weights, counts
    )
    active = counts[-1]  # the tapes of columns that ended earlier are undefined
    return states, [tape[:, :active].detach() for tape in after], attention.detach()


@every_form
@pytest.mark.parametrize(("dropout", "keyed"), [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize(("steps", "batch", "hidden", "slots", "counts"), [*FULL, *RAGGED, WIDE, NO_STEP])
def test_every_form_of_the_reader_equals_the_reference_in_value_state_and_every_gradient(
    steps, batch, hidden, slots, counts, dropout, keyed, form
):
    if hidden < 4:  # the norm of two numbers may divide by almost 0
        if form.low:
            return
        form = dataclasses.replace(form, value=5 * form.value, gradient=20 * form.gradient)
    if form.low:
        form = dataclasses.replace(form, value=0.1, gradient=0.15)
    rows = sum(counts)
    tensors = leaves({
        "input_gates": (rows, 4 * hidden), "input_keys": (rows, hidden), "gates": (rows, slots),
        "hidden_tape": (slots, batch, hidden), "cell_tape": (slots, batch, hidden),
        "key": (hidden, hidden) if keyed else None, "recurrent": (4 * hidden, hidden),
        "recurrent_bias": (4 * hidden,), "input_gain": (4 * hidden,), "gain": (4 * hidden,), "bias": (4 * hidden,),
        "cell_gain": (hidden,), "cell_bias": (hidden,),
    })  # fmt: skip
    shapes = [(rows, hidden), (rows, hidden), (hidden,)] if dropout else []
    masks = [(random(*shape, seed=50 + n) > 0).double() * 2 for n, shape in enumerate(shapes)] or [None] * 3
    kernel = None if hidden < 2 else "gated_memory"
    ops = partial(read_with, read, masks, counts), partial(read_with, read_reference, masks, counts)
    check(*ops, tensors, form, kernel, ("reader", steps, batch, hidden, slots, *counts, dropout, keyed))


@every_form
@pytest.mark.parametrize(("steps", "batch", "hidden", "slots", "counts"), [*FULL, *RAGGED, WIDE, NO_STEP])
def test_every_form_of_attending_to_all_steps_at_once_equals_the_reference(steps, batch, hidden, slots, counts, form):
    if form.low:
        if slots == 1:  # the gradients of keys and gates are almost 0
            return
        form = dataclasses.replace(form, value=0.1, gradient=0.15)
    rows = sum(counts)
    tensors = leaves({
        "keys": (rows, hidden), "gates": (rows, slots), "states": (rows, hidden), "tape": (slots, batch, hidden),
    })  # fmt: skip

    def attended(op, given):
        states, attention = op(**given | {"gates": torch.sigmoid(given["gates"])}, counts=counts)
        return states, attention.detach()

    case = ("attend", steps, batch, hidden, slots, *counts)
    check(partial(attended, attend), partial(attended, attend_reference), tensors, form, "gated_memory", case)


@pytest.mark.parametrize("count_self", [True, False])
@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
@pytest.mark.parametrize(("steps", "batch", "slots"), [(1, 1, 3), (7, 3, 5), (63, 2, 15), (4, 2, 1)])
def test_gates_of_all_steps_at_once_equal_the_reference(steps, batch, slots, comparison, count_self):
    tape = torch.sigmoid(random(slots, batch, seed=3))
    tape[: slots // 2] = math.inf

    def gates(op, given):
        queries, distances = torch.sigmoid(given["queries"]), torch.sigmoid(given["distances"])
        result = op(queries, distances, tape, slots, comparison, count_self)
        return result + 0 * queries.sum()  # with one slot, no gate may depend on queries

    tensors = leaves({"queries": (steps, batch), "distances": (steps, batch)})
    check(partial(gates, slot_gates), partial(gates, slot_gates_reference), tensors, TORCH)


def test_gates_of_steps_before_the_start_are_closed_except_the_initial_state():
    distances = torch.tensor([[0.5], [0.4]], dtype=torch.float64)
    tape = torch.full((4, 1), math.inf, dtype=torch.float64)
    gates = slot_gates(distances, distances, tape, 4, COMPARISONS["released hard"], count_self=True)
    assert gates[0, 0].tolist() == [1, 0, 0, 0]
    soft = slot_gates(distances, distances, tape, 4, COMPARISONS["released soft"], count_self=True)
    assert soft[0, 0, 0].item() == pytest.approx(1 / (1 + math.exp(-5)))


# Distances that are all different, and few values, so that many are equal.
DISTANCES = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=14, unique=True)
TIED_DISTANCES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=14)


def dependency_ranges(gates, *, half_open):
    """The step and the earliest step that it reads, in order.

    half_open: whether a gate of 1/2, which the paper's form gives equal distances, counts as open.
    """
    opened = gates > 0 if half_open else gates == 1
    return [(step - max(int(row.sum()), 1), step) for step, row in enumerate(opened)]


def partial_overlaps(ranges):
    return [(one, other) for one in ranges for other in ranges if one[0] < other[0] < one[1] < other[1]]


@given(DISTANCES | TIED_DISTANCES, st.booleans())
def test_dependency_ranges_never_partially_overlap_at_infinite_temperature(distances, released):
    """Appendix C, for a memory that is as long as the sentence."""
    column = torch.tensor(distances, dtype=torch.float64)[:, None]
    tape = torch.full((len(column), 1), math.inf, dtype=torch.float64)
    comparison = GateComparison(math.inf, 1.0 if released else 0.0, hard=True)
    gates = slot_gates(column, column, tape, len(column), comparison, count_self=released)[:, 0]

    has_ties = len(set(distances)) < len(distances)
    assert has_ties or set(gates.unique().tolist()) <= {0.0, 1.0}
    assert (gates[:, :-1] >= gates[:, 1:]).all()  # so a range has no holes
    for half_open in (True, False):
        assert not partial_overlaps(dependency_ranges(gates, half_open=half_open))


def test_dependency_ranges_overlap_if_the_memory_is_shorter_than_the_sentence():
    rising = torch.arange(4, dtype=torch.float64)[:, None]
    tape = torch.full((2, 1), math.inf, dtype=torch.float64)
    gates = slot_gates(rising, rising, tape, 2, GateComparison(math.inf, 1.0, hard=True), count_self=True)[:, 0]
    ranges = dependency_ranges(gates, half_open=True)
    assert ranges[2:] == [(0, 2), (1, 3)]
    assert ((0, 2), (1, 3)) in partial_overlaps(ranges)


def test_a_second_backward_through_the_reader_gives_the_same_gradients():
    slots, hidden, counts = 3, 4, [2, 1]
    shapes = {"input_gates": (3, 16), "input_keys": (3, 4), "gates": (3, slots), "hidden_tape": (slots, 2, hidden)}
    shapes |= {"cell_tape": (slots, 2, hidden), "key": (4, 4), "recurrent": (16, 4), "recurrent_bias": (16,)}
    shapes |= {"input_gain": (16,), "gain": (16,), "bias": (16,), "cell_gain": (4,), "cell_bias": (4,)}
    tensors = leaves(shapes)
    loss = read_with(read, [None] * 3, counts, tensors)[0].sum()
    first = torch.autograd.grad(loss, list(tensors.values()), retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
    assert all(
        before is after is None or torch.equal(before, after) for before, after in zip(first, second, strict=True)
    )


@pytest.mark.parametrize(("batch", "slots"), [(1, 3), (2, 1), (2, 3)])
def test_a_state_shares_no_memory_with_what_backward_needs(batch, slots):
    shapes = {"input_gates": (2 * batch, 16), "input_keys": (2 * batch, 4), "gates": (2 * batch, slots)}
    shapes |= {"hidden_tape": (slots, batch, 4), "cell_tape": (slots, batch, 4), "key": (4, 4), "recurrent": (16, 4)}
    shapes |= {"recurrent_bias": (16,), "input_gain": (16,), "gain": (16,), "bias": (16,)}
    tensors = leaves(shapes | {"cell_gain": (4,), "cell_bias": (4,)})
    states, tapes, _ = read_with(read, [None] * 3, [batch, batch], tensors)
    expected = torch.autograd.grad(states.sum(), tensors["recurrent"], retain_graph=True)[0]
    for tape in tapes:
        tape.zero_()
    assert torch.equal(torch.autograd.grad(states.sum(), tensors["recurrent"])[0], expected)
