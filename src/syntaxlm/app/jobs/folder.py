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
from pathlib import Path
from typing import Any

from syntaxlm.app.jobs.lines import BadLine
from syntaxlm.app.jobs.shards import Shard
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
from syntaxlm.core.tables import format_cells

JOB, SHARDS, DONE, BAD_LINES, REPORT, ROWS = (
    "job.json", "shards.jsonl", "done.jsonl", "bad-lines.tsv", "report.json", "rows",
)  # fmt: skip
SCHEMA_VERSION = 1

_SHOWN = 8  # differing settings in a message
_SHOWN_LINE = 60  # characters of a damaged line in a message

# The types of settings, and how messages call them. A list contains values of one type, an object has these entries.
_TYPES: dict[str, tuple[Any, str]] = {
    "version": (str, "text"),
    "command": (str, "text"),
    "model_sha256": ([str], "a list of texts"),
    "options": (dict, "an object"),
    "inputs": (
        [{"name": str, "bytes": int, "modified": int}],
        'a list of objects with the entries "name", "bytes" and "modified"',
    ),
    "column": ((str, type(None)), "text or null"),
    "id_column": ((str, type(None)), "text or null"),
    "lines_per_shard": (int, "a whole number"),
    "max_line_bytes": (int, "a whole number"),
}

