"""The leaderboard: one treebank, one protocol, from stored reports, in the page and in the file alike."""

from __future__ import annotations

import csv
import io

import pytest
from laboratory.pages.leaderboard import CSV, csv_text, leaderboard, lines
from laboratory.results.store import stored_runs


def rows():
    return list(csv.DictReader(io.StringIO(csv_text())))


def test_the_file_is_that_of_the_stored_results():
    assert CSV.read_text(encoding="utf-8") == csv_text(), "run python -m laboratory.pages.results"


def test_all_rows_are_of_the_same_sentences_protocol_and_right_branching():
    assert {(one.sentences, one.protocol) for one in lines()} == {(3901, "wsj-test")}
    assert max(one.right_branching for one in lines()) == pytest.approx(min(one.right_branching for one in lines()))
    assert [one.f1 for one in lines()] == sorted((one.f1 for one in lines()), reverse=True)


def test_every_parser_has_decoder_and_seeds_and_those_with_a_report_of_training_have_costs():
    for one in lines():
        if one.learns_from:
            assert one.decoder
            assert one.seeds
            assert one.minutes or one.source == "laboratory/results/shipped.jsonl"
            assert one.parameters or one.source == "laboratory/results/shipped.jsonl"


def test_a_row_is_the_mean_over_the_reports_of_its_seeds():
    """Computed here once more, from the lines."""
    runs = [run for run in stored_runs("prpn-ptb-parsing") if run.seed]
    reports = [run.report for run in runs if run.what == "trees" and run.report["sentences"] == 3901]
    trained = [run.report for run in runs if run.what == "training"]
    (row,) = (one for one in rows() if (one["model"], one["decoder"]) == ("PRPN", "unbiased"))
    assert float(row["f1"]) == pytest.approx(sum(one["f1_by_decoder"]["unbiased"] for one in reports) / 5, abs=1e-4)
    assert float(row["minutes"]) == pytest.approx(sum(one["seconds"] for one in trained) / 300, abs=0.1)
    assert int(row["tokens"]) == 5 * runs[0].epoch_tokens
    assert row["seeds"] == "5"


def test_an_average_costs_what_its_members_cost():
    single, average = (next(one for one in lines() if one.model == name) for name in
                       ("SN-PCFG", "SN-PCFG, five seeds averaged"))  # fmt: skip
    assert average.parameters == 5 * single.parameters
    assert average.minutes == pytest.approx(5 * single.minutes)
    assert (average.seeds, average.averaged, average.f1_std) == (5, True, None)


def test_the_table_has_the_rows_of_the_file():
    _, _, *table = leaderboard().splitlines()
    for line, row in zip(table, rows(), strict=True):
        assert row["model"] in line
        shown = line.split("|")[8].split("±")[0]
        assert float(shown) == pytest.approx(100 * float(row["f1"]), abs=0.06)
