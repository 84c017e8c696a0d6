"""Sentence completion: does a model give the right candidate of a question the highest probability?

Each candidate is read as a whole sentence, from no state, its end predicted; by a model of trees along its own tree,
which says where it ends: its log-probability is log P(S | T). k candidates that share the highest log-probability earn
1/k. The log-probabilities of several models are interpolated; the weights are chosen on the first half of the
questions, so that only the second half tells what they are worth. Zweig & Burges 2011; Zhang, Lu & Lapata 2016,
section 4.2, who interpolate two models.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.data.completion import CompletionQuestion, read_questions
from syntaxlm.errors import InputError
from syntaxlm.evaluation.pairs import FEW_KNOWN, Credits, Flags, compare_credits
from syntaxlm.files import to_json, write_text
from syntaxlm.model_io import ModelBundle
from syntaxlm.scoring.engine import LogProbs, Scorer
from syntaxlm.scoring.tree_scores import log_probs_of_trees
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees import BootstrapResult

SHARES = tuple(number / 100 for number in range(101))  # of one model, tried when weights are tuned
INTERPOLATED = "interpolated"

Weights = npt.NDArray[np.float64]

_AS_WRITTEN = TreebankStyle()
_NORMAL_QUANTILE = 1.959963984540054  # of 97.5%
_DIGITS = 9  # beyond which equal sums may differ by rounding


@dataclass(frozen=True)
class Accuracy:
    """What questions earned.  credit: their sum; a tie of k with the right one among them is 1/k."""

    credit: float
    questions: int

    @classmethod
    def of(cls, credits: Credits) -> Accuracy:
        """credits: (n,), 0 to 1 each."""
        return cls(float(credits.sum()), len(credits))

    @property
    def fraction(self) -> float | None:
        """None of no questions."""
        return self.credit / self.questions if self.questions else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95%, a binomial's score interval (Wilson 1927): credits of ties vary less, so it is wide enough for them."""
        fraction = self.fraction
        if fraction is None:
            return None
        size, squared = self.questions, _NORMAL_QUANTILE**2
        middle = (fraction + squared / (2 * size)) / (1 + squared / size)
        spread = math.sqrt(fraction * (1 - fraction) / size + squared / (4 * size**2)) / (1 + squared / size)
        return max(0.0, middle - _NORMAL_QUANTILE * spread), min(1.0, middle + _NORMAL_QUANTILE * spread)

    def as_dict(self) -> dict[str, Any]:
        """interval: null of no questions, as the accuracy."""
        interval = list(self.interval) if self.interval else None
        return {"accuracy": self.fraction, "interval": interval, "credit": self.credit, "questions": self.questions}

    def __str__(self) -> str:
        count = f"({self.questions:,})"
        if self.fraction is None or self.interval is None:
            return f"-{'':14}{count:>9}"
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        return f"{100 * self.fraction:.1f}  {low:>4} to {high:>4}{count:>9}"


@dataclass(frozen=True, eq=False)
class CompletionScores:
    """What one model, or several together, say of q questions of at most k candidates.

    log_probs: (q, k), natural, of the candidates, in their order; -inf where a question has fewer.
    sizes: (q,), how many candidates each question has. right: (q,), which of them, 0 first.
    differing_known: (q, k), whether the vocabulary has the words of a candidate that not all of its question have.
    all_known: (q, k), whether it has all its words. Both are true where there is no candidate.
    given_trees: whether they are of words given their trees. ends: whether ends of sentences are predicted.
    """

    name: str
    log_probs: LogProbs
    sizes: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    differing_known: Flags
    all_known: Flags
    given_trees: bool = False
    ends: bool = True

    @cached_property
    def chosen(self) -> Flags:
        """(q, k): which candidates share the highest log-probability."""
        there = np.arange(self.log_probs.shape[1]) < self.sizes[:, None]
        return (self.log_probs == self.log_probs.max(1, keepdims=True)) & there

    @cached_property
    def credits(self) -> Credits:
        """(q,): 1/k where the right one is among the k chosen, else 0."""
        return np.where(self.chosen[np.arange(len(self.right)), self.right], 1 / self.chosen.sum(1), 0.0)

    @property
    def ties(self) -> Flags:
        """(q,): where more than one is chosen."""
        return self.chosen.sum(1) > 1

    def accuracy(self, among: Flags | None = None) -> Accuracy:
        """among: (q,), the questions that count; None for all."""
        return Accuracy.of(self.credits if among is None else self.credits[among])

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "model": self.name,
            "given_trees": self.given_trees,
            "ends_predicted": self.ends,
            **{name: self.accuracy(part).as_dict() for name, part in self.parts().items()},
            "ties": int(self.ties.sum()),
            "ties_with_right": int((self.ties & (self.credits > 0)).sum()),
            "candidates_with_unknown_words": int((~self.all_known).sum()),
            "candidates_with_unknown_differing_words": int((~self.differing_known).sum()),
        }

    def parts(self) -> dict[str, Flags]:
        """(q,) each: the questions that figures are told of."""
        first = first_half(len(self.right))
        return {
            "all": np.ones_like(first),
            "first_half": first,
            "second_half": ~first,
            "differing_words_known": np.all(self.differing_known, axis=1),
            "all_words_known": np.all(self.all_known, axis=1),
        }


