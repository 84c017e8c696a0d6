"""Targeted syntactic evaluation: does a model give the better sentence of a minimal pair the higher probability?

A pair is correct if the total log-probability of the better sentence is higher by more than a rounding error. Each
sentence is scored independently, from an empty state, and its end is predicted. Marvin & Linzen 2018, section 2;
Warstadt et al. 2020, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.core.arrays import Flags, Integers
from syntaxlm.core.declarations import Masking
from syntaxlm.core.errors import amount, shortened
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.arguments import files_of, models_by_name, suggests_parameters
from syntaxlm.data.pairs import MinimalPair, read_pairs
from syntaxlm.evaluation.completion import FEW_KNOWN, candidate_tokens, differing_words
from syntaxlm.evaluation.significance import Accuracy, compare_accuracies, comparison_notes
from syntaxlm.models.abilities import ScoresSentences, ScoresWords
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, RIGHT, Column, Columns, ReportTable, format_value
from syntaxlm.scoring.engine import TIE, LogProbs, Scorer
from syntaxlm.scoring.word_scores import with_masking
from syntaxlm.statistics.bootstrap import BootstrapResult
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.doubts import warn_of_doubts
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.reader import AS_TOKENISED, TextReader

IDENTICAL_NAMED = 3  # identical pairs that a warning names
MANY_UNDECIDED = 0.1  # share of pairs that differ in an unknown word, from which a warning names them
PAIR_CHARACTERS = 60  # characters of a sentence in a warning

PAIR_ACCURACIES = Columns(
    "minimal pairs",
    "model, group of pairs and set of words",
    {
        "model": Column("text", "name of the model"),
        "score": Column(
            "text",
            "what the model compares: log_prob, or pseudo_log_likelihood or decoder_log_probability of some models of"
            " transformers",
        ),
        "grouping": Column("text", "all, case, or a type of grouping that the files name, such as field"),
        "group": Column("text", "name of the case or group; empty for all"),
        "words": Column("text", "pairs that are counted: all, differing_words_known, or all_words_known"),
        "accuracy": Column("number", "share of correct pairs, 0 to 1; missing without pairs", PERCENT),
        "correct": Column("integer", "number of correct pairs"),
        "pairs": Column("integer", "number of pairs"),
        "share_unknown": Column(
            "number",
            "share of the group's pairs with an unknown differing word, 0 to 1; missing if it is empty",
            PERCENT,
        ),
    },
)
_TITLES = {
    "all": "all pairs",
    "differing_words_known": "pairs with all differing words known",
    "all_words_known": "pairs with all words known",
}
_MEANS = {
    "mean_over_cases": "mean over cases",
    "mean_over_cases_differing_words_known": "mean over cases, differing words known",
}
_COUNTS = {"ties": "ties", "read_alike": "identical after normalisation"}


@dataclass(frozen=True, eq=False)
class PairScores:
    """One model's scores of all pairs. All arrays have the shape (n,), in the order of the pairs.

    Attributes:
        better: natural log-probability, or other score, of the better sentence.
        worse: natural log-probability, or other score, of the worse sentence.
        unknown_sides: how many of the two sentences have an unknown word among the words that they have more often than
            the other: 0, 1 or 2.
        all_known: whether the vocabulary has all words of both sentences.
        read_alike: whether both sentences are identical after normalisation, with all unknown words replaced by one
            token.
        score: the name of the scores.
        score_meaning: what they are; "" for log-probabilities.
        ends_counted: whether the end of the sentence counts.
    """

    name: str
    better: LogProbs
    worse: LogProbs
    unknown_sides: Integers
    all_known: Flags
    read_alike: Flags
    score: str = "log_prob"
    score_meaning: str = ""
    ends_counted: bool = True

    @property
    def differing_known(self) -> Flags:
        """(n,) whether the vocabulary has all differing words of both sentences. True for pairs that differ only in
        word order.
        """
        known: Flags = self.unknown_sides == 0
        return known

    @property
    def correct(self) -> Flags:
        return self.better > self.worse + TIE

    @property
    def ties(self) -> Flags:
        return ~(self.correct | (self.worse > self.better + TIE))

    def accuracies(self, among: Flags) -> dict[str, Accuracy]:
        """Return the accuracy of each set of words.

        Args:
            among: (n,), the pairs to include.
        """
        sets = {"all": among, "differing_words_known": self.differing_known, "all_words_known": self.all_known}
        return {name: Accuracy.of(self.correct[among & members]) for name, members in sets.items()}


@dataclass(frozen=True, eq=False)
class PairsReport(HasReport):
    """The results of several models on the same pairs.

    Attributes:
        sources: the files.
        style: how the text was changed before the models' normalisers read it.
    """

    pairs: tuple[MinimalPair, ...]
    models: tuple[PairScores, ...]
    sources: tuple[str, ...]
    style: TextOptions = AS_TOKENISED

    @cached_property
    def groupings(self) -> dict[str, dict[str, Flags]]:
        """The pairs of each group, (n,), by type of grouping: "all", those that the files name, and "case".

        Totals and cases contain only adjacent pairs, see `MinimalPair`. Pairs may have no group of a type.
        """
        adjacent = np.array([pair.adjacent for pair in self.pairs])
        groupings = {"all": {"": adjacent}}
        for grouping in dict.fromkeys(grouping for pair in self.pairs for grouping in pair.groups):
            names = np.array([pair.groups.get(grouping, "") for pair in self.pairs])
            groupings[grouping] = {name: names == name for name in dict.fromkeys(names.tolist()) if name}
        cases = np.array([pair.case for pair in self.pairs])
        return groupings | {"case": {name: (cases == name) & adjacent for name in dict.fromkeys(cases.tolist())}}

    @cached_property
    def accuracies(self) -> list[dict[str, dict[str, dict[str, Accuracy]]]]:
        """The accuracies of each model by type of grouping, group, and set of words."""
        return [
            {
                grouping: {group: model.accuracies(members) for group, members in groups.items()}
                for grouping, groups in self.groupings.items()
            }
            for model in self.models
        ]

    @property
    def identical(self) -> tuple[MinimalPair, ...]:
        """The pairs whose two sentences are identical; no model can be correct on them."""
        return tuple(pair for pair in self.pairs if pair.is_identical and pair.adjacent)

    @cached_property
    def against_first(self) -> dict[str, dict[str, BootstrapResult]]:
        """The accuracy of every other model compared with the first, by model name, then by set of words.

        Sets: "all"; "differing_words_known", the pairs whose differing words are in both vocabularies, if any.
        """
        first, *others = self.models
        adjacent = self.groupings["all"][""]
        compared = {}
        for model in others:
            known = first.differing_known & model.differing_known
            sets = {"all": adjacent, "differing_words_known": known & adjacent}
            compared[model.name] = compare_accuracies(model.correct, first.correct, sets)
        return compared

    def report(self) -> Report:
        """Return the accuracies of all models, in total and by group and case."""
        counts = {
            "pairs": int(self.groupings["all"][""].sum()),
            "sentences": len({sentence for pair in self.pairs for sentence in (pair.better, pair.worse)}),
        }
        models = list(map(self._figures_of, self.models, self.accuracies))
        return Report(
            PAIR_ACCURACIES,
            list(self._rows()),
            {
                "schema_version": 2,
                "files": self.sources,
                **counts,
                "identical": [pair.place for pair in self.identical],
                "punctuation": self.style.punctuation,
                "contractions": self.style.contractions,
                "models": models,
                "against_first": self.against_first,
            },
            {**counts, "cases": len(self.groupings["case"])},
            self._explanation(),
            self._tables(models),
            comparison_notes(self.against_first, self.models[0].name, _TITLES),
            warnings=self._warnings(),
            data=self.sources,
        )

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows: one per model, group and set of words."""
        for model, groupings in zip(self.models, self.accuracies, strict=True):
            for grouping, groups in groupings.items():
                for group, sets in groups.items():
                    share = _share_unknown(sets)
                    place = {"model": model.name, "score": model.score, "grouping": grouping, "group": group}
                    for words, accuracy in sets.items():
                        yield {**place, "words": words, **_figures(accuracy), "share_unknown": share}

    def _explanation(self) -> list[str]:
        """Return lines on what counts as correct, on other scores, and on pairs that say nothing about grammar."""
        lines = [
            f"a pair is correct if the better sentence has the higher total log-probability ({self._ends()}, state"
            " reset at each sentence); ties are incorrect"
        ]
        lines += [
            f"{model.name}: {model.score} instead of the log-probability: {model.score_meaning}; ends of sentences do"
            " not count"
            for model in self.models
            if model.score_meaning
        ]
        lines.append(f"text: {self.style}; then each model's own normaliser")
        lines += [self._undecided(model) for model in self.models if 0 < self._share_undecided(model) < MANY_UNDECIDED]
        return lines

    def _share_undecided(self, model: PairScores) -> float:
        """Return the share of pairs that differ in an unknown word."""
        return float((model.unknown_sides > 0)[self.groupings["all"][""]].mean())

    def _undecided(self, model: PairScores) -> str:
        """Return a line on the pairs that differ in an unknown word."""
        sides = np.where(self.groupings["all"][""], model.unknown_sides, 0)
        first = self.pairs[int(np.flatnonzero(sides)[0])]
        return (
            f"{model.name}: {int((sides > 0).sum()):,} of {amount(int(self.groupings['all'][''].sum()), 'pair')} differ"
            f" in a word that the model does not know, {int((sides == 1).sum()):,} in one sentence and"
            f" {int((sides == 2).sum()):,} in both, such as {shortened(first.better, PAIR_CHARACTERS)!r} /"
            f" {shortened(first.worse, PAIR_CHARACTERS)!r} ({first.place}). These pairs say nothing about grammar"
        )

    def _figures_of(
        self, model: PairScores, accuracies: Mapping[str, dict[str, dict[str, Accuracy]]]
    ) -> dict[str, Any]:
        """Return the figures of a model for JSON. A mean over cases is None if no case has a pair."""
        figures: dict[str, dict[str, Any]] = {
            grouping: {group: _figures_of_sets(sets) for group, sets in groups.items()}
            for grouping, groups in accuracies.items()
        }
        (totals,) = figures.pop("all").values()
        by_case = figures.pop("case")
        means = {}
        for words, key in (("all", ""), ("differing_words_known", "_differing_words_known")):
            case_fractions = (sets[words].fraction for sets in accuracies["case"].values())
            fractions = [fraction for fraction in case_fractions if fraction is not None]
            means[f"mean_over_cases{key}"] = float(np.mean(fractions)) if fractions else None
        counted = {"ties": model.ties, "read_alike": model.read_alike, "unknown_words": ~model.all_known}
        counted |= {"unknown_in_one": model.unknown_sides == 1, "unknown_in_both": model.unknown_sides == 2}
        return {
            "model": model.name,
            "score": model.score,
            "score_meaning": model.score_meaning or None,
            **totals,
            **means,
            **{name: int(flags[self.groupings["all"][""]].sum()) for name, flags in counted.items()},
            "by_group": figures,
            "by_case": by_case,
        }

    def _ends(self) -> str:
        """Return for which models the end of the sentence counts."""
        without = [model.name for model in self.models if not model.ends_counted]
        if not without:
            return "end of sentence included"
        if len(without) == len(self.models):
            return "end of sentence not included"
        return f"end of sentence included, except for {', '.join(without)}"

    def _warnings(self) -> list[str]:
        lines = []
        if self.identical:
            places = ", ".join(pair.place for pair in self.identical[:IDENTICAL_NAMED])
            rest = len(self.identical) - IDENTICAL_NAMED
            lines.append(
                f"{amount(len(self.identical), 'pair')} of identical sentences, incorrect for every model"
                f" ({places}{f' and {rest} more' if rest > 0 else ''})"
            )
        foreign = [model.name for model in self.models if model.all_known.mean() < FEW_KNOWN]
        if foreign and self.style.punctuation == self.style.contractions == "keep":
            lines.append(
                f"hardly any pair has only words in the vocabulary of {', '.join(foreign)}. A model of treebank text"
                " needs text without punctuation and with split contractions"
            )
        lines += [self._undecided(model) for model in self.models if self._share_undecided(model) >= MANY_UNDECIDED]
        return lines

    def _tables(self, models: Sequence[Mapping[str, Any]]) -> list[ReportTable]:
        """Return the totals of all models, then a row for each group and case: accuracy on all pairs, the share of
        pairs with an unknown differing word, and accuracy on the others.
        """
        totals = [groupings["all"][""] for groupings in self.accuracies]
        rows: list[list[Any]] = [[title, *(str(sets[words]) for sets in totals)] for words, title in _TITLES.items()]
        for name, title in _MEANS.items():
            rows.append([title, *(format_value(figures[name], PERCENT) for figures in models)])
        rows += [[title, *(figures[name] for figures in models)] for name, title in _COUNTS.items()]
        names = {model.name: RIGHT for model in self.models}
        columns = ("all", "unknown", "known")
        headings = {f"{model.name}\n{title}": PERCENT for model in self.models for title in columns}
        by_group = []
        for grouping, groups in list(self.groupings.items())[1:]:  # the first has all pairs
            for name, members in groups.items():
                shown: list[float | None] = []
                for groupings in self.accuracies:
                    sets = groupings[grouping][name]
                    known = sets["differing_words_known"].fraction
                    shown += [sets["all"].fraction, _share_unknown(sets), known]
                by_group.append([f"{grouping.replace('_', ' ')}: {name}", int(members.sum()), *shown])
        return [
            ReportTable({"accuracy (number of pairs)": "", **names}, rows),
            ReportTable({"group": "", "pairs": ",", **headings}, by_group),
        ]

    def details(self) -> Iterator[dict[str, Any]]:
        """Yield every pair with each model's scores.

        log_prob: natural log-probabilities of the better and the worse sentence. Another score has its own name.
        """
        correct = [model.correct for model in self.models]
        for place, pair in enumerate(self.pairs):
            yield {
                "file": pair.source,
                **{name: getattr(pair, name) for name in ("line", "case", "groups", "adjacent", "better", "worse")},
                "models": {
                    model.name: {
                        "correct": bool(correct[number][place]),
                        model.score: [float(model.better[place]), float(model.worse[place])],
                        "differing_words_known": bool(model.differing_known[place]),
                        "all_words_known": bool(model.all_known[place]),
                    }
                    for number, model in enumerate(self.models)
                },
            }


