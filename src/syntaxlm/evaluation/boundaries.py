"""Word-boundary F1 of a character-level model.

The evaluated positions are gaps: the positions between two neighbouring characters of a line, ignoring white space. A
gap is a word boundary if the text has white space there. The distance of a gap is the distance of the character after
it. This is the distance between that character and the token that the model read before it: the character before the
gap or, if the model reads white space, the space. For models that read white space there is a second reading, in which
the distance of a boundary is that of the space: the distance between the last character of the word and the space.

A model that reads white space sees the boundaries, so its F1 shows only whether distances peak there (Shen et al. 2018,
figure 4). The F1 of a model that reads text without spaces (normaliser.space: null) shows whether it finds words.

A gap is predicted as a boundary if its distance is not below a threshold. The threshold with the highest F1 is chosen
on a part of the text that is not evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus, read_lines
from syntaxlm.parsing.structure import distances_of
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, Column, Columns, ReportTable
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import Normaliser, split_words

TUNING_SHARE = 0.1  # first part of the text, on which the threshold is chosen if there is no tuning text
LONGEST_WORD = 20  # characters; longest words of the baseline with words of equal length

Reading = Literal["character", "space"]
Distances = npt.NDArray[np.float32]
Gaps = npt.NDArray[np.void]  # of the type GAP

_READINGS: dict[Reading, str] = {"character": "distance of the character after", "space": "distance of the space"}


GAP = np.dtype([("boundary", np.bool_), ("character", np.int64), ("space", np.int64), ("place", np.int64)])
"""A gap of a text.

