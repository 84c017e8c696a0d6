"""Targeted syntactic evaluation: does a model give the better sentence of a minimal pair the higher probability?

A pair is right when the better sentence's total log-probability is strictly higher. Each sentence is read by itself,
from no state, its end predicted. Marvin & Linzen 2018, section 2; Warstadt et al. 2020, section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.data.pairs import MinimalPair, read_pairs
from syntaxlm.errors import InputError
from syntaxlm.files import to_json, write_text
from syntaxlm.model_io import ModelBundle
from syntaxlm.scoring.engine import LogProbs, Scorer
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees import BootstrapResult

BOOTSTRAP_SAMPLES = 10_000
FEW_KNOWN = 0.01  # of pairs whose words are all known; fewer mean text of another style than the model's

Flags = npt.NDArray[np.bool_]
Credits = npt.NDArray[np.float64]

_AS_WRITTEN = TreebankStyle()


@dataclass(frozen=True)
class Accuracy:
    """How many pairs of how many are right."""

    right: int
    pairs: int

    @classmethod
    def of(cls, right: Flags) -> Accuracy:
        """right: (n,)."""
        return cls(int(right.sum()), len(right))

    @property
    def fraction(self) -> float | None:
        """None of no pairs."""
        return self.right / self.pairs if self.pairs else None

    def to_dict(self) -> dict[str, Any]:
        return {"accuracy": self.fraction, "right": self.right, "pairs": self.pairs}

    def __str__(self) -> str:
        return _percent(self.fraction)


@dataclass(frozen=True, eq=False)
class PairScores:
    """One model's scores of all pairs. All arrays: (n,), in the order of the pairs.

    better, worse: natural log-probability of either sentence.
    differing_known: whether the vocabulary has every word that one sentence has more often than the other; so a pair
    that differs in the order of words alone is among them. all_known: whether it has all words of both.
    read_alike: whether both sentences are the same tokens to the model: its unknown words are all one.
    """

    name: str
    better: LogProbs
    worse: LogProbs
    differing_known: Flags
    all_known: Flags
    read_alike: Flags

    @property
    def right(self) -> Flags:
        return self.better > self.worse

    @property
    def ties(self) -> Flags:
        return self.better == self.worse

    def accuracy(self, among: Flags | None = None) -> Accuracy:
        """among: (n,), the pairs that count; None for all."""
        return Accuracy.of(self.right if among is None else self.right[among])


@dataclass(frozen=True, eq=False)
class PairsReport:
    """Several models on the same pairs. sources: the files; style: what was done to the text before the models."""

    pairs: tuple[MinimalPair, ...]
    models: tuple[PairScores, ...]
    sources: tuple[str, ...]
    style: TreebankStyle = _AS_WRITTEN

    @property
    def sentence_count(self) -> int:
        """How many different sentences, as written."""
        return len({sentence for pair in self.pairs for sentence in (pair.better, pair.worse)})

    @property
    def identical(self) -> tuple[MinimalPair, ...]:
        """Pairs of one sentence and itself: nobody can be right."""
        return tuple(pair for pair in self.pairs if pair.is_identical)

    def by_case(self) -> dict[str, Flags]:
        """Which pairs each case has, (n,), in the order they come."""
        return _members(pair.case for pair in self.pairs)

    def by_group(self) -> dict[str, dict[str, Flags]]:
        """The same for every type of grouping in the files, without pairs that have none of this type."""
        kinds = dict.fromkeys(kind for pair in self.pairs for kind in pair.groups)
        members = {kind: _members(pair.groups.get(kind, "") for pair in self.pairs) for kind in kinds}
        return {kind: {name: one for name, one in groups.items() if name} for kind, groups in members.items()}

    def mean_over_cases(self, model: PairScores, among: Flags | None = None) -> float | None:
        """The mean of the cases' accuracies; of those that have a pair, where only some pairs count."""
        cases = [part if among is None else part & among for part in self.by_case().values()]
        found = [fraction for part in cases if (fraction := model.accuracy(part).fraction) is not None]
        return float(np.mean(found)) if found else None

    def against_first(self) -> dict[str, dict[str, BootstrapResult]]:
        """Every other model's accuracy minus the first one's, by the model's name.

        "all": on all pairs; "differing_words_known": on those whose differing words both models know, if there are any.
        """
        first, *others = self.models
        compared: dict[str, dict[str, BootstrapResult]] = {}
        for other in others:
            known = first.differing_known & other.differing_known
            parts = {"all": np.ones(len(self.pairs), np.bool_), "differing_words_known": known}
            compared[other.name] = {
                name: compare_credits(other.right[part].astype(float), first.right[part].astype(float))
                for name, part in parts.items()
                if part.any()
            }
        return compared

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON: fractions from 0 to 1, null of no pairs."""
        return {
            "files": list(self.sources),
            "pairs": len(self.pairs),
            "sentences": self.sentence_count,
            "identical": [pair.place for pair in self.identical],
            "punctuation": self.style.punctuation,
            "contractions": self.style.contractions,
            "models": [self._model_to_dict(model) for model in self.models],
            "against_first": {
                name: {part: one.to_dict() for part, one in parts.items()}
                for name, parts in self.against_first().items()
            },
        }

    def _model_to_dict(self, model: PairScores) -> dict[str, Any]:
        def parts(members: Mapping[str, Flags]) -> dict[str, Any]:
            return {name: self._accuracies(model, part) for name, part in members.items()}

        everything = np.ones(len(self.pairs), np.bool_)
        return {
            "model": model.name,
            **self._accuracies(model, everything),
            "mean_over_cases": self.mean_over_cases(model),
            "mean_over_cases_differing_words_known": self.mean_over_cases(model, model.differing_known),
            "ties": int(model.ties.sum()),
            "read_alike": int(model.read_alike.sum()),
            "unknown_words": int((~model.all_known).sum()),
            "by_group": {kind: parts(groups) for kind, groups in self.by_group().items()},
            "by_case": parts(self.by_case()),
        }

    def _accuracies(self, model: PairScores, among: Flags) -> dict[str, Any]:
        return {
            "all": model.accuracy(among).to_dict(),
            "differing_words_known": model.accuracy(among & model.differing_known).to_dict(),
            "all_words_known": model.accuracy(among & model.all_known).to_dict(),
        }

    def __str__(self) -> str:
        lines = [
            f"{', '.join(self.sources)}   pairs {len(self.pairs):,}   sentences {self.sentence_count:,}   "
            f"cases {len(self.by_case()):,}",
            "right: the better sentence has the higher total log-probability, its end included; state reset at each "
            "sentence; ties are wrong",
            f"text: {self.style}; then each model's own normaliser",
            *self._warnings(),
            "",
            *self._totals(),
            "",
            *self._parts(),
        ]
        compared = [
            f"{name} against {self.models[0].name}, {_PARTS[part]}: {one}"
            for name, parts in self.against_first().items()
            for part, one in parts.items()
        ]
        return "\n".join([*lines, "", *compared] if compared else lines)

    def _warnings(self) -> list[str]:
        lines = []
        if self.identical:
            places = ", ".join(pair.place for pair in self.identical[:3])
            more = f" and {len(self.identical) - 3} more" if len(self.identical) > 3 else ""
            lines.append(f"identical sentences, wrong for every model: {len(self.identical)} ({places}{more})")
        foreign = [model.name for model in self.models if model.all_known.mean() < FEW_KNOWN]
        if foreign and self.style == _AS_WRITTEN:
            lines.append(
                f"hardly any pair has only words that are known to {', '.join(foreign)}: a model of treebank text wants"
                " punctuation dropped and contractions split"
            )
        return lines

    def _totals(self) -> list[str]:
        width = self._width
        rows: list[tuple[str, list[str]]] = [("accuracy, of how many pairs", [model.name for model in self.models])]
        for label, among in (
            (_PARTS["all"], lambda model: np.ones(len(self.pairs), np.bool_)),
            (_PARTS["differing_words_known"], lambda model: model.differing_known),
            (_PARTS["all_words_known"], lambda model: model.all_known),
        ):
            scores = [model.accuracy(among(model)) for model in self.models]
            rows.append((label, [f"{one} {f'({one.pairs:,})':>9}" for one in scores]))
        means = [(self.mean_over_cases(one), self.mean_over_cases(one, one.differing_known)) for one in self.models]
        rows.append(("mean over cases", [_beside(everywhere) for everywhere, _ in means]))
        rows.append(("mean over cases, differing words known", [_beside(known) for _, known in means]))
        rows.append(("ties, of all pairs", [f"{model.ties.sum():,}" for model in self.models]))
        rows.append(("pairs read as the same words", [f"{model.read_alike.sum():,}" for model in self.models]))
        wide = max(len(label) for label, _ in rows)
        return [(f"{label:<{wide}}" + "".join(f"   {cell:>{width}}" for cell in row)).rstrip() for label, row in rows]

    def _parts(self) -> list[str]:
        """A row for every group and every case: accuracy on all pairs, and where the differing words are known."""
        groups = [
            (f"{kind.replace('_', ' ')}: {name}", part)
            for kind, one in self.by_group().items()
            for name, part in one.items()
        ]
        sections = [groups, list(self.by_case().items())]
        label_width = max(len(name) for rows in sections for name, _ in rows)
        width = self._width
        names = "".join(f"   {model.name:>{width}}" for model in self.models)
        heads = "".join(f"   {f'{_ALL:>6}{_KNOWN:>7}':>{width}}" for _ in self.models)
        lines = [f"{'':<{label_width}}          {names}", f"{'':<{label_width}}     pairs{heads}"]
        for rows in filter(None, sections):
            for name, part in rows:
                cells = (
                    f"{model.accuracy(part)!s:>6}{model.accuracy(part & model.differing_known)!s:>7}"
                    for model in self.models
                )
                columns = "".join(f"   {cell:>{width}}" for cell in cells)
                lines.append(f"{name:<{label_width}}{part.sum():>10,}{columns}")
            lines.append("")
        return lines[:-1]

    @property
    def _width(self) -> int:
        """Of a model's column."""
        return max(15, *(len(model.name) for model in self.models))


