"""The order of the rows of displayed words: text order is refused, and a column sorts them."""

from __future__ import annotations

import random

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.displayed_words import displayed_words, join_times
from syntaxlm.data.input_table import InputTable
from syntaxlm.scoring.word_table import word_table
from tests.fresh_models import fresh

SENTENCES = (
    "The old man who asked the captain about the storm did not sleep.",
    "She walked to the market near the river and bought three red apples.",
)
ROWS = [
    (str(item), str(zone), word)
    for item, sentence in enumerate(SENTENCES, 1)
    for zone, word in enumerate(sentence.split(), 1)
]
MERGED = sorted(ROWS, key=lambda row: row[:2])  # as R's merge sorts: 1, 10, 11, 2


@pytest.fixture
def read(tmp_path):
    def read(rows, header="item,zone,word"):
        (tmp_path / "words.csv").write_text("\n".join([header, *map(",".join, rows)]) + "\n")
        return InputTable.read(tmp_path / "words.csv")

    return read


def test_rows_in_the_order_of_reading_are_read(read):
    with collected() as reports:
        words = displayed_words(read(ROWS), group="item")
    assert words.words == tuple(" ".join(SENTENCES).split())
    assert str(reports[-1]).endswith(
        f"words.csv: displayed words, one per row, 26 words, 2 sentences, 2 groups; first sentence: {SENTENCES[0]}"
    )


@pytest.mark.parametrize("group", ["item", None])
@pytest.mark.filterwarnings("ignore::syntaxlm.InputWarning")
def test_the_order_of_text_is_refused_with_the_line_and_the_remedy(read, group):
    with pytest.raises(InputError, match=r"words\.csv, line 7: found zone '2' after '13'; .*Add order='zone'"):
        displayed_words(read(MERGED), group=group)


def test_numbers_of_the_whole_table_and_names_with_numbers_are_compared(read):
    numbered = sorted((str(number), row[2]) for number, row in enumerate(ROWS, 1))
    with pytest.raises(InputError, match=r"line 13: found place '2' after '19'; .*Add order='place', and group="):
        displayed_words(read(numbered, "place,word"))
    named = sorted((f"i{item}_w{zone}", word) for item, zone, word in ROWS)
    with pytest.raises(InputError, match=r"found name 'i1_w2' after 'i1_w13'"):
        displayed_words(read(named, "name,word"))
    words = displayed_words(read(named, "name,word"), order="name")
    assert words.words == tuple(" ".join(SENTENCES).split())


@pytest.mark.parametrize(
    "numbers",
    [
        "0.25 0.5 0.75 1.0 1.25 1.5 1.75 2.0",
        "0.05 0.5 0.75 1.0 1.25 1.5 10.25 11.5",
        "-8 -7 -6 -5 -4 -3 -2 -1",
        "-8.5 -8.25 -7.5 -4.0 -3.5 -3.25 -2.5 -1.5",
        "1.1 1.2 1.9 1.10 1.11 1.12 2.1 2.10",  # sentence and word
        "1.01 1.02 1.09 1.10 1.11 2.01 2.02 2.10",
        "0,5 0,75 1,0 1,25 1,3 1,5 10,25 11,5",
        "1,1 1,2 1,9 1,10 1,11 1,12 2,1 2,10",
    ],
)
def test_decimal_and_negative_numbers_and_pairs_of_numbers_are_in_their_own_order(read, numbers):
    expected = tuple(SENTENCES[0].split()[:8])
    rows = [(f'"{number}"', word) for number, word in zip(numbers.split(), expected, strict=True)]
    assert displayed_words(read(rows, "onset,word")).words == expected
    for seed in range(3):
        shuffled = random.Random(seed).sample(rows, len(rows))
        assert displayed_words(read(shuffled, "onset,word"), order="onset").words == expected


def test_decimal_numbers_in_the_order_of_text_are_refused(read):
    rows = sorted((f"{place / 4}", "word") for place in range(4, 60))
    with pytest.raises(InputError, match=r"found onset '2\.0' after '14\.75'; .*Add order='onset'"):
        displayed_words(read(rows, "onset,word"))


def test_cells_of_several_columns_of_groups_are_not_joined_to_one_name(read):
    rows = [('"a, b"', "c", "x"), ("a", '"b, c"', "y")]
    assert displayed_words(read(rows, "story,part,word"), group=["story", "part"]).groups.tolist() == [0, 1]


@pytest.mark.parametrize("drop", [0, 2])
def test_items_and_sentences_in_the_order_of_text_are_refused(read, drop):
    rows = [(str(item), str(zone), word) for item in range(1, 13) for zone, word in enumerate(["a", "b", "c", "."], 1)]
    merged = sorted(row for row in rows if row[0] != str(drop))
    with pytest.warns(InputWarning, match="without group=..., all 4. rows are one passage, although the column item"), \
            pytest.raises(InputError, match=r"found item '.' after '1.'; .*Add group='item'; or sort"):  # fmt: skip
        displayed_words(read(merged))
    assert len(displayed_words(read(merged), group="item")) == len(merged)  # the order of groups does not matter
    with pytest.raises(InputError, match=r"found sentence '.' after"):
        displayed_words(read([("s", *row) for row in merged], "story,sentence,zone,word"), group="story")


@pytest.mark.parametrize("seed", range(3))
def test_a_shuffled_group_is_refused(read, seed):
    first = [row for row in ROWS if row[0] == "1"]
    random.Random(seed).shuffle(first)
    with pytest.raises(InputError, match="the numbers in zone are in another order"):
        displayed_words(read(first), group="item")


