"""The page of a report: sections of paragraphs, tables and pictures, rendered from a Jinja template."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from syntaxlm.core.errors import printable
from syntaxlm.core.files import write_text
from syntaxlm.core.version import VERSION
from syntaxlm.drawing.plot import Plot
from syntaxlm.drawing.svg import Picture, Theme
from syntaxlm.reports.tables import ReportTable

TEMPLATE = "report.html.jinja"


@dataclass(frozen=True)
class Paragraph:
    """missing: whether the text explains why something is missing."""

    kind: ClassVar[str] = "paragraph"
    text: str
    missing: bool = False


@dataclass(frozen=True)
class HtmlTable:
    """A table. The first cell of a row is its name.  source: data and protocol of the figures.

    is_numeric: whether the cells are numbers.  is_folded: whether the table is collapsed until opened.
    """

    kind: ClassVar[str] = "table"
    table: ReportTable
    source: str = ""
    is_numeric: bool = True
    is_folded: bool = False


@dataclass(frozen=True)
class PageFigure:
    """A picture. source: data and protocol. heading: shown above it, "" for none. table: the same data as a table."""

    kind: ClassVar[str] = "figure"
    picture: Picture | Plot
    source: str
    heading: str = ""
    table: HtmlTable | None = None


Block = Paragraph | HtmlTable | PageFigure


@dataclass(frozen=True)
class Section:
    """Blocks under a heading. columns: whether the blocks are set in columns."""

    heading: str
    blocks: tuple[Block, ...]
    columns: bool = False


@dataclass(frozen=True)
class KeyFigure:
    """A main result, shown at the top of the page. source: data and protocol."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Page:
    """The content of a report. key_figures: main results, shown at the top."""

    title: str
    key_figures: tuple[KeyFigure, ...]
    sections: tuple[Section, ...]

    @property
    def left_out(self) -> dict[str, str]:
        """Why something is missing, by section heading."""
        left_out: dict[str, list[str]] = {}
        for section in self.sections:
            for block in section.blocks:
                if isinstance(block, Paragraph) and block.missing:
                    left_out.setdefault(section.heading, []).append(block.text)
        return {heading: " ".join(texts) for heading, texts in left_out.items()}

    def html(self, theme: Theme = "auto") -> str:
        """Return the page as HTML. theme: "auto" follows the reader's system."""
        import jinja2  # imported here because only reports need it
        from markupsafe import Markup

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            finalize=lambda value: value if isinstance(value, Markup) else printable(str(value)),
        )
        return environment.get_template(TEMPLATE).render(page=self, theme=theme, version=VERSION)

    def write(self, path: Path, theme: Theme = "auto") -> WrittenReport:
        """Write the page atomically. Raises InputError."""
        write_text(self.html(theme), path)
        return WrittenReport(path, self.left_out)


@dataclass(frozen=True)
class WrittenReport:
    """Where a page was written. left_out: as in `Page.left_out`."""

    path: Path
    left_out: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, "path": str(self.path), "left_out": self.left_out}

    def __str__(self) -> str:
        return "\n".join([str(self.path), *(f"missing: {name}. {why}" for name, why in self.left_out.items())])
