"""Contrasts as formulas over conditions."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.option_names import command_line
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
        ("0.5 * 5 + 2.0 * 2 - 2.5 * 5", ["2", "5"], [2, -2]),  # numbers with a point are no conditions
    ],
)
def test_a_formula_gives_the_weights_of_conditions(formula, conditions, weights):
    assert formula_weights(formula, conditions).tolist() == weights


@pytest.mark.parametrize(
    "formula",
    ["sucessive", "", "sg/sg -", "sg/sg - pl", "sg/sg * pl/pl", "sg/sg - 1", "1 / sg/sg", "sg/sg / 0", "f(sg/sg)",
     "sg/sg - pl/pl; 1", "__import__('os')", "sg/sg < pl/pl", "(" * 300, "-" * 999 + "1"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_conditions(formula):
    message = (
        r"contrast=['\"].*: .*; expected treatment, successive, or a formula .*sg / pl - sg / sg. Conditions: 'sg /"
    )
    with pytest.raises(InputError, match=message):
        formula_weights(formula, CROSSED)


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        ("sg/sg - foo / pl", "'foo' is neither a condition nor a number"),
        ("SG / sg - pl / sg", "'SG' is neither a condition nor a number"),
        ("0,5 * sg/sg - pl/pl", r"'0,5' is neither a condition nor a number \(write 0.5\)"),
        ("(sg/sg - pl/pl", "a bracket is opened, but not closed"),
        ("sg/sg - pl/pl)", "a bracket is closed, but not opened"),
        ("sg/sg - pl/pl +", r"nothing follows the sign \+ at the end of '- pl / pl \+'"),
        ("sg/sg sg/pl", "no sign is between the parts of 'sg / sg sg / pl'"),
        ("2 (sg/sg) - pl/pl", r"no sign is between the parts of '2 \('"),
        ("(sg/sg - pl/pl) / 0", r"'\(sg / sg - pl / pl\) / 0' divides by 0"),
        ("sg/sg * pl/pl", r"'sg / sg \* pl / pl' is a product of two conditions"),
        ("sg/sg - 1", "'sg / sg - 1' is a difference of a number and a condition"),
        ("1 / sg/sg", "'1 / sg / sg' divides by a condition"),
        ("1 - 1", "the formula has no condition"),
        ("sg/sg - pl/pl" * 100, "1,300 characters; expected at most 1,000"),
    ],
)
def test_the_part_that_is_not_understood_is_named(formula, problem):
    with pytest.raises(InputError, match=rf"contrast='.*': {problem}"):
        formula_weights(formula, CROSSED)


def test_numbers_that_are_conditions_are_explained():
    with pytest.raises(
        InputError,
        match=r"divides by a condition; .*\. A number that is also a condition is written with a point: 2\.0",
    ):
        formula_weights("(1 + 2) / 2 - (3 + 4) / 2", ["1", "2", "3", "4"])
    assert formula_weights("(1 + 2) / 2.0 - (3 + 4) / 2.0", ["1", "2", "3", "4"]).tolist() == [0.5, 0.5, -0.5, -0.5]


def test_options_are_named_as_they_are_written_on_the_command_line():
    with command_line(), pytest.raises(InputError, match="--contrast 'a - c': 'c' is neither"):
        formula_weights("a - c", ["a", "b"])


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        ("sg/sg", "the weights of the conditions sum to 1; expected the sum 0"),
        ("a + b - c", "the weights of the conditions sum to 1; expected the sum 0"),
        ("a - a", "the weights of all conditions are 0; expected different conditions"),
    ],
)
def test_weights_that_compare_nothing_are_refused(formula, problem):
    conditions = CROSSED if "/" in formula else ["a", "b", "c"]
    with pytest.raises(InputError, match=problem):
        formula_weights(formula, conditions)


def test_formulas_are_beside_the_contrasts_of_factors_only_if_both_are_asked_for():
    assert read_contrasts([], CROSSED) == ("treatment", {})
    assert read_contrasts(["successive"], CROSSED) == ("successive", {})
    coding, formulas = read_contrasts(["a - b", "treatment"], ["a", "b"])
    assert (coding, list(formulas)) == ("treatment", ["a - b"])
    assert read_contrasts(["a - b"], ["a", "b"])[0] is None
    with pytest.raises(InputError, match="found treatment and successive; expected one of them"):
        read_contrasts(["treatment", "successive"], CROSSED)
