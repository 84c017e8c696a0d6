"""Train, evaluate and parse on text as the world writes it: no line is lost, no word is changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syntaxlm import cli
from syntaxlm.core.files import read_text, split_lines
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.data.corpora import read_lines
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.trees.tree import parse_brackets, read_brackets

LINES = [
    "👩\u200d👩\u200d👧 👍🏽 sees the 🇩🇪 cat",
    "e\u0301te\u0301 été क\u094dषि ก\u0e47 \u0301 a\u0323\u0307",  # combining marks, one with nothing to combine with
    "zero\u200bwidth co\u00adop a\u200db \u2060x y\ufeffz",  # U+200B parts words, the others are invisible in them
    "tab\there no\u00a0break wide\u3000space line\u2028sep next\u0085line cr\rhere fs\x1cgs\x0bvt\x0cff",
    "مرحبا שלום \u202eabc \ue000 \U0010ffff 𝕳𝖊 ﬁ ß İ ½ ² ٣",
    "",
    "( ) [ ] { } \\/ \\* / * -- <unk> <s> </s> N _ \\n #",
    " \t ",
    "cat",
    "the old cat sleeps " + "x" * 1000,
]
WORDS = [line.replace("\u200b", " ").split() for line in LINES]


def odd(line_end: str = "\r\n", mark: str = "\ufeff") -> bytes:
    return (mark + "".join(line + line_end for line in LINES)).encode()


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text file, and a model trained for a few steps on it by the command."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd.txt").write_bytes(odd())
    texts = {part: str(folder / "odd.txt") for part in ("train", "valid", "test")}
    (folder / "recipe.yaml").write_text(yaml_text(toy.recipe_data("prpn", text=texts)))
    assert cli.main(["train", str(folder / "recipe.yaml"), "--output", str(folder / "model")]) == 0
    return folder


def parsed(folder: Path, text: Path, *options: str) -> list[str]:
    """The lines that the command writes to a file."""
    output = folder / "out.txt"
    assert cli.main(["parse", str(folder / "model"), str(text), "-o", str(output), *options]) == 0
    return output.read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def test_the_vocabulary_has_every_word_and_none_with_white_space(folder):
    known = set(json.loads((folder / "model" / "vocabulary.json").read_text())["tokens"])
    assert known >= {"👩\u200d👩\u200d👧", "été", "coop", "ﬁ", "zero", "sep", "here", "½", "x" * 1000}
    assert not {word for word in known if word.split() != [word]}


def test_words_are_returned_as_written(folder):
    rows = [json.loads(line) for line in parsed(folder, folder / "odd.txt", "--format", "json")]
    assert [row["words"] if row else [] for row in rows] == WORDS
    trees = parsed(folder, folder / "odd.txt")
    assert [list(parse_brackets(tree, labelled=True)[0].words) if tree else [] for tree in trees[:-1]] == WORDS[:-1]
    latex = "\n".join(parsed(folder, folder / "odd.txt", "--format", "latex"))
    assert latex.count(r"\begin{forest}") == sum(map(bool, WORDS))


@pytest.mark.parametrize(("line_end", "mark"), [("\n", ""), ("\n", "\ufeff"), ("\r\n", "")])
def test_line_endings_and_byte_order_mark_do_not_change_trees_or_figures(folder, tmp_path, capsys, line_end, mark):
    (tmp_path / "odd.txt").write_bytes(odd(line_end, mark))
    assert parsed(folder, tmp_path / "odd.txt") == parsed(folder, folder / "odd.txt")
    figures = []
    for path in (tmp_path / "odd.txt", folder / "odd.txt"):
        capsys.readouterr()
        assert cli.main(["evaluate", "perplexity", str(folder / "model"), str(path), "--json"]) == 0
        figures.append(json.loads(capsys.readouterr().out) | {"source": ""})
    heads = [one.pop("run") for one in figures]
    assert len({head["version"] for head in heads}) == 1
    readings = [one.pop("readings")[-1] | {"source": ""} for one in figures]
    assert readings[0] == readings[1]
    assert figures[0] == figures[1]
    assert figures[0]["sentences"] == sum(map(bool, WORDS))
    assert figures[0]["unknown"] == 3  # <unk>, and what looks like the ends of a sentence


@pytest.mark.parametrize(
    "content", [b"", b"a", b"a\n", b"a\r\n\r\n", b"a\rb\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", odd()]
)
def test_all_line_readers_split_lines_in_the_same_way(tmp_path, content):
    (tmp_path / "text.txt").write_bytes(content)
    lines = split_lines(read_text(tmp_path / "text.txt"))
    assert [line for _, line in read_lines(tmp_path / "text.txt")] == lines
    assert [number for number, _ in read_lines(tmp_path / "text.txt")] == list(range(1, len(lines) + 1))
    end = b"\n" if b"\n" in content else b"\r"
    assert len(lines) == content.count(end) + (content.removeprefix(b"\xef\xbb\xbf")[-1:] not in (end, b""))


@pytest.mark.parametrize("suffix", [".mrg", ".conllu"])
def test_line_endings_and_byte_order_mark_do_not_change_a_treebank(tmp_path, suffix):
    words = [word for line in WORDS[:3] for word in line]
    if suffix == ".mrg":
        lines = ["(S " + " ".join(f"(A {word})" for word in words), "  (B b))", "(S (A a))"]
    else:
        lines = [f"{place}\t{word}\t_\tX\t_\t_\t0\tdep\t_\t_" for place, word in enumerate(words, 1)]
        lines += ["", *lines[:1], ""]
    treebanks = []
    for line_end, mark in (("\n", ""), ("\r\n", "\ufeff")):
        path = tmp_path / f"bank{suffix}"
        path.write_bytes((mark + "".join(line + line_end for line in lines)).encode())
        treebanks.append(read_treebank(path).sentences)
    assert treebanks[0] == treebanks[1]
    assert len(treebanks[0]) == 2
    assert list(treebanks[0][0].words[: len(words)]) == words


def test_a_treebank_of_unusual_words_is_scored_and_reported_by_sentence(folder, tmp_path):
    words = [word for line in WORDS[:5] for word in line] + ["a\u2028b", "c\u0085d", "e\u00a0f"]
    (tmp_path / "gold.mrg").write_text("(S " + " ".join(f"(X {word})" for word in words) + ")\n", encoding="utf-8")
    rows = tmp_path / "rows.jsonl"
    arguments = ["evaluate", "parse", str(folder / "model"), str(tmp_path / "gold.mrg"), "--preprocessing", "none"]
    assert cli.main([*arguments, "--details", str(rows)]) == 0
    (row,) = (json.loads(line) for line in rows.read_bytes().decode("utf-8").removesuffix("\n").split("\n"))
    assert row["words"] == words
    for name in ("predicted", "gold"):
        assert list(parse_brackets(row[name], labelled=True)[0].words) == words


@pytest.mark.long
def test_a_line_of_a_megabyte_is_scored_and_parsed(folder, tmp_path, capsys):
    """One line of long words, and one word that is a line."""
    words = [f"{place:x}" + "é" * 250 for place in range(2000)]
    (tmp_path / "long.txt").write_text(" ".join(words) + "\n" + "y" * 2**20 + "\ncat\n", encoding="utf-8")
    assert (tmp_path / "long.txt").stat().st_size > 2 * 10**6
    parsed(folder, tmp_path / "long.txt")
    trees = read_brackets(folder / "out.txt")
    assert [len(tree) for tree in trees] == [2000, 1, 1]
    assert list(trees[0].words) == words
    capsys.readouterr()
    assert cli.main(["evaluate", "perplexity", str(folder / "model"), str(tmp_path / "long.txt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 2005


@pytest.mark.parametrize("command", [["parse"], ["evaluate", "perplexity"]])
def test_a_zero_byte_is_reported_with_line_and_position(folder, tmp_path, capsys, command):
    (tmp_path / "odd.txt").write_bytes(b"a cat\r\na\0dog\n")
    assert cli.main([*command, str(folder / "model"), str(tmp_path / "odd.txt")]) == 2
    assert "odd.txt, line 2: found a zero byte at offset 8" in capsys.readouterr().err
