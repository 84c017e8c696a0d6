"""Sentences with numbers in the results and in pages that quote them, against the stored results."""

from __future__ import annotations

import re

import pytest
from laboratory.pages.results import without_results
from laboratory.pages.seeds import agreement, decoder_gain
from laboratory.pages.stored_results import parsed, trained
from laboratory.results.store import stored_report

from syntaxlm.trees.decoding import DECODING_RULES, HEAD_RULES, SPAN_RULES
from tests.docs.examples import ROOT

TEXT = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())


def page(name):
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def minutes_between(experiment, run=""):
    minutes = [report["seconds"] / 60 for report in trained(experiment, run).reports.values()]
    return f"{min(minutes):.0f} to {max(minutes):.0f}"


@pytest.mark.parametrize("folder", ["prpn-ptb-parsing", "on-lstm-ptb-words-small"])
def test_training_minutes_in_the_text_are_those_of_the_reports(folder):
    assert re.search(rf"`{folder}` in {minutes_between(folder)}\b", TEXT)


@pytest.mark.parametrize(
    ("row", "experiment", "run"),
    [
        ("`simple-pcfg-ptb` with 128 nonterminals and 8 epochs", "simple-pcfg-ptb-128", "single"),
        ("`simple-pcfg-ptb`", "simple-pcfg-ptb", ""),
        ("`on-lstm-ptb-words-small --schedule.epochs 5`", "on-lstm-ptb-words-small", ""),
        ("`prpn-ptb-parsing`", "prpn-ptb-parsing", "resolution-0.1"),
    ],
)
def test_minutes_of_the_guide_to_models_are_those_of_the_reports(row, experiment, run):
    assert f"| {row} | {minutes_between(experiment, run)} minutes |" in page("guides/choose-a-model.md")


def test_minutes_of_the_released_parsing_settings_are_those_of_the_reports():
    between = minutes_between("prpn-ptb-parsing", "resolution-0.1")
    assert f"trains the same model in {between} minutes on one shared core" in page("models/prpn.md")
    recipe = (ROOT / "recipes" / "prpn-ptb-parsing.yaml").read_text(encoding="utf-8")
    assert f"trained for {between} minutes on one shared core" in recipe
    assert f'purpose: "PRPN; {between} minutes"' in recipe


def test_layer_2_is_the_best_of_all_seeds_but_one():
    best = [
        max(report["f1_by_layer"], key=lambda layer: report["f1_by_layer"][layer]["biased"])
        for report in parsed("on-lstm-ptb-words-small", "wsj").reports.values()
    ]
    assert sorted(best) == ["2", "2", "2", "2", "3"]
    assert "layer 3 was best for one of five seeds" in TEXT
    assert best[2] == "3"
    assert "In seed 3, layer 3 is the best" in page("papers/on-lstm.md")


def test_the_gain_of_the_biased_decoder_is_larger_for_trained_models():
    gains = re.findall(r"\| (-?\d+\.\d) \| (-?\d+\.\d) \|$", decoder_gain(), flags=re.MULTILINE)
    assert len(gains) >= 2
    assert all(float(of_trained) > 2 * float(of_untrained) for of_trained, of_untrained in gains)


def test_the_outlier_is_the_seed_that_agrees_least_with_the_best_perplexity_and_the_worst_trees():
    (of_first_seeds,) = (line for line in agreement().splitlines() if "one residual block" in line)
    assert of_first_seeds.endswith("| seed 5 |")
    trainings, scored = trained("prpn-ptb-parsing").reports, parsed("prpn-ptb-parsing", "wsj").reports
    assert min(trainings, key=lambda seed: trainings[seed]["valid"]["perplexity"]) == 5
    assert min(scored, key=lambda seed: scored[seed]["f1"]) == 5
    assert "With one residual block, PRPN's seed 5 has the lowest perplexity and the worst trees" in TEXT


def test_p_values_in_the_text_are_those_of_the_tests():
    def p_value(first, second):
        return stored_report("significance", first=first, second=second)["difference"]["p_value"]

    assert f"(p = {p_value('ON-LSTM, biased', 'PRPN, biased'):.2f})" in page("papers/on-lstm.md")
    assert p_value("ON-LSTM, biased", "right branching") < 0.001
    assert p_value("PRPN, biased", "right branching") > 0.05


def test_token_counts_and_words_of_reading_times_are_those_of_the_reports():
    stream, sentences = (trained(name).first["test"]["tokens"] for name in
                         ("on-lstm-ptb-words-small", "prpn-ptb-parsing"))  # fmt: skip
    assert f"({stream:,} tokens)" in TEXT
    assert f"({sentences:,} tokens)" in TEXT
    assert "measured on the same 8,753 words" in TEXT
    assert stored_report("reading-times")["words"]["analysed"] == 8753


def test_the_speed_of_shared_noise_on_the_page_of_tree_rnn_is_that_of_the_benchmark():
    rows = stored_report("speed", run="tree_rnn")["rows"]
    speed = {(row["case"], row["form"]): row["tokens_per_second"] for row in rows}
    ratios = [
        speed[case, "nce, shared noise"] / speed[case, "nce, fresh noise"] for case in {case for case, _ in speed}
    ]
    assert f"{min(ratios):.1f} to {max(ratios):.1f} times as fast" in page("models/tree-rnn.md")


def test_every_decoder_is_in_the_list_and_explained():
    text = page("explanation/trees.md")
    for decoder in (*DECODING_RULES, *SPAN_RULES, *HEAD_RULES, "mbr", "viterbi"):
        assert f"`{decoder}`" in text
        assert f"- **{decoder}**" in text


def test_published_values_of_dmv_are_the_same_on_all_pages():
    for name in ("papers/compared-systems.md", "models/dmv.md"):
        assert "62.7" in page(name)
        assert not re.search(r"\| (undirected|43\.2) \| 63\.7 \|", page(name))


def test_decimal_numbers_in_the_text_of_the_results_are_in_its_tables_or_in_a_stored_file():
    page_text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    written = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", without_results(page_text), flags=re.DOTALL)
    tables = "".join(re.findall(r"<!-- results: .*?<!-- end of results -->", page_text, flags=re.DOTALL))
    known = {
        "0.1": "the released resolution of PRPN", "0.5": "a resolution of PRPN",
        "19.0": "PaLM without the softmax: docs/notebook.md",
        f"{trained('kn5', 'ptb-words-dropped').perplexity('test').mean:.1f}": "5-grams, without $ and #",
    }  # fmt: skip
    assert set(re.findall(r"\d+\.\d+", written)) <= {*re.findall(r"\d+\.\d+", tables)} | known.keys()


def test_the_null_grammars_that_find_a_construction_are_those_in_the_text():
    """Below a millionth of a bit, a difference is a rounding error."""
    rows = stored_report("belief-updates", data="garden-path-constructions")["differences"]
    found = {
        (row["grammar"], row["seed"], row["construction"])
        for row in rows
        if row["measure"] == "belief_update" and row["difference"]["low"] > 0 and row["difference"]["value"] > 1e-6
    }
    assert found == {("right branching", None, "mvrr"), ("words exchanged", 3, "npz")}
    text = "Right branching finds MV/RR, and one of the three exchanges of words finds NP/Z"
    assert text in page("explanation/belief-updates.md")
