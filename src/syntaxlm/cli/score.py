"""`score` and `items`."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import tee
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from syntaxlm.cli.options import (
    WITH_PICTURE,
    ComparedModels,
    DisplayedWordColumns,
    MaskingRule,
    OptionalFrequencies,
    PictureOutput,
    Size,
    StimulusColumns,
    TextSource,
)
from syntaxlm.cli.output import ROW_FORMATS, ReportOutput, print_note, print_warning
from syntaxlm.cli.parse import JobOptions
from syntaxlm.core.declarations import Argument, InputFile, ItemTable, Masking, Name, OutputFile, Shown
from syntaxlm.core.errors import InputError, printable, shortened
from syntaxlm.core.progress import progress_bar
from syntaxlm.scoring.options import Measure, ScoreOptions
from syntaxlm.text.options import TextOptions

if TYPE_CHECKING:
    from pathlib import Path

    from syntaxlm.data.corpora import GivenText
    from syntaxlm.data.tables import Row as TableRow
    from syntaxlm.reports.tables import Columns, Row
    from syntaxlm.reports.writers import RowFormat
    from syntaxlm.scoring.surprisal import WordSurprisal
    from syntaxlm.storage.folder import ModelBundle

    ScoredRows = tuple[Sequence[WordSurprisal], Sequence[Row]]

T = TypeVar("T")
LONGEST_SAMPLE = 200  # characters of a sentence in a report
ScoreFormat = Literal["text", "tsv", "csv", "json", "parquet"]


def score(
    model: ComparedModels,
    text: TextSource,
    options: ScoreOptions,
    displayed: DisplayedWordColumns,
    frequencies: OptionalFrequencies,
    job: JobOptions,
    drawn: PictureOutput,
    column: Name | None = None,
    words: InputFile | None = None,
    masking: MaskingRule | None = None,
    format: Annotated[ScoreFormat, Shown(use="format")] | None = None,
    output: OutputFile | None = None,
) -> int:
    """Print the surprisal of every word of a text.

    The text contains one sentence per line, or is a column of a table (`--column`). The output contains one row per
    word as written, and one row for the end of each sentence. Surprisals are in bits, and the surprisals of a
    sentence add up to its negative log-probability.

    - The columns are `sentence`, `position`, `word`, `begin`, `end`, `token`, `in_vocabulary`, `surprisal`, its two
      parts `surprisal_word` and `surprisal_marks` (punctuation marks), `tokens`, and the columns of `--measure` and
      `--next-words`. With `--also`, the first column is `model`.
    - Other columns of the table are copied to every row. A column of the table whose name the output already uses gets
      the prefix `input_`.
    - For a character-level model, the output contains one row per character.
    - For a dependency-tree model, TEXT contains dependency trees. The surprisal of a word is conditioned on its path in
      the tree, and the output contains no rows for ends of sentences.
    - With `--words`, or with `--group` for running text, the output contains one row per word that was displayed to
      readers. It contains all columns of the table, and surprisal, length and frequency of the word and of previous
      words.
    - With `--workers`, several processes score a very large text and write a folder of Parquet files (a job).
    - For a masked model of transformers, the column `pseudo_surprisal` replaces `surprisal`. For a sequence-to-sequence
      model, the column `decoder_surprisal` replaces it. These scores are not conditioned only on the words before.

    To sum surprisals by region and average them by condition, use `items`.

    Args:
        also: Score the text with another model, too. Its rows follow the rows of the first model, and a column names
            the model.
        column: Read the sentences from this column of TEXT, a table with a header line and cells separated by tabs,
            commas or semicolons. A job reads this column of Parquet files, by default `text`.
        words: Read this table with one displayed word per row instead of TEXT, and print one row per displayed word.
        format: Write the rows in this format. `text` prints tables with a bar beside each word, and `json` prints JSON
            lines. A job always writes Parquet. Default: `text` for a sentence in a terminal, otherwise `tsv`.
        output: Write the rows to this file, or to standard output (`-`, the default). A job writes into a folder of
            this name.
        picture: Draw the surprisals as bars into this `.svg`, `.pdf`, `.png` or `.html` file. With one `--also`, draw a
            scatter plot of the two models. This requires the extra `plot`.

    Examples:
        syntaxlm score MODEL items.tsv --column sentence -o surprisals.tsv
    """
    asked = _asks_for_displayed_words(text, displayed, column, words, frequencies.frequencies)
    if masking is not None and (job.is_asked or asked):
        raise InputError("--masking: cannot be used with --words, --group or in a job, which need surprisals")
    if job.is_asked:
        if asked:
            raise InputError("--words and --group: cannot be used in a job; omit --workers and --engine")
        return _score_in_job(job, model, text, options, drawn, column, output, format)
    if not asked:
        drawn.check()
        _write_scores(model.load_all(), text, column, options, drawn, output, format, masking)
        return 0
    if format == "text":
        raise InputError("--format text: found with --words or --group; expected tsv, csv, json or parquet")
    if model.also or drawn.picture or options.next_words or options.given:
        raise InputError(
            "--words, --group, --sentence-column, --order and --frequencies: found with --also, --picture,"
            " --next-words or --given, which do not apply to rows of displayed words; omit them"
        )
    _write_displayed_words(model, text, options, displayed, frequencies, column, words, output, format or "tsv")
    return 0


def _score_in_job(
    job: JobOptions,
    model: ComparedModels,
    text: TextSource,
    options: ScoreOptions,
    drawn: PictureOutput,
    column: str | None,
    output: Path | None,
    format: str | None,
) -> int:
    """Score files in a job, and return the exit code. Raises InputError for options that jobs do not have."""
    from syntaxlm.jobs.work import ScoreWork

    if options.context == "carry":
        raise InputError("--context carry: the shards of a job are scored independently; omit it")
    if model.also or drawn.picture:
        raise InputError("--also and --picture: cannot be used in a job; omit --workers and --engine")
    work = partial(ScoreWork, options=options)
    return job.run(work, [model.model], text, output, format, column, model.device)


def _write_displayed_words(
    model: ComparedModels,
    text: TextSource,
    options: ScoreOptions,
    displayed: DisplayedWordColumns,
    frequencies: OptionalFrequencies,
    column: str | None,
    words: str | None,
    output: Path | None,
    format: RowFormat,
) -> None:
    """Write a row for each displayed word. Raises InputError for a sentence."""
    from syntaxlm.reports.writers import write_rows
    from syntaxlm.scoring.word_table import check_scores_words, word_table

    source = words or text.read()
    if not isinstance(source, str):
        raise InputError("--column: found a sentence as TEXT; expected a table file")
    bundle = model.load()
    check_scores_words(bundle, options.measures)  # before the files are read
    table = word_table(
        bundle, source, displayed.word_column if words else str(column), group=displayed.group,
        sentence=displayed.sentence_column, order=displayed.order, is_text=words is None,
        frequencies=frequencies.read_if_given(), spillover=displayed.spillover, context=options.context,
        measures=options.measures, punctuation=options.punctuation, contractions=options.contractions,
    )  # fmt: skip
    write_rows(table.rows(), table.columns, output, format)
    print_note(table.summary)


def _asks_for_displayed_words(
    text: TextSource, displayed: DisplayedWordColumns, column: str | None, words: str | None, frequencies: str | None
) -> bool:
    """Return whether the options ask for a table of displayed words. Raises InputError for options that contradict each
    other.

    --group, --sentence-column, --order and --frequencies make the words of the texts in --column displayed words.
    """
    if words is not None:
        if text.text or text.sentence is not None or column is not None:
            raise InputError("--words: found with TEXT, --text or --column; expected only one of them")
        return True
    values = {"group": displayed.group, "sentence-column": displayed.sentence_column, "order": displayed.order}
    values |= {"frequencies": frequencies}
    given = [name for name, value in values.items() if value]
    if given and (column is None or text.sentence is not None):
        raise InputError(f"--{given[0]}: found no table; expected --words FILE, or TEXT with --column")
    return bool(given)


def _write_scores(
    bundles: Mapping[str, ModelBundle],
    text: TextSource,
    column: str | None,
    options: ScoreOptions,
    drawn: PictureOutput,
    output: Path | None,
    format: ScoreFormat | None,
    masking: Masking | None,
) -> None:
    """Write the rows of all models, and draw them. Raises InputError for a text without sentences.

    Args:
        format: None: text for a sentence whose rows are printed in a terminal, otherwise TSV.
        masking: of masked models.
    """
    from syntaxlm.api.results import ROWS_PRINTED
    from syntaxlm.reports.tables import Column, Columns
    from syntaxlm.reports.writers import write_lines, write_rows
    from syntaxlm.scoring.marks import remark_on_marks
    from syntaxlm.scoring.word_scores import with_masking

    bundles = with_masking(bundles, masking, "score")
    measure = _measure(bundles)
    if measure != "surprisal" and drawn.picture:
        raise InputError(f"--picture: found {measure}; expected models that give surprisals")
    if len(bundles) > 2 and drawn.picture:
        raise InputError(f"--picture: found {len(bundles)} models; expected one, or two for a scatter plot")
    source = _source_of(text, column, bundles)
    if format is None:
        is_printed = output is None and sys.stdout is not None and sys.stdout.isatty()
        format = "text" if is_printed and not isinstance(source, str) else "tsv"
    most = ROWS_PRINTED if drawn.picture is not None and len(bundles) == 1 else None
    scored = {name: _scored(name, bundle, source, column, options, most) for name, bundle in bundles.items()}
    several = {"model": Column("text", "name of the model")} if len(bundles) > 1 else {}
    columns = next(iter(scored.values()))[1]
    columns = Columns(columns.name, columns.row, {**several, **columns})
    bits_of_marks = dict.fromkeys(bundles, 0.0)
    sentences = {name: of_model for name, (of_model, _) in scored.items()}
    given = _drawn_rows(sentences, measure, drawn, format == "parquet", bits_of_marks)
    try:
        if format == "text":
            write_lines(_tables(given, columns, bundles, measure), output)
        else:
            write_rows((row for _, rows in given for row in rows), columns, output, format)
    except BrokenPipeError:
        # A reader of the rows, such as head, has seen enough. The picture is of all sentences.
        if drawn.picture is not None:
            deque(given, maxlen=0)
        raise
    for remark in remark_on_marks(bits_of_marks):
        print_warning(f"{remark}; compare surprisal_word")


def _measure(bundles: Mapping[str, ModelBundle]) -> str:
    """Return the column of the scores of all models, and print what it is if it is not the surprisal.

    Raises InputError for models with different columns.
    """
    from syntaxlm.models.abilities import ScoresWords

    types = {
        name: bundle.model.score_type if isinstance(bundle.model, ScoresWords) else None
        for name, bundle in bundles.items()
    }
    columns = {name: "surprisal" if of_model is None else of_model.word for name, of_model in types.items()}
    if len(set(columns.values())) > 1:
        found = ", ".join(f"{column} of {name}" for name, column in columns.items())
        raise InputError(f"--also: found {found}, which cannot be compared; score these models separately")
    for name, of_model in types.items():
        if of_model is not None:
            print_note(f"{name}: {of_model.word} is the negative score in bits {of_model.meaning}")
    return next(iter(columns.values()))


def _source_of(text: TextSource, column: str | None, bundles: Mapping[str, ModelBundle]) -> str | GivenText:
    """Return a file, or sentences that were given, which several models can read.

    Raises:
        InputError: for a table without its column, and for a table on standard input that several models read.
    """
    from syntaxlm.core.text_files import read_lines
    from syntaxlm.data.corpora import GivenText
    from syntaxlm.data.tables import refuse_table

    source = text.read()
    if isinstance(source, str) and source != "-" and column is None:
        if next(iter(bundles.values())).model.reads != "trees":
            refuse_table(source, "Choose the column with the sentences: --column {}")
    elif source == "-" and len(bundles) > 1:
        if column is not None:
            raise InputError("--also: found a table on standard input; expected a file, which can be read twice")
        return GivenText(tuple(line for _, line in read_lines(source)))
    return source


def _drawn_rows(
    scored: Mapping[str, Iterator[tuple[Row, list[WordSurprisal]]]],
    measure: str,
    drawn: PictureOutput,
    is_parquet: bool,
    bits_of_marks: dict[str, float],
) -> Iterator[ScoredRows]:
    """Yield the words of each sentence with their rows; after the last one, draw them.

    They are drawn before the last row is written: if the picture is refused, no file of rows is written either.

    Args:
        scored: the words of each sentence with the other cells of its row, by the name of the model.
        measure: the column of the scores, see `_measure`.
        is_parquet: whether rows have the values of Parquet.
        bits_of_marks: by model, to which the surprisal of punctuation marks is added.
    """
    from syntaxlm.api.results import SentenceSurprisal, Surprisals
    from syntaxlm.scoring.word_scores import WordScore

    drawings = {name: Surprisals() for name in scored}
    for name, sentences in scored.items():
        first = {"model": name} if len(scored) > 1 else {}
        for others, words in sentences:
            if drawn.picture is not None:
                drawings[name].append(SentenceSurprisal(words))
            bits_of_marks[name] += sum(word.surprisal_marks or 0.0 for word in words)
            named = words if measure == "surprisal" else [WordScore.of(word, measure) for word in words]
            yield words, [{**first, **(word.row() if is_parquet else word.to_dict()), **others} for word in named]

    (name, *names), (drawing, *others_drawn) = drawings, drawings.values()
    drawn.write(lambda: drawing.plot(others_drawn[0], (name, names[0])) if names else drawing.plot())


def _tables(
    scored: Iterable[ScoredRows], columns: Columns, bundles: Mapping[str, ModelBundle], measure: str
) -> Iterator[str]:
    """Yield a table with bars for each sentence, as wide as the terminal; before it, what its words have in common.

    Args:
        columns: of the rows.
        bundles: the models by name.
        measure: the column that is drawn.
    """
    from syntaxlm.api.results import SentenceSurprisal
    from syntaxlm.drawing.surprisal import FULL
    from syntaxlm.drawing.terminal_bars import draw_surprisals
    from syntaxlm.scoring.surprisal import MEASURES, SURPRISALS

    common = [name for name in columns if name not in SURPRISALS and name not in MEASURES and name != measure]
    left_out = {*SentenceSurprisal.not_printed, *common}
    formats = {name: column.format for name, column in columns.items() if name not in left_out}
    full = max(FULL[bundle.normaliser.units] for bundle in bundles.values())
    width = shutil.get_terminal_size().columns
    between = ""
    for words, rows in scored:
        if words:
            heading = "   ".join(f"{name} {rows[0][name]}" for name in common)
            lines = [printable(heading)] if common else []
            yield between + "\n".join([*lines, draw_surprisals(words, rows, formats, full, width, measure)]) + "\n"
            between = "\n"


def _scored(
    name: str, bundle: ModelBundle, source: str | GivenText, column: str | None, options: ScoreOptions, most: int | None
) -> tuple[Iterator[tuple[Row, list[WordSurprisal]]], Columns]:
    """Return the words of each sentence with the other cells of its row, and the columns of both.

    After the last sentence, the number of unknown words is printed. Raises InputError for a table without rows.

    Args:
        most: largest number of sentences; None: any.
    """
    from syntaxlm.core.text_files import no_sentence, source_name
    from syntaxlm.data import tables
    from syntaxlm.data.corpora import read_sentences
    from syntaxlm.models.abilities import ScoresTokens, ScoresWords
    from syntaxlm.parsing.word_measures import word_measures
    from syntaxlm.reports.tables import Column
    from syntaxlm.scoring import word_scores
    from syntaxlm.scoring.reading_summary import ReadingSummary
    from syntaxlm.scoring.surprisal import tree_surprisals, word_columns
    from syntaxlm.text.doubts import checked
    from syntaxlm.text.reader import TextReader

    columns, further = word_columns(options), dict[str, Column]()
    scored: Iterator[tuple[tables.Row, list[WordSurprisal]]]
    if bundle.model.reads == "trees":
        if column is not None or options != ScoreOptions() or not isinstance(source, str):
            raise InputError(
                f"{name}: a dependency-tree model scores each tree by itself, so --column, --context, further measures"
                " and sentences do not apply; expected only TEXT, a file of dependency trees"
            )
        scored = ((tables.Row("", ()), words) for words in tree_surprisals(bundle, source))
    else:
        scores = word_measures
        if isinstance(bundle.model, ScoresWords):
            columns, scores = word_scores.score_columns(bundle.model.score_type), word_scores.scored_lines
        else:
            bundle.require(ScoresTokens, "scoring of tokens")  # before the text is read
        rows: Iterator[tables.Row]
        if column is None:
            rows = (tables.Row(line, ()) for _, line in read_sentences(source, bundle.normaliser))
        elif not isinstance(source, str):
            raise InputError("--column: found a sentence as TEXT; expected a table file")
        else:
            others, rows = tables.read_table(source, column)
            rows = _announced(rows, source, column)
            further = tables.input_columns(["model", *columns], others)
        texts, read = tee(rows if most is None else _at_most(rows, most))
        reader = TextReader.of(bundle.normaliser, bundle.vocabulary, options)
        lines = checked((row.text for row in texts), reader, name, source_name(source))
        scored = zip(read, scores(bundle, lines, options), strict=True)
    summary = ReadingSummary(bundle, options)

    def sentences() -> Iterator[tuple[Row, list[WordSurprisal]]]:
        any_sentence = False
        for row, words in progress_bar(scored, "scoring, sentences"):
            any_sentence = True
            summary.add(words)
            yield dict(zip(further, row.others, strict=True)), words
        if column is not None and not any_sentence:
            raise no_sentence(source, "at least one row")
        if summary.words:
            print_note(str(summary))

    return sentences(), columns.beside(further)


def _announced(rows: Iterator[TableRow], source: str, column: str) -> Iterator[TableRow]:
    """Yield the rows of a table; after the last, announce the number of sentences and the first one."""
    from syntaxlm.core.reading import ReadingReport, announce
    from syntaxlm.core.text_files import source_name

    count, sample = 0, list[str]()
    for row in rows:
        if row.text.strip():
            count += 1
            sample += [shortened(row.text, LONGEST_SAMPLE)] if len(sample) < 2 else []
        yield row
    shown = f"first sentence: {sample[0]}" if sample else ""
    form = f"sentences of the column {column}"
    announce(ReadingReport(source_name(source), form, {"sentences": count}, sample=tuple(sample), shown=shown))


def _at_most(rows: Iterator[T], most: int) -> Iterator[T]:
    """Yield rows, which are read before they are scored. Raises InputError for more than a picture shows."""
    for number, row in enumerate(rows, 1):
        if number > most:
            raise InputError(f"--picture: found more than {most} sentences; expected 1 to {most}")
        yield row


def items(
    models: ComparedModels,
    table: Annotated[str, Argument("ITEMS")],
    style: TextOptions,
    frequencies: OptionalFrequencies,
    output: ReportOutput,
    drawn: PictureOutput,
    columns: StimulusColumns,
    critical: Name | None = None,
    contrast: Annotated[Sequence[str], Shown("CONTRAST")] = (),
    measures: Annotated[Sequence[Measure], Shown("NAME", ("--measure",))] = (),
    table_written: Annotated[ItemTable, Shown(flags=("--table",))] = "regions",
    spillover: Size = 0,
    picture_kind: Annotated[Literal["points", "contrasts"], WITH_PICTURE] = "points",
    picture_regions: Annotated[Sequence[str], Shown("NAME", ("--picture-region",)), WITH_PICTURE] = (),
) -> None:
    """Sum the surprisals of stimuli by region, and average them by condition.

    The command reads a table of stimuli and scores each sentence by itself.

    - It prints the mean surprisal of each region and condition over items, with 95% intervals. Differences to the first
      condition are computed within items.
    - It prints contrasts of the factors with t tests over items, or between groups of items. The factors are the
      columns of `--condition`. The contrasts are their main effects and interactions, or formulas (`--contrast`). With
      `--also`, the contrasts of the models are compared item by item.
    - It writes TSV, CSV and Parquet files with the rows that `--table` selects. With `-o`, the means and contrasts are
      also printed.

    Args:
        table: Table of stimuli with a header line and cells separated by tabs, commas or semicolons.
        also: Score the same stimuli with another model, too.
        critical: Name the region that the hypothesis is about, by its column or its number. If it or the words before
            it contain unknown words, these are reported, and means without their items are printed. Default: all
            regions.
        contrast: Compare the levels of a factor with more than two levels in this way, or compute a formula of
            conditions instead of main effects and interactions.
            - `treatment` (default): each level with the first level
            - `successive`: each level with the level before it
            - a formula: for example `"(pl / sg - sg / sg) - (pl / pl - sg / pl)"`
        measures: Compute means and contrasts of this measure of `score`, too, and add it to the rows.
        table_written: Write these rows to TSV, CSV and Parquet files.
            - `regions` (default): one row per region of each sentence
            - `means`: one row per mean, with a column for each factor
            - `contrasts`: one row per contrast
        spillover: Add the surprisal, length and frequency of the N words before each region to its row.
        picture: Draw the mean surprisals by region and condition, with intervals, into this `.svg`, `.pdf`, `.png` or
            `.html` file. This requires the extra `plot`.
        picture_kind: Draw these values.
            - `points` (default): the means, with intervals within items
            - `contrasts`: main effects and interactions, with intervals over items
        picture_regions: Draw this region. Default: all regions.

    Examples:
        syntaxlm items en stimuli.csv --condition head --condition attractor --critical 3 -o regions.csv
    """
    from syntaxlm.evaluation.item_plot import check_plotted_conditions, check_plotted_regions
    from syntaxlm.evaluation.items import evaluate_items
    from syntaxlm.scoring.word_table import check_scores_words

    drawn.check()
    of_rows = {"table": table_written != "regions", "spillover": spillover, "frequencies": frequencies.frequencies}
    found = [f"--{name}" for name, value in of_rows.items() if value]
    if found and output.format not in ROW_FORMATS:
        raise InputError(
            f"{', '.join(found)}: found --format {output.format}; expected tsv, csv or parquet, which have rows"
        )
    bundles = models.load_all()
    for bundle in bundles.values():
        check_scores_words(bundle, measures)  # before the table is read
    stimuli = columns.read(table)
    check_plotted_regions(picture_regions, stimuli.region_names)
    if drawn.picture is not None and picture_kind == "points":
        count = len(picture_regions or stimuli.region_names)
        check_plotted_conditions(list(stimuli.levels_by_condition.values()), count)
    report = evaluate_items(
        bundles, stimuli, critical=critical, contrast=contrast, measures=measures,
        frequencies=frequencies.read_if_given(), spillover=spillover, **vars(style),
    )  # fmt: skip
    drawn.write(lambda: report.plot(kind=picture_kind, regions=picture_regions))  # first, because it may be refused
    output.write_rows(report, report.report(table_written))