def _figures(accuracy: Accuracy) -> dict[str, Any]:
    return {"accuracy": accuracy.fraction, "correct": accuracy.correct, "pairs": accuracy.items}


def _figures_of_sets(sets: Mapping[str, Accuracy]) -> dict[str, Any]:
    """Return the figures of a group for JSON, by set of words."""
    figures: dict[str, Any] = {words: _figures(accuracy) for words, accuracy in sets.items()}
    return {**figures, "share_unknown": _share_unknown(sets)}


def _share_unknown(sets: Mapping[str, Accuracy]) -> float | None:
    """Return the share of a group's pairs with an unknown differing word; None without pairs."""
    pairs = sets["all"].items
    known = sets["differing_words_known"].items
    return (pairs - known) / pairs if pairs else None


@suggests_parameters
@keeps_readings
def evaluate_pairs(
    models: ModelBundle | Mapping[str, ModelBundle],
    files: str | Path | Sequence[str | Path],
    *,
    masking: Masking | None = None,
    punctuation: Punctuation = "auto",
    contractions: Contractions = "auto",
) -> PairsReport:
    """Measure how often each model prefers the better sentence of minimal pairs, and compare the models with the first.

    Every distinct sentence is scored once.

    Args:
        models: one model, or several by name.
        files: files of minimal pairs (JSON lines, or tables .tsv and .csv), or folders of such files.
        masking: sub-tokens that masked models of transformers mask with the one that they predict: the later ones of
            its word ("word-l2r"), or none ("original"); None: "word-l2r".
        punctuation: how punctuation marks are split off before a model reads the text, see `TextOptions`.
        contractions: how contractions are split before a model reads the text, see `TextOptions`.

    Raises:
        InputError: for the reasons of `read_pairs`, for models without sentence probabilities, for `masking` with
            other models than masked ones, and for a sentence that a model's normaliser leaves empty.

    Examples:
        >>> report = syntaxlm.evaluate_pairs({"en-fast": nlp, "lstm": trained}, "pairs.jsonl")
        >>> [model.name for model in report.models]
        ['en-fast', 'lstm']
    """
    named = with_masking(models_by_name(models), masking, "minimal pairs")
    paths = files_of(files, "files")
    style = TextOptions(punctuation=punctuation, contractions=contractions)
    for bundle in named.values():
        if not isinstance(bundle.model, ScoresWords):
            bundle.require(ScoresSentences, "scoring of sentences")  # before the files are read
    pairs = read_pairs(paths)
    scores = [score_pairs(bundle, pairs, style, name) for name, bundle in named.items()]
    return PairsReport(tuple(pairs), tuple(scores), tuple(map(str, paths)), style)


