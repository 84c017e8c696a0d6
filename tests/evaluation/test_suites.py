"""Test suites: formulas, regions and their surprisals, accuracies, unknown words, files, and several models."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.suites import DEEPEST_FORMULA, LONGEST_FORMULA, Prediction, read_suites
from syntaxlm.evaluation.suites import evaluate_suites, score_suites
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import WordSurprisal, surprisals
from syntaxlm.text.options import TextOptions
from tests.shared_data import DATA

SUITES = DATA / "syntaxgym"


def suite(formulas=("(2;%a%) < (2;%b%)",), name="number_mine", **items):
    """A suite as JSON. items: the regions of each condition, by item and condition; separated by |."""
    return {
        "meta": {"name": name, "metric": "sum"},
        "region_meta": {"1": "first"},
        "predictions": [{"type": "formula", "formula": formula} for formula in formulas],
        "items": [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": condition,
                        "regions": [
                            {"region_number": place, "content": text} for place, text in enumerate(line.split("|"), 1)
                        ],
                    }
                    for condition, line in conditions.items()
                ],
            }
            for number, conditions in enumerate(items.values(), 1)
        ],
    }


@pytest.fixture
def written(tmp_path):
    """Writes a file below a temporary folder."""

    def write(content, name="suite.json"):
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return tmp_path / name

    return write


@pytest.fixture
def given_bits(monkeypatch):
    """Replace the surprisals of words by given ones, of unknown words by 10; returns the sentences that were asked."""

    def replaced(bits, dropped=()):
        asked = []

        def rows(bundle, lines, options):
            assert options.context == "reset"
            for number, line in enumerate(lines, 1):
                asked.append(line)
                found, begin = [], 0
                for place, word in enumerate(line.split(" "), 1):
                    known = None if word in dropped else word in bits
                    value = None if word in dropped else float(bits.get(word, 10))
                    found.append(WordSurprisal(number, place, word, begin, begin + len(word), word, known, value))
                    begin += len(word) + 1
                yield [*found, WordSurprisal(number, len(found) + 1, "", len(line), len(line), "</s>", True, 99.0)]

        monkeypatch.setattr("syntaxlm.evaluation.suites.surprisals", rows)
        return asked

    return replaced


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("(1;%a%) < (1;%b%)", [True, False]),
        ("(1;%a%)>(1;%b%)", [False, True]),
        ("[ (1;%a%) + (2;%a%) ] = 5", [True, False]),
        ("10 - (1;%a%) - 1 = 8", [True, False]),  # from the left
        ("10 - ((1;%a%) - 1) = 10", [True, False]),
        ("(*;%a%) = 5 | (1;%a%) = 3", [True, True]),
        ("(1;%a%) = 1 | (1;%a%) = 1 & (1;%b%) > 99", [True, False]),  # & binds more than |
        ("[(1;%a%) = 1 | (1;%a%) = 1] & (1;%b%) > 99", [False, False]),
        ("[[(1;%a%)-(1;%b%)]+[(2;%a%)-(2;%b%)]] > 0.5", [True, True]),
        ("(1;%a%) < 1.00005", [False, False]),  # rounding
        ("(1;%a%) = 1.0005", [True, False]),
    ],
)
def test_formulas_have_the_value_computed_by_hand(formula, expected):
    bits = {("a", 1): [1, 3], ("a", 2): [4, 4], ("a", None): [5, 7], ("b", 1): [2, 2], ("b", 2): [2, 1]}
    prediction = Prediction.parse(formula, "here")
    assert prediction.holds(lambda region: np.array(bits[region], float)).tolist() == expected


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("", "here, character 1: found the end; expected a region"),
        ("(2;%a%) < ", "here, character 11: found the end; expected a region"),
        ("(2;%a%) < x", "here, character 11: found 'x'; expected a region"),
        ("(2;%a) < 1", "here, character 3: found ';'; expected an operator or )"),
        ("[(2;%a%) < 1)", "here, character 13: found ')'; expected an operator or ]"),
        ("(2;%a%) < 1 2", "here, character 13: found '2'; expected an operator"),
        ("(2;%a%)", "here: found no comparison of regions"),
        ("1 < 2", "here: found no comparison of regions"),
        ("(2;%a%) & 1", "here, character 9: found '&'; expected comparisons on both sides"),
        ("(2;%a%) < 1 < 2", "here, character 13: found '<'; expected numbers or regions on both sides"),
        ("1 + [(2;%a%) < 1]", "here, character 3: found '+'; expected numbers or regions on both sides"),
        ("(" * 5_000 + "1", f"here, character {DEEPEST_FORMULA + 1}: found '('; expected at most"),
        ("1+" * LONGEST_FORMULA, "here: found 20,000 characters; expected at most 10,000"),
        ("9" * 500 + "<(2;%a%)", "here, character 10: found '999999999'; expected an operator"),
    ],
)
def test_a_faulty_formula_is_reported_with_its_position(formula, message):
    with pytest.raises(InputError) as error:
        Prediction.parse(formula, "here")
    assert message in str(error.value)


def test_a_long_chain_of_sums_needs_no_recursion():
    prediction = Prediction.parse("+".join(["(1;%a%)"] * 1200) + " = 1200", "here")
    assert prediction.holds(lambda region: np.ones(3)).tolist() == [True] * 3


def test_regions_have_the_sums_of_their_words_and_ends_do_not_count(small, written, given_bits):
    asked = given_bits({"the": 1, "cat": 2, "cats": 4, "sleeps": 8, ".": 16})
    file = written(
        suite(
            ["(1;%a%) = 3 & (2;%a%) = 0 & (3;%a%) = 24 & (*;%b%) = 29"],
            x={"a": "the  cat|| sleeps .", "b": "The cats| |sleeps ."},
        )
    )
    report = evaluate_suites(small, file)
    assert asked == ["the cat sleeps .", "The cats sleeps ."]
    (item,) = report.details()
    found = item["models"]["prpn"]["surprisal"]
    assert found["a"] == {1: 3, 2: 0, 3: 24}
    assert found["b"] == {1: 14, 2: 0, 3: 24}
    assert item["sentences"]["a"] == "the cat sleeps ."
    json.dumps(report.to_dict())


def test_accuracies_are_those_counted_by_hand(small, written, given_bits):
    given_bits({"w1": 1, "w2": 2, "w3": 3})
    two = ["(1;%a%) < (1;%b%)", "(2;%a%) < (2;%b%)"]
    first = suite(
        two, "number_x",
        both={"a": "w1|w1", "b": "w2|w2"}, one={"a": "w1|w2", "b": "w2|w1"}, none={"a": "w2|w2", "b": "w1|w1"},
        unknown={"a": "w1|w1", "b": "w2|zebra"},
    )  # fmt: skip
    second = suite(two[:1], "npi_y", x={"a": "w1", "b": "w3"}, y={"a": "w2", "b": "w3"})
    third = suite(two[:1], "number_z", x={"a": "w3", "b": "w3"})
    report = evaluate_suites(small, [written(one, f"{n}.json") for n, one in enumerate((first, second, third))])
    (figures,) = report.to_dict()["models"]
    x = figures["by_suite"]["number_x"]
    assert (x["circuit"], x["all"]["accuracy"], x["all"]["correct"], x["all"]["items"]) == ("Agreement", 0.5, 2, 4)
    assert x["all"]["mean_over_predictions"] == (3 / 4 + 2 / 4) / 2
    assert (x["words_known"]["correct"], x["words_known"]["items"]) == (1, 3)
    assert [one["all"]["correct"] for one in x["predictions"]] == [3, 2]
    assert [one["words_known"]["items"] for one in x["predictions"]] == [4, 3]
    assert x["all"]["low"] < 0.5 < x["all"]["high"]
    assert figures["by_circuit"]["Agreement"]["all"]["accuracy"] == (0.5 + 0) / 2
    assert figures["by_circuit"]["Licensing"]["all"]["accuracy"] == 1
    assert figures["all"]["accuracy"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert (figures["all"]["correct"], figures["all"]["items"], figures["unknown_words"]) == (4, 7, 1)
    assert x["chance"] == pytest.approx(0.25, abs=0.01)
    assert figures["chance"] == pytest.approx((0.25 + 0.5 + 0.5) / 3, abs=0.01)
    levels = [row["level"] for row in report.rows() if row["words"] == "all"]
    assert " ".join(levels) == "all circuit circuit suite prediction prediction suite prediction suite prediction"
    printed = str(report)
    assert "suites 3   items 7   sentences 8" in printed
    assert next(line for line in printed.splitlines() if line.startswith("number_x,")).split()[-2:] == ["75.0", "75.0"]


def test_chance_is_that_of_the_suites_whose_items_count(small, written, given_bits):
    given_bits({"w1": 1, "w2": 2})
    predictions = ["(1;%a%) < (1;%b%)", "(2;%a%) < (2;%b%)"]
    unknown = suite(predictions, "number_x", x={"a": "w1|w1", "b": "w2|zebra"})
    known = suite(predictions[:1], "number_y", x={"a": "w1|w1", "b": "w2|w2"})
    report = evaluate_suites(small, [written(unknown, "x.json"), written(known, "y.json")])
    chances = {row["words"]: row["chance"] for row in report.rows() if row["level"] == "all"}
    assert chances == {"all": pytest.approx(0.375, abs=0.01), "words_known": pytest.approx(0.5, abs=0.01)}


def test_a_region_that_the_model_does_not_read_is_not_known(small, written, given_bits):
    given_bits({"w": 1}, dropped=["."])
    report = evaluate_suites(small, written(suite(x={"a": "w|.", "b": "w|w ."}, y={"a": "w|w", "b": "w|"})))
    (model,) = report.models
    assert model.all_known.tolist() == [False, True]
    assert model.correct.tolist() == [True, False]
    found = [item["models"]["prpn"]["surprisal"] for item in report.details()]
    assert found[0] == {"a": {1: 1, 2: None}, "b": {1: 1, 2: 1}}
    assert found[1]["b"] == {1: 1, 2: 0}


def test_models_are_compared_with_the_first_on_the_same_items(small, written, given_bits):
    given_bits({"w1": 1, "w2": 2})
    items = {f"i{n}": {"a": f"w1 {'w1 ' * n}|w1", "b": "w1|w2"} for n in range(8)}
    report = evaluate_suites({"one": small, "two": small}, written(suite(**items)))
    assert report.against_first["two"]["all"].difference == 0
    assert "two compared with one, items with all words known: accuracy difference +0.0" in str(report)


def test_a_trained_model_gives_regions_the_surprisals_of_its_words(prpn, toy, written):
    lines = (toy / "test.txt").read_text().splitlines()[:6]
    items = {str(n): {"a": line.replace(" ", "|", 1), "b": line.replace(" ", "|", 2)} for n, line in enumerate(lines)}
    read = read_suites([written(suite(**items))])
    found = score_suites(prpn, read).suites[0]
    for line, regions, holds in zip(lines, found.regions, found.holds[0], strict=True):
        (words,) = surprisals(prpn, [line], ScoreOptions())
        bits = [word.surprisal for word in words if word.word]
        assert regions["a"][1].bits == pytest.approx(bits[0], abs=1e-4)
        assert regions["a"][2].bits == pytest.approx(math.fsum(bits[1:]), abs=1e-4)
        assert regions["b"][2].bits == pytest.approx(bits[1], abs=1e-4)
        assert holds == (regions["a"][2].bits < regions["b"][2].bits)


def test_punctuation_that_is_a_region_has_its_own_surprisal(small, written):
    (read,) = read_suites([written(suite(x={"a": "The cat sleeps|.", "b": "the cat|sleeps ."}))])
    options = TextOptions(punctuation="split")
    ((item,),) = (scores.regions for scores in score_suites(small, [read], options).suites)
    assert item["a"][2].known
    (words,) = surprisals(small, ["the cat sleeps ."], ScoreOptions(punctuation="split"))
    assert item["a"][2].bits == pytest.approx(words[3].surprisal)
    assert item["a"][1].bits + item["a"][2].bits == pytest.approx(item["b"][1].bits + item["b"][2].bits)


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_a_table_is_the_same_suite_as_json(written, separator):
    conditions = {"x": {"a": "the cat|sleeps", "b": "the cats|sleeps"}, "y": {"a": "cats|sleep", "b": "cat|sleep"}}
    rows = [
        [str(n), name, *line.split("|")] for n, item in enumerate(conditions.values(), 1) for name, line in item.items()
    ]
    table = written("\n".join(map(separator.join, [["item", "condition", "subject", "verb"], *rows, []])), "mine.csv")
    formula = "(2;%a%) < (2;%b%)"
    (of_table,) = read_suites([table], [formula])
    (of_json,) = read_suites([written(suite([formula], "mine", **conditions))])
    assert (of_table.items, of_table.predictions, of_table.name) == (of_json.items, of_json.predictions, "mine")
    assert of_table.circuit == "Other"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "item,condition,1\n1,a,x\n",
            "mine.csv: a table contains no predictions; expected one or more, such as predictions=",
        ),
        ("item,cond,1\n1,a,x\n", "mine.csv, line 1: no column 'condition'"),
        ("item,condition,2,1\n1,a,x,y\n", "line 1: found the column 2 at the place of region 1"),
        ("item,condition,1\n1,a,x\n1,a,y\n", "mine.csv, line 3, item '1', condition 'a': found twice"),
        ("item,condition,1\n1,a,\n", "mine.csv, line 2, item '1', condition 'a': found no words"),
        ("item,condition,1\n", "mine.csv: found no items"),
        ("item,condition,1\n1,a,x\n1,b,x\n2,a,x\n", "prediction 1, item '2': no condition 'b'; found a"),
        ("item,condition,1\n1,a,x,y\n", "mine.csv, line 2: found 4 cells; expected 3"),
    ],
)
def test_a_faulty_table_is_reported_with_its_line(written, content, message):
    formulas = [] if "no predictions" in message else ["(1;%a%) < (1;%b%)"]
    with pytest.raises(InputError) as error:
        read_suites([written(content, "mine.csv")], formulas)
    assert message in str(error.value)


GOOD = suite(x={"a": "the|cat", "b": "the|cats"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "suite.json: damaged or cut short"),
        ("[" * 100_000, "suite.json: damaged or cut short: nested too deeply"),
        ("[1, 2]", "suite.json: found a list; expected an object"),
        ({}, "suite.json, predictions: missing"),
        (suite() | {"meta": {"name": "a\0b", "metric": "sum"}}, "suite.json: found a zero byte"),
        ({**GOOD, "items": 3}, "suite.json, items: found 3; expected a valid list"),
        ({**GOOD, "items": []}, "suite.json: found no items"),
        ({**GOOD, "items": [{"item_number": 1, "conditions": []}]}, "suite.json, items 1, conditions: missing"),
        ({**GOOD, "items": [{"item_number": [], "conditions": []}]}, "items 1, item_number: found a list; expected"),
        ({**GOOD, "predictions": []}, "suite.json: found no predictions"),
        ({**GOOD, "predictions": [{"formula": "(1;%a%) <"}]}, "suite.json, prediction 1, character 10: found the end"),
        (
            {**GOOD, "predictions": [{"type": "code", "formula": "1"}]},
            'predictions 1, type: found "code"; expected \'for',
        ),
        ({**GOOD, "meta": {"metric": "mean"}}, 'suite.json, meta, metric: found "mean"; expected sum'),
        (suite(x={"a": "w"}), "suite.json, prediction 1, item '1': condition 'a' has no region 2; found 1"),
        (suite(x={"A": "w|w", "b": "w|w"}), "prediction 1, item '1': no condition 'a'; found A, b"),
        (suite(x={"a": "w|\ud800", "b": "w|w"}), "item '1', condition 'a': found '\\ud800'"),
        (suite(name="\ud800", x={"a": "w|w", "b": "w|w"}), "suite.json, name: found '\\ud800'"),
    ],
)
def test_a_faulty_suite_is_reported_with_its_place(written, content, message):
    with pytest.raises(InputError) as error:
        read_suites([written(content)])
    assert message in str(error.value)


def test_files_that_do_not_fit_together_are_reported(written, tmp_path):
    file, copy = written(GOOD), written(GOOD, "copy.json")
    with pytest.raises(InputError, match=r"suite.json: found the name 'number_mine', which .*copy.json also has"):
        read_suites([copy, file])
    with pytest.raises(InputError, match="predictions: found no table"):
        read_suites([file], ["(1;%a%) < (1;%b%)"])
    with pytest.raises(InputError, match="found no file of a test suite"):
        read_suites([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"the folder contains no \.json files"):
        read_suites([tmp_path / "empty"])
    with pytest.raises(InputError, match="found no model"):
        evaluate_suites({}, file)


def test_hidden_files_of_a_folder_are_not_read(written, tmp_path):
    written(GOOD)
    (tmp_path / "._suite.json").write_bytes(b"\0\x05\x16\x07")
    assert len(read_suites([tmp_path])) == 1


def test_a_table_of_two_factors_is_that_of_items(written):
    table = "item,note,head,attractor,start,verb\n1,x,sg,sg,the cat,is\n1,y,sg,pl,the cats,is\n"
    (suite,) = read_suites(
        [written(table, "mine.csv")], ["(2;%sg / pl%) < (2;%sg / sg%)"], ["head", "attractor"], ["start", "verb"]
    )
    (item,) = suite.items
    assert {name: one.regions for name, one in item.conditions.items()} == {
        "sg / sg": {1: "the cat", 2: "is"}, "sg / pl": {1: "the cats", 2: "is"},
    }  # fmt: skip


def test_rows_are_written_as_csv(small, written, given_bits, tmp_path):
    given_bits({"the": 1, "cat": 2, "cats": 4})
    evaluate_suites(small, written(GOOD)).report().write(tmp_path / "out.csv", "csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [(row["level"], row["accuracy"]) for row in rows[:2]] == [("all", "1.000000"), ("all", "1.000000")]


def test_null_in_optional_entries_of_a_suite_is_absent_and_numbers_are_names(written):
    content = suite(one={1: "the cat|sees", "b": "the dog|sees"}, formulas=("(2;%1%) < (2;%b%)",))
    content["meta"] |= {"name": None, "metric": None}
    content["predictions"][0]["type"] = None
    (read,) = read_suites([written(content, "mine.json")])
    assert (read.name, [list(item.conditions) for item in read.items]) == ("mine", [["1", "b"]])


def test_null_in_a_required_entry_of_a_suite_is_named(written):
    content = suite(one={"a": "the cat|sees", "b": "the dog|sees"})
    content["items"][0]["conditions"][1]["regions"][0]["content"] = None
    with pytest.raises(
        InputError, match="items 1, conditions 2, regions 1, content: found null; expected a valid string"
    ):
        read_suites([written(content)])


def test_na_in_a_region_of_a_suite_table_is_no_word_and_in_an_item_it_is_refused(written):
    table = '"item","condition","r1","r2"\n1,"a","The man",NA\n1,"b","The men","left"\n'
    (read,) = read_suites([written(table, "na.csv")], ["(1;%a%) < (1;%b%)"])
    assert [one.sentence for one in read.items[0].conditions.values()] == ["The man", "The men left"]
    with pytest.raises(InputError, match="line 3: column item has NA, a missing value"):
        read_suites([written(table.replace('1,"b"', 'NA,"b"'), "item.csv")], ["(1;%a%) < (1;%b%)"])


@pytest.mark.skipif(not SUITES.is_dir(), reason=f"no test suites in {SUITES}")
def test_the_published_suites_are_read_with_their_circuits():
    suites = read_suites([SUITES])
    assert len(suites) == 26
    assert sum(len(one.items) for one in suites) == 627
    assert {one.circuit for one in suites if one.name != "nn-nv-rpl"} == {
        "Agreement", "Licensing", "Garden-Path Effects", "Gross Syntactic Expectation", "Center Embedding",
        "Long-Distance Dependencies",
    }  # fmt: skip
    by_name = {one.name: one for one in suites}
    assert by_name["subordination"].items[0].conditions["sub_no-matrix"].sentence == "As the doctor studied the book ."
    assert [len(one.predictions) for one in suites if len(one.predictions) > 1] == [2, 2]


def test_the_error_of_a_spreadsheet_is_no_region(tmp_path):
    path = tmp_path / "suite.csv"
    path.write_text("item,condition,subject,verb\n1,a,The cat,#N/A\n1,b,The cat,sleep\n")
    with pytest.raises(InputError, match="line 2: found '#N/A' in column verb, an error of a spreadsheet"):
        read_suites([path], ["(2;%a%) < (2;%b%)"])
