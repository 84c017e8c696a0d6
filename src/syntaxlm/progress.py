"""Progress on stderr, shown only when something takes longer than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds

_quiet = False


def set_quiet(quiet: bool) -> None:
    """Choose whether nothing is printed on stderr here: no progress and no notes."""
    global _quiet
    _quiet = quiet


def error_console() -> Console:
    """A console on the stderr of this moment; of `set_quiet`, one that prints nothing."""
    return Console(stderr=True, highlight=False, quiet=_quiet)


@contextmanager
def status(what: str) -> Iterator[None]:
    """Prints what is being done while the block runs: a spinner in a terminal, one line elsewhere."""
    console = error_console()
    status = console.status(what + " ...")

    def tell() -> None:
        if console.is_terminal:
            status.start()
        else:
            console.print(what + " ...")

    timer = threading.Timer(PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def progress_bar(items: Iterable[Any], what: str, total: int | None = None) -> Iterator[Any]:
    """The items, with a progress bar over them once it has taken two seconds, in a terminal."""
    console = error_console()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(what, total=total)
    started, shown = time.monotonic(), False
    try:
        for item in items:
            yield item
            progress.advance(task)
            if not shown and console.is_terminal and time.monotonic() - started > PATIENCE:
                progress.start()
                shown = True
    finally:
        if shown:  # else it would print an empty line
            progress.stop()
