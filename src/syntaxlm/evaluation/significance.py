"""Is one model better than another? Accuracies with intervals, and a test that resamples seeds and scored items.

The test reads the files that `--details` of the evaluations writes: one JSON line per sentence, pair or question. A
file is one seed of a model; a file of minimal pairs or questions with several models has one seed per model. Parsers
can also be compared with right branching, whose trees need no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, NonNegativeInt

from syntaxlm.core.arrays import Flags, Numbers
from syntaxlm.core.declarations import Bounds
from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import parse_json, repeated_file
from syntaxlm.core.reading import ReadingReport, announce
from syntaxlm.core.text_files import read_lines, source_name
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, Column, Columns, ReportTable, format_value
from syntaxlm.statistics.bootstrap import BootstrapResult, RunScores, compare_runs
from syntaxlm.trees.baselines import SeedScores, run_scores
from syntaxlm.trees.bounds import right
from syntaxlm.trees.f1 import PROTOCOLS, score
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import parse_brackets

BOOTSTRAP_SAMPLES = 10_000
RIGHT_BRANCHING = "right-branching"
"""Stands for the second model: right-branching trees of the same sentences."""

_ITEM_WIDTH = 100  # characters of an item in a message
_NORMAL_QUANTILE = 1.959963984540054  # of 97.5%

Credits = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on a number of items, such as minimal pairs or questions.

    Attributes:
        correct: number of correct items; a question whose correct candidate ties with k - 1 others counts 1/k.
    """

    correct: float
    items: int

    @classmethod
    def of(cls, credits: Credits | Flags) -> Accuracy:
        """Return the accuracy of credits from 0 to 1, (n,), or of flags."""
        return cls(credits.sum().item(), len(credits))

    @property
    def fraction(self) -> float | None:
        """The accuracy, 0 to 1; None if there are no items."""
        return self.correct / self.items if self.items else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% score interval of a binomial proportion (Wilson 1927); None if there are no items.

        The credits of ties vary less than a binomial's outcomes, so the interval covers them, too. statsmodels has this
        interval, but is not required for accuracies.
        """
        fraction = self.fraction
        if fraction is None:
            return None
        size, squared = self.items, _NORMAL_QUANTILE**2
        middle = (fraction + squared / (2 * size)) / (1 + squared / size)
        spread = math.sqrt(fraction * (1 - fraction) / size + squared / (4 * size**2)) / (1 + squared / size)
        return max(0.0, middle - _NORMAL_QUANTILE * spread), min(1.0, middle + _NORMAL_QUANTILE * spread)

    def __str__(self) -> str:
        """Return the percentage and the number of items."""
        return f"{format_value(self.fraction, PERCENT)} {f'({self.items:,})':>9}"


def compare_credits(first: Credits, second: Credits) -> BootstrapResult:
    """Compare the credits of two models on the same items with a paired bootstrap.

    This is `trees.compare_runs` of single runs for many items with few distinct differences: the number of times that
    each difference is drawn has a multinomial distribution, so no single items are drawn.

    Args:
        first: (n,), credits of the first model, from 0 to 1.
        second: (n,), credits of the second model, from 0 to 1.
    """
    values, counts = np.unique(first - second, return_counts=True)
    drawn = np.random.default_rng(0).multinomial(len(first), counts / len(first), BOOTSTRAP_SAMPLES)
    return BootstrapResult.of(float(values @ counts) / len(first), drawn @ values / len(first), len(first), "accuracy")


def compare_accuracies(correct: Flags, first_correct: Flags, sets: Mapping[str, Flags]) -> dict[str, BootstrapResult]:
    """Compare a model with the first one on sets of the same items, by `compare_credits`; empty sets are left out.

    Args:
        correct: (n,), the items on which the model is correct.
        first_correct: (n,), the items on which the first model is correct.
        sets: (n,), the items of each set, by its name.
    """
    return {
        name: compare_credits(correct[members].astype(float), first_correct[members].astype(float))
        for name, members in sets.items()
        if members.any()
    }


def comparison_notes(
    compared: Mapping[str, Mapping[str, BootstrapResult]], first: str, titles: Mapping[str, str]
) -> list[str]:
    """Return a line for each comparison with the first model.

    Args:
        compared: the results of `compare_accuracies`, by the name of the model.
        first: the name of the first model.
        titles: what is shown of each set of items, by its name.
    """
    return [
        f"{name} compared with {first}, {titles[items]}: {result}"
        for name, results in compared.items()
        for items, result in results.items()
    ]


COMPARED_MODELS = Columns(
    "comparison of two models",
    "model (mean over seeds), or difference of the two models",
    {
        "row": Column("text", "first, second, difference, or difference_differing_words_known"),
        "score": Column("number", "mean over seeds, 0 to 1; for a difference, first minus second", PERCENT),
        "std": Column("number", "sample standard deviation over seeds; missing for one seed and a difference", PERCENT),
        "max": Column("number", "highest score of a seed; missing for a difference", PERCENT),
        "seeds": Column("integer", "number of seeds; missing for a difference"),
        "low": Column("number", "lower end of the 95% interval of the difference"),
        "high": Column("number", "upper end of the 95% interval of the difference"),
        "p_value": Column("number", "two-sided p-value of the difference"),
        "items": Column("integer", "number of scored items"),
        "measure": Column("text", "what is measured"),
        "runs": Column("text", "decoder or models"),
    },
)


class TreeDetails(BaseModel):
    """A line of details of trees. Other keys are ignored."""

    number: int
    words: tuple[str, ...]
    gold: str
    f1: Annotated[float, Bounds(ge=0, le=1)]
    matched_spans: NonNegativeInt
    predicted_spans: NonNegativeInt
    gold_spans: NonNegativeInt
    protocol: str
    decoder: str


@dataclass(frozen=True, eq=False)
class DetailedScores:
    """The scores of a details file.

    Attributes:
        source: the file.
        measure: what is measured, with all choices that must agree: "F1, protocol wsj-test".
        names: the name of each run, for the report: the decoder of trees, or the model.
        items: identifies each of the n items, so that two files can be compared.
        scores: the scores of the runs.
        known: (runs, n), whether all differing words of the item are known to the model; None for trees.
        trees: lines of trees by their place; none for other items.
    """

    source: str
    measure: str
    names: tuple[str, ...]
    items: tuple[tuple[Any, ...], ...]
    scores: RunScores
    known: Numbers | None = None
    trees: Mapping[str, TreeDetails] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ModelRuns:
    """The runs (seeds) of one model.

    Attributes:
        sources: the files.
        names: the names of the runs.
        scores: on all items.
        is_baseline: these are right-branching trees, which have no seeds.
    """

    sources: tuple[str, ...]
    names: tuple[str, ...]
    scores: RunScores
    is_baseline: bool = False

    @classmethod
    def of(cls, files: Sequence[DetailedScores], is_baseline: bool = False) -> ModelRuns:
        parts, wholes = (np.concatenate([getattr(file.scores, name) for file in files]) for name in ("parts", "wholes"))
        names = tuple(name for file in files for name in file.names)
        return cls(tuple(file.source for file in files), names, RunScores(parts, wholes), is_baseline)

    @property
    def over_seeds(self) -> SeedScores:
        return SeedScores.of(self.scores.values)

    def to_dict(self) -> dict[str, Any]:
        return {"files": list(self.sources), "runs": list(self.names), "score": self.over_seeds.to_dict()}


@dataclass(frozen=True, eq=False)
class Significance(HasReport):
    """The comparison of two models.

    Attributes:
        measure: what was measured.
        items: number of items.
        result: first minus second on all items.
        known: on the items whose differing words all models know; None for trees, if there are none, and if these are
            all items.
    """

    measure: str
    items: int
    first: ModelRuns
    second: ModelRuns
    result: BootstrapResult
    known: BootstrapResult | None = None

    def report(self) -> Report:
        """Return the scores of both models and their differences, as fractions."""
        empty = {**dict.fromkeys(COMPARED_MODELS), "items": self.items, "measure": self.measure}
        sides = {"first": self.first, "second": self.second}
        differences = {"difference": self.result, "difference_differing_words_known": self.known}
        rows = []
        for name, side in sides.items():
            scores = side.over_seeds
            runs = ", ".join(dict.fromkeys(side.names))
            seeds = {} if side.is_baseline else {"std": scores.std, "max": scores.max, "seeds": scores.count}
            rows.append({**empty, "row": name, "score": scores.mean, **seeds, "runs": runs})
        for name, result in differences.items():
            if result is not None:
                ends = {end: getattr(result, end) for end in ("low", "high", "p_value")}
                rows.append({**empty, "row": name, "score": result.difference, **ends})
        notes = [f"first minus second: {self.result}"]
        if self.known is not None:
            notes.append(f"first minus second, differing words known: {self.known}")
        if any(len(side.scores) == 1 and not side.is_baseline for side in sides.values()):
            notes.append("note: with a single seed of a model, the test does not include how much its seeds vary")
        headings = {"row": "", "score": "mean", "std": "std", "max": "max", "seeds": "seeds", "runs": "trees or model"}
        is_seeded = any(len(side.scores) > 1 for side in sides.values())
        return Report(
            COMPARED_MODELS,
            rows,
            {"schema_version": 1, "measure": self.measure, "items": self.items, **sides, **differences},
            {self.measure: "", "items": self.items, "bootstrap over": "seeds and items" if is_seeded else "items"},
            tables=[ReportTable.of(COMPARED_MODELS, rows[:2], headings)],
            notes=notes,
        )


def compare_details(
    first: Sequence[str | Path], second: Sequence[str | Path], samples: int = BOOTSTRAP_SAMPLES
) -> Significance:
    """Compare two models by the details files of their seeds, with `trees.compare_runs`.

    Args:
        first: files that `--details` of `evaluate parse`, `trees`, `pairs` or `completion` wrote for the first model,
            one per seed.
        second: files of the second model; or [RIGHT_BRANCHING] if the files of the first model are of trees.
        samples: number of bootstrap samples.

    Raises:
        InputError: if files have different items or measures, if one model has a file twice or trees of several
            decoders, and for right branching if the files are not of trees.
    """
    if isinstance(first, str) or isinstance(second, str):
        raise TypeError("compare_details takes lists of files, not one string")
    sides = [list(map(str, side)) for side in (first, second)]
    for side in sides:
        if not side:
            raise InputError(
                "found no file of details for one of the models; expected one or more files for each model"
            )
        if twice := repeated_file(side):
            name, other = twice
            also = "" if name == other else f" (also as {other})"
            raise InputError(f"{name}: is given twice for one model{also}; expected one file for each of its seeds")
    is_baseline = sides[1] == [RIGHT_BRANCHING]
    if RIGHT_BRANCHING in sides[1] and not is_baseline:
        raise InputError(
            f"--against: found {RIGHT_BRANCHING} and files; expected files, or {RIGHT_BRANCHING} alone."
            f" For a file of this name, write ./{RIGHT_BRANCHING}"
        )
    files = [read_details(path) for path in sides[0]]
    if not is_baseline:
        others = [read_details(path) for path in sides[1]]
    elif files[0].trees:
        others = [_right_branching(files[0])]
    else:
        raise InputError(f"{sides[0][0]}: found no trees; expected details of evaluate parse or evaluate trees")
    _check_comparable(files, others)
    first_runs = ModelRuns.of(files)
    second_runs = ModelRuns.of(others, is_baseline)

    def compared(items: Flags | slice) -> BootstrapResult:
        runs = [
            RunScores(side.scores.parts[:, items], side.scores.wholes[:, items]) for side in (first_runs, second_runs)
        ]
        return compare_runs(runs[0], runs[1], files[0].measure.split(",")[0], samples)

    # The items that count as known for all runs; all are for trees.
    known = np.logical_and.reduce([file.known.all(0) for file in (*files, *others) if file.known is not None])
    known_comparison = compared(known) if np.ndim(known) and known.any() and not known.all() else None
    return Significance(
        files[0].measure, len(files[0].items), first_runs, second_runs, compared(slice(None)), known_comparison
    )


def _check_comparable(files: Sequence[DetailedScores], others: Sequence[DetailedScores]) -> None:
    """Raise InputError if files of two models have different measures or items, or one model several decoders."""
    for model_files in (files, others):
        for details in model_files:
            if details.measure != files[0].measure:
                raise InputError(
                    f"{details.source}: found {details.measure}; expected {files[0].measure}, as in {files[0].source}"
                )
            pairs = enumerate(zip_longest(files[0].items, details.items), 1)
            differing = next(((number, *both) for number, both in pairs if both[0] != both[1]), None)
            if differing is not None:
                line, item, its_item = differing
                raise InputError(
                    f"{details.source}, line {line}: found another item than in {files[0].source}"
                    f" ({len(details.items):,} and {len(files[0].items):,} items); expected the same items in the same"
                    f" order\n  {files[0].source}: {_shown(item)}\n  {details.source}: {_shown(its_item)}"
                )
            if details.trees and details.names != model_files[0].names:
                raise InputError(
                    f"{details.source}: found trees of the decoder {details.names[0]}; expected"
                    f" {model_files[0].names[0]}, as in {model_files[0].source}. F1 depends on the decoder"
                )


def _shown(item: Sequence[object] | None) -> str:
    """Return an item for a message; None: there is none."""
    return "(no item)" if item is None else shortened(" ".join(map(str, item)), _ITEM_WIDTH)


def read_details(path: str | Path) -> DetailedScores:
    """Read a file that `--details` wrote. Raises InputError for a file that is not one, naming its line."""
    rows = {f"{path}, line {number}": line for number, line in read_lines(path)}
    if not rows:
        raise InputError(f"{path}: the file is empty; expected the lines that --details writes")
    parsed = {place: parse_json(line, place) for place, line in rows.items()}
    announce(ReadingReport(source_name(path), "details of an evaluation", {"lines": len(rows)}))
    place, first = next(iter(parsed.items()))
    trees: dict[str, TreeDetails] = {}
    try:
        if "gold_spans" not in first and "f1" not in first:
            others = (place for place, row in parsed.items() if not isinstance(row, dict) or row.keys() != first.keys())
            place = next(others, place)
            return _choices(str(path), list(parsed.values()))
        for place, row in parsed.items():
            trees[place] = TreeDetails.model_validate(row)
            if trees[place].protocol not in PROTOCOLS:
                raise ValueError("unknown protocol")
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError(
            f"{place}: found a line that --details did not write; expected a file that evaluate parse, trees, pairs or"
            " completion writes with this option"
        ) from None
    return _trees(str(path), trees)


def _trees(source: str, trees: Mapping[str, TreeDetails]) -> DetailedScores:
    """Return the scores of parsed sentences: one run."""
    first, *_ = trees.values()
    for place, tree in trees.items():
        for name in ("protocol", "decoder"):
            value, expected = getattr(tree, name), getattr(first, name)
            if value != expected:
                raise InputError(f"{place}: found the {name} {value}; expected {expected}, as in the lines before it")
    if PROTOCOLS[first.protocol].average == "sentence":
        scores = RunScores.of_means(np.array([[tree.f1 for tree in trees.values()]]))
    else:
        counts = [(2 * tree.matched_spans, tree.predicted_spans + tree.gold_spans) for tree in trees.values()]
        scores = RunScores(*np.array([counts], np.float64).transpose(2, 0, 1))
    items = tuple((tree.number, tree.gold, *tree.words) for tree in trees.values())
    return DetailedScores(source, f"F1, protocol {first.protocol}", (first.decoder,), items, scores, trees=trees)


def _right_branching(details: DetailedScores) -> DetailedScores:
    """Return the scores of right branching against the gold trees of a file."""
    read = []
    for place, tree in details.trees.items():
        gold = parse_brackets(tree.gold, labelled=True, source=f"{place}, gold tree")
        if [len(own_gold) for own_gold in gold] != [len(tree.words)]:
            raise InputError(
                f"{place}: found a gold tree of other words; expected one gold tree with the {len(tree.words):,} words"
                " of the sentence"
            )
        read += gold
    spans, (first, *_) = SpanSets.of(read), details.trees.values()
    protocol = replace(PROTOCOLS[first.protocol], max_words=None)  # the file may have another limit
    scores = run_scores([score(right(spans.lengths), spans, protocol, details=False)])
    return replace(details, source=RIGHT_BRANCHING, names=("right branching",), scores=scores)


def _choices(source: str, rows: Sequence[dict[str, Any]]) -> DetailedScores:
    """Return the accuracy on minimal pairs or questions: one run per model; interpolated models are left out."""
    pairs = "better" in rows[0]
    rows = [row for row in rows if row.get("adjacent", True)]  # other pairs of an item follow from these
    names = tuple(name for name in rows[0]["models"] if pairs or name != "interpolated")
    if pairs:
        items = tuple((row["case"], row["better"], row["worse"]) for row in rows)
    else:
        items = tuple((f"{row['candidates'][row['correct']]} of", *row["candidates"]) for row in rows)
    credits, known = np.zeros((2, len(names), len(rows)))
    for place, row in enumerate(rows):
        for run, name in enumerate(names):
            choice = row["models"][name]
            credits[run, place] = choice["correct" if pairs else "credit"]
            known[run, place] = np.all(choice["differing_words_known"])
    measure = "accuracy, minimal pairs" if pairs else "accuracy, sentence completion"
    return DetailedScores(source, measure, names, items, RunScores.of_means(credits), known)
