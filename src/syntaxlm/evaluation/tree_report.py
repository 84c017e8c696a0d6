"""Parsing scores: predicted trees compared with gold trees, with baselines and upper bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from syntaxlm.evaluation.reliability import Reliability
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, RIGHT, Column, Columns, ReportTable, Row
from syntaxlm.statistics.bootstrap import BootstrapResult
from syntaxlm.statistics.intervals import sample_std
from syntaxlm.trees.baselines import BaselineScores, SeedScores, over_seeds
from syntaxlm.trees.f1 import LabelMapping, ParsingScores
from syntaxlm.trees.spans import SpanSets, trees_of
from syntaxlm.trees.tree import Tree, format_brackets

SCHEMA_VERSION = 2  # of the JSON of a `ParsingReport`
LABELS_PRINTED = 10  # gold labels whose recall is printed, most frequent first


@dataclass(frozen=True, eq=False)
class GoldTrees:
    """Gold trees after preprocessing.

    Attributes:
        spans: the spans of the trees.
        numbers: for each tree, the number of its sentence in the source before preprocessing, from 1.
        preprocessing: the name of the gold-tree preprocessing.
    """

    trees: Sequence[Tree]
    spans: SpanSets
    numbers: Sequence[int]
    source: str
    preprocessing: str


@dataclass(frozen=True)
class ScoredSentence:
    """One sentence with its trees and its scores.

    Attributes:
        number: the number of the sentence in the treebank before preprocessing, from 1.
        words: the words after preprocessing.
        precision: the precision of this sentence alone, 0 to 1, even if the protocol pools counts.
        recall: the recall of this sentence alone.
        f1: the f1 of this sentence alone.
        matched_spans: number of predicted spans that are gold spans, of those that the protocol counts.
        predicted_spans: number of predicted spans that the protocol counts.
        gold_spans: number of gold spans that the protocol counts.
        predicted: the predicted tree in bracket notation.
        gold: the gold tree in bracket notation.
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


@dataclass(frozen=True, eq=False)
class RandomWeights:
    """Scores of untrained models with the same settings and vocabulary, a baseline for the effect of training.

    Attributes:
        scores: by decoder, one for each seed, with the same layer as the trained model.
        chosen: the decoder of the chosen trees.
    """

    scores: dict[str, tuple[ParsingScores, ...]]
    chosen: str

    @property
    def f1(self) -> SeedScores:
        """F1 by the chosen decoder."""
        return self.f1_by_decoder()[self.chosen]

    def f1_by_decoder(self) -> dict[str, SeedScores]:
        return {name: over_seeds(scores) for name, scores in self.scores.items()}

    def shape(self) -> dict[str, tuple[float, float | None]]:
        """Return the mean and sample standard deviation over seeds of each field of `BranchingStatistics`.

        The trees are those of the chosen decoder.
        """
        shapes = [scores.predicted_shape.to_dict() for scores in self.scores[self.chosen] if scores.predicted_shape]
        values = {name: np.array([shape[name] for shape in shapes]) for name in shapes[0]}
        return {name: (float(of_seeds.mean()), sample_std(of_seeds)) for name, of_seeds in values.items()}

    def to_dict(self) -> dict[str, Any]:
        shape = {name: {"mean": mean, "std": deviation} for name, (mean, deviation) in self.shape().items()}
        by_decoder = {name: scores.to_dict() for name, scores in self.f1_by_decoder().items()}
        return {"f1": self.f1.to_dict(), "f1_by_decoder": by_decoder, "shape": shape}


PARSING_SCORES = Columns(
    "parsing scores",
    "decoder, baseline or upper bound",
    {
        "trees": Column("text", "decoder of the predicted trees, or name of the baseline or upper bound"),
        "role": Column("text", "predicted, baseline or upper bound"),
        "f1": Column("number", "unlabelled F1, 0 to 1; a mean where there are seeds", PERCENT),
        "precision": Column("number", "0 to 1; missing where there are seeds", PERCENT),
        "recall": Column("number", "0 to 1; missing where there are seeds", PERCENT),
        "std": Column("number", "sample standard deviation of F1 over seeds; missing for one seed", PERCENT),
        "max": Column("number", "highest F1 of the seeds", PERCENT),
        "seeds": Column("integer", "number of seeds"),
        "sentences": Column("integer", "number of scored sentences"),
        "protocol": Column("text", "name of the protocol"),
        "preprocessing": Column("text", "gold-tree preprocessing"),
        "treebank": Column("text", "file of the gold trees"),
    },
)


