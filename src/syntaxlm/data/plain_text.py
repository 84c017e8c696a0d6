"""The form of a plain text: sentence marks, markup, and formats that only look like text.

The form is decided from the first lines of a text. Lines that contradict it are counted until the end of the text, and
announced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Literal, NamedTuple

from syntaxlm.core.errors import InputError, shortened, warn_caller
from syntaxlm.core.files import split_lines
from syntaxlm.core.foreign_files import foreign_treebank
from syntaxlm.core.reading import LINES_NAMED, ReadingReport, Remark, Remarks, announce
from syntaxlm.data.table_form import refuse_table_lines
from syntaxlm.text.normaliser import ZERO_WIDTH_SPACE, word_spans

_LINES_COMPARED = 1_000  # at the start of a text, from which its form is decided
# Share of these lines that have sentence marks in a text with marks, and no spaces in a text without spaces.
_MIN_MARKED_SHARE = 0.5
_NEARLY_ALL = 0.9  # share of these lines with columns, numbers or single words, in a text that has them
_MIN_FORM_LINES = 3  # lines from which columns, numbers and single words are recognised
_MAX_HTML_SHARE = 0.01  # share of the lines of a text that may have HTML without a warning
_WIDTH = 60  # characters of a line in a message
_SAMPLE = 200  # characters of a line in a report

_TOKENS = re.compile(r"[()]|[^\s()]+")
_TREE = re.compile(r"\(\S* ?\(\S+ .*\)\)")  # (S (NP ...)) or ((S ...))
_LINE_NUMBER = re.compile(r"\s*\(?(\d{1,9})(?:[.):]|\t)?\s+\S")
_MARK = r"(?:</?s>|<[be]os>|\[(?:CLS|SEP|BOS|EOS)\]|<\|(?:end|start)oftext\|>)"
_MARKS = re.compile(_MARK, re.IGNORECASE)
_MARKS_AT_ENDS = re.compile(rf"^(?:\s*{_MARK}(?=\s|$))+|(?:(?:^|\s){_MARK}\s*)+$", re.IGNORECASE)
_HTML = re.compile(
    r"&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});"
    r"|</?(?:p|br|div|span|a|b|i|em|strong|table|t[rdh]|ul|ol|li|h[1-6]|img|font|sup|sub)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_ZERO_WIDTH = re.compile(rf"(?<!\S){ZERO_WIDTH_SPACE}+(?!\S)")  # between white space
# Scripts that are written without spaces: Thai to Tibetan, Burmese, Khmer, kana, and Han characters.
_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{10}")

# Formats whose files are text, by the first line that is not blank; and, for subtitles, by the second one.
_FORMATS = {
    "an HTML or XML document": re.compile(r"<(?:!doctype|\?xml|html|svg|tei|text|corpus)\b.*", re.IGNORECASE),
    "JSON": re.compile(r"\{\s*\".*|\[\s*[\[{].*|\[\s*\".*\"\s*\]|[\[{]"),
    "a LaTeX document": re.compile(r"\\(?:documentclass|documentstyle|begin\{document\}).*"),
    "WebVTT subtitles": re.compile(r"WEBVTT\b.*"),
}
_TABLE_ADVICE = "Write the sentences, here of the column {}, to a text file"
_TREEBANK_LINES = 100
_ROW_ID = re.compile(r"\d+(?:[-.]\d+)?")
_ROW_COLUMNS = range(7, 11)  # of CoNLL-U and similar formats
_SUBTITLE_TIME = re.compile(r"\d+:\d\d:\d\d[,.]\d{3} --> .*")


TextForm = Literal["text", "tagged text", "text of characters"]
PLAIN: TextForm = "text"
TAGGED: TextForm = "tagged text"
CHARACTERS: TextForm = "text of characters"


def examined(
    lines: Iterable[tuple[int, str]],
    source: str,
    form: TextForm = PLAIN,
    warn: bool = True,
    remarks: Remarks | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text, without sentence marks, and announce what was read when they end.

    Marks such as `<s>` and `</s>` are removed if half of the first lines begin or end with one.

    Args:
        source: name of the text in messages.
        form: what is read; only a text of words should have spaces.
        warn: whether to announce the report, and to warn if marks were removed, if lines have HTML or no spaces, and if
            the text looks like a treebank.
        remarks: where removed marks and other oddities are counted, for the caller's own report.

    Raises:
        InputError: for other formats (HTML, JSON, LaTeX, subtitles, treebanks, tables), and for marks that separate
            sentences in a line.
    """
    lines = iter(lines)
    first = list(islice(lines, _LINES_COMPARED))
    numbered = [(number, line) for number, line in first if line.strip()]
    _refuse_others(numbered, source)
    marks = _marks_at_ends(numbered, source)
    if warn:
        _warn(f"{marks}. They are removed, because a model adds its own" if marks else "")
        _warn_of_form(numbered, source, form)

    counted = LineCounter(removes_marks=bool(marks), remarks=remarks)
    for number, line in chain(first, lines):
        yield number, counted.read(number, line)
    if warn:
        sample = tuple(_MARKS_AT_ENDS.sub("", line) if marks else line for _, line in numbered[:2])
        announce_counts(counted.counts(), source, form, sample)


