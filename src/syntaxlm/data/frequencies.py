"""Word frequencies: from lists of the usual forms, from a text whose words are counted, from the training text of a
bundled model, or from the package wordfreq.

Whether a file is a list or a text is decided from its lines, and a line that contradicts this is an error. Words are
compared in lower case, in Unicode normal form C, and without punctuation at their ends.
"""

from __future__ import annotations

import csv
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, TypeAlias

from syntaxlm.core.errors import InputError, closest_match, listed, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.core.text_files import content_suffix, read_lines, source_name
from syntaxlm.data.corpora import NO_TEXT_SUFFIXES, is_tagged, untagged_lines
from syntaxlm.data.plain_text import examined
from syntaxlm.data.table_form import MISSING
from syntaxlm.data.tables import split_cells
from syntaxlm.storage.bundled import bundled_folder, bundled_names
from syntaxlm.text.normaliser import INVISIBLE, split_words

BUNDLED = "frequencies.tsv.xz"  # in the folder of a bundled model: the counts of the words of its training text
WORDFREQ = "wordfreq:"  # before the code of a language, instead of a file of frequencies

_BILLION = 1e9
_LINES_COMPARED = 1_000  # at the start of a file, from which its form is decided
# Share of the lines of a list that have the same number of cells, and share of numbers in a column of numbers.
_MIN_REGULAR_SHARE = 0.9
_MAX_LIST_LIKE_SHARE = 0.2  # share of the lines of a text that may look like entries of a list
_MIN_TABLE_LINES = 10  # of a table separated by spaces: a few lines of a text may have equally many words by chance
_SMALLEST_MAXIMUM = 10  # a list or mapping with fractions whose largest value is smaller has logarithms
_SMALLEST_RATIO = 10  # so has one whose largest value is less than this times its smallest value

_SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", " ": "spaces"}
_COUNT_NAMES = (
    "freqcount", "wffreqcount", "count", "counts", "rawfreq", "rawfrequency", "rawcount", "absfreq", "occurrences", "n",
    "tokens", "hits", "freq", "frequency", "freqs", "frequencies",
)  # fmt: skip
_WORD_NAMES = ("word", "words", "wordform", "form", "spelling", "ortho", "1ortho", "token", "type", "string", "lemma")
# In the name of a column, in small letters and digits: logarithms, numbers of contexts instead of occurrences, and what
# numbers the rows, or measures readers.
_LOGARITHM = re.compile(r"^(lg|ln|log)|log(10)?$|zipf")
_NO_COUNT = re.compile(
    r"^cd|contextualdiversity|^range$|dispersion|^(item|zone|trial|subj|participant|pos|index|id|line|sent|region|order"
    r"|story|list|rt|time|ran[gk]|number|word(number|in|pos))|^df$|docfreq|^cum|age|aoa|rating|length|letters"
)
_LIKELY_COUNT = re.compile(r"fr[eé]q|count|anz|h(ä|ae)uf|occ|wf|million|pm|^nb?$|num|abs|hits|tokens|total|cnt")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d*)?(?:[eE][-+]?\d+)?")
_THOUSANDS_COMMAS = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?")
_FEW_THOUSANDS_COMMAS = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d{1,3})(?:\.\d*)?")  # all four digits have one
_AMBIGUOUS_POINT = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")  # of thousands, or of decimals
_SPACED_NUMBER = re.compile(r"[\u00a0\u202f\u2009' ](?=\d{3}(?!\d))")  # separators of thousands besides , and .
_WRITTEN_NUMBER = re.compile(r"[-+]?\d[\d.,\u00a0\u202f\u2009']*(?:[eE][-+]?\d+)?")
_ENTRY = re.compile(r"\s*(?:\S+[\s,;]+[\d.,]*\d|\d[\d.,]*[\s,;]+\S+)\s*")  # a word and a number, in either order

_QUOTED_BY_R = re.compile(r'"[^"]*" "[^"]*"')

