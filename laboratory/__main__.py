"""The experiments behind the results.

python -m laboratory list
python -m laboratory run EXPERIMENT [--dry-run] [--only RUN] [--seed N] [--output DIR] [--data NAME=PATH] [--store HOW]
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from laboratory.experiment import Experiment, Places, Step, experiment_names, read_experiment, run_experiment, steps_of
from laboratory.results.store import RESULTS, add, stored_runs
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
        _refuse_unused(experiment, places)
        steps = steps_of(experiment, places, options.only, options.seed)
        if options.dry_run:
            print("\n".join(map(str, steps)))
            return 0

        if options.store == "new":
            _refuse_stored(experiment.name, steps)
        store = partial(add, replace=options.store == "replace")
        run_experiment(experiment.name, steps, options.output, None if options.store == "nothing" else store)
        return 0
    except (InputError, ValueError) as error:
        print(f"laboratory: error: {error}", file=sys.stderr)
        return 1


def _refuse_unused(experiment: Experiment, places: Places) -> None:
    """Raise InputError for data that no command of an experiment reads, such as a misspelt name."""
    commands = list(map(str, steps_of(experiment, places)))
    for name in places.data:
        others = {other_name: folder for other_name, folder in places.data.items() if other_name != name}
        if commands == list(map(str, steps_of(experiment, replace(places, data=others)))):
            raise InputError(f"--data {name}: no command of the experiment reads data/{name}/; see --dry-run")


def _refuse_stored(name: str, steps: Sequence[Step]) -> None:
    """Raise InputError, before anything is trained, if reports of these runs are stored."""
    runs = stored_runs(name) if (RESULTS / f"{name}.jsonl").exists() else ()
    stored = {(run.run, run.seed) for run in runs}
    if repeated := [step for step in steps if (step.run, step.seed) in stored]:
        raise InputError(
            f"{name}: found stored results of the run {repeated[0].run!r}, seed {repeated[0].seed}; expected none, or"
            " --store replace, or --store nothing, which leaves the reports in the folder of runs"
        )


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
    run.add_argument(
        "--store", choices=("new", "replace", "nothing"), default="new",
        help="add the reports to laboratory/results if the runs have none there (default), or replace what is there",
    )  # fmt: skip
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"found {text}; expected NAME=PATH")
    return name, path


if __name__ == "__main__":
    # End without an error if the reader of a pipe stops reading. This is not done in `main`, because another process
    # that calls it would be killed, too, when it writes to a socket whose reader has gone.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
