"""What pages have from the code is what the code gives today."""

from __future__ import annotations

import doctest
import re

import pytest
from laboratory.pages import dependencies, zoo
from laboratory.pages.parts import DOCS, OF_THIS_ENVIRONMENT, PARTS, pages, with_parts, without_marks, without_parts

import syntaxlm
from syntaxlm.api.listings import list_models
from tests.docs.examples import ROOT

MARKS = re.compile(r"^<!-- generated: (\S+)", re.MULTILINE)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_parts_of_a_page_are_those_that_the_code_gives(page):
    text = page.read_text(encoding="utf-8")
    assert with_parts(text, leave=OF_THIS_ENVIRONMENT) == text, "run python -m laboratory.pages"
    assert len(MARKS.findall(text)) == len(re.findall("^<!-- end of generated -->$", text, re.MULTILINE)) > 0
    assert all(made.strip() for made in re.findall(r"^<!-- generated: [^>]+ -->\n(.*?)^<!-- end", text, re.M | re.S))


def test_every_part_is_on_a_page():
    assert {name for page in pages() for name in MARKS.findall(page.read_text(encoding="utf-8"))} == set(PARTS)


def test_every_declared_dependency_is_on_its_page_with_version_and_licence():
    page = (DOCS / "reference" / "requirements.md").read_text(encoding="utf-8")
    assert dependencies.UNKNOWN not in page
    for one in dependencies.declared():
        assert re.search(rf"^\| {re.escape(one.name)} \|.* \S+ \|$", page, re.MULTILINE), one.name
        if one.part not in ("docs", "test"):
            assert re.search(rf"^\| {re.escape(one.name)} \| .* \| {one.lowest or ''} \|", page, re.MULTILINE), one


def test_a_stale_part_is_seen_and_an_unknown_one_is_an_error():
    stale = "a\n<!-- generated: protocols -->\nold\n<!-- end of generated -->\nb\n"
    assert "| `wsj-test` |" in with_parts(stale)
    assert with_parts(stale, leave={"protocols"}) == stale
    assert without_parts(stale) == "a\n\nb\n"
    assert without_marks(stale) == "a\nold\nb\n"
    with pytest.raises(ValueError, match="no such part"):
        with_parts(stale.replace("protocols", "protocol"))


def test_every_public_name_and_every_method_is_in_the_python_reference():
    page = (DOCS / "reference" / "python" / "index.md").read_text(encoding="utf-8")
    assert all(f"### `syntaxlm.{name}`\n" in page for name in syntaxlm.__all__)
    methods = [name for name, found in vars(syntaxlm.LanguageModel).items() if name[0] != "_" and callable(found)]
    assert "parse" in methods
    assert all(f"### `LanguageModel.{name}`\n" in page or f"| `{name}` |" in page for name in methods)
    (by_hand,) = re.findall(r"```pycon\n(.*?)```", without_parts(page), re.DOTALL)  # tests/api runs those of docstrings
    examples = doctest.DocTestParser().get_doctest(by_hand, {"syntaxlm": syntaxlm}, "PROTOCOLS", None, None)
    assert doctest.DocTestRunner().run(examples) == (0, 1)


def test_the_model_zoo_agrees_with_models_list():
    rows = {row[0].strip("`"): row for row in map(cells, zoo.bundled_models().splitlines()[2:])}
    listed = {one["folder"]: one for one in list_models(None).rows if one["folder"] in rows}
    assert listed.keys() == rows.keys()
    for name, one in listed.items():
        assert rows[name][1] == one["model_type"]
        assert rows[name][4] == one["licence"].upper()
        assert rows[name][5] == f"{one['parameters']:,}"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
