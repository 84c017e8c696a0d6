"""Treebanks: files, folders and patterns; preprocessing; dependencies and constituents."""

import gzip
from itertools import product

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data import treebank_files
from syntaxlm.data.treebanks import (
    TreebankSentence,
    dependency_trees,
    read_treebank,
    treebank_tokens,
    write_baseline_trees,
    write_words,
)
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.trees.marks import MarkClass
from syntaxlm.trees.preprocessing import GoldPreprocessing
from syntaxlm.trees.tree import Constituent, DependencyTree
from tests.normalisers import normaliser_with
from tests.shared_data import DATA
from tests.trees.faults import dependency_faults

FIRST = "(S (NP-SBJ (DT The) (NN cat)) (, ,) (VP (VBD ate) (NP (-NONE- *-1)) (NP (CD 12) (NNS fish))) (. .))"
SECOND = "(S (VP (VB Go)) (. !))"
FIRST_ARCS = [
    ("The", "DT", 2), ("cat", "NN", 4), (",", ",", 4), ("ate", "VBD", 0), ("12", "CD", 6), ("fish", "NNS", 4),
    (".", ".", 4),
]  # fmt: skip
SECOND_ARCS = [("Go", "VB", 0), ("!", ".", 1)]


def dp(*sentences):
    return "\n".join("".join(f"{word}\t{tag}\t{head}\n" for word, tag, head in sentence) for sentence in sentences)


def conllu(*sentences):
    rows = ([f"{i}\t{w}\t_\t{t}\t_\t_\t{h}\tdep{i}\t_\t_" for i, (w, t, h) in enumerate(s, 1)] for s in sentences)
    return "".join("\n".join(lines) + "\n\n" for lines in rows)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mrg").mkdir()
    (tmp_path / "dep").mkdir()
    for number, (tree, arcs) in enumerate([(FIRST, FIRST_ARCS), (SECOND, SECOND_ARCS), (FIRST, FIRST_ARCS)], 1):
        (tmp_path / "mrg" / f"wsj_000{number}.mrg").write_text(tree + "\n")
        (tmp_path / "dep" / f"wsj_000{number}.dp").write_text(dp(arcs))
    (tmp_path / "mrg" / "README").write_text("no treebank")
    return tmp_path


def test_a_folder_is_its_files_in_order_of_their_names_and_a_pattern_selects_files(folder):
    treebank = read_treebank(folder / "mrg")
    assert [(sentence.words[0], sentence.number) for sentence in treebank] == [("The", 1), ("Go", 2), ("The", 3)]
    assert treebank.source == str(folder / "mrg")
    assert len(read_treebank(folder / "mrg" / "wsj_000[12].mrg")) == 2
    assert len(read_treebank(str(folder / "**" / "*.mrg"))) == 3


def test_hidden_files_of_a_folder_are_not_read(folder):
    (folder / "mrg" / "._wsj_0001.mrg").write_bytes(b"\0\x05\x16\x07")  # as macOS writes them on other disks
    (folder / "mrg" / ".wsj_0001.mrg").write_text(FIRST)
    assert len(read_treebank(folder / "mrg")) == 3


def test_preprocessing_keeps_the_documented_words_and_their_tree(folder):
    first = read_treebank(folder / "mrg", "ptb-keep").sentences[0]
    assert first.words == ("The", "cat", "ate", "12", "fish")
    assert first.tags == ("DT", "NN", "VBD", "CD", "NNS")
    assert first.tree is not None
    assert first.tree.words == first.words
    assert Constituent("NP", 0, 2) in first.tree.constituents
    assert first.heads is None
    assert len(first) == 5


def test_heads_of_dropped_words_are_passed_on(folder):
    first, second, _ = read_treebank(folder / "mrg", "ptb-keep", folder / "dep")
    assert first.heads == (2, 3, 0, 5, 3)
    assert second.heads == (0,)


