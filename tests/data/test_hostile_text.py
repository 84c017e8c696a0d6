"""Damaged text and treebanks, and files that are no text: refused with the place, in bounded memory and time."""

from __future__ import annotations

import io
import os
import threading

import pytest

from syntaxlm.core import text_files
from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import read_lines, read_whole_text
from syntaxlm.data.running_text import read_paragraphs
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees.conllu import read_conllu
from syntaxlm.trees.preprocessing import PREPROCESSINGS, preprocess
from syntaxlm.trees.tree import from_nltk, parse_brackets, read_brackets

READERS = [lambda path: list(read_lines(path)), read_whole_text, read_brackets, read_conllu, read_treebank]
NAMES = ["lines", "text", "brackets", "conllu", "treebank"]


@pytest.mark.parametrize("reader", READERS, ids=NAMES)
@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("a b\n".encode("utf-16"), "line 1: found the byte order mark of UTF-16; expected UTF-8 text. Convert it,"),
        ("a b\n".encode("utf-16-be"), "line 1: found a zero byte at offset 0"),
        ("a b\n".encode("utf-32"), "line 1: found the byte order mark of UTF-32; expected UTF-8 text"),
        ("友情".encode("utf-16"), "line 1: found the byte order mark of UTF-16; expected UTF-8 text"),
        (b"caf\xe9\n", "line 1: found byte 0xe9 at offset 3"),
        (b"\xef\xbb\xbf# good\nb\xe4d\n", "line 2: found byte 0xe4 at offset 11"),
        (b"# good\ncut \xe2\x82", "line 2: found byte 0xe2 at offset 11"),
        (b"\x93quote\x94\n", "line 1: found byte 0x93 at offset 0"),
        (b"a\xed\xa0\x80b\n", "line 1: found byte 0xed at offset 1"),  # half of a surrogate pair
        (b"\xc0\x80\n", "line 1: found byte 0xc0 at offset 0"),  # a zero byte in two bytes
        (b"# a\n\0\n", "line 2: found a zero byte at offset 4"),
    ],
)
def test_text_that_is_no_utf8_is_refused_with_line_and_byte(tmp_path, reader, content, found):
    (tmp_path / "file.txt").write_bytes(content)
    with pytest.raises(InputError) as error:
        reader(tmp_path / "file.txt")
    assert f"file.txt, {found}" in str(error.value)


@pytest.mark.parametrize("reader", READERS[:4], ids=NAMES[:4])
@pytest.mark.parametrize(
    ("path", "found"),
    [(".", "Is a directory"), ("/dev/zero", "zero byte at offset 0"), ("/dev/urandom", "expected UTF-8")],
)
def test_folders_and_devices_are_refused_at_once(reader, path, found):
    if not os.path.exists(path):
        pytest.skip(f"no {path} on this system")
    with pytest.raises(InputError, match=found):
        reader(path)


@pytest.fixture
def pipe(tmp_path):
    """Makes a named pipe into which a thread writes a text some times."""
    threads = []

    def make(text: bytes, times: int):
        path = tmp_path / "pipe"
        os.mkfifo(path)

        def write():
            try:
                with open(path, "wb") as file:
                    for _ in range(times):
                        file.write(text)
            except BrokenPipeError:
                pass

        threads.append(threading.Thread(target=write, daemon=True))
        threads[0].start()
        return path

    yield make
    for thread in threads:
        thread.join(10)


def test_a_named_pipe_is_read_once_like_a_file(pipe):
    assert len(read_treebank(pipe(b"(S (A b))\n", 3))) == 3


def test_what_is_read_as_a_whole_from_a_pipe_has_a_limit(pipe):
    with pytest.raises(InputError, match="pipe: more than 1 MiB after decompression"):
        read_whole_text(pipe(b"(S (A b))\n" * 1000, 1000), 2**20)


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    (tmp_path / "a.mrg").write_text("(S (A b))\n")
    monkeypatch.setattr(text_files, "memory_size", lambda: 9)
    with pytest.raises(InputError, match=r"a\.mrg: has 0\.0 GiB and is read as a whole; .* Split it"):
        read_brackets(tmp_path / "a.mrg")
    assert list(read_lines(tmp_path / "a.mrg")) == [(1, "(S (A b))")]  # line by line


