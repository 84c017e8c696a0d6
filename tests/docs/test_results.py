"""Every figure in README and in the tables of the results comes from a stored result file."""

from __future__ import annotations

import re

import pytest
from laboratory.pages.parts import without_parts
from laboratory.pages.results import BLOCKS, PAGES, generated, without_results
from laboratory.pages.specified import specified_table
from laboratory.pages.stored_results import (
    Figure,
    all_parsed,
    parsed,
    trained,
    trained_of,
    trees,
)
from laboratory.results.store import RESULTS, select

from tests.docs.examples import ROOT

README = ROOT / "README.md"
NOTEBOOK = (ROOT / "docs" / "notebook.md").read_text(encoding="utf-8")

# Every number in README's text, outside its generated tables, code, links and plot, and what it is.
NUMBERS = {
    "3.11": "the oldest version of Python that is supported: pyproject.toml",
    "98": "percent of the WSJ sample's sentences that are in the training text: docs/notebook.md",
    "3,901": "sentences of the WSJ sample: the stored reports",
    "40": "minutes, more than the longest training of the table took: the stored reports",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_stored_results(page):
    text = page.read_text(encoding="utf-8")
    assert generated(page) == text, "run python -m laboratory.pages.results"
    assert text.count("<!-- results: ") == text.count("<!-- end of results -->") > 0


def test_every_table_is_on_a_page():
    shown = {
        name for page in PAGES for name in re.findall(r"<!-- results: (\S+) -->", page.read_text(encoding="utf-8"))
    }
    assert shown == set(BLOCKS)


def test_every_number_in_the_text_of_readme_is_accounted_for():
    text = without_results(README.read_text(encoding="utf-8"))
    for known in ("```.*?```", "`[^`]*`", r"\[\d{4}(?=\])", r"\]\([^)]*\)"):  # code, years of papers, links
        text = re.sub(known, "", text, flags=re.DOTALL)
    text = text.replace("F1", "")
    numbers = set(re.findall(r"(?<![A-Za-z])\d+(?:[.,]\d+)*", text))
    assert numbers == set(NUMBERS), "each needs a stored figure, and what is not there any more no entry"
    assert "98%" in NOTEBOOK
    assert f"{trees('simple-pcfg-ptb', 'WSJ sample', 'mbr').sentences:,}" == "3,901"
    names = {path.stem for path in RESULTS.glob("*-ptb*.jsonl")} - {"holographic-pcfg-ptb"}  # it is not in README
    trainings = [run for name in names for run in select(name, what="training", run="")]
    others = *select("converged", what="training"), *select("palm-gum", what="training", run="palm-s")
    longest = max(run.report["seconds"] for run in (*trainings, *others))
    assert 30 * 60 < longest <= 40 * 60


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


def test_every_f1_has_decoder_protocol_seeds_and_right_branching():
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in specified_table("overview").splitlines()
    ]
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        if cells["F1"]:
            assert cells["decoder"].strip("`") in {"mbr", "biased", "unbiased", "greedy-sum", "greedy-right"}
            assert "`wsj-test`" in cells["treebank (sentences), protocol"]
            assert cells["seeds"]
            assert cells["right branching"]
        if cells["test perplexity"]:
            assert cells["LSTM baseline"]


def test_seeds_of_one_run_are_read_together(store):
    def scored(name, seed, f1, data="wsj"):
        store("some", "trees", name, seed, data, f1=f1, protocol="wsj-test", preprocessing="ptb-keep")

    for name, seed, f1 in (("", 2, 0.4), ("", 10, 0.6), ("average-without-seed-2", None, 0.7), ("focused", 1, 0.8)):
        scored(name, seed, f1)
    scored("", 1, 0.1, "wsj-second-half")
    runs = {runs.name: runs for runs in all_parsed("some", "wsj")}
    assert set(runs) == {"", "average-without-seed-2", "focused"}
    assert runs[""].seeds == [2, 10]
    assert runs[""].f1.mean == pytest.approx(0.5)
    assert parsed("some", "wsj", "average-without-seed-2").seeds == []
    scored("focused", 1, 0.9)
    with pytest.raises(ValueError, match="a second run 'focused' with the seed 1"):
        all_parsed("some", "wsj")


def test_of_a_run_that_was_evaluated_by_two_decoders_each_report_is_found(store):
    for decoder, f1 in (("biased", 0.4), ("unbiased", 0.3)):
        store("some", "trees", "prpn", 1, "wsj", f1=f1, protocol="wsj-test", decoder=decoder)
    assert parsed("some", "wsj", "prpn", "unbiased").f1.mean == 0.3
    with pytest.raises(ValueError, match="a second run"):
        parsed("some", "wsj", "prpn")
    with pytest.raises(KeyError, match="nothing is stored of the run 'lstm'"):
        trained("some", "lstm")


def test_a_perplexity_of_scored_models_is_that_of_all_their_seeds(store):
    for seed in (1, 2, 3):
        store("some", "trees", "", seed, "wsj", f1=0.4, protocol="wsj-test", decoder="mbr")
    for seed in (2, 3, 4):
        store("some", "training", "", seed, test={"perplexity": 100.0})
    scored = parsed("some", "wsj")
    with pytest.raises(KeyError):
        trained_of(scored, "some")
    store("some", "training", "", 1, test={"perplexity": 130.0})
    assert trained_of(scored, "some").perplexity("test").values == (130.0, 100.0, 100.0)


def test_a_figure_of_one_seed_has_no_standard_deviation():
    assert Figure.of([1.0]).std is None
    assert Figure.of([1.0, 3.0]) == Figure(2.0, 2**0.5, (1.0, 3.0))


TESTED_THEMSELVES = {
    "attraction.md", "english-text.md", "first-ten-minutes.md", "grammar-induction.md", "reading-times-to-lme4.md",
    "stimuli.md",
}  # fmt: skip
# Decimal numbers in the text of pages that are no measurements.
NOT_MEASURED = {
    **dict.fromkeys(("3.10", "3.11", "3.12", "3.13", "3.14"), "a version of Python"),
    "0.47": "an example of a distance", "0.46": "an example of a distance",
    "9.8": "counted: the binary trees that the biased decoder reaches", "0.75": "an example of a setting",
    "3.7": "counted: million words of the English training text",
    "0.7": "counted: million words of the Icelandic training text", "0.035": "a default, the range of initial weights",
    "0.0003": "a published learning rate",
    "1.2623": "in the output above it on the page", "1.2649": "KenLM's discount of the same counts",
}  # fmt: skip


def test_every_figure_in_the_text_of_a_page_is_in_the_notebook_or_a_table():
    shown = (ROOT / "docs" / "results.md").read_text(encoding="utf-8") + NOTEBOOK
    known = {*re.findall(r"\d+\.\d+", shown), *NOT_MEASURED}
    docs = ROOT / "docs"
    folders = ("tutorials", "guides", "explanation", "models", "reference")
    for page in [docs / "index.md", *(page for folder in folders for page in (docs / folder).glob("*.md"))]:
        # Tests of their own compare the figures of these pages.
        if page.name in TESTED_THEMSELVES:
            continue
        text = without_parts(without_results(page.read_text(encoding="utf-8")))
        text = re.sub(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]*\$|\]\([^)]*\)", "", text, flags=re.DOTALL)
        assert set(re.findall(r"(?<![\w.])\d+\.\d+(?![.\d])", text)) <= known, page