_MAGIC = b"PAR1"  # the first and last bytes of a Parquet file
_SMALLEST = 12  # bytes of a Parquet file: the length of its footer, and these bytes twice


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

    def is_started(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the folder has the shards of a job with these settings.

        Raises InputError if job.json is damaged; and, if a shard is done, for other settings, naming the differences.
        """
        if not (self.path / JOB).exists():
            return False
        content = parse_json(read_stored(self.path / JOB), str(self.path / JOB))
        before = content.get("settings") if isinstance(content, dict) else None
        if not isinstance(before, dict):
            raise InputError(f'{self.path / JOB}: damaged: expected the entry "settings". Name a new folder.')
        for name, (type_, expected) in _TYPES.items():
            if name in before and not _has_type(before[name], type_):
                shown = shortened(to_json(before[name]), _SHOWN_LINE)
                raise InputError(
                    f"{self.path / JOB}: damaged: settings.{name}: found {shown}; expected {expected}. Name a"
                    " new folder."
                )
        found = _differences(before, json.loads(to_json(settings)))
        if not found:
            return True
        if next(self._done_lines(), None) is None:
            return False
        shown = "\n".join(f"  {one}" for one in found[:_SHOWN]) + ("\n  ..." if len(found) > _SHOWN else "")
        raise InputError(
            f"{self.path}: contains a job with other settings:\n{shown}\nRestore them to continue the job, or"
            " name a new folder."
        )

    def start(self, settings: Mapping[str, Any], shards: Sequence[Shard]) -> None:
        """Store a new job."""
        for path in (self.path / JOB, self.path / DONE, *self.rows.glob("part-*.parquet")):
            _remove(path)
        write_text("".join(to_json(shard) + "\n" for shard in shards), self.path / SHARDS, stored=True)
        content = {"schema_version": SCHEMA_VERSION, "settings": settings}
        write_text(to_json(content, indent=2) + "\n", self.path / JOB, stored=True)

    def shards(self, inputs: int) -> list[Shard]:
        """Return all shards of the job, in order. inputs: their number. Raises InputError if the file is damaged."""
        path = self.path / SHARDS
        shards: list[Shard] = []
        for line in read_stored(path).splitlines():
            found = _values(line)
            if len(found) == len(Shard._fields) and _has_type(found, [int]):
                shard = Shard(*found)
                if shard.number == len(shards) and 0 <= shard.source < inputs and shard.first >= 1 and shard.lines >= 1:
                    shards.append(shard)
                    continue
            raise InputError(
                f"{path}, line {len(shards) + 1:,}: damaged: found {_shown(line)}; expected the six numbers of shard"
                f" {len(shards):,}. Name a new folder."
            )
        return shards

    def done(self, shards: Sequence[Shard]) -> dict[int, ShardResult]:
        """Return the results of the shards that are done, by their numbers, without their bad lines.

        A shard is done if it was noted and its Parquet file is intact. Raises InputError if the list is damaged, or a
        file cannot be read.
        """
        found = {number: result._replace(bad=()) for number, result, _ in self._done_lines()}
        if found and not 0 <= min(found) <= max(found) < len(shards):
            raise InputError(f"{self.path / DONE}: damaged: found other shards than in {SHARDS}. Name a new folder.")
        return {
            number: one
            for number, one in found.items()
            if _is_intact(self.rows / shards[number].file_name, one.file_size)
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

    def _done_lines(self) -> Iterator[tuple[int, ShardResult, int]]:
        """Yield the number and the result of each shard that was noted, and the place of its line in the file.

        A line that was cut short when the job was killed is removed. A shard may be noted twice.
        """
        path = self.path / DONE
        if not os.path.lexists(path):
            return
        place = 0
        with open_stored(path) as file:
            for line_number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                found = _noted(line)
                if found is None:
                    raise InputError(
                        f"{path}, line {line_number:,}: damaged: found {_shown(line)}; expected the number of a shard,"
                        " rows, bad lines, seconds, memory and file size. Remove this line to do its shard again, or"
                        " name a new folder."
                    )
                yield *found, place
                place += len(line)
        if place < path.stat().st_size:
            truncate_stored(path, place)

    def write_bad_lines(self, shards: Sequence[Shard], names: Sequence[str]) -> int:
        """Write the bad lines of all shards that are done, in the order of the input. Returns their number.

        names: of the inputs.
        """
        places = {number: place for number, result, place in self._done_lines() if result.bad}

        def bad_lines() -> Iterator[BadLine]:
            with open_stored(self.path / DONE) as file:
                for number in sorted(places):
                    file.seek(places[number])
                    for line, reason in json.loads(file.readline())[2]:
                        yield BadLine(names[shards[number].source], line, reason)

        return self.write_table_of(bad_lines() if places else ())

    def write_table_of(self, bad_lines: Iterable[BadLine]) -> int:
        """Write bad lines as a table, or remove the table if there is none. Returns their number."""
        path = self.path / BAD_LINES
        count = 0
        with replaced(path, stored=True) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(format_cells(BadLine._fields) + "\n")
            for one in bad_lines:
                file.write(format_cells([one.file, str(one.line), one.reason.replace("\n", " ")]) + "\n")
                count += 1
        if not count:
            path.unlink()
        return count

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


def _noted(line: bytes) -> tuple[int, ShardResult] | None:
    """Return the number of a shard and its result, from a line of done.jsonl; None if it is damaged.

    Earlier versions did not note the size of the Parquet file.
    """
    found = _values(line)
    if len(found) == len(ShardResult._fields):
        found.append(None)
    size_type = (int, type(None))
    types = (int, int, [list], (int, float), size_type, size_type)
    if len(found) != len(types) or not all(map(_has_type, found, types)):
        return None
    number, rows, bad, *rest = found
    if any(list(map(type, one)) != [int, str] for one in bad):
        return None
    return number, ShardResult(rows, tuple((at, why) for at, why in bad), *rest)


def _values(line: bytes) -> list[Any]:
    """Return the values of a list in JSON; none if it is anything else."""
    try:
        found = json.loads(line)
    except (RecursionError, ValueError):
        return []
    return found if isinstance(found, list) else []


def _shown(line: bytes) -> str:
    return repr(shortened(line.decode(errors="replace").strip(), _SHOWN_LINE))


def _has_type(value: Any, type_: Any) -> bool:
    """Return whether a value of JSON has a type, one of several types (a tuple), or one of those described at
    `_TYPES`.
    """
    if isinstance(type_, tuple):
        return any(_has_type(value, one) for one in type_)
    if isinstance(type_, list):
        return isinstance(value, list) and all(_has_type(one, type_[0]) for one in value)
    if isinstance(type_, dict):
        return isinstance(value, dict) and all(_has_type(value.get(name), inner) for name, inner in type_.items())
    return type(value) is type_  # not isinstance: true is not a number


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


def is_in(path: str, folder: Path) -> bool:
    """Return whether a file is in a folder or below it."""
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents
