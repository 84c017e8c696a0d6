"""Designs of stimuli: factors, contrasts over items, further measures, unknown words, and rows for regions."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas
import polars
import pytest

from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.items import evaluate_items
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.regions import combined
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.scoring.word_table import WordScores
from tests.fresh_models import OPEN, fresh
from tests.grammar_models import grammar

FACTORS = ["head", "attractor"]
NOUNS = ["cat", "dog", "old dog"]
REGIONS = ["start", "verb", "end"]


def crossed(heads=("sg", "pl"), attractors=("sg", "pl")) -> list[dict[str, str]]:
    """Three items in all combinations of the levels."""
    return [
        {"item": str(item), "head": head, "attractor": attractor, "start": f"the {'old ' * (head != heads[0])}{noun}",
         "verb": "sees" if attractor == attractors[0] else "a", "end": f"a {NOUNS[-item]} ."}
        for item, noun in enumerate(NOUNS) for head, attractor in product(heads, attractors)
    ]  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(rows, name: str = "items.csv"):
        with open(tmp_path / name, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return tmp_path / name

    return write


def report_of(table, models=None, **options):
    return evaluate_items(models or fresh("lstm"), table, condition=FACTORS, regions=REGIONS, **options)


def contrast(frame, region: str, name: str, **others):
    """The row of a contrast."""
    for column, value in {"region": region, "contrast": name, "words": "all", "minus": "", **others}.items():
        frame = frame[frame[column] == value]
    (row,) = frame.to_dict("records")
    return row


def cells(report, region: str, model: str = "lstm") -> pandas.DataFrame:
    """The surprisals of a region: a row per item, a column per condition."""
    rows = report.to_dataframe()
    chosen = rows[(rows.region_name == region) & (rows.model == model)]
    return chosen.pivot(index="item", columns=FACTORS, values="surprisal")


def test_contrasts_are_paired_t_tests_of_items(write):
    stats = pytest.importorskip("scipy.stats")
    report = report_of(write(crossed()))
    frame = report.to_dataframe("contrasts")
    wide = cells(report, "end")
    differences = {
        "head": wide["pl"].mean(axis=1) - wide["sg"].mean(axis=1),
        "head x attractor": wide["pl", "pl"] - wide["pl", "sg"] - (wide["sg", "pl"] - wide["sg", "sg"]),
    }
    for name, values in differences.items():
        found, expected = contrast(frame, "end", name), stats.ttest_1samp(values, 0)
        assert (found["estimate"], found["t"], found["p"]) == pytest.approx(
            (values.mean(), expected.statistic, expected.pvalue), rel=1e-2
        )
        assert (found["df"], found["n_items"]) == (2, 3)
    assert {"head pl / attractor sg", "head sg / attractor sg"} <= {
        report.stimuli.label(one) for one in report.design.conditions
    }


def test_contrasts_of_two_models_are_compared_item_by_item(write):
    report = report_of(write(crossed()), {"lstm": fresh("lstm"), "ngram": fresh("ngram")})
    first, second = (cells(report, "verb", model) for model in ("lstm", "ngram"))
    difference = (second - first)["pl"].mean(axis=1) - (second - first)["sg"].mean(axis=1)
    found = contrast(report.to_dataframe("contrasts"), "verb", "head", minus="lstm")
    assert (found["model"], found["estimate"]) == ("ngram", pytest.approx(difference.mean(), abs=1e-4))
    assert found["t"] == pytest.approx(difference.mean() / (difference.std() / np.sqrt(3)), rel=1e-3)


def test_means_are_a_tidy_table_with_a_column_for_each_factor(write):
    report = report_of(write(crossed()))
    frame = report.to_dataframe("means")
    assert list(frame.columns[:5]) == ["model", "measure", "region", *FACTORS]
    row = frame[(frame.region == "end") & (frame["head"] == "pl") & (frame["attractor"] == "sg")].iloc[0]
    wide = cells(report, "end")
    assert row["mean"] == pytest.approx(wide["pl", "sg"].mean(), abs=1e-5)
    assert row["difference"] == pytest.approx((wide["pl", "sg"] - wide["sg", "sg"]).mean(), abs=1e-5)
    within = wide.sub(wide.mean(axis=1), axis=0)["pl", "sg"].std() * np.sqrt(4 / 3) / np.sqrt(3)
    assert row["within_high"] - row["mean"] == pytest.approx(4.302653 * within, rel=1e-4)


def test_levels_have_the_order_of_categories_and_the_baseline_is_first(write):
    frame = pandas.DataFrame(crossed())
    frame["head"] = pandas.Categorical(frame["head"], ["pl", "sg"])
    assert next(iter(report_of(frame).design.conditions)) == "pl / sg"
    assert next(iter(report_of(frame, baseline="sg / pl").design.conditions)) == "sg / pl"
    enum = polars.DataFrame(crossed()).cast({"attractor": polars.Enum(["pl", "sg"])})
    assert list(report_of(enum).design.conditions) == ["sg / pl", "sg / sg", "pl / pl", "pl / sg"]
    with pytest.raises(InputError, match="baseline: found 'plural'; expected a condition: 'sg / sg'"):
        report_of(write(crossed()), baseline="plural")


def test_a_factor_of_three_levels_is_compared_with_the_first_or_the_one_before(write):
    table = write(crossed(("a", "b", "c")))
    assert list(report_of(table).to_dataframe("contrasts")["levels"][:2]) == ["b - a", "c - a"]
    assert list(report_of(table, contrast="successive").to_dataframe("contrasts")["levels"][:2]) == ["b - a", "c - b"]


def test_a_design_that_is_not_crossed_has_the_contrasts_of_its_cells_only(write):
    rows = [row for row in crossed() if (row["head"], row["attractor"]) != ("pl", "pl")]
    with pytest.warns(UserWarning, match="not crossed, because no sentence has head pl / attractor pl"):
        report = report_of(write(rows))
    assert not report.design.contrasts
    assert "no sentence has pl / pl" in str(report)


def test_a_factor_between_items_is_named_and_the_other_one_compared(write):
    rows = [row for row in crossed() if row["head"] == ("pl" if row["item"] == "0" else "sg")]
    report = report_of(write(rows))
    assert {one.contrast for one in report.design.contrasts} == {"attractor"}
    assert {one.test.n for one in report.design.contrasts} == {3}
    assert "Each item has one level of head, and a level has one item only" in str(report)


@pytest.fixture
def between(write):
    """Seven items, each with one level of head; and the surprisals of their ends, (attractor, items) of each head."""
    rows = [
        {"item": str(item), "head": head, "attractor": attractor, "start": "the old " * (item + 1) + "cat",
         "verb": "sees", "end": "a dog ." if attractor == "sg" else f"the {'old ' * (item % 3)}cat ."}
        for item, head in enumerate(["sg", "pl", "pl", "sg", "pl", "sg", "pl"]) for attractor in ("sg", "pl")
    ]  # fmt: skip
    wide = cells(report_of(write(rows)), "end")
    return rows, {head: wide[head].dropna().to_numpy().T for head in ("sg", "pl")}


def test_a_factor_between_items_is_compared_by_the_test_of_welch(between, write):
    stats = pytest.importorskip("scipy.stats")
    rows, values = between
    report = report_of(write(rows))
    frame = report.to_dataframe("contrasts")
    for name, of_head in {
        "head": {head: own.mean(0) for head, own in values.items()},
        "head x attractor": {head: own[1] - own[0] for head, own in values.items()},
    }.items():
        expected = stats.ttest_ind(of_head["pl"], of_head["sg"], equal_var=False)
        found = contrast(frame, "end", name)
        assert (found["t"], found["df"], found["p"]) == pytest.approx(
            (expected.statistic, expected.df, expected.pvalue), rel=1e-3
        )
        assert (found["n_items"], found["test"]) == (7, "Welch")
    within = contrast(frame, "end", "attractor")
    assert within["estimate"] == pytest.approx(
        np.hstack(list(values.values())).T @ [-1, 1] @ np.full(7, 1 / 7), abs=1e-4
    )
    assert (within["df"], within["test"]) == (6, "paired")
    assert "Each item has one level of head, so contrasts of it compare groups of items" in str(report)
    assert not any("missing in" in line for line in report.warnings)


def test_a_contrast_within_items_leaves_out_items_whose_group_lacks_a_condition(between, write):
    rows, _ = between
    third = [{**row, "attractor": "none", "end": "the cat ."} for row in rows if row["attractor"] == "sg"]
    heads = {row["item"]: row["head"] for row in rows}
    with pytest.warns(UserWarning, match="no sentence has head pl / attractor none"):
        report = report_of(write([*rows, *(row for row in third if heads[row["item"]] == "sg")]))
    found = contrast(report.to_dataframe("contrasts"), "end", "attractor", levels="none - sg")
    of_items = cells(report, "end")["sg"].dropna()
    expected = (of_items["none"] - of_items["sg"]).to_numpy()
    assert (found["n_items"], found["df"]) == (3, 2)
    assert found["estimate"] == pytest.approx(expected.mean(), abs=1e-5)
    assert "Contrasts that need it are omitted, or leave out the items of its group." in str(report)


@pytest.mark.parametrize(
    ("formula", "name", "test"),
    [
        ("(pl/pl - pl/sg) - (sg/pl - sg/sg)", "head x attractor", "Welch"),
        ("(pl/pl + pl/sg - sg/pl - sg/sg) / 2", "head", "Welch"),
    ],
)
def test_formulas_of_a_design_are_its_contrasts(formula, name, test, between, write):
    for rows, own in ((between[0], test), (crossed(), "paired")):
        table = write(rows)
        planned = report_of(table, contrast=formula).to_dataframe("contrasts")
        assert set(planned["contrast"]) == {"planned"}
        found = contrast(planned, "end", "planned", levels=formula)
        expected = contrast(report_of(table).to_dataframe("contrasts"), "end", name)
        numbers = ["estimate", "low", "high", "t", "df", "p", "n_items"]
        assert [found[one] for one in numbers] == pytest.approx([expected[one] for one in numbers])
        assert found["test"] == own


def test_a_formula_of_one_group_is_tested_over_its_items_and_one_without_items_is_named(between, write):
    rows, values = between
    report = report_of(write(rows), contrast="pl/pl - pl/sg")
    found = contrast(report.to_dataframe("contrasts"), "end", "planned")
    assert (found["n_items"], found["test"]) == (4, "paired")
    assert found["estimate"] == pytest.approx((values["pl"][1] - values["pl"][0]).mean(), abs=1e-4)
    rows = [row for row in crossed() if (row["attractor"] == "sg") == (row["item"] == "0") or row["head"] == "sg"]
    assert "No item has all conditions of pl/pl - pl/sg" in str(report_of(write(rows), contrast="pl/pl - pl/sg"))


def test_a_contrast_that_varies_by_rounding_errors_only_has_no_test_and_says_so(write):
    report = report_of(write(crossed()))
    found = contrast(report.to_dataframe("contrasts"), "start", "attractor")  # the same words in both levels
    assert (found["estimate"], found["test"]) == (pytest.approx(0, abs=1e-5), "no variation")
    assert np.isnan([found["t"], found["df"], found["p"]]).all()
    assert "No variation: the contrast has the same value in all items" in str(report)


def test_a_contrast_that_is_nearly_the_same_in_all_items_is_warned_of(write):
    rows = [
        {
            "item": str(item),
            "condition": condition,
            "sentence": f"{first} cat | sees a dog . it sees a dog . it sees | {noun}",
        }
        for item, first in enumerate(["the", "a", "old", "it"])
        for condition, noun in (("sg", "cat"), ("pl", "dog"))
    ]
    report = evaluate_items(fresh("lstm"), write(rows))
    found = contrast(report.to_dataframe("contrasts"), "3", "condition")
    assert abs(found["t"]) > 100
    (line,) = [line for line in report.warnings if "nearly the same" in line]
    assert line.startswith("lstm: the surprisal of region 3 is nearly the same in all items, so t = ")
    assert line.endswith(" is no evidence for other items. Do the items have the same words there?")


def test_items_with_unknown_words_up_to_the_region_have_a_second_line_without_them(write):
    rows = crossed()
    rows[5]["start"] = "the xyzzy"
    report = report_of(write(rows), critical="verb")
    frame = report.to_dataframe("means")
    assert set(frame[frame.words == "words_known"]["region"]) == {"verb"}
    known = frame[(frame.words == "words_known") & (frame["head"] == "sg") & (frame["attractor"] == "pl")].iloc[0]
    assert (known["n_items"], known["mean"]) == (2, pytest.approx(cells(report, "verb").drop("1")["sg", "pl"].mean()))
    counted = frame[(frame.words == "all") & (frame.region == "verb")]
    assert counted["n_unknown"].tolist() == [0, 1, 0, 0]
    assert counted["n_items"].tolist() == [3] * 4
    assert {one.test.n for one in report.design.contrasts if one.words == "words_known"} == {2}


@pytest.mark.parametrize(
    ("model", "measure", "of"),
    [
        ("lstm", "entropy", lambda values: values[0]), ("lstm", "rank", lambda values: values[0]),
        ("lstm", "entropy_reduction", sum), ("lstm", "prefix_surprisal", lambda values: values[-1]),
        ("simple-pcfg", "belief_update", sum), ("simple-pcfg", "structural_surprisal", sum),
        ("simple-pcfg", "expected_open", lambda values: values[-1]),
        ("simple-pcfg", "expected_depth", lambda values: values[0]), ("simple-pcfg", "constituents_ended", sum),
    ],
)  # fmt: skip
def test_measures_of_regions_follow_from_those_of_words(model, measure, of, write):
    report = report_of(write(crossed()), fresh(model), measures=[measure])
    row = list(report.rows())[2]
    sentence = "the cat sees a cat ."
    if measure == "constituents_ended":
        from syntaxlm.parsing.word_measures import word_measures as surprisals_with
    else:
        surprisals_with = surprisals
    (words,) = surprisals_with(fresh(model), [sentence], ScoreOptions(measures=[measure]))
    assert row["region_text"] == "a cat ."
    assert row[measure] == pytest.approx(of([word.measures[measure] for word in words[3:6]]), abs=1e-5)
    assert {one.measure for one in report.design.contrasts} == {"surprisal", measure}


@pytest.mark.parametrize(
    ("model", "measure", "lacking"),
    [
        (fresh("lstm", OPEN), "entropy_reduction", "end"),
        (fresh("simple-pcfg"), "distance", "start"),
        (grammar("simple-pcfg"), "derivation_entropy_reduction", "start"),
    ],
    ids=["entropy_reduction", "distance", "derivation_entropy_reduction"],
)
def test_a_region_lacks_what_its_word_at_the_edge_of_the_sentence_lacks(model, measure, lacking, write):
    report = report_of(write(crossed()), model, measures=(name for name in [measure]))
    frame = report.to_dataframe()
    assert (frame.words[frame.region_name == lacking] > 1).all()
    assert (frame[measure].isna() == (frame.region_name == lacking)).all()
    means = report.to_dataframe("means")
    assert set(means[means.measure == measure].region) == set(REGIONS) - {lacking}


def test_words_that_a_parser_does_not_read_do_not_count_in_a_region():
    known, missing = [True, True], math.nan
    assert combined("distance", [missing, 2], [False, True]) == 2
    assert combined("derivation_entropy_reduction", [1, missing, 2], [True, False, True]) == 3
    assert combined("distance", [2, missing], known) == 2
    assert combined("entropy", [missing, 2], known) == 2
    assert math.isnan(combined("distance", [missing, 2], known))
    values, count = np.ones(3), np.ones(3, int)
    scores = WordScores(values, values, values, count > 0, ("rock", "&", "3 ."), count, carries=False)
    assert scores.read_for("distance").tolist() == [True, False, True]
    assert scores.read_for("entropy_reduction").all()


def test_means_do_not_include_infinite_values(write):
    report = report_of(write(crossed()))
    (scores,) = report.scores.values()
    surprisal = np.where(scores.known & (np.arange(len(scores.known)) < 1), np.inf, scores.surprisal)
    infinite = replace(report, scores={"lstm": replace(scores, surprisal=surprisal)})
    frame = infinite.to_dataframe("means")
    (row,) = frame[(frame.region == "start") & (frame["head"] == "sg") & (frame["attractor"] == "sg")].to_dict(
        "records"
    )
    assert (row["n_items"], row["mean"]) == (2, pytest.approx(cells(report, "start").drop("0")["sg", "sg"].mean()))


def by_region(rows) -> list[dict[str, str]]:
    """A row for each region, in the order of reading."""
    names = ("item", *FACTORS)
    return [
        {**{name: row[name] for name in names}, "place": region, "text": row[region], "time": str(number)}
        for number, row in enumerate(rows) for region in REGIONS
    ]  # fmt: skip


def test_a_table_with_a_row_per_region_is_read_like_one_with_a_row_per_sentence(write):
    rows = crossed()
    for row in rows[::4]:
        row["verb"] = ""  # the first condition lacks a region, whose place others know
    rows[1]["start"] = "the"
    rows[1]["end"] = ""  # a region without words, which has a row
    with_rows = [row for row in by_region(rows) if row["text"] or row["place"] == "end"]
    long = evaluate_items(
        fresh("lstm"), write(with_rows), "text", condition=FACTORS, region_rows="place", critical="verb"
    )
    wide = report_of(write(rows, "wide.csv"))
    assert long.means == wide.means
    assert list(long.means["lstm"]) == REGIONS
    first, second, *_ = long.rows()
    assert (first["region_name"], first["input_text" if "input_text" in first else "text"]) == ("start", "the cat")
    assert (second["region_name"], second["time"]) == ("end", "0")


def test_a_sentence_of_numbered_words_may_be_shorter_than_others(write):
    sentences = {("1", "a"): "the cat sees", ("1", "b"): "a cat", ("2", "a"): "the dog", ("2", "b"): "a old dog"}
    rows = [
        {"item": item, "condition": condition, "number": number, "text": word}
        for (item, condition), text in sentences.items() for number, word in enumerate(text.split(), 1)
    ]  # fmt: skip
    report = evaluate_items(fresh("lstm"), write(rows), "text", region_rows="number")
    assert [len(regions) for regions in report.stimuli.regions] == [3, 2, 2, 3]
    with pytest.raises(InputError, match="line 2: found no row of region 2 in item 1, condition a, but in item 2"):
        evaluate_items(fresh("lstm"), write([*rows[:1], *rows[2:]]), "text", region_rows="number")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [*rows, rows[0]], "found region start of item 0, condition sg / sg again, after line 2"),
        (
            lambda rows: [rows[1], rows[0], *rows[2:]],
            "found region verb after region start, but before it in .* line 3",
        ),
        (lambda rows: rows[::3], "found one row for each of 12 sentences"),
        (
            lambda rows: [*rows[:13], *rows[14:]],
            "line 14: found no row of region verb in item 1, condition sg / sg, but in item 0 of this condition, line"
            " 3; expected a row for each region of a sentence. Add the row; .* with an empty text",
        ),
        (
            lambda rows: [{**row, "place": {"start": "2", "verb": "10", "end": "3"}[row["place"]]} for row in rows],
            "line 4: found region 3 after region 10 in column place; expected the order of reading",
        ),
    ],
)
def test_rows_of_regions_in_doubt_are_refused(change, message, write):
    with pytest.raises(InputError, match=message):
        evaluate_items(
            fresh("lstm"), write(change(by_region(crossed()))), "text", condition=FACTORS, region_rows="place"
        )


def test_rows_of_regions_and_columns_of_regions_exclude_each_other(write):
    with pytest.raises(InputError, match="--region: found with region_rows='place'"):
        report_of(write(crossed()), region_rows="place")


def test_the_command_writes_a_table_and_prints_the_report(write, tmp_path, capsys):
    table, output = write(crossed()), tmp_path / "contrasts.csv"
    chosen = [word for name in FACTORS for word in ("--condition", name)]
    chosen += [word for name in REGIONS for word in ("--region", name)]
    options = ["--table", "contrasts", "--contrast", "successive", "--baseline", "pl / sg", "-o", str(output)]
    assert cli.main(["items", "en-fast", str(table), *chosen, *options]) == 0
    printed = capsys.readouterr()
    assert "minus head pl / attractor sg" in printed.out
    assert "head x attractor" in printed.out
    assert f"wrote {output}: 9 rows, one per contrast" in printed.err
    rows = list(csv.DictReader(output.open()))
    assert [row["contrast"] for row in rows[:3]] == ["head", "attractor", "head x attractor"]


def test_a_level_with_the_sign_between_levels_is_refused(write):
    """Otherwise x, "y / z" and "x / y", z were one condition."""
    levels = [("x", "y / z", "the cat | sees"), ("x / y", "z", "the dog | sees")]
    rows = [{"item": 1, "A": first, "B": second, "sentence": text} for first, second, text in levels]
    with pytest.raises(InputError, match=r"line 2: found the level 'y / z' of B; expected a level without ' / '"):
        evaluate_items(fresh("lstm"), write(rows), condition=["A", "B"])
