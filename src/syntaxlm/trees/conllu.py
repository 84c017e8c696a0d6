"""Dependency trees in files: CoNLL-U read and written, WSJ's word-tag-head columns read; what is wrong with a tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from syntaxlm.errors import InputError
from syntaxlm.files import read_text, split_lines, write_text
from syntaxlm.trees.tree import DependencyTree

_COLUMNS = 10  # of a CoNLL-U word line: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC
_NOT_A_WORD = re.compile(r"[0-9]+[-.][0-9]+")  # a multiword range, 1-2, or an empty node, 1.1
_NUMBER = re.compile(r"[0-9]{1,9}")
_SENTENCE_ID = re.compile(r"#\s*sent_id\s*=\s*(.*)")


class _Row(NamedTuple):
    """One word of a file."""

    line: int
    word: str
    tag: str
    head: int
    label: str


def read_conllu(path: str | Path) -> list[DependencyTree]:
    """The dependency trees of a CoNLL-U file (.gz too): FORM, UPOS (XPOS where UPOS is _), HEAD, DEPREL, sent_id.

    Multiword ranges and empty nodes are skipped.  Trees may be non-projective, have several roots or none, even cycles:
    see `dependency_faults`.  Raises InputError naming file, line and sentence.
    """
    trees: list[DependencyTree] = []
    rows: list[_Row] = []
    name = ""
    for number, line in _lines(path):
        if not line.strip():
            if rows:
                trees.append(_tree(rows, name, path, len(trees) + 1))
            name, rows = "", []
        elif line.startswith("#"):
            found = _SENTENCE_ID.match(line)
            name = found.group(1).strip() if found else name
        else:
            place = _place(path, number, len(trees) + 1, name)
            row = _conllu_row(line, number, len(rows) + 1, place)
            if row:
                rows.append(row)
    return _checked(trees, path, "word lines of ten tab-separated columns")


def _conllu_row(line: str, number: int, position: int, place: str) -> _Row | None:
    columns = line.split("\t")
    if len(columns) != _COLUMNS:
        raise InputError(f"{place}: found {len(columns)} tab-separated columns, expected {_COLUMNS}")
    identity, word, _, tag, other_tag, _, head, label, _, _ = columns
    if _NOT_A_WORD.fullmatch(identity):
        return None
    if not _NUMBER.fullmatch(identity) or int(identity) != position:
        raise InputError(f"{place}: found the word id {identity[:40]!r}, expected {position} (ids count from 1)")
    if not word:
        raise InputError(f"{place}: found an empty word form, expected a word")
    tag = tag if tag != "_" else other_tag
    return _Row(number, word, "" if tag == "_" else tag, _head(head, place), "" if label == "_" else label)


def read_dp(path: str | Path) -> list[DependencyTree]:
    """The dependency trees of a file of tab-separated word, tag, head (0: root), perhaps label; blank lines between.

    Raises InputError naming file and line.
    """
    trees: list[DependencyTree] = []
    rows: list[_Row] = []
    for number, line in _lines(path):
        if not line.strip():
            if rows:
                trees.append(_tree(rows, "", path, len(trees) + 1))
            rows = []
            continue
        place = _place(path, number, len(trees) + 1, "")
        columns = line.split("\t")
        if len(columns) not in (3, 4):
            raise InputError(
                f"{place}: found {len(columns)} tab-separated columns, expected 3 (word, tag, head) or 4 (and a label)"
            )
        if not columns[0]:
            raise InputError(f"{place}: found an empty word, expected a word")
        rows.append(
            _Row(number, columns[0], columns[1], _head(columns[2], place), columns[3] if len(columns) == 4 else "")
        )
    return _checked(trees, path, "lines of word, tag and head, tab-separated")


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1), and a blank one at the end, so that every sentence is closed by one."""
    yield from enumerate([*split_lines(read_text(path)), ""], 1)