_APOSTROPHES = str.maketrans("’ʼ´", "'''")
_ENDING = re.compile(r"(?i)(?<=\w) (n['’]t|['’](?:s|re|ve|ll|d|m))(?!\S)")  # of a contraction in tokenised text
_DASH = re.compile(r"--+|[—–]")
_STRIPPED = ("P", "S", "Z", "C")  # Unicode categories: punctuation, symbols, separators, controls; not marks


@lru_cache(maxsize=1 << 16)
def bare_word(word: str) -> str:
    """Return a word in lower case and normal form C, with straight apostrophes and no punctuation at its ends.

    Soft hyphens and other characters that the normaliser removes are no part of a word; combining marks, such as the
    vowel signs of Hindi, are. Returns "" for punctuation.
    """
    bare = unicodedata.normalize("NFC", INVISIBLE.sub("", word).translate(_APOSTROPHES))
    start, end = 0, len(bare)
    while start < end and unicodedata.category(bare[start])[0] in _STRIPPED:
        start += 1
    while end > start and unicodedata.category(bare[end - 1])[0] in _STRIPPED:
        end -= 1
    return unicodedata.normalize("NFC", bare[start:end].lower())


@dataclass(frozen=True)
class Frequencies:
    """Word frequencies from a list or a text.

    Attributes:
        counts: the counts of words, as returned by `bare_word`.
        total: sum of all counts.
        source: name of the file, for messages.
        unit: the value of one occurrence; below 1 in a list of frequencies per million.

    Examples:
        >>> frequencies = syntaxlm.Frequencies.read({"the": 980, "cat": 20})
        >>> round(frequencies.zipf("The"), 2), frequencies.has("dog")
        (8.99, False)
    """

    counts: Mapping[str, float]
    total: float
    source: str
    unit: float = 1.0

    @classmethod
    def read(cls, source: FrequencySource, column: str | None = None) -> Frequencies:
        """Read a frequency list, or count the words of a text.

        Args:
            source: a file, compressed or not; "en" for the counts of the words in the training text of the bundled
                model of this name, if there is no such file; "wordfreq:en" for the package wordfreq in a language; a
                mapping from words to counts (dict, Counter, pandas.Series); or frequencies, which are returned as they
                are. In a list, each line has a word and its count, in either order, perhaps with further columns,
                separated by tabs, semicolons, commas or spaces, with or without a header. Rows of the same word are
                added up. In a text, dashes separate words, and endings of split contractions are joined to their words
                (do n't).
            column: name of the column with the counts; None: the only column of numbers that is not a rank, or the
                column with a usual name (count, freq, FREQcount, ...).

        Raises:
            InputError: for a file without words; for a line that does not fit the form of the file; for a list with
                logarithms, and for several possible columns.
        """
        if isinstance(source, Frequencies):
            return source
        if not isinstance(source, str | Path):
            return cls._of_mapping(source)
        if str(source).startswith(WORDFREQ):
            return WordfreqFrequencies.of(str(source))
        listed = bundled_folder(str(source)) / BUNDLED
        if str(source) in bundled_names() and not Path(source).exists():
            if not listed.exists():
                raise InputError(f"{source}: the bundled model has no word counts; expected en, or a file")
            return replace(cls._of_file(listed, column), source=f"the training text of {source}")
        if content_suffix(source) in NO_TEXT_SUFFIXES:
            raise InputError(
                f"{source}: found a name that ends in {content_suffix(source)}, a treebank; expected a frequency list"
                f" or a text. Extract its words with: syntaxlm data words {source} -o FILE"
            )
        return cls._of_file(source, column)

    @classmethod
    def _of_file(cls, path: str | Path, column: str | None) -> Frequencies:
        source = source_name(path)
        lines = ((number, line) for number, line in untagged_lines(path, read_lines(path)) if line.strip())
        first = list(islice(lines, _LINES_COMPARED))
        if not first:
            raise _no_word(source)
        _refuse_other_forms(first, source)
        layout = _find_layout(first, source, column)
        if layout is not None:
            return _read_list(chain(first, lines), layout, source)
        if column is not None:
            raise InputError(
                f"{source}: found no list with a column of numbers; expected one with the column {column!r}"
            )
        remarks = Remarks()
        text = examined(chain(first, lines), source, warn=False, remarks=remarks)
        form = "text whose words are counted" + ", without tags" * is_tagged(path)
        return _count_text(text, source, form, remarks)

    @classmethod
    def _of_mapping(cls, mapping: Any) -> Frequencies:
        """Return the frequencies of a dict, a Counter or a pandas.Series. Raises InputError for other objects."""
        if not hasattr(mapping, "items") or hasattr(mapping, "columns"):
            raise InputError(
                f"frequencies: found {type(mapping).__name__}; expected the name of a file, or a mapping from words to"
                " counts, such as dict(zip(frame['word'], frame['count']))"
            )
        counts: dict[str, float] = {}
        source, largest = "the mapping of frequencies", 0.0
        for word, count in mapping.items():
            if not isinstance(word, str) or not _is_count(count):
                raise InputError(f"frequencies: found {word!r}: {count!r}; expected a word and a count of 0 or more")
            counts[bare_word(word)] = counts.get(bare_word(word), 0.0) + float(count)
            largest = max(largest, float(count))
        _refuse_logarithms(counts, len(mapping), largest, source)
        return _frequencies(counts, source)

    def count(self, word: str) -> float:
        """Return the count of a word; of words joined by a dash or separated by a space, that of the rarest."""
        return min((self.counts.get(part, 0.0) for part in _parts(word)), default=0.0)

    def has(self, word: str) -> bool:
        """Return whether all words of a displayed cell are listed."""
        return self.count(word) > 0

    def zipf(self, word: str) -> float:
        """Return the frequency of a displayed word on the Zipf scale: log10 of occurrences per billion words.

        One occurrence is added to every count, including that of words that do not occur. For a cell of several words,
        returns the mean of their values; for words joined by a dash, the value of the rarest. van Heuven et al. 2014.
        """
        words = [part for part in split_words(word) if bare_word(part)] or [word]
        return sum(map(self._zipf, words)) / len(words)

    def _zipf(self, word: str) -> float:
        size = self.total + self.unit * len(self.counts)
        return math.log10((self.unit + self.count(word)) / size * _BILLION)


