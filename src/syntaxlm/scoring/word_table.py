"""Surprisals of displayed words, and the table of displayed words with their properties and those of previous words."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from typing import Any, TypeAlias

import numpy as np

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.reading import ReadingReport, Remarks, announce, keeps_readings
from syntaxlm.core.settings import check_number
from syntaxlm.data.arguments import check_names, check_table, names_of, suggests_parameters
from syntaxlm.data.displayed_words import DisplayedWords, displayed_words
from syntaxlm.data.frequencies import Frequencies, FrequencySource
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.tables import names_beside, type_of
from syntaxlm.models.abilities import ParsesSentences, ScoresTokens
from syntaxlm.reports.report import HasRows
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.scoring.beliefs import BeliefReader
from syntaxlm.scoring.engine import require_predictions
from syntaxlm.scoring.options import BELIEF_MEASURES, MOST_SPILLOVER, TREE_MEASURES, Context, Measure, ScoreOptions
from syntaxlm.scoring.reading_counts import without_letters
from syntaxlm.scoring.regions import combined
from syntaxlm.scoring.surprisal import MEASURES, WordSurprisal, surprisals_of
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.doubts import has_letters, warn_of_doubts
from syntaxlm.text.normaliser import INVISIBLE, is_punctuation
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.reader import TextReader

LineScorer: TypeAlias = Callable[[Iterable[str]], Iterator[list[WordSurprisal]]]
RowsOf: TypeAlias = Callable[[ModelBundle, ScoreOptions], LineScorer]

LONGEST = 100  # words of a sentence for models of whole sentences, whose time grows with the cube of the length
_NAMED = 10  # unknown words in a summary
FEW_FREQUENT = 0.5  # share of the displayed words that a frequency list should have
_INTEGERS = ["length", "tokens", *(name for name, column in MEASURES.items() if column.type == "integer")]
# Those of the word or of a previous word (previous_length_2), or of a model (tokens_NAME_reset). Terms computed from
# them, such as length_spline_1, are no integers.
_INTEGER_COLUMNS = re.compile(rf"(previous_)?({'|'.join(_INTEGERS)})(_.+_(reset|carry))?(_\d+)?")
_OF_PARSERS = BELIEF_MEASURES | TREE_MEASURES
_BREAKS = (",", ";", ":", "—", "--", ")")  # a long sentence is split after a word that ends in one of these


@dataclass(frozen=True)
class WordScores:
    """The surprisals of n displayed words under one model.

    Attributes:
        surprisal: (n,) bits; NaN for a word of which the model reads nothing, such as a dash.
        surprisal_word: (n,) the part that is not of punctuation marks; NaN if only marks are read.
        surprisal_marks: (n,) the part of punctuation marks; NaN for a word of which the model reads nothing.
        known: (n,) whether the model reads the word and all its tokens are in the vocabulary.
        tokens: the tokens of each word, joined by spaces.
        token_counts: (n,) the number of tokens of each word; if the model splits its tokens into sub-tokens, of these.
        carries: whether the state was carried within groups.
        long_sentences: number of sentences that were split because they are too long for the model.
        measures: (n,) each, further measures by name; NaN for a word without them.
    """

    surprisal: Numbers
    surprisal_word: Numbers
    surprisal_marks: Numbers
    known: Flags
    tokens: tuple[str, ...]
    token_counts: Integers
    carries: bool
    long_sentences: int = 0
    measures: Mapping[str, Numbers] = field(default_factory=dict)

    @property
    def is_read(self) -> Flags:
        """Whether the model reads at least one token of each word."""
        return ~np.isnan(self.surprisal)

    def read_for(self, measure: str) -> Flags:
        """Return whether each word is read for a measure. Parsers may not read punctuation marks."""
        if measure not in _OF_PARSERS:
            return self.is_read
        return np.array([not is_punctuation(token) for token in self.tokens], bool)

    @property
    def context(self) -> Context:
        return "carry" if self.carries else "reset"

    @property
    def bits_of_marks(self) -> float:
        """The surprisal of all punctuation marks."""
        return float(np.nansum(self.surprisal_marks))


def default_context(bundle: ModelBundle, words: DisplayedWords) -> Context:
    """Return how displayed words are read by default: as in training within given groups, otherwise sentence by
    sentence.
    """
    carries = bundle.mode.carry_state and bundle.model.reads != "sentences"
    return "carry" if carries and words.group_column is not None else "reset"


def check_scores_words(bundle: ModelBundle, measures: Sequence[Measure] = ()) -> None:
    """Raise InputError for a model that does not score displayed words, before a table is read.

    Args:
        measures: further measures, which the model needs to have, too.
    """
    bundle.require(ScoresTokens, "scoring of tokens")
    if bundle.model.reads == "trees":
        raise InputError(f"displayed words: a {bundle.name} model reads dependency trees; expected a model of text")
    options = ScoreOptions(measures=measures)
    if options.predictions is not None:
        require_predictions(bundle.model, bundle.name)
    if options.beliefs:
        BeliefReader(bundle.model, bundle.vocabulary, bundle.name, f"the measure {options.beliefs[0]}")
    if not TREE_MEASURES.isdisjoint(measures):
        bundle.require(ParsesSentences, "measures of trees")


def score_words(
    bundle: ModelBundle,
    words: DisplayedWords,
    options: ScoreOptions = ScoreOptions(),
    name: str = "",
    rows_of: RowsOf = surprisals_of,
) -> WordScores:
    """Score displayed words with one model.

    Sentences of more than LONGEST words are split for models of whole sentences, with an InputWarning. For a
    character-level model, the space after a word belongs to the word.

    Args:
        name: the name of the model, for messages.
        options: with the context "carry", the state is carried within a group and reset between groups.
        rows_of: returns the function that scores the lines of a text.

    Raises:
        InputError: for models without token probabilities and for dependency-tree models.
    """
    check_scores_words(bundle, options.measures)

    # The lines that the model reads: sentences, or parts of long ones; and where each word begins in its line.
    longest = LONGEST if bundle.model.reads == "sentences" else len(words)
    spans = list(pairwise([*_firsts(words, longest), len(words)]))
    reader = TextReader.of(bundle.normaliser, bundle.vocabulary, options)
    lines, line_begins = zip(*(_line(words, first, end, reader, options) for first, end in spans), strict=True)
    warn_of_doubts(reader, lines, name, words.table.source)

    # The state is carried within a group, or not at all.
    carries = options.context == "carry"
    texts = words.groups[[first for first, _ in spans]] if carries else np.zeros(len(spans), np.int64)

    # The rows of a line are what the reader takes for words, which may be parts of displayed words.
    sums = _Sums(len(words), options.measures)
    scored = _scored(rows_of(bundle, options), lines, texts)
    for (first, _), begins, rows in zip(spans, line_begins, scored, strict=True):
        for row in rows:
            if row.word and row.surprisal is not None:
                sums.add(first + bisect_right(begins, row.begin) - 1, row)

    long_sentences = sum(end - first > longest for first, end in words.spans(words.sentences))
    if long_sentences:
        warn_caller(
            f"{long_sentences} sentences have more than {LONGEST} words. The {bundle.name} model reads them in parts,"
            " so the first words of the later parts lack their context. Mark where sentences start with"
            f" {option_name('--sentence-column')}"
        )
    scores = sums.scores(carries, long_sentences)
    if not np.isfinite(scores.surprisal[scores.known]).all():
        place = int(np.flatnonzero(scores.known & ~np.isfinite(scores.surprisal))[0])
        raise InputError(
            f"{words.table.place(words.rows[place])}: found the probability 0 for {words.words[place]!r} under"
            f" {bundle.name}; expected a smoothed model, which gives every word a positive probability"
        )
    return scores


class _Sums:
    """What the rows that a reader takes for words add up to, for each displayed word.

    Args:
        count: number of displayed words.
        measures: further measures.
    """

    def __init__(self, count: int, measures: Sequence[Measure]) -> None:
        self.bits, self.bits_of_words, self.bits_of_marks = np.zeros((3, count))
        self.has_word = np.zeros(count, bool)
        self.known = np.ones(count, bool)
        self.tokens = [""] * count
        self.token_counts = np.zeros(count, np.int64)
        self.measures: dict[str, list[list[float]]] = {name: [[] for _ in range(count)] for name in measures}

    def add(self, place: int, row: WordSurprisal) -> None:
        """Add a row, which the model reads, to the displayed word at a place."""
        assert row.surprisal is not None
        self.bits[place] += row.surprisal
        self.bits_of_words[place] += row.surprisal_word or 0.0
        self.bits_of_marks[place] += row.surprisal_marks or 0.0
        self.has_word[place] |= row.surprisal_word is not None
        self.known[place] &= bool(row.in_vocabulary)
        self.tokens[place] += (" " if self.tokens[place] else "") + row.token
        self.token_counts[place] += row.tokens
        for measure, values in self.measures.items():
            value = row.measures[measure]
            if value is not None or measure not in _OF_PARSERS or not is_punctuation(row.token):
                values[place].append(np.nan if value is None else value)

    def scores(self, carries: bool, long_sentences: int) -> WordScores:
        """Return the sums, NaN for words of which the model reads nothing."""
        is_read = np.array([bool(token) for token in self.tokens])
        return WordScores(
            np.where(is_read, self.bits, np.nan),
            np.where(self.has_word, self.bits_of_words, np.nan),
            np.where(is_read, self.bits_of_marks, np.nan),
            self.known & is_read,
            tuple(self.tokens),
            self.token_counts,
            carries,
            long_sentences,
            {
                name: np.array([combined(name, row, repeat(True)) for row in values])
                for name, values in self.measures.items()
            },
        )


def score_words_with_measures(
    bundle: ModelBundle,
    words: DisplayedWords,
    style: TextOptions,
    context: Context,
    measures: Sequence[Measure] = (),
    name: str = "",
    rows_of: RowsOf = surprisals_of,
) -> WordScores:
    """Score displayed words, with measures that are of single sentences also where the state is carried.

    Args:
        style: how words are split.
        context: how the surprisals are read.
        measures: further measures. Those of beliefs about trees are of each sentence by itself.
        name: the name of the model, for messages.
        rows_of: returns the function that scores the lines of a text.
    """
    alone = [measure for measure in measures if context == "carry" and measure in _OF_PARSERS]
    together = [measure for measure in measures if measure not in alone]
    options = ScoreOptions(context=context, measures=together, **vars(style))
    scores = score_words(bundle, words, options, name, rows_of)
    if alone:
        reset = ScoreOptions(context="reset", measures=alone, **vars(style))
        all_measures = {**scores.measures, **score_words(bundle, words, reset, name, rows_of).measures}
        scores = replace(scores, measures={measure: all_measures[measure] for measure in measures})
    return scores


def _line(
    words: DisplayedWords, first: int, end: int, reader: TextReader, options: ScoreOptions
) -> tuple[str, list[int]]:
    """Return the text of the words [first, end) for a reader, and where each of them begins in it.

    A word that is attached to the word before it is written so if the reader does not split it off. A reader that does
    gives it its own surprisal, and reads the same tokens.
    """
    spaced = words.line(first, end)
    if words.attached is None or options.punctuation == "keep":
        return spaced
    attached = words.line(first, end, attaches=True)
    return spaced if len(reader.tokens(attached[0])) == len(reader.tokens(spaced[0])) else attached


def _firsts(words: DisplayedWords, longest: int) -> list[int]:
    """Return the first word of each sentence, or of each part of a longer one."""
    firsts: list[int] = []
    for first, end in words.spans(words.sentences):
        while end - first > longest:
            firsts.append(first)
            # After a break in the second half of what can be read together, if there is one.
            half = first + longest // 2
            limit = first + longest
            breaks = [place + 1 for place in range(half, limit) if words.words[place].rstrip("'\"’”").endswith(_BREAKS)]
            first = breaks[-1] if breaks else limit
        firsts.append(first)
    return firsts


def _scored(score: LineScorer, lines: Sequence[str], texts: Integers) -> Iterator[list[WordSurprisal]]:
    """Yield the rows of each line.

    Args:
        score: returns the rows of the lines of a text.
        texts: number of the text of each line, at whose start the state is reset.
    """
    starts = [*np.flatnonzero(np.diff(texts, prepend=-1)).tolist(), len(lines)]
    parts: Iterable[tuple[int, int]] = pairwise(starts)
    if len(starts) > 2:
        parts = progress_bar(parts, "scoring, texts", len(starts) - 1)
    for start, end in parts:
        yield from score(lines[start:end])


@dataclass(frozen=True)
class WordTable(HasRows):
    """One row per displayed word: the columns of the input, then these, each with that of previous words.

    word (of running text), sentence_number, word_in_sentence, word_in_group: from 1.
    token: the tokens of the word.  tokens: their number.  context: reset or carry.
    surprisal: bits; None if the model reads none.  surprisal_word, surprisal_marks: its parts.
    in_vocabulary: whether all tokens are known; None if the model reads none.  Measures that were asked for.
    length: characters.  log_frequency: see `Frequencies.zipf`.
    previous_surprisal, previous_in_vocabulary, previous_length, previous_log_frequency: of the word before, None for
    the first word of a group; previous_surprisal_2, ...: of earlier words.
    """

    values: Mapping[str, Sequence[Any]]
    words: Sequence[str] = ()
    copied: Collection[str] = ()

    @classmethod
    def of(cls, words: DisplayedWords, added: Mapping[str, Any]) -> WordTable:
        """Return the columns of the input, renamed to input_NAME if `added` has this name, and then `added`.

        Floats become flags (in_vocabulary), whole numbers (length) or rounded numbers, and NaN becomes None.
        """

        def converted(name: str, value: Any) -> Any:
            if not isinstance(value, float):
                return value
            if value != value:
                return None
            if name.removeprefix("previous_").startswith("in_vocabulary"):
                return bool(value)
            return int(value) if _INTEGER_COLUMNS.fullmatch(name) else round(value, 6)

        rows = [words.table.values[row] for row in words.rows.tolist()]
        places = {name: place for place, name in enumerate(words.table.names)}
        names = zip(names_beside(list(added), words.columns), words.columns, strict=True)
        columns = {new: [row[places[name]] for row in rows] for new, name in names}
        lists = {name: values.tolist() if hasattr(values, "tolist") else values for name, values in added.items()}
        converted_lists = {name: [converted(name, value) for value in lists[name]] for name in lists}
        return cls(columns | converted_lists, words.words, tuple(columns))

    def rows(self) -> Iterator[dict[str, Any]]:
        names = list(self.values)
        return (dict(zip(names, row, strict=True)) for row in zip(*self.values.values(), strict=True))

    @property
    def summary(self) -> str:
        """Numbers of sentences and words, such as "9 sentences, 120 words, 3 unknown (2.5%): scampered; context reset".

        Up to 10 unknown words are named.
        """
        known = self.values["in_vocabulary"]
        unknown = list(known).count(False)
        not_read = list(known).count(None)
        sentences = self.values["sentence_number"][-1]
        text = f"{amount(sentences, 'sentence')}, {amount(len(known), 'word')}"
        text += f", {unknown:,} unknown ({unknown / len(known):.1%})"
        if unknown:
            unknown_words = [word for word, is_known in zip(self.words, known, strict=True) if is_known is False]
            text += without_letters(sum(not has_letters(word) for word in unknown_words))
            named = list(dict.fromkeys(unknown_words))
            text += f": {', '.join(named[:_NAMED])}" + (", ..." if len(named) > _NAMED else "")
        text += f"; {not_read:,} not read" if not_read else ""
        context = self.values["context"][0]
        how = "the state is carried within a passage" if context == "carry" else "each sentence is read by itself"
        return f"{text}; context {context}: {how}"

    def to_dict(self) -> list[dict[str, Any]]:
        return list(self.rows())

    @property
    def columns(self) -> Columns:  # type: ignore[override]  # they depend on the input
        """The columns, with the types of their values."""
        types = {name: type_of(values) if set(values) != {None} else "number" for name, values in self.values.items()}
        for name, type in types.items():
            if type == "nullable integer" and name not in self.copied:  # regressions do not read these types of pandas
                types[name] = "integer"
        return Columns("displayed words", "displayed word", {name: Column(type, "") for name, type in types.items()})


@suggests_parameters
@keeps_readings
def word_table(
    bundle: ModelBundle,
    table: Any,
    column: str = "word",
    *,
    group: str | Sequence[str] | None = None,
    sentence: str | None = None,
    order: str | None = None,
    is_text: bool = False,
    frequencies: FrequencySource | None = None,
    context: Context | None = None,
    measures: Sequence[Measure] = (),
    spillover: int = 1,
    punctuation: Punctuation = "auto",
    contractions: Contractions = "auto",
) -> WordTable:
    """Compute the surprisal of displayed words: one row per word, joined with the columns of the input.

    Args:
        bundle: the model.
        table: a file or data frame with one displayed word per row, in the order of reading; with `is_text`, with
            running text. See `InputTable.read`.
        column: the column of words, or of text.
        group: the column, or several, that name the text (story, item) of a row.
        sentence: the column whose value changes where a sentence starts; None: sentences are found from punctuation.
        order: the column of numbers by which the rows of a group are sorted; None: they are in the order of reading.
        is_text: whether the column has running text.
        frequencies: a list of words and counts, a text, or "wordfreq:en", see `syntaxlm.Frequencies.read`; None: no
            log frequency.
        context: "reset" reads each sentence by itself; "carry" carries the state within a group; None: as the model was
            trained, if `group` is given, and otherwise each sentence by itself.
        measures: further measures of each word, see `ScoreOptions`; those of the best tree are not available.
        spillover: number of previous words whose values are in the row.
        punctuation: how punctuation marks are split off before the model reads the text, see `TextOptions`.
        contractions: how contractions are split before the model reads the text, see `TextOptions`.

    Raises:
        InputError: for tables that cannot be read and for models without token probabilities.

    Examples:
        >>> table = syntaxlm.word_table(trained, "words.csv")
        >>> [row["word"] for row in table.rows()]
        ['the', 'cat']
    """
    check_number("spillover", spillover, 0, MOST_SPILLOVER)
    check_table(table, "table")
    check_names(column=column, sentence=sentence, order=order)
    groups = None if group is None else names_of(group, "group")
    chosen = ScoreOptions(measures=measures).measures
    if of_trees := TREE_MEASURES.intersection(chosen):
        raise InputError(
            f"measure: found {min(of_trees)!r}, which belongs to the tree of a sentence; expected a measure that"
            " displayed words have"
        )
    check_scores_words(bundle, chosen)
    listed = None if frequencies is None else Frequencies.read(frequencies)
    words = displayed_words(InputTable.unannounced(table), column, groups, sentence, is_text, order)
    used = context or default_context(bundle, words)
    style = TextOptions(punctuation=punctuation, contractions=contractions)
    scores = score_words_with_measures(bundle, words, style, used, chosen)
    added: dict[str, Any] = {"word": words.words} if is_text else {}
    added |= positions(words) | {"token": scores.tokens, "tokens": scores.token_counts}
    added |= {"context": [scores.context] * len(words)}
    for columns in (score_columns(scores), word_properties(words, listed)):
        added |= with_previous(columns, words, spillover)
    return WordTable.of(words, added)


def positions(words: DisplayedWords) -> dict[str, Any]:
    return {
        "sentence_number": words.sentences + 1,
        "word_in_sentence": words.position_in(words.sentences),
        "word_in_group": words.position_in(words.groups),
    }


def score_columns(scores: WordScores, suffix: str = "") -> dict[str, Numbers]:
    """Return surprisal, its parts, in_vocabulary (1 or 0) and measures; NaN for words that the model does not read."""
    known = np.where(scores.is_read, scores.known.astype(float), np.nan)
    columns = {
        "surprisal": scores.surprisal,
        "surprisal_word": scores.surprisal_word,
        "surprisal_marks": scores.surprisal_marks,
        "in_vocabulary": known,
        **scores.measures,
    }
    return {f"{name}{suffix}": values for name, values in columns.items()}


def word_properties(words: DisplayedWords, frequencies: Frequencies | None) -> dict[str, Numbers]:
    """Return length and, with frequencies, log_frequency. Warns if the list has few of the words.

    How many words have a frequency is announced.
    """
    # As displayed: an accent is no character of its own, however it is encoded, nor is what nobody sees.
    shown = (unicodedata.normalize("NFC", INVISIBLE.sub("", word)) for word in words.words)
    properties = {"length": np.array([len(word) for word in shown], float)}
    if frequencies is not None:
        _announce_listed(words, frequencies)
        zipf = {word: frequencies.zipf(word) for word in set(words.words)}
        properties["log_frequency"] = np.array([zipf[word] for word in words.words])
    return properties


def _announce_listed(words: DisplayedWords, frequencies: Frequencies) -> None:
    """Announce how many displayed words have a frequency. Warns if these are less than FEW_FREQUENT of them."""
    is_listed = {word: frequencies.has(word) for word in set(words.words)}
    remarks = Remarks()
    for word, row in zip(words.words, words.rows.tolist(), strict=True):
        if not is_listed[word]:
            remarks.add("displayed words without a listed frequency", words.table.row_numbers[row], word)
    counts = {"displayed words": len(words), "different words": len(is_listed)}
    announce(ReadingReport(frequencies.source, "frequencies of the displayed words", counts, "", remarks.all()))
    listed = np.mean([is_listed[word] for word in words.words])
    if listed < FEW_FREQUENT:
        warn_caller(
            f"{frequencies.source}: has only {listed:.0%} of the displayed words; expected the frequencies of a"
            " large text in the same language"
        )


def previous_name(name: str, lag: int) -> str:
    """Return the name of a column for an earlier word: previous_length, previous_length_2, ..."""
    if lag == 0:
        return name
    return f"previous_{name}" if lag == 1 else f"previous_{name}_{lag}"


def with_previous(columns: Mapping[str, Numbers], words: DisplayedWords, spillover: int) -> dict[str, Numbers]:
    """Return columns and those of the `spillover` words before; NaN at the start of a group."""
    previous = dict(columns)
    for lag in range(1, spillover + 1):
        places = np.maximum(np.arange(len(words)) - lag, 0)
        is_in_group = (np.arange(len(words)) >= lag) & (words.groups[places] == words.groups)
        previous |= {
            previous_name(name, lag): np.where(is_in_group, values[places], np.nan) for name, values in columns.items()
        }
    return previous
