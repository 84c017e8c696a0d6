"""Reranking: choosing among a parser's candidate trees with the probabilities of a dependency-tree model.

The value of a candidate is (1 - w) times the parser's score plus w times log P(S | T), in nats. The candidate with the
highest value is picked; of tied ones, the first. P(S | T) is the probability of the words given the tree. It does not
contain the probability of the tree, P(T), which the parser's score stands for. Zhang, Lu & Lapata 2016.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar
from syntaxlm.data.parse_candidates import SCORE, ParseCandidates, read_candidates, with_gold
from syntaxlm.models.abilities import GeneratesTrees
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, Column, Columns, ReportTable
from syntaxlm.scoring.surprisal import log_probs_of_trees
from syntaxlm.statistics.bootstrap import BootstrapResult
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.matching import (
    ALL_WORDS,
    HEADS,
    NO_PUNCTUATION,
    WORDS,
    AttachmentScores,
    attachment,
    compare_attachment,
)

TREES_TOGETHER = 4000  # candidates that are scored at a time: enough for large batches, few enough for memory

# Weights of the model that are tried: the ratio to the parser's weight goes from 1 : 10,000 to 10,000 : 1, with 20
# steps per factor of 10, because parsers score on different scales. 0 and 1 use only one of the two scores.
WEIGHTS = (0.0, *(1 / (1 + 10 ** (-exponent / 20)) for exponent in range(-80, 81)), 1.0)

PICKED, MODEL, PARSER, FIRST, RANDOM, BEST = (
    "picked", "highest P(S | T)", "highest parser's score", "first candidate", "random candidate", "best candidate",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Reranked:
    """The candidates of one sentence with their scores.

    Attributes:
        log_probs: (k,), ln P(S | T), nats.
        values: (k,), the weighted sum of log-probability and parser's score.
        picked: index of the candidate with the highest value, from 0.
    """

    candidates: ParseCandidates
    log_probs: Numbers
    values: Numbers
    picked: int

    def text(self) -> str:
        """Return the picked tree in CoNLL-U, with unchanged lines and comments for its number and scores."""
        sentence = self.candidates.sentences[self.picked]
        values = {
            "rerank_candidate": f"{self.picked + 1} of {len(self.candidates)}",
            "rerank_log_prob": f"{self.log_probs[self.picked]:.6f}",
            "rerank_value": f"{self.values[self.picked]:.6f}",
        }
        old = tuple(f"# {name} = " for name in values)
        kept = [comment for comment in sentence.comments if not comment.startswith(old)]
        return sentence.text([*kept, *(f"# {name} = {value}" for name, value in values.items())])


def rerank(
    bundle: ModelBundle, candidates: Iterable[ParseCandidates], weight: float = 1.0, source: str = ""
) -> Iterator[Reranked]:
    """Score the candidates of each sentence and picks one. Some thousand candidates are read at a time.

    Args:
        weight: the model's weight w, 0 to 1; the parser's scores have the weight 1 - w.
        source: the file, for messages.

    Raises:
        InputError: for a weight out of range, for a weight below 1 if there are no parser's scores, and for the reasons
            of `log_probs_of_trees`.
    """
    if not 0 <= weight <= 1:
        raise InputError(f"weight: found {weight:g}; expected a number from 0 to 1")
    for chunk in _chunks(candidates):
        trees = [
            replace(sentence.tree, name=f"{parses.name}, candidate {number}")
            for parses in chunk
            for number, sentence in enumerate(parses.sentences, 1)
        ]
        log_probs = log_probs_of_trees(bundle, trees, source)
        end = 0
        for parses in chunk:
            values = model_scores = log_probs[end : end + len(parses)]
            end += len(parses)
            if weight < 1 and not parses.scores:
                raise InputError(
                    f"{parses.sentences[0].place()}: found no parser's score in the comments; expected a score for each"
                    f" candidate, because the weight {weight:g} is below 1"
                )
            if weight < 1:
                values = weight * model_scores + (1 - weight) * np.array(parses.scores)
            yield Reranked(parses, model_scores, values, int(values.argmax()))


def _chunks(candidates: Iterable[ParseCandidates]) -> Iterator[list[ParseCandidates]]:
    chunk: list[ParseCandidates] = []
    size = 0
    for parses in candidates:
        chunk.append(parses)
        size += len(parses)
        if size >= TREES_TOGETHER:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@dataclass(frozen=True)
class WeightTuning:
    """The weight with the highest UAS without punctuation on a file of candidates.

    Attributes:
        uas: UAS with this weight, 0 to 1.
        model_uas: UAS with the model alone.
        parser_uas: UAS with the parser's scores alone.
        sentences: number of sentences of the file.
        source: the file.
    """

    weight: float
    uas: float
    model_uas: float
    parser_uas: float
    sentences: int
    source: str

    def __str__(self) -> str:
        return (
            f"chosen on {self.source} ({self.sentences:,} sentences), where UAS is {100 * self.uas:.1f}; with the"
            f" model alone {100 * self.model_uas:.1f}, with the parser's scores alone {100 * self.parser_uas:.1f}"
        )


def tune_weight(bundle: ModelBundle, candidates: str | Path, gold: str | Path, score: str = SCORE) -> WeightTuning:
    """Return the weight in `WEIGHTS` with the highest UAS without punctuation; of tied ones, the middle one.

    Args:
        candidates: file of candidates, different from that of the evaluation.
        gold: file of gold trees, different from that of the evaluation.
        score: the comment with the parser's score.

    Raises:
        InputError: for the reasons of `rerank` and `with_gold`.
    """
    read = list(with_gold(read_candidates(candidates, score), gold))
    if not read[0].scores:
        raise InputError(
            f"{candidates}: found no comments with parser's scores, # {score} = ...; expected one for each candidate,"
            " to choose a weight"
        )
    reranked = list(rerank(bundle, read, source=str(candidates)))
    is_candidate = np.arange(max(map(len, read))) < np.array([[len(parses)] for parses in read])

    def padded(values: Iterable[Sequence[float] | Numbers]) -> Numbers:
        """Return the values of all candidates as a table: (sentences, candidates), padded with 0."""
        table = np.zeros(is_candidate.shape)
        table[is_candidate] = np.concatenate(list(values))
        return table

    log_probs = padded(sentence.log_probs for sentence in reranked)
    scores = padded(parses.scores for parses in read)
    counts = [_counts(parses)[:, NO_PUNCTUATION] for parses in read]
    heads = padded(count[:, HEADS] for count in counts)
    words = sum(float(count[0, WORDS]) for count in counts)
    if not words:
        raise InputError(f"{gold}: found only punctuation; expected words, to choose a weight")

    def uas(weight: float) -> float:
        values = np.where(is_candidate, weight * log_probs + (1 - weight) * scores, -np.inf)
        return float(heads[np.arange(len(read)), values.argmax(1)].sum()) / words

    tried = [uas(weight) for weight in WEIGHTS]
    best = [weight for weight, value in zip(WEIGHTS, tried, strict=True) if value == max(tried)]
    return WeightTuning(best[len(best) // 2], max(tried), tried[-1], tried[0], len(read), str(candidates))


def _counts(candidates: ParseCandidates) -> Numbers:
    """Return the attachment counts of each candidate, (k, 2, 3)."""
    assert candidates.gold is not None
    return np.stack([attachment(sentence.tree, candidates.gold, sentence.place()) for sentence in candidates.sentences])


RERANKING_SCORES = Columns(
    "reranking",
    "way of choosing a candidate",
    {
        "trees": Column("text", "way of choosing a candidate"),
        "uas": Column("number", "unlabelled attachment score without punctuation, 0 to 1", PERCENT),
        "las": Column("number", "labelled attachment score without punctuation; missing without labels", PERCENT),
        "uas_all_words": Column("number", "unlabelled attachment score of all words", PERCENT),
        "las_all_words": Column("number", "labelled attachment score of all words", PERCENT),
        "sentences": Column("integer", "number of sentences"),
        "words": Column("integer", "number of words without punctuation"),
        "weight": Column("number", "weight of the model for the picked trees"),
    },
)


@dataclass(frozen=True, eq=False)
class RerankReport(HasReport):
    """The results of reranking.

    Attributes:
        sources: the files of candidates and of gold trees; the latter is "" if there is none.
        sentences: number of sentences.
        candidates: number of candidates.
        others: number of sentences whose first candidate was not picked.
        weight: the model's weight.
        tuning: how the weight was chosen; None if it was given.
        scores: attachment scores by the way of choosing a candidate (`PICKED`, `MODEL`, `PARSER`, `FIRST`, `RANDOM`,
            `BEST`); empty without gold trees. The scores of a random candidate are expected values. Those of the best
            candidate are upper bounds, each figure on its own.
    """

    sources: tuple[str, str]
    sentences: int
    candidates: int
    others: int
    weight: float
    tuning: WeightTuning | None = None
    scores: dict[str, AttachmentScores] = field(default_factory=dict)

    @cached_property
    def compared(self) -> BootstrapResult | None:
        """The UAS without punctuation of the picked trees compared with that of the first candidates.

        None without gold trees or words.
        """
        if not self.scores or not self.scores[PICKED].words():
            return None
        return compare_attachment(self.scores[PICKED], self.scores[FIRST])

    def report(self) -> Report:
        """Return the attachment scores of each way of choosing a candidate; no rows without gold trees."""
        value = "log P(S | T)"
        if self.weight < 1:
            value = f"{self.weight:.4g} log P(S | T) + {1 - self.weight:.4g} parser's score"
        lines = [
            f"picked: the candidate with the highest {value}; in {self.others:,} sentences this is not the first one"
        ]
        if self.tuning is not None:
            lines.append(f"weight {self.tuning}")
        words = all_words = None
        if self.scores:
            words = self.scores[PICKED].words()
            all_words = self.scores[PICKED].words(ALL_WORDS)
            lines.append(f"gold: {self.sources[1]}   words {all_words:,}, without punctuation {words:,}")
        shared = {"sentences": self.sentences, "words": words, "weight": self.weight}
        rows = [{"trees": name, **scores.to_dict(), **shared} for name, scores in self.scores.items()]
        headings = {
            "trees": "", "uas": "without punctuation\nUAS", "las": "\nLAS", "uas_all_words": "all words\nUAS",
            "las_all_words": " \nLAS",
        }  # fmt: skip
        compared = f"{PICKED} compared with {FIRST}, without punctuation: {self.compared}"
        return Report(
            RERANKING_SCORES,
            rows,
            {
                "candidates_file": self.sources[0],
                "gold_file": self.sources[1] or None,
                "sentences": self.sentences,
                "candidates": self.candidates,
                "picked_not_first": self.others,
                "weight": self.weight,
                "tuning": self.tuning,
                "words": words,
                "all_words": all_words,
                "scores": self.scores,
                "picked_against_first": self.compared,
            },
            {"sentences": self.sentences, "candidates": self.candidates},
            lines,
            [ReportTable.of(RERANKING_SCORES, rows, headings)],
            [compared] if self.compared else [],
            data=self.sources[:1],
        )


def evaluate_reranking(
    bundle: ModelBundle,
    candidates: str | Path,
    gold: str | Path | None = None,
    weight: float | None = None,
    tune: tuple[str | Path, str | Path] | None = None,
    score: str = SCORE,
    write: Callable[[str], object] | None = None,
) -> RerankReport:
    """Rerank a file of candidates, reading some thousand candidates at a time.

    Args:
        candidates: the file, see `read_candidates`.
        gold: the gold trees of its sentences; None: nothing is scored.
        weight: the model's weight; None: chosen with `tune`, or else 1, which ignores the parser's scores.
        tune: files of candidates and gold trees for choosing the weight, see `tune_weight`. They must not be those that
            are evaluated.
        score: the comment with the parser's score.
        write: called with each picked tree, a sentence in CoNLL-U.

    Raises:
        InputError: for the reasons of `rerank`, `read_candidates` and `with_gold`, if both `weight` and `tune` are
            given, and if the weight would be chosen on an evaluated file.
    """
    bundle.require(GeneratesTrees, "rerank")
    if weight is not None and tune is not None:
        raise InputError(f"found weight {weight:g}, and {tune[0]} to choose a weight on; expected only one of the two")
    for file, measured in zip(tune or (), (candidates, gold), strict=False):
        if measured is not None and Path(file).resolve() == Path(measured).resolve():
            raise InputError(f"{file}: is also evaluated; expected a different file for choosing the weight")
    tuning = None if tune is None else tune_weight(bundle, *tune, score)
    if tuning is not None:
        weight = tuning.weight
    share = 1.0 if weight is None else weight
    read = read_candidates(candidates, score)
    if gold is not None:
        read = with_gold(read, gold)
    sentences = number = others = 0
    counts: dict[str, list[Numbers]] = defaultdict(list)  # of the candidates, only counts are kept
    is_labelled = False
    for reranked in progress_bar(rerank(bundle, read, share, str(candidates)), "reranking, sentences"):
        sentences += 1
        number += len(reranked.candidates)
        others += reranked.picked > 0
        if reranked.candidates.gold is not None:
            is_labelled = is_labelled or any(reranked.candidates.gold.labels)
            for name, choice in _choices(reranked, with_model=share < 1).items():
                counts[name].append(choice)
        if write is not None:
            write(reranked.text())
    scores = {name: AttachmentScores(np.stack(rows), is_labelled) for name, rows in counts.items()}
    sources = str(candidates), "" if gold is None else str(gold)
    return RerankReport(sources, sentences, number, others, share, tuning, scores)


def _choices(reranked: Reranked, with_model: bool) -> dict[str, Numbers]:
    """Return the attachment counts of the candidate that each way of choosing picks, (2, 3) each.

    Args:
        with_model: include the choice of the model alone.
    """
    counts = _counts(reranked.candidates)
    choices = {PICKED: counts[reranked.picked]}
    if with_model:
        choices[MODEL] = counts[reranked.log_probs.argmax()]
    if reranked.candidates.scores:
        choices[PARSER] = counts[np.argmax(reranked.candidates.scores)]
    return choices | {FIRST: counts[0], RANDOM: counts.mean(0), BEST: counts.max(0)}
