"""Sentence completion: does a model give the right candidate of a question the highest probability?

Each candidate is read as a whole sentence, from no state, its end predicted; by a dependency-tree model along its own
tree, which determines where it ends: its log-probability is log P(S | T). k candidates that share the highest
log-probability earn 1/k. The log-probabilities of several models are interpolated; the weights are chosen on the first
half of the questions, so that only the second half measures them. Zweig & Burges 2011; Zhang, Lu & Lapata 2016, section
4.2, who interpolate two models.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.data.completion import CompletionQuestion, read_questions
from syntaxlm.errors import InputError
from syntaxlm.evaluation.completion_report import (
    INTERPOLATED,
    CompletionReport,
    CompletionScores,
    Interpolation,
    Weights,
    first_half,
)
from syntaxlm.evaluation.pairs import Flags
from syntaxlm.files import to_json, write_text
from syntaxlm.model_io import ModelBundle
from syntaxlm.scoring.engine import LogProbs, Scorer
from syntaxlm.scoring.tree_scores import log_probs_of_trees
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.reader import AS_TOKENISED, TextReader
from syntaxlm.text.treebank_style import TreebankStyle

SHARES = tuple(number / 100 for number in range(101))  # of one model, tried when weights are tuned


_DIGITS = 9  # beyond which equal sums may differ by rounding


def evaluate_completion(
    models: ModelBundle | Mapping[str, ModelBundle],
    questions: str | Path,
    answers: str | Path,
    style: TreebankStyle = AS_TOKENISED,
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
    shown = ", ".join(f"{share:g}" for share in shares) or "none"
    if len(shares) != models - 1:
        raise InputError(f"{len(shares)} weights ({shown}) for {models} models; expected one for each but the first")
    if not all(0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise InputError(f"weights {shown}; expected numbers from 0 to 1, not above 1 together: the first has the rest")
    return np.array([max(0.0, 1 - sum(shares)), *shares])


def score_questions(
    stored: ModelBundle,
    questions: Sequence[CompletionQuestion],
    style: TreebankStyle = AS_TOKENISED,
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
        reader = TextReader.of(stored.normaliser, stored.vocabulary, style)
        read = [_tokens(reader, question, name) for question in questions]
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


def _tokens(reader: TextReader, question: CompletionQuestion, name: str) -> list[tuple[str, ...]]:
    """Of each candidate, as a model of text reads it."""
    try:
        read = [tuple(reader.tokens(candidate)) for candidate in question.candidates]
    except UntaggedTokenError as error:
        raise error.at(f"{question.place}, question {question.name}: {name} reads tags") from None
    if not all(read):
        empty = question.candidates[read.index(())]
        raise InputError(f"{question.place}, question {question.name}: nothing is left of {empty!r} as {name} reads it")
    return read


def _words_of_trees(stored: ModelBundle, question: CompletionQuestion, name: str) -> list[tuple[str, ...]]:
    """Of each candidate, as a dependency-tree model reads them."""
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
    """Writes every question with each model's scores as JSON lines, atomically. Raises InputError."""
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
