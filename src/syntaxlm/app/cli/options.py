"""Options that several commands share, how models are read, and how results are printed."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from syntaxlm.app.cli.formats import ROW_FORMATS, add_format
from syntaxlm.app.cli.parser import Parser
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json

if TYPE_CHECKING:
    from syntaxlm.core.tables import Columns, Row
    from syntaxlm.data.corpora import GivenText
    from syntaxlm.models.batches import TextMode
    from syntaxlm.storage.folder import ModelBundle
    from syntaxlm.text.treebank_style import TreebankStyle
    from syntaxlm.trees import TieBreaking

MODEL_HELP = (
    "model folder, written by train; a shipped model, such as en; a repository of the Hugging Face hub, user/name;"
    " or, to score text, a causal language model of the library transformers, hf:NAME"
)
TREEBANK_HELP = "bracket file, folder of bracket files, or quoted pattern"


def add_model(parser: Parser) -> None:
    """MODEL and `--device`."""
    parser.add_input("model", metavar="MODEL", type=Path, help=MODEL_HELP)
    add_device(parser)


def add_device(parser: Parser) -> None:
    parser.add_argument(
        "--device", type=device_name, metavar="NAME",
        help="device that runs the model: cpu (default), cuda, cuda:N (GPU number N), mps, or auto (a GPU if one is"
        " available)",
    )  # fmt: skip


def add_training_device(parser: Parser) -> None:
    parser.add_argument(
        "--device", type=device_name, metavar="NAME",
        help="device to train on: cpu, cuda, mps or auto; default: run.accelerator of the recipe",
    )  # fmt: skip


def device_name(text: str) -> str:
    """Return the value of `--device`."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"found {text!r}; expected cpu, cuda, cuda:N, mps or auto")
    return text


def training_device(options: argparse.Namespace, setting: str = "run.accelerator") -> list[tuple[str, str]]:
    """Return the recipe setting that `--device` stands for. Raises InputError for cuda:N."""
    if options.device is None:
        return []
    if ":" in options.device:
        number = options.device.partition(":")[2]
        raise InputError(
            f"--device {options.device}: training uses all visible GPUs. To select one, use --device cuda and set the"
            f" environment variable CUDA_VISIBLE_DEVICES={number}"
        )
    return [(setting, options.device)]


def load_model(name_or_folder: Path, options: argparse.Namespace) -> ModelBundle:
    """Return the model that `syntaxlm.load` finds, on the device of `--device`."""
    from syntaxlm.storage.sources import read_named

    return read_named(str(name_or_folder), options.device or "cpu")[0]


def add_text(parser: Parser) -> None:
    """TEXT, files or a sentence, and `--text`."""
    parser.add_input(
        "text", nargs="*", metavar="TEXT",
        help="UTF-8 text file (.gz, .xz and .zst are decompressed), or a sentence: an argument that contains white"
        " space and does not name a file is read as a sentence. - or no argument: standard input. A job (--workers)"
        " reads one file or more, which may also be Parquet files",
    )  # fmt: skip
    parser.add_argument(
        "--text", dest="sentence", metavar="SENTENCE", help="read this sentence, even if a file has this name"
    )


def given_text(options: argparse.Namespace) -> str | GivenText:
    """Return the single text of `add_text`: a file, or sentences from the command line, one per line.

    Raises InputError if both are given.
    """
    from syntaxlm.core.text_files import check_encodable
    from syntaxlm.data.corpora import GivenText

    if options.sentence is None:
        file = "-" if options.text is None else options.text
        if not file.strip():
            raise InputError("the sentence is empty; expected words, or the name of a file")
        if file != "-" and not Path(file).exists() and file.isalpha():
            raise InputError(f"{file}: no such file. For a sentence of one word, write: --text {file}")
        if Path(file).exists() or not any(map(str.isspace, file)):
            return file
    elif options.text is not None:
        raise InputError(f"found both {options.text} and --text; expected either a file or a sentence")
    given = options.text if options.sentence is None else options.sentence
    if not given.strip():
        raise InputError("the sentence is empty; expected words")
    check_encodable(given, "the sentence")
    return GivenText(tuple(given.splitlines()))


def add_also(parser: Parser, meaning: str) -> None:
    """meaning: what the command does with several models."""
    parser.add_input(
        "--also", action="append", default=[], type=Path, metavar="MODEL",
        help=f"another model; may be repeated: {meaning}"
    )  # fmt: skip


def add_averaging(parser: Parser) -> None:
    """`--also` and `--ties` of commands that average trees."""
    add_also(parser, "the trees are the average of all models' trees")
    add_ties(parser)


def add_ties(parser: Parser) -> None:
    parser.add_argument(
        "--ties", choices=["random", "first"],
        help="how to choose among equally good splits in an average: random (default), each with the same probability"
        " and reproducibly; first, which favours right branching",
    )  # fmt: skip


