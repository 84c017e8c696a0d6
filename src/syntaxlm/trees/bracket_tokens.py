"""The tokens of bracketed text, found by one regular expression, and their places in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# Only ASCII white space separates tokens: a no-break space is part of a word.
SPACE = r"[ \t\r\n\f\v]"
ATOM = r"[^ \t\r\n\f\v()]"
TOKEN = re.compile(
    rf"\({SPACE}*({ATOM}++){SPACE}++({ATOM}++){SPACE}*\)"  # 1, 2: a bracket of two atoms
    rf"|(\(){SPACE}*({ATOM}*)"  # 3: an opening bracket, 4: the atom after it
    rf"|({ATOM}+|\))"  # 5: a further atom, a closing bracket
)
Token = tuple[str, str, str, str, str]
"""The groups of a match: tag, word, opening bracket, label, other atom or closing bracket; "" for one without match."""


class TokenPlaces:
    """Where the tokens of a text are. Tokens are found again only for the few that are asked for.

    Attributes:
        known_lines: line numbers of all tokens, if some were replaced.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.known_lines: list[int] | None = None

    def lines(self, numbers: Sequence[int]) -> list[int]:
        """Return the line numbers of tokens, whose numbers are in ascending order."""
        if self.known_lines is not None:
            return [self.known_lines[number] for number in numbers]
        lines = []
        line = 1
        position = 0
        for match in self._matches(numbers):
            line += self._text.count("\n", position, match.start())
            position = match.start()
            lines.append(line)
        return lines

    def spaces(self, numbers: Sequence[int]) -> dict[int, tuple[bool, bool]]:
        """Return, for opening brackets of one atom, whether white space is before the atom, and after it."""
        if self.known_lines is not None:  # all that remain are dropped
            return dict.fromkeys(numbers, (False, True))
        spaces = {}
        for number, match in zip(numbers, self._matches(numbers), strict=True):
            after = self._text[match.end() : match.end() + 1]
            spaces[number] = match.start(4) > match.start() + 1, after != ")"
        return spaces

    def _matches(self, numbers: Sequence[int]) -> Iterator[re.Match[str]]:
        """Yield the matches of tokens, whose numbers are in ascending order; nothing is read after the last one."""
        wanted = iter(numbers)
        following = next(wanted, None)
        if following is None:
            return
        for number, match in enumerate(TOKEN.finditer(self._text)):
            if number == following:
                yield match
                following = next(wanted, None)
                if following is None:
                    return
