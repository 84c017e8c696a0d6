import gzip
import re

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.trees import conllu
from syntaxlm.trees.conllu import (
    NO_HEAD,
    check_heads,
    format_conllu,
    iterate_conllu,
    iterate_dependencies,
    read_conllu,
    write_conllu,
)
from syntaxlm.trees.tree import DependencyTree

SAMPLE = """# sent_id = first
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\t_\tPP\t_\t1\tobj\t_\t_
2.1\tnada\t_\t_\t_\t_\t_\t_\t_\t_

1\tya\tya\t_\t_\t_\t0\t_\t_\t_
"""


def row(*columns: str) -> str:
    return "\t".join(columns)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_words_tags_heads_labels_and_names_are_read(tmp_path, ends):
    file = tmp_path / "file.conllu"
    file.write_bytes(SAMPLE.replace("\n", ends).encode("utf-8-sig"))
    assert read_conllu(file) == [
        DependencyTree(("vamos", "nos"), ("VERB", "PP"), (0, 1), ("root", "obj"), "first"),
        DependencyTree(("ya",), ("",), (0,), ("",), ""),
    ]


def test_sentences_are_read_one_at_a_time_with_all_their_lines(tmp_path):
    file = tmp_path / "file.conllu"
    file.write_text("# of the file alone\n\n" + SAMPLE, encoding="utf-8")
    first, second = iterate_conllu(file)
    assert [first.tree, second.tree] == read_conllu(file)
    assert first.comments == ["# sent_id = first", "# text = vámonos al mar"]
    assert [row.split("\t")[0] for row in first.rows] == ["1-2", "1", "2", "2.1"]
    assert (second.comments, second.place()) == ([], f"{file}, line 10, sentence 2")
    assert first.text() + second.text() == SAMPLE + "\n"
    assert second.text(["# a"]) == "# a\n" + second.text()
    file.write_text("\n")
    with pytest.raises(InputError, match="found no sentence"):
        list(iterate_conllu(file))


def test_written_trees_are_read_back(tmp_path):
    trees = [
        DependencyTree(("a b", "\u2028", "#"), ("X", "", "Y"), (2, 0, 2), ("l", "root", ""), "some id"),
        DependencyTree(("_",), ("",), (0,), ("",)),
    ]
    write_conllu(trees, tmp_path / "file.conllu")
    assert read_conllu(tmp_path / "file.conllu") == trees
    assert [file.name for file in tmp_path.iterdir()] == ["file.conllu"]


def test_comments_are_written_after_the_name_and_ignored_in_reading(tmp_path):
    tree = DependencyTree(("a",), ("X",), (0,), ("root",), "id")
    text = format_conllu(tree, {"text": "a", "surprisal": "1.5"})
    assert text == "# sent_id = id\n# text = a\n# surprisal = 1.5\n1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "file.conllu").write_text(text)
    assert read_conllu(tmp_path / "file.conllu") == [tree]
    with pytest.raises(InputError, match=r"sentence id: found .* as comments; expected no line ends"):
        format_conllu(tree, {"text": "a\n1"})


def test_words_with_tabs_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="sentence 1"):
        write_conllu([DependencyTree(("a\tb",), ("",), (0,), ("",))], tmp_path / "file.conllu")


@pytest.mark.parametrize(
    ("suffix", "line", "message"),
    [
        (".conllu", row(*"2bBNN_1"), "found 7 tab-separated columns; expected 10"),
        (".conllu", row(*"2bBNN_3x__"), "found head 3 of 'b'; expected 0 to 2"),
        (".conllu", row(*"2bBNN_-x__"), "found the head '-'; expected a number"),
        (".conllu", row(*"3bBNN_1x__"), "found the word id '3'; expected 2"),
        (".conllu", row(*"xbBNN_1x__"), "found the word id 'x'; expected 2"),
        (
            ".conllu",
            row("3-4", *"b________"),
            "found the word id '3-4'; expected a range from 2, the id of",
        ),
        (
            ".conllu",
            row("2-1", *"b________"),
            "found the word id '2-1'; expected a range from 2, the id of",
        ),
        (
            ".conllu",
            row("2-9", *"b________"),
            "found the word id '2-9'; expected a range up to 1, the last",
        ),
        (".conllu", row("2.1", *"b________"), "found the word id '2.1'; expected 1.1 or a word id"),
        (
            ".conllu",
            "2 b B N N _ 1 x _ _",
            "found 10 columns separated by spaces; expected 10 separated by tabs",
        ),
        (".conllu", "2", "found 1 tab-separated column; expected 10"),
        (".conllu", row("2", "", *"BNN_1x__"), "found an empty word form"),
        (".conllx", row(*"2bBNN_1"), "found 7 tab-separated columns; expected 8 to 10"),
        (".conllx", row(*"2bBNN_3x"), "found head 3 of 'b'; expected 0 to 2"),
        (".conllx", row(*"2bBNN_?x"), "found the head '?'; expected a number"),
        (".conllx", row("1-2", *"bBNN_1x"), "found the word id '1-2'; expected 2"),
    ],
)
def test_errors_have_file_line_and_sentence(tmp_path, suffix, line, message):
    file = tmp_path / f"file{suffix}"
    file.write_text("# sent_id = here\n" + row(*"1aANN_0x__") + "\n" + line + "\n")
    with pytest.raises(InputError) as caught:
        list(iterate_dependencies(file))
    assert f"file{suffix}, line 3, sentence here: {message}" in str(caught.value)


