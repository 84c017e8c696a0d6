"""Span attention: agreement of fast form, reference, released program and the paper's equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

from syntaxlm.ops import span_attention as module
from syntaxlm.ops.span_attention import Form, SpanWeights, span_attention, span_attention_reference
from tests.golden import PALM_FILES, released_span_attention
from tests.ops.harness import check, compiled_or_not, every_form, gradients, leaves

INPUT = 5
NAMES = "inputs", "carried", "input", "bias", "span", "score"


@dataclass(frozen=True)
class Case:
    counts: list[int]
    maximum: int
    size: int = 6
    scorer: int = 4
    form: Form = "released"
    carried: int | None = None  # number of carried columns; None: nothing is carried
    masked: bool = False
    by_step: bool = False  # whether given scores differ by step

    @property
    def scores(self) -> torch.Tensor | None:
        """Given scores of spans; without a scorer."""
        if self.scorer:
            return None
        if not self.by_step:
            return torch.arange(1.0, self.maximum + 1, dtype=torch.float64)
        shape = sum(self.counts), self.maximum
        scores = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        return scores.masked_fill((scores < 0) & (scores < scores.max(1, keepdim=True).values), -torch.inf)

    @property
    def mask(self) -> torch.Tensor | None:
        """Multipliers of the runs of each column; some are 0."""
        if not self.masked:
            return None
        columns = self.carried or self.counts[0]
        values = torch.randn(columns, self.size, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        return values.clamp(min=0)

    def tensors(self) -> dict[str, torch.Tensor | None]:
        """Leaf tensors in the order of NAMES, in float64; None for missing ones."""
        biases = (2 if self.form == "released" else 1) * self.size + self.scorer
        shapes = (
            (sum(self.counts), INPUT), self.carried and (self.maximum, self.carried, INPUT),
            (self.size + biases, INPUT), (biases,), (self.scorer, self.size) if self.scorer else None,
            (self.scorer,) if self.scorer else None,
        )  # fmt: skip
        return leaves(dict(zip(NAMES, shapes, strict=True)))


CASES = {
    "one step": Case([1], 3),
    "one step, what is before it": Case([2], 3, carried=2),
    "seven steps, three columns": Case([3] * 7, 4, carried=3),
    "63 steps": Case([1] * 63, 5, carried=1),
    "63 steps, ragged": Case([3] * 30 + [2] * 20 + [1] * 13, 4),
    "ragged, what is before it": Case([3, 3, 2, 2, 2, 1, 1], 3, carried=3),
    "a column without a step": Case([2, 1], 2, carried=3),
    "spans of one token": Case([2] * 5, 1, carried=2),
    "spans longer than the text": Case([2, 2, 1], 9),
    "wide": Case([4, 4, 3, 1], 4, size=150, scorer=70, carried=4),
    "paper": Case([3, 3, 2, 1], 4, form="paper", carried=3),
    "masked": Case([3, 3, 2, 1], 4, carried=4, masked=True),
    "masked, nothing before it": Case([3, 3, 2, 1], 4, masked=True),
    "masked, paper": Case([3, 3, 2, 1], 4, form="paper", carried=3, masked=True),
    "given scores": Case([3, 3, 2, 1], 4, scorer=0, carried=3),
    "given scores, paper": Case([3, 3, 2, 1], 4, scorer=0, form="paper"),
    "given scores of every step": Case([3, 3, 2, 1], 4, scorer=0, carried=3, by_step=True),
}


def run(op, case, given):
    inputs, carried, *weights = (given[name] for name in NAMES)
    mask = None if case.mask is None else case.mask.to(inputs)
    scores = None if case.scores is None else case.scores.to(inputs)
    return op(inputs, carried, SpanWeights(*weights, case.form), case.maximum, case.counts, mask, scores)


def present(tensors):
    return [tensor for tensor in tensors.values() if tensor is not None]


def converted(tensors, dtype):
    return {name: tensor if tensor is None else tensor.to(dtype) for name, tensor in tensors.items()}


def test_there_are_golden_files():
    assert PALM_FILES


@pytest.mark.parametrize("op", [span_attention, span_attention_reference], ids=["fast", "reference"])
@pytest.mark.parametrize("path", PALM_FILES, ids=lambda path: path.stem)
def test_equals_the_released_program_in_scores_attention_and_context(path, op):
    weights, golden = released_span_attention(path)
    x, following = golden["x"], golden["x_next"]
    (steps, columns, _), longest = x.shape, int(golden["max_span_length"]) - 1
    first = op(x.flatten(0, 1), None, weights, longest, [columns] * steps)
    carried = torch.nn.functional.pad(x, (0, 0, 0, 0, longest, 0))[-longest:]  # zeros before the first step
    second = op(following.flatten(0, 1), carried, weights, longest, [columns] * len(following))
    found = first._asdict() | {f"{name}_next": part for name, part in second._asdict().items()}
    compared = set(found) & set(golden)
    assert len(compared) == 5
    for name in compared:
        torch.testing.assert_close(found[name].view_as(golden[name]), golden[name], rtol=0, atol=1e-9, msg=name)


@every_form
@pytest.mark.parametrize("case", CASES)
def test_every_form_equals_the_reference_in_value_and_every_gradient(case, form):
    name, case = case, CASES[case]
    if form.low:  # given scores are the same in any form
        form = replace(form, value=0.1, gradient=0.1)
    ops = partial(run, span_attention, case), partial(run, span_attention_reference, case)
    check(*ops, case.tensors(), form, "span_attention", ("span_attention", name))


@pytest.mark.parametrize("case", ["63 steps, ragged", "wide", "given scores of every step"])
@compiled_or_not
def test_steps_processed_in_parts_equal_steps_processed_together(case, form, monkeypatch):
    case = CASES[case]
    tensors = case.tensors()
    found = []
    for elements in (module.FEATURES_IN_CACHE, 1, 7 * case.maximum * case.size):
        monkeypatch.setattr(module, "FEATURES_IN_CACHE", elements)
        with form.running("span_attention"):
            outputs = run(span_attention, case, converted(tensors, torch.float32))
            found.append((list(outputs), gradients(outputs, present(tensors))))
    for outputs, grads in found[1:]:
        torch.testing.assert_close(outputs, found[0][0], rtol=1e-5, atol=5e-6)
        torch.testing.assert_close(grads, found[0][1], rtol=1e-4, atol=1e-4)


@compiled_or_not
@pytest.mark.parametrize("variant", ["released", "paper"])
@pytest.mark.parametrize("open_", [-15.0, 15.0], ids=["shut", "open"])
def test_float32_stays_precise_if_forget_gates_are_nearly_0_or_1(open_, variant, form):
    """Over 70 steps. If gates are nearly 1, updates are scaled by about a millionth.

    The gradient of the scorer's last layer is then a difference of nearly equal spans, which is never precise.
    """
    case = Case([3] * 70, 20, size=16, scorer=8, form=variant, carried=3)
    tensors = case.tensors()
    with torch.no_grad():
        tensors["bias"][: case.size] += open_
    tensors = {name: tensor.detach().float().double().requires_grad_() for name, tensor in tensors.items()}
    found = []
    for dtype in (torch.float32, torch.float64):
        with form.running():
            outputs = run(span_attention, case, converted(tensors, dtype))
            found.append([part.detach() for part in (*outputs, *gradients(outputs[:1], present(tensors)))])
    names = ["context", "scores", "attention", *(f"gradient of {name}" for name in NAMES)]
    for name, one, other in zip(names, *found, strict=True):
        assert one.isfinite().all(), name
        assert float((one - other).norm() / other.norm()) < (1e-5 if name != "gradient of score" else 1e-3), name


@compiled_or_not
@pytest.mark.parametrize("scale", [1e3, -1e3, 1e6])
def test_fully_closed_and_open_gates_give_finite_values_and_gradients(scale, form):
    case = Case([2] * 70, 20, carried=2)
    tensors = case.tensors()
    with torch.no_grad():
        tensors["input"][case.size : 2 * case.size] *= scale
    with form.running("span_attention"):
        outputs = run(span_attention, case, converted(tensors, torch.float32))
        assert all(part.isfinite().all() for part in [*outputs, *gradients(outputs, present(tensors))])


@compiled_or_not
def test_a_span_does_not_depend_on_tokens_before_or_after_it(form):
    """Scores of spans without the attending token's side are bitwise equal."""
    case = Case([2] * 12, 5, carried=2)
    given = {name: tensor.detach().float() for name, tensor in case.tensors().items()}
    given["input"][2 * case.size :] = 0
    inputs = given["inputs"].view(12, 2, INPUT).clone()
    inputs[6] += 100
    with form.running("span_attention"):
        before = run(span_attention, case, given).scores.view(12, 2, 5)
        after = run(span_attention, case, given | {"inputs": inputs.flatten(0, 1)}).scores.view(12, 2, 5)
    changed = after != before
    step, length = torch.arange(12)[:, None], torch.arange(1, 6)
    assert torch.equal(changed.all(1), changed.any(1))
    assert torch.equal(changed.all(1), (step - length <= 6) & (step > 6))


