"""Findings of axe-core in a page of a browser. The library is installed with the tests, so no network is needed."""

from __future__ import annotations

from typing import Any

import pytest

PHONE = {"width": 390, "height": 844}


def findings(page: Any) -> list[str]:
    """What axe-core criticises in a page (`playwright.sync_api.Page`): rule, severity, and the elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    violations = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {', '.join(str(node['target'][0]) for node in one['nodes'])}"
        for one in violations
    ]


def check_no_barriers(page: Any) -> None:
    """Check a page with all its folds open, in light and dark colours and on a phone, which it must fit."""
    for fold in page.locator("details:not([open]) > summary").all():
        if fold.is_visible():
            fold.click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour on its way to another
        assert findings(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert findings(page) == []
