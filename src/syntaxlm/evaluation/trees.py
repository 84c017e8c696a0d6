"""Evaluation of parsing: F1 of predicted trees, from a model or a file, compared with gold trees."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch

from syntaxlm.core.errors import InputError, amount, listed, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import LINES_NAMED, announce, keeps_readings
from syntaxlm.core.settings import check_number
from syntaxlm.core.text_files import source_name
from syntaxlm.core.threads import torch_globals
from syntaxlm.data.arguments import check_models, file_of, suggests_parameters
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.treebanks import Preprocessing, Treebank, read_treebank, treebank_tokens
from syntaxlm.evaluation.reliability import reliability
from syntaxlm.evaluation.tree_report import GoldTrees, ParsingReport, RandomWeights
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.models.registry import build_encoder, build_model
from syntaxlm.models.structures import CorpusMarginals, CorpusStructure
from syntaxlm.parsing.options import Decoder, DecodingOptions, MarkUse, Ties
from syntaxlm.parsing.structure import (
    Decoding,
    combined_trees,
    decodings,
    share_without_marks,
    structure_of,
    trained_side,
)
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.doubts import unknown_words
from syntaxlm.trees.baselines import baseline_scores, paired_bootstrap
from syntaxlm.trees.bounds import right
from syntaxlm.trees.f1 import PROTOCOLS, ParsingScores, Protocol, label_mapping, score
from syntaxlm.trees.marks import GapMarks, Marks, MarkSide
from syntaxlm.trees.matching import GOLD_ADVICE, GoldWords, gold_sides, match_predictions
from syntaxlm.trees.preprocessing import GoldPreprocessing, find_preprocessing
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import BracketFile, Tree, read_bracket_file

MOST_UNKNOWN_TAGS = 0.5  # share of words with unknown tags, above which the treebank has a different tag set
MOST_SEEDS = 1000  # maximum number of untrained models
RANDOM_WEIGHTS = 3  # default number of untrained models, for models of distances
TAGS_NAMED = 10  # number of unknown tags in a message
WITH_MARKS = " with marks "  # in the name of a way to parse, after its decoder

FailedParses: TypeAlias = Literal["skip", "zero"]
"""What happens to sentences without a predicted tree: they are left out, or scored without brackets."""


class _Way(NamedTuple):
    """One way to parse with all models.

    Attributes:
        decodings: the decoding of each model.
        structures: the structure of each model.
        read_marks: the marks that the structures depend on; None: no model reads marks, or they are hidden.
        marks: marks as evidence.
    """

    decodings: Sequence[Decoding]
    structures: Sequence[CorpusStructure]
    read_marks: GapMarks | None = None
    marks: Marks | None = None


def protocol_named(name: str, max_words: int | None = None) -> Protocol:
    """Return a protocol by name.

    Args:
        max_words: replaces the protocol's limit of sentence length; None: it is unchanged.

    Raises:
        InputError: for an unknown name, and a limit below 1.
    """
    if name not in PROTOCOLS:
        raise InputError(f"found protocol {name!r}; expected one of {', '.join(PROTOCOLS)}")
    if max_words is not None:
        check_number("maximum words", max_words, 1)
    return PROTOCOLS[name] if max_words is None else dataclasses.replace(PROTOCOLS[name], max_words=max_words)


def find_protocol(protocol: str | Protocol, max_words: int | None = None) -> Protocol:
    """Return a protocol, by its name or as it is. Raises InputError for a protocol object with another limit."""
    if isinstance(protocol, str):
        return protocol_named(protocol, max_words)
    if max_words is not None:
        raise InputError(
            "max_words: found together with a protocol object; set its max_words, or give the protocol's name"
        )
    if not isinstance(protocol, Protocol):
        raise TypeError(f"protocol: found {protocol!r}; expected a name, such as 'wsj-test', or a Protocol")
    return protocol


def _report(
    predicted: dict[str, SpanSets],
    chosen: str,
    gold: GoldTrees,
    protocol: Protocol,
    models: int = 1,
    all_gold: SpanSets | None = None,
) -> ParsingReport:
    """Return the report on predicted trees.

    Args:
        all_gold: also the sentences that the protocol excludes; the random baselines are drawn for all of them.
    """
    spans = gold.spans
    scores = {name: score(trees, spans, protocol) for name, trees in predicted.items()}
    branching_right = score(right(spans.lengths), spans, protocol, details=False)
    return ParsingReport(
        scores,
        chosen,
        baseline_scores(spans if all_gold is None else all_gold, protocol),
        {name: paired_bootstrap(tree_scores, branching_right) for name, tree_scores in scores.items()},
        predicted,
        gold,
        models,
    )


def gold_trees(treebank: Treebank) -> list[Tree]:
    """Return the constituency trees of a treebank. Raises InputError if some sentences have none."""
    trees = [sentence.tree for sentence in treebank if sentence.tree is not None]
    if len(trees) != len(treebank):
        raise InputError(f"{treebank.source}: found dependency trees or tagged text; expected constituency trees")
    return trees


def treebank_of(treebank: Any) -> str | Path | Treebank:
    """Return a treebank that was read, or the name of one. Raises TypeError for anything else."""
    return treebank if isinstance(treebank, Treebank) else file_of(treebank, "treebank")


def with_preprocessing(treebank: str | Path | Treebank, rule: GoldPreprocessing) -> Treebank:
    """Return a treebank that is read, or was read, with a preprocessing. Raises InputError if it was read with another.

    Otherwise the words that another preprocessing keeps would be scored under this name.
    """
    if not isinstance(treebank, Treebank):
        return read_treebank(treebank, rule)
    applied = treebank.preprocessing
    if applied is not None and dataclasses.replace(applied, name=rule.name) != rule:
        raise InputError(
            f"{treebank.source}: was read with preprocessing {applied.name}; expected {rule.name}. Read it so, or"
            f" evaluate with {option_name('--preprocessing', applied.name)}, too"
        )
    return treebank


@suggests_parameters
@keeps_readings
def evaluate_parsing(
    bundle: ModelBundle,
    treebank: str | Path | Treebank,
    protocol: str | Protocol = PROTOCOLS["wsj-test"],
    *,
    decoder: Decoder | None = None,
    layer: int | None = None,
    ties: Ties = "random",
    marks: MarkUse = "auto",
    preprocessing: Preprocessing = "ptb-keep",
    max_words: int | None = None,
    also: Sequence[ModelBundle] = (),
    random_weights: int | None = None,
) -> ParsingReport:
    """Parse the sentences of a treebank with a model and score the trees, with baselines and upper bounds.

    The trees are decoded with every decoder of the model that is not costly. F1 of all layers is reported for a single
    model. If the preprocessing drops punctuation marks, the trees with marks are scored, too: the models read them if
    they can, and for other models they are evidence.

    Args:
        bundle: the model.
        treebank: a bracket file, a folder of bracket files, or a pattern; or what was read with the same preprocessing.
        protocol: the evaluation protocol: a name or a protocol object.
        decoder: the decoder to report in detail, which may be costly; None: the default of the model's structure.
        layer: the layer of the distances; None: the model's default.
        ties: see `DecodingOptions`.
        marks: see `DecodingOptions`; trees with marks are reported in detail for choices other than auto and none.
        preprocessing: the gold-tree preprocessing: a name, a YAML file or a rule.
        max_words: longer sentences are left out; None: the limit of the protocol.
        also: further models. The average of the trees of all models is scored, with the given layer of each model.
            Models without the decoder use their default.
        random_weights: number of untrained models to score as a baseline, by every decoder, with seeds 0, 1, ...; for
            a single model only. None: RANDOM_WEIGHTS for a single model of distances, which parses fast, otherwise 0.

    Raises:
        InputError: for the reasons of `parse_lines` and `read_treebank`; for a treebank that was read with another
            preprocessing; for a model that reads tags, also if words have no tags or if most tags are unknown. A few
            unknown tags give an InputWarning.

    Examples:
        >>> report = syntaxlm.evaluate_parsing(nlp, "corpus/test.mrg", "wsj40")
        >>> report.chosen
        'mbr'
    """
    check_models(also)
    options = DecodingOptions(decoder=decoder, layer=layer, ties=ties, marks=marks)
    protocol = find_protocol(protocol, max_words)
    treebank = treebank_of(treebank)
    models = [bundle, *also]
    chosen = decodings(models, options)
    layers = bundle.require(ParsesSentences, "parsing").distance_layers
    seeds = _random_weights_seeds(random_weights, layers, len(models))

    # Gold trees. Sentences over the limit take much longer and are not scored, but random baselines are drawn for all.
    rule = find_preprocessing(preprocessing)
    sentences = with_preprocessing(treebank, rule)
    all_gold = gold_trees_of(sentences, rule).spans
    sentences = sentences_up_to(sentences, protocol.max_words)
    gold = gold_trees_of(sentences, rule)
    tokens = [tokens_for(model, sentences) for model in models]

    def structures_with(marks: GapMarks | None) -> list[CorpusStructure]:
        corpora = [_corpus(model, words, marks) for model, words in zip(models, tokens, strict=True)]
        pairs = zip(models, corpora, strict=True)
        return [structure_of(model, corpus, not also, gold.numbers) for model, corpus in pairs]

    # Every decoder of the structures; those that a model adds are costly and included only if they are chosen.
    structures = structures_with(None)
    decoders = list(dict.fromkeys(chain.from_iterable(structure.decoders for structure in structures)))
    name, ways = _ways(models, decoders, chosen, options, sentences, structures, structures_with)
    predicted = {
        title: combined_trees(way.structures, way.decodings, options.ties, way.marks) for title, way in ways.items()
    }
    report = _report(predicted, name, gold, protocol, len(models), all_gold)
    if also:
        return report
    report = _of_single_model(report, ways[name], decoders, protocol)
    return dataclasses.replace(report, random_weights=_random_weights(bundle, sentences, report, protocol, ways, seeds))


def _random_weights_seeds(asked: int | None, layers: int, models: int) -> int:
    """Return the number of untrained models to score.

    Args:
        asked: the number that is asked for; None: the default.
        layers: number of layers with distances.
        models: number of trained models.

    Raises:
        InputError: for a wrong number, and for untrained models beside several trained ones.
    """
    if asked is None:
        return RANDOM_WEIGHTS if layers and models == 1 else 0
    check_number("random weights", asked, 0, MOST_SEEDS)
    if asked and models > 1:
        raise InputError(
            f"random weights: found {models} models; expected one. Evaluate each model separately, or without"
            " random weights."
        )
    return asked


def _ways(
    models: Sequence[ModelBundle],
    decoders: Sequence[str],
    chosen: Sequence[Decoding],
    options: DecodingOptions,
    sentences: Treebank,
    structures: Sequence[CorpusStructure],
    structures_with: Callable[[GapMarks], Sequence[CorpusStructure]],
) -> tuple[str, dict[str, _Way]]:
    """Return the name of the way that is reported in detail, and all ways by name.

    They are every decoder, the chosen one, and this one again with punctuation marks, which are evidence for the models
    that do not read them.

    Args:
        structures: the structure of each model without marks.
        structures_with: returns the structures of models that read these marks.
    """
    listed = [decodings(models, dataclasses.replace(options, decoder=cast(Decoder, decoder))) for decoder in decoders]
    ways = {_decoder_name(decoding): _Way(decoding, structures) for decoding in [*listed, chosen]}
    name = _decoder_name(chosen)
    share = share_without_marks(models)
    marks = marks_in(sentences, trained_side(models) or "both", options.marks, share)
    if marks is not None:
        name_with_marks = f"{name}{WITH_MARKS}({marks.side if marks.share else 'read'})"
        evidence = marks if marks.share else None
        if share < 1:
            ways[name_with_marks] = _Way(chosen, structures_with(marks.gaps), marks.gaps, evidence)
        else:
            ways[name_with_marks] = _Way(chosen, structures, marks=evidence)
        name = name if options.marks == "auto" else name_with_marks
    return name, ways


def _of_single_model(report: ParsingReport, way: _Way, decoders: Sequence[str], protocol: Protocol) -> ParsingReport:
    """Return the report with what only a single model has: layers, induced labels and calibrated probabilities."""
    (decoding,) = way.decodings
    (structure,) = way.structures
    name, spans = report.chosen, report.gold.spans
    return dataclasses.replace(
        report,
        layer=decoding.layer if structure.layers else None,
        f1_by_layer=_f1_by_layer(structure, decoders, report.gold, protocol) if structure.layers > 1 else {},
        labels=label_mapping(structure.labelled(decoding.decoder, way.marks), spans, protocol)
        if structure.labels
        else None,
        reliability=reliability(structure.table, report.predicted[name], spans, report.scores[name])
        if isinstance(structure, CorpusMarginals)
        else None,
    )


def _f1_by_layer(
    structure: CorpusStructure, decoders: Sequence[str], gold: GoldTrees, protocol: Protocol
) -> dict[int, dict[str, float]]:
    """Return F1 of the distances of each layer, by decoder."""

    def f1(decoder: str, layer: int) -> float:
        return score(structure.decode(decoder, layer), gold.spans, protocol, details=False).f1

    return {layer: {decoder: f1(decoder, layer) for decoder in decoders} for layer in range(1, structure.layers + 1)}


def marks_in(treebank: Treebank, side: MarkSide, use: MarkUse, share: float = 1.0) -> Marks | None:
    """Return the punctuation marks that the preprocessing of a treebank drops; None if they are not used.

    If there are no marks, they are not used; this is an InputError if `use` states a side.

    Args:
        side: where spans need a mark, unless `use` states it.
        share: see `Marks`, unless `use` states a side, which all models need.
    """
    gaps = np.array(list(chain.from_iterable(sentence.marks for sentence in treebank)), np.int16)
    if use == "none" or (use == "auto" and not gaps.any()):
        return None
    if not gaps.any():
        raise InputError(
            f"{treebank.source}: found no punctuation mark that the preprocessing drops; expected some for marks {use}."
            " Use marks none, or a preprocessing that drops them"
        )
    lengths = np.array([len(sentence) for sentence in treebank], np.int64)
    return Marks(gaps, lengths, side, share) if use == "auto" else Marks(gaps, lengths, use)


def _corpus(bundle: ModelBundle, tokens: Sequence[Sequence[str]], marks: GapMarks | None) -> EncodedCorpus:
    """Return the sentences of a treebank as a model reads them."""
    return EncodedCorpus.from_sentences([bundle.vocabulary.encode(sentence) for sentence in tokens], marks=marks)


def sentences_up_to(treebank: Treebank, words: int | None) -> Treebank:
    """Return the sentences of up to this many words; all sentences if there is none, so that scoring reports it.

    Args:
        words: None: no limit.
    """
    if words is None:
        return treebank
    short = tuple(sentence for sentence in treebank if len(sentence) <= words)
    return dataclasses.replace(treebank, sentences=short or treebank.sentences)


def tokens_for(bundle: ModelBundle, treebank: Treebank) -> list[list[str]]:
    """Return the tokens of a treebank for a model, see `treebank_tokens`.

    For a model that reads tags, raises InputError if more than half of the tags are unknown, and warns of fewer.
    """
    tokens = treebank_tokens(treebank, bundle.parser_normaliser)
    if bundle.parser_normaliser.units == "words":
        flags = ((token, not bundle.vocabulary.knows(token)) for sentence in tokens for token in sentence)
        if message := unknown_words(flags):
            warn_caller(f"{treebank.source}: {message.format('the model')}")
    if bundle.parser_normaliser.units != "tags":
        return tokens
    counts = Counter(chain.from_iterable(tokens))
    unknown = Counter({tag: count for tag, count in counts.items() if not bundle.vocabulary.knows(tag)})
    if not unknown:
        return tokens
    share = unknown.total() / counts.total()
    reported = (
        f"{treebank.source}: {unknown.total():,} of {counts.total():,} words ({100 * share:.1f}%) have tags that are"
        f" unknown to the model: {', '.join(tag for tag, _ in unknown.most_common(TAGS_NAMED))}"
    )
    if share > MOST_UNKNOWN_TAGS:
        known = ", ".join(tag for tag in bundle.vocabulary.tokens if bundle.vocabulary.knows(tag))
        raise InputError(
            f"{reported}.\n  known tags: {known}\nExpected a treebank with the tag set of the training data."
        )
    warn_caller(reported)
    return tokens


def known_tokens_for(bundle: ModelBundle, treebank: Treebank) -> list[list[str]]:
    """Return the tokens of a treebank for a model, see `tokens_for`.

    Raises:
        InputError: also if most words are unknown to the model, as they are to a character-level model.
    """
    tokens = tokens_for(bundle, treebank)
    known = [bundle.vocabulary.knows(token) for sentence in tokens for token in sentence]
    unknown = known.count(False)
    if unknown > MOST_UNKNOWN_TAGS * len(known):
        units = bundle.normaliser.units
        raise InputError(
            f"{treebank.source}: {unknown:,} of {len(known):,} words are unknown to the model, which reads {units};"
            f" expected a treebank of such {units}"
        )
    return tokens


def _decoder_name(chosen: Sequence[Decoding]) -> str:
    """Return a name for the decoders of the models: "biased" if they are equal, otherwise such as "2 biased + mbr"."""
    runs = [(decoder, len(list(same))) for decoder, same in groupby(decoding.decoder for decoding in chosen)]
    if len(runs) == 1:
        return runs[0][0]
    return " + ".join(decoder if count == 1 else f"{count} {decoder}" for decoder, count in runs)


def _random_weights(
    bundle: ModelBundle,
    read: Treebank,
    report: ParsingReport,
    protocol: Protocol,
    ways: Mapping[str, _Way],
    seeds: int,
) -> RandomWeights | None:
    """Score untrained models in each of the ways of a model's report. Returns None if the number of seeds is 0."""
    if not seeds:
        return None
    tokens = treebank_tokens(read, bundle.parser_normaliser)
    scores: dict[str, list[ParsingScores]] = {name: [] for name in ways}
    for seed in range(seeds):
        fresh = with_fresh_weights(bundle, seed)
        structures: dict[bool, CorpusStructure] = {}  # by whether marks are read
        for name, way in ways.items():
            reads = way.read_marks is not None
            if reads not in structures:
                structures[reads] = structure_of(fresh, _corpus(fresh, tokens, way.read_marks), labels=False)
            (decoding,) = way.decodings
            scores[name].append(score(structures[reads].decode(*decoding, way.marks), report.gold.spans, protocol))
    return RandomWeights({name: tuple(seed_scores) for name, seed_scores in scores.items()}, report.chosen)


