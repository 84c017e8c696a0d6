"""The normaliser: tokens, and their positions in the original text."""

import json
import pickle
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.text import normaliser as module
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.trees.marks import MarkClass
from tests.normalisers import normaliser_with

AWKWARD = st.sampled_from(
    list("aN1% \t\u00a0\u200b\u00ad\ufeff\u2060\u0301\u0323éİΣ한\u1112\u1161\u11ab.,'-<>$_\u2028\x1c½ﬁ¨")
)
TEXTS = st.one_of(st.text(max_size=40), st.text(AWKWARD, max_size=30), st.just("<<unk>>, (<unk>)!"))
SETTINGS = st.builds(
    normaliser_with,
    units=st.sampled_from(["words", "characters"]),
    unicode_form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD", "keep"]),
    splitting=st.sampled_from(["whitespace", "punctuation"]),
    lower_case=st.booleans(),
    numbers=st.sampled_from(["keep", "whole", "runs"]),
    drop_words=st.sampled_from([(), ("$", "a", "N")]),
    drop_punctuation=st.booleans(),
    space=st.sampled_from(["_", None]),
)


@given(SETTINGS, TEXTS)
def test_tokens_are_the_aligned_tokens_that_were_kept(normaliser, line):
    aligned = normaliser.align(line)
    assert normaliser.tokens(line) == [each.token for each in aligned if each.token is not None]


@given(SETTINGS, TEXTS)
def test_offsets_slice_the_original_line_in_order_and_leave_out_only_white_space(normaliser, line):
    end = 0
    for each in normaliser.align(line):
        assert each.written == line[each.start : each.end] != ""
        if each.start >= end:
            assert not line[end : each.start].replace("\u200b", " ").strip()
            end = each.end
        else:  # a second token of the same position
            assert each.end == end
    assert not line[end:].replace("\u200b", " ").strip()


@given(SETTINGS, TEXTS)
def test_tokens_are_never_empty_and_never_hold_white_space(normaliser, line):
    for token in normaliser.tokens(line):
        assert token
        assert not any(character.isspace() for character in token)
        if normaliser.units == "characters":
            assert len(token) == 1 or token == "\\_"


@given(SETTINGS, st.lists(TEXTS, max_size=6), st.integers(1, 12))
def test_long_lines_in_parts_give_the_same_tokens(normaliser, texts, length):
    line = " ".join(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG_LINE", length)
        parts = list(normaliser.token_parts(line))
    assert [token for part in parts for token in part] == normaliser.tokens(line)


@given(SETTINGS, TEXTS)
def test_a_treebank_word_stays_one_word(normaliser, written):
    assert bool(normaliser.word(written)) == bool(written)


@given(TEXTS)
def test_words_of_text_and_of_a_treebank_become_the_same(line):
    normaliser = normaliser_with(lower_case=True, numbers="whole")
    pieces = line.replace("\u200b", " ").split()
    assert normaliser.tokens(line) == [normaliser.word(piece) for piece in pieces if normaliser._normal_form(piece)]


@given(SETTINGS)
@settings(max_examples=50)
def test_settings_survive_json_and_pickle(normaliser):
    again = Normaliser(NormaliserSettings.from_dict(json.loads(json.dumps(normaliser.settings.to_dict()))))
    assert again == normaliser
    assert hash(again) == hash(normaliser)
    assert pickle.loads(pickle.dumps(normaliser)) == normaliser


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("line", ["e\u0301le\u0300ve", "각 \u1112\u1161\u11ab", "ﬁn ½", "a\u0301\u0323\u0301b"])
def test_characters_are_the_code_points_of_the_unicode_form(form, line):
    expected = list(unicodedata.normalize(form, line).replace(" ", "_"))
    assert normaliser_with(units="characters", unicode_form=form).tokens(line) == expected


@pytest.mark.parametrize(
    ("form", "line", "aligned"),
    [
        ("NFC", "  e\u0301t  x\n", [("e\u0301", 2, 4, "é"), ("t", 4, 5, "t"), ("  ", 5, 7, "_"), ("x", 7, 8, "x")]),
        ("NFD", "é", [("é", 0, 1, "e"), ("é", 0, 1, "\u0301")]),
    ],
)
def test_composed_and_decomposed_characters_are_aligned_with_what_was_written(form, line, aligned):
    assert list(map(tuple, normaliser_with(units="characters", unicode_form=form).align(line))) == aligned


# Pairs of the Penn Treebank's own text and Mikolov's preparation of it.
@pytest.mark.parametrize(
    ("written", "token"),
    [
        ("1989", "N"), ("3.5", "N"), ("1,000", "N"), ("1,000,000", "N"), ("3\\/4", "N"), ("3/4", "N"), ("1989-90", "N"),
        ("10:30", "N"), ("30.", "N"), ("%", "N"), ("-5", "N"), ("17%", "N"), (".22", "N"), ("N", "N"),
        ("30-year", "30-year"), ("1980s", "1980s"), ("'86", "'86"),
        ("13th", "13th"), ("B-2", "b-2"), ("500-stock", "500-stock"), ("--", "--"),
        ("...", "..."), ("/", "/"), ("n", "n"), ("$5", "$5"),
    ],
)  # fmt: skip
def test_whole_numbers_are_those_of_mikolovs_text(written, token):
    assert normaliser_with(lower_case=True, numbers="whole").tokens(written) == [token]


@pytest.mark.parametrize(
    ("written", "token"), [("1,000", "N,N"), ("1980s", "Ns"), ("B-2", "b-N"), ("12", "N"), ("N", "N")]
)
def test_runs_of_digits_become_n_inside_words(written, token):
    assert normaliser_with(lower_case=True, numbers="runs").tokens(written) == [token]


def test_numbers_in_characters_are_replaced_by_the_rule_of_words():
    line = "In November 1,000 of 1980s N"
    whole = normaliser_with(units="characters", lower_case=True, numbers="whole").tokens(line)
    assert "".join(whole) == "in_november_N_of_1980s_N"
    runs = normaliser_with(units="characters", lower_case=True, numbers="runs").tokens(line)
    assert "".join(runs) == "in_november_N,N_of_Ns_N"


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ('"don\'t!" he said...', ['"', "don't", "!", '"', "he", "said", "..."]),
        ("mother-in-law's (Mr.)", ["mother-in-law's", "(", "Mr", ".", ")"]),
        ("dogs' '90s $5 50%", ["dogs", "'", "'", "90s", "$", "5", "50", "%"]),
        ("<unk>, (<unk>) <<unk>> <", ["<unk>", ",", "(", "<unk>", ")", "<", "<unk>", ">", "<"]),
        ("wait?!?? ``so''", ["wait", "?", "!", "??", "``", "so", "''"]),
        ("¿Qué? 「はい」。", ["¿", "Qué", "?", "「", "はい", "」", "。"]),
    ],
)
def test_punctuation_is_split_off_at_both_ends_of_a_word(line, tokens):
    assert normaliser_with(splitting="punctuation").tokens(line) == tokens


