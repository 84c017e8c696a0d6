"""`score`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import tee
from typing import TYPE_CHECKING, Annotated, Literal

from syntaxlm.app.cli.options import DisplayedWordColumns, ModelOptions, TextSource
from syntaxlm.app.cli.output import print_note
from syntaxlm.app.cli.parse import JobOptions
from syntaxlm.core.errors import InputError
from syntaxlm.core.options import InputFile, Name, OutputFile, Shown
from syntaxlm.core.progress import progress_bar
from syntaxlm.scoring.options import ScoreOptions

if TYPE_CHECKING:
    from syntaxlm.core.tables import Columns, Row
    from syntaxlm.scoring.surprisal import WordSurprisal

ScoreFormat = Annotated[Literal["tsv", "csv", "json", "parquet"], Shown(use="format")]


def score(
    model: ModelOptions,
    text: TextSource,
    options: ScoreOptions,
    displayed: DisplayedWordColumns,
    job: JobOptions,
    column: Name | None = None,
    words: InputFile | None = None,
    frequencies: InputFile | None = None,
    format: ScoreFormat | None = None,
    output: OutputFile | None = None,
) -> int:
    """Print the surprisal of every word of a text.

    Print the surprisal of every word of a text, and of each end of sentence, in bits: one row per word as written, with
    its position in the line and the token that the model read. Character-level models give one row per character. The
    rows of a sentence add up to its negative log-probability. The text has one sentence per line, or is a column of a
    table; other columns are copied to every row, and renamed to input_word, input_sentence, ... if the output has a
    column of that name. For a dependency-tree model, TEXT contains dependency trees; a word's surprisal is conditioned
    on its path in the tree, and ends of sentences have none. With --words, or for running text with --group, print one
    row per word that was displayed to readers, with all columns of the table, and with surprisal, length and frequency
    of the word and of previous words. With --workers, a job scores very large texts into a folder of Parquet files.

    column: column with the sentences, if TEXT is a table (a header line, and cells separated by tabs, commas or
        semicolons); in a job, column of Parquet files, default text
    words: table with one displayed word per row, read instead of TEXT; print one row per displayed word
    frequencies: add a column of log frequencies. word frequencies: a list with a word and its count per line, separated
        by a tab, or a plain text whose words are counted, such as the models' training text
    format: Otherwise tsv; a job always writes Parquet. json: JSON lines
    output: write the rows to this file (written atomically); default, or -: standard output. Or the folder of a job
    example: syntaxlm score MODEL items.tsv --column sentence -o surprisals.tsv
    """
    asked = _asks_for_displayed_words(text, displayed, column, words, frequencies)
    if job.is_asked:
        from syntaxlm.app.jobs.work import ScoreWork

        if options.context == "carry":
            raise InputError("--context carry: the shards of a job are scored independently; omit it")
        if asked:
            raise InputError("--words and --group: cannot be used in a job; omit --workers and --engine")
        work = partial(ScoreWork, options=options)
        return job.run(work, [model.model], text, output, format, column, model.device)
    from syntaxlm.core.tables import write_rows

    if not asked:
        rows, columns = _scored(model, text, column, options, is_parquet=format == "parquet")
        write_rows(rows, columns, output, format or "tsv")
        return 0
    from syntaxlm.evaluation.displayed_words import word_table

    source = words or text.read()
    if not isinstance(source, str):
        raise InputError("--column: found a sentence as TEXT; expected a table file")
    table = word_table(
        model.load(), source, displayed.word_column if words else str(column), group=displayed.group,
        sentence=displayed.sentence_column, is_text=words is None, frequencies=frequencies,
        spillover=displayed.spillover, options=options,
    )  # fmt: skip
    write_rows(table.rows(), table.columns, output, format or "tsv")
    print_note(table.summary)
    return 0


def _asks_for_displayed_words(
    text: TextSource, displayed: DisplayedWordColumns, column: str | None, words: str | None, frequencies: str | None
) -> bool:
    """Return whether the options ask for a table of displayed words. Raises InputError for options that contradict each
    other.

    --group, --sentence-column and --frequencies make the words of the texts in --column displayed words.
    """
    if words is not None:
        if text.text or text.sentence is not None or column is not None:
            raise InputError("--words: found with TEXT, --text or --column; expected only one of them")
        return True
    values = {"group": displayed.group, "sentence-column": displayed.sentence_column, "frequencies": frequencies}
    given = [name for name, value in values.items() if value is not None]
    if given and (column is None or text.sentence is not None):
        raise InputError(f"--{given[0]}: requires a table: --words FILE, or TEXT with --column")
    return bool(given)


def _scored(
    model: ModelOptions, text: TextSource, column: str | None, options: ScoreOptions, is_parquet: bool
) -> tuple[Iterator[Row], Columns]:
    """Return the rows of all words, one sentence at a time, and their columns.

    After the last row, the number of unknown words is printed. Raises InputError for a text without sentences.
    """
    from syntaxlm.core.tables import Column, Columns
    from syntaxlm.core.text_files import no_sentence
    from syntaxlm.data import tables
    from syntaxlm.data.corpora import read_sentences
    from syntaxlm.models.abilities import ScoresTokens
    from syntaxlm.scoring.surprisal import SURPRISALS, ReadingSummary, surprisals, tree_surprisals

    names: tuple[str, ...] = ()
    bundle, source = model.load(), text.read()
    scored: Iterator[tuple[tables.Row, list[WordSurprisal]]]
    if bundle.model.reads == "trees":
        if column is not None or options.context == "carry" or not isinstance(source, str):
            raise InputError(
                f"{model.model}: a dependency-tree model scores each tree by itself, so --column, --context and"
                " sentences do not apply; expected only TEXT, a file of dependency trees"
            )
        scored = ((tables.Row("", ()), words) for words in tree_surprisals(bundle, source))
    else:
        bundle.require(ScoresTokens, "scoring of tokens")  # before the text is read
        rows: Iterator[tables.Row]
        if column is None:
            rows = (tables.Row(line, ()) for _, line in read_sentences(source, bundle.normaliser))
        elif not isinstance(source, str):
            raise InputError("--column: found a sentence as TEXT; expected a table file")
        else:
            names, rows = tables.read_table(source, column)
            names = tables.names_beside(list(SURPRISALS), names)
        texts, others = tee(rows)
        scored = zip(others, surprisals(bundle, (row.text for row in texts), options), strict=True)
    summary = ReadingSummary(bundle, options)

    def rows_of_words() -> Iterator[Row]:
        any_sentence = False
        for row, words in progress_bar(scored, "scoring, sentences"):
            any_sentence = True
            summary.add(words)
            others = dict(zip(names, row.others, strict=True))
            for word in words:
                yield (word._asdict() if is_parquet else word.to_dict()) | others
        if not any_sentence:
            raise no_sentence(source, "at least one row" if column else "one sentence per line")
        if summary.words:
            print_note(str(summary))

    further = {name: Column("text", "column of the input table") for name in names}
    return rows_of_words(), Columns(SURPRISALS.name, SURPRISALS.row, {**SURPRISALS, **further})
