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
Goodkind & Bicknell 2018). Both are ordinary least squares with normal errors or, for a measure of 0 and 1 such as
skipping, logistic regressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast, overload

from syntaxlm.core.errors import InputError, listed
from syntaxlm.core.option_names import option_name
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.arguments import check_names, check_table, models_by_name, names_of, suggests_parameters
from syntaxlm.data.displayed_words import DisplayedWords, Times, displayed_words, join_times
from syntaxlm.data.frequencies import Frequencies, FrequencySource
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.reading_measures import measure_names, time_columns
from syntaxlm.evaluation.options import PARTS, RegressionSettings
from syntaxlm.evaluation.reading_measures import ReadingMeasuresReport
from syntaxlm.evaluation.reading_times_report import ReadingTimesReport
from syntaxlm.evaluation.time_regressions import (
    ModelResult,
    RegressionData,
    baseline_predictors,
    model_result,
    regression_data,
)
from syntaxlm.parsing.word_measures import word_scorer
from syntaxlm.scoring.options import Context, Measure
from syntaxlm.scoring.word_table import (
    WordScores,
    check_scores_words,
    default_context,
    score_words_with_measures,
)
from syntaxlm.statistics.regression import require_statsmodels
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import Contractions, Punctuation, TextOptions

Contexts = Literal["reset", "carry", "both"]


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
            corpora is found; several: each has its own regressions and rows in the report. A column of 0 and 1, such
            as "skip", has logistic regressions.
        word_column: the column of words.
        sentence: see `displayed_words`.
        group: see `displayed_words`.
        order: see `displayed_words`.
        key: columns of both tables that identify a word; None: all that both have, see `join_times`.
        context: "reset", "carry" (models that read sentence by sentence are reset), "both" (two results per model that
            can carry its state), or None: each as it was trained, if `group` is given, and otherwise "reset".
        minimum: times below are left out. Limits and logarithms do not apply to columns of 0 and 1.
        maximum: times above are left out.
        allow_unmatched: whether more than 5% of the rows of times may belong to no displayed word.
        settings: of the regressions.
        punctuation: how punctuation marks are split off before a model reads the text, see `TextOptions`.
        contractions: how contractions are split before a model reads the text, see `TextOptions`.

    Raises:
        InputError: for wrong tables and settings, for models without token probabilities, for rates of skipping, if
            too few words are left, if predictors separate 0 and 1 in a logistic regression, and if statsmodels is not
            installed (extra `stats`).

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
    check_models(named, settings)
    displayed, joined_times = _timed_words(
        words, times, time_column, word_column, sentence, group, order, key, settings.log, minimum, maximum,
        allow_unmatched,
    )  # fmt: skip
    report = _reporter(named, displayed, Frequencies.read(frequencies), context, settings, style)
    return report(*joined_times.values()) if isinstance(time_column, str) else _of_measures(joined_times, report)


def check_models(models: Mapping[str, ModelBundle], settings: RegressionSettings) -> None:
    """Raise InputError for a model without the measures of the regressions, before tables are read."""
    for bundle in models.values():
        check_scores_words(bundle, _further_measures(settings))


def _further_measures(settings: RegressionSettings) -> list[Measure]:
    """Return the measures of the regressions that are not parts of the surprisal."""
    return [cast(Measure, measure) for measure in settings.measures if measure not in PARTS]


def _reporter(
    models: Mapping[str, ModelBundle],
    words: DisplayedWords,
    frequencies: Frequencies,
    context: Contexts | None,
    settings: RegressionSettings,
    style: TextOptions,
) -> Callable[[Times], ReadingTimesReport]:
    """Score the words by all models, and return the function that reports on regressions of reading times on them."""
    predictors = baseline_predictors(words, frequencies, settings)
    runs = _runs(models, words, context)
    scores = _scored(runs, words, settings, style)

    def report(times: Times) -> ReadingTimesReport:
        data = regression_data(words, times, settings, predictors, scores)
        results = _regressions(data, runs, scores)
        return ReadingTimesReport(**vars(data), frequencies=frequencies, style=style, models=results)

    return report


def _of_measures(times: Mapping[str, Times], report: Callable[[Times], ReadingTimesReport]) -> ReadingMeasuresReport:
    """Return the reports of several reading measures. Raises InputError, which names the measure."""
    reports = dict[str, ReadingTimesReport]()
    for name, of_measure in times.items():
        try:
            reports[name] = report(of_measure)
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
    """Read the displayed words, and their reading times by measure. Parameters: see `evaluate_reading_times`.

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
    limits = {"--min-time": minimum is not None, "--max-time": maximum is not None, "--log-times": log}
    for option in (name for name, is_given in limits.items() if is_given):
        if all(of_column.is_binary for of_column in joined_times.values()):
            raise InputError(
                f"{option_name(option)}: found with {listed(columns)}, which has only 0 and 1; expected times. Omit it"
            )
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
    measures = _further_measures(settings)
    return [
        score_words_with_measures(bundle, words, style, context, measures, name, rows_of=word_scorer)
        for name, bundle, context in progress_bar(runs, "scoring, models")
    ]


def _regressions(data: RegressionData, runs: Sequence[_Run], scores: Sequence[WordScores]) -> tuple[ModelResult, ...]:
    """Return the regressions on the surprisals of each run."""
    return tuple(
        model_result(data, name, bundle.name, of_run) for (name, bundle, _), of_run in zip(runs, scores, strict=True)
    )