def test_invisible_characters_except_joiners_are_removed_and_the_zero_width_space_separates_words():
    assert Normaliser().tokens("\ufeffco\u00adop\u200bword\u2060s \u2060 a\u00a0b\r\n") == ["coop", "words", "a", "b"]
    assert Normaliser().tokens("می\u200cخواهم") == ["می\u200cخواهم"]  # joiners are spelling
    directed = "\u200fשלום\u200f \u202bעולם!\u202c\u200e \u061c\u2067\u2069"  # as pages of the web have them
    assert Normaliser().tokens(directed) == ["שלום", "עולם!"]


def test_dropped_words_are_shown_with_no_token():
    normaliser = normaliser_with(drop_words=("$", "#"), drop_punctuation=True)
    assert normaliser.tokens("$ 5 , # N-- -- <unk>") == ["5", "N--", "<unk>"]
    shown = [(each.written, each.token) for each in normaliser.align("$ 5 --")]
    assert shown == [("$", None), ("5", "5"), ("--", None)]


def test_dropping_in_characters_leaves_single_spaces_and_combining_marks():
    normaliser = normaliser_with(units="characters", unicode_form="NFD", drop_punctuation=True, drop_words=("$",))
    assert "".join(normaliser.tokens("$ é, ... $b !")) == "e\u0301_b"


@given(SETTINGS, TEXTS, st.integers(1, 12))
def test_the_length_is_that_of_the_stretches_kept_and_of_one_character_between_words(normaliser, line, length):
    total = 0
    before = None
    for each in normaliser.align(line):
        if not each.written.replace("\u200b", " ").strip():
            continue  # white space, which is between the parts that it separates
        if each.token is None or (before is not None and each.start < before.end):
            continue  # dropped, or another token of the same position
        parted = before is not None and any(
            character.isspace() or character == "\u200b" for character in line[before.end : each.start]
        )
        total += each.end - each.start + (parted and not (normaliser.units == "characters" and not normaliser.space))
        before = each
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG_LINE", length)
        assert normaliser.written_length(line) == total


def test_white_space_at_the_ends_of_a_line_has_no_length():
    for units in ("words", "characters"):
        normaliser = normaliser_with(units=units, drop_words=("$",))
        assert normaliser.written_length("  no it \t was \u2060 $ n't ") == len("no it was n't")
        assert normaliser.written_length(" \t ") == 0


@pytest.mark.parametrize("written", ["snake_case _", "_ _", "a\\_b", "a\\ b"])
def test_a_literal_underscore_in_characters_is_never_read_as_white_space(written):
    tokens = normaliser_with(units="characters").tokens(written)
    assert tokens.count("_") == written.count(" ")
    assert tokens.count("\\_") == written.count("_")
    back = "".join({"_": " ", "\\_": "_"}.get(token, token) for token in tokens)
    assert back == written


def test_numbers_and_signs_for_white_space_are_not_confused():
    tokens = normaliser_with(units="characters", numbers="whole", space="N").tokens("12 N ab")
    assert tokens == ["\\N", "N", "\\N", "N", "a", "b"]
    assert normaliser_with(units="characters", space="<space>").tokens("a_ b") == ["a", "_", "<space>", "b"]