def test_a_run_over_a_span_equals_the_difference_in_the_paper():
    """c_j minus c_{i-1} times the product of the gates of i..j, and its mirror, of runs over the whole text."""
    case = Case([1] * 9, 4, scorer=0, form="paper")
    tensors = case.tensors()
    inputs, weight, bias = (tensors[name].detach() for name in ("inputs", "input", "bias"))
    update, forget = (inputs @ weight.T + torch.cat([torch.zeros(6), bias])).chunk(2, dim=-1)
    f = torch.sigmoid(forget)
    u = (1 - f) * torch.tanh(update)
    forward, backward = torch.zeros(10, 6, dtype=torch.float64), torch.zeros(10, 6, dtype=torch.float64)
    for t in range(9):
        forward[t + 1] = f[t] * forward[t] + u[t]  # c_t
        backward[8 - t] = f[8 - t] * backward[9 - t] + u[8 - t]
    context = run(span_attention, case, tensors).context
    attention = torch.softmax(torch.arange(1.0, 5.0, dtype=torch.float64), 0)
    for step in range(4, 9):
        spans = []
        for start in range(step - 1, step - 5, -1):
            kept = f[start:step].prod(0)
            spans.append(
                torch.cat([(forward[step] - forward[start] * kept)[:3], (backward[start] - backward[step] * kept)[3:]])
            )
        torch.testing.assert_close(context[step], attention @ torch.stack(spans), rtol=0, atol=1e-13)


