"""Text in Markdown."""

from __future__ import annotations

import re

# Signs are only escaped where Markdown reads them, so that names such as p_value stay as they are. HTML entities stand
# for signs that not all programs let a backslash escape.
_SPECIAL = re.compile(
    r"""
    [*`]                             # emphasis and code
    | \\(?=[^\w\s])                  # a backslash before another sign
    | (?<![^\W_])_ | _(?![^\W_])     # underscores at the beginning or the end of a word
    | \[(?=[^\]]*\]\()               # links
    | <(?=[A-Za-z/!?])               # HTML
    | &(?=\#?\w+;)                   # HTML entities
    """,
    re.VERBOSE,
)
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def markdown_text(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return _SPECIAL.sub(lambda sign: _ENTITIES.get(sign[0], "\\" + sign[0]), text)
