"""All readers of text accept compressed files and standard input."""

import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import pytest
from backports import zstd

from syntaxlm.core.errors import InputError
from syntaxlm.data.completion import read_questions
from syntaxlm.data.corpora import EncodedCorpus, count_tokens
from syntaxlm.data.labelled_pairs import read_formula_pairs
from syntaxlm.data.pairs import read_pairs
from syntaxlm.data.parse_candidates import read_candidates
from syntaxlm.data.running_text import read_paragraphs
from syntaxlm.data.tables import read_table
from syntaxlm.data.treebank_files import treebank_files
from syntaxlm.data.treebanks import dependency_trees, read_treebank
from syntaxlm.storage.arpa import read_arpa
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from tests.fuzz.test_readers import ARPA, BRACKETS, CONLLU, DP
from tests.normalisers import normaliser_with

COMPRESS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}
VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>", "the", "cat"])
CONLLX = "1\tGo\tgo\tV\tVB\t_\t0\troot\n\n"


def table(path):
    names, rows = read_table(path, "text")
    return names, list(rows)


def corpus(path):
    with EncodedCorpus.encode(path, Normaliser(), VOCABULARY) as read:
        return read.ids.tolist(), read.offsets.tolist(), read.line_numbers.tolist()


READERS = [
    pytest.param(corpus, "a.txt", "the cat\n\nthe dog", id="text"),
    pytest.param(lambda path: count_tokens(path, Normaliser()), "a.txt", "the cat\n\nthe dog", id="tokens"),
    pytest.param(lambda path: count_tokens(path, normaliser_with(units="tags")), "a.txt", "the_DT cat_NN", id="tags"),
    pytest.param(lambda path: read_treebank(path).sentences, "a.mrg", BRACKETS[0], id="mrg"),
    pytest.param(lambda path: read_treebank(path).sentences, "a.conllu", CONLLU[0], id="conllu"),
    pytest.param(lambda path: read_treebank(path).sentences, "a.conllx", CONLLX, id="conllx"),
    pytest.param(lambda path: read_treebank(path, "ptb-keep").sentences, "a.dp", DP[0], id="dp"),
    pytest.param(lambda path: read_treebank(path).sentences, "a.tagged.txt", "the_DT\ncat_NN\n", id="tagged"),
    pytest.param(
        lambda path: [tree.heads for tree in dependency_trees(path)], "a.conllu", CONLLU[0], id="dependencies"
    ),
    pytest.param(
        lambda path: [one.heads for one in dependency_trees(path, "ud")], "a.conllu", CONLLU[0], id="preprocessed"
    ),
    pytest.param(lambda path: [len(one) for one in read_candidates(path)], "a.conllu", CONLLU[0], id="candidates"),
    pytest.param(
        lambda path: [(one.better, one.worse) for one in read_pairs([path])],
        "a.jsonl",
        json.dumps({"sentence_good": "a", "sentence_bad": "b"}),
        id="pairs",
    ),
    pytest.param(table, "a.tsv", "text\tn\na cat\t1\n", id="table"),
    pytest.param(read_formula_pairs, "a.tsv", "=\ta\ta\n", id="logic"),
    pytest.param(lambda path: read_arpa(path).vocabulary, "a.arpa", ARPA[0], id="arpa"),
    pytest.param(read_paragraphs, "a.txt", "One cat.\n\nTwo cats.\n", id="books"),
    pytest.param(
        lambda path: read_paragraphs(path, encoding="utf-16"), "a.txt", "One cat.".encode("utf-16"), id="utf-16"
    ),
]


@pytest.mark.parametrize(("read", "name", "content"), READERS)
def test_every_reader_takes_every_compression_and_standard_input(tmp_path, monkeypatch, read, name, content):
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(content)
    expected = read(tmp_path / name)
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(compress(content))
        assert read(path) == expected
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.raises(InputError, match=f"{name}{suffix}: truncated"):
            read(path)
        for given in (content, compress(content)):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            assert read("-") == expected
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            assert read(Path("-")) == expected


def test_completion_questions_and_answers_may_be_compressed(tmp_path):
    (tmp_path / "q.txt.xz").write_bytes(lzma.compress(b"a cat\na dog\n"))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a dog\n"))
    (question,) = read_questions(tmp_path / "q.txt.xz", tmp_path / "a.txt.gz")
    assert (question.candidates, question.correct) == (("a cat", "a dog"), 1)
    parsed = "1\ta\t_\t_\t_\t_\t2\t_\t_\t_\n2\t{}\t_\t_\t_\t_\t0\t_\t_\t_\n\n"
    (tmp_path / "q.conllu.zst").write_bytes(COMPRESS[".zst"]((parsed.format("cat") + parsed.format("dog")).encode()))
    (question,) = read_questions(tmp_path / "q.conllu.zst", tmp_path / "a.txt.gz")
    assert [tree.heads for tree in question.trees] == [(2, 0), (2, 0)]


def test_minimal_pairs_are_named_by_their_file_without_its_compression(tmp_path):
    content = json.dumps({"sentence_good": "a", "sentence_bad": "b"}).encode()
    (tmp_path / "island.jsonl.gz").write_bytes(gzip.compress(content))
    (pair,) = read_pairs([tmp_path])
    assert pair.case == "island"


def test_patterns_and_folders_find_compressed_treebanks(tmp_path):
    trees = ["(S (A a))\n", "(S (A b))\n", "(S (A c))\n"]
    (tmp_path / "1.mrg").write_text(trees[0])
    (tmp_path / "2.mrg.gz").write_bytes(gzip.compress(trees[1].encode()))
    (tmp_path / "3.mrg.xz").write_bytes(lzma.compress(trees[2].encode()))
    (tmp_path / "README.gz").write_bytes(gzip.compress(b"no tree"))
    for path in (tmp_path, tmp_path / "*.mrg", str(tmp_path / "**" / "*.mrg")):
        assert [sentence.words for sentence in read_treebank(path)] == [("a",), ("b",), ("c",)]
    assert [sentence.words for sentence in read_treebank(tmp_path / "*.mrg.xz")] == [("c",)]
    with pytest.raises(InputError, match=r"2\.mrg: no such file or folder\. There is .*2\.mrg\.gz"):
        read_treebank(tmp_path / "2.mrg")


def test_a_file_and_its_compressed_copy_are_not_both_read(tmp_path):
    (tmp_path / "a.mrg").write_text("(S (A a))\n")
    (tmp_path / "a.mrg.gz").write_bytes(gzip.compress(b"(S (A a))\n"))
    assert len(read_treebank(tmp_path / "*.mrg")) == 1
    with pytest.raises(InputError, match=r"a\.mrg: found both compressed and uncompressed"):
        read_treebank(tmp_path)


@pytest.mark.parametrize("content", ["", "# a comment\n", "just words\n", "a\tb\n"])
def test_standard_input_without_a_treebank_is_refused(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    with pytest.raises(InputError, match=r"standard input.*expected a treebank"):
        read_treebank("-")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_ids_of_compressed_text_are_not_held_in_memory(tmp_path, suffix):
    (tmp_path / f"a{suffix}").write_bytes(COMPRESS[suffix](b"the cat\n" * 99))
    with EncodedCorpus.encode(tmp_path / f"a{suffix}", Normaliser(), VOCABULARY) as read:
        assert read.word_count == 198
        assert type(read.ids).__name__ == "memmap"


def test_listing_the_files_of_standard_input_does_not_read_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONLLU[0].encode())))
    assert treebank_files("-") == [Path("-")]
    assert len(read_treebank("-")) == 2
