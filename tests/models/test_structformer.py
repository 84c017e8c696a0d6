"""StructFormer against the released program, and against its equations written out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import PredictsNextToken, ScoresSentences, ScoresTokens
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.registry import build_model, require
from syntaxlm.models.sentences import BOS
from syntaxlm.models.structformer import (
    MASK,
    PADDING,
    UNKNOWN,
    StructFormer,
    StructFormerConfig,
    dependencies,
    fixed_draws,
    margins,
    reach,
)
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.trees.decoding import decode, heads_of
from tests.fresh_models import fresh
from tests.golden import FOLDERS
from tests.models.variants import built, closed_sentences, sentences

GOLDEN = sorted(path for folder in FOLDERS for path in folder.glob("structformer*.npz"))
every_file = pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
NAMES = {
    "emb.weight": "embedding.weight", "pos_emb.weight": "positions.weight", "output_layer.bias": "bias",
    "norm.weight": "norm.weight", "norm.bias": "norm.bias", "_scaler": "scales",
    "height_ff.0": "parser.height", "height_ff.3": "parser.height_score",
    "distance_ff.0.conv": "parser.distance", "distance_ff.3": "parser.distance_score",
    "norm": "attention_norm", "self_attn.out_proj": "output",
    "feedforward.0": "feedforward_norm", "feedforward.1": "up", "feedforward.4": "down",
}  # fmt: skip


def in_our_names(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, Tensor]:
    """Weights, or their gradients, of a golden file, by our names."""
    found: dict[str, Tensor] = {}
    parts: dict[str, dict[str, Tensor]] = {}
    for name, array in arrays.items():
        if not name.startswith(prefix):
            continue
        value, released = torch.from_numpy(array), name.removeprefix(prefix)
        match released.split("."):
            case ["parser_layers", number, "0", "conv", what]:
                found[f"parser.convolutions.{number}.{what}"] = value
            case ["distance_ff", "0", "conv", "weight"]:
                found["parser.distance.weight"] = torch.cat([value[..., 0], value[..., 1]], 1)
            case ["layers", number, "self_attn", ("q_proj" | "k_proj" | "v_proj") as part, what]:
                parts.setdefault(f"encoder.{number}.query_key_value.{what}", {})[part] = value
            case ["layers", number, *rest, what]:
                found[f"encoder.{number}.{NAMES['.'.join(rest)]}.{what}"] = value
            case ["_rel_weight"]:
                found |= {f"encoder.{number}.relations": of_layer for number, of_layer in enumerate(value)}
            case [*rest, what] if released not in NAMES:
                found[f"{NAMES['.'.join(rest)]}.{what}"] = value
            case _:
                found[NAMES[released]] = value
    for name, of_part in parts.items():
        found[name] = torch.cat([of_part[part] for part in ("q_proj", "k_proj", "v_proj")])
    return found


def released(path: Path, **settings: Any) -> tuple[StructFormer, dict[str, np.ndarray], Tensor, Tensor]:
    """Our model with a golden file's weights, in evaluation mode and float64; its arrays, words and real words."""
    arrays = dict(np.load(path))
    assert tuple(int(arrays[f"{name}_id"]) for name in ("unknown", "pad", "mask")) == (UNKNOWN, PADDING, MASK)
    weights = in_our_names(arrays, "param.")
    vocabulary_size, size = weights["embedding.weight"].shape
    config = StructFormerConfig(
        embedding_size=size,
        layers=sum(name.endswith(".relations") for name in weights),
        heads=int(arrays["attention_heads"]),
        parser_layers=sum("convolutions" in name and name.endswith("weight") for name in weights),
        parser_width=weights["parser.convolutions.0.weight"].shape[2],
        positions=len(weights["positions.weight"]),
        **settings,
    )
    model = build_model(config, vocabulary_size).double().eval()
    assert isinstance(model, StructFormer)
    model.load_state_dict(weights)
    words, lengths = (torch.from_numpy(arrays[name]) for name in ("x", "lengths"))
    return model, arrays, words, torch.arange(words.shape[1]) < lengths[:, None]


def agree(found: Tensor, expected: np.ndarray | Tensor, tolerance: float = 1e-11) -> None:
    torch.testing.assert_close(found.detach(), torch.as_tensor(expected), rtol=0, atol=tolerance)


