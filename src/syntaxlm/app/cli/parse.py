"""`parse`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.app.cli import jobs
from syntaxlm.app.cli.formats import ROW_FORMATS, add_format
from syntaxlm.app.cli.options import (
    add_averaging,
    add_decoding,
    add_model,
    add_output,
    add_text,
    add_treebank_style,
    given_text,
    load_model,
    refuse_repeated,
    text_output,
    ties_of,
    treebank_style,
    write_rows,
)
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json

if TYPE_CHECKING:
    from syntaxlm.parsing.parse import Parses
    from syntaxlm.trees import TieBreaking


def add_parse(commands: Any) -> None:
    parser = commands.add_parser(
        "parse",
        help="parse plain or tagged text",
        description="Parse text, one sentence per line, and write one tree per line. Lines without words give empty"
        " lines. A tag model reads tagged text (word_TAG). A word-level model reads plain text, or the words of files"
        " named .tagged or .tagged.txt. Formats: brackets: (X the (X old cat)), with tags (X (DT the) (NN cat));"
        " json: words, their offsets in the line, tokens, known words, text that was not read, spans and, for a single"
        " model, its distances or the scores or probabilities of the spans;"
        " latex: for the package forest; svg: a picture of one sentence; tree: drawn with box characters; conllu: the"
        " dependency trees of a model that gives them (dmv); tsv, csv, parquet: a table with one row per constituent of"
        " two words or more. With --workers, a job parses very large texts into a folder of Parquet files.",
        epilog='example: syntaxlm parse MODEL "the old cat sleeps"',
    )
    add_model(parser)
    add_text(parser)
    add_averaging(parser)
    add_format(
        parser, ("brackets", "json", "latex", "svg", "tree", "conllu", *ROW_FORMATS), default=None,
        note="Otherwise brackets, or tree for a sentence on the command line",
    )  # fmt: skip
    add_output(parser, "the trees", "the folder of a job")
    add_decoding(parser)
    parser.add_argument(
        "--labels", action="store_true",
        help="write induced labels in brackets and JSON, (NT-17 (T-3 the) (T-8 dog)); requires a single model with"
        " labels (a PCFG)",
    )  # fmt: skip
    add_treebank_style(parser)
    parser.add_argument(
        "--show-unread", action="store_true",
        help="restore punctuation that was not read in brackets and LaTeX, with the tag UNREAD",
    )  # fmt: skip
    jobs.add_job(parser)
    parser.add_argument(
        "--column", metavar="NAME", help="column with the sentences, if a job reads Parquet files; default text"
    )
    parser.set_defaults(run=_parse)


def _parse(options: argparse.Namespace) -> int:
    if options.labels and options.also:
        raise InputError("--labels: averaged trees have no labels; omit either --labels or --also")
    ties = ties_of(options)
    folders = [options.model, *options.also]
    refuse_repeated(folders)
    if jobs.is_job(options):
        return _run_job(options, folders, ties)
    from syntaxlm.parsing.parse import parse_text  # imports torch, which only the workers of a job need

    if options.column is not None:
        raise InputError("--column: applies only to jobs that read Parquet files; add --workers N, or omit it")
    text = given_text(options)
    options.format = options.format or ("brackets" if isinstance(text, str) else "tree")
    models, names = [load_model(folder, options) for folder in folders], [str(folder) for folder in folders]
    if options.format == "conllu":
        from syntaxlm.models.abilities import ParsesDependencies

        if options.also:
            raise InputError("--format conllu: averaged trees are constituency trees; omit either --format or --also")
        models[0].require(ParsesDependencies, "--format conllu")
    style = treebank_style(options)
    parsed = parse_text(models, text, options.decoder, options.layer, options.labels, names, ties, style)
    if options.format in ROW_FORMATS:
        from syntaxlm.parsing.parse import CONSTITUENTS

        found = (parse for parses in parsed for parse in parses if parse is not None)
        write_rows((row for parse in found for row in parse.rows()), CONSTITUENTS, options)
        return 0
    with text_output(options.output) as file:
        for parses in parsed:
            file.write(_formatted(parses, options.format, options.show_unread))
    return 0


def _run_job(options: argparse.Namespace, models: list[Path], ties: TieBreaking) -> int:
    from syntaxlm.app.jobs.work import ParseOptions

    if options.show_unread:
        raise InputError("--show-unread: applies to brackets and LaTeX, but a job writes tables; omit it")
    names = jobs.model_names(models)
    work = ParseOptions(names, treebank_style(options), options.decoder, options.layer, options.labels, ties)
    return jobs.run(options, work)


def _formatted(parses: Parses, kind: str, with_unread: bool) -> str:
    if kind == "svg":
        return _picture(parses)
    if kind == "conllu":
        from syntaxlm.trees import format_conllu

        found = (parse.dependencies for parse in parses if parse is not None)
        return "".join(format_conllu(tree) for tree in found if tree is not None)
    if kind == "brackets":
        trees = parses.brackets(with_unread)
    elif kind == "json":
        trees = [to_json(parse and parse.to_dict()) for parse in parses]
    elif kind == "tree":
        from syntaxlm.drawing.terminal import draw_tree

        trees = [draw_tree(parse.tree, parse.known) if parse else "" for parse in parses]
    else:
        from syntaxlm.drawing.files import format_latex

        trees = [format_latex(parse.complete_tree if with_unread else parse.tree) if parse else "" for parse in parses]
    return "".join(tree + "\n" for tree in trees)


def _picture(parses: Parses) -> str:
    sentences = [parse for parse in parses if parse is not None]
    if len(sentences) != 1 or parses.first > 1:
        raise InputError(
            f"--format svg: found {'more than one sentence' if sentences else 'no words'}; expected one sentence."
            " The command report draws several on one page"
        )
    return sentences[0]._repr_svg_() + "\n"
