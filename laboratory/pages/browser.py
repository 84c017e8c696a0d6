"""The system's Chromium, driven by Playwright, for screenshots and for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def missing() -> str | None:
    """What is missing for a browser; None if there is one. Nothing is installed."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "the Python package playwright is not installed"
    return None if find_chromium() else f"no browser was found; looked for {', '.join(NAMES)}"


def find_chromium() -> str | None:
    """The program of the system's browser."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def browser() -> Iterator[Any]:
    """A running browser (`playwright.sync_api.Browser`)."""
    from playwright.sync_api import sync_playwright

    # Chromium refuses to run with its sandbox as root, as in containers.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=find_chromium(), args=arguments)
        yield chromium
        chromium.close()