class LineCounts(NamedTuple):
    """What is odd in the lines of a text, or of a part of it.

    Attributes:
        sentences: number of lines that are not blank.
        html: number of lines with HTML.
        blank: number of blank lines.
        remarks: what is odd besides, with its count and the first line numbers.
    """

    sentences: int = 0
    html: int = 0
    blank: int = 0
    remarks: tuple[tuple[str, int, tuple[int, ...]], ...] = ()


class LineCounter:
    """Counts what is odd in the lines of a text.

    Args:
        removes_marks: whether sentence marks at the ends of lines are removed.
        remarks: where the odd lines are counted; None: in remarks of its own.
    """

    def __init__(self, removes_marks: bool = False, remarks: Remarks | None = None) -> None:
        self._removes_marks = removes_marks
        self._remarks = Remarks() if remarks is None else remarks
        self._sentences = self._html = self._blank = 0

    def read(self, number: int, line: str) -> str:
        """Count a line, and return it, perhaps without sentence marks."""
        # Few lines have one of these signs, so that few are searched.
        if "<" in line or "[" in line or "&" in line:
            self._html += self._remark_on(number, line)
            if self._removes_marks:
                line = _MARKS_AT_ENDS.sub("", line).strip()
        if ZERO_WIDTH_SPACE in line and (words := _ZERO_WIDTH.findall(line)):
            self._remarks.add("words of zero-width spaces only (U+200B), read as white space", number, count=len(words))
        if not line or line.isspace():
            self._blank += 1
        else:
            self._sentences += 1
        return line

    def counts(self) -> LineCounts:
        """Return the counts of the lines so far."""
        remarks = ((remark.what, remark.count, remark.lines) for remark in self._remarks.all())
        return LineCounts(self._sentences, self._html, self._blank, tuple(remarks))

    def _remark_on(self, number: int, line: str) -> bool:
        """Remark on HTML and on sentence marks in a line. Returns whether it has HTML."""
        if _MARKS_AT_ENDS.search(line):
            what = "which are removed" if self._removes_marks else "read as words"
            self._remarks.add(f"lines with sentence marks, {what}", number)
        if not _HTML.search(line):
            return False
        self._remarks.add("lines with HTML, which is read as words", number)
        return True


def announce_counts(counts: LineCounts, source: str, form: TextForm, sample: Sequence[str] = ()) -> None:
    """Announce how a text was read, and warn of many lines with HTML.

    Args:
        source: name of the text.
        sample: its first lines.
    """
    if counts.html > _MAX_HTML_SHARE * counts.sentences:
        _warn(
            f"{source}: {counts.html:,} of {counts.sentences:,} lines have HTML such as &quot; or <p>, which is read as"
            " words"
        )
    blank = (Remark("blank lines", counts.blank),) if counts.blank else ()
    remarks = (*(Remark(*remark) for remark in counts.remarks), *blank)
    shown = tuple(shortened(line.strip(), _SAMPLE) for line in sample)
    sentences = {"sentences": counts.sentences}
    announce(ReadingReport(source, f"{form}, one sentence per line", sentences, "", remarks, shown))


def total_counts(parts: Iterable[LineCounts]) -> LineCounts:
    """Return the counts of a text from those of its parts, which are in order."""
    sentences = html = blank = 0
    remarks: dict[str, tuple[int, tuple[int, ...]]] = {}
    for part in parts:
        sentences += part.sentences
        html += part.html
        blank += part.blank
        for what, count, lines in part.remarks:
            before, first = remarks.get(what, (0, ()))
            remarks[what] = before + count, (*first, *lines)[:LINES_NAMED]
    return LineCounts(sentences, html, blank, tuple((what, *counted) for what, counted in remarks.items()))


