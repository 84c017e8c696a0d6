"""Tagged text: read as tags or as words, with untagged tokens counted, or reported by line."""

import gzip
import warnings

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data.corpora import count_tokens, is_tagged, read_sentences, tagged_lines, treebank_suffix
from syntaxlm.data.treebanks import read_treebank, treebank_tokens, write_words
from syntaxlm.text.normaliser import Normaliser
from tests.normalisers import normaliser_with

TAGS, WORDS = normaliser_with(units="tags"), Normaliser()
TEXT = "the_DT old_cat_NN sat_VBD ._.\n\n_PRP sleeps_VBZ\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.tagged.txt.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    return path


def test_tagged_text_is_recognised_by_its_name():
    for name in ("a.tagged", "a.tagged.txt", "a.TAGGED.gz", "a.tagged.txt.zst"):
        assert is_tagged(name), name
        assert treebank_suffix(name) == ".tagged"
    for name in ("tagged", "tagged.txt", "a.txt", "a.tagged.mrg", ".tagged"):
        assert not is_tagged(name), name


def test_one_setting_reads_a_tagged_file_as_tags_or_as_words(text):
    assert count_tokens(text, TAGS) == {"DT": 1, "NN": 1, "VBD": 1, ".": 1, "PRP": 1, "VBZ": 1}
    assert count_tokens(text, WORDS) == {"the": 1, "old_cat": 1, "sat": 1, ".": 1, "sleeps": 1}
    assert list(read_sentences(text, WORDS)) == [(1, "the old_cat sat ."), (2, ""), (3, "sleeps")]


def test_one_setting_reads_a_treebank_as_tags_or_as_words(tmp_path):
    (tmp_path / "trees.mrg").write_text("(S (NP (DT The) (NN cat)) (VP (VBD sat)) (. .))\n")
    treebank = read_treebank(tmp_path / "trees.mrg", "ptb-keep")
    assert treebank_tokens(treebank, TAGS) == [["DT", "NN", "VBD"]]
    assert treebank_tokens(treebank, normaliser_with(lower_case=True)) == [["the", "cat", "sat"]]
    write_words(treebank, tmp_path / "trees.tagged.txt", with_tags=True)
    assert (tmp_path / "trees.tagged.txt").read_text() == "The_DT cat_NN sat_VBD\n"
    assert list(read_sentences(tmp_path / "trees.tagged.txt", WORDS)) == [(1, "The cat sat")]


def test_a_tagged_file_is_a_treebank_without_trees(text, tmp_path):
    treebank = read_treebank(text, "ptb-keep")
    assert [sentence.words for sentence in treebank] == [("the", "old_cat", "sat"), ("PRP", "sleeps")]
    assert [sentence.tags for sentence in treebank] == [("DT", "NN", "VBD"), ("PRP", "VBZ")]
    assert all(sentence.tree is None and sentence.heads is None for sentence in treebank)
    write_words(treebank, tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_text() == "the old_cat sat\nPRP sleeps\n"


def test_longer_sentences_are_left_out_and_counted(text, tmp_path):
    treebank = read_treebank(text, "ptb-keep")
    written = write_words(treebank, tmp_path / "short.tagged.txt", 2, with_tags=True)
    assert (tmp_path / "short.tagged.txt").read_text() == "PRP_PRP sleeps_VBZ\n"
    assert (written.sentences, written.longer, written.emptied) == (1, 1, 0)
    assert str(written) == "1 sentence   2 words   left out: 1 longer sentence"
    with pytest.raises(InputError, match="found no word to write in sentences of up to 1 words"):
        write_words(treebank, tmp_path / "none.txt", 1)
    with pytest.raises(InputError, match="maximum words: found 0; expected 1 to"):
        write_words(treebank, tmp_path / "none.txt", 0)


def test_trees_without_tags_are_refused(tmp_path):
    (tmp_path / "trees.mrg").write_text("(S (NP (DT the) (NN cat)) (VP sat down))\n")
    treebank = read_treebank(tmp_path / "trees.mrg")
    with pytest.raises(InputError, match=r"trees\.mrg, sentence 1: the word 'sat' has no part-of-speech tag"):
        treebank_tokens(treebank, TAGS)
    with pytest.raises(InputError, match="the word 'sat' has no tag; expected a part-of-speech tag"):
        write_words(treebank, tmp_path / "out.tagged.txt", with_tags=True)
    (tmp_path / "trees.mrg").write_text("(S (NP_1 cat) (VBD sat))\n")
    with pytest.raises(InputError, match=r"the word 'cat' has the tag 'NP_1'; expected .* without underscore"):
        write_words(read_treebank(tmp_path / "trees.mrg"), tmp_path / "out.tagged.txt", with_tags=True)
    assert not (tmp_path / "out.tagged.txt").exists()


@pytest.mark.parametrize("token", ["cat", "cat_", "_", "é"])
def test_plain_text_is_reported_by_line_and_token(tmp_path, token):
    path = tmp_path / "text.txt"
    path.write_text(f"the_DT\n{token} sat_VBD\n")
    with pytest.raises(InputError, match=rf"text\.txt, line 2: found '{token}'; expected word_TAG.*units: tags"):
        count_tokens(path, TAGS)


def test_few_untagged_tokens_are_left_out_and_counted():
    lines = [(1, "a_A " * 200 + "stray . . ._..."), (2, "b_B")]
    with pytest.raises(InputError, match=r"text, line 1 \(3 of 204 tokens so far have no tag\): found 'stray'"):
        list(tagged_lines("text", lines))
    lines[0] = (1, "a_A " * 400 + "stray . . ._...")
    with pytest.warns(
        InputWarning, match=r"text: 3 of 405 tokens have no tag and are omitted; the first is 'stray' in"
    ):
        assert [len(line.split()) for _, line in tagged_lines("text", lines)] == [401, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(tagged_lines("text", lines, warn=False))