@dataclass(frozen=True, eq=False)
class Interpolation:
    """Several models together.

    weights: of each, by its name; they add up to 1. is_tuned: whether they were chosen on the first half of the
    questions; else they were given.
    """

    scores: CompletionScores
    weights: dict[str, float]
    is_tuned: bool

    def as_dict(self) -> dict[str, Any]:
        figures = {name: value for name, value in self.scores.as_dict().items() if name != "model"}
        return {"weights": self.weights, "tuned_on": "first_half" if self.is_tuned else None, **figures}

    def __str__(self) -> str:
        told = " + ".join(f"{weight:.2f} {name}" for name, weight in self.weights.items())
        if self.is_tuned:
            return f"{INTERPOLATED}: {told}, the best on the first half; so its figure is that of the second half"
        return f"{INTERPOLATED}: {told}, as given"


@dataclass(frozen=True, eq=False)
class CompletionReport:
    """Several models on the same questions.

    interpolation: of the models; None of one. sources: the files of questions and of answers. style: what was done to
    the text before the models. per_token: whether log-probabilities are means over tokens, not sums.
    """

    questions: tuple[CompletionQuestion, ...]
    models: tuple[CompletionScores, ...]
    interpolation: Interpolation | None
    sources: tuple[str, str]
    style: TreebankStyle = _AS_WRITTEN
    per_token: bool = False

    @property
    def candidate_count(self) -> int:
        return sum(map(len, self.questions))

    @property
    def chance(self) -> float:
        """The accuracy of guessing, a fraction."""
        return float(np.mean([1 / len(question) for question in self.questions]))

    @property
    def columns(self) -> tuple[CompletionScores, ...]:
        """The models, and the interpolation of them."""
        return self.models if self.interpolation is None else (*self.models, self.interpolation.scores)

    def compared(self) -> dict[str, dict[str, BootstrapResult]]:
        """The interpolation's accuracy less each model's, by part of the questions, then by the model's name.

        On the second half alone where the weights were chosen on the first.
        """
        if self.interpolation is None:
            return {}
        part = "second_half" if self.interpolation.is_tuned else "all"
        scores = self.interpolation.scores
        among = scores.parts()[part]
        return {part: {one.name: compare_credits(scores.credits[among], one.credits[among]) for one in self.models}}

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON: fractions from 0 to 1, null of no questions."""
        return {
            "questions_file": self.sources[0],
            "answers_file": self.sources[1],
            "questions": len(self.questions),
            "candidates": self.candidate_count,
            "chance": self.chance,
            "punctuation": self.style.punctuation,
            "contractions": self.style.contractions,
            "per_token": self.per_token,
            "models": [model.as_dict() for model in self.models],
            "interpolated": None if self.interpolation is None else self.interpolation.as_dict(),
            "interpolated_against": {
                part: {name: one.as_dict() for name, one in results.items()}
                for part, results in self.compared().items()
            },
        }

    def __str__(self) -> str:
        measure = "mean log-probability of a token" if self.per_token else "total log-probability"
        parses = self.questions[0].parses if any(model.given_trees for model in self.models) else ""
        lines = [
            f"{self.sources[0]}   questions {len(self.questions):,}   candidates {self.candidate_count:,}   "
            f"chance {100 * self.chance:.1f}",
            f"chosen: the candidate of the highest {measure}{self._readings()}; k equal ones earn 1/k",
            f"text: {self.style}; then each model's own normaliser",
            *([f"trees: {parses}, words as they stand there"] if parses else []),
            *self._warnings(),
            "",
            *self._table(),
        ]
        if self.interpolation is not None:
            lines += ["", str(self.interpolation)]
        lines += [
            f"{INTERPOLATED} against {name}, {_PARTS[part]}: {one}"
            for part, results in self.compared().items()
            for name, one in results.items()
        ]
        return "\n".join(lines)

    def _readings(self) -> str:
        """What a log-probability is of; where models differ, by their names."""
        names: dict[str, list[str]] = {}
        for model in self.models:
            reading = (
                "of its words given its tree, P(S | T)" if model.given_trees
                else f"its end {'included' if model.ends else 'left out'}; state reset at each sentence"
            )  # fmt: skip
            names.setdefault(reading, []).append(model.name)
        if len(names) == 1:
            (reading,) = names
            return f" {reading}" if self.models[0].given_trees else f", {reading}"
        told = "; ".join(", ".join(those) + f": {reading}" for reading, those in names.items())
        return f" ({told})"

    def _warnings(self) -> list[str]:
        foreign = [model.name for model in self.models if np.all(model.all_known, axis=1).mean() < FEW_KNOWN]
        if not foreign:
            return []
        return [
            f"hardly any question has only words that are known to {', '.join(foreign)}: a model of other text, or of"
            " treebank text, which wants contractions split"
        ]

    def _table(self) -> list[str]:
        columns = self.columns
        width = max(27, *(len(column.name) for column in columns))
        rows = [("accuracy, 95% interval, of how many questions", [column.name for column in columns])]
        rows += [
            (told, [str(column.accuracy(column.parts()[part])) for column in columns]) for part, told in _PARTS.items()
        ]
        figures = [column.as_dict() for column in columns]
        rows += [(told, [f"{one[name]:,}" for one in figures]) for name, told in _COUNTS.items()]
        wide = max(len(label) for label, _ in rows)
        return [f"{label:<{wide}}" + "".join(f"     {cell:>{width}}" for cell in row) for label, row in rows]


_PARTS = {
    "all": "all questions",
    "first_half": "first half",
    "second_half": "second half",
    "differing_words_known": "questions whose differing words are all known",
    "all_words_known": "questions whose words are all known",
}
_COUNTS = {
    "ties": "questions with a tie for the highest",
    "ties_with_right": "of these, with the right one in it",
    "candidates_with_unknown_words": "candidates with an unknown word",
    "candidates_with_unknown_differing_words": "candidates whose differing word is unknown",
}


def evaluate_completion(
    models: ModelBundle | Mapping[str, ModelBundle],
    questions: str | Path,
    answers: str | Path,
    style: TreebankStyle = _AS_WRITTEN,
    shares: Sequence[float] | None = None,
    per_token: bool = False,
    parses: str | Path | None = None,
) -> CompletionReport:
    """Scores every candidate once with each model; of several models also their interpolation.

    models: one, or several by name. questions, answers, parses: files, as `read_questions` takes them.
    style: what is done to the text before each model's own normaliser reads it; words of trees are left as they are.
    shares: the weights of all models but the first, which has the rest; None: chosen on the questions' first half.
    per_token: candidates are compared by the mean log-probability of their tokens, a predicted end among them.
    Raises InputError as `read_questions` does, for shares that do not fit, for too few questions to choose weights on,
    for a candidate of which a model's normaliser leaves nothing, or which a model has no probability of, for a model of
    trees where there are none, and for parses that no model reads.
    """
    named = {"model": models} if isinstance(models, ModelBundle) else models
    if not named:
        raise InputError("no model given; expected at least one")
    if len(named) > 1 and INTERPOLATED in named:
        raise InputError(f"a model is named {INTERPOLATED}; expected another name: the models together have this one")
    given = None if shares is None else _weights(shares, len(named))
    if parses is not None and not any(stored.model.reads == "trees" for stored in named.values()):
        raise InputError(f"{parses}: parses are given, but no model reads them; expected one of dependency trees")
    asked = read_questions(questions, answers, parses)
    if len(named) > 1 and given is None and len(asked) < 2:
        raise InputError(
            f"{questions}: one question; expected two or more, to choose weights on the first half of them"
        )
    scores = tuple(score_questions(stored, asked, style, name, per_token) for name, stored in named.items())
    interpolation = None
    if len(scores) > 1:
        weights = tune_weights(scores, first_half(len(asked))) if given is None else given
        by_name = dict(zip(named, weights.tolist(), strict=True))
        interpolation = Interpolation(interpolate(scores, weights), by_name, given is None)
    return CompletionReport(tuple(asked), scores, interpolation, (str(questions), str(answers)), style, per_token)


def _weights(shares: Sequence[float], models: int) -> Weights:
    """The weights of all models, from those of all but the first. Raises InputError."""
    told = ", ".join(f"{share:g}" for share in shares) or "none"
    if len(shares) != models - 1:
        raise InputError(f"{len(shares)} weights ({told}) for {models} models; expected one for each but the first")
    if not all(0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise InputError(f"weights {told}; expected numbers from 0 to 1, not above 1 together: the first has the rest")
    return np.array([max(0.0, 1 - sum(shares)), *shares])


def first_half(questions: int) -> Flags:
    """(q,): the questions that weights are chosen on; of an odd number, the middle one is in the second half."""
    return np.arange(questions) < questions // 2


def score_questions(
    stored: ModelBundle,
    questions: Sequence[CompletionQuestion],
    style: TreebankStyle = _AS_WRITTEN,
    name: str = "model",
    per_token: bool = False,
) -> CompletionScores:
    """One model's scores of questions, from their words, or from their trees where it reads trees.

    Raises InputError for a candidate of which nothing is left, for one without a tree where the model reads
    trees, for a tree with words that hang on no root, and for a model that gives no number.
    """
    vocabulary, given_trees = stored.vocabulary, stored.model.reads == "trees"
    ends = stored.mode.predict_eos and not given_trees
    if given_trees:
        read = [_words_of_trees(stored, question, name) for question in questions]
        trees = [tree for question in questions for tree in question.trees]
        log_probs = log_probs_of_trees(stored, trees, questions[0].parses)
    else:
        read = [_tokens(stored, question, style, name) for question in questions]
        log_probs = Scorer.of(stored).sentences([tokens for candidates in read for tokens in candidates])
    if per_token:
        log_probs = log_probs / np.array([len(tokens) + ends for candidates in read for tokens in candidates])
    return completion_scores(
        name,
        questions,
        log_probs,
        [all(map(vocabulary.knows, words)) for candidates in read for words in differing_words(candidates)],
        [all(map(vocabulary.knows, tokens)) for candidates in read for tokens in candidates],
        given_trees,
        ends,
    )


def _tokens(
    stored: ModelBundle, question: CompletionQuestion, style: TreebankStyle, name: str
) -> list[tuple[str, ...]]:
    """Of each candidate, as a model of text reads it."""
    try:
        read = [tuple(stored.normaliser.tokens(style(candidate))) for candidate in question.candidates]
    except UntaggedTokenError as error:
        raise error.at(f"{question.place}, question {question.name}: {name} reads tags") from None
    if not all(read):
        empty = question.candidates[read.index(())]
        raise InputError(f"{question.place}, question {question.name}: nothing is left of {empty!r} as {name} reads it")
    return read


def _words_of_trees(stored: ModelBundle, question: CompletionQuestion, name: str) -> list[tuple[str, ...]]:
    """Of each candidate, as a model of trees reads them."""
    if not question.trees:
        raise InputError(
            f"{question.place}, question {question.name}: plain text, and {name} reads dependency trees; expected"
            " questions in CoNLL-U (.conllu), or a file of their parses beside them"
        )
    return [tuple(map(stored.normaliser.word, tree.words)) for tree in question.trees]


def completion_scores(
    name: str,
    questions: Sequence[CompletionQuestion],
    log_probs: LogProbs,
    differing_known: Sequence[bool],
    all_known: Sequence[bool],
    given_trees: bool = False,
    ends: bool = True,
) -> CompletionScores:
    """Scores from figures of all candidates, one question's after the other's: (n,) each, see CompletionScores."""
    sizes = np.array([len(question) for question in questions])
    there = np.arange(sizes.max()) < sizes[:, None]

    def placed(values: npt.ArrayLike, fill: float | bool) -> Any:
        table = np.full(there.shape, fill)
        table[there] = values
        return table

    right = np.array([question.right for question in questions])
    known = placed(differing_known, True), placed(all_known, True)
    return CompletionScores(name, placed(log_probs, -np.inf), sizes, right, *known, given_trees, ends)


def differing_words(candidates: Sequence[Sequence[str]]) -> list[set[str]]:
    """Of each candidate, the words that it has more often than some other one."""
    counts = [Counter(candidate) for candidate in candidates]
    shared = counts[0].copy()
    for count in counts[1:]:
        shared &= count
    return [set(count - shared) for count in counts]


def interpolate(models: Sequence[CompletionScores], weights: Weights) -> CompletionScores:
    """The weighted sum of the models' log-probabilities of the same questions. Words are known that all models know."""
    first = models[0]
    # What a model with a weight of 0 finds impossible (-inf) does not count.
    parts = [weight * model.log_probs for weight, model in zip(weights, models, strict=True) if weight > 0]
    return CompletionScores(
        INTERPOLATED,
        np.sum(parts, axis=0),
        first.sizes,
        first.right,
        np.logical_and.reduce([model.differing_known for model in models]),
        np.logical_and.reduce([model.all_known for model in models]),
        any(model.given_trees for model in models),
        all(model.ends for model in models),
    )