def score_pairs(
    bundle: ModelBundle, pairs: Sequence[MinimalPair], style: TextOptions = AS_TOKENISED, name: str = "model"
) -> PairScores:
    """Score pairs with one model.

    Args:
        style: how the text is changed before the model's normaliser reads it.
        name: the model's name, for messages.

    Raises:
        InputError: for a sentence that the normaliser leaves empty.
    """
    reader = TextReader.of(bundle.normaliser, bundle.vocabulary, style)
    score_type = bundle.model.score_type if isinstance(bundle.model, ScoresWords) else None
    knows = bundle.model.knows if isinstance(bundle.model, ScoresWords) else bundle.vocabulary.knows
    warn_of_doubts(
        reader, [sentence for pair in pairs for sentence in (pair.better, pair.worse)], name, pairs[0].source
    )
    read = [candidate_tokens(reader, (pair.better, pair.worse), pair.place, name) for pair in pairs]
    log_probs = Scorer.of(bundle, takes_scores=True).sentences([tokens for candidates in read for tokens in candidates])
    ids = [list(map(bundle.vocabulary.encode, candidates)) for candidates in read]
    return PairScores(
        name,
        log_probs[0::2],
        log_probs[1::2],
        np.array([sum(not all(map(knows, words)) for words in differing_words(candidates)) for candidates in read]),
        np.array([all(map(knows, chain(*candidates))) for candidates in read]),
        np.array([better == worse for better, worse in ids]),
        score=score_type.sentence if score_type else "log_prob",
        score_meaning=score_type.meaning if score_type else "",
        ends_counted=bundle.mode.predict_eos and score_type is None,
    )
