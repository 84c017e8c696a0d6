"""The folder of a job: its settings, its shards, and which of them are done.

- job.json: the settings. It is written last, so a folder without it has no shards yet.
- shards.jsonl: the shards, one list of numbers per line.
- done.jsonl: what workers reported, one line per shard that is done. Its Parquet file was written before.
- rows/part-0000000.parquet, ...: the rows, a file per shard.
- bad-lines.tsv, report.json: written at the end of every run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from syntaxlm.errors import InputError
from syntaxlm.files import (
    append_stored,
    held,
    make_folder,
    open_stored,
    parse_json,
    read_stored,
    remove_empty,
    remove_unfinished,
    replaced,
    to_json,
    truncate_stored,
    write_text,
)
from syntaxlm.jobs.lines import BadLine
from syntaxlm.jobs.shards import Shard
from syntaxlm.jobs.work import ShardResult
from syntaxlm.result_tables import format_cells

JOB, SHARDS, DONE, BAD_LINES, REPORT, ROWS = (
    "job.json", "shards.jsonl", "done.jsonl", "bad-lines.tsv", "report.json", "rows",
)  # fmt: skip
SCHEMA_VERSION = 1

_SHOWN = 8  # differing settings in a message


class JobFolder:
    """The folder of a job, which no other process may use at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = path / ROWS

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[JobFolder]:
        """Makes the folder if needed, and locks it while the block runs.

        Raises InputError if another process uses it, or it contains files that do not belong to a job.
        """
        made = make_folder(path)
        try:
            with held(path):
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
        return self

    def is_started(self, settings: Mapping[str, Any]) -> bool:
        """Whether the folder has the shards of a job with these settings.

        Raises InputError naming the differences if it has a job with other settings, of which a shard is done.
        """
        if not (self.path / JOB).exists():
            return False
        content = parse_json(read_stored(self.path / JOB), str(self.path / JOB))
        before = content.get("settings") if isinstance(content, dict) else None
        if not isinstance(before, dict):
            raise InputError(f'{self.path / JOB}: expected the entry "settings". Name a new folder.')
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
        """Stores a new job."""
        for name in (JOB, DONE):
            (self.path / name).unlink(missing_ok=True)
        for path in self.rows.glob("part-*.parquet"):
            path.unlink()
        write_text("".join(to_json(shard) + "\n" for shard in shards), self.path / SHARDS, stored=True)
        content = {"schema_version": SCHEMA_VERSION, "settings": settings}
        write_text(to_json(content, indent=2) + "\n", self.path / JOB, stored=True)

    def shards(self, inputs: int) -> list[Shard]:
        """All shards of the job, in order. inputs: their number. Raises InputError if the file is damaged."""
        path = self.path / SHARDS
        try:
            shards = [Shard(*map(int, json.loads(line))) for line in read_stored(path).splitlines()]
            if any(one.number != place or not 0 <= one.source < inputs for place, one in enumerate(shards)):
                raise ValueError("wrong numbers")
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: damaged: {error}. Name a new folder.") from None
        return shards

    def done(self, shards: Sequence[Shard]) -> dict[int, ShardResult]:
        """The results of the shards that are done, by their numbers, without their bad lines.

        Raises InputError if the list is damaged.
        """
        found = {number: result._replace(bad=()) for number, result, _ in self._done_lines()}
        if found and not 0 <= min(found) <= max(found) < len(shards):
            raise InputError(f"{self.path / DONE}: damaged: found other shards than in {SHARDS}. Name a new folder.")
        return {number: one for number, one in found.items() if (self.rows / shards[number].file_name).exists()}

    def add_done(self, shard: Shard, result: ShardResult) -> None:
        """Notes that a shard is done; its Parquet file exists."""
        append_stored((to_json([shard.number, *result]) + "\n").encode(), self.path / DONE)

    def _done_lines(self) -> Iterator[tuple[int, ShardResult, int]]:
        """The number and the result of each shard that was noted, and the place of its line in the file.

        A line that was cut short when the job was killed is removed. A shard may be noted twice.
        """
        path = self.path / DONE
        if not os.path.lexists(path):
            return
        place = 0
        with open_stored(path) as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    number, rows, bad, seconds, memory = json.loads(line)
                    number = int(number)
                    result = ShardResult(rows, tuple((at, why) for at, why in bad), seconds, memory)
                except (TypeError, ValueError) as error:
                    raise InputError(f"{path}: damaged at byte {place:,}: {error}. Name a new folder.") from None
                yield number, result, place
                place += len(line)
        if place < path.stat().st_size:
            truncate_stored(path, place)

    def write_bad_lines(self, shards: Sequence[Shard], names: Sequence[str]) -> int:
        """Writes the bad lines of all shards that are done, in the order of the input. Returns their number.

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
        """Writes bad lines as a table, or removes the table if there is none. Returns their number."""
        path = self.path / BAD_LINES
        count = 0
        with replaced(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(format_cells(BadLine._fields) + "\n")
            for one in bad_lines:
                file.write(format_cells([one.file, str(one.line), one.reason.replace("\n", " ")]) + "\n")
                count += 1
        if not count:
            path.unlink()
        return count

    def write_report(self, report: Mapping[str, Any]) -> None:
        write_text(to_json(report, indent=2) + "\n", self.path / REPORT, stored=True)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Each setting with different values, with both."""
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
    """Whether a file is in a folder or below it."""
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents
