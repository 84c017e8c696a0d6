"""Regressions of several reading measures, such as first-pass and go-past times, on surprisals of the same models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.drawing.files import check_picture, write_picture
from syntaxlm.drawing.plots import Plot, has_matplotlib
from syntaxlm.evaluation.binned_means import plot_measures
from syntaxlm.evaluation.reading_times_export import exported_files
from syntaxlm.reports.page import Page, PageFigure, Preformatted, Section, Theme
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns, ReportTable
from syntaxlm.scoring.word_table import WordTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from syntaxlm.evaluation.reading_times_report import ReadingTimesReport

_COUNTS = {
    "times": "number of times of displayed words",
    "times_out_of_range": "number of times that were left out by the limits",
    "times_missing": "number of rows without a time",
}


@dataclass(frozen=True)
class ReadingMeasuresReport(HasReport):
    """The figures of several models for several reading measures. Each measure has its own analysed words.

    Attributes:
        by_measure: the report of each measure, by its name.
    """

    by_measure: Mapping[str, ReadingTimesReport]

    def report(self) -> Report:
        """Return the main figures of each measure and model, with the numbers of words that are left out."""
        reports = {name: of_measure.report() for name, of_measure in self.by_measure.items()}
        first = next(iter(reports.values()))
        excluded = {
            f"excluded_{reason.replace(' ', '_')}": f"number of displayed words that were left out: {reason}"
            for reason in next(iter(self.by_measure.values())).excluded
        }
        columns = {
            "measure": Column("text", "reading measure"),
            "time_column": Column("text", "column with its times"),
            **first.columns,
            **{name: Column("integer", meaning) for name, meaning in (_COUNTS | excluded).items()},
        }
        rows = [
            {
                "measure": name,
                "time_column": self.by_measure[name].times.column,
                **row,
                **_counts(self.by_measure[name]),
            }
            for name, report in reports.items()
            for row in report.rows
        ]
        tables = {name: report.tables[0] for name, report in reports.items()}
        kinds = {name: of_measure.kind for name, of_measure in self.by_measure.items()}
        headings = dict(tables[max(kinds, key=lambda name: kinds[name] == "linear")].headings)
        shown = [[name, *row] for name, table in tables.items() for row in table.rows]
        if "logistic" in kinds.values():
            headings = {"regression": "", **headings}
            shown = [[name, kinds[name], *cells] for name, *cells in shown]
        figures = {
            "schema_version": 1,
            "measures": [
                {"measure": name} | {key: value for key, value in report.figures.items() if key != "schema_version"}
                for name, report in reports.items()
            ],
        }
        return Report(
            Columns(first.columns.name, "reading measure, model and context", columns),
            rows,
            figures,
            first.facts,
            _merged({name: report.explanation for name, report in reports.items()}),
            [ReportTable({"measure": "", **headings}, shown)],
            _merged({name: report.notes for name, report in reports.items()}),
            warnings=_merged({name: report.warnings for name, report in reports.items()}),
            data=first.data,
        )

    def word_table(self) -> WordTable:
        """Return one row per displayed word, as that of a single measure.

        What differs between measures (times, analysed words, folds and splines) has a column per measure, such as
        reading_time_go_past.
        """
        tables = {name: of_measure.word_table() for name, of_measure in self.by_measure.items()}
        first = next(iter(tables.values()))
        names = dict.fromkeys(name for table in tables.values() for name in table.values)
        columns: dict[str, Sequence[Any]] = {}
        for name in names:
            by_measure = {measure: table.values[name] for measure, table in tables.items() if name in table.values}
            first_values, *others = map(list, by_measure.values())
            if len(by_measure) == len(tables) and all(values == first_values for values in others):
                columns[name] = first_values
            else:
                columns |= {f"{name}_{measure}": values for measure, values in by_measure.items()}
        return WordTable(columns, first.words, first.copied)

    def export(self, path: str | Path, subject: str | None = None) -> list[Path]:
        """Write a table and a script for R per measure, see `ReadingTimesReport.export`; return the scripts.

        Args:
            path: the table; the name of the measure is added to its name: rows.csv becomes rows-go_past.csv.
            subject: column of the subjects in the table of times; None: the first of the usual names.

        Raises:
            InputError: the table of times has no such column, or a file cannot be written.
        """
        tables = exported_files(Path(path), list(self.by_measure))[::2]
        reports = self.by_measure.values()
        return [of_measure.export(table, subject) for table, of_measure in zip(tables, reports, strict=True)]

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Plot:
        """Return mean reading time by surprisal: a row of panels per measure, with a panel per model.

        Args:
            ax: axes of matplotlib to draw on, one per measure and model, instead of a new figure.

        Raises:
            InputError: matplotlib is not installed.
        """
        bins = {
            of_measure.unit: {model.label: model.bins for model in of_measure.models}
            for of_measure in self.by_measure.values()
        }
        return plot_measures(bins, ax)

    def write_picture(self, path: Path, theme: Theme = "auto") -> None:
        """Write the plot as .svg, .pdf or .png, or with the figures as a page, .html. Raises InputError."""
        check_picture(path)
        blocks = PageFigure(self.plot()), Preformatted("figures", str(self))
        page = Page("Reading measures by surprisal", (Section("", blocks),))
        write_picture(path, self.plot, lambda: page.html(theme), lambda: "", theme)

    def _repr_svg_(self) -> str | None:
        return self.plot().svg() if has_matplotlib() else None


def _counts(report: ReadingTimesReport) -> dict[str, int]:
    """Return the numbers of times, and of words that are left out, by the names of their columns."""
    excluded = {f"excluded_{reason.replace(' ', '_')}": count for reason, count in report.excluded.items()}
    times = {"times": int(report.times.counts.sum()), "times_out_of_range": report.times.left_out}
    return times | {"times_missing": report.times.missing} | excluded


def _merged(lines: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of all measures: those that all have once, and others after the name of their measure."""
    common = [line for line in next(iter(lines.values())) if all(line in shown for shown in lines.values())]
    return [f"{name}: {line}" for name, shown in lines.items() for line in shown if line not in common] + common
