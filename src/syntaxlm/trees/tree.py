"""Constituency and dependency trees, and bracketed text. Everything is flat: no recursion, however deep a tree is.

To read brackets, one regular expression finds the tokens of a whole file, with a preterminal `(DT the)` as ONE token,
and one flat loop builds the trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import write_text
from syntaxlm.core.text_files import read_whole_text, source_name
from syntaxlm.core.threads import no_collection

if TYPE_CHECKING:
    import nltk

PROBED = 1000  # tokens at the start of a file that are searched for signs of missing labels first
INDUCED_LABEL = "X"  # label of a constituent without a label

# Only ASCII white space separates tokens: a no-break space is part of a word.
_SPACE = r"[ \t\r\n\f\v]"
_ATOM = r"[^ \t\r\n\f\v()]"
_TOKEN = re.compile(
    rf"\({_SPACE}*({_ATOM}++){_SPACE}++({_ATOM}++){_SPACE}*\)"  # 1, 2: a bracket of two atoms
    rf"|(\(){_SPACE}*({_ATOM}*)"  # 3: an opening bracket, 4: the atom after it
    rf"|({_ATOM}+|\))"  # 5: a further atom, a closing bracket
)
# The same groups where no atom is a label: a bracket of one atom is a word without a tag.
_UNLABELLED_TOKEN = re.compile(rf"()\({_SPACE}*({_ATOM}++){_SPACE}*\)|(\()()|({_ATOM}+|\))")
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
_WRITTEN = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-", "\\/": "\\\\/", "\\*": "\\\\*"}
_TO_WRITE = re.compile(r"[(){}]|\\[/*]")
_UNSAFE = re.compile(_SPACE)


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
        """Print the tree, drawn with box characters.  file: default standard output."""
        from syntaxlm.drawing.terminal import draw_tree  # pictures are imported only to draw

        print(draw_tree(self), file=file)

    def to_nltk(self) -> nltk.Tree:
        """Return the tree as nltk has it: tags become preterminals, words without a tag bare leaves.

        `from_nltk` reads a constituent that contains one bare leaf as that word's tag.
        Raises InputError for a tree without words.
        """
        from nltk.tree import Tree as NltkTree  # nltk takes a third of a second, so it is imported only when needed

        stack = [NltkTree("", [])]
        for label, place in _walk(self.words, self.tags, self.constituents):
            if label is not None:
                stack.append(NltkTree(label, []))
                stack[-2].append(stack[-1])
            elif place is not None:
                word, tag = self.words[place], self.tags[place]
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


def read_brackets(path_or_lines: str | Path | Iterable[str], labelled: bool | None = None) -> list[Tree]:
    """Read trees from a bracket file (Penn Treebank format and variants), or from lines of text.

    The file may be compressed (.gz, .xz, .zst), with up to 1 GiB of text; "-" is standard input.
    labelled: whether brackets start with a label; None: determined from the file, see `parse_brackets`.
    Raises InputError naming file and line: not UTF-8, unbalanced brackets, words outside brackets, no trees.

    >>> print(*syntaxlm.read_brackets("tree.mrg"))
    (S (NP (DT the) (NN cat)))
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
    text = text.removeprefix("\ufeff")
    token, is_sure = (_UNLABELLED_TOKEN, True) if labelled is False else (_TOKEN, labelled is True)
    if not is_sure:  # most unlabelled files show it at once, before the tokens of the whole file are found
        with suppress(_Fault):
            start = [match.groups("") for match in islice(_TOKEN.finditer(text), PROBED)]
            try:
                _built(cast(list[_Token], start), False)
            except _Unlabelled:
                token, is_sure = _UNLABELLED_TOKEN, True
    try:
        with no_collection():
            trees = _built(token.findall(text), is_sure)
    except _Unlabelled:
        return parse_brackets(text, False, source)
    except _Fault as fault:
        match = next(match for number, match in enumerate(token.finditer(text)) if number == fault.token)
        line = text.count("\n", 0, match.start()) + 1
        raise InputError(f"{source}, line {line}: found {fault.found}, expected {fault.expected}") from None
    if not trees:
        raise InputError(f"{source}: found no trees, expected bracketed trees such as (S (NP (DT the) (NN cat)) ...)")
    return trees


_Token = tuple[str, str, str, str, str]
"""The groups of a match: tag, word, opening bracket, label, other; those that did not match are ""."""


class _Unlabelled(Exception):
    """Raised if labels were assumed, but the file has none."""


class _Fault(Exception):
    """A token at an invalid position: its index, what it is, and what was expected there."""

    def __init__(self, token: int, found: str, expected: str) -> None:
        super().__init__(found)
        self.token, self.found, self.expected = token, found, expected


class _Words(dict[str, str]):
    """Written form -> word. Each form is unescaped only once."""

    def __missing__(self, written: str) -> str:
        word = _TO_READ.sub(lambda match: _READ[match.group()], written)
        self[written] = word
        return word


