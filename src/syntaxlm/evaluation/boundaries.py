"""Word boundaries read off a character model's distances: precision, recall and F1 of the white space of a text.

What is judged are gaps: places between two neighbouring characters of a line, white space itself being none. A gap is a
boundary where the text has white space there. Every gap has one distance, that of the character after it, which lies
between this character and what the model read just before it: the character before the gap, or, where the model reads
white space, the space. Such a model offers a second reading: at a boundary the distance of the space, which lies
between the last character of the word and the space. It sees the spaces in either, so its figures show whether
distances peak there (Shen et al. 2018, figure 4); only those of a model that reads without them (normaliser.space:
null) show whether it finds words.

A gap is taken for a boundary when its distance is no smaller than a threshold, which is chosen for F1 on a part of the
text that is not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from syntaxlm.data.corpora import EncodedCorpus, read_lines
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.parsing.structure import distances_of
from syntaxlm.text.normaliser import Normaliser, split_words

TUNING_SHARE = 0.1  # of a text whose own first part chooses the threshold
LONGEST_WORD = 20  # characters; of the baseline that puts a boundary after every so many

Reading = Literal["character", "space"]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Distances = npt.NDArray[np.float32]

_READINGS: dict[Reading, str] = {"character": "distance of the character after", "space": "distance of the space"}


@dataclass(frozen=True)
class Gaps:
    """The gaps of a text, in order.

    boundaries: (n,), whether white space is there. characters, spaces: (n,), which token of the text (0 first, white
    space among them where the model reads it) the character after the gap is, and the space there, the character where
    there is none. places: (n,), how many characters of the line stand before the gap.
    """

    boundaries: Flags
    characters: Integers
    spaces: Integers
    places: Integers

    def part(self, chosen: slice) -> Gaps:
        return Gaps(self.boundaries[chosen], self.characters[chosen], self.spaces[chosen], self.places[chosen])

    def tokens(self, reading: Reading) -> Integers:
        """(n,), the token whose distance each gap has."""
        return self.characters if reading == "character" else self.spaces

    def __len__(self) -> int:
        return len(self.boundaries)


def gaps_of(lines: Sequence[str], normaliser: Normaliser) -> tuple[Gaps, list[list[str]]]:
    """The gaps of lines, and the tokens of each, as a character-level model reads them.

    Several tokens of one written character (an accent apart, under NFD) have no gap between them.
    """
    boundaries: list[bool] = []
    characters: list[int] = []
    spaces: list[int] = []
    places: list[int] = []
    sentences: list[list[str]] = []
    begin = 0
    for line in lines:
        tokens: list[str] = []
        white, space, end, place = False, -1, -1, 0
        for part in normaliser.align(line):
            if not split_words(part.written):
                white = True
                space = begin + len(tokens) if part.token is not None else space
            elif part.token is not None and part.start >= end:
                here = begin + len(tokens)
                if place:
                    boundaries.append(white)
                    characters.append(here)
                    spaces.append(here if space < 0 else space)
                    places.append(place)
                white, space, end, place = False, -1, part.end, place + 1
            if part.token is not None:
                tokens.append(part.token)
        if tokens:
            begin += len(tokens)
            sentences.append(tokens)
    numbers = (np.array(values, np.int64) for values in (characters, spaces, places))
    return Gaps(np.array(boundaries, np.bool_), *numbers), sentences


@dataclass(frozen=True)
class BoundaryScore:
    """Boundaries found against those there are, pooled over the text.

    name: of the layer and reading, or of the baseline. right: found and there. threshold: None for a baseline.
    """

    name: str
    gaps: int
    there: int
    found: int
    right: int
    layer: int | None = None
    reading: Reading | None = None
    threshold: float | None = None

    @property
    def precision(self) -> float:
        return self.right / max(1, self.found)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.there)

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, self.found + self.there)

    @property
    def random_f1(self) -> float:
        """What as many boundaries put anywhere have in expectation: F1 is linear in how many of them are right."""
        return 2 * (self.found * self.there / self.gaps) / max(1, self.found + self.there)

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return asdict(self) | {name: getattr(self, name) for name in ("precision", "recall", "f1", "random_f1")}

    def __str__(self) -> str:
        figures = (f"{100 * value:>5.1f}" for value in (self.f1, self.precision, self.recall, self.random_f1))
        threshold = "" if self.threshold is None else f", at least {self.threshold:.4f}"
        return "F1 {}   precision {}   recall {}   as many at random {}   ".format(*figures) + self.name + threshold


def score_boundaries(name: str, found: Flags, there: Flags) -> BoundaryScore:
    """found, there: (n,)."""
    return BoundaryScore(name, len(there), int(there.sum()), int(found.sum()), int((found & there).sum()))


@dataclass(frozen=True)
class BoundaryReport:
    """A model's boundaries beside the baselines, on the same gaps.

    scores: by layer and reading. baselines: every gap; every k characters of a line, k chosen as the threshold was.
    gaps, boundaries: those measured. tuned_on: the text the choices were made on; tuning_gaps: how many of it.
    lines, tokens, unknown: of the whole text. reads_spaces: whether the model sees white space.
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

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        scores = {name: [one.to_dict() for one in getattr(self, name)] for name in ("scores", "baselines")}
        return asdict(self) | scores

    def __str__(self) -> str:
        part = "its first part" if self.tuned_on == self.source else self.tuned_on
        sees = "the model reads white space, and so sees the boundaries" if self.reads_spaces else "read without spaces"
        return "\n".join(
            [
                f"{self.source}   {self.gaps:,} gaps between characters, {self.boundaries:,} of them boundaries "
                f"({100 * self.boundaries / self.gaps:.1f}%); {self.unknown:,} of {self.tokens:,} characters unknown",
                f"pooled over the text; thresholds chosen on {part} ({self.tuning_gaps:,} gaps, not measured); {sees}",
                "",
                *map(str, self.scores),
                "",
                *map(str, self.baselines),
            ]
        )


