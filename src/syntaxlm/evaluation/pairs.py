"""Targeted syntactic evaluation: does a model give the better sentence of a minimal pair the higher probability?

A pair is correct if the total log-probability of the better sentence is strictly higher. Each sentence is scored
independently, from an empty state, and its end is predicted. Marvin & Linzen 2018, section 2; Warstadt et al. 2020,
section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json, write_text
from syntaxlm.core.tables import Column, Columns, HasRows
from syntaxlm.data.pairs import MinimalPair, read_pairs
from syntaxlm.scoring.engine import LogProbs, Scorer
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.reader import AS_TOKENISED, TextReader
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees.significance import BootstrapResult

BOOTSTRAP_SAMPLES = 10_000
FEW_KNOWN = 0.01  # share of pairs with only known words, below which the text has another style than the model's

PAIR_ACCURACIES = Columns(
    "minimal pairs",
    "model, group of pairs and set of words",
    {
        "model": Column("text", "name of the model"),
        "grouping": Column("text", "all, case, or a type of grouping that the files name, such as field"),
        "group": Column("text", "name of the case or group; empty for all"),
        "words": Column("text", "pairs that are counted: all, differing_words_known, or all_words_known"),
        "accuracy": Column("number", "share of correct pairs, 0 to 1; missing without pairs"),
        "correct": Column("integer", "number of correct pairs"),
        "pairs": Column("integer", "number of pairs"),
    },
)

Flags = npt.NDArray[np.bool_]
Credits = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on a number of pairs.  right: number of correct pairs."""

    right: int
    pairs: int

    @classmethod
    def of(cls, right: Flags) -> Accuracy:
        """Return the accuracy.  right: (n,), whether each pair is correct."""
        return cls(int(right.sum()), len(right))

    @property
    def fraction(self) -> float | None:
        """The accuracy, 0 to 1; None if there are no pairs."""
        return self.right / self.pairs if self.pairs else None

    def to_dict(self) -> dict[str, Any]:
        return {"accuracy": self.fraction, "correct": self.right, "pairs": self.pairs}

    def __str__(self) -> str:
        return _percent(self.fraction)


