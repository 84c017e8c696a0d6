"""The small programs that make pages of the code."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field

import pytest
from laboratory.pages import dependencies
from laboratory.pages.markdown import as_markdown, plain, table
from laboratory.pages.notebook import notebook_page
from laboratory.pages.settings import settings_of
from laboratory.pages.settings import settings_table as table_of

from tests.docs.examples import ROOT


@dataclass(frozen=True)
class Inner:
    """Settings.

    Attributes:
        many: of | and <unk>
    """

    many: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    """Settings.

    Attributes:
        must: what it is
    """

    must: str
    inner: Inner = field(default_factory=Inner)
    mute: int | None = None


def test_settings_come_with_their_docstrings_in_their_order():
    settings = list(settings_of(Outer, "outer."))
    assert [(one.name, one.takes, one.default) for one in settings] == [
        ("outer.must", "text", "required"),
        ("outer.inner.many", "list of texts", "`[]`"),
        ("outer.mute", "whole number or `null`", "`null`"),
    ]
    assert [one.meaning for one in settings] == ["what it is", "of | and <unk>", ""]
    assert table_of(settings).splitlines()[3].endswith("| of &#124; and &lt;unk> |")


def test_plain_text_keeps_its_characters_and_its_code():
    assert plain("P* of `a*b` <s> $5") == "P&#42; of `a*b` &lt;s> &#36;5"
    assert table(["a"], [["b\nc"]]) == "| a |\n| --- |\n| b c |\n"


def test_a_notebook_becomes_text_code_and_what_it_printed(tmp_path):
    def cell(kind: str, source: str, **more: object) -> dict[str, object]:
        return {"cell_type": kind, "source": [source], **more}

    printed = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
    path = tmp_path / "small.ipynb"
    cells = [cell("markdown", "# Title"), cell("code", "print(1)", outputs=[printed])]
    path.write_text(json.dumps({"cells": cells}))
    page = notebook_page(path)
    assert page.startswith("# Title\n\nThis page is a notebook: [small.ipynb](small.ipynb).")
    assert page.endswith("```python\nprint(1)\n```\n\n```text\n1\n```\n")
    error = {"output_type": "error", "ename": "ValueError"}
    path.write_text(json.dumps({"cells": [cells[0], cell("code", "1/0", outputs=[error])]}))
    with pytest.raises(ValueError, match="notebook output 'error' cannot be shown on a page"):
        notebook_page(path)


def test_formulas_become_mathml_and_a_wrong_one_is_told():
    mathematics = pytest.importorskip("laboratory.pages.mathematics", reason="needs the extra docs")
    page = '<p><span class="arithmatex">\\(d_t &lt; 1\\)</span></p><div class="arithmatex">\\[\\sum_i s_i\\]</div>'
    made = mathematics.with_mathml(page)
    assert made.count("<math ") == made.count("</math>") == 2
    assert 'alttext="d_t &lt; 1"' in made
    assert 'display="block"' in made
    assert "arithmatex" not in made
    numbered = mathematics.with_mathml('<div class="arithmatex">\\[x = 1 \\tag{7}\\]</div>')
    assert '<span class="number">(7)</span>' in numbered
    for wrong in ("x_1_2", "\\nosuch x"):
        with pytest.raises(ValueError, match="MathML"):
            mathematics.with_mathml(f'<span class="arithmatex">\\({wrong}\\)</span>')


def test_every_formula_of_the_pages_becomes_mathml():
    mathematics = pytest.importorskip("laboratory.pages.mathematics", reason="needs the extra docs")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for block, inline in re.findall(r"\$\$(.+?)\$\$|(?<![\w$])\$(?! )([^$\n]+?)(?<! )\$(?![\w$])", text, re.DOTALL):
            mathematics.with_mathml(f'<span class="arithmatex">\\({block or inline}\\)</span>')


def test_docstrings_become_markdown():
    text = "What it is.\n\nArgs:\n    tokens: (T, B) <unk>\n        and more\n    **masks: (B,)\n\n"
    text += "Raises:\n    InputError: if so.\n\nExamples:\n    >>> 1 < 2\n    True"
    assert as_markdown(text).split("\n") == [
        "What it is.",
        "",
        "- `tokens`: (T, B) &lt;unk>",
        "    and more",
        "- `**masks`: (B,)",
        "",
        "Raises:",
        "",
        "- `InputError`: if so.",
        "",
        "```pycon",
        ">>> 1 < 2",
        "True",
        "```",
    ]


def test_every_dependency_is_listed_with_its_lowest_version_and_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shown = dependencies.dependency_table()
    for one in project["dependencies"]:
        name, _, lowest = one.partition(";")[0].partition(">=")
        assert re.search(rf"^\| {name} \| always \| {lowest} \| \S", shown, re.MULTILINE)
        assert name == "torch" or dependencies.lowest_versions()[name] == lowest
    assert "torch" not in dependencies.lowest_versions()
    assert "| ray | `ray` |" in shown
    assert "not installed here" not in shown
    inner = dependencies.inner_dependency_table()
    assert "| pydantic-core | MIT |" in inner
    assert "| numpy |" not in inner
    assert "| pytest | MIT |" in dependencies.developer_table()