def best_threshold(distances: Distances, boundaries: Flags) -> float:
    """The threshold of the highest F1 when a gap is a boundary at `distance >= threshold`. (n,), (n,)."""
    order = np.argsort(-distances, kind="stable")
    falling = distances[order]
    right = np.cumsum(boundaries[order])
    f1 = 2 * right / (np.arange(1, len(order) + 1) + right[-1])
    last_of_ties = np.append(falling[1:] != falling[:-1], True)
    return float(falling[np.argmax(np.where(last_of_ties, f1, -1.0))])


@dataclass(frozen=True)
class _Text:
    """A text as a model reads it. distances: (layers, tokens)."""

    gaps: Gaps
    distances: Distances
    lines: int
    unknown: int

    @classmethod
    def read(cls, stored: ModelBundle, path: str | Path) -> _Text:
        gaps, sentences = gaps_of([line for _, line in read_lines(path)], stored.normaliser)
        if not gaps.boundaries.any():
            raise InputError(f"{path}: no white space between two characters of a line, so no boundary to find")
        vocabulary = stored.vocabulary
        encoded = [vocabulary.encode(sentence) for sentence in sentences]
        corpus = EncodedCorpus.from_sentences(encoded, vocabulary.unknown_id)
        return cls(gaps, distances_of(stored, corpus), len(sentences), corpus.unknown_count)


def evaluate_boundaries(stored: ModelBundle, text: str | Path, tuning_text: str | Path | None = None) -> BoundaryReport:
    """Finds the word boundaries of a text by the distances of each layer, and scores them.

    tuning_text: what thresholds are chosen on; None for the text's own first tenth, which then is not measured.
    Raises InputError for a model of words or without distances, and for a text without white space in its lines.
    """
    if stored.normaliser.units != "characters":
        raise InputError(
            "this model reads words, whose boundaries it is given; expected one of characters"
            " (trained with text.normaliser.units: characters)"
        )
    read = _Text.read(stored, text)
    tuning_read = read if tuning_text is None else _Text.read(stored, tuning_text)
    measured, tuning = read.gaps, tuning_read.gaps
    if tuning_text is None:
        cut = int(TUNING_SHARE * len(measured))
        tuning, measured = measured.part(slice(cut)), measured.part(slice(cut, None))
        if not (tuning.boundaries.any() and measured.boundaries.any()):
            raise InputError(
                f"{text}: too short: no boundary in its first tenth, or none after it; expected a longer text, or"
                " another to choose thresholds on (--tune)"
            )
    reads_spaces = stored.normaliser.space is not None
    readings: tuple[Reading, ...] = ("character", "space") if reads_spaces else ("character",)
    scores = []
    for layer, (of_tuning, of_measured) in enumerate(zip(tuning_read.distances, read.distances, strict=True), 1):
        for reading in readings:
            threshold = best_threshold(of_tuning[tuning.tokens(reading)], tuning.boundaries)
            found = of_measured[measured.tokens(reading)] >= np.float32(threshold)
            score = score_boundaries(f"layer {layer}, {_READINGS[reading]}", found, measured.boundaries)
            scores.append(replace(score, layer=layer, reading=reading, threshold=threshold))
    return BoundaryReport(
        str(text),
        str(tuning_text or text),
        read.lines,
        len(measured),
        int(measured.boundaries.sum()),
        len(tuning),
        read.distances.shape[1],
        read.unknown,
        reads_spaces,
        tuple(scores),
        _baselines(tuning, measured),
    )


def _baselines(tuning: Gaps, measured: Gaps) -> tuple[BoundaryScore, ...]:
    """A boundary in every gap, and after every k characters of a line."""

    def after_every(count: int, gaps: Gaps) -> BoundaryScore:
        return score_boundaries(f"every {count} characters", gaps.places % count == 0, gaps.boundaries)

    best = max(range(2, LONGEST_WORD + 1), key=lambda count: after_every(count, tuning).f1)
    always = score_boundaries("every gap", np.ones(len(measured), np.bool_), measured.boundaries)
    return always, after_every(best, measured)