FrequencySource: TypeAlias = str | Path | Mapping[str, float] | Frequencies
"""What `Frequencies.read` reads."""


@dataclass(frozen=True)
class WordfreqFrequencies(Frequencies):
    """The frequencies of the package wordfreq (Speer 2022) in a language, with its tokenisation and its numbers."""

    language: str = ""

    @classmethod
    def of(cls, source: str) -> WordfreqFrequencies:
        """Return the frequencies of a language. Raises InputError if wordfreq is missing, or the language."""
        try:
            import wordfreq
        except ImportError:
            message = "requires the package wordfreq. Install it with: pip install 'syntaxlm[frequencies]'"
            raise InputError(f"{source}: {message}") from None
        language = source.removeprefix(WORDFREQ)
        if language not in wordfreq.available_languages():
            known = ", ".join(sorted(wordfreq.available_languages()))
            raise InputError(f"{source}: found the language {language!r}; expected one of {known}")
        return cls({}, _BILLION, source, language=language)

    def count(self, word: str) -> float:
        """Return occurrences per billion words; 0 for a word that is not listed."""
        zipf = self.zipf(word)
        return 10**zipf if zipf else 0.0

    def zipf(self, word: str) -> float:
        """Return `wordfreq.zipf_frequency` of a word, or of a cell of several words; 0 if it is not listed."""
        import wordfreq

        return float(wordfreq.zipf_frequency(word.translate(_APOSTROPHES), self.language))