@every_file
@pytest.mark.parametrize("margin", ["sentence", "batch"])
def test_values_loss_and_gradients_are_those_of_the_released_program(path, margin):
    model, arrays, words, real = released(path, margin=margin)
    own = "alone." if margin == "sentence" else ""
    heights, distances = model.parser(model.embedding(words), real)
    gaps = real[:, 1:]
    agree(heights * real, arrays["heights"])
    agree(distances * gaps, arrays["raw_distances"])
    of_sentences = margins(heights, distances, real)
    agree(of_sentences, arrays["margins"])
    distances = distances - (of_sentences if margin == "sentence" else of_sentences.max())[..., None]
    agree(distances * gaps, arrays[own + "distances"])
    scales = model.scales.exp()
    agree(reach(heights, distances, scales[0], real), arrays[own + "block"])
    found = dependencies(heights, distances, scales, real)
    agree(found * real[:, :, None], arrays[own + "dependency"])

    hidden = model.encode(words, real)
    logits = model.norm(hidden) @ model.embedding.weight.T + model.bias
    agree(logits * real[..., None], arrays[own + "logits"])
    targets = torch.from_numpy(arrays["targets"])
    chosen = targets != PADDING
    loss = torch.nn.functional.cross_entropy(logits[chosen], targets[chosen])
    assert loss.item() == pytest.approx(float(arrays[own + "loss"]), rel=1e-12)
    loss.backward()
    for name, expected in in_our_names(arrays, own + "grad.").items():
        agree(model.get_parameter(name).grad, expected, 1e-10)


@every_file
def test_the_loss_of_a_batch_is_that_of_the_released_program(path, monkeypatch):
    model, arrays, words, _ = released(path)
    targets = torch.from_numpy(arrays["targets"])
    whole = torch.where(targets == PADDING, words, targets)
    order = torch.from_numpy(arrays["lengths"]).argsort(descending=True)
    lengths = torch.from_numpy(arrays["lengths"])[order]
    monkeypatch.setattr(model, "_masked", lambda words, real: (targets != PADDING)[order])
    tokens = torch.cat([torch.full((1, len(words)), BOS), whole[order].T])
    found = model.loss(TokenBatch(tokens, tokens, lengths + 1))
    assert found.count == int((targets != PADDING).sum())
    assert found.total.item() / found.count == pytest.approx(float(arrays["alone.loss"]), rel=1e-12)


@torch.no_grad()
def independent_heads(model, words, real):
    """Heads as in the released program: the most probable one of each word by itself, from 1; these may form cycles.

    The highest word is the root, 0; padding is -1.
    """
    embedded = model.embedding(words)
    heads = model.dependencies(embedded, real).argmax(2) + 1
    heights = model.parser(embedded, real)[0].masked_fill(~real, -torch.inf)
    return heads.scatter(1, heights.argmax(1, keepdim=True), 0).masked_fill(~real, -1)


def heads_in_tree(spans: list[list[int]], heights: list[float]) -> list[int]:
    """The head of each word in a binary tree: the highest word of its smallest constituent with a higher one; or -1.

    Args:
        spans: first and last word of the constituents of two words or more.
        heights: one per word.
    """
    heads = [-1] * len(heights)
    for first, last in sorted(spans, key=lambda span: span[0] - span[1]):  # longest first: shorter ones overwrite
        highest = first + int(np.argmax(heights[first : last + 1]))
        for word in range(first, last + 1):
            if word != highest:
                heads[word] = highest
    return heads


@every_file
def test_trees_and_heads_are_those_of_the_released_program(path):
    model, arrays, words, real = released(path)
    heights, distances = (part.detach().numpy() for part in model.parser(model.embedding(words), real))
    independent = independent_heads(model, words, real)
    for number, length in enumerate(arrays["lengths"].tolist()):
        values = np.concatenate([[0.0], distances[number, : length - 1]])
        spans = decode(values, np.array([length]), "unbiased")
        found = sorted([start, end - 1] for start, end in spans.sentence(0) if end - start > 1)
        tree = arrays[f"sentence.{number}.tree_spans"].tolist()
        assert found == tree
        assert (independent[number, :length] - 1).tolist() == arrays[f"sentence.{number}.heads"].tolist()
        assert (independent[number, length:] == -1).all()
        heads = heads_of(values, heights[number, :length], np.array([length])) - 1
        assert heads.tolist() == heads_in_tree(tree, arrays["heights"][number, :length].tolist())


