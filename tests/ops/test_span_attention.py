"""Span attention: agreement of fast form, reference, released program and the paper's equations."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from syntaxlm.ops import span_attention as op
from syntaxlm.ops.native import usable
from syntaxlm.ops.span_attention import Form, SpanWeights, fast
from tests.golden import PALM_FILES, released_span_attention

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

    def tensors(self) -> list[torch.Tensor | None]:
        """Leaf tensors in the order of NAMES, in float64; None for missing ones."""
        biases = (2 if self.form == "released" else 1) * self.size + self.scorer
        shapes = (
            (sum(self.counts), INPUT),
            self.carried and (self.maximum, self.carried, INPUT),
            (self.size + biases, INPUT),
            (biases,),
            self.scorer and (self.scorer, self.size),
            self.scorer and (self.scorer,),
        )
        return [random(*shape, seed=n).requires_grad_() if shape else None for n, shape in enumerate(shapes)]


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
    "right-branching": Case([3, 3, 2, 1], 4, scorer=0, carried=3),
    "right-branching, paper": Case([3, 3, 2, 1], 4, scorer=0, form="paper"),
}


@pytest.fixture
def threads():
    """Sets torch's number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def random(*shape, seed):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def run(form_of_op, case, tensors, dtype=torch.float64):
    inputs, carried, *weights = (tensor if tensor is None else tensor.to(dtype) for tensor in tensors)
    return form_of_op.span_attention(inputs, carried, SpanWeights(*weights, case.form), case.maximum, case.counts)


def gradients(outputs, tensors):
    """Gradients of a random weighting of the outputs, so that gradients of outputs do not cancel."""
    loss = sum((out * random(*out.shape, seed=9 + n)).sum() for n, out in enumerate(outputs) if out.requires_grad)
    return torch.autograd.grad(loss, [tensor for tensor in tensors if tensor is not None])


def test_there_are_golden_files():
    assert PALM_FILES


@pytest.mark.parametrize("form_of_op", [op, op.reference], ids=["fast", "reference"])
@pytest.mark.parametrize("path", PALM_FILES, ids=lambda path: path.stem)
def test_equals_the_released_program_in_scores_attention_and_context(path, form_of_op):
    weights, golden = released_span_attention(path)
    x, following = golden["x"], golden["x_next"]
    (steps, columns, _), longest = x.shape, int(golden["max_span_length"]) - 1
    first = form_of_op.span_attention(x.flatten(0, 1), None, weights, longest, [columns] * steps)
    second = form_of_op.span_attention(following.flatten(0, 1), x[-longest:], weights, longest, [columns] * steps)
    found = first._asdict() | {f"{name}_next": part for name, part in second._asdict().items()}
    compared = set(found) & set(golden)
    assert len(compared) == 5
    for name in compared:
        torch.testing.assert_close(found[name].view_as(golden[name]), golden[name], rtol=0, atol=1e-9, msg=name)


