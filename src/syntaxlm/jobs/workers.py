"""The workers of a job, processes of this machine or actors of Ray, and the distribution of tasks among them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from syntaxlm.core.errors import InputError
from syntaxlm.core.option_names import option_name
from syntaxlm.core.threads import core_count, when_parent_ends

STARTS = 3  # how often a worker may end before it is ready, without another one that is ready

_KILLED_FIRST = "500"  # added to the badness of a worker, so that Linux does not end the process that runs the job
_OBJECT_STORE = 200 << 20  # bytes: of a local Ray, through which only lines of compressed files pass


class Outcome(NamedTuple):
    """The end of a task, or of the setup of a worker.

    Attributes:
        status: "done"; "failed": an unexpected error, and the worker is ready for another task; "refused": the input or
            the options are wrong, or nothing can be written, so the job cannot continue; "ended": the worker was
            killed, or it crashed.
        result: the result of a task that is done; of a setup, the description of what the worker loaded.
        reason: the reason of other ends.
    """

    status: Literal["done", "failed", "refused", "ended"]
    result: Any = None
    reason: str = ""


DoTask = Callable[[Any], Any]
SetUp = Callable[[int], tuple[Any, DoTask]]
"""Called in each worker with its number. Returns a description, the same in all workers, and what does a task."""


class InWorker:
    """What a worker does: one setup, and then tasks. Errors become outcomes."""

    def set_up(self, set_up: SetUp, number: int) -> Outcome:
        def load() -> Any:
            description, self._do = set_up(number)
            return description

        return self._outcome_of(load)

    def do(self, task: Any) -> Outcome:
        return self._outcome_of(lambda: self._do(task))

    def _outcome_of(self, call: Callable[[], Any]) -> Outcome:
        try:
            return Outcome("done", call())
        except InputError as error:
            return Outcome("refused", reason=str(error))
        except Exception as error:  # such as MemoryError: the other shards may be possible
            return Outcome("failed", reason=f"{type(error).__name__}: {error}")


class Engine(ABC):
    """Starts workers, and gives them tasks. A worker is what `start` returns."""

    @abstractmethod
    def start(self, number: int) -> tuple[Any, Future[Outcome]]:
        """Begin to start a worker. Returns the worker, and the outcome of its setup."""

    @abstractmethod
    def submit(self, worker: Any, task: Any) -> Future[Outcome]:
        """Give a worker a task, if it is ready for one."""

    @abstractmethod
    def stop(self, worker: Any) -> None:
        """End a worker at once."""

    @abstractmethod
    def how_it_ended(self, worker: Any, error: BaseException) -> str:
        """Return how a worker ended, for the exception of a future that has no outcome."""

    @abstractmethod
    def default_workers(self) -> int:
        """Return the number of workers that use all processor cores."""

    def close(self) -> None:  # noqa: B027  # not every engine holds something else
        """Free what the engine holds besides its workers."""


class Pool:
    """The workers of a job. They are started when they are needed, and replaced when they end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: list[Any] = []
        self._busy: dict[Future[Outcome], tuple[Any, Any]] = {}  # worker and task; None while the worker starts
        self._started = self._failed_starts = 0
        self._description: Any = None

    def describe(self) -> Any:
        """Return the description of a worker. Raises InputError if it refuses its setup, or cannot be started."""
        while self._description is None:
            self._start()
            for _ in self._finished():
                pass
        return self._description

    def run(self, tasks: Iterable[Any], workers: int) -> Iterator[tuple[Any, Outcome]]:
        """Do tasks, and yield each with its outcome, in the order in which they end.

        Args:
            tasks: taken only when a worker is ready.
            workers: the largest number of workers.

        Raises:
            InputError: if a worker refuses to continue, or no worker can be started.
        """
        while len(self._idle) > workers:
            self._engine.stop(self._idle.pop())
        rest = iter(tasks)
        following = next(rest, None)
        while following is not None or self._busy:
            while following is not None and len(self._busy) < workers:
                if not self._idle:
                    self._start()
                    continue
                worker = self._idle.pop()
                self._busy[self._engine.submit(worker, following)] = worker, following
                following = next(rest, None)
            yield from self._finished()

    def close(self) -> None:
        """End all workers."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            self._engine.stop(worker)
        self._idle, self._busy = [], {}
        self._engine.close()

    def _start(self) -> None:
        worker, ready = self._engine.start(self._started)
        self._busy[ready] = worker, None
        self._started += 1

    def _finished(self) -> Iterator[tuple[Any, Outcome]]:
        """Wait until a worker has finished, and yield the tasks of those that have, with their outcomes."""
        for future in wait(self._busy, return_when=FIRST_COMPLETED).done:
            worker, task = self._busy.pop(future)
            error = future.exception()
            if error is None:
                outcome = future.result()
            else:
                outcome = Outcome("ended", reason=self._engine.how_it_ended(worker, error))
            if outcome.status == "done" or (task is not None and outcome.status == "failed"):
                self._idle.append(worker)
            else:
                self._engine.stop(worker)
            if outcome.status == "refused":
                raise InputError(outcome.reason)
            if task is not None:
                yield task, outcome
            elif outcome.status == "done":
                self._failed_starts = 0
                if self._description not in (None, outcome.result):
                    raise InputError(
                        "a worker found other models than the first worker: a model changed during the job"
                    )
                self._description = outcome.result
            else:
                self._failed_starts += 1
                if self._failed_starts >= STARTS:
                    raise InputError(f"workers cannot be started: {outcome.reason}")


class ProcessEngine(Engine):
    """Starts a process per worker. A program that uses it needs the guard `if __name__ == "__main__":`.

    Each process has an executor of its own: if it is killed, it is known which task it did. Processes are not forked:
    torch may have started threads, which a forked process lacks.
    """

    def __init__(self, set_up: SetUp) -> None:
        self._set_up = set_up

    def start(self, number: int) -> tuple[Any, Future[Outcome]]:
        before = multiprocessing.active_children()
        try:
            executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
            ready = executor.submit(_set_up_process, self._set_up, number)
        except OSError as error:  # for instance, each worker needs some open files
            reason = error.strerror or error
            raise InputError(
                f"worker {number + 1} cannot be started: {reason}. Use fewer workers ({option_name('--workers')})"
            ) from error
        (process,) = set(multiprocessing.active_children()).difference(before)
        return (executor, process), ready

    def submit(self, worker: Any, task: Any) -> Future[Outcome]:
        executor: ProcessPoolExecutor = worker[0]
        return executor.submit(_do_in_process, task)

    def stop(self, worker: Any) -> None:
        executor, process = worker
        process.kill()
        executor.shutdown()

    def how_it_ended(self, worker: Any, error: BaseException) -> str:
        executor, process = worker
        executor.shutdown()  # its thread waits for the process, too: until it ends, only that thread may know the code
        process.join()
        code: int = process.exitcode
        if code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            name = signal.Signals(-code).name
            return f"was killed by {name}" + (", perhaps because memory was exhausted" if name == "SIGKILL" else "")
        return f"was killed by signal {-code}"

    def default_workers(self) -> int:
        return core_count()


_in_process = InWorker()  # used in worker processes


def _set_up_process(set_up: SetUp, number: int) -> Outcome:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the process that runs the job ends its workers
    when_parent_ends(lambda: os._exit(1))  # it was killed, otherwise it ends its workers
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text(_KILLED_FIRST, encoding="utf-8")
    if number > 0:  # warnings are those of the first worker
        warnings.simplefilter("ignore")
    warnings.showwarning = lambda message, *_: print(f"syntaxlm: warning: {message}", file=sys.stderr)
    return _in_process.set_up(set_up, number)


def _do_in_process(task: Any) -> Outcome:
    return _in_process.do(task)


class Ray(Engine):
    """Starts an actor of Ray per worker, with one processor core each and, if asked for, one GPU.

    Args:
        address: the address of a cluster; None: Ray is started on this machine, and ended by `close`.
        workers: number of cores of a Ray on this machine; None: all.
        with_gpu: whether a worker needs a GPU.

    Raises:
        InputError: if Ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, set_up: SetUp, address: str | None, workers: int | None, with_gpu: bool = False) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing is reported to the makers of Ray
        try:
            import ray
        except ModuleNotFoundError as error:
            if error.name != "ray":  # installed, but broken
                raise
            raise InputError(
                "--engine ray: Ray is not installed. Install it with: pip install 'syntaxlm[ray]'"
            ) from None
        self._ray, self._set_up = ray, set_up
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
        settings["runtime_env"] = {"env_vars": {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}}
        if address is None:
            cores = workers or core_count()
            settings |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
        try:
            ray.init(address or "local", **settings)
        except Exception as error:  # Ray raises this class itself if a node does not start in time
            raise InputError(f"--engine ray: cannot be started: {error}") from error
        self._make = ray.remote(num_cpus=1, num_gpus=int(with_gpu), max_restarts=0)(InWorker)

    def start(self, number: int) -> tuple[Any, Future[Outcome]]:
        actor: Any = self._make.remote()
        return actor, actor.set_up.remote(self._set_up, number).future()

    def submit(self, worker: Any, task: Any) -> Future[Outcome]:
        future: Future[Outcome] = worker.do.remote(task).future()
        return future

    def stop(self, worker: Any) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(worker)

    def how_it_ended(self, worker: Any, error: BaseException) -> str:
        return f"ended: {str(error).splitlines()[0]}"

    def default_workers(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 1))

    def close(self) -> None:
        self._ray.shutdown()
