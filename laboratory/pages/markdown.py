"""Small pieces of Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`+)(?:.+?)\1", re.DOTALL)
_ENTITIES = {"<": "&lt;", "*": "&#42;", "$": "&#36;", "[": "&#91;", "|": "&#124;"}
_ENTRY = re.compile(r"(?P<names>[A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*):(?= )")
_RAISES = re.compile(r"^Raises:\n {4}(\w+): ", re.MULTILINE)
_SECTION = re.compile(r"^(?:Args|Attributes):\n(?P<entries>(?: {4}.*(?:\n|$))+)", re.MULTILINE)
_NUMBERED = re.compile(r"\d+\. ")
_SECOND_ENTRY = re.compile(r"\.  (?=[a-z_][\w, ]*: )")  # two spaces separate entries of one line
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


def as_markdown(docstring: str) -> str:
    """A docstring with its lists of names as Markdown lists, its example as code, and nothing in it read as markup."""
    text, prompt, example = docstring.partition(">>> ")
    text = _SECTION.sub(lambda section: textwrap.dedent(section["entries"]), text)
    text = _RAISES.sub(r"Raises \1 ", text)
    text = _SECOND_ENTRY.sub(".\n", text.rstrip())
    lines: list[str] = []
    for line in plain(text).split("\n"):
        entry = _ENTRY.match(line)
        begins = entry is not None or _NUMBERED.match(line) is not None
        ends = line.startswith("Raises ") and _in_list(lines)
        if ends or (begins and lines and lines[-1] and not _in_list(lines)):
            lines.append("")
        if entry is not None:
            names = ", ".join(f"`{name}`" for name in entry["names"].split(", "))
            line = f"- {names}:{line[entry.end() :]}"
        elif line and not begins and _in_list(lines):
            line = "    " + line.strip()
        lines.append(line)
    return "\n".join([*lines, *(["", f"```pycon\n{prompt}{example.rstrip()}\n```"] if prompt else [])])


def _in_list(lines: list[str]) -> bool:
    """Whether the last line is of a list."""
    return bool(lines) and lines[-1].startswith(("- ", "    "))
