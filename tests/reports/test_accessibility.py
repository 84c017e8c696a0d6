"""The pages that commands write, in the system's Chromium. Skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laboratory.pages import browser as browsers

from tests.accessibility import findings

GARDEN_PATHS = Path("docs/examples/garden-paths.csv").resolve()
DESIGN = ["--condition", "comma", *(f"--region={name}" for name in ("clause", "noun", "main_verb", "rest"))]

PAIRS = '{"sentence_good": "The dogs bark.", "sentence_bad": "The dogs barks."}\n'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if reason := browsers.missing():
        pytest.skip(reason)
    with browsers.browser() as found:
        yield found


@pytest.fixture
def pages(run, trained, toy, tmp_path) -> dict[str, Path]:
    """Pages of commands, by name."""
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(PAIRS, encoding="utf-8")
    model, treebank = trained.prpn, toy / "test.mrg"
    as_html = ["--format", "html"]
    commands = {
        "parse": ["evaluate", "parse", model, treebank, "--max-words", 10, *as_html],
        "pairs": ["evaluate", "pairs", model, pairs, "--also", trained.lstm, *as_html],
        "items": ["items", model, GARDEN_PATHS, *DESIGN, *as_html],
        "draw": ["draw", model, "the dog sees a cat", "--maps"],
        "inspect": ["inspect", treebank, *as_html],
        "report": ["report", model, treebank, "--max-words", 6],
    }
    written = {}
    for name, command in commands.items():
        output = tmp_path / ("report" if name == "report" else f"{name}.html")
        code, _, error = run(*command, "-o", output)
        assert code == 0, error
        written[name] = output / "report.html" if name == "report" else output
    return written


@pytest.mark.long
def test_pages_are_accessible_and_fit_phones(pages, browser):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    for number, (name, path) in enumerate(pages.items()):
        page.emulate_media(color_scheme="light" if number % 2 else "dark")
        page.goto(path.as_uri())
        assert findings(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
