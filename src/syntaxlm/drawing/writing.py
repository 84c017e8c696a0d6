"""Pictures as files: SVG, PNG, HTML or LaTeX, chosen by the extension."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from syntaxlm.drawing.png import png
from syntaxlm.drawing.svg import Picture, Theme
from syntaxlm.errors import InputError
from syntaxlm.files import replaced, write_text

FORMATS = (".svg", ".png", ".html", ".tex")


def check_format(path: Path) -> str:
    """The extension of a picture's file, in lower case. Raises InputError for an unsupported one."""
    if path.suffix.lower() not in FORMATS:
        found = f"the extension {path.suffix!r}" if path.suffix else "no extension"
        raise InputError(f"{path}: found {found}; expected one of {', '.join(FORMATS)}")
    return path.suffix.lower()


def write_picture(
    path: Path, picture: Callable[[], Picture], page: Callable[[], str], latex: Callable[[], str], theme: Theme
) -> None:
    """Write the format given by the file's extension. Only that format is rendered. Raises InputError."""
    suffix = check_format(path)
    if suffix == ".png":
        content = png(picture(), theme)
        with replaced(path) as temporary:
            temporary.write_bytes(content)
        return
    texts = {".svg": lambda: picture().svg(theme), ".html": page, ".tex": latex}
    write_text(texts[suffix](), path)