_PARTS = {
    "all": "all pairs",
    "differing_words_known": "pairs whose differing words are known",
    "all_words_known": "pairs whose words are all known",
}
_ALL, _KNOWN = "all", "known"


def evaluate_pairs(
    models: ModelBundle | Mapping[str, ModelBundle],
    files: str | Path | Sequence[str | Path],
    style: TreebankStyle = _AS_WRITTEN,
) -> PairsReport:
    """Scores every sentence of the files once with each model, and compares the models with the first.

    models: one, or several by name. files: JSON lines of minimal pairs, or folders of them.
    style: what is done to the text before each model's own normaliser reads it.
    Raises InputError as `read_pairs` does, and for a sentence of which a model's normaliser leaves nothing.
    """
    named = {"model": models} if isinstance(models, ModelBundle) else models
    if not named:
        raise InputError("no model given; expected at least one")
    paths = [files] if isinstance(files, str | Path) else files
    pairs = read_pairs(paths)
    scores = [score_pairs(stored, pairs, style, name) for name, stored in named.items()]
    return PairsReport(tuple(pairs), tuple(scores), tuple(map(str, paths)), style)


def score_pairs(
    stored: ModelBundle, pairs: Sequence[MinimalPair], style: TreebankStyle = _AS_WRITTEN, name: str = "model"
) -> PairScores:
    """One model's scores of pairs.

    Raises InputError for a sentence of which nothing is left.
    """
    written: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        for sentence in (pair.better, pair.worse):
            if sentence not in written:
                try:
                    written[sentence] = tuple(stored.normaliser.tokens(style(sentence)))
                except UntaggedTokenError as error:
                    raise error.at(f"{pair.place}: {name} reads tags") from None
                if not written[sentence]:
                    raise InputError(f"{pair.place}: nothing is left of {sentence!r} as {name} reads it")
    vocabulary = stored.vocabulary
    distinct = {tokens: place for place, tokens in enumerate(dict.fromkeys(written.values()))}
    log_probs = Scorer.of(stored).sentences(list(distinct))
    better, worse = ([written[sentence] for sentence in column] for column in zip(*map(_sides, pairs), strict=True))
    places = [np.array([distinct[tokens] for tokens in column], np.int64) for column in (better, worse)]
    ids = [[vocabulary.encode(tokens) for tokens in column] for column in (better, worse)]
    return PairScores(
        name,
        log_probs[places[0]],
        log_probs[places[1]],
        np.array([all(map(vocabulary.knows, differing_words(*one))) for one in zip(better, worse, strict=True)]),
        np.array([all(map(vocabulary.knows, (*one, *other))) for one, other in zip(better, worse, strict=True)]),
        np.array([one == other for one, other in zip(*ids, strict=True)]),
    )


