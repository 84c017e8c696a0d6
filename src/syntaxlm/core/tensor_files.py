"""Tensors in the safetensors files of model and run folders.

The library reads bytes, not a path: a path would be mapped into memory, where a link would be followed and a file that
is truncated meanwhile would crash the process.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import safetensors
import safetensors.torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import open_stored, parse_json, read_stored, replaced
from syntaxlm.core.systems import memory_size

_LARGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors library
_FAULTS_PRINTED = 3


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a safetensors file.

    Raises:
        InputError: if the file is missing or damaged, or has over half of the memory, because its content and its
            tensors are in memory together.
    """
    content = read_stored(path, memory_size() // 2)
    try:
        tensors = safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError, RuntimeError, ValueError, MemoryError) as error:
        raise InputError(f"{path}: damaged or cut short: {error}. Copy or download the file again") from None
    return tensors, _metadata(io.BytesIO(content), len(content), path)


def read_metadata(path: str | Path) -> dict[str, str]:
    """Return the metadata of a safetensors file without reading its tensors.

    Raises:
        InputError: if the file is missing, or does not have the size that its header states.
    """
    with open_stored(path) as file:
        return _metadata(file, os.fstat(file.fileno()).st_size, path)


def _metadata(file: BinaryIO, size: int, path: str | Path) -> dict[str, str]:
    """Return the metadata in a header. Raises InputError if the file of `size` bytes does not end with its tensors."""
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, _LARGEST_HEADER):
        raise InputError(
            f"{path}: damaged or cut short: the header has {length:,} bytes, but the file has {size:,}. Copy or"
            " download the file again"
        )
    header = parse_json(file.read(length).decode("utf-8", "replace"), str(path))
    try:
        metadata: dict[str, str] = header.pop("__metadata__", {})
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (AttributeError, IndexError, KeyError, TypeError):
        raise InputError(
            f"{path}: damaged or cut short: the header does not describe tensors. Copy or download the file again"
        ) from None
    if end != size - 8 - length:
        raise InputError(
            f"{path}: damaged or cut short: the header describes {end} bytes of tensors, but the file has"
            f" {size - 8 - length:,}. Copy or download the file again"
        )
    return metadata


def tensor_faults(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> list[str]:
    """Return errors in the names, shapes and dtypes of stored tensors.

    Any floating-point dtype is accepted for any other.

    Args:
        expected: tensors of a model, which may be on the meta device.
        stored: tensors of a file.
    """
    faults = [f"{name} is missing" for name in expected if name not in stored]
    faults += [f"{name} does not belong to this model" for name in stored if name not in expected]
    for name in (name for name in expected if name in stored):
        tensor, wanted = stored[name], expected[name]
        if tensor.shape != wanted.shape:
            faults.append(f"{name} has shape {tuple(tensor.shape)}, expected {tuple(wanted.shape)}")
        if tensor.dtype != wanted.dtype and not (tensor.is_floating_point() and wanted.is_floating_point()):
            faults.append(f"{name} has " + f"dtype {tensor.dtype}, expected {wanted.dtype}".replace("torch.", ""))
    return faults


def refuse(source: str | Path, problem: str, faults: list[str]) -> None:
    """Raise InputError with the first few faults, if there are any."""
    if faults:
        rest = f" (and {len(faults) - _FAULTS_PRINTED} more)" if len(faults) > _FAULTS_PRINTED else ""
        raise InputError(f"{source}: {problem}: " + "; ".join(faults[:_FAULTS_PRINTED]) + rest)


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
            code = re.search(r"\(os error (\d+)\)", str(error))
            if code is None:
                raise OSError(str(error)) from error
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
