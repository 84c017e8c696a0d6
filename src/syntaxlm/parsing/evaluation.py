"""Trees from a model, and their F1 against gold trees."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from syntaxlm import display
from syntaxlm.data.treebanks import Treebank, read_treebank, treebank_tokens
from syntaxlm.errors import InputError, InputWarning
from syntaxlm.files import to_json, write_text
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.registry import build_model
from syntaxlm.parsing.structure import (
    Rule,
    Structure,
    layers_for,
    rules_for,
    rules_of,
    structure_of,
)
from syntaxlm.text.normaliser import UntaggedTokenError, without_tags
from syntaxlm.trees import (
    DECODING_RULES,
    PROTOCOLS,
    BaselineScores,
    BootstrapResult,
    GoldPreprocessing,
    ParsingScores,
    Protocol,
    SeedScores,
    SpanSets,
    Tree,
    average,
    baseline_scores,
    clean_all,
    find_preprocessing,
    format_brackets,
    format_spans,
    over_seeds,
    paired_bootstrap,
    read_brackets,
    right,
    score,
    trees_of,
)
from syntaxlm.trees.matching import GOLD_ADVICE, beginning, gold_sides, read_matching
from syntaxlm.trees.span_decoding import SPAN_RULES, Scores, SpanScores

MOST_UNKNOWN_TAGS = 0.5  # of a treebank's words; more are of another tag set than the model's
TAGS_SHOWN = 10  # of those that a model does not know


@dataclass(frozen=True)
class Parse:
    """One sentence, parsed. words: as written; tokens: as the (first) model read them.

    tree: over the words; of a model of tags, with the tags above them.
    distances: one for each; none where the tree is not of distances, or is the average of several models'.
    number: its place in the input, 1 first.
    span_scores: (n, n), by first and last word of the span; None where the tree is not of such scores.
    """

    number: int
    words: list[str]
    tokens: list[str]
    distances: list[float]
    tree: Tree
    span_scores: Scores | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        spans = [[part.start, part.end] for part in self.tree.constituents]
        rest: dict[str, Any] = {name: getattr(self, name) for name in ("number", "words", "tokens")}
        if self.distances:
            rest["distances"] = [round(value, 6) for value in self.distances]
        rest["spans"] = spans
        if self.span_scores is not None:
            rest["scores"] = [round(float(self.span_scores[start, end - 1]), 6) for start, end in spans]
        return rest

    def _repr_svg_(self) -> str:
        """The tree over its distances as a picture, for notebooks."""
        return display.render("tree", self.tree, self.distances or None, words=self.words)


@dataclass(frozen=True)
class Parses:
    """The parses of many lines. Words stand in the trees as written; what the normaliser drops does not stand there.

    tagged: whether tokens are tags, which then stand above the words.
    words, tokens: of each line, empty for a line without a word; distances (all words) and spans are of the others.
    distances: none, (0,), where the trees are averages or not of distances.
    first: number of the first line.
    span_scores: of the others, too; None where the trees are averages or not of span scores.
    """

    words: list[list[str]]
    tokens: list[list[str]]
    distances: npt.NDArray[np.float32]
    spans: SpanSets | None
    first: int
    span_scores: SpanScores | None = None
    tagged: bool = False

    def brackets(self) -> list[str]:
        """Each line's tree, "" for a line without a word."""
        drawn = iter(format_spans(self.spans, self._bracketed(), self._tags()) if self.spans else [])
        return [next(drawn) if words else "" for words in self.words]

    def __iter__(self) -> Iterator[Parse | None]:
        """Each line's parse, None for a line without a word."""
        trees = iter(trees_of(self.spans, self._bracketed(), self._tags()) if self.spans else [])
        values = self.distances.tolist()
        end = sentence = 0
        for number, (words, tokens) in enumerate(zip(self.words, self.tokens, strict=True), self.first):
            if not words:
                yield None
                continue
            start, end = end, end + len(words)
            scores = None if self.span_scores is None else self.span_scores.chart(sentence)
            sentence += 1
            yield Parse(number, words, tokens, values[start:end], next(trees), scores)

    def _tags(self) -> list[list[str]] | None:
        return [tokens for tokens in self.tokens if tokens] if self.tagged else None

    def _bracketed(self) -> list[list[str]]:
        """Words that brackets can hold: white space, and what is read as its sign, are characters to some models."""
        return [
            [
                token if word.isspace() or token == f"\\{word}" else word
                for word, token in zip(words, tokens, strict=True)
            ]
            for words, tokens in zip(self.words, self.tokens, strict=True)
            if words
        ]


