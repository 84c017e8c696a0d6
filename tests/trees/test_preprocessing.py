import pickle

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.trees.preprocessing import (
    PREPROCESSINGS,
    GoldPreprocessing,
    clean,
    find_preprocessing,
    plain_label,
    preprocess,
)
from syntaxlm.trees.tree import format_brackets, parse_brackets

TEXT = """( (S (NP-SBJ-1 (NP (NNP Mr.) (NNP Vinken)) (, ,) (-LRB- -LRB-) ($ $) (CD 61)) (PRN (, ,)) (VP=2 (VBD left)
       (S (NP (-NONE- *-1)) (VP (TO to) (VP (VB go) (NP (-NONE- *T*)))))) (. .)))"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ptb-keep", "(S (NP (NP (NNP Mr.) (NNP Vinken)) (CD 61)) (VP (VBD left) (S (VP (TO to) (VP (VB go))))))"),
        (
            "ptb-drop",
            "(S (NP (NP (NNP Mr.) (NNP Vinken)) ($ $) (CD 61)) (VP (VBD left) (S (VP (TO to) (VP (VB go))))))",
        ),
        (
            "ptb-keep-currency",
            "(S (NP (NP (NNP Mr.) (NNP Vinken)) ($ $) (CD 61)) (VP (VBD left) (S (VP (TO to) (VP (VB go))))))",
        ),
        (
            "none",
            "(S (NP (NP (NNP Mr.) (NNP Vinken)) (, ,) (-LRB- -LRB-) ($ $) (CD 61)) (PRN (, ,)) "
            "(VP (VBD left) (S (VP (TO to) (VP (VB go))))) (. .))",
        ),
    ],
)
def test_words_are_dropped_by_tag_and_empty_constituents_with_them(name, expected):
    assert format_brackets(clean(parse_brackets(TEXT)[0], PREPROCESSINGS[name])) == expected


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("(ROOT (S (NOUN a) (PUNCT .) (SYM %) (VERB b)))", "ud", "a b"),
        ("(S (sn *0*) (N a) (Fp .) (Fpa «) (Z 5) (X été) (Y 。) (T 友))", "letters", "a 5 été 友"),
        ("(S (sn *0*) (N a) (Fp .) (Fpa «) (Z 5) (X été) (Y 。) (T 友))", "letters-only", "*0* a 5 été 友"),
    ],
)
def test_punctuation_is_recognised_by_universal_tags_or_by_the_word(text, name, words):
    assert clean(parse_brackets(text)[0], PREPROCESSINGS[name]).words == tuple(words.split())


@pytest.mark.parametrize(
    ("label", "after", "before", "plain"),
    [
        ("NP-SBJ-1", "-=", "", "NP"), ("NP=2", "-=", "", "NP"), ("VP", "-=", "", "VP"), ("=", "-=", "", "="),
        ("S-TPC=1", "-=", "", "S"), ("SUBJ+np", "-=", "+", "np"), ("N<+pp", "", "+", "pp"), ("P+v-fin", "-", "+", "v"),
        ("A+B+np", "", "+", "np"), ("SUBJ+", "-=", "+", "SUBJ+"), ("+", "-=", "+", "+"), ("np:subj-1", ":-", "", "np"),
        ("NP-SBJ", "", "", "NP-SBJ"), ("", "-=", "+", ""),
    ],
)  # fmt: skip
def test_labels_lose_functions_and_indices_behind_and_before_the_separators(label, after, before, plain):
    assert plain_label(label, after, before) == plain
    assert plain_label("-LRB-") == "-LRB-"
    (tree,) = parse_brackets(f"(S ({label or 'X'} (A a) (B b)) (C c))")
    rules = GoldPreprocessing("mine", function_after=after, function_before=before)
    assert (plain or "X") in {part.label for part in clean(tree, rules).constituents}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (S (A a) (B b)))", [("S", 0, 2)]),
        ("(ROOT (S (A a) (B b)))", [("S", 0, 2)]),
        ("(TOP (A a) (B b))", []),
        ("((a b) c)", [("", 0, 3), ("", 0, 2)]),
        ("(((a b) c))", [("", 0, 3), ("", 0, 2)]),
        ("(S (S (A a) (B b)))", [("S", 0, 2), ("S", 0, 2)]),
    ],
)
def test_wrappers_are_removed_and_unary_chains_kept(text, expected):
    assert [tuple(span) for span in clean(parse_brackets(text)[0], PREPROCESSINGS["none"]).constituents] == expected


def test_a_sentence_without_words_left_is_none_and_its_index_is_missing():
    trees = parse_brackets("(S (NN a) (NN b)) (S (. .) (, ,)) (S (NN c) (. .))")
    assert clean(trees[1], PREPROCESSINGS["ptb-keep"]) is None
    preprocessed = preprocess(trees, PREPROCESSINGS["ptb-keep"], "gold.mrg")
    assert [tree.words for tree in preprocessed.trees] == [("a", "b"), ("c",)]
    assert preprocessed.indices == [0, 2]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("(S (NOUN a) (VERB b))" * 3, "ptb-keep", "6 of 6 words have tags"),
        ("(S (. a) (, b))" * 3, "ptb-keep", "drops every word of 3 of 3 sentences"),
        ("(S (X a (X b c)))", "ptb-keep", "(none) 3"),
        ("(S (NOUN a) (VERB b) (PUNCT .) (CD 1))", "ptb-keep", "3 of 4 words have tags"),
        ("(S (NOUN a) (VERB b) (PUNCT .))", "ptb-drop", "3 of 3 words have tags"),
        ("(S (NN a) (VB b) (. .))", "ud", "3 of 3 words have tags"),
        ("(S (A -) (B .))", "letters", "expected words that contain a letter or digit"),
    ],
)
def test_an_unknown_tag_set_raises_an_error_that_lists_the_tags(text, name, message):
    with pytest.raises(InputError) as caught:
        preprocess(parse_brackets(text), PREPROCESSINGS[name], "gold.mrg")
    assert message in str(caught.value)
    assert str(caught.value).startswith("gold.mrg: ")
    assert "found tags:" in str(caught.value)


@pytest.fixture
def rules(tmp_path):
    """Writes a preprocessing file; returns its path."""

    def rules(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return rules


def test_preprocessing_is_read_from_a_file_of_three_lines(rules):
    path = rules('drop_tags: [PU, "NO"]\ndrop_words: ["*0*", "("]\npunctuation: unicode\n')
    rule = find_preprocessing(path)
    assert rule == find_preprocessing(str(path)) == find_preprocessing(rule)
    assert rule.name == str(path)
    (tree,) = parse_brackets("(S (A *0*) (PU x) (NO y) (A -LRB-) (A 。) (A 友) (A 5) (-NONE- *))")
    assert clean(tree, rule).words == ("友", "5")


def test_a_file_may_keep_tags_and_name_itself(rules):
    rule = find_preprocessing(rules("name: mine\nkeep_tags: [A]\nknown_tags: [A, B]\n"))
    (tree,) = parse_brackets("(S (A a) (B b) (A .))")
    assert clean(tree, rule).words == ("a", ".")
    with pytest.raises(InputError, match=r"2 of 3 words have tags that preprocessing mine does not support"):
        preprocess(parse_brackets("(S (A a) (C b) (D c))"), rule, "gold.mrg")


def test_a_name_takes_precedence_over_a_file_and_empty_rules_raise_an_error():
    assert find_preprocessing("ptb-keep") is PREPROCESSINGS["ptb-keep"]
    assert clean(parse_brackets(TEXT)[0], GoldPreprocessing("mine")) == clean(
        parse_brackets(TEXT)[0], PREPROCESSINGS["none"]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drop_tgs: [PU]", "mine.yaml: drop_tgs: no such setting. Did you mean drop_tags?"),
        ("punctuation: unicod", "mine.yaml: punctuation: found \"unicod\"; expected 'by tag' or 'unicode'"),
        ("drop_tags: PU", 'mine.yaml: drop_tags: found "PU"; expected a list'),
        ("drop_tags: [PU, false]", "mine.yaml: drop_tags.1: found false; expected a valid string; put it in quotes"),
        ("drop_tags: [7]", "mine.yaml: drop_tags.0: found 7; expected a valid string; put it in quotes"),
        ("", "mine.yaml: found no settings; expected some of name, keep_tags"),
        ("[PU]", "mine.yaml: found no settings"),
        ("drop_tags: [., ,]", "mine.yaml, line 1: not YAML"),
        ("drop_tags: [a]\ndrop_tags: [b]", "mine.yaml, line 2: not YAML: found duplicate key"),
    ],
)
def test_errors_in_a_file_have_file_and_key(rules, text, message):
    with pytest.raises(InputError) as caught:
        find_preprocessing(rules(text))
    assert message in str(caught.value)


def test_an_unknown_preprocessing_is_reported_with_the_closest_match_and_all_names(tmp_path):
    with pytest.raises(InputError, match=r"'ptb-kep': no such rule or file. Did you mean ptb-keep\? Available"):
        find_preprocessing("ptb-kep")
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        find_preprocessing(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        find_preprocessing(tmp_path)


@pytest.mark.parametrize(
    ("tag", "word", "kept"),
    [
        ("RB|RP", "up", True), ("NNS|NN", "data", True), ("JJ|VBN", "lost", True), ("JJ|NN|VBG", "x", True),
        ("NN|,", ",", True), (",|:", ",", False), (".|FOO", ".", False), (".|FOO", "x", True), ("FOO|BAR", "x", True),
        ("FOO|BAR", "-", False), ("|NN|", "x", True), ("|", "|", False), ("$|#", "$", False),
        ("NN-SBJ", "x", True), (",-1", ",", False), ("NN-SBJ|JJ=2", "x", True),
        ("nn", "dog", True), ("-lrb-", "(", False), ("ADD", "www.example.org", True), ("ADD", "@", False),
        ("AFX", "pre", True), ("XX", "hm", True), ("GW", "ever", False), ("HYPH", "-", False), ("NFP", ":-)", False),
        ("-NONE-", "*T*", False), ("", "dog", True), ("", ",", False),
    ],
)  # fmt: skip
def test_ptb_keep_decides_alternatives_functions_and_unknown_tags(tag, word, kept):
    assert PREPROCESSINGS["ptb-keep"].keeps(word, tag) is kept


@pytest.mark.parametrize("name", ["ptb-drop", "ud"])
def test_other_rules_by_tag_decide_alternatives_and_unknown_tags_too(name):
    rule, dropped, kept = PREPROCESSINGS[name], *{"ptb-drop": (":", "NN"), "ud": ("PUNCT", "NOUN")}[name]
    assert rule.keeps("x", f"{kept}|{dropped}")
    assert not rule.keeps("x", f"{dropped}|{dropped}-1")
    assert rule.keeps("x", "FOO")
    assert not rule.keeps("--", "FOO")
    for tag in ("AFX", "ADD", "GW", "XX"):
        assert PREPROCESSINGS["ptb-drop"].keeps("x", tag)


def test_a_rule_without_known_tags_knows_every_tag():
    drop, keep = GoldPreprocessing("d", drop_tags=frozenset({"PU"})), GoldPreprocessing("k", keep_tags=frozenset({"A"}))
    assert drop.keeps(".", "ANY")
    assert not drop.keeps("x", "PU|PU")
    assert drop.keeps("x", "PU|A")
    assert not keep.keeps("x", "B")
    assert keep.keeps("x", "B|A")
    assert pickle.loads(pickle.dumps(keep)) == keep


def test_the_remarks_count_dropped_words_and_unknown_tags():
    trees = parse_brackets(
        "(S (NP-SBJ (PRP It)) (VP (VBD came) (PRT (RB|RP up)) (PP (IN at) (ADD www.example.org))) (. .))"
        "(S (NP (AFX pre) (HYPH -) (NN war) (NNS cars)) (VP (VBP run)) (NFP ...) (. !))"
        "(S (NP (PRP We)) (VP (VBP use) (NP ($ $) (CD 5) (-NONE- *U*))) (, ,) (, ,))"
        "(S (. !))"
    )
    done = preprocess(trees, PREPROCESSINGS["ptb-keep"], "x.mrg")
    assert [" ".join(tree.words) for tree in done.trees] == [
        "It came up at www.example.org", "pre war cars run", "We use 5"
    ]  # fmt: skip
    assert [str(remark) for remark in done.remarks] == [
        "2 words with tags that ptb-keep does not know: ADD 1, AFX 1, 2 kept because of a letter or digit:"
        " 'www.example.org', 'pre'",
        "8 words dropped by preprocessing ptb-keep: '.' 3, ',' 2, HYPH 1, NFP 1, '$' 1",
        "1 empty node dropped",
        "1 sentence without a word after preprocessing",
    ]
    assert [len(flags) for flags in done.kept] == [6, 7, 6, 1]
    whats = [remark.what for remark in preprocess(trees, PREPROCESSINGS["none"], "x.mrg").remarks]
    assert whats == ["punctuation marks kept by preprocessing none", "empty nodes dropped"]


@pytest.mark.parametrize("unknown", [4, 5, 6])
def test_unknown_tags_are_reported_up_to_half_of_the_words_and_refused_above(unknown):
    words = [f"({'FOO' if place < unknown else 'NN'} w{place})" for place in range(10)]
    trees = parse_brackets(f"(S {' '.join(words)})")
    if unknown > 5:
        with pytest.raises(InputError, match=f"{unknown} of 10 words have tags that preprocessing ptb-keep does not"):
            preprocess(trees, PREPROCESSINGS["ptb-keep"], "x.mrg")
        return
    done = preprocess(trees, PREPROCESSINGS["ptb-keep"], "x.mrg")
    assert len(done.trees[0]) == 10
    assert done.remarks[0].count == unknown
    assert f"does not know: FOO {unknown}" in done.remarks[0].what


def test_gold_trees_without_tags_are_refused_with_a_rule_that_reads_characters():
    trees = parse_brackets("((the dog) (slept .))")
    with pytest.raises(InputError, match=r"have no tags.*use preprocessing letters"):
        preprocess(trees, PREPROCESSINGS["ptb-keep"], "x.mrg")
    assert preprocess(trees, PREPROCESSINGS["letters"], "x.mrg").trees[0].words == ("the", "dog", "slept")
