"""The house's docstrings, as mkdocstrings reads them: plain text that becomes Markdown, and comments beside fields.

A docstring of the house is a line of what, then paragraphs, some of them lists of "name: what it is".
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

import griffe

from laboratory.pages.markdown import as_markdown


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
