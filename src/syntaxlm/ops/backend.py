"""How ops are computed: by their equations, in torch, or compiled.

An op has a reference, which is its equations differentiated by autograd, and a fast form. The inner steps of the fast
form are compiled where possible: from C on the CPU (`kernels`), by torch on a GPU (`fused`). Without a C compiler, on
Windows and with SYNTAXLM_NATIVE=0, they are plain torch.
The package ships C sources because the best compiler flags depend on the user's processor. Each source is compiled at
its first use and kept in the user's cache folder, under a name with a hash of source, compiler, flags and processor.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import multiprocessing
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor

from syntaxlm.core.errors import warn_caller
from syntaxlm.core.files import sha256
from syntaxlm.core.systems import cache_folder, processor_lines
from syntaxlm.core.threads import share_cores

Backend = Literal["compiled", "torch", "reference"]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SWITCH = "SYNTAXLM_NATIVE"
KERNELS = Path(__file__).with_name("kernels")

# Sums may be reordered, or they could not be vectorised. Infinities and NaN are preserved: they indicate divergence.
_FLAGS = (
    "-O3", "-std=c11", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-fassociative-math",
    "-fno-signed-zeros", "-freciprocal-math", "-ffp-contract=fast",
)  # fmt: skip

# Added to the flags, and tried in this order: not every compiler has OpenMP or supports -march=native.
_MACHINE_FLAGS = ("-march=native", "-fopenmp"), ("-march=native",), ("-mcpu=native",), ()

_backend: Backend = "compiled"

share_cores()


@contextmanager
def using(backend: Backend) -> Iterator[None]:
    """Run ops in another form, for tests and benchmarks. The backward of an op has the form of its forward.

    compiled: what is fastest here, the default.  torch: the fast form without compiled code.  reference: the equations,
    for ops whose reference has the same arguments (`with_reference`).
    """
    global _backend
    before, _backend = _backend, backend
    try:
        yield
    finally:
        _backend = before


def with_reference(
    reference: Callable[Arguments, Result],
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return a decorator of an op that calls the reference instead, where `using("reference")` asks for it."""

    def decorated(op: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(op)
        def chosen(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
            return (reference if _backend == "reference" else op)(*arguments, **options)

        return chosen

    return decorated


def kernels(name: str, product: torch.dtype, *tensors: Tensor | None) -> ctypes.CDLL | None:
    """Return the compiled functions of kernels/NAME.c if they can be used; None to use torch.

    Args:
        product: dtype of the op's matrix products, float32 or bfloat16.
        tensors: all must be float32 on the CPU.
    """
    if _backend != "compiled" or product not in (torch.float32, torch.bfloat16):
        return None
    if all(t is None or (t.dtype == torch.float32 and t.device.type == "cpu") for t in tensors):
        return library(KERNELS / f"{name}.c")
    return None


@functools.cache
def library(source: Path) -> ctypes.CDLL | None:
    """Return the shared library of a C file; None if unavailable. A failed compilation is reported once.

    It is compiled into the user's cache, or into a new temporary folder if the cache is not writable, or is writable
    for others.
    """
    if os.environ.get(SWITCH) == "0" or sys.platform == "win32":
        return None
    try:
        compiler = _compiler()
        if not compiler:
            _report_no_compiler()
            return None

        path = _folder() / f"{source.stem}-{_key(source, compiler)}.so"
        if not path.exists():
            _compile(compiler, source, path)
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # compiled on a machine that has the same folder and another C library
            _compile(compiler, source, path)
            return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        warn_caller(f"{source.name} could not be compiled; training is slower without it: {reason}")
        return None


def _compiler() -> list[str]:
    """Return the words that call the C compiler, those of the variable CC first; none without a compiler."""
    found = map(shutil.which, ("cc", "gcc", "clang"))
    chosen = os.environ.get("CC", "")
    try:
        return shlex.split(chosen) or [path for path in found if path][:1]
    except ValueError as error:
        raise OSError(f"the variable CC is {chosen}: {error}") from None


@functools.cache
def _report_no_compiler() -> None:
    """Warn once, and not in each worker."""
    if multiprocessing.parent_process() is None:
        warn_caller(
            "no C compiler was found, so training and parsing use PyTorch alone, with the same results but more"
            f" slowly. Install gcc or clang, or set {SWITCH}=0 to hide this message"
        )


def _key(source: Path, compiler: list[str]) -> str:
    """Return a hash of all that a library depends on: machines with different processors may share a home folder."""
    headers = [header.read_bytes() for header in sorted(KERNELS.glob("*.h"))]
    program = os.path.realpath(shutil.which(compiler[0]) or compiler[0])
    with suppress(OSError):  # there is no such compiler, which is reported when it is called
        status = os.stat(program)
        program += f" {status.st_size} {status.st_mtime_ns}"
    machine = [sys.platform, platform.machine(), *processor_lines()]
    settings = "\n".join([*compiler, program, *_FLAGS, *machine])
    return sha256([source.read_bytes(), *headers, settings.encode("utf-8", "surrogateescape")])[:16]


def _folder() -> Path:
    """Return the folder of libraries, made if necessary."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return _temporary_folder()
    return folder if os.access(folder, os.W_OK) and _only_written_by_user(folder) else _temporary_folder()


def _only_written_by_user(folder: Path) -> bool:
    """Return whether no other user can put a library here, which this process would load. Root trusts all owners."""
    status = folder.stat()
    return not status.st_mode & stat.S_IWOTH and (status.st_uid in (0, os.getuid()) or os.getuid() == 0)


@functools.cache
def _temporary_folder() -> Path:
    """Return a folder that is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="syntaxlm-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def c_struct(integers: str, pointers: str, flags: str = "half threads") -> type[ctypes.Structure]:
    """Return the type of a C struct of int64 numbers, ints and pointers, in this order.

    Arguments: the names of the fields, separated by spaces.
    """
    types = (integers, ctypes.c_int64), (flags, ctypes.c_int), (pointers, ctypes.c_void_p)
    fields = [(name, kind) for names, kind in types for name in names.split()]
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


def filled(struct: type[ctypes.Structure], tensors: Mapping[str, Tensor | None], **numbers: int) -> ctypes.Structure:
    """Return a struct of contiguous tensors, which must outlive it, and of numbers.

    The field `threads` is torch's number of threads.

    Args:
        struct: of `c_struct`.
        tensors: by the name of their field; None is a null pointer.
        **numbers: by the name of their field.
    """
    pointers = {name: address(tensor) for name, tensor in tensors.items()}
    return struct(threads=torch.get_num_threads(), **numbers, **pointers)


def call(function: Callable[..., Any], *arguments: object) -> None:
    """Call a C function: tensors and None as addresses, bool as int, int as int64, structs by reference."""
    converted: list[Any] = []
    for argument in arguments:
        if argument is None or isinstance(argument, Tensor):
            converted.append(address(argument))
        elif isinstance(argument, int):
            converted.append((ctypes.c_int if isinstance(argument, bool) else ctypes.c_int64)(argument))
        else:
            converted.append(ctypes.byref(argument) if isinstance(argument, ctypes.Structure) else argument)
    function(*converted)


def address(tensor: Tensor | None) -> ctypes.c_void_p:
    """Return the address of a contiguous tensor's data, for a C function; null for None."""
    assert tensor is None or tensor.is_contiguous()
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Call an autograd function so that it keeps nothing without gradients: then `needs_input_grad` is False."""
    if not torch.is_grad_enabled():  # otherwise it is True for parameters
        arguments = tuple(part.detach() if isinstance(part, Tensor) else part for part in arguments)
    return function.apply(*arguments)


def slices(sizes: Iterable[int]) -> list[slice]:
    """Return consecutive slices of these sizes: of the rows of each step, for example."""
    return [slice(start, end) for start, end in pairwise(accumulate(sizes, initial=0))]


def parts(total: int, size: int) -> Iterator[slice]:
    """Yield slices of `size` that cover `total` entries; the last may be smaller."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def _compile(compiler: list[str], source: Path, target: Path) -> None:
    """Compile into a temporary folder, then move the library: other processes may be compiling it too."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        result = Path(folder) / "library.so"
        objects = Path(folder) / "objects.o"
        for machine_flags in _MACHINE_FLAGS:
            compile_ = [*compiler, *_FLAGS, *machine_flags, f"-I{KERNELS}", "-c", str(source), "-o", str(objects)]
            # Linked without OpenMP: torch has already loaded its own, and two runtimes would compete for the cores.
            link = [*compiler, "-shared", str(objects), "-o", str(result), "-lm"]
            try:
                for command in (compile_, link):
                    subprocess.run(
                        command, check=True, capture_output=True, encoding="utf-8", errors="replace", timeout=120
                    )
                ctypes.CDLL(str(result))
                break
            except (OSError, subprocess.CalledProcessError):
                if machine_flags is _MACHINE_FLAGS[-1]:
                    raise
        result.replace(target)


def fused(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return the function, compiled by torch on its first use on a GPU, where launches of kernels dominate its time.

    The function must not modify its arguments, and none of them may need a gradient. Elsewhere, and if compilation
    fails (reported once), it runs uncompiled. A compiled version works for any number of rows (the first dimension)
    above one; one row, and every other size and dtype, has its own version.
    """
    assert isinstance(function, FunctionType)
    compiled: dict[tuple[Any, ...], Callable[..., Result]] = {}
    failed = False

    @functools.wraps(function)
    def call(*arguments: Any) -> Result:
        nonlocal failed
        if failed or not worthwhile(arguments[0]):
            return function(*arguments)
        key = tuple(
            (part.shape[1:], part.dtype, len(part) == 1) if isinstance(part, Tensor) else part for part in arguments
        )
        try:
            if key not in compiled:
                # Torch caches compiled code per code object, and at most eight versions, so each has its own.
                code = function.__code__.replace()
                copied = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
                compiled[key] = torch.compile(copied, fullgraph=True, dynamic=False)
                # Compiled for copies, because the offset of a view would matter.
                arguments = tuple(part.clone() if isinstance(part, Tensor) else part for part in arguments)
                for part in arguments:
                    if isinstance(part, Tensor):
                        torch._dynamo.maybe_mark_dynamic(part, 0)
            return compiled[key](*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # compilers raise errors of many classes
            failed = True
            reason = str(error).strip().partition("\n")[0]
            warn_caller(f"{function.__name__} could not be compiled and runs more slowly: {reason}", UserWarning)
            return function(*arguments)

    return call


def worthwhile(tensor: Tensor) -> bool:
    """Return whether to compile work on this tensor's device. The CPU has C kernels instead."""
    return tensor.is_cuda and _backend == "compiled" and os.environ.get(SWITCH) != "0"
