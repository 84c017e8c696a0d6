"""What a model card states, read for `models info` and `models list`; `storage.hub` writes cards.

A card may come from somebody else: it is small or refused, and characters that a terminal would obey become spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import read_stored_text
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.storage.hub import CARD, NOT_STATED, SELF_DESCRIPTION, has_card

LARGEST_CARD = 1 << 18  # bytes
LARGEST_FRONT = 1 << 12  # characters of a front matter
_LONGEST_FACT = 100  # characters of the licence, and of all languages
_FRONT = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
_RULE = re.compile(r":?-+:?")


@dataclass(frozen=True)
class CardTable:
    """A table of a section of a card."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Section = Sequence[str | CardTable]


@dataclass(frozen=True)
class StoredCard:
    """What the card of a model folder states.

    licence, language: of its front matter; language: codes, separated by commas.
    description: the text before its sections.  figures, data: paragraphs and tables of its sections "Figures" and
        "Training data".  All are None or empty where nothing is stated.
    """

    licence: str | None
    language: str | None
    description: str | None
    figures: Section
    data: Section

    def accuracy(self, name: str) -> CardAccuracy | None:
        """Return the first F1 that the figures state for a model; None if they state none.

        name: of the model, in a table with a column "model"; a table without this column is about this model.
        """
        protocol = ""
        for block in self.figures:
            if isinstance(block, str):
                protocol = block
            elif "F1" in block.columns:
                for row in block.rows:
                    values = dict(zip(block.columns, row, strict=True))
                    if values.pop("model", name) == name:
                        return CardAccuracy(values, protocol)
        return None


@dataclass(frozen=True)
class CardAccuracy:
    """How well a model parses.

    values: by column of the card, as written, with "F1".  protocol: the paragraph above the table.
    """

    values: dict[str, str]
    protocol: str


def read_card(folder: Path) -> StoredCard | None:
    """Return what the card of a model folder states; None without a card or for a README.md without front matter.

    Raises InputError for a card that is too large, is not text, or whose front matter is not YAML.
    """
    if not has_card(folder):
        return None
    path = folder / CARD
    text = read_stored_text(path, LARGEST_CARD).replace("\r\n", "\n")
    found = _FRONT.match(text)
    if found is None:
        return None
    if len(found[1]) > LARGEST_FRONT:
        raise InputError(f"{path}: the front matter is too long; expected at most {LARGEST_FRONT:,} characters")
    front = parse_yaml("\n" + found[1], f"{path}: the front matter")
    stated: dict[Any, Any] = front if isinstance(front, dict) else {}
    sections = {title: list(_blocks(lines)) for title, lines in _sections(text[found.end() :]).items()}
    description = " ".join(block for block in sections.get("", ()) if isinstance(block, str))
    figures, data = sections.get("Figures", []), sections.get("Training data", [])
    return StoredCard(_fact(stated.get("license")), _fact(stated.get("language")), description or None, figures, data)


def _fact(value: Any) -> str | None:
    """Return a text, or several separated by commas; None for other values."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    joined = ", ".join(text for text in texts if isinstance(text, str))
    return shortened(_printable(joined), _LONGEST_FACT) or None


def _sections(text: str) -> dict[str, list[str]]:
    """Return the lines of the first section of each title, without code; those before the first section under ""."""
    sections: dict[str, list[str]] = {"": []}
    lines, is_code = sections[""], False
    for line in map(_printable, text.split("\n")):
        if line.startswith("```"):
            is_code = not is_code
        elif line.startswith("## ") and not is_code:
            lines = []
            sections.setdefault(line[3:].strip(), lines)
        elif not is_code and not line.startswith(("# ", SELF_DESCRIPTION)):
            lines.append(line.strip())
    return sections


def _blocks(lines: Sequence[str]) -> Iterator[str | CardTable]:
    """Yield paragraphs, each on one line, and tables. A table with unequal rows or repeated headings is a paragraph."""
    for kind, group in groupby(lines, lambda line: "" if not line else "table" if line[0] == "|" else "text"):
        found = list(group)
        if kind == "table":
            columns, rule, *rows = [_cells(line) for line in found] if len(found) > 1 else [(), ()]
            is_even = all(len(row) == len(columns) for row in (rule, *rows)) and len(set(columns)) == len(columns) > 0
            if is_even and all(map(_RULE.fullmatch, rule)):
                yield CardTable(columns, tuple(rows))
                continue
        if kind and (text := " ".join(found)) != NOT_STATED:
            yield text


def _cells(line: str) -> tuple[str, ...]:
    cells = re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|"))
    return tuple(cell.strip().strip("`").replace(r"\|", "|") for cell in cells)


def _printable(text: str) -> str:
    """Return a text with spaces in place of control characters and marks that change the direction of writing."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)
