"""The recurrent highway network and the NAS cell: agreement with their equations, written for one column at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syntaxlm.ops.cells import highway, nas
from tests.ops.harness import leaves

SIZE = 3
COUNTS = {"one step": [1], "ragged": [3, 3, 2, 2, 1], "a column without a step": [2, 1]}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def highway_step(read, recurrent, bias, state):
    """Zilly et al. 2016, equations (6) to (9) with c = 1 - t, one neuron at a time."""
    (s,) = state
    for layer, (weight, added) in enumerate(zip(recurrent, bias, strict=True)):
        new = []
        for neuron in range(SIZE):
            h, t = (
                (read[row] if layer == 0 else 0.0) + sum(weight[row, k] * s[k] for k in range(SIZE)) + added[row]
                for row in (neuron, SIZE + neuron)
            )
            new.append(np.tanh(h) * sigmoid(t) + s[neuron] * (1 - sigmoid(t)))
        s = np.array(new)
    return (s,)


def nas_step(read, recurrent, bias, state):
    """The tree of Zoph and Le 2016: eight leaves, combined in pairs, with the cell in the second layer."""
    hidden, cell = state
    x, u = read.reshape(8, SIZE), (recurrent @ hidden + bias).reshape(8, SIZE)
    leaf = [
        sigmoid(x[0] + u[0]), np.maximum(x[1] + u[1], 0), sigmoid(x[2] + u[2]), np.maximum(x[3] * u[3], 0),
        np.tanh(x[4] + u[4]), sigmoid(x[5] + u[5]), np.tanh(x[6] + u[6]), sigmoid(x[7] + u[7]),
    ]  # fmt: skip
    second = [
        np.tanh(leaf[0] * leaf[1]),
        np.tanh(leaf[2] + leaf[3]),
        np.tanh(leaf[4] * leaf[5]),
        sigmoid(leaf[6] + leaf[7]),
    ]
    cell = np.tanh(second[0] + cell) * second[1]
    return np.tanh(cell * np.tanh(second[2] + second[3])), cell


CELLS = {  # op, equations, shape of the recurrent weight, names of the state
    "highway": (highway, highway_step, (4, 2 * SIZE, SIZE), ["hidden"]),
    "highway of one layer": (highway, highway_step, (1, 2 * SIZE, SIZE), ["hidden"]),
    "nas": (nas, nas_step, (8 * SIZE, SIZE), ["hidden", "cell"]),
}
every_cell = pytest.mark.parametrize("cell", CELLS)
every_count = pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)


def tensors_of(cell, counts):
    _, _, shape, names = CELLS[cell]
    columns = 3
    shapes = {"inputs": (sum(counts), shape[-2]), "recurrent": shape, "bias": shape[:-1]}
    return leaves(shapes | dict.fromkeys(names, (columns, SIZE)))


def run(cell, counts, given):
    inputs, recurrent, bias, *state = given
    return CELLS[cell][0](inputs, recurrent, bias, tuple(state), counts)


@every_cell
@every_count
def test_outputs_and_last_states_are_those_of_the_equations(cell, counts):
    tensors = tensors_of(cell, counts)
    found = run(cell, counts, tensors.values())
    inputs, recurrent, bias, *states = (tensor.detach().numpy() for tensor in tensors.values())
    states = [part.copy() for part in states]
    expected, row = [], 0
    for count in counts:
        for column in range(count):
            after = CELLS[cell][1](inputs[row], recurrent, bias, [part[column] for part in states])
            for part, new in zip(states, after, strict=True):
                part[column] = new
            expected.append(after[0])
            row += 1
    np.testing.assert_allclose(found.hidden.detach().numpy(), expected, rtol=0, atol=1e-9)
    assert len(found.state) == len(states)
    for part, right in zip(found.state, states, strict=True):
        np.testing.assert_allclose(part.detach().numpy(), right, rtol=0, atol=1e-9)


@every_cell
@every_count
def test_every_gradient_agrees_with_finite_differences(cell, counts):
    def outputs(*given):
        found = run(cell, counts, given)
        return found.hidden, *found.state

    assert torch.autograd.gradcheck(outputs, tuple(tensors_of(cell, counts).values()))


@every_cell
def test_products_in_bfloat16_leave_state_and_output_in_float32(cell):
    given = [tensor.detach().float() for tensor in tensors_of(cell, COUNTS["ragged"]).values()]
    exact = run(cell, COUNTS["ragged"], given)
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(cell, COUNTS["ragged"], given)
    for one, other in zip((exact.hidden, *exact.state), (rough.hidden, *rough.state), strict=True):
        assert other.dtype == torch.float32
        assert 0 < (one - other).abs().max() < 0.05


def test_a_closed_transform_gate_carries_the_state_and_an_open_one_replaces_it():
    tensors = tensors_of("highway", COUNTS["ragged"])
    inputs, recurrent, bias, hidden = (tensor.detach() for tensor in tensors.values())
    bias[:, SIZE:] = -1e3
    carried = run("highway", COUNTS["ragged"], (inputs, recurrent, bias, hidden))
    torch.testing.assert_close(carried.state[0], hidden)
    bias[:, SIZE:] = 1e3
    replaced = run("highway", [3], (inputs[:3], recurrent, bias, hidden)).hidden
    inside = torch.tanh(inputs[:3, :SIZE] + hidden @ recurrent[0, :SIZE].T + bias[0, :SIZE])
    for weight, added in zip(recurrent[1:], bias[1:], strict=True):
        inside = torch.tanh(inside @ weight[:SIZE].T + added[:SIZE])
    torch.testing.assert_close(replaced, inside)
