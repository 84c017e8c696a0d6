"""The commands: parse arguments, call the rooms, print."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import syntaxlm
from syntaxlm.errors import InputError

if TYPE_CHECKING:
    from syntaxlm.evaluation.parsing import Parse
    from syntaxlm.training.seeds import SeedsResult
    from syntaxlm.training.trainer import TrainingResult

PARSED_TOGETHER = 20_000  # lines: as many as memory holds easily, few enough that output begins soon


class _Parser(argparse.ArgumentParser):
    """Faults in one line, not after a page of usage; no shortened options (--seed is not --seeds)."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0, or 2 where what the user gave is wrong."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # trees and figures are text as UTF-8, wherever they go
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    parser = build_parser()
    try:
        # Taken out first: argparse would take the value of an option that it does not know for the RECIPE.
        rest, overrides = _overrides(sys.argv[1:] if arguments is None else arguments)
        options = parser.parse_args(rest)
        if overrides and not getattr(options, "takes_overrides", False):
            parser.error(f"unrecognized arguments: --{overrides[0][0]}")
        options.overrides = overrides
        options.run(options)
        sys.stdout.flush()
    except InputError as error:
        print(f"syntaxlm: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("syntaxlm: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # standard output is all that is written unguarded
            print(f"syntaxlm: error: standard output: {error.strerror or error}", file=sys.stderr)
            sys.stdout = None  # or the interpreter would try again at its end
            return 2
        # Whoever read our output has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def build_parser() -> argparse.ArgumentParser:
    """All commands with their help."""
    parser = _Parser(
        prog="syntaxlm", description="Language models that learn syntax: train them on plain text, get trees."
    )
    parser.add_argument("--version", action="version", version=f"syntaxlm {syntaxlm.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_train(commands)
    evaluate = commands.add_parser("evaluate", help="measure a model, or a file of trees")
    kinds = evaluate.add_subparsers(title="what to measure", required=True, metavar="KIND")
    _add_evaluate_lm(kinds)
    _add_evaluate_parse(kinds)
    _add_evaluate_trees(kinds)
    _add_parse(commands)
    _add_data(commands)
    _add_quickstart(commands)
    return parser


def _add_train(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a model by a recipe",
        description="Trains a model by a recipe, a YAML file, into a new folder. Every setting of the recipe can be"
        " given here instead, by its dotted name: --model.hidden_size 400 --text.train my.txt. Ctrl-C saves and stops; "
        "--resume goes on, and ends with the very weights of an uninterrupted run.",
        epilog="example: syntaxlm train prpn-toy --output runs/toy --schedule.epochs 3",
    )
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="a recipe file, or the name of a shipped recipe")
    parser.add_argument("--output", type=Path, metavar="DIR", help="new folder for the model")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="train N times, with seeds run.seed, +1, ...")
    _add_json(parser)
    parser.set_defaults(run=_train, takes_overrides=True)


def _add_evaluate_lm(kinds: Any) -> None:
    parser = kinds.add_parser(
        "lm",
        help="perplexity of a text",
        description="Perplexity, bits per token and bits per character of a text, one sentence a line.",
    )
    _add_model(parser)
    parser.add_argument("text", metavar="TEXT", help="a UTF-8 file, one sentence a line; - for standard input")
    parser.add_argument(
        "--mode", choices=["sentences", "stream"],
        help="each sentence by itself, or the text as one stream with carried state; as trained when not given"
    )  # fmt: skip
    _add_json(parser)
    parser.set_defaults(run=_evaluate_lm)


def _add_evaluate_parse(kinds: Any) -> None:
    parser = kinds.add_parser(
        "parse",
        help="F1 of a model's trees against a treebank",
        description="Parses a treebank's sentences from their words alone and scores the trees, beside every baseline.",
    )
    _add_model(parser)
    parser.add_argument("treebank", metavar="TREEBANK", help="a bracket file, a folder of them, or a quoted pattern")
    _add_scoring(parser, clean_up="ptb-keep")
    _add_decoding(parser)
    _add_json(parser)
    parser.set_defaults(run=_evaluate_parse)


def _add_evaluate_trees(kinds: Any) -> None:
    parser = kinds.add_parser(
        "trees",
        help="F1 of one bracket file against another",
        description="Scores predicted trees, from whatever parser, against gold trees; no model is needed.",
    )
    parser.add_argument("predicted", metavar="PREDICTED", type=Path, help="bracket file, with labels or without")
    parser.add_argument("gold", metavar="GOLD", type=Path, help="bracket file of the same sentences in the same order")
    _add_scoring(parser, clean_up="none")
    _add_json(parser)
    parser.set_defaults(run=_evaluate_trees)


