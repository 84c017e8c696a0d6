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
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

import pydantic

from syntaxlm.app.jobs.inputs import BadLine, Shard
from syntaxlm.app.jobs.work import ShardResult
from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.files import (
    append_stored,
    check_stored,
    locked,
    make_folder,
    open_stored,
    parse_json,
    read_stored,
    remove_empty,
    remove_unfinished,
    replaced,
    system_error,
    to_json,
    truncate_stored,
    write_text,
)
from syntaxlm.core.settings import read_settings
from syntaxlm.core.tables import format_cells

JOB, SHARDS, DONE, BAD_LINES, REPORT, ROWS = (
    "job.json", "shards.jsonl", "done.jsonl", "bad-lines.tsv", "report.json", "rows",
)  # fmt: skip
SCHEMA_VERSION = 1

T = TypeVar("T")

SHOWN = 5  # bad lines in a message
_SHOWN_DIFFERENCES = 8
_SHOWN_CHARACTERS = 60  # of a damaged line

_MAGIC = b"PAR1"  # the first and last bytes of a Parquet file
_SMALLEST = 12  # bytes of a Parquet file: the length of its footer, and these bytes twice


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
    """The content of job.json."""

    settings: JobSettings
    schema_version: int = SCHEMA_VERSION


class _DoneLine(NamedTuple):
    """A shard that is done: its number, and the fields of `ShardResult`."""

    number: int
    rows: int | None
    bad: tuple[tuple[int, str], ...]
    seconds: float
    memory: int | None
    file_size: int | None

    @property
    def result(self) -> ShardResult:
        """The result, without its bad lines."""
        return ShardResult(self.rows, (), self.seconds, self.memory, self.file_size)


class BadLineTable:
    """The file with the bad lines, while it is written. count: of all lines.  first: the first ones, for a message."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.count = 0
        self.first: list[BadLine] = []
        file.write(format_cells(BadLine._fields) + "\n")

    def add(self, bad_lines: Iterable[BadLine]) -> None:
        for line in bad_lines:
            self._file.write(format_cells([line.file, str(line.line), line.reason.replace("\n", " ")]) + "\n")
            self.count += 1
            if len(self.first) < SHOWN:
                self.first.append(line)


class JobFolder:
    """The folder of a job, which no other process may use at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = path / ROWS

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[JobFolder]:
        """Make the folder if needed, and locks it while the block runs.

        Raises InputError if another process uses it, or it contains files that do not belong to a job.
        """
        made = make_folder(path)
        try:
            with locked(path):
                yield cls(path)._checked()
        finally:
            remove_empty([path / ROWS, *made])

    def _checked(self) -> JobFolder:
        path = self.path
        visible = sorted(one.name for one in path.iterdir() if not one.name.startswith("."))
        others = [name for name in visible if name not in (JOB, SHARDS, DONE, BAD_LINES, REPORT, ROWS)]
        if others:
            shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
            raise InputError(f"{path}: contains files that do not belong to a job: {shown}. Name a new folder.")
        make_folder(self.rows)
        remove_unfinished(path)
        remove_unfinished(self.rows)
        for name in (BAD_LINES, REPORT):  # found now, not when the shards have been done
            check_stored(path / name)
        return self

    def is_started(self, settings: JobSettings) -> bool:
        """Return whether the folder has the shards of a job with these settings.

        Raises InputError if job.json is damaged; and, if a shard is done, for other settings, naming the differences.
        """
        path = self.path / JOB
        if not path.exists():
            return False
        content = parse_json(read_stored(path), str(path))
        try:
            read_settings(JobFile, content, f"{path}: damaged")
        except InputError as error:
            raise InputError(f"{error}. Name a new folder.") from None
        differences = _differences(content["settings"], json.loads(to_json(asdict(settings))))
        if not differences:
            return True
        if not self._done_lines():
            return False
        shown = "\n".join(f"  {line}" for line in differences[:_SHOWN_DIFFERENCES])
        shown += "\n  ..." if len(differences) > _SHOWN_DIFFERENCES else ""
        raise InputError(
            f"{self.path}: contains a job with other settings:\n{shown}\nRestore them to continue the job, or"
            " name a new folder."
        )

    def start(self, settings: JobSettings, shards: Sequence[Shard]) -> None:
        """Store a new job."""
        for path in (self.path / JOB, self.path / DONE, *self.rows.glob("part-*.parquet")):
            _remove(path)
        write_text("".join(to_json(shard) + "\n" for shard in shards), self.path / SHARDS, stored=True)
        write_text(to_json(asdict(JobFile(settings)), indent=2) + "\n", self.path / JOB, stored=True)

    def shards(self, inputs: int) -> list[Shard]:
        """Return all shards of the job, in order. inputs: their number. Raises InputError if the file is damaged."""
        path = self.path / SHARDS
        shards: list[Shard] = []
        for line in read_stored(path).splitlines():
            shard = _read(Shard, line)
            if shard is None or shard.number != len(shards) or not shard.is_possible(inputs):
                raise InputError(
                    f"{path}, line {len(shards) + 1:,}: damaged: found {_shown(line)}; expected the six numbers of"
                    f" shard {len(shards):,}. Name a new folder."
                )
            shards.append(shard)
        return shards

    def done(self, shards: Sequence[Shard]) -> dict[int, ShardResult]:
        """Return the results of the shards that are done, by their numbers, without their bad lines.

        A shard is done if it was noted and its Parquet file is intact. Raises InputError if the list is damaged, or a
        file cannot be read.
        """
        results = {line.number: line.result for line, _ in self._done_lines()}
        if results and not 0 <= min(results) <= max(results) < len(shards):
            raise InputError(f"{self.path / DONE}: damaged: found other shards than in {SHARDS}. Name a new folder.")
        return {
            number: result
            for number, result in results.items()
            if _is_intact(self.rows / shards[number].file_name, result.file_size)
        }

    def remove_not_done(self, shards: Sequence[Shard], done: Container[int]) -> None:
        """Remove the Parquet files of shards that are not done, such as damaged files. Links are not followed."""
        names = {shard.file_name for shard in shards if shard.number not in done}
        for path in list(self.rows.iterdir()):
            if path.name in names:
                _remove(path)

    def add_done(self, shard: Shard, result: ShardResult) -> None:
        """Note that a shard is done; its Parquet file exists."""
        append_stored((to_json([shard.number, *result]) + "\n").encode(), self.path / DONE)

    def _done_lines(self) -> list[tuple[_DoneLine, int]]:
        """Return the shards that were noted, without their bad lines, and the place of their lines in the file.

        A line that was cut short when the job was killed is removed. A shard may be noted twice.
        """
        path = self.path / DONE
        if not os.path.lexists(path):
            return []
        noted: list[tuple[_DoneLine, int]] = []
        place = 0
        with open_stored(path) as file:
            for line_number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                done = _read(_DoneLine, line)
                if done is None:
                    raise InputError(
                        f"{path}, line {line_number:,}: damaged: found {_shown(line)}; expected the number of a shard,"
                        " rows, bad lines, seconds, memory and file size. Remove this line to do its shard again, or"
                        " name a new folder."
                    )
                noted.append((done._replace(bad=done.bad[:1]), place))
                place += len(line)
        if place < path.stat().st_size:
            truncate_stored(path, place)
        return noted

    def write_bad_lines(self, shards: Sequence[Shard], names: Sequence[str]) -> int:
        """Write the bad lines of all shards that are done, in the order of the input. Returns their number.

        names: of the inputs.
        """
        places = {done.number: place for done, place in self._done_lines() if done.bad}
        with self.bad_line_table() as table:
            if places:
                with open_stored(self.path / DONE) as file:
                    for number in sorted(places):
                        file.seek(places[number])
                        bad = json.loads(file.readline())[2]
                        table.add(BadLine(names[shards[number].source], line, reason) for line, reason in bad)
        return table.count

    @contextmanager
    def bad_line_table(self) -> Iterator[BadLineTable]:
        """Return a table to which the block adds bad lines. It replaces the file, which is removed without any."""
        path = self.path / BAD_LINES
        with replaced(path, stored=True) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            table = BadLineTable(file)
            yield table
        if not table.count:
            path.unlink()

    def write_report(self, report: Mapping[str, Any]) -> None:
        write_text(to_json(report, indent=2) + "\n", self.path / REPORT, stored=True)


