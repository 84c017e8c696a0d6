"""The house's docstrings, as mkdocstrings reads them: plain text that becomes Markdown, and comments beside fields.

A docstring of the house is a line of what, then paragraphs, some of them lists of "name: what it is".
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import griffe

from docs.generation.markdown import plain

_ENTRY = re.compile(r"(?P<names>[A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*):(?= )")
_NUMBERED = re.compile(r"\d+\. ")


class HouseDocstrings(griffe.Extension):
    """Docstrings as Markdown, and the comment beside a field as the field's docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        text = inspect.cleandoc(obj.docstring.value) if obj.docstring is not None else _beside(obj)
        if text:
            obj.docstring = griffe.Docstring(as_markdown(text), lineno=obj.lineno, parent=obj)


def _beside(obj: griffe.Object) -> str:
    """The comment beside a field or a constant; "" where there is none."""
    if not obj.is_attribute or obj.endlineno is None or isinstance(obj.filepath, list):
        return ""
    return _comment(obj.lines_collection[obj.filepath][obj.endlineno - 1])


def _comment(line: str) -> str:
    """The comment at the end of a line of code."""
    for place, character in enumerate(line):
        if character == "#" and _is_code(line[:place]):
            return line[place:].lstrip("# ").strip()
    return ""


def _is_code(text: str) -> bool:
    try:
        ast.parse(text.strip())
    except SyntaxError:
        return False
    return bool(text.strip())


def as_markdown(docstring: str) -> str:
    """A docstring with its lists of names as Markdown lists, and nothing in it read as markup."""
    lines: list[str] = []
    for line in plain(docstring).split("\n"):
        entry = _ENTRY.match(line)
        begins = entry is not None or _NUMBERED.match(line) is not None
        if begins and lines and lines[-1] and not _in_list(lines):
            lines.append("")
        if entry is not None:
            names = ", ".join(f"`{name}`" for name in entry["names"].split(", "))
            line = f"- {names}:{line[entry.end() :]}"
        elif line and not begins and _in_list(lines):
            line = "    " + line.strip()
        lines.append(line)
    return "\n".join(lines)


def _in_list(lines: list[str]) -> bool:
    """Whether the last line is of a list."""
    return bool(lines) and lines[-1].startswith(("- ", "    "))