def _parts(word: str) -> Iterator[str]:
    """Yield the words of a displayed cell, which are separated by spaces or dashes."""
    return filter(None, map(bare_word, split_words(_DASH.sub(" ", word))))


def _is_count(value: Any) -> bool:
    try:
        return math.isfinite(value) and value >= 0
    except TypeError:
        return False


def _frequencies(counts: dict[str, float], source: str) -> Frequencies:
    """Return frequencies. Raises InputError if no word has a count."""
    counts.pop("", None)
    total = float(sum(counts.values()))
    if not total:
        raise _no_word(source)
    has_fractions = any(not float(count).is_integer() for count in counts.values())
    unit = min(count for count in counts.values() if count) if has_fractions else 1.0
    return Frequencies(counts, total, source, unit)


def _refuse_logarithms(counts: Mapping[str, float], rows: int, largest: float, source: str) -> None:
    """Raise InputError for numbers that are probably logarithms.

    Args:
        counts: the numbers of words, those of several rows added up.
        rows: number of rows.
        largest: the largest number of a row.
        source: name of the list, for the message.
    """
    has_fractions = any(not count.is_integer() for count in counts.values())
    smallest = min((count for count in counts.values() if count), default=1.0)
    if has_fractions and rows > 1 and (largest < _SMALLEST_MAXIMUM or largest < _SMALLEST_RATIO * smallest):
        raise InputError(
            f"{source}: found fractions from {smallest:g} to {largest:g}: these look like logarithms or ratings;"
            " expected counts, or frequencies per million"
        )


def _no_word(source: str) -> InputError:
    return InputError(f"{source}: found no word; expected a text, or a list with one word and its count per line")


def is_frequency_list(path: str | Path) -> bool:
    """Return whether a file is a frequency list that `Frequencies.read` reads. Raises InputError as `read_lines` does.

    Only the start of the file is read.
    """
    first = list(islice(((number, line) for number, line in read_lines(path) if line.strip()), _LINES_COMPARED))
    try:
        return bool(first) and _find_layout(first, source_name(path), None) is not None
    except InputError:
        return False


# ---- texts


def _count_text(lines: Iterable[tuple[int, str]], source: str, form: str, remarks: Remarks) -> Frequencies:
    """Count the words of a text. Raises InputError if many of its lines look like entries of a list.

    Args:
        form: what the file is read as.
        remarks: what is odd in the lines, which is known after they were read.
    """
    words: Counter[str] = Counter()
    total = entries = first_entry = 0
    for number, line in lines:
        total += 1
        if _ENTRY.fullmatch(line):
            entries += 1
            first_entry = first_entry or number
        words.update(split_words(_DASH.sub(" ", _ENDING.sub(r"\1", line))))
    if entries > _MAX_LIST_LIKE_SHARE * total:
        raise InputError(
            f"{source}, line {first_entry}: found a word and a number, as in {entries:,} of {total:,} lines; expected a"
            " text, or a list in which all lines have the same columns, such as a word, a tab and its count"
        )
    if words.total() == total == len(words) >= _MIN_TABLE_LINES:
        raise InputError(
            f"{source}: found one word per line, and each word once; expected a list with counts, or a text, in which"
            " frequent words occur often"
        )
    counts: dict[str, float] = {}
    for word, count in words.items():
        counts[bare_word(word)] = counts.get(bare_word(word), 0) + count
    frequencies = _frequencies(counts, source)
    numbers = {"lines": total, "words": int(frequencies.total), "different words": len(frequencies.counts)}
    announce(ReadingReport(source, form, numbers, "its lines are not entries of a list", remarks.all()))
    return frequencies


# ---- lists


