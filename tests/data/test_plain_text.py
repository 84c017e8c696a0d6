"""Plain texts of unexpected forms: line ends, sentence marks, markup, other formats, and scripts without spaces."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import split_lines
from syntaxlm.core.reading import ReadingReport, collected
from syntaxlm.core.text_files import has_cr_line_ends, read_lines
from syntaxlm.data.corpora import count_tokens, read_sentences
from syntaxlm.data.running_text import read_paragraphs
from syntaxlm.text.normaliser import Normaliser
from tests.normalisers import normaliser_with

CONLLU = "# sent_id = 1\n1\tIt\t_\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\tran\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
SENTENCES = ["the dog runs .", "a cat sleeps .", "it is <unk> late ."]


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes, name: str = "text.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def sentences_of(path: Path, units: str = "words") -> tuple[list[str], list[ReadingReport], list[str]]:
    """Return the lines of a text, the reports that were announced, and the warnings."""
    with collected() as reports, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lines = [line for _, line in read_sentences(path, normaliser_with(units=units))]
    return lines, reports, [str(warning.message) for warning in caught]


# ---- line ends


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a b\rc d\r", ["a b", "c d"]),
        (b"a b\rc d", ["a b", "c d"]),
        (b"a b\rc", ["a b", "c"]),
        (b"a b\rc d\r\n", ["a b", "c d"]),
        (b"a b\rc d\n", ["a b", "c d"]),
        (b"a b\r", ["a b"]),
        (b"a\r\rb\r", ["a", "", "b"]),
        (b"\xef\xbb\xbfa b\rc d\r", ["a b", "c d"]),
        (b"a b\r\nc d\r\n", ["a b", "c d"]),
        (b"a b\nc d\n", ["a b", "c d"]),
        (b"a\rb\nc d\n", ["a\rb", "c d"]),
        (b"a b\r\r\nc d\r\r\n", ["a b\r", "c d\r"]),
        ("a\u0085b\u2028c\fd\n".encode(), ["a\u0085b\u2028c\fd"]),
    ],
)
def test_a_cr_ends_lines_only_in_a_file_without_other_line_ends(write, content, lines):
    path = write(content)
    assert [line for _, line in read_lines(path)] == lines
    text = content.decode("utf-8-sig")
    assert split_lines(text) == lines
    is_cr = "\r" in text and "\n" not in text.removesuffix("\n") and not (text.count("\r") == 1 and "\r\n" in text)
    assert has_cr_line_ends(path) == is_cr


def test_cr_line_ends_are_announced(write):
    lines, reports, caught = sentences_of(write("the dog runs .\ra cat sleeps .\r"))
    assert lines == ["the dog runs .", "a cat sleeps ."]
    assert [str(report).split(": ")[1] for report in reports] == [
        "lines that end in \\r, 2 lines", "text, one sentence per line, 2 sentences",
    ]  # fmt: skip
    assert not caught


def test_single_carriage_returns_are_announced_and_many_are_a_warning(write):
    few = "a b\nc\rd\n" + "e f\n" * 20
    _, reports, caught = sentences_of(write(few))
    assert str(reports[0]).endswith("lines that end in \\n; 1 carriage return inside lines (line 2)")
    assert not caught
    _, _, caught = sentences_of(write("a b\rc d\re f\ng h\n"))
    assert "2 carriage returns inside 2 lines, which are read as spaces" in caught[0]


# ---- sentence marks


@pytest.mark.parametrize(
    "form",
    [
        "<s> {} </s>", "<s> {}", "{} </s>", "{} <eos>", "{} <EOS>", "<bos> {} <eos>", "[CLS] {} [SEP]",
        "{} <|endoftext|>",
        "<S> {} </S>", " <s>  {}  </s> ",
    ],
)  # fmt: skip
def test_sentence_marks_are_removed_and_reported(write, form):
    marked = write("".join(form.format(sentence) + "\n" for sentence in SENTENCES))
    lines, reports, caught = sentences_of(marked)
    assert lines == SENTENCES
    assert str(reports[0]).endswith("3 sentences; 3 lines with sentence marks, which are removed (lines 1, 2, 3)")
    assert len(caught) == 1
    assert "found the sentence marks " in caught[0]
    plain = write("".join(f"{sentence}\n" for sentence in SENTENCES), "plain.txt")
    assert count_tokens(marked, Normaliser()) == count_tokens(plain, Normaliser())


def test_a_line_of_only_a_mark_is_blank(write):
    lines, _, _ = sentences_of(write("a b <|endoftext|>\n<|endoftext|>\nc d <|endoftext|>\n"))
    assert lines == ["a b", "", "c d"]


@pytest.mark.parametrize(
    "text",
    [
        "the dog runs . <eos> a cat sleeps . <eos>\n",
        "<s> the dog runs . </s> <s> a cat sleeps . </s>\n",
        "the dog runs . [SEP] a cat sleeps .\n" * 3,
    ],
)
def test_marks_between_sentences_of_a_line_are_refused(write, text):
    with pytest.raises(InputError, match=r"line 1: found .* between sentences; expected one sentence per line"):
        sentences_of(write(text))


def test_a_single_mark_is_a_word_and_reported(write):
    text = "the tag <s> is struck .\nand so is it <s>\n" + "the dog runs .\n" * 30
    lines, reports, caught = sentences_of(write(text))
    assert lines == text.splitlines()
    assert "1 line with sentence marks, read as words (line 2)" in str(reports[0])
    assert not caught


def test_unknown_words_and_numbers_of_the_penn_treebank_are_no_marks(write):
    text = "<unk> N million shares\n<unk> and <unk>\n"
    lines, reports, caught = sentences_of(write(text))
    assert lines == text.splitlines()
    assert not reports[0].remarks
    assert not caught


# ---- markup, other formats, scripts


def test_html_is_a_warning_if_there_is_much_and_a_remark_otherwise(write):
    _, reports, caught = sentences_of(write("He &quot;left&quot; it .\nIt&#39;s <br/> late .\nYes .\n"))
    assert "2 lines with HTML, which is read as words (lines 1, 2)" in str(reports[0])
    assert "2 of 3 lines have HTML" in caught[0]
    _, reports, caught = sentences_of(write("AT&T; a <b here .\n" + "Yes <b>so</b> .\n" + "It is late .\n" * 200))
    assert "1 line with HTML, which is read as words (line 2)" in str(reports[0])
    assert not caught


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("%PDF-1.4\n1 0 obj\n", "found a PDF document"),
        (b"%PDF-1.4\n\xe2\xe3\n", "found a PDF document"),
        ("%!PS-Adobe-3.0\n", "found a PostScript document"),
        ("{\\rtf1\\ansi Hello}\n", "found an RTF document"),
        ("<!DOCTYPE html>\n<p>Hello</p>\n", "line 1: found '<!DOCTYPE html>', the start of an HTML or XML document"),
        ('\n<?xml version="1.0"?>\n<TEI>\n', "line 2: found '<?xml version=\"1.0\"?>', the start of an HTML or XML"),
        ('{"sentence_good": "a", "sentence_bad": "b"}\n', "the start of JSON"),
        ('[\n{"text": "a"}\n]\n', "the start of JSON"),
        ('["The cat slept.", "The dog ran."]\n', "the start of JSON"),
        ("\\documentclass{article}\n", "the start of a LaTeX document"),
        ("1\n00:00:01,000 --> 00:00:04,000\nHello.\n", "the start of SubRip subtitles"),
        ("WEBVTT\n\n00:01.000 --> 00:04.000\nHi\n", "the start of WebVTT subtitles"),
        ("(S (NP (DT the) (NN cat)) (VP (VBD sat)))\n" * 2, "the start of bracketed trees; expected plain text"),
        ("( (S\n    (NP (DT the)\n      (NN cat) )\n    (VP (VBD sat) )))\n", "the start of bracketed trees"),
        ("((the cat) (sat down))\n(ROOT)\n((it) (ran))\n", "the start of bracketed trees"),
        (CONLLU, "line 1: found '# sent_id = 1', the start of CoNLL-U or a similar format; expected plain text"),
        ("1\tIt\t_\tPRP\tO\t2\tnsubj\n2\tran\t_\tVBD\tO\t0\troot\n", "the start of CoNLL-U or a similar format"),
        ("#FORMAT 3\n#BOS 1 1 0 0\nDas\tART\t--\tNK\t500\n#EOS 1\n", "--inputfmt=export --outputfmt=bracket"),
        ('<?xml version="1.0"?>\n<corpus>\n<annotation/>\n', "the start of Tiger XML; expected"),
    ],
)  # fmt: skip
def test_other_formats_are_refused_by_name(write, content, found):
    with pytest.raises(InputError) as error:
        sentences_of(write(content))
    assert found in str(error.value)


TABLE = 'item,sentence,condition\n0,"the cat, it ran",x\n1,the dog ran,x\n'


@pytest.mark.parametrize("read", [sentences_of, read_paragraphs])
def test_tables_are_refused_as_texts_with_the_column_of_the_sentences(write, read):
    columns = "found a table with the columns item, sentence, condition; expected"
    for content, name in [(TABLE, "a.csv"), (TABLE, "a.txt"), (TABLE.replace(",", "\t"), "a.tsv")]:
        with pytest.raises(InputError, match=columns) as error:
            read(write(content, name))
        assert str(error.value).endswith("Write the sentences, here of the column sentence, to a text file")
    with pytest.raises(InputError, match="the columns a, b"):
        read(write("a,b\n", "b.csv.txt"))
    for content, name in [
        ('sentence\n"The cat, it ran."\nthe dog ran\n', "a.csv"),
        ("sentence\nthe cat ran\n", "a.tsv"),
    ]:
        with pytest.raises(
            InputError, match=r"found a table with the column sentence; expected .* of the column sentence"
        ):
            read(write(content, name))


@pytest.mark.parametrize("text", ["the cat ran\nthe dog ran\n", "Yes.\nthe dog ran\n", "yes\nno\n"])
def test_lines_without_the_name_of_a_column_are_text_whatever_their_file_is_called(write, text):
    assert sentences_of(write(text, "text.csv"))[0] == text.splitlines()


def test_a_few_bracketed_lines_are_a_warning_and_read(write):
    lines = ["the cat sat", "(S (NP (DT the) (NN cat)) (VP (VBD sat)))", "(he left)"]
    read, _, caught = sentences_of(write("\n".join(lines) + "\n"))
    assert read == lines
    assert "line 2: found what may be a bracketed tree, as in 1 of the first 3 lines; it is read as text" in caught[0]


@pytest.mark.parametrize(
    "text",
    [
        "(he left)\n(she (too))\n(it ran)\n",
        "(he left) early\n",
        "(((\n",
        "1\t2\n",
        "#BOS won\n",
        "Yes, we can, now\nNo, we\n",
        "{ a set } of words\n",
        "[ Laughter ] he said\n",
        "< 5 is few\n",
        "1\n2\n3\n",
        "\\o/ yes\n",
    ],
)
def test_text_that_starts_like_another_format_is_text(write, text):
    assert sentences_of(write(text))[0] == text.splitlines()


@pytest.mark.parametrize(
    "line",
    ["我今天早上去了商店买了很多水果和蔬菜", "私は昨日友達と一緒に映画を見に行きました", "วันนี้อากาศดีมากฉันจึงไปเดินเล่น"],
)
def test_scripts_without_spaces_are_a_warning_for_models_of_words_only(write, line):
    path = write(f"{line}\n" * 5)
    assert "5 of the first 5 lines have no spaces" in sentences_of(path)[2][0]
    assert not sentences_of(path, "characters")[2]
    assert not sentences_of(write(" ".join(line) + "\n", "separated.txt"))[2]


def test_byte_order_marks_of_joined_files_are_no_text(write):
    assert sentences_of(write("\ufeffThe cat.\n\ufeff“No,” he said.\n"))[0] == ["The cat.", "“No,” he said."]


def test_zero_width_spaces_are_spaces_between_words(write):
    assert not sentences_of(write("วันนี้อากาศดีมาก\u200bฉันจึงไปเดินเล่น\n" * 5))[2]


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("1\tthe dog ran\n2\tthe cat sat\n3\tthey left\n", "3 of the first 3 lines have 2 columns"),
        ("7\teng\tthe dog ran\n9\teng\tthe cat sat\n12\teng\tyes\n", "have 3 columns, separated by tabs"),
        ("1. the dog ran\n2. the cat sat\n3. they left\n", "the lines start with the numbers 1, 2, ..."),
        ("41 the dog ran\n42 the cat sat\n43 they left\n", "the lines start with the numbers 41, 42, ..."),
        ("the\ndog\nran\n.\n\nthe\ncat\n", "6 of the first 6 lines have one word"),
        ("the dog\nthe cat\nthey left\n", ""),
        ("20 dogs ran\n30 cats sat\n12 left\n", ""),
        ("yes\nno\nwell\n", ""),
        ("a\tb\nthe cat\nthe dog\nyes sir\n", ""),
    ],
)
def test_columns_numbers_and_words_as_lines_are_a_warning(write, text, warned):
    _, _, caught = sentences_of(write(text))
    assert any(warned in message for message in caught) if warned else not caught


def test_running_text_of_another_format_is_refused_and_html_is_a_warning(write):
    with pytest.raises(InputError, match="CoNLL-U or a similar format; expected running text"):
        read_paragraphs(write("1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog\tdog\tN\t_\t_\t0\troot\t_\t_\n"))
    with pytest.raises(InputError, match="CoNLL-U or a similar format; expected running text"):
        read_paragraphs(write(CONLLU.replace("\n", "\r")))
    with pytest.raises(InputError, match="the start of an HTML or XML document"):
        read_paragraphs(write("<html>\n<p>Yes</p>\n"))
    with pytest.warns(InputWarning, match="1 of the first 1 lines have HTML"):
        read_paragraphs(write("<p>The dog ran.</p>\n"))


def test_blank_lines_are_counted(write):
    _, reports, _ = sentences_of(write("a b\n\n \nc d\n"))
    assert str(reports[0]).endswith("text, one sentence per line, 2 sentences; 2 blank lines")
    assert reports[0].sample == ("a b", "c d")


# ---- damaged texts


def test_a_damaged_text_is_refused_or_a_change_of_its_sentences_is_reported(write):
    """Random changes of bytes: only InputError is raised, and the sentences are counted as they are read."""
    rng = random.Random(7)
    text = "".join(f"<s> {sentence} </s>\n" for sentence in SENTENCES * 4).encode()
    pieces = [
        b"\r",
        b"\n",
        b"\0",
        b"\xff",
        b"<s>",
        b"</s>",
        b"&amp;",
        b"<p>",
        b"\xe2\x80\xa8",
        b" ",
        b'{"',
        b"[",
        b"-->",
    ]
    for _ in range(300):
        damaged = bytearray(text)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.choice((0, 0, 1, 5))] = rng.choice(pieces)
        try:
            lines, reports, _ = sentences_of(write(bytes(damaged)))
        except InputError:
            continue
        assert reports[-1].counts["sentences"] == sum(bool(line.strip()) for line in lines)