def parse_lines(
    stored: ModelBundle,
    lines: Sequence[str],
    decoder: Rule | None = None,
    first: int = 1,
    layer: int | None = None,
) -> Parses:
    """Parses lines of raw text, a sentence each.

    decoder: one of the model's rules (`rules_of`); None: its default. first: number of the first line.
    layer: whose distances, 1 is the first; None: the model's own.
    Raises InputError for a model that does not parse, and a decoder or layer that it has not.
    """
    if isinstance(lines, str):
        raise TypeError("parse_lines takes a list of lines, not one string")
    (rule,), (layer,) = rules_for([stored], decoder), layers_for([stored], layer)
    return _parsed(stored, lines, rule, first, layer)


def _parsed(stored: ModelBundle, lines: Sequence[str], rule: Rule, first: int, layer: int) -> Parses:
    tagged = stored.normaliser.units == "tags"
    words: list[list[str]] = []
    tokens: list[list[str]] = []
    for number, line in enumerate(lines, first):
        try:
            written, read = stored.normaliser.written_tokens(line)
        except UntaggedTokenError as error:
            raise error.at(f"sentence {number}") from None
        words.append(written)
        tokens.append(read)
    full = [sentence for sentence in tokens if sentence]
    if not full:
        return Parses(words, tokens, np.zeros(0, np.float32), None, first, tagged=tagged)
    structure = structure_of(stored, full)
    spans = structure.decode(rule, layer)
    if rule in SPAN_RULES:
        return Parses(words, tokens, np.zeros(0, np.float32), spans, first, structure.span_scores, tagged)
    return Parses(words, tokens, structure.distances[layer - 1], spans, first, tagged=tagged)


def parse_lines_together(
    stored: Sequence[ModelBundle],
    lines: Sequence[str],
    decoder: Rule | None = None,
    first: int = 1,
    layer: int | None = None,
    names: Sequence[str] = (),
) -> Parses:
    """Parses lines with several models: the average of their trees, over the words of the first; no distances.

    Vocabularies may differ. Where one of the models reads tags, the lines are tagged text, of which models of words
    read the words. decoder: of the models that have this rule; the others parse by their defaults (all, where
    it is None). layer: as of `parse_lines`, of every model with distances. names: of the models, for messages.
    Raises InputError as `parse_lines`, for a decoder that none of the models has, and naming the sentence that
    normalisers split or drop differently.
    """
    if not stored:
        raise ValueError("expected one model or more")
    chosen = zip(stored, rules_for(stored, decoder), layers_for(stored, layer), strict=True)
    parses = [_parsed(one, _lines_for(one, lines, stored, first), rule, first, number) for one, rule, number in chosen]
    names = names or [f"model {number}" for number in range(1, len(stored) + 1)]
    for name, one in zip(names[1:], parses[1:], strict=True):
        for number, (words, others) in enumerate(zip(parses[0].words, one.words, strict=True), first):
            if words != others:
                raise _read_differently(number, words, others, names[0], name)
    spans = [one.spans for one in parses if one.spans is not None]
    combined = average(spans) if spans else None
    none = np.zeros(0, np.float32)
    return Parses(parses[0].words, parses[0].tokens, none, combined, first, tagged=parses[0].tagged)


def _lines_for(one: ModelBundle, lines: Sequence[str], models: Sequence[ModelBundle], first: int) -> Sequence[str]:
    """Lines as one of several models takes them. first: number of the first line."""
    if one.normaliser.units == "tags" or all(other.normaliser.units != "tags" for other in models):
        return lines
    words = []
    for number, line in enumerate(lines, first):
        try:
            words.append(without_tags(line))
        except UntaggedTokenError as error:
            raise error.at(f"sentence {number}") from None
    return words


def _read_differently(number: int, words: list[str], others: list[str], name: str, other_name: str) -> InputError:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, others, strict=False)))
    return InputError(
        f"sentence {number}: the models read different words from word {same + 1} on.\n"
        f"  {name}, {len(words)} words: {beginning(words[same:])}\n"
        f"  {other_name}, {len(others)} words: {beginning(others[same:])}\n"
        "Models whose trees are averaged must split and drop alike (text.normaliser of their recipes)."
    )


