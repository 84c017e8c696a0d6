"""The surprisal of displayed words, and a table with one row per displayed word for regressions in other programs.

A displayed word may have punctuation or be several tokens ("don't," is read as "do n't ,"). Its surprisal is the sum of
the surprisals of its tokens. Ends of sentences do not count.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from syntaxlm.data.tables import names_beside
from syntaxlm.errors import InputError, InputWarning
from syntaxlm.evaluation.reading_times_frequencies import Frequencies
from syntaxlm.evaluation.reading_times_tables import (
    DisplayedWords,
    Numbers,
    Table,
    displayed_words,
    lagged,
)
from syntaxlm.model_io import ModelBundle
from syntaxlm.progress import progress_bar
from syntaxlm.result_tables import Column, ColumnType, HasRows
from syntaxlm.result_tables import Table as ResultTable
from syntaxlm.scoring.surprisal import Context, WordSurprisal, surprisals
from syntaxlm.text.reader import AUTO_STYLE
from syntaxlm.text.treebank_style import TreebankStyle

LONGEST = 100  # words of a sentence for models of whole sentences, whose time grows with the cube of the length
FEW_FREQUENT = 0.5  # share of the displayed words that a frequency list should have

_BREAKS = (",", ";", ":", "—", "--", ")")  # a long sentence is split after a word that ends in one of these


@dataclass(frozen=True)
class WordScores:
    """The surprisals of n displayed words under one model.

    surprisal: (n,) bits; NaN for a word of which the model reads nothing, such as a dash.
    known: (n,) whether the model reads the word and all its tokens are in the vocabulary.
    tokens: of each word, joined by spaces.  carries: whether the state was carried within groups.
    long_sentences: number of sentences that were split because they are too long for the model.
    """

    surprisal: Numbers
    known: npt.NDArray[np.bool_]
    tokens: tuple[str, ...]
    carries: bool
    long_sentences: int = 0

    @property
    def is_read(self) -> npt.NDArray[np.bool_]:
        """Whether the model reads at least one token of each word."""
        return ~np.isnan(self.surprisal)


def score_words(
    stored: ModelBundle, words: DisplayedWords, context: Context | None = None, style: TreebankStyle = AUTO_STYLE
) -> WordScores:
    """Scores displayed words with one model.

    context: "reset": each sentence is read by itself; "carry": the state is carried within a group and reset between
        groups; None: as the model was trained.
    style: how words are split before the model's normaliser reads them.
    Sentences of more than LONGEST words are split for models of whole sentences, with an InputWarning.
    For a character-level model, the space after a word belongs to the word.
    Raises InputError for models without token probabilities and for dependency-tree models.
    """
    if stored.model.reads == "trees":
        raise InputError(f"displayed words: a {stored.name} model reads dependency trees; expected a model of text")
    carries = stored.mode.carry_state if context is None else context == "carry"
    lines, firsts, long_sentences = _lines(words, LONGEST if stored.model.reads == "sentences" else len(words))
    bits, known, tokens = np.zeros(len(words)), np.ones(len(words), bool), [""] * len(words)
    for number, rows in enumerate(_scored(stored, words, lines, firsts, carries, style)):
        first, end = firsts[number], firsts[number + 1]
        begins = list(accumulate((len(word) + 1 for word in words.words[first : end - 1]), initial=0))
        for row in rows:
            if row.word and row.surprisal is not None:
                place = first + bisect_right(begins, row.begin) - 1
                bits[place] += row.surprisal
                known[place] &= bool(row.in_vocabulary)
                tokens[place] += (" " if tokens[place] else "") + row.token
    is_read = np.array([bool(token) for token in tokens])
    known &= is_read
    if not np.isfinite(bits[known]).all():
        place = int(np.flatnonzero(known & ~np.isfinite(bits))[0])
        raise InputError(
            f"{words.place(place)}: {stored.name} gives {words.words[place]!r} the probability 0; expected a model that"
            " is smoothed"
        )
    if long_sentences:
        warnings.warn(
            f"{long_sentences} sentences have more than {LONGEST} words. The {stored.name} model reads them in parts:"
            " the first words of the later parts lack their context. Give the sentences with --sentence-column",
            InputWarning,
            stacklevel=2,
        )
    return WordScores(np.where(is_read, bits, np.nan), known, tuple(tokens), carries, long_sentences)


def _lines(words: DisplayedWords, longest: int) -> tuple[list[str], list[int], int]:
    """The sentences as lines, the first word of each with the number of words at the end, and how many were split."""
    firsts: list[int] = []
    long_sentences = 0
    for first, end in words.spans(words.sentences):
        long_sentences += end - first > longest
        while end - first > longest:
            firsts.append(first)
            half, limit = first + longest // 2, first + longest
            breaks = [place + 1 for place in range(half, limit) if words.words[place].rstrip("'\"’”").endswith(_BREAKS)]
            first = breaks[-1] if breaks else limit
        firsts.append(first)
    firsts.append(len(words))
    lines = [" ".join(words.words[first:end]) for first, end in pairwise(firsts)]
    return lines, firsts, long_sentences


def _scored(
    stored: ModelBundle,
    words: DisplayedWords,
    lines: Sequence[str],
    firsts: Sequence[int],
    carries: bool,
    style: TreebankStyle,
) -> Iterator[list[WordSurprisal]]:
    """The rows of each line."""
    if not carries:
        yield from surprisals(stored, lines, "reset", style)
        return
    groups = words.groups[list(firsts[:-1])]
    starts = [*np.flatnonzero(np.diff(groups, prepend=-1)).tolist(), len(lines)]
    for number, start in progress_bar(enumerate(starts[:-1]), "scoring, texts", len(starts) - 1):
        with warnings.catch_warnings():
            if number:  # the same warnings as for the first group
                warnings.simplefilter("ignore", InputWarning)
            yield from surprisals(stored, lines[start : starts[number + 1]], "carry", style)


@dataclass(frozen=True)
class WordTable(HasRows):
    """One row per displayed word: the columns of the input, then these, each with that of previous words.

    word (of running text), sentence_number, word_in_sentence, word_in_group: from 1.
    token: the tokens of the word.  in_vocabulary: whether all are known; None if the model reads none.
    surprisal: bits; None if the model reads none.  length: characters.  log_frequency: see `Frequencies.zipf`.
    previous_surprisal, previous_in_vocabulary, previous_length, previous_log_frequency: of the word before, None for
    the first word of a group; previous_surprisal_2, ...: of earlier words.
    """

    words: DisplayedWords
    columns: Mapping[str, Sequence[Any]]

    def rows(self) -> Iterator[dict[str, Any]]:
        names = list(self.columns)
        return (dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True))

    @property
    def summary(self) -> str:
        """Numbers of words and unknown words, such as "120 words, 3 unknown (2.5%), 1 not read"."""
        known = self.columns["in_vocabulary"]
        unknown, not_read = list(known).count(False), list(known).count(None)
        text = f"{len(known):,} words, {unknown:,} unknown ({unknown / len(known):.1%})"
        return text + (f", {not_read:,} not read" if not_read else "")

    def to_dict(self) -> list[dict[str, Any]]:
        return list(self.rows())

    @property
    def table(self) -> ResultTable:  # type: ignore[override]  # the columns depend on the input
        """The columns, with the types of their values."""
        columns = {name: Column(_type_of(values), "") for name, values in self.columns.items()}
        return ResultTable("displayed words", "displayed word", columns)


def _type_of(values: Sequence[Any]) -> ColumnType:
    """The type of a column's values; number if all are missing."""
    types: dict[type, ColumnType] = {bool: "boolean", int: "integer", float: "number", str: "text"}
    return types[type(next((value for value in values if value is not None), 0.0))]