@dataclass(frozen=True, eq=False)
class PairScores:
    """One model's scores of all pairs. All arrays have the shape (n,), in the order of the pairs.

    better, worse: natural log-probabilities of the two sentences.
    differing_known: whether the vocabulary has every word that one sentence has more often than the other. This is true
        for pairs that differ only in word order.
    all_known: whether the vocabulary has all words of both sentences.
    read_alike: whether both sentences are identical after normalisation, with all unknown words replaced by one token.
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
        """Return the accuracy.  among: (n,), the pairs to include; None: all."""
        return Accuracy.of(self.right if among is None else self.right[among])


@dataclass(frozen=True, eq=False)
class PairsReport(HasRows):
    """The results of several models on the same pairs.

    sources: the files.  style: how the text was changed before the models' normalisers read it.
    """

    pairs: tuple[MinimalPair, ...]
    models: tuple[PairScores, ...]
    sources: tuple[str, ...]
    style: TreebankStyle = AS_TOKENISED

    columns = PAIR_ACCURACIES

    @cached_property
    def adjacent(self) -> Flags:
        """The pairs that count in totals and cases, (n,), see `MinimalPair`."""
        return np.array([pair.adjacent for pair in self.pairs])

    @property
    def sentence_count(self) -> int:
        """The number of distinct sentences, before normalisation."""
        return len({sentence for pair in self.pairs for sentence in (pair.better, pair.worse)})

    @property
    def identical(self) -> tuple[MinimalPair, ...]:
        """The pairs whose two sentences are identical; no model can be correct on them."""
        return tuple(pair for pair in self.pairs if pair.is_identical and pair.adjacent)

    def by_case(self) -> dict[str, Flags]:
        """Return the pairs of each case, (n,), in the order of the files."""
        return {name: part & self.adjacent for name, part in _members(pair.case for pair in self.pairs).items()}

    def by_group(self) -> dict[str, dict[str, Flags]]:
        """Return the pairs of each group, (n,), by type of grouping. Pairs may have no group of a type."""
        kinds = dict.fromkeys(kind for pair in self.pairs for kind in pair.groups)
        members = {kind: _members(pair.groups.get(kind, "") for pair in self.pairs) for kind in kinds}
        return {kind: {name: one for name, one in groups.items() if name} for kind, groups in members.items()}

    def mean_over_cases(self, model: PairScores, among: Flags | None = None) -> float | None:
        """Return the mean of the accuracies of the cases; None if no case has a pair.

        among: (n,), the pairs to include; None: all. Cases without such pairs are left out.
        """
        cases = [part if among is None else part & among for part in self.by_case().values()]
        found = [fraction for part in cases if (fraction := model.accuracy(part).fraction) is not None]
        return float(np.mean(found)) if found else None

    def against_first(self) -> dict[str, dict[str, BootstrapResult]]:
        """Compare the accuracy of every other model with that of the first, by model name, then by subset of pairs.

        Subsets: "all"; "differing_words_known", the pairs whose differing words are in both vocabularies, if any.
        """
        first, *others = self.models
        compared: dict[str, dict[str, BootstrapResult]] = {}
        for other in others:
            known = first.differing_known & other.differing_known
            parts = {"all": self.adjacent, "differing_words_known": known & self.adjacent}
            compared[other.name] = {
                name: compare_credits(other.right[part].astype(float), first.right[part].astype(float))
                for name, part in parts.items()
                if part.any()
            }
        return compared

    def to_dict(self) -> dict[str, Any]:
        """Return all figures for JSON, as fractions from 0 to 1; None for a subset without pairs."""
        return {
            "schema_version": 2,  # 1 had "right" for "correct"
            "files": list(self.sources),
            "pairs": int(self.adjacent.sum()),
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

        return {
            "model": model.name,
            **self._accuracies(model, self.adjacent),
            "mean_over_cases": self.mean_over_cases(model),
            "mean_over_cases_differing_words_known": self.mean_over_cases(model, model.differing_known),
            "ties": int(model.ties[self.adjacent].sum()),
            "read_alike": int(model.read_alike[self.adjacent].sum()),
            "unknown_words": int((~model.all_known)[self.adjacent].sum()),
            "by_group": {kind: parts(groups) for kind, groups in self.by_group().items()},
            "by_case": parts(self.by_case()),
        }

    def _accuracies(self, model: PairScores, among: Flags) -> dict[str, Any]:
        return {
            "all": model.accuracy(among).to_dict(),
            "differing_words_known": model.accuracy(among & model.differing_known).to_dict(),
            "all_words_known": model.accuracy(among & model.all_known).to_dict(),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the accuracies of every model, with the columns of `PAIR_ACCURACIES`."""
        everything = np.ones(len(self.pairs), np.bool_)
        sets = {"all": {"": everything}, **self.by_group(), "case": self.by_case()}
        for model in self.models:
            for grouping, members in sets.items():
                for group, part in members.items():
                    for words, one in self._accuracies(model, part).items():
                        yield {"model": model.name, "grouping": grouping, "group": group, "words": words, **one}

    def __str__(self) -> str:
        lines = [
            f"{', '.join(self.sources)}   pairs {self.adjacent.sum():,}   sentences {self.sentence_count:,}   "
            f"cases {len(self.by_case()):,}",
            "a pair is correct if the better sentence has the higher total log-probability (end of sentence included, "
            "state reset at each sentence); ties are incorrect",
            f"text: {self.style}; then each model's own normaliser",
            *self._warnings(),
            "",
            *self._totals(),
            "",
            *self._parts(),
        ]
        compared = [
            f"{name} compared with {self.models[0].name}, {_PARTS[part]}: {one}"
            for name, parts in self.against_first().items()
            for part, one in parts.items()
        ]
        return "\n".join([*lines, "", *compared] if compared else lines)

    def _warnings(self) -> list[str]:
        lines = []
        if self.identical:
            places = ", ".join(pair.place for pair in self.identical[:3])
            more = f" and {len(self.identical) - 3} more" if len(self.identical) > 3 else ""
            lines.append(
                f"warning: {len(self.identical)} pairs of identical sentences, incorrect for every model"
                f" ({places}{more})"
            )
        foreign = [model.name for model in self.models if model.all_known.mean() < FEW_KNOWN]
        if foreign and self.style == AS_TOKENISED:
            lines.append(
                f"warning: hardly any pair has only words in the vocabulary of {', '.join(foreign)}. A model of"
                " treebank text needs text without punctuation and with split contractions"
            )
        return lines

    def _totals(self) -> list[str]:
        width = self._width
        rows: list[tuple[str, list[str]]] = [("accuracy (number of pairs)", [model.name for model in self.models])]
        for label, among in (
            (_PARTS["all"], lambda model: self.adjacent),
            (_PARTS["differing_words_known"], lambda model: self.adjacent & model.differing_known),
            (_PARTS["all_words_known"], lambda model: self.adjacent & model.all_known),
        ):
            scores = [model.accuracy(among(model)) for model in self.models]
            rows.append((label, [f"{one} {f'({one.pairs:,})':>9}" for one in scores]))
        means = [(self.mean_over_cases(one), self.mean_over_cases(one, one.differing_known)) for one in self.models]
        rows.append(("mean over cases", [_beside(everywhere) for everywhere, _ in means]))
        rows.append(("mean over cases, differing words known", [_beside(known) for _, known in means]))
        counted = self.adjacent
        rows.append(("ties", [f"{model.ties[counted].sum():,}" for model in self.models]))
        alike = [f"{model.read_alike[counted].sum():,}" for model in self.models]
        rows.append(("identical after normalisation", alike))
        wide = max(len(label) for label, _ in rows)
        return [(f"{label:<{wide}}" + "".join(f"   {cell:>{width}}" for cell in row)).rstrip() for label, row in rows]

    def _parts(self) -> list[str]:
        """Return a table with a row for every group and case.

        It shows the accuracy on all pairs, and on those whose differing words are known.
        """
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
        """The width of a model's column."""
        return max(15, *(len(model.name) for model in self.models))