@dataclass(frozen=True, eq=False)
class GoldTrees:
    """Gold trees after clean-up.

    spans: of the trees; numbers: which sentences of the source the trees were before clean-up, 1 first.
    """

    trees: Sequence[Tree]
    spans: SpanSets
    numbers: Sequence[int]
    source: str
    clean_up: str


@dataclass(frozen=True)
class ScoredSentence:
    """One sentence, its trees and its score.

    number: which sentence of the treebank it was before clean-up, 1 first.  words: after clean-up.
    precision, recall, f1: 0 to 1, of this sentence by itself, also where the protocol pools counts.
    predicted, gold: the trees, bracketed.  decoder: whose trees are predicted, or "predicted" for those of a file.
    """

    number: int
    words: tuple[str, ...]
    length: int
    precision: float
    recall: float
    f1: float
    predicted: str
    gold: str
    decoder: str
    protocol: str

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, eq=False)
class RandomWeights:
    """A model's settings and vocabulary with fresh weights that no training has touched: what its form alone gives.

    scores: by seed, of the trees by the same decoder and layer.
    """

    scores: tuple[ParsingScores, ...]

    @property
    def f1(self) -> SeedScores:
        return over_seeds(self.scores)

    def shape(self) -> dict[str, tuple[float, float]]:
        """Mean and sample standard deviation over the seeds of what `BranchingStatistics` has: depth, left, right."""
        shapes = [one.predicted_shape.as_dict() for one in self.scores if one.predicted_shape]
        values = {name: np.array([shape[name] for shape in shapes]) for name in shapes[0]}
        return {
            name: (float(one.mean()), float(one.std(ddof=1)) if len(one) > 1 else 0.0) for name, one in values.items()
        }

    def as_dict(self) -> dict[str, Any]:
        shape = {name: {"mean": mean, "deviation": deviation} for name, (mean, deviation) in self.shape().items()}
        return {"f1": self.f1.as_dict(), "shape": shape}


