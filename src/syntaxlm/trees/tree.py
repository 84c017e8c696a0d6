"""Constituency and dependency trees. Both are stored flat, so there is no recursion, however deep a tree is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TextIO

from syntaxlm import display
from syntaxlm.trees.bracket_text import bracket_text

if TYPE_CHECKING:
    import nltk


class Constituent(NamedTuple):
    """A labelled span of words, [start, end), from 0."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Tree:
    """A constituency tree: words, their part-of-speech tags, and the constituents above them in pre-order.

    Pre-order (a parent before its children, left before right) determines the tree: of two constituents with the same
    span, the earlier one is the parent. Preterminals are not constituents; they are `tags` ("" for words without one).
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    constituents: tuple[Constituent, ...]

    def __post_init__(self) -> None:
        if len(self.tags) != len(self.words):
            raise ValueError(f"found {len(self.tags)} tags for {len(self.words)} words")

    def __len__(self) -> int:
        return len(self.words)

    def __str__(self) -> str:
        """The tree as bracketed text; "" for a tree without words."""
        return bracket_text(self.words, self.tags, self.constituents) if self.words else ""

    def pretty_print(self, file: TextIO | None = None) -> None:
        """Print the tree, drawn with box characters.  file: default standard output."""
        print(display.render("tree as text", self) if self.words else "", file=file)

    def to_nltk(self) -> nltk.Tree:
        """The tree as nltk has it, words as they are. Raises InputError for a tree without words."""
        from syntaxlm.trees.brackets import to_nltk

        return to_nltk(self)

    def _repr_svg_(self) -> str:
        """The tree as an SVG picture, for notebooks."""
        return display.render("tree", self)


@dataclass(frozen=True)
class DependencyTree:
    """A dependency tree over words: `heads[i]` is the 1-based position of word i's head, 0 for the root.

    tags, labels: one per word ("" if the file has none). name: the sentence id in its file, or "".
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    name: str = ""

    def __post_init__(self) -> None:
        sizes: Sequence[int] = [len(self.tags), len(self.heads), len(self.labels)]
        if any(size != len(self.words) for size in sizes):
            raise ValueError(f"found tags, heads and labels of lengths {sizes} for {len(self.words)} words")

    def __len__(self) -> int:
        return len(self.words)

    def _repr_svg_(self) -> str:
        """The tree as an SVG picture, for notebooks."""
        return display.render("dependency tree", self)
