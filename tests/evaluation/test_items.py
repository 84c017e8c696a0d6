"""Stimuli: sums by region, means by condition over items, warnings, and their picture."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.stimuli import Stimuli
from syntaxlm.evaluation.items import evaluate_items
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.statistics.intervals import t_quantile
from tests.fresh_models import STREAM, fresh

TABLE = """item,condition,sentence,note
1,short,the cat | sees | a dog .,x
1,long,the old cat | sees | a dog .,y
2,short,a dog | sees | the cat .,z
2,long,a old dog | xyzzy | the cat .,"q, r"
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "items.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def by_region(stored, sentence: str) -> list[float]:
    """The sums of a sentence's regions, word by word."""
    regions = [part.split() for part in sentence.split("|")]
    (words,) = surprisals(stored, [" ".join(word for region in regions for word in region)])
    bits = iter([word.surprisal for word in words])
    return [sum(next(bits) for _ in region) for region in regions]


@pytest.mark.parametrize("name", ["lstm", "prpn", "ngram", "simple-pcfg"])
def test_regions_have_the_sums_of_their_words(name, write):
    stored = fresh(name)
    report = evaluate_items(stored, write(TABLE))
    rows = list(report.rows())
    sentences = [line.split(",")[2] for line in TABLE.splitlines()[1:]]
    expected = [bits for sentence in sentences for bits in by_region(stored, sentence)]
    assert [row["surprisal"] for row in rows] == pytest.approx(expected, abs=1e-5)
    assert [row["region"] for row in rows] == [1, 2, 3] * 4
    assert [row["words"] for row in rows[:6]] == [2, 1, 3, 3, 1, 3]
    assert {row["note"] for row in rows} == {"x", "y", "z", "q, r"}
    assert all(list(row) == list(report.columns) for row in rows)


def test_a_region_of_which_the_model_reads_nothing_has_no_surprisal(write):
    stored = fresh("lstm", splitting="punctuation", drop_words=(",",))
    rows = 'item,condition,sentence\n1,a,"the cat | , | sees"\n1,b,the cat | a | sees\n2,b,the dog | a | sees\n'
    report = evaluate_items(stored, write(rows), critical="2")
    assert [row["surprisal"] is None for row in report.rows()] == [False, True, False, *[False] * 6]
    assert list(report.means["lstm"]["2"]) == ["b"]
    assert (
        "lstm: reads nothing of region 2 in item 1, condition a, ',', which are left out of the means"
        in report.warnings
    )
    assert not any("reads nothing" in line for line in evaluate_items(stored, write(rows), critical="3").warnings)


def test_each_stimulus_is_read_by_itself(write):
    stored = fresh("lstm", STREAM)
    report = evaluate_items(stored, write(TABLE))
    first = [row["surprisal"] for row in report.rows()][:3]
    assert first == pytest.approx(by_region(stored, "the cat | sees | a dog ."), abs=1e-5)
    again = evaluate_items(stored, write("\n".join([*TABLE.splitlines()[:1], *TABLE.splitlines()[:0:-1]]) + "\n"))
    assert [row["surprisal"] for row in again.rows()][-3:] == pytest.approx(first)


def test_regions_may_be_columns_or_single_words(write):
    stored = fresh("lstm")
    columns = "item,condition,start,verb,end\n1,a,the cat,sees,a dog\n1,b,the cat,,a dog\n"
    lacking = evaluate_items(stored, write(columns), regions=["start", "verb", "end"], critical="verb")
    assert "region verb has no words in item 1, condition b, which are left out of the means" in lacking.warnings
    assert list(lacking.means["lstm"]["verb"]) == ["a"]
    report = evaluate_items(stored, write(columns), regions=["start", "verb", "end"])
    rows = list(report.rows())
    assert [row["region_name"] for row in rows] == ["start", "verb", "end"] * 2
    assert (rows[4]["words"], rows[4]["surprisal"], rows[4]["region_text"]) == (0, None, "")
    words = evaluate_items(stored, write("item,condition,sentence\n1,a,the cat sees a dog\n"))
    assert [row["region_text"] for row in words.rows()] == ["the", "cat", "sees", "a", "dog"]
    joined = sum(row["surprisal"] for row in words.rows())
    assert sum(row["surprisal"] for row in rows[:3]) == pytest.approx(joined)


