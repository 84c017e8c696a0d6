"""What makes the values of a text doubtful: words that the model does not know, and marks between regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, islice

from syntaxlm.core.errors import LONGEST_NAME, InputError, amount, shortened, warn_caller
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.text.reader import TextReader

# Measured with the bundled models of English: by genre, 1% (novels, speeches) to 15% (biomedical articles) of English
# words are unknown, and 41% (French) to 100% (Chinese, Japanese) of those of other languages. Of passages of 20 words,
# 95% or more of each English genre are below this share, and 99% of those of other languages above it.
DOUBTFUL_UNKNOWN_SHARE = 0.3  # of the words, from which a text is doubtful
DOUBTFUL_UNKNOWN_WORDS = 3  # from which a text is doubtful, unless all are unknown: a single name is no evidence
REGION_MARKS = "|¦｜│"
_DOUBTFUL_MARKED_SHARE = 0.1  # of the sentences, above which marks between regions are no accident
_EXAMPLES_PRINTED = 5
_LONGEST_QUOTED_LINE = 60  # characters


def checked(lines: Iterable[str], reader: TextReader, name: str = "", place: str = "") -> Iterator[str]:
    """Yield lines; before the first one, check some thousand of them as `warn_of_doubts` does.

    Args:
        lines: one sentence each.
        reader: of the model.
        name: of the model, for messages.
        place: name of the text, for messages; "" for none.
    """
    rest = iter(lines)
    first = list(islice(rest, LINES_TOGETHER))
    warn_of_doubts(reader, first, name, place)
    yield from chain(first, rest)


def warn_of_doubts(reader: TextReader, lines: Sequence[str], name: str = "", place: str = "") -> None:
    """Warn of text that is probably not what the model should read.

    Gives an InputWarning if many words are unknown, and if there are marks between regions.

    Args:
        reader: of the model.
        lines: one sentence each; of longer texts, the first `LINES_TOGETHER` are checked.
        name: of the model, for messages.
        place: name of the text, for messages; "" for none.

    Raises:
        InputError: if each of several sentences has a mark between regions.
    """
    lines = lines[:LINES_TOGETHER]
    start = f"{place}: " if place else ""
    _check_region_marks(lines, start)
    if reader.normaliser.units == "words" and not reader.vocabulary.is_open:
        _warn_of_unknown_words(reader, lines, name or "the model", start)


def _check_region_marks(lines: Sequence[str], start: str) -> None:
    """Warn of marks between regions, which a model reads as words.

    Args:
        lines: one sentence each.
        start: of the message.

    Raises:
        InputError: if all of several sentences have a mark.
    """
    marks = ((line, next(filter(line.__contains__, REGION_MARKS), None)) for line in lines)
    marked = [(line, mark) for line, mark in marks if mark is not None]
    sentences = sum(1 for line in lines if line.strip())
    if len(marked) <= _DOUBTFUL_MARKED_SHARE * sentences:
        return

    line, mark = marked[0]
    finding = (
        f"{start}found {mark!r}, a mark between regions, in {len(marked):,} of {amount(sentences, 'sentence')}, such as"
        f" {shortened(line, _LONGEST_QUOTED_LINE)!r}"
    )
    advice = (
        "To get surprisals of regions, use items (evaluate_items in Python). To get surprisals of sentences, remove"
        " the marks"
    )
    if len(marked) >= sentences > 1:
        raise InputError(f"{finding}; expected sentences without marks, which are read as words. {advice}")
    warn_caller(f"{finding}. It is read as a word. {advice}")


def _warn_of_unknown_words(reader: TextReader, lines: Sequence[str], name: str, start: str) -> None:
    """Warn if many words are unknown.

    Args:
        name: the name of the model.
        start: the start of the message.
    """
    encoded = reader.read(lines)
    is_unknown = encoded.is_read & reader.vocabulary.is_unknown(encoded.ids)
    if 2 * is_unknown.sum() < DOUBTFUL_UNKNOWN_SHARE * encoded.is_read.sum():  # nearly always, without a look at words
        return
    where = f" in the first {LINES_TOGETHER:,} lines" if len(lines) == LINES_TOGETHER else ""
    words = compress(zip(encoded.written, is_unknown.tolist(), strict=True), encoded.is_read.tolist())
    if message := unknown_words(words, where):
        warn_caller(start + message.format(name))


def has_letters(word: str) -> bool:
    """Return whether a word has a letter, unlike numbers, punctuation marks and emoji."""
    return any(map(str.isalpha, word))


def unknown_words(words: Iterable[tuple[str, bool]], where: str = "") -> str:
    """Return a warning if many words are unknown, with {} for the name of the model; "" if not.

    Args:
        words: each with whether it is unknown; those without letters, such as numbers, punctuation marks and emoji, do
            not count.
        where: where the words are, for the message.
    """
    flags = [(word, is_unknown) for word, is_unknown in words if has_letters(word)]
    unknown = Counter(word for word, is_unknown in flags if is_unknown)
    count = unknown.total()
    if count < DOUBTFUL_UNKNOWN_SHARE * len(flags) or (count < DOUBTFUL_UNKNOWN_WORDS and not 1 < count == len(flags)):
        return ""
    examples = ", ".join(repr(shortened(word, LONGEST_NAME)) for word, _ in unknown.most_common(_EXAMPLES_PRINTED))
    shown = f"{examples}{', ...' if len(unknown) > _EXAMPLES_PRINTED else ''}".replace("{", "{{").replace("}", "}}")
    return (
        f"{count:,} of {amount(len(flags), 'word')} with letters{where} ({count / len(flags):.0%}) are not in the"
        f" vocabulary of {{}}: {shown}. Results for unknown words are not informative; expected text in the language"
        " and the spelling of the model's training text, of which rarely more than 15% is unknown"
    )
