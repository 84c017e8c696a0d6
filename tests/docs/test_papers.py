"""The page of published results: every experiment has an outcome, every value of ours is stored and has a command."""

from __future__ import annotations

import re

import pytest
from laboratory.pages.experiments import OUTCOMES, _section, counts, measured
from laboratory.pages.papers import f1_of, marvin_linzen, published
from laboratory.pages.stored_results import parsed, trained
from laboratory.results.store import RESULTS, stored_report, stored_runs

from syntaxlm.training.recipe_files import find_recipe

ROWS = [row for one in published()["experiments"].values() for row in one["rows"]]
# Decimal numbers in the text of sections that are not in their tables: what each one is.
QUOTED = {
    "60.97": "published, the released PRPN", "39.5": "published, Kim et al. 2019",
    "0.2": "by which 13 one-word sentences of 3,914 raise an F1 of 47.7", "0.3": "and by which they raise one of 20.0",
    "8.7": "published, Kim et al. 2019", "61.7": "published, right branching of WSJ10", "0.65": "p of ON-LSTM and PRPN",
}  # fmt: skip


def ours(row):
    return [one["here"] for one in row.get("systems", ()) if "here" in one]


@pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])
def test_every_experiment_has_an_outcome_a_reason_and_recipes_that_exist(row):
    assert row["outcome"] in OUTCOMES
    assert row["why"]
    assert bool(ours(row)) == (row["outcome"] != "not run")
    assert "recipe" not in row or find_recipe(row["recipe"])


@pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])
def test_every_value_of_ours_has_the_command_that_made_it(row):
    for one in ours(row):
        if "picture" not in one:
            assert measured(one).commands, one


@pytest.mark.parametrize("row", ROWS, ids=[row["item"] for row in ROWS])
def test_numbers_in_the_text_of_an_experiment_are_in_its_table_or_quoted(row):
    text, _, table = _section(row).partition("\n\n| ")
    text = re.sub(r"\]\([^)]*\)", "", text)
    found = set(re.findall(r"\d+\.\d+", text.partition("\n")[2]))
    assert found <= set(re.findall(r"\d+\.\d+", table)) | QUOTED.keys()


def test_a_value_is_quoted_without_ours_or_stands_in_the_table_beside_ours():
    """A system of a published table is in one of two places."""
    for row in ROWS:
        quoted = row.get("quoted", {"values": {}})["values"]
        assert not quoted.keys() & {one["system"] for one in row.get("systems", ()) if "published" in one}
    (characters,) = (row for row in ROWS if row["item"].startswith("PRPN, Table 1"))
    assert "\nAlso published: norm-stabilised RNN: 1.48; CW-RNN: 1.46; " in _section(characters)


def test_an_unknown_outcome_and_a_place_without_a_value_are_refused():
    with pytest.raises(ValueError, match="Table 9: outcome 'same order'; expected one of reproduced"):
        _section({"item": "Table 9", "outcome": "same order", "why": "x"})
    with pytest.raises(ValueError, match="found stored; expected one of reports"):
        measured({"stored": "prpn"})
    with pytest.raises(KeyError, match="found 0 stored runs"):
        measured({"boundaries": "lstm"})


def test_the_table_of_outcomes_counts_every_experiment_once():
    head, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in counts().splitlines()]
    assert head[1:5] == list(OUTCOMES)
    *papers, own, compared = ([int(cell) for cell in row[1:]] for row in rows)
    assert own == [sum(column) for column in zip(*papers, strict=True)]
    total = [sum(both) for both in zip(own, compared, strict=True)]
    assert total == [*([row["outcome"] for row in ROWS].count(one) for one in OUTCOMES), len(ROWS)]


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


def test_the_command_of_an_evaluation_has_the_protocol_and_the_limit_of_its_report():
    train, command = parsed("prpn-ptb-parsing", "prpn10").evaluation_commands("unbiased")
    assert [train] == trained("prpn-ptb-parsing").training_commands
    assert command.endswith("runs/prpn/seed-S 'WSJ/*.mrg' --decoder unbiased --protocol prpn --max-words 10")
    half = parsed("simple-pcfg-ptb", "wsj-second-half").evaluation_commands("mbr")[1]
    assert half.endswith("'WSJ/wsj_01*.mrg' --decoder mbr")
    average = parsed("simple-pcfg-ptb", "wsj", "average").evaluation_commands("mbr")[1]
    assert average.count(" --also ") == 4
    assert average.index("'WSJ") < average.index("--also")


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
