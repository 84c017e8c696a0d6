"""`score`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import tee
from typing import Any

from syntaxlm.cli.options import (
    add_carry_state,
    add_json_lines,
    add_model,
    add_output,
    add_text,
    add_treebank_style,
    given_text,
    load_model,
    text_output,
    treebank_style,
)
from syntaxlm.cli.reading_times import add_displayed_words, score_displayed_words, scores_displayed_words
from syntaxlm.errors import InputError
from syntaxlm.files import to_json


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
        " words.",
        epilog="example: syntaxlm score MODEL items.tsv --column sentence -o surprisals.tsv",
    )
    add_model(parser)
    add_text(parser)
    add_carry_state(parser)
    parser.add_argument(
        "--column", metavar="NAME",
        help="column with the sentences, if TEXT is a table (tab-separated, with a header line)"
    )  # fmt: skip
    parser.add_argument(
        "--format",
        choices=["tsv", "csv", "json"],
        default="tsv",
        help="output format; default: tsv; json: JSON lines",
    )
    add_displayed_words(parser)
    add_treebank_style(parser)
    add_json_lines(parser)
    add_output(parser, "the rows")
    parser.set_defaults(run=_score)


def _score(options: argparse.Namespace) -> None:
    if scores_displayed_words(options):
        score_displayed_words(load_model(options.model, options), options)
        return
    pieces = _scored(load_model(options.model, options), options)
    with text_output(options.output) as file:
        for piece in pieces:
            file.write(piece)


def _scored(stored: Any, options: argparse.Namespace) -> Iterator[str]:
    """The rows, one sentence at a time."""
    from syntaxlm.data.corpora import read_sentences
    from syntaxlm.data.tables import FORMATS, Row, names_beside, read_table
    from syntaxlm.progress import error_console, progress_bar
    from syntaxlm.scoring.surprisal import Context, UnknownWords, WordSurprisal, surprisals
    from syntaxlm.scoring.tree_scores import tree_surprisals
    from syntaxlm.text_files import no_sentence

    names: tuple[str, ...] = ()
    format_cells = FORMATS.get(options.format, FORMATS["tsv"])
    style = treebank_style(options)
    unknown = UnknownWords(stored, style)
    columns = WordSurprisal._fields
    text = given_text(options)
    scored: Iterator[tuple[Row, list[WordSurprisal]]]
    if stored.model.reads == "trees":
        if options.column is not None or options.carry_state is not None or not isinstance(text, str):
            raise InputError(
                f"{options.model}: a dependency-tree model scores each tree by itself, so --column, --carry-state and"
                " sentences do not apply; expected only TEXT, a file of dependency trees"
            )
        scored = ((Row("", ()), words) for words in tree_surprisals(stored, text))
    else:
        read: Iterator[Row]
        if options.column is None:
            read = (Row(line, ()) for _, line in read_sentences(text, stored.normaliser))
        elif not isinstance(text, str):
            raise InputError("--column: found a sentence as TEXT; expected a table file")
        else:
            names, read = read_table(text, options.column)
            names = names_beside(columns, names)
        texts, rows = tee(read)
        context: Context | None = {None: None, True: "carry", False: "reset"}[options.carry_state]
        scored = zip(rows, surprisals(stored, (row.text for row in texts), context, style), strict=True)
    any_sentence = False
    for row, words in progress_bar(scored, "scoring, sentences"):
        if options.format == "json":
            others = dict(zip(names, row.others, strict=True))
            piece = "".join(to_json(word.to_dict() | others) + "\n" for word in words)
        else:
            piece = "".join(format_cells([*_cells(word), *row.others]) + "\n" for word in words)
            if not any_sentence:
                piece = format_cells([*columns, *names]) + "\n" + piece
        any_sentence = True
        unknown.add(words)
        yield piece
    if not any_sentence:
        raise no_sentence(text, "at least one row" if options.column else "one sentence per line")
    if unknown.words:
        error_console().print(str(unknown), markup=False, soft_wrap=True)


def _cells(word: Any) -> list[str]:
    *place, known, bits = word
    return [*map(str, place), "" if known is None else str(known).lower(), "" if bits is None else f"{bits:.6f}"]
