"""Bracketed text: its form, labelled or not, and its structure. Everything is flat: no recursion, however deep.

One regular expression finds the tokens of a whole file, with a preterminal `(DT the)` as ONE token, and one flat loop
builds the trees. The form is decided once, from all tokens; what contradicts it is counted or raises an InputError.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar, cast

from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.foreign_files import foreign_treebank
from syntaxlm.core.reading import LINES_NAMED, Remarks
from syntaxlm.core.threads import no_collection
from syntaxlm.trees.bracket_forms import (
    foreign_format,
    has_labels,
    is_discontinuous,
    is_label_like,
    with_escaped_parentheses,
    without_scores,
)
from syntaxlm.trees.bracket_tokens import SPACE, TOKEN, Token, TokenPlaces

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
_FAILED_PARSES = frozenset({"ROOT", "TOP", "NOPARSE", "NO_PARSE"})  # atoms of brackets that stand for a missing tree
_LABELLED_TREE = re.compile(rf"\((?:ROOT|TOP|S1|S){SPACE}+\(")
_CAPITAL_WORDS = {"A", "I"}  # words of English that look like labels
_CERTAIN_TOKENS = 5_000  # of a file, from which the recurrence of labels leaves no doubt
_BRACKETS_PER_BARE = 8  # one inner bracket without label among so many brackets is evidence against labels

TreeType = TypeVar("TreeType")


class Parts(NamedTuple):
    """The parts of a tree: words with their tags, and constituents in pre-order."""

    words: list[str]
    tags: list[str]
    labels: list[str]
    starts: list[int]
    ends: list[int]


class Place(NamedTuple):
    """A place in a bracket file.

    Attributes:
        before: number of trees before it.
        line: line number, from 1.
    """

    before: int
    line: int


@dataclass
class ParsedBrackets(Generic[TreeType]):
    """The trees of a text.

    Attributes:
        trees: the trees. One without words stands for a failed parse.
        labelled: whether brackets start with a label.
        evidence: why the text was taken to be of this form.
        failed: the places of the trees without words.
        blank_lines: blank lines, if each other line holds one tree.
        remarks: what was dropped or is odd.
    """

    trees: list[TreeType]
    labelled: bool
    evidence: str
    failed: list[Place] = field(default_factory=list)
    blank_lines: list[Place] = field(default_factory=list)
    remarks: Remarks = field(default_factory=Remarks)


def parse(text: str, labelled: bool | None, source: str, make: Callable[[Parts], TreeType]) -> ParsedBrackets[TreeType]:
    """Return the trees of a text.

    Args:
        labelled: the form; None: decided from the text.
        make: makes a tree of its parts.

    Raises:
        InputError: the message names source and line.
    """
    text, scores = (text, 0) if labelled is False else without_scores(text)
    plain = with_escaped_parentheses(text)
    treebank = foreign_treebank(plain, source)
    if named := treebank[0] if treebank else foreign_format(plain):
        advice = f". {treebank[1]}" if treebank else ""
        raise InputError(
            f"{source}, line 1: found {named}; expected bracketed trees such as (S (NP (DT the) (NN cat))){advice}"
        )
    with no_collection():
        parser = _Parser(plain, source, make)
        parsed = parser.parse(labelled)
        del parser  # its tokens, before objects are counted again
    if scores:
        parsed.remarks.add("scores after labels, as the Stanford parser writes them, left out", count=scores)
    if plain != text:
        for number, (line, written) in enumerate(zip(plain.split("\n"), text.split("\n"), strict=True), 1):
            if line != written:
                parsed.remarks.add("lines with parentheses as words, read like -LRB- and -RRB-", number)
    if not parsed.trees:
        raise InputError(f"{source}: found no trees; expected bracketed trees such as (S (NP (DT the) (NN cat)) ...)")
    parsed.blank_lines = _blank_lines(plain, len(parsed.trees))
    return parsed


def _blank_lines(text: str, trees: int) -> list[Place]:
    """Return the blank lines among trees of one line each; [] if trees have several lines."""
    if not re.search(r"\n[ \t\r]*\n", text.strip("\n")) and not re.match(r"[ \t\r]*\n", text):
        return []
    places = []
    index = 0
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if not line or line.isspace():
            places.append(Place(index, number))
        elif line.lstrip()[0] != "(" or index == trees:
            return []
        else:
            index += 1
    return places if index == trees else []


class _Fault(Exception):
    """A token at an invalid position: its index, what it is, and what was expected there."""

    def __init__(self, token: int, found: str, expected: str) -> None:
        super().__init__(found)
        self.token = token
        self.found = found
        self.expected = expected


class _Words(dict[str, str]):
    """Written form -> word. Each form is unescaped only once."""

    def __missing__(self, written: str) -> str:
        word = _TO_READ.sub(lambda match: _READ[match.group()], written)
        self[written] = word
        return word


class _Parser(Generic[TreeType]):
    """Builds the trees of one text, and collects what is odd by the number of its token."""

    def __init__(self, text: str, source: str, make: Callable[[Parts], TreeType]) -> None:
        self.text = text
        self.source = source
        self.make = make
        self.remarks = Remarks()
        self.tokens = cast(list[Token], TOKEN.findall(text))
        self.places = TokenPlaces(text)
        self._start()

    def _start(self) -> None:
        self.trees: list[TreeType] = []
        self.words = 0
        self.failed: list[tuple[int, int]] = []  # indices of trees without words, and their first tokens
        self.empty: list[int] = []  # closing brackets of constituents without words
        self.bare: list[int] = []  # opening brackets without label inside trees
        self.leaves: list[int] = []  # words without a tag
        self.unlike: list[int] = []  # first tokens of trees whose labels look like words
        self.wide_roots = 0  # roots without label that contain several constituents

    def parse(self, labelled: bool | None) -> ParsedBrackets[TreeType]:
        """Return the trees.

        Args:
            labelled: the form; None: decided from all tokens.
        """
        self._check_order()
        try:
            evidence = "as asked"
            if labelled is None:
                labelled, evidence = self._decide()
                if labelled:
                    self._warn_of_weak_labels()
            elif labelled:
                self._build_labelled()
            if labelled:
                self._check_brackets_of_one_atom()
            else:
                self._check_no_labels(evidence)
                self._start()
                self._build_unlabelled()
        except _Fault as fault:
            (line,) = self.places.lines([fault.token])
            raise InputError(f"{self.source}, line {line}: found {fault.found}; expected {fault.expected}") from None
        failed = list(
            map(Place, [index for index, _ in self.failed], self.places.lines([first for _, first in self.failed]))
        )
        for place in failed:
            self.remarks.add("trees without words (failed parses)", place.line)
        return ParsedBrackets(self.trees, labelled, evidence, failed, remarks=self.remarks)

    def _warn_of_weak_labels(self) -> None:
        """Warn if most labels of a small file look like words, which are then labels and no words of the sentences."""
        if len(self.tokens) > _CERTAIN_TOKENS:
            return
        firsts = Counter(map(itemgetter(0), self.tokens)) + Counter(map(itemgetter(3), self.tokens))
        del firsts[""]
        like = sum(count for atom, count in firsts.items() if is_label_like(atom) and atom not in _CAPITAL_WORDS)
        if 2 * like < firsts.total():
            examples = ", ".join(map(repr, list(firsts)[:3]))
            warn_caller(
                f"{self.source}: the first words of brackets, such as {examples}, are read as labels and tags. If"
                " the brackets have no labels, choose unlabelled brackets (--brackets unlabelled)"
            )

    def _check_order(self) -> None:
        """Raise InputError for words with their positions, in the order of a discontinuous tree."""
        if is_discontinuous(self._atoms(slice(20))) and is_discontinuous(self._atoms(slice(None))):
            raise InputError(
                f"{self.source}: found words with positions, such as {self._atoms(slice(20))[0]!r}, the format"
                " discbracket of discontinuous trees; expected words in their order. Convert it first, for example with"
                " discodop treetransforms --inputfmt=discbracket --outputfmt=bracket"
            )

    def _atoms(self, part: slice) -> list[str]:
        """Return the atoms of some tokens, without labels."""
        atoms = (token[1] or token[4] for token in self.tokens[part])
        return [atom for atom in atoms if atom and atom != ")"]

    def _decide(self) -> tuple[bool, str]:
        """Return whether brackets have labels, and why. Labelled trees are built then."""
        inner = sum(map(self.text.count, ("(((", " ((", " ( (")))
        brackets = self.text.count("(")
        if _BRACKETS_PER_BARE * inner < brackets:  # otherwise only the first atoms of brackets can decide
            self._build_labelled()
            odd = len(self.bare) + self.wide_roots + len(self.leaves)
            tagged = self.words - len(self.leaves)
            if 4 * odd < tagged and 2 * self.words >= 3 * len(self.trees):
                return True, f"{tagged:,} words have a tag, {odd:,} words or brackets have none"

        # Tags and labels are the first atoms of brackets; words and further atoms are the others.
        firsts = Counter(map(itemgetter(0), self.tokens)) + Counter(map(itemgetter(3), self.tokens))
        words = Counter(map(itemgetter(1), self.tokens)) + Counter(map(itemgetter(4), self.tokens))
        del firsts[""], words[""], words[")"]
        bare = max(inner, len(self.bare) + self.wide_roots)
        labelled, evidence = has_labels(firsts, words, recurs=_BRACKETS_PER_BARE * bare < brackets)
        if labelled and not self.trees:
            self._build_labelled()
        return labelled, evidence

    def _build_labelled(self) -> None:
        """Build trees from brackets that start with a label, or with nothing."""
        words, tags, labels, starts, ends = parts = new_parts()
        stack: list[int] = []  # indices into `labels` of the open constituents
        unescaped = _Words()
        trees = self.trees
        make = self.make
        first = 0  # the first token of the outermost bracket
        empties = 0  # brackets without words in earlier trees
        for number, (tag, word, opening, label, atom) in enumerate(self.tokens):
            if word:
                if stack:
                    words.append(unescaped[word])
                    tags.append(tag)
                else:
                    trees.append(make(Parts([unescaped[word]], [tag], [], [], [])))
                    self.words += 1
            elif opening:
                if not stack:
                    first = number
                elif not label:
                    self.bare.append(number)
                stack.append(len(labels))
                labels.append(label)
                starts.append(len(words))
                ends.append(-1)
            elif not stack:
                raise _outside(number, atom)
            elif atom == ")":
                place = stack.pop()
                ends[place] = end = len(words)
                if starts[place] == end:
                    self.empty.append(number)
                if not stack:
                    if not words:
                        self.failed.append((len(trees), first))
                    elif not labels[0] and end > 1 and (len(labels) == 1 or starts[1] or ends[1] < end):
                        self.wide_roots += 1
                        self._check_labels(first, labels, tags)
                    elif end == 1 < len(labels):
                        self._check_labels(first, labels, tags)
                    if len(self.empty) > empties:
                        parts = without_empty(parts)
                        empties = len(self.empty)
                    self.words += end
                    trees.append(make(parts))
                    words, tags, labels, starts, ends = parts = new_parts()
            else:
                self.leaves.append(number)
                words.append(unescaped[atom])
                tags.append("")
        if stack:
            raise _unclosed(first, stack)

    def _build_unlabelled(self) -> None:
        """Build trees from brackets without labels: every atom is a word."""
        words, tags, labels, starts, ends = parts = new_parts()
        stack: list[int] = []
        unescaped = _Words()
        first = 0  # the first token of the outermost bracket
        opened = -1  # the last opening bracket before an atom
        for number, (tag, word, opening, label, atom) in enumerate(self.tokens):
            if word:
                starts.append(len(words))
                words += unescaped[tag], unescaped[word]
                ends.append(len(words))
                labels.append("")
                first = first if stack else number
            elif opening:
                first = first if stack else number
                stack.append(len(labels))
                labels.append("")
                starts.append(len(words))
                ends.append(-1)
                if label:
                    words.append(unescaped[label])
                    opened = number
            elif not stack:
                raise _outside(number, atom)
            elif atom == ")":
                place = stack.pop()
                ends[place] = len(words)
                if opened == number - 1 >= 0:  # around a single word
                    del labels[place:], starts[place:], ends[place:]
                    if not stack and words[0] in _FAILED_PARSES and len(words) == 1:
                        words.clear()
                elif starts[place] == len(words):
                    self.empty.append(number)
            else:
                words.append(unescaped[atom])
            if not stack:
                if not words:
                    self.failed.append((len(self.trees), first))
                self.words += len(words)
                tags += [""] * len(words)
                self.trees.append(self.make(without_empty(parts)))
                words, tags, labels, starts, ends = parts = new_parts()
        if stack:
            raise _unclosed(first, stack)
        self._remark("brackets without words", [number for number in self.empty if number - 1 not in self._roots()])

    def _roots(self) -> set[int]:
        """Return the first tokens of the trees without words, which are reported as such."""
        return {first for _, first in self.failed}

    def _check_no_labels(self, evidence: str) -> None:
        """Raise InputError for a labelled tree among trees without labels, unless the form was asked for."""
        match = _LABELLED_TREE.search(self.text) if evidence != "as asked" else None
        if match is not None:
            line = self.text.count("\n", 0, match.start()) + 1
            raise InputError(
                f"{self.source}, line {line}: found a tree with labels, {match.group()}...; expected none, because"
                f" {evidence}. Separate the trees, or choose labelled or unlabelled brackets"
            )

    def _check_brackets_of_one_atom(self) -> None:
        """Count constituents without words, and read the atom of a bracket as a word if it cannot be a label.

        Raises _Fault for a bracket of one atom that is neither.
        """
        tokens = self.tokens
        roots = self._roots()
        if self.empty:
            known = {token[0] for token in tokens} | self._labels_in_use()
            spaces = self.places.spaces([number - 1 for number in self.empty])
            changes: dict[int, tuple[int, Token]] = {}  # first token -> number of tokens, the token in their place
            dropped = []
            for number in self.empty:
                opening = number - 1
                atom = tokens[opening][3]
                if not tokens[opening][2]:  # it contains only other brackets without words
                    continue
                leading, trailing = spaces[opening]
                is_label = atom in known or (len(atom) > 1 and is_label_like(atom))
                is_dropped = not atom or is_label or (trailing and not leading)
                if opening in roots:
                    if not (is_dropped or atom.isupper()):
                        raise _one_atom(opening, atom)
                elif is_dropped:
                    dropped.append(opening)
                elif leading:
                    changes[opening] = 2, ("", atom, "", "", "")
                elif tokens[opening - 1][3] and tokens[number + 1][4] == ")":
                    changes[opening - 1] = 4, (tokens[opening - 1][3], atom, "", "", "")
                else:
                    raise _one_atom(opening, atom)
            if changes:
                atoms = [token[1] for _, token in changes.values()]
                self._remark("words in brackets of their own or without a tag", list(changes), atoms)
                self._replace(changes)
                return
            self._remark("brackets without words", dropped, [tokens[number][3] for number in dropped])
        self._remark("inner brackets without a label", self.bare)
        if 2 * len(self.unlike) <= len(self.trees):  # otherwise the labels of the file are in lower case
            self._remark("trees whose labels look like words", self.unlike)
        if len(self.leaves) * 10 < self.words:
            self._remark("words without a tag", self.leaves, [tokens[number][4] for number in self.leaves])

    def _replace(self, changes: dict[int, tuple[int, Token]]) -> None:
        """Build the trees again with some tokens replaced. The text is marked with as many tokens, for line numbers."""
        all_lines = self.places.lines(range(len(self.tokens)))
        tokens: list[Token] = []
        lines: list[int] = []
        skip = 0
        for number, token in enumerate(self.tokens):
            if skip:
                skip -= 1
                continue
            length, token = changes.get(number, (1, token))
            skip = length - 1
            tokens.append(token)
            lines.append(all_lines[number])
        self.tokens = tokens
        self.places.known_lines = lines
        self._start()
        self._build_labelled()
        self._check_brackets_of_one_atom()

    def _labels_in_use(self) -> set[str]:
        """Return the labels of brackets that contain something."""
        following = (token[4] for token in self.tokens[1:])
        pairs = zip(self.tokens, following, strict=False)
        return {token[3] for token, after in pairs if token[3] and after != ")"} | _FAILED_PARSES

    def _check_labels(self, first: int, labels: list[str], tags: list[str]) -> None:
        """Note a tree whose labels look like words, as in a tree without labels."""
        atoms = [atom for atom in (*labels, *tags) if atom]
        if 2 * sum(map(is_label_like, atoms)) < len(atoms):
            self.unlike.append(first)

    def _remark(self, what: str, numbers: Sequence[int], examples: Sequence[str] = ()) -> None:
        """Add a remark on tokens, with the lines of the first ones."""
        lines = self.places.lines(numbers[: 4 * LINES_NAMED])
        for place, line in enumerate(lines):
            self.remarks.add(what, line, examples[place] if examples and examples[place] else None)
        if rest := len(numbers) - len(lines):
            self.remarks.add(what, count=rest)


def _one_atom(number: int, atom: str) -> _Fault:
    return _Fault(
        number,
        f"({atom[:40]}), a bracket of one atom that is not a label of this file",
        "a label and a word, as in (NN cat), or -LRB- and -RRB- for parentheses in words",
    )


def _outside(number: int, atom: str) -> _Fault:
    if atom == ")":
        return _Fault(number, "a closing bracket without an opening one", "the start of a tree")
    return _Fault(number, f"{atom[:40]!r} outside brackets", "a tree that starts with an opening bracket")


def _unclosed(first: int, stack: Sequence[int]) -> _Fault:
    fault = f"a tree that starts here and is never closed ({amount(len(stack), 'bracket')} open at the end)"
    return _Fault(first, fault, "the same number of opening and closing brackets")


def without_empty(parts: Parts) -> Parts:
    """Return the parts of a tree without constituents that have no words."""
    words, tags, labels, starts, ends = parts
    with_words = [index for index, (start, end) in enumerate(zip(starts, ends, strict=True)) if start < end]
    return Parts(
        words,
        tags,
        [labels[index] for index in with_words],
        [starts[index] for index in with_words],
        [ends[index] for index in with_words],
    )


def new_parts() -> Parts:
    """Return the parts of a tree without words."""
    return Parts([], [], [], [], [])