def check_running_text(text: str, source: str) -> None:
    """Raise InputError for running text that is of another format, such as HTML or CoNLL-U. Warns of HTML in lines."""
    numbered = [(number, line) for number, line in enumerate(split_lines(text), 1) if line.strip()][:_LINES_COMPARED]
    _refuse_formats(numbered, source, "running text")
    refuse_table_lines([line for _, line in numbered], source, _TABLE_ADVICE, "running text")
    html = sum(_HTML.search(line) is not None for _, line in numbered)
    if html > _MAX_HTML_SHARE * len(numbered):
        _warn(f"{source}: {html:,} of the first {len(numbered):,} lines have HTML such as &quot; or <p>, read as words")


def check_start(lines: Iterable[str], source: str) -> None:
    """Check the first lines of a text whose lines are processed as they are, as in a job.

    Raises:
        InputError: as `examined` does, and for a text with sentence marks.
    """
    numbered = _numbered(lines)
    _refuse_others(numbered, source)
    if marks := _marks_at_ends(numbered, source):
        raise InputError(f"{marks}; expected sentences without marks. Remove them first")


def warn_of_start(lines: Iterable[str], source: str, form: TextForm) -> None:
    """Warn, as `examined` does, of first lines that look like another format."""
    _warn_of_form(_numbered(lines), source, form)


def _numbered(lines: Iterable[str]) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(islice(lines, _LINES_COMPARED), 1) if line.strip()]


def _refuse_others(numbered: Sequence[tuple[int, str]], source: str) -> None:
    """Raise InputError for the first lines of another format, and for marks between sentences."""
    _refuse_formats(numbered, source)
    refuse_table_lines([line for _, line in numbered], source, _TABLE_ADVICE)
    _refuse_separators(numbered, source)


def _warn_of_form(numbered: Sequence[tuple[int, str]], source: str, form: TextForm) -> None:
    """Warn of first lines that look like another format."""
    _warn(_looks_like_trees(numbered, source))
    if form == PLAIN:
        _warn(_lacks_spaces(numbered, source))
        _warn(_has_columns(numbered, source) or _has_numbers(numbered, source) or _has_one_word(numbered, source))


def _warn(message: str) -> None:
    """Warn, unless the message is empty."""
    if message:
        warn_caller(message)


def _refuse_formats(
    numbered: Sequence[tuple[int, str]], source: str, expected: str = "plain text, one sentence per line"
) -> None:
    """Raise InputError if the first lines are those of another format.

    Args:
        expected: what is read, for the message.
    """
    if not numbered:
        return
    number, line = numbered[0][0], numbered[0][1].strip()
    lines = [line for _, line in numbered]
    found = next((name for name, pattern in _FORMATS.items() if pattern.fullmatch(line)), None)
    advice = "Extract the text first"
    if treebank := foreign_treebank("\n".join(lines[:_TREEBANK_LINES]), source):
        found, advice = treebank
    elif any(_SUBTITLE_TIME.fullmatch(line.strip()) for line in lines[:2]):
        found = "SubRip subtitles"
    elif name := "bracketed trees" if _are_trees(lines) else "CoNLL-U or a similar format" * _are_rows(lines):
        found, advice = name, f"Extract the words with: syntaxlm data words {source} -o FILE"
    if found is not None:
        raise InputError(
            f"{source}, line {number}: found {line[:_WIDTH]!r}, the start of {found}; expected {expected}. {advice}"
        )


def _are_trees(lines: Sequence[str]) -> bool:
    """Return whether all words are in brackets, most of which contain others."""
    if not lines[0].lstrip().startswith("("):
        return False
    depth = deepest = trees = nested = 0
    for token in _TOKENS.findall("\n".join(lines)):
        depth += (token == "(") - (token == ")")
        if depth < 0 or (depth == 0 and token != ")"):
            return False
        deepest = max(deepest, depth)
        if depth == 0:
            trees += 1
            nested += deepest > 1
            deepest = 0
    return 2 * nested > trees


def _are_rows(lines: Sequence[str]) -> bool:
    """Return whether most lines are rows of CoNLL-U or a similar format, with ids and heads."""
    rows = sum(map(_is_row, lines))
    return rows > 0 and rows >= _MIN_MARKED_SHARE * len(lines)


