"""Products with a backward of their own, compared with torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from syntaxlm.ops.products import affine
from tests.ops.harness import check, every_form, leaves


@every_form
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("count", "inner", "size"), [(1, 3, 2), (70, 40, 30), (5, 1030, 1030)])  # the last is large
def test_affine_maps_equal_those_of_torch_in_value_and_every_gradient(count, inner, size, bias, form):
    tensors = leaves({"rows": (count, inner), "weight": (size, inner), "bias": (size,) if bias else None})

    def scaled(op, given):
        result = op(given["rows"], given["weight"] / inner**0.5, given["bias"])
        return result.to(given["rows"].dtype)

    check(lambda given: scaled(affine, given), lambda given: scaled(linear, given), tensors, form)


def test_the_result_has_the_dtype_of_autocast_and_gradients_that_of_the_weight():
    weight = torch.randn(3, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        result = affine(torch.randn(5, 4), weight)
    assert result.dtype == torch.bfloat16
    result.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
