"""Store a report that a command wrote: `python -m laboratory.results add EXPERIMENT report.json`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import get_args

from laboratory.results.store import RESULTS, What, add, stored_runs


def _pair(text: str) -> tuple[str, str | int]:
    """Return the name and the value of a factor: trees=none, nonterminals=128."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected NAME=VALUE")
    return name, int(value) if value.isdecimal() else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m laboratory.results", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adds = commands.add_parser("add", help="append a report to the file of an experiment")
    adds.add_argument("experiment", help="name of a file in laboratory/results, without .jsonl")
    adds.add_argument("report", type=Path, help="JSON that a command wrote")
    adds.add_argument("--what", choices=get_args(What), help="what it measures; default: by the command")
    adds.add_argument("--run", default="", help="name of the run in its experiment")
    adds.add_argument("--data", help="name of the treebank or text that was scored")
    adds.add_argument("--seed", type=int, help="seed of the model; default: of the head")
    adds.add_argument("--factor", type=_pair, action="append", default=[], metavar="NAME=VALUE")
    adds.add_argument("--training", action="append", default=[], metavar="COMMAND", help="what trained the model")
    adds.add_argument("--replace", action="store_true", help="replace a stored run with the same facts")
    commands.add_parser("check", help="read all files")
    return parser


def main() -> None:
    options = _parser().parse_args()
    try:
        if options.command == "check":
            count = sum(len(stored_runs(path.stem)) for path in RESULTS.glob("*.jsonl"))
            print(f"{count:,} runs")
            return
        report = json.loads(options.report.read_text(encoding="utf-8"))
        add(
            options.experiment, report, what=options.what, run=options.run, data=options.data, seed=options.seed,
            factors=dict(options.factor), training=tuple(options.training), replace=options.replace,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
