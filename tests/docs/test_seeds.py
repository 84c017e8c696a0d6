"""The tables of single seeds."""

from __future__ import annotations

import pytest
from laboratory.pages.seeds import Seeds


@pytest.fixture
def results(store):
    for experiment, first in (("parser", 100.0), ("lstm", 90.0)):
        for seed in (1, 2):
            texts = {"valid": {"perplexity": first + seed}, "test": {"perplexity": first + 10 * seed}}
            store(experiment, "training", "", seed, **texts)
    for seed, biased, unbiased in ((1, 0.5, 0.3), (2, 0.4, 0.2)):
        f1 = {"biased": biased, "unbiased": unbiased}
        store("parser", "trees", "", seed, "wsj", f1_by_decoder=f1, baselines={"right": 0.397}, protocol="wsj-test")
    return store


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_each_seed_has_a_row_and_each_model_a_mean(results):
    table = Seeds([("A parser", "parser"), ("LSTM", "lstm")], ("biased", "unbiased"), [("wsj", "WSJ")])
    head, _, *rows = cells(table.markdown())
    assert head == ["model", "seed", "WSJ, `biased`", "WSJ, `unbiased`", "validation perplexity", "test perplexity"]
    assert rows == [
        ["A parser", "1", "50.0", "30.0", "101.0", "110.0"],
        ["A parser", "2", "40.0", "20.0", "102.0", "120.0"],
        ["A parser, mean", "", "45.0 ± 7.1", "25.0 ± 7.1", "101.5 ± 0.7", "115 ± 7"],
        ["LSTM", "1", "", "", "91.0", "100.0"],
        ["LSTM", "2", "", "", "92.0", "110.0"],
        ["LSTM, mean", "", "", "", "91.5 ± 0.7", "105 ± 7"],
        ["right branching", "", "39.7", "39.7", "", ""],
    ]


def test_averaged_trees_have_a_row_where_they_are_stored(results):
    facts = {"averaged_models": 2, "protocol": "wsj-test"}
    results("parser", "trees", "averaged-trees", None, "wsj", f1_by_decoder={"biased": 0.6}, **facts)
    rows = cells(Seeds([("A parser", "parser")], ("biased", "unbiased"), [("wsj", "WSJ")]).markdown())
    assert ["A parser, trees averaged", "", "60.0", "", "", ""] in rows


def test_a_seed_without_its_report_of_trees_is_an_error(results):
    results("parser", "training", "", 3, valid={"perplexity": 1.0}, test={"perplexity": 1.0})
    with pytest.raises(KeyError, match="3"):
        Seeds([("A parser", "parser")], ("biased",), [("wsj", "WSJ")]).markdown()