def _add_parse(commands: Any) -> None:
    parser = commands.add_parser(
        "parse",
        help="trees of plain text",
        description="Parses plain text, one sentence a line, and writes one tree a line (an empty line for a line"
        " without a word). brackets: (X the (X old cat)); json: words, tokens, distances and spans; latex: forest.",
    )
    _add_model(parser)
    parser.add_argument("text", nargs="?", default="-", metavar="FILE", help="a UTF-8 file; - or none: standard input")
    parser.add_argument("--format", choices=["brackets", "json", "latex"], default="brackets", help="default: brackets")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there, whole or not at all")
    _add_decoding(parser)
    parser.set_defaults(run=_parse)


def _add_data(commands: Any) -> None:
    data = commands.add_parser("data", help="make data")
    kinds = data.add_subparsers(title="what to make", required=True, metavar="KIND")
    toy = kinds.add_parser(
        "toy",
        help="the built-in corpus: English from a grammar, with its trees",
        description="Samples sentences of a small English grammar: text, constituency and dependency trees, and the"
        " exact perplexity that no model can beat.",
    )
    toy.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    toy.add_argument("--sentences", type=int, default=20_000, metavar="N", help="training sentences (default 20,000)")
    toy.add_argument("--seed", type=int, default=0, metavar="S", help="default 0")
    _add_json(toy)
    toy.set_defaults(run=_data_toy)


def _add_quickstart(commands: Any) -> None:
    parser = commands.add_parser(
        "quickstart",
        help="see it all at work in a few minutes",
        description="Writes the built-in corpus, trains a small model on it, shows perplexity, F1 and three parses.",
    )
    parser.add_argument("--output", type=Path, default=Path("quickstart"), metavar="DIR", help="default: quickstart")
    parser.add_argument("--model", default="prpn", metavar="NAME", help="the model of a shipped NAME-toy recipe")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default 1")
    _add_json(parser)
    parser.set_defaults(run=_quickstart)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_DIR", type=Path, help="a model folder, as train writes it")


def _add_scoring(parser: argparse.ArgumentParser, clean_up: str) -> None:
    parser.add_argument(
        "--protocol", default="wsj-test", metavar="P", help="wsj-test (default), prpn, wsj10, wsj40 or evalb"
    )
    parser.add_argument("--max-words", type=int, metavar="N", help="leave longer sentences out (after clean-up)")
    parser.add_argument(
        "--clean-up", default=clean_up, metavar="RULE",
        help="which words stay: ptb-keep, ptb-keep-currency, ptb-drop (Penn tags), ud (UD tags), letters, letters-only"
        f" (by the word), none; default {clean_up}",
    )  # fmt: skip


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decoder", choices=["biased", "unbiased"], default="biased",
        help="how distances become a tree: biased (default) is the rule published figures used and leans to the right",
    )  # fmt: skip
    parser.add_argument("--layer", type=int, default=1, metavar="L", help="whose distances; 1 (default) is the first")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print figures as JSON")


