"""The page of published figures: every row has an outcome, its recipes exist, and its figures are stored."""

from __future__ import annotations

import re

import pytest
from docs.generation.papers import OUTCOMES, RESULTS, f1_of, long_dependencies, published, shown
from docs.generation.stored_results import earlier

from syntaxlm.training.recipe_files import find_recipe
from tests.docs.examples import slug
from tests.docs.test_results import NOTEBOOK

ROWS = [(paper, row) for paper, one in published()["experiments"].items() for row in one["rows"]]
SECTIONS = {slug(part.splitlines()[0]): part for part in re.split(r"^## ", NOTEBOOK, flags=re.MULTILINE)}


@pytest.mark.parametrize(("paper", "row"), ROWS, ids=[row["item"] for _, row in ROWS])
def test_every_experiment_has_an_outcome_and_recipes_that_exist(paper, row):
    assert row["outcome"] in OUTCOMES
    assert row["why"]
    assert row["ours"] or row["outcome"] == "not reachable here"
    if row["command"].startswith(("syntaxlm train", "syntaxlm compare")):
        names = row["command"].split(" -")[0].split()[2:]
        assert names
        assert all(find_recipe(name) for name in names)


def test_figures_of_the_notebook_are_in_the_section_that_is_named():
    for _, row in ROWS:
        for one in row["ours"]:
            if "notebook" in one:
                numbers = re.findall(r"\d+\.\d+", one["figures"])
                rounded = {f"{float(number):.1f}" for number in re.findall(r"\d+\.\d+", SECTIONS[one["notebook"]])}
                assert {number for number in numbers if number not in SECTIONS[one["notebook"]]} <= rounded, row["item"]


def test_a_stored_figure_is_shown_with_model_decoder_sentences_and_seeds():
    asked = {"treebank": "WSJ sample", "decoder": "greedy-sum", "maximum_words": None}
    text = shown({"earlier": "palm-gum-small", "trees": asked})
    assert text.startswith("PaLM-U 35.2 ± 2.7 (`greedy-sum`, `wsj-test`, 3,901 sentences, ")
    assert text.endswith("3 seeds)")
    with pytest.raises(ValueError, match="no F1 of"):
        f1_of({"earlier": "palm-gum-small", "trees": asked | {"decoder": "mbr"}})
    reports = {"system": "PRPN", "reports": "prpn-ptb-parsing", "ending": "prpn10"}
    assert shown(reports) == "PRPN 65.2 ± 6.9 (`biased`, `prpn`, 555 sentences, 5 seeds)"
    assert shown(reports | {"decoder": "unbiased"}) == "PRPN 53.9 ± 8.4 (`unbiased`, `prpn`, 555 sentences, 5 seeds)"
    assert earlier("kn5-gum-trees").model in shown(
        {"earlier": "kn5-gum-trees", "text": "test", "reading": earlier("kn5-gum-trees").perplexity[0].reading}
    )


def test_the_long_dependencies_have_nine_rows_with_published_figures_beside_ours():
    head, _, *rows = long_dependencies().splitlines()
    assert len(rows) == 9
    assert "ON-LSTM, published" in head
    columns = len(head.split("|"))
    assert all(len(row.split("|")) == columns for row in rows)
    assert (RESULTS / "simple-pcfg-pairs" / "marvin-linzen.json").exists()
