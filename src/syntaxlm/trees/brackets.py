"""Bracketed constituency trees, as text and as nltk.Tree, read and written without recursion.

One regular expression finds the tokens of a whole file, with a preterminal `(DT the)` as ONE token, and one flat loop
builds the trees. This makes reading fast and independent of depth.
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
    """Reads trees from a bracket file (Penn Treebank format and variants), or from lines of text.

    The file may be compressed (.gz, .xz, .zst), with up to 1 GiB of text; "-" is standard input.
    labelled: whether brackets start with a label; None: determined from the file, see `parse_brackets`.
    Raises InputError naming file and line: not UTF-8, unbalanced brackets, words outside brackets, no trees.
    """
    if isinstance(path_or_lines, str | Path):
        return parse_brackets(read_whole_text(path_or_lines), labelled, source=source_name(path_or_lines))
    return parse_brackets("\n".join(line.rstrip("\r\n") for line in path_or_lines), labelled, source="lines")


def parse_brackets(text: str, labelled: bool | None = None, source: str = "text") -> list[Tree]:
    """Parses trees from bracketed text: several per line or one over several lines, labelled or not.

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
    """Disables garbage collection, which would repeatedly traverse millions of small objects without cycles."""
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
    """Reads labelled trees.  Unless `sure`, raises _LabelLess at the first sign that there are no labels."""
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
    """Reads unlabelled trees: every atom is a word."""
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
    """A tree as one line of bracketed text.

    labelled=True: `(S (NP (DT the) (NN cat)) (VP (VBD sat)))`; a word without a tag is a bare leaf, as in
    `(X the (X old cat))`; a constituent without a label is written as X, except an outermost bracket around one tree.
    labelled=False: words and brackets only, without brackets around single words inside the tree.
    Reading the text returns the same words, and the same constituents of more than one word (plus one over the whole
    sentence if the tree had none).  A constituent that contains one bare leaf, `(X word)`, is read as that word's tag.
    Raises InputError for a tree without words and for words or labels that contain white space.
    """
    return bracket_text(tree.words, tree.tags, tree.constituents, labelled)


def write_brackets(trees: Iterable[Tree], path: str | Path, labelled: bool = True) -> None:
    """Writes one tree per line, formatted by `format_brackets`. The file is written atomically.

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
    """Converts a tree to an nltk.Tree: tags become preterminals, words without a tag bare leaves.

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
    """Converts an nltk.Tree; a node over a single string is a preterminal.  Nodes without words are dropped."""
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
