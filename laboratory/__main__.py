"""The experiments behind the results.

python -m laboratory list
python -m laboratory run EXPERIMENT [--dry-run] [--only RUN] [--seed N] [--output runs] [--data NAME=PATH]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from laboratory.experiment import Places, experiment_names, read_experiment, run_experiment, steps_of
from laboratory.results.store import add
from syntaxlm.core.errors import InputError


def main(arguments: list[str] | None = None) -> int:
    """List or run experiments, and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.action == "list":
            for name in experiment_names():
                print(f"{name:26} {read_experiment(name).purpose}")
            return 0

        experiment = read_experiment(options.experiment)
        places = Places(options.output, dict(options.data))
        steps = steps_of(experiment, places, options.only, options.seed)
        if options.dry_run:
            print("\n".join(map(str, steps)))
        else:
            run_experiment(experiment.name, steps, places.output, add)
        return 0
    except InputError as error:
        print(f"laboratory: error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m laboratory", description="The experiments behind the results.")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="list the experiments")
    run = actions.add_parser("run", help="train and evaluate again, and add the reports to laboratory/results")
    run.add_argument("experiment", help="name of an experiment, or a YAML file")
    run.add_argument("--dry-run", action="store_true", help="print the commands instead")
    run.add_argument("--only", metavar="RUN", help="run of this name; default: all")
    run.add_argument("--seed", type=int, metavar="N", help="one seed; default: those of each run")
    run.add_argument("--output", type=Path, default=Path("runs"), metavar="DIR", help="folder of all runs")
    run.add_argument(
        "--data", type=_pair, action="append", default=[], metavar="NAME=PATH", help="folder instead of data/NAME"
    )
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"found {text}; expected NAME=PATH")
    return name, path


if __name__ == "__main__":
    sys.exit(main())
