"""Constituency and dependency trees. Both are stored flat, so nothing recurses, however deep a tree is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TextIO

from syntaxlm import display
from syntaxlm.trees.bracket_text import bracket_text

if TYPE_CHECKING:
    import nltk


class Constituent(NamedTuple):
    """A labelled span of words, [start, end), 0-based."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Tree:
    """A constituency tree: words, their part-of-speech tags, and the constituents above them in pre-order.

    Pre-order (a parent before its children, left before right) makes the list a tree: of two constituents of the same
    span the earlier one is the parent. Preterminals are not constituents; they are `tags` ("" where a word has none).
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    constituents: tuple[Constituent, ...]

    def __post_init__(self) -> None:
        if len(self.tags) != len(self.words):
            raise ValueError(f"a tree of {len(self.words)} words has {len(self.tags)} tags")

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
        """The tree as a picture, for notebooks."""
        return display.render("tree", self)


@dataclass(frozen=True)
class DependencyTree:
    """A dependency tree over words: `heads[i]` is the 1-based position of word i's head, 0 for the root.

    tags, labels: one for each word ("" where the file has none). name: the sentence id of its file, or "".
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    name: str = ""

    def __post_init__(self) -> None:
        sizes: Sequence[int] = [len(self.tags), len(self.heads), len(self.labels)]
        if any(size != len(self.words) for size in sizes):
            raise ValueError(f"a dependency tree of {len(self.words)} words has tags, heads, labels of lengths {sizes}")

    def __len__(self) -> int:
        return len(self.words)

    def _repr_svg_(self) -> str:
        """The tree as a picture, for notebooks."""
        return display.render("dependency tree", self)
