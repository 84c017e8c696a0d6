"""`generate`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from syntaxlm.app.cli.formats import ROW_FORMATS, add_format
from syntaxlm.app.cli.options import (
    add_model,
    add_output,
    add_seed,
    add_treebank_style,
    load_model,
    text_output,
    treebank_style,
    write_rows,
)
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json

if TYPE_CHECKING:
    from syntaxlm.generation.sentences import GeneratedSentence, SentenceWithTree
    from syntaxlm.generation.trees import GeneratedTree
    from syntaxlm.storage.folder import ModelBundle


def add_generate(commands: Any) -> None:
    parser = commands.add_parser(
        "generate",
        help="sample sentences from a model",
        description="Sample sentences from a model and print one per line, in words of the model's vocabulary. Models"
        " that predict the next word are sampled word by word. Compound PCFGs and DMVs, and all PCFGs with --trees, are"
        " sampled top-down. Dependency-tree models are sampled from the root of a tree and require tune stops. json:"
        " text, tokens, their surprisals in bits, and whether the model ended the sentence.",
        epilog="example: syntaxlm generate MODEL --sentences 5 --temperature 0.8 --seed 1",
    )
    add_model(parser)
    parser.add_argument("--sentences", type=int, default=1, metavar="N", help="number of sentences; default 1")
    parser.add_argument(
        "--prompt",
        metavar="WORDS",
        help="words that each sentence starts with, in quotes; only for sampling word by word",
    )
    parser.add_argument(
        "--temperature", type=float, default=1.0, metavar="T",
        help="sampling temperature: below 1 favours probable words, above 1 improbable ones; 0 always takes the most"
        " probable word; default 1",
    )  # fmt: skip
    parser.add_argument("--top-k", type=int, metavar="K", help="draw only from the K most probable words")
    add_seed(parser)
    parser.add_argument(
        "--max-words", type=int, metavar="N",
        help="maximum length of a sentence, without the prompt, in words (characters for a character-level model);"
        " default 100 (500). Longer sentences are cut or, when sampled top-down, redrawn",
    )  # fmt: skip
    parser.add_argument("--keep-unknown", action="store_true", help="allow the unknown word to be drawn")
    parser.add_argument(
        "--trees", action="store_true",
        help="for PCFGs and DMVs: sample top-down and print each sentence's labelled tree; not with --prompt,"
        " --temperature or --top-k",
    )  # fmt: skip
    add_format(
        parser, ("text", "json", "conllu", *ROW_FORMATS),
        note="text: with --trees, brackets; json: JSON lines; conllu: the trees of dependency-tree models; tsv, csv,"
        " parquet: a table with one row per sentence",
    )  # fmt: skip
    add_treebank_style(parser)
    add_output(parser, "the sentences")
    trees = parser.add_argument_group("dependency-tree models")
    trees.add_argument(
        "--max-depth", type=int, metavar="N",
        help="cut a tree below words with N heads above them, including ROOT; default 30",
    )  # fmt: skip
    trees.add_argument(
        "--redraw", action="store_true", help="redraw a tree instead of cutting it, up to a hundred times"
    )
    parser.set_defaults(run=_generate)


def _generate(options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import progress_bar

    stored = load_model(options.model, options)
    sampled: Iterator[Any]
    if options.trees:
        sampled = _constituent_trees(options, stored)
    elif stored.model.reads == "trees":
        sampled = _dependency_trees(options, stored)
    else:
        sampled = _sentences(options, stored)
    sampled = iter(progress_bar(sampled, "sampling", options.sentences))
    if options.format in ROW_FORMATS:
        first = next(sampled)
        write_rows((row for one in chain([first], sampled) for row in one.rows()), first.columns, options)
        return
    with text_output(options.output) as file:
        file.writelines(_formatted(one, options) for one in sampled)


def _formatted(sampled: Any, options: argparse.Namespace) -> str:
    if options.format == "json":
        return to_json(sampled.to_dict()) + "\n"
    if options.format == "conllu":
        from syntaxlm.trees import format_conllu

        return format_conllu(sampled.tree, sampled.comments())
    return f"{sampled.tree if options.trees else sampled.text}\n"


def _sentences(options: argparse.Namespace, stored: ModelBundle) -> Iterator[GeneratedSentence]:
    from syntaxlm.generation.sentences import generate

    _refuse_options_of_dependency_trees(options, f"found a {stored.name} model, which samples text")
    style = treebank_style(options)
    return generate(stored, options.sentences, options.prompt, **_sampling(options), style=style)


def _refuse_options_of_dependency_trees(options: argparse.Namespace, found: str) -> None:
    given = {
        "--format conllu": options.format == "conllu",
        "--max-depth": options.max_depth is not None,
        "--redraw": options.redraw,
    }
    named = ", ".join(name for name, is_given in given.items() if is_given)
    if named:
        raise InputError(f"{named}: {found}; expected a dependency-tree model")


def _constituent_trees(options: argparse.Namespace, stored: ModelBundle) -> Iterator[SentenceWithTree]:
    from syntaxlm.generation.sentences import refuse_word_settings, sample_with_trees

    sampling = _sampling(options)
    reason = "--trees samples top-down, not word by word."
    refuse_word_settings(options.prompt, sampling.pop("temperature"), sampling.pop("top_k"), reason)
    _refuse_options_of_dependency_trees(options, "found --trees, which samples from a grammar")
    return sample_with_trees(stored, options.sentences, **sampling)


def _sampling(options: argparse.Namespace) -> dict[str, Any]:
    """Return settings that sampled text and sampled trees share."""
    names = ("temperature", "top_k", "seed", "keep_unknown")
    return {name: getattr(options, name) for name in names} | {"maximum_words": options.max_words}


def _dependency_trees(options: argparse.Namespace, stored: ModelBundle) -> Iterator[GeneratedTree]:
    from syntaxlm.generation.stops import read_stops
    from syntaxlm.generation.trees import generate_trees

    if options.prompt is not None:
        raise InputError("--prompt: not available for dependency-tree models, which start with the root word; omit it")
    return generate_trees(
        stored,
        read_stops(options.model, stored).to(stored.model.device),
        options.sentences,
        maximum_depth=options.max_depth,
        redraw=options.redraw,
        **_sampling(options),
    )
