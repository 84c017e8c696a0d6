"""`generate`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from syntaxlm.cli.options import add_model
from syntaxlm.errors import InputError
from syntaxlm.files import to_json

if TYPE_CHECKING:
    from syntaxlm.model_io import ModelBundle


def add_generate(commands: Any) -> None:
    parser = commands.add_parser(
        "generate",
        help="sentences sampled from a model",
        description="Samples sentences from a model and writes one a line, in the words of the model's vocabulary: word"
        " by word, or, of a model of trees, dependency trees from the root down, where `tune stops` has taught it where"
        " they end. json: text, tokens, their surprisals in bits, and whether the model ended the sentence.",
        epilog="example: syntaxlm generate MODEL_DIR --count 5 --temperature 0.8 --seed 1",
    )
    add_model(parser)
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many sentences; default 1")
    parser.add_argument(
        "--prompt", metavar="TEXT", help="the words that each begins with, in quotes; not of a model of trees"
    )
    parser.add_argument(
        "--temperature", type=float, default=1.0, metavar="T",
        help="under 1 keeps to likely words, above 1 strays from them; 0: always the likeliest; default 1"
    )  # fmt: skip
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest words only")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed, the same sentences; default 0")
    parser.add_argument(
        "--maximum-words", type=int, metavar="M",
        help="cut a sentence after so many words behind the prompt (characters, of a model of characters); default 100"
        " (500)"
    )  # fmt: skip
    parser.add_argument("--keep-unknown", action="store_true", help="let the unknown word be drawn, too")
    parser.add_argument(
        "--format", choices=["text", "json", "conllu"], default="text",
        help="default: text; json: JSON lines; conllu: of a model of trees, the trees",
    )  # fmt: skip
    trees = parser.add_argument_group("of a model of trees")
    trees.add_argument(
        "--maximum-depth", type=int, metavar="D",
        help="cut a tree below words with so many heads above them, ROOT among these; default 30",
    )  # fmt: skip
    trees.add_argument(
        "--redraw", action="store_true", help="draw a tree anew that would be cut, up to a hundred times"
    )
    parser.set_defaults(run=_generate)


def _generate(options: argparse.Namespace) -> None:
    from syntaxlm.generation.sentences import generate
    from syntaxlm.model_io import read_model
    from syntaxlm.progress import progress_bar

    stored = read_model(options.model)
    if stored.model.reads == "trees":
        _generate_trees(options, stored)
        return
    given = {"--format conllu": options.format == "conllu", "--maximum-depth": options.maximum_depth is not None}
    for name, is_given in (given | {"--redraw": options.redraw}).items():
        if is_given:
            raise InputError(
                f"{name}: found a model of the kind {stored.settings.model.name!r}, which samples text; expected a"
                " model of dependency trees"
            )
    sentences = generate(
        stored,
        options.count,
        options.prompt,
        **_sampling(options),
    )
    for sentence in progress_bar(sentences, "sampling", options.count):
        print(to_json(sentence.as_dict()) if options.format == "json" else sentence.text)


def _sampling(options: argparse.Namespace) -> dict[str, Any]:
    """What samples of text and of trees have in common."""
    return {name: getattr(options, name) for name in ("temperature", "top_k", "seed", "maximum_words", "keep_unknown")}


def _generate_trees(options: argparse.Namespace, stored: ModelBundle) -> None:
    from syntaxlm.generation.stop_io import read_stops
    from syntaxlm.generation.trees import generate_trees
    from syntaxlm.progress import progress_bar
    from syntaxlm.trees import format_conllu

    if options.prompt is not None:
        raise InputError("--prompt: a model of trees begins with the root word, not with the first; it takes no prompt")
    trees = generate_trees(
        stored,
        read_stops(options.model, stored),
        options.count,
        maximum_depth=options.maximum_depth,
        redraw=options.redraw,
        **_sampling(options),
    )
    for one in progress_bar(trees, "sampling", options.count):
        if options.format == "conllu":
            print(format_conllu(one.tree, one.comments()), end="")
        else:
            print(to_json(one.as_dict()) if options.format == "json" else one.text)