@every_file
def test_the_operation_alone_has_the_values_and_gradients_of_the_released_program(path):
    arrays = dict(np.load(path))
    given = [torch.from_numpy(arrays[f"op.{name}"]) for name in ("heights", "distances", "log_scales")]
    heights, distances, log_scales = (value.requires_grad_() for value in given)
    real = torch.ones(1, len(heights), dtype=torch.bool)
    agree(margins(heights[None], distances[None], real)[0], arrays["op.margin"])
    agree(reach(heights[None], distances[None], log_scales[0].exp(), real)[0], arrays["op.block"])
    found = dependencies(heights[None], distances[None], log_scales.exp(), real)[0]
    agree(found, arrays["op.dependency"], 1e-14)
    found.backward(torch.from_numpy(arrays["op.grad_output"]))
    for value, name in ((heights, "heights"), (distances, "distances"), (log_scales, "log_scales")):
        assert value.grad is not None
        agree(value.grad, arrays[f"op.grad_{name}"], 1e-13)


# ---- the equations, one span at a time


def margin_by_spans(heights: list[float], distances: list[float]) -> float:
    size, around = len(heights), [float("inf"), *distances, float("inf")]
    spans = [(i, j) for i in range(size) for j in range(i, size) if (i, j) != (0, size - 1)]
    return max([0.0, *(min(around[i], around[j + 1]) - max(heights[i : j + 1]) for i, j in spans)])


def dependencies_by_spans(heights: Tensor, distances: Tensor, scales: Tensor) -> Tensor:
    """p(j | i) of one sentence: the sum over blocks and heads, as the equations are written."""
    size = len(heights)
    zero = heights.new_zeros(())

    def reached(i: int, j: int) -> Tensor:
        if not 0 <= j < size:
            return zero
        gaps = distances[min(i, j) : max(i, j)]
        return torch.sigmoid(scales[0] * (heights[i] - gaps)).min() if len(gaps) else zero + 1

    rows = []
    for i in range(size):
        row = [zero] * size
        for left in range(i + 1):
            for right in range(i, size):
                block = (reached(i, left) - reached(i, left - 1)) * (reached(i, right) - reached(i, right + 1))
                heads = torch.softmax(scales[1] * heights[left : right + 1], 0)
                for j in range(left, right + 1):
                    row[j] = row[j] + block * heads[j - left] if j != i else row[j]
        rows.append(torch.stack(row))
    return torch.stack(rows)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 9])
def test_probabilities_of_heads_equal_the_sum_over_blocks_in_value_and_gradient(size):
    generator = torch.Generator().manual_seed(size)
    values = [torch.randn(count, generator=generator).double().requires_grad_() for count in (size, size - 1, 2)]
    heights, distances, scales = values
    real = torch.ones(2, size + 3, dtype=torch.bool)
    real[:, size:] = False
    padded = torch.nn.functional.pad(heights, (0, 3), value=7.0).expand(2, -1)
    gaps = torch.nn.functional.pad(distances, (0, 3), value=-5.0).expand(2, -1)
    margin = margins(padded, gaps, real)
    assert margin.tolist() == pytest.approx([margin_by_spans(heights.tolist(), distances.tolist())] * 2)
    found = dependencies(padded, gaps, scales.exp(), real)[1, :size]
    expected = dependencies_by_spans(heights, distances, scales.exp())
    assert not found[:, size:].any()
    agree(found[:, :size], expected.detach(), 1e-14)
    if size == 1:
        return
    weights = torch.randn(size, size, generator=generator).double()
    gradients = (
        torch.autograd.grad((part[:, :size] * weights).sum(), values, materialize_grads=True)
        for part in (found, expected)
    )
    for one, other in zip(*gradients, strict=True):
        agree(one, other, 1e-12)


def test_after_the_margin_every_block_but_the_sentence_reaches_a_word_outside():
    generator = torch.Generator().manual_seed(3)
    heights, distances = torch.randn(20, 7, generator=generator), torch.randn(20, 6, generator=generator)
    real = torch.ones(20, 7, dtype=torch.bool)
    lowered = distances - margins(heights, distances, real)[:, None]
    assert (margins(heights, lowered, real) < 1e-6).all()


def test_probabilities_stay_finite_in_float32_when_heights_are_far_apart():
    heights = torch.tensor([[0.0, 150.0, -200.0, 40.0]]).requires_grad_()
    distances = torch.tensor([[10.0, 300.0, -90.0]]).requires_grad_()
    found = dependencies(heights, distances, torch.ones(2), torch.ones(1, 4, dtype=torch.bool))
    found.square().sum().backward()
    assert found.isfinite().all()
    assert heights.grad.isfinite().all()
    assert distances.grad.isfinite().all()


# ---- heads and masks


def test_the_head_of_a_constituent_is_its_highest_word():
    """((the dog) (chased (the (old cat)))), with the verb highest, then dog, then cat; and a sentence of one word."""
    distances = np.array([0.0, 1, 4, 3, 2, 1, 9])
    heights = np.array([0.0, 2, 3, 0, 0.5, 1, 5])
    found = heads_of(distances, heights, np.array([6, 1]))
    assert found.tolist() == [2, 3, 0, 6, 6, 3, 0]


