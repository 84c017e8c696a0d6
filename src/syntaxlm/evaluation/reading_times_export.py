"""Reading times of each subject beside the predictors of each word, and a script for R that fits mixed models to them.

Predictors have a second column, NAME_z, which is scaled over the exported rows: minus the mean, divided by the standard
deviation. A predictor of a previous word stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.core.arrays import Flags, Numbers
from syntaxlm.core.errors import InputError, listed, warn_caller
from syntaxlm.core.files import system_error, write_text
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import Remarks
from syntaxlm.data.displayed_words import DisplayedWords, Times
from syntaxlm.data.tables import names_beside
from syntaxlm.evaluation.options import RegressionSettings
from syntaxlm.evaluation.time_regressions import TOKENS, UNKNOWN
from syntaxlm.reports.writers import RowFormat, write_rows
from syntaxlm.scoring.word_table import WordScores, WordTable, score_columns, with_previous

SUBJECT_NAMES = ("subject", "participant", "WorkerId", "subj")
_MEASURE = "# Measure, in the column time: "  # at the start of a line of a script
_R_NAME = re.compile(r"(?:[^\W\d_]|\.(?!\d))[\w.]*")  # R reads other names in backticks only
_READERS: Mapping[RowFormat, str] = {"csv": "read.csv", "tsv": "read.delim"}


@dataclass(frozen=True, eq=False)
class Exported:
    """What is exported of the words of an experiment.

    Attributes:
        words: the displayed words.
        times: their times.
        analysed: (n,) whether each displayed word is exported.
        predictors: of the baseline, (n,) each.
        scores: the scores of each model, by its label.
        settings: of the regressions.
    """

    words: DisplayedWords
    times: Times
    analysed: Flags
    predictors: Mapping[str, Numbers]
    scores: Mapping[str, WordScores]
    settings: RegressionSettings


def export(data: Exported, path: str | Path, subject: str | None = None) -> Path:
    """Write a row per subject and analysed word, and beside the table a script for R, whose path is returned.

    A script that exists is kept, because it may have been edited. A script of another measure is renamed instead.

    Args:
        data: what is exported.
        path: a file that ends in .csv, or otherwise has cells separated by tabs.
        subject: the column of the subjects in the table of times; None: the first of the usual names.

    Raises:
        InputError: if the table of times has no such column, or the file cannot be written.
    """
    path = Path(path)
    _, script = exported_files(path)
    format: RowFormat = "csv" if path.suffix.lower() == ".csv" else "tsv"
    columns, predictors = _columns(data, subject)
    table = WordTable(columns)
    write_rows(table.rows(), table.columns, path, format)
    text = _script(data, path.name, _READERS[format], predictors)
    earlier = script.read_text(encoding="utf-8", errors="replace") if script.exists() else text
    if earlier != text and _measure(data.times) in earlier.splitlines():
        warn_caller(
            f"{script}: is kept, because it differs from the script for this table. Delete it to have the script"
            " written"
        )
        return script
    if earlier != text:
        kept = _set_aside(script)
        warn_caller(
            f"{script}: is written anew, because the earlier script does not name the measure of this table,"
            f" {_measure(data.times).removeprefix(_MEASURE)}. The earlier script is now {kept}"
        )
    write_text(text, script)
    return script


def _measure(times: Times) -> str:
    """Return the line of a script that names its measure."""
    return f"{_MEASURE}{' '.join(times.column.split())} ({'0 or 1' if times.is_binary else 'times'})"


def _set_aside(path: Path) -> Path:
    """Rename a file to the first of FILE.old, FILE.old2, ... that does not exist, which is returned."""
    names = (path.with_name(f"{path.name}.old{number if number > 1 else ''}") for number in count(1))
    free = next(name for name in names if not name.exists())
    try:
        return path.rename(free)
    except OSError as error:
        raise system_error(path, "renamed", error) from error


def exported_files(path: Path, measures: Sequence[str] = ()) -> list[Path]:
    """Return the table and the script of each reading measure.

    Args:
        path: the table; the name of each measure is added to its name: rows.csv becomes rows-go_past.csv.
        measures: the names of the measures; none for a single measure, whose table has its name unchanged.

    Raises:
        InputError: for a name that does not end in .csv, .tsv or .txt.
    """
    if path.suffix.lower() not in (".csv", ".tsv", ".txt"):
        raise InputError(
            f"{path}: found a name that ends in {path.suffix!r}; expected .csv, .tsv or .txt. The script for R is"
            " written beside the table"
        )
    tables = [path.with_stem(f"{path.stem}-{name}") for name in _plain_names(r"[^-.\w]+", measures)] or [path]
    return [file for table in tables for file in (table, table.with_suffix(".R"))]


def _plain_names(other: str, names: Iterable[str]) -> list[str]:
    """Return names with underscores in place of some characters, and with numbers where two would be equal.

    Args:
        other: the pattern of the characters that are replaced.
    """
    plain: list[str] = []
    for name in names:
        first = re.sub(other, "_", name)
        candidates = chain([first], (f"{first}_{number}" for number in count(2)))
        plain.append(next(candidate for candidate in candidates if candidate not in plain))
    return plain


def _columns(data: Exported, subject: str | None) -> tuple[dict[str, Sequence[Any]], dict[str, list[str]]]:
    """Return the columns of the table, and the scaled predictors of the baseline ("") and of each model."""
    words, times = data.words, data.times
    table = times.table
    assert table is not None
    names = [subject] if subject else [name for name in SUBJECT_NAMES if name in table.names]
    if not names or names[0] not in table.names:
        raise InputError(
            f"{table.source}: no column of subjects; found {listed(table.names)}. Choose one with"
            f" {option_name('--subject')}"
        )
    subjects = [" ".join(cell.split()) for cell in table.column(names[0], "--subject")]  # as cells of --group and --key
    is_analysed = data.analysed[times.places]
    rows, places = times.kept[is_analysed], times.places[is_analysed]
    if empty := [row for row in rows.tolist() if not subjects[row]]:  # R would leave these rows out
        raise InputError(f"{table.emptiness(empty[0], names[0])}; expected the subject of every reading time")

    # Who read which word, and for how long.
    columns: dict[str, Sequence[Any]] = {
        "subject": [subjects[row] for row in rows.tolist()],
        "word_id": (places + 1).tolist(),
        "word": [words.words[place] for place in places.tolist()],
        "time": table.numbers(times.column, "--time-column", Remarks())[rows].tolist(),
    }

    # The predictors of the baseline and of each model.
    chosen = data.settings.predictors
    of_baseline = {name: values for name, values in data.predictors.items() if "_spline_" not in name or name in chosen}
    predictors = {"": _add(columns, of_baseline, places)}
    for label, name in zip(data.scores, _plain_names(r"\W+", data.scores), strict=True):
        predictors[label] = _add(columns, _of_model(data, label, f"_{name}" if len(data.scores) > 1 else ""), places)

    # The columns that identify words, under another name if the table has other values under theirs.
    present = {*chosen, "subject"} if names[0] == "subject" else {*chosen}
    copied = [name for name in times.key if name not in present]
    for name, new in zip(copied, names_beside(list(columns), copied), strict=True):
        cells = table.column(name, "--key")
        columns[new] = [cells[row] for row in rows.tolist()]
    return columns, predictors


def _of_model(data: Exported, label: str, suffix: str) -> dict[str, Numbers]:
    """Return what the baseline has of a model, and its measures, of the word and of previous words.

    Args:
        suffix: the end of the names of the columns.
    """
    scores = data.scores[label]
    values = score_columns(scores)
    own = {f"{UNKNOWN}{suffix}": (~scores.known).astype(float)} if data.settings.unknown == "keep" else {}
    own |= {f"{TOKENS}{suffix}": scores.token_counts.astype(float)}
    own |= {f"{name}{suffix}": values[name] for name in data.settings.measures}
    return with_previous(own, data.words, data.settings.spillover)


def _add(columns: dict[str, Sequence[Any]], predictors: Mapping[str, Numbers], places: Any) -> list[str]:
    """Add predictors of words and their scaled forms to the columns; return the names of the scaled ones."""
    scaled = []
    for name, of_words in predictors.items():
        if name in columns:
            raise InputError(
                f"{option_name('--predictor', name)}: the exported table has a column of this name; rename the column"
            )
        values = of_words[places]
        columns[name] = values.tolist()
        if np.ptp(values) > 0:
            columns[f"{name}_z"] = ((values - values.mean()) / values.std(ddof=1)).tolist()
            scaled.append(f"{name}_z")
    return scaled


def _script(data: Exported, table: str, reader: str, predictors: Mapping[str, Sequence[str]]) -> str:
    """Return the script for R."""
    if data.times.is_binary:
        response, function = "time", "glmer"
        fitted, what = "family = binomial", "Logistic mixed models"
    else:
        response, function = "log(time)" if data.settings.log else "time", "lmer"
        fitted, what = "REML = FALSE", "Mixed models of reading times"
    lines = [
        f"# {what} with lme4. Run with: Rscript FILE.R",
        _measure(data.times),
        "library(lme4)",
        "",
        "# The table is in the folder of this script.",
        'script <- sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))',
        'folder <- if (length(script) == 1) dirname(script) else "."',
        f'data <- {reader}(file.path(folder, "{table}"), na.strings = "", quote = "\\"", check.names = FALSE)',
        "data$subject <- factor(data$subject)",
        "data$word_id <- factor(data$word_id)",
        f'control <- {function}Control(optimizer = "bobyqa", optCtrl = list(maxfun = 1e5))',
    ]
    in_formulas = {label: list(map(_in_formula, names)) for label, names in predictors.items()}
    for number, (label, own) in enumerate(list(in_formulas.items())[1:], 1):
        of_baseline = [name for name in own if name.removeprefix("previous_").startswith((TOKENS, UNKNOWN))]
        before = [*in_formulas[""], *of_baseline]
        added = [name for name in own if name not in of_baseline]
        measures = [name for name in added if not name.startswith("previous_")] or before[:1]
        lines += [
            "",
            f"# {label}: the baseline, the measures of the model, and slopes of each subject.",
            f"baseline{number} <- {function}({response} ~ {' + '.join(before)}",
            f"  + (1 | subject) + (1 | word_id), data = data, {fitted}, control = control)",
            f"model{number} <- update(baseline{number}, . ~ . + {' + '.join(added or before[:1])})",
            f"slopes{number} <- update(model{number}, . ~ . - (1 | subject) + (1 + {' + '.join(measures)} || subject))",
            f"print(summary(slopes{number}), correlation = FALSE)",
            f"print(anova(baseline{number}, model{number}, slopes{number}))",
            f'cat("gain in log-likelihood per observation, in-sample, nats:",'
            f' (logLik(model{number}) - logLik(baseline{number})) / nrow(data), "\\n")',
        ]
    return "\n".join(lines) + "\n"


def _in_formula(name: str) -> str:
    """Return how a formula of R names a column, such as `log freq_z` in backticks."""
    return name if _R_NAME.fullmatch(name) else "`" + re.sub(r"[\\`]", r"\\\g<0>", name) + "`"