def ties_of(options: argparse.Namespace) -> TieBreaking:
    """Return the value of `--ties`. Raises InputError if it is given without `--also`, where no trees are averaged."""
    if options.ties is None:
        return "random"
    if not options.also:
        raise InputError(
            f"--ties {options.ties}: found one model, so no trees are averaged; add models with --also, or omit --ties"
        )
    ties: TieBreaking = options.ties
    return ties


def add_carry_state(parser: Parser) -> None:
    parser.add_argument(
        "--carry-state", action=argparse.BooleanOptionalAction,
        help="read the text as one stream (--no-carry-state: read each sentence by itself); default: as in training",
    )  # fmt: skip


def add_reading(parser: Parser) -> None:
    """`--carry-state` and `--predict-eos`."""
    add_carry_state(parser)
    parser.add_argument(
        "--predict-eos", action=argparse.BooleanOptionalAction,
        help="count the ends of sentences (--no-predict-eos: omit them); default: as in training",
    )  # fmt: skip


def text_mode(options: argparse.Namespace, bundle: ModelBundle) -> TextMode | None:
    """Return how to read a text, from the options of `add_reading`; None: as in training."""
    from syntaxlm.models.batches import TextMode

    carry_state, predict_eos = options.carry_state, options.predict_eos
    if carry_state is None and predict_eos is None:
        return None
    trained = bundle.mode
    return TextMode(
        trained.carry_state if carry_state is None else carry_state,
        trained.predict_eos if predict_eos is None else predict_eos,
    )


def add_scoring(parser: Parser, preprocessing: str) -> None:
    add_protocol(parser)
    add_preprocessing(parser, preprocessing)
    add_details(parser, "each sentence's trees and scores")


def add_details(parser: Parser, what: str) -> None:
    parser.add_output("--details", metavar="FILE", help=f"write {what} to this file, as JSON lines")


def add_protocol(parser: Parser) -> None:
    parser.add_argument(
        "--protocol", default="wsj-test", metavar="NAME", help="wsj-test (default), prpn, wsj10, wsj40 or evalb"
    )
    add_max_words(parser)


def add_max_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-words", type=int, metavar="N", help="omit longer sentences (measured after preprocessing)"
    )


def add_preprocessing(parser: Parser, default: str) -> None:
    parser.add_input(
        "--preprocessing", default=default, metavar="RULE",
        help="gold-tree preprocessing, which selects words: by Penn tags (ptb-keep, ptb-keep-currency, ptb-drop), UD"
        " tags (ud) or characters (letters, letters-only); for a treebank (zh-sinica, es-cess, pt-floresta); none; or a"
        f" YAML file with keep_tags, drop_tags, drop_words, punctuation: unicode; default {default}",
    )  # fmt: skip


def add_decoding(parser: Parser) -> None:
    """`--decoder` and `--layer`."""
    add_decoder(parser)
    parser.add_argument(
        "--layer", type=int, metavar="L",
        help="layer whose distances are used, from 1; default: as for published trees, 2 for an on-lstm with several"
        " layers, otherwise 1; models without distances have no layers",
    )  # fmt: skip


def add_decoder(parser: Parser) -> None:
    parser.add_argument(
        "--decoder",
        choices=["biased", "unbiased", "greedy-right", "greedy-sum", "cky", "mbr", "viterbi", "heads", "heads-binary"],
        help="decoding algorithm. Distances: biased (default), as in published figures, which favours right"
        " branching; unbiased. Span scores: greedy-right (default), which splits where the right span scores highest,"
        " as published; greedy-sum, which splits where both spans together score highest; cky, the tree with the"
        " highest total score. Span probabilities: mbr (default), the tree with the highest sum of span probabilities;"
        " viterbi, the single most probable tree (slow). Dependency trees: heads (default), each head with all its"
        " descendants; heads-binary, a binary tree in which heads join their right dependents first. With several"
        " models, the decoder applies to those that support it; the others use their default",
    )  # fmt: skip


def add_theme(parser: Parser, more: str = "") -> None:
    parser.add_argument(
        "--theme", choices=["auto", "light", "dark"], default="auto",
        help=f"colour theme; auto (default) follows the reader's system{more}",
    )  # fmt: skip


def add_seed(parser: Parser, default: int = 0) -> None:
    parser.add_argument("--seed", type=int, default=default, metavar="S", help=f"random seed; default {default}")


def add_treebank_style(parser: Parser) -> None:
    """Options for ordinary English text that a model reads: by default, tokenised as its vocabulary requires."""
    _add_treebank_style(
        parser, "auto", ", before the model's normaliser", "auto (default), as the model's vocabulary requires; keep"
    )


def add_treebank_style_of_text(parser: Parser) -> None:
    """The same options for text that no model reads yet: by default, it is kept."""
    _add_treebank_style(parser, "keep", "", "keep (default)")


