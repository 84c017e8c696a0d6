"""The leaderboard: one treebank, one protocol, from stored reports, in the page and in the file alike."""

from __future__ import annotations

import csv
import io

import pytest
from laboratory.pages.leaderboard import CSV, OTHER_RUNS, PARSERS, csv_text, leaderboard, lines
from laboratory.results.store import RESULTS, select, stored_runs


def rows():
    return list(csv.DictReader(io.StringIO(csv_text())))


def test_the_file_is_that_of_the_stored_results():
    assert CSV.read_text(encoding="utf-8") == csv_text(), "run python -m laboratory.pages.results"


def test_all_rows_are_of_the_same_sentences_protocol_and_right_branching():
    assert {(one.sentences, one.protocol) for one in lines()} == {(3901, "wsj-test")}
    assert max(one.right_branching for one in lines()) == pytest.approx(min(one.right_branching for one in lines()))
    assert [one.f1 for one in lines()] == sorted((one.f1 for one in lines()), reverse=True)


def test_every_run_that_was_scored_on_the_whole_sample_has_a_row_or_is_listed_as_left_out():
    facts = {"what": "trees", "data": "wsj", "protocol": "wsj-test", "max_words": None}
    experiments = {path.stem for path in RESULTS.glob("*.jsonl")} - {"baselines"}
    scored = {(name, run.run) for name in experiments for run in select(name, **facts)}
    left_out = {(name, run) for name, runs in OTHER_RUNS.items() for run in runs}
    shown = {(parser.experiment, parser.run) for parser in PARSERS}
    assert not shown & left_out
    assert sorted(scored - shown - left_out) == []


def test_every_parser_has_decoder_and_seeds_and_those_with_a_report_of_training_have_costs():
    without_training = {parser.model for parser in PARSERS if not parser.trained}
    for one in lines():
        if one.learns_from:
            assert one.decoder
            assert one.seeds
            assert (one.minutes and one.parameters) or one.model in without_training


def test_a_row_is_the_mean_over_the_reports_of_its_seeds():
    """Computed here once more, from the lines."""
    runs = [run for run in stored_runs("prpn-ptb-parsing") if run.seed and not run.run]
    reports = [run.report for run in runs if run.what == "trees" and run.report["sentences"] == 3901]
    trained = [run.report for run in runs if run.what == "training"]
    name = "PRPN, resolution 0.5, one residual block"
    (row,) = (one for one in rows() if (one["model"], one["decoder"]) == (name, "unbiased"))
    assert float(row["f1"]) == pytest.approx(sum(one["f1_by_decoder"]["unbiased"] for one in reports) / 5, abs=1e-4)
    assert float(row["minutes"]) == pytest.approx(sum(one["seconds"] for one in trained) / 300, abs=0.1)
    assert int(row["tokens"]) == 5 * runs[0].epoch_tokens
    assert float(row["perplexity"]) == pytest.approx(sum(one["test"]["perplexity"] for one in trained) / 5, abs=0.01)
    assert (row["seeds"], row["test_text"]) == ("5", "PTB, sentences")


def test_an_average_costs_what_its_members_cost():
    single, average = (next(one for one in lines() if one.model == name) for name in
                       ("SN-PCFG with end bias", "SN-PCFG, five seeds averaged"))  # fmt: skip
    assert average.parameters == 5 * single.parameters
    assert average.minutes == pytest.approx(5 * single.minutes)
    assert (average.seeds, average.averaged, average.f1_std) == (5, True, None)


def test_f1_and_perplexity_of_a_row_are_of_the_same_seeds():
    """Seed 1 of this PRPN was trained, and its trees were not scored."""
    scored = {run.seed for run in stored_runs("converged") if (run.what, run.run) == ("trees", "prpn")}
    trained = [run for run in stored_runs("converged") if (run.what, run.run) == ("training", "prpn")]
    values = [run.report["test"]["perplexity"] for run in trained if run.seed in scored]
    assert len(values) < len(trained)
    (line,) = (one for one in lines() if (one.model, one.decoder) == ("PRPN, 12 epochs", "biased"))
    assert line.perplexity == pytest.approx(sum(values) / len(values))
    assert line.seeds == len(values)


def test_the_table_has_a_row_for_each_model_of_the_file_with_all_its_decoders():
    shown = {}
    for line in leaderboard().splitlines()[2:]:
        model, f1, decoders, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        assert model not in shown
        numbers = [float(number.split("±")[0]) for number in f1.split(" / ")]
        shown[model] = list(zip([decoder.strip("`") for decoder in decoders.split(" / ")], numbers, strict=True))
    for row in rows():
        assert (row["decoder"], pytest.approx(100 * float(row["f1"]), abs=0.06)) in shown[row["model"]]
    assert sum(map(len, shown.values())) == len(rows())
