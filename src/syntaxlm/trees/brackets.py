"""Bracketed constituency trees, as text and as nltk.Tree, read and written without recursion.

One regular expression finds the tokens of a whole file, a preterminal `(DT the)` being ONE token, and one flat loop
builds the trees: that is what makes reading fast, and depth harmless.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from syntaxlm.errors import InputError
from syntaxlm.files import write_text
from syntaxlm.text_files import read_whole_text, source_name
from syntaxlm.trees.bracket_text import SPACE, bracket_text, walk
from syntaxlm.trees.tree import Constituent, Tree

if TYPE_CHECKING:
    import nltk

_ATOM = r"[^ \t\r\n\f\v()]"
_TOKEN = re.compile(
    rf"\({SPACE}*({_ATOM}+){SPACE}+({_ATOM}+){SPACE}*\)"  # 1, 2: a bracket of two atoms
    rf"|(\(){SPACE}*({_ATOM}*)"  # 3: an opening bracket, 4: the atom behind it
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


# Constituent(...) goes through Python code, three times as slow; millions are made.
_new_constituent = partial(tuple.__new__, Constituent)


class _Words(dict[str, str]):
    """Written form -> word, each unescaped once."""

    def __missing__(self, written: str) -> str:
        word = _TO_READ.sub(lambda match: _READ[match.group()], written)
        self[written] = word
        return word


class _Token(NamedTuple):
    """A token of `_TOKEN`, "" where a group took no part."""

    pair_label: str
    pair_word: str
    opening: str
    label: str
    other: str


class _LabelLess(Exception):
    """Labels were assumed, and the file turns out to have none."""


class _Fault(Exception):
    """A token that cannot stand where it stands: its number (None: the end of the text) and the message."""

    def __init__(self, token: int, found: str, expected: str) -> None:
        super().__init__(found)
        self.token, self.found, self.expected = token, found, expected


def read_brackets(path_or_lines: str | Path | Iterable[str], labelled: bool | None = None) -> list[Tree]:
    """The trees of a bracketed file (Penn Treebank style and its relatives), or of lines of text.

    A file may be compressed, .gz, .xz, .zst, up to 1 GiB of text; "-" is standard input.
    labelled: whether brackets begin with a label; None: decided by the file, see `parse_brackets`.
    Raises InputError naming file and line: not UTF-8 text, unbalanced brackets, words outside brackets, no tree at all.
    """
    if isinstance(path_or_lines, str | Path):
        return parse_brackets(read_whole_text(path_or_lines), labelled, source=source_name(path_or_lines))
    return parse_brackets("\n".join(line.rstrip("\r\n") for line in path_or_lines), labelled, source="lines")


def parse_brackets(text: str, labelled: bool | None = None, source: str = "text") -> list[Tree]:
    """The trees of a bracketed text: several a line or one over several lines, labelled or not.

    labelled=True: `(DT the)`, a bracket of a label and one bare leaf, gives the word its tag; any other bracket is a
    constituent; bare leaves beside constituents, as in `(X the (X old cat))`, are words without a tag; a bracket
    that holds nothing but its label is dropped.  labelled=False: `((the cat) (sat down))`; constituents get label "",
    words tag "", and a bracket around a single word, as in the one-word sentence `(word)`, is no constituent.
    labelled=None: label-less if some bracket begins with a bracket, other than an outermost one around a single tree
    (`( (S ...))`), or if some outermost bracket holds one atom.  (A text of nothing but `(the (cat sat))` shows neither
    sign, and is taken for labelled.)  Escapes (-LRB- -RRB- -LCB- -RCB- -LSB- -RSB- \\/ \\*) are undone in words.
    Raises InputError naming source and line.
    """
    try:
        with _collector_paused():
            trees = _trees(_TOKEN.findall(text.removeprefix("\ufeff")), labelled)
    except _Fault as fault:
        _raise_with_line(text, source, fault)
    if not trees:
        raise InputError(
            f"{source}: no tree was found, expected bracketed trees such as (S (NP (DT the) (NN cat)) ...)"
        )
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
    """Millions of small objects, none in a cycle: the garbage collector would look through them over and over."""
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
    raise AssertionError("a fault names a token that does not exist")


def _outside(token: int, other: str) -> _Fault:
    if other == ")":
        return _Fault(token, "a closing bracket without an opening one", "a tree to begin")
    return _Fault(token, f"{other[:40]!r} outside brackets", "a tree to begin with an opening bracket")


def _unclosed(token: int, open_brackets: int) -> _Fault:
    return _Fault(
        token,
        f"a tree that begins here and is not closed at the end ({open_brackets} brackets open)",
        "as many closing as opening brackets",
    )


def _no_words(token: int) -> _Fault:
    return _Fault(token, "a tree without words", "at least one word in a tree")


def _labelled_trees(tokens: list[_Token], sure: bool) -> list[Tree]:
    """Reads brackets that begin with a label.  Raises _LabelLess at the first sign against it, unless sure."""
    trees: list[Tree] = []
    words: list[str] = []
    tags: list[str] = []
    labels: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    stack: list[int] = []  # of open constituents, their places in `labels`
    unescaped = _Words()
    first = children = 0  # the tree's first token; children of its outermost bracket, counted where it has no label
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
    """Reads brackets without labels: every atom is a word."""
    trees: list[Tree] = []
    words: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    leaves: list[bool] = []  # brackets that hold one atom and nothing else, which are words and no constituents
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
    """A tree as one line of bracketed text.

    labelled=True: `(S (NP (DT the) (NN cat)) (VP (VBD sat)))`; a word without a tag is a bare leaf, as in
    `(X the (X old cat))`; a constituent without a label is written X, except an outermost wrapper around one tree.
    labelled=False: words and brackets only, and no bracket around a single word inside the tree.
    Reading gives back the same words, and the same constituents over more than one word (and one over the whole
    sentence, if the tree had none).  A constituent that holds one bare leaf, `(X word)`, reads as that word's tag.
    Raises InputError for a tree without words and for words or labels with white space in them.
    """
    return bracket_text(tree.words, tree.tags, tree.constituents, labelled)


def write_brackets(trees: Iterable[Tree], path: str | Path, labelled: bool = True) -> None:
    """Writes one tree a line, as `format_brackets` gives it; the file is written atomically.

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
    """The tree as an nltk.Tree: tags become preterminals, words without a tag bare leaves.

    A constituent that holds one bare leaf comes back from `from_nltk` as that word's tag.
    """
    import nltk  # a third of a second, which no other use of trees should wait for

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
    """A tree from an nltk.Tree; a node over one string and nothing else is a preterminal.  Nodes without words go."""
    import nltk  # a third of a second, which no other use of trees should wait for

    words: list[str] = []
    tags: list[str] = []
    labels: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    agenda: list[object] = [tree]  # nodes and strings to visit; an int closes the constituent of that place
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
