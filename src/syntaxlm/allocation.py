"""How the C library hands out memory."""

from __future__ import annotations

import ctypes

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
