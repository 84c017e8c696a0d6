"""The site is built without a warning, and needs nothing from a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from laboratory.pages.commands import all_commands, page_name
from laboratory.pages.recipes import all_recipes
from laboratory.pages.settings import all_settings

from tests.docs.examples import ROOT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_command_setting_and_recipe_is_on_a_page(site):
    pages = {str(path.relative_to(site)): read(path) for path in site.rglob("*.html")}
    for command in all_commands():
        assert '<h2 id="options">' in pages["commands/" + page_name(command).replace(".md", ".html")]
    everything = "".join(pages.values())
    assert all(f"<code>{one.name}</code>" in everything for one in all_settings())
    assert all(f"<code>{path.stem}</code>" in pages["reference/recipes.html"] for path in all_recipes())


def test_no_mark_of_a_generated_part_and_no_raw_formula_is_left(site):
    for path in site.rglob("*.html"):
        text = re.sub(r"<code.*?</code>", "", read(path), flags=re.DOTALL)
        assert "<!-- generated:" not in text
        assert "arithmatex" not in text
    assert read(site / "models" / "prpn.html").count("<math ") > 30


def test_pages_load_nothing_from_elsewhere(site):
    loads = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc="?(https?:)?//|<link[^>]*href="?https?://""")
    for path in site.rglob("*.html"):
        assert not loads.search(read(path)), path
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(.?https?://", read(path)), path
