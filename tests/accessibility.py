"""Findings of axe-core in a page of a browser. The library is installed with the tests, so no network is needed."""

from __future__ import annotations

from typing import Any

import pytest


def findings(page: Any) -> list[str]:
    """What axe-core criticises in a page (`playwright.sync_api.Page`): rule, severity, and the elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    violations = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {', '.join(str(node['target'][0]) for node in one['nodes'])}"
        for one in violations
    ]