def _refuse_other_forms(lines: Sequence[tuple[int, str]], source: str) -> None:
    """Raise InputError for JSON, and for a list that R wrote with spaces between quoted cells."""
    number, line = lines[0]
    if line.lstrip().startswith(("{", "[{", "[[")) or line.strip() == "[":
        raise InputError(
            f"{source}, line {number}: found {line[:40]!r}, the start of JSON; expected a list with one word and its"
            " count per line. In Python, give the dictionary itself as frequencies"
        )
    if len(lines) > 1 and all(_QUOTED_BY_R.match(text) for _, text in lines[1:3]):
        raise InputError(
            f"{source}, line {lines[1][0]}: found cells in quotation marks, separated by spaces, as R writes them;"
            " expected tabs or commas. Write the list with write.csv(data, row.names = FALSE)"
        )


@dataclass(frozen=True)
class _Layout:
    """The form of a list.

    Attributes:
        separator: the separator of the cells; a space stands for any white space.
        width: number of cells of each line.
        word: index of the cell with the word.
        count: index of the cell with its count.
        header: names of the columns; () if there is no header.
        number_of: returns the number of a cell, or None if it is not a number.
    """

    separator: str
    width: int
    word: int
    count: int
    header: tuple[str, ...]
    number_of: Callable[[str], float | None]


def _cells(line: str, separator: str) -> list[str]:
    """Return the cells of a line, without white space around them."""
    if separator == " ":
        return line.split()
    if separator == "\t":
        return [cell.strip() for cell in split_cells(line)]
    try:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # of a text: a carriage return, or more characters without a separator than the module allows
        cells = line.split(separator)
    return [cell.strip() for cell in cells]


def _find_layout(lines: Sequence[tuple[int, str]], source: str, column: str | None) -> _Layout | None:
    """Return the form of a list, from its first lines; None if they are not the lines of a list or a table.

    Args:
        column: name of the column with the counts; None: it is found.

    Raises:
        InputError: for a table that is no frequency list, and for several possible columns.
    """
    for separator in _SEPARATORS:
        rows = [_cells(line, separator) for _, line in lines]
        width = Counter(map(len, rows)).most_common(1)[0][0]
        fitting = [cells for cells in rows if len(cells) == width]
        if width < 2 or len(fitting) < _MIN_REGULAR_SHARE * len(rows):
            continue

        # The first line is a header if it has no number where the others have some.
        below = fitting[1:] or fitting
        numeric = [place for place in range(width) if _has_numbers([cells[place] for cells in below])]
        has_numbers = any(_WRITTEN_NUMBER.fullmatch(rows[0][place]) for place in numeric if place < len(rows[0]))
        header = tuple(rows[0]) if numeric and rows[0] is fitting[0] and not has_numbers else ()
        body = below if header else fitting
        words = [place for place in range(width) if place not in numeric]

        # In a text, words and numbers are not in columns; few lines may have equally many words by chance.
        is_table = len(rows) >= _MIN_TABLE_LINES or (len(rows) > 2 and numeric in ([0], [width - 1]))
        if separator == " " and (not numeric or (len(words) != 1 and not is_table)):
            continue
        if separator in ",;" and not numeric:
            continue
        if not numeric or not words:
            found = f"columns separated by {_SEPARATORS[separator]}, {'all' if numeric else 'none'} of them numbers"
            raise InputError(f"{source}: found {found}; expected a list of words and counts, or a text")
        word = _word_column(words, header, body, source)
        _check_words([cells[word] for cells in body], source)
        count = _count_column(numeric, header, body, source, column)
        return _Layout(separator, width, word, count, header, _number_format([cells[count] for cells in body], source))
    return None


def _has_numbers(cells: Sequence[str]) -> bool:
    """Return whether a column has numbers: nearly all of its cells that are not missing."""
    present = [cell for cell in cells if cell not in MISSING]
    numbers = sum(_WRITTEN_NUMBER.fullmatch(cell) is not None for cell in present)
    return bool(present) and numbers >= _MIN_REGULAR_SHARE * len(present) and 2 * len(present) > len(cells)


def _plain(name: str) -> str:
    """Return the name of a column in small letters and digits, without other characters."""
    return "".join(filter(str.isalnum, name)).lower()


