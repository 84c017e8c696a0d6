"""The report on reading times of one column: figures of each model, tables of words, and pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.data.frequencies import Frequencies
from syntaxlm.drawing.files import check_picture, write_picture
from syntaxlm.drawing.plots import Plot, has_matplotlib
from syntaxlm.evaluation.binned_means import plot_binned_means
from syntaxlm.evaluation.options import PARTS
from syntaxlm.evaluation.reading_times_export import Exported, export
from syntaxlm.evaluation.time_regressions import (
    TOKENS,
    ModelResult,
    RegressionData,
)
from syntaxlm.reports.page import Page, PageFigure, Preformatted, Section, Theme
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import RIGHT, Column, Columns, ReportTable
from syntaxlm.scoring.marks import remark_on_marks
from syntaxlm.scoring.surprisal import MEASURES
from syntaxlm.scoring.word_table import (
    WordTable,
    positions,
    previous_name,
    score_columns,
    with_previous,
)
from syntaxlm.statistics.intervals import Interval, mean_interval
from syntaxlm.statistics.regression import Coefficient, RegressionKind
from syntaxlm.text.options import TextOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY_SPLIT = 0.05  # share of words of several tokens above which a note is printed


@dataclass(frozen=True)
class ReadingTimesReport(RegressionData, HasReport):
    """The figures of several models on the same words.

    Attributes:
        style: how words were split before the models read them.
    """

    frequencies: Frequencies
    style: TextOptions
    models: tuple[ModelResult, ...] = ()

    @property
    def kind(self) -> RegressionKind:
        """The kind of the regressions: "logistic" for a measure of 0 and 1, otherwise "linear"."""
        return "logistic" if self.times.is_binary else "linear"

    @property
    def count(self) -> int:
        """Number of analysed words."""
        return int(self.analysed.sum())

    @cached_property
    def differences(self) -> dict[str, Interval]:
        """Delta log-likelihood of each other model minus that of the first, by label of the model.

        The 95% intervals are of the paired differences, over sentences.
        """
        first, *others = self.models
        sentences = self.words.sentences[self.analysed]
        return {model.label: mean_interval(model.deltas - first.deltas, sentences) for model in others}

    def report(self) -> Report:
        """Return the main figures of each model.

        Log-likelihoods are in nats, per word unless stated; surprisals in bits.
        """
        words = self.words
        lags = range(self.settings.spillover + 1)
        measures = [previous_name(name, lag) for name in self.settings.measures for lag in lags]
        rows, cells = [], []
        for model in self.models:
            coefficients = {coefficient.name: coefficient for coefficient in model.regression.coefficients}
            chosen = [coefficients[name] for name in measures]
            rows.append(self._row(model, chosen))
            cells.append(
                [
                    *(model.name, model.context, model.unknown_words, model.mean_surprisal),
                    *(1000 * model.delta.value, model.delta.ends(1000)),
                    *(f"{coefficient.value:.3g} ({coefficient.standard_error:.2g})" for coefficient in chosen),
                ]
            )
        headings = {"model": "", "context": "", "unknown\nwords": ",", "surprisal\nbits/word": ".2f"}
        headings |= {"delta log-lik.\n10^-3 nats/word": ".2f", "95% interval": RIGHT}
        outcome = "log odds " if self.times.is_binary else ""
        headings |= {f"{name.replace('_', ' ')}\n{outcome}per {_unit(name)} (s.e.)": RIGHT for name in measures}

        guessed = "" if words.sentence_column else " (found from punctuation)"
        facts = {"words": len(words), "sentences": f"{words.sentences[-1] + 1:,}{guessed}"}
        facts |= {words.group_column: int(words.groups[-1]) + 1} if words.group_column else {}
        differences = [
            f"{label} minus {self.models[0].label}: {1000 * difference.value:+.2f}"
            f"  95% interval {difference.ends(1000)}"
            for label, difference in self.differences.items()
        ]
        return Report(
            _columns(measures),
            rows,
            self._figures(),
            facts,
            self._explanation(),
            [ReportTable(headings, cells)],
            differences + self._gain_notes() + self._token_notes(),
            warnings=self._warnings(),
            data=[words.table.source],
        )

    def _row(self, model: ModelResult, coefficients: Sequence[Coefficient]) -> dict[str, Any]:
        """Return the row of a model, with these coefficients."""
        row: dict[str, Any] = {
            "model": model.name,
            "context": model.context,
            "regression": self.kind,
            "words": self.count,
            "unknown_words": model.unknown_words,
            "surprisal": model.mean_surprisal,
            "delta_log_likelihood": model.delta.value,
            "low": model.delta.low,
            "high": model.delta.high,
        }
        for coefficient in coefficients:
            row[f"{coefficient.name}_coefficient"] = coefficient.value
            row[f"{coefficient.name}_standard_error"] = coefficient.standard_error
        return row

    def _warnings(self) -> list[str]:
        lines = [self.times.outlier] if self.times.outlier else []
        return lines + remark_on_marks({model.label: model.scores.bits_of_marks for model in self.models})

    def _gain_notes(self) -> list[str]:
        """Return, for several measures, what each adds to the others."""
        return [
            f"{model.label}: {name} beyond the other measures: {1000 * gain.value:+.2f}, 95% interval {gain.ends(1000)}"
            for model in self.models
            for name, gain in model.gains.items()
        ]

    def _token_notes(self) -> list[str]:
        """Return notes on models that read many words as several tokens, whose number predicts reading times."""
        labels: dict[str, list[str]] = {}
        for model in self.models:
            gain = model.token_gain
            share = model.split_words / self.count
            if share > MANY_SPLIT:
                note = (
                    f"{share:.0%} of the words are several tokens. The number of tokens alone gains"
                    f" {1000 * gain.value:.2f}, 95% interval {gain.ends(1000)}; it is in the baseline"
                )
                labels.setdefault(note, []).append(model.label)
        return [f"{'; '.join(of_models)}: {note}" for note, of_models in labels.items()]

    def _figures(self) -> dict[str, Any]:
        words, times = self.words, self.times.values[self.analysed]
        return {
            "schema_version": 1,
            "regression": self.kind,
            "words": {
                "source": words.table.source,
                "words": len(words),
                "sentences": int(words.sentences[-1]) + 1,
                "groups": int(words.groups[-1]) + 1,
                "group_column": words.group_column,
                "sentence_column": words.sentence_column,
                **{f"excluded_{reason.replace(' ', '_')}": count for reason, count in self.excluded.items()},
                "analysed": self.count,
            },
            "times": {
                "source": self.times.source,
                "column": self.times.column,
                "key": self.times.key,
                "mean": float(times.mean()),
                "std": float(times.std(ddof=1)),
                "out_of_range": self.times.left_out,
                "unmatched_rows": self.times.unmatched,
                "missing": self.times.missing,
                "repeated_rows": self.times.repeated,
            },
            "frequencies": {"source": self.frequencies.source, "words": self.frequencies.total},
            "settings": self.settings,
            "punctuation": self.style.punctuation,
            "contractions": self.style.contractions,
            "baseline_predictors": list(self.predictors),
            "folds": int(self.fold.max()) + 1,
            "models": self.models,
            "minus_first": [{"model": label, **interval._asdict()} for label, interval in self.differences.items()],
        }

    def _explanation(self) -> list[str]:
        words = self.words
        times = self.times
        settings = self.settings
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.excluded.items() if count)
        counted = f"; {', '.join(times.notes)}" if times.notes else ""
        contexts = sorted({model.context for model in self.models})
        units = "sentences"
        if settings.fold_unit == "group":
            units = f"texts ({words.group_column})" if words.group_column else "texts"
        lines = [
            f"{times.what}: {int(times.counts.sum()):,} for {int((times.counts > 0).sum()):,} words{counted}",
            f"analysed: {self.count:,} words{f'; left out: {left_out}' if left_out else ''}",
            *self._explain_times(),
            f"context: {', '.join(contexts)} (reset: each sentence is read by itself; carry: the state is carried"
            " within a passage)",
            self._explain_baseline(),
            f"delta log-likelihood: of held-out words, {self.fold.max() + 1} folds of whole {units} (seed"
            f" {settings.seed}); 95% t intervals over sentences",
        ]
        # What the program adds to the baseline by itself may be constant or collinear.
        left_out_of = {model.label: model.baseline.collinear for model in self.models}
        for names in dict.fromkeys(filter(None, left_out_of.values())):
            labels = [label for label, model_names in left_out_of.items() if model_names == names]
            models = f" of {', '.join(labels)}" if len(labels) < len(self.models) else ""
            lines.append(f"left out of the baseline{models}, as constant or collinear: {', '.join(names)}")
        return lines

    def _explain_times(self) -> list[str]:
        times = self.times
        mean = f"{times.values[self.analysed].mean():.4g}"
        if times.is_binary:
            return [
                f"measure: {times.column} of {times.source}, 0 or 1, share of 1 {mean}; logistic regression of 1",
                "log-likelihood of a word: mean over its values; limits and logarithms of times do not apply",
            ]
        return [f"reading time: {'log ' if self.settings.log else ''}{times.column} of {times.source}, mean {mean}"]

    def _explain_baseline(self) -> str:
        names = [name for name in self.predictors if "_spline_" not in name or name in self.settings.predictors]
        smooth = f"; splines with {self.settings.smooth} knots" if len(names) < len(self.predictors) else ""
        if self.settings.unknown == "keep":
            names.append("indicators of unknown words")
        if any(TOKENS in (term.name for term in model.baseline.coefficients) for model in self.models):
            names.append("number of the model's tokens")
        return f"baseline: {', '.join(names)}{smooth}; frequencies from {self.frequencies.source}"

    def word_table(self) -> WordTable:
        """Return one row per displayed word: input columns, time, predictors, `analysed`, `fold`, and each model's
        surprisal.

        Columns of a model are surprisal_NAME_CONTEXT, in_vocabulary_NAME_CONTEXT, and those of previous words.
        """
        times = {"reading_time": self.times.values, "times": self.times.counts, "analysed": self.analysed}
        added = positions(self.words) | times
        added["fold"] = [None if fold < 0 else fold + 1 for fold in self.fold.tolist()]
        known = {*added, *self.settings.predictors}
        added |= {name: values for name, values in self.predictors.items() if name not in known}
        for model in self.models:
            suffix = f"_{model.name}_{model.context}"
            columns = score_columns(model.scores, suffix)
            columns[f"{TOKENS}{suffix}"] = model.scores.token_counts.astype(float)
            added |= with_previous(columns, self.words, self.settings.spillover)
        return WordTable.of(self.words, added)

    def export(self, path: str | Path, subject: str | None = None) -> Path:
        """Write a table with a row per subject and word, for mixed models, and a script for R, whose path is returned.

        Predictors are also scaled, and those of previous words stand beside them.

        Args:
            path: the table, .csv or otherwise separated by tabs; the script has the same name and ends in .R
            subject: column of the subjects in the table of times; None: the first of the usual names

        Raises:
            InputError: the table of times has no such column, or the file cannot be written.
        """
        scores = {model.label: model.scores for model in self.models}
        data = Exported(self.words, self.times, self.analysed, self.predictors, scores, self.settings)
        return export(data, path, subject)

    @property
    def unit(self) -> str:
        """What the times are, for the picture."""
        if self.times.is_binary:
            return f"share of 1, {self.times.column}"
        return f"log {self.times.column}" if self.settings.log else self.times.column

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Plot:
        """Return mean reading time by surprisal: a panel per model, over the same words and axes, four in a row.

        Args:
            ax: axes of matplotlib to draw on, one per model, instead of a new figure

        Raises:
            InputError: matplotlib is not installed.
        """
        return plot_binned_means({model.label: model.bins for model in self.models}, self.unit, ax)

    def write_picture(self, path: Path, theme: Theme = "auto") -> None:
        """Write the plot as .svg, .pdf or .png, or with the figures as a page, .html. Raises InputError."""
        check_picture(path)
        blocks = PageFigure(self.plot()), Preformatted("figures", str(self))
        page = Page("Reading time by surprisal", (Section("", blocks),))
        write_picture(path, self.plot, lambda: page.html(theme), lambda: "", theme)

    def _repr_svg_(self) -> str | None:
        return self.plot().svg() if has_matplotlib() else None


def _unit(predictor: str) -> str:
    """Return the unit of a measure, of the word or of a previous word."""
    name = re.sub(r"^previous_|_\d+$", "", predictor)
    return "bit" if name in PARTS or "bits" in MEASURES[name].meaning else "unit"


def _columns(coefficients: Sequence[str]) -> Columns:
    """Return the columns of a report.

    Args:
        coefficients: names of the measures of a word and of previous words.
    """
    columns = {
        "model": Column("text", "name of the model"),
        "context": Column("text", "reset or carry"),
        "regression": Column("text", "linear or, for a measure of 0 and 1, logistic"),
        "words": Column("integer", "number of analysed words"),
        "unknown_words": Column("integer", "number of displayed words that the model does not know"),
        "surprisal": Column("number", "mean surprisal of the analysed words, bits"),
        "delta_log_likelihood": Column(
            "number", "gain in log-likelihood of held-out words, nats per word; in a logistic regression, of one value"
        ),
        "low": Column("number", "lower end of the 95% interval of the gain"),
        "high": Column("number", "upper end of the 95% interval of the gain"),
    }
    for name in coefficients:
        columns[f"{name}_coefficient"] = Column(
            "number", f"increase of the time, in a logistic regression of the log odds of 1, per {_unit(name)}"
        )
        columns[f"{name}_standard_error"] = Column("number", "standard error of the coefficient")
    return Columns("reading times", "model and context", columns)