def test_dependencies_alone_are_a_treebank_too(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text(conllu(FIRST_ARCS, [("?", ".", 0)], SECOND_ARCS))
    treebank = read_treebank(path, "ptb-drop")
    assert treebank.emptied == (2,)
    go = TreebankSentence(("Go",), ("VB",), None, (0,), ("dep1",), 3, marks=(0, MarkClass.END))
    assert treebank.sentences[1] == go
    assert treebank.sentences[0].heads == (2, 3, 0, 5, 3)
    assert treebank.sentences[0].labels == ("dep1", "dep2", "dep4", "dep5", "dep6")


def test_dependency_trees_are_named_by_their_id_or_number(tmp_path):
    path = tmp_path / "named.conllu"
    path.write_text("# sent_id = first\n" + conllu(FIRST_ARCS, SECOND_ARCS))
    for preprocessing, words in (("none", 7), ("ptb-keep", 5)):
        first, second = dependency_trees(path, preprocessing)
        assert (first.name, second.name, len(first)) == ("first", "2", words)


def heads_are_one_tree(heads):
    faults = dependency_faults(DependencyTree(("w",) * len(heads), ("",) * len(heads), heads, ("",) * len(heads)))
    return faults in ([], ["non-projective"])


def test_every_tree_of_four_words_stays_one_tree_whichever_words_are_dropped(tmp_path):
    drop = GoldPreprocessing("drop x", drop_tags=frozenset({"x"}))
    trees = [heads for heads in product(range(5), repeat=4) if heads_are_one_tree(heads)]
    assert len(trees) == 64  # rooted labelled trees, 4^3
    for tags in product("xk", repeat=4):
        if tags.count("x") in (0, 4):
            continue
        (tmp_path / "some.dp").write_text(dp(*(zip("abcd", tags, heads, strict=True) for heads in trees)))
        for heads, sentence in zip(trees, read_treebank(tmp_path / "some.dp", drop), strict=True):
            assert heads_are_one_tree(sentence.heads)
            kept = [place for place, tag in enumerate(tags, 1) if tag == "k"]
            for word, head in zip(kept, sentence.heads, strict=True):
                if heads[word - 1] in kept:
                    assert kept[head - 1] == heads[word - 1]


def test_a_cycle_of_dropped_words_does_not_hang(tmp_path):
    path = tmp_path / "some.dp"
    path.write_text(dp([("a", "x", 2), ("b", "x", 1), ("c", "k", 1), ("d", "k", 2)]))
    (sentence,) = read_treebank(path, GoldPreprocessing("drop x", drop_tags=frozenset({"x"})))
    assert sentence.heads == (0, 1)


def test_sentences_that_differ_are_reported_with_both_word_lists(folder):
    (folder / "dep" / "wsj_0002.dp").write_text(dp([("Go", "VB", 0), ("on", "RP", 1), ("!", ".", 1)]))
    message = r"(?s)wsj_0002\.mrg, sentence 1 and .*wsj_0002\.dp, line 1, sentence 1: .* 2 and 3 words.*Go !.*Go on !"
    with pytest.raises(InputError, match=message):
        read_treebank(folder / "mrg", "ptb-keep", folder / "dep")


def test_sentences_with_half_of_their_words_equal_are_the_same(tmp_path):
    (tmp_path / "a.mrg").write_text("(S (A a) (B b) (C c) (D d))\n")
    for words, is_same in (("a b x y", True), ("a x y z", False)):
        (tmp_path / "a.dp").write_text(dp([(word, "A", place) for place, word in enumerate(words.split())]))
        if is_same:
            assert len(read_treebank(tmp_path / "a.mrg", "none", tmp_path / "a.dp")) == 1
            continue
        with pytest.raises(InputError, match="found different sentences of 4 and 4 words"):
            read_treebank(tmp_path / "a.mrg", "none", tmp_path / "a.dp")


def test_unequal_counts_name_the_first_sentence_without_a_partner(folder):
    (folder / "dep" / "wsj_0003.dp").unlink()
    with pytest.raises(InputError, match=r"has 3 sentences and .* has 2; .*wsj_0003\.mrg, sentence 1"):
        read_treebank(folder / "mrg", "ptb-keep", folder / "dep")


@pytest.mark.parametrize("name", ["a.penn", "a.prd", "a.parse", "a.ptb", "a.brackets", "a.txt", "a", "gold.2024"])
@pytest.mark.parametrize("compressed", ["", ".gz"])
def test_trees_are_read_whatever_the_name_of_the_file(name, compressed, tmp_path):
    path, text = tmp_path / f"{name}{compressed}", b"\n(S (NP (DT the) (NN cat)) (VBD sat))\n"
    path.write_bytes(gzip.compress(text) if compressed else text)
    (sentence,) = read_treebank(path)
    assert sentence.words == ("the", "cat", "sat")
    assert sentence.tree is not None


@pytest.mark.parametrize("name", ["arcs.txt", "arcs.2024"])
def test_dependency_trees_and_tagged_text_are_known_by_their_content(name, tmp_path):
    path = tmp_path / name
    path.write_text("# a comment\n" + conllu(FIRST_ARCS))
    assert next(iter(read_treebank(path))).heads is not None
    path.write_text("the_DT cat_NN\n")
    assert next(iter(read_treebank(path))).tags == ("DT", "NN")


def test_the_wrong_type_of_file_is_reported_by_name(folder):
    with pytest.raises(InputError, match="expected constituency trees first"):
        read_treebank(folder / "dep", "none", folder / "mrg")
    for path, message in (
        ("mrg/README", r"README, line 1: found .*; expected a treebank: bracketed trees, CoNLL-U"),
        ("none.mrg", r"none\.mrg: no such file"),
        (".", r"found no treebank in this folder; .* end in \.mrg .* \.penn"),
    ):
        with pytest.raises(InputError, match=message):
            read_treebank(folder / path)
    (folder / "mrg" / "more.conllu").write_text(conllu(FIRST_ARCS))
    with pytest.raises(InputError, match=r"constituency .*1\.mrg\), dependency .*more\.conllu\); expected one kind"):
        read_treebank(folder / "mrg")
    with pytest.raises(InputError, match="preprocessing 'ptb': no such rule"):
        read_treebank(folder / "mrg" / "*.mrg", "ptb")


def test_treebank_tokens_are_one_for_each_word_whatever_the_normaliser_drops(folder):
    treebank = read_treebank(folder / "mrg")
    normaliser = normaliser_with(lower_case=True, numbers="whole", drop_punctuation=True, drop_words=("the",))
    assert treebank_tokens(treebank, normaliser)[:2] == [["the", "cat", ",", "ate", "N", "fish", "."], ["go", "!"]]


def test_written_words_are_the_sentences_after_preprocessing(folder):
    written = write_words(read_treebank(folder / "mrg", "ptb-keep"), folder / "words.txt")
    assert (folder / "words.txt").read_text() == "The cat ate 12 fish\nGo\nThe cat ate 12 fish\n"
    assert (written.sentences, written.words, written.emptied) == (3, 11, 0)
    nouns = read_treebank(folder / "mrg", GoldPreprocessing("nouns", keep_tags=frozenset({"NN"})))
    some = write_words(nouns, folder / "some.txt")
    assert (folder / "some.txt").read_text() == "cat\ncat\n"
    assert (some.sentences, some.words, some.emptied) == (2, 2, 1)


@pytest.mark.parametrize("unicode_form", ["NFC", "NFKC", "keep"])
def test_written_words_read_as_the_words_of_the_treebank(tmp_path, unicode_form):
    odd = "1 000|1\u00a0000|a\u2028b|x\u200by|\x85z\x85|co\u00adop|e\u0301|👩\u200d👧|(|fi"
    words = odd.split("|")
    rows = [f"{place}\t{word}\t_\tX\t_\t_\t0\t_\t_\t_\n" for place, word in enumerate(words, 1)]
    (tmp_path / "odd.conllu").write_text("".join(rows) + "\n", encoding="utf-8", newline="")
    treebank = read_treebank(tmp_path / "odd.conllu")
    written = write_words(treebank, tmp_path / "words.txt")
    (text,) = (tmp_path / "words.txt").read_bytes().decode().split("\n")[:-1]
    normaliser = normaliser_with(unicode_form=unicode_form)
    assert [normaliser.tokens(text)] == treebank_tokens(treebank, normaliser)
    assert (written.joined, written.blank) == (5, 0)
    assert "white space removed from 5 words" in str(written)


def test_words_of_white_space_alone_are_left_out_and_counted(tmp_path):
    (tmp_path / "odd.mrg").write_text("(S (A \u00a0) (B b))\n(S (A \u3000))\n", encoding="utf-8")
    written = write_words(read_treebank(tmp_path / "odd.mrg"), tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_text() == "b\n"
    assert (written.sentences, written.blank, written.emptied) == (1, 2, 1)
    (tmp_path / "blank.mrg").write_text("(S (A \u3000))\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"blank\.mrg: found no word to write"):
        write_words(read_treebank(tmp_path / "blank.mrg"), tmp_path / "none.txt")
    assert not (tmp_path / "none.txt").exists()


@pytest.mark.skipif(not (DATA / "other-languages").is_dir(), reason=f"the treebanks are not in {DATA}")
@pytest.mark.parametrize(
    "name", ["zh-sinica", *(pytest.param(name, marks=pytest.mark.long) for name in ("es-cess", "pt-floresta"))]
)
def test_words_of_other_languages_read_as_those_of_the_treebank(tmp_path, name):
    treebank = read_treebank(DATA / "other-languages" / f"{name}.mrg", name)
    write_words(treebank, tmp_path / "words.txt")
    lines = (tmp_path / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
    normaliser = Normaliser()
    assert [normaliser.tokens(line) for line in lines] == treebank_tokens(treebank, normaliser)


@pytest.mark.skipif(not (DATA / "wsj-sample").is_dir(), reason=f"the WSJ sample is not in {DATA}")
def test_wsj_sample_words_are_in_mikolovs_vocabulary_with_the_rule_for_whole_numbers():
    treebank = read_treebank(DATA / "wsj-sample" / "mrg", "ptb-keep", DATA / "wsj-sample" / "dep")
    assert len(treebank) == 3914
    known = set((DATA / "ptb" / "ptb.train.txt").read_text().split())
    unknown = {}
    for numbers in ("whole", "runs"):
        tokens = treebank_tokens(treebank, normaliser_with(lower_case=True, numbers=numbers))
        words = [token for sentence in tokens for token in sentence]
        unknown[numbers] = sum(word not in known for word in words) / len(words)
    assert unknown["whole"] < 0.053  # as a fraction, without %: 0.057
    assert unknown["whole"] < unknown["runs"] < 0.071


@pytest.mark.skipif(not (DATA / "gum").is_dir(), reason=f"GUM is not in {DATA}")
def test_gum_dependencies_stay_trees_after_preprocessing():
    gum = DATA / "gum"
    treebank = read_treebank(gum / "dev.mrg", "ptb-drop", gum / "dev.conllu")
    assert all(heads_are_one_tree(sentence.heads) for sentence in treebank)


@pytest.mark.parametrize(
    ("shape", "trees"),
    [
        ("right", "(X a (X b (X c (X d e))))\n(X -LRB-)\n"),
        ("left", "(X (X (X (X a b) c) d) e)\n(X -LRB-)\n"),
        ("balanced", "(X (X a b) (X c (X d e)))\n(X -LRB-)\n"),
        ("random", "(X a (X (X b c) (X d e)))\n(X -LRB-)\n"),  # stored results name these
    ],
)
def test_baseline_trees_have_the_words_of_the_text(tmp_path, shape, trees):
    text, path = tmp_path / "text.txt", tmp_path / "trees.mrg"
    text.write_text("a b  c d e\n\n(\n")
    written = write_baseline_trees(text, path, shape, seed=1)
    assert (str(written), path.read_text()) == ("2 sentences   6 words", trees)
    assert [sentence.words for sentence in read_treebank(path)] == [("a", "b", "c", "d", "e"), ("(",)]


def test_baseline_trees_of_a_text_without_words_are_refused(tmp_path):
    (tmp_path / "text.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"text\.txt: found no sentence"):
        write_baseline_trees(tmp_path / "text.txt", tmp_path / "trees.mrg", "left")
    assert not (tmp_path / "trees.mrg").exists()


def test_positions_are_numbers_and_not_booleans(tmp_path):
    (tmp_path / "a.mrg").write_text("(S (NP (PRP We)) (VP (VBD left)))")
    (tmp_path / "a.dp").write_text(dp([("Go", "V", 0), ("on", "P", 1)]))
    (tree,), (arcs,) = read_treebank(tmp_path / "a.mrg"), read_treebank(tmp_path / "a.dp")
    numbers = [number for _, *span in tree.tree.constituents for number in span] + list(arcs.heads)
    assert set(map(type, numbers)) == {int}


def test_a_treebank_says_how_it_was_read(tmp_path):
    (tmp_path / "a.mrg").write_text("(S (NP (PRP We)) (VP (VBD left)) (. .))\n(ROOT)\n")
    (tmp_path / "b.mrg").write_text("( (S (NP (PRP We)) (VP (VBD left))) (. .))\n(S (NP ) (VB go))\n")
    treebank = read_treebank(tmp_path, "ptb-keep")
    assert [sentence.words for sentence in treebank] == [("We", "left"), ("We", "left"), ("go",)]
    assert treebank.emptied == (2,)
    assert treebank.reading.counts == {"sentences": 3, "words": 7}
    remarks = {remark.what: (remark.count, remark.examples) for remark in treebank.reading.remarks}
    assert remarks == {
        "trees without words (failed parses)": (1, ("a.mrg, line 2",)),
        "brackets without words": (1, ("b.mrg, line 2",)),
        "words dropped by preprocessing ptb-keep: '.' 2": (2, ()),
    }


def test_blank_lines_before_the_first_sentence_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(treebank_files, "MAXIMUM_COMMENTS", 1000)
    (tmp_path / "file").write_text("\n" * 5000 + " \n# a\n(S (NN a) (NN b))\n")
    with pytest.raises(InputError, match="line 5002: found '#' outside brackets"):
        read_treebank(tmp_path / "file")
    (tmp_path / "file").write_text("\n" * 5000 + "# a comment\n" * 500)
    with pytest.raises(InputError, match="MiB of comments"):
        read_treebank(tmp_path / "file")


def test_ids_of_historical_corpora_are_a_warning_without_their_preset(tmp_path):
    path = tmp_path / "a.psd"
    path.write_text("( (IP-MAT (NP-SBJ (PRO-N Hún-hún)) (VBDI fór-fara) (. .-.)) (ID 2001.TEST,.1))\n")
    with pytest.warns(
        InputWarning, match=r"1 tree with the node \(ID \.\.\.\).* expected one of icepahc, ppche, keyaki"
    ):
        treebank = read_treebank(path, "letters")
    assert treebank.sentences[0].words == ("Hún-hún", "fór-fara", "2001.TEST,.1")
    assert read_treebank(path, "icepahc").sentences[0].words == ("Hún", "fór")
