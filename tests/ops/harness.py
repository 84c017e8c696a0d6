"""Every form of an op is compared with its reference: values, states, every gradient, with one thread and two."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from syntaxlm.ops import backend

Tensors = Mapping[str, Tensor | None]


@dataclass(frozen=True)
class Form:
    """How an op runs. A form in float64 must be exact; otherwise `value` and `gradient` are the largest differences,
    relative to 1 + the largest absolute value. With bfloat16 products, gradients are compared by their norms.
    Inputs of `strided` forms are not contiguous.
    """

    name: str
    backend: backend.Backend
    dtype: torch.dtype = torch.float32
    threads: int = 1
    low: bool = False
    value: float = 2e-5
    gradient: float = 1e-4
    strided: bool = False

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def running(self, kernel: str | None = None) -> Iterator[None]:
        """Run ops in this form. kernel: the C file that must be used by compiled forms, and by no other.

        Skips the test if there is no compiler.
        """
        if self.backend == "compiled" and kernel is not None and backend.kernels(kernel, torch.float32) is None:
            pytest.skip("no C compiler")
        used: list[str] = []
        library, threads = backend.library, torch.get_num_threads()

        def noted(source):
            used.append(source.stem)
            return library(source)

        backend.library = noted
        torch.set_num_threads(self.threads)
        try:
            with backend.using(self.backend), torch.autocast("cpu", torch.bfloat16, enabled=self.low):
                yield
        finally:
            backend.library = library
            torch.set_num_threads(threads)
        assert kernel is None or (kernel in used) == (self.backend == "compiled")


TORCH = Form("torch", "torch", torch.float64, value=1e-12, gradient=1e-10)
COMPILED = Form("compiled", "compiled")
FORMS = (
    TORCH,
    Form("torch, float32", "torch"),
    COMPILED,
    Form("compiled, 2 threads, strided", "compiled", threads=2, strided=True),
    Form("torch, bfloat16", "torch", low=True, value=0.03, gradient=0.05),
    Form("compiled, bfloat16, strided", "compiled", low=True, value=0.03, gradient=0.05, strided=True),
)
every_form = pytest.mark.parametrize("form", FORMS, ids=str)
compiled_or_not = pytest.mark.parametrize("form", FORMS[1:3], ids=str)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def leaves(shapes: Mapping[str, Sequence[int] | None]) -> dict[str, Tensor | None]:
    """Random tensors with gradients, in float64; None for missing ones."""
    return {
        name: None if shape is None else random(*shape, seed=n).requires_grad_()
        for n, (name, shape) in enumerate(shapes.items())
    }


def flat(outputs: Any) -> list[Tensor]:
    """The tensors in nested tuples."""
    if outputs is None:
        return []
    return [outputs] if isinstance(outputs, Tensor) else [part for output in outputs for part in flat(output)]


def converted(tensors: Tensors, dtype: torch.dtype) -> dict[str, Tensor | None]:
    return {name: None if tensor is None else tensor.to(dtype) for name, tensor in tensors.items()}


def strided(tensors: Tensors) -> dict[str, Tensor | None]:
    return {name: None if part is None else torch.stack([part, part], -1)[..., 0] for name, part in tensors.items()}


def gradients(outputs: Any, inputs: Sequence[Tensor], seed: int = 99) -> list[Tensor]:
    """Gradients of a random weighting of the outputs, so that gradients of outputs do not cancel."""
    parts = [part for part in flat(outputs) if part.requires_grad]
    loss = sum((part * random(*part.shape, seed=seed + n).to(part)).sum() for n, part in enumerate(parts))
    return list(torch.autograd.grad(loss, inputs, materialize_grads=True))


def check(
    op: Callable[[dict[str, Any]], Any],
    reference: Callable[[dict[str, Any]], Any],
    tensors: Tensors,
    form: Form,
    kernel: str | None = None,
    case: Hashable = None,
) -> None:
    """Compare all outputs and all gradients of an op with those of its reference in float64.

    op, reference: functions of tensors by name.  tensors: leaves in float64.  kernel: see `Form.running`.
    case: what the reference and the tensors depend on. All forms of a case share one computation of the reference.
    """
    if form.low:  # larger inputs would saturate
        tensors = {
            name: None if tensor is None else (tensor.detach() * 0.5).requires_grad_(tensor.requires_grad)
            for name, tensor in tensors.items()
        }
    with form.running(kernel):
        given = converted(tensors, form.dtype)
        ours = flat(op(strided(given) if form.strided else given))
    assert all(part.dtype == form.dtype for part in ours if part.is_floating_point())
    inputs = {name: tensor for name, tensor in tensors.items() if tensor is not None and tensor.requires_grad}
    expected, expected_gradients = expected_of(reference, tensors, inputs, case and (case, form.low))
    assert len(ours) == len(expected)
    for number, (part, right) in enumerate(zip(ours, expected, strict=True)):
        assert_near(f"output {number}", part, right, form.value)
    with form.running():
        found = gradients(ours, list(inputs.values()))
    for name, part, right in zip(inputs, found, expected_gradients, strict=True):
        if form.low:
            assert float((part - right).norm()) <= form.gradient * float(right.norm()) + 1e-12, f"gradient of {name}"
        else:
            assert_near(f"gradient of {name}", part, right, form.gradient)


_EXPECTED: dict[Hashable, tuple[list[Tensor], list[Tensor]]] = {}  # of the latest cases


def expected_of(
    reference: Callable[[dict[str, Any]], Any], tensors: Tensors, inputs: Mapping[str, Tensor], case: Hashable
) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs and gradients of a reference, which are computed once if there is a case."""
    if case is not None and case in _EXPECTED:
        return _EXPECTED[case]
    outputs = flat(reference(dict(tensors)))
    found = [part.detach() for part in outputs], gradients(outputs, list(inputs.values()))
    if case is not None:
        if len(_EXPECTED) == 30:
            del _EXPECTED[next(iter(_EXPECTED))]
        _EXPECTED[case] = found
    return found


def assert_near(name: str, ours: Tensor, expected: Tensor, tolerance: float) -> None:
    largest = float(expected.detach().abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(
        ours.double(), expected.double(), rtol=0, atol=tolerance * (1 + largest), msg=lambda text: f"{name}: {text}"
    )
