"""What a worker does: load the models once, then turn shards into Parquet files.

Settings are sent to workers, which set the number of threads before torch is imported: only functions import it, and
what imports slowly.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from syntaxlm.app.jobs.inputs import IdType, ShardTask
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import sha256
from syntaxlm.core.tables import Column, Columns, Row, write_parquet
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.scoring.options import ScoreOptions

if TYPE_CHECKING:
    from syntaxlm.storage.folder import ModelBundle

BadLines = Literal["stop", "skip"]
RowsOf = Callable[[Sequence[str], int], list[Row]]


class Loaded(NamedTuple):
    """Loaded models with the function lines -> rows.

    rows: returns the rows of lines of text; its second argument is the number of the first line.
    together: number of lines that it takes at a time.
    columns: of the rows.
    reads_tags: whether the models read tagged text.
    sha256: of each model.
    """

    rows: RowsOf
    together: int
    columns: Columns
    reads_tags: bool
    sha256: tuple[str, ...]


@dataclass(frozen=True)
class Work(ABC):
    """What workers do with text. models: names or absolute paths of the models."""

    command: ClassVar[str]
    models: tuple[str, ...]

    @abstractmethod
    def load(self, device: str) -> Loaded:
        """Load the models. Raises InputError for a model that cannot be loaded, or does not support the options."""

    def to_dict(self) -> dict[str, Any]:
        """Return the options that determine the rows, without the models."""
        options = asdict(self)
        del options["models"]
        inner: dict[str, Any] = options.pop("options", options)
        return inner


@dataclass(frozen=True)
class ParseWork(Work):
    """Parsing."""

    command = "parse"
    options: ParseOptions

    def load(self, device: str) -> Loaded:
        from syntaxlm.parsing.parse import CONSTITUENTS, parse_lines

        bundles = [_load(name, device) for name in self.models]

        def rows(lines: Sequence[str], first: int) -> list[Row]:
            parses = parse_lines(bundles, lines, self.options, first, self.models)
            return [row for parse in parses for row in parse.rows()]

        rows([], 1)  # raises InputError
        tagged = any(bundle.normaliser.units == "tags" for bundle in bundles)
        return Loaded(rows, LINES_TOGETHER, CONSTITUENTS, tagged, tuple(map(model_hash, bundles)))


@dataclass(frozen=True)
class ScoreWork(Work):
    """Scoring. Every sentence is read by itself."""

    command = "score"
    options: ScoreOptions

    def load(self, device: str) -> Loaded:
        from syntaxlm.scoring.surprisal import SURPRISALS, surprisals

        (name,) = self.models
        bundle = _load(name, device)
        if bundle.model.reads == "trees":
            raise InputError(f"{name}: a dependency-tree model reads trees; expected a model that reads text")
        if bundle.mode.carry_state and self.options.context is None:
            raise InputError(
                f"{name}: was trained on text as one stream, and by default scores each sentence after those before it."
                " The shards of a job are scored independently. Add --context reset to read each sentence by itself"
            )

        def rows(lines: Sequence[str], first: int) -> list[Row]:
            scored = surprisals(bundle, lines, replace(self.options, context="reset"))
            return [word._asdict() | {"sentence": word.sentence + first - 1} for words in scored for word in words]

        rows([], 1)  # raises InputError
        return Loaded(rows, LINES_TOGETHER, SURPRISALS, bundle.normaliser.units == "tags", (model_hash(bundle),))


def _load(name: str, device: str) -> ModelBundle:
    from syntaxlm.storage.sources import read_named

    return read_named(name, device)[0]


def model_hash(stored: ModelBundle) -> str:
    """Return the SHA-256 hash of a model's settings, vocabulary and weights, wherever it was loaded from."""
    import torch

    from syntaxlm.storage.folder import distinct_tensors

    def parts() -> Iterator[bytes | memoryview]:
        yield json.dumps(asdict(stored.settings), sort_keys=True, default=str).encode()
        if not stored.vocabulary.is_open:
            yield stored.vocabulary.fingerprint().encode()
        for name, tensor in sorted(distinct_tensors(stored.model).items()):
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            yield tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data

    return sha256(parts())


