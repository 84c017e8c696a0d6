"""Commands in processes of their own: their time, and the memory of all their processes together.

Memory is read from /proc while a command runs, so this needs Linux. The `ru_maxrss` that the system reports of a child
is of no use: it starts from the memory of the process that started the child.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple

from syntaxlm.core.errors import InputError

INTERVAL = 0.05  # seconds between two readings of memory


class Used(NamedTuple):
    """What a command used.

    Attributes:
        seconds: wall-clock time.
        processor: seconds of processor time, with the children that it waited for.
        memory: largest memory in bytes: the sum of the peaks of resident memory of the process and of its descendants
            that run at the same time.
        output: what it wrote to standard output.
    """

    seconds: float
    processor: float
    memory: int
    output: str


def run(folder: Path, command: Sequence[str]) -> Used:
    """Run a program of this Python on one thread.

    Args:
        folder: its working directory.
        command: its arguments, such as ["-m", "syntaxlm", "--help"].

    Raises:
        InputError: the command fails, or the system has no /proc.
    """
    if not Path("/proc/self/status").exists():
        raise InputError("memory is read from /proc, which this system does not have; measure on Linux")
    paths = [folder / "output.txt", folder / "errors.txt"]
    # The working directory of the laboratory is the root of the repository, which contains it.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with open(paths[0], "wb") as output, open(paths[1], "wb") as errors, ThreadPoolExecutor(1) as watcher:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, stdout=output, stderr=errors, env=environment
        )
        ended = Event()
        memory = watcher.submit(_largest_memory, process.pid, ended)
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - started
        finally:
            ended.set()
    printed, messages = (path.read_text(encoding="utf-8", errors="replace") for path in paths)
    if process.returncode:
        raise InputError(f"{shlex.join(command)}: exit code {process.returncode}:\n{(printed + messages)[-2000:]}")
    return Used(seconds, usage.ru_utime + usage.ru_stime, memory.result(), printed)


def _largest_memory(root: int, ended: Event) -> int:
    """Return the largest memory of a process and its descendants until it has ended, see `Used.memory`."""
    largest, earlier = 0, {root}
    while not ended.wait(INTERVAL):
        peaks = peak_memories(root)
        # A process that has just been started may share the memory of the process that started it.
        largest = max(largest, sum(peak for process, peak in peaks.items() if process in earlier))
        earlier = {root, *peaks}
    return largest


def peak_memories(root: int) -> dict[int, int]:
    """Return the peak of the resident memory of a process and of all its descendants, in bytes, by process id."""
    peaks: dict[int, int] = {}
    waiting = [root]
    while waiting:
        process = waiting.pop()
        with suppress(OSError, ValueError):  # it has ended
            status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
            (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
            peaks[process] = int(peak) * 1024
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                waiting += map(int, children.read_text(encoding="utf-8").split())
    return peaks
