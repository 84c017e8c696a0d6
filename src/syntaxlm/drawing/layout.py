"""What all pictures of trees share: the trees that they draw, limits of their texts, and headings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from syntaxlm.drawing import svg
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, text_width

MARGIN = 12.0  # pixels around everything
LONGEST_WORD = 48  # characters drawn; longer words are shortened in the middle
LONGEST_LABEL = 18  # the same for labels and tags

INDUCED_LABEL = "X"  # of constituents without a label of their own; not drawn

Span = tuple[int, int]
LabelledSpan = tuple[str, int, int]


class DrawableTree(Protocol):
    """A constituency tree: words, their tags ("" for none), and constituents (label, start, end) in pre-order.

    `str` of it is its description for screen readers.
    """

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def constituents(self) -> Sequence[LabelledSpan]: ...


class DrawableDependencies(Protocol):
    """A dependency tree: words, their tags and labels ("" for none), heads from 1 (0: root), and a name or ""."""

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def heads(self) -> Sequence[int]: ...
    @property
    def labels(self) -> Sequence[str]: ...
    @property
    def name(self) -> str: ...


def headed(picture: Picture, heading: str, mirrored: bool) -> Picture:
    """Return a picture with a heading above it, on the side where the sentence starts."""
    height = TEXT_SIZES["heading"] + MARGIN
    width = max(picture.width, text_width(heading, TEXT_SIZES["heading"]) + 2 * MARGIN)
    if mirrored:
        element = svg.text(width - MARGIN, height, heading, "heading", "end")
    else:
        element = svg.text(MARGIN, height, heading, "heading")
    stacked = svg.stacked([Picture(width, height, (element,), picture.title), picture], gap=0, align_right=mirrored)
    return replace(stacked, title=picture.title, description=picture.description)
