"""Constituency and dependency trees, and bracketed text. Everything is flat: no recursion, however deep a tree is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import write_text
from syntaxlm.core.reading import ReadingReport, announce
from syntaxlm.core.text_files import read_whole_text, source_name
from syntaxlm.trees.bracket_tokens import SPACE
from syntaxlm.trees.brackets import Parts, Place, new_parts, parse, without_empty

if TYPE_CHECKING:
    import nltk

INDUCED_LABEL = "X"  # label of a constituent without a label

_WRITTEN = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-", "\\/": "\\\\/", "\\*": "\\\\*"}
_TO_WRITE = re.compile(r"[(){}]|\\[/*]")
_UNSAFE = re.compile(SPACE)


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

    Examples:
        >>> (tree,) = syntaxlm.read_brackets("tree.mrg")
        >>> tree.words
        ('the', 'cat')
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
        """Return the tree as bracketed text; "" for a tree without words."""
        return format_brackets(self) if self.words else ""

    def __repr__(self) -> str:
        return f"Tree({str(self)!r})"

    def pretty_print(self, file: TextIO | None = None) -> None:
        """Print the tree, drawn with box characters.

        Args:
            file: default standard output.
        """
        from syntaxlm.drawing.terminal import draw_tree  # pictures are imported only to draw

        print(draw_tree(self), file=file)

    def to_nltk(self) -> nltk.Tree:
        """Return the tree as nltk has it: tags become preterminals, words without a tag bare leaves.

        `from_nltk` reads a constituent that contains one bare leaf as that word's tag.

        Raises:
            InputError: for a tree without words.
        """
        from nltk.tree import Tree as NltkTree  # nltk takes a third of a second, so it is imported only when needed

        stack = [NltkTree("", [])]
        for label, place in _walk(self.words, self.tags, self.constituents):
            if label is not None:
                stack.append(NltkTree(label, []))
                stack[-2].append(stack[-1])
            elif place is not None:
                word = self.words[place]
                tag = self.tags[place]
                stack[-1].append(NltkTree(tag, [word]) if tag else word)
            else:
                stack.pop()
        return stack[0][0]

    def _repr_svg_(self) -> str:
        """Return the tree as an SVG picture, for notebooks."""
        from syntaxlm.drawing.tree import tree_picture

        return tree_picture(self).svg()


@dataclass(frozen=True)
class DependencyTree:
    """A dependency tree over words: `heads[i]` is the 1-based position of word i's head, 0 for the root.

    Attributes:
        tags: one per word ("" if the file has none).
        labels: the arc's label, one per word ("" if the file has none).
        name: the sentence id in its file, or "".
        place: the file, line and sentence, for messages; "" if it was not read from a file.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    name: str = ""
    place: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        sizes: Sequence[int] = [len(self.tags), len(self.heads), len(self.labels)]
        if any(size != len(self.words) for size in sizes):
            raise ValueError(f"found tags, heads and labels of lengths {sizes} for {len(self.words)} words")

    def __len__(self) -> int:
        return len(self.words)

    def _repr_svg_(self) -> str:
        """Return the tree as an SVG picture, for notebooks."""
        from syntaxlm.drawing.dependencies import dependency_picture

        return dependency_picture(self).svg()


@dataclass(frozen=True)
class BracketFile:
    """The trees of a bracket file, and how it was read.

    Attributes:
        trees: in the order of the file; a failed parse is a tree without words.
        reading: form, counts, and what was dropped or is odd.
        failed: the places of the trees without words.
        blank_lines: the places of blank lines, if each other line holds one tree.
    """

    trees: list[Tree]
    reading: ReadingReport
    failed: tuple[Place, ...] = ()
    blank_lines: tuple[Place, ...] = ()


def read_bracket_file(path_or_lines: str | Path | Iterable[str], labelled: bool | None = None) -> BracketFile:
    """Read trees from a bracket file or from lines of text, with failed parses, which are trees without words.

    Nothing is announced. labelled, errors: as for `read_brackets`.
    """
    if isinstance(path_or_lines, str | Path):
        return bracket_file(read_whole_text(path_or_lines), labelled, source_name(path_or_lines))
    return bracket_file("\n".join(line.rstrip("\r\n") for line in path_or_lines), labelled, "lines")


