"""A job: the inputs are split into shards, which workers do; a job that was interrupted does only the rest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import syntaxlm
from syntaxlm.app.jobs.folder import (
    BAD_LINES,
    ROWS,
    SCHEMA_VERSION,
    BadLineTable,
    InputState,
    JobFolder,
    JobSettings,
)
from syntaxlm.app.jobs.inputs import BadLine, Shard, ShardCutter, ShardTask, Source, open_source
from syntaxlm.app.jobs.work import BadLines, Setup, ShardResult, Work
from syntaxlm.app.jobs.workers import Done, Ended, Engine, Failed, Pool, ProcessEngine
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import remove_unfinished
from syntaxlm.core.progress import Progress, working
from syntaxlm.core.tables import check_parquet
from syntaxlm.core.text_files import no_sentence

LINES_PER_SHARD = 20_000
LONGEST_LINE = 1 << 16  # bytes
ATTEMPTS = 3  # the last one without other workers
MOST_ENDED = 10  # workers that may end without a shard that is done

SHOWN = 5  # bad lines and failed shards in a message

EngineName = Literal["processes", "ray"]


@dataclass(frozen=True)
class Job:
    """Inputs, output and options of a sharded job.

    work: the command and its options, with its models.
    inputs: text files with one sentence per line, plain or compressed, and Parquet files with one sentence per row.
    folder: where the rows are written; the folder of an interrupted job with the same settings is continued.
    column: column of Parquet files with the text; None: `text`.
    id_column: column of Parquet files with ids of the sentences, which are copied to the rows; None: no ids.
    lines_per_shard: number of lines that are done together.
    longest: maximum number of bytes of a line, with its end; longer lines are bad lines.
    bad_lines: "stop": bad lines are an error, see `run_job`; "skip": they are left out and listed.
    device: as for `syntaxlm.load`; "cuda" distributes the workers over all GPUs.
    """

    work: Work
    inputs: tuple[str, ...]
    folder: Path
    column: str | None = None
    id_column: str | None = None
    lines_per_shard: int = LINES_PER_SHARD
    longest: int = LONGEST_LINE
    bad_lines: BadLines = "stop"
    device: str = "cpu"


@dataclass(frozen=True)
class FailedShard:
    """A shard that was not done.

    name: of the Parquet file that is missing.  file, first, last: its input and lines.  reason: of the last attempt.
    """

    name: str
    file: str
    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, lines {self.first:,} to {self.last:,} ({self.name}): {self.reason}"


@dataclass(frozen=True)
class JobReport:
    """What a run of a job did.

    command, folder, engine, workers: of this run.
    shards, lines: of the whole job.
    done_before, done_now: number of shards that earlier runs and this one did.
    lines_now: lines of the shards that this run did.
    rows, bad_lines: of all shards that are done.
    failed: the shards that are not done.
    seconds: of this run.
    worker_seconds: processor time of the workers for the shards of this run, without loading the models.
    largest_worker_memory: in bytes, in this run; None if it did no shard, and on Windows.
    """

    command: str
    folder: str
    engine: str
    workers: int
    shards: int
    lines: int
    done_before: int
    done_now: int
    lines_now: int
    rows: int
    bad_lines: int
    failed: tuple[FailedShard, ...]
    seconds: float
    worker_seconds: float
    largest_worker_memory: int | None

    @property
    def lines_per_second(self) -> float | None:
        return self.lines_now / self.seconds if self.lines_now else None

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION} | asdict(self) | {"lines_per_second": self.lines_per_second}

    def __str__(self) -> str:
        """Return some lines of text."""
        before = f" ({self.done_before:,} in earlier runs)" if self.done_before else ""
        done = self.done_before + self.done_now
        text = (
            f"{done:,} of {_counted(self.shards, 'shard')} done{before}, {_counted(self.rows, 'row')} in"
            f" {Path(self.folder) / ROWS}"
        )
        if self.lines_per_second is not None:
            text += (
                f"\n{_counted(self.lines_now, 'line')} in {self.seconds:,.0f} seconds:"
                f" {self.lines_per_second:,.0f} per second; workers {self.workers}"
            )
        if self.largest_worker_memory is not None:
            text += f", memory of a worker up to {self.largest_worker_memory / 2**20:,.0f} MiB"
        if self.bad_lines:
            text += f"\n{_counted(self.bad_lines, 'bad line')} left out; see {Path(self.folder) / BAD_LINES}"
        if self.failed:
            shown = [f"  {one}" for one in self.failed[:SHOWN]] + ["  ..."] * (len(self.failed) > SHOWN)
            them = "it" if len(self.failed) == 1 else "them"
            text += f"\n{_counted(len(self.failed), 'shard')} failed; run the job again to try {them} again\n"
            text += "\n".join(shown)
        return text


def run_job(
    job: Job,
    workers: int | None = None,
    engine: Callable[[Setup], Engine] = ProcessEngine,
    engine_name: str = "processes",
) -> JobReport:
    """Do all shards of a job that are not yet done.

    The inputs are read once before, to find the shards and bad lines. With `bad_lines="stop"`, bad lines are then
    listed in bad-lines.tsv, and raise InputError before anything is done. Lines that the model refuses, such as lines
    without tags, are found later: their shards fail, and the others are done.
    A shard whose worker ends is tried again after the others, and the third time without other workers.
    workers: their number; None: one per processor core or, on a GPU, one.
    engine: makes the engine from the setup of the workers.
    Raises InputError if the folder is in use, contains a job with other settings, or cannot be written; and if an input
    or a model cannot be read.
    """
    _check(job, workers)
    check_parquet()
    start = time.monotonic()
    sources = [open_source(name, job.column, job.id_column) for name in job.inputs]
    id_type, place = sources[0].id_type, Path(os.path.realpath(job.folder))
    for source in sources:
        if source.id_type != id_type:
            raise InputError(
                f"{source.name}: its ids have the type {source.id_type}, but those of {sources[0].name} {id_type};"
                " expected the same type"
            )
        if place in Path(os.path.realpath(source.path)).parents:
            raise InputError(f"{source.name}: is in the folder of the job, {job.folder}; expected another folder")
    with JobFolder.opened(job.folder) as folder:
        setup = Setup(
            job.work, os.path.abspath(folder.rows), job.longest, job.bad_lines, id_type, job.device
        )  # fmt: skip
        started = engine(setup)
        pool = Pool(started)
        try:
            settings = JobSettings(
                version=syntaxlm.__version__,
                command=job.work.command,
                model_sha256=tuple(pool.describe()),
                options=job.work.to_dict(),
                inputs=tuple(InputState(source.name, source.size, source.modified) for source in sources),
                column=job.column,
                id_column=job.id_column,
                lines_per_shard=job.lines_per_shard,
                max_line_bytes=job.longest,
            )
            if not folder.is_started(settings):
                folder.start(settings, _plan(job, sources, folder))
            shards = folder.shards(len(sources))
            before = folder.done(shards)
            folder.remove_not_done(shards, before)
            if workers is None:
                workers = started.default_workers() if job.device == "cpu" else 1
            run = _Run(job, sources, folder, shards, before, pool, workers)
            run.run()
        finally:
            pool.close()
            remove_unfinished(folder.rows)  # of workers that were ended
        done = folder.done(shards)
        now = {number: result for number, result in done.items() if number not in before}
        report = JobReport(
            command=job.work.command,
            folder=str(job.folder),
            engine=engine_name,
            workers=workers,
            shards=len(shards),
            lines=sum(shard.lines for shard in shards),
            done_before=len(before),
            done_now=len(now),
            lines_now=sum(shards[number].lines for number in now),
            rows=sum(result.rows or 0 for result in done.values()),
            bad_lines=folder.write_bad_lines(shards, job.inputs),
            failed=tuple(
                FailedShard(shard.file_name, job.inputs[shard.source], shard.first, shard.last, run.failures[number])
                for number, shard in enumerate(shards)
                if number in run.failures
            ),
            seconds=time.monotonic() - start,
            worker_seconds=sum(result.seconds for result in now.values()),
            largest_worker_memory=max((one.memory for one in now.values() if one.memory is not None), default=None),
        )
        folder.write_report(report.to_dict())
    return report


def _check(job: Job, workers: int | None) -> None:
    if not job.inputs:
        raise InputError("found no input; expected one file or more")
    twice = sorted({name for name in job.inputs if job.inputs.count(name) > 1})
    if twice:
        raise InputError(f"{twice[0]}: is given twice; expected different inputs")
    for name, value in (
        ("--workers", workers),
        ("--lines-per-shard", job.lines_per_shard),
        ("--max-line-bytes", job.longest),
    ):
        if value is not None and value < 1:
            raise InputError(f"{name}: found {value}; expected 1 or more")


def _plan(job: Job, sources: Sequence[Source], folder: JobFolder) -> list[Shard]:
    """Return the shards of all inputs. Raises InputError for bad lines that are not to be skipped, and if there is no
    line.
    """
    cutter = ShardCutter(job.lines_per_shard)
    with folder.bad_line_table() as table, working(Progress("reading inputs, lines")) as work:
        for number, source in enumerate(sources):
            cutter.cut(number, _lengths(source, job.longest, table, work))
    if table.count and job.bad_lines == "stop":
        count = table.count
        shown = "\n".join(f"  {line}" for line in table.first) + ("\n  ..." if count > len(table.first) else "")
        listed, these = ("which is", "this line") if count == 1 else ("which are", "these lines")
        raise InputError(
            f"{_counted(count, 'bad line')}, {listed} listed in {folder.path / BAD_LINES}; nothing was done:\n{shown}\n"
            f"Correct the input, or leave {these} out with --bad-lines skip."
        )
    if not cutter.shards:
        raise no_sentence(", ".join(job.inputs))
    return cutter.shards


def _lengths(source: Source, longest: int, table: BadLineTable, work: Progress) -> Iterator[int]:
    """Yield the lengths of the lines of an input, and add bad lines to a table."""
    for number, (length, fault) in enumerate(source.scan(longest), 1):
        if fault is not None:
            table.add([BadLine(source.name, number, fault)])
        work.done += 1
        yield length


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass
class _Run:
    """Attempts at the shards that are not done. failures: the reason of the last attempt, by number of the shard."""

    job: Job
    sources: Sequence[Source]
    folder: JobFolder
    shards: Sequence[Shard]
    before: dict[int, ShardResult]
    pool: Pool
    workers: int
    failures: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.any_done = bool(self.before)

    def run(self) -> None:
        todo = [shard for shard in self.shards if shard.number not in self.before]
        lines = sum(shard.lines for shard in self.shards)
        work = Progress(f"{self.job.work.command}, lines", lines)
        work.done = lines - sum(shard.lines for shard in todo)
        with working(work):
            for attempt in range(1, ATTEMPTS + 1):
                todo = self._attempt(todo, 1 if attempt == ATTEMPTS else self.workers, work)
                if not todo:
                    return

    def _attempt(self, shards: Sequence[Shard], workers: int, work: Progress) -> list[Shard]:
        """Do shards, and return those whose worker ended or failed."""
        again: list[Shard] = []
        for task, outcome in self.pool.run(self._tasks(shards), min(workers, len(shards))):
            shard = task.shard
            if isinstance(outcome, Done) and outcome.result.rows is not None:
                self.folder.add_done(shard, outcome.result)
                self.failures.pop(shard.number, None)
                work.done += shard.lines
                self.any_done = True
                continue
            self.failures[shard.number] = self._reason(shard, outcome)
            if not isinstance(outcome, Done):
                again.append(shard)
                if len(again) >= max(MOST_ENDED, 2 * workers) and not self.any_done:
                    raise InputError(
                        f"the first {len(again)} shards failed; the last one: {self.failures[shard.number]}. Use fewer"
                        " workers or shorter lines (--max-line-bytes)."
                    )
        return again

    def _tasks(self, shards: Iterable[Shard]) -> Iterator[ShardTask]:
        for number, group in groupby(shards, key=lambda shard: shard.source):
            yield from self.sources[number].tasks(group, self.job.longest)

    def _reason(self, shard: Shard, outcome: Done | Failed | Ended) -> str:
        if isinstance(outcome, Done):
            name = self.job.inputs[shard.source]
            bad = [str(BadLine(name, *line)) for line in outcome.result.bad]
            return f"{bad[0]}" + (f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else "")
        return f"the worker {outcome.reason}" if isinstance(outcome, Ended) else outcome.reason
