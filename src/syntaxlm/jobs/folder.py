"""The folder of a job: its settings, its shards, and which of them are done.

- job.json: the settings. It is written last, so a folder without it has no shards yet.
- shards.jsonl: the shards, one list of numbers per line.
- done.jsonl: what workers reported, one line per shard that is done. Its Parquet file was written before. The shard is
  done again if the file is missing or damaged.
- rows/part-0000000.parquet, ...: the rows, a file per shard.
- bad-lines.tsv, report.json: written at the end of every run.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, cast

import pydantic

from syntaxlm.core.declarations import LARGEST_COUNT
from syntaxlm.core.errors import InputError, amount, listed, shortened
from syntaxlm.core.files import (
    append_stored,
    check_stored,
    make_and_lock,
    make_folder,
    open_stored,
    parse_json,
    read_stored,
    remove_empty,
    remove_file,
    remove_unfinished,
    replaced,
    sha256,
    system_error,
    to_json,
    truncate_stored,
    visible_entries,
    write_text,
)
from syntaxlm.core.settings import read_settings
from syntaxlm.jobs.inputs import BadLine, Shard
from syntaxlm.jobs.work import ShardResult, file_hash
from syntaxlm.reports.writers import format_cells

JOB, SHARDS, DONE, BAD_LINES, REPORT, ROWS = (
    "job.json", "shards.jsonl", "done.jsonl", "bad-lines.tsv", "report.json", "rows",
)  # fmt: skip
SCHEMA_VERSION = 1

T = TypeVar("T")

BAD_LINES_NAMED = 5  # bad lines in a message
_DIFFERENCES_NAMED = 8
_LINE_CHARACTERS = 60  # of a damaged line


@dataclass(frozen=True)
class InputState:
    """An input when the job was started, with its size and the time of its last change."""

    name: str
    bytes: int
    modified: int


@dataclass(frozen=True)
class JobSettings:
    """What determines the rows and shards of a job."""

    version: str
    command: str
    model_sha256: tuple[str, ...]
    options: dict[str, Any]
    inputs: tuple[InputState, ...]
    column: str | None
    id_column: str | None
    lines_per_shard: int
    max_line_bytes: int


@dataclass(frozen=True)
class JobFile:
    """The content of job.json.

    Attributes:
        shards_sha256: SHA-256 hash of shards.jsonl.
    """

    settings: JobSettings
    shards_sha256: str
    schema_version: int = SCHEMA_VERSION


class JobFolder:
    """The folder of a job, which no other process may use at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = path / ROWS

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[JobFolder]:
        """Make the folder if needed, and lock it while the block runs.

        Raises:
            InputError: if another process uses it, if it contains files that do not belong to a job, and if its folder
                of rows is a link.
        """
        with ExitStack() as stack:
            made = make_and_lock(path, stack)
            stack.callback(lambda: remove_empty([path / ROWS, *made]))  # before the lock is released
            of_job = (JOB, SHARDS, DONE, BAD_LINES, REPORT, ROWS)
            others = [entry.name for entry in visible_entries(path) if entry.name not in of_job]
            if others:
                raise InputError(
                    f"{path}: contains files that do not belong to a job: {listed(others)}. Name a new folder."
                )
            if os.path.islink(path / ROWS):  # to the rows of another job, perhaps
                raise InputError(f"{path / ROWS}: is a link; expected a folder of this job. Name a new folder.")
            make_folder(path / ROWS)
            remove_unfinished(path)
            remove_unfinished(path / ROWS)
            for name in (BAD_LINES, REPORT):  # found now, not when the shards have been done
                check_stored(path / name)
            yield cls(path)

    def is_started(self, settings: JobSettings) -> bool:
        """Return whether the folder has the shards of a job with these settings.

        Raises:
            InputError: if job.json is damaged; and, if a shard is done, if it is missing, or for other settings, naming
                the differences.
        """
        path = self.path / JOB
        if not path.exists():
            if done := self._done_lines():
                raise InputError(
                    f"{path}: is missing; expected the settings of the job. {amount(len(done), 'shard')} in {DONE}"
                    " would be done again: restore the file, or name a new folder."
                )
            return False
        content = parse_json(read_stored(path), str(path))
        try:
            read_settings(JobFile, content, f"{path}: damaged", most=LARGEST_COUNT)  # with all inputs
        except InputError as error:
            raise InputError(f"{error}. Name a new folder.") from None
        before = _flat(content["settings"])
        now = _flat(json.loads(to_json(asdict(settings))))
        values = [(name, before.get(name, "not set"), now.get(name, "not set")) for name in {**before, **now}]
        changed, names = _changed_inputs(content["settings"].get("inputs", []), settings.inputs)
        differences = changed + [
            f"  {name}: {old} before, {new} now"
            for name, old, new in values
            if old != new and not name.startswith(names)
        ]
        if not differences:
            return True
        if not self._done_lines():
            return False
        shown = differences[:_DIFFERENCES_NAMED] + ["  ..."] * (len(differences) > _DIFFERENCES_NAMED)
        raise InputError(
            f"{self.path}: contains a job with other settings:\n" + "\n".join(shown) + "\nRestore them to continue the"
            " job, or name a new folder."
        )

    def start(self, settings: JobSettings, shards: Sequence[Shard]) -> None:
        """Store a new job."""
        for path in (self.path / JOB, self.path / DONE, *self.rows.glob("part-*.parquet")):
            remove_file(path)
        lines = "".join(to_json(shard) + "\n" for shard in shards)
        write_text(lines, self.path / SHARDS, stored=True)
        job = JobFile(settings, sha256([lines.encode()]))
        write_text(to_json(asdict(job), indent=2) + "\n", self.path / JOB, stored=True)

    def shards(self) -> list[Shard]:
        """Return all shards of the job, in order. Raises InputError if the file has changed since the job started."""
        path = self.path / SHARDS
        content = read_stored(path)
        job = parse_json(read_stored(self.path / JOB), str(self.path / JOB))
        shards = [_read(Shard, line) for line in content.splitlines()]
        if sha256([content]) != job["shards_sha256"] or None in shards:
            raise InputError(f"{path}: damaged: found other shards than at the start of the job. Name a new folder.")
        return cast(list[Shard], shards)

    def done(self, shards: Sequence[Shard], reads: bool = True) -> dict[int, ShardResult]:
        """Return the results of the shards that are done, by their numbers, with at most one bad line.

        A shard is done if it was noted and its Parquet file is intact. The Parquet files of other shards are removed,
        such as damaged files; links are not followed.

        Args:
            reads: whether the content of the files is compared with its noted hash, besides their size.

        Raises:
            InputError: if the list is damaged, or a file cannot be read or removed.
        """
        results = {result.number: result for result, _ in self._done_lines()}
        if results and not 0 <= min(results) <= max(results) < len(shards):
            raise InputError(f"{self.path / DONE}: damaged: found other shards than in {SHARDS}. Name a new folder.")
        done = {}
        for shard in shards:
            path = self.rows / shard.file_name
            result = results.get(shard.number)
            if result is not None and _is_intact(path, result, reads):
                done[shard.number] = result
            else:
                remove_file(path)
        return done

    def add_done(self, result: ShardResult) -> None:
        """Note that a shard is done; its Parquet file exists."""
        append_stored((to_json(result) + "\n").encode(), self.path / DONE)

    def _done_lines(self) -> list[tuple[ShardResult, int]]:
        """Return the shards that were noted, with at most one bad line, and the place of their lines in the file.

        A line that was cut short when the job was killed is removed. A shard may be noted twice.
        """
        path = self.path / DONE
        if not os.path.lexists(path):
            return []
        noted: list[tuple[ShardResult, int]] = []
        place = 0
        with open_stored(path) as file:
            for line_number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                result = _read(ShardResult, line)
                if result is None:
                    expected = (
                        "expected the number of a shard, rows, bad lines, seconds, memory, file size and hash. Remove"
                        " this line to do its shard again, or name a new folder."
                    )
                    raise _damaged(path, line_number, line, expected)
                noted.append((result._replace(bad=result.bad[:1]), place))
                place += len(line)
        if place < path.stat().st_size:
            truncate_stored(path, place)
        return noted

    def bad_lines(self, shards: Sequence[Shard], names: Sequence[str]) -> Iterator[BadLine]:
        """Yield the bad lines of all shards that are done, in the order of the input.

        Args:
            names: the names of the inputs.
        """
        places = {result.number: place for result, place in self._done_lines() if result.bad}
        if not places:
            return
        with open_stored(self.path / DONE) as file:
            for number in sorted(places):
                file.seek(places[number])
                for line, reason in json.loads(file.readline())[2]:
                    yield BadLine(names[shards[number].source], line, reason)

    def write_bad_lines(self, bad_lines: Iterable[BadLine]) -> tuple[int, list[BadLine]]:
        """Write the file of bad lines; without any, it is removed. Returns their number, and the first ones."""
        path = self.path / BAD_LINES
        lines = iter(bad_lines)
        first = list(islice(lines, BAD_LINES_NAMED))
        if not first:
            path.unlink(missing_ok=True)
            return 0, first
        with replaced(path, stored=True) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(format_cells(BadLine._fields) + "\n")
            count = 0
            for line in chain(first, lines):
                count += 1
                file.write(format_cells([line.file, str(line.line), line.reason.replace("\n", " ")]) + "\n")
        return count, first

    def write_report(self, report: Mapping[str, Any]) -> None:
        write_text(to_json(report, indent=2) + "\n", self.path / REPORT, stored=True)


