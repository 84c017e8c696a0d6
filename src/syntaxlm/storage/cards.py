"""What a model card states, read for `models info` and `models list`; `storage.hub` writes cards.

A card may come from somebody else: it is small or refused, and characters that a terminal would obey become spaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import read_stored_text
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.storage.hub import CARD, NOT_STATED, SELF_DESCRIPTION, has_card
from syntaxlm.storage.model_index import F1, PERPLEXITY, Result, printable, results_of

FOR_PSYCHOLINGUISTS = "For psycholinguists"  # a section on text, vocabulary, and what the model has learned of syntax
LARGEST_CARD = 1 << 18  # bytes
LARGEST_FRONT = 1 << 14  # characters of a front matter
_LONGEST_FACT = 100  # characters of the licence, and of all languages
_FRONT = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)


@dataclass(frozen=True)
class StoredCard:
    """What the card of a model folder states.

    Attributes:
        licence: from the front matter.
        language: codes from the front matter, separated by commas.
        description: the text before the sections.
        results: the model index of the front matter.
        data: the section "Training data", in Markdown.
        psycholinguists: the section `FOR_PSYCHOLINGUISTS`, in Markdown.
    """

    licence: str | None
    language: str | None
    description: str | None
    results: list[Result]
    data: str | None
    psycholinguists: str | None = None

    @property
    def accuracy(self) -> Result | None:
        """The first result with an F1; None if there is none."""
        return next(iter(self._with(F1)), None)

    @property
    def perplexities(self) -> list[Result]:
        """The results with a perplexity."""
        return self._with(PERPLEXITY)

    def _with(self, metric_type: str) -> list[Result]:
        return [result for result in self.results if any(metric.type == metric_type for metric in result.metrics)]


def read_card(folder: Path) -> StoredCard | None:
    """Return what the card of a model folder states; None without a card or for a README.md without front matter.

    Raises:
        InputError: for a card that is too large, is not text, or whose front matter is not YAML.
    """
    path = folder / CARD
    text = card_text(folder)
    front_matter = None if text is None else _FRONT.match(text)
    if text is None or front_matter is None:
        return None
    if len(front_matter[1]) > LARGEST_FRONT:
        raise InputError(f"{path}: the front matter is too long; expected at most {LARGEST_FRONT:,} characters")
    front = parse_yaml("\n" + front_matter[1], f"{path}: the front matter")
    stated: dict[Any, Any] = front if isinstance(front, dict) else {}
    sections = _sections(text[front_matter.end() :])
    return StoredCard(
        licence=_fact(stated.get("license")),
        language=_fact(stated.get("language")),
        description=" ".join(sections[""].split()) or None,
        results=results_of(stated, f"{path}: the front matter"),
        psycholinguists=sections.get(FOR_PSYCHOLINGUISTS),
        data=sections.get("Training data") if sections.get("Training data") != NOT_STATED else None,
    )


def card_text(folder: Path) -> str | None:
    """Return the text of a model's card; None without one. Raises InputError as `read_card` does."""
    return read_stored_text(folder / CARD, LARGEST_CARD).replace("\r\n", "\n") if has_card(folder) else None


def _fact(value: Any) -> str | None:
    """Return a text, or several separated by commas; None for other values."""
    values = value if isinstance(value, list) else [value]
    joined = ", ".join(text for text in values if isinstance(text, str))
    return shortened(printable(joined), _LONGEST_FACT) or None


def _sections(text: str) -> dict[str, str]:
    """Return the text of each section by its title, without code; that before the first section under ""."""
    sections: dict[str, list[str]] = {"": []}
    lines, is_code = sections[""], False
    for line in map(printable, text.split("\n")):
        if line.startswith("```"):
            is_code = not is_code
        elif line.startswith("## ") and not is_code:
            lines = sections.setdefault(line[3:].strip(), [])
        elif not is_code and not line.startswith(("# ", SELF_DESCRIPTION)):
            lines.append(line.rstrip())
    return {title: "\n".join(lines).strip() for title, lines in sections.items()}
