"""The form of a plain text: sentence marks, markup, and formats that only look like text.

The form is decided from the first lines of a text. Lines that contradict it are counted until the end of the text, and
announced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Literal

from syntaxlm.core.errors import InputError, shortened, warn_caller
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.text.normaliser import ZERO_WIDTH_SPACE

_LINES_COMPARED = 1_000  # at the start of a text, from which its form is decided
_MIN_MARKED_SHARE = (
    0.5  # share of these lines that have sentence marks in a text with marks, and no spaces in one without spaces
)
_NEARLY_ALL = 0.9  # share of these lines with columns, numbers or single words, in a text that has them
_MIN_FORM_LINES = 3  # lines from which columns, numbers and single words are recognised
_MAX_HTML_SHARE = 0.01  # share of the lines of a text that may have HTML without a warning
_WIDTH = 60  # characters of a line in a message
_SAMPLE = 200  # characters of a line in a report

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
    "JSON": re.compile(r"\{\s*\".*|\[\s*[\[{].*|[\[{]"),
    "a LaTeX document": re.compile(r"\\(?:documentclass|documentstyle|begin\{document\}).*"),
    "WebVTT subtitles": re.compile(r"WEBVTT\b.*"),
}
_SUBTITLE_TIME = re.compile(r"\d+:\d\d:\d\d[,.]\d{3} --> .*")


TextForm = Literal["text", "tagged text", "text of characters"]
PLAIN: TextForm = "text"
TAGGED: TextForm = "tagged text"
CHARACTERS: TextForm = "text of characters"


def examined(
    lines: Iterable[tuple[int, str]], source: str, form: TextForm = PLAIN, warn: bool = True
) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text, without sentence marks, and announce what was read when they end.

    Marks such as `<s>` and `</s>` are removed if half of the first lines begin or end with one.

    Args:
        source: name of the text in messages.
        form: what is read; only a text of words should have spaces.
        warn: whether to announce the report, and to warn if marks were removed, if lines have HTML or no spaces, and if
            the text looks like a treebank.

    Raises:
        InputError: for other formats (HTML, JSON, LaTeX, subtitles), and for marks that separate sentences in a line.
    """
    lines = iter(lines)
    first = list(islice(lines, _LINES_COMPARED))
    given = [(number, line) for number, line in first if line.strip()]
    _refuse_formats(given, source)
    _refuse_separators(given, source)
    marks = _marks_at_ends(given, source)
    if warn:
        _warn(f"{marks}. They are removed, because a model adds its own" if marks else "")
        _warn(_looks_like_trees(given, source))
        if form == PLAIN:
            _warn(_lacks_spaces(given, source))
            _warn(_has_columns(given, source) or _has_numbers(given, source) or _has_one_word(given, source))

    remarks = Remarks()
    sentences = blank = html = 0
    for numbered in chain(first, lines):
        line = numbered[1]
        # Few lines have one of these signs, so that few are searched.
        if "<" in line or "[" in line or "&" in line:
            html += _remark_on(numbered, remarks, are_removed=bool(marks))
            if marks:
                line = _MARKS_AT_ENDS.sub("", line).strip()
                numbered = numbered[0], line
        if ZERO_WIDTH_SPACE in line and (found := _ZERO_WIDTH.findall(line)):
            remarks.add("words of zero-width spaces only (U+200B), read as white space", numbered[0], count=len(found))
        if not line or line.isspace():
            blank += 1
        else:
            sentences += 1
        yield numbered

    if warn:
        if blank:
            remarks.add("blank lines", count=blank)
        if html > _MAX_HTML_SHARE * sentences:
            _warn(f"{source}: {html:,} of {sentences:,} lines have HTML such as &quot; or <p>, which is read as words")
        start = [_MARKS_AT_ENDS.sub("", line) if marks else line for _, line in given[:2]]
        sample = tuple(shortened(line.strip(), _SAMPLE) for line in start)
        announce(
            ReadingReport(source, f"{form}, one sentence per line", {"sentences": sentences}, "", remarks.all(), sample)
        )


def _remark_on(numbered: tuple[int, str], remarks: Remarks, are_removed: bool) -> bool:
    """Remark on HTML and on sentence marks in a line. Returns whether it has HTML."""
    number, line = numbered
    if _MARKS_AT_ENDS.search(line):
        what = "which are removed" if are_removed else "read as words"
        remarks.add(f"lines with sentence marks, {what}", number)
    if not _HTML.search(line):
        return False
    remarks.add("lines with HTML, which is read as words", number)
    return True


def check_running_text(text: str, source: str) -> None:
    """Raise InputError for running text that is of another format, such as HTML or CoNLL-U. Warns of HTML in lines."""
    given = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()][:_LINES_COMPARED]
    _refuse_formats(given, source)
    if given and sum(line.count("\t") == 9 for _, line in given) >= _MIN_MARKED_SHARE * len(given):
        raise InputError(
            f"{source}, line {given[0][0]}: found {given[0][1][:_WIDTH]!r}, ten columns as in CoNLL-U; expected running"
            f" text. Extract the words with: syntaxlm data words {source} -o FILE"
        )
    html = sum(_HTML.search(line) is not None for _, line in given)
    if html > _MAX_HTML_SHARE * len(given):
        _warn(f"{source}: {html:,} of the first {len(given):,} lines have HTML such as &quot; or <p>, read as words")


