"""Reading measures of eye movements, and the columns that hold them in published corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from syntaxlm.core.errors import InputError, listed
from syntaxlm.core.option_names import option_name
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.tables import find_column


class ReadingMeasure(NamedTuple):
    """A reading measure.

    Attributes:
        meaning: what it measures.
        columns: names of columns with it, compared without case.
    """

    meaning: str
    columns: tuple[str, ...]


# IA_...: Provo and other reports of EyeLink Data Viewer. WORD_...: GECO. With a dot, and dur: MECO and popEye.
# RT...: UCL (Frank et al. 2013). First_pass_dur and similar, and fdur...: Dundee, as published with the Dundee Treebank
# and as Modelblocks computes it. Capitals: abbreviations of em2 and of articles.
READING_MEASURES = {
    "first_fixation": ReadingMeasure(
        "duration of the first fixation",
        (
            "FFD", "first_fixation_duration", "IA_FIRST_FIXATION_DURATION", "WORD_FIRST_FIXATION_DURATION",
            "firstfix.dur", "RTfirstfix", "First_fix_dur",
        ),
    ),
    "first_pass": ReadingMeasure(
        "first-pass reading time, or gaze duration",
        (
            "FPRT", "GD", "gaze_duration", "first_pass_reading_time", "IA_FIRST_RUN_DWELL_TIME", "WORD_GAZE_DURATION",
            "firstrun.dur", "RTfirstpass", "First_pass_dur", "fdurFP",
        ),
    ),
    "right_bounded": ReadingMeasure("right-bounded reading time", ("RBRT", "right_bounded_time", "RTrightbound")),
    "go_past": ReadingMeasure(
        "go-past time, or regression-path duration",
        (
            "RPD", "GPT", "go_past_time", "regression_path", "regression_path_duration", "IA_REGRESSION_PATH_DURATION",
            "WORD_GO_PAST_TIME", "firstrun.gopast", "RTgopast", "fdurGP",
        ),
    ),
    "total": ReadingMeasure(
        "total reading time",
        (
            "TRT", "TFT", "TFD", "total_reading_time", "total_fixation_time", "IA_DWELL_TIME",
            "WORD_TOTAL_READING_TIME", "dur", "Tot_fix_dur", "fdurTT",
        ),
    ),
    "skip": ReadingMeasure("whether the word was skipped", ("IA_SKIP", "WORD_SKIP", "firstrun.skip", "skipped")),
}  # fmt: skip
_MEASURE_OF = {
    column.casefold(): name for name, measure in READING_MEASURES.items() for column in (name, *measure.columns)
}


def reading_measure(column: str) -> str | None:
    """Return the name of the reading measure in a column, by the name of the column; None for another column."""
    return _MEASURE_OF.get(column.casefold().replace("-", "_"))


def time_columns(table: InputTable, names: Sequence[str]) -> list[str]:
    """Return the columns of reading measures.

    Args:
        names: of each, the column, or another name of the reading measure: first_pass finds IA_FIRST_RUN_DWELL_TIME.

    Raises:
        InputError: if the table has no such column, or several for one name, if two names have the same column, and for
            no name.
    """
    option = option_name("--time-column")
    if not names:
        raise InputError(f"{option}: found no column; expected one or more")
    columns = [_time_column(table, name) for name in names]
    if twice := [column for column, count in Counter(columns).items() if count > 1]:
        raise InputError(f"{option}: found the column {twice[0]} twice; expected each column once")
    return columns


def _time_column(table: InputTable, name: str) -> str:
    """Return the column of a reading measure, see `time_columns`."""
    if name in table.names:
        return name
    known = {column: measure for column in table.names if (measure := reading_measure(column))}
    measure = reading_measure(name)
    columns = [column for column, of_column in known.items() if of_column == measure]
    if len(columns) > 1:
        raise InputError(
            f"{table.source}: found the columns {listed(columns)} for the reading measure {name}; expected one. Choose"
            f" it with {option_name('--time-column')}"
        )
    if columns:
        return columns[0]
    advice = f"Choose one with {option_name('--time-column')}"
    if known:
        advice += f"; reading measures: {listed(f'{column} ({of_column})' for column, of_column in known.items())}"
    return table.names[find_column(table.names, name, table.source, advice)]


def measure_names(columns: Sequence[str]) -> list[str]:
    """Return a name for the reading measure in each column: that of the measure or, if two share it, of the column."""
    names = [reading_measure(column) or column for column in columns]
    return [column if names.count(name) > 1 else name for column, name in zip(columns, names, strict=True)]
