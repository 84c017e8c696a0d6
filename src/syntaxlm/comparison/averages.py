"""Averages of files of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.core.reading import keeps_readings
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.trees.averaging import AgreementMatrix, agreement, average
from syntaxlm.trees.charts import TieBreaking
from syntaxlm.trees.f1 import Protocol, score
from syntaxlm.trees.matching import Side, match_files, without_empty_nodes
from syntaxlm.trees.spans import SpanSets, format_spans
from syntaxlm.trees.tree import Tree, read_brackets

AVERAGED_TREES = Columns(
    "agreement of averaged trees",
    "pair of files, or pair of a file and the average",
    {
        "trees": Column("text", "file of trees"),
        "weight": Column("number", "weight of this file in the average"),
        "other": Column("text", "the other file; missing for the averaged trees"),
        "f1": Column("number", "unlabelled F1 between the two sets of trees, 0 to 1"),
        "sentences": Column("integer", "number of scored sentences"),
        "protocol": Column("text", "name of the protocol"),
        "ties": Column("text", "how ties between splits were broken"),
    },
)


@dataclass(frozen=True, eq=False)
class AveragedTrees(HasReport):
    """The average of several files of trees, and their agreement.

    Attributes:
        spans: the spans of the averaged trees.
        words: the words of the first file.
        sources: files of the predictions.
        weights: weights of the predictions.
        agreement: pairwise.
        with_average: (k,) F1 of each prediction with the average, 0 to 1.
        ties: how ties between splits were broken, see `average`.
    """

    spans: SpanSets
    words: Sequence[Sequence[str]]
    sources: Sequence[str]
    weights: Sequence[float]
    agreement: AgreementMatrix
    with_average: Numbers
    ties: TieBreaking = "random"

    def brackets(self) -> list[str]:
        """Return the averaged trees as lines of bracketed text."""
        return format_spans(self.spans, self.words)

    def report(self) -> Report:
        """Return the agreement of each file with the others, and with the average."""
        matrix = self.agreement
        weighted = list(zip(self.sources, self.weights, strict=True))
        shared = {"sentences": matrix.sentences, "protocol": matrix.protocol.name, "ties": self.ties}
        rows = [
            {"trees": source, "weight": weight, "other": other, "f1": float(f1), **shared}
            for place, (source, weight) in enumerate(weighted)
            for column, (other, f1) in enumerate(
                [*zip(self.sources, matrix.values[place], strict=True), (None, self.with_average[place])]
            )
            if place != column
        ]
        figures = {
            "predictions": self.sources,
            "weights": self.weights,
            "ties": self.ties,
            "trees": len(self.spans),
            **matrix.to_dict(),
            "with_average": self.with_average,
        }
        names: Sequence[str] = self.sources
        if len(set(self.weights)) > 1:
            names = [f"{source}   weight {weight:g}" for source, weight in weighted]
        facts = {"protocol": matrix.protocol, "sentences": matrix.sentences, "ties": self.ties}
        table = matrix.table(names, {"average": self.with_average})
        return Report(AVERAGED_TREES, rows, figures, {"agreement in unlabelled F1": "", **facts}, tables=[table])


@keeps_readings
def average_files(
    paths: Sequence[str | Path],
    protocol: Protocol,
    weights: Sequence[float] | None = None,
    ties: TieBreaking = "random",
    labelled: bool | None = None,
) -> AveragedTrees:
    """Return the average of two or more bracket files of the same sentences in the same order; labels are ignored.

    Empty nodes are dropped. Warns of sentences of which fewer than half of the words agree with the first file.

    Args:
        weights: see `average`.
        ties: see `average`.
        labelled: whether brackets start with a label; None: decided for each file, see `parse_brackets`.

    Raises:
        InputError: if sentences differ in number or length, and naming file and line of a tree without words (a failed
            parse). The message names file and sentence.

    Examples:
        >>> averaged = syntaxlm.average_files(["corpus/test.mrg"] * 3, syntaxlm.PROTOCOLS["wsj-test"])
        >>> len(averaged.brackets())
        3
    """
    if len(paths) < 2:
        raise InputError(f"found {len(paths)} file of trees; expected two or more")
    first = list(map(without_empty_nodes, read_brackets(paths[0], labelled)))
    reference = Side(str(paths[0]), "file 1", "the tree")
    advice = "All files must have one tree per sentence, with the same number of words."
    trees: list[Sequence[Tree]] = [first]
    for number, path in enumerate(paths[1:], 2):
        side = Side(str(path), f"file {number}", f"that of {path}")
        trees.append(list(map(without_empty_nodes, read_brackets(path, labelled))))
        match_files(trees[-1], first, side, reference, advice)
    predictions = [SpanSets.of(file_trees) for file_trees in trees]
    spans = average(predictions, weights, ties)
    return AveragedTrees(
        spans,
        [tree.words for tree in first],
        [str(path) for path in paths],
        [1.0] * len(paths) if weights is None else list(weights),
        agreement(predictions, protocol),
        np.array([score(prediction, spans, protocol, details=False).f1 for prediction in predictions]),
        ties,
    )
