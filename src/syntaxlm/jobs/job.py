"""A job: the inputs are split into shards, which workers do; a job that was interrupted does only the rest."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Literal

from syntaxlm.core.declarations import LARGEST_COUNT
from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.files import remove_unfinished, repeated_file
from syntaxlm.core.iteration import batched
from syntaxlm.core.progress import working
from syntaxlm.core.reading import ReadingReport, collected
from syntaxlm.core.systems import peak_memory
from syntaxlm.core.text_files import LINES_TOGETHER, no_sentence
from syntaxlm.core.version import VERSION
from syntaxlm.core.work import Progress
from syntaxlm.data.plain_text import TAGGED, LineCounter, TextForm, announce_counts, total_counts, warn_of_start
from syntaxlm.jobs.folder import BAD_LINES, ROWS, SCHEMA_VERSION, InputState, JobFolder, JobSettings
from syntaxlm.jobs.inputs import BadLine, Line, Shard, ShardTask, Source, cut_shards, open_source
from syntaxlm.jobs.work import Loaded, ShardReading, ShardResult, Work, file_hash, rows_of
from syntaxlm.jobs.workers import Engine, Pool, ProcessEngine, SetUp
from syntaxlm.reports.tables import Block, Column, Columns
from syntaxlm.reports.writers import write_parquet
from syntaxlm.scoring.reading_counts import total

LINES_PER_SHARD = 20_000
LONGEST_LINE = 1 << 16  # bytes
ATTEMPTS = 3  # the last one without other workers
FAILURES_BEFORE_GIVING_UP = 10  # failed shards, if no shard was done

LINES_NAMED = 5  # bad lines and failed shards in a message

BadLines = Literal["stop", "skip"]


class _StoppedError(Exception):
    """Raised if a shard has bad lines, and these are not to be skipped."""


@dataclass(frozen=True)
class Job:
    """Inputs, output and options of a sharded job.

    Attributes:
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

    def settings(self, sources: Sequence[Source], model_sha256: tuple[str, ...]) -> JobSettings:
        """Return what a later run of the same job must have alike, with the states of its opened inputs."""
        return JobSettings(
            version=VERSION,
            command=self.work.command,
            model_sha256=model_sha256,
            options=self.work.to_dict(),
            inputs=tuple(InputState(source.name, source.size, source.modified) for source in sources),
            column=self.column,
            id_column=self.id_column,
            lines_per_shard=self.lines_per_shard,
            max_line_bytes=self.longest,
        )

    def set_up(
        self, rows: str, number: int
    ) -> tuple[tuple[tuple[str, ...], TextForm], Callable[[ShardTask], ShardResult]]:
        """Load the models in a worker. Returns their SHA-256 hashes with the form of text that they read, and a
        function that writes a shard.

        Args:
            rows: the folder of the Parquet files.
            number: the number of the worker, from 0.

        Raises:
            InputError: as `Work.load` does.
        """
        device = self.device
        if device == "cuda":
            import torch

            device = f"cuda:{number % max(1, torch.cuda.device_count())}"
        loaded = self.work.load(device)
        return (loaded.sha256, loaded.form), partial(self._write, loaded, rows)

    def _write(self, loaded: Loaded, folder: str, task: ShardTask) -> ShardResult:
        """Write the Parquet file of a shard, atomically.

        Raises:
            InputError: if the input cannot be read, or the output cannot be written.
        """
        start = time.process_time()
        bad: list[tuple[int, str]] = []
        path = Path(folder) / task.shard.file_name
        added = {"file": Column("text", "name of the input, as given to the job")}
        if task.source.id_type is not None:
            added["id"] = Column(task.source.id_type, "value of the column of ids")
        columns = Columns(loaded.columns.name, loaded.columns.row, {**added, **loaded.columns})
        counter = LineCounter()
        count = size = hash = None
        loaded.reading_counts()  # forgets those of a shard that failed
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._check_start(loaded, task)
        try:
            count = write_parquet(self._rows(loaded, task, bad, counter), columns, path)
            size, hash = path.stat().st_size, file_hash(path)
        except _StoppedError:
            pass
        seconds = time.process_time() - start
        messages = tuple(str(warning.message) for warning in caught)
        reading = ShardReading(counter.counts(), loaded.reading_counts(), messages)
        return ShardResult(task.shard.number, count, tuple(sorted(bad)), seconds, peak_memory(), size, hash, reading)

    def _check_start(self, loaded: Loaded, task: ShardTask) -> None:
        """Warn of the first lines of an input, if the shard has them, as `Loaded.check` does."""
        if task.shard.first == 1:
            lines = list(islice(task.source.lines(task, self.longest), LINES_TOGETHER))
            texts = [text for text, reason in _texts(lines, loaded, task.source) if reason is None]
            loaded.check(texts, task.source.name)

    def _rows(
        self, loaded: Loaded, task: ShardTask, bad: list[tuple[int, str]], counter: LineCounter
    ) -> Iterator[Block]:
        """Yield the rows of a shard in columns. Bad lines are added to `bad`; raises _StoppedError unless skipped."""
        source = task.source
        for chunk in batched(source.lines(task, self.longest), LINES_TOGETHER):
            texts = []
            for line, (text, reason) in zip(chunk, _texts(chunk, loaded, source), strict=True):
                texts.append(text)
                if reason is not None:
                    bad.append((line.number, reason))
                else:
                    counter.read(line.number, line.text)
            first = chunk[0].number
            blocks = rows_of(loaded.rows, texts, first, bad)
            if bad and self.bad_lines == "stop":
                raise _StoppedError
            for block in blocks:
                numbers = block["sentence"]
                ids = {} if source.id_type is None else {"id": [chunk[number - first].id for number in numbers]}
                yield {"file": [source.name] * len(numbers), **ids, **block}