@pytest.mark.parametrize("form", ["torch", "compiled", "compiled, 2 threads"])
@pytest.mark.parametrize("case", CASES)
def test_fast_form_equals_reference_in_value_and_every_gradient(case, form, threads):
    """The torch form in float64 and the compiled form in float32 are compared with the reference in float64."""
    compiled = form != "torch"
    if compiled and usable(fast._SOURCE, torch.float32) is None:
        pytest.skip("no C compiler")
    threads(2 if form.endswith("2 threads") else 1)
    case = CASES[case]
    tensors = case.tensors()
    ours = run(op, case, tensors, torch.float32 if compiled else torch.float64)
    expected = run(op.reference, case, tensors)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-5 if compiled else 1e-12)
    names = [name for name, tensor in zip(NAMES, tensors, strict=True) if tensor is not None]
    for name, one, other in zip(names, gradients(ours, tensors), gradients(expected, tensors), strict=True):
        tolerance = 2e-5 * (1 + float(other.abs().max())) if compiled else 1e-10
        torch.testing.assert_close(one, other, rtol=1e-9, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("case", ["63 steps, ragged", "wide", "right-branching"])
@pytest.mark.parametrize("native", [True, False])
def test_steps_processed_in_parts_equal_steps_processed_together(case, native, monkeypatch):
    case = CASES[case]
    tensors = case.tensors()
    if not native:
        monkeypatch.setattr(fast, "usable", lambda *_: None)
    found = []
    for elements in (fast.CACHED, 1, 7 * case.maximum * case.size):
        monkeypatch.setattr(fast, "CACHED", elements)
        outputs = run(op, case, tensors, torch.float32)
        found.append((outputs, gradients(outputs, tensors)))
    for outputs, grads in found[1:]:
        torch.testing.assert_close(outputs, found[0][0], rtol=0, atol=1e-6)
        torch.testing.assert_close(grads, found[0][1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["wide", "paper", "right-branching"])
def test_the_torch_form_equals_the_compiled_form_in_float32(case, monkeypatch):
    tensors = CASES[case].tensors()
    found = []
    for library in (fast.usable, lambda *_: None):
        monkeypatch.setattr(fast, "usable", library)
        outputs = run(op, CASES[case], tensors, torch.float32)
        found.append((outputs, gradients(outputs, tensors)))
    (one, one_grads), (other, other_grads) = found
    torch.testing.assert_close(one, other, rtol=0, atol=5e-6)
    for compiled, eager in zip(one_grads, other_grads, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=0, atol=1e-5 * (1 + float(eager.abs().max())))


def test_spans_may_be_hundreds_of_tokens_long():
    """Longer than the buffers of the compiled form for all features."""
    case = Case([1] * 20, 400, size=260, scorer=3)
    tensors = case.tensors()
    found = []
    for dtype in (torch.float32, torch.float64):
        outputs = run(op, case, tensors, dtype)
        found.append([part.detach() for part in (*outputs, *gradients(outputs, tensors))])
    for one, other in zip(*found, strict=True):
        assert float((one - other).norm() / other.norm()) < 2e-5


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("case", ["seven steps, three columns", "63 steps, ragged", "paper", "right-branching"])
def test_bfloat16_products_keep_results_in_float32_and_are_close(case, native, monkeypatch):
    case = CASES[case]
    if not native:
        monkeypatch.setattr(fast, "usable", lambda *_: None)
    tensors = [None if one is None else (one.detach() * 0.5).requires_grad_() for one in case.tensors()]
    with torch.autocast("cpu", torch.bfloat16):
        ours = run(op, case, tensors, torch.float32)
    expected = run(op.reference, case, tensors)
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=0, atol=0.02)
    for one, other in zip(gradients(ours, tensors), gradients(expected, tensors), strict=True):
        assert float((one - other).norm() / other.norm()) < 0.03


@pytest.mark.parametrize("case", ["a column without a step", "spans longer than the text", "paper"])
def test_the_backward_agrees_with_finite_differences(case):
    case = CASES[case]
    tensors = [tensor for tensor in case.tensors() if tensor is not None]
    has_carried = case.carried is not None

    def outputs(*given):
        return tuple(run(op, case, given if has_carried else (given[0], None, *given[1:])))

    assert torch.autograd.gradcheck(outputs, tensors)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("form", ["released", "paper"])
@pytest.mark.parametrize("open_", [-15.0, 15.0], ids=["shut", "open"])
def test_float32_stays_precise_if_forget_gates_are_nearly_0_or_1(open_, form, native, monkeypatch):
    """Over 70 steps. If gates are nearly 1, updates are scaled by about a millionth.

    The gradient of the scorer's last layer is then a difference of nearly equal spans, which is never precise.
    """
    if not native:
        monkeypatch.setattr(fast, "usable", lambda *_: None)
    case = Case([3] * 70, 20, size=16, scorer=8, form=form, carried=3)
    tensors = [tensor if tensor is None else tensor.detach() for tensor in case.tensors()]
    tensors[3][: case.size] += open_
    tensors = [tensor.float().double().requires_grad_() for tensor in tensors]  # exactly representable in float32
    found = []
    for dtype in (torch.float32, torch.float64):
        outputs = run(op, case, tensors, dtype)
        found.append([part.detach() for part in (*outputs, *gradients(outputs[:1], tensors))])
    names = ["context", "scores", "attention", *(f"gradient of {name}" for name in NAMES)]
    for name, one, other in zip(names, *found, strict=True):
        assert one.isfinite().all(), name
        assert float((one - other).norm() / other.norm()) < (1e-5 if name != "gradient of score" else 1e-3), name


@pytest.mark.parametrize("native", [True, False])
def test_fully_closed_and_open_gates_give_finite_values_and_gradients(native, monkeypatch):
    if not native:
        monkeypatch.setattr(fast, "usable", lambda *_: None)
    case = Case([2] * 70, 20, carried=2)
    for scale in (1e3, -1e3, 1e6):
        tensors = case.tensors()
        with torch.no_grad():
            tensors[2][case.size : 2 * case.size] *= scale
        outputs = run(op, case, tensors, torch.float32)
        assert all(part.isfinite().all() for part in [*outputs, *gradients(outputs, tensors)])


@pytest.mark.parametrize("native", [True, False])
def test_a_span_does_not_depend_on_tokens_before_or_after_it(native, monkeypatch):
    """Scores of spans without the attending token's side are bitwise equal."""
    if not native:
        monkeypatch.setattr(fast, "usable", lambda *_: None)
    case = Case([2] * 12, 5, carried=2)
    tensors = [tensor.detach() for tensor in case.tensors()]
    tensors[2][2 * case.size :] = 0
    scores = run(op, case, tensors, torch.float32).scores.view(12, 2, 5)
    tensors[0] = tensors[0].view(12, 2, INPUT).clone()
    tensors[0][6] += 100
    tensors[0] = tensors[0].flatten(0, 1)
    changed = (run(op, case, tensors, torch.float32).scores.view(12, 2, 5) != scores).all(1)
    assert torch.equal(changed, (run(op, case, tensors, torch.float32).scores.view(12, 2, 5) != scores).any(1))
    step, length = torch.arange(12)[:, None], torch.arange(1, 6)
    assert torch.equal(changed, (step - length <= 6) & (step > 6))


def test_a_run_over_a_span_equals_the_difference_in_the_paper():
    """c_j minus c_{i-1} times the product of the gates of i..j, and its mirror, of runs over the whole text."""
    case = Case([1] * 9, 4, scorer=0, form="paper")
    inputs, _, weight, bias, *_ = (tensor if tensor is None else tensor.detach() for tensor in case.tensors())
    update, forget = (inputs @ weight.T + torch.cat([torch.zeros(6), bias])).chunk(2, dim=-1)
    f = torch.sigmoid(forget)
    u = (1 - f) * torch.tanh(update)
    forward, backward = torch.zeros(10, 6, dtype=torch.float64), torch.zeros(10, 6, dtype=torch.float64)
    for t in range(9):
        forward[t + 1] = f[t] * forward[t] + u[t]  # c_t
        backward[8 - t] = f[8 - t] * backward[9 - t] + u[8 - t]
    context = run(op, case, [inputs, None, weight, bias, None, None]).context
    attention = torch.softmax(torch.arange(1.0, 5.0, dtype=torch.float64), 0)
    for step in range(4, 9):
        spans = []
        for start in range(step - 1, step - 5, -1):
            kept = f[start:step].prod(0)
            spans.append(
                torch.cat([(forward[step] - forward[start] * kept)[:3], (backward[start] - backward[step] * kept)[3:]])
            )
        torch.testing.assert_close(context[step], attention @ torch.stack(spans), rtol=0, atol=1e-13)


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_a_text_in_two_parts_equals_the_whole_in_value_and_gradient(cut):
    case = Case([3] * 8, 4, carried=3)
    tensors = case.tensors()
    inputs, carried, *weights = tensors
    weights = SpanWeights(*weights)
    whole = op.span_attention(inputs, carried, weights, 4, case.counts)
    first, second = inputs[: 3 * cut], inputs[3 * cut :]
    before = torch.cat([carried, first.view(cut, 3, INPUT)])[-4:]
    halves = (
        op.span_attention(first, carried, weights, 4, [3] * cut),
        op.span_attention(second, before, weights, 4, [3] * (8 - cut)),
    )
    joined = [torch.cat(parts) for parts in zip(*halves, strict=True)]
    torch.testing.assert_close(joined, list(whole), rtol=0, atol=1e-13)
    torch.testing.assert_close(gradients(joined, tensors), gradients(whole, tensors), rtol=0, atol=1e-11)


def test_nothing_carried_equals_zeros():
    case = CASES["63 steps, ragged"]
    tensors = case.tensors()
    zeros = torch.zeros(case.maximum, 3, INPUT, dtype=torch.float64)
    one, other = run(op, case, tensors), run(op, case, [tensors[0], zeros, *tensors[2:]])
    torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
    torch.testing.assert_close(gradients(one, tensors), gradients(other, tensors), rtol=0, atol=1e-12)


def test_tensors_without_gradients_get_none_and_do_not_affect_other_gradients():
    case = CASES["ragged, what is before it"]
    tensors = case.tensors()
    every = dict(zip(NAMES, gradients(run(op, case, tensors)[:1], tensors), strict=True))
    fixed = [
        tensor if name in ("input", "score") else tensor.detach() for name, tensor in zip(NAMES, tensors, strict=True)
    ]
    some = gradients(run(op, case, fixed)[:1], [None, None, tensors[2], None, None, tensors[5]])
    torch.testing.assert_close(some, (every["input"], every["score"]))


def test_weights_and_rows_of_wrong_shapes_raise_an_error():
    case = CASES["paper"]
    inputs, carried, weight, bias, span, score = case.tensors()
    with pytest.raises(ValueError, match="has 16 rows; expected 22"):
        SpanWeights(weight, bias, span, score)
    with pytest.raises(ValueError, match="expected both, or neither"):
        SpanWeights(weight, bias, span, None, "paper")
    with pytest.raises(ValueError, match="found 5 span features; expected an even number"):
        SpanWeights(weight[1:], bias, span, score, "paper")
    fitting = SpanWeights(weight, bias, span, score, "paper")
    with pytest.raises(ValueError, match="9 rows after 4 steps; expected 9 rows after 5 steps"):
        op.span_attention(inputs, carried, fitting, 5, case.counts)
    with pytest.raises(ValueError, match="9 rows; expected 8"):
        op.span_attention(inputs, None, fitting, 4, [3, 3, 2])