def _add_treebank_style(parser: Parser, default: str, where: str, keep: str) -> None:
    own = ["auto"] if default == "auto" else []
    parser.add_argument(
        "--punctuation", choices=[*own, "keep", "split", "drop"], default=default,
        help=f"treatment of English punctuation marks at the ends of words{where}: {keep}; split, each mark becomes a"
        " word; drop",
    )  # fmt: skip
    parser.add_argument(
        "--contractions", choices=[*own, "keep", "split"], default=default,
        help=f"treatment of n't, 's, 'll and similar: {keep}; split, they become separate words, as in treebanks",
    )  # fmt: skip


def treebank_style(options: argparse.Namespace) -> TreebankStyle:
    """Return the options of `add_treebank_style`."""
    from syntaxlm.text.treebank_style import TreebankStyle

    return TreebankStyle(options.punctuation, options.contractions)


def refuse_repeated(folders: Sequence[Path]) -> None:
    """Raise InputError if two folders are the same model."""
    twice = [str(folder) for folder, count in Counter(folder.resolve() for folder in folders).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]}: the same model is given twice; expected different models")


def model_names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the models' folders if these differ, else their paths. Raises InputError for a repeated
    model.
    """
    refuse_repeated(folders)
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else list(map(str, folders))


def weights_of(texts: Sequence[str] | None) -> list[float] | None:
    """Return the numbers of `--weights W,W,...`. Raises InputError."""
    if texts is None:
        return None
    try:
        return [float(weight) for text in texts for weight in text.split(",")]
    except ValueError:
        found = ",".join(texts)
        raise InputError(f"--weights: found {found!r}; expected numbers separated by commas, such as 2,1,1") from None


def add_output(parser: Parser, what: str, other: str = "") -> None:
    """`-o/--output FILE`. what: the content of the file.  other: what else it may name, for the help."""
    parser.add_output(
        "-o", "--output", metavar="FILE",
        help=f"write {what} to this file (written atomically); default, or -: standard output"
        + (f". Or {other}" if other else ""),
    )  # fmt: skip


def add_figures(parser: Parser, rows: bool = False) -> None:
    """`-o/--output` and `--format` for a command that outputs figures.

    rows: whether these are a table, a result with rows (`syntaxlm.core.tables.HasRows`).
    """
    add_output(parser, "the figures")
    add_format(parser, ("text", "json", *(ROW_FORMATS if rows else ())))


def add_json(parser: Parser, rows: bool = False) -> None:
    """`--format` for the figures of a command whose `--output`, if any, is something else.  rows: see `add_figures`."""
    add_format(parser, ("text", "json", *(("tsv", "csv") if rows else ())), by_suffix=False)


@contextmanager
def text_output(path: Path | None) -> Iterator[TextIO]:
    """Return a text file for writing, which replaces `path` when the block succeeds; None: standard output."""
    from syntaxlm.core.files import replaced

    if path is None:
        yield sys.stdout
        return
    with replaced(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def output_path(path: Path | None, suffix: str = ".txt") -> Iterator[Path]:
    """Return a path for functions that write files by name; None: a temporary file, then copied to standard output."""
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / f"output{suffix}"
        yield temporary
        with open(temporary, encoding="utf-8", newline="") as file:
            shutil.copyfileobj(file, sys.stdout)


def print_result(result: Any, options: argparse.Namespace) -> None:
    """Figures in the chosen format, to `--output` if the command has it for its figures."""
    if options.format in ROW_FORMATS:
        write_rows(result.rows(), result.columns, options)
        return
    with text_output(getattr(options, "output", None)) as file:
        file.write(_formatted(result, options) + "\n")


def write_rows(rows: Iterable[Row], columns: Columns, options: argparse.Namespace) -> None:
    """Write rows as they come, as TSV, CSV, JSON lines or Parquet, to `--output`."""
    from syntaxlm.core import tables

    tables.write_rows(rows, columns, options.output, options.format)


def print_summary(result: Any, options: argparse.Namespace, head: str = "") -> None:
    """Print figures that accompany data: on standard output if the data went to a file, otherwise on stderr.

    head: put before the figures if they are text.
    """
    text = (head if options.format == "text" else "") + _formatted(result, options)
    if options.output is not None:
        print(text)
    elif not options.quiet:
        print(text, file=sys.stderr)


def print_figures(result: Any, options: argparse.Namespace) -> None:
    """Print the figures of a command whose `--output` is a folder, on standard output."""
    print(_formatted(result, options))


def _formatted(result: Any, options: argparse.Namespace) -> str:
    """Return figures in the chosen format, without the last line end."""
    from syntaxlm.core.tables import format_rows

    if options.format == "json":
        return to_json(result.to_dict())
    if options.format in ROW_FORMATS:
        return "".join(format_rows(result.rows(), result.columns, options.format)).removesuffix("\n")
    return str(result)
