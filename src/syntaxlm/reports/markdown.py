"""Text in Markdown."""

from __future__ import annotations

import re

# Signs are only escaped where Markdown reads them, so that names such as p_value stay as they are. HTML entities stand
# for signs that not all programs let a backslash escape.
_SPECIAL = re.compile(r"[*`]|\\(?=[^\w\s])|(?<![^\W_])_|_(?![^\W_])|\[(?=[^\]]*\]\()|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def markdown_text(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return _SPECIAL.sub(lambda sign: _ENTITIES.get(sign[0], "\\" + sign[0]), text)
