"""Constituency and dependency trees. Both are stored flat, so there is no recursion, however deep a tree is."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TextIO

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import write_text
from syntaxlm.core.text_files import read_whole_text, source_name

# Words and constituents as bracketed text, written without recursion.
#
# This module does not depend on `Tree`, which uses it for `__str__`. `trees.brackets` reads such text.


INDUCED_LABEL = "X"  # label of a constituent without a label

# Only ASCII white space separates tokens: a no-break space is part of a word.
SPACE = r"[ \t\r\n\f\v]"
_UNSAFE = re.compile(SPACE)
_WRITTEN = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-", "\\/": "\\\\/", "\\*": "\\\\*"}
_TO_WRITE = re.compile(r"[(){}]|\\[/*]")

Span = tuple[str, int, int]
"""A labelled span of words, [start, end), 0-based."""


def bracket_text(words: Sequence[str], tags: Sequence[str], constituents: Sequence[Span], labelled: bool = True) -> str:
    """Return a tree as one line of bracketed text, in the format described in `trees.brackets.format_brackets`.

    words, tags: one tag per word ("" for no tag). constituents: in pre-order.
    Raises InputError for a tree without words and for words or labels that contain white space, ValueError for
    constituents that cross or are not in pre-order.
    """
    if not words:
        raise InputError("found a tree without words, expected at least one")
    if not labelled:
        constituents = [span for span in constituents if span[2] - span[1] > 1]
        tags = [""] * len(words)
    wrapped = len(constituents) > 1 and constituents[0][1:] == constituents[1][1:]
    parts: list[str] = []
    fresh = True  # at the start or after an unlabelled opening bracket: no space before the next token
    for kind, item in walk(words, tags, constituents):
        if kind == "close":
            parts.append(")")
            continue
        if not fresh:
            parts.append(" ")
        fresh = False
        if isinstance(item, int):
            word = escaped(words[item], "word")
            tag = tags[item]
            parts.append(f"({escaped(tag, 'tag')} {word})" if tag else word)
        elif not labelled:
            parts.append("(")
            fresh = True
        else:
            parts.append("(" + ("" if not (item or parts) and wrapped else escaped(item or INDUCED_LABEL, "label")))
    return "".join(parts)


def walk(words: Sequence[str], tags: Sequence[str], constituents: Sequence[Span]) -> Iterator[tuple[str, int | str]]:
    """Yield visit a tree in order: ("open", label), ("word", position), ("close", "").

    There is always exactly one outermost bracket: a tree without a constituent over all words gets one, labelled X,
    unless it is a single word with a tag. Raises ValueError if the constituents are not a tree in pre-order.
    """
    length = len(words)
    constituents = [span for span in constituents if span[1] < span[2]]
    whole = bool(constituents) and constituents[0][1:] == (0, length)
    if not whole and not (length == 1 and tags[0]):
        constituents.insert(0, (INDUCED_LABEL, 0, length))
    ends: list[int] = []
    following = 0
    for position in range(length):
        while following < len(constituents) and constituents[following][1] == position:
            label, _, end = constituents[following]
            if end > (ends[-1] if ends else length):
                raise ValueError(
                    f"constituent {constituents[following]} crosses the previous one or is not in pre-order"
                )
            ends.append(end)
            following += 1
            yield "open", label
        yield "word", position
        while ends and ends[-1] == position + 1:
            ends.pop()
            yield "close", ""
    if following < len(constituents):
        raise ValueError(f"constituent {constituents[following]} is not in pre-order or not within the {length} words")


def escaped(text: str, what: str) -> str:
    """Return a word or label as written in bracketed text. Raises InputError if it is empty or contains white space."""
    if not text or _UNSAFE.search(text):
        raise InputError(f"found the {what} {text!r}; in bracketed text it must not be empty or contain white space")
    return _TO_WRITE.sub(lambda match: _WRITTEN[match.group()], text)


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
        """Return the tree as bracketed text; "" for a tree without words."""
        return bracket_text(self.words, self.tags, self.constituents) if self.words else ""

    def pretty_print(self, file: TextIO | None = None) -> None:
        """Print the tree, drawn with box characters.  file: default standard output."""
        from syntaxlm.drawing.terminal import draw_tree  # pictures are imported only to draw

        print(draw_tree(self), file=file)

    def to_nltk(self) -> nltk.Tree:
        """Return the tree as nltk has it, words as they are. Raises InputError for a tree without words."""
        return to_nltk(self)

    def _repr_svg_(self) -> str:
        """Return the tree as an SVG picture, for notebooks."""
        from syntaxlm.drawing.tree import tree_picture

        return tree_picture(self).svg()


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
        """Return the tree as an SVG picture, for notebooks."""
        from syntaxlm.drawing.dependencies import dependency_picture

        return dependency_picture(self).svg()


# Bracketed constituency trees, as text and as nltk.Tree, read and written without recursion.
#
# One regular expression finds the tokens of a whole file, with a preterminal `(DT the)` as ONE token, and one flat loop
# builds the trees. This makes reading fast and independent of depth.


if TYPE_CHECKING:
    import nltk

_ATOM = r"[^ \t\r\n\f\v()]"
_TOKEN = re.compile(
    rf"\({SPACE}*({_ATOM}+){SPACE}+({_ATOM}+){SPACE}*\)"  # 1, 2: a bracket of two atoms
    rf"|(\(){SPACE}*({_ATOM}*)"  # 3: an opening bracket, 4: the atom after it
    rf"|({_ATOM}+|\))"  # 5: a further atom, a closing bracket
)
_READ = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LCB-": "{",
    "-RCB-": "}",
    "-LSB-": "[",
    "-RSB-": "]",
    "\\/": "/",
    "\\*": "*",
}
_TO_READ = re.compile(r"-[LR][RCS]B-|\\[/*]")


# tuple.__new__ is three times as fast as Constituent(...), which matters for millions of constituents.
_new_constituent = partial(tuple.__new__, Constituent)


class _Words(dict[str, str]):
    """Written form -> word. Each form is unescaped only once."""

    def __missing__(self, written: str) -> str:
        word = _TO_READ.sub(lambda match: _READ[match.group()], written)
        self[written] = word
        return word


class _Token(NamedTuple):
    """A match of `_TOKEN`; groups that did not match are ""."""

    pair_label: str
    pair_word: str
    opening: str
    label: str
    other: str


class _LabelLess(Exception):
    """Raised if labels were assumed, but the file has none."""


class _Fault(Exception):
    """A token at an invalid position: its index (None: the end of the text) and the message."""

    def __init__(self, token: int, found: str, expected: str) -> None:
        super().__init__(found)
        self.token, self.found, self.expected = token, found, expected


def read_brackets(path_or_lines: str | Path | Iterable[str], labelled: bool | None = None) -> list[Tree]:
    """Read trees from a bracket file (Penn Treebank format and variants), or from lines of text.

    The file may be compressed (.gz, .xz, .zst), with up to 1 GiB of text; "-" is standard input.
    labelled: whether brackets start with a label; None: determined from the file, see `parse_brackets`.
    Raises InputError naming file and line: not UTF-8, unbalanced brackets, words outside brackets, no trees.
    """
    if isinstance(path_or_lines, str | Path):
        return parse_brackets(read_whole_text(path_or_lines), labelled, source=source_name(path_or_lines))
    return parse_brackets("\n".join(line.rstrip("\r\n") for line in path_or_lines), labelled, source="lines")


def parse_brackets(text: str, labelled: bool | None = None, source: str = "text") -> list[Tree]:
    """Parse trees from bracketed text: several per line or one over several lines, labelled or not.

    labelled=True: `(DT the)`, a bracket of a label and one bare leaf, gives the word its tag; any other bracket is a
    constituent; bare leaves next to constituents, as in `(X the (X old cat))`, are words without a tag; a bracket
    that contains only its label is dropped.  labelled=False: `((the cat) (sat down))`; constituents get label "",
    words tag "", and a bracket around a single word, as in the one-word sentence `(word)`, is not a constituent.
    labelled=None: unlabelled if some bracket starts with a bracket, other than an outermost one around a single tree
    (`( (S ...))`), or if some outermost bracket contains a single atom.  (Text like `(the (cat sat))` is ambiguous and
    treated as labelled.)  Escapes (-LRB- -RRB- -LCB- -RCB- -LSB- -RSB- \\/ \\*) are undone in words.
    Raises InputError naming source and line.
    """
    try:
        with _collector_paused():
            trees = _trees(_TOKEN.findall(text.removeprefix("\ufeff")), labelled)
    except _Fault as fault:
        _raise_with_line(text, source, fault)
    if not trees:
        raise InputError(f"{source}: found no trees, expected bracketed trees such as (S (NP (DT the) (NN cat)) ...)")
    return trees


def _trees(tokens: list[_Token], labelled: bool | None) -> list[Tree]:
    if labelled is not None:
        return _labelled_trees(tokens, sure=True) if labelled else _label_less_trees(tokens)
    try:
        return _labelled_trees(tokens, sure=False)
    except _LabelLess:
        return _label_less_trees(tokens)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Disable garbage collection, which would repeatedly traverse millions of small objects without cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _raise_with_line(text: str, source: str, fault: _Fault) -> NoReturn:
    for number, match in enumerate(_TOKEN.finditer(text.removeprefix("\ufeff"))):
        if number == fault.token:
            line = match.string.count("\n", 0, match.start()) + 1
            raise InputError(f"{source}, line {line}: found {fault.found}, expected {fault.expected}")
    raise AssertionError("the fault refers to a token that does not exist")


def _outside(token: int, other: str) -> _Fault:
    if other == ")":
        return _Fault(token, "a closing bracket without an opening one", "the start of a tree")
    return _Fault(token, f"{other[:40]!r} outside brackets", "a tree that starts with an opening bracket")


def _unclosed(token: int, open_brackets: int) -> _Fault:
    return _Fault(
        token,
        f"a tree that starts here and is never closed ({open_brackets} brackets are open at the end)",
        "the same number of opening and closing brackets",
    )


def _no_words(token: int) -> _Fault:
    return _Fault(token, "a tree without words", "at least one word in a tree")


def _labelled_trees(tokens: list[_Token], sure: bool) -> list[Tree]:
    """Read labelled trees.  Unless `sure`, raises _LabelLess at the first sign that there are no labels."""
    trees: list[Tree] = []
    words: list[str] = []
    tags: list[str] = []
    labels: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    stack: list[int] = []  # indices into `labels` of the open constituents
    unescaped = _Words()
    first = children = 0  # the tree's first token; number of children of an outermost bracket without label
    for number, (pair_label, pair_word, opening, label, other) in enumerate(tokens):
        if pair_word:
            if stack:
                words.append(unescaped[pair_word])
                tags.append(pair_label)
                children += len(stack) == 1
            else:
                trees.append(Tree((unescaped[pair_word],), (pair_label,), ()))
        elif opening:
            if not stack:
                first, children = number, 0
            elif not (label or sure):
                raise _LabelLess
            else:
                children += len(stack) == 1
            stack.append(len(labels))
            labels.append(label)
            starts.append(len(words))
            ends.append(-1)
        elif not stack:
            raise _outside(number, other)
        elif other == ")":
            ends[stack.pop()] = len(words)
            if stack:
                continue
            if not sure and ((not labels[0] and children > 1) or (not words and len(labels) == 1 and labels[0])):
                raise _LabelLess
            if not words:
                raise _no_words(first)
            trees.append(_tree(words, tags, labels, starts, ends))
            words, tags, labels, starts, ends = [], [], [], [], []
        else:
            words.append(unescaped[other])
            tags.append("")
            children += len(stack) == 1
    if stack:
        raise _unclosed(first, len(stack))
    return trees


def _tree(words: list[str], tags: list[str], labels: list[str], starts: list[int], ends: list[int]) -> Tree:
    constituents = tuple(map(_new_constituent, zip(labels, starts, ends, strict=True)))
    if any(map(int.__eq__, starts, ends)):
        constituents = tuple(constituent for constituent in constituents if constituent.start < constituent.end)
    return Tree(tuple(words), tuple(tags), constituents)


def _label_less_trees(tokens: list[_Token]) -> list[Tree]:
    """Read unlabelled trees: every atom is a word."""
    trees: list[Tree] = []
    words: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    leaves: list[bool] = []  # whether each bracket contains a single atom, which makes it a word
    stack: list[int] = []
    unescaped = _Words()
    first = 0
    for number, (pair_first, pair_second, opening, atom, other) in enumerate(tokens):
        if not stack:
            first = number
        if pair_second or opening:
            if stack:
                leaves[stack[-1]] = False
            stack.append(len(starts))
            starts.append(len(words))
            ends.append(-1)
            leaves.append(True)
            if pair_second:
                words += (unescaped[pair_first], unescaped[pair_second])
            elif atom:
                words.append(unescaped[atom])
        elif not stack:
            raise _outside(number, other)
        elif other != ")":
            words.append(unescaped[other])
        if pair_second or other == ")":
            place = stack.pop()
            ends[place] = len(words)
            if not stack:
                if not words:
                    raise _no_words(first)
                trees.append(_label_less_tree(words, starts, ends, leaves))
                words, starts, ends, leaves = [], [], [], []
    if stack:
        raise _unclosed(first, len(stack))
    return trees


def _label_less_tree(words: list[str], starts: list[int], ends: list[int], leaves: list[bool]) -> Tree:
    kept = (
        Constituent("", start, end)
        for start, end, leaf in zip(starts, ends, leaves, strict=True)
        if end - start > 1 or (end > start and not leaf)
    )
    return Tree(tuple(words), ("",) * len(words), tuple(kept))


def format_brackets(tree: Tree, labelled: bool = True) -> str:
    """Return a tree as one line of bracketed text.

    labelled=True: `(S (NP (DT the) (NN cat)) (VP (VBD sat)))`; a word without a tag is a bare leaf, as in
    `(X the (X old cat))`; a constituent without a label is written as X, except an outermost bracket around one tree.
    labelled=False: words and brackets only, without brackets around single words inside the tree.
    Reading the text returns the same words, and the same constituents of more than one word (plus one over the whole
    sentence if the tree had none).  A constituent that contains one bare leaf, `(X word)`, is read as that word's tag.
    Raises InputError for a tree without words and for words or labels that contain white space.
    """
    return bracket_text(tree.words, tree.tags, tree.constituents, labelled)


def write_brackets(trees: Iterable[Tree], path: str | Path, labelled: bool = True) -> None:
    """Write one tree per line, formatted by `format_brackets`. The file is written atomically.

    Raises InputError naming the tree (from 1) that cannot be written.
    """
    lines = []
    for number, tree in enumerate(trees, 1):
        try:
            lines.append(format_brackets(tree, labelled))
        except InputError as error:
            raise InputError(f"{path}, tree {number}: {error}") from error
    write_text("".join(line + "\n" for line in lines), path)


def to_nltk(tree: Tree) -> nltk.Tree:
    """Convert a tree to an nltk.Tree: tags become preterminals, words without a tag bare leaves.

    `from_nltk` reads a constituent that contains one bare leaf as that word's tag.
    """
    import nltk  # takes a third of a second, so it is imported only when needed

    if not tree.words:
        raise InputError("found a tree without words, expected at least one")
    top = nltk.Tree("", [])
    stack = [top]
    for kind, item in walk(tree.words, tree.tags, tree.constituents):
        if kind == "close":
            stack.pop()
        elif isinstance(item, int):
            word, tag = tree.words[item], tree.tags[item]
            stack[-1].append(nltk.Tree(tag, [word]) if tag else word)
        else:
            stack.append(nltk.Tree(item, []))
            stack[-2].append(stack[-1])
    return top[0]


def from_nltk(tree: nltk.Tree) -> Tree:
    """Convert an nltk.Tree; a node over a single string is a preterminal.  Nodes without words are dropped."""
    import nltk  # takes a third of a second, so it is imported only when needed

    words: list[str] = []
    tags: list[str] = []
    labels: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    agenda: list[object] = [tree]  # nodes and strings to visit; an int closes the constituent with that index
    while agenda:
        item = agenda.pop()
        if isinstance(item, int):
            ends[item] = len(words)
        elif not isinstance(item, nltk.Tree):
            words.append(str(item))
            tags.append("")
        elif len(item) == 1 and not isinstance(item[0], nltk.Tree):
            words.append(str(item[0]))
            tags.append(str(item.label()))
        else:
            agenda.append(len(labels))
            labels.append(str(item.label()))
            starts.append(len(words))
            ends.append(-1)
            agenda.extend(reversed(item))
    return _tree(words, tags, labels, starts, ends)
