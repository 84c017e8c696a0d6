"""What mkdocs calls while it builds the site (mkdocs.yml names this file)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from docs.generation import commands, dependencies, recipes, reference, scoring, settings, tables
from docs.generation.mathematics import with_mathml
from docs.generation.notebook import notebook_page

DOCS = Path(__file__).parents[1]

# <!-- generated: NAME --> or <!-- generated: NAME ARGUMENT --> in a page becomes what these return.
PARTS: dict[str, Callable[..., str]] = {
    "settings": settings.section_tables,
    "model": lambda name: settings.settings_table(settings.model_settings(name)),
    "recipes": recipes.recipe_sections,
    "formats": tables.format_table,
    "tables": tables.column_sections,
    "measures": tables.measure_table,
    "items": tables.item_table,
    "protocols": scoring.protocol_table,
    "preprocessing": scoring.preprocessing_table,
    "preprocessing-settings": scoring.preprocessing_settings,
    "dependencies": dependencies.dependency_table,
    "inner-dependencies": dependencies.inner_dependency_table,
    "developer-dependencies": dependencies.developer_table,
    "file": lambda name: _fenced(DOCS / name),
}
_PART = re.compile(r"^<!-- generated: (?P<name>\S+)(?: (?P<argument>\S+))? -->$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the generated pages into the navigation, behind the first page of their section."""
    pages = {
        "commands/index.md": [f"commands/{commands.page_name(name)}" for name in commands.all_commands()],
        "reference/python/index.md": [
            f"reference/python/{name}" for name in reference.reference_pages() if name != "index.md"
        ],
    }
    _extend(config.nav or [], pages)
    return config


def _extend(nav: list[Any], pages: dict[str, list[str]]) -> None:
    """Replaces the entry of a section's first page by all pages of the section."""
    for entry in nav:
        for title, inner in entry.items() if isinstance(entry, dict) else ():
            if isinstance(inner, list):
                _extend(inner, pages)
            elif inner in pages:
                entry[title] = [inner, *pages[inner]]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages; a command's takes the place of what is written by hand about it."""
    made = {f"reference/python/{name}": text for name, text in reference.reference_pages().items()}
    made["commands/index.md"] = commands.index_page()
    for name, parser in commands.all_commands().items():
        made[f"commands/{commands.page_name(name)}"] = commands.command_page(name, parser)
    strangers = [file.src_uri for file in files if file.src_uri.startswith("commands/") and file.src_uri not in made]
    if strangers:
        raise PluginError(f"{', '.join(strangers)}: there is no such command")
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        made[f"notebooks/{path.stem}.md"] = notebook_page(path)
    for name, text in made.items():
        written = files.get_file_from_path(name)
        if written is not None:
            files.remove(written)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts generated parts in the place of their marks."""
    return _PART.sub(_part, markdown)


def _part(found: re.Match[str]) -> str:
    if found["name"] not in PARTS:
        raise PluginError(f"{found.group()}: no such part. There are: {', '.join(PARTS)}")
    return PARTS[found["name"]](*([found["argument"]] if found["argument"] else []))


def _fenced(path: Path) -> str:
    language = {".py": "python", ".yaml": "yaml", ".csv": "text"}[path.suffix]
    return f"```{language}\n{path.read_text(encoding='utf-8').rstrip()}\n```"


def on_page_content(html: str, **_: Any) -> str:
    return with_mathml(html)
