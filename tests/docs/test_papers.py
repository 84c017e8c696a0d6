"""The page of published results: every experiment has a reason for its verdict, every value of ours its stored runs."""

from __future__ import annotations

import re

import pytest
from laboratory.experiment import read_experiment
from laboratory.pages.experiments import measured
from laboratory.pages.papers import f1_of, marvin_linzen, published
from laboratory.pages.reproductions import section
from laboratory.results.store import RESULTS, stored_report, stored_runs

from syntaxlm.training.recipe_files import find_recipe

ROWS = [row for one in published()["experiments"].values() for row in one["rows"]]
# Decimal numbers in the text of sections that are not in their tables: what each one is.
QUOTED = {
    "60.97": "published, the released PRPN", "39.5": "published, Kim et al. 2019",
    "0.2": "by which 13 one-word sentences of 3,914 raise an F1 of 47.7", "0.3": "and by which they raise one of 20.0",
    "0.1": "the released resolution of PRPN", "0.5": "a resolution of PRPN",
    "8.7": "published, Kim et al. 2019", "61.7": "published, right branching of WSJ10", "0.65": "p of ON-LSTM and PRPN",
}  # fmt: skip


def ours(row):
    return [one["here"] for one in row.get("systems", ()) if "here" in one]


@pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])
def test_every_experiment_has_a_reason_and_recipes_that_exist(row):
    assert row["why"]
    assert "recipe" not in row or find_recipe(row["recipe"])


@pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])
def test_every_value_of_ours_has_stored_runs_of_an_experiment(row):
    for one in ours(row):
        if "picture" not in one:
            found = measured(one)
            assert found.scores, one
            assert read_experiment(found.source[0]).name == found.source[0]
            assert stored_runs(found.source[0])


@pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])
def test_numbers_in_the_text_of_an_experiment_are_in_its_table_or_quoted(row):
    text = f"{row['why']} {row.get('about', '')}"
    found = set(re.findall(r"\d+\.\d+", re.sub(r"\]\([^)]*\)", "", text)))
    shown = section(row | {"why": "-", "about": "-"})
    assert found <= set(re.findall(r"\d+\.\d+", shown)) | QUOTED.keys()


def test_a_value_is_quoted_without_ours_or_stands_in_the_table_beside_ours():
    """A system of a published table is in one of two places."""
    for row in ROWS:
        quoted = row.get("quoted", {"values": {}})["values"]
        assert not quoted.keys() & {one["system"] for one in row.get("systems", ()) if "published" in one}
    (characters,) = (row for row in ROWS if row["item"].startswith("PRPN, Table 1"))
    assert "\nAlso published: norm-stabilised RNN: 1.48; CW-RNN: 1.46; " in section(characters)


def test_a_place_without_a_value_is_refused():
    with pytest.raises(ValueError, match="found stored; expected one of reports"):
        measured({"stored": "prpn"})
    with pytest.raises(KeyError, match="found 0 stored runs"):
        measured({"boundaries": "lstm"})


@pytest.mark.parametrize("more", [{"label": "PP"}, {"depth": True}, {"sides": ["left"]}])
def test_labels_and_shapes_of_a_decoder_that_the_report_lacks_are_refused(more):
    place = {"reports": "on-lstm-ptb-words-small", "scored_on": "wsj", "decoder": "unbiased"}
    with pytest.raises(ValueError, match="found the decoder biased in the report"):
        measured(place | more)


def test_a_section_has_verdict_claims_and_links_to_the_stored_runs():
    (row,) = (row for row in ROWS if row["item"] == "PRPN, Table 3: ablations")
    heading, verdict, notes, claims, shared, table = section(row).split("\n\n")
    assert heading == "## PRPN, Table 3: ablations"
    assert verdict.startswith("**Mixed.** ")
    assert notes.endswith(" The recipe `prpn-ptb-words` has the published size.")
    assert claims.splitlines()[2] == "| PRPN < without parsing network | 1.40 | -0.79 to 3.58 | 2.44 | **open** |"
    assert shared == "Seeds (published / here): - / 3. Text read (published / here): - / 12 epochs, 11.2 M tokens."
    assert table.splitlines()[2] == (
        "| PRPN | 61.98 | 92.1 ± 0.9 | - / 1.9 M | [converged](../laboratory/results/converged.jsonl): prpn |"
    )


def test_baselines_and_compared_systems_are_not_counted_as_experiments_of_the_papers():
    own = [one["rows"] for name, one in published()["experiments"].items() if name != "compared"]
    assert not [row["item"] for rows in own for row in rows if "baseline" in row["item"] or "WSJ10 (" in row["item"]]


def test_layers_labels_and_depth_are_those_of_the_reports():
    """Computed here once more, from the lines."""
    runs = [run for run in stored_runs("on-lstm-ptb-words-small") if run.what == "trees" and run.seed]
    reports = [run.report for run in runs if run.report["sentences"] == 3901]
    place = {"reports": "on-lstm-ptb-words-small", "scored_on": "wsj", "decoder": "biased"}
    for more, of_report in (
        ({"layer": 3}, lambda one: 100 * one["f1_by_layer"]["3"]["biased"]),
        ({"label": "PP"}, lambda one: 100 * one["recall_by_label"]["PP"][0]),
        ({"depth": True}, lambda one: one["predicted_shape"]["depth"]),
    ):
        mean = sum(map(of_report, reports)) / len(reports)
        assert measured(place | more).value.startswith(f"{mean:.1f} ± ")
    found = measured(place | {"layer": 2})
    assert found.value == f"{100 * f1_of(place).f1.mean:.1f} ± {100 * f1_of(place).f1.std:.1f}"
    assert (found.seeds, found.how) == ("5", "`biased`, `wsj-test`, 3,901 sentences")
    assert found.text == "5 epochs, 4.6 M tokens"


def test_stored_sizes_agree_with_those_of_the_comparison_and_of_the_reports():
    compared = {row["recipe"]: row for row in stored_report("compare", run="words")["rows"]}
    for name in ("simple-pcfg-ptb", "prpn-ptb-parsing", "on-lstm-ptb-words-small"):
        for run in stored_runs(name):
            if run.what == "training" and not run.overrides and run.recipe in compared:
                row = compared[run.recipe]
                assert (run.parameters, run.epoch_tokens) == (row["parameters"], row["epoch_tokens"])
    for path in RESULTS.glob("*.jsonl"):
        for run in stored_runs(path.stem):
            assert run.what != "training" or run.report.get("parameters") in (None, run.parameters)


@pytest.mark.parametrize("experiment", sorted(path.stem for path in RESULTS.glob("*.jsonl")))
def test_every_stored_run_has_facts_of_its_own_and_a_recipe_that_exists(experiment):
    runs = stored_runs(experiment)
    assert len({run.identity for run in runs}) == len(runs)
    for recipe in {run.recipe for run in runs} - {None}:
        assert find_recipe(recipe)


@pytest.mark.parametrize(("distance", "rows"), [("long", 9), ("short", 10)])
def test_constructions_have_published_accuracies_beside_ours(distance, rows):
    head, _, *lines = marvin_linzen(distance).splitlines()
    assert len(lines) == rows
    assert "ON-LSTM, published" in head
    assert {len(line.split("|")) for line in lines} == {len(head.split("|"))}
