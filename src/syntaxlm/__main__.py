"""python -m syntaxlm: the commands."""

from __future__ import annotations

import gc
import signal
import sys


def run() -> int:
    """Run a command; returns the exit code, also if it is interrupted while modules are imported."""
    gc.set_threshold(100_000, 20)  # most objects, those of torch and of cached words, live until the end
    try:
        from syntaxlm.app.cli import main

        return main()
    except KeyboardInterrupt:
        print("syntaxlm: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(run())
