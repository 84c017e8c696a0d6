import random
import sys

import nltk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.trees.bounds import right
from syntaxlm.trees.spans import SpanSets, trees_of
from syntaxlm.trees.tree import (
    Constituent,
    Tree,
    format_brackets,
    from_nltk,
    parse_brackets,
    read_brackets,
    write_brackets,
)

from .enumeration import random_tree

DEPTH = 10_000


def spans(tree: Tree) -> list[tuple[str, int, int]]:
    return [tuple(span) for span in tree.constituents]


def test_a_bracket_of_a_label_and_one_bare_leaf_is_a_tag():
    (tree,) = parse_brackets("(S (NP (NN dogs)) (VP bark))")
    assert tree == Tree(("dogs", "bark"), ("NN", "VP"), (Constituent("S", 0, 2), Constituent("NP", 0, 1)))


def test_bare_leaves_are_words_next_to_constituents():
    (tree,) = parse_brackets("(X the (X old cat))")
    assert tree.words == ("the", "old", "cat")
    assert tree.tags == ("", "", "")
    assert spans(tree) == [("X", 0, 3), ("X", 1, 3)]


def test_an_empty_wrapper_and_line_ends_and_a_byte_order_mark_are_read(tmp_path):
    file = tmp_path / "wild.mrg"
    file.write_bytes("\ufeff\r\n( (S\r\n\t(NP (NN a) )\r\n (VP (V b))))(ROOT (X c)) (TOP (S (X d) (X e)))\r\n".encode())
    first, second, third = read_brackets(file)
    assert spans(first) == [("", 0, 2), ("S", 0, 2), ("NP", 0, 1), ("VP", 1, 2)]
    assert spans(second) == [("ROOT", 0, 1)]
    assert spans(third) == [("TOP", 0, 2), ("S", 0, 2)]


def test_byte_order_marks_of_joined_files_are_no_words(tmp_path):
    file = tmp_path / "joined.mrg"
    file.write_bytes("\ufeff(S (NN a) (VB b))\n\ufeff(S (NN c) (VB d))\n".encode())
    assert [tree.words for tree in read_brackets(file)] == [("a", "b"), ("c", "d")]


def test_escapes_are_undone_in_words_and_stay_in_tags():
    (tree,) = parse_brackets(r"(S (-LRB- -LRB-) (NN 1\/2) (: \*) (-RRB- -RCB-) (LS 1-RRB-))")
    assert tree.words == ("(", "1/2", "*", "}", "1)")
    assert tree.tags[0] == "-LRB-"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("((the cat) (sat down))", [("", 0, 4), ("", 0, 2), ("", 2, 4)]),
        ("(the (cat sat)) ((a b) c)", [("", 0, 3), ("", 1, 3)]),
        ("(word) (the (cat sat))", []),
        ("((the) ((cat) (sat)))", [("", 0, 3), ("", 1, 3)]),
    ],
)
def test_files_without_labels_are_recognised(text, expected):
    tree = parse_brackets(text)[0]
    assert spans(tree) == expected
    assert set(tree.tags) == {""}
    assert "cat" in tree.words or tree.words == ("word",)


def test_labels_can_be_set_to_absent_or_present():
    assert parse_brackets("(the (cat sat))", labelled=False)[0].words == ("the", "cat", "sat")
    assert parse_brackets("(S ( (A a) (B b)))", labelled=True)[0].words == ("a", "b")


def test_a_bracket_with_nothing_but_a_label_is_dropped():
    (tree,) = parse_brackets('(S (NP (N a) (»" )) (-- ) (V b))')
    assert tree.words == ("a", "b")
    assert spans(tree) == [("S", 0, 2), ("NP", 0, 1)]


def test_lines_are_read_as_a_file_is():
    trees = read_brackets(["(S (A a)\n", " (B b))\n", "(S (C c) (D d))"])
    assert [tree.words for tree in trees] == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("tags", [True, False])
def test_written_trees_are_read_back(tmp_path, tags):
    source = random.Random(1)
    trees = [random_tree(source.randint(1 if tags else 2, 9), source, tags) for _ in range(300)]
    write_brackets(trees, tmp_path / "trees.mrg")
    for written, read in zip(trees, read_brackets(tmp_path / "trees.mrg"), strict=True):
        assert read.words == written.words
        if tags:
            assert read == written
        long, read_back = ([span for span in tree.constituents if span[2] - span[1] > 1] for tree in (written, read))
        assert read_back == long
    assert [file.name for file in tmp_path.iterdir()] == ["trees.mrg"]


def test_trees_written_without_labels_are_read_back(tmp_path):
    source = random.Random(2)
    trees = [random_tree(source.randint(1, 9), source) for _ in range(300)]
    write_brackets(trees, tmp_path / "trees.txt", labelled=False)
    for written, read in zip(trees, read_brackets(tmp_path / "trees.txt", labelled=False), strict=True):
        assert read.words == written.words
        assert [span[1:] for span in read.constituents] == [s[1:] for s in written.constituents if s[2] - s[1] > 1]