@dataclass(frozen=True, eq=False)
class ParsingReport:
    """A model's or a file's trees scored, beside all that they are read against.

    scores, predicted: by name, a model's decoder or "predicted"; chosen: the name of the one asked for. Where averaged
    models parse by several decoders, the name has all, in the order of the models: "2 biased + right".
    against_right: the chosen one compared with right branching.
    models: how many models' trees the predicted ones are the average of.
    layer: of the model's distances, whose trees are scored; None for averages, files and trees of span scores.
    f1_by_layer: of a model with several layers, by layer and decoder; the same reading, the same protocol.
    random_weights: None where they were not asked for.
    """

    scores: dict[str, ParsingScores]
    chosen: str
    baselines: BaselineScores
    against_right: BootstrapResult
    predicted: dict[str, SpanSets]
    gold: GoldTrees
    models: int = 1
    layer: int | None = None
    f1_by_layer: dict[int, dict[str, float]] = field(default_factory=dict)
    random_weights: RandomWeights | None = None

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON: those of the chosen trees at the top, fractions from 0 to 1."""
        figures = self.scores[self.chosen].as_dict()
        protocol = figures.pop("protocol")
        return {
            "protocol": protocol["name"],
            "protocol_fields": protocol,
            "treebank": self.gold.source,
            "clean_up": self.gold.clean_up,
            "decoder": self.chosen,
            **({"averaged_models": self.models} if self.models > 1 else {}),
            **figures,
            "f1_by_decoder": {name: scores.f1 for name, scores in self.scores.items()},
            **self._layer_figures(),
            "baselines": self.baselines.as_dict(),
            **({"random_weights": self.random_weights.as_dict()} if self.random_weights else {}),
            "against_right_branching": self.against_right.as_dict(),
        }

    def _layer_figures(self) -> dict[str, Any]:
        """Nothing for a model of one layer."""
        if not self.f1_by_layer:
            return {}
        return {"layer": self.layer, "f1_by_layer": {str(layer): f1 for layer, f1 in self.f1_by_layer.items()}}

    def __str__(self) -> str:
        scores = self.scores[self.chosen]
        lengths = scores.by_sentence.lengths
        lines = [
            f"{self.gold.source}   clean-up {self.gold.clean_up}   protocol {scores.protocol}   "
            f"sentences {scores.sentences} ({lengths.min()} to {lengths.max()} words)",
            "",
            *self._table(),
            "",
            *self._layers(),
            f"{self.chosen} against right branching: {self.against_right}",
        ]
        if scores.recall_by_label:
            common = sorted(scores.recall_by_label.items(), key=lambda item: -item[1][1])[:10]
            lines.append("recall by label   " + "   ".join(f"{label} {100 * r:.1f} ({n})" for label, (r, n) in common))
        lines.append(
            "F1 by length      " + "   ".join(f"{b} {100 * f:.1f} ({n})" for b, (f, n) in scores.f1_by_length.items())
        )
        for name, shape in (("predicted", scores.predicted_shape), ("gold", scores.gold_shape)):
            if shape:
                lines.append(
                    f"{name:9} trees   mean depth {shape.depth:.1f}   "
                    f"left splits {shape.left:.1f}%   right splits {shape.right:.1f}%"
                )
        if self.random_weights:
            shown = {name: f"{mean:.1f} ± {spread:.1f}" for name, (mean, spread) in self.random_weights.shape().items()}
            lines.append(
                f"random weights    mean depth {shown['depth']}   "
                f"left splits {shown['left']}%   right splits {shown['right']}%"
            )
        return "\n".join(lines)

    def _table(self) -> list[str]:
        """Percentages: all decoders, baselines and bounds."""
        baselines, random = self.baselines, self.baselines.random
        lines = ["unlabelled F1   precision   recall"]
        averaged = f", average of {self.models} models" if self.models > 1 else ""
        lines += [_score_row(name + averaged, one) for name, one in self.scores.items()]
        lines.append(_score_row("right branching", baselines.right))
        lines.append(_score_row("left branching", baselines.left))
        lines.append(_score_row("balanced", baselines.balanced))
        lines.append(_seeds_row("random", random))
        if self.random_weights:
            lines.append(_seeds_row(f"random weights, {self.chosen}", self.random_weights.f1))
        lines.append(_score_row("binary upper bound", baselines.binary_bound))
        if baselines.biased_bound:
            lines.append(_score_row("reachable by the biased decoder", baselines.biased_bound))
        return lines

    def _layers(self) -> list[str]:
        """F1 of every layer, percent, a column for each decoder; nothing for a model of one."""
        if not self.f1_by_layer:
            return []
        lines = ["".join(f"{name + ' F1':>14}" for name in next(iter(self.f1_by_layer.values())))]
        for layer, values in self.f1_by_layer.items():
            figures = "".join(f"{100 * f1:14.1f}" for f1 in values.values())
            lines.append(f"{figures}   layer {layer}{' (chosen)' * (layer == self.layer)}")
        return [*lines, ""]


def _score_row(name: str, scores: ParsingScores) -> str:
    return _row(name, scores.f1, scores.precision, scores.recall)


def _seeds_row(name: str, scores: SeedScores) -> str:
    spread = f"± {100 * scores.deviation:.1f}, max {100 * scores.max:.1f}"
    return _row(f"{name}, mean of {scores.count} {'seed' if scores.count == 1 else 'seeds'}, {spread}", scores.mean)


def _row(name: str, f1: float, *others: float) -> str:
    """A row of the table; precision and recall may be missing."""
    precision, recall = (f"{100 * value:.1f}" for value in others) if others else ("", "")
    return f"{100 * f1:13.1f}{precision:>12}{recall:>9}   {name}"


def scored_sentences(report: ParsingReport, name: str | None = None) -> list[ScoredSentence]:
    """Every scored sentence, in the treebank's order.  name: whose trees, of `report.scores`; None: the chosen ones."""
    name = name or report.chosen
    rows, protocol = report.scores[name].by_sentence, report.scores[name].protocol
    gold = [report.gold.trees[index] for index in rows.indices]
    predicted = trees_of(report.predicted[name].select(rows.indices), [tree.words for tree in gold])
    figures = zip(rows.precision.tolist(), rows.recall.tolist(), rows.f1.tolist(), strict=True)
    return [
        ScoredSentence(
            report.gold.numbers[index],
            tree.words,
            len(tree),
            *scores,
            format_brackets(one),
            format_brackets(tree),
            name,
            protocol.name,
        )
        for index, tree, one, scores in zip(rows.indices.tolist(), gold, predicted, figures, strict=True)
    ]


def write_sentences(report: ParsingReport, path: str | Path) -> None:
    """Writes `scored_sentences` as JSON lines, whole or not at all. Raises InputError."""
    rows = (to_json(sentence.as_dict()) for sentence in scored_sentences(report))
    write_text("".join(row + "\n" for row in rows), path)