def _is_row(line: str) -> bool:
    cells = line.split("\t")
    if len(cells) not in _ROW_COLUMNS or not _ROW_ID.fullmatch(cells[0]):
        return False
    head = cells[5] if len(cells) == min(_ROW_COLUMNS) else cells[6]  # seven columns are those of Stanford CoreNLP
    return head == "_" or head.isdecimal()


def _refuse_separators(numbered: Sequence[tuple[int, str]], source: str) -> None:
    """Raise InputError if marks are between sentences in most lines: with words before and after them."""
    separated = [(number, mark) for number, line in numbered if (mark := _mark_inside(line))]
    if len(separated) > _MIN_MARKED_SHARE * len(numbered):
        number, mark = separated[0]
        raise InputError(
            f"{source}, line {number}: found {mark} between sentences; expected one sentence per line, without marks."
            f" Replace {mark} with a line end"
        )


def _mark_inside(line: str) -> str:
    """Return the first sentence mark of a line that has words before and after it, else ""."""
    if "<" not in line and "[" not in line:
        return ""
    mark = _MARKS.search(_MARKS_AT_ENDS.sub("", line))
    return mark[0] if mark else ""


def _marks_at_ends(numbered: Sequence[tuple[int, str]], source: str) -> str:
    """Return what was found if most lines have sentence marks at their ends, else ""."""
    marked = [(number, line) for number, line in numbered if _MARKS_AT_ENDS.search(line)]
    if not marked or len(marked) < _MIN_MARKED_SHARE * len(numbered):
        return ""
    number, line = marked[0]
    marks = ", ".join(dict.fromkeys(mark[0] for mark in _MARKS.finditer(line)))
    return (
        f"{source}, line {number}: found the sentence marks {marks}, as in {len(marked):,} of the first"
        f" {len(numbered):,} lines"
    )


def _looks_like_trees(numbered: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if lines are bracketed trees, else ""."""
    trees = [number for number, line in numbered if line.lstrip().startswith("(") and _TREE.fullmatch(line.strip())]
    if not trees:
        return ""
    return (
        f"{source}, line {trees[0]}: found what may be a bracketed tree, as in {len(trees):,} of the first"
        f" {len(numbered):,} lines; it is read as text"
    )


def _has_columns(numbered: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if nearly all lines have equally many tabs, else ""."""
    tabs = Counter(line.count("\t") for _, line in numbered)
    number, lines = tabs.most_common(1)[0] if tabs else (0, 0)
    if not number or len(numbered) < _MIN_FORM_LINES or lines < _NEARLY_ALL * len(numbered):
        return ""
    return (
        f"{source}: {lines:,} of the first {len(numbered):,} lines have {number + 1} columns, separated by tabs, which"
        " are all read as words. Expected sentences only"
    )


def _has_numbers(numbered: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if nearly all lines start with their number, else ""."""
    numbers = [int(match[1]) for _, line in numbered if (match := _LINE_NUMBER.match(line))]
    steps = sum(after == before + 1 for before, after in pairwise(numbers))
    if len(numbered) < _MIN_FORM_LINES or steps + 1 < _NEARLY_ALL * len(numbered):
        return ""
    return (
        f"{source}: the lines start with the numbers {numbers[0]}, {numbers[1]}, ..., which are read as words. Expected"
        " sentences only"
    )


def _is_one_word(line: str) -> bool:
    """Return whether a line has one word. A line may have gigabytes, so its words are not listed."""
    return len(list(islice(word_spans(line), 2))) == 1


def _has_one_word(numbered: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if nearly all lines have one word, and marks or blank lines stand between them, else ""."""
    single = sum(_is_one_word(line) for _, line in numbered)
    marks = sum(line.strip() in ".?!" for _, line in numbered)
    gaps = sum(after > before + 1 for (before, _), (after, _) in pairwise(numbered))
    if len(numbered) < _MIN_FORM_LINES or single < _NEARLY_ALL * len(numbered) or not (marks or gaps):
        return ""
    return (
        f"{source}: {single:,} of the first {len(numbered):,} lines have one word, and each line is a sentence."
        " Expected one sentence per line. Does the file have one word per line?"
    )


def _lacks_spaces(numbered: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if most lines are of a script that is written without spaces."""
    without = sum(_is_one_word(line) and _WITHOUT_SPACES.search(line) is not None for _, line in numbered)
    if not without or without < _MIN_MARKED_SHARE * len(numbered):
        return ""
    return (
        f"{source}: {without:,} of the first {len(numbered):,} lines have no spaces. Words are separated by spaces, so"
        " each line is one word: separate the words first, or use a character-level model"
    )
