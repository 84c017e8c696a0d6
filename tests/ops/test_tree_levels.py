"""The recurrence along dependency paths: agreement of every form, reference and torch's recurrent layers."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from syntaxlm.ops.tree_levels import EdgeWeights, Levels, States, recurrence, recurrence_reference
from syntaxlm.trees.dependencies import paths_of
from tests.ops.harness import FORMS, TORCH, check, flat, gradients, leaves

ONE = (0,)
CHAIN = tuple(range(40))  # every word depends on the previous one: 40 levels of one step
LEFT_CHAIN = (*range(2, 41), 0)
FLAT = (*(31,) * 30, 0, *(31,) * 30)  # 60 dependents of one word, 30 on each side
SENTENCE = (3, 3, 4, 0, 8, 8, 8, 4, 4)
SEVERAL_ROOTS = (0, 1, 0, 0, 4)
CROSSING = (3, 4, 0, 3, 2)

CASES = {
    "one word": [ONE],
    "three times one word": [ONE] * 3,
    "a chain": [CHAIN],
    "a chain to the left": [LEFT_CHAIN],
    "60 dependents": [FLAT],
    "a sentence": [SENTENCE],
    "crossing arcs, several roots": [CROSSING, SEVERAL_ROOTS],
    "all together": [ONE, CHAIN, FLAT, SENTENCE, ONE, LEFT_CHAIN, SEVERAL_ROOTS, SENTENCE, CROSSING],
}
INPUT, SIZE = 3, 5
NAMES = "inputs", "input", "recurrent", "bias", "hidden", "cell"


def levels_of(trees):
    """The levels of trees, given by their heads, and the tree and word of each row."""
    offsets = np.cumsum([0, *map(len, trees)])
    paths = paths_of(np.array(list(itertools.chain(*trees))), offsets)
    words = [(tree, word) for tree, heads in enumerate(trees) for word in range(1, len(heads) + 1)]
    order = sorted(range(len(words)), key=lambda place: (paths.depths[place], paths.edges[place]))
    words = [words[place] for place in order]
    parents = [
        0 if not parent else 1 + words.index((tree, parent))
        for (tree, _), parent in zip(words, paths.parents[order].tolist(), strict=True)
    ]
    counts = np.zeros((paths.depths.max(), 4), int)
    np.add.at(counts, (paths.depths - 1, paths.edges), 1)
    return Levels.of(torch.tensor(parents), tuple(map(tuple, counts.tolist()))), words


def tensors_of(steps, cell, before=1):
    """Inputs, weights and the initial state, all with gradients; no cell for a tanh network."""
    gates = 4 * SIZE if cell == "lstm" else SIZE
    shapes = (steps, INPUT), (4, gates, INPUT), (4, gates, SIZE), (4, gates), (before, SIZE), (before, SIZE)
    tensors = leaves(dict(zip(NAMES, shapes, strict=True)))
    if cell == "tanh":
        tensors["cell"] = None
    return {
        name: tensor if tensor is None else (0.7 * tensor.detach()).requires_grad_() for name, tensor in tensors.items()
    }


def run(op, levels, given):
    weights = EdgeWeights(given["input"], given["recurrent"], given["bias"])
    return op(given["inputs"], weights, levels, States(given["hidden"], given["cell"]))


def check_levels(levels, tensors, form):
    check(partial(run, recurrence, levels), partial(run, recurrence_reference, levels), tensors, form)


@pytest.mark.parametrize("form", [FORMS[0], FORMS[1], FORMS[4]], ids=str)  # there is no compiled form
@pytest.mark.parametrize("cell", ["tanh", "lstm"])
@pytest.mark.parametrize("case", CASES)
def test_every_form_equals_the_reference_in_value_state_and_every_gradient(case, cell, form):
    levels, words = levels_of(CASES[case])
    check_levels(levels, tensors_of(len(words), cell), form)


@pytest.mark.parametrize("which", [0, 1])
def test_gradients_of_hidden_states_or_cells_alone_are_correct(which):
    levels, words = levels_of(CASES["all together"])
    ops = (lambda given, op=op: run(op, levels, given)[which] for op in (recurrence, recurrence_reference))
    check(*ops, tensors_of(len(words), "lstm"), TORCH)


@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_steps_continue_any_previous_states(cell):
    """As in sampling, where each level is computed separately; two steps may continue one state."""
    levels = Levels.of(torch.tensor([2, 0, 2, 2, 1, 3, 7, 6, 3]), ((1, 2, 0, 2), (0, 1, 2, 1)))
    check_levels(levels, tensors_of(9, cell, before=3), TORCH)


@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_without_bias_and_without_gradients_of_inputs_and_state(cell):
    levels, words = levels_of(CASES["all together"])
    tensors = tensors_of(len(words), cell) | {"bias": None}
    for name in ("inputs", "hidden", "cell"):
        tensors[name] = None if tensors[name] is None else tensors[name].detach()
    check_levels(levels, tensors, TORCH)


@pytest.mark.parametrize("op", [recurrence, recurrence_reference], ids=["fast", "reference"])
@pytest.mark.parametrize(("cell", "layer"), [("tanh", nn.RNN), ("lstm", nn.LSTM)])
@pytest.mark.parametrize(("heads", "first", "edge"), [(CHAIN, 1, 1), (LEFT_CHAIN, 1, 0), ((0,) * 7, 1, 3)])
def test_a_chain_of_edges_of_one_type_is_the_recurrent_network_of_torch(op, cell, layer, heads, first, edge):
    levels, words = levels_of([heads])
    assert levels.edges().tolist() == [first, *(edge,) * (len(words) - 1)]
    tensors = tensors_of(len(words), cell)
    weights = [tensors[name] for name in ("input", "recurrent", "bias")]
    for weight in weights:
        weight.data[first] = weight.data[edge]
    expected = layer(INPUT, SIZE).double()
    weights = [weight[edge] for weight in weights]
    for parameter, value in zip(expected.parameters(), [*weights, torch.zeros_like(weights[2])], strict=True):
        parameter.data.copy_(value)
    state = (tensors["hidden"], tensors["cell"]) if cell == "lstm" else tensors["hidden"]
    found = run(op, levels, tensors).hidden
    torch.testing.assert_close(found, expected(tensors["inputs"], state)[0], rtol=0, atol=1e-13)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_the_gpu_equals_the_cpu(cell):
    levels, words = levels_of(CASES["all together"])
    tensors = tensors_of(len(words), cell)
    on_gpu = {name: None if tensor is None else tensor.cuda() for name, tensor in tensors.items()}
    ours, expected = run(recurrence, levels.to("cuda"), on_gpu), run(recurrence_reference, levels, tensors)
    inputs = [tensor for tensor in tensors.values() if tensor is not None]
    torch.testing.assert_close([part.cpu() for part in flat(ours)], flat(expected), rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(ours, inputs), gradients(expected, inputs), rtol=1e-9, atol=1e-11)


def test_levels_have_edges_and_rows_by_type():
    levels, words = levels_of([SENTENCE, ONE])
    assert [word for tree, word in words if tree == 0] == [4, 3, 8, 2, 7, 9, 1, 6, 5]
    assert levels.counts == ((0, 2, 0, 0), (1, 1, 0, 0), (2, 0, 0, 1), (0, 0, 2, 0), (0, 0, 1, 0))
    assert levels.edges().tolist() == [1, 1, 0, 1, 0, 0, 3, 2, 2, 2]
    assert levels.by_edge.tolist() == [2, 4, 5, 0, 1, 3, 7, 8, 9, 6]
    assert (levels.sizes, levels.edge_sizes) == ([2, 2, 3, 2, 1], [3, 3, 3, 1])
    with pytest.raises(ValueError, match="found counts of 10 steps, but 9 parents"):
        Levels.of(levels.parents[1:], levels.counts)


def test_weights_of_inconsistent_shapes_raise_an_error():
    def weights(*sizes):
        return EdgeWeights(*(torch.zeros(size) for size in sizes))

    assert weights((4, 20, 3), (4, 20, 5), (4, 20)).is_lstm
    assert not weights((4, 5, 3), (4, 5, 5)).is_lstm
    for sizes, message in (
        (((4, 10, 3), (4, 10, 5)), r"expected \(4, 5, 5\) for a tanh network or \(4, 20, 5\) for an LSTM"),
        (((3, 5, 3), (3, 5, 5)), r"expected \(4, 5, 5\)"),
        (((4, 6, 3), (4, 5, 5)), r"^input weights: found shape \(4, 6, 3\); expected 4, 5 first"),
        (((4, 5, 3), (4, 5, 5), (5,)), r"^bias: found shape \(5,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            weights(*sizes)