def word_table(
    stored: ModelBundle,
    table: Any,
    column: str = "word",
    *,
    group: str | None = None,
    sentence: str | None = None,
    is_text: bool = False,
    frequencies: str | Path | Frequencies | None = None,
    context: Context | None = None,
    spillover: int = 1,
    style: TreebankStyle = AUTO_STYLE,
) -> WordTable:
    """A row per displayed word with its surprisal and that of previous words.

    table: a file or data frame, see `Table.read`.  column, group, sentence, is_text: see `displayed_words`.
    frequencies: a word list or text, see `Frequencies.read`; None: no column of frequencies.
    context, style: see `score_words`.  spillover: number of previous words.
    Raises InputError as these functions do.
    """
    check_spillover(spillover)
    listed = (
        frequencies if frequencies is None or isinstance(frequencies, Frequencies) else Frequencies.read(frequencies)
    )
    words = displayed_words(Table.read(table), column, group, sentence, is_text)
    scores = score_words(stored, words, context, style)
    own: dict[str, Sequence[Any]] = {"word": words.words} if is_text else {}
    own |= positions(words) | {"token": scores.tokens}
    own |= with_previous(score_columns(scores), words, spillover, rounded=True)
    own |= with_previous(word_properties(words, listed), words, spillover, rounded=True)
    return WordTable(words, joined(words, own))


