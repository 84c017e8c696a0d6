"""What a worker does with text: it loads the models once, then turns lines into rows.

Settings are sent to workers, which set the number of threads before torch is imported: only functions import it, and
what imports slowly.
"""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import open_stored, sha256
from syntaxlm.data.plain_text import CHARACTERS, PLAIN, TAGGED, LineCounts, TextForm
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.reports.tables import Block, Columns
from syntaxlm.reports.writers import ROWS_PER_GROUP, blocks_of
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.reading_counts import ReadingCounts
from syntaxlm.text.normaliser_settings import Units

if TYPE_CHECKING:
    from syntaxlm.storage.folder import ModelBundle

_PIECE = 1 << 20  # bytes read at a time
RowsOf = Callable[[Sequence[str], int], list[Block]]


class Loaded(NamedTuple):
    """Loaded models with the function lines -> rows.

    Attributes:
        rows: returns the rows of lines of text, in columns; its second argument is the number of the first line.
        columns: the columns of the rows.
        sha256: SHA-256 hash of each model.
        form: the form of text that the models read.
        check: warns of the first lines of an input if the models should not read them; its second argument is the name
            of the input. It raises InputError as `warn_of_doubts` does.
        reading_counts: returns what the models did not know or read in the rows since the last call; None if it is not
            counted.
    """

    rows: RowsOf
    columns: Columns
    sha256: tuple[str, ...]
    form: TextForm = PLAIN
    check: Callable[[Sequence[str], str], None] = lambda lines, name: None
    reading_counts: Callable[[], ReadingCounts | None] = lambda: None


@dataclass(frozen=True)
class Work(ABC):
    """What workers do with text.

    Attributes:
        models: names or absolute paths of the models.
    """

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


def _form_of(units: Iterable[Units]) -> TextForm:
    """Return the form of text that models with these units read together."""
    all_units = set(units)
    return TAGGED if "tags" in all_units else CHARACTERS if "characters" in all_units else PLAIN


@dataclass(frozen=True)
class ParseWork(Work):
    """Parsing."""

    command = "parse"
    options: ParseOptions

    def load(self, device: str) -> Loaded:
        from syntaxlm.parsing.parse import check_text_of, parse_lines
        from syntaxlm.parsing.result import CONSTITUENTS

        bundles = [_load(name, device) for name in self.models]

        def rows(lines: Sequence[str], first: int) -> list[Block]:
            return [parse_lines(bundles, lines, self.options, first, self.models).constituents()]

        def check(lines: Sequence[str], name: str) -> None:
            check_text_of(bundles, lines, self.options, self.models, name)

        rows([], 1)  # raises InputError
        form = _form_of(bundle.parser_normaliser.units for bundle in bundles)
        return Loaded(rows, CONSTITUENTS, tuple(map(model_hash, bundles)), form, check)


@dataclass(frozen=True)
class ScoreWork(Work):
    """Scoring. Every sentence is read by itself."""

    command = "score"
    options: ScoreOptions

    def load(self, device: str) -> Loaded:
        from syntaxlm.parsing.word_measures import word_measures
        from syntaxlm.scoring.reading_summary import ReadingSummary
        from syntaxlm.scoring.surprisal import word_columns
        from syntaxlm.text.doubts import warn_of_doubts
        from syntaxlm.text.reader import TextReader

        (name,) = self.models
        bundle = _load(name, device)
        if bundle.model.reads == "trees":
            raise InputError(f"{name}: a dependency-tree model reads trees; expected a model that reads text")

        columns = word_columns(self.options)
        summary = ReadingSummary(bundle, self.options)

        def rows(lines: Sequence[str], first: int) -> list[Block]:
            scored = list(word_measures(bundle, lines, self.options))
            for line in scored:
                summary.add(line)
            words = (word._replace(sentence=word.sentence + first - 1) for line in scored for word in line)
            return list(blocks_of((word.row() for word in words), columns, ROWS_PER_GROUP))

        def check(lines: Sequence[str], file: str) -> None:
            warn_of_doubts(TextReader.of(bundle.normaliser, bundle.vocabulary, self.options), lines, name, file)

        def count() -> ReadingCounts:
            counts = summary.counts()
            summary.clear()
            return counts

        rows([], 1)  # raises InputError
        form = _form_of([bundle.normaliser.units])
        return Loaded(rows, columns, (model_hash(bundle),), form, check, count)


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


class ShardReading(NamedTuple):
    """What a worker remarks on the lines of a shard.

    Attributes:
        lines: what is odd in them.
        words: what the model does not know or read; None if it is not counted.
        warnings: of the first lines of an input.
    """

    lines: LineCounts
    words: ReadingCounts | None
    warnings: tuple[str, ...]


class ShardResult(NamedTuple):
    """What a worker reports about a shard, and a line of done.jsonl.

    Attributes:
        number: the number of the shard.
        rows: number of rows written; None if the shard was not written, because of its bad lines.
        bad: number and reason of each bad line.
        seconds: processor time.
        memory: the largest memory of the worker so far, in bytes; None if it is not known.
        file_size: size of the Parquet file in bytes; None if it was not written.
        sha256: hash of its content; None if it was not written.
        reading: what is remarked on its lines; None if an earlier version did the shard.
    """

    number: int
    rows: int | None
    bad: tuple[tuple[int, str], ...]
    seconds: float
    memory: int | None
    file_size: int | None
    sha256: str | None
    reading: ShardReading | None = None


def file_hash(path: Path) -> str:
    """Return the SHA-256 hash of a Parquet file. Raises InputError."""
    with open_stored(path) as file:
        return sha256(iter(partial(file.read, _PIECE), b""))


def rows_of(
    rows: RowsOf, lines: Sequence[str], first: int, bad: list[tuple[int, str]], tried_before: bool = False
) -> list[Block]:
    """Return the rows of lines in columns. If the models refuse some, halves are tried until each refused one is found.

    Args:
        first: number of the first line.
        bad: refused lines are added to it.
        tried_before: show warnings only if the models do not refuse the lines again.
    """
    try:
        with warnings.catch_warnings(record=tried_before) as caught:
            results = rows(lines, first)
    except InputError as error:
        if len(lines) == 1:
            bad.append((first, str(error).removeprefix(f"sentence {first}: ")))  # the line is shown before it
            return []
        middle = len(lines) // 2
        return [
            *rows_of(rows, lines[:middle], first, bad, tried_before=True),
            *rows_of(rows, lines[middle:], first + middle, bad, tried_before=True),
        ]
    for warning in caught or ():
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return results
