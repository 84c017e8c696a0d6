"""Regressions of the reading times of displayed words on the surprisals of a model, and what they are compared with.

The regressions are linear, or logistic for measures of 0 and 1, such as whether a word was skipped.
`syntaxlm.evaluation.reading_times` says which predictors they have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError, listed
from syntaxlm.core.option_names import option_name
from syntaxlm.data.displayed_words import DisplayedWords, Times
from syntaxlm.data.frequencies import Frequencies
from syntaxlm.evaluation.options import RegressionSettings
from syntaxlm.scoring.options import Context
from syntaxlm.scoring.word_table import WordScores, previous_name, score_columns, with_previous, word_properties
from syntaxlm.statistics.intervals import Interval, mean_interval
from syntaxlm.statistics.regression import (
    INTERCEPT,
    Predictors,
    Regression,
    assigned_folds,
    dependences,
    fit,
    held_out_log_likelihood,
    spline_terms,
)

BINS = 10  # of the picture, with equal numbers of words
TOKENS = "tokens"  # the number of tokens of a word
UNKNOWN = "unknown"  # the indicator of unknown words
_SMOOTH = ("length", "log_frequency")
_EDGE = 0.05  # quantiles of the first knot, and from above, of the last


@dataclass(frozen=True)
class RegressionData:
    """The words and times of regressions, the same for all models.

    Attributes:
        predictors: the predictors of the baseline, (n,) each.
        analysed: (n,) whether each displayed word is in the regressions.
        excluded: number of words left out, by reason.
        fold: (n,) the fold of each analysed word, from 0; -1 for others.
    """

    words: DisplayedWords
    times: Times
    settings: RegressionSettings
    predictors: Predictors
    analysed: Flags
    excluded: Mapping[str, int]
    fold: Integers


def smooth_terms(predictors: Predictors, rows: Flags, spillover: int, count: int) -> dict[str, Numbers]:
    """Return the nonlinear terms of length and log frequency of the word and of previous words, (n,) each.

    Args:
        rows: (n,) the words whose quantiles are the knots.
        count: number of knots; a predictor has fewer if quantiles are equal, and no term if fewer than 3 differ.
    """
    terms: dict[str, Numbers] = {}
    for name in (previous_name(name, lag) for lag in range(spillover + 1) for name in _SMOOTH):
        values = predictors[name]
        knots = np.unique(np.quantile(values[rows], np.linspace(_EDGE, 1 - _EDGE, count))) if rows.any() else values[:0]
        if len(knots) < 3:
            continue
        terms |= {f"{name}_spline_{number}": term for number, term in enumerate(spline_terms(values, knots), 1)}
    return terms


class BinnedMean(NamedTuple):
    """A bin.

    Attributes:
        x: mean of its x values.
        mean: mean of its y values.
        low: lower end of the interval of the mean.
        high: upper end of the interval of the mean.
        size: number of values.
    """

    x: float
    mean: float
    low: float
    high: float
    size: int


def binned_means(x: Numbers, y: Numbers, bins: int = BINS) -> Iterator[BinnedMean]:
    """Yield means of y in bins of x with nearly equal numbers of values, with 95% intervals."""
    order = np.argsort(x, kind="stable")
    for rows in np.array_split(order, min(bins, max(1, len(x) // 2))):
        yield BinnedMean(float(x[rows].mean()), *mean_interval(y[rows]), len(rows))


@dataclass(frozen=True)
class ModelResult:
    """The result of one model.

    Attributes:
        scores: the scores of all displayed words.
        mean_surprisal: bits, over the analysed words.
        delta: held-out delta log-likelihood in nats per word, with its 95% interval over sentences. In a logistic
            regression, the log-likelihood of a word is the mean over its observations.
        deltas: (r,) of each analysed word.
        fold_deltas: the means of the folds.
        split_words: number of analysed words that the model reads as several tokens.
        token_gain: held-out gain of the baseline from the numbers of tokens.
        baseline: the baseline regression of all analysed words.
        regression: the regression with the measures of all analysed words.
        gains: with several measures, the held-out gain of each over the regression with all others.
        bins: reading time by surprisal.
    """

    name: str
    model_type: str
    scores: WordScores
    mean_surprisal: float
    delta: Interval
    deltas: Numbers
    fold_deltas: tuple[float, ...]
    split_words: int
    token_gain: Interval
    baseline: Regression
    regression: Regression
    gains: Mapping[str, Interval]
    bins: tuple[BinnedMean, ...]

    @property
    def context(self) -> Context:
        return self.scores.context

    @property
    def label(self) -> str:
        return f"{self.name}, {self.context}"

    @property
    def unknown_words(self) -> int:
        """Number of displayed words that the model reads but does not know."""
        return int((self.scores.is_read & ~self.scores.known).sum())

    def to_dict(self) -> dict[str, Any]:
        gain = self.regression.log_likelihood - self.baseline.log_likelihood
        return {
            "model": self.name,
            "model_type": self.model_type,
            "context": self.context,
            "unknown_words": self.unknown_words,
            "words_not_read": int((~self.scores.is_read).sum()),
            "long_sentences": self.scores.long_sentences,
            "mean_surprisal": self.mean_surprisal,
            "delta_log_likelihood": self.delta,
            "fold_delta_log_likelihoods": self.fold_deltas,
            "words_of_several_tokens": self.split_words,
            "measure_delta_log_likelihoods": self.gains,
            "token_count_delta_log_likelihood": self.token_gain,
            "in_sample_delta_log_likelihood": gain / self.regression.observations,
            "baseline": self.baseline,
            "regression": self.regression,
            "binned_means": self.bins,
        }


def baseline_predictors(
    words: DisplayedWords, frequencies: Frequencies, settings: RegressionSettings
) -> dict[str, Numbers]:
    """Return the predictors of the baseline, (n,) each. Raises InputError for two predictors of the same name."""
    predictors = with_previous(word_properties(words, frequencies), words, settings.spillover)
    predictors["word_in_sentence"] = words.position_in(words.sentences).astype(float)
    predictors["word_in_group"] = words.position_in(words.groups).astype(float)

    # A column may not have the name of a term that may be added later: one of them would replace the other.
    lags = range(settings.spillover + 1)
    later = {previous_name(name, lag) for name in (TOKENS, UNKNOWN, *settings.measures) for lag in lags}
    splines = tuple(f"{previous_name(name, lag)}_spline_" for name in _SMOOTH for lag in lags)
    for name in settings.predictors:
        if name in predictors or name in later or name == INTERCEPT or name.startswith(splines):
            raise InputError(
                f"{option_name('--predictor', name)}: the baseline has a predictor of this name; rename the column"
            )
        predictors[name] = words.table.numbers(name, "--predictor")[words.rows]
    return predictors


def analysed_words(
    words: DisplayedWords, times: Times, predictors: Predictors, scores: Sequence[WordScores],
    settings: RegressionSettings,
) -> tuple[Flags, dict[str, int]]:  # fmt: skip
    """Return which words are in the regressions, and the numbers of the others by reason; the first reason counts."""
    known = np.logical_and.reduce([model_scores.known for model_scores in scores])
    is_read = np.logical_and.reduce([model_scores.is_read for model_scores in scores])
    measures = [score_columns(model_scores)[name] for model_scores in scores for name in settings.measures]
    has_measures = np.logical_and.reduce([~np.isnan(values) for values in measures])

    def window(flags: Flags) -> Flags:
        """Return whether all words of the spill-over window have a property."""
        columns = with_previous({"flag": flags.astype(float)}, words, settings.spillover).values()
        return np.logical_and.reduce([column == 1 for column in columns])

    missing = np.zeros(len(words), bool)
    for name in settings.predictors:
        missing |= np.isnan(predictors[name])
    reasons = {
        "without time": np.isnan(times.values),
        "at the start of a passage": words.position_in(words.groups) <= settings.spillover,
        "at the end of a passage": np.diff(words.groups, append=-1) != 0,
        "without predictor": missing,
        "not read": ~is_read,
        "after a word not read": ~window(is_read),
        "without a measure": ~window(has_measures),
    }
    if settings.keep_last:
        del reasons["at the end of a passage"]
    if settings.unknown == "exclude":
        reasons |= {"unknown": ~known, "after an unknown word": ~window(known)}
    analysed = np.ones(len(words), bool)
    excluded = {}
    for reason, flags in reasons.items():
        excluded[reason] = int((analysed & flags).sum())
        analysed &= ~flags
    if analysed.any() and np.ptp(times.values[analysed]) == 0:
        raise InputError(
            f"{times.source}: all analysed {times.what} of column {times.column} are {times.values[analysed][0]:g}; a"
            f" regression needs {times.what} that differ"
        )
    return analysed, excluded


def regression_data(
    words: DisplayedWords,
    times: Times,
    settings: RegressionSettings,
    predictors: Mapping[str, Numbers],
    scores: Sequence[WordScores],
) -> RegressionData:
    """Return the words that all models can be compared on, their predictors and folds.

    Args:
        predictors: see `baseline_predictors`.
        scores: the scores of each model.

    Raises:
        InputError: if there are too few words, or nearly all of them are in one fold.
    """
    analysed, excluded = analysed_words(words, times, predictors, scores, settings)
    predictors = {**predictors, **smooth_terms(predictors, analysed, settings.spillover, settings.smooth)}
    units = (words.sentences if settings.fold_unit == "sentence" else words.groups)[analysed]
    vary = any(len(np.unique(model_scores.token_counts[analysed])) > 1 for model_scores in scores)
    count = len(predictors) + (settings.spillover + 1) * (len(settings.measures) + vary)
    fewest = 5 * (count + 1)
    if len(units) < fewest:
        raise InputError(
            f"found {len(units):,} words for the regression with {count} predictors; expected at least {fewest}."
            " Words are left out if they have no time, follow too few words, or if a model does not know them or a"
            " previous word"
        )

    # Cross-validation over sentences or groups, the same folds for all models.
    fold = np.full(len(words), -1, np.int64)
    fold[analysed] = assigned_folds(units, settings.folds, settings.seed)
    if not fold.max():
        raise InputError(
            "too few words for cross-validation: found one fold; expected at least 2 sentences, or 2 groups with"
            f" {option_name('--fold-unit', 'group')}"
        )

    # The times of the largest fold are predicted from all other words.
    others = len(units) - int(np.bincount(fold[analysed]).max())
    if others < 2 * (count + 1):
        raise InputError(
            f"found {others:,} words outside the largest fold for the regression with {count} predictors; expected at"
            f" least {2 * (count + 1)}. Folds consist of whole {settings.fold_unit}s, and one has most of the words."
            f" Use more {settings.fold_unit}s"
        )
    return RegressionData(words, times, settings, predictors, analysed, excluded, fold)


def _refuse_dependent(predictors: Predictors, settings: RegressionSettings, model: str) -> None:
    """Raise InputError for a chosen measure or column that the other predictors determine.

    The predictors that the program adds by itself, such as the position in a passage of one sentence, may depend on
    others: without them the regression is the same.

    Args:
        predictors: of the analysed words, the measures last.
        model: the name of the model.
    """
    lags = range(settings.spillover + 1)
    options: dict[str, tuple[str, str]] = {}
    options |= {previous_name(name, lag): ("--measure", name) for name in settings.measures for lag in lags}
    options |= {name: ("--predictor", name) for name in settings.predictors}
    for name, others in dependences(predictors).items():
        if name not in options:
            continue
        option, chosen = options[name]
        owner = f" of {model}" if option == "--measure" else ""
        found = f"{option_name(option, chosen)}: in the analysed words, {name}{owner} is"
        if not others:
            raise InputError(f"{found} {predictors[name][0]:g} everywhere; expected values that differ. Omit it")
        raise InputError(
            f"{found} a linear combination of {listed(others)}; expected values that add to the others. Omit one of"
            " them"
        )


def model_result(data: RegressionData, name: str, model_type: str, scores: WordScores) -> ModelResult:
    """Fit the regressions of one model."""
    analysed = data.analysed
    settings = data.settings
    observed = data.times.values[analysed]
    folds = data.fold[analysed]
    sentences = data.words.sentences[analysed]
    trials = data.times.counts[analysed] if data.times.is_binary else None

    # The baseline, without and with the numbers of tokens in which the model reads the words.
    without_tokens = {predictor: values[analysed] for predictor, values in data.predictors.items()}
    if settings.unknown == "keep":
        without_tokens |= _with_spillover(data, {UNKNOWN: (~scores.known).astype(float)})
    token_counts = scores.token_counts[analysed]
    has_tokens = bool(np.ptp(token_counts))
    baseline = without_tokens
    if has_tokens:
        baseline = without_tokens | _with_spillover(data, {TOKENS: scores.token_counts.astype(float)})

    # All predictors: the baseline and the measures of the model.
    measures: dict[str, Numbers] = {measure: score_columns(scores)[measure] for measure in settings.measures}
    predictors = baseline | _with_spillover(data, measures)
    _refuse_dependent(predictors, settings, name)

    def held_out(predictors: Predictors) -> Numbers:
        return held_out_log_likelihood(observed, predictors, folds, trials)

    # What the measures and the numbers of tokens add for held-out words.
    without_token_log_likelihoods = held_out(without_tokens)
    baseline_log_likelihoods = held_out(baseline) if has_tokens else without_token_log_likelihoods
    log_likelihoods = held_out(predictors)
    deltas = log_likelihoods - baseline_log_likelihoods
    gains: dict[str, Interval] = {}
    for left_out in measures if len(measures) > 1 else ():
        others = {measure: values for measure, values in measures.items() if measure != left_out}
        gain = log_likelihoods - held_out(baseline | _with_spillover(data, others))
        gains[left_out] = mean_interval(gain, sentences)

    bits = scores.surprisal[analysed]
    return ModelResult(
        name=name,
        model_type=model_type,
        scores=scores,
        mean_surprisal=float(bits.mean()),
        delta=mean_interval(deltas, sentences),
        deltas=deltas,
        fold_deltas=tuple(float(deltas[folds == fold].mean()) for fold in np.unique(folds)),
        split_words=int((token_counts > 1).sum()),
        token_gain=mean_interval(baseline_log_likelihoods - without_token_log_likelihoods, sentences),
        baseline=fit(observed, baseline, trials),
        regression=fit(observed, predictors, trials),
        gains=gains,
        bins=tuple(binned_means(bits, observed)),
    )


def _with_spillover(data: RegressionData, columns: Predictors) -> dict[str, Numbers]:
    """Return values of the analysed words, and those of the words before them."""
    previous = with_previous(columns, data.words, data.settings.spillover)
    return {name: values[data.analysed] for name, values in previous.items()}
