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
    _add_compare(commands)
    evaluate = commands.add_parser("evaluate", help="measure a model, or a file of trees")
    kinds = evaluate.add_subparsers(title="what to measure", required=True, metavar="KIND")
    _add_evaluate_lm(kinds)
    _add_evaluate_parse(kinds)
    _add_evaluate_trees(kinds)
    _add_evaluate_boundaries(kinds)
    _add_parse(commands)
    _add_draw(commands)
    _add_report(commands)
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


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="train several recipes under one budget and print their table",
        description="Trains every recipe, N seeds each, into DIR/RECIPE/seed-S, and prints perplexity, or bits per"
        " character where one reads characters, mean and deviation over seeds. Settings given by their dotted names"
        " are put into all recipes. The same command goes on where it was stopped: what is finished is not trained"
        " again. DIR/comparison.json has all figures.",
        epilog="example: syntaxlm compare prpn-toy lstm-toy -o runs/toys --minutes 2 --seeds 3",
    )
    parser.add_argument(
        "recipes", nargs="+", metavar="RECIPE", help="recipe files, or names of shipped recipes, each of another name"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for all runs")
    parser.add_argument("--minutes", type=float, metavar="M", help="training time of each run; default: the recipe's")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="run.seed, +1, ... of each (default 1)")
    _add_json(parser)
    parser.set_defaults(run=_compare, takes_overrides=True)


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


def _add_evaluate_boundaries(kinds: Any) -> None:
    parser = kinds.add_parser(
        "boundaries",
        help="word boundaries read off a character model's distances",
        description="Takes the gaps between characters whose distance is large for word boundaries, and scores them"
        " against the white space of the text: precision, recall and F1, beside baselines. How large is chosen on a"
        " part of the text that is not measured: its first tenth, or another text.",
    )
    _add_model(parser)
    parser.add_argument("text", metavar="TEXT", help="a UTF-8 file with white space between words")
    parser.add_argument("--tune", metavar="FILE", help="another text, to choose thresholds on; then all of TEXT counts")
    _add_json(parser)
    parser.set_defaults(run=_evaluate_boundaries)


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


def _add_draw(commands: Any) -> None:
    parser = commands.add_parser(
        "draw",
        help="a picture of a sentence's tree, distances, gates and attention",
        description="Draws the tree that a model gives a sentence, the syntactic distances between its words as bars,"
        " a gold tree beside it and maps of the model's gates and attention. How FILE's name ends says as what: .svg,"
        " .html (one page that needs nothing else), .png (needs the extra draw: pip install 'syntaxlm[draw]'; letters"
        " are drawn with this machine's fonts), .tex (the trees alone, for LaTeX's package forest).",
        epilog='example: syntaxlm draw MODEL_DIR "the old cat sleeps" -o cat.svg',
    )
    _add_model(parser)
    parser.add_argument("sentence", nargs="?", metavar="SENTENCE", help="the sentence, in quotes; none with --gold")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="write there")
    parser.add_argument(
        "--gold", metavar="TREE", help="a gold tree, (S (NP ...) ...), or a bracket file: the sentence is its words"
    )
    parser.add_argument("--number", type=int, metavar="N", help="which tree of the gold file; 1 is the first")
    _add_clean_up(parser, "none")
    parser.add_argument("--maps", action="store_true", help="gates and attention, too: which word looks at which")
    parser.add_argument(
        "--theme", choices=["auto", "light", "dark"], default="auto",
        help="colours; auto (default): those of the reader's system, in a PNG light ones",
    )  # fmt: skip
    _add_decoding(parser)
    parser.set_defaults(run=_draw)


def _add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="one page of a model's settings, training, perplexity and trees",
        description="Writes DIR/report.html, one page that needs nothing else: settings, the course of the losses and"
        " perplexity, from the model's folder; and, measured on a treebank, F1 of both decoders beside every baseline,"
        " by length, recall by label, depth and branching, and the best and worst sentences drawn beside gold. What"
        " has no source is left out, and said; a model without trees gets a page of the language model alone.",
        epilog="example: syntaxlm report MODEL_DIR treebank.mrg -o my-report",
    )
    _add_model(parser)
    parser.add_argument(
        "treebank", nargs="?", metavar="TREEBANK", help="a bracket file, a folder of them, or a quoted pattern"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    _add_protocol(parser)
    _add_clean_up(parser, "ptb-keep")
    _add_decoding(parser)
    parser.add_argument(
        "--theme", choices=["auto", "light", "dark"], default="auto",
        help="colours; auto (default): those of the reader's system",
    )  # fmt: skip
    _add_json(parser)
    parser.set_defaults(run=_report)


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
    text8 = kinds.add_parser(
        "text8",
        help="text8, split into its training and validation parts",
        description="Writes DIR/train.txt, the first 99 million characters of text8, and DIR/valid.txt, the last"
        " million, one line each, as published figures split it. Training needs mode stream.",
    )
    text8.add_argument("file", metavar="FILE", type=Path, help="text8, unpacked: 100,000,000 bytes")
    text8.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write to")
    _add_json(text8)
    text8.set_defaults(run=_data_text8)
    words = kinds.add_parser(
        "words",
        help="a treebank's words as plain text",
        description="Writes the words of a treebank after clean-up, one sentence a line: text to train a model on that"
        " never sees the trees.",
    )
    words.add_argument("treebank", metavar="TREEBANK", help="a bracket or CoNLL-U file, a folder or a quoted pattern")
    words.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="text file to write")
    _add_clean_up(words, "ptb-keep")
    _add_json(words)
    words.set_defaults(run=_data_words)


