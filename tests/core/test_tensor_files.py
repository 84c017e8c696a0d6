"""Tensor files: agreement with the safetensors library, and checks before memory is allocated."""

from __future__ import annotations

import json
import os
import struct
import sys

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syntaxlm.core import tensor_files
from syntaxlm.core.errors import InputError
from syntaxlm.core.tensor_files import (
    check_finite,
    read_metadata,
    read_tensors,
    tensor_faults,
    write_tensors,
)

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
]  # fmt: skip
MIB = 1 << 20


def some_tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    tensors = {str(dtype): (torch.randn(3, 5) * 4).to(dtype) for dtype in DTYPES}
    return tensors | {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4), "flat": torch.arange(7)}


def stored(path, header: object, data: bytes = b"") -> None:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content + data)


def test_tensors_of_every_dtype_are_identical_to_those_read_by_the_library(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, some_tensors(), {"note": "é"})
    tensors, notes = read_tensors(path)
    library = safetensors.torch.load_file(path)
    assert notes == read_metadata(path) == {"note": "é"}
    assert tensors.keys() == library.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == library[name].dtype
        assert torch.equal(tensor, library[name])


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ([], b""),
        (b"{", b""),
        (b"\xff", b""),
        (b"[" * 50_000, b""),
        (b'{"a": 1, "a": 2}', b""),
        ({"a": 3}, b""),
        ({"a": GOOD}, bytes(7)),
        ({"a": GOOD}, bytes(9)),
        ({"a": GOOD | {"dtype": "F31"}}, bytes(8)),
        ({"a": GOOD | {"dtype": ["F32"]}}, bytes(8)),
        ({"a": GOOD | {"shape": [3]}}, bytes(8)),
        ({"a": GOOD | {"shape": [-2]}}, bytes(8)),
        ({"a": GOOD | {"shape": [2.0]}}, bytes(8)),
        ({"a": GOOD | {"shape": [True]}}, bytes(8)),
        ({"a": GOOD | {"shape": [10**400]}}, bytes(8)),
        ({"a": GOOD | {"shape": 2}}, bytes(8)),
        ({"a": GOOD | {"shape": [2**61, 2**61, 0], "data_offsets": [0, 0]}}, b""),
        ({"a": GOOD | {"data_offsets": [8, 0]}}, bytes(8)),
        ({"a": GOOD | {"data_offsets": [0, 8, 8]}}, bytes(8)),
        ({"a": GOOD | {"data_offsets": [4, 12]}}, bytes(12)),
        ({"a": GOOD, "b": GOOD}, bytes(8)),
        ({"a": GOOD, "__metadata__": {"note": 3}}, bytes(8)),
        ({"a": GOOD, "__metadata__": "note"}, bytes(8)),
    ],
)
def test_a_damaged_header_raises_an_error_with_the_file_name(tmp_path, header, data):
    stored(tmp_path / "a.safetensors", header, data)
    with pytest.raises(InputError, match=r"a\.safetensors: damaged or cut short"):
        read_tensors(tmp_path / "a.safetensors")


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_file_with_changed_bytes_is_read_or_raises_an_error_with_its_name(tmp_path, data):
    path = tmp_path / "a.safetensors"
    if not path.exists():
        write_tensors(path, some_tensors())
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, min(len(content), 1200) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))])
    message = str(damaged)
    try:
        read_tensors(damaged)
    except InputError as error:
        message = str(error)
    assert str(damaged) in message


@pytest.mark.skipif(sys.platform == "win32", reason="holes in files")
def test_a_header_that_claims_gigabytes_does_not_allocate_memory(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    size = 64 << 30
    stored(path, {"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}})
    with pytest.raises(InputError, match="damaged or cut short"):
        read_tensors(path)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size + size)  # a hole: it has no blocks
    monkeypatch.setattr(tensor_files, "memory_size", lambda: 32 << 30)
    with pytest.raises(InputError, match=r"found 68,719,476,\d+ bytes; expected at most 17,179,869,184"):
        read_tensors(path)


def test_the_metadata_of_a_truncated_file_is_not_read(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.ones(9)}, {"note": "n"})
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(InputError, match=r"the header describes 36 bytes of tensors, but the file has 35"):
        read_metadata(path)


def test_names_shapes_and_dtypes_are_compared():
    expected = {
        name: torch.empty(3, 5, device="meta") for name in ("fits", "half", "whole", "flags", "long", "missing")
    }
    stored = {
        "fits": torch.zeros(3, 5),
        "half": torch.zeros(3, 5, dtype=torch.bfloat16),
        "whole": torch.zeros(3, 5, dtype=torch.int64),
        "flags": torch.zeros(3, 5, dtype=torch.bool),
        "long": torch.zeros(3, 6),
        "new": torch.zeros(1),
    }
    assert tensor_faults(expected, stored) == [
        "missing is missing",
        "new does not belong to this model",
        "whole has dtype int64, expected float32",
        "flags has dtype bool, expected float32",
        "long has shape (3, 6), expected (3, 5)",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_tensors_with_non_finite_values_are_named_in_the_error(value):
    tensors = {"good": torch.zeros(3), "bad": torch.tensor([0.0, value]), "count": torch.tensor(3)}
    with pytest.raises(InputError, match=r"file: the tensors are unusable: bad has (NaN|infinite) values"):
        check_finite("file", tensors)
