"""tests/hostile-input.md: every row names tests that exist."""

from __future__ import annotations

import re

from tests.docs.examples import ROOT

PAGE = ROOT / "tests" / "hostile-input.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_case_names_tests_that_exist():
    rows = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and " test |" not in line
    ]
    assert len(rows) >= 60
    for row in rows:
        named = _TEST.findall(row)
        assert named, row
        for path, name in named:
            defined = f"def {name}(" if name else "def test_"
            assert defined in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
