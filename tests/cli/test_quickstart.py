"""The quickstart's report; its command is tested in cli/test_commands.py."""

from __future__ import annotations

import json

import pytest

from syntaxlm.cli import quickstart
from syntaxlm.cli.quickstart import Quickstart, run_quickstart
from syntaxlm.core.yaml_files import yaml_text
from tests.training.runs import tree_data as data_of


@pytest.fixture
def quick(toy, trained, tmp_path, monkeypatch):
    """Runs the quickstart of a tiny model on a tiny corpus, after a parse by another tiny model."""

    def quick(model: str) -> Quickstart:
        path = tmp_path / f"{model}-toy.yaml"
        if model == "tree-rnn":
            data = data_of(toy, schedule={"epochs": 1})
        else:
            data = toy.recipe_data(model, schedule={"epochs": 1})
        path.write_text(yaml_text(data))
        monkeypatch.setattr(quickstart, "find_recipe", lambda name: tmp_path / f"{name}.yaml")
        monkeypatch.setattr(quickstart, "FIRST_MODEL", trained.prpn)
        monkeypatch.setattr(quickstart, "SENTENCES", 150)
        return run_quickstart(tmp_path / "quick", model, say=lambda line: None)

    return quick


def test_the_quickstart_ends_with_a_report_of_its_results(quick, tmp_path):
    result = quick("prpn")
    assert result.report == tmp_path / "quick" / "report.html"
    assert str(result).endswith(f"Report: {result.report}")
    assert result.to_dict()["report"] == str(result.report)
    json.dumps(result.to_dict())
    page = result.report.read_text(encoding="utf-8")
    assert f"{result.training.test.perplexity:,.2f}" in page
    assert f"The lowest possible perplexity on the test text is {result.floor:.2f}" in page
    assert "unbiased (chosen)" in page
    assert f"{100 * result.parsing.scores['unbiased'].f1:.1f}" in page
    assert 'class="missing"' not in page


def test_a_dependency_tree_model_is_trained_on_trees_and_has_no_lowest_perplexity(quick):
    result = quick("tree-rnn")
    assert result.parsing is None
    assert result.floor is None
    assert result.training.test.given_trees
    assert f"Test perplexity {result.training.test.perplexity:.1f} of words given their trees" in str(result)
    page = result.report.read_text(encoding="utf-8")
    assert "of type tree-rnn, gives neither distances nor span scores" in page
    assert f"{result.training.test.perplexity:,.2f}" in page
    assert "lowest possible perplexity" not in page
    assert "ends of sentences count as tokens" not in page
    assert str(result).endswith(f"Report: {result.report}")
    json.dumps(result.to_dict())


def test_an_interrupted_quickstart_has_no_report(quick, monkeypatch):
    def stopped(recipe, folder, callback):
        return quickstart.TrainingResult(folder, 3, 0.1, 1.0, stopped=True)

    monkeypatch.setattr(quickstart, "train", stopped)
    result = quick("prpn")
    assert result.report is None
    assert result.to_dict()["report"] is None
    assert "Report" not in str(result)
