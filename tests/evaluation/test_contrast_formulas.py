"""Contrasts as formulas over conditions."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.contrast_formulas import formula_weights, read_contrasts

CROSSED = ["sg / sg", "sg / pl", "pl / sg", "pl / pl"]


@pytest.mark.parametrize(
    ("formula", "conditions", "weights"),
    [
        ("(sg / pl - sg / sg) - (pl/pl - pl /sg)", CROSSED, [-1, 1, 1, -1]),
        ("(sg/sg + sg/pl) / 2 - 0.5 * pl/sg - pl/pl / 2", CROSSED, [0.5, 0.5, -0.5, -0.5]),
        ("-a + no a", ["a", "no a"], [-1, 1]),  # a name in another one
        ("2 - 1", ["1", "2"], [-1, 1]),  # names of conditions come before numbers
        ("a+b - 2*(c)", ["a", "b", "c"], [1, 1, -2]),
        ("a-b - a", ["a-b", "a"], [1, -1]),
    ],
)
def test_a_formula_gives_the_weights_of_conditions(formula, conditions, weights):
    assert formula_weights(formula, conditions).tolist() == weights


@pytest.mark.parametrize(
    "formula",
    ["sucessive", "", "sg/sg -", "sg/sg - pl", "sg/sg * pl/pl", "sg/sg - 1", "1 / sg/sg", "sg/sg / 0", "f(sg/sg)",
     "sg/sg - pl/pl; 1", "__import__('os')", "sg/sg < pl/pl", "(" * 300, "-" * 999 + "1", "sg/sg-pl/pl+" * 200],
)  # fmt: skip
def test_anything_else_is_refused_with_the_conditions(formula):
    message = r"contrast: found .*; expected treatment, successive, or a formula .*sg / pl - sg / sg. Conditions: 'sg /"
    with pytest.raises(InputError, match=message):
        formula_weights(formula, CROSSED)


@pytest.mark.parametrize(("formula", "total"), [("sg/sg", "1"), ("a + b - c", "1"), ("a - a", "0")])
def test_weights_that_compare_nothing_are_refused(formula, total):
    conditions = CROSSED if "/" in formula else ["a", "b", "c"]
    with pytest.raises(InputError, match=f"the weights of the conditions sum to {total}; expected the sum 0"):
        formula_weights(formula, conditions)


def test_formulas_are_beside_the_contrasts_of_factors_only_if_both_are_asked_for():
    assert read_contrasts([], CROSSED) == ("treatment", {})
    assert read_contrasts(["successive"], CROSSED) == ("successive", {})
    coding, formulas = read_contrasts(["a - b", "treatment"], ["a", "b"])
    assert (coding, list(formulas)) == ("treatment", ["a - b"])
    assert read_contrasts(["a - b"], ["a", "b"])[0] is None
    with pytest.raises(InputError, match="found treatment and successive; expected one of them"):
        read_contrasts(["treatment", "successive"], CROSSED)
