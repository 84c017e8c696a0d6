"""How well surprisal predicts reading times: several models in one table, on the same words.

Baseline predictors of a word: its length in characters and its log frequency, as smooth terms, its position in the
sentence and in the group (story), columns that the user names, and length and log frequency of the previous words. The
baseline of a model also has the number of tokens in which the model reads these words. Every model adds its surprisal
of the word and of the previous words. Words are left out for all models if one of them cannot be compared: see
`RegressionSettings.unknown`.

The number of tokens is in the baseline because surprisal is a sum over tokens: a model that gives all tokens the same
probability, and so has learned nothing, predicts reading times from the number of tokens alone.

Delta log-likelihood is the mean, over held-out words, of the difference between the log-likelihood of a word's reading
time under the regression with surprisal and under the baseline, which has all other predictors (Frank & Bod 2011;
Goodkind & Bicknell 2018). Both are ordinary least squares with normal errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.arguments import check_names, check_table, models_by_name, names_of, suggests_parameters
from syntaxlm.data.displayed_words import DisplayedWords, Times, displayed_words, join_times
from syntaxlm.data.frequencies import Frequencies, FrequencySource
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.reading_measures import measure_names, time_columns
from syntaxlm.drawing.files import check_picture, write_picture
from syntaxlm.drawing.plots import Plot, has_matplotlib
from syntaxlm.evaluation.binned_means import plot_binned_means
from syntaxlm.evaluation.options import PARTS, RegressionSettings
from syntaxlm.evaluation.reading_measures import ReadingMeasuresReport
from syntaxlm.evaluation.reading_times_export import Exported, export
from syntaxlm.evaluation.time_regressions import (
    TOKENS,
    ModelResult,
    RegressionData,
    baseline_predictors,
    model_result,
    regression_data,
)
from syntaxlm.parsing.word_measures import word_measures
from syntaxlm.reports.page import Page, PageFigure, Preformatted, Section, Theme
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import RIGHT, Column, Columns, ReportTable
from syntaxlm.scoring.marks import remark_on_marks
from syntaxlm.scoring.options import TREE_MEASURES, Context, Measure, ScoreOptions
from syntaxlm.scoring.surprisal import MEASURES, surprisals_of
from syntaxlm.scoring.word_table import (
    LineScorer,
    WordScores,
    WordTable,
    default_context,
    positions,
    previous_name,
    score_columns,
    score_words_with_measures,
    with_previous,
)
from syntaxlm.statistics.intervals import Interval, mean_interval
from syntaxlm.statistics.regression import require_statsmodels
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import Contractions, Punctuation, TextOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Contexts = Literal["reset", "carry", "both"]

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
        coefficients = [previous_name(name, lag) for name in self.settings.measures for lag in lags]
        rows, shown = [], []
        for model in self.models:
            row = {"model": model.name, "context": model.context, "words": self.count}
            row |= {"unknown_words": model.unknown_words, "surprisal": model.mean_surprisal}
            row |= {"delta_log_likelihood": model.delta.value, "low": model.delta.low, "high": model.delta.high}
            cells = [model.name, model.context, model.unknown_words, model.mean_surprisal, 1000 * model.delta.value]
            cells.append(model.delta.ends(1000))
            of_name = {coefficient.name: coefficient for coefficient in model.regression.coefficients}
            for name in coefficients:
                coefficient = of_name[name]
                row[f"{name}_coefficient"] = coefficient.value
                row[f"{name}_standard_error"] = coefficient.standard_error
                cells.append(f"{coefficient.value:.3g} ({coefficient.standard_error:.2g})")
            rows.append(row)
            shown.append(cells)
        headings = {"model": "", "context": "", "unknown\nwords": ",", "surprisal\nbits/word": ".2f"}
        headings |= {"delta log-lik.\n10^-3 nats/word": ".2f", "95% interval": RIGHT}
        headings |= {f"{name.replace('_', ' ')}\nper {_unit(name)} (s.e.)": RIGHT for name in coefficients}
        guessed = "" if words.sentence_column else " (found from punctuation)"
        facts = {"words": len(words), "sentences": f"{words.sentences[-1] + 1:,}{guessed}"}
        facts |= {words.group_column: int(words.groups[-1]) + 1} if words.group_column else {}
        differences = [
            f"{label} minus {self.models[0].label}: {1000 * difference.value:+.2f}"
            f"  95% interval {difference.ends(1000)}"
            for label, difference in self.differences.items()
        ]
        return Report(
            _columns(coefficients),
            rows,
            self._figures(),
            facts,
            self._explanation(),
            [ReportTable(headings, shown)],
            differences + self._gain_notes() + self._token_notes(),
            warnings=self._warnings(),
            data=[words.table.source],
        )

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
        texts = f"texts ({words.group_column})" if words.group_column else "texts"
        further = ["indicators of unknown words"] if settings.unknown == "keep" else []
        if any(TOKENS in (term.name for term in model.baseline.coefficients) for model in self.models):
            further.append("number of the model's tokens")
        linear = [name for name in self.predictors if "_spline_" not in name or name in settings.predictors]
        smooth = f"; splines with {settings.smooth} knots" if len(linear) < len(self.predictors) else ""
        contexts = sorted({model.context for model in self.models})
        counted = f"; {', '.join(times.notes)}" if times.notes else ""
        lines = [
            f"times: {int(times.counts.sum()):,} for {int((times.counts > 0).sum()):,} words{counted}",
            f"analysed: {self.count:,} words{f'; left out: {left_out}' if left_out else ''}",
            f"reading time: {'log ' if settings.log else ''}{times.column} of {times.source}, mean"
            f" {times.values[self.analysed].mean():.4g}",
            f"context: {', '.join(contexts)} (reset: each sentence is read by itself; carry: the state is carried"
            " within a passage)",
            f"baseline: {', '.join([*linear, *further])}{smooth}; frequencies from {self.frequencies.source}",
            f"delta log-likelihood: of held-out words, {self.fold.max() + 1} folds of whole"
            f" {'sentences' if settings.fold_unit == 'sentence' else texts} (seed {settings.seed}); 95% t"
            " intervals over sentences",
        ]
        # What the program adds to the baseline by itself may be constant or collinear.
        left_out_of = {model.label: model.baseline.collinear for model in self.models}
        for names in dict.fromkeys(filter(None, left_out_of.values())):
            labels = [label for label, own in left_out_of.items() if own == names]
            of = f" of {', '.join(labels)}" if len(labels) < len(self.models) else ""
            lines.append(f"left out of the baseline{of}, as constant or collinear: {', '.join(names)}")
        return lines

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


def _rows_of(bundle: ModelBundle, options: ScoreOptions) -> LineScorer:
    """Return the function that scores the lines of a text, also with measures of the best tree."""
    if TREE_MEASURES.isdisjoint(options.measures):
        return surprisals_of(bundle, options)
    return partial(word_measures, bundle, options=options)


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
        "words": Column("integer", "number of analysed words"),
        "unknown_words": Column("integer", "number of displayed words that the model does not know"),
        "surprisal": Column("number", "mean surprisal of the analysed words, bits"),
        "delta_log_likelihood": Column("number", "gain in log-likelihood of held-out words, nats per word"),
        "low": Column("number", "lower end of the 95% interval of the gain"),
        "high": Column("number", "upper end of the 95% interval of the gain"),
    }
    for name in coefficients:
        columns[f"{name}_coefficient"] = Column("number", f"increase of the time per {_unit(name)}")
        columns[f"{name}_standard_error"] = Column("number", "standard error of the coefficient")
    return Columns("reading times", "model and context", columns)


@overload
def evaluate_reading_times(
    models: ModelBundle | Mapping[str, ModelBundle],
    words: Any,
    times: Any = ...,
    *,
    frequencies: FrequencySource,
    time_column: str = ...,
    word_column: str = ...,
    sentence: str | None = ...,
    group: str | Sequence[str] | None = ...,
    order: str | None = ...,
    key: str | Sequence[str] | None = ...,
    context: Contexts | None = ...,
    minimum: float | None = ...,
    maximum: float | None = ...,
    allow_unmatched: bool = ...,
    settings: RegressionSettings | None = ...,
    punctuation: Punctuation = ...,
    contractions: Contractions = ...,
) -> ReadingTimesReport: ...
@overload
def evaluate_reading_times(
    models: ModelBundle | Mapping[str, ModelBundle],
    words: Any,
    times: Any = ...,
    *,
    frequencies: FrequencySource,
    time_column: Sequence[str],
    word_column: str = ...,
    sentence: str | None = ...,
    group: str | Sequence[str] | None = ...,
    order: str | None = ...,
    key: str | Sequence[str] | None = ...,
    context: Contexts | None = ...,
    minimum: float | None = ...,
    maximum: float | None = ...,
    allow_unmatched: bool = ...,
    settings: RegressionSettings | None = ...,
    punctuation: Punctuation = ...,
    contractions: Contractions = ...,
) -> ReadingMeasuresReport: ...


@suggests_parameters
@keeps_readings
def evaluate_reading_times(
    models: ModelBundle | Mapping[str, ModelBundle],
    words: Any,
    times: Any = None,
    *,
    frequencies: FrequencySource,
    time_column: str | Sequence[str] = "time",
    word_column: str = "word",
    sentence: str | None = None,
    group: str | Sequence[str] | None = None,
    order: str | None = None,
    key: str | Sequence[str] | None = None,
    context: Contexts | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    allow_unmatched: bool = False,
    settings: RegressionSettings | None = None,
    punctuation: Punctuation = "auto",
    contractions: Contractions = "auto",
) -> ReadingTimesReport | ReadingMeasuresReport:
    """Measure how well surprisal predicts reading times, beyond length, frequency and position, on the same words.

    Args:
        models: one model, or several by name.
        words: a table with one displayed word per row, in the order of reading: a file or a data frame, see
            `InputTable.read`.
        times: a table with reading times; None: the table of words has them.
        frequencies: a word list, or a text whose words are counted, see `Frequencies.read`.
        time_column: the column of times, or the name of a reading measure, such as "go_past", whose column in published
            corpora is found; several: each has its own regressions and rows in the report.
        word_column: the column of words.
        sentence: see `displayed_words`.
        group: see `displayed_words`.
        order: see `displayed_words`.
        key: columns of both tables that identify a word; None: all that both have, see `join_times`.
        context: "reset", "carry" (models that read sentence by sentence are reset), "both" (two results per model that
            can carry its state), or None: each as it was trained, if `group` is given, and otherwise "reset".
        minimum: times below are left out.
        maximum: times above are left out.
        allow_unmatched: whether more than 5% of the rows of times may belong to no displayed word.
        settings: of the regressions.
        punctuation: how punctuation marks are split off before a model reads the text, see `TextOptions`.
        contractions: how contractions are split before a model reads the text, see `TextOptions`.

    Raises:
        InputError: for wrong tables and settings, for models without token probabilities, for columns of times that
            have only 0 and 1, such as skipping, if too few words are left, and if statsmodels is not installed (extra
            `stats`).

    Examples:
        >>> settings = syntaxlm.RegressionSettings(unknown="keep")
        >>> report = syntaxlm.evaluate_reading_times(
        ...     trained, "times.csv", frequencies="corpus/train.txt", group="story", settings=settings
        ... )
        >>> len(report.models)
        1
    """
    named = models_by_name(models)
    settings = settings or RegressionSettings()
    style = TextOptions(punctuation=punctuation, contractions=contractions)
    require_statsmodels()
    displayed, joined_times = _timed_words(
        words, times, time_column, word_column, sentence, group, order, key, settings.log, minimum, maximum,
        allow_unmatched,
    )  # fmt: skip
    listed = Frequencies.read(frequencies)
    predictors = baseline_predictors(displayed, listed, settings)
    runs = _runs(named, displayed, context)
    scores = _scored(runs, displayed, settings, style)

    def report(of_column: Times) -> ReadingTimesReport:
        data = regression_data(displayed, of_column, settings, predictors, scores)
        models = _regressions(data, runs, scores)
        return ReadingTimesReport(**vars(data), frequencies=listed, style=style, models=models)

    if isinstance(time_column, str):
        (times_of_words,) = joined_times.values()
        return report(times_of_words)
    reports = dict[str, ReadingTimesReport]()
    for name, of_column in joined_times.items():
        try:
            reports[name] = report(of_column)
        except InputError as error:
            raise InputError(f"reading measure {name}: {error}") from error
    return ReadingMeasuresReport(reports)


def _timed_words(
    words: Any,
    times: Any,
    time_column: str | Sequence[str],
    word_column: str,
    sentence: str | None,
    group: str | Sequence[str] | None,
    order: str | None,
    key: str | Sequence[str] | None,
    log: bool,
    minimum: float | None,
    maximum: float | None,
    allow_unmatched: bool,
) -> tuple[DisplayedWords, dict[str, Times]]:
    """Read the displayed words and their reading times by measure. The parameters are those of `evaluate_reading_times`.

    Args:
        log: average and return natural logarithms.
    """
    check_table(words, "words")
    if times is not None:
        check_table(times, "times")
    check_names(word_column=word_column, sentence=sentence, order=order)
    given = names_of(time_column, "time_column")
    groups = None if group is None else names_of(group, "group")
    keys = None if key is None else names_of(key, "key")
    displayed = displayed_words(InputTable.unannounced(words), word_column, groups, sentence, order=order)
    table = None if times is None else InputTable.read(times)
    columns = time_columns(displayed.table if table is None else table, given)
    if table is not None and keys is None:
        keys = [name for name in displayed.table.names if name in table.names and name not in (*columns, word_column)]
    joined_times = {
        name: join_times(displayed, table, column, keys, log, minimum, maximum, word_column, allow_unmatched)
        for name, column in zip(measure_names(columns), columns, strict=True)
    }
    return displayed, joined_times


_Run = tuple[str, ModelBundle, Context]
"""A model with its name, and how it reads the words."""


def _runs(models: Mapping[str, ModelBundle], words: DisplayedWords, context: Contexts | None) -> list[_Run]:
    """Return each model in each context that is asked for; models of single sentences are always reset."""
    runs: list[_Run] = []
    for name, bundle in models.items():
        if bundle.model.reads == "sentences":
            runs.append((name, bundle, "reset"))
        elif context == "both":
            runs += [(name, bundle, "reset"), (name, bundle, "carry")]
        else:
            runs.append((name, bundle, context or default_context(bundle, words)))
    return runs


def _scored(
    runs: Sequence[_Run], words: DisplayedWords, settings: RegressionSettings, style: TextOptions
) -> list[WordScores]:
    """Return the scores of the words in each run, with the measures of the settings."""
    measures = [cast(Measure, measure) for measure in settings.measures if measure not in PARTS]
    return [
        score_words_with_measures(bundle, words, style, context, measures, name, rows_of=_rows_of)
        for name, bundle, context in progress_bar(runs, "scoring, models")
    ]


def _regressions(data: RegressionData, runs: Sequence[_Run], scores: Sequence[WordScores]) -> tuple[ModelResult, ...]:
    """Return the regressions on the surprisals of each run."""
    return tuple(
        model_result(data, name, bundle.name, of_run) for (name, bundle, _), of_run in zip(runs, scores, strict=True)
    )