def _word_column(places: Sequence[int], header: Sequence[str], body: Sequence[Sequence[str]], source: str) -> int:
    """Return the place of the words: the only column of text, or the one with a usual name."""
    if len(places) == 1:
        return places[0]
    named = ([place for place in places if header and _plain(header[place]) == usual] for usual in _WORD_NAMES)
    if len(chosen := next(filter(None, named), [])) == 1:
        return chosen[0]
    found = listed(header[place] if header else repr(body[0][place]) for place in places)
    raise InputError(
        f"{source}: found several columns of text: {found}; expected one, or one that is called word in the header"
    )


def _count_column(
    places: Sequence[int], header: Sequence[str], body: Sequence[Sequence[str]], source: str, column: str | None
) -> int:
    """Return the place of the counts: the column with a name, or the usual one."""
    if column is None:
        return _usual_count_column(places, header, body, source)
    if column not in header:
        found = listed(header) if header else "a list without a header"
        raise InputError(f"{source}: no column {column!r}; found {found}. {closest_match(column, header)}".strip())
    if header.count(column) > 1:
        raise InputError(f"{source}: found several columns {column!r}; expected one. Rename the others")
    if header.index(column) not in places:
        raise InputError(f"{source}: the column {column!r} has text; expected counts")
    if _LOGARITHM.search(_plain(column)):
        raise InputError(f"{source}: the column {column!r} has logarithms; expected counts, or frequencies per million")
    return header.index(column)


def _usual_count_column(
    places: Sequence[int], header: Sequence[str], body: Sequence[Sequence[str]], source: str
) -> int:
    """Return the place of the counts: the only column that can be counts, or the one with a usual name."""

    def name(place: int) -> str:
        return _plain(header[place]) if header else ""

    counts = [place for place in places if not _is_rank([cells[place] for cells in body])]
    counts = [place for place in counts if not (_LOGARITHM.search(name(place)) or _NO_COUNT.search(name(place)))]
    named = ([place for place in counts if name(place) == usual] for usual in _COUNT_NAMES)
    chosen = next(filter(None, named), counts)
    if len(chosen) == 1:
        if header and not _LIKELY_COUNT.search(name(chosen[0])):
            warn_caller(
                f"{source}: the column {header[chosen[0]]!r} is taken as counts, because it is the only column of"
                f" numbers. If it has others, choose a column with {option_name('--frequency-column')}"
            )
        return chosen[0]
    found = listed(header[place] if header else f"column {place + 1}" for place in chosen or places)
    problem = "several columns of numbers" if chosen else "only ranks or other numbers, but no counts"
    remedy = f"Choose one with {option_name('--frequency-column')}" if header else "Remove the others, or add a header"
    raise InputError(f"{source}: found {problem}: {found}; expected one column with counts. {remedy}")


def _is_rank(cells: Sequence[str]) -> bool:
    """Return whether numbers count the rows: 1, 2, 3, ..."""
    return len(cells) > 2 and all(
        cell.isdecimal() and before.isdecimal() and int(cell) == int(before) + 1 for before, cell in pairwise(cells)
    )


def _check_words(words: Sequence[str], source: str) -> None:
    """Raise InputError if most cells of the column of words have several words, as in a table of sentences."""
    long = [word for word in words if len(word.split()) > 1]
    if 2 * len(long) > len(words):
        raise InputError(
            f"{source}: found several words in {len(long):,} of {len(words):,} rows, such as {long[0][:60]!r}; expected"
            " a list with one word and its count per line, or a text without columns"
        )