_PARTS = {
    "all": "all pairs",
    "differing_words_known": "pairs with all differing words known",
    "all_words_known": "pairs with all words known",
}
_ALL, _KNOWN = "all", "known"


def evaluate_pairs(
    models: ModelBundle | Mapping[str, ModelBundle],
    files: str | Path | Sequence[str | Path],
    style: TreebankStyle = AS_TOKENISED,
) -> PairsReport:
    """Score the minimal pairs of files with each model, and compares the models with the first.

    Every distinct sentence is scored once.
    models: one model, or several by name.
    files: JSON Lines files of minimal pairs, or folders of such files.
    style: how the text is changed before each model's own normaliser reads it.
    Raises InputError for the reasons of `read_pairs`, and for a sentence that a model's normaliser leaves empty.
    """
    named = {"model": models} if isinstance(models, ModelBundle) else models
    if not named:
        raise InputError("found no model; expected one model or more")
    paths = [files] if isinstance(files, str | Path) else files
    pairs = read_pairs(paths)
    scores = [score_pairs(stored, pairs, style, name) for name, stored in named.items()]
    return PairsReport(tuple(pairs), tuple(scores), tuple(map(str, paths)), style)


def score_pairs(
    stored: ModelBundle, pairs: Sequence[MinimalPair], style: TreebankStyle = AS_TOKENISED, name: str = "model"
) -> PairScores:
    """Score pairs with one model.

    style: how the text is changed before the model's normaliser reads it.  name: the model's name, for messages.
    Raises InputError for a sentence that the normaliser leaves empty.
    """
    reader = TextReader.of(stored.normaliser, stored.vocabulary, style)
    written: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        for sentence in (pair.better, pair.worse):
            if sentence not in written:
                try:
                    written[sentence] = tuple(reader.tokens(sentence))
                except UntaggedTokenError as error:
                    raise error.at(f"{pair.place}: {name} reads tags") from None
                if not written[sentence]:
                    raise InputError(f"{pair.place}: the normaliser of {name} leaves no word of {sentence!r}")
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
    """Return the words that one of the sentences has more often than the other."""
    counts, others = Counter(first), Counter(second)
    return {*(counts - others), *(others - counts)}


def compare_credits(
    first: Credits, second: Credits, samples: int = BOOTSTRAP_SAMPLES, seed: int = 0
) -> BootstrapResult:
    """Compare the credits of two models on the same items with a paired bootstrap.

    first, second: (n,), credits from 0 to 1.  samples: number of bootstrap samples.
    The number of times that each difference is drawn has a multinomial distribution, so no single items are drawn.
    """
    values, counts = np.unique(first - second, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(first), counts / len(first), samples)
    return BootstrapResult.of(float(values @ counts) / len(first), drawn @ values / len(first), len(first), "accuracy")


def write_pairs(report: PairsReport, path: str | Path) -> None:
    """Write `scored_pairs` as JSON lines, atomically. Raises InputError if the file cannot be written."""
    rows = (to_json(row) for row in scored_pairs(report))
    write_text("".join(row + "\n" for row in rows), path)


def scored_pairs(report: PairsReport) -> Iterable[dict[str, Any]]:
    """Yield every pair with each model's scores, for JSON.

    log_prob: natural log-probabilities of the better and the worse sentence.
    """
    right = [model.right for model in report.models]
    for place, pair in enumerate(report.pairs):
        yield {
            "file": pair.source,
            "line": pair.line,
            "case": pair.case,
            "groups": pair.groups,
            "adjacent": pair.adjacent,
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
    """Return the positions of each distinct name, (n,)."""
    listed = list(names)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(listed))}
    column = np.array([numbers[name] for name in listed])
    return {name: column == number for name, number in numbers.items()}


def _sides(pair: MinimalPair) -> tuple[str, str]:
    return pair.better, pair.worse


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.1f}"


def _beside(fraction: float | None) -> str:
    """Format a percentage that is aligned with those followed by a number of pairs."""
    return f"{_percent(fraction)} {'':>9}"
