"""Losses of given trees, compared with the released program, with published examples, and with their references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from syntaxlm.models.structures import CorpusSplitScores, SplitScores
from syntaxlm.ops.tree_losses import (
    distance_ranking,
    distance_ranking_reference,
    orthogonal_lengths,
    split_scores_of_spans,
    tree_regularisation,
    tree_regularisation_reference,
)
from tests.golden import FOLDERS
from tests.ops.harness import check, every_form, leaves

GOLDEN = sorted(path for folder in FOLDERS for path in folder.glob("tree_reg*.npz"))
every_file = pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)


class Released:
    """The sentences of a golden file, longest first. Spans of two tokens, which are not stored, are added."""

    def __init__(self, path):
        self.arrays = dict(np.load(path))
        numbers = {int(name.split(".")[1]) for name in self.arrays if name.startswith("sentence.")}
        self.sentences = sorted(numbers, key=lambda number: -len(self.of(number, "hidden")))
        lengths = [len(self.of(number, "hidden")) for number in self.sentences]
        shape = max(lengths), len(lengths)
        self.states = torch.zeros(*shape, self.of(0, "hidden").shape[1], dtype=torch.float64)
        self.starts = torch.zeros(shape, dtype=torch.bool)
        spans = set()
        for column, (number, length) in enumerate(zip(self.sentences, lengths, strict=True)):
            self.states[:length, column] = torch.from_numpy(self.of(number, "hidden"))
            self.starts[:length, column] = torch.from_numpy(self.of(number, "word_starts")).bool()
            for first, end, split in self.of(number, "tree").tolist():
                parts = ((first, end), (first, split), (split, end))
                spans |= {(column, begin, stop - 1) for begin, stop in parts if stop - begin > 1}
        self.spans = torch.tensor(sorted(spans))
        self.states.requires_grad_()

    def of(self, number: int, name: str) -> np.ndarray:
        return self.arrays[f"sentence.{number}.{name}"]


@every_file
@pytest.mark.parametrize("op", [tree_regularisation, tree_regularisation_reference])
def test_tree_regularisation_equals_the_released_program_in_loss_and_gradient(path, op):
    released = Released(path)
    loss = op(released.states, released.spans, released.starts)
    assert loss.item() == pytest.approx(released.arrays["loss"].item(), abs=1e-9)
    (gradient,) = torch.autograd.grad(loss, released.states)
    for column, number in enumerate(released.sentences):
        expected = torch.from_numpy(released.arrays[f"grad.sentence.{number}.hidden"])
        torch.testing.assert_close(gradient[: len(expected), column], expected, rtol=0, atol=1e-9)


@every_file
def test_orthogonal_lengths_equal_those_of_the_released_program(path):
    released = Released(path)
    lengths = orthogonal_lengths(released.states.detach())
    for column, number in enumerate(released.sentences):
        expected = torch.from_numpy(released.of(number, "orthogonal"))
        size = len(expected)
        torch.testing.assert_close(lengths[column, :size, :size], expected, rtol=0, atol=1e-9)


def split_scored(released):
    """The sentences whose words have one token each: their greedy trees have all tokens as leaves."""
    return [number for number in released.sentences if released.of(number, "word_starts").all()]


def test_golden_files_have_greedy_trees():
    every = map(Released, GOLDEN)
    assert any(len(released.of(number, "greedy_spans")) > 1 for released in every for number in split_scored(released))


@every_file
def test_trees_of_split_scores_equal_the_greedy_trees_of_the_released_program(path):
    released = Released(path)
    for number in split_scored(released):
        states = torch.from_numpy(released.of(number, "hidden"))[:, None]
        bos_and_eos = torch.nn.functional.pad(states, (0, 0, 0, 0, 1, 1))
        corpus = CorpusSplitScores(np.array([len(states)]))
        corpus.add(SplitScores.of(bos_and_eos), np.array([len(states)]), np.array([0]))
        expected = {(first, last + 1) for first, last in released.of(number, "greedy_spans").tolist()}
        assert corpus.decode("greedy-sum").sentence(0) == expected


def trees(lengths: list[int], seed: int, arity: int = 2) -> Tensor:
    """Spans of random trees over sentences of these lengths, with up to `arity` children."""
    random, spans = np.random.default_rng(seed), []

    def split(column: int, first: int, last: int) -> None:
        if first == last:
            return
        spans.append((column, first, last))
        count = min(int(random.integers(1, arity)), last - first)
        gaps = sorted(random.choice(np.arange(first, last), count, replace=False).tolist())
        for begin, end in zip([first, *(gap + 1 for gap in gaps)], [*gaps, last], strict=True):
            split(column, begin, end)

    for column, length in enumerate(lengths):
        split(column, 0, length - 1)
    return torch.tensor(spans, dtype=torch.int64).view(-1, 3)


LENGTHS = [[1], [2, 1], [3], [9, 7, 2, 1], [40, 13, 13]]


@every_form
@pytest.mark.parametrize("arity", [2, 4])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_tree_regularisation_equals_the_reference_in_value_and_gradient(lengths, arity, form):
    spans = trees(lengths, seed=len(lengths), arity=arity)
    tensors = leaves({"states": (lengths[0], len(lengths), 6)})
    check(
        lambda given: tree_regularisation(given["states"], spans)[None],
        lambda given: tree_regularisation_reference(given["states"], spans)[None],
        tensors,
        form,
    )


@every_form
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_distance_ranking_equals_the_reference_in_value_and_gradient(lengths, form):
    spans, counts = trees(lengths, seed=len(lengths), arity=3), torch.tensor(lengths)
    tensors = leaves({"distances": (lengths[0], len(lengths))})
    check(
        lambda given: distance_ranking(given["distances"], counts, spans, 0.5)[None],
        lambda given: distance_ranking_reference(given["distances"], counts, spans, 0.5)[None],
        tensors,
        form,
    )


def test_distance_ranking_of_a_worked_example():
    # ((a b) (c (d e))), with the distances 0.2, 1.0, 0.9, -0.5. The split at 1.0 holds the three others, the one at 0.9
    # the last: 0.2 + 0.9 + 0 + 0 over four pairs. The first word's own distance is above all by the margin.
    distances = torch.tensor([[9.0], [0.2], [1.0], [0.9], [-0.5]])
    spans = torch.tensor([[0, 0, 1], [0, 2, 4], [0, 3, 4]])
    of_first_word = 1  # pair of the first word's distance and the gap in (a b), which adds 0
    expected = (0.2 + 0.9) / (4 + of_first_word)
    assert distance_ranking(distances, torch.tensor([5]), spans, 1.0).item() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_descending_the_ranking_loss_gives_distances_whose_tree_is_the_given_one(seed):
    from syntaxlm.trees.decoding import decode

    length = 9
    spans = trees([length], seed)
    distances = torch.zeros(length, 1, requires_grad=True)
    optimiser = torch.optim.SGD([distances], lr=1.0)
    for _ in range(300):
        optimiser.zero_grad()
        distance_ranking(distances, torch.tensor([length]), spans, 0.1).backward()
        optimiser.step()
    found = decode(distances.detach().numpy()[:, 0], np.array([length]), "unbiased").sentence(0)
    assert found == {(first, last + 1) for _, first, last in spans.tolist()}


def test_the_loss_of_a_batch_is_the_mean_of_its_sentences_and_padding_is_not_read():
    lengths = [8, 5, 2]
    spans, states = trees(lengths, 3), torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(1)).double()
    alone = []
    for column, length in enumerate(lengths):
        own = spans[spans[:, 0] == column] * torch.tensor([0, 1, 1])
        alone.append(tree_regularisation(states[:length, column : column + 1], own))
    together = tree_regularisation(states, spans)
    assert together.item() == pytest.approx(torch.stack(alone).mean().item())
    states[5:, 1], states[2:, 2] = torch.nan, torch.nan
    # NaN in a row of lengths that no span has does not spread.
    assert tree_regularisation(states, spans).item() == pytest.approx(together.item())


def test_split_scores_add_up_to_the_scores_of_splits():
    states = torch.randn(6, 1, 4, generator=torch.Generator().manual_seed(2)).double()
    lengths = orthogonal_lengths(states)[0]
    scores = split_scores_of_spans(lengths[None])[0]
    first, last, gap = 1, 4, 2
    expected = lengths[first, gap] + lengths[gap + 1, last] + lengths[gap + 1, gap + 1] + lengths[last + 1, last + 1]
    assert (scores[first, gap] + scores[gap + 1, last]).item() == pytest.approx(expected.item())