def check_start(content: bytes, source: str) -> None:
    """Check the first bytes of a text whose lines are processed as they are, as in a job.

    Raises:
        InputError: as `examined` does, and for a text with sentence marks.
    """
    whole_lines = content.decode("utf-8", "replace").split("\n")[:_LINES_COMPARED]
    given = [(number, line) for number, line in enumerate(whole_lines, 1) if line.strip()]
    _refuse_formats(given, source)
    _refuse_separators(given, source)
    if found := _marks_at_ends(given, source):
        raise InputError(f"{found}; expected sentences without marks. Remove them first")


def _warn(message: str) -> None:
    """Warn, unless the message is empty."""
    if message:
        warn_caller(message)


def _refuse_formats(given: Sequence[tuple[int, str]], source: str) -> None:
    """Raise InputError if the first lines are those of another format."""
    if not given:
        return
    number, line = given[0][0], given[0][1].strip()
    found = next((name for name, pattern in _FORMATS.items() if pattern.fullmatch(line)), None)
    if found is None and any(_SUBTITLE_TIME.fullmatch(line.strip()) for _, line in given[:2]):
        found = "SubRip subtitles"
    if found is not None:
        raise InputError(
            f"{source}, line {number}: found {line[:_WIDTH]!r}, the start of {found}; expected plain text, one sentence"
            " per line. Extract the text first"
        )


def _refuse_separators(given: Sequence[tuple[int, str]], source: str) -> None:
    """Raise InputError if marks are between sentences in most lines: with words before and after them."""
    separated = [(number, mark) for number, line in given if (mark := _mark_inside(line))]
    if len(separated) > _MIN_MARKED_SHARE * len(given):
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


def _marks_at_ends(given: Sequence[tuple[int, str]], source: str) -> str:
    """Return what was found if most lines have sentence marks at their ends, else ""."""
    marked = [(number, line) for number, line in given if _MARKS_AT_ENDS.search(line)]
    if not marked or len(marked) < _MIN_MARKED_SHARE * len(given):
        return ""
    number, line = marked[0]
    marks = ", ".join(dict.fromkeys(mark[0] for mark in _MARKS.finditer(line)))
    return (
        f"{source}, line {number}: found the sentence marks {marks}, as in {len(marked):,} of the first"
        f" {len(given):,} lines"
    )


def _looks_like_trees(given: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if the first line is a bracketed tree, else ""."""
    if not given or not _TREE.fullmatch(given[0][1].strip()):
        return ""
    return (
        f"{source}, line {given[0][0]}: this looks like a bracketed tree, but is read as text. If the file has trees,"
        " give it a name that ends in .mrg"
    )


def _has_columns(given: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if nearly all lines have equally many tabs, else ""."""
    tabs = Counter(line.count("\t") for _, line in given)
    number, lines = tabs.most_common(1)[0] if tabs else (0, 0)
    if not number or len(given) < _MIN_FORM_LINES or lines < _NEARLY_ALL * len(given):
        return ""
    return (
        f"{source}: {lines:,} of the first {len(given):,} lines have {number + 1} columns, separated by tabs, which are"
        " all read as words. Expected sentences only"
    )


def _has_numbers(given: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if nearly all lines start with their number, else ""."""
    numbers = [int(match[1]) for _, line in given if (match := _LINE_NUMBER.match(line))]
    steps = sum(after == before + 1 for before, after in pairwise(numbers))
    if len(given) < _MIN_FORM_LINES or steps + 1 < _NEARLY_ALL * len(given):
        return ""
    return (
        f"{source}: the lines start with the numbers {numbers[0]}, {numbers[1]}, ..., which are read as words. Expected"
        " sentences only"
    )


def _has_one_word(given: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if nearly all lines have one word, and marks or blank lines stand between them, else ""."""
    single = sum(len(line.split()) == 1 for _, line in given)
    marks = sum(line.strip() in ".?!" for _, line in given)
    gaps = sum(after > before + 1 for (before, _), (after, _) in pairwise(given))
    if len(given) < _MIN_FORM_LINES or single < _NEARLY_ALL * len(given) or not (marks or gaps):
        return ""
    return (
        f"{source}: {single:,} of the first {len(given):,} lines have one word, and each line is a sentence. Expected"
        " one sentence per line. Does the file have one word per line?"
    )


def _lacks_spaces(given: Sequence[tuple[int, str]], source: str) -> str:
    """Return a warning if most lines are of a script that is written without spaces."""
    without = sum(len(line.split()) == 1 and _WITHOUT_SPACES.search(line) is not None for _, line in given)
    if not without or without < _MIN_MARKED_SHARE * len(given):
        return ""
    return (
        f"{source}: {without:,} of the first {len(given):,} lines have no spaces. Words are separated by spaces, so"
        " each line is one word: separate the words first, or use a character-level model"
    )
