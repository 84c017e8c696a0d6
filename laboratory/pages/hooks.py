"""What mkdocs calls while it builds the site (mkdocs.yml names this file)."""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from laboratory.pages import commands, reference
from laboratory.pages.mathematics import with_mathml
from laboratory.pages.notebook import notebook_page
from laboratory.pages.parts import with_parts, without_marks

ROOT = Path(__file__).parents[2]
DOCS, RESULTS = ROOT / "docs", "laboratory/results"
_PYTHON = "reference/python"
_TABLE = re.compile("<table>.*?</table>", re.DOTALL)
_HEAD, _CELL, _TAG = re.compile(r"<th[^>]*>(.*?)</th>", re.DOTALL), re.compile("<td"), re.compile("<[^>]+>")
_OUTSIDE_DOCS = re.compile(rf"(\]\((?:\.\./)*)\.\./{RESULTS}/")
_NOTEBOOK = re.compile(r"(\]\([\w./-]+)\.ipynb\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of commands and inner packages into the navigation, after the page that introduces them."""
    pages = {
        "commands/index.md": [f"commands/{commands.page_name(name)}" for name in commands.all_commands()],
        "explanation/architecture.md": [f"{_PYTHON}/{name}" for name in reference.reference_pages()],
    }
    _extend(config.nav or [], pages)
    return config


def _extend(nav: list[Any], pages: dict[str, list[str]]) -> None:
    """Replace the entry of such a page by a section with it and the pages that it introduces."""
    for entry in nav:
        for title, inner in entry.items() if isinstance(entry, dict) else ():
            if isinstance(inner, list):
                _extend(inner, pages)
            elif inner in pages:
                entry[title] = [inner, *pages[inner]]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of packages and notebooks, and the stored results, which tables link to."""
    pages = {f"{_PYTHON}/{name}": text for name, text in reference.reference_pages().items()}
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        pages[f"notebooks/{path.stem}.md"] = notebook_page(path)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / RESULTS).glob("*.jsonl")):
        files.append(File.generated(config, f"{RESULTS}/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write generated parts anew, and make links to notebooks lead to their pages, except on these pages themselves.

    Stored results are outside docs/ in the repository, and in the site itself. Readers who search the site look for
    public names and for results, so inner packages and the experiment log are not searched.
    """
    name = page.file.src_uri
    if name == "notebook.md" or (name.startswith(f"{_PYTHON}/") and name != f"{_PYTHON}/index.md"):
        page.meta["search"] = {"exclude": True}
    text = _OUTSIDE_DOCS.sub(rf"\1{RESULTS}/", without_marks(with_parts(markdown)))
    return text if name.startswith("notebooks/") else _NOTEBOOK.sub(r"\1.md)", text)


def on_page_content(html: str, **_: Any) -> str:
    return _TABLE.sub(_with_columns, with_mathml(html))


def _with_columns(table: re.Match[str]) -> str:
    """Return a table whose cells have the names of their columns, which a phone shows in front of the values."""
    heads = [unescape(_TAG.sub("", head)) for head in _HEAD.findall(table.group())]
    rows = table.group().split("<tr>")
    return "<tr>".join(_named_cells(row, heads) for row in rows)


def _named_cells(row: str, heads: list[str]) -> str:
    names = iter(heads)
    return _CELL.sub(lambda cell: f'{cell.group()} data-column="{escape(next(names, ""))}"', row)