def bracket_file(text: str, labelled: bool | None = None, source: str = "text") -> BracketFile:
    """Return what `read_bracket_file` returns for a file with this text."""
    parsed = parse(text.removeprefix("\ufeff"), labelled, source, _tree)
    counts = {"sentences": len(parsed.trees) - len(parsed.failed), "words": sum(map(len, parsed.trees))}
    form = "labelled trees" if parsed.labelled else "trees without labels"
    sample = tuple(map(str, islice(filter(len, parsed.trees), 2)))
    reading = ReadingReport(source, form, counts, parsed.evidence, parsed.remarks.all(), sample)
    return BracketFile(parsed.trees, reading, tuple(parsed.failed), tuple(parsed.blank_lines))


def read_brackets(path_or_lines: str | Path | Iterable[str], labelled: bool | None = None) -> list[Tree]:
    """Read trees from a bracket file (Penn Treebank format and variants), or from lines of text.

    The file may be compressed (.gz, .bz2, .xz, .zst, .zip), with up to 1 GiB of text; "-" is standard input. How it
    was read is announced.

    Args:
        labelled: whether brackets start with a label; None: determined from the file, see `parse_brackets`.

    Raises:
        InputError: if the file is not UTF-8 or has no trees; for unbalanced brackets, words outside brackets, and a
            tree without words. The message names file and line.

    Examples:
        >>> print(*syntaxlm.read_brackets("tree.mrg"))
        (S (NP (DT the) (NN cat)))
    """
    read = read_bracket_file(path_or_lines, labelled)
    check_words(read)
    announce(read.reading)
    return read.trees


def parse_brackets(text: str, labelled: bool | None = None, source: str = "text") -> list[Tree]:
    """Parse trees from bracketed text: several per line or one over several lines, labelled or not.

    Labelled: `(DT the)`, a bracket of a label and one bare leaf, gives the word its tag. Any other bracket is a
    constituent. Bare leaves next to constituents, as in `(X the (X old cat))`, are words without a tag. A bracket that
    contains only its label is dropped.

    Not labelled, `((the cat) (sat down))`: the label of constituents and the tag of words are "". A bracket around a
    single word, as in the one-word sentence `(word)`, is not a constituent.

    Escapes (`-LRB-` `-RRB-` `-LCB-` `-RCB-` `-LSB-` `-RSB-` `\\/` `\\*`) are undone in words.

    Args:
        labelled: whether brackets start with a label. None: decided from all brackets. They have labels if nearly every
            word has a tag, if most first atoms look like labels and are not among the words, or if few different atoms
            are the first of many brackets and hardly occur as words.
        source: name of the text, for messages.

    Raises:
        InputError: for the reasons of `read_brackets`. The message names source and line.
    """
    read = bracket_file(text, labelled, source)
    check_words(read)
    return read.trees


def check_words(read: BracketFile) -> None:
    """Raise InputError naming the line of the first tree without words."""
    for place in read.failed:
        raise InputError(
            f"{read.reading.source}, line {place.line}: found a tree without words; expected at least one word in each"
        )


def _tree(parts: Parts) -> Tree:
    words, tags, labels, starts, ends = parts
    # tuple.__new__ is three times as fast as Constituent(...), which matters for millions of constituents.
    constituents = tuple(map(partial(tuple.__new__, Constituent), zip(labels, starts, ends, strict=True)))
    return Tree(tuple(words), tuple(tags), constituents)


def write_brackets(trees: Iterable[Tree], path: str | Path, labelled: bool = True) -> None:
    """Write one tree per line, formatted by `format_brackets`. The file is written atomically.

    Raises:
        InputError: the message names the tree (from 1) that cannot be written.

    Examples:
        >>> syntaxlm.write_brackets(syntaxlm.read_brackets("tree.mrg"), "copy.mrg")
    """
    lines = []
    for number, tree in enumerate(trees, 1):
        try:
            lines.append(format_brackets(tree, labelled))
        except InputError as error:
            raise InputError(f"{path}, tree {number}: {error}") from error
    write_text("".join(line + "\n" for line in lines), path)


