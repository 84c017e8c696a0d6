"""The check of wording finds what the glossary says to avoid, in pages, help and messages, and nothing else."""

from __future__ import annotations

import re

import pytest
from laboratory.pages.language import (
    GLOSSARY_PAGE,
    Allowed,
    Text,
    avoided,
    glossary,
    glossary_page,
    help_texts,
    messages,
    page_text,
    violations,
)
from laboratory.pages.parts import without_parts
from laboratory.pages.results import PAGES, without_results

from syntaxlm.cli.command import Group
from tests.docs.examples import ROOT

MODEL_PAGES = sorted((ROOT / "docs" / "models").glob("*.md"))


def found(text: str) -> list[str]:
    return [one.found for one in violations([Text("here", 1, text)], avoided())]


@pytest.mark.parametrize(
    "text",
    [
        "The user is told which.", "The report says so.", "A model of trees.", "Seed 2 less seed 1.",
        "The clean-up rule.",
        "Training goes on.", "A sentence with its begin.", "The mean deviation is 2.", "percent right",
        "The right answer.",
        "A misspelt key.", "The gate stands beside it.", "It is no number.", "One row a word.",
        "Models of as many weights.",
        "GUM's gold trees.", "5 s on the clock.", "The text where trees part.", "clean-up\nptb-keep",
    ],
)  # fmt: skip
def test_wording_to_avoid_is_found(text):
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        "Right branching is the baseline; the right child, the part on the right.", "It takes less time than an LSTM.",
        "There are no trees in it.", "Both are kinds of recurrent networks.", "The standard deviation over seeds.",
        "It stands for the end.", "Training stops after an epoch.", "A part of the text, parts of words.",
        "begin with this",
        "The activation function.", "unless it fits", "GUM's gold dependency trees.", "the company said it expects",
    ],
)  # fmt: skip
def test_standard_wording_is_not(text):
    assert not found(text)


def test_code_links_and_formulas_of_a_page_are_not_read_and_lines_are_counted():
    page = "# Title\n`--clean-up` and [that](clean-up.md)\n```sh\nsyntaxlm --clean-up\n```\n$clean-up$\nthe clean-up\n"
    (one,) = violations([page_text(page, "docs/page.md")], avoided())
    assert (one.place, one.line, one.found) == ("docs/page.md", 7, "clean-up")


def test_help_of_all_commands_below_is_read():
    def inner(clean_up: bool = False) -> None:
        """Tidy.

        The clean-up of trees.

        clean_up: the clean-up; see `--clean-up`
        """

    texts = list(help_texts({"tool": Group("Tidy.", "tool inner", {"inner": inner})}))
    assert [one.place for one in violations(texts, avoided())] == ["syntaxlm tool inner --help"] * 2


def test_messages_are_read_and_docstrings_and_short_strings_are_not():
    source = '''
def read(path, number):
    """The clean-up of a treebank, as told."""
    kind = "clean-up"
    raise InputError(f"{path}: the clean-up drops {number} words. " "You were told")
'''
    found_in = {one.found for one in violations(messages(source, "src/module.py"), avoided())}
    assert found_in == {"clean-up", "told"}
    assert all(one.line == 5 for one in violations(messages(source, "src/module.py"), avoided()))


def test_an_exception_is_of_a_place_and_a_text():
    (one,) = violations([Text("docs/a.md", 3, "the clean-up rule")], avoided())
    assert Allowed("docs/*", "clean-up", "a name").allows(one)
    assert Allowed("docs/a.md", "up rule", "a name").allows(one)
    assert not Allowed("docs/b.md", "clean-up", "a name").allows(one)
    assert not Allowed("docs/*", "other", "a name").allows(one)


def test_the_glossary_is_that_of_its_file():
    assert GLOSSARY_PAGE.read_text(encoding="utf-8") == glossary_page()
    assert {"decoder", "protocol", "surprisal", "span marginal", "seed", "preprocessing"} <= set(glossary()["terms"])
    assert GLOSSARY_PAGE not in PAGES


# Abbreviations that need no explanation here: file formats, computing, licences, placeholders; names of programs; what
# the only page that uses it explains.
COMMON = {
    "API", "BY", "CC", "CITATION", "CPU", "CSV", "CUDA", "GPU", "HTML", "JSON", "LICENSE", "MB", "MIT", "PNG", "README",
    "PDF", "ROOT", "SIGTERM", "SVG", "TEXT", "TSV", "UTF-8", "XML", "YAML",
    "BabyLM", "CoreNLP", "DuckDB", "EVALB", "IRSTLM", "KenLM", "MSTParser", "NEGRA", "PCIbex", "SRILM", "macOS",
    "oneDNN",
    "LEFT", "REDUCE", "RIGHT", "SHIFT", "SN", "TN",
    "CNN", "HF-MRNN", "LDA", "LDepNgram", "LSA", "RNNME", "SCRNN", "UDepNgram",  # only quoted
}  # fmt: skip
_ABBREVIATION = re.compile(r"(?<![\w-])(?:[A-Z]\w*-)*\w*[A-Z]{2,}\w*(?:-[A-Za-z0-9]+)*(?![\w-])")
_PAPERS = (f"docs/papers/{path.name}" for path in (ROOT / "docs" / "papers").glob("*.md"))
_MODELS = (f"docs/models/{path.name}" for path in MODEL_PAGES)
_WHOLE = ["README.md", "docs/results.md", "docs/papers.md", *_PAPERS, *_MODELS]


def test_the_glossary_has_every_abbreviation_of_readme_models_and_results_and_those_that_two_pages_use():
    """Generated parts count in README and the pages of models and results. A part of a name is enough: SN-PCFG."""
    pages: dict[str, set[str]] = {}
    for path in {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {GLOSSARY_PAGE, ROOT / "docs" / "notebook.md"}:
        name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        text = text if name in _WHOLE else without_results(without_parts(text))
        for found in _ABBREVIATION.findall(page_text(text, path.name).text):
            pages.setdefault(re.sub("(?<=[A-Z])s$", "", found), set()).add(name)
    known = {*re.findall(r"[\w-]+", " ".join(glossary()["terms"])), *COMMON}
    used = {name for name, places in pages.items() if len(places) > 1 or places & set(_WHOLE)}
    assert {name for name in used - known if known.isdisjoint(name.split("-"))} == set()
