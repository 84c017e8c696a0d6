"""The site is built without a warning, fits desktops and phones, and needs nothing from a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from laboratory.pages.browser import browser, missing
from laboratory.pages.commands import all_commands, page_name
from laboratory.pages.recipes import all_recipes
from laboratory.pages.settings import all_settings, listed_settings

from tests.docs.examples import ROOT

# What is wider than its place on the page, by the beginning of its text.
_WIDE = """() => [...document.querySelectorAll("article table, article pre > code")].filter((one) => {
    const place = one.tagName === "TABLE" ? one.closest(".md-typeset__scrollwrap") ?? one.parentElement : one;
    return one.scrollWidth > place.clientWidth + 1;
}).map((one) => one.textContent.trim().slice(0, 60))"""


@pytest.mark.long
def test_the_site(tmp_path):
    """One test, because the site is built once: in half a minute."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0, result.stdout + result.stderr

    pages = {str(path.relative_to(tmp_path)): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    has_every_command_setting_and_recipe(pages)
    has_no_mark_of_a_generated_part_and_no_raw_formula(pages)
    loads_nothing_from_elsewhere(tmp_path, pages)
    searches_public_names_alone(tmp_path)
    if not missing():
        has_tables_and_programs_that_fit(tmp_path, pages)


def has_every_command_setting_and_recipe(pages: dict[str, str]) -> None:
    for command in all_commands():
        assert '<h2 id="options">' in pages["commands/" + page_name(command).replace(".md", ".html")]
    everything = "".join(pages.values())
    of_models = [one for one in all_settings() if one.name.startswith("model.")]
    listed = [*of_models, *(one for settings in listed_settings().values() for one in settings)]
    assert all(f"<code>{one.name}</code>" in everything for one in listed)
    assert all(f"<code>{path.stem}</code>" in pages["reference/recipes.html"] for path in all_recipes())


def has_no_mark_of_a_generated_part_and_no_raw_formula(pages: dict[str, str]) -> None:
    for page in pages.values():
        text = re.sub(r"<code.*?</code>", "", page, flags=re.DOTALL)
        assert "<!-- generated:" not in text
        assert "arithmatex" not in text
    assert pages["models/prpn.html"].count("<math ") > 30


def loads_nothing_from_elsewhere(site: Path, pages: dict[str, str]) -> None:
    loads = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc="?(https?:)?//|<link[^>]*href="?https?://""")
    for name, page in pages.items():
        assert not loads.search(page), name
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(.?https?://", path.read_text(encoding="utf-8")), path


def searches_public_names_alone(site: Path) -> None:
    found = set(re.findall(r'"location": ?"([^"#]*)', (site / "search" / "search_index.json").read_text("utf-8")))
    assert "reference/python/index.html" in found
    assert not {name for name in found if name.startswith(("reference/python/", "notebook."))} - {
        "reference/python/index.html"
    }


def has_tables_and_programs_that_fit(site: Path, pages: dict[str, str]) -> None:
    """Pages of inner packages are left out: nobody writes their tables."""
    chosen = [name for name in pages if not name.startswith("reference/python/") and name != "404.html"]
    wide = {}
    with browser() as found:
        for width in (390, 1280):
            view = found.new_page(viewport={"width": width, "height": 900})
            for name in chosen:
                view.goto((site / name).as_uri(), wait_until="domcontentloaded")
                if texts := view.evaluate(_WIDE):
                    wide[width, name] = texts
    assert not wide
