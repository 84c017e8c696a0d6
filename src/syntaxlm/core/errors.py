"""The error that invalid user input raises, the warning of the package, and parts of messages."""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

# Modules whose lines stand between that of a program and a warning: torch runs methods without gradients, spaCy the
# component, and contextlib ends a block.
_CALLED = frozenset(["syntaxlm", "contextlib", "spacy", "torch"])
SHOWN_NAMES = 20  # in a message
_COMPARED = 10_000  # known words, which are compared with an unknown one
LONGEST_NAME = 80  # characters of a name in a message
_LONGEST_LINE = 4_000  # characters of a line of a message, whatever it quotes from a file
_CONTROLS = re.compile(  # of a terminal, marks that reorder the text around them, and halves of surrogate pairs
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_CONTROL_PICTURES = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421}


class InputError(ValueError):
    """Raised for invalid user input: a file, a line of a file, a setting or an argument.

    The message contains the place, what was found, what was expected and what to do. Commands print it on stderr and
    exit with code 2.

    Examples:
        >>> try:
        ...     syntaxlm.read_recipe("prpn-toy", {"model.hiden_size": 200})
        ... except syntaxlm.InputError as error:
        ...     print(error)
        /.../prpn-toy.yaml and overrides: model.hiden_size: no such setting. Did you mean model.hidden_size?
    """

    def __init__(self, message: str) -> None:
        super().__init__(escaped(with_short_lines(message)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error, also to another process. Parameters of subclasses are not the message."""
        return _copied, (type(self), str(self), vars(self))


def _copied(kind: type[InputError], message: str, attributes: Mapping[str, Any]) -> InputError:
    error = kind.__new__(kind, message)
    vars(error).update(attributes)
    return error


class InputWarning(UserWarning):
    """Warns that the result may not be what the user expects. The input was used. Commands print it on stderr.

    Examples:
        >>> import warnings
        >>> warnings.simplefilter("ignore", syntaxlm.InputWarning)
    """

    def __init__(self, message: str) -> None:
        super().__init__(escaped(with_short_lines(message)))


def warn_caller(message: str, category: type[UserWarning] = InputWarning) -> None:
    """Give a warning at the line of the program that called the package.

    Args:
        message: the text.
        category: the class of the warning.
    """
    level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _CALLED:
        frame = frame.f_back
        level += 1
    warnings.warn(category(message), stacklevel=level)


def escaped(message: str) -> str:
    """Return a message in which control characters, except tabs and line ends, are written as escapes, such as \\x1b.

    Messages quote files, whose author must not control the terminal of the reader.
    """
    return message if message.isprintable() else _CONTROLS.sub(_escape, message)


def _escape(control: re.Match[str]) -> str:
    return ascii(control[0])[1:-1]


def with_short_lines(message: str) -> str:
    """Return a message with its place, at the start of a long line, and its advice, at the end of it."""
    half = _LONGEST_LINE // 2
    lines = message.split("\n")
    return "\n".join(line if len(line) <= _LONGEST_LINE else f"{line[:half]} ... {line[-half:]}" for line in lines)


def shortened(text: str, most: int) -> str:
    """Return a text for a message; of a longer one, the first `most` characters and an ellipsis."""
    return text if len(text) <= most else text[:most] + " ..."


def listed(names: Iterable[object], most: int = SHOWN_NAMES) -> str:
    """Return names for a message, separated by commas: the first few, and the number of the others.

    Long names are shortened, so that the message stays readable whatever a file contains.
    """
    every = list(names)
    shown = ", ".join(shortened(str(name), LONGEST_NAME) for name in every[:most])
    return f"{shown} and {len(every) - most:,} more" if len(every) > most else shown


def amount(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 word" or "1,000 words"."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def printable(text: str) -> str:
    """Return text with symbols for control characters, and U+FFFD for characters that XML cannot hold."""
    if text.isprintable():
        return text
    text = text.translate(_CONTROL_PICTURES)
    return "".join(
        "\ufffd" if unicodedata.category(character) in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE else character
        for character in text
    )


def closest_match(word: object, known: Iterable[str], otherwise: str = "", prefix: str = "") -> str:
    """Return "Did you mean X?" for the known word that is most similar to an unknown one.

    Args:
        otherwise: what is returned if no known word is similar.
        prefix: put before the known word: "model.".
    """
    import difflib  # imported here because only errors need it

    similar = difflib.get_close_matches(shortened(str(word), LONGEST_NAME), islice(known, _COMPARED), 1)
    return f"Did you mean {prefix}{similar[0]}?" if similar else otherwise
