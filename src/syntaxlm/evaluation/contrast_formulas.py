"""Contrasts as formulas over conditions: (pl / sg - sg / sg) - (pl / pl - sg / pl)."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.declarations import Coding
from syntaxlm.core.errors import InputError, listed, shortened
from syntaxlm.data.stimuli import BETWEEN

_LONGEST = 1_000  # characters of a formula
_SHOWN = 60  # the same in a message
_SMALLEST = 1e-9  # sum of weights that is not a rounding error
# Each operation, with the dimensions of its operands: 0 for numbers, and 1 for weights of conditions.
_OPERATIONS: Mapping[type[ast.operator], tuple[Callable[[Any, Any], Any], Container[tuple[int, int]]]] = {
    ast.Add: (operator.add, [(0, 0), (1, 1)]),
    ast.Sub: (operator.sub, [(0, 0), (1, 1)]),
    ast.Mult: (operator.mul, [(0, 0), (0, 1), (1, 0)]),
    ast.Div: (operator.truediv, [(0, 0), (1, 0)]),
}


def read_contrasts(chosen: Sequence[str], conditions: Sequence[str]) -> tuple[Coding | None, dict[str, Numbers]]:
    """Return how factors are coded, None for no contrasts of factors, and the weights of each formula.

    Args:
        chosen: codings of factors, and formulas; nothing: treatment coding.
        conditions: the names of all conditions.

    Raises:
        InputError: for two codings, and as `formula_weights` does.
    """
    codings = [one for one in get_args(Coding) if one in chosen]
    formulas = [one for one in dict.fromkeys(chosen) if one not in codings]
    if len(codings) > 1:
        raise InputError(f"contrast: found {' and '.join(codings)}; expected one of them")
    if not chosen:
        codings = ["treatment"]
    return codings[0] if codings else None, {one: formula_weights(one, conditions) for one in formulas}


def formula_weights(formula: str, conditions: Sequence[str]) -> Numbers:
    """Return the weight of each condition in a formula: (C,), with the sum 0.

    Args:
        formula: conditions, numbers, + - * / and brackets, such as "(a + b) / 2 - c". Spaces around the sign between
            the levels of a condition may be omitted.
        conditions: the names of all conditions.

    Raises:
        InputError: for anything else, and for weights whose sum is not 0.
    """
    found = f"contrast: found {shortened(formula, _SHOWN)!r}"
    example = " - ".join(conditions[1::-1])
    expected = (
        f"expected {', '.join(get_args(Coding))}, or a formula of conditions, numbers, + - * / and brackets, such as"
        f" {example}. Conditions: {listed(map(repr, conditions))}"
    )

    # Conditions become variables, the longest names first, because they may contain others.
    patterns = [rf"\s*{BETWEEN.strip()}\s*".join(map(re.escape, name.split(BETWEEN))) for name in conditions]
    order = sorted(range(len(conditions)), key=lambda place: -len(conditions[place]))
    names = "|".join(f"(?P<condition_{place}>{patterns[place]})" for place in order)
    text = re.sub(rf"(?<!\w)(?:{names})(?!\w)", lambda match: f" {match.lastgroup} ", formula)
    units = {f"condition_{place}": unit for place, unit in enumerate(np.eye(len(conditions)))}

    try:
        with np.errstate(all="ignore"):  # such as a division by 0
            weights = None if len(formula) > _LONGEST else _value_of(ast.parse(text.strip(), mode="eval").body, units)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        weights = None
    if not isinstance(weights, np.ndarray) or not np.isfinite(weights).all():
        raise InputError(f"{found}; {expected}")
    if abs(weights.sum()) > _SMALLEST or not weights.any():
        raise InputError(
            f"{found}, in which the weights of the conditions sum to {weights.sum():g}; expected the sum 0, and"
            f" different conditions, such as {example}"
        )
    return weights


def _value_of(node: ast.AST, units: Mapping[str, Numbers]) -> Any:
    """Return the number, or the weights of conditions, of an expression. Raises ValueError for anything else.

    Args:
        units: the weights of each single condition, by the name of its variable.
    """
    match node:
        case ast.Name(name) if name in units:
            return units[name]
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.UnaryOp(ast.USub(), operand):
            return -_value_of(operand, units)
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
            apply, dimensions = _OPERATIONS[type(operation)]
            first = _value_of(left, units)
            second = _value_of(right, units)
            if (np.ndim(first), np.ndim(second)) in dimensions:
                return apply(first, second)
    raise ValueError("neither conditions and numbers, nor a sum or multiple of them")
