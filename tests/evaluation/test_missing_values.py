"""Missing values in tables and data frames: NA of R, empty cells, zeros and decimal commas."""

from __future__ import annotations

import numpy
import pandas
import polars
import pyarrow
import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.displayed_words import displayed_words, join_times
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.tables import read_table
from syntaxlm.evaluation.items import Stimuli

QUOTED = '"item","condition","r1","r2"\n1,"a","The man",NA\n1,"b","The men","who left"\n'
PLAIN = QUOTED.replace('"', "")
REGIONS = [["The man", ""], ["The men", "who left"]]


@pytest.fixture
def write(tmp_path):
    """Writes a table; returns its path."""

    def write(content: str, name: str = "table.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def regions_of(stimuli: Stimuli) -> list[list[str]]:
    return [[region.text for region in of_row] for of_row in stimuli.regions]


def test_na_in_a_region_is_no_word(write, recwarn):
    assert regions_of(Stimuli.read(write(QUOTED), regions=["r1", "r2"])) == REGIONS
    assert not [one for one in recwarn if "NA" in str(one.message)]


def test_na_in_a_region_of_a_table_without_quotation_marks_is_read_so_with_a_warning(write):
    with pytest.warns(InputWarning, match=r"line 2: found NA in column r2 \(1 cell\). It is read as an empty cell"):
        assert regions_of(Stimuli.read(write(PLAIN), regions=["r1", "r2"])) == REGIONS


def test_a_region_na_in_quotation_marks_is_a_word(write):
    read = Stimuli.read(write(QUOTED.replace(",NA", ',"NA"')), regions=["r1", "r2"])
    assert regions_of(read)[0] == ["The man", "NA"]


@pytest.mark.parametrize(
    ("content", "column"),
    [
        (QUOTED.replace("\n1,", "\nNA,", 1), "item"),
        (PLAIN.replace("\n1,", "\nNA,", 1), "item"),
        (QUOTED.replace('"a"', "NA"), "condition"),
        (PLAIN.replace(",a,", ",NA,"), "condition"),
    ],
)
@pytest.mark.filterwarnings("ignore::syntaxlm.InputWarning")
def test_an_item_or_condition_na_is_refused_with_its_line(write, content, column):
    with pytest.raises(InputError, match=f"line 2: column {column} has NA, a missing value .a word NA must be in quot"):
        Stimuli.read(write(content), regions=["r1", "r2"])


@pytest.mark.parametrize("backend", ["default", "numpy_nullable", "pyarrow", "category", "object", "polars"])
def test_data_frames_of_every_type_have_the_rows_of_the_file(write, backend):
    path = write("item,condition,r1,r2,time\n1,a,The man,,301.5\n1,b,The men,who left,\n")
    if backend == "polars":
        frame = polars.read_csv(path)
    elif backend in ("numpy_nullable", "pyarrow"):
        frame = pandas.read_csv(path, dtype_backend=backend)
    else:
        frame = pandas.read_csv(path)
        frame = frame if backend == "default" else frame.astype({"item": backend, "condition": backend, "r2": backend})
    read, from_file = InputTable.read(frame), InputTable.read(path)
    assert read.rows == from_file.rows
    assert read.numbers("time", "--time-column").tolist() == pytest.approx([301.5, float("nan")], nan_ok=True)
    assert regions_of(Stimuli.read(frame, regions=["r1", "r2"])) == REGIONS


@pytest.mark.parametrize(
    "frame",
    [
        pandas.DataFrame({"word": ["the", float("nan")]}),
        pandas.DataFrame({"word": pandas.array(["the", pandas.NA], dtype="string")}),
        polars.DataFrame({"word": ["the", None]}),
    ],
)
def test_a_missing_word_of_a_data_frame_names_the_cause(frame):
    frame = frame if isinstance(frame, polars.DataFrame) else frame.assign(item=1)
    frame = frame.with_columns(item=polars.lit(1)) if isinstance(frame, polars.DataFrame) else frame
    with pytest.raises(InputError, match=r"row with index 1: column word has a missing value.*keep_default_na=False"):
        displayed_words(InputTable.read(frame))


class Dataset:
    """What a table of datasets offers."""

    def __init__(self, frame):
        self.column_names, self.to_polars = list(frame.columns), lambda: polars.from_pandas(frame)


@pytest.mark.parametrize("convert", [polars.from_pandas, pyarrow.Table.from_pandas, Dataset])
def test_frames_of_every_library_are_read_alike(convert):
    frame = pandas.DataFrame({"word": ["the", None], "n": [1, None], "is_odd": [True, False], "time": [0.5, 2]})
    table, expected = InputTable.read(convert(frame)), InputTable.read(frame)
    assert (table.names, table.rows, table.values) == (expected.names, expected.rows, expected.values)


def test_empty_last_rows_of_a_data_frame_are_ignored_and_counted():
    frame = pandas.DataFrame({"item": [1, None], "word": ["the", None]})
    with collected() as reports:
        assert InputTable.read(frame).rows == (("1", "the"),)
    assert str(reports[-1]) == "the data frame: data frame, 1 row, 2 columns; 1 empty row"


def test_a_word_na_of_a_file_is_refused_unless_it_is_in_quotation_marks(write):
    with pytest.raises(InputError, match="line 3: column word has NA, a missing value"), pytest.warns(InputWarning):
        displayed_words(InputTable.read(write("item\tword\n1\tthe\n1\tNA\n")))
    words = displayed_words(InputTable.read(write('item\tword\n1\tthe\n1\t"NA"\n')))
    assert words.words == ("the", "NA")


def test_an_error_of_a_spreadsheet_is_no_word(write):
    path = write("item,word\n1,the\n1,#N/A\n")
    with pytest.raises(InputError, match="line 3: found '#N/A' in column word, an error of a spreadsheet"):
        displayed_words(InputTable.read(path))
    with pytest.raises(InputError, match="line 3: found '#N/A' in column word, an error of a spreadsheet"):
        list(read_table(path, "word")[1])


def times_of(path):
    words = displayed_words(InputTable.read(path))
    with collected() as reports:
        times = join_times(words, None, "time")
    return times.values.tolist(), str(reports[-1]).removeprefix(f"{path}: ")


def test_times_of_0_and_missing_times_are_counted(write):
    values, said = times_of(write("word\ttime\nthe\t0\nold\t200\ncat\tNA\nsleeps\t0\n"))
    assert values == pytest.approx([0, 200, float("nan"), 0], nan_ok=True)
    assert said == (
        "reading times in column time, 3 times; 1 row without a number in column time (line 4); 2 times of 0, which"
        " tables of eye movements have for skipped words (minimum=1 omits them) (lines 2, 5)"
    )


def test_times_with_decimal_commas_are_read_and_counted(write):
    values, said = times_of(write("word;time\nthe;301,5\nold;299\n"))
    assert values == [301.5, 299]
    assert "1 number with decimal commas in column time: '301,5' (line 2)" in said


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (("1,234", "2,345"), "line 2: found '1,234' in column time; expected a number, or NA if it is missing, with"),
        (("301,5", "299.5"), "line 2: found '301,5' in column time; expected a number"),
        (("1_000", "1"), "line 2: found '1_000' in column time; expected a number"),
        (("long", "1"), "line 2: found 'long' in column time; expected a number, or NA if it is missing"),
        (("1", "-3"), "line 3: found the time -3 in column time; expected a number of 0 or more"),
    ],
)  # fmt: skip
def test_times_of_another_form_are_refused_with_the_line(write, times, said):
    with pytest.raises(InputError) as raised:
        times_of(write(f"word\ttime\nthe\t{times[0]}\nold\t{times[1]}\n"))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "frame",
    [
        pandas.DataFrame({"text": ["a", b"the cat"]}),
        pandas.DataFrame({"text": ["a", ["the", "cat"]]}),
        pandas.DataFrame({"text": ["a", numpy.array(["the", "cat"])]}),
        pandas.DataFrame({"text": ["a", numpy.array(["the"])]}),
        polars.DataFrame({"text": [["a"], ["the", "cat"]]}),
        pyarrow.table({"text": [["a"], ["the", "cat"]]}),
    ],
    ids=["bytes", "list", "array", "array of one", "polars", "pyarrow"],
)
def test_lists_and_bytes_in_a_data_frame_are_not_read_as_text(frame):
    table = InputTable.read(frame)
    with pytest.raises(InputError, match=r"in column text; expected text. Join the words of a list with ' '.join"):
        table.column("text", "--column")


def test_a_column_of_arrays_that_is_not_read_is_copied():
    frame = pandas.DataFrame({"text": ["a"], "tokens": [numpy.array(["a", "b"])]})
    table = InputTable.read(frame)
    assert table.column("text", "--column") == ["a"]
    assert [type(cell) for cell in table.values[0]] == [str, str]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_points_that_may_separate_thousands_are_warned_of(write, separator):
    lines = "word,time\nthe,345\ncat,1.234\nsleeps,999\n".replace(",", separator)
    with pytest.warns(InputWarning, match=r"line 3: found '1.234' in column time, read as 1.234.*thousands, remove it"):
        InputTable.read(write(lines)).numbers("time", "--time-column")


@pytest.mark.parametrize("times", [["1.234", "2.345"], ["345", "1.5", "1.234"], ["1345", "1.234"], ["0.234", "1"]])
def test_points_of_decimals_are_not_warned_of(write, times, recwarn):
    InputTable.read(write("\n".join(["time", *times, ""]))).numbers("time", "--time-column")
    assert not recwarn.list


@pytest.mark.parametrize(
    ("rows", "options", "column"),
    [
        (["A,The", ",cat", ",sleeps."], {"group": "part"}, "part"),
        (["1,The", ",cat.", "2,The", ",dog.", "3,A", ",cow."], {"sentence": "part"}, "part"),
        (["1,The", "1,cat", " ,sleeps."], {"sentence": "part"}, "part"),
    ],
)
def test_every_word_has_a_group_and_a_sentence(write, rows, options, column):
    table = InputTable.read(write("\n".join(["part,word", *rows, ""])))
    with pytest.raises(InputError, match=f"column {column} is empty; expected the .* in every row"):
        displayed_words(table, **options)


def test_spaces_around_a_group_start_no_other_one(write):
    table = InputTable.read(write("story,word\nA,The\nA,cat\nA ,sleeps.\n"))
    assert displayed_words(table, group="story").groups.tolist() == [0, 0, 0]


def test_empty_cells_identify_no_word_and_spaces_do_not_matter(write):
    words = displayed_words(InputTable.read(write("id,word\n1,The\n,cat\n2,sleeps.\n")))
    times = InputTable.read(write("id,time\n1,300\n,400\n2 ,500\n", "times.csv"))
    joined = join_times(words, times, "time", ["id"], allow_unmatched=True)
    assert joined.values.tolist() == pytest.approx([300, float("nan"), 500], nan_ok=True)
    assert joined.unmatched == 1
