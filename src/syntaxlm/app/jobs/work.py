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
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from syntaxlm.app.jobs.inputs import IdType, Line, ShardTask
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


def job_columns(columns: Columns, id_type: IdType | None) -> Columns:
    """Return the columns of the rows of a job: also the file and, if there are ids, the id of each sentence."""
    first = {"file": Column("text", "name of the input, as given to the job")}
    if id_type is not None:
        first["id"] = Column(id_type, "value of the column of ids")
    return Columns(columns.name, columns.row, {**first, **columns})


class ShardResult(NamedTuple):
    """What a worker reports about a shard.

    rows: number of rows written; None if the shard was not written, because of its bad lines.
    bad: number and reason of each bad line.
    seconds: processor time.
    memory: the largest memory of the worker so far, in bytes; None if it is not known.
    file_size: of the Parquet file, in bytes; None if it is not known.
    """

    rows: int | None
    bad: tuple[tuple[int, str], ...]
    seconds: float
    memory: int | None
    file_size: int | None = None


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

    def __call__(self, number: int) -> ShardWriter:
        """Load the models in a worker. Raises InputError as `Work.load` does.

        number: of the worker, from 0.
        """
        device = self.device
        if device == "cuda":
            import torch

            device = f"cuda:{number % max(1, torch.cuda.device_count())}"
        return ShardWriter(self, self.work.load(device))


class ShardWriter:
    """Loaded models that write shards.

    description: SHA-256 hashes of the models, which must be the same in all workers.
    """

    def __init__(self, setup: Setup, loaded: Loaded) -> None:
        self._setup, self._loaded = setup, loaded
        self.description = loaded.sha256

    def __call__(self, task: ShardTask) -> ShardResult:
        """Write the Parquet file of a shard, atomically.

        Raises InputError if the input cannot be read, or the output cannot be written.
        """
        from pyarrow.parquet import read_metadata

        start = time.process_time()
        bad: list[tuple[int, str]] = []
        path = Path(self._setup.folder) / task.shard.file_name
        try:
            write_parquet(self._rows(task, bad), job_columns(self._loaded.columns, self._setup.id_type), path)
        except _StoppedError:
            return ShardResult(None, tuple(bad), time.process_time() - start, peak_memory())
        count, size = read_metadata(path).num_rows, path.stat().st_size
        return ShardResult(count, tuple(sorted(bad)), time.process_time() - start, peak_memory(), size)

    def _rows(self, task: ShardTask, bad: list[tuple[int, str]]) -> Iterator[Row]:
        """Yield the rows of a shard. Bad lines are added to `bad`; raises _StoppedError for them, unless skipped."""
        lines = task.source.lines(task, self._setup.longest)
        while chunk := list(islice(lines, self._loaded.together)):
            bad += [(line.number, line.fault) for line in chunk if line.fault is not None]
            first = chunk[0].number
            rows = self._rows_of([self._text_of(line, task, bad) for line in chunk], first, bad)
            if bad and self._setup.bad_lines == "stop":
                raise _StoppedError
            for row in rows:
                origin: dict[str, Any] = {"file": task.source.name}
                if self._setup.id_type is not None:
                    origin["id"] = chunk[row["sentence"] - first].id
                yield {**origin, **row}

    def _text_of(self, line: Line, task: ShardTask, bad: list[tuple[int, str]]) -> str:
        """Return the text of a line as the models read it: without tags, if it has tags and they do not read them."""
        from syntaxlm.data.corpora import is_tagged
        from syntaxlm.text.normaliser import without_tags

        if self._loaded.reads_tags or not is_tagged(task.source.name):
            return line.text
        try:
            return without_tags(line.text)
        except InputError as error:
            bad.append((line.number, str(error)))
            return ""

    def _rows_of(
        self, lines: Sequence[str], first: int, bad: list[tuple[int, str]], tried_before: bool = False
    ) -> list[Row]:
        """Return the rows of lines. If the models refuse some, halves are tried until each refused line is found.

        tried_before: show warnings only if the models do not refuse the lines again.
        """
        try:
            with warnings.catch_warnings(record=tried_before) as caught:
                rows = self._loaded.rows(lines, first)
        except InputError as error:
            if len(lines) == 1:
                bad.append((first, str(error).removeprefix(f"sentence {first}: ")))  # the line is shown before it
                return []
            middle = len(lines) // 2
            return [
                *self._rows_of(lines[:middle], first, bad, tried_before=True),
                *self._rows_of(lines[middle:], first + middle, bad, tried_before=True),
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