def test_means_and_differences_over_items(write):
    report = evaluate_items(fresh("lstm"), write(TABLE))
    bits = {(row["item"], row["condition"], row["region_name"]): row["surprisal"] for row in report.rows()}
    for region, by_condition in report.means["lstm"].items():
        for condition, mean in by_condition.items():
            values = [bits[item, condition, region] for item in "12"]
            assert mean.value == pytest.approx(np.mean(values), abs=1e-5)
        values = [bits[item, "long", region] - bits[item, "short", region] for item in "12"]
        assert report.differences["lstm"][region]["long"].value == pytest.approx(np.mean(values), abs=1e-5)
        spread = abs(values[0] - values[1]) / 2  # of two items: the standard error of their mean
        reach = report.differences["lstm"][region]["long"].high - np.mean(values)
        assert reach == pytest.approx(t_quantile(1) * spread, abs=1e-3)


def test_items_with_several_rows_of_a_condition_count_once(write):
    repeated = TABLE + "2,long,a old dog | sees | the cat .,w\n"
    report = evaluate_items(fresh("lstm"), write(repeated))
    assert report.sizes["2"] == {"short": 2, "long": 2}
    assert "several sentences are averaged: item 2, condition long" in report.warnings
    assert not any("the same sentence" in line for line in report.warnings)


def test_repeated_rows_are_not_taken_for_several_sentences_and_all_examples_are_counted(write):
    sentences = {"a": "the | cat", "b": "a | cat"}
    rows = [f"{item},{condition},{text}\n" for item in range(3) for condition, text in sentences.items()]
    warnings = evaluate_items(fresh("ngram"), write("item,condition,sentence\n" + 2 * "".join(rows))).warnings
    assert not any("averaged" in line for line in warnings)
    (line,) = [line for line in warnings if "the same sentence" in line]
    assert line.startswith("the same sentence is in several rows: item 0, condition a; item 0, condition b;")
    assert line.endswith("; item 2, condition a; ... (6 in all)")


def test_spillover_is_of_the_words_before_the_region_of_the_same_sentence(write):
    report = evaluate_items(fresh("lstm"), write(TABLE), spillover=2, frequencies=write("the\t5\ncat\t3\n", "f.tsv"))
    rows = list(report.rows())
    stored = fresh("lstm")
    (words,) = surprisals(stored, ["the cat sees a dog ."], ScoreOptions())
    assert rows[0]["previous_surprisal"] is None
    assert rows[1]["previous_surprisal"] == pytest.approx(words[1].surprisal, abs=1e-5)
    assert rows[1]["previous_surprisal_2"] == pytest.approx(words[0].surprisal, abs=1e-5)
    assert rows[2]["previous_length"] == 4
    assert rows[0]["log_frequency"] > rows[2]["log_frequency"]


def test_unknown_words_of_the_critical_region_are_named_by_item(write):
    report = evaluate_items({"small": fresh("lstm")}, write(TABLE), critical="2")
    (warning,) = report.warnings
    assert "small: unknown words in region 2 or before it in 1 of 2 items (50%): item 2: xyzzy" in warning
    assert "in region 3 or before it" in evaluate_items(fresh("lstm"), write(TABLE), critical="3").warnings[0]
    assert not evaluate_items(fresh("lstm"), write(TABLE), critical="1").warnings
    assert report.to_dict()["unknown_words"] == {"small": {"2": ["xyzzy"]}}


def test_sentences_that_a_model_reads_alike_are_reported(write):
    text = 'item,condition,sentence\n1,a,the cat | sees\n1,b,"the cat, | sees"\n'
    stored = fresh("lstm", splitting="punctuation", drop_words=(",",))
    (warning,) = evaluate_items(stored, write(text)).warnings
    assert "cannot distinguish sentences of 1 of 1 items" in warning
    assert "such as 'cat' and 'cat,' in item 1" in warning


