"""Text files as token ids: exact, in bounded memory, and with errors reported by place."""

import io
import os
import subprocess
import sys
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data import corpora
from syntaxlm.data.corpora import EncodedCorpus, count_tokens, read_lines, read_sentences
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from tests.normalisers import normaliser_with

NORMALISER = Normaliser()
TEXT = "the cat sat\n\n  \t\nthe dog the\r\nsat down <s>"
VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>", "the", "cat", "sat"])


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode())
    return path


def sentences(corpus):
    return [corpus.sentence(number) for number in range(len(corpus))]


def test_a_text_becomes_the_ids_of_its_lines_without_empty_ones(text):
    corpus = EncodedCorpus.encode(text, NORMALISER, VOCABULARY)
    assert sentences(corpus) == [[3, 4, 5], [3, 0, 3], [5, 0, 0]]
    assert corpus.line_numbers.tolist() == [1, 4, 5]
    assert corpus.unknown_count == 3
    assert corpus.word_count == 9
    assert corpus.character_count == len("the cat sat") + len("the dog the") + len("sat down <s>") + 3
    assert corpus.ids.dtype == np.uint16


def test_lines_lose_their_ends_and_the_byte_order_mark_and_nothing_else(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffa \r\n\u2028b\u0085\n\rc\r\n\n d".encode())
    assert list(read_lines(path)) == [(1, "a "), (2, "\u2028b\u0085"), (3, "\rc"), (4, ""), (5, " d")]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"good\nb\xe4d\n", r"text, line 2: found byte 0xe4 at offset 6 of the file; expected UTF-8"),
        (b"", "text: found no sentence"),
        (b" \n\n", "text: found no sentence"),
    ],
)
def test_a_file_without_text_is_reported_with_the_place(tmp_path, monkeypatch, content, fault):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(InputError, match=fault):
        count_tokens(path, NORMALISER)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for in_memory in (corpora.IN_MEMORY, 0):
        monkeypatch.setattr(corpora, "IN_MEMORY", in_memory)
        with pytest.raises(InputError, match=fault):
            EncodedCorpus.encode(path, NORMALISER, VOCABULARY)
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_and_a_folder_are_reported(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        for read in (lambda p: list(read_lines(p)), lambda p: EncodedCorpus.encode(p, NORMALISER, VOCABULARY)):
            with pytest.raises(InputError, match=rf"{path.name}: cannot be read: (Is a directory|No such file)"):
                read(path)


def test_text_emptied_by_the_normaliser_is_no_sentence(tmp_path):
    path = tmp_path / "text"
    path.write_text("...\nthe .\n--\n")
    corpus = EncodedCorpus.encode(path, normaliser_with(drop_punctuation=True), VOCABULARY)
    assert sentences(corpus) == [[3]]
    assert corpus.line_numbers.tolist() == [2]
    assert corpus.character_count == len("the") + 1


def test_errors_in_standard_input_are_reported_by_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(InputError, match="standard input, line 1: found byte 0xff at offset 0"):
        list(read_lines("-"))


def test_counting_counts_every_token(text):
    assert count_tokens(text, NORMALISER) == {"the": 3, "sat": 2, "cat": 1, "dog": 1, "down": 1, "<s>": 1}


@given(
    st.lists(st.lists(st.sampled_from(["the", "cat", "sat", "dog", "."]), max_size=9), max_size=20),
    st.integers(1, 9),
    st.integers(1, 30),
    st.booleans(),
)
def test_chunks_files_and_memory_give_the_same_corpus(tmp_path_factory, lines, chunk, long_line, in_memory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in [*lines, ["the"]]))
    expected = [line for line in [*lines, ["the"]] if line]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "CHUNK", chunk)
        patch.setattr("syntaxlm.text.normaliser.LONG_LINE", long_line)
        patch.setattr(corpora, "IN_MEMORY", 2**20 if in_memory else 0)
        corpus = EncodedCorpus.encode(path, NORMALISER, VOCABULARY)
    assert sentences(corpus) == [VOCABULARY.encode(line) for line in expected]
    assert corpus.unknown_count == sum(token in ("dog", ".") for line in expected for token in line)
    assert corpus.lengths.tolist() == [len(line) for line in expected]
    corpus.close()


