"""`evaluate reading-times`, and `score` of displayed words."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.app.cli.options import (
    add_carry_state,
    add_device,
    add_figures,
    add_seed,
    add_theme,
    add_treebank_style,
    load_model,
    model_names,
    print_result,
    treebank_style,
    write_rows,
)
from syntaxlm.app.cli.parser import Parser
from syntaxlm.core.errors import InputError

if TYPE_CHECKING:
    from syntaxlm.core.tables import RowFormat
    from syntaxlm.scoring.surprisal import Context

FREQUENCIES_HELP = (
    "word frequencies: a list with a word and its count per line, separated by a tab, or a plain text whose words are"
    " counted, such as the models' training text"
)
_SUFFIXES: dict[str, RowFormat] = {".csv": "csv", ".json": "json", ".jsonl": "json"}


def add_reading_times(kinds: Any) -> None:
    parser = kinds.add_parser(
        "reading-times",
        help="measure how well surprisal predicts reading times",
        description="Measure how well the surprisals of one or more models predict reading times, on the same words."
        " Regressions have word length, log frequency, position and the previous words as baseline, and the surprisal"
        " of each model in addition. Prints the held-out gain in log-likelihood per word with confidence intervals, and"
        " the coefficients of surprisal. Requires the extra stats: pip install 'syntaxlm[stats]'. Tables have a header"
        " line and cells separated by tabs, commas or semicolons.",
        epilog="example: syntaxlm evaluate reading-times MODEL --words words.tsv --times times.tsv --frequencies"
        " train.txt",
    )
    parser.add_input("models", nargs="+", type=Path, metavar="MODEL", help="model folder, written by train")
    add_device(parser)
    parser.add_input(
        "--words", required=True, metavar="FILE",
        help="table with one displayed word per row, in the order in which readers saw them",
    )  # fmt: skip
    parser.add_input(
        "--times", metavar="FILE",
        help="table with reading times; several times of a word are averaged; default: a column of --words",
    )  # fmt: skip
    parser.add_argument("--time-column", default="time", metavar="NAME", help="column of the times; default: time")
    parser.add_argument(
        "--key", action="append", metavar="NAME",
        help="column of both tables that identifies a word; may be repeated; default: all columns that both have,"
        " except the word and the time",
    )  # fmt: skip
    parser.add_argument("--min-time", type=float, metavar="T", help="leave out shorter times")
    parser.add_argument("--max-time", type=float, metavar="T", help="leave out longer times")
    parser.add_input("--frequencies", required=True, metavar="FILE", help=FREQUENCIES_HELP)
    add_word_column(parser)
    add_text_columns(parser)
    add_carry_state(parser)
    parser.add_argument(
        "--both-contexts", action="store_true",
        help="measure each model with and without carried state, if it can carry its state",
    )  # fmt: skip
    add_treebank_style(parser)
    add_spillover(parser)
    parser.add_argument(
        "--log-times", action="store_true", help="predict the logarithm of the time; default: the time itself"
    )
    parser.add_argument(
        "--unknown", choices=["exclude", "keep"], default="exclude",
        help="treatment of words that a model does not know: exclude (default), leave them and the following"
        " --spillover words out for all models; keep, with indicators of unknown words in each model's baseline",
    )  # fmt: skip
    parser.add_argument(
        "--keep-last", action="store_true",
        help="keep the last word of each text; by default it is left out, because its time often includes a pause",
    )  # fmt: skip
    parser.add_argument(
        "--predictor", action="append", default=[], metavar="NAME",
        help="numeric column of --words that is added to the baseline; may be repeated",
    )  # fmt: skip
    parser.add_argument("--folds", type=int, default=10, metavar="N", help="number of folds; default 10")
    parser.add_argument(
        "--fold-unit", choices=["sentence", "group"], default="sentence",
        help="what is never split between folds: sentence (default) or group",
    )  # fmt: skip
    add_seed(parser)
    parser.add_output(
        "--details", metavar="FILE",
        help="write a table with one row per displayed word, its time, predictors and surprisals; the extension selects"
        " the format: .csv, .jsonl, otherwise tab-separated",
    )  # fmt: skip
    parser.add_output(
        "--picture", metavar="FILE",
        help="draw mean reading time by surprisal for each model: .svg, .png (requires the extra draw), or .html, a"
        " page with the figures",
    )  # fmt: skip
    add_theme(parser, ", for --picture")
    add_figures(parser)
    parser.set_defaults(run=_reading_times)


def add_word_column(parser: Parser) -> None:
    parser.add_argument(
        "--word-column", default="word", metavar="NAME", help="column of the displayed words; default: word"
    )


def add_text_columns(parser: Parser) -> None:
    """`--group` and `--sentence-column`."""
    parser.add_argument(
        "--group", metavar="NAME",
        help="column that names the text of each row, such as the story; the model's state is carried at most within a"
        " text; default: all rows are one text",
    )  # fmt: skip
    parser.add_argument(
        "--sentence-column", metavar="NAME",
        help="column whose value changes where a sentence starts; default: sentences are found from punctuation",
    )  # fmt: skip


def add_spillover(parser: Parser) -> None:
    parser.add_argument(
        "--spillover", type=int, default=1, metavar="N",
        help="number of previous words whose surprisal, length and frequency are included; default 1",
    )  # fmt: skip


def context_of(options: argparse.Namespace) -> Context | None:
    """Return the value of `--carry-state`."""
    contexts: dict[bool | None, Context | None] = {None: None, True: "carry", False: "reset"}
    return contexts[options.carry_state]


def table_format(path: Path | None) -> RowFormat:
    """Return the format of a table by the extension of its file."""
    return "tsv" if path is None else _SUFFIXES.get(path.suffix.lower(), "tsv")


def _reading_times(options: argparse.Namespace) -> None:
    from syntaxlm.core import tables
    from syntaxlm.evaluation.reading_times import (
        Contexts,
        RegressionSettings,
        check_picture,
        evaluate_reading_times,
        require_statsmodels,
    )

    if options.both_contexts and options.carry_state is not None:
        raise InputError("--both-contexts: found with --carry-state or --no-carry-state; expected one of them")
    settings = RegressionSettings(
        options.log_times, options.spillover, options.unknown, options.keep_last, tuple(options.predictor),
        options.folds, options.fold_unit, options.seed,
    )  # fmt: skip
    require_statsmodels()  # before the slow part
    if options.picture is not None:
        check_picture(options.picture)
    context: Contexts | None = "both" if options.both_contexts else context_of(options)
    names = model_names(options.models)
    models = {name: load_model(folder, options) for name, folder in zip(names, options.models, strict=True)}
    report = evaluate_reading_times(
        models, options.words, options.times, frequencies=options.frequencies, time_column=options.time_column,
        word_column=options.word_column, sentence=options.sentence_column, group=options.group, key=options.key,
        context=context, minimum=options.min_time, maximum=options.max_time, style=treebank_style(options),
        settings=settings,
    )  # fmt: skip
    if options.details is not None:
        words = report.word_table()
        tables.write_rows(words.rows(), words.columns, options.details, table_format(options.details))
    if options.picture is not None:
        report.write_picture(options.picture, options.theme)
    print_result(report, options)


def add_displayed_words(parser: Parser) -> None:
    """The options of `score` for displayed words."""
    parser.add_input(
        "--words", metavar="FILE",
        help="table with one displayed word per row, read instead of TEXT; print one row per displayed word",
    )  # fmt: skip
    add_word_column(parser)
    add_text_columns(parser)
    parser.add_input("--frequencies", metavar="FILE", help=f"add a column of log frequencies. {FREQUENCIES_HELP}")
    add_spillover(parser)


def scores_displayed_words(options: argparse.Namespace) -> bool:
    """Return whether the options ask for a table of displayed words. Raises InputError for options that contradict each
    other.

    --group, --sentence-column and --frequencies make the words of the texts in --column displayed words.
    """
    given = [
        name
        for name, value in (
            ("--group", options.group),
            ("--sentence-column", options.sentence_column),
            ("--frequencies", options.frequencies),
        )
        if value is not None
    ]
    if options.words is not None:
        if options.text is not None or options.sentence is not None or options.column is not None:
            raise InputError("--words: found with TEXT, --text or --column; expected only one of them")
        return True
    if given and (options.column is None or options.sentence is not None):
        raise InputError(f"{given[0]}: requires a table: --words FILE, or TEXT with --column")
    return bool(given)


def score_displayed_words(stored: Any, options: argparse.Namespace) -> None:
    from syntaxlm.core.progress import error_console
    from syntaxlm.evaluation.displayed_words import word_table

    is_text = options.words is None
    found = word_table(
        stored, ("-" if options.text is None else options.text) if is_text else options.words,
        options.column if is_text else options.word_column, group=options.group, sentence=options.sentence_column,
        is_text=is_text, frequencies=options.frequencies, context=context_of(options), spillover=options.spillover,
        style=treebank_style(options),
    )  # fmt: skip
    write_rows(found.rows(), found.columns, options)
    error_console().print(found.summary, markup=False, soft_wrap=True)
