"""Options, headings and files of the figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.plot import Plot
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, stacked, text, text_width

LINE = 18.0  # pixels: height of a line of a note


def options(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of all figures."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="picture: .svg, .pdf, .png or .html"
    )
    parser.add_argument("--theme", choices=["auto", "light", "dark"], default="auto", help="default: auto")
    return parser


def run(main: Callable[[], tuple[Picture | Plot, argparse.Namespace]]) -> None:
    """Draw a figure and write its file. An InputError ends the program with its message."""
    try:
        picture, chosen = main()
        picture.save(chosen.output, chosen.theme)
        print(f"{chosen.output}: {chosen.output.stat().st_size:,} bytes", file=sys.stderr)
    except InputError as error:
        sys.exit(f"error: {error}")


def named(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """(name, path) of arguments NAME=PATH; an argument PATH is named by its last part."""
    parts = (argument.partition("=") for argument in arguments)
    return [(name, path) if equals else (Path(name).name, name) for name, equals, path in parts]


def lines(texts: Sequence[str], role: str = "note") -> Picture:
    """Lines of text below each other. role: note, heading or title."""
    size = TEXT_SIZES[role]
    width = max((text_width(line, size) * 1.1 for line in texts), default=0.0) + 2 * MARGIN
    elements = tuple(text(MARGIN, LINE * (row + 1), line, role) for row, line in enumerate(texts))
    return Picture(width, LINE * len(texts) + 6, elements, " ".join(texts))


def headed(picture: Picture, heading: str, role: str = "heading") -> Picture:
    """A picture below a heading."""
    both = stacked([lines([heading], role), picture], picture.title, gap=0)
    return Picture(both.width, both.height, both.elements, picture.title, picture.description)
