"""Small changes of files: readers return a result or raise an InputError, and a lost or new word is always reported.

A reader is a function of a path that returns the number of words. Its report is what it announces.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.reading import ReadingReport, collected
from syntaxlm.data.treebanks import read_treebank

FEW, MANY = 60, 5000


class Seed(NamedTuple):
    """A valid file.

    name: of the file; its suffix selects the format
    text: its content
    words: counts the words that the reader returns
    expected: counts the words of a changed text in another way; a different number must have a remark
    pieces: what is inserted
    """

    name: str
    text: str
    words: Callable[[Path], int]
    expected: Callable[[str, ReadingReport], int]
    pieces: tuple[str, ...]


def treebank_words(path: Path) -> int:
    return sum(len(sentence) for sentence in read_treebank(path))


def words_in_brackets(text: str, report: ReadingReport) -> int:
    """Count atoms, without the first one of each bracket if the file was read with labels."""
    labels = len(re.findall(r"\(\s*[^\s()]", text)) if report.form == "labelled trees" else 0
    return len(re.findall(r"[^\s()]+", text)) - labels


def words_in_columns(text: str, report: ReadingReport) -> int:
    """Count lines that are neither blank nor comments."""
    has_comments = "CoNLL-U" in report.form
    return sum(bool(line.strip()) and not (has_comments and line[0] == "#") for line in text.split("\n"))


BRACKET_PIECES = ("(", ")", "()", "( ", "(X ", "(())", "(ROOT)\n", "\n", " ", "(a)", "(NN b)", "x", "\\(", "-LRB-")
COLUMN_PIECES = ("\t", "_", "0", "99", "1-2", "1.1", "\n", "\n\n", "#", "# text = x\n", "-1", " ")
SEEDS = (
    Seed(
        "penn.mrg",
        "( (S (NP-SBJ (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (NNS mats)))) (. .)) )\n"
        "(S (NP (PRP It)) (VP (VBD slept)))\n(S (-LRB- -LRB-) (NN x) (-RRB- -RRB-))\n",
        treebank_words,
        words_in_brackets,
        BRACKET_PIECES,
    ),
    Seed(
        "output.mrg",
        "(X the (X old cat))\n(X (X the dog) sleeps)\n(X word)\n",
        treebank_words,
        words_in_brackets,
        BRACKET_PIECES,
    ),
    Seed(
        "bare.mrg",
        "((the cat) (sat (on mats)))\n(word)\n(The (dog (slept well)))\n",
        treebank_words,
        words_in_brackets,
        BRACKET_PIECES,
    ),
    Seed(
        "ud.conllu",
        "# sent_id = one\n1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2-3\tcat's\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_\n3\t's\tbe\tAUX\tVBZ\t_\t0\troot\t_\t_\n\n"
        "1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n",
        treebank_words,
        words_in_columns,
        COLUMN_PIECES,
    ),
    Seed("heads.dp", "The\tDT\t2\ncat\tNN\t0\n\nGo\tVB\t0\n", treebank_words, words_in_columns, COLUMN_PIECES),
)


def mutations(seed: Seed, number: int) -> Iterator[str]:
    """Yield texts with one to three changes: characters left out, doubled or exchanged, pieces inserted."""
    source = random.Random(f"{seed.name} 1")
    for _ in range(number):
        text = seed.text
        for _ in range(source.choice((1, 1, 1, 2, 3))):
            start = source.randrange(len(text) + 1)
            end = min(len(text), start + source.choice((1, 1, 2, 5)))
            change = source.choice(("insert", "delete", "double", "exchange"))
            middle = {
                "insert": source.choice(seed.pieces) + text[start:end],
                "delete": "",
                "double": text[start:end] * 2,
                "exchange": source.choice(seed.pieces),
            }[change]
            text = text[:start] + middle + text[end:]
        yield text


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_changed_files_are_read_as_reported_or_refused(seed, number, tmp_path):
    path, refused = tmp_path / seed.name, 0
    for text in mutations(seed, number):
        path.write_text(text, encoding="utf-8")
        with collected() as reports:
            words, message = _read(seed, path)
        if words is None:
            assert seed.name in message, text
            refused += 1
            continue
        (report,) = reports
        assert words == report.counts["words"], text
        assert words == seed.expected(text, report) or report.remarks, text
    assert refused < number


def _read(seed: Seed, path: Path) -> tuple[int | None, str]:
    """Return the number of words, or the message of the error."""
    try:
        return seed.words(path), ""
    except InputError as error:
        return None, str(error)
