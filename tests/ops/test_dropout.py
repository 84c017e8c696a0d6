"""Dropout: agreement of every form with a product by the mask of the same random numbers."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from syntaxlm.ops.dropout import drop, dropout_mask
from tests.ops.harness import check, every_form, leaves


@every_form
@pytest.mark.parametrize("shape", [(3,), (7, 5), (40, 70)])
def test_every_form_multiplies_by_the_mask_of_the_same_random_numbers(shape, form):
    def dropped(op, given):
        torch.manual_seed(0)
        return op(given["values"], 0.3)

    def by_mask(values, rate):
        return values * dropout_mask(tuple(values.shape), rate, values)

    check(partial(dropped, drop), partial(dropped, by_mask), leaves({"values": shape}), form, "dropout")