def _add_quickstart(commands: Any) -> None:
    parser = commands.add_parser(
        "quickstart",
        help="see it all at work in a few minutes",
        description="Writes the built-in corpus, trains a small model on it, shows perplexity, F1 and three parses,"
        " and writes a report on it, DIR/report.html.",
    )
    parser.add_argument("--output", type=Path, default=Path("quickstart"), metavar="DIR", help="default: quickstart")
    parser.add_argument("--model", default="prpn", metavar="NAME", help="the model of a shipped NAME-toy recipe")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default 1")
    _add_json(parser)
    parser.set_defaults(run=_quickstart)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL_DIR", type=Path, help="a model folder, as train writes it")


def _add_scoring(parser: argparse.ArgumentParser, clean_up: str) -> None:
    _add_protocol(parser)
    _add_clean_up(parser, clean_up)
    parser.add_argument(
        "--per-sentence", type=Path, metavar="FILE", help="write each sentence's trees and scores there, as JSON lines"
    )


def _add_protocol(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol", default="wsj-test", metavar="P", help="wsj-test (default), prpn, wsj10, wsj40 or evalb"
    )
    parser.add_argument("--max-words", type=int, metavar="N", help="leave longer sentences out (after clean-up)")


def _add_clean_up(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--clean-up", default=default, metavar="RULE",
        help="which words stay: ptb-keep, ptb-keep-currency, ptb-drop (Penn tags), ud (UD tags), letters, letters-only"
        " (by the word), zh-sinica, es-cess, pt-floresta (treebanks), none; or a YAML file of keep_tags, drop_tags,"
        f" drop_words, punctuation: unicode; default {default}",
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


def _compare(options: argparse.Namespace) -> None:
    from syntaxlm.training.comparing import compare, read_recipes
    from syntaxlm.training.watching import ProgressDisplay
    from syntaxlm.waiting import error_console

    if options.seeds < 1:
        raise InputError(f"--seeds: found {options.seeds}; expected 1 or more")
    recipes = read_recipes(options.recipes, options.overrides, options.minutes)
    console = error_console()
    comparison = compare(
        recipes,
        options.output,
        options.seeds,
        lambda one: ProgressDisplay(one, console),
        partial(console.print, soft_wrap=True, markup=False),
    )
    _print(comparison, options.json)
    if comparison.faults:
        raise InputError(f"{len(comparison.faults)} runs failed: {', '.join(comparison.faults)}")


def _evaluate_lm(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.language_model import evaluate_text
    from syntaxlm.storage import read_model
    from syntaxlm.waiting import told

    with told("reading"):
        score = evaluate_text(read_model(options.model), options.text, options.mode)
    _print(score, options.json)


def _evaluate_parse(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.parsing import evaluate_parsing, protocol_named, write_sentences
    from syntaxlm.storage import read_model
    from syntaxlm.waiting import told

    protocol = protocol_named(options.protocol, options.max_words)
    with told("parsing and scoring"):
        report = evaluate_parsing(
            read_model(options.model), options.treebank, protocol, options.decoder, options.clean_up, options.layer
        )
    if options.per_sentence:
        write_sentences(report, options.per_sentence)
    _print(report, options.json)


def _evaluate_trees(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.parsing import evaluate_trees, protocol_named, write_sentences
    from syntaxlm.waiting import told

    protocol = protocol_named(options.protocol, options.max_words)
    with told("scoring"):
        report = evaluate_trees(options.predicted, options.gold, protocol, options.clean_up)
    if options.per_sentence:
        write_sentences(report, options.per_sentence)
    _print(report, options.json)


def _evaluate_boundaries(options: argparse.Namespace) -> None:
    from syntaxlm.evaluation.boundaries import evaluate_boundaries
    from syntaxlm.storage import read_model
    from syntaxlm.waiting import told

    with told("reading"):
        report = evaluate_boundaries(read_model(options.model), options.text, options.tune)
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


def _draw(options: argparse.Namespace) -> None:
    if (options.sentence is None) == (options.gold is None):
        raise InputError("draw needs a SENTENCE, or --gold with a tree whose words are the sentence; not both")
    if options.gold is None and options.number is not None:
        raise InputError("--number chooses a tree of the file that --gold names; there is no --gold")
    from syntaxlm.drawing.sentence import Drawing, analyse, check_format, map_pictures, read_gold
    from syntaxlm.storage import read_model

    check_format(options.output)  # before what takes seconds
    gold = None if options.gold is None else read_gold(options.gold, options.number, options.clean_up)
    stored = read_model(options.model)
    sentence = options.sentence if gold is None else gold.words
    analysis = analyse(stored, sentence, options.decoder, options.layer)
    maps = map_pictures(stored, analysis) if options.maps else []
    Drawing(analysis, gold, tuple(maps)).write(options.output, options.theme)


def _report(options: argparse.Namespace) -> None:
    from syntaxlm.drawing.report import write_report
    from syntaxlm.evaluation.parsing import protocol_named
    from syntaxlm.waiting import told

    protocol = protocol_named(options.protocol, options.max_words)
    with told("measuring and drawing"):
        written = write_report(
            options.model,
            options.output,
            options.treebank,
            protocol,
            options.decoder,
            options.clean_up,
            options.layer,
            options.theme,
        )
    _print(written, options.json)


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


def _data_text8(options: argparse.Namespace) -> None:
    from syntaxlm.data.text8 import split_text8
    from syntaxlm.waiting import told

    with told("reading and writing 100 million bytes"):
        summary = split_text8(options.file, options.output)
    _print(summary, options.json)


def _data_words(options: argparse.Namespace) -> None:
    from syntaxlm.data.treebanks import read_treebank, write_words
    from syntaxlm.waiting import told

    with told("reading"):
        written = write_words(read_treebank(options.treebank, options.clean_up), options.output)
    if options.json:
        print(json.dumps(written.as_dict()))
        return
    print(f"{options.output}: {written}")


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