def check_spillover(spillover: int) -> None:
    if not 0 <= spillover <= 10:
        raise InputError(f"spillover: found {spillover}; expected 0 to 10 previous words")


def joined(words: DisplayedWords, own: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The columns of the input, renamed to input_NAME if `own` has this name, and then `own`."""
    columns = words.repeated_columns()
    names = names_beside(list(own), list(columns))
    return {**dict(zip(names, columns.values(), strict=True)), **own}


def positions(words: DisplayedWords) -> dict[str, Sequence[Any]]:
    return {
        "sentence_number": (words.sentences + 1).tolist(),
        "word_in_sentence": words.in_sentence.tolist(),
        "word_in_group": words.in_group.tolist(),
    }


def score_columns(scores: WordScores, suffix: str = "") -> dict[str, Numbers]:
    """surprisal and in_vocabulary (1 or 0); NaN for words that the model does not read."""
    known = np.where(scores.is_read, scores.known.astype(float), np.nan)
    return {f"surprisal{suffix}": scores.surprisal, f"in_vocabulary{suffix}": known}


def word_properties(words: DisplayedWords, frequencies: Frequencies | None) -> dict[str, Numbers]:
    """length and, with frequencies, log_frequency. Warns if the list has few of the words."""
    found = {"length": np.array([len(word) for word in words.words], float)}
    if frequencies is not None:
        listed = np.mean([frequencies.has(word) for word in words.words])
        if listed < FEW_FREQUENT:
            warnings.warn(
                f"{frequencies.source}: has only {listed:.0%} of the displayed words; expected the frequencies of a"
                " large text in the same language",
                InputWarning,
                stacklevel=3,
            )
        zipf = {word: frequencies.zipf(word) for word in set(words.words)}
        found["log_frequency"] = np.array([zipf[word] for word in words.words])
    return found


def previous_name(name: str, lag: int) -> str:
    """The name of a column for an earlier word: previous_length, previous_length_2, ..."""
    return name if lag == 0 else f"previous_{name}" + ("" if lag == 1 else f"_{lag}")


def with_previous(
    columns: Mapping[str, Numbers], words: DisplayedWords, spillover: int, rounded: bool = False
) -> dict[str, Any]:
    """Columns and those of the `spillover` words before; NaN at the start of a group.

    rounded: return lists of values for output, with None for NaN.
    """
    found = {
        previous_name(name, lag): lagged(values, words.groups, lag)
        for lag in range(spillover + 1)
        for name, values in columns.items()
    }
    return {name: values_of(name, values) for name, values in found.items()} if rounded else found


def values_of(name: str, values: Numbers) -> list[Any]:
    """Values for output: flags, whole numbers and rounded numbers; None for NaN."""
    if "in_vocabulary" in name:
        return [None if value != value else bool(value) for value in values.tolist()]
    if "length" in name:
        return [None if value != value else int(value) for value in values.tolist()]
    return [None if value != value else round(value, 6) for value in values.tolist()]
