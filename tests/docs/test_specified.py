"""Tables that are specified as YAML."""

from __future__ import annotations

import pytest
from laboratory.pages.specified import render

SPECIFICATION = {
    "columns": [
        {"heading": "model"},
        {"heading": "seed"},
        {"heading": "WSJ, `biased`", "value": "f1", "scored_on": "wsj", "decoder": "biased"},
        {"heading": "WSJ, `unbiased`", "value": "f1", "scored_on": "wsj", "decoder": "unbiased"},
        {"heading": "validation perplexity", "value": "perplexity", "part": "valid"},
        {"heading": "test perplexity", "value": "perplexity", "part": "test"},
    ],
    "lines": [
        {"cells": ["A parser"], "experiment": "parser", "each_seed": True},
        {"cells": ["A parser, mean"], "experiment": "parser"},
        {"cells": ["LSTM"], "experiment": "lstm", "each_seed": True, "without": ["f1"]},
        {"cells": ["LSTM, mean"], "experiment": "lstm", "without": ["f1"]},
        {"cells": ["right"], "experiment": "parser", "only": ["f1"], "instead": {"f1": "right_branching"}},
        {"texts": ["published", "", "47.7", "", "", "56.2"]},
    ],
}


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


def lines(line, **shared):
    """The cells of a table with one line."""
    return cells(render({**SPECIFICATION, **shared, "lines": [line]}))[2:]


def test_each_seed_has_a_line_and_other_lines_are_means_baselines_and_texts(results):
    head, _, *rows = cells(render(SPECIFICATION))
    assert head == ["model", "seed", "WSJ, `biased`", "WSJ, `unbiased`", "validation perplexity", "test perplexity"]
    assert rows == [
        ["A parser", "1", "50.0", "30.0", "101.0", "110.0"],
        ["A parser", "2", "40.0", "20.0", "102.0", "120.0"],
        ["A parser, mean", "", "45.0 ± 7.1", "25.0 ± 7.1", "101.5 ± 0.7", "115 ± 7"],
        ["LSTM", "1", "", "", "91.0", "100.0"],
        ["LSTM", "2", "", "", "92.0", "110.0"],
        ["LSTM, mean", "", "", "", "91.5 ± 0.7", "105 ± 7"],
        ["right", "", "39.7", "39.7", "", ""],
        ["published", "", "47.7", "", "", "56.2"],
    ]


def test_the_report_of_a_line_is_that_of_its_seed(results):
    for seed in (1, 2):
        results("parser", "collapse", "", seed, "wsj", rule_divergence=seed / 10)
    column = {"heading": "", "value": "report", "key": "rule_divergence", "facts": {"what": "collapse"}}
    table = {"experiment": "parser", "columns": [{"heading": "seed"}, column], "lines": [{"each_seed": True}]}
    assert cells(render(table))[2:] == [["1", "0.1"], ["2", "0.2"]]


def test_what_is_not_stored_is_an_error_unless_it_is_optional(results):
    facts = {"averaged_models": 2, "protocol": "wsj-test"}
    results("parser", "trees", "averaged", None, "wsj", f1_by_decoder={"biased": 0.6}, **facts)
    line = {"cells": ["averaged"], "experiment": "parser", "run": "averaged"}
    assert lines({**line, "optional": True}) == [["averaged", "", "60.0", "", "", ""]]
    with pytest.raises(KeyError, match="unbiased"):
        lines(line)
    results("parser", "training", "", 3, valid={"perplexity": 1.0}, test={"perplexity": 1.0})
    with pytest.raises(KeyError, match="3"):
        lines({"experiment": "parser", "each_seed": True})


def test_a_line_whose_run_is_not_stored_is_left_out_if_it_says_so(results):
    columns = [{"heading": "model"}, {"heading": "valid", "value": "perplexity", "part": "valid"}]
    rows = [
        {"cells": [name], "experiment": "parser", "run": run} for name, run in (("A parser", ""), ("other", "missing"))
    ]
    shown = cells(render({"columns": columns, "lines": [{**row, "if_stored": True} for row in rows]}))
    assert [row[0] for row in shown[2:]] == ["A parser"]
    with pytest.raises(KeyError, match="missing"):
        render({"columns": columns, "lines": rows})


def test_a_column_for_each_seed_and_several_decoders_in_one_cell(results):
    by_seed = [{"heading": "model"}, {"each_seed": True, "value": "f1", "scored_on": "wsj"}]
    line = {"cells": ["A parser"], "experiment": "parser", "decoder": ["biased", "unbiased"]}
    assert cells(render({"columns": by_seed, "lines": [line]}))[::2] == [
        ["model", "1", "2"],
        ["A parser", "50.0 / 30.0", "40.0 / 20.0"],
    ]


def test_perplexities_of_other_seeds_are_not_subtracted(store):
    for run, seeds in (("lstm", (1, 2)), ("prpn", (1, 2)), ("on-lstm", (1, 3))):
        for seed in seeds:
            store("converged", "training", run, seed, test={"perplexity": 100.0 + seed + len(run)})
    columns = [{"heading": "difference", "value": "perplexity_difference"}]
    specification = {"experiment": "converged", "part": "test", "columns": columns}
    shown = render({**specification, "lines": [{"run": "prpn", "baseline": "lstm"}]})
    assert cells(shown)[2:] == [["+0.0, +0.0"]]
    with pytest.raises(ValueError, match=r"on-lstm: seeds \[1, 3\]; lstm: seeds \[1, 2\]"):
        render({**specification, "lines": [{"run": "on-lstm", "baseline": "lstm"}]})
