"""Pages of results: sections of paragraphs, tables and pictures as HTML, rendered from one Jinja template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from syntaxlm.core.errors import printable
from syntaxlm.core.files import write_text
from syntaxlm.core.run_head import invocation
from syntaxlm.core.version import VERSION
from syntaxlm.reports.tables import ReportTable

if TYPE_CHECKING:
    import jinja2

Theme = Literal["auto", "light", "dark"]

SMALLEST_SCALE = 0.65  # on a narrow page, wide pictures shrink to this fraction of their size, then scroll


class SvgPicture(Protocol):
    """A picture that a page can hold: its title, its width in pixels, and SVG in the colours of a theme."""

    @property
    def title(self) -> str: ...
    @property
    def width(self) -> float: ...
    def svg(self, theme: Theme = "auto") -> str: ...


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text.

    Attributes:
        text: the text.
        missing: whether the text explains why something is missing.
    """

    kind: ClassVar[str] = "paragraph"
    text: str
    missing: bool = False


@dataclass(frozen=True)
class Notes:
    """A list of notes."""

    kind: ClassVar[str] = "notes"
    notes: Sequence[str]


@dataclass(frozen=True)
class Preformatted:
    """Text with line ends, such as trees in brackets, collapsed until opened."""

    kind: ClassVar[str] = "preformatted"
    name: str
    text: str


@dataclass(frozen=True)
class HtmlTable:
    """A table.

    Attributes:
        table: the table. The first cell of a row is its name.
        source: data and protocol of the figures.
        is_folded: whether the table is collapsed until opened.
    """

    kind: ClassVar[str] = "table"
    table: ReportTable
    source: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class PageFigure:
    """A picture.

    Attributes:
        picture: the picture.
        source: data and protocol of what it shows.
        heading: the heading above it, "" for none.
        table: the same data as a table.
    """

    kind: ClassVar[str] = "figure"
    picture: SvgPicture
    source: str = ""
    heading: str = ""
    table: HtmlTable | None = None


Block = Paragraph | Notes | Preformatted | HtmlTable | PageFigure


@dataclass(frozen=True)
class Section:
    """Blocks under a heading.

    Attributes:
        heading: the heading, "" for none.
        blocks: the blocks.
        columns: whether the blocks are set in columns.
    """

    heading: str
    blocks: tuple[Block, ...]
    columns: bool = False


@dataclass(frozen=True)
class KeyFigure:
    """A main result, shown at the top of the page.

    Attributes:
        name: what was measured.
        value: the result.
        source: data and protocol.
    """

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Page:
    """A self-contained page without scripts.

    Attributes:
        title: the title.
        sections: the sections, from top to bottom.
        key_figures: main results, shown at the top.
        facts: what the results were measured on and how, shown at the top.
    """

    title: str
    sections: tuple[Section, ...]
    key_figures: tuple[KeyFigure, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

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
        """Return the page as HTML, which ends with the models, the command, the version and the date of the run.

        Args:
            theme: the colours; "auto" follows the reader's system.
        """
        run = invocation()
        is_named = "model" in self.facts or "models" in self.facts
        origin = {} if is_named else {"Models" if len(run.models) > 1 else "Model": ", ".join(run.models)}
        origin |= {"Command": run.command or ""}
        origin |= {"Written by": f"syntaxlm {VERSION}", "Date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}
        template = _templates().get_template("page.html.jinja")
        return template.render(page=self, theme=theme, version=VERSION, origin=origin, smallest_scale=SMALLEST_SCALE)

    def write(self, path: Path, theme: Theme = "auto") -> WrittenReport:
        """Write the page atomically. Raises InputError."""
        write_text(self.html(theme), path)
        return WrittenReport(path, self.left_out)


def picture_page(picture: SvgPicture, theme: Theme = "auto") -> str:
    """Return a page with one picture as HTML."""
    return Page(picture.title, (Section("", (PageFigure(picture),)),)).html(theme)


def table_html(table: ReportTable) -> str:
    """Return a table as HTML for a notebook, in the notebook's own colours."""
    macros: Any = _templates().get_template("table.html.jinja").module
    return str(macros.table_element(table))


def _templates() -> jinja2.Environment:
    """Return the templates, which escape every value except SVG."""
    import jinja2  # imported here because only pages need it
    from markupsafe import Markup

    def one_line_or_more(value: Any) -> Any:
        """Return a value as text without control characters other than line ends."""
        return value if isinstance(value, Markup) else "\n".join(map(printable, str(value).split("\n")))

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=one_line_or_more,
    )


@dataclass(frozen=True)
class WrittenReport:
    """A page that was written.

    Attributes:
        path: where it was written.
        left_out: why something is missing, by section heading.
    """

    path: Path
    left_out: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": 1, "path": str(self.path), "left_out": self.left_out}

    def __str__(self) -> str:
        return "\n".join([str(self.path), *(f"missing: {name}. {why}" for name, why in self.left_out.items())])
