"""Memory: how much there is, and how the C library hands it out."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's mallopt
_LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc takes no more


def keep_freed_memory() -> None:
    """Keeps large blocks that are freed in the process, where the C library is glibc; else does nothing.

    A step of training, or a batch that is read, frees and takes the same blocks as the one before. Given back to the
    system, each must be mapped and cleared anew, page by page.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 64 << 20)


@cache
def memory_size() -> int:
    """Bytes of memory that this process may have: the machine's, or fewer where a container has a limit."""
    limits = [sys.maxsize]
    with suppress(AttributeError, OSError, ValueError):  # Windows does not say
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not Linux, or "max"
            limits.append(int(Path(path).read_text()))
    return min(limit for limit in limits if limit > 0)
