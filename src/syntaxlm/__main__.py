"""python -m syntaxlm: the commands."""

from __future__ import annotations

import gc
import os
import signal
import sys


def run() -> int:
    """Run a command; returns the exit code, also if it is interrupted while modules are imported."""
    # Idle threads of PyTorch sleep. By default they spin, which makes training on a busy machine forty times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    gc.set_threshold(500_000, 20)  # most objects live until the end; importing torch makes 260,000
    try:
        from syntaxlm.cli import main

        return main()
    except KeyboardInterrupt:
        print("syntaxlm: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        gc.freeze()  # otherwise the interpreter searches all objects for cycles when it exits: a third of a command


if __name__ == "__main__":
    sys.exit(run())
