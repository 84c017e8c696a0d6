"""Workers that are actors of Ray, on one machine or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from syntaxlm.app.jobs.engines import Done, Ended, Engine, Event, Ready, Work, answer
from syntaxlm.app.jobs.processes import usable_cores
from syntaxlm.core.errors import InputError

_OBJECT_STORE = 200 << 20  # bytes: of a local Ray, through which only lines of compressed files pass


@dataclass(eq=False)
class _Actor:
    """A worker, and what it will report next."""

    handle: Any
    report: Any


class _Worker:
    """The class of the actors."""

    def __init__(self, setup: Callable[[int], Work]) -> None:
        self._setup = setup
        self._work: Work | None = None

    def start(self, number: int) -> Event:
        def load() -> Event:
            self._work = self._setup(number)
            return Ready(self._work.description)  # type: ignore[attr-defined]

        return answer(load)

    def do(self, task: Any) -> Event:
        assert self._work is not None
        work = self._work
        return answer(lambda: Done(work(task)))


class RayEngine(Engine):
    """Starts an actor per worker, with one processor core each and, if asked for, one GPU.

    setup: see `Engine`.
    address: of a cluster; None: Ray is started on this machine, and ended by `close`.
    workers: number of cores of a Ray on this machine; None: all.
    with_gpu: whether a worker needs a GPU.
    Raises InputError if Ray is not installed, or the cluster cannot be reached.
    """

    def __init__(
        self, setup: Callable[[int], Work], address: str | None, workers: int | None, with_gpu: bool = False
    ) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing is reported to the makers of Ray
        try:
            import ray
        except ModuleNotFoundError as error:
            if error.name != "ray":  # installed, but broken
                raise
            raise InputError("--engine ray: Ray is not installed: pip install 'syntaxlm[ray]'") from None
        self._ray, self._setup, self._is_local = ray, setup, address is None
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
        settings["runtime_env"] = {"env_vars": {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}}
        if address is None:
            cores = workers or usable_cores()
            settings |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
        try:
            ray.init(address or "local", **settings)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"--engine ray: cannot be started: {error}") from error
        self._make = ray.remote(num_cpus=1, num_gpus=int(with_gpu), max_restarts=0)(_Worker)

    def start(self, number: int) -> _Actor:
        handle: Any = self._make.remote(self._setup)
        return _Actor(handle, handle.start.remote(number))

    def give(self, worker: _Actor, task: Any) -> None:
        worker.report = worker.handle.do.remote(task)

    def wait(self, workers: Sequence[_Actor]) -> list[tuple[_Actor, Event]]:
        ready, _ = self._ray.wait([worker.report for worker in workers])
        return [(worker, self._received(worker)) for worker in workers if worker.report in ready]

    def _received(self, worker: _Actor) -> Event:
        try:
            event: Event = self._ray.get(worker.report)
        except self._ray.exceptions.RayError as error:
            return Ended(f"ended: {str(error).splitlines()[0]}")
        return event

    def stop(self, worker: _Actor) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(worker.handle)

    def default_workers(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 1))

    def close(self) -> None:
        self._ray.shutdown()