def _place(path: str | Path, line: int, sentence: int, name: str) -> str:
    return f"{path}, line {line}, sentence {name or sentence}"


def _head(text: str, place: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise InputError(f"{place}: found the head {text[:40]!r}, expected a number (0 for the root)")
    return int(text)


def _tree(rows: list[_Row], name: str, path: str | Path, sentence: int) -> DependencyTree:
    for row in rows:
        if row.head > len(rows):
            place = _place(path, row.line, sentence, name)
            raise InputError(f"{place}: found head {row.head} of {row.word!r}, expected 0 to {len(rows)}")
    _, words, tags, heads, labels = zip(*rows, strict=True)
    return DependencyTree(words, tags, heads, labels, name)


def _checked(trees: list[DependencyTree], path: str | Path, expected: str) -> list[DependencyTree]:
    if not trees:
        raise InputError(f"{path}: no sentence was found, expected {expected}")
    return trees


def write_conllu(trees: Iterable[DependencyTree], path: str | Path) -> None:
    """Writes FORM, UPOS, HEAD, DEPREL and the sentence id; the file appears whole or not at all.

    Raises InputError naming the sentence whose words, tags or labels cannot stand in a column.
    """
    lines: list[str] = []
    for number, tree in enumerate(trees, 1):
        if not tree.words:
            raise InputError(f"{path}, sentence {tree.name or number}: found no words, expected at least one")
        if tree.name:
            lines.append(f"# sent_id = {tree.name}")
        for position, (word, tag, head, label) in enumerate(
            zip(tree.words, tree.tags, tree.heads, tree.labels, strict=True), 1
        ):
            columns = f"{position}\t{word}\t_\t{tag or '_'}\t_\t_\t{head}\t{label or '_'}\t_\t_"
            if not word or columns.count("\t") != _COLUMNS - 1 or "\n" in columns or "\r" in columns:
                found = f"found {(word, tag, label)} as word, tag, label"
                raise InputError(f"{path}, sentence {tree.name or number}: {found}, expected no tabs or line ends")
            lines.append(columns)
        lines.append("")
    write_text("".join(line + "\n" for line in lines), path)


def is_projective(tree: DependencyTree) -> bool:
    """Whether no two arcs cross, the arc from position 0 to each root among them."""
    arcs = sorted((min(head, word), -max(head, word)) for word, head in enumerate(tree.heads, 1))
    open_ends: list[int] = []  # right ends of the arcs around the present place, inner ones last
    for left, negative_right in arcs:
        while open_ends and open_ends[-1] <= left:
            open_ends.pop()
        if open_ends and open_ends[-1] < -negative_right:
            return False
        open_ends.append(-negative_right)
    return True


def dependency_faults(tree: DependencyTree) -> list[str]:
    """What keeps a dependency tree from being one projective tree: no root, several roots, a cycle, crossing arcs."""
    faults: list[str] = []
    roots = [position for position, head in enumerate(tree.heads, 1) if head == 0]
    if not roots:
        faults.append("no root")
    elif len(roots) > 1:
        faults.append(f"several roots: words {', '.join(map(str, roots))}")
    cycle = _cycle(tree.heads)
    if cycle:
        faults.append(f"a cycle: words {', '.join(map(str, cycle))}")
    if not is_projective(tree):
        faults.append("non-projective: arcs cross")
    return faults


def _cycle(heads: tuple[int, ...]) -> list[int]:
    """The words (from 1) of one cycle, each followed by its head; empty if there is none."""
    walked = [0] * (len(heads) + 1)  # by which word's walk to the root a place was first met
    for word in range(1, len(heads) + 1):
        place = word
        while place and not walked[place]:
            walked[place] = word
            place = heads[place - 1]
        if place and walked[place] == word:
            cycle = [place]
            while heads[cycle[-1] - 1] != place:
                cycle.append(heads[cycle[-1] - 1])
            return cycle
    return []