def test_a_mask_multiplies_the_runs_of_its_column():
    """Without a gate and a tanh, the context is linear in the runs."""
    case = CASES["given scores, paper"]
    tensors = case.tensors()
    masked = replace(case, masked=True)
    expected = run(span_attention, case, tensors).context * masked.mask[torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 0])]
    torch.testing.assert_close(run(span_attention, masked, tensors).context, expected, rtol=0, atol=1e-13)


def test_tensors_without_gradients_get_none_and_do_not_affect_other_gradients():
    case = CASES["ragged, what is before it"]
    tensors = case.tensors()
    needed = [tensors["input"], tensors["score"]]
    every = gradients(run(span_attention, case, tensors)[:1], needed)
    fixed = {name: tensor if name in ("input", "score") else tensor.detach() for name, tensor in tensors.items()}
    torch.testing.assert_close(gradients(run(span_attention, case, fixed)[:1], needed), every)


def test_weights_and_rows_of_wrong_shapes_raise_an_error():
    case = CASES["paper"]
    inputs, carried, weight, bias, span, score = case.tensors().values()
    with pytest.raises(ValueError, match="has 16 rows; expected 22"):
        SpanWeights(weight, bias, span, score)
    with pytest.raises(ValueError, match="expected both, or neither"):
        SpanWeights(weight, bias, span, None, "paper")
    with pytest.raises(ValueError, match="found 5 span features; expected an even number"):
        SpanWeights(weight[1:], bias, span, score, "paper")
    fitting = SpanWeights(weight, bias, span, score, "paper")
    with pytest.raises(ValueError, match="9 rows after 4 steps; expected 9 rows after 5 steps"):
        span_attention(inputs, carried, fitting, 5, case.counts)
    with pytest.raises(ValueError, match="9 rows; expected 8"):
        span_attention(inputs, None, fitting, 4, [3, 3, 2])
    with pytest.raises(ValueError, match="either given scores of spans, or weights of a scorer"):
        span_attention(inputs, carried, fitting, 4, case.counts, scores=torch.ones(4))