_HEADINGS = {
    "f1": "unlabelled F1", "precision": "precision", "recall": "recall", "std": "± std", "max": "max",
    "seeds": "seeds", "trees": "trees",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ParsingReport(HasReport):
    """Scores of predicted trees, with baselines and upper bounds.

    Attributes:
        scores: scores of the predicted trees by name. The name is a decoder of the model, or "predicted" for trees of a
            file. If averaged models use different decoders, the name lists all of them in the order of the models:
            "2 biased + right".
        predicted: spans of the predicted trees by name.
        chosen: the name of the requested decoder.
        right_by_decoder: comparison of the trees of each name with right branching.
        models: number of models whose trees are averaged.
        layer: the layer of the distances; None for averages, files, and trees that are not decoded from distances.
        f1_by_layer: F1 by layer and decoder, under the same protocol; empty for models with fewer than two layers.
        random_weights: scores of untrained models; None if they were not requested.
        labels: the induced labels of the chosen trees, mapped to gold labels; None for averages, files, and models or
            treebanks without labels.
        reliability: the reliability of the probabilities of the chosen trees; None for averages, files, and other
            structures.
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
    reliability: Reliability | None = None

    @property
    def against_right(self) -> BootstrapResult:
        """Comparison of the chosen trees with right branching."""
        return self.right_by_decoder[self.chosen]

    def report(self) -> Report:
        """Return the scores of decoders, baselines and upper bounds. Those of the chosen trees come first in JSON."""
        scores = self.scores[self.chosen]
        lengths = scores.by_sentence.lengths
        rows = self._rows()
        tables = [replace(ReportTable.of(PARSING_SCORES, rows, _HEADINGS, missing=""), is_named_last=True)]
        if self.f1_by_layer:
            tables.append(self._layer_table())
        if self.labels:
            tables.append(self.labels.table(self.chosen))
        if self.reliability:
            tables.append(self.reliability.table())
        tables += self._short_tables()
        compared = {self.chosen: self.against_right, **self.right_by_decoder}
        return Report(
            PARSING_SCORES,
            rows,
            self._figures(),
            {
                "preprocessing": self.gold.preprocessing,
                "protocol": scores.protocol,
                "sentences": f"{scores.sentences} ({lengths.min()} to {lengths.max()} words)",
                **({"average of": f"{self.models} models"} if self.models > 1 else {}),
            },
            tables=tables,
            notes=[f"{name} compared with right branching: {result}" for name, result in compared.items()],
            data=[self.gold.source],
        )

    def _figures(self) -> dict[str, Any]:
        """Return all figures for JSON. What the models or trees do not have is left out."""
        figures = self.scores[self.chosen].to_dict()
        protocol = figures.pop("protocol")
        return {
            "schema_version": SCHEMA_VERSION,
            "protocol": protocol["name"],
            "protocol_fields": protocol,
            "treebank": self.gold.source,
            "preprocessing": self.gold.preprocessing,
            "decoder": self.chosen,
            **({"averaged_models": self.models} if self.models > 1 else {}),
            **figures,
            "f1_by_decoder": {name: scores.f1 for name, scores in self.scores.items()},
            **({"layer": self.layer, "f1_by_layer": self.f1_by_layer} if self.f1_by_layer else {}),
            "baselines": self.baselines,
            **({"random_weights": self.random_weights} if self.random_weights else {}),
            "against_right_branching": self.against_right,
            "against_right_branching_by_decoder": self.right_by_decoder,
            **({"induced_labels": self.labels} if self.labels else {}),
            **({"reliability": self.reliability.to_dict()} if self.reliability else {}),
        }

    def _layer_table(self) -> ReportTable:
        """Return F1 by layer, with a column for each decoder."""
        decoders = next(iter(self.f1_by_layer.values()))
        rows = [
            [*values.values(), f"layer {layer}{' (chosen)' if layer == self.layer else ''}"]
            for layer, values in self.f1_by_layer.items()
        ]
        headings = {f"{name} F1": PERCENT for name in decoders} | {"distances": ""}
        return ReportTable(headings, rows, is_named_last=True)

    def details(self, name: str | None = None) -> list[ScoredSentence]:
        """Return every scored sentence, in the order of the treebank.

        Args:
            name: a key of `scores`, whose trees are returned; None: `chosen`.
        """
        name = name or self.chosen
        rows = self.scores[name].by_sentence
        protocol = self.scores[name].protocol
        gold = [self.gold.trees[index] for index in rows.indices]
        predicted = trees_of(self.predicted[name].select(rows.indices), [tree.words for tree in gold])
        names = "precision", "recall", "f1", "matched_spans", "predicted_spans", "gold_spans"
        figures = zip(*(getattr(rows, column).tolist() for column in names), strict=True)
        return [
            ScoredSentence(
                number=self.gold.numbers[index],
                words=tree.words,
                length=len(tree),
                **dict(zip(names, values, strict=True)),
                predicted=format_brackets(predicted_tree),
                gold=format_brackets(tree),
                decoder=name,
                protocol=protocol.name,
            )
            for index, tree, predicted_tree, values in zip(rows.indices.tolist(), gold, predicted, figures, strict=True)
        ]

    def _rows(self) -> list[Row]:
        baselines, chosen = self.baselines, self.scores[self.chosen]
        untrained = self.random_weights.f1_by_decoder() if self.random_weights else {}
        roles: dict[str, Mapping[str, ParsingScores | SeedScores | None]] = {
            "predicted": {self.chosen: chosen, **self.scores},
            "baseline": {
                "right branching": baselines.right,
                "left branching": baselines.left,
                "balanced": baselines.balanced,
                **baselines.random_rows(),
                **{f"random weights, {name}": scores for name, scores in untrained.items()},
            },
            "upper bound": {
                "binary upper bound": baselines.binary_bound,
                "reachable by the biased decoder": baselines.biased_bound,
            },
        }
        shared = {
            "sentences": chosen.sentences,
            "protocol": chosen.protocol.name,
            "preprocessing": self.gold.preprocessing,
            "treebank": self.gold.source,
        }
        rows: list[Row] = []
        for role, named in roles.items():
            for trees, scores in named.items():
                if isinstance(scores, SeedScores):
                    values = {"f1": scores.mean, "std": scores.std, "max": scores.max, "seeds": scores.count}
                elif scores is not None:
                    values = {"f1": scores.f1, "precision": scores.precision, "recall": scores.recall}
                else:
                    continue
                rows.append({**dict.fromkeys(PARSING_SCORES), "trees": trees, "role": role, **values, **shared})
        return rows

    def _short_tables(self) -> list[ReportTable]:
        """Return recall by label, F1 by length, and the shape of the trees, which a terminal shows as lines."""
        scores = self.scores[self.chosen]
        tables = []
        if scores.recall_by_label:
            common = sorted(scores.recall_by_label.items(), key=lambda item: -item[1][1])[:LABELS_PRINTED]
            by_label = {label: (recall, count) for label, (recall, count) in common}
            headings = {"label": "", "recall": PERCENT, "constituents": ","}
            tables.append(_short_table("recall by label", headings, by_label))
        headings = {"words": "", "F1": PERCENT, "sentences": ","}
        tables.append(_short_table("F1 by length", headings, scores.f1_by_length))

        # The shape of several untrained models has a standard deviation over seeds.
        shapes = {
            name: [f"{shape.depth:.1f}", f"{shape.left:.1f}", f"{shape.right:.1f}"]
            for name, shape in (("predicted", scores.predicted_shape), ("gold", scores.gold_shape))
            if shape
        }
        lines = [_shape_line(f"{name:9} trees", values) for name, values in shapes.items()]
        if self.random_weights:
            values = {
                name: f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}"
                for name, (mean, std) in self.random_weights.shape().items()
            }
            shapes["random weights"] = [values["depth"], values["left"], values["right"]]
            lines.append(_shape_line("random weights ", shapes["random weights"]))
        headings = {"trees": "", "mean depth": RIGHT, "left splits, %": RIGHT, "right splits, %": RIGHT}
        rows = [[name, *values] for name, values in shapes.items()]
        return [*tables, ReportTable(headings, rows, "shape of the trees", lines=lines)]


def _shape_line(name: str, values: Sequence[str]) -> str:
    """Return the shape of trees on a line for a terminal: the mean depth, and the shares of left and right splits."""
    depth, left, right = values
    return f"{name}   mean depth {depth}   left splits {left}%   right splits {right}%"


def _short_table(title: str, headings: Mapping[str, str], shares: Mapping[str, tuple[float, int]]) -> ReportTable:
    """Return a table of shares with their numbers of cases, which a terminal shows as a line."""
    shown = [f"{name} {100 * share:.1f} ({count})" for name, (share, count) in shares.items()]
    rows = [[name, share, count] for name, (share, count) in shares.items()]
    return ReportTable(headings, rows, title, lines=[f"{title:15}   " + "   ".join(shown)])
