"""Tables of displayed words and reading times."""

from __future__ import annotations

import gzip
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data.displayed_words import displayed_words, join_times
from syntaxlm.data.input_table import InputTable
from syntaxlm.scoring.word_table import WordTable, with_previous

STORY = """word\tzone\titem
The\t1\t1
cat\t2\t1
slept.\t3\t1
It\t4\t1
dreamt.\t5\t1
Dogs\t1\t2
bark.\t2\t2
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "words.tsv") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def words_of(text: str, write, **settings):
    return displayed_words(InputTable.read(write(text)), **settings)


# ---- tables


def test_tab_and_comma_separated_tables_and_data_frames_are_equal(write, tmp_path):
    expected = InputTable.read(write('word\titem\n"said ""no"", he\t1\n,\t2\n', "a.tsv"))
    assert expected.rows == (('"said ""no"", he', "1"), (",", "2"))  # an opening quotation mark alone is a character
    comma = InputTable.read(write('word,item\n"said ""no"", he",1\n",",2\n', "a.csv"))
    assert comma.rows == (('said "no", he', "1"), (",", "2"))
    assert comma.names == expected.names
    for library in (pd, pl):
        frame = library.DataFrame({"word": ["the", "cat"], "time": [300.0, None], "item": [1, 2]})
        assert InputTable.read(frame).rows == (("the", "300", "1"), ("cat", "", "2"))
    compressed = tmp_path / "words.tsv.gz"
    compressed.write_bytes(gzip.compress(STORY.encode()))
    assert len(InputTable.read(compressed).rows) == 7


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "line 1: found no header"),
        ("word\titem\n", "found only a header"),
        ("word\tword\na\tb\n", "more than one column is named 'word'"),
        ("word\titem\nthe\t1\ncat\n", "line 3: found 1 cells; expected 2: word, item"),
        (
            'word,item\nthe,1\n"cat,2\n',
            "line 3: the line ends within a cell in quotation marks; expected the whole row on one line",
        ),
    ],
)
def test_invalid_tables_are_reported_with_their_place(write, text, reported):
    with pytest.raises(InputError, match=r"words\.tsv.*") as error:
        InputTable.read(write(text))
    assert reported in str(error.value)


# ---- displayed words


def test_groups_and_sentences_come_from_columns_or_punctuation(write):
    found = words_of(STORY, write, group="item")
    assert found.sentences.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert found.groups.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert found.position_in(found.sentences).tolist() == [1, 2, 3, 1, 2, 1, 2]
    assert found.position_in(found.groups).tolist() == [1, 2, 3, 4, 5, 1, 2]
    given = words_of(STORY, write, sentence="zone")
    assert given.sentences.tolist() == list(range(7))
    assert given.groups.tolist() == [0] * 7


def test_the_end_of_a_group_ends_a_sentence_without_punctuation(write):
    found = words_of("word\titem\nno\t1\nstop\t1\nhere\t2\n", write, group="item")
    assert found.sentences.tolist() == [0, 0, 1]
    given = words_of("word\titem\tsentence\na\t1\t1\nb\t2\t1\n", write, group="item", sentence="sentence")
    assert given.sentences.tolist() == [0, 1]


def test_abbreviations_and_quotations_do_not_end_sentences(write):
    text = ["'Was", "Mr.", "Smith", "there?'", "he", "asked.", "Nobody", "knew."]
    found = words_of("word\n" + "\n".join(text) + "\n", write)
    assert found.sentences.tolist() == [0] * 6 + [1, 1]


def test_a_region_of_several_words_is_one_displayed_word_and_running_text_is_split(write):
    text = "word\tregion\nThe old man\t1\nthe boats.\t2\n"
    assert words_of(text, write).words == ("The old man", "the boats.")
    split = words_of(text, write, is_text=True)
    assert split.words == ("The", "old", "man", "the", "boats.")
    assert split.sentences.tolist() == [0, 0, 0, 1, 1]  # rows of running text end sentences
    assert WordTable.of(split, {}).values == {"region": ["1", "1", "1", "2", "2"]}


@pytest.mark.parametrize(
    ("text", "settings", "reported"),
    [
        ("word\nthe\n \ncat\n", {}, "line 3: column word is empty; expected the displayed word"),
        ("token\nthe\n", {}, "no column 'word'; found token. Choose one with word_column=..."),
        (STORY, {"group": "itme"}, "no column 'itme'; found word, zone, item. Did you mean item?"),
        ("word\ts\na\t1\nb\t2\nc\t1\n", {"group": "s"}, "line 4: s 1 continues after other rows (it started at"),
    ],
)
def test_invalid_words_are_reported_with_file_and_row(write, text, settings, reported):
    with pytest.raises(InputError) as error:
        words_of(text, write, **settings)
    assert reported in str(error.value)


def test_values_of_previous_words_stay_within_a_group(write):
    words = words_of("word\titem\na\t1\nb\t1\nc\t1\nd\t2\ne\t2\n", write, group="item")
    columns = with_previous({"value": np.arange(5.0)}, words, 7)
    assert list(columns)[:3] == ["value", "previous_value", "previous_value_2"]
    assert np.array_equal(columns["value"], np.arange(5))
    assert np.array_equal(columns["previous_value"], [np.nan, 0, 1, np.nan, 3], equal_nan=True)
    assert np.isnan(columns["previous_value_7"]).all()


# ---- reading times

TIMES = "item\tzone\treader\ttime\n1\t1\ta\t300\n1\t1\tb\t500\n1\t2\ta\tNA\n2\t1\ta\t200\n2\t2\ta\t9000\n9\t9\ta\t1\n"


def test_times_of_readers_are_averaged_and_those_outside_limits_left_out(write):
    words, times = words_of(STORY, write, group="item"), InputTable.read(write(TIMES, "times.tsv"))
    found = join_times(words, times, "time", maximum=3000, allow_unmatched=True)
    expected = [400, np.nan, np.nan, np.nan, np.nan, 200, np.nan]
    assert np.array_equal(found.values, expected, equal_nan=True)
    assert (found.counts.tolist(), found.left_out, found.unmatched) == ([2, 0, 0, 0, 0, 1, 0], 1, 1)
    assert found.key == ("zone", "item")
    logs = join_times(words, times, "time", log=True, allow_unmatched=True).values
    assert logs[0] == pytest.approx((math.log(300) + math.log(500)) / 2)


def test_times_may_be_a_column_of_the_words(write):
    found = join_times(words_of("word\trt\nthe\t300\ncat\t\n", write), None, "rt")
    assert np.array_equal(found.values, [300, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    ("times", "settings", "reported"),
    [
        ("item\tzone\trt\n1\t1\t3\n", {}, "no column 'time'; found item, zone, rt. Choose one with time_column=..."),
        ("id\ttime\n1\t3\n", {}, "shares no column with"),
        ("item\tzone\ttime\n7\t7\t3\n", {}, "no row has the zone, item of a word of"),
        ("item\tzone\ttime\n1\t1\tslow\n", {}, "line 2: found 'slow' in column time; expected a number"),
        ("item\tzone\ttime\n1\t1\t-3\n", {}, "line 2: found the time -3 in column time"),
        ("item\tzone\ttime\n1\t1\t0\n", {"log": True}, "expected a positive number; leave such times out with"),
        ("item\tzone\ttime\n1\t1\t3\n", {"key": ["item"]}, "has the same item (1) as"),
        ("item\tzone\tword\ttime\n1\t2\tdog\t3\n", {}, "line 2: found the word 'dog', but"),
    ],
)
def test_times_that_do_not_match_are_reported_with_file_and_row(write, times, settings, reported):
    words = words_of(STORY, write, group="item")
    with pytest.raises(InputError) as error:
        join_times(words, InputTable.read(write(times, "times.tsv")), "time", **settings)
    assert reported in str(error.value)


def test_words_of_both_tables_may_differ_in_punctuation(write):
    times = InputTable.read(write("item\tzone\tword\ttime\n1\t3\tSLEPT\t310\n", "times.tsv"))
    assert join_times(words_of(STORY, write), times, "time").values[2] == 310


def test_words_of_both_tables_may_differ_in_their_normal_form(write):
    times = InputTable.read(write("id\tword\ttime\n1\tcafe\u0301\t310\n", "times.tsv"))
    assert join_times(words_of("id\tword\n1\tcafé\n", write), times, "time").values[0] == 310


def test_times_beyond_the_limit_and_repeated_columns_are_refused(tmp_path):
    path = tmp_path / "times.tsv"
    path.write_text("word\ttime\na\t1e308\n")
    with pytest.raises(
        InputError, match=r"line 2: found '1e308' in column time; expected a number up to 1,000,000,000"
    ):
        InputTable.read(path).numbers("time", "--time-column")
    frame = pd.DataFrame([["a", "b"]], columns=["word", "word"])
    with pytest.raises(InputError, match="more than one column is named 'word'"):
        InputTable.read(frame)


def test_several_columns_name_a_group():
    frame = {"story": list("aaabb"), "page": list("11222"), "word": list("vwxyz")}
    words = displayed_words(InputTable.read(pd.DataFrame(frame)), group=["story", "page"])
    assert words.groups.tolist() == [0, 0, 1, 2, 2]
    assert words.group_column == "story, page"


def test_a_small_table_teaches_no_abbreviations():
    sentences = ["Sam is in bed.", "Kim put it on the bed.", "Ann sat on her bed.", "Max left the bed."]
    frame = pd.DataFrame({"word": " ".join(sentences).split()})
    words = displayed_words(InputTable.read(frame))
    assert [end - first for first, end in words.spans(words.sentences)] == [len(one.split()) for one in sentences]


@pytest.mark.parametrize(
    ("zones", "said"), [("1 2 3 4 6 7 8", "found zone '6' after '4'"), ("1 2 3 3 4 5 6", "'3' after '3'")]
)
def test_a_word_that_is_missing_or_doubled_is_a_warning(write, zones, said):
    rows = "".join(
        f"{word}\t{zone}\n"
        for word, zone in zip(["the", "old", "cat", "sees", "a", "small", "dog"], zones.split(), strict=True)
    )
    with pytest.warns(InputWarning, match=f"{said}; expected numbers without gaps"):
        words_of("word\tzone\n" + rows, write)


def test_numbers_that_count_the_words_of_each_item_have_no_gap(write):
    rows = "".join(
        f"{word}\t{zone}\t{item}\n" for item in (1, 2) for zone, word in enumerate(["the", "old", "cat", "sees"], 1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        words_of("word\tzone\titem\n" + rows, write, group="item")
