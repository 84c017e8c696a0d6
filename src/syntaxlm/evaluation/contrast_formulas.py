"""Contrasts as formulas over conditions: (pl / sg - sg / sg) - (pl / pl - sg / pl)."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import accumulate
from typing import Any, get_args

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.declarations import Coding
from syntaxlm.core.errors import InputError, listed, shortened
from syntaxlm.core.option_names import option_name
from syntaxlm.data.stimuli import BETWEEN

_LONGEST = 1_000  # characters of a formula
_SHOWN = 60  # the same in a message
_SMALLEST = 1e-9  # sum of weights that is not a rounding error
_SHOWN_WORDS = 3
# Each operation, with the dimensions of its operands, 0 for numbers and 1 for weights of conditions, and what is wrong
# with others.
_OPERATIONS: Mapping[type[ast.operator], tuple[Callable[[Any, Any], Any], Container[tuple[int, int]], str]] = {
    ast.Add: (operator.add, [(0, 0), (1, 1)], "is a sum of a number and a condition"),
    ast.Sub: (operator.sub, [(0, 0), (1, 1)], "is a difference of a number and a condition"),
    ast.Mult: (operator.mul, [(0, 0), (0, 1), (1, 0)], "is a product of two conditions"),
    ast.Div: (operator.truediv, [(0, 0), (1, 0)], "divides by a condition"),
}


def read_contrasts(chosen: Sequence[str], conditions: Sequence[str]) -> tuple[Coding | None, dict[str, Numbers]]:
    """Return how factors are coded, None for no contrasts of factors, and the weights of each formula.

    Args:
        chosen: codings of factors, and formulas; nothing: treatment coding.
        conditions: the names of all conditions.

    Raises:
        InputError: for two codings, and as `formula_weights` does.
    """
    codings = [coding for coding in get_args(Coding) if coding in chosen]
    formulas = [formula for formula in dict.fromkeys(chosen) if formula not in codings]
    if len(codings) > 1:
        raise InputError(f"{option_name('--contrast')}: found {' and '.join(codings)}; expected one of them")
    if not chosen:
        codings = ["treatment"]
    return codings[0] if codings else None, {formula: formula_weights(formula, conditions) for formula in formulas}


def formula_weights(formula: str, conditions: Sequence[str]) -> Numbers:
    """Return the weight of each condition in a formula: (C,), with the sum 0.

    Args:
        formula: conditions, numbers, + - * / and brackets, such as "(a + b) / 2 - c". Spaces around the sign between
            the levels of a condition may be omitted.
        conditions: the names of all conditions.

    Raises:
        InputError: for anything else, and for weights whose sum is not 0.
    """
    found = option_name("--contrast", shortened(formula, _SHOWN))
    example = " - ".join(conditions[1::-1])
    expected = (
        f"expected {', '.join(get_args(Coding))}, or a formula of conditions, numbers, + - * / and brackets, such as"
        f" {example}. Conditions: {listed(map(repr, conditions))}"
    )
    if len(formula) > _LONGEST:
        raise InputError(f"{found}: {len(formula):,} characters; expected at most {_LONGEST:,}")

    # Conditions become variables, the longest names first, because they may contain others; the 5 of 0.5 is none.
    patterns = [rf"\s*{BETWEEN.strip()}\s*".join(map(re.escape, name.split(BETWEEN))) for name in conditions]
    order = sorted(range(len(conditions)), key=lambda place: -len(conditions[place]))
    names = "|".join(f"(?P<condition_{place}>{patterns[place]})" for place in order)
    text = re.sub(rf"(?<!\w)(?<!\d\.)(?:{names})(?!\w|\.\d)", lambda match: f" {match.lastgroup} ", formula).strip()
    units = {f"condition_{place}": unit for place, unit in enumerate(np.eye(len(conditions)))}
    written = {f"condition_{place}": name for place, name in enumerate(conditions)}
    try:
        weights = _weights(text, units)
    except _NotUnderstood as error:
        part = re.sub(r"condition_\d+", lambda match: written[match[0]], str(error))
        note = _note_on_numbers(formula, conditions)
        raise InputError(f"{found}: {part}; {expected}{note}") from None
    if not weights.any():
        raise InputError(
            f"{found}: the weights of all conditions are 0; expected different conditions, such as {example}"
        )
    if abs(weights.sum()) > _SMALLEST:
        raise InputError(
            f"{found}: the weights of the conditions sum to {weights.sum():g}; expected the sum 0, such as {example}"
        )
    return weights


def _note_on_numbers(formula: str, conditions: Sequence[str]) -> str:
    """Return how to write a number that is also the name of a condition, if the formula may have one, or ""."""
    numbers = [name for name in conditions if name.isdecimal()]
    factors = [name for name in numbers if re.search(rf"[*/]\s*{name}\b|\b{name}\s*\*", formula)]
    return f". A number that is also a condition is written with a point: {factors[-1]}.0" if factors else ""


class _NotUnderstood(Exception):
    """The part of a formula that is not understood, and why, in which conditions are variables."""


def _weights(text: str, units: Mapping[str, Numbers]) -> Numbers:
    """Return the weight of each condition. Raises _NotUnderstood.

    Args:
        text: a formula whose conditions are variables.
        units: see `_value_of`.
    """
    for word in re.findall(r"[^\s()+*/-]+", text):
        if word not in units and not re.fullmatch(r"\d+\.?\d*|\.\d+", word):
            advice = f" (write {word.replace(',', '.')})" if re.fullmatch(r"\d+,\d+", word) else ""
            raise _NotUnderstood(f"{shortened(word, _SHOWN)!r} is neither a condition nor a number{advice}")
    depths = list(accumulate((sign == "(") - (sign == ")") for sign in text))
    if depths and (min(depths) < 0 or depths[-1]):
        kind = "closed, but not opened" if min(depths) < 0 else "opened, but not closed"
        raise _NotUnderstood(f"a bracket is {kind}")
    if not text:
        raise _NotUnderstood("the formula is empty")
    if missing := re.search(r"([-+*/])\s*(?:$|\))", text):
        raise _NotUnderstood(f"nothing follows the sign {missing[1]} at the end of {_until(text, missing.end(1))!r}")
    if together := re.search(r"([\w.]+)\s+([\w.]+)|([\w.]+|\))\s*(\()|(\))\s*([\w.]+)", text):
        raise _NotUnderstood(f"no sign is between the parts of {' '.join(together[0].split())!r}")
    try:
        weights = _value_of(ast.parse(text, mode="eval").body, units)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _NotUnderstood("the formula could not be read") from None
    if not isinstance(weights, np.ndarray):
        raise _NotUnderstood("the formula has no condition")
    if not np.isfinite(weights).all():
        raise _NotUnderstood("a number is too large")
    return weights


def _until(text: str, end: int) -> str:
    """Return a text up to a place, of which only the end is shown if it is long."""
    words = text[:end].split()
    return " ".join(words[-_SHOWN_WORDS:])


def _value_of(node: ast.AST, units: Mapping[str, Numbers]) -> Any:
    """Return the number, or the weights of conditions, of an expression. Raises _NotUnderstood for anything else.

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
            apply, dimensions, reason = _OPERATIONS[type(operation)]
            first = _value_of(left, units)
            second = _value_of(right, units)
            part = repr(shortened(ast.unparse(node), _SHOWN))
            if (np.ndim(first), np.ndim(second)) not in dimensions:
                raise _NotUnderstood(f"{part} {reason}")
            if isinstance(operation, ast.Div) and second == 0:
                raise _NotUnderstood(f"{part} divides by 0")
            return apply(first, second)
    raise _NotUnderstood(f"{shortened(ast.unparse(node), _SHOWN)!r} is neither a sum nor a multiple of conditions")
