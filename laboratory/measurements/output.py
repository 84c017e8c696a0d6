"""The option and the output of all measurements."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from laboratory.results.store import with_head


def measurement_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the option --json."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    return parser


def show(report: Mapping[str, Any], as_json: bool) -> None:
    """Print a report, one value per line, or as JSON with its head.

    Args:
        report: its values are numbers, or lists of them by name.
    """
    if as_json:
        print(json.dumps(with_head(report), indent=1))
        return
    width = max(26, *map(len, report))
    for name, value in report.items():
        print(f"{name:{width}} {value:,.3f}" if isinstance(value, float) else f"{name:{width}} {value:,}")
