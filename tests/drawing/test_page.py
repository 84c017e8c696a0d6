"""HTML pages and tables."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from syntaxlm.drawing.files import SMALLEST, PageSection, facts_html, html_page
from syntaxlm.drawing.heat_map import heat_map
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.tree import parse_brackets

VOID = {"meta"}


class Balanced(HTMLParser):
    """Checks that every element is closed, and keeps the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [f"{tag} {name}" for name, _ in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_is_self_contained_and_has_the_given_content():
    picture = tree_picture(parse_brackets("(S (NP the <cat>) sleeps)")[0])
    section = PageSection("A <heading>", (picture, picture), "Some & text", {"as brackets": "(S <x>)"})
    page = Balanced(html_page("A <title>", [section, PageSection("")]))
    assert page.links == []
    for text in ("A <title>", "A <heading>", "Some & text", "as brackets", "(S <x>)", "<cat>"):
        assert text in page.text


def test_a_page_follows_the_theme():
    auto, light, dark = (html_page("t", [], theme) for theme in ("auto", "light", "dark"))
    assert "prefers-color-scheme" in auto
    assert "color-scheme:light dark" in auto
    assert "prefers-color-scheme" not in light + dark
    assert light != dark


def map_of(words: int):
    names = [f"word{number}" for number in range(words)]
    return heat_map(np.eye(words), names, names, "a map")


MEASURE = """<!doctype html><body><iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe>
<pre></pre><script>onload = () => {{
    const page = document.querySelector("iframe").contentDocument, sizes = [...page.querySelectorAll("figure")].map(
        figure => [figure.clientWidth, figure.scrollWidth, figure.firstChild.getBoundingClientRect().width])
    document.querySelector("pre").textContent = JSON.stringify([page.documentElement.scrollWidth, ...sizes])
}}</script></body>"""


def measured(folder: Path, width: int) -> list:
    """Widths in a browser: of folder/page.html, and for every figure of the box, its content and the picture."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium to look with")
    (folder / "frame.html").write_text(MEASURE.format(width=width))
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--allow-file-access-from-files", f"--user-data-dir={folder / 'browser'}",
    ]  # fmt: skip
    command = [browser, *flags, "--dump-dom", (folder / "frame.html").as_uri()]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search("<pre>(.+)</pre>", page)
    assert found is not None
    return json.loads(html.unescape(found[1]))


@pytest.mark.long
def test_maps_shrink_with_the_page_and_then_scroll_separately(tmp_path):
    small, large = map_of(3), map_of(60)
    (tmp_path / "page.html").write_text(html_page("a" * 200, [PageSection("Maps", (small, large))]))
    for width in (400, 800, 1400):
        page, (box, content, seen), (large_box, large_content, large_seen) = measured(tmp_path, width)
        assert page <= width
        assert (box, content, seen) == (pytest.approx(small.width, abs=1),) * 3
        assert large_box < width
        assert large_seen == pytest.approx(max(min(large.width, large_box), SMALLEST * large.width), abs=1)
        assert large_content == pytest.approx(max(large_box, large_seen), abs=1)


def test_a_page_has_the_size_of_every_picture_to_shrink_it_from():
    maps = map_of(3), map_of(60)
    page = html_page("t", [PageSection("Maps", maps)])
    widths = re.findall(r'<figure style="--width:([\d.]+)px"><svg [^>]*viewBox="0 0 ([\d.]+) ', page)
    assert widths == [(f"{one.width:.1f}".removesuffix(".0"),) * 2 for one in maps]
    assert "width:var(--width);max-width:100%" in page
    assert f"min-width:calc({SMALLEST} * var(--width))" in page


def test_facts_are_a_table():
    table = Balanced(facts_html("Model <x>", {"size": "1 & 2"}))
    assert table.text == "Model <x>size1 & 2"


def test_a_stored_model_is_displayed_in_a_notebook(prpn: ModelBundle, lstm: ModelBundle):
    weights = sum(weight.numel() for weight in prpn.model.parameters())
    page = prpn._repr_html_()
    for fact in ("Model prpn", f"{weights:,}", f"{len(prpn.vocabulary):,} tokens", "hidden_size 16", "units words"):
        assert fact in Balanced(page).text
    assert re.search(r"structure</th><td[^>]*>none<", lstm._repr_html_())