def _texts(lines: Iterable[Line], loaded: Loaded, source: Source) -> Iterator[tuple[str, str | None]]:
    """Yield the text of each line as the models read it, and why it is bad; None for a good line."""
    from syntaxlm.data.corpora import is_tagged
    from syntaxlm.text.normaliser import without_tags

    drops_tags = is_tagged(source.name) and loaded.form != TAGGED
    for line in lines:
        try:
            yield without_tags(line.text) if drops_tags else line.text, line.fault
        except InputError as error:
            yield "", str(error)


@dataclass(frozen=True)
class FailedShard:
    """A shard that was not done.

    Attributes:
        name: the name of the Parquet file that is missing.
        file: its input.
        first: its first line.
        last: its last line.
        reason: the reason of the last attempt.
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

    Attributes:
        command: the command of this run.
        folder: its folder.
        engine: its engine.
        workers: its number of workers.
        shards: number of shards of the whole job.
        lines: number of lines of the whole job.
        done_before: number of shards that earlier runs did.
        done_now: number of shards that this run did.
        lines_now: lines of the shards that this run did.
        rows: number of rows of all shards that are done.
        bad_lines: number of bad lines of all shards that are done.
        failed: the shards that are not done.
        readings: how the inputs were read, in all shards that are done.
        words: how many of their words the model does not know or read, such as "120 words, 3 unknown (2.5%)"; None if
            this is not counted.
        seconds: the seconds of this run.
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
    readings: tuple[ReadingReport, ...]
    words: str | None
    seconds: float
    worker_seconds: float
    largest_worker_memory: int | None

    @property
    def lines_per_second(self) -> float | None:
        return self.lines_now / self.seconds if self.lines_now else None

    def to_dict(self) -> dict[str, Any]:
        readings = [reading.to_dict() for reading in self.readings]
        derived = {"readings": readings, "lines_per_second": self.lines_per_second}
        return {"schema_version": SCHEMA_VERSION} | asdict(self) | derived

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
            shown = [f"  {shard}" for shard in self.failed[:LINES_NAMED]] + ["  ..."] * (len(self.failed) > LINES_NAMED)
            them = "it" if len(self.failed) == 1 else "them"
            text += f"\n{_counted(len(self.failed), 'shard')} failed; run the job again to try {them} again\n"
            text += "\n".join(shown)
        return text


def run_job(
    job: Job,
    workers: int | None = None,
    engine: Callable[[SetUp], Engine] = ProcessEngine,
    engine_name: str = "processes",
) -> JobReport:
    """Do all shards of a job that are not yet done.

    The inputs are read once before, to find the shards and bad lines. With `bad_lines="stop"`, bad lines are then
    listed in bad-lines.tsv, and raise InputError before anything is done. Lines that the model refuses, such as lines
    without tags, are found later: their shards fail, and the others are done.
    A shard whose worker ends is tried again after the others, and the third time without other workers.

    Args:
        workers: their number; None: one per processor core or, on a GPU, one.
        engine: makes the engine from the setup of the workers.

    Raises:
        InputError: if the folder is in use, contains a job with other settings, or cannot be written; and if an input
            or a model cannot be read.
    """
    for name, value in (
        ("--workers", workers),
        ("--lines-per-shard", job.lines_per_shard),
        ("--max-line-bytes", job.longest),
    ):
        if value is not None and not 1 <= value <= LARGEST_COUNT:
            raise InputError(f"{name}: found {value}; expected 1 to {LARGEST_COUNT:,}")
    start = time.monotonic()
    sources = _opened(job)
    with JobFolder.opened(job.folder) as folder:
        started = engine(partial(job.set_up, os.path.abspath(folder.rows)))
        pool = Pool(started)
        try:
            model_sha256, form = pool.describe()
            for source in sources:
                warn_of_start(source.start(), source.name, form)
            settings = job.settings(sources, tuple(model_sha256))
            if not folder.is_started(settings):
                folder.start(settings, _plan(job, sources, folder))
            shards = folder.shards()
            before = folder.done(shards)
            if workers is None:
                workers = started.default_workers() if job.device == "cpu" else 1
            todo = [shard for shard in shards if shard.number not in before]
            lines = sum(shard.lines for shard in shards)
            with working(Progress(f"{job.work.command}, lines", lines)) as work:
                work.done = lines - sum(shard.lines for shard in todo)
                failures = _do_shards(job, todo, sources, folder, pool, workers, work)
        finally:
            pool.close()
            remove_unfinished(folder.rows)  # of workers that were ended
        done = folder.done(shards, reads=False)
        now = [result for number, result in done.items() if number not in before]
        with collected() as readings:
            _announce(shards, done, sources, form)
        # Shards that an earlier version did have no counts. Those of the other shards are not those of the text.
        counts = [result.reading.words for result in done.values() if result.reading and result.reading.words]
        words = total(counts) if len(counts) == len(done) else None
        report = JobReport(
            command=job.work.command,
            folder=str(job.folder),
            engine=engine_name,
            workers=workers,
            shards=len(shards),
            lines=lines,
            done_before=len(before),
            done_now=len(now),
            lines_now=sum(shards[result.number].lines for result in now),
            rows=sum(result.rows or 0 for result in done.values()),
            bad_lines=folder.write_bad_lines(folder.bad_lines(shards, job.inputs))[0],
            failed=_failed(job, todo, failures),
            readings=tuple(readings),
            words=None if words is None or not words.words else words.text(),
            seconds=time.monotonic() - start,
            worker_seconds=sum(result.seconds for result in now),
            largest_worker_memory=max((result.memory for result in now if result.memory is not None), default=None),
        )
        folder.write_report(report.to_dict())
    return report


def _announce(
    shards: Sequence[Shard], done: Mapping[int, ShardResult], sources: Sequence[Source], form: TextForm
) -> None:
    """Announce how the inputs were read, in the shards that are done."""
    for place, source in enumerate(sources):
        results = (done[shard.number] for shard in shards if shard.source == place and shard.number in done)
        parts = [result.reading.lines for result in results if result.reading is not None]
        if parts:
            announce_counts(total_counts(parts), source.name, form)


def _failed(job: Job, shards: Sequence[Shard], failures: Mapping[int, str]) -> tuple[FailedShard, ...]:
    """Return the shards that failed.

    Args:
        failures: the reason of each, by the number of the shard.
    """
    return tuple(
        FailedShard(shard.file_name, job.inputs[shard.source], shard.first, shard.last, failures[shard.number])
        for shard in shards
        if shard.number in failures
    )


def _opened(job: Job) -> list[Source]:
    """Return the inputs of a job. Raises InputError for wrong ones."""
    if not job.inputs:
        raise InputError("found no input; expected one file or more")
    if twice := repeated_file(job.inputs):
        name, other = twice
        found = "is given twice" if name == other else f"is the same file as {other}"
        raise InputError(f"{name}: {found}; expected different inputs")
    sources = [open_source(name, job.column, job.id_column) for name in job.inputs]
    first, place = sources[0], Path(os.path.realpath(job.folder))
    for source in sources:
        if source.id_type != first.id_type:
            raise InputError(
                f"{source.name}: found ids of the type {source.id_type}; expected {first.id_type}, the type of the ids"
                f" of {first.name}"
            )
        if place in Path(os.path.realpath(source.path)).parents:
            raise InputError(f"{source.name}: is in the folder of the job, {job.folder}; expected another folder")
    return sources


def _plan(job: Job, sources: Sequence[Source], folder: JobFolder) -> list[Shard]:
    """Return the shards of all inputs. Raises InputError for bad lines that are not to be skipped, and if there is no
    line.
    """
    shards: list[Shard] = []
    with working(Progress("reading inputs, lines")) as work:
        bad_lines = cut_shards(sources, shards, job.lines_per_shard, job.longest, work)
        count, first = folder.write_bad_lines(bad_lines)
    if count and job.bad_lines == "stop":
        shown = "\n".join(f"  {line}" for line in first) + ("\n  ..." if count > len(first) else "")
        listed, these = ("which is", "this line") if count == 1 else ("which are", "these lines")
        raise InputError(
            f"{_counted(count, 'bad line')}, {listed} listed in {folder.path / BAD_LINES}; nothing was done:\n{shown}\n"
            f"Correct the input, or leave {these} out with --bad-lines skip."
        )
    if not shards:
        raise no_sentence(", ".join(job.inputs))
    return shards


def _do_shards(
    job: Job,
    todo: Sequence[Shard],
    sources: Sequence[Source],
    folder: JobFolder,
    pool: Pool,
    workers: int,
    work: Progress,
) -> dict[int, str]:
    """Do shards in several attempts. Returns the reason of the last failure of each that failed, by its number.

    Args:
        work: counts the lines; if it starts at 0, no shard was done before.
    """
    failures: dict[int, str] = {}
    warned: set[str] = set()
    for attempt in range(1, ATTEMPTS + 1):
        again: list[Shard] = []
        together = min(1 if attempt == ATTEMPTS else workers, len(todo))
        by_source = groupby(todo, key=lambda shard: shard.source)
        tasks = chain.from_iterable(sources[number].tasks(shards, job.longest) for number, shards in by_source)
        for task, outcome in pool.run(tasks, together):
            shard, result = task.shard, outcome.result
            for message in result.reading.warnings if outcome.status == "done" else ():
                if message not in warned:
                    warn_caller(message)
                warned.add(message)
            if outcome.status != "done":
                failures[shard.number] = f"the worker {outcome.reason}" if outcome.status == "ended" else outcome.reason
                again.append(shard)
                if len(again) >= max(FAILURES_BEFORE_GIVING_UP, 2 * together) and not work.done:
                    raise InputError(
                        f"the first {len(again)} shards failed; the last one: {failures[shard.number]}. Use fewer"
                        " workers or shorter lines (--max-line-bytes)."
                    )
                continue
            # Rows of another version of the input are not kept: its lines may be as long as before.
            sources[shard.source].check_unchanged()
            if result.rows is None:
                bad = BadLine(job.inputs[shard.source], *result.bad[0])
                more = f" (and {len(result.bad) - 1:,} more)" if len(result.bad) > 1 else ""
                failures[shard.number] = f"{bad}{more}"
            else:
                folder.add_done(result)
                failures.pop(shard.number, None)
                work.done += shard.lines
        todo = sorted(again)  # shards fail in any order, but compressed inputs are read from their start
    return failures


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
