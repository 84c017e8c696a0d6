"""Small pieces of Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`+)(?:.+?)\1", re.DOTALL)
_ENTITIES = {"<": "&lt;", "*": "&#42;", "$": "&#36;", "[": "&#91;", "|": "&#124;"}
_ENTRY = re.compile(r"^((?:\*|&#42;){0,2}[A-Za-z_][\w.]*):(?= )", re.MULTILINE)
_EXAMPLE = re.compile(r"\n(?:Examples:\n)?(?= *>>> )")
_SECTION = re.compile(
    r"^(?P<heading>Args|Attributes|Keyword Args|Raises|Returns):\n(?P<entries>(?: {4}.*(?:\n|$))+)", re.MULTILINE
)
_MARKUP = re.compile("[" + re.escape("".join(_ENTITIES)) + "]")


def plain(text: str) -> str:
    """Text in which no character is markup: markup becomes entities, except for code between backticks."""
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_escaped(text[end : code.start()]), code.group()]
        end = code.end()
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda match: _ENTITIES[match.group()], text)


def cell(text: str) -> str:
    """A text for a cell of a table, as `plain`, in which a list has one line per item."""
    escaped = _CODE.sub(lambda code: code.group().replace("|", "\\|"), text)
    return plain(escaped).replace("\n- ", "<br>• ").replace("\n", "<br>")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |\n" for line in lines)


def joined(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    return " and ".join(", ".join(names).rsplit(", ", 1))


def as_markdown(docstring: str) -> str:
    """A Google docstring as Markdown: sections as lists, the example as code, and nothing in it read as markup."""
    text, *example = _EXAMPLE.split(docstring, maxsplit=1)
    parts = [_SECTION.sub(_section, plain(text.rstrip()))]
    parts += [f"```pycon\n{textwrap.dedent(code).rstrip()}\n```" for code in example]
    return "\n\n".join(parts)


def _section(section: re.Match[str]) -> str:
    """The entries of a section as a list. Parameters need no heading, as they follow the signature."""
    heading = "" if section["heading"] in ("Args", "Attributes", "Keyword Args") else f"{section['heading']}:\n\n"
    entries = textwrap.dedent(section["entries"])
    return heading + _ENTRY.sub(lambda entry: f"- `{entry[1].replace(_ENTITIES['*'], '*')}`:", entries)