def _number_format(cells: Sequence[str], source: str) -> Callable[[str], float | None]:
    """Return the function that reads the numbers of a column, from how they are written.

    Thousands are separated by commas if each comma has three digits after it, and no number without one has more than
    three; otherwise a comma is a decimal comma. Points separate thousands beside decimal commas, and where a number
    has two or more points.
    """
    written = [cell for cell in cells if _WRITTEN_NUMBER.fullmatch(cell)]
    with_commas = [cell for cell in written if "," in cell]
    groups = [re.fullmatch(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", cell) is not None for cell in with_commas]
    has_long = any(re.match(r"[-+]?\d{4}", cell) for cell in written)
    several = any(cell.count(",") > 1 for cell in with_commas)
    if with_commas and several and not all(groups):
        odd = with_commas[groups.index(False)]
        found = f"the numbers {with_commas[0]!r} and {odd!r}"
        raise InputError(f"{source}: found {found}; expected one way of writing numbers")
    if with_commas and not several and all(groups) and has_long:
        raise InputError(
            f"{source}: found the number {with_commas[0]!r}, whose comma may separate thousands or decimals, because"
            " other numbers of four digits have none; expected numbers without thousands separators"
        )
    points = [cell for cell in written if "." in cell]
    if points and not with_commas and all(map(_AMBIGUOUS_POINT.fullmatch, points)):
        raise InputError(
            f"{source}: found the number {points[0]!r}, whose point may separate thousands or decimals; expected"
            " numbers without thousands separators"
        )

    # Every later number must be written in the same way. If the first numbers have no point, a later one is ambiguous.
    has_decimal_comma = any(cell.count(".") > 1 for cell in points) if not with_commas else not all(groups)
    form = _NUMBER
    if has_decimal_comma:
        form = _DECIMAL_COMMA
    elif with_commas:
        form = _THOUSANDS_COMMAS if several else _FEW_THOUSANDS_COMMAS

    def number_of(cell: str) -> float | None:
        cell = _SPACED_NUMBER.sub("", cell)
        if not form.fullmatch(cell) or (not points and not with_commas and _AMBIGUOUS_POINT.fullmatch(cell)):
            return None
        return float(cell.replace(".", "").replace(",", ".") if has_decimal_comma else cell.replace(",", ""))

    return number_of


def _read_list(lines: Iterable[tuple[int, str]], layout: _Layout, source: str) -> Frequencies:
    """Return the frequencies of a list. Raises InputError for the first line that does not fit its form."""
    counts: dict[str, float] = {}
    remarks, sample = Remarks(), list[str]()
    rows, largest = 0, 0.0
    expected = f"expected {layout.width} cells separated by {_SEPARATORS[layout.separator]}, a word and its count"
    for place, (number, line) in enumerate(lines):
        if place == 0 and layout.header:
            continue
        cells = _cells(line, layout.separator)
        if len(cells) != layout.width:
            raise InputError(f"{source}, line {number}: found {line[:60]!r}; {expected} among them")
        word, written = cells[layout.word], cells[layout.count]
        if written in MISSING:
            remarks.add("rows without a count, left out", number, word)
            continue
        count = layout.number_of(written)
        if count is None or not math.isfinite(count) or count < 0:
            raise InputError(
                f"{source}, line {number}: found the count {written[:40]!r} of {word[:40]!r}; expected a number of 0 or"
                " more, written as the first ones are"
            )
        rows += 1
        largest = max(largest, count)
        if len(sample) < 2:
            sample.append(f"{word}: {count:.15g}")
        if " " in word:
            remarks.add("rows of several words, which no displayed word matches", number, word)
        bare = bare_word(word)
        counts[bare] = counts.get(bare, 0.0) + count
    _refuse_logarithms(counts, rows, largest, source)
    frequencies = _frequencies(counts, source)
    form = f"frequency list, separated by {_SEPARATORS[layout.separator]}"
    if layout.header:
        form += f", columns {layout.header[layout.word]} and {layout.header[layout.count]}"
    numbers = {"rows": rows, "different words": len(frequencies.counts)}
    evidence = f"its lines have {layout.width} cells, with a word in cell {layout.word + 1} and its count in"
    evidence += f" cell {layout.count + 1}"
    announce(ReadingReport(source, form, numbers, evidence, remarks.all(), tuple(sample)))
    return frequencies
