"""`evaluate` and its subcommands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.app.cli.classifiers import add_evaluate_classifier, add_evaluate_logic
from syntaxlm.app.cli.completion import add_completion
from syntaxlm.app.cli.options import (
    TREEBANK_HELP,
    add_averaging,
    add_decoder,
    add_decoding,
    add_device,
    add_figures,
    add_model,
    add_protocol,
    add_reading,
    add_scoring,
    load_model,
    print_result,
    reading_options,
    refuse_repeated,
    ties_of,
)
from syntaxlm.app.cli.pairs import add_pairs
from syntaxlm.app.cli.reading_times import add_reading_times
from syntaxlm.app.cli.significance import add_significance
from syntaxlm.core.errors import InputError

if TYPE_CHECKING:
    from syntaxlm.data.treebanks import Treebank
    from syntaxlm.scoring.cache import CacheSettings
    from syntaxlm.storage.folder import ModelBundle
    from syntaxlm.trees import GoldPreprocessing, Protocol


def add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser(
        "evaluate",
        help="evaluate a model or a file of trees",
        description="Evaluate a model or a file of trees.",
        epilog="example: syntaxlm evaluate parse MODEL treebank.mrg",
    )
    kinds = evaluate.add_subparsers(title="commands", metavar="COMMAND")
    _add_perplexity(kinds)
    _add_parse(kinds)
    _add_trees(kinds)
    _add_agreement(kinds)
    _add_boundaries(kinds)
    add_pairs(kinds)
    add_completion(kinds)
    add_reading_times(kinds)
    add_significance(kinds)
    add_evaluate_logic(kinds)
    add_evaluate_classifier(kinds)


def _add_perplexity(kinds: Any) -> None:
    parser = kinds.add_parser(
        "perplexity",
        help="measure the perplexity of a text",
        description="Print perplexity, bits per token and bits per character of a text, one sentence per line. For a"
        " dependency-tree model, TEXT is a file of dependency trees, and perplexity is that of the words given their"
        " trees. With a neural cache, print the figures with and without it. The cache makes words more probable that"
        " recently followed a similar state; tune cache finds its weights.",
        epilog="example: syntaxlm evaluate perplexity MODEL test.txt",
    )
    add_model(parser)
    parser.add_input("text", metavar="TEXT", help="UTF-8 file, one sentence per line; - for standard input")
    add_reading(parser)
    parser.add_argument(
        "--cache-weight", type=float, metavar="W", help="use a neural cache with this share of the probability, 0 to 1"
    )
    parser.add_argument(
        "--cache-theta", type=float, metavar="F",
        help="strength of the cache's preference for words that followed a similar state; 0: none"
    )  # fmt: skip
    parser.add_argument("--cache-size", type=int, metavar="N", help="number of words in the cache; default 2000")
    add_figures(parser, rows=True)
    parser.set_defaults(run=_perplexity)


def _add_parse(kinds: Any) -> None:
    parser = kinds.add_parser(
        "parse",
        help="score a model's trees against a treebank",
        description="Parse the words of a treebank, score the trees against the gold trees, and print F1 with baselines"
        " and upper bounds. For a model of dependency trees (dmv), TREEBANK may have dependency trees; then print"
        " directed and undirected attachment.",
        epilog="example: syntaxlm evaluate parse MODEL treebank.mrg --preprocessing ud",
    )
    add_model(parser)
    parser.add_input("treebank", metavar="TREEBANK", help=TREEBANK_HELP)
    add_averaging(parser)
    add_scoring(parser, "ptb-keep")
    add_decoding(parser)
    parser.add_argument(
        "--random-weights", type=int, metavar="N",
        help="also score N untrained models with the same settings and vocabulary by every decoder, which shows the"
        " effect of the architecture alone; default: 3 for a single model of distances, otherwise 0"
    )  # fmt: skip
    add_figures(parser, rows=True)
    parser.set_defaults(run=_parse)


def _add_trees(kinds: Any) -> None:
    parser = kinds.add_parser(
        "trees",
        help="score a bracket file against another",
        description="Score predicted trees, from any parser, against gold trees. No model is needed.",
        epilog="example: syntaxlm evaluate trees predicted.mrg gold.mrg",
    )
    parser.add_input("predicted", metavar="PREDICTED", type=Path, help="bracket file, with or without labels")
    parser.add_input(
        "gold", metavar="GOLD", type=Path,
        help="bracket file, folder or quoted pattern, with the same sentences in the same order"
    )  # fmt: skip
    add_scoring(parser, "none")
    add_figures(parser, rows=True)
    parser.set_defaults(run=_trees)


def _add_agreement(kinds: Any) -> None:
    parser = kinds.add_parser(
        "agreement",
        help="measure the agreement of several models' trees, without gold trees",
        description="Parse a text with several models, such as the seeds of one recipe, and compare their trees. Prints"
        " the F1 of each pair of models, the model that agrees least with the others, and models whose trees are nearly"
        " all right or left branching. No gold trees are needed.",
        epilog="example: syntaxlm evaluate agreement text.txt runs/seed-1 runs/seed-2 runs/seed-3",
    )
    parser.add_input("text", metavar="TEXT", help="UTF-8 file, one sentence per line")
    parser.add_input("models", nargs="+", metavar="MODEL", help="two or more model folders")
    add_device(parser)
    parser.add_argument(
        "--sentences", type=int, metavar="N", help="parse the first N sentences of the text; default: 1000"
    )
    add_decoder(parser)
    add_protocol(parser)
    add_figures(parser, rows=True)
    parser.set_defaults(run=_agreement)


def _add_boundaries(kinds: Any) -> None:
    parser = kinds.add_parser(
        "boundaries",
        help="measure word-boundary F1 of a character-level model",
        description="Predict word boundaries where the distance between two characters is large, and score them against"
        " the white space of the text. Prints precision, recall and F1, with baselines. The threshold is chosen on text"
        " that is not scored: the first tenth, or another text.",
        epilog="example: syntaxlm evaluate boundaries MODEL test.txt --tune valid.txt",
    )
    add_model(parser)
    parser.add_input("text", metavar="TEXT", help="UTF-8 file with white space between words")
    parser.add_input("--tune", metavar="FILE", help="choose thresholds on this text instead, and score all of TEXT")
    add_figures(parser, rows=True)
    parser.set_defaults(run=_boundaries)


def _perplexity(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.scoring.perplexity import evaluate_text

    cache = _cache(options)
    with status("reading"):
        bundle = load_model(options.model, options)
        score = evaluate_text(bundle, options.text, reading_options(options), cache)
    print_result(score, options)


def _cache(options: argparse.Namespace) -> CacheSettings | None:
    from syntaxlm.scoring.cache import CACHE_SIZE, CacheSettings

    weight, theta, size = options.cache_weight, options.cache_theta, options.cache_size
    if weight is None and theta is None and size is None:
        return None
    if weight is None or theta is None:
        missing = "--cache-weight" if weight is None else "--cache-theta"
        raise InputError(
            f"{missing} is missing: a cache requires both --cache-weight and --cache-theta. syntaxlm tune cache finds"
            " them on validation text"
        )
    return CacheSettings(weight, theta, CACHE_SIZE if size is None else size)


def _parse(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.data.treebanks import read_treebank
    from syntaxlm.models.abilities import ParsesDependencies
    from syntaxlm.parsing.dependency_evaluation import has_dependencies
    from syntaxlm.parsing.evaluation import evaluate_parsing, protocol_named
    from syntaxlm.parsing.options import DecodingOptions
    from syntaxlm.parsing.report import write_sentences
    from syntaxlm.trees import find_preprocessing

    refuse_repeated([options.model, *options.also])
    protocol, ties = protocol_named(options.protocol, options.max_words), ties_of(options)
    with status("parsing and scoring"):
        stored, rule = load_model(options.model, options), find_preprocessing(options.preprocessing)
        read = read_treebank(options.treebank, rule)
        if has_dependencies(read) and isinstance(stored.model, ParsesDependencies):
            _attachment(options, stored, read, protocol, rule)
            return
        report = evaluate_parsing(
            stored, read, protocol,
            DecodingOptions(decoder=options.decoder, layer=options.layer, ties=ties), rule,
            [load_model(folder, options) for folder in options.also], options.random_weights,
        )  # fmt: skip
    if options.details:
        write_sentences(report, options.details)
    print_result(report, options)


def _attachment(
    options: argparse.Namespace, stored: ModelBundle, read: Treebank, protocol: Protocol, rule: GoldPreprocessing
) -> None:
    from syntaxlm.parsing.dependency_evaluation import evaluate_attachment, write_scored_heads

    given = {
        "--also": options.also,
        "--decoder": options.decoder,
        "--layer": options.layer is not None,
        "--random-weights": options.random_weights is not None,
    }
    if extra := ", ".join(name for name, is_given in given.items() if is_given):
        raise InputError(f"{extra}: found dependency trees in {read.source}; expected constituency trees")
    report = evaluate_attachment(stored, read, protocol, rule)
    if options.details:
        write_scored_heads(report, options.details)
    print_result(report, options)


def _trees(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.parsing.evaluation import evaluate_trees, protocol_named
    from syntaxlm.parsing.report import write_sentences

    protocol = protocol_named(options.protocol, options.max_words)
    with status("scoring"):
        report = evaluate_trees(options.predicted, options.gold, protocol, options.preprocessing)
    if options.details:
        write_sentences(report, options.details)
    print_result(report, options)


def _agreement(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.parsing.agreement import SENTENCES, measure_agreement
    from syntaxlm.parsing.evaluation import protocol_named
    from syntaxlm.parsing.options import DecodingOptions

    protocol = protocol_named(options.protocol, options.max_words)
    with status("parsing"):
        refuse_repeated([Path(folder) for folder in options.models])
        models = [load_model(folder, options) for folder in options.models]
        sentences = SENTENCES if options.sentences is None else options.sentences
        found = measure_agreement(
            models, options.text, options.models, protocol, DecodingOptions(decoder=options.decoder), sentences
        )
    print_result(found, options)


def _boundaries(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import status
    from syntaxlm.evaluation.boundaries import evaluate_boundaries

    with status("reading"):
        report = evaluate_boundaries(load_model(options.model, options), options.text, options.tune)
    print_result(report, options)
