"""Every link of the documentation leads to a page and a heading, and every page is in the navigation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.generation.commands import all_commands, command_page, page_name
from docs.generation.reference import reference_pages
from docs.generation.settings import section_tables
from markdown_it import MarkdownIt  # of rich, which the program needs

from tests.docs.examples import ROOT, slug

DOCS = ROOT / "docs"
WRITTEN = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
COMMANDS = {f"docs/commands/{page_name(name)}": name for name in all_commands()}
GENERATED = {
    *COMMANDS, "docs/commands/index.md", *(f"docs/reference/python/{name}" for name in reference_pages()),
    *(f"docs/notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")),
}  # fmt: skip
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def text_of(page: str) -> str | None:
    """The Markdown of a page as the site has it; None for one whose headings are made elsewhere."""
    if page in COMMANDS:
        return command_page(COMMANDS[page], all_commands()[COMMANDS[page]])
    if page in GENERATED:
        return None
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.replace("<!-- generated: settings -->", section_tables()) if page.endswith("settings.md") else text


@cache
def anchors(page: str) -> set[str] | None:
    text = text_of(page)
    if text is None:
        return None
    tokens = MarkdownIt().parse(text)
    return {slug(after.content) for token, after in pairwise(tokens) if token.type == "heading_open"}


def links(page: str) -> Iterator[tuple[str, str | None]]:
    """Targets as paths from the root, with their anchors."""
    text = text_of(page) or ""
    for found in _LINK.finditer(re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)):
        target = (ROOT / page).parent / found[1] if found[1] else ROOT / page
        yield str(Path(target).resolve().relative_to(ROOT)), found[2]


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in WRITTEN])
def test_every_link_leads_somewhere(page):
    for target, anchor in links(page):
        assert target in GENERATED or (ROOT / target).exists(), target
        known = anchors(target) if anchor else None
        assert not anchor or known is None or anchor in known, f"{target}#{anchor}"


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = {f"docs/{entry}" for entry in entries_of(yaml.safe_load(settings)["nav"])}
    written = {str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")}
    assert written - GENERATED - entries == {"docs/notebook.md"}, "the experiment log is linked from Results alone"
    assert {entry for entry in entries - GENERATED if not (ROOT / entry).exists()} == set()


def entries_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for inner in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from entries_of(inner)