def test_word_tag_head_columns_are_read(tmp_path):
    file = tmp_path / "file.dp"
    file.write_text("The\tDT\t2\ncat\tNN\t0\n\n\nYes\tUH\t0\n")
    first, second = iterate_dependencies(file)
    assert first == DependencyTree(("The", "cat"), ("DT", "NN"), (2, 0), ("", ""))
    assert second.words == ("Yes",)
    file.write_text("The\tDT\n")
    with pytest.raises(InputError, match=r"line 1.*found 2 tab-separated columns"):
        list(iterate_dependencies(file))


def test_eight_to_ten_columns_of_conll_x_are_read_with_the_finer_tag(tmp_path):
    ten, eight = row(*"1aaN", "NNS", *"_2x__"), row(*"2bbV__0", "root")
    (tmp_path / "file.conll").write_text(f"{ten}\n{eight}\n\n{row('1', '#', '_', '_', '_', '_', '0', '_')}\n")
    first, second = iterate_dependencies(tmp_path / "file.conll")
    assert first == DependencyTree(("a", "b"), ("NNS", "V"), (2, 0), ("x", "root"))
    assert second == DependencyTree(("#",), ("",), (0,), ("",))


def test_the_file_name_determines_the_format(tmp_path):
    lines = {
        ".conllu": row(*"1aANN_0x__"),
        ".conll": row(*"1aANN_0x"),
        ".conllx": row(*"1aANN_0x"),
        ".dp": row(*"aN0x"),
    }
    for suffix, line in lines.items():
        (tmp_path / f"file{suffix}").write_text(line + "\n")
        with gzip.open(tmp_path / f"file{suffix}.gz", "wt") as file:
            file.write(line + "\n")
        for name in (f"file{suffix}", f"file{suffix}.gz"):
            assert list(iterate_dependencies(tmp_path / name)) == [DependencyTree(("a",), ("N",), (0,), ("x",))]
    with pytest.raises(
        InputError, match=r"file\.txt: .* expected a file name that ends in \.conllu \.conll \.conllx \.dp"
    ):
        iterate_dependencies(tmp_path / "file.txt")


def test_trees_come_one_at_a_time_before_the_rest_of_the_file_is_read(tmp_path):
    (tmp_path / "file.conllu").write_bytes((row(*"1aANN_0x__") + "\n\n").encode() * 20_000 + b"\n1\t\xff\n")
    trees = iterate_dependencies(tmp_path / "file.conllu")
    assert next(trees).words == ("a",)
    with pytest.raises(InputError, match=r"file\.conllu, line 40002: found byte 0xff at offset 420003"):
        list(trees)


def test_blocks_without_a_word_and_names_without_a_sentence_are_skipped(tmp_path):
    blank = row("1-2", "ab", *"________")
    (tmp_path / "file.conllu").write_text(f"# sent_id = one\n\n{blank}\n\n{row(*'1aANN_0x__')}")
    assert read_conllu(tmp_path / "file.conllu") == [DependencyTree(("a",), ("N",), (0,), ("x",))]


@pytest.mark.parametrize("suffix", [".conllu", ".conllx", ".dp"])
def test_an_empty_file_has_no_sentence(tmp_path, suffix):
    (tmp_path / "file").write_text("\n\n")
    with pytest.raises(InputError, match="found no sentence"):
        list(iterate_dependencies(tmp_path / "file", suffix))


def test_a_never_ending_sentence_does_not_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(conllu, "MAXIMUM_SENTENCE", 2**16)
    for line in ("1\tgo\tV\t0\n", "# a comment\n"):
        (tmp_path / "long.conllu").write_text(line * 2000)
        with pytest.raises(
            InputError, match=r"long\.conllu, line \d+, sentence 1: more than 0 MiB without a blank line"
        ):
            read_conllu(tmp_path / "long.conllu")
        (tmp_path / "short.conllu").write_text("# a comment\n\n" * 2000 + SAMPLE)
        assert len(read_conllu(tmp_path / "short.conllu")) == 2


