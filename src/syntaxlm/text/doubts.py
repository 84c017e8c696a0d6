"""What makes the values of a text doubtful: words that the model does not know, and marks between regions."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from syntaxlm.core.errors import LONGEST_NAME, InputError, InputWarning, amount, shortened
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.text.reader import TextReader

# Measured with the bundled models of English: by genre, 1% (novels, speeches) to 15% (biomedical articles) of English
# words are unknown, and 41% (French) to 100% (Chinese, Japanese) of those of other languages. Of passages of 20 words,
# 95% or more of each English genre are below this share, and 99% of those of other languages above it.
MANY_UNKNOWN = 0.3  # share of the words
FEWEST_UNKNOWN = 3  # words, unless all are unknown: one name in a short sentence is no evidence
REGION_MARKS = "|¦｜│"
_MANY_MARKED = 0.1  # share of the sentences with a mark between regions
_EXAMPLES = 5
_LONGEST = 60  # characters


def checked(lines: Iterable[str], reader: TextReader, name: str = "", place: str = "") -> Iterator[str]:
    """Yield lines; before the first one, check some thousand of them as `warn_of_doubts` does."""
    rest = iter(lines)
    first = list(islice(rest, LINES_TOGETHER))
    warn_of_doubts(reader, first, name, place)
    yield from chain(first, rest)


def warn_of_doubts(reader: TextReader, lines: Sequence[str], name: str = "", place: str = "") -> None:
    """Warn of text that is probably not what the model should read.

    lines: one sentence each; of longer texts, the first `LINES_TOGETHER` are checked.
    name: of the model, for messages.  place: name of the text, for messages; "" for none.
    Gives an InputWarning if many words are unknown, and if there are marks between regions.
    Raises InputError if each of several sentences has a mark between regions.
    """
    lines = lines[:LINES_TOGETHER]
    start = f"{place}: " if place else ""
    _check_region_marks(lines, start)
    if reader.normaliser.units == "words" and not reader.vocabulary.is_open:
        _warn_of_unknown_words(reader, lines, name or "the model", start)


def _check_region_marks(lines: Sequence[str], start: str) -> None:
    """Warn of marks between regions, which a model reads as words. Raises InputError if all of several sentences have
    one.  start: of the message.
    """
    marks = ((line, next(filter(line.__contains__, REGION_MARKS), None)) for line in lines)
    marked = [(line, mark) for line, mark in marks if mark is not None]
    sentences = sum(1 for line in lines if line.strip())
    if len(marked) <= _MANY_MARKED * sentences:
        return
    line, mark = marked[0]
    found = (
        f"{start}found {mark!r}, a mark between regions, in {len(marked):,} of {amount(sentences, 'sentence')}, such as"
        f" {shortened(line, _LONGEST)!r}"
    )
    advice = (
        "For surprisals of regions, use items (evaluate_items in Python); for those of the sentences, remove the marks"
    )
    if len(marked) >= sentences > 1:
        raise InputError(f"{found}; expected sentences without marks, which are read as words. {advice}")
    warnings.warn(InputWarning(f"{found}. It is read as a word. {advice}"), stacklevel=4)


def _warn_of_unknown_words(reader: TextReader, lines: Sequence[str], name: str, start: str) -> None:
    read = reader.read(lines)
    is_unknown = read.is_read & reader.vocabulary.is_unknown(read.ids)
    if 2 * is_unknown.sum() < MANY_UNKNOWN * read.is_read.sum():  # nearly always, and without a look at the words
        return
    flags = zip(read.written, read.is_read.tolist(), is_unknown.tolist(), strict=True)
    where = f" in the first {LINES_TOGETHER:,} lines" if len(lines) == LINES_TOGETHER else ""
    message = unknown_words(((word, one) for word, is_read, one in flags if is_read), where)
    if message:
        warnings.warn(InputWarning(start + message.format(name)), stacklevel=4)


def unknown_words(words: Iterable[tuple[str, bool]], where: str = "") -> str:
    """Return a warning if many words are unknown, with {} for the name of the model; "" if not.

    words: each with whether it is unknown; numbers and punctuation marks do not count.  where: they are, for the
        message.
    """
    flags = [(word, is_unknown) for word, is_unknown in words if any(map(str.isalpha, word))]
    unknown = Counter(word for word, is_unknown in flags if is_unknown)
    count = unknown.total()
    if count < MANY_UNKNOWN * len(flags) or (count < FEWEST_UNKNOWN and not 1 < count == len(flags)):
        return ""
    examples = ", ".join(repr(shortened(word, LONGEST_NAME)) for word, _ in unknown.most_common(_EXAMPLES))
    shown = f"{examples}{', ...' if len(unknown) > _EXAMPLES else ''}".replace("{", "{{").replace("}", "}}")
    return (
        f"{count:,} of {amount(len(flags), 'word')}{where} ({count / len(flags):.0%}) are not in the vocabulary of"
        f" {{}}: {shown}. Results for unknown words are not informative; expected text in the language and the spelling"
        " of the model's training text, of which rarely more than 15% is unknown"
    )
