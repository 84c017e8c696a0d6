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

from syntaxlm.drawing.heat_map import heat_map
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.reports.page import SMALLEST_SCALE, Page, PageFigure, Paragraph, Preformatted, Section, table_html
from syntaxlm.reports.tables import ReportTable
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.tree import parse_brackets

VOID = {"meta", "link"}


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
    figure = PageFigure(tree_picture(parse_brackets("(S (NP the <cat>) sleeps)")[0]))
    blocks = Paragraph("Some & text"), figure, figure, Preformatted("as brackets", "(S <x>)")
    page = Balanced(Page("A <title>", (Section("A <heading>", blocks), Section("", ()))).html())
    assert page.links == ["link href"]  # no icon
    for text in ("A <title>", "A <heading>", "Some & text", "as brackets", "(S <x>)", "<cat>"):
        assert text in page.text


def map_of(words: int):
    names = [f"word{number}" for number in range(words)]
    return heat_map(np.eye(words), names, names, "a map")


def maps_page(title: str, *maps) -> str:
    return Page(title, (Section("Maps", tuple(map(PageFigure, maps))),)).html()


MEASURE = """<!doctype html><body><iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe>
<pre></pre><script>onload = () => {{
    const page = document.querySelector("iframe").contentDocument, sizes = [...page.querySelectorAll(".picture")].map(
        figure => [figure.clientWidth, figure.scrollWidth, figure.firstElementChild.getBoundingClientRect().width])
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
    (tmp_path / "page.html").write_text(maps_page("a" * 200, small, large))
    for width in (400, 800, 1400):
        page, (box, content, seen), (large_box, large_content, large_seen) = measured(tmp_path, width)
        assert page <= width
        assert (box, content, seen) == (pytest.approx(small.width, abs=1),) * 3
        assert large_box < width
        assert large_seen == pytest.approx(max(min(large.width, large_box), SMALLEST_SCALE * large.width), abs=1)
        assert large_content == pytest.approx(max(large_box, large_seen), abs=1)


def test_a_page_has_the_size_of_every_picture_to_shrink_it_from():
    maps = map_of(3), map_of(60)
    page = maps_page("t", *maps)
    widths = re.findall(r'style="--width:([\d.]+)px"[^>]*>\s*<svg [^>]*viewBox="0 0 ([\d.]+) ', page)
    assert [tuple(map(float, pair)) for pair in widths] == [(round(one.width, 1),) * 2 for one in maps]


def test_on_paper_intervals_do_not_wrap_and_only_tables_with_many_columns_are_landscape():
    page = table_html(ReportTable({"text": "", "95%": ""}, [["a b", "37.47 to 39.01"], ["a b", "many words " * 4]]))
    assert re.findall(r'<td class="([^"]+)"', page) == ["text short", "text"]
    style = Page("t", ()).html().split("</style>")[0]
    printed = style.split("@media print{")[1]
    assert ".short{white-space:nowrap}" in printed
    assert "nth-child(12)){page:wide}" in printed
    assert "@page wide{size:landscape}" in style


def test_facts_are_a_table():
    table = Balanced(table_html(ReportTable({"fact": "", "value": ""}, [["size", "1 & 2"]], "Model <x>")))
    assert table.text.split() == ["Model", "<x>", "factvalue", "size1", "&", "2"]


def test_numbers_and_what_follows_them_are_aligned():
    table = ReportTable({"": "", "a": ">"}, [["all", "25.4  19.9 to 31.7  (205)"], ["few", "7.0 (3)"], ["ties", 0]])
    assert [cells for _, cells in table.parts()] == [
        ["25.4", "19.9 to 31.7", "(205)"],
        ["7.0", "", "(3)"],
        ["0", "", ""],
    ]
    assert re.findall(r"min-width:(\d+)ch\">(.*?)</span>", table_html(table)) == [
        ("12", "19.9 to 31.7"), ("5", "(205)"), ("12", ""), ("5", "(3)"), ("12", ""), ("5", "")
    ]  # fmt: skip
    assert "| all | 25.4 19.9 to 31.7 (205) |" in table.markdown()


def test_a_stored_model_is_displayed_in_a_notebook(prpn: ModelBundle, lstm: ModelBundle):
    weights = sum(weight.numel() for weight in prpn.model.parameters())
    page = prpn._repr_html_()
    for fact in ("Model prpn", f"{weights:,}", f"{len(prpn.vocabulary):,} tokens", "hidden_size 16", "units words"):
        assert fact in Balanced(page).text
    assert re.search(r"structure</th><td[^>]*>none<", lstm._repr_html_())


def test_a_page_names_the_model_the_command_and_what_was_measured(run, trained, toy, tmp_path):
    path = tmp_path / "scores.html"
    code, _, error = run(
        "evaluate", "parse", trained.prpn, toy / "test.mrg", "--max-words", 10, "-o", path, "--format", "html"
    )
    assert code == 0, error
    page = path.read_text(encoding="utf-8")
    name = trained.prpn
    assert f"<title>Parsing scores of {name.name} on test.mrg</title>" in page
    for fact, value in (("model", name), ("data", toy / "test.mrg"), ("preprocessing", "ptb-keep")):
        assert f'<dt>{fact}</dt><dd dir="auto">{value}</dd>' in page
    assert f"<code>syntaxlm evaluate parse {name} {toy / 'test.mrg'} --max-words 10" in page
    assert re.search(r"<dt>Date</dt><dd dir=\"auto\">\d{4}-\d\d-\d\d \d\d:\d\d UTC</dd>", page)
    assert ">right branching</th>" in page  # names of rows come first
    assert "<caption>F1 by length</caption>" in page
