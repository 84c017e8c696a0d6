"""Targeted syntactic evaluation by regions: how often do a suite's predictions about surprisals hold?

An item is correct if all predictions of its suite hold. The accuracy of several suites is the mean over suites. Each
sentence is read by itself, and ends of sentences belong to no region. Hu et al. 2020, "A Systematic Assessment of
Syntactic Generalization in Neural Language Models", section 3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from syntaxlm.core.arrays import Flags, Numbers
from syntaxlm.core.errors import shortened
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.arguments import files_of, models_by_name, names_of, suggests_parameters
from syntaxlm.data.suites import Condition, Region, Suite, read_suites
from syntaxlm.evaluation.completion import FEW_KNOWN
from syntaxlm.evaluation.significance import Accuracy, compare_accuracies, comparison_notes
from syntaxlm.models.abilities import ScoresTokens
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, RIGHT, Column, Columns, ReportTable, format_value
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import WordSurprisal, surprisals
from syntaxlm.statistics.bootstrap import BootstrapResult
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.doubts import warn_of_doubts
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.reader import TextReader

SUITE_ACCURACIES = Columns(
    "test suites",
    "model, level (all suites, circuit, suite or prediction) and set of words",
    {
        "model": Column("text", "name of the model"),
        "level": Column("text", "all, circuit, suite or prediction"),
        "circuit": Column("text", "name of the circuit, a group of suites; empty for all"),
        "suite": Column("text", "name of the suite; empty for all and circuits"),
        "prediction": Column("integer", "number of the prediction in its suite, from 1; missing for other levels"),
        "words": Column("text", "items that are counted: all, or words_known"),
        "accuracy": Column("number", "share of correct items, 0 to 1; over several suites, their mean", PERCENT),
        "low": Column("number", "lower end of the 95% interval of the accuracy; missing over several suites", PERCENT),
        "high": Column("number", "upper end of the 95% interval", PERCENT),
        "mean_over_predictions": Column("number", "mean share of items for which a prediction holds", PERCENT),
        "correct": Column("integer", "number of items for which all predictions hold"),
        "items": Column("integer", "number of items"),
        "chance": Column(
            "number",
            "accuracy with independent, equally distributed surprisals of all regions; the mean of the suites that have"
            " such items",
            PERCENT,
        ),
    },
)
_ITEM_SETS = {"all": "all items", "words_known": "items with all words known"}  # that accuracies are of
_MEANS = {"accuracy": "mean over suites", "mean_over_predictions": "mean over suites and predictions"}
FORMULA_CHARACTERS = 80  # characters of a formula in a table


class RegionSurprisal(NamedTuple):
    """A region's surprisal in bits, the sum over its words; 0 for a region without words.

    Attributes:
        bits: 0 also for words of which the model reads nothing, so that sums of regions do not need them.
        known: whether the model knows all its words, and reads one if it has any.
        is_read: whether the region has no words, or the model reads one.
    """

    bits: float
    known: bool
    is_read: bool = True


@dataclass(frozen=True, eq=False)
class SuiteScores:
    """One model's results on a suite.

    Attributes:
        regions: for each item, the region surprisals by condition and region number.
        holds: whether each prediction is true for each item, (predictions, items).
        known: (predictions, items), whether all words of the prediction's regions are known.
    """

    suite: Suite
    regions: tuple[dict[str, dict[int, RegionSurprisal]], ...]
    holds: Flags
    known: Flags

    @classmethod
    def of(cls, suite: Suite, regions: Sequence[dict[str, dict[int, RegionSurprisal]]]) -> SuiteScores:
        """Evaluate the predictions of a suite.

        Args:
            regions: see the class.
        """

        def of_items(region: Region) -> Iterator[list[RegionSurprisal]]:
            for item in regions:
                numbered = item[region.condition]
                yield list(numbered.values()) if region.number is None else [numbered[region.number]]

        def surprisal(region: Region) -> Numbers:
            return np.array([sum(part.bits for part in parts) for parts in of_items(region)])

        def is_known(region: Region) -> Flags:
            return np.array([all(part.known for part in parts) for parts in of_items(region)])

        holds = [prediction.holds(surprisal) for prediction in suite.predictions]
        known = [np.all([*map(is_known, prediction.regions)], axis=0) for prediction in suite.predictions]
        return cls(suite, tuple(regions), np.array(holds), np.array(known))

    @property
    def correct(self) -> Flags:
        """Whether all predictions hold, (items,)."""
        return np.logical_and.reduce(self.holds)

    @property
    def all_known(self) -> Flags:
        """Whether all words of the predictions' regions are known, (items,)."""
        return np.logical_and.reduce(self.known)

    @property
    def predictions(self) -> list[SuiteScores]:
        """The results of each prediction alone."""
        return [
            SuiteScores(replace(self.suite, predictions=(prediction,)), self.regions, self.holds[[n]], self.known[[n]])
            for n, prediction in enumerate(self.suite.predictions)
        ]

    def accuracy(self, words: str) -> Accuracy:
        """Return the share of correct items.

        Args:
            words: which items: all, or words_known.
        """
        return Accuracy.of(self.correct[self.all_known | (words == "all")])

    def details_of_item(self, number: int) -> dict[str, Any]:
        """Return the results of an item, counted from 0, for JSON."""
        surprisal = {
            condition: {region: part.bits if part.is_read else None for region, part in parts.items()}
            for condition, parts in self.regions[number].items()
        }
        return {
            "correct": bool(self.correct[number]),
            "words_known": bool(self.all_known[number]),
            "predictions": self.holds[:, number],
            "surprisal": surprisal,
        }