@pytest.mark.parametrize("seed", range(3))
def test_a_column_sorts_the_rows_of_each_group(read, seed):
    shuffled = ROWS[:1] + random.Random(seed).sample(ROWS[1:], len(ROWS) - 1)
    expected = displayed_words(read(ROWS), group="item")
    for rows in (MERGED, shuffled, ROWS):
        found = displayed_words(read(rows), group="item", order="zone")
        assert (found.words, found.groups.tolist()) == (expected.words, expected.groups.tolist())
        assert [row[2] for row in found.table.rows] == list(found.words)
    assert [found.table.row_numbers[place] for place in (0, 1)] == [2, 3]


def test_columns_that_cannot_sort_are_refused(read):
    with pytest.raises(InputError, match=r"line 15: has the same zone \(1\) as .*line 2; .*group="):
        displayed_words(read([("x", *row[1:]) for row in ROWS], "place,zone,word"), order="zone")
    rows = [*ROWS[:3], ("1", "", "x")]
    with pytest.raises(InputError, match=r"line 5: column zone is empty; expected a number"):
        displayed_words(read(rows), group="item", order="zone")
    with pytest.raises(InputError, match=r"line 2: found 'The' in column word; expected a number"):
        displayed_words(read(ROWS), group="item", order="word")
    with pytest.raises(InputError, match=r"no column 'places'.*order="):
        displayed_words(read(ROWS), group="item", order="places")


@pytest.mark.filterwarnings("ignore::syntaxlm.InputWarning")
def test_rows_of_several_items_that_are_not_together_are_refused_without_a_group(read):
    shuffled = random.Random(1).sample(ROWS, len(ROWS))
    with pytest.raises(InputError, match="numbers in zone are in another order"):
        displayed_words(read(shuffled))
    by_zone = sorted(ROWS, key=lambda row: (int(row[1]), row[0]))
    with pytest.raises(InputError, match=r"item 1 continues after other rows .* add order=\.\.\. with its name"):
        displayed_words(read(by_zone), group="item")


@pytest.mark.parametrize("items", [2, 9])
@pytest.mark.filterwarnings("ignore::syntaxlm.InputWarning")
def test_items_of_equal_length_in_the_order_of_reading_are_read(read, items):
    rows = [(str(item), str(zone), "x") for item in range(1, items + 1) for zone in range(1, 8)]
    assert len(displayed_words(read(rows))) == len(rows)


def test_words_in_alphabetical_order_are_refused(read):
    words = sorted((row[2] for row in ROWS), key=str.casefold)
    with pytest.raises(InputError, match=r"column word are in alphabetical order, from 'about' to 'who'; .*order="):
        displayed_words(read([(word,) for word in words], "word"))
    assert len(displayed_words(read([("a",)] * 12, "word"))) == 12


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("length", [3, 3, 3, 3, 5, 3, 7, 5, 3, 5, 3, 3, 6]),
        ("time", [350, 290, 410, 333, 301, 299, 400, 377, 312, 340, 310, 305, 500]),
        ("participant", [7] * 13),
        ("list", [1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1]),
        ("row", range(4, 17)),
        ("back", [-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13]),
    ],
)
def test_other_columns_of_numbers_say_nothing_about_the_order(read, name, values):
    rows = [(str(value), row[2]) for value, row in zip(values, ROWS, strict=False)]
    assert len(displayed_words(read(rows, f"{name},word"))) == 13


def test_running_text_in_the_order_of_text_is_refused(read):
    rows = sorted((str(number), f"The cat slept {number} times.") for number in range(1, 13))
    with pytest.raises(InputError, match="found part '2' after '12'"):
        displayed_words(read(rows, "part,text"), "text", is_text=True)
    words = displayed_words(read(rows, "part,text"), "text", is_text=True, order="part")
    assert words.words[8] == "2"


def test_surprisals_of_sorted_rows_are_those_of_the_order_of_reading(tmp_path):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame(rows, columns=["item", "zone", "word"]) for rows in (ROWS, MERGED)]
    tables = [word_table(fresh("lstm"), frame, group="item", order="zone") for frame in frames]
    assert list(tables[0].rows()) == list(tables[1].rows())


def test_times_whose_numbers_start_at_0_are_refused(read, tmp_path):
    words = displayed_words(read(ROWS), group="item")
    (tmp_path / "times.csv").write_text(
        "item,zone,time\n" + "".join(f"{item},{int(zone) - 1},300\n" for item, zone, _ in ROWS)
    )
    with pytest.raises(
        InputError, match=r"column zone start at 0, but at 1 in .*words\.csv; .*Add 1 to the numbers of"
    ):
        join_times(words, InputTable.read(tmp_path / "times.csv"), "time")


def test_interleaved_sentences_are_refused(read):
    table = read([("1", "the"), ("2", "the"), ("1", "dog"), ("2", "cat")], "sentence,word")
    with pytest.raises(InputError, match="sentence 1 continues after other rows"):
        displayed_words(table, sentence="sentence")


def test_unused_columns_of_sentences_and_readers_are_a_warning(read):
    rows = [("1", "the"), ("1", "dog"), ("2", "the"), ("2", "cat")]
    with pytest.warns(InputWarning, match="no sentence ends inside a group.*sentence='sentence_id'"):
        displayed_words(read(rows, "sentence_id,word"))
    with pytest.warns(InputWarning, match="rows of several readers \\(column subj\\)"):
        displayed_words(read(rows, "subj,word"))