def _is_intact(path: Path, size: int | None) -> bool:
    """Return whether a path is a regular file, not a link, that starts and ends like a Parquet file.

    size: its expected size in bytes; None: unknown.
    Raises InputError if the file cannot be read: it may be intact.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise system_error(path, "read", error) from error
    if not stat.S_ISREG(status.st_mode) or status.st_size < _SMALLEST or size not in (None, status.st_size):
        return False
    with open_stored(path) as file:
        start = file.read(len(_MAGIC))
        file.seek(-len(_MAGIC), os.SEEK_END)
        return start == file.read() == _MAGIC


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise system_error(path, "removed", error) from error


def _read(kind: type[T], line: bytes) -> T | None:
    """Return a named tuple from a line of JSON; None if it is damaged."""
    try:
        return pydantic.TypeAdapter(kind).validate_json(line, strict=True)
    except pydantic.ValidationError:
        return None


def _shown(line: bytes) -> str:
    return repr(shortened(line.decode(errors="replace").strip(), _SHOWN_CHARACTERS))


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return each setting with different values, with both."""
    then, found = _flat(before), _flat(now)
    return [
        f"{name}: {to_json(then[name]) if name in then else 'not set'} before,"
        f" {to_json(found[name]) if name in found else 'not set'} now"
        for name in {**then, **found}
        if name not in then or name not in found or then[name] != found[name]
    ]


def _flat(settings: Any, name: str = "") -> dict[str, Any]:
    if isinstance(settings, dict) and settings:
        items: Iterable[tuple[Any, Any]] = settings.items()
    elif isinstance(settings, list) and settings:
        items = enumerate(settings, 1)
    else:
        return {name: settings}
    return {key: value for part, inner in items for key, value in _flat(inner, f"{name}.{part}".lstrip(".")).items()}