def _changed_inputs(
    before: Sequence[Mapping[str, Any]], now: Sequence[InputState]
) -> tuple[list[str], tuple[str, ...]]:
    """Return a line for each input that has changed, and the starts of the names of the settings of these lines."""
    lines, names = [], []
    for number, (old, new) in enumerate(zip(before, now, strict=False), 1):
        if old["name"] == new.name and (old["bytes"], old["modified"]) != (new.bytes, new.modified):
            was, is_now = _state(old["bytes"], old["modified"]), _state(new.bytes, new.modified)
            lines.append(f"  {new.name}: has changed: {was} before, {is_now} now")
            names.append(f"inputs.{number}.")
    return lines, tuple(names)


def _state(size: int, modified: int) -> str:
    """Return the size of a file and the time of its last change, in nanoseconds, for a message."""
    time = datetime.fromtimestamp(modified / 1e9).isoformat(" ", "milliseconds")
    return f"{amount(size, 'byte')} of {time}"


def _is_intact(path: Path, noted: ShardResult, reads: bool) -> bool:
    """Return whether a path is a regular file, not a link, with the noted size and, if it is read, content.

    Raises:
        InputError: if the file cannot be read: it may be intact.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise system_error(path, "read", error) from error
    if not stat.S_ISREG(status.st_mode) or status.st_size != noted.file_size:
        return False
    return not reads or file_hash(path) == noted.sha256


def _read(kind: type[T], line: bytes) -> T | None:
    """Return a named tuple from a line of JSON; None if it is damaged."""
    try:
        return pydantic.TypeAdapter(kind).validate_json(line, strict=True)
    except pydantic.ValidationError:
        return None


def _damaged(path: Path, number: int, line: bytes, expected: str) -> InputError:
    shown = shortened(line.decode(errors="replace").strip(), _LINE_CHARACTERS)
    return InputError(f"{path}, line {number:,}: damaged: found {shown!r}; {expected}")


def _flat(settings: Any, name: str = "") -> dict[str, str]:
    """Return settings as JSON by their dotted names; items of lists have numbers from 1."""
    if isinstance(settings, dict) and settings:
        items: Iterable[tuple[Any, Any]] = settings.items()
    elif isinstance(settings, list) and settings:
        items = enumerate(settings, 1)
    else:
        return {name: to_json(settings)}
    return {key: value for part, inner in items for key, value in _flat(inner, f"{name}.{part}".lstrip(".")).items()}
