"""How well surprisal predicts reading times: several models in one table, on the same words.

Baseline predictors of a word: its length in characters, its log frequency, its position in the sentence and in the
group (story), columns that the user names, and length and log frequency of the previous words. Every model adds its
surprisal of the word and of the previous words. Words are left out for all models if one of them cannot be compared:
see `RegressionSettings.unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.tables import dataframe
from syntaxlm.drawing.charts import BinnedMean, binned_means_picture
from syntaxlm.drawing.files import check_format, write_picture
from syntaxlm.drawing.page import Section, html_page
from syntaxlm.drawing.svg import Picture, Theme
from syntaxlm.evaluation.displayed_words import (
    DisplayedWords,
    Frequencies,
    Table,
    Times,
    WordScores,
    WordTable,
    check_spillover,
    displayed_words,
    frequencies_of,
    join_times,
    joined,
    positions,
    previous_name,
    score_columns,
    score_words,
    values_of,
    with_previous,
    word_properties,
)
from syntaxlm.scoring.options import Context
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import AUTO_STYLE

# Regressions of reading times on surprisal, and the gain in log-likelihood on held-out words.
#
# The baseline regression has all predictors except surprisal. Delta log-likelihood is the mean, over held-out words, of
# the difference between the log-likelihood of a word's reading time under the regression with surprisal and under the
# baseline (Frank & Bod 2011; Goodkind & Bicknell 2018). Both are ordinary least squares with normal errors.


Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Predictors = Mapping[str, Numbers]
FoldUnit = Literal["sentence", "group"]

SAMPLES = 10_000  # of the bootstrap
_DRAWN = 2_000_000  # resampled sentences in memory at a time
_TOLERANCE = 1e-7  # share of a predictor's variation that earlier ones must leave unexplained


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a regression of all rows. p_value: two-sided, of a t-test."""

    name: str
    value: float
    standard_error: float
    t: float
    p_value: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Regression:
    """A regression of all rows.

    log_likelihood: in-sample, natural, summed over rows.  r_squared: explained share of the variance.
    collinear: predictors that were left out because they are constant or linear combinations of earlier ones.
    """

    coefficients: tuple[Coefficient, ...]
    log_likelihood: float
    r_squared: float
    collinear: tuple[str, ...] = ()

    def coefficient(self, name: str) -> Coefficient | None:
        return next((one for one in self.coefficients if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "log_likelihood": self.log_likelihood,
            "r_squared": self.r_squared,
            "collinear": list(self.collinear),
            "coefficients": [one.to_dict() for one in self.coefficients],
        }


def require_statsmodels() -> Any:
    """Return the class OLS of statsmodels. Raises InputError if the library is not installed."""
    try:
        from statsmodels.regression.linear_model import OLS
    except ModuleNotFoundError as error:
        raise InputError(
            f"regressions of reading times need statsmodels ({error.name} is not installed): pip install"
            " 'syntaxlm[stats]'"
        ) from None
    return OLS


def independent(predictors: Predictors) -> tuple[dict[str, Numbers], tuple[str, ...]]:
    """Return the predictors that are neither constant nor linear combinations of earlier ones, and the names of the
    others.
    """
    kept: dict[str, Numbers] = {}
    left_out: list[str] = []
    basis: list[Numbers] = []
    for name, values in predictors.items():
        centred = values - values.mean()
        scale = float(np.linalg.norm(centred))
        rest = centred
        for one in basis * 2:  # twice, against rounding
            rest = rest - (one @ rest) * one
        if scale <= 1e-12 * max(1.0, float(np.abs(values).max())) or np.linalg.norm(rest) <= _TOLERANCE * scale:
            left_out.append(name)
        else:
            kept[name] = values
            basis.append(rest / np.linalg.norm(rest))
    return kept, tuple(left_out)


def fit(times: Numbers, predictors: Predictors) -> Regression:
    """Return the regression of all rows, with an intercept. times: (r,).  predictors: (r,) each."""
    kept, left_out = independent(predictors)
    result = require_statsmodels()(times, _design(kept)).fit()
    columns = zip(result.params, result.bse, result.tvalues, result.pvalues, strict=True)
    coefficients = tuple(
        Coefficient(name, *map(float, values)) for name, values in zip(["intercept", *kept], columns, strict=True)
    )
    return Regression(coefficients, float(result.llf), float(result.rsquared), left_out)


def held_out_log_likelihood(times: Numbers, predictors: Predictors, folds: Integers) -> Numbers:
    """Return the natural log-likelihood of each row under the regression of the rows of all other folds: (r,).

    folds: (r,) the fold of each row.
    """
    regression = require_statsmodels()
    design = _design(independent(predictors)[0])
    found = np.empty(len(times))
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        result = regression(times[~inside], design[~inside]).fit()
        variance = float(result.scale)
        error = times[inside] - design[inside] @ result.params
        found[inside] = -0.5 * (np.log(2 * math.pi * variance) + error**2 / variance)
    return found


def _design(predictors: Predictors) -> Numbers:
    count = len(next(iter(predictors.values())))
    return np.column_stack([np.ones(count), *predictors.values()])


def assigned_folds(units: Integers, count: int, seed: int) -> Integers:
    """Return the fold, from 0, of each row; all rows of a unit (sentence or group) are in one fold.

    Units are assigned at random, so that the folds have nearly equal numbers of units; with fewer units than `count`,
    each unit is a fold.
    """
    distinct, index = np.unique(units, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    return (order % min(count, len(distinct)))[index]


def bootstrap_mean(values: Numbers, units: Integers, seed: int, samples: int = SAMPLES) -> Interval:
    """Return the mean of the values with a 95% percentile interval, by a bootstrap over units (sentences).

    values, units: (r,).  The interval is NaN for fewer than 2 units.
    """
    mean = float(values.mean())
    _, index = np.unique(units, return_inverse=True)
    sums, sizes = np.bincount(index, weights=values), np.bincount(index).astype(float)
    count = len(sums)
    if count < 2:
        return Interval(mean, math.nan, math.nan)
    generator = np.random.default_rng(seed)
    step = max(1, _DRAWN // count)
    drawn = []
    for first in range(0, samples, step):
        places = generator.integers(count, size=(min(step, samples - first), count), dtype=np.int32)
        drawn.append(sums[places].sum(1) / sizes[places].sum(1))
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975]).tolist()
    return Interval(mean, low, high)


def means_of_folds(values: Numbers, folds: Integers) -> list[float]:
    return [float(values[folds == fold].mean()) for fold in np.unique(folds).tolist()]


def check_rows(rows: int, predictors: int, folds: Sequence[int] | Integers) -> None:
    """Raise InputError if there are too few rows for the regressions, or fewer than two folds."""
    fewest = 5 * (predictors + 1)
    if rows < fewest:
        raise InputError(
            f"found {rows:,} words for the regression with {predictors} predictors; expected at least {fewest}. Words"
            " are left out if they have no time, follow too few words, or if a model does not know them or a previous"
            " word"
        )
    if len(set(folds)) < 2:
        raise InputError("found one fold; expected at least 2 sentences, or 2 groups with --fold-unit group")


Unknown = Literal["exclude", "keep"]
Contexts = Literal["reset", "carry", "both"]

BINS = 10  # of the picture, with equal numbers of words
_UNKNOWN = "unknown"  # the indicator of unknown words


@dataclass(frozen=True)
class RegressionSettings:
    """The settings of the regressions.

    log: whether the times are natural logarithms.  spillover: number of previous words whose properties and surprisal
    are predictors.
    unknown: "exclude" leaves out every word that a model does not know, and the `spillover` words after it, for all
    models; "keep" keeps them, with indicators of unknown words in the baseline and the regression of each model.
    keep_last: keep the last word of each group, whose time often includes the end of the text (a pause, a question).
    predictors: numeric columns of the words' table that the baseline has, too.
    folds: number of folds of the cross-validation.  fold_unit: what a fold never splits: sentences, or groups.
    seed: of the assignment to folds and of the bootstrap.
    """

    log: bool = False
    spillover: int = 1
    unknown: Unknown = "exclude"
    keep_last: bool = False
    predictors: tuple[str, ...] = ()
    folds: int = 10
    fold_unit: FoldUnit = "sentence"
    seed: int = 0

    def __post_init__(self) -> None:
        check_spillover(self.spillover)
        if self.folds < 2:
            raise InputError(f"folds: found {self.folds}; expected 2 or more")
        for name, choices in (("unknown", get_args(Unknown)), ("fold_unit", get_args(FoldUnit))):
            if getattr(self, name) not in choices:
                raise InputError(f"{name}: found {getattr(self, name)!r}; expected {' or '.join(choices)}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"predictors": list(self.predictors)}


@dataclass(frozen=True)
class ModelResult:
    """The result of one model.

    scores: of all displayed words.  mean_surprisal: bits, over the analysed words.
    delta: held-out delta log-likelihood in nats per word, with its 95% interval by a bootstrap over sentences.
    deltas: (r,) of each analysed word.  fold_deltas: the means of the folds.
    baseline, regression: of all analysed words.  bins: reading time by surprisal.
    """

    name: str
    model_type: str
    scores: WordScores
    mean_surprisal: float
    delta: Interval
    deltas: Numbers
    fold_deltas: tuple[float, ...]
    baseline: Regression
    regression: Regression
    bins: tuple[BinnedMean, ...]

    @property
    def context(self) -> Context:
        return "carry" if self.scores.carries else "reset"

    @property
    def label(self) -> str:
        return f"{self.name}, {self.context}"

    @property
    def unknown_words(self) -> int:
        """Number of displayed words that the model reads but does not know."""
        return int((self.scores.is_read & ~self.scores.known).sum())

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "model_type": self.model_type,
            "context": self.context,
            "unknown_words": self.unknown_words,
            "words_not_read": int((~self.scores.is_read).sum()),
            "long_sentences": self.scores.long_sentences,
            "mean_surprisal": self.mean_surprisal,
            "delta_log_likelihood": self.delta.to_dict(),
            "fold_delta_log_likelihoods": list(self.fold_deltas),
            "in_sample_delta_log_likelihood": (self.regression.log_likelihood - self.baseline.log_likelihood)
            / len(self.deltas),
            "baseline": self.baseline.to_dict(),
            "regression": self.regression.to_dict(),
            "binned_means": [one._asdict() for one in self.bins],
        }


class Difference(NamedTuple):
    """Delta log-likelihood of a model minus that of the first model."""

    label: str
    difference: Interval


@dataclass(frozen=True)
class ReadingTimesReport:
    """The figures of several models on the same words.

    analysed: (n,) whether each displayed word is in the regressions.  excluded: number of words left out, by reason.
    fold: (n,) the fold of each analysed word, from 0; -1 for others.
    predictors: of the baseline, (n,) each.
    """

    words: DisplayedWords
    times: Times
    frequencies: Frequencies
    settings: RegressionSettings
    style: TextOptions
    analysed: npt.NDArray[np.bool_]
    fold: Integers
    excluded: Mapping[str, int]
    predictors: Mapping[str, Numbers]
    models: tuple[ModelResult, ...]

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Each other model minus the first, with 95% intervals by a paired bootstrap over sentences."""
        first, *others = self.models
        units, seed = self.words.sentences[self.analysed], self.settings.seed
        return tuple(Difference(one.label, bootstrap_mean(one.deltas - first.deltas, units, seed)) for one in others)

    @property
    def count(self) -> int:
        """Number of analysed words."""
        return int(self.analysed.sum())

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON. Log-likelihoods are in nats, per word unless stated; surprisals in bits."""
        times = self.times.values[self.analysed]
        return {
            "schema_version": 1,
            "words": {
                "source": self.words.table.source,
                "words": len(self.words),
                "sentences": int(self.words.sentences[-1]) + 1,
                "groups": int(self.words.groups[-1]) + 1,
                "group_column": self.words.group_column,
                "sentence_column": self.words.sentence_column,
                **{f"excluded_{reason.replace(' ', '_')}": count for reason, count in self.excluded.items()},
                "analysed": self.count,
            },
            "times": {
                "source": self.times.source,
                "column": self.times.column,
                "key": list(self.times.key),
                "mean": float(times.mean()),
                "std": float(times.std(ddof=1)),
                "out_of_range": self.times.left_out,
                "unmatched_rows": self.times.unmatched,
            },
            "frequencies": {"source": self.frequencies.source, "words": self.frequencies.total},
            "settings": self.settings.to_dict(),
            "punctuation": self.style.punctuation,
            "contractions": self.style.contractions,
            "baseline_predictors": list(self.predictors),
            "folds": int(self.fold.max()) + 1,
            "models": [one.to_dict() for one in self.models],
            "minus_first": [{"model": one.label, **one.difference.to_dict()} for one in self.differences],
        }

    def word_table(self) -> WordTable:
        """Return one row per displayed word: input columns, time, predictors, `analysed`, `fold`, and each model's
        surprisal.

        Columns of a model are surprisal_NAME_CONTEXT, in_vocabulary_NAME_CONTEXT, and those of previous words.
        """
        own: dict[str, Sequence[Any]] = positions(self.words)
        own["reading_time"] = values_of("", self.times.values)
        own["times"] = self.times.counts.tolist()
        own["analysed"] = self.analysed.tolist()
        own["fold"] = [None if fold < 0 else fold + 1 for fold in self.fold.tolist()]
        own |= {
            name: values_of(name, values)
            for name, values in self.predictors.items()
            if name not in (*own, *self.settings.predictors)
        }
        for one in self.models:
            columns = score_columns(one.scores, f"_{one.name}_{one.context}")
            own |= with_previous(columns, self.words, self.settings.spillover, rounded=True)
        return WordTable(self.words, joined(self.words, own))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row per model, with its main figures."""
        for one in self.models:
            row = {"model": one.name, "context": one.context, "words": self.count, "surprisal": one.mean_surprisal}
            row |= {"delta_log_likelihood": one.delta.value, "low": one.delta.low, "high": one.delta.high}
            for name in self._surprisal_names:
                found = one.regression.coefficient(name)
                row[f"{name}_coefficient"] = None if found is None else found.value
                row[f"{name}_standard_error"] = None if found is None else found.standard_error
            yield row

    def to_dataframe(self) -> Any:
        """Return `rows` as a data frame. Raises InputError if neither pandas nor polars is installed."""
        return dataframe(self.rows())

    def picture(self) -> Picture:
        """Return mean reading time by surprisal: one chart per model, over the same words."""
        unit = f"log {self.times.column}" if self.settings.log else self.times.column
        return binned_means_picture({one.label: one.bins for one in self.models}, "surprisal, bits", unit)

    def svg(self, theme: Theme = "auto") -> str:
        return self.picture().svg(theme)

    def write_picture(self, path: Path, theme: Theme = "auto") -> None:
        """Write the picture as .svg or .png, or with the figures as a page, .html. Raises InputError."""
        check_picture(path)
        section = Section("", (self.picture(),), preformatted={"figures": str(self)})
        write_picture(
            path, self.picture, lambda: html_page("Reading time by surprisal", [section], theme), lambda: "", theme
        )

    def _repr_svg_(self) -> str:
        return self.svg()

    @property
    def _surprisal_names(self) -> list[str]:
        return [previous_name("surprisal", lag) for lag in range(self.settings.spillover + 1)]

    def __str__(self) -> str:
        return "\n".join([*self._heading(), "", *self._table(), *self._differences()])

    def _heading(self) -> list[str]:
        words, times, settings = self.words, self.times, self.settings
        groups = f"   {words.group_column} {words.groups[-1] + 1:,}" if words.group_column else ""
        found = "" if words.sentence_column else " (found from punctuation)"
        left_out = [f"{count:,} {reason}" for reason, count in self.excluded.items() if count]
        values = times.values[self.analysed]
        by_group = f"texts ({words.group_column})" if words.group_column else "texts"
        unit = "sentences" if settings.fold_unit == "sentence" else by_group
        indicators = "" if settings.unknown == "exclude" else ", indicators of unknown words"
        lines = [
            f"{words.table.source}   words {len(words):,}   sentences {words.sentences[-1] + 1:,}{found}{groups}",
            f"analysed: {self.count:,} words" + (f"; left out: {', '.join(left_out)}" if left_out else ""),
            f"reading time: {'log ' if settings.log else ''}{times.column} of {times.source}, mean {values.mean():.4g}",
            f"baseline: {', '.join(self.predictors)}{indicators}; frequencies from {self.frequencies.source}",
            f"delta log-likelihood: of held-out words, {self.fold.max() + 1} folds of whole {unit} (seed"
            f" {settings.seed}); 95% intervals by bootstrap over sentences",
        ]
        if times.left_out:
            lines.append(f"times outside the limits, left out: {times.left_out:,}")
        if times.unmatched:
            lines.append(f"warning: {times.unmatched:,} rows of {times.source} do not belong to a displayed word")
        if collinear := self.models[0].baseline.collinear:
            lines.append(f"left out of the baseline, as constant or collinear: {', '.join(collinear)}")
        return lines

    def _table(self) -> list[str]:
        coefficients = [name.replace("_", " ") for name in self._surprisal_names]
        heads = [
            ["model", "context", "unknown", "surprisal", "delta log-lik.", "95% interval", *coefficients],
            ["", "", "words", "bits/word", "10^-3 nats/word", "", *["per bit (s.e.)"] * len(coefficients)],
        ]
        rows = []
        for one in self.models:
            cells = [one.name, one.context, f"{one.unknown_words:,}", f"{one.mean_surprisal:.2f}"]
            cells += [f"{1000 * one.delta.value:.2f}", _interval(one.delta)]
            for name in self._surprisal_names:
                found = one.regression.coefficient(name)
                cells.append("-" if found is None else f"{found.value:.3g} ({found.standard_error:.2g})")
            rows.append(cells)
        table = [*heads, *rows]
        widths = [max(len(row[place]) for row in table) for place in range(len(heads[0]))]
        return [
            "   ".join(
                cell.ljust(width) if place < 2 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]

    def _differences(self) -> list[str]:
        first = self.models[0].label
        lines = [
            f"{one.label} minus {first}: {1000 * one.difference.value:+.2f}  95% interval {_interval(one.difference)}"
            for one in self.differences
        ]
        return ["", *lines] if lines else []


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "-"
    return f"{1000 * interval.low:.2f} to {1000 * interval.high:.2f}"


def check_picture(path: Path) -> None:
    """Raise InputError for a picture file with another extension than .svg, .png or .html."""
    if check_format(path) == ".tex":
        raise InputError(f"{path}: found the extension '.tex'; expected one of .svg, .png, .html")


def evaluate_reading_times(
    models: Mapping[str, ModelBundle],
    words: Any,
    times: Any = None,
    *,
    frequencies: str | Path | Frequencies,
    time_column: str = "time",
    word_column: str = "word",
    sentence: str | None = None,
    group: str | None = None,
    key: Sequence[str] | None = None,
    context: Contexts | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    style: TextOptions = AUTO_STYLE,
    settings: RegressionSettings | None = None,
) -> ReadingTimesReport:
    """Measure how well the surprisals of models predict reading times, on the same words.

    models: by name.  words: a table with one displayed word per row, in the order of reading; a file or a data frame,
        see `Table.read`.  times: a table with reading times; None: the table of words has them.
    frequencies: a word list, or a text whose words are counted, see `Frequencies.read`.
    time_column, word_column: names of columns.  sentence, group: see `displayed_words`.  key: see `join_times`.
    context: "reset", "carry" (models that read sentence by sentence are reset), "both" (two results per model that can
        carry its state), or None: each as it was trained.
    minimum, maximum: times outside are left out.  style: see `score_words`.
    Raises InputError for wrong tables and settings, if too few words are left, and if statsmodels is not installed.
    """
    settings = settings or RegressionSettings()
    if not models:
        raise InputError("found no model; expected one model or more")
    require_statsmodels()
    displayed = displayed_words(Table.read(words), word_column, group, sentence)
    table = None if times is None else Table.read(times)
    joined_times = join_times(displayed, table, time_column, key, settings.log, minimum, maximum, word_column)
    listed = frequencies_of(frequencies)
    predictors = _baseline(displayed, listed, settings)
    read = [(name, stored, one) for name, stored in models.items() for one in _contexts(stored, context)]
    scores = [
        (name, stored, score_words(stored, displayed, one, style))
        for name, stored, one in progress_bar(read, "scoring, models")
    ]
    analysed, excluded = _analysed(displayed, joined_times, predictors, [one for _, _, one in scores], settings)
    units = (displayed.sentences if settings.fold_unit == "sentence" else displayed.groups)[analysed]
    folds = assigned_folds(units, settings.folds, settings.seed) if len(units) else units
    check_rows(len(units), len(predictors) + settings.spillover + 1, folds.tolist())
    results = [
        _result(name, stored.name, one, displayed, joined_times.values, predictors, analysed, folds, settings)
        for name, stored, one in scores
    ]
    fold = np.full(len(displayed), -1, np.int64)
    fold[analysed] = folds
    return ReadingTimesReport(
        displayed, joined_times, listed, settings, style, analysed, fold, excluded, predictors, tuple(results)
    )


def _contexts(stored: ModelBundle, context: Contexts | None) -> list[Context | None]:
    if context is None:
        return [None]
    if stored.model.reads == "sentences":
        return ["reset"]
    return ["reset", "carry"] if context == "both" else [context]


def _baseline(words: DisplayedWords, frequencies: Frequencies, settings: RegressionSettings) -> dict[str, Numbers]:
    own = with_previous(word_properties(words, frequencies), words, settings.spillover)
    own |= {"word_in_sentence": words.in_sentence.astype(float), "word_in_group": words.in_group.astype(float)}
    for name in settings.predictors:
        if name in own:
            raise InputError(f"--predictor {name}: the baseline has a predictor of this name; rename the column")
        own[name] = words.table.numbers(name, "--predictor")[words.rows]
    return own


def _analysed(
    words: DisplayedWords,
    times: Times,
    predictors: Mapping[str, Numbers],
    scores: Sequence[WordScores],
    settings: RegressionSettings,
) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Return which words are in the regressions, and the numbers of the others by reason; the first reason counts."""
    known = np.logical_and.reduce([one.known for one in scores])
    is_read = np.logical_and.reduce([one.is_read for one in scores])

    def window(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return whether all words of the spill-over window have a property."""
        columns = with_previous({"flag": flags.astype(float)}, words, settings.spillover).values()
        return np.logical_and.reduce([column == 1 for column in columns])

    own = [values for name, values in predictors.items() if name in settings.predictors]
    reasons = {
        "without time": np.isnan(times.values),
        "at the start of a text": words.in_group <= settings.spillover,
        "at the end of a text": np.diff(words.groups, append=-1) != 0,
        "without predictor": np.isnan(own).any(0) if own else np.zeros(len(words), bool),
        "not read": ~is_read,
        "after a word not read": ~window(is_read),
    }
    if settings.keep_last:
        del reasons["at the end of a text"]
    if settings.unknown == "exclude":
        reasons |= {"unknown": ~known, "after an unknown word": ~window(known)}
    left = np.ones(len(words), bool)
    excluded = {}
    for reason, flags in reasons.items():
        excluded[reason] = int((left & flags).sum())
        left &= ~flags
    if left.any() and np.ptp(times.values[left]) == 0:
        raise InputError(
            f"{times.source}: all analysed times of column {times.column} are {times.values[left][0]:g}; a regression"
            " needs times that differ"
        )
    return left, excluded


def _result(
    name: str,
    model_type: str,
    scores: WordScores,
    words: DisplayedWords,
    times: Numbers,
    predictors: Mapping[str, Numbers],
    analysed: npt.NDArray[np.bool_],
    folds: Integers,
    settings: RegressionSettings,
) -> ModelResult:
    baseline = dict(predictors)
    if settings.unknown == "keep":
        baseline |= with_previous({_UNKNOWN: (~scores.known).astype(float)}, words, settings.spillover)
    surprisals = with_previous({"surprisal": scores.surprisal}, words, settings.spillover)
    before = {key: values[analysed] for key, values in baseline.items()}
    after = before | {key: values[analysed] for key, values in surprisals.items()}
    observed = times[analysed]
    deltas = held_out_log_likelihood(observed, after, folds) - held_out_log_likelihood(observed, before, folds)
    bits = scores.surprisal[analysed]
    return ModelResult(
        name,
        model_type,
        scores,
        float(bits.mean()),
        bootstrap_mean(deltas, words.sentences[analysed], settings.seed),
        deltas,
        tuple(means_of_folds(deltas, folds)),
        fit(observed, before),
        fit(observed, after),
        tuple(binned_means(bits, observed)),
    )


def binned_means(x: Numbers, y: Numbers, bins: int = BINS) -> Iterator[BinnedMean]:
    """Yield means of y in bins of x with nearly equal numbers of values, with 95% intervals of 1.96 standard errors."""
    order = np.argsort(x, kind="stable")
    for part in np.array_split(order, min(bins, max(1, len(x) // 2))):
        values = y[part]
        mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
        yield BinnedMean(float(x[part].mean()), mean, mean - 1.96 * error, mean + 1.96 * error, len(values))
