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
from syntaxlm.evaluation.significance import Accuracy, compare_credits
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
        "chance": Column("number", "accuracy with independent, equally distributed surprisals of all regions", PERCENT),
    },
)
_ITEM_SETS = {"all": "all items", "words_known": "items with all words known"}  # that accuracies are of
_MEANS = {"accuracy": "mean over suites", "mean_over_predictions": "mean over suites and predictions"}
FORMULA_CHARACTERS = 80  # characters of a formula in a table


class RegionSurprisal(NamedTuple):
    """A region's surprisal in bits, the sum over its words; 0 for a region without words.

    Attributes:
        known: whether the model has read the region, and knows all its words.
    """

    bits: float
    known: bool


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
        compared: dict[str, dict[str, BootstrapResult]] = {}
        for other in others:
            sets = {"all": np.ones(len(first.correct), np.bool_), "words_known": first.all_known & other.all_known}
            compared[other.name] = {
                words: compare_credits(other.correct[members].astype(float), first.correct[members].astype(float))
                for words, members in sets.items()
                if members.any()
            }
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
            [
                f"{name} compared with {self.models[0].name}, {_ITEM_SETS[words]}: {result}"
                for name, results in self.against_first.items()
                for words, result in results.items()
            ],
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
            "by_suite": {
                scores.suite.name: {
                    "circuit": scores.suite.circuit,
                    **_by_words([scores]),
                    "predictions": [
                        {"formula": alone.suite.predictions[0].formula, **_by_words([alone])}
                        for alone in scores.predictions
                    ],
                }
                for scores in model.suites
            },
        }

    def _warnings(self) -> list[str]:
        foreign = [model.name for model in self.models if model.all_known.mean() < FEW_KNOWN]
        if not foreign:
            return []
        return [f"hardly any item has only words in the vocabulary of {', '.join(foreign)}"]

    def _tables(self, models: Sequence[Mapping[str, Any]]) -> list[ReportTable]:
        """Return the totals, then accuracies by circuit, suite, and prediction of suites with several."""
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
        tables = [ReportTable({"accuracy (number of items)": "", **{model["model"]: RIGHT for model in models}}, rows)]
        headings = {f"{model['model']}\n{title}": PERCENT for model in models for title in ("all", "known")}

        def row(title: str, figures: Sequence[Mapping[str, Any]]) -> list[Any]:
            accuracies = (figure[words]["accuracy"] for figure in figures for words in _ITEM_SETS)
            return [title, figures[0]["all"]["items"], figures[0]["chance"], *accuracies]

        by_level: dict[str, list[list[Any]]] = {"circuit": [], "suite": [], "prediction": []}
        for circuit in self.circuits:
            by_level["circuit"].append(row(circuit, [model["by_circuit"][circuit] for model in models]))
        for suite in self.suites:
            suite_figures = [model["by_suite"][suite.name] for model in models]
            by_level["suite"].append(row(suite.name, suite_figures))
            for place, prediction in enumerate(suite.predictions if len(suite.predictions) > 1 else ()):
                title = f"{suite.name}, {place + 1}: {shortened(prediction.formula, FORMULA_CHARACTERS)}"
                by_level["prediction"].append(
                    row(title, [suite_figure["predictions"][place] for suite_figure in suite_figures])
                )
        headings = {"items": ",", "chance": PERCENT, **headings}
        return tables + [ReportTable({level: "", **headings}, rows) for level, rows in by_level.items()]

    def details(self) -> Iterator[dict[str, Any]]:
        """Yield every item with each model's results.

        surprisal: of each condition's regions, by their numbers, in bits.
        """
        for place, suite in enumerate(self.suites):
            for number, item in enumerate(suite.items):
                yield {
                    **{"file": suite.source, "suite": suite.name, "item": item.name},
                    "sentences": {name: condition.sentence for name, condition in item.conditions.items()},
                    "models": {
                        model.name: {
                            "correct": bool(scores.correct[number]),
                            "words_known": bool(scores.all_known[number]),
                            "predictions": scores.holds[:, number],
                            "surprisal": {
                                name: {region: part.bits for region, part in parts.items()}
                                for name, parts in scores.regions[number].items()
                            },
                        }
                        for model in self.models
                        for scores in [model.suites[place]]
                    },
                }


def _by_words(suites: Sequence[SuiteScores]) -> dict[str, Any]:
    """Return the figures of one or more suites for both sets of items: the accuracies are means over suites."""
    figures: dict[str, Any] = {"chance": _mean(scores.suite.chance for scores in suites)}
    for words in _ITEM_SETS:
        accuracies = [scores.accuracy(words) for scores in suites]
        prediction_means = [
            _mean(prediction.accuracy(words).fraction for prediction in scores.predictions) for scores in suites
        ]
        # The accuracy of several suites is a mean, so it has no binomial interval.
        interval = accuracies[0].interval if len(suites) == 1 else None
        low, high = interval or (None, None)
        figures[words] = {
            "accuracy": _mean(accuracy.fraction for accuracy in accuracies),
            "low": low,
            "high": high,
            "mean_over_predictions": _mean(prediction_means),
            "correct": sum(accuracy.correct for accuracy in accuracies),
            "items": sum(accuracy.items for accuracy in accuracies),
        }
    return figures


def _mean(fractions: Iterable[float | None]) -> float | None:
    """Return the mean of the fractions that are not None; None if there are none."""
    values = [fraction for fraction in fractions if fraction is not None]
    return float(np.mean(values)) if values else None


def _rows(figures: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a model from its figures for JSON."""
    places: list[tuple[str, str, str, int | None, Mapping[str, Any]]] = [("all", "", "", None, figures)]
    places += [("circuit", name, "", None, one) for name, one in figures["by_circuit"].items()]
    for name, suite in figures["by_suite"].items():
        places.append(("suite", suite["circuit"], name, None, suite))
        places += [("prediction", suite["circuit"], name, n, one) for n, one in enumerate(suite["predictions"], 1)]
    for level, circuit, suite, number, one in places:
        for words in _ITEM_SETS:
            place = {"level": level, "circuit": circuit, "suite": suite, "prediction": number, "words": words}
            yield {"model": figures["model"], **place, **one[words], "chance": one["chance"]}


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
            {name: region_surprisals(one, words[one.sentence]) for name, one in item.conditions.items()}
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
    are_known: dict[int, list[bool]] = {number: [] for number in numbers}
    for word in words:
        if word.word and word.surprisal is not None and word.in_vocabulary is not None:
            number = numbers[bisect_right(starts, word.begin) - 1]
            bits[number] += word.surprisal
            are_known[number].append(word.in_vocabulary)
    # A region with text but without scored words was dropped by the normaliser: unknown. An empty one has nothing
    # that is unknown.
    known = {number: bool(flags) and all(flags) for number, flags in are_known.items()}
    return {number: RegionSurprisal(value, known.get(number, True)) for number, value in bits.items()}
