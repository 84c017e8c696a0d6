"""`score`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import tee
from typing import TYPE_CHECKING, Any

from syntaxlm.app.cli import jobs
from syntaxlm.app.cli.formats import add_format
from syntaxlm.app.cli.options import (
    add_carry_state,
    add_model,
    add_output,
    add_text,
    add_treebank_style,
    given_text,
    load_model,
    treebank_style,
    write_rows,
)
from syntaxlm.app.cli.reading_times import add_displayed_words, score_displayed_words, scores_displayed_words
from syntaxlm.core.errors import InputError

if TYPE_CHECKING:
    from syntaxlm.core.tables import Columns, Row


def add_score(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="print the surprisal of every word of a text",
        description="Print the surprisal of every word of a text, and of each end of sentence, in bits: one row per"
        " word as written, with its position in the line and the token that the model read. Character-level models give"
        " one row per character. The rows of a sentence add up to its negative log-probability. The text has one"
        " sentence per line, or is a column of a table; other columns are copied to every row, and renamed to"
        " input_word, input_sentence, ... if the output has a column of that name. For a dependency-tree model, TEXT"
        " contains dependency trees; a word's surprisal is conditioned on its path in the tree, and ends of sentences"
        " have none. With --words, or for running text with --group, print one row per word that was displayed to"
        " readers, with all columns of the table, and with surprisal, length and frequency of the word and of previous"
        " words. With --workers, a job scores very large texts into a folder of Parquet files.",
        epilog="example: syntaxlm score MODEL items.tsv --column sentence -o surprisals.tsv",
    )
    add_model(parser)
    add_text(parser)
    add_carry_state(parser)
    parser.add_argument(
        "--column", metavar="NAME",
        help="column with the sentences, if TEXT is a table (a header line, and cells separated by tabs, commas or"
        " semicolons); in a job, column of Parquet files, default text",
    )  # fmt: skip
    add_displayed_words(parser)
    add_format(
        parser, ("tsv", "csv", "json", "parquet"), default=None,
        note="Otherwise tsv; a job always writes Parquet. json: JSON lines",
    )  # fmt: skip
    add_treebank_style(parser)
    add_output(parser, "the rows", "the folder of a job")
    jobs.add_job(parser)
    parser.set_defaults(run=_score)


def _score(options: argparse.Namespace) -> int:
    if jobs.is_job(options):
        return _run_job(options)
    options.format = options.format or "tsv"
    if scores_displayed_words(options):
        score_displayed_words(load_model(options.model, options), options)
        return 0
    rows, columns = _scored(load_model(options.model, options), options)
    write_rows(rows, columns, options)
    return 0


def _run_job(options: argparse.Namespace) -> int:
    from syntaxlm.app.jobs.work import ScoreOptions

    if options.carry_state:
        raise InputError("--carry-state: the shards of a job are scored independently; omit it")
    if scores_displayed_words(options):
        raise InputError("--words and --group: cannot be used in a job; omit --workers and --engine")
    names = jobs.model_names([options.model])
    return jobs.run(options, ScoreOptions(names, treebank_style(options), options.carry_state))


def _scored(stored: Any, options: argparse.Namespace) -> tuple[Iterator[Row], Columns]:
    """Return the rows, one sentence at a time, and their columns."""
    from syntaxlm.data import tables
    from syntaxlm.data.corpora import read_sentences
    from syntaxlm.models.abilities import ScoresTokens
    from syntaxlm.scoring.surprisal import SURPRISALS, Context, WordSurprisal, surprisals, tree_surprisals

    names: tuple[str, ...] = ()
    text = given_text(options)
    scored: Iterator[tuple[tables.Row, list[WordSurprisal]]]
    if stored.model.reads == "trees":
        if options.column is not None or options.carry_state is not None or not isinstance(text, str):
            raise InputError(
                f"{options.model}: a dependency-tree model scores each tree by itself, so --column, --carry-state and"
                " sentences do not apply; expected only TEXT, a file of dependency trees"
            )
        scored = ((tables.Row("", ()), words) for words in tree_surprisals(stored, text))
    else:
        stored.require(ScoresTokens, "scoring of tokens")  # before the text is read
        read: Iterator[tables.Row]
        if options.column is None:
            read = (tables.Row(line, ()) for _, line in read_sentences(text, stored.normaliser))
        elif not isinstance(text, str):
            raise InputError("--column: found a sentence as TEXT; expected a table file")
        else:
            names, read = tables.read_table(text, options.column)
            names = tables.names_beside(list(SURPRISALS), names)
        texts, others = tee(read)
        context: Context | None = {None: None, True: "carry", False: "reset"}[options.carry_state]
        found = surprisals(stored, (row.text for row in texts), context, treebank_style(options))
        scored = zip(others, found, strict=True)
    columns = SURPRISALS.with_text(names, "column of the input table")
    return _rows(stored, scored, names, text, options), columns


def _rows(stored: Any, scored: Any, names: Sequence[str], text: Any, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of all words.  names: of the other columns of the input.

    Then the number of unknown words is printed. Raises InputError for a text without sentences.
    """
    from syntaxlm.core.progress import error_console, progress_bar
    from syntaxlm.core.text_files import no_sentence
    from syntaxlm.scoring.surprisal import UnknownWords

    unknown = UnknownWords(stored, treebank_style(options))
    any_sentence = False
    for read, words in progress_bar(scored, "scoring, sentences"):
        any_sentence = True
        unknown.add(words)
        others = dict(zip(names, read.others, strict=True))
        for word in words:
            yield (word._asdict() if options.format == "parquet" else word.to_dict()) | others
    if not any_sentence:
        raise no_sentence(text, "at least one row" if options.column else "one sentence per line")
    if unknown.words:
        error_console().print(str(unknown), markup=False, soft_wrap=True)
