"""Parsing of a stream of texts in several processes."""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.threads import core_count
from syntaxlm.parsing.result import Parse

Read = Callable[..., Iterable[Parse]]
"""Parses a list of texts. first: number of the first one."""

_AHEAD = 2  # chunks for each process that wait or are parsed while the caller uses earlier results

_read: Read  # of a worker


def parse_in_processes(read: Read, chunks: Iterable[tuple[int, list[str]]], count: int) -> Iterator[Parse]:
    """Yield the parses of chunks in order. An InputWarning of a worker is given again in this process.

    Raises the error of a worker, and InputError if a worker ended.

    Args:
        read: is sent to each process, with the models that it uses.
        chunks: the number of the first text, and the texts.
        count: number of processes; they are started as `multiprocessing` is set, and share the processor cores.
    """
    context = multiprocessing.get_context()
    # A forked process cannot use several threads of torch, see `core.threads`.
    threads = 1 if context.get_start_method() == "fork" else max(1, core_count() // count)
    waiting: deque[Future[tuple[list[Parse], list[str]]]] = deque()
    with ProcessPoolExecutor(count, context, _begin, (read, threads)) as executor:
        try:
            for first, texts in chunks:
                waiting.append(executor.submit(_parsed, first, texts))
                if len(waiting) > _AHEAD * count:
                    yield from _result(waiting.popleft())
            while waiting:
                yield from _result(waiting.popleft())
        except BrokenProcessPool:
            raise InputError(
                "n_process: a process ended before its result. Is there enough memory? Unless processes are forked, a"
                " program must start them below `if __name__ == '__main__':`"
            ) from None
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _begin(read: Read, threads: int) -> None:
    global _read
    _read = read
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the process that started this one ends it


def _parsed(first: int, texts: list[str]) -> tuple[list[Parse], list[str]]:
    """Return parses, and the messages of warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        parses = list(_read(texts, first=first))
    return parses, [str(warning.message) for warning in caught if issubclass(warning.category, InputWarning)]


def _result(future: Future[tuple[list[Parse], list[str]]]) -> list[Parse]:
    parses, messages = future.result()
    for message in messages:
        warnings.warn(InputWarning(message), stacklevel=3)
    return parses
