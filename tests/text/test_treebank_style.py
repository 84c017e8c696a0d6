"""Conversion of untokenised English to the style of treebanks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.text.treebank_style import TreebankStyle


@pytest.mark.parametrize(
    ("raw", "split", "dropped"),
    [
        ("The cat sleeps.", "The cat sleeps .", "The cat sleeps"),
        ('"Who," he said, "is Mr. Lee?"', '" Who , " he said , " is Mr. Lee ? "', "Who he said is Mr. Lee"),
        ('He said "no."', 'He said " no . "', "He said no"),
        ("(He left the U.S.).", "( He left the U.S. ) .", "He left the U.S."),
        ('"(Mr. Lee)." Then', '" ( Mr. Lee ) . " Then', "Mr. Lee Then"),
        ("She left the U.S.", "She left the U.S.", "She left the U.S."),
        ("It rose 5.5%.", "It rose 5.5 % .", "It rose 5.5 %"),
        ("It costs $3.50.", "It costs $ 3.50 .", "It costs $ 3.50"),
        ("Well... it's (so-called) 1,000!", "Well ... it's ( so-called ) 1,000 !", "Well it's so-called 1,000"),
        ("“…and then,” ... “...but no.”", "“ … and then , ” ... “ ... but no . ”", "and then but no"),
        (
            "well...and well…and Well..and, so....",
            "well ... and well … and Well .. and , so ....",
            "well and well and Well and so",
        ),
        ("...the U.S...and (...his) “…’cause", "... the U.S ... and ( ... his ) “ … ’cause", "the U.S and his ’cause"),
        (
            "../a a..b@c.de [...] [...]and f(...) … ...",
            "../a a..b@c.de [ ... ] [...]and f(...) … ...",
            "../a a..b@c.de [...]and f(...)",
        ),
        ("<unk> ?", "<unk> ?", "<unk>"),
    ],
)
def test_punctuation_at_the_ends_of_words(raw, split, dropped):
    assert TreebankStyle(punctuation="split")(raw) == split
    assert TreebankStyle(punctuation="drop")(raw) == dropped


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("She doesn't", "She does n't"),
        ("Can't won't CAN'T", "Ca n't wo n't CA N'T"),
        ("It's Lee's", "It 's Lee 's"),
        ("they’re I'll we've he'd I'm", "they 're I 'll we 've he 'd I 'm"),
        ("shouldn't've", "should n't 've"),
        ("the girls' books", "the girls ' books"),
        ("Cannot cannot", "Can not can not"),
        ("n't 's o'clock ain't.", "n't 's o'clock ain't."),  # not an ending if it has a full stop
    ],
)
def test_contractions_are_split_as_in_the_penn_treebank(raw, expected):
    assert TreebankStyle(contractions="split")(raw) == expected


def test_both_together_see_the_contraction_behind_the_punctuation():
    style = TreebankStyle("drop", "split")
    assert style('"It isn\'t."') == "It is n't"
    assert str(style) == "punctuation dropped, contractions split off"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("The U.S.'s debt and a Ph.D.’s thesis", "The U.S. 's debt and a Ph.D. 's thesis"),
        ("the 1990's and the '80's, a 747's", "the 1990 's and the '80 's , a 747 's"),
        ("donʼt don´t don`t don＇t it´s Sheʼs", "do n't do n't do n't do n't it 's She 's"),
        (
            "I gonna, wanna and gotta; gimme, lemme! 'Tis ’twas",
            "I gon na , wan na and got ta ; gim me , lem me ! 'T is 't was",
        ),
        ("It's 1990–95.", "It 's 1990–95 ."),
    ],
)
def test_possessives_of_abbreviations_and_years_and_odd_apostrophes(raw, expected):
    assert TreebankStyle("split", "split")(raw) == expected


def test_tokens_of_the_penn_treebank():
    style = TreebankStyle("split", "split")
    lines = Path(__file__).with_name("tokens.tsv").read_text("utf-8").splitlines()
    wrong = [raw for raw, tokens in (line.split("\t") for line in lines) if _plain(style(raw)) != tokens]
    assert wrong == ["It is 5'6\" tall.", "#1 fan @home"]


def _plain(text: str) -> str:
    return text.translate(str.maketrans("“”‘’", "\"\"''"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("He said ‘no’ and left.", "He said ‘ no ’ and left ."),
        ("The ‘best’ dogs slept.", "The ‘ best ’ dogs slept ."),
        ("He read 'Emma' and 'The Waves'.", "He read ' Emma ' and ' The Waves ' ."),
        ("'Go away,' he said, 'or I can't.'", "' Go away , ' he said , ' or I ca n't . '"),
        ("“‘Go,’ he said.”", "“ ‘ Go , ’ he said . ”"),
        ("(He said 'no'.) ('No.')", "( He said ' no ' . ) ( ' No . ' )"),
        ("'The dogs' tails are wet,' he said.", "' The dogs ' tails are wet , ' he said ."),
        ("He saw 'The Waves' and the dogs' tails.", "He saw ' The Waves ' and the dogs ' tails ."),
        ("'Go away. I am here", "' Go away. I am here"),
        ("He said, 'Go away", "He said , ' Go away"),
        ("‘Go away", "‘ Go away"),
        ("The '45' and '1984' were 'new'-ish", "The ' 45 ' and ' 1984 ' were 'new'-ish"),
        ("He's 'walkin' home,' she said", "He 's ' walkin' home , ' she said"),
        ("‘’No,’’ he said", "‘’ No , ’’ he said"),
        # apostrophes
        ("Get 'em! In the '90s the dogs' tails rock 'n' roll.",
         "Get 'em ! In the '90s the dogs ' tails rock 'n' roll ."),
        ("‘Em and ’em and ‘90s", "‘Em and ’em and ‘90s"),
        ("the dog 's , they 're the girls ' , 'd 've 'll 'm", "the dog 's , they 're the girls ' , 'd 've 'll 'm"),
        ("Ten o'clock, O'Brien's ma'am and o' him", "Ten o'clock , O'Brien 's ma'am and o' him"),
        ("the girls' and boys' books", "the girls ' and boys ' books"),
    ],
)  # fmt: skip
def test_single_quotation_marks_are_split_off_in_pairs(raw, expected):
    assert TreebankStyle("split", "split")(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("The dog(s) slept.", "The dog(s) slept ."),
        ("iron(iii), option(s) and f(x).", "iron(iii) , option(s) and f(x) ."),
        ("See https://example.org/wiki/Tree_(graph) today.", "See https://example.org/wiki/Tree_(graph) today ."),
        ("(See https://a.org/T_(g)).", "( See https://a.org/T_(g) ) ."),
        ("(s)he [re]do {x}y (dog(s))", "(s)he [re]do {x}y ( dog(s) )"),
        ("f(g(x)), x[i][j] (a) b) (c 1) (1) [sic].", "f(g(x)) , x[i][j] ( a ) b ) ( c 1 ) ( 1 ) [ sic ] ."),
        ("(UK), (He said (no).) (a)--(b)", "( UK ) , ( He said ( no ) . ) ( a ) -- ( b )"),
    ],
)
def test_brackets_are_split_off_in_pairs(raw, expected):
    assert TreebankStyle("split", "split")(raw) == expected


@given(st.text(st.sampled_from("a b's.n't\"(?U’‘)–"), max_size=20))
def test_only_punctuation_marks_are_lost(raw):
    def letters(text):
        return [character for character in text if character.isalpha()]

    def without_spaces(text):
        return text.replace("’", "'").replace(" ", "")

    assert TreebankStyle()(raw) == raw
    assert without_spaces(TreebankStyle("split", "split")(raw)) == without_spaces(raw)
    assert letters(TreebankStyle("drop", "split")(raw)) == letters(raw)


def test_an_unknown_choice_is_reported():
    with pytest.raises(InputError, match="punctuation: found 'no'; expected auto, keep, split or drop"):
        TreebankStyle("no")  # type: ignore[arg-type]