@dataclass(frozen=True, eq=False)
class ModelSuites:
    """One model's results on all suites.

    Attributes:
        name: the name of the model.
    """

    name: str
    suites: tuple[SuiteScores, ...]

    @property
    def correct(self) -> Flags:
        """Whether all predictions hold, for the items of all suites, (n,)."""
        return np.concatenate([scores.correct for scores in self.suites])

    @property
    def all_known(self) -> Flags:
        """Whether all words of the predictions' regions are known, for the items of all suites, (n,)."""
        return np.concatenate([scores.all_known for scores in self.suites])

    def of_circuit(self, circuit: str) -> list[SuiteScores]:
        return [scores for scores in self.suites if scores.suite.circuit == circuit]


@dataclass(frozen=True, eq=False)
class SuitesReport(HasReport):
    """The results of several models on the same suites.

    Attributes:
        sources: the files.
        options: how words are split before the models' normalisers read them.
    """

    suites: tuple[Suite, ...]
    models: tuple[ModelSuites, ...]
    sources: tuple[str, ...]
    options: TextOptions

    @property
    def circuits(self) -> list[str]:
        """The circuits of the suites."""
        return list(dict.fromkeys(suite.circuit for suite in self.suites))

    @cached_property
    def against_first(self) -> dict[str, dict[str, BootstrapResult]]:
        """The share of correct items of every other model compared with the first, by model name, then by set of words.

        Sets: "all"; "words_known", the items whose words both models know, if any.
        """
        first, *others = self.models
        compared = {}
        for model in others:
            sets = {"all": np.ones(len(first.correct), np.bool_), "words_known": first.all_known & model.all_known}
            compared[model.name] = compare_accuracies(model.correct, first.correct, sets)
        return compared

    def report(self) -> Report:
        """Return the accuracies of all models: over all suites, and by circuit, suite and prediction."""
        counts = {
            "suites": len(self.suites),
            "items": sum(len(suite.items) for suite in self.suites),
            "sentences": len(_sentences(self.suites)),
        }
        models = list(map(self._figures_of, self.models))
        return Report(
            SUITE_ACCURACIES,
            [row for figures in models for row in _rows(figures)],
            {
                "schema_version": 1,
                "files": self.sources,
                **counts,
                "punctuation": self.options.punctuation,
                "contractions": self.options.contractions,
                "models": models,
                "against_first": self.against_first,
            },
            counts,
            [
                "an item is correct if all predictions of its suite hold; the accuracy of several suites is their mean",
                "surprisal of a region: sum over its words; each sentence is read by itself, its end is left out",
                f"text: {self.options}; then each model's own normaliser",
            ],
            self._tables(models),
            comparison_notes(self.against_first, self.models[0].name, _ITEM_SETS),
            warnings=self._warnings(),
            data=self.sources,
        )

    def _figures_of(self, model: ModelSuites) -> dict[str, Any]:
        """Return the figures of a model for JSON."""
        return {
            "model": model.name,
            **_by_words(model.suites),
            "unknown_words": int(np.count_nonzero(~model.all_known)),
            "by_circuit": {circuit: _by_words(model.of_circuit(circuit)) for circuit in self.circuits},
            "by_suite": {scores.suite.name: _figures_of_suite(scores) for scores in model.suites},
        }

    def _warnings(self) -> list[str]:
        foreign = [model.name for model in self.models if model.all_known.mean() < FEW_KNOWN]
        if not foreign:
            return []
        return [f"hardly any item has only words in the vocabulary of {', '.join(foreign)}"]

    def _tables(self, models: Sequence[Mapping[str, Any]]) -> list[ReportTable]:
        """Return the totals, then accuracies by circuit, suite, and prediction of suites with several."""
        return [self._totals(models), *self._tables_by_level(models)]

    def _totals(self, models: Sequence[Mapping[str, Any]]) -> ReportTable:
        """Return a column for each model, with means over suites and with accuracies over all items."""
        rows: list[list[Any]] = [
            [
                f"{title}{'' if words == 'all' else ', words known'}",
                *(format_value(model[words][key], PERCENT) for model in models),
            ]
            for key, title in _MEANS.items()
            for words in _ITEM_SETS
        ]
        totals = [
            [Accuracy(model[words]["correct"], model[words]["items"]) for model in models] for words in _ITEM_SETS
        ]
        rows += [[title, *map(str, accuracies)] for title, accuracies in zip(_ITEM_SETS.values(), totals, strict=True)]
        rows.append(["mean over suites, by chance", *(format_value(model["chance"], PERCENT) for model in models)])
        return ReportTable({"accuracy (number of items)": "", **{model["model"]: RIGHT for model in models}}, rows)

    def _tables_by_level(self, models: Sequence[Mapping[str, Any]]) -> list[ReportTable]:
        """Return a table of circuits, one of suites, and one of the predictions of suites with several."""

        def row(title: str, figures: Sequence[Mapping[str, Any]]) -> list[Any]:
            accuracies = (figure[words]["accuracy"] for figure in figures for words in _ITEM_SETS)
            return [title, figures[0]["all"]["items"], figures[0]["chance"], *accuracies]

        circuits = [row(circuit, [model["by_circuit"][circuit] for model in models]) for circuit in self.circuits]
        suites, predictions = [], []
        for suite in self.suites:
            suite_figures = [model["by_suite"][suite.name] for model in models]
            suites.append(row(suite.name, suite_figures))
            for place, prediction in enumerate(suite.predictions if len(suite.predictions) > 1 else ()):
                title = f"{suite.name}, {place + 1}: {shortened(prediction.formula, FORMULA_CHARACTERS)}"
                predictions.append(row(title, [figures["predictions"][place] for figures in suite_figures]))

        headings = {"items": ",", "chance": PERCENT}
        headings |= {f"{model['model']}\n{title}": PERCENT for model in models for title in ("all", "known")}
        levels = {"circuit": circuits, "suite": suites, "prediction": predictions}
        return [ReportTable({level: "", **headings}, rows) for level, rows in levels.items()]

    def details(self) -> Iterator[dict[str, Any]]:
        """Yield every item with each model's results.

        surprisal: of each condition's regions, by their numbers, in bits; None for words of which nothing is read.
        """
        for place, suite in enumerate(self.suites):
            for number, item in enumerate(suite.items):
                yield {
                    **{"file": suite.source, "suite": suite.name, "item": item.name},
                    "sentences": {name: condition.sentence for name, condition in item.conditions.items()},
                    "models": {model.name: model.suites[place].details_of_item(number) for model in self.models},
                }