def protocol_named(name: str, max_words: int | None = None) -> Protocol:
    """A protocol by name, its limit of sentence length replaced where one is given. Raises InputError."""
    if name not in PROTOCOLS:
        raise InputError(f"protocol {name!r}: no such protocol. There are: {', '.join(PROTOCOLS)}")
    if max_words is not None and max_words < 1:
        raise InputError(f"max-words: found {max_words}; expected 1 or more")
    return PROTOCOLS[name] if max_words is None else dataclasses.replace(PROTOCOLS[name], max_words=max_words)


def _report(
    predicted: dict[str, SpanSets], chosen: str, gold: GoldTrees, protocol: Protocol, models: int = 1
) -> ParsingReport:
    spans = gold.spans
    scores = {name: score(one, spans, protocol) for name, one in predicted.items()}
    branching_right = score(right(spans.lengths), spans, protocol, details=False)
    return ParsingReport(
        scores,
        chosen,
        baseline_scores(spans, protocol),
        paired_bootstrap(scores[chosen], branching_right),
        predicted,
        gold,
        models,
    )


def gold_trees(treebank: Treebank) -> list[Tree]:
    """The constituency trees of a treebank. Raises InputError where it has none."""
    trees = [sentence.tree for sentence in treebank if sentence.tree is not None]
    if len(trees) != len(treebank):
        raise InputError(
            f"{treebank.source}: found dependency trees or tagged text only, expected constituency trees (.mrg)"
        )
    return trees


def evaluate_parsing(
    stored: ModelBundle,
    treebank: str | Path,
    protocol: Protocol = PROTOCOLS["wsj-test"],
    decoder: Rule | None = None,
    clean_up: GoldPreprocessing | str | Path = "ptb-keep",
    layer: int | None = None,
    also: Sequence[ModelBundle] = (),
    random_weights: int = 0,
) -> ParsingReport:
    """Parses a treebank's sentences with a model, by all its decoding rules, and scores the trees.

    treebank: a file, folder or pattern; clean_up: a name, a YAML file or the rule as such.
    decoder: whose trees the report is mostly of; None: the model's default.
    layer: whose distances, 1 is the first; None: the model's own. Of a single model the others' F1 is measured, too.
    also: further models; what is scored is then the average of the trees of all, by that layer of each. A decoder that
    a model has not leaves it at its default.
    random_weights: how many models of fresh weights to score beside the model, seeds 0, 1, ...; of a single model.
    Raises InputError as `parse_lines` and `read_treebank` do, and for a model of tags where words have no tags or most
    have tags that the model does not know; a few such tags raise an InputWarning.
    """
    models = [stored, *also]
    chosen, layers = rules_for(models, decoder), layers_for(models, layer)
    if random_weights < 0 or (random_weights and also):
        found = "several models" if also else random_weights
        raise InputError(f"random weights: found {found}; expected a number of seeds, 0 or more, and one model")
    rule = find_preprocessing(clean_up)
    read = read_treebank(treebank, rule)
    trees = gold_trees(read)
    gold = GoldTrees(trees, SpanSets.of(trees), [sentence.number for sentence in read], str(treebank), rule.name)
    structures = [structure_of(one, _tokens_for(one, read)) for one in models]
    predicted = {}
    for rules in _ways(models, chosen):
        ways = zip(structures, rules, layers, strict=True)
        trees_by_model = [structure.decode(of_model, number) for structure, of_model, number in ways]
        predicted[_joined(rules)] = average(trees_by_model) if also else trees_by_model[0]
    report = _report(predicted, _joined(chosen), gold, protocol, len(models))
    if also:
        return report
    return dataclasses.replace(
        report,
        layer=None if chosen[0] in SPAN_RULES else layers[0],
        f1_by_layer=_f1_by_layer(structures[0], gold, protocol),
        random_weights=_random_weights(stored, read, gold, protocol, chosen[0], layers[0], random_weights),
    )


def _tokens_for(stored: ModelBundle, treebank: Treebank) -> list[list[str]]:
    """`treebank_tokens`, tags compared with those that the model knows.

    Raises InputError where a model of tags knows less than half of them; warns where there are unknown ones.
    """
    tokens = treebank_tokens(treebank, stored.normaliser)
    if stored.normaliser.units != "tags":
        return tokens
    counts = Counter(chain.from_iterable(tokens))
    unknown = Counter({tag: count for tag, count in counts.items() if not stored.vocabulary.knows(tag)})
    if not unknown:
        return tokens
    share = unknown.total() / counts.total()
    found = (
        f"{treebank.source}: {unknown.total():,} of {counts.total():,} words ({100 * share:.1f}%) have tags that the"
        f" model does not know: {', '.join(tag for tag, _ in unknown.most_common(TAGS_SHOWN))}"
    )
    if share > MOST_UNKNOWN_TAGS:
        known = ", ".join(tag for tag in stored.vocabulary.tokens if stored.vocabulary.knows(tag))
        raise InputError(f"{found}.\n  known tags: {known}\nExpected a treebank of the tag set that it was trained on.")
    warnings.warn(InputWarning(found), stacklevel=2)
    return tokens


