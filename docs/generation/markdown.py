"""Small pieces of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`+)(?:.+?)\1", re.DOTALL)
_ENTITIES = {"<": "&lt;", "*": "&#42;", "$": "&#36;", "[": "&#91;", "|": "&#124;"}
_MARKUP = re.compile("[" + re.escape("".join(_ENTITIES)) + "]")


def plain(text: str) -> str:
    """Text whose characters mean themselves: markup becomes entities, but for what stands between backticks."""
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_escaped(text[end : code.start()]), code.group()]
        end = code.end()
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: _ENTITIES[found.group()], text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |\n" for line in lines)
