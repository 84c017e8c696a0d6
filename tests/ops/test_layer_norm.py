"""PRPN's layer norm in every form, compared with its reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from syntaxlm.ops.layer_norm import layer_norm, layer_norm_reference
from tests.ops.harness import check, every_form, leaves


@every_form
@pytest.mark.parametrize("shape", [(1, 2), (4, 3, 5), (3, 700), (0, 6)])
def test_layer_norm_equals_the_reference_in_value_and_every_gradient(shape, form):
    if shape == (1, 2):  # the gradient for two numbers is a difference of almost equal terms
        form = replace(form, value=10 * form.value, gradient=20 * form.gradient)
    tensors = leaves({"rows": shape, "gain": shape[-1:], "bias": shape[-1:]})
    check(lambda given: layer_norm(**given), lambda given: layer_norm_reference(**given), tensors, form, "layer_norm")


def test_rows_in_bfloat16_give_the_dtype_of_the_gain_and_are_close():
    rows, gain, bias = leaves({"rows": (3, 700), "gain": (700,), "bias": (700,)}).values()
    value = layer_norm(rows.bfloat16(), gain.float(), bias.float())
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), layer_norm_reference(rows, gain, bias), rtol=0, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_row_gives_finite_values_and_gradients(dtype):
    rows = torch.full((1, 2, 6), 3.0, dtype=dtype, requires_grad=True)
    out = layer_norm(rows, torch.ones(6, dtype=dtype), torch.zeros(6, dtype=dtype))
    assert torch.isfinite(out).all()
    assert torch.isfinite(torch.autograd.grad(out.square().sum(), rows)[0]).all()


def test_non_contiguous_rows_are_read_correctly():
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).T
    gain, bias = torch.ones(6), torch.zeros(6)
    torch.testing.assert_close(layer_norm(rows, gain, bias), layer_norm_reference(rows, gain, bias))