def test_empty_lines_and_long_lines_are_read(tmp_path):
    (tmp_path / "empty.conllu").write_text("\n" * 100_000)
    with pytest.raises(InputError, match="found no sentence"):
        read_treebank(tmp_path / "empty.conllu")
    (tmp_path / "long.txt").write_text("a b " * 2_500_000)
    assert [len(line) for _, line in read_lines(tmp_path / "long.txt")] == [10**7]


def nested(depth: int) -> str:
    return "(X (N a) " * depth + "(N b)" + ")" * depth


@pytest.mark.parametrize("depth", [20_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_deeply_nested_trees_are_read_preprocessed_and_written(depth):
    (tree,) = trees = parse_brackets(nested(depth))
    assert len(tree.constituents) == depth
    assert parse_brackets(str(tree)) == trees
    assert preprocess(trees, PREPROCESSINGS["none"], "").trees == trees
    with pytest.raises(InputError, match="too large for a picture; expected at most 20,000"):
        tree_picture(tree).svg()
    if depth == 20_000:
        assert from_nltk(tree.to_nltk()) == tree


def test_a_deep_chain_over_one_word_is_not_drawn_in_a_terminal():
    (tree,) = parse_brackets("(X " * 20_000 + "(N a)" + ")" * 20_000)
    output = io.StringIO()
    tree.pretty_print(output)
    assert output.getvalue() == "(a tree of 20000 constituents is too deep to draw here)\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(S (A a)", "line 1: found a tree that starts here and is never closed (1 bracket open at the end)"),
        ("(S (A a)))", "line 1: found a closing bracket without an opening one"),
        ("\n))((", "line 2: found a closing bracket without an opening one"),
        ("()", "line 1: found a tree without words"),
        ("(S (A a)) x", "line 1: found 'x' outside brackets"),
        ("(" * 200_000, "found a tree that starts here and is never closed (200,000 brackets"),
        (" \n\t", "found no trees"),
    ],
)
def test_unbalanced_brackets_and_empty_trees_are_refused_by_line(text, found):
    with pytest.raises(InputError) as error:
        parse_brackets(text, source="a.mrg")
    assert found in str(error.value)


def test_constituents_without_words_are_dropped():
    (tree,) = parse_brackets("(S (NP) (VP (A a) (NP (ADJP))))", labelled=True)
    assert tree.words == ("a",)
    assert [one.label for one in tree.constituents] == ["S", "VP"]


def row(number: object, head: object, word: str = "w") -> str:
    return f"{number}\t{word}\t_\tX\t_\t_\t{head}\tdep\t_\t_\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (row(1, 9), "line 1, sentence 1: found head 9 of 'w'; expected 0 to 1"),
        (row(1, -1), "found the head '-1'; expected a number (0 for the root)"),
        (row(1, "9" * 30), "expected a number (0 for the root)"),
        (row(2, 0), "found the word id '2'; expected 1"),
        (row(1, 0, ""), "found an empty word form"),
        (row("1-2", "_"), "found no sentence"),
    ],
)
def test_heads_out_of_range_and_wrong_ids_are_refused_by_line(tmp_path, text, found):
    (tmp_path / "a.conllu").write_text(text)
    with pytest.raises(InputError) as error:
        read_conllu(tmp_path / "a.conllu")
    assert found in str(error.value)


@pytest.mark.parametrize("word", ["!" * 50_000, "(" * 50_000, "." * 50_000 + "x", "''" * 25_000, "a" + "'s" * 25_000])
def test_words_of_thousands_of_marks_are_split_in_linear_time(word):
    pieces = TreebankStyle("split", "split")(f"the {word}").split()
    assert "".join(pieces) == "the" + word


@pytest.mark.parametrize(
    ("encoding", "content", "found"),
    [
        ("utf-7", b"a +2AA- b", "cannot be read as utf-7"),  # half of a surrogate pair
        ("punycode", b"\xff\xff", "cannot be read as punycode"),
        ("latin-1", "a b".encode("utf-16"), "found a zero character; expected text in latin-1"),
        ("rot13", b"a", "cannot be read as rot13"),
    ],
)
def test_books_in_another_encoding_than_the_given_one_are_refused(tmp_path, encoding, content, found):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=found):
        read_paragraphs(tmp_path / "a.txt", encoding=encoding)