def tune_weights(models: Sequence[CompletionScores], among: Flags) -> Weights:
    """The weights of the highest accuracy on some of the questions: (models,), their sum is 1.

    among: (q,). From equal weights, each model's share in turn is set to the best of SHARES, the others keeping their
    proportions, until no change is better. Of two models these are all pairs of hundredths; of more, the best that
    this way finds. Of equally good ones, those nearest to equal weights are taken: (1/2, 1/2) of two models that agree.
    """
    count = len(models)
    weights = np.full(count, 1 / count)
    best = _merit(models, weights, among)
    while True:
        before = best
        for place in range(count):
            others = np.where(np.arange(count) == place, 0.0, weights)
            others = others / others.sum() if others.any() else (np.arange(count) != place) / (count - 1)
            for share in SHARES:
                trial = (1 - share) * others
                trial[place] = share
                merit = _merit(models, trial, among)
                if merit > best:
                    weights, best = trial, merit
        if best == before:
            return weights


def _merit(models: Sequence[CompletionScores], weights: Weights, among: Flags) -> tuple[float, float]:
    """The credit of some of the questions, and how near the weights are to equal ones: larger is better."""
    credit = float(interpolate(models, weights).credits[among].sum())
    return round(credit, _DIGITS), -round(float(np.square(weights - 1 / len(weights)).sum()), _DIGITS)


def write_questions(report: CompletionReport, path: str | Path) -> None:
    """Writes every question with each model's scores as JSON lines, whole or not at all. Raises InputError."""
    rows = (to_json(row) for row in scored_questions(report))
    write_text("".join(row + "\n" for row in rows), path)


def scored_questions(report: CompletionReport) -> Iterator[dict[str, Any]]:
    """Every question with each model's scores, for JSON.

    right, chosen: candidates, 0 first; of a tie, chosen has them all. log_probs: natural, in the candidates' order;
    null of what is impossible.
    """
    for place, question in enumerate(report.questions):
        size = len(question)
        yield {
            "question": question.name,
            "place": question.place,
            "candidates": list(question.candidates),
            "right": question.right,
            "models": {
                column.name: {
                    "log_probs": [_finite(one) for one in column.log_probs[place, :size].tolist()],
                    "chosen": np.flatnonzero(column.chosen[place]).tolist(),
                    "credit": float(column.credits[place]),
                    "differing_words_known": column.differing_known[place, :size].tolist(),
                    "all_words_known": column.all_known[place, :size].tolist(),
                }
                for column in report.columns
            },
        }


def _finite(value: float) -> float | None:
    """JSON has no minus infinity."""
    return value if math.isfinite(value) else None
