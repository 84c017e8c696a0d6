"""Parsing scores: predicted trees compared with gold trees, with baselines and upper bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.core.files import to_json, write_text
from syntaxlm.core.tables import Column, Columns, HasRows
from syntaxlm.trees.scoring import LabelMapping, ParsingScores
from syntaxlm.trees.significance import BaselineScores, BootstrapResult, SeedScores, over_seeds
from syntaxlm.trees.spans import SpanSets, trees_of
from syntaxlm.trees.tree import Tree, format_brackets

SCHEMA_VERSION = 2  # of `ParsingReport.to_dict`; 1 had "clean_up" for "preprocessing" and "deviation" for "std"


@dataclass(frozen=True, eq=False)
class GoldTrees:
    """Gold trees after preprocessing.

    spans: the spans of the trees.
    numbers: for each tree, the number of its sentence in the source before preprocessing, from 1.
    clean_up: the name of the gold-tree preprocessing.
    """

    trees: Sequence[Tree]
    spans: SpanSets
    numbers: Sequence[int]
    source: str
    clean_up: str


@dataclass(frozen=True)
class ScoredSentence:
    """One sentence with its trees and its scores.

    number: the number of the sentence in the treebank before preprocessing, from 1.
    words: the words after preprocessing.
    precision, recall, f1: scores of this sentence alone, 0 to 1, even if the protocol pools counts.
    matched_spans, predicted_spans, gold_spans: numbers of spans that the protocol counts.
    predicted, gold: the trees in bracket notation.
    decoder: the decoder of the predicted tree, or "predicted" for trees that were read from a file.
    """

    number: int
    words: tuple[str, ...]
    length: int
    precision: float
    recall: float
    f1: float
    matched_spans: int
    predicted_spans: int
    gold_spans: int
    predicted: str
    gold: str
    decoder: str
    protocol: str

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, eq=False)
class RandomWeights:
    """Scores of untrained models with the same settings and vocabulary, a baseline for the effect of training.

    scores: by decoder, one for each seed, with the same layer as the trained model.
    chosen: the decoder of the chosen trees.
    """

    scores: dict[str, tuple[ParsingScores, ...]]
    chosen: str

    @property
    def f1(self) -> SeedScores:
        """F1 by the chosen decoder."""
        return over_seeds(self.scores[self.chosen])

    def f1_by_decoder(self) -> dict[str, SeedScores]:
        return {name: over_seeds(scores) for name, scores in self.scores.items()}

    def shape(self) -> dict[str, tuple[float, float]]:
        """Return the mean and sample standard deviation over seeds of each field of `BranchingStatistics`.

        The trees are those of the chosen decoder.
        """
        shapes = [one.predicted_shape.to_dict() for one in self.scores[self.chosen] if one.predicted_shape]
        values = {name: np.array([shape[name] for shape in shapes]) for name in shapes[0]}
        return {
            name: (float(one.mean()), float(one.std(ddof=1)) if len(one) > 1 else 0.0) for name, one in values.items()
        }

    def to_dict(self) -> dict[str, Any]:
        shape = {name: {"mean": mean, "std": deviation} for name, (mean, deviation) in self.shape().items()}
        by_decoder = {name: scores.to_dict() for name, scores in self.f1_by_decoder().items()}
        return {"f1": self.f1.to_dict(), "f1_by_decoder": by_decoder, "shape": shape}


PARSING_SCORES = Columns(
    "parsing scores",
    "set of trees: a decoder, a baseline or an upper bound",
    {
        "trees": Column("text", "decoder of the predicted trees, or name of the baseline or upper bound"),
        "role": Column("text", "predicted, baseline or upper bound"),
        "f1": Column("number", "unlabelled F1, 0 to 1; a mean where there are seeds"),
        "precision": Column("number", "0 to 1; missing where there are seeds"),
        "recall": Column("number", "0 to 1; missing where there are seeds"),
        "std": Column("number", "sample standard deviation of F1 over seeds"),
        "seeds": Column("integer", "number of seeds"),
        "sentences": Column("integer", "number of scored sentences"),
        "protocol": Column("text", "name of the protocol"),
        "preprocessing": Column("text", "gold-tree preprocessing"),
        "treebank": Column("text", "file of the gold trees"),
    },
)


@dataclass(frozen=True, eq=False)
class ParsingReport(HasRows):
    """Scores of predicted trees, with baselines and upper bounds.

    scores, predicted: scores and spans of the predicted trees by name. The name is a decoder of the model, or
        "predicted" for trees of a file. If averaged models use different decoders, the name lists all of them in the
        order of the models: "2 biased + right".
    chosen: the name of the requested decoder.
    right_by_decoder: comparison of the trees of each name with right branching.
    models: number of models whose trees are averaged.
    layer: the layer of the distances; None for averages, files, and trees that are not decoded from distances.
    f1_by_layer: F1 by layer and decoder, under the same protocol; empty for models with fewer than two layers.
    random_weights: scores of untrained models; None if they were not requested.
    labels: the induced labels of the chosen trees, mapped to gold labels; None for averages, files, and models or
        treebanks without labels.
    """

    scores: dict[str, ParsingScores]
    chosen: str
    baselines: BaselineScores
    right_by_decoder: dict[str, BootstrapResult]
    predicted: dict[str, SpanSets]
    gold: GoldTrees
    models: int = 1
    layer: int | None = None
    f1_by_layer: dict[int, dict[str, float]] = field(default_factory=dict)
    random_weights: RandomWeights | None = None
    labels: LabelMapping | None = None

    columns = PARSING_SCORES

    @property
    def against_right(self) -> BootstrapResult:
        """Comparison of the chosen trees with right branching."""
        return self.right_by_decoder[self.chosen]

    def to_dict(self) -> dict[str, Any]:
        """Return all scores for JSON, as fractions from 0 to 1. Those of the chosen trees are at the top level."""
        figures = self.scores[self.chosen].to_dict()
        protocol = figures.pop("protocol")
        return {
            "schema_version": SCHEMA_VERSION,
            "protocol": protocol["name"],
            "protocol_fields": protocol,
            "treebank": self.gold.source,
            "preprocessing": self.gold.clean_up,
            "decoder": self.chosen,
            **({"averaged_models": self.models} if self.models > 1 else {}),
            **figures,
            "f1_by_decoder": {name: scores.f1 for name, scores in self.scores.items()},
            **self._layer_figures(),
            "baselines": self.baselines.to_dict(),
            **({"random_weights": self.random_weights.to_dict()} if self.random_weights else {}),
            "against_right_branching": self.against_right.to_dict(),
            "against_right_branching_by_decoder": {name: one.to_dict() for name, one in self.right_by_decoder.items()},
            **({"induced_labels": self.labels.to_dict()} if self.labels else {}),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table of scores, with the columns of `PARSING_SCORES`."""
        baselines, predicted = self.baselines, "predicted"
        scores: list[tuple[str, str, ParsingScores | SeedScores | None]] = [
            *((name, predicted, one) for name, one in self.scores.items()),
            ("right branching", "baseline", baselines.right),
            ("left branching", "baseline", baselines.left),
            ("balanced", "baseline", baselines.balanced),
            ("random", "baseline", baselines.random),
            ("random weights", "baseline", self.random_weights.f1 if self.random_weights else None),
            ("binary", "upper bound", baselines.binary_bound),
            ("biased decoder", "upper bound", baselines.biased_bound),
        ]
        of_all = {
            "sentences": self.scores[self.chosen].sentences,
            "protocol": self.scores[self.chosen].protocol.name,
            "preprocessing": self.gold.clean_up,
            "treebank": self.gold.source,
        }
        for trees, role, one in scores:
            if isinstance(one, SeedScores):
                figures = {"f1": one.mean, "precision": None, "recall": None, "std": one.std, "seeds": one.count}
            elif one is not None:
                figures = {"f1": one.f1, "precision": one.precision, "recall": one.recall, "std": None, "seeds": None}
            else:
                continue
            yield {"trees": trees, "role": role, **figures, **of_all}

    def _layer_figures(self) -> dict[str, Any]:
        """Return an empty dictionary for a model with one layer."""
        if not self.f1_by_layer:
            return {}
        return {"layer": self.layer, "f1_by_layer": {str(layer): f1 for layer, f1 in self.f1_by_layer.items()}}

    def __str__(self) -> str:
        scores = self.scores[self.chosen]
        lengths = scores.by_sentence.lengths
        lines = [
            f"{self.gold.source}   preprocessing {self.gold.clean_up}   protocol {scores.protocol}   "
            f"sentences {scores.sentences} ({lengths.min()} to {lengths.max()} words)",
            "",
            *self._table(),
            "",
            *self._layers(),
            *(f"{name} compared with right branching: {found}" for name, found in self.right_by_decoder.items()),
        ]
        if scores.recall_by_label:
            common = sorted(scores.recall_by_label.items(), key=lambda item: -item[1][1])[:10]
            lines.append("recall by label   " + "   ".join(f"{label} {100 * r:.1f} ({n})" for label, (r, n) in common))
        lines.append(
            "F1 by length      " + "   ".join(f"{b} {100 * f:.1f} ({n})" for b, (f, n) in scores.f1_by_length.items())
        )
        for name, shape in (("predicted", scores.predicted_shape), ("gold", scores.gold_shape)):
            if shape:
                lines.append(
                    f"{name:9} trees   mean depth {shape.depth:.1f}   "
                    f"left splits {shape.left:.1f}%   right splits {shape.right:.1f}%"
                )
        if self.random_weights:
            shown = {name: f"{mean:.1f} ± {spread:.1f}" for name, (mean, spread) in self.random_weights.shape().items()}
            lines.append(
                f"random weights    mean depth {shown['depth']}   "
                f"left splits {shown['left']}%   right splits {shown['right']}%"
            )
        if self.labels:
            lines += ["", *self.labels.lines(self.chosen)]
        return "\n".join(lines)

    def _table(self) -> list[str]:
        """Return the table of scores in percent: decoders, baselines, upper bounds."""
        baselines = self.baselines
        lines = ["unlabelled F1   precision   recall"]
        averaged = f", average of {self.models} models" if self.models > 1 else ""
        lines += [_score_row(name + averaged, one) for name, one in self.scores.items()]
        lines.append(_score_row("right branching", baselines.right))
        lines.append(_score_row("left branching", baselines.left))
        lines.append(_score_row("balanced", baselines.balanced))
        lines += [_seeds_row(title, scores) for title, scores in baselines.random_rows().items()]
        if self.random_weights:
            by_decoder = self.random_weights.f1_by_decoder()
            lines += [_seeds_row(f"random weights, {name}", scores) for name, scores in by_decoder.items()]
        lines.append(_score_row("binary upper bound", baselines.binary_bound))
        if baselines.biased_bound:
            lines.append(_score_row("reachable by the biased decoder", baselines.biased_bound))
        return lines

    def _layers(self) -> list[str]:
        """Return a table with the F1 of every layer in percent and a column for each decoder.

        It is empty for a model with one layer.
        """
        if not self.f1_by_layer:
            return []
        lines = ["".join(f"{name + ' F1':>14}" for name in next(iter(self.f1_by_layer.values())))]
        for layer, values in self.f1_by_layer.items():
            figures = "".join(f"{100 * f1:14.1f}" for f1 in values.values())
            lines.append(f"{figures}   layer {layer}{' (chosen)' * (layer == self.layer)}")
        return [*lines, ""]