def differing_words(first: Sequence[str], second: Sequence[str]) -> set[str]:
    """The words that one sentence has more often than the other."""
    counts, others = Counter(first), Counter(second)
    return {*(counts - others), *(others - counts)}


def compare_credits(
    first: Credits, second: Credits, samples: int = BOOTSTRAP_SAMPLES, seed: int = 0
) -> BootstrapResult:
    """Compares what two models earn on the same items, drawn anew with replacement `samples` times.

    first, second: (n,), 0 to 1 each. How often each difference is drawn is multinomial: no item need be drawn.
    """
    values, counts = np.unique(first - second, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(first), counts / len(first), samples)
    return BootstrapResult.of(float(values @ counts) / len(first), drawn @ values / len(first), "accuracy")


def write_pairs(report: PairsReport, path: str | Path) -> None:
    """Writes every pair with each model's scores as JSON lines, atomically. Raises InputError."""
    rows = (to_json(row) for row in scored_pairs(report))
    write_text("".join(row + "\n" for row in rows), path)


def scored_pairs(report: PairsReport) -> Iterable[dict[str, Any]]:
    """Every pair with each model's scores, for JSON; log_prob: natural, of the better and the worse sentence."""
    right = [model.right for model in report.models]
    for place, pair in enumerate(report.pairs):
        yield {
            "file": pair.source,
            "line": pair.line,
            "case": pair.case,
            "groups": pair.groups,
            "better": pair.better,
            "worse": pair.worse,
            "models": {
                model.name: {
                    "right": bool(right[number][place]),
                    "log_prob": [float(model.better[place]), float(model.worse[place])],
                    "differing_words_known": bool(model.differing_known[place]),
                    "all_words_known": bool(model.all_known[place]),
                }
                for number, model in enumerate(report.models)
            },
        }


def _members(names: Iterable[str]) -> dict[str, Flags]:
    """Which of the places each name has."""
    listed = list(names)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(listed))}
    column = np.array([numbers[name] for name in listed])
    return {name: column == number for name, number in numbers.items()}


def _sides(pair: MinimalPair) -> tuple[str, str]:
    return pair.better, pair.worse


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.1f}"


def _beside(fraction: float | None) -> str:
    """A percentage under those that have a number of pairs behind them."""
    return f"{_percent(fraction)} {'':>9}"
