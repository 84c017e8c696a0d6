"""The parts of pages that are generated from the code: `python -m laboratory.pages.parts` writes them into the pages.

A part stands between `<!-- generated: NAME -->`, or `<!-- generated: NAME ARGUMENT -->`, and
`<!-- end of generated -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from laboratory.pages import (
    commands,
    dependencies,
    interface,
    recipes,
    requests,
    scoring,
    settings,
    specified,
    tables,
    zoo,
)
from laboratory.shipping.psycholinguists import psycholinguists

DOCS = Path(__file__).parents[2] / "docs"

PARTS: dict[str, Callable[..., str]] = {
    "command": commands.usage,
    "options": commands.options_and_columns,
    "command-list": commands.command_list,
    "settings": settings.section_tables,
    "model": lambda name: settings.settings_table(settings.model_settings(name)),
    "recipes": recipes.recipe_sections,
    "formats": tables.format_table,
    "tables": tables.list_of_tables,
    "measures": tables.measure_table,
    "items": tables.item_table,
    "combinations": tables.combination_table,
    "protocols": scoring.protocol_table,
    "preprocessing": scoring.preprocessing_table,
    "preprocessing-settings": scoring.preprocessing_settings,
    "dependencies": dependencies.dependency_table,
    "inner-dependencies": dependencies.inner_dependency_table,
    "developer-dependencies": dependencies.developer_table,
    "extras": dependencies.extras_table,
    "python-name": interface.name_section,
    "python-methods": interface.method_table,
    "bundled-models": zoo.bundled_models,
    "psycholinguists": psycholinguists,
    "measured-recipes": lambda: specified.specified_table("measured-recipes"),
    "measured-tag-recipes": lambda: specified.specified_table("measured-tag-recipes"),
    "request-fields": requests.request_fields,
    "file": lambda name: _fenced(DOCS / name),
}
# Which packages these list, and in which words the packages state their licences, depends on the installed versions.
OF_THIS_ENVIRONMENT = {"dependencies", "inner-dependencies", "developer-dependencies"}
_PART = re.compile(
    r"^(?P<mark><!-- generated: (?P<name>\S+)(?: (?P<argument>[^>]+))? -->\n).*?^(?P<end><!-- end of generated -->)$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- (?:generated: [^>]+|end of generated) -->\n?", re.MULTILINE)


def pages() -> list[Path]:
    """The pages that have generated parts."""
    return [path for path in sorted(DOCS.rglob("*.md")) if _MARK.search(path.read_text(encoding="utf-8"))]


def with_parts(text: str, leave: frozenset[str] | set[str] = frozenset()) -> str:
    """A page with its parts generated anew, except for those to leave and for licences of packages not installed here.

    Raises ValueError for a mark with an unknown name.
    """

    def part(match: re.Match[str]) -> str:
        generated = "" if match["name"] in leave else _generated(match)
        is_left = not generated or dependencies.UNKNOWN in generated
        return match.group() if is_left else f"{match['mark']}\n{generated}\n{match['end']}"

    return _PART.sub(part, text)


def _generated(match: re.Match[str]) -> str:
    if match["name"] not in PARTS:
        raise ValueError(f"{match['mark'].strip()}: no such part. There are: {', '.join(PARTS)}")
    arguments = [match["argument"]] if match["argument"] else []
    return PARTS[match["name"]](*arguments).strip() + "\n"


def without_parts(text: str) -> str:
    """What is written by hand on a page."""
    return _PART.sub("", text)


def without_marks(text: str) -> str:
    return _MARK.sub("", text)


def _fenced(path: Path) -> str:
    language = {".py": "python", ".yaml": "yaml", ".csv": "text"}[path.suffix]
    return f"```{language}\n{path.read_text(encoding='utf-8').rstrip()}\n```"


def main() -> None:
    for page in pages():
        page.write_text(with_parts(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
