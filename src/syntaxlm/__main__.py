"""python -m syntaxlm: the commands."""

from __future__ import annotations

import atexit
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


def command() -> int:
    """Run a command as the only work of this process, which ends without taking its modules apart.

    That takes longer than parsing a sentence. It is the last of the functions that are called at the exit, so whatever
    others have to finish or to remove is done.
    """
    code: int | None = None

    def leave() -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # closed or missing: Python reports it
            return
        if code is not None:  # otherwise an error is on its way
            os._exit(code)

    atexit.register(leave)
    code = run()
    return code


if __name__ == "__main__":
    sys.exit(command())