def format_brackets(tree: Tree, labelled: bool = True) -> str:
    """Return a tree as one line of bracketed text.

    Labelled: `(S (NP (DT the) (NN cat)) (VP (VBD sat)))`. A word without a tag is a bare leaf, as in
    `(X the (X old cat))`. A constituent without a label is written as X, except an outermost bracket around one tree.

    Not labelled: words and brackets only, without brackets around single words inside the tree.

    Reading the text returns the same words, except that escapes such as -LRB- are undone, and the same constituents of
    more than one word (plus one over the whole sentence if the tree had none). A constituent that contains one bare
    leaf, `(X word)`, is read as that word's tag.

    Raises:
        InputError: for a tree without words and for words or labels that contain white space.
        ValueError: for constituents that cross or are not in pre-order.
    """
    spans: Sequence[Constituent] = tree.constituents
    tags: Sequence[str] = tree.tags
    if not labelled:
        spans = [span for span in spans if span.end - span.start > 1]
        tags = [""] * len(tags)
    wraps = len(spans) > 1 and spans[0][1:] == spans[1][1:]  # whether an outermost bracket is around one tree
    parts: list[str] = []
    follows = False  # whether a space separates the next token from the one before
    for label, place in _walk(tree.words, tags, spans):
        if label is None and place is None:
            parts.append(")")
            continue
        parts.append(" " if follows else "")
        follows = True
        if place is not None:
            word = escaped(tree.words[place], "word")
            tag = tags[place]
            parts.append(f"({escaped(tag, 'tag')} {word})" if tag else word)
        elif labelled:
            is_wrapper = wraps and len(parts) == 1 and not label
            parts.append("(" + ("" if is_wrapper else escaped(label or INDUCED_LABEL, "label")))
        else:
            parts.append("(")
            follows = False
    return "".join(parts)


def _walk(
    words: Sequence[str], tags: Sequence[str], constituents: Sequence[Constituent]
) -> Iterator[tuple[str | None, int | None]]:
    """Visit a tree in order: yield (label, None) for an opening bracket, (None, word), (None, None) for a closing one.

    There is always exactly one outermost bracket: a tree without a constituent over all words gets one, labelled X,
    unless it is a single word with a tag.

    Raises:
        InputError: for a tree without words.
        ValueError: if the constituents are not a tree in pre-order.
    """
    if not words:
        raise InputError("found a tree without words; expected at least one")
    length = len(words)
    constituents = [span for span in constituents if span.start < span.end]
    if (not constituents or constituents[0][1:] != (0, length)) and not (length == 1 and tags[0]):
        constituents.insert(0, Constituent(INDUCED_LABEL, 0, length))
    ends: list[int] = []
    following = 0
    for position in range(length):
        while following < len(constituents) and constituents[following].start == position:
            label, _, end = constituents[following]
            if end > (ends[-1] if ends else length):
                crossing = tuple(constituents[following])
                raise ValueError(f"constituent {crossing} crosses the previous one or is not in pre-order")
            ends.append(end)
            following += 1
            yield label, None
        yield None, position
        while ends and ends[-1] == position + 1:
            ends.pop()
            yield None, None
    if following < len(constituents):
        outside = tuple(constituents[following])
        raise ValueError(f"constituent {outside} is not in pre-order or not within the {length} words")


def escaped(text: str, what: str) -> str:
    """Return a word or label as written in bracketed text. Raises InputError if it is empty or contains white space."""
    if not text or _UNSAFE.search(text):
        raise InputError(f"found the {what} {text!r}; in bracketed text it must not be empty or contain white space")
    return _TO_WRITE.sub(lambda match: _WRITTEN[match.group()], text)


def from_nltk(tree: nltk.Tree) -> Tree:
    """Convert an nltk.Tree; a node over a single string is a preterminal, and so is a leaf (word, tag), as in chunks.

    Nodes without words are dropped.

    Raises:
        InputError: for another leaf than a string or (word, tag).
    """
    from nltk.tree import Tree as NltkTree

    def child_of(child: object) -> object:
        if isinstance(child, NltkTree | str):
            return child
        if isinstance(child, tuple) and len(child) == 2 and all(isinstance(part, str) for part in child):
            return NltkTree(child[1], [child[0]])
        raise InputError(f"found the leaf {child!r}; expected a word, or a tuple of a word and its tag")

    words, tags, labels, starts, ends = parts = new_parts()
    agenda: list[object] = [tree]  # nodes and strings to visit; an int closes the constituent with that index
    while agenda:
        item = agenda.pop()
        if isinstance(item, int):
            ends[item] = len(words)
        elif isinstance(item, NltkTree) and not (len(item) == 1 and isinstance(item[0], str)):
            agenda.append(len(labels))
            agenda.extend(reversed(list(map(child_of, item))))
            labels.append(str(item.label()))
            starts.append(len(words))
            ends.append(-1)
        else:
            words.append(str(item[0] if isinstance(item, NltkTree) else item))
            tags.append(str(item.label()) if isinstance(item, NltkTree) else "")
    return _tree(without_empty(parts))
