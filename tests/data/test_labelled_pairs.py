"""Labelled sentence pairs, and those made from the order of a text."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.labelled_pairs import LabelledPair, read_labelled_pairs, write_next_sentence_pairs
from syntaxlm.text.normaliser import Normaliser

PAIRS = [LabelledPair("a dog", "a cat", "yes"), LabelledPair("it rains", "no", "no")]


@pytest.mark.parametrize(
    "text",
    [
        "a dog\ta cat\tyes\nit rains\tno\tno\n",
        "sentence1\tsentence2\tlabel\na dog\ta cat\tyes\tmore\n\nit rains\tno\tno\n",
        "id\tlabel\tsentence2\tsentence1\n1\tyes\ta cat\ta dog\n2\tno\tno\tit rains\n",
    ],
    ids=["without header", "with header", "by name"],
)
def test_pairs_are_read_with_and_without_a_header(tmp_path, text):
    (tmp_path / "pairs.tsv").write_text(text)
    assert read_labelled_pairs(tmp_path / "pairs.tsv", Normaliser()) == PAIRS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tyes\na\tb\n", "line 2: number of cells 2; expected at least 3"),
        ("a\tb\tyes\n!\tb\tyes\n", "line 2: sentence1 is '!', which has no word after normalisation"),
        ("a\tb\tmaybe\n", "line 1: found the label 'maybe'; expected one of the training file's: no, yes"),
        ("a\tb\t\n", "line 1: the label is empty"),
        ("sentence1\tsentence2\tlabel\n", "found no pair"),
        ("label\tlabel\tsentence1\tsentence2\n", "line 1: found several columns 'label'; expected one"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(InputError, match=rf"pairs\.tsv.*{message}"):
        read_labelled_pairs(tmp_path / "pairs.tsv", Normaliser(drop_punctuation=True), ["no", "yes"])


def test_next_sentence_pairs_are_of_separate_parts_of_the_text(tmp_path):
    lines = [f"sentence {number}" for number in range(400)]
    lines[100] = ""
    lines[200] = "long " * 41
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    summary = write_next_sentence_pairs(tmp_path / "text.txt", tmp_path / "pairs", seed=3)
    parts = {
        name: read_labelled_pairs(tmp_path / "pairs" / f"{name}.tsv", Normaliser())
        for name in ("train", "valid", "test")
    }
    found = {name: len(pairs) for name, pairs in parts.items()}
    assert found == {"train": 355, "valid": 19, "test": 19}
    assert summary.to_dict()["train"] == 355
    train, valid, test = ({side for pair in pairs for side in (pair.left, pair.right)} for pairs in parts.values())
    assert not train & valid
    assert not valid & test
    assert 120 < [pair.label for pair in parts["train"]].count("next") < 235
    for pair in parts["train"]:
        left, right = (int(side.split()[1]) for side in (pair.left, pair.right))
        assert (right == left + 1) == (pair.label == "next")
    with pytest.raises(InputError, match=r"no pair of adjacent sentences of up to 1 words for train\.tsv in 400 lines"):
        write_next_sentence_pairs(tmp_path / "text.txt", tmp_path / "none", 1)