def _overrides(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The arguments without those of the form --a.b 1 or --c.d=2, and these as pairs. Raises InputError."""
    rest, pairs = [], []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if not name.startswith("--") or "." not in name:
            rest.append(word)
            continue
        if not equals:
            following = next(words, None)
            if following is None:
                raise InputError(f"{word}: expected a value after it")
            value = following
        pairs.append((name.removeprefix("--"), value))
    return rest, pairs


def _print(result: Any, as_json: bool) -> None:
    print(json.dumps(result.as_dict(), ensure_ascii=False) if as_json else result)


def _train(options: argparse.Namespace) -> None:
    if options.resume:
        if options.recipe or options.output or options.overrides or options.seeds != 1:
            raise InputError("--resume takes all from the run's folder: give no recipe, --output, --seeds or settings")
        _resume(options)
        return
    if not options.recipe or not options.output:
        raise InputError("train needs a RECIPE and --output DIR, or --resume DIR")
    if options.seeds < 1:
        raise InputError(f"--seeds: found {options.seeds}; expected 1 or more")
    from syntaxlm.training.recipe import find_recipe, read_recipe
    from syntaxlm.training.seeds import train_seeds
    from syntaxlm.training.trainer import train
    from syntaxlm.training.watching import ProgressDisplay
    from syntaxlm.waiting import error_console

    recipe = read_recipe(find_recipe(options.recipe), options.overrides)
    if options.seeds > 1:
        seeds = train_seeds(recipe, options.output, options.seeds, lambda one: ProgressDisplay(one, error_console()))
        _print_training(seeds, options.json)
        return
    with ProgressDisplay(recipe, error_console()) as display:
        result = train(recipe, options.output, display)
    _print_training(result, options.json)


def _resume(options: argparse.Namespace) -> None:
    from syntaxlm.training.trainer import read_run_recipe, resume
    from syntaxlm.training.watching import ProgressDisplay
    from syntaxlm.waiting import error_console

    with ProgressDisplay(read_run_recipe(options.resume), error_console()) as display:
        result = resume(options.resume, display)
    _print_training(result, options.json)


def _print_training(result: TrainingResult | SeedsResult, as_json: bool) -> None:
    if int(os.environ.get("RANK", "0")) == 0:
        _print(result, as_json)


def _evaluate_lm(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.language_model import evaluate_text
    from syntaxlm.storage import read_model
    from syntaxlm.waiting import told

    with told("reading"):
        score = evaluate_text(read_model(options.model), options.text, options.mode)
    _print(score, options.json)


def _evaluate_parse(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.parsing import evaluate_parsing, protocol_named
    from syntaxlm.storage import read_model
    from syntaxlm.waiting import told

    protocol = protocol_named(options.protocol, options.max_words)
    with told("parsing and scoring"):
        report = evaluate_parsing(
            read_model(options.model), options.treebank, protocol, options.decoder, options.clean_up, options.layer
        )
    _print(report, options.json)


def _evaluate_trees(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.parsing import evaluate_trees, protocol_named
    from syntaxlm.waiting import told

    protocol = protocol_named(options.protocol, options.max_words)
    with told("scoring"):
        report = evaluate_trees(options.predicted, options.gold, protocol, options.clean_up)
    _print(report, options.json)


def _parse(options: argparse.Namespace) -> None:
    from syntaxlm.files import replaced
    from syntaxlm.storage import read_model

    pieces = _parsed(read_model(options.model), options)
    if options.output is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    with replaced(options.output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(pieces)


def _parsed(stored: Any, options: argparse.Namespace) -> Iterator[str]:
    """The parsed text, some thousand lines a piece."""
    from syntaxlm.data.corpora import read_lines
    from syntaxlm.evaluation.parsing import parse_lines
    from syntaxlm.waiting import counted

    lines = (line for _, line in read_lines(options.text))
    first = 1
    chunks = iter(lambda: list(islice(lines, PARSED_TOGETHER)), [])
    for chunk in counted(chunks, f"parsing, chunks of {PARSED_TOGETHER:,} lines"):
        parses = parse_lines(stored, chunk, options.decoder, first, options.layer)
        trees = (
            parses.brackets() if options.format == "brackets" else [_formatted(one, options.format) for one in parses]
        )
        yield "".join(tree + "\n" for tree in trees)
        first += len(chunk)
    if first == 1:
        raise InputError(f"{options.text}: not one line in it")


def _formatted(parse: Parse | None, kind: str) -> str:
    from syntaxlm.trees.latex import format_latex

    if kind == "json":
        return json.dumps(parse and parse.as_dict(), ensure_ascii=False)
    return format_latex(parse.tree) if parse else ""


def _data_toy(options: argparse.Namespace) -> None:
    import dataclasses

    from syntaxlm.data.toy import write_corpus
    from syntaxlm.waiting import told

    if options.sentences < 1 or options.seed < 0:
        raise InputError(f"--sentences {options.sentences} --seed {options.seed}: expected 1 or more, and 0 or more")
    with told("sampling, and finding exact sentence probabilities"):
        summary = write_corpus(options.output, options.sentences, options.seed)
    if options.json:
        print(json.dumps(dataclasses.asdict(summary)))
        return
    print(f"{options.output}: {summary.vocabulary} word forms")
    for name in ("train", "valid", "test"):
        split = getattr(summary, name)
        floor = f", perplexity floor {split.floor:.2f}" if split.floor else ""
        print(f"  {name:5} {split.sentences:,} sentences of {split.mean_length:.1f} words on average{floor}")


def _quickstart(options: argparse.Namespace) -> None:
    from syntaxlm.quickstart import run_quickstart
    from syntaxlm.training.recipe import find_recipe, read_recipe
    from syntaxlm.training.watching import ProgressDisplay
    from syntaxlm.waiting import error_console

    console = error_console()
    recipe = read_recipe(find_recipe(f"{options.model}-toy"))
    with ProgressDisplay(recipe, console) as display:
        result = run_quickstart(
            options.output, options.model, options.seed, partial(console.print, soft_wrap=True), display
        )
    _print(result, options.json)


if __name__ == "__main__":
    sys.exit(main())
