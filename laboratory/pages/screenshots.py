"""Screenshots of the page: python -m laboratory.pages.screenshots MODEL...

Writes docs/images/page-*.png, with the system's Chromium. The first model needs trees. Further models are shown beside
it, except in the picture of a phone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from laboratory.pages.browser import browser, missing
from syntaxlm.api.model import load
from syntaxlm.serve.app import create_app
from syntaxlm.serve.server import running

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 180_000  # bytes of a file
DESKTOP, PHONE = {"width": 1360, "height": 900}, {"width": 390, "height": 844}
SENTENCE = "The young man saw the woman near the river."
PAIR = {"first": "The boys near the river see the dog.", "second": "The boys near the river sees the dog."}


def states(names: list[str]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The name of each picture, the state of the page, and the browser's window."""
    return {
        "trees": ({"view": "sentences", "model": names, "text": SENTENCE}, {"viewport": DESKTOP}),
        "pair": ({"view": "pair", "model": names, **PAIR}, {"viewport": DESKTOP, "color_scheme": "dark"}),
        "phone": ({"view": "sentences", "model": names[:1], "text": SENTENCE}, {"viewport": PHONE}),
    }


def take(address: str, names: list[str]) -> None:
    """Writes the pictures. Raises ValueError for one that is too large."""
    with browser() as started:
        for name, (state, window) in states(names).items():
            page = started.new_context(**window).new_page()
            page.goto(f"{address}/#{urlencode(state, doseq=True)}")
            page.locator("article").first.wait_for()
            page.mouse.move(0, 0)
            path = IMAGES / f"page-{name}.png"
            content = page.screenshot(path=path, full_page=True)
            if len(content) > LARGEST:
                raise ValueError(f"{path}: {len(content):,} bytes; expected at most {LARGEST:,}")
            print(f"{path}: {len(content):,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    options = parser.parse_args()
    if (reason := missing()) is not None:
        print(f"no screenshots: {reason}", file=sys.stderr)
        return 1
    models = {Path(folder).name: load(folder) for folder in options.models}
    with running(create_app(models)) as address:
        take(address, list(models))
    return 0


if __name__ == "__main__":
    sys.exit(main())