class ShardResult(NamedTuple):
    """What a worker reports about a shard, and a line of done.jsonl.

    number: of the shard.
    rows: number of rows written; None if the shard was not written, because of its bad lines.
    bad: number and reason of each bad line.
    seconds: processor time.
    memory: the largest memory of the worker so far, in bytes; None if it is not known.
    file_size: of the Parquet file, in bytes; None if it was not written.
    """

    number: int
    rows: int | None
    bad: tuple[tuple[int, str], ...]
    seconds: float
    memory: int | None
    file_size: int | None


class _StoppedError(Exception):
    """Raised if a shard has bad lines, and these are not to be skipped."""


@dataclass(frozen=True)
class Setup:
    """What a worker is started with; a call loads the models.

    folder: where the Parquet files are written.
    longest: maximum number of bytes of a line.
    """

    work: Work
    folder: str
    longest: int
    bad_lines: BadLines = "stop"
    id_type: IdType | None = None
    device: str = "cpu"

    def __call__(self, number: int) -> tuple[tuple[str, ...], Callable[[ShardTask], ShardResult]]:
        """Load the models in a worker. Returns their SHA-256 hashes, and a function that writes a shard.

        number: of the worker, from 0.
        Raises InputError as `Work.load` does.
        """
        device = self.device
        if device == "cuda":
            import torch

            device = f"cuda:{number % max(1, torch.cuda.device_count())}"
        loaded = self.work.load(device)
        return loaded.sha256, partial(self._write, loaded)

    def _write(self, loaded: Loaded, task: ShardTask) -> ShardResult:
        """Write the Parquet file of a shard, atomically.

        Raises InputError if the input cannot be read, or the output cannot be written.
        """
        from pyarrow.parquet import read_metadata

        start = time.process_time()
        bad: list[tuple[int, str]] = []
        path = Path(self.folder) / task.shard.file_name
        added = {"file": Column("text", "name of the input, as given to the job")}
        if self.id_type is not None:
            added["id"] = Column(self.id_type, "value of the column of ids")
        columns = Columns(loaded.columns.name, loaded.columns.row, {**added, **loaded.columns})
        count = size = None
        try:
            write_parquet(self._rows(loaded, task, bad), columns, path)
            count, size = read_metadata(path).num_rows, path.stat().st_size
        except _StoppedError:
            pass
        seconds = time.process_time() - start
        return ShardResult(task.shard.number, count, tuple(sorted(bad)), seconds, peak_memory(), size)

    def _rows(self, loaded: Loaded, task: ShardTask, bad: list[tuple[int, str]]) -> Iterator[Row]:
        """Yield the rows of a shard. Bad lines are added to `bad`; raises _StoppedError for them, unless skipped."""
        from syntaxlm.data.corpora import is_tagged
        from syntaxlm.text.normaliser import without_tags

        drops_tags = is_tagged(task.source.name) and not loaded.reads_tags
        lines = task.source.lines(task, self.longest)
        while chunk := list(islice(lines, loaded.together)):
            texts = []
            for line in chunk:
                text, reason = line.text, line.fault
                try:
                    text = without_tags(text) if drops_tags else text
                except InputError as error:
                    text, reason = "", str(error)
                texts.append(text)
                if reason is not None:
                    bad.append((line.number, reason))
            first = chunk[0].number
            rows = _rows_of(loaded.rows, texts, first, bad)
            if bad and self.bad_lines == "stop":
                raise _StoppedError
            for row in rows:
                origin: dict[str, Any] = {"file": task.source.name}
                if self.id_type is not None:
                    origin["id"] = chunk[row["sentence"] - first].id
                yield {**origin, **row}


def _rows_of(
    rows_of: RowsOf, lines: Sequence[str], first: int, bad: list[tuple[int, str]], tried_before: bool = False
) -> list[Row]:
    """Return the rows of lines. If the models refuse some, halves are tried until each refused line is found.

    first: number of the first line.  bad: refused lines are added to it.
    tried_before: show warnings only if the models do not refuse the lines again.
    """
    try:
        with warnings.catch_warnings(record=tried_before) as caught:
            rows = rows_of(lines, first)
    except InputError as error:
        if len(lines) == 1:
            bad.append((first, str(error).removeprefix(f"sentence {first}: ")))  # the line is shown before it
            return []
        middle = len(lines) // 2
        return [
            *_rows_of(rows_of, lines[:middle], first, bad, tried_before=True),
            *_rows_of(rows_of, lines[middle:], first + middle, bad, tried_before=True),
        ]
    for warning in caught or ():
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return rows


def peak_memory() -> int | None:
    """Return the largest memory that this process has had, in bytes; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
