"""`score`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import tee
from pathlib import Path
from typing import Any

from syntaxlm.cli.options import add_model, add_treebank_style, treebank_style
from syntaxlm.errors import InputError
from syntaxlm.files import to_json


def add_score(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="surprisal of every word of a text",
        description="Print the surprisal of every word of a text, and of each end of sentence, in bits: one row per"
        " word as written, with its position in the line and the token that the model read. Character-level models give"
        " one row per character. The rows of a sentence add up to its negative log-probability. The text has one"
        " sentence per line, or is a column of a table; other columns are copied into every row, renamed to input_word,"
        " input_sentence, ... if the output has a column of that name. For a dependency-tree model, FILE holds"
        " dependency trees, and a word's surprisal is given its path in the tree; ends of sentences have none.",
        epilog="example: syntaxlm score MODEL_DIR items.tsv --column sentence -o surprisals.tsv",
    )
    add_model(parser)
    parser.add_argument(
        "text", nargs="?", default="-", metavar="FILE",
        help="a UTF-8 file, perhaps .gz, .xz or .zst; - or none: standard input",
    )  # fmt: skip
    parser.add_argument(
        "--context", choices=["reset", "carry"],
        help="reset: read each sentence by itself; carry: read the text as one stream; default: as trained"
    )  # fmt: skip
    parser.add_argument(
        "--column", metavar="NAME",
        help="column with the sentences, if FILE is a table: a header line, cells separated by tabs"
    )  # fmt: skip
    add_treebank_style(parser)
    parser.add_argument("--format", choices=["tsv", "json"], default="tsv", help="default: tsv; json: JSON lines")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="output file (written atomically)")
    parser.set_defaults(run=_score)


def _score(options: argparse.Namespace) -> None:
    from syntaxlm.files import replaced
    from syntaxlm.model_io import read_model

    pieces = _scored(read_model(options.model), options)
    if options.output is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    with replaced(options.output) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(pieces)


def _scored(stored: Any, options: argparse.Namespace) -> Iterator[str]:
    """The rows, one sentence at a time."""
    from syntaxlm.data.corpora import read_sentences
    from syntaxlm.data.tables import Row, format_cells, names_beside, read_table
    from syntaxlm.progress import error_console, progress_bar
    from syntaxlm.scoring.surprisal import UnknownWords, WordSurprisal, surprisals
    from syntaxlm.scoring.tree_scores import tree_surprisals

    names: tuple[str, ...] = ()
    style = treebank_style(options)
    unknown = UnknownWords(stored, style)
    columns = WordSurprisal._fields
    scored: Iterator[tuple[Row, list[WordSurprisal]]]
    if stored.model.reads == "trees":
        if options.column is not None or options.context is not None:
            raise InputError(
                f"{options.model}: a dependency-tree model scores each tree by itself, so --column and --context do"
                " not apply; expected FILE alone, dependency trees"
            )
        scored = ((Row("", ()), words) for words in tree_surprisals(stored, options.text))
    else:
        read: Iterator[Row]
        if options.column is None:
            read = (Row(line, ()) for _, line in read_sentences(options.text, stored.normaliser))
        else:
            names, read = read_table(options.text, options.column)
            names = names_beside(columns, names)
        texts, rows = tee(read)
        scored = zip(rows, surprisals(stored, (row.text for row in texts), options.context, style), strict=True)
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
        raise InputError(f"{options.text}: not one {'row' if options.column else 'line'} in it")
    if unknown.words:
        error_console().print(str(unknown), markup=False, soft_wrap=True)


def _cells(word: Any) -> list[str]:
    *place, known, bits = word
    return [*map(str, place), "" if known is None else str(known).lower(), "" if bits is None else f"{bits:.6f}"]
