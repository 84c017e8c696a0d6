"""Parsing of a stream of texts in batches, by this process or by several."""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import torch

from syntaxlm.core.errors import InputError, InputWarning, listed, warn_caller
from syntaxlm.core.iteration import batched
from syntaxlm.core.settings import check_number
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.core.threads import core_count
from syntaxlm.data.arguments import check_integer, model_names
from syntaxlm.data.corpora import is_longer
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import check_text_of, parse_lines
from syntaxlm.parsing.result import Parse
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import Normaliser

Read = Callable[..., Iterable[Parse]]
"""Parses a list of texts. first: number of the first one."""

_AHEAD = 2  # chunks for each process that wait or are parsed while the caller uses earlier results

_NUMBERS_SHOWN = 5  # of texts in a warning

_read: Read  # of a worker


def parse_stream(
    models: Sequence[ModelBundle],
    texts: Iterator[str],
    options: ParseOptions,
    batch_size: int = LINES_TOGETHER,
    n_process: int = 1,
    max_words: int | None = None,
) -> Iterator[Parse]:
    """Return the parses of texts, which are read in batches, and lazily.

    Args:
        models: see `parse_lines`.
        n_process: number of processes; -1: one for each core.
        max_words: a text with more words is read like one without words, with an InputWarning. None: no limit.

    Raises:
        InputError: for wrong options, before a text is read; and as `parse_lines` does.
    """
    for name, value in (("batch_size", batch_size), ("n_process", n_process), ("max_words", max_words)):
        if value is not None and (name, value) != ("n_process", -1):
            check_integer(value, name)
            check_number(name, value, 1)
    names = model_names(models)
    read = partial(parse_lines, models, options=options, names=names)
    read([])  # reports wrong options now instead of with the first parse
    batches = enumerate(batched(texts, batch_size))

    def chunks() -> Iterator[tuple[int, list[str]]]:
        for number, batch in batches:
            first = number * batch_size + 1
            if number == 0:
                check_text_of(models, batch, options, [Path(name).name for name in names])
            if max_words is not None:
                batch = _without_long(batch, first, max_words, models[0].parser_normaliser)
            yield first, batch

    count = core_count() if n_process == -1 else n_process
    if count == 1:
        return (parse for first, batch in chunks() for parse in read(batch, first=first))
    if devices := {model.device.type for model in models} - {"cpu"}:
        raise InputError(
            f"n_process: found {n_process} with a model on {devices.pop()}, which processes cannot share; use"
            " n_process=1, or load the model on the device cpu"
        )
    return parse_in_processes(read, chunks(), count)


def _without_long(texts: Sequence[str], first: int, most: int, normaliser: Normaliser) -> list[str]:
    """Return texts with "" for those of more than `most` words, and warn of these.

    Args:
        first: number of the first text.
    """
    is_long = [is_longer(text, most, normaliser) for text in texts]
    numbers = [number for number, long in enumerate(is_long, first) if long]
    if numbers:
        shown = f"{'texts' if len(numbers) > 1 else 'text'} {listed(numbers, _NUMBERS_SHOWN)}"
        warn_caller(f"{shown}: not parsed, because of more than {most:,} words (max_words)")
    return ["" if long else text for text, long in zip(texts, is_long, strict=True)]


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
        warn_caller(message)
    return parses
