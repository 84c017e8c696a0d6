import pytest

from syntaxlm.errors import InputError
from syntaxlm.trees import CLEAN_UPS, clean, clean_all, format_brackets, parse_brackets, plain_label

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
def test_words_go_by_tag_and_emptied_constituents_with_them(name, expected):
    assert format_brackets(clean(parse_brackets(TEXT)[0], CLEAN_UPS[name])) == expected


def test_universal_punctuation_and_symbols_go():
    (tree,) = parse_brackets("(ROOT (S (NOUN a) (PUNCT .) (SYM %) (VERB b)))")
    assert clean(tree, CLEAN_UPS["ud"]).words == ("a", "b")


def test_punctuation_is_told_by_the_word():
    (tree,) = parse_brackets("(S (sn *0*) (N a) (Fp .) (Fpa «) (Z 5) (X été) (Y 。) (T 友))")
    assert clean(tree, CLEAN_UPS["letters"]).words == ("a", "5", "été", "友")
    assert clean(tree, CLEAN_UPS["letters-only"]).words == ("*0*", "a", "5", "été", "友")


@pytest.mark.parametrize(
    ("label", "plain"),
    [("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("-LRB-", "-LRB-"), ("VP", "VP"), ("", ""), ("=", "="), ("S-TPC=1", "S")],
)
def test_labels_lose_functions_and_indices(label, plain):
    assert plain_label(label) == plain


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
def test_wrappers_are_stripped_and_unary_chains_stay(text, expected):
    assert [tuple(span) for span in clean(parse_brackets(text)[0], CLEAN_UPS["none"]).constituents] == expected


def test_a_sentence_without_words_left_is_none_and_its_index_is_missing():
    trees = parse_brackets("(S (NN a) (NN b)) (S (. .) (, ,)) (S (NN c) (. .))")
    assert clean(trees[1], CLEAN_UPS["ptb-keep"]) is None
    cleaned, indices = clean_all(trees, CLEAN_UPS["ptb-keep"], "gold.mrg")
    assert [tree.words for tree in cleaned] == [("a", "b"), ("c",)]
    assert indices == [0, 2]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("(S (NOUN a) (VERB b))" * 3, "ptb-keep", "drops every word of 3 of 3 sentences"),
        ("(S (X a (X b c)))", "ptb-keep", "(none) 3"),
        ("(S (NOUN a) (VERB b) (PUNCT .) (CD 1))", "ptb-keep", "3 of 4 words have tags"),
        ("(S (NOUN a) (VERB b) (PUNCT .))", "ptb-drop", "3 of 3 words have tags"),
        ("(S (NN a) (VB b) (. .))", "ud", "3 of 3 words have tags"),
        ("(S (A -) (B .))", "letters", "expected words with a letter or digit"),
    ],
)
def test_a_foreign_tag_set_is_an_error_that_shows_the_tags(text, name, message):
    with pytest.raises(InputError) as caught:
        clean_all(parse_brackets(text), CLEAN_UPS[name], "gold.mrg")
    assert message in str(caught.value)
    assert str(caught.value).startswith("gold.mrg: ")
    assert "tags met:" in str(caught.value)
