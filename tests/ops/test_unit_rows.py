"""Rows divided by their length."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.ops.unit_rows import unit_rows, unit_rows_reference
from tests.ops.harness import FORMS, check, leaves


@pytest.mark.parametrize("form", FORMS[:2], ids=str)
def test_unit_rows_equal_the_reference_in_value_and_every_gradient(form):
    check(lambda given: unit_rows(**given), lambda given: unit_rows_reference(**given), leaves({"rows": (5, 6)}), form)


def test_a_row_of_zeros_stays_zero():
    assert not unit_rows(torch.zeros(2, 3)).any()
