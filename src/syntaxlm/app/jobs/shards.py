"""Shards: consecutive lines of one input, which are done together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from syntaxlm.app.jobs.lines import Lengths

SHARD_BYTES = 1 << 26  # maximum size of a shard of several lines


class Shard(NamedTuple):
    """Consecutive lines of an input, or rows of a Parquet file.

    number: of the shard in the job, from 0.
    source: number of the input, from 0.
    first: its first line, from 1.
    lines: number of lines.
    begin, end: the bytes of the lines, after decompression.
    """

    number: int
    source: int
    first: int
    lines: int
    begin: int
    end: int

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + self.lines - 1

    @property
    def file_name(self) -> str:
        """The name of its Parquet file. Sorted names are in the order of the input."""
        return f"part-{self.number:07d}.parquet"


def cut(lengths: Iterable[Lengths], source: int, lines: int, most: int = SHARD_BYTES) -> Iterator[Shard]:
    """Yield cuts an input into shards, all with the number 0.

    lengths: of all lines in bytes, in several arrays.
    source: number of the input.
    lines: number of lines of a shard; the last one may have fewer.
    most: a shard with several lines has fewer lines if it would have more bytes.
    """
    first = line = 1
    begin = end = 0
    for part in lengths:
        ends = end + np.cumsum(part)
        done = 0
        while done < len(part):
            room = lines - (line - first)
            fitting = int(np.searchsorted(ends[done:], begin + most, side="right"))
            take = min(room, len(part) - done, max(fitting, int(line == first)))
            line += take
            done += take
            end = int(ends[done - 1]) if take else end
            if take == room or done < len(part):
                yield Shard(0, source, first, line - first, begin, end)
                first, begin = line, end
    if line > first:
        yield Shard(0, source, first, line - first, begin, end)
