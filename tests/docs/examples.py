"""The example lines of the documentation: what a reader would type."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The notebook has its commands as they were spelled when they were run.
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "notebook.md"})
_FENCE = re.compile(r"^ *```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^ *```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`(syntaxlm [^`]+)`(?!`)")
_COMMAND = re.compile(r"(?:^|\| )(?:\$ )?(syntaxlm [a-z].*)$")


@dataclass(frozen=True)
class Example:
    """One call of syntaxlm. place: file and what stands there; words: without "syntaxlm"."""

    place: str
    words: tuple[str, ...]
    whole: bool  # false for one that is cut short by "..." or only names a command

    def __str__(self) -> str:
        return f"{self.place}: {' '.join(self.words)}"


def examples_of(path: Path) -> list[Example]:
    """The calls in the shell blocks and the inline code of a page, or in the comments of a recipe."""
    text = path.read_text(encoding="utf-8")
    place = str(path.relative_to(ROOT))
    if path.suffix == ".yaml":
        found = re.findall(r"(syntaxlm data [^)\n]*)", text)
        return [_example(place, line) for line in found]
    blocks = [found["body"] for found in _FENCE.finditer(text) if found["language"] in ("sh", "console", "")]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    calls = [found[1] for line in lines if (found := _COMMAND.search(line.strip()))]
    spans = _SPAN.findall(_FENCE.sub("", text))
    return [_example(place, call) for call in calls] + [_example(place, span, inline=True) for span in spans]


def _example(place: str, call: str, inline: bool = False) -> Example:
    """inline: of running text, where a command may be named without its arguments."""
    words = shlex.split(call.replace("\n", " "), comments=True)[1:]
    words = words[: words.index("|")] if "|" in words else words
    whole = "..." not in words and not (inline and all(re.fullmatch("[a-z0-9][a-z0-9-]*", word) for word in words))
    if "..." in words:
        words = words[: words.index("...")]
        while words and words[-1].startswith("--"):  # its value was left out
            words.pop()
    return Example(place, tuple(words), whole)


def slug(heading: str) -> str:
    """The anchor of a heading, as mkdocs makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
