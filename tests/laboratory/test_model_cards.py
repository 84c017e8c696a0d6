"""The cards of the bundled models, which the experiment `shipped` fills in."""

from __future__ import annotations

import pytest
from laboratory.pages.stored_results import parsed
from laboratory.shipping.model_cards import tree_results

from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.storage.bundled import bundled_folder


@pytest.mark.parametrize("model", ["en", "en-fast", "is"])
def test_each_score_of_a_card_names_the_preprocessing_of_its_report(model):
    shown = {result.dataset.type: result.metrics[0].args["preprocessing"] for result in tree_results(model)}
    assert shown == {name: parsed("shipped", name, model).first["preprocessing"] for name in shown}
    card = bundled_folder(model).joinpath("README.md").read_text("utf-8")
    (index,) = parse_yaml(card.split("---\n")[1], "card")["model-index"]
    stored = {one["dataset"]["type"]: one["metrics"][0]["args"] for one in index["results"]}
    assert shown == {name: stored[name]["preprocessing"] for name in shown}