def with_fresh_weights(bundle: ModelBundle, seed: int) -> ModelBundle:
    """Return a model with the same settings and vocabulary, and with new random weights from a seed."""
    device = bundle.model.device
    with torch_globals, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        build = build_encoder if bundle.is_encoder else build_model
        model = build(bundle.settings.model, len(bundle.vocabulary))
    return dataclasses.replace(bundle, model=model.eval().to(device))


@keeps_readings
def evaluate_trees(
    predicted: str | Path,
    gold: str | Path,
    protocol: str | Protocol = PROTOCOLS["wsj-test"],
    preprocessing: Preprocessing = "none",
    labelled: bool | None = None,
    failed: FailedParses = "skip",
) -> ParsingReport:
    """Score predicted trees against gold trees.

    Warns of failed parses, and of sentences of which fewer than half of the words agree.

    Args:
        predicted: a bracket file. A tree without words, such as (ROOT) or (()), is a failed parse; so is a blank line
            among trees of one line each, if the numbers of sentences then agree.
        gold: gold trees, a bracket file or a treebank (file, folder or pattern).
        protocol: the evaluation protocol, a name or an object.
        preprocessing: the gold-tree preprocessing: a name, a YAML file or a rule. If a prediction has all words of its
            sentence, it loses those that are dropped from the gold tree; see `match_predictions`.
        labelled: whether brackets start with a label; None: decided for each file, see `parse_brackets`.
        failed: leave out sentences with a failed parse, as EVALB does (skip), or score them without brackets (zero).

    Raises:
        InputError: if the sentences differ in number or length.

    Examples:
        >>> report = syntaxlm.evaluate_trees("corpus/test.mrg", "corpus/test.mrg")
        >>> report.scores["predicted"].f1
        1.0
    """
    rule = find_preprocessing(preprocessing)
    treebank = read_treebank(gold, rule, labelled=labelled)
    file = read_bracket_file(predicted, labelled)
    announce(file.reading)
    trees, read = _with_failed_parses(file, treebank, str(predicted), failed)
    gold_side, advice = gold_trees_of(read, rule), GOLD_ADVICE
    if file.blank_lines:
        lines = listed([str(place.line) for place in file.blank_lines], LINES_NAMED)
        advice += f" Blank lines among the predictions: {lines}."

    has_failed = not all(map(len, trees))
    if has_failed or read is not treebank:
        words = _words_of_parsed(trees, gold_side, treebank, rule)
    else:
        words = GoldWords(gold_side.trees, treebank.kept, range(1, len(treebank.kept) + 1), rule)
    sides = gold_sides(source_name(predicted), gold_side.source)
    matched = match_predictions([tree for tree in trees if len(tree)], words, *sides, advice)
    if has_failed:  # failed parses have no brackets
        parsed = iter(matched)
        matched = [
            next(parsed) if len(tree) else Tree(gold_tree.words, gold_tree.tags, ())
            for tree, gold_tree in zip(trees, gold_side.trees, strict=True)
        ]
    return _report({"predicted": SpanSets.of(matched)}, "predicted", gold_side, find_protocol(protocol))