def test_temporary_files_go_with_the_corpus(text, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    corpus = EncodedCorpus.encode(text, NORMALISER, VOCABULARY)
    assert set(tmp_path.iterdir()) > before
    del corpus
    assert set(tmp_path.iterdir()) == before
    with EncodedCorpus.encode(text, NORMALISER, VOCABULARY) as corpus:
        assert len(corpus) == 3
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("longest", [None, 3])
def test_the_first_sentences_keep_their_words_unknown_words_and_characters(tmp_path, longest):
    path = tmp_path / "text"
    path.write_text("the cat sat the\nthe dog\nsat\nthe cat sat down\n")
    first = EncodedCorpus.encode(path, NORMALISER, VOCABULARY).first(6, VOCABULARY, longest)
    lines = ["the cat sat the", "the dog"] if longest is None else ["the dog", "sat"]
    assert first.unknown_count == 1
    assert first.word_count == sum(len(line.split()) for line in lines)
    assert first.character_count == sum(len(line) + 1 for line in lines)


def test_sentences_at_hand_make_a_corpus_and_may_be_empty():
    corpus = EncodedCorpus.from_sentences([[3, 0], [], [5]], VOCABULARY)
    assert sentences(corpus) == [[3, 0], [], [5]]
    assert corpus.unknown_count == 1
    with pytest.raises(InputError, match="found no sentence"):
        EncodedCorpus.from_sentences([])
    with pytest.raises(IndexError):
        corpus.sentence(3)


@given(st.lists(st.lists(st.integers(3, 5), min_size=1), min_size=1), st.integers(1, 4), st.integers(0, 99))
def test_joined_sentences_are_the_same_text_with_ends_between_them(lines, most, seed):
    corpus = EncodedCorpus.from_sentences(lines)
    joined = corpus.joined(most, 0, seed)
    runs = sentences(joined)
    assert [word for run in runs for word in [*run, 0]] == [word for line in lines for word in [*line, 0]]
    assert all(run.count(0) < most for run in runs)
    firsts = np.cumsum([1, *(1 + run.count(0) for run in runs)])[:-1]
    assert joined.line_numbers.tolist() == firsts.tolist()


def test_joined_sentences_keep_their_characters_and_unknown_words(text):
    corpus = EncodedCorpus.encode(text, NORMALISER, VOCABULARY)
    joined = corpus.joined(3, 2, seed=1)
    assert 1 < len(joined) < len(corpus)
    assert joined.character_count == corpus.character_count
    assert joined.unknown_count == corpus.unknown_count


def test_a_full_disk_is_reported_and_nothing_stays(text, tmp_path, monkeypatch):
    class FullDisk(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(corpora, "IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(corpora, "open", lambda *_: FullDisk(), raising=False)
    with pytest.raises(InputError, match=r"cannot be written with the ids of .*text\.txt: No space left"):
        EncodedCorpus.encode(text, NORMALISER, VOCABULARY)
    assert not list((tmp_path / "temporary").iterdir())


def test_large_vocabularies_have_wide_ids(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_text("w69999 w0\n")
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(70_000))])
    for in_memory in (corpora.IN_MEMORY, 0):
        monkeypatch.setattr(corpora, "IN_MEMORY", in_memory)
        corpus = EncodedCorpus.encode(path, NORMALISER, vocabulary)
        assert corpus.ids.dtype == np.int32
        assert sentences(corpus) == [[70_002, 3]]


@pytest.mark.long
@pytest.mark.parametrize("one_line", [False, True])
def test_memory_stays_bounded_on_a_file_of_30_megabytes(tmp_path, monkeypatch, one_line):
    monkeypatch.setattr(corpora, "IN_MEMORY", 2**20)
    path = tmp_path / "large.txt"
    block = (" ".join(f"word{number % 5000}" for number in range(1000)) + (" " if one_line else "\n")).encode()
    with open(path, "wb") as file:
        file.writelines([block] * (30 * 2**20 // len(block)))
    vocabulary = Vocabulary.build(count_tokens(path, NORMALISER))
    tracemalloc.start()
    try:
        corpus = EncodedCorpus.encode(path, NORMALISER, vocabulary)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert corpus.word_count == 1000 * (30 * 2**20 // len(block))
    # A line is held as bytes and as text; the words of only a part of it.
    assert peak < (2 * 30 + 60 if one_line else 60) * 2**20
    corpus.close()


def test_counting_needs_little_memory(tmp_path):
    path = tmp_path / "large.txt"
    line = " ".join(f"word{number}" for number in range(500)) + "\n"
    path.write_text(line * 8000)
    program = (
        "import resource, sys\n"
        "from syntaxlm.data.corpora import count_tokens\n"
        "from syntaxlm.text.normaliser import Normaliser\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "count_tokens(sys.argv[1], Normaliser())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    assert os.path.getsize(path) > 25 * 2**20
    grown = int(subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True).stdout)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, bytes
    assert grown * unit < 20 * 2**20


@pytest.mark.parametrize("first", ["(S (NP a) (VP b))", "((S (A a) (B b)))", "(see (Smith 2000) for more)"])
def test_trees_that_are_read_as_text_are_reported(first, tmp_path):
    (tmp_path / "a.txt").write_text(f"{first}\na b\n")
    is_tree = first.endswith("))")
    expected = r"a\.txt, line 1: found what may be a bracketed tree, as in 1 of the first 2 lines; it is read as text"
    with pytest.warns(InputWarning, match=expected) if is_tree else nullcontext():
        assert len(list(read_lines(tmp_path / "a.txt"))) == 2


@pytest.mark.parametrize("name", ["a.mrg", "b.conllu", "c.DP"])
def test_a_file_with_the_name_of_a_treebank_is_refused_as_text(name, tmp_path):
    (tmp_path / name).write_text("a b\n")
    with pytest.raises(InputError, match=f"{name}: found a name that ends in .*syntaxlm data words"):
        next(read_lines(tmp_path / name))
    with pytest.raises(InputError, match=f"{name}: .* expected tagged text, .*syntaxlm data tags"):
        next(read_sentences(tmp_path / name, normaliser_with(units="tags")))
