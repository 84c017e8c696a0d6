"""What differs between operating systems: memory, the processor, cache folders, and how files are named and replaced.

Linux, macOS and Windows have everything here. Where a system lacks a source of information, the function says what it
returns instead.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePath, PureWindowsPath

from syntaxlm.core.errors import InputError

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's mallopt
_LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc takes no more

_PROCESSOR_LINES = ("model name", "flags", "Features", "CPU implementer", "CPU part")  # of /proc/cpuinfo

_REPLACE_WAITS = (0.01, 0.05, 0.2, 0.5, 1.0)  # seconds between attempts to replace a file on Windows
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # names that Windows reserves


def keep_freed_memory() -> None:
    """Keep large blocks that are freed in the process, where the C library is glibc; else does nothing.

    A step of training, or a batch that is read, frees and takes the same blocks as the one before. Given back to the
    system, each must be mapped and cleared anew, page by page.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 64 << 20)


def release_freed_memory() -> None:
    """Give freed memory back to the system, where the C library is glibc; else does nothing.

    Called now and then, it bounds what `keep_freed_memory` costs: between blocks of ever new sizes, such as those of
    batches of sentences of all lengths, gaps are left that no other block fills.
    """
    import ctypes

    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def available_memory() -> int:
    """Return the bytes of memory that a process can take without swapping: on Linux; elsewhere as `memory_size`."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        (free,) = (int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
        return min(memory_size(), free)
    return memory_size()


@cache
def memory_size() -> int:
    """Return the bytes of memory that this process may have: the machine's, or fewer where a container or `ulimit -v`
    has a limit. On Windows there is no limit.
    """
    limits = [sys.maxsize]
    with suppress(ImportError, OSError):  # not Unix
        import resource

        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])  # negative: no limit
    with suppress(AttributeError, OSError, ValueError):  # not all systems have these names
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not Linux, or "max"
            limits.append(int(Path(path).read_text(encoding="utf-8")))
    return min(limit for limit in limits if limit > 0)


def peak_memory() -> int | None:
    """Return the largest memory that this process has had, in bytes; None on Windows."""
    # On Linux, ru_maxrss also counts what the parent had when it started this process; VmHWM does not.
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        (peak,) = (int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
        return peak
    try:
        import resource
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


@cache
def processor_lines() -> tuple[str, ...]:
    """Return the distinct lines that describe the processor, with names as in /proc/cpuinfo on Linux.

    On macOS and Windows, only the name of the model.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = [f"model name: {_processor_name()}"]
    return tuple(sorted({line for line in lines if line.startswith(_PROCESSOR_LINES)}))


def _processor_name() -> str:
    """Return the name of the processor of another system than Linux."""
    import platform
    import subprocess

    if sys.platform == "darwin":  # where `platform` knows only the family, such as "arm"
        with suppress(OSError, subprocess.SubprocessError):
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            result = subprocess.run(command, capture_output=True, check=True, timeout=10)
            return result.stdout.decode("utf-8", "replace").strip()
    return platform.processor() or platform.machine()


def cache_folder() -> Path:
    """Return the folder of syntaxlm in the user's caches; it may not exist.

    Raises:
        RuntimeError: if the user has no home folder.
    """
    chosen = os.environ.get("XDG_CACHE_HOME")
    if not chosen and sys.platform == "win32":
        chosen = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    if not chosen:
        chosen = str(Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache"))
    return Path(chosen) / "syntaxlm"


def flush_to_disk(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with open(path, "r+b") as file:  # Windows flushes only what is open for writing
        os.fsync(file.fileno())


def replace_file(source: Path, target: Path) -> None:
    """Move a file over another, which then has its content or the former one, never a part.

    Windows refuses this while a program has the target open, for example a virus scanner: there, it is tried again for
    two seconds.

    Raises:
        OSError: if it fails.
    """
    for seconds in _REPLACE_WAITS:
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if sys.platform != "win32":
                raise
        time.sleep(seconds)
    os.replace(source, target)


def check_system_name(path: PurePath) -> None:
    """Raise InputError for a file name that Windows would redirect: to a device, or to a hidden stream of a file.

    Other forbidden characters are errors of Windows itself. `NUL`, which discards what is written, is allowed.
    """
    if sys.platform != "win32":
        return
    windows_path = PureWindowsPath(path)
    for part in windows_path.relative_to(windows_path.anchor).parts:
        if ":" in part or (_DEVICES.fullmatch(part) and part.lower() != "nul"):
            raise InputError(
                f"{path}: cannot be written: {part} is not the name of a file on Windows, where : and names such as con"
                " and aux are reserved. Choose another name."
            )


def is_closed_pipe(error: OSError) -> bool:
    """Return whether the reader of an output has closed it, as `head` does. Windows reports an invalid argument."""
    return isinstance(error, BrokenPipeError) or (sys.platform == "win32" and error.errno == errno.EINVAL)


def argument_text(argument: str) -> str:
    """Return a text from the command line, read as UTF-8 where the locale (such as LC_ALL=C) cannot represent it."""
    try:
        argument.encode()
        return argument
    except UnicodeEncodeError:  # it has bytes that the locale lacks
        with suppress(UnicodeError):
            return os.fsencode(argument).decode()
    return argument