def test_heads_of_many_sentences_are_those_of_each_and_of_the_recursion():
    generator = np.random.default_rng(5)
    lengths = generator.integers(1, 30, 50)
    distances, heights = generator.normal(size=(2, lengths.sum()))

    def attach(start: int, end: int, heads: list[int]) -> int:
        if end - start == 1:
            return start
        split = start + 1 + int(np.argmax(own_distances[start + 1 : end]))
        left, right = attach(start, split, heads), attach(split, end, heads)
        head, dependent = (left, right) if own_heights[left] >= own_heights[right] else (right, left)
        heads[dependent] = head + 1
        return head

    found, first = heads_of(distances, heights, lengths), 0
    for length in lengths.tolist():
        own_distances, own_heights = distances[first : first + length], heights[first : first + length]
        expected = [0] * length
        attach(0, length, expected)
        assert found[first : first + length].tolist() == expected
        first += length


def test_masks_of_evaluation_depend_on_the_sentence_alone():
    words = torch.randint(3, 1000, (400, 20), generator=torch.Generator().manual_seed(1))
    draws = fixed_draws(words)
    padded = torch.cat([words, torch.full((400, 5), PADDING)], 1)
    assert torch.equal(fixed_draws(padded)[:, :20], draws)
    assert torch.equal(fixed_draws(words[7:9]), draws[7:9])
    assert float((draws < 0.3).double().mean()) == pytest.approx(0.3, abs=0.02)
    assert ((draws < 0.3).double().mean(0) - 0.3).abs().max() < 0.1, "at every place"
    other = words.clone()
    other[:, 11] += 1
    assert abs(float(((fixed_draws(other) < 0.3) == (draws < 0.3)).double().mean()) - 0.58) < 0.03, "independent"


def test_training_masks_a_share_of_the_known_words_drawn_from_the_seed():
    model, batch = built("structformer").train(), sentences((30,) * 60)
    counts, totals = [], []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        found = model.loss(batch)
        counts.append(found.count)
        totals.append(found.total.item())
    assert counts[0] == counts[2]
    assert totals[0] == totals[2] != totals[1]
    known = int((batch.tokens[1:] != UNKNOWN).sum())
    assert counts[0] / known == pytest.approx(0.3, abs=0.05)


def test_a_batch_of_unknown_words_has_no_loss_and_changes_nothing():
    model, batch = built("structformer").train(), sentences((3, 2))
    unknown = batch.tokens.clone()
    unknown[1:] = UNKNOWN
    found = model.loss(dataclasses.replace(batch, tokens=unknown))
    assert (found.total.item(), found.count) == (0, 0)
    found.total.backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())
    assert model.eval().loss(dataclasses.replace(batch, tokens=unknown)).count == 0


def test_predictions_depend_on_words_of_both_sides_and_not_on_the_masked_word():
    model = built("structformer")
    words, real = torch.tensor([[5, 6, MASK, 8, 9]]), torch.ones(1, 5, dtype=torch.bool)
    before = model.encode(words, real)[0, 2]
    for place in (0, 1, 3, 4):
        changed = words.clone()
        changed[0, place] = 11
        assert (model.encode(changed, real)[0, 2] - before).abs().max() > 1e-6


def test_words_after_the_last_position_have_its_embedding():
    model = built("structformer", positions=3)
    assert model.loss(sentences((9, 5))).total.isfinite()


def test_one_margin_per_batch_changes_the_loss_and_not_the_structure():
    own, released = (built("structformer", margin=margin) for margin in ("sentence", "batch"))
    released.load_state_dict(own.state_dict())
    batch, closed = sentences((9, 9, 5)), closed_sentences((9, 9, 5))
    assert own.loss(batch).total.item() != released.loss(batch).total.item()
    assert torch.equal(own.structure(closed).values, released.structure(closed).values)


@pytest.mark.parametrize("ability", [ScoresSentences, ScoresTokens, PredictsNextToken])
def test_probabilities_are_refused_with_the_reason(ability):
    expected = "this structformer model predicts masked words from both sides and has no left-to-right probabilities,"
    with pytest.raises(InputError, match=expected):
        require(built("structformer"), ability, "structformer", "score")


def test_it_can_be_a_member_of_an_average():
    lines = ["the old dog sees a cat", "dog sees"]
    batch = parse_lines([fresh("structformer"), fresh("prpn")], lines)
    assert [len(parse.tree.constituents) for parse in batch] == [5, 1]
    assert not any(parse.heads for parse in batch)