def test_white_space_can_be_left_out_for_scripts_without():
    normaliser = normaliser_with(units="characters", space=None)
    assert normaliser.tokens(" 我 喜欢_猫 ") == ["我", "喜", "欢", "_", "猫"]
    assert [each.token for each in normaliser.align("我 喜欢")] == ["我", None, "喜", "欢"]
    assert normaliser.written_length(" 我 喜欢 ") == 3
    with pytest.raises(InputError, match=r'^normaliser\.space: found ""; expected text that is not empty$'):
        normaliser_with(units="characters", space="")


def test_a_treebank_word_is_never_emptied_or_split():
    normaliser = normaliser_with(splitting="punctuation", drop_punctuation=True, drop_words=("$",), numbers="whole")
    words = ["...", "$", "\u00ad", "Mr.", "10 000"]
    assert [normaliser.word(word) for word in words] == [*words[:4], "N"]


def test_invalid_settings_are_reported_together_and_unknown_ones_with_the_closest_match():
    with pytest.raises(InputError, match=r'(?s)normaliser\.units: found "bytes".*normaliser\.numbers: found "none"'):
        NormaliserSettings.from_dict({"units": "bytes", "numbers": "none"})
    with pytest.raises(InputError, match=r"lowercase: no such setting\. Did you mean normaliser\.lower_case\?"):
        NormaliserSettings.from_dict({"lowercase": True})
    with pytest.raises(InputError, match="drop_words"):
        normaliser_with(drop_words="$#")


def test_the_memory_of_pieces_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED_PIECES", 10)
    normaliser = Normaliser()
    words = [f"w{number}" for number in range(100)] + ["x" * 1000]
    assert normaliser.tokens(" ".join(words)) == words
    assert len(normaliser._tokens) <= 10


@pytest.mark.parametrize(
    "word", ["a" + "\u0301\u0323" * 1_000, "1" * 20_000 + "x", "!" * 20_000, "<" * 20_000, "é" * 20_000]
)
@pytest.mark.parametrize("units", ["words", "characters"])
def test_very_long_words_take_linear_time(word, units):
    begun = time.process_time()
    for numbers in ("whole", "runs"):
        normaliser = normaliser_with(units=units, splitting="punctuation", numbers=numbers)
        assert normaliser.tokens(word) == [each.token for each in normaliser.align(word) if each.token is not None]
    assert time.process_time() - begun < 1.5


def test_tags_are_what_follows_the_last_underscore_and_are_read_as_written():
    normaliser = normaliser_with(units="tags", lower_case=True, numbers="runs", splitting="punctuation")
    line = " the_DT  old_cat_NN _PRP$ 3_X1 ._. "
    assert normaliser.tokens(line) == ["DT", "NN", "PRP$", "X1", "."]
    for each in normaliser.align(line):
        assert each.written == line[each.start : each.end]
    assert normaliser.written_length(line) == len("DT NN PRP$ X1 .")
    assert normaliser.word("cat", "NN") == "NN"
    assert NormaliserSettings.from_dict(normaliser.settings.to_dict()) == normaliser.settings


def test_tags_are_dropped_by_the_rules_of_tokens():
    normaliser = normaliser_with(units="tags", drop_punctuation=True, drop_words=("-LRB-",))
    assert normaliser.tokens("a_DT ,_, (_-LRB- b_NN ..._:") == ["DT", "NN"]
    assert [each.token for each in normaliser.align("a_DT ,_,")] == ["DT", None]


@pytest.mark.parametrize("token", ["cat", "cat_", "_", "a_b_"])
def test_a_token_without_a_tag_is_reported(token):
    normaliser = normaliser_with(units="tags")
    for read in (normaliser.tokens, normaliser.align, normaliser.written_length):
        with pytest.raises(InputError, match=f"found '{token}'; expected word_TAG"):
            read(f"the_DT {token}")
    with pytest.raises(InputError, match="the word 'cat' has no part-of-speech tag"):
        normaliser.word("cat")


def test_marks_are_the_places_of_dropped_punctuation():
    normaliser = normaliser_with(splitting="punctuation", drop_punctuation=True)
    line = "Well, (she said) - no : $ 5, \u201cyes\u201d ."
    assert normaliser.tokens(line) == ["Well", "she", "said", "no", "5", "yes"]
    opening, closing = MarkClass.OPENING_BRACKET, MarkClass.CLOSING_BRACKET
    quote, end = MarkClass.OPENING_QUOTE, MarkClass.CLOSING_QUOTE | MarkClass.END
    comma, dash, colon = MarkClass.COMMA, MarkClass.DASH, MarkClass.COLON
    assert normaliser.marks(line) == [0, comma | opening, 0, closing | dash, colon, comma | quote, end]
    assert Normaliser().marks("a , b") == [0, 0, 0, 0], "what is read as a word is no mark"
    chinese = normaliser_with(units="characters", space=None, drop_punctuation=True)
    assert chinese.marks("\u6211\u8bf4\uff0c\u4e0d") == [0, 0, comma, 0]