def test_induced_trees_have_one_written_form():
    trees = trees_of(right([3, 1, 2]), [["the", "old", "cat"], ["word"], ["a", "b"]])
    assert [format_brackets(tree) for tree in trees] == ["(X the (X old cat))", "(X word)", "(X a b)"]


@pytest.mark.parametrize("leaf", ["w{}", "(N w{})"])
@pytest.mark.parametrize("labelled", [True, False])
def test_deep_trees_need_no_recursion(labelled, leaf):
    assert sys.getrecursionlimit() < DEPTH
    label = "X " if labelled else ""
    leaf = leaf if labelled else "w{}"
    text = "".join(f"({label}{leaf.format(i)} " for i in range(DEPTH)) + leaf.format("last") + ")" * DEPTH
    (tree,) = parse_brackets(text, labelled)
    assert len(tree.constituents) == DEPTH
    assert parse_brackets(format_brackets(tree, labelled), labelled) == [tree]
    assert from_nltk(tree.to_nltk()) == Tree(tree.words, tree.tags, tree.constituents)
    assert SpanSets.of([tree]).sentence(0) == right([DEPTH + 1]).sentence(0)


def test_trees_are_converted_to_and_from_nltk():
    source = random.Random(3)
    for _ in range(100):
        tree = random_tree(source.randint(1, 9), source)
        assert from_nltk(tree.to_nltk()) == tree
    text = "(S (NP (DT the) (NN cat)) sat (VP (RB down)))"
    assert parse_brackets(text)[0].to_nltk() == nltk.Tree.fromstring(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (A a) (B b))\n(S (A a)\n", "file.mrg, line 2: found a tree that starts here and is never closed"),
        ("(S (A a))\n\n(S (A a)))", "file.mrg, line 3: found a closing bracket"),
        ("(S (A a) b)\nword", "file.mrg, line 2: found 'word' outside brackets"),
        ("(S (A a) b)\n()", "file.mrg, line 2: found a tree without words"),
        (" \n", "file.mrg: found no trees"),
    ],
)
def test_errors_have_file_and_line(tmp_path, text, message):
    file = tmp_path / "file.mrg"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_brackets(file)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"(S (A a))\n(S (A \xff))", "line 2: found byte 0xff at offset 16"),
        (b"\xef\xbb\xbf(S (A \xff))", "line 1: found byte 0xff at offset 9"),
        (b"(S\n\x00\x01", "line 2: found a zero byte at offset 3"),
    ],
)
def test_binary_files_raise_an_error_with_their_name(tmp_path, content, message):
    (tmp_path / "file.mrg").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_brackets(tmp_path / "file.mrg")


def test_missing_files_and_folders_raise_an_error_with_their_name(tmp_path):
    with pytest.raises(InputError, match=r"none\.mrg: cannot be read"):
        read_brackets(tmp_path / "none.mrg")
    with pytest.raises(InputError, match="cannot be read"):
        read_brackets(str(tmp_path))
    with pytest.raises(InputError, match="cannot be written"):
        write_brackets(parse_brackets("(S a b)"), tmp_path / "none" / "file.mrg")


@pytest.mark.parametrize("words", [("a b", "c"), ("", "c"), ("a\n", "c"), ()])
def test_words_that_brackets_cannot_represent_raise_an_error_and_leave_no_file(tmp_path, words):
    with pytest.raises(InputError, match="tree 1"):
        write_brackets([Tree(words, ("",) * len(words), ())], tmp_path / "file.mrg")
    assert not list(tmp_path.iterdir())


def test_crossing_constituents_cannot_be_written():
    crossing = (Constituent("X", 0, 3), Constituent("X", 0, 2), Constituent("X", 1, 3))
    with pytest.raises(ValueError, match="crosses"):
        format_brackets(Tree(("a", "b", "c"), ("", "", ""), crossing))


@given(
    st.lists(st.sampled_from(["(", ")", "(S ", "(NN dog)", "word", " ", "\n", "-LRB-", "\\/", "\u2028", "( ("])).map(
        "".join
    )
    | st.text(),
    st.sampled_from([None, True, False]),
)
def test_any_text_gives_trees_or_an_input_error(text, labelled):
    try:
        trees = parse_brackets(text, labelled)
    except InputError:
        return
    for tree in trees:
        assert tree.words
        again = parse_brackets(format_brackets(tree), labelled=True)
        assert [one.words for one in again] == [tree.words]


def test_words_with_tags_in_chunks_of_nltk_are_words():
    chunks = nltk.Tree("S", [nltk.Tree("NP", [("the", "DT"), ("cat", "NN")]), nltk.Tree("VP", [("sat", "VBD")])])
    assert str(from_nltk(chunks)) == "(S (NP (DT the) (NN cat)) (VP (VBD sat)))"
    with pytest.raises(InputError, match="found the leaf 3; expected a word, or a tuple of a word and its tag"):
        from_nltk(nltk.Tree("S", [3]))