def _figures_of_suite(scores: SuiteScores) -> dict[str, Any]:
    """Return the figures of a suite and its predictions for JSON."""
    predictions = [
        {"formula": prediction.suite.predictions[0].formula, **_by_words([prediction])}
        for prediction in scores.predictions
    ]
    return {"circuit": scores.suite.circuit, **_by_words([scores]), "predictions": predictions}


def _by_words(suites: Sequence[SuiteScores]) -> dict[str, Any]:
    """Return the figures of one or more suites for both sets of items: the accuracies are means over suites."""
    figures: dict[str, Any] = {"chance": _mean(scores.suite.chance for scores in suites)}
    for words in _ITEM_SETS:
        accuracies = [scores.accuracy(words) for scores in suites]
        prediction_means = [
            _mean(prediction.accuracy(words).fraction for prediction in scores.predictions) for scores in suites
        ]
        # The accuracy of several suites is a mean over those with items, so it has no binomial interval.
        interval = accuracies[0].interval if len(suites) == 1 else None
        low, high = interval or (None, None)
        figures[words] = {
            "accuracy": _mean(accuracy.fraction for accuracy in accuracies),
            "low": low,
            "high": high,
            "mean_over_predictions": _mean(prediction_means),
            "correct": sum(accuracy.correct for accuracy in accuracies),
            "items": sum(accuracy.items for accuracy in accuracies),
            "chance": _mean(
                scores.suite.chance for scores, accuracy in zip(suites, accuracies, strict=True) if accuracy.items
            ),
        }
    return figures