boundary: whether the gap has white space.
character: index of the token after the gap, among all tokens of the text. Spaces are tokens if the model reads them.
space: index of the space in the gap; `character` if there is none.
place: number of characters of the line before the gap.
"""


def gaps_of(lines: Sequence[str], normaliser: Normaliser) -> tuple[Gaps, list[list[str]]]:
    """Return the gaps of lines, in order, and the tokens of each line, as a character-level model reads them.

    There is no gap between several tokens of one written character, such as a letter and its accent under NFD.
    """
    gaps: list[tuple[bool, int, int, int]] = []
    sentences: list[list[str]] = []
    begin = 0
    for line in lines:
        tokens: list[str] = []
        white = False
        space = -1
        end = -1
        place = 0
        for part in normaliser.align(line):
            if not split_words(part.written):
                white = True
                space = begin + len(tokens) if part.token is not None else space
            elif part.token is not None and part.start >= end:
                here = begin + len(tokens)
                if place:
                    gaps.append((white, here, here if space < 0 else space, place))
                white = False
                space = -1
                end = part.end
                place = place + 1
            if part.token is not None:
                tokens.append(part.token)
        if tokens:
            begin += len(tokens)
            sentences.append(tokens)
    return np.array(gaps, GAP), sentences


@dataclass(frozen=True)
class BoundaryScore:
    """Scores of predicted boundaries, pooled over the text.

    Attributes:
        name: the layer and reading, or the baseline.
        gaps: number of gaps.
        gold: number of gold boundaries.
        predicted: number of predicted boundaries.
        correct: number of correctly predicted boundaries.
        layer: layer of the distances; None for a baseline.
        reading: how distances are read; None for a baseline.
        threshold: distance above which there is a boundary; None for a baseline.
    """

    name: str
    gaps: int
    gold: int
    predicted: int
    correct: int
    layer: int | None = None
    reading: Reading | None = None
    threshold: float | None = None

    @property
    def precision(self) -> float:
        return self.correct / max(1, self.predicted)

    @property
    def recall(self) -> float:
        return self.correct / max(1, self.gold)

    @property
    def f1(self) -> float:
        return 2 * self.correct / max(1, self.predicted + self.gold)

    @property
    def random_f1(self) -> float:
        """Expected F1 of the same number of boundaries in random gaps.

        F1 is linear in the number of correct boundaries, so this is the F1 of their expected number.
        """
        return 2 * (self.predicted * self.gold / self.gaps) / max(1, self.predicted + self.gold)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        return asdict(self) | {name: getattr(self, name) for name in ("precision", "recall", "f1", "random_f1")}


def score_boundaries(name: str, predicted: Flags, gold: Flags) -> BoundaryScore:
    """Score predicted boundaries.

    Args:
        predicted: (n,), whether a boundary is predicted in each gap.
        gold: (n,), whether each gap is a boundary.
    """
    return BoundaryScore(name, len(gold), int(gold.sum()), int(predicted.sum()), int((predicted & gold).sum()))


BOUNDARY_SCORES = Columns(
    "word boundaries",
    "layer and token whose distance is used, or baseline",
    {
        "name": Column("text", "layer and token, or name of the baseline"),
        "layer": Column("integer", "layer of the distances, from 1; missing for a baseline"),
        "reading": Column("text", "the token whose distance is used: character or space; missing for a baseline"),
        "threshold": Column("number", "smallest distance of a boundary; missing for a baseline", ".4f"),
        "f1": Column("number", "F1 of the predicted boundaries, 0 to 1", PERCENT),
        "precision": Column("number", "0 to 1", PERCENT),
        "recall": Column("number", "0 to 1", PERCENT),
        "random_f1": Column("number", "expected F1 of the same number of boundaries in random gaps", PERCENT),
        "gaps": Column("integer", "number of gaps between characters"),
        "gold": Column("integer", "number of gold boundaries"),
        "predicted": Column("integer", "number of predicted boundaries"),
        "correct": Column("integer", "number of correctly predicted boundaries"),
    },
)
_HEADINGS = {
    "f1": "F1", "precision": "precision", "recall": "recall", "random_f1": "random F1", "threshold": "threshold",
    "name": "boundaries",
}  # fmt: skip


@dataclass(frozen=True)
class BoundaryReport(HasReport):
    """Scores of a model's word boundaries and of baselines, on the same gaps.

    Attributes:
        source: the text.
        tuned_on: the text on which thresholds are chosen.
        tuning_gaps: its number of gaps.
        lines: number of lines of the whole text.
        tokens: number of tokens of the whole text.
        unknown: number of unknown tokens of the whole text.
        gaps: number of evaluated gaps.
        boundaries: number of gold boundaries.
        reads_spaces: whether the model reads white space.
        scores: one for each layer and reading.
        baselines: a boundary in every gap; a boundary after every k characters of a line, with the k of the highest F1
            on the tuning text.
    """

    source: str
    tuned_on: str
    lines: int
    gaps: int
    boundaries: int
    tuning_gaps: int
    tokens: int
    unknown: int
    reads_spaces: bool
    scores: tuple[BoundaryScore, ...]
    baselines: tuple[BoundaryScore, ...]

    def report(self) -> Report:
        """Return precision, recall and F1 of the model and of the baselines."""
        rows = [scores.to_dict() for scores in (*self.scores, *self.baselines)]
        part = "the first part of the text" if self.tuned_on == self.source else self.tuned_on
        sees = "the model reads white space, so it sees the boundaries" if self.reads_spaces else "read without spaces"
        return Report(
            BOUNDARY_SCORES,
            rows,
            {name: getattr(self, name) for name in self.__dataclass_fields__},
            {
                "gaps between characters": self.gaps,
                "boundaries": f"{self.boundaries:,} ({100 * self.boundaries / self.gaps:.1f}%)",
                "unknown characters": f"{self.unknown:,} of {self.tokens:,}",
            },
            [f"pooled over the text; thresholds chosen on {part} ({self.tuning_gaps:,} gaps, not evaluated); {sees}"],
            [ReportTable.of(BOUNDARY_SCORES, rows, _HEADINGS)],
            data=[self.source],
        )


def best_threshold(distances: Distances, boundaries: Flags) -> float:
    """Return the threshold with the highest F1; a gap is predicted as a boundary if `distance >= threshold`.

    Args:
        distances: (n,), the distance of each gap.
        boundaries: (n,), whether each gap is a boundary.
    """
    order = np.argsort(-distances, kind="stable")
    falling = distances[order]
    correct = np.cumsum(boundaries[order])
    f1 = 2 * correct / (np.arange(1, len(order) + 1) + correct[-1])
    last_of_ties = np.append(falling[1:] != falling[:-1], True)
    return float(falling[np.argmax(np.where(last_of_ties, f1, -1.0))])


def evaluate_boundaries(bundle: ModelBundle, text: str | Path, tuning_text: str | Path | None = None) -> BoundaryReport:
    """Predict the word boundaries of a text from the distances of each layer, and score them.

    Args:
        tuning_text: the text on which thresholds are chosen; None: the first tenth of `text`, which is then not
            evaluated.

    Raises:
        InputError: for a word-level model, a model without distances, a text without white space in its lines, and a
            tuning text that is the text.
    """
    if bundle.normaliser.units != "characters":
        raise InputError(
            "found a model that reads words; expected a character-level model"
            " (trained with text.normaliser.units: characters)"
        )
    if tuning_text is not None and Path(tuning_text).resolve() == Path(text).resolve():
        raise InputError(
            f"{tuning_text}: is the text that is evaluated; expected another one for the thresholds, or none for the"
            " first part of the text, which is then not evaluated"
        )
    measured = _read(bundle, text)
    if tuning_text is None:
        tuning, measured = _cut(measured, text)
    else:
        tuning = _read(bundle, tuning_text)

    reads_spaces = bundle.normaliser.space is not None
    readings: tuple[Reading, ...] = ("character", "space") if reads_spaces else ("character",)
    layers = range(1, len(measured.distances) + 1)
    scores = [_score_layer(layer, reading, tuning, measured) for layer in layers for reading in readings]
    best_count = max(range(2, LONGEST_WORD + 1), key=lambda count: _after_every(count, tuning.gaps).f1)
    is_boundary = measured.gaps["boundary"]
    return BoundaryReport(
        source=str(text),
        tuned_on=str(tuning_text or text),
        lines=len(measured.corpus),
        gaps=len(measured.gaps),
        boundaries=int(is_boundary.sum()),
        tuning_gaps=len(tuning.gaps),
        tokens=measured.distances.shape[1],
        unknown=measured.corpus.unknown_count,
        reads_spaces=reads_spaces,
        scores=tuple(scores),
        baselines=(
            score_boundaries("every gap", np.ones(len(measured.gaps), np.bool_), is_boundary),
            _after_every(best_count, measured.gaps),
        ),
    )


class _ReadText(NamedTuple):
    """A text as a character-level model reads it.

    Attributes:
        gaps: those that are evaluated, or on which thresholds are chosen.
        distances: (layers, tokens) of the whole text.
        corpus: the whole text.
    """

    gaps: Gaps
    distances: Distances
    corpus: EncodedCorpus


def _read(bundle: ModelBundle, path: str | Path) -> _ReadText:
    gaps, sentences = gaps_of([line for _, line in read_lines(path)], bundle.normaliser)
    if not gaps["boundary"].any():
        raise InputError(f"{path}: found no word boundary; expected lines with white space between words")
    encoded = list(map(bundle.vocabulary.encode, sentences))
    corpus = EncodedCorpus.from_sentences(encoded, bundle.vocabulary)
    return _ReadText(gaps, distances_of(bundle, corpus), corpus)


def _cut(text: _ReadText, path: str | Path) -> tuple[_ReadText, _ReadText]:
    """Return the first part of a text, on which thresholds are chosen, and the rest."""
    cut = int(TUNING_SHARE * len(text.gaps))
    tuning, measured = text._replace(gaps=text.gaps[:cut]), text._replace(gaps=text.gaps[cut:])
    if not (tuning.gaps["boundary"].any() and measured.gaps["boundary"].any()):
        raise InputError(
            f"{path}: too short: found no boundary in its first tenth, or none after it; expected a longer text, or"
            " a separate text for choosing thresholds (--tune)"
        )
    return tuning, measured


def _score_layer(layer: int, reading: Reading, tuning: _ReadText, measured: _ReadText) -> BoundaryScore:
    """Score the boundaries of the distances of a layer, counted from 1, with the best threshold of the tuning text."""
    tuning_distances = tuning.distances[layer - 1][tuning.gaps[reading]]
    threshold = best_threshold(tuning_distances, tuning.gaps["boundary"])
    predicted = measured.distances[layer - 1][measured.gaps[reading]] >= np.float32(threshold)
    score = score_boundaries(f"layer {layer}, {_READINGS[reading]}", predicted, measured.gaps["boundary"])
    return replace(score, layer=layer, reading=reading, threshold=threshold)


def _after_every(count: int, gaps: Gaps) -> BoundaryScore:
    """Score a boundary after every `count` characters of a line."""
    return score_boundaries(f"every {count} characters", gaps["place"] % count == 0, gaps["boundary"])
