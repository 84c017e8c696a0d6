"""Pictures into files: SVG, PNG, HTML or LaTeX, as the file's name ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from syntaxlm.drawing.png import png
from syntaxlm.drawing.svg import Picture, Theme
from syntaxlm.errors import InputError
from syntaxlm.files import replaced, write_text

FORMATS = (".svg", ".png", ".html", ".tex")


def check_format(path: Path) -> str:
    """The ending of a picture's file, in small letters. Raises InputError for one that is none of ours."""
    if path.suffix.lower() not in FORMATS:
        found = f"the ending {path.suffix!r}" if path.suffix else "no ending"
        raise InputError(f"{path}: found {found}; expected a name that ends in {', '.join(FORMATS)}")
    return path.suffix.lower()


def write_picture(
    path: Path, picture: Callable[[], Picture], page: Callable[[], str], latex: Callable[[], str], theme: Theme
) -> None:
    """Writes one of the three, which is made when it is asked for. Raises InputError."""
    kind = check_format(path)
    if kind == ".png":
        content = png(picture(), theme)
        with replaced(path) as temporary:
            temporary.write_bytes(content)
        return
    texts = {".svg": lambda: picture().svg(theme), ".html": page, ".tex": latex}
    write_text(texts[kind](), path)
