"""Checks user-facing text for wording to avoid: `python -m laboratory.pages.language`, a part of `make lint`.

Checked: README.md, the pages of docs/, the comments of recipes, the help of every command, and the messages of the
package. Code, links and formulas in pages are left out. language-allowed.yaml lists exceptions, each with a reason.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from laboratory.pages.markdown import plain, table
from syntaxlm.cli import COMMANDS
from syntaxlm.cli.command import Group, Run, leaves
from syntaxlm.core.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
GLOSSARY_PAGE = ROOT / "docs" / "glossary.md"
_NO_PROSE = re.compile(
    r"^ *```.*?^ *```|<!--.*?-->|(`+)(?:.+?)\1|\$\$.*?\$\$|\$[^$\n]+\$|(?<=\])\([^)\s]*\)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Avoided:
    """A wording to avoid, and what to write."""

    pattern: re.Pattern[str]
    write: str


@dataclass(frozen=True)
class Text:
    """A piece of user-facing text. place: its file, from the root, or the command whose help it is."""

    place: str
    line: int
    text: str


@dataclass(frozen=True)
class Violation:
    """A place with a wording to avoid. found: the wording.  write: what to write.  context: the words around it."""

    place: str
    line: int
    found: str
    write: str
    context: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {self.found!r} (write: {self.write}): ...{self.context}..."


@dataclass(frozen=True)
class Allowed:
    """Allows a text. place: a pattern of places; text: what is found, or a piece of its context."""

    place: str
    text: str
    reason: str

    def allows(self, violation: Violation) -> bool:
        text = f"{violation.found} {violation.context}".lower()
        return fnmatch(violation.place, self.place) and self.text.lower() in text


@cache
def glossary() -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(HERE / "glossary.yaml")
    return data


def avoided() -> list[Avoided]:
    return [
        Avoided(re.compile(entry["pattern"], 0 if entry.get("case") else re.IGNORECASE), entry["write"])
        for entry in glossary()["avoid"]
    ]


def allowed() -> list[Allowed]:
    entries = read_yaml(HERE / "language-allowed.yaml") or []
    return [Allowed(**entry) for entry in entries]


def violations(texts: Iterable[Text], rules: Iterable[Avoided]) -> Iterator[Violation]:
    """Yield the places in texts with a wording to avoid."""
    rules = list(rules)
    for text in texts:
        flat = re.sub(r"\s", " ", text.text)
        for rule in rules:
            for match in rule.pattern.finditer(flat):
                line = text.line + text.text.count("\n", 0, match.start())
                context = flat[max(0, match.start() - 40) : match.end() + 40].strip()
                yield Violation(text.place, line, match.group(), rule.write, context)


def all_texts() -> Iterator[Text]:
    """Yield all texts that are checked; see the module."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield page_text(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    for path in sorted((ROOT / "recipes").rglob("*.yaml")):
        comments = re.sub(r"^[^#\n]*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        yield Text(str(path.relative_to(ROOT)), 1, _without_code(comments).replace("#", " "))
    yield from help_texts(COMMANDS)
    for path in sorted((ROOT / "src").rglob("*.py")):
        yield from messages(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))


def page_text(markdown: str, place: str) -> Text:
    """A page whose code, link targets and formulas are replaced by spaces, so that lines keep their numbers."""
    return Text(place, 1, _NO_PROSE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), markdown))


def help_texts(commands: Mapping[str, Run | Group]) -> Iterator[Text]:
    """The help of commands and of all below them."""
    for name, group in commands.items():
        if isinstance(group, Group):
            for text in (group.help, group.example):
                yield Text(f"syntaxlm {name} --help", 1, _without_code(text))
    for command in leaves(commands):
        helps = [option.help for option in command.options.values()]
        for text in (command.docstring.summary, command.docstring.description, command.example, *helps):
            yield Text(f"syntaxlm {command.name} --help", 1, _without_code(text))


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`|--[a-z-]+", " ", text)


def messages(source: str, place: str) -> Iterator[Text]:
    """The string literals of a module that are prose: three words or more, and not a docstring."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | parts:
            text = node.value
        else:
            continue
        if len(text.split()) > 2:
            yield Text(place, node.lineno, _without_code(text))


def glossary_page() -> str:
    """docs/glossary.md."""
    terms = glossary()["terms"]
    rows = ([f"**{plain(term)}**", terms[term]] for term in sorted(terms, key=str.lower))
    return (
        "# Glossary\n\n<!-- made by python -m laboratory.pages.language --write -->\n\n"
        "This page explains the terms used in the documentation, help texts, messages and JSON keys.\n\n"
        + table(["term", "meaning"], rows)
    )


def write_glossary() -> None:
    GLOSSARY_PAGE.write_text(glossary_page(), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/glossary.md")
    if parser.parse_args().write:
        write_glossary()
    exceptions, used, faults = allowed(), set(), []
    for violation in dict.fromkeys(violations(all_texts(), avoided())):
        matching = [exception for exception in exceptions if exception.allows(violation)]
        used.update(matching)
        if not matching:
            faults.append(violation)
    if GLOSSARY_PAGE.read_text(encoding="utf-8") != glossary_page():
        print("docs/glossary.md differs from glossary.yaml; run python -m laboratory.pages.language --write")
        return 1
    for exception in exceptions:
        if exception not in used:
            print(f"language-allowed.yaml: {exception.place}, {exception.text!r}: not needed any more")
    print("\n".join(map(str, faults)) or "wording: no violation")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