def _score_row(name: str, scores: ParsingScores) -> str:
    return _row(name, scores.f1, scores.precision, scores.recall)


def _seeds_row(name: str, scores: SeedScores) -> str:
    spread = f"± {100 * scores.std:.1f}, max {100 * scores.max:.1f}"
    return _row(f"{name}, mean of {scores.count} {'seed' if scores.count == 1 else 'seeds'}, {spread}", scores.mean)


def _row(name: str, f1: float, *others: float) -> str:
    """Format a row of the table. Precision and recall are optional."""
    precision, recall = (f"{100 * value:.1f}" for value in others) if others else ("", "")
    return f"{100 * f1:13.1f}{precision:>12}{recall:>9}   {name}"


def scored_sentences(report: ParsingReport, name: str | None = None) -> list[ScoredSentence]:
    """Return every scored sentence, in the order of the treebank.

    name: a key of `report.scores`, whose trees are returned; None: `report.chosen`.
    """
    name = name or report.chosen
    rows, protocol = report.scores[name].by_sentence, report.scores[name].protocol
    gold = [report.gold.trees[index] for index in rows.indices]
    predicted = trees_of(report.predicted[name].select(rows.indices), [tree.words for tree in gold])
    names = "precision", "recall", "f1", "matched_spans", "predicted_spans", "gold_spans"
    figures = zip(*(getattr(rows, column).tolist() for column in names), strict=True)
    return [
        ScoredSentence(
            number=report.gold.numbers[index],
            words=tree.words,
            length=len(tree),
            **dict(zip(names, values, strict=True)),
            predicted=format_brackets(one),
            gold=format_brackets(tree),
            decoder=name,
            protocol=protocol.name,
        )
        for index, tree, one, values in zip(rows.indices.tolist(), gold, predicted, figures, strict=True)
    ]


def write_sentences(report: ParsingReport, path: str | Path) -> None:
    """Write `scored_sentences` as JSON lines, atomically. Raises InputError if the file cannot be written."""
    rows = (to_json(sentence.to_dict()) for sentence in scored_sentences(report))
    write_text("".join(row + "\n" for row in rows), path)