def test_conditions_of_several_columns_and_models(write):
    text = "item,verb,comma,sentence\n1,x,yes,the cat\n1,x,no,a cat\n1,y,yes,the dog\n"
    models = {"one": fresh("lstm"), "two": fresh("ngram")}
    report = evaluate_items(models, write(text), condition=["verb", "comma"])
    assert report.to_dict()["conditions"] == ["x / yes", "x / no", "y / yes"]
    assert {row["model"] for row in report.rows()} == {"one", "two"}
    text = str(report)
    assert "one" in text
    assert "minus verb x / comma yes" in text


def test_uneven_stimuli_are_reported(write):
    text = "item,condition,sentence\n1,a,the | cat\n1,b,the | cat | sees\n2,a,a | dog\n"
    warnings = evaluate_items(fresh("lstm"), write(text)).warnings
    assert any("different numbers of regions: 2 in" in line and "3 in" in line for line in warnings)
    assert any("condition b: missing in 1 item (2), which is in neither" in line for line in warnings)


def test_names_cannot_control_the_terminal(write):
    report = evaluate_items(fresh("lstm"), write("item,condition,sentence\n1,\x1b[31mred,the cat\n"))
    assert "\x1b" not in str(report)


def test_a_data_frame_has_the_same_rows(write):
    pandas = pytest.importorskip("pandas")
    path = write(TABLE)
    frame = evaluate_items(fresh("lstm"), pandas.read_csv(path)).to_dataframe()
    assert frame["surprisal"].tolist() == [row["surprisal"] for row in evaluate_items(fresh("lstm"), path).rows()]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("item,condition,text\n1,a,the\n", {}, "no column 'sentence'"),
        ("item,condition,sentence\n1,a,the\n1,b,\n", {}, "line 3: the sentence has no words"),
        ("item,condition,sentence\n1,a,|\n", {}, "line 2: the sentence has no words"),
        ("item,condition,sentence\n1,a,the\n", {"condition": ()}, "condition: found no column"),
        ("item,condition,sentence\n1,a,the | cat\n1,b,the cat\n", {}, "line 3: found no '.' between regions"),
        ("item,condition,sentence\n1,a,the\n,b,the\n", {}, "line 3: column item is empty"),
        ("item,condition,sentence\n1,,the\n", {}, "line 2: column condition is empty"),
        ("item,condition,sentence\n1,a,the\n", {"separator": ""}, "separator: found nothing"),
        ("item,condition,sentence\n1,a,the\n", {"item": "number"}, "no column 'number'.*item="),
        (
            "item,a,b,sentence\n1,x,y,the\n",
            {"condition": "a,b"},
            "no column 'a,b'.*'a', 'b' are 2 columns; expected one, or each of them by itself",
        ),
        ("item,condition,sentence\n1,a,the | cat\n", {"critical": "verb"}, "critical: found 'verb'; .*1, 2"),
        ("item,condition,sentence\n1,a,the\n", {"spillover": 11}, "spillover"),
        ("item,condition,sentence\n", {}, "found only a header"),
    ],
)
def test_wrong_tables_and_options_are_refused(text, options, message, write):
    with pytest.raises(InputError, match=message):
        evaluate_items(fresh("lstm"), write(text), **options)


@pytest.mark.parametrize(
    ("sentence", "warned"),
    [("the | c|t | sees", "in 'c|t' has no space"), ("the | cat |sees | ", ""), ("the|cat|sees", "")],
)
def test_a_separator_inside_a_word_is_warned_of(sentence, warned, write, recwarn):
    Stimuli.read(write(f"item,condition,sentence\n1,a,{sentence}\n"))
    assert [warned in str(warning.message) for warning in recwarn.list] == [True] * bool(warned)


def test_words_of_regions_are_those_of_the_table(write):
    stimuli = Stimuli.read(write(TABLE))
    assert [len(regions) for regions in stimuli.regions] == [3] * 4
    flat = [region for regions in stimuli.regions for region in regions]
    assert flat[0].first == 0
    assert flat[-1].end == len(stimuli.words)
    assert all(before.end == after.first for before, after in pairwise(flat))
    assert [" ".join(stimuli.words.words[one.first : one.end]) for one in flat] == [one.text for one in flat]
    assert not stimuli.are_words
    assert Stimuli.read(write("item,condition,sentence\n1,a,the cat\n")).are_words
