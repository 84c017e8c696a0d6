"""Options of `parse` and `score` for very large jobs, and how a job is run and reported."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syntaxlm.app.cli.parser import Parser
from syntaxlm.core.errors import InputError

if TYPE_CHECKING:
    from syntaxlm.app.jobs.work import Options

FAILED = 1  # exit code if shards failed

# Options that only jobs have, and the fields of `Job` that they set.
_ONLY_JOBS = {
    "lines_per_shard": "lines_per_shard", "bad_lines": "bad_lines", "max_line_bytes": "longest",
    "id_column": "id_column", "ray_address": None,
}  # fmt: skip


def add_job(parser: Parser) -> None:
    """The options of jobs."""
    parser.add_argument(
        "--workers", type=int, metavar="N",
        help="run a job: N workers parse or score the text in shards and write Parquet files into the folder -o; run"
        " the same command again to continue an interrupted job. Default with --engine: one per processor core, or one"
        " on a GPU",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=["processes", "ray"],
        help="what starts the workers of a job: processes (default), on this machine; ray, which is an optional"
        " dependency, on this machine or a cluster",
    )  # fmt: skip
    parser.add_argument(
        "--ray-address", metavar="ADDRESS", help="address of a Ray cluster; default: Ray is started on this machine"
    )
    parser.add_argument(
        "--lines-per-shard", type=int, metavar="N", help="lines that a worker does together in a job; default 20000"
    )
    parser.add_argument(
        "--bad-lines", choices=["stop", "skip"],
        help="lines of a job that are not UTF-8, too long, or refused by the model: stop (default): list those that are"
        " not UTF-8 or too long before anything is done, and do not write shards with lines that the model refuses;"
        " skip: leave them out and list them",
    )  # fmt: skip
    parser.add_argument(
        "--max-line-bytes", type=int, metavar="N", help="length above which a line of a job is bad; default 65536"
    )
    parser.add_argument(
        "--id-column", metavar="NAME", help="column of Parquet files with an id of each sentence, copied to the rows"
    )


def is_job(options: argparse.Namespace) -> bool:
    """Return whether the options ask for a job. If not, `options.text` becomes the single text of the command or None.

    Raises InputError for several texts, and for options of jobs without a job.
    """
    if options.workers is not None or options.engine is not None:
        return True
    for name in _ONLY_JOBS:
        if getattr(options, name) is not None:
            raise InputError(f"--{name.replace('_', '-')}: applies only to jobs; add --workers N, or omit it")
    if len(options.text) > 1:
        raise InputError(
            f"found {len(options.text)} texts; expected one. Several files are read by a job: add --workers N and -o"
            " FOLDER"
        )
    options.text = options.text[0] if options.text else None
    return False


def run(options: argparse.Namespace, work: Options) -> int:
    """Run the job of a command, and print its report. Returns the exit code. Raises InputError."""
    from syntaxlm.app.jobs.job import Job, run_job
    from syntaxlm.app.jobs.processes import ProcessEngine
    from syntaxlm.app.jobs.ray_actors import RayEngine

    if options.output is None:
        raise InputError("a job (--workers or --engine) writes to a folder; add -o FOLDER")
    if options.format not in (None, "parquet"):
        raise InputError(f"--format {options.format}: a job writes Parquet files; omit --format")
    if options.sentence is not None or not options.text:
        raise InputError("a job reads files; expected at least one file as TEXT, and no --text")
    if options.ray_address is not None and options.engine != "ray":
        raise InputError("--ray-address: applies to --engine ray")
    values = {field: getattr(options, name) for name, field in _ONLY_JOBS.items() if field is not None}
    given: dict[str, Any] = {field: value for field, value in values.items() if value is not None}
    device = options.device or "cpu"
    job = Job(work, tuple(options.text), options.output, options.column, device=device, **given)
    if options.engine == "ray":
        with_ray = partial(
            RayEngine, address=options.ray_address, workers=options.workers, with_gpu=device.startswith("cuda")
        )
        report = run_job(job, options.workers, with_ray, "ray")
    else:
        report = run_job(job, options.workers, ProcessEngine)
    if not options.quiet:
        print(report)
    return FAILED if report.failed else 0


def model_names(models: list[Path]) -> tuple[str, ...]:
    """Return the names of models for workers, which may have another working folder."""
    return tuple(os.path.abspath(name) if os.path.exists(name) else str(name) for name in models)
