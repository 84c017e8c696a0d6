"""Splitting of books into sentences, with their paragraphs, notices and validation part; the split of text8."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from syntaxlm import cli
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data import running_text
from syntaxlm.data.running_text import read_paragraphs, split_text8, write_sentences


@pytest.fixture
def book(tmp_path):
    """Writes a text as a file; returns its path."""

    def book(text: str | bytes, name: str = "book.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return book


@pytest.fixture
def paragraphs(larger_toy) -> list[str]:
    """150 paragraphs of two sentences each, all different."""
    lines = [
        f"{line[0].upper()}{line[1:]}." for line in dict.fromkeys((larger_toy / "train.txt").read_text().splitlines())
    ]
    return [" ".join(lines[place : place + 2]) for place in range(0, 300, 2) if place + 1 < len(lines)]


def test_blank_lines_separate_paragraphs_and_lines_are_joined(book):
    text = (
        "The first line\r\nand the se-\r\ncond.\r\n \r\n\r\nA new\tone -\nso it_is. _Very_ odd--\nor not—no.\n\n* *\n"
    )
    assert read_paragraphs(book(text)).paragraphs == (
        "The first line and the se-cond.",
        "A new one - so it_is. Very odd -- or not — no.",
    )
    lines = read_paragraphs(book("One\ntwo.\n\nThree.\n"), lines_are_paragraphs=True)
    assert lines.paragraphs == ("One", "two.", "Three.")


def test_words_that_are_divided_at_line_ends_are_joined(book):
    text = (
        "The men did not co\u00ad\noperate with the well-\nknown team, and the plan\u2010\nning went on in the pre-\n"
        "and post-war years.\n\nIt was well\u2010known, a well\u2010\nknown au\u00ad\nto."
        " A soft\u00adened end\u00ad\n\n"
        "Vor-\nund Nachteile, in- or\nout, pre\u2010\nand post.\n"
    )
    with collected() as reports:
        paragraphs = read_paragraphs(book(text)).paragraphs
    assert paragraphs == (
        "The men did not cooperate with the well-known team, and the planning went on in the pre- and post-war years.",
        "It was well\u2010known, a well\u2010known auto. A softened end",
        "Vor- und Nachteile, in- or out, pre\u2010 and post.",
    )
    (report,) = reports
    remarks = {remark.what: (remark.count, remark.lines) for remark in report.remarks}
    assert remarks == {
        "words joined at hyphens of line ends": (3, (1, 3, 8)),
        "soft hyphens inside lines removed": (1, (9,)),
    }
    assert report.counts == {"paragraphs": 3, "words": 38}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The\n\n*** START OF THE PROJECT GUTENBERG EBOOK A\nTITLE ***\n", "*** END OF THE PROJECT GUTENBERG E"),
        ("x\n***START OF THIS PROJECT GUTENBERG EBOOK T***\nno", "\nEnd of the Project Gutenberg EBook of T\n\n***"),
        ("a\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n", "End of Project Gutenberg's Etext"),
        ("*END THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS\n", "The End of The Project Gutenberg Etext of T"),
    ],
)
def test_notices_of_project_gutenberg_are_left_out(book, before, after):
    text = "\nThe start of the book.\n\nIt told the end of the project. So.\n\n"
    found = read_paragraphs(book(before.removesuffix("no") + text + after + "\n\nmore\n"))
    assert found.paragraphs == ("The start of the book.", "It told the end of the project. So.")
    assert found.has_notice
    assert not read_paragraphs(book(text)).has_notice


def test_all_books_of_a_file_are_read_each_between_its_notices(book):
    texts = [f"The book {number} is short\u00ad\ner.\n\n" for number in range(3)]
    start, end = "*** START OF THE PROJECT GUTENBERG EBOOK T ***\n", "*** END OF THE PROJECT GUTENBERG EBOOK T ***\n"
    old = "\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n"
    path = book(
        "".join(
            f"preamble\n{start}{before}{text}{end}licence\n" for before, text in zip(["", old, ""], texts, strict=True)
        )
    )
    with collected() as reports:
        assert read_paragraphs(path).paragraphs == tuple(f"The book {number} is shorter." for number in range(3))
    (joined, _) = reports[0].remarks
    assert joined.lines == (3, 12, 19)


def test_the_sentences_of_all_books_are_written_in_order(book, tmp_path):
    first = book("Mr. Holt came.\nHe\nsat.\n\nHe left.\n", "a.txt")
    second = book(gzip.compress(b"Mr. Holt came at nine. Dr. Watts was with Mr. Holt."), "b.txt.gz")
    summary = write_sentences([first, second], tmp_path / "out.txt", abbreviations=["mr", "dr", "st"])
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines[:4] == ["Mr. Holt came.", "He sat.", "He left.", "Mr. Holt came at nine."]
    assert (summary.train.sentences, summary.train.words) == (len(lines), sum(len(line.split()) for line in lines))
    assert (summary.books, summary.paragraphs, summary.notices, summary.valid) == (2, 3, 0, None)


def test_whole_paragraphs_are_set_aside_the_same_ones_for_the_same_seed(book, paragraphs, tmp_path):
    path = book("\n\n".join(paragraphs))
    train, valid = tmp_path / "train.txt", tmp_path / "valid.txt"
    summary = write_sentences([path], train, valid, valid_share=0.2, seed=3)
    kept, aside = (file.read_text().splitlines() for file in (train, valid))
    joined = [" ".join(aside[place : place + 2]) for place in range(0, len(aside), 2)]
    places = [paragraphs.index(paragraph) for paragraph in joined]
    assert places == sorted(places)
    assert sorted(kept + aside) == sorted(line for one in paragraphs for line in one.replace(". ", ".\n").splitlines())
    assert 0.1 < len(places) / len(paragraphs) < 0.3
    assert min(places) < 40 < len(paragraphs) - 40 < max(places), "from everywhere"
    assert summary.valid is not None
    assert (summary.valid.sentences, summary.train.sentences) == (len(aside), len(kept))
    before = valid.read_bytes()
    write_sentences([path], train, valid, valid_share=0.2, seed=3)
    assert valid.read_bytes() == before
    write_sentences([path], train, valid, valid_share=0.2, seed=4)
    assert valid.read_bytes() != before


def test_other_encodings_are_read_if_specified(book, tmp_path):
    path = book("Où était-il ?\nIl était là.\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"book.txt, line 1: found byte 0xf9 at offset 1.*latin-1") as error:
        write_sentences([path], tmp_path / "out.txt")
    assert "\n" not in str(error.value)
    write_sentences([path], tmp_path / "out.txt", encoding="latin-1")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "Où était-il ?\nIl était là.\n"
    with pytest.raises(InputError, match=r"book.txt: cannot be read as ascii"):
        write_sentences([path], tmp_path / "out.txt", encoding="ascii")


def test_errors_are_reported_and_nothing_is_written(book, tmp_path):
    path, out = book("A sentence. And one.\n"), tmp_path / "out.txt"
    for arguments, said in (
        (([],), "found no file"),
        (([path], out, out), "out.txt: is given for two outputs"),
        (([path], path), "book.txt: is also an input"),
        (([path], out, tmp_path / "v", 1.0), "found the share 1 and the seed"),
        (([path], out, tmp_path / "v", 0.5, -1), "seed -1"),
        (([path], out, None, 0.05, 0, False, "klingon"), "klingon: no such encoding"),
        (([path], out, None, 0.05, 0, False, "rot13"), "cannot be read as rot13"),
        (([tmp_path / "nowhere"], out), "nowhere: cannot be read"),
        (([path, book("* * *\n\n---\n", "stars.txt")], out), "stars.txt: found no sentence"),
        (([path], out, tmp_path / "v", 0.001), "v: found no paragraph to write"),
        (([path], out, tmp_path / "v", 0.999), "out.txt: found no paragraph to write"),
    ):
        with pytest.raises(InputError, match=said):
            write_sentences(*arguments) if len(arguments) > 1 else write_sentences(*arguments, out)
    assert not out.exists()


def test_the_command_writes_and_reports_both_files(book, paragraphs, tmp_path, capsys):
    path = book("\n".join(paragraphs))
    train, valid = tmp_path / "train.txt", tmp_path / "valid.txt"
    arguments = ["data", "sentences", str(path), "-o", str(train), "--valid-output", str(valid), "--valid-share", "0.3"]
    assert cli.main([*arguments, "--paragraphs", "lines"]) == 0
    out = capsys.readouterr().out
    counts = [len(file.read_text().splitlines()) for file in (train, valid)]
    assert sum(counts) == 2 * len(paragraphs)
    assert f"{train}: {counts[0]} sentences" in out
    assert "abbreviations: none" in out
    assert cli.main([*arguments, "--paragraphs", "lines", "--abbreviation", "P.M.", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["paragraphs"], figures["valid"]["sentences"]) == (len(paragraphs), counts[1])
    assert figures["abbreviations"] == ["p.m"]
    assert cli.main(["data", "sentences", str(tmp_path / "no"), "-o", str(train)]) == 2
    assert "no: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ([], ["“It doesn’t matter,” he said.", "Wait!"]),
        (["--contractions", "split"], ["“It does n't matter,” he said.", "Wait!"]),
        (["--punctuation", "split", "--contractions", "split"], ["“ It does n't matter , ” he said .", "Wait !"]),
        (["--punctuation", "drop"], ["It doesn’t matter he said", "Wait"]),
    ],
)
def test_sentences_are_written_as_in_treebanks_if_requested(options, written, book, tmp_path):
    train = tmp_path / "train.txt"
    path = str(book("“It doesn’t matter,” he said. Wait!"))
    assert cli.main(["data", "sentences", path, "-o", str(train), *options]) == 0
    assert train.read_text().splitlines() == written


@pytest.fixture
def short(monkeypatch):
    """A text8 of 40 bytes, of which 30 are training text."""
    monkeypatch.setattr(running_text, "TEXT8_BYTES", 40)
    monkeypatch.setattr(running_text, "TEXT8_TRAINING_BYTES", 30)


def test_the_real_sizes_are_those_of_the_published_split():
    assert (running_text.TEXT8_BYTES, running_text.TEXT8_TRAINING_BYTES) == (100_000_000, 99_000_000)


def test_the_parts_are_the_bytes_before_and_after_the_split(short, tmp_path):
    content = b" anarchism originated as a term of abuse"
    (tmp_path / "text8").write_bytes(content)
    summary = split_text8(tmp_path / "text8", tmp_path / "out")
    train, valid = ((tmp_path / "out" / f"{name}.txt").read_bytes() for name in ("train", "valid"))
    assert train == content[:30] + b"\n"
    assert valid == content[30:] + b"\n"
    assert (summary.train_words, summary.valid_words, summary.cut) == (5, 3, "term")
    assert "cut is inside the word 'term'" in str(summary)


@pytest.mark.parametrize("content", [b"a" * 29 + b" " + b"b" * 10, b"a" * 30 + b" " + b"b" * 9])
def test_a_split_between_words_divides_no_word(short, tmp_path, content):
    (tmp_path / "text8").write_bytes(content)
    summary = split_text8(tmp_path / "text8", tmp_path / "out")
    assert summary.cut is None
    assert (summary.train_words, summary.valid_words) == (len(content[:30].split()), 1)
    assert "cut falls" not in str(summary)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((b"a" * size, f"found .*{min(size, 40)} bytes; expected the unpacked text8, .* 40") for size in (0, 39, 41)),
        (b"a" * 20 + b"\n" + b"a" * 19, "found byte 0x0a at offset 20"),
        (None, "cannot be read: No such file"),
    ],
)
def test_another_file_is_reported_and_nothing_is_written(short, tmp_path, content, message):
    if content is not None:
        (tmp_path / "text8").write_bytes(content)
    with pytest.raises(InputError, match=f"text8: {message}"):
        split_text8(tmp_path / "text8", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_utf8_that_is_read_in_another_encoding_is_warned_of(book, recwarn):
    with pytest.warns(InputWarning, match="book.txt: found text in UTF-8, which is read as latin-1"):
        read_paragraphs(book("Der Bär schläft."), encoding="latin-1")
    for content in ("Der Bär schläft.".encode("latin-1"), b"The bear sleeps."):
        assert read_paragraphs(book(content), encoding="latin-1").paragraphs
    assert not recwarn.list


def test_windows_1252_that_is_read_as_latin_1_is_warned_of(book):
    path = book("“No,” he said.".encode("cp1252"))
    with pytest.warns(InputWarning, match=r"found 2 control characters, .*, read as latin-1\. If so, .* cp1252"):
        read_paragraphs(path, encoding="latin-1")
    assert read_paragraphs(path, encoding="cp1252").paragraphs == ("“No,” he said.",)


def test_byte_order_marks_of_joined_files_are_no_text(book):
    assert read_paragraphs(book("\ufeffOne.\n\n\ufeffTwo.\r\n\r\n\ufeffThree.\n")).paragraphs == (
        "One.",
        "Two.",
        "Three.",
    )