def _built(tokens: Iterable[_Token], is_sure: bool) -> list[Tree]:
    """Build the trees of all tokens.

    is_sure: whether brackets have labels; otherwise raises _Unlabelled at the first sign that they have none.
    """
    trees: list[Tree] = []
    words, tags, labels, starts, ends = _new_parts()
    stack: list[int] = []  # indices into `labels` of the open constituents
    unescaped = _Words()
    first = children = 0  # the first token of the outermost bracket, and the number of its children
    for number, (tag, word, opening, label, other) in enumerate(tokens):
        if not is_sure and len(stack) == 1 and other != ")":
            children += 1
        if word:
            if stack:
                words.append(unescaped[word])
                tags.append(tag)
            else:
                trees.append(Tree((unescaped[word],), (tag,), ()))
        elif opening:
            if not stack:
                first, children = number, 0
            elif not (label or is_sure):
                raise _Unlabelled
            stack.append(len(labels))
            labels.append(label)
            starts.append(len(words))
            ends.append(-1)
        elif not stack:
            if other == ")":
                raise _Fault(number, "a closing bracket without an opening one", "the start of a tree")
            raise _Fault(number, f"{other[:40]!r} outside brackets", "a tree that starts with an opening bracket")
        elif other == ")":
            ends[stack.pop()] = len(words)
            if not stack:
                if not is_sure and (children > 1 if not labels[0] else not words and len(labels) == 1):
                    raise _Unlabelled
                if not words:
                    raise _Fault(first, "a tree without words", "at least one word in a tree")
                trees.append(_tree(words, tags, labels, starts, ends))
                words, tags, labels, starts, ends = _new_parts()
        else:
            words.append(unescaped[other])
            tags.append("")
    if stack:
        found = f"a tree that starts here and is never closed ({len(stack)} brackets are open at the end)"
        raise _Fault(first, found, "the same number of opening and closing brackets")
    return trees


def _new_parts() -> tuple[list[str], list[str], list[str], list[int], list[int]]:
    """Return the parts of a tree: words and tags, and labels, starts and ends of its constituents."""
    return [], [], [], [], []


def _tree(words: list[str], tags: list[str], labels: list[str], starts: list[int], ends: list[int]) -> Tree:
    """Return a tree, without constituents that have no words."""
    # tuple.__new__ is three times as fast as Constituent(...), which matters for millions of constituents.
    constituents = tuple(map(partial(tuple.__new__, Constituent), zip(labels, starts, ends, strict=True)))
    if any(map(int.__eq__, starts, ends)):
        constituents = tuple(constituent for constituent in constituents if constituent.start < constituent.end)
    return Tree(tuple(words), tuple(tags), constituents)


def write_brackets(trees: Iterable[Tree], path: str | Path, labelled: bool = True) -> None:
    """Write one tree per line, formatted by `format_brackets`. The file is written atomically.

    Raises InputError naming the tree (from 1) that cannot be written.

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

    labelled=True: `(S (NP (DT the) (NN cat)) (VP (VBD sat)))`; a word without a tag is a bare leaf, as in
    `(X the (X old cat))`; a constituent without a label is written as X, except an outermost bracket around one tree.
    labelled=False: words and brackets only, without brackets around single words inside the tree.
    Reading the text returns the same words, and the same constituents of more than one word (plus one over the whole
    sentence if the tree had none).  A constituent that contains one bare leaf, `(X word)`, is read as that word's tag.
    Raises InputError for a tree without words and for words or labels that contain white space, ValueError for
    constituents that cross or are not in pre-order.
    """
    spans: Sequence[Constituent] = tree.constituents
    tags: Sequence[str] = tree.tags
    if not labelled:
        spans, tags = [span for span in spans if span.end - span.start > 1], [""] * len(tags)
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
            word, tag = escaped(tree.words[place], "word"), tags[place]
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
    unless it is a single word with a tag. Raises InputError for a tree without words, ValueError if the constituents
    are not a tree in pre-order.
    """
    if not words:
        raise InputError("found a tree without words, expected at least one")
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
    """Convert an nltk.Tree; a node over a single string is a preterminal.  Nodes without words are dropped."""
    from nltk.tree import Tree as NltkTree

    words, tags, labels, starts, ends = _new_parts()
    agenda: list[object] = [tree]  # nodes and strings to visit; an int closes the constituent with that index
    while agenda:
        item = agenda.pop()
        if isinstance(item, int):
            ends[item] = len(words)
        elif isinstance(item, NltkTree) and not (len(item) == 1 and not isinstance(item[0], NltkTree)):
            agenda.append(len(labels))
            agenda.extend(reversed(item))
            labels.append(str(item.label()))
            starts.append(len(words))
            ends.append(-1)
        else:
            words.append(str(item[0] if isinstance(item, NltkTree) else item))
            tags.append(str(item.label()) if isinstance(item, NltkTree) else "")
    return _tree(words, tags, labels, starts, ends)
