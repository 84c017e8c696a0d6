"""Tensors in safetensors files, checked before memory is allocated.

Files are written by the safetensors library, but read here: the library opens a path and maps the file, so a link put
in its place would be followed, and a file truncated while it is read would crash the process. Here the file is opened
once, its header is checked against the file's size and the caller's expectations, and only then are tensors read.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import memory_size, open_stored, parse_json, replaced

_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip

_LARGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors library
_SHOWN_FAULTS = 3


class StoredTensor(NamedTuple):
    """A tensor's entry in the header. start, end: byte range in the data that follows the header."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


class TensorFile(NamedTuple):
    """An open safetensors file. notes: the metadata, short texts by name. data: offset of the tensors in bytes."""

    path: Path
    stored: Mapping[str, StoredTensor]
    notes: dict[str, str]
    file: BinaryIO
    data: int

    def read(self) -> dict[str, Tensor]:
        """Return all tensors. Raises InputError if they do not fit in memory or the file was truncated meanwhile."""
        size = sum(entry.end - entry.start for entry in self.stored.values())
        if size > memory_size():
            raise InputError(
                f"{self.path}: has {size:,} bytes of tensors; this machine has {memory_size():,} bytes of memory"
            )
        tensors = {}
        for name, (dtype, shape, start, end) in self.stored.items():
            try:
                tensor = tensors[name] = torch.empty(shape, dtype=dtype)
            except (RuntimeError, MemoryError) as error:
                raise InputError(f"{self.path}: {name}: {str(error).splitlines()[0]}") from None
            if end > start:
                self.file.seek(self.data + start)
                content = memoryview(cast(Any, tensor.reshape(-1).view(torch.uint8).numpy()))
                if cast(BufferedReader, self.file).readinto(content) != len(content):
                    raise InputError(f"{self.path}: damaged or cut short: {name} is not complete")
        return tensors


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a safetensors file of a model or run folder and check its header. Raises InputError."""
    with open_stored(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            length = int.from_bytes(file.read(8), "little")
            if length > min(size - 8, _LARGEST_HEADER):
                raise ValueError(f"the header has {length:,} bytes, but the file has {size:,}")
            header = parse_json(file.read(length).decode("utf-8"), str(path))
            if not isinstance(header, dict):
                raise ValueError("the header is not a JSON object")
            notes = header.pop("__metadata__", {})
            if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
                raise ValueError("__metadata__ is not an object of strings")
            stored = {name: _stored_tensor(name, entry) for name, entry in header.items()}
            end = 0
            for name, entry in sorted(stored.items(), key=lambda item: (item[1].start, item[1].end)):
                if entry.start != end:
                    raise ValueError(f"{name} does not start where the previous tensor ends")
                end = entry.end
            if end != size - 8 - length:
                raise ValueError(f"the header describes {end:,} bytes of tensors; the file has {size - 8 - length:,}")
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{path}: damaged or cut short: {error}") from None
        yield TensorFile(Path(path), stored, notes, file, 8 + length)


def _stored_tensor(name: str, entry: Any) -> StoredTensor:
    """Parse an entry of the header. Raises ValueError."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name} is not described by dtype, shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    for sizes in (shape, offsets):
        if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size < 2**62 for size in sizes):
            raise ValueError(f"{name} has a shape or data_offsets that are not lists of sizes")
    dtype = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise ValueError(f"{name} has dtype {str(entry['dtype'])[:40]}; expected one of {', '.join(_DTYPES)}")
    if len(shape) > 64 or math.prod(max(size, 1) for size in shape) >= 2**60:
        raise ValueError(f"{name} has a shape that is too large")
    if len(offsets) != 2 or offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} has a shape that does not match its data_offsets")
    return StoredTensor(dtype, tuple(shape), *offsets)


def read_tensors(
    path: str | Path, check: Callable[[TensorFile], None] = lambda file: None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and metadata of a safetensors file. check: called with the header before any tensor is read.

    Raises InputError if the file is missing or damaged, or does not fit in memory.
    """
    with open_tensors(path) as file:
        check(file)
        return file.read(), file.notes


def tensor_faults(
    expected: Mapping[str, Tensor], found: Mapping[str, StoredTensor] | Mapping[str, Tensor]
) -> list[str]:
    """Return errors in the names, shapes and dtypes of stored tensors. Any floating-point dtype is accepted for any
    other.

    expected: tensors of a model, which may be on the meta device.
    """
    faults = [f"{name} is missing" for name in expected if name not in found]
    faults += [f"{name} does not belong to this model" for name in found if name not in expected]
    for name, tensor in expected.items():
        stored = found.get(name)
        if stored is None:
            continue
        if stored.shape != tensor.shape:
            faults.append(f"{name} has shape {tuple(stored.shape)}, expected {tuple(tensor.shape)}")
        if stored.dtype != tensor.dtype and not (stored.dtype.is_floating_point and tensor.is_floating_point()):
            faults.append(f"{name} has " + f"dtype {stored.dtype}, expected {tensor.dtype}".replace("torch.", ""))
    return faults


def refuse(source: str | Path, problem: str, faults: list[str]) -> None:
    """Raise InputError with the first few faults, if there are any."""
    if faults:
        rest = f" (and {len(faults) - _SHOWN_FAULTS} more)" if len(faults) > _SHOWN_FAULTS else ""
        raise InputError(f"{source}: {problem}: " + "; ".join(faults[:_SHOWN_FAULTS]) + rest)


def check_finite(source: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise InputError naming tensors with NaN or infinite values."""
    faults = []
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            faults.append(f"{name} has {'NaN' if bool(tensor.isnan().any()) else 'infinite'} values")
    refuse(source, "the tensors are unusable", faults)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: dict[str, str] | None = None) -> None:
    """Write named tensors, and metadata if given, as one safetensors file, atomically."""
    with replaced(path, stored=True) as temporary:
        temporary.touch()
        usual_mode = temporary.stat().st_mode
        try:
            safetensors.torch.save_file({name: t.contiguous() for name, t in tensors.items()}, temporary, notes)
            temporary.chmod(usual_mode)  # safetensors restricts it to the owner
        except safetensors.SafetensorError as error:  # raised if the disk is full
            found = re.search(r"\(os error (\d+)\)", str(error))
            raise OSError(*((int(found[1]), os.strerror(int(found[1]))) if found else (str(error),))) from error