def _ways(models: Sequence[ModelBundle], chosen: tuple[Rule, ...]) -> list[tuple[Rule, ...]]:
    """All rules that any of the models has, as `rules_for` gives them to all; the chosen ones among them."""
    rules = dict.fromkeys(rule for one in models for rule in rules_of(one.model))
    return list(dict.fromkeys([*(rules_for(models, rule) for rule in rules), chosen]))


def _joined(rules: Sequence[Rule]) -> str:
    """Each model's rule: "biased" where all have the same, "2 biased + right" where they differ."""
    runs = [(str(rule), len(list(same))) for rule, same in groupby(rules)]
    if len(runs) == 1:
        return runs[0][0]
    return " + ".join(rule if count == 1 else f"{count} {rule}" for rule, count in runs)


def _f1_by_layer(structure: Structure, gold: GoldTrees, protocol: Protocol) -> dict[int, dict[str, float]]:
    """By layer of distances, 1 is the first, and decoder; nothing for a single layer, or none."""
    layers = len(structure.distances)
    if layers < 2:
        return {}
    return {
        layer: {
            str(rule): score(structure.decode(rule, layer), gold.spans, protocol, details=False).f1
            for rule in DECODING_RULES
        }
        for layer in range(1, layers + 1)
    }


def _random_weights(
    stored: ModelBundle, read: Treebank, gold: GoldTrees, protocol: Protocol, rule: Rule, layer: int, seeds: int
) -> RandomWeights | None:
    """None for no seeds."""
    tokens = treebank_tokens(read, stored.normaliser)
    fresh = (structure_of(with_fresh_weights(stored, seed), tokens) for seed in range(seeds))
    scores = tuple(score(one.decode(rule, layer), gold.spans, protocol) for one in fresh)
    return RandomWeights(scores) if scores else None


def with_fresh_weights(stored: ModelBundle, seed: int) -> ModelBundle:
    """A model of the same settings and vocabulary, its weights drawn anew."""
    device = stored.model.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_model(stored.settings.model, len(stored.vocabulary))
    return dataclasses.replace(stored, model=model.eval().to(device))


def evaluate_trees(
    predicted: str | Path,
    gold: str | Path,
    protocol: Protocol = PROTOCOLS["wsj-test"],
    clean_up: GoldPreprocessing | str | Path = "none",
) -> ParsingReport:
    """Scores the trees of a bracket file against gold ones: a bracket file, or a folder or a pattern of a treebank.

    Both are cleaned up by the same rule; but a predicted file whose sentences are as long as the gold ones then are was
    made of cleaned words, and stays as it is. One whose brackets could be read with labels or without is read the way
    that its numbers of words fit. Raises InputError where sentences differ in number or length.
    """
    rule = find_preprocessing(clean_up)
    gold_cleaned, numbers = _gold_of(gold, rule)
    trees = read_brackets(predicted)
    if list(map(len, trees)) != list(map(len, gold_cleaned)):
        cleaned = clean_all(trees, rule, str(predicted))[0]
        trees = list(read_matching(cleaned, gold_cleaned, *gold_sides(str(predicted), str(gold)), GOLD_ADVICE))
    gold_side = GoldTrees(gold_cleaned, SpanSets.of(gold_cleaned), numbers, str(gold), rule.name)
    return _report({"predicted": SpanSets.of(trees)}, "predicted", gold_side, protocol)


def _gold_of(path: str | Path, rule: GoldPreprocessing) -> tuple[list[Tree], list[int]]:
    """The cleaned trees of a bracket file, whatever its name, or of a treebank; and their numbers there, 1 first."""
    if Path(path).is_file():
        cleaned, indices = clean_all(read_brackets(path), rule, str(path))
        return cleaned, [index + 1 for index in indices]
    read = read_treebank(path, rule)
    return gold_trees(read), [sentence.number for sentence in read]
