"""Outputs of commands: files or standard output, in the format that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from syntaxlm.core.declarations import ReportFormat, Shown
from syntaxlm.core.errors import amount, escaped, printable
from syntaxlm.core.files import text_output, to_json
from syntaxlm.core.progress import error_console, is_quiet, print_above_bars
from syntaxlm.core.reading import ReadingReport, readings
from syntaxlm.core.run_head import invocation, run_head

if TYPE_CHECKING:
    from syntaxlm.reports.report import HasReport, Report

WRONG_INPUT = 2  # exit code
ROW_FORMATS = ("tsv", "csv", "parquet")  # without JSON, of which some results have more than their rows
OutputFile = Annotated[Path, Shown("FILE", ("-o", "--output"), "output")]
PrintedFormat = Literal["text", "json", "tsv", "csv", "markdown", "latex", "html"]  # of reports beside other files
SummaryFormat = Annotated[Literal["text", "json"], Shown(help="Print the results in this format.")]


@dataclass(frozen=True, kw_only=True)
class ReportOutput:
    """Where a report is written, and how.

    Attributes:
        output: Write the results to this file, or to standard output (`-`, the default).
        format: Write the results in this format.
    """

    heading: ClassVar[str] = "Output"

    output: OutputFile | None = None
    format: Annotated[ReportFormat, Shown(use="format")] = "text"

    def write(self, result: HasReport | Report, with_head: bool = True) -> None:
        """Write a result in the format that is asked for, with its warnings and how the files were read.

        Both are printed on stderr, the warnings now and before the tables, so standard output as text has neither.

        Args:
            result: the result, or its report.
            with_head: whether JSON has the head of the run; lists of what is there have none.
        """
        report: Any = getattr(result, "report", lambda: result)()
        for warning in report.warnings:
            print_warning(warning)
        if self.output is not None or self.format != "text":
            head = run_head() if with_head and self.format == "json" else None
            report = replace(report, readings=readings(), run=head, models=invocation().models)
            if self.format == "html" and not report.data:  # titles name the files
                report = replace(report, data=list(dict.fromkeys(reading.source for reading in readings())))
        elif not is_quiet():
            report = replace(report, warnings=())
        report.write(self.output, self.format)

    def write_rows(self, result: HasReport, report: Report) -> None:
        """Write a result as `write` does. If its rows go to a file, the report is printed, too, unless it is quiet.

        Args:
            result: the result.
            report: its report with the rows that are written.
        """
        self.write(report)
        if self.output is not None and self.format in ROW_FORMATS and not is_quiet():
            print(escaped(replace(result.report(), warnings=()).text()))
            print_note(f"wrote {self.output}: {amount(len(report.rows), 'row')}, one per {report.columns.row}")


@dataclass(frozen=True, kw_only=True)
class DetailedOutput(ReportOutput):
    """Where a report is written, how, and where its items are written.

    Attributes:
        details: Write each item to this file, as JSON lines.
    """

    heading: ClassVar[str] = "Output"

    details: Annotated[Path, Shown("FILE", use="output")] | None = None

    def write(self, result: HasReport) -> None:  # type: ignore[override]
        """Write a result in the format that is asked for, and its items."""
        if self.details:
            result.write_details(self.details)
        super().write(result)


@contextmanager
def output_path(path: Path | None, suffix: str = ".txt") -> Iterator[Path]:
    """Return a path for functions that write files by name; None: a temporary file, then copied to standard output."""
    if path is not None:
        yield path
        return
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / f"output{suffix}"
        yield temporary
        with open(temporary, encoding="utf-8", newline="") as file, text_output(None) as output:
            shutil.copyfileobj(file, output)


def print_summary(result: Any, format: str, output: Path | None, head: str = "", is_evaluation: bool = False) -> None:
    """Print figures that accompany data: on standard output if the data went to a file, otherwise on stderr.

    Args:
        output: where the data went.
        head: put before the figures if they are text.
        is_evaluation: whether the figures measure something, so that their JSON has the head of the run.
    """
    text = (head if format == "text" else "") + formatted(result, format, is_evaluation)
    if output is not None:
        print(text)
    elif not is_quiet():
        print(text, file=sys.stderr)


def print_note(text: str) -> None:
    """Print a line on stderr, above progress bars, unless the command is quiet."""
    error_console().print("\n".join(map(printable, text.split("\n"))), markup=False, soft_wrap=True)


def print_warning(text: str) -> None:
    """Print a warning on stderr, unless the command is quiet."""
    if not is_quiet():
        print_above_bars(f"syntaxlm: warning: {printable(text)}")


def print_reading(report: ReadingReport) -> None:
    """Print how a file was read as a line on stderr, unless the command is quiet."""
    if not is_quiet():
        print_above_bars(f"read {printable(str(report))}")


def formatted(result: Any, format: str, with_head: bool = False) -> str:
    """Return figures as text, in which no name of a file controls the terminal, or in another format.

    The last line end is left out.

    Args:
        result: the figures.
        format: text or json; for a result with a report, also one of its other formats.
        with_head: whether JSON has the head of the run, unless the result has its own.
    """
    if format == "text":
        return escaped(str(result))
    if format != "json":
        formatted_report: str = result.report().formatted(format)
        return formatted_report
    figures = result.to_dict()
    return to_json(figures | {"run": figures.get("run") or run_head().to_dict()} if with_head else figures)
