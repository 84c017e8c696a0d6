"""C kernels, compiled on first use if the machine has a C compiler.

The package ships C sources because the best compiler flags depend on the user's processor. Compiled libraries are kept
in the user's cache folder. Without a compiler, or with SYNTAXLM_NATIVE=0, ops use torch only.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch

SWITCH = "SYNTAXLM_NATIVE"
_HEADERS = sorted(Path(__file__).parent.glob("*.h"))

# Sums may be reordered, or they could not be vectorised. Infinities and NaN are preserved: they indicate divergence.
_FLAGS = (
    "-O3", "-std=c11", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-fassociative-math",
    "-fno-signed-zeros", "-freciprocal-math", "-ffp-contract=fast",
)  # fmt: skip

# Tried in this order: not every compiler has OpenMP or supports -march=native.
_FURTHER_FLAGS = ("-march=native", "-fopenmp"), ("-march=native",), ("-mcpu=native",), ()


@functools.cache
def library(source: Path) -> ctypes.CDLL | None:
    """Return the shared library of a C file; None if unavailable. A failed compilation is reported once."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if os.environ.get(SWITCH) == "0" or compiler is None or sys.platform == "win32":
        return None
    name = hashlib.sha256()
    for part in (
        source.read_bytes(),
        *(header.read_bytes() for header in _HEADERS),
        " ".join((compiler, *_FLAGS)).encode(),
        _processor().encode(),
    ):
        name.update(part)
    try:
        folder = _cache()
        path = folder / f"{source.stem}-{name.hexdigest()[:16]}.so"
        if not path.exists():
            _compile(compiler, source, path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        warnings.warn(f"{source.name} could not be compiled; training is slower without it: {reason}", stacklevel=2)
        return None


def usable(source: Path, product: torch.dtype, *tensors: torch.Tensor | None) -> ctypes.CDLL | None:
    """Return the library if all tensors are float32 on the CPU and products are float32 or bfloat16; else None."""
    if product not in (torch.float32, torch.bfloat16):
        return None
    if all(t is None or (t.dtype == torch.float32 and t.device.type == "cpu") for t in tensors):
        return library(source)
    return None


def address(tensor: torch.Tensor | None) -> ctypes.c_void_p:
    """Return the address of a contiguous tensor's data, for a C function; null for None."""
    assert tensor is None or tensor.is_contiguous()
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _cache() -> Path:
    """Return the folder for compiled libraries: the user's cache, or a new temporary folder if that is not writable."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "syntaxlm"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):
        pass
    return Path(tempfile.mkdtemp(prefix="syntaxlm-"))


def _processor() -> str:
    """Return an identifier of the processor type: machines with different processors may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _compile(compiler: str, source: Path, target: Path) -> None:
    """Compiles into a temporary folder, then moves the library: other processes may be compiling it too."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made, parts = Path(folder) / "made.so", Path(folder) / "part.o"
        for further in _FURTHER_FLAGS:
            compile_ = [compiler, *_FLAGS, *further, f"-I{Path(__file__).parent}", "-c", str(source), "-o", str(parts)]
            # Linked without OpenMP: torch has already loaded its own, and two runtimes would compete for the cores.
            link = [compiler, "-shared", str(parts), "-o", str(made), "-lm"]
            try:
                for command in (compile_, link):
                    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
                ctypes.CDLL(str(made))
                break
            except (OSError, subprocess.CalledProcessError):
                if further is _FURTHER_FLAGS[-1]:
                    raise
        made.replace(target)
