"""Experiment loggers: TensorBoard, trackio, Weights & Biases and MLflow, as callbacks of a training.

All get the numbers of metrics.jsonl, under the same names and at the same steps. loggers.json in the folder of a run
has the name or number of its run in each logger, which a resumed training continues. The package of a logger is
imported only if the logger is asked for. Errors of a logger are warnings: training continues without it.
"""

from __future__ import annotations

import importlib
import math
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.files import parse_json, read_stored, read_stored_text, to_json, write_text
from syntaxlm.core.iteration import batched
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.training.recipe_files import ABOUT

if TYPE_CHECKING:
    from syntaxlm.training.progress import Event

LoggerName = Literal["tensorboard", "trackio", "wandb", "mlflow"]

PROJECT = "syntaxlm"  # of the loggers that have projects, unless their own variables of the environment name another
LOGGERS = "loggers.json"
_RECIPE = "recipe.yaml"
_LOGGED = frozenset({"step", "valid", "round", "end"})  # kinds of events with numbers
_PLACE = frozenset({"step"})  # names of values that say when
_MOST_PARAMETERS = 100  # in one request to MLflow
_LONGEST_PARAMETER = 500  # characters in MLflow


@dataclass(frozen=True)
class RunStart:
    """What a logger needs to know when it starts or continues a run.

    Attributes:
        folder: the folder of the run.
        step: the first step that is logged, perhaps again.
        logged_as: the run in the logger that is continued, as in loggers.json; None for a new one.
    """

    folder: Path
    step: int
    logged_as: str | None

    @property
    def new_name(self) -> str:
        """A name that no other run has."""
        return f"{self.folder.resolve().name}-{secrets.token_hex(4)}"

    @property
    def recipe(self) -> str:
        """The recipe as YAML."""
        return read_stored_text(self.folder / _RECIPE)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the recipe, by dotted name."""
        sections = {name: section for name, section in parse_yaml(self.recipe, _RECIPE).items() if name != ABOUT}
        return dict(_flat(sections))


def _flat(settings: Mapping[str, Any], section: str = "") -> list[tuple[str, Any]]:
    """Return the dotted names and values of nested settings."""
    pairs: list[tuple[str, Any]] = []
    for name, value in settings.items():
        pairs += _flat(value, f"{section}{name}.") if isinstance(value, Mapping) else [(f"{section}{name}", value)]
    return pairs


class _LoggedRun(ABC):
    """A run in a logger.

    Attributes:
        module: the module that is imported.
        package: what is installed.
        logged_as: how the run is found again.
    """

    module: ClassVar[str]
    package: ClassVar[str]
    logged_as: str

    @abstractmethod
    def __init__(self, start: RunStart) -> None: ...

    @abstractmethod
    def log(self, numbers: Mapping[str, float], step: int) -> None: ...

    @abstractmethod
    def finish(self, completed: bool) -> None: ...


class _TensorBoardRun(_LoggedRun):
    """Event files in the folder `tensorboard` of the run. A resumed run hides the steps that it repeats."""

    module = "torch.utils.tensorboard"
    package = "tensorboard"

    def __init__(self, start: RunStart) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.logged_as = start.logged_as or "tensorboard"
        first = None if start.logged_as is None else start.step
        self._writer: Any = SummaryWriter(str(start.folder / self.logged_as), purge_step=first)
        if start.logged_as is None:
            self._writer.add_text("recipe", f"```yaml\n{start.recipe}```", start.step)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def finish(self, completed: bool) -> None:
        self._writer.close()


class _TrackioRun(_LoggedRun):
    module = package = "trackio"

    def __init__(self, start: RunStart) -> None:
        import trackio

        self.logged_as = start.logged_as or start.new_name
        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        trackio.init(project=project, name=self.logged_as, config=start.settings, resume="allow")
        self._trackio = trackio

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(numbers), step=step)

    def finish(self, completed: bool) -> None:
        self._trackio.finish()


class _WandbRun(_LoggedRun):
    """A run of Weights & Biases. Its own steps may not be repeated, so ours are a metric, the axis of the others."""

    module = package = "wandb"

    def __init__(self, start: RunStart) -> None:
        import wandb

        self.logged_as = start.logged_as or start.new_name
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        name = start.folder.resolve().name
        self._run = wandb.init(project=project, id=self.logged_as, name=name, config=start.settings, resume="allow")
        self._run.define_metric("*", step_metric="step")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log({"step": step, **numbers})

    def finish(self, completed: bool) -> None:
        self._run.finish(exit_code=0 if completed else 1)


class _MlflowRun(_LoggedRun):
    """A run of MLflow, without the active run of the process, which may belong to the user."""

    module = package = "mlflow"

    def __init__(self, start: RunStart) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        if start.logged_as is not None:
            self.logged_as = start.logged_as
            self._client.update_run(self.logged_as, status="RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        number = self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        self.logged_as = self._client.create_run(number, run_name=start.folder.resolve().name).info.run_id
        parameters = [Param(key, str(value)[:_LONGEST_PARAMETER]) for key, value in start.settings.items()]
        for several in batched(parameters, _MOST_PARAMETERS):
            self._client.log_batch(self.logged_as, params=list(several))

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in numbers.items()]
        self._client.log_batch(self.logged_as, metrics=metrics)

    def finish(self, completed: bool) -> None:
        self._client.set_terminated(self.logged_as, "FINISHED" if completed else "KILLED")


_RUNS: dict[str, type[_LoggedRun]] = {
    "tensorboard": _TensorBoardRun,
    "trackio": _TrackioRun,
    "wandb": _WandbRun,
    "mlflow": _MlflowRun,
}


class ExperimentLogger:
    """A callback that writes the losses, scores, learning rate and gradient norm of a training to a logger.

    The names of the numbers are those of metrics.jsonl, such as `train_loss` and `valid_perplexity`. It is a context
    manager, which `syntaxlm.train` enters: its end marks a run that was not completed. Several trainings, one after the
    other, are runs of their own in the logger.

    Args:
        name: "tensorboard", "trackio", "wandb" or "mlflow".

    Raises:
        InputError: for another name, and if the package of the logger is not installed.

    Examples:
        >>> logger = syntaxlm.ExperimentLogger("tensorboard")  # for syntaxlm.train(..., callbacks=[logger])
        >>> logger.name
        'tensorboard'
    """

    def __init__(self, name: LoggerName) -> None:
        if name not in _RUNS:
            raise InputError(f"logger: found {name!r}; expected {', '.join(get_args(LoggerName))}")
        self.name = name
        self._type = _RUNS[name]
        self._run: _LoggedRun | None = None
        self._folder: Path | None = None
        self._last: dict[str, tuple[int, float]] = {}  # steps and values: a validation repeats some of its step
        self._has_failed = False
        try:
            importlib.import_module(self._type.module)
        except ImportError as error:
            package = self._type.package
            raise InputError(
                f"the logger {name} needs the package {package} ({error}). Install it with: pip install {package}"
            ) from error

    def __call__(self, event: Event) -> None:
        """Log the numbers of an event. Gives an InputWarning if the logger fails, and logs nothing more."""
        if self._has_failed or event.kind not in _LOGGED or not event.values:
            return
        try:
            self._log(event)
        except Exception as error:  # of a library, its server or its files
            self._fail(error)

    def __enter__(self) -> ExperimentLogger:
        return self

    def __exit__(self, *_: object) -> None:
        self._finish(completed=False)

    def _log(self, event: Event) -> None:
        step = event.values["step"]
        if self._run is None or event.folder != self._folder:
            self._finish(completed=False)
            self._folder = event.folder
            self._last = {}
            # The end of a run that is resumed after its last step repeats no step.
            self._run = self._started(event.folder, step + (event.kind == "end"))
        numbers = {name: float(value) for name, value in event.values.items() if _is_number(name, value)}
        new = {name: value for name, value in numbers.items() if self._last.get(name) != (step, value)}
        if new:
            self._run.log(new, step)
        self._last |= {name: (step, value) for name, value in new.items()}
        if event.kind == "end":
            self._finish(completed=not event.values["stopped"])

    def _started(self, folder: Path, step: int) -> _LoggedRun:
        """Start a run in the logger or continue that of the folder, and store which it is."""
        path = folder / LOGGERS
        stored: dict[str, str] = parse_json(read_stored(path), str(path)) if path.exists() else {}
        run = self._type(RunStart(folder, step, stored.get(self.name)))
        write_text(to_json(stored | {self.name: run.logged_as}) + "\n", path, stored=True)
        return run

    def _finish(self, completed: bool) -> None:
        """Finish the run in the logger, if there is one."""
        run, self._run = self._run, None
        if run is None:
            return
        try:
            run.finish(completed)
        except Exception as error:  # of a library, its server or its files
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Warn of the first error."""
        if not self._has_failed:
            reason = str(error) or type(error).__name__
            warn_caller(f"the logger {self.name} failed: {reason}. Training continues without it")
        self._has_failed = True


def _is_number(name: str, value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and name not in _PLACE and math.isfinite(value)  # type: ignore[arg-type]