def test_words_without_heads_are_words(tmp_path):
    file = tmp_path / "blind.conllu"
    file.write_text("# text = a b\n1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n2\tb\t_\t_\t_\t_\t0\t_\t_\t_\n")
    with collected() as reports:
        (tree,) = read_conllu(file)
    assert (tree.words, tree.heads) == (("a", "b"), (NO_HEAD, 0))
    assert reports[0].counts == {"sentences": 1, "words": 2}
    assert [(remark.what, remark.lines) for remark in reports[0].remarks] == [("words without a head", (2,))]
    write_conllu([tree], tmp_path / "again.conllu")
    assert read_conllu(tmp_path / "again.conllu") == [tree]
    with pytest.raises(InputError, match=r"here: word 1, 'a', has no head; expected a number"):
        check_heads(tree, "here")


def test_ranges_that_overlap_are_refused_and_others_counted_with_empty_nodes(tmp_path):
    file = tmp_path / "file.conllu"
    words = [row(str(number), *"aANN_0x__") for number in (1, 2, 3)]
    one, two = row("1-2", *"b________"), row("2-3", *"c________")
    file.write_text("\n".join([one, words[0], two, *words[1:], ""]))
    with pytest.raises(InputError, match=r"line 3, sentence 1: found the word id '2-3'; expected a range from 2"):
        read_conllu(file)
    empty = [row(id, *"c________") for id in ("0.1", "2.1", "2.2")]
    file.write_text("\n".join([empty[0], one, *words[:2], *empty[1:], words[2], ""]))
    with collected() as reports:
        read_conllu(file)
    assert [*map(str, reports[0].remarks)] == ["3 empty nodes, left out", "1 multiword range, read as separate words"]


@pytest.mark.parametrize(
    ("text", "name", "option"),
    [
        (
            "#FORMAT 3\n#BOS 1 1 0 0\nDas\tART\t--\tNK\t500\n#500\tNP\t--\t--\t0\n#EOS 1\n",
            "the NEGRA export format",
            "export",
        ),
        ('<?xml version="1.0"?>\n<corpus>\n<s id="s1"><graph root="s1_500">\n', "Tiger XML", "tiger"),
    ],
)
@pytest.mark.parametrize("suffix", [".conllu", ".conll", ".dp", ".mrg", ".txt", ".export"])
def test_other_treebank_formats_are_refused_with_a_command_that_converts_them(tmp_path, text, name, option, suffix):
    file = tmp_path / f"file{suffix}"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_treebank(file)
    assert f"found {name}; expected" in str(caught.value)
    assert f"discodop treetransforms {file} FILE.mrg --inputfmt={option}" in str(caught.value)


@pytest.mark.parametrize(("heads", "message"), [((2, 1, 0), "of 'a' form a cycle"), ((1, 0), "of 'a' form a cycle")])
def test_cycles_are_found_where_heads_are_used(heads, message):
    tree = DependencyTree(tuple("abc"[: len(heads)]), ("",) * len(heads), heads, ("",) * len(heads))
    with pytest.raises(InputError, match=message):
        check_heads(tree, "here")
    check_heads(DependencyTree(("a", "b"), ("", ""), (2, 0), ("", "")), "here")


BA = "1\tb\t_\tX\t_\t_\t0\tr\t_\t_\n2\ta\t_\tX\t_\t_\t1\tr\t_\t_\n"


@pytest.mark.parametrize(
    ("text", "words", "form"),
    [
        ("# text = b a\n1-2\tba\t_\t_\t_\t_\t_\t_\t_\t_\n" + BA, ("b", "a"), "CoNLL-U"),
        ("1-2\tba\t_\t_\t_\t_\t_\t_\t_\t_\n" + BA, ("b", "a"), "CoNLL-U"),
        ("1\tThe\tthe\tDT\tO\t2\tdet\n2\tcat\tcat\tNN\tO\t0\tROOT\n", ("The", "cat"), "CoNLL of Stanford CoreNLP"),
        ("1\tb\tb\tX\tY\t_\t0\tr\n", ("b",), "CoNLL-X"),
    ],
)
def test_formats_that_share_a_suffix_are_recognised(tmp_path, text, words, form):
    file = tmp_path / "file.conll"
    file.write_text(text)
    with collected() as reports:
        (tree,) = iterate_dependencies(file)
    assert tree.words == words
    assert re.fullmatch(f"dependency trees, {form}", reports[0].form)


@pytest.mark.parametrize(("words", "warnings"), [(("_", "_"), 1), (("a", "_"), 0), (("_",), 0)])
def test_sentences_without_their_words_are_warned_of(tmp_path, recwarn, words, warnings):
    rows = [row(str(n), word, "_", "NOUN", "_", "_", str(n - 1), "dep", "_", "_") for n, word in enumerate(words, 1)]
    (tmp_path / "file.conllu").write_text("\n".join([SAMPLE, *rows, ""]))
    assert len(read_conllu(tmp_path / "file.conllu")) == 3
    found = [str(warning.message) for warning in recwarn.list if warning.category is InputWarning]
    assert len(found) == warnings
    assert all("found '_' for every word in 1 of 3 sentences, as in treebanks" in message for message in found)