def _words_of_parsed(trees: Sequence[Tree], gold: GoldTrees, treebank: Treebank, rule: GoldPreprocessing) -> GoldWords:
    """Return the gold words of all sentences whose prediction has words.

    Args:
        trees: a prediction for each gold tree.
        treebank: the gold sentences before any was left out.
    """
    pairs = zip(gold.trees, gold.numbers, trees, strict=True)
    parsed = [(tree, number) for tree, number, prediction in pairs if len(prediction)]
    numbers = [number for _, number in parsed]
    return GoldWords([tree for tree, _ in parsed], [treebank.kept[number - 1] for number in numbers], numbers, rule)


def _with_failed_parses(
    file: BracketFile, gold: Treebank, source: str, failed: FailedParses
) -> tuple[list[Tree], Treebank]:
    """Return predicted trees, and the gold sentences to score. If there are failed parses, both have equal lengths.

    Raises:
        InputError: if there are failed parses and the numbers of sentences differ.
    """
    trees, places = list(file.trees), list(file.failed)
    sizes = len(gold), len(gold) + len(gold.emptied)
    if len(trees) not in sizes and len(trees) + len(file.blank_lines) in sizes:
        for place in reversed(file.blank_lines):
            trees.insert(place.before, Tree((), (), ()))
        places = sorted([*places, *file.blank_lines], key=lambda place: place.line)
    if not places:
        return trees, gold
    if len(trees) not in sizes:
        lines = listed([str(place.line) for place in places], LINES_NAMED)
        raise InputError(
            f"{source}: found {len(trees):,} trees, of which {len(places):,} have no words (failed parses, in the lines"
            f" {lines}); expected {len(gold):,} as in {gold.source}"
        )
    if len(trees) != len(gold):  # gold sentences without words after preprocessing are not scored
        trees = [trees[sentence.number - 1] for sentence in gold]
    missing = [sentence.number for sentence, tree in zip(gold, trees, strict=True) if not len(tree)]
    if not missing:
        return trees, gold
    lines = listed((place.line for place in places), LINES_NAMED)
    numbers = listed(missing, LINES_NAMED)
    noun = "line" if len(missing) == 1 else "lines"
    action = "which are left out" if failed == "skip" else "which are scored without brackets"
    warn_caller(
        f"{source}: {amount(len(missing), 'failed parse')} (trees without words; {noun} {lines}), of the gold sentences"
        f" {numbers}, {action}"
    )
    if failed == "zero":
        return trees, gold
    pairs = [(tree, sentence) for tree, sentence in zip(trees, gold, strict=True) if len(tree)]
    if not pairs:
        raise InputError(f"{source}: every tree is a failed parse; expected trees with words")
    parsed_gold = dataclasses.replace(gold, sentences=tuple(sentence for _, sentence in pairs))
    return [tree for tree, _ in pairs], parsed_gold


def gold_trees_of(read: Treebank, rule: GoldPreprocessing) -> GoldTrees:
    """Return the gold trees of a treebank that was read with a preprocessing. Raises InputError as `gold_trees`."""
    trees = gold_trees(read)
    return GoldTrees(trees, SpanSets.of(trees), [sentence.number for sentence in read], read.source, rule.name)
