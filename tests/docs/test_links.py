"""Every link of the documentation leads to a page and a heading, and every page is in the navigation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from laboratory.pages.commands import all_commands, page_name
from markdown_it import MarkdownIt  # of rich, which the program needs

from syntaxlm.core.yaml_files import parse_yaml
from tests.docs.examples import ROOT, slug

DOCS = ROOT / "docs"
WRITTEN = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


@cache
def anchors(page: str) -> set[str]:
    tokens = MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8"))
    return {slug(after.content) for token, after in pairwise(tokens) if token.type == "heading_open"}


def links(page: str) -> Iterator[tuple[str, str | None]]:
    """Targets as paths from the root, with their anchors."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in _LINK.finditer(re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)):
        target = (ROOT / page).parent / found[1] if found[1] else ROOT / page
        yield str(Path(target).resolve().relative_to(ROOT)), found[2]


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in WRITTEN])
def test_every_link_leads_to_a_file_of_the_repository(page):
    for target, anchor in links(page):
        assert (ROOT / target).is_file(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = {f"docs/{entry}" for entry in entries_of(parse_yaml(settings, "")["nav"])}
    written = {str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")}
    of_commands = {f"docs/commands/{page_name(name)}" for name in all_commands()}
    assert written - of_commands - entries == {"docs/notebook.md"}, "the experiment log is linked from Results alone"
    notebooks = {str(path.with_suffix(".md").relative_to(ROOT)) for path in (DOCS / "notebooks").glob("*.ipynb")}
    assert {entry for entry in entries - notebooks if not (ROOT / entry).exists()} == set()


def test_the_start_page_leads_to_every_page():
    """Pages of commands are listed on the page of the commands."""
    leads = {target for page in ("docs/index.md", "docs/commands/index.md") for target, _ in links(page)}
    pages = {str(path.relative_to(ROOT)) for path in [*DOCS.rglob("*.md"), *(DOCS / "notebooks").glob("*.ipynb")]}
    assert pages - leads == {"docs/index.md"}


def entries_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for inner in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from entries_of(inner)