def _mean(fractions: Iterable[float | None]) -> float | None:
    """Return the mean of the fractions that are not None; None if there are none."""
    values = [fraction for fraction in fractions if fraction is not None]
    return float(np.mean(values)) if values else None


def _rows(figures: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a model from its figures for JSON."""
    model = figures["model"]
    yield from _rows_of_level(model, figures, "all")
    for circuit, circuit_figures in figures["by_circuit"].items():
        yield from _rows_of_level(model, circuit_figures, "circuit", circuit)
    for suite, suite_figures in figures["by_suite"].items():
        circuit = suite_figures["circuit"]
        yield from _rows_of_level(model, suite_figures, "suite", circuit, suite)
        for number, prediction_figures in enumerate(suite_figures["predictions"], 1):
            yield from _rows_of_level(model, prediction_figures, "prediction", circuit, suite, number)


def _rows_of_level(
    model: str, figures: Mapping[str, Any], level: str, circuit: str = "", suite: str = "", number: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a row for each set of items.

    Args:
        number: of the prediction; None for other levels.
    """
    place = {"level": level, "circuit": circuit, "suite": suite, "prediction": number}
    for words in _ITEM_SETS:
        yield {"model": model, **place, "words": words, **figures[words]}


@suggests_parameters
@keeps_readings
def evaluate_suites(
    models: ModelBundle | Mapping[str, ModelBundle],
    files: str | Path | Sequence[str | Path],
    *,
    predictions: str | Sequence[str] = (),
    condition: str | Sequence[str] = (),
    regions: str | Sequence[str] = (),
    punctuation: Punctuation = "auto",
    contractions: Contractions = "auto",
) -> SuitesReport:
    """Measure how often predictions about the surprisals of regions hold, and compare the models with the first.

    Every distinct sentence is scored once.

    Args:
        models: one model, or several by name.
        files: JSON files of SyntaxGym, tables (.csv, .tsv), or folders of JSON files.
        predictions: formulas of the predictions of tables, such as "(2;%plural%) < (2;%singular%)".
        condition: the column of conditions of tables, by default "condition"; or several, whose levels are joined in
            formulas: "(2;%sg / pl%)".
        regions: the columns of the regions of tables, in order; by default all other columns.
        punctuation: how punctuation marks are split off before a model reads the text, see `TextOptions`.
        contractions: how contractions are split before a model reads the text, see `TextOptions`.

    Raises:
        InputError: for the reasons of `read_suites`, and for models without token probabilities.

    Examples:
        >>> report = syntaxlm.evaluate_suites(trained, "suite.csv", predictions="(2;%plural%) < (2;%singular%)")
        >>> len(report.suites)
        1
    """
    named, paths = models_by_name(models), files_of(files, "files")
    options = TextOptions(punctuation=punctuation, contractions=contractions)
    columns = names_of(condition, "condition"), names_of(regions, "regions")
    for bundle in named.values():
        bundle.require(ScoresTokens, "scoring of tokens")  # before the files are read
    suites = read_suites(paths, names_of(predictions, "predictions"), *columns)
    scores = [score_suites(bundle, suites, options, name) for name, bundle in named.items()]
    return SuitesReport(tuple(suites), tuple(scores), tuple(map(str, paths)), options)


def score_suites(
    bundle: ModelBundle, suites: Sequence[Suite], options: TextOptions = TextOptions(), name: str = "model"
) -> ModelSuites:
    """Evaluate one model on suites.

    Args:
        name: the name of the model, for the report.
        options: see `evaluate_suites`.
    """
    reading = ScoreOptions(context="reset", punctuation=options.punctuation, contractions=options.contractions)
    sentences = _sentences(suites)
    warn_of_doubts(TextReader.of(bundle.normaliser, bundle.vocabulary, options), sentences, name)
    words = dict(zip(sentences, surprisals(bundle, sentences, reading), strict=True))

    def regions_of(suite: Suite) -> list[dict[str, dict[int, RegionSurprisal]]]:
        return [
            {
                name: region_surprisals(condition, words[condition.sentence])
                for name, condition in item.conditions.items()
            }
            for item in suite.items
        ]

    return ModelSuites(name, tuple(SuiteScores.of(suite, regions_of(suite)) for suite in suites))


def _sentences(suites: Sequence[Suite]) -> list[str]:
    """Return the distinct sentences of suites, in order."""
    items = (item for suite in suites for item in suite.items)
    return list(dict.fromkeys(condition.sentence for item in items for condition in item.conditions.values()))


def region_surprisals(condition: Condition, words: Iterable[WordSurprisal]) -> dict[int, RegionSurprisal]:
    """Return the surprisal of each region of a sentence, by its number.

    Args:
        words: rows of the sentence.
    """
    numbers = list(condition.starts)
    starts = list(condition.starts.values())
    bits = dict.fromkeys(condition.regions, 0.0)
    are_known: dict[int, list[bool]] = {number: [] for number in numbers}  # of regions with text
    for word in words:
        if word.word and word.surprisal is not None and word.in_vocabulary is not None:
            number = numbers[bisect_right(starts, word.begin) - 1]
            bits[number] += word.surprisal
            are_known[number].append(word.in_vocabulary)

    def surprisal(number: int, value: float) -> RegionSurprisal:
        # A region with text but without scored words was dropped by the normaliser: unknown. An empty one has nothing
        # that is unknown.
        if number not in are_known:
            return RegionSurprisal(value, known=True)
        flags = are_known[number]
        return RegionSurprisal(value, known=bool(flags) and all(flags), is_read=bool(flags))

    return {number: surprisal(number, value) for number, value in bits.items()}
