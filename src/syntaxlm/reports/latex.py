"""Text in LaTeX."""

from __future__ import annotations

from collections.abc import Iterable

from syntaxlm.core.errors import printable

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",  # the usual font has other characters in place of these three
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: "\\" + character for character in "&%$#_"},
}


def latex_text(text: str) -> str:
    """Return text on one line, with LaTeX's special characters escaped."""
    return "".join(_SPECIAL.get(character, character) for character in printable(text.replace("\n", " ")))


def latex_comment(lines: Iterable[str]) -> str:
    """Return lines as a comment."""
    return "\n".join("% " + printable(line) for line in lines)
