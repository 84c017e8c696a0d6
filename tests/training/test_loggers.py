"""Experiment loggers: the names, steps and values that each gets, resumption, and that none changes a run."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

import syntaxlm
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import parse_json
from syntaxlm.training.loggers import LOGGERS, ExperimentLogger
from syntaxlm.training.run import resume, train
from tests.training.runs import metrics, stop_at

NAMES = ("tensorboard", "trackio", "wandb", "mlflow")


class Board:
    """Stands in for the packages of all loggers, and keeps what each run is given as (name, value, step)."""

    def __init__(self) -> None:
        self.logged: dict[str, list[tuple[str, float, int]]] = {}
        self.started: list[tuple[str, bool]] = []  # names of runs, and whether they are continued
        self.settings: dict[str, str] = {}
        self.ended: list[object] = []
        self.fault: Exception | None = None

    def start(self, name: str, resumes: bool) -> None:
        self.started.append((name, resumes))
        self.logged.setdefault(name, [])

    def add(self, name: str, numbers: dict[str, float], step: int) -> None:
        if self.fault is not None:
            raise self.fault
        self.logged[name] += [(key, value, step) for key, value in numbers.items()]

    def numbers(self) -> list[tuple[str, float, int]]:
        (numbers,) = self.logged.values()
        return numbers


def tensorboard(board: Board) -> dict[str, ModuleType]:
    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int | None = None) -> None:
            board.start(folder, purge_step is not None)
            self.folder = folder
            board.logged[folder] = [one for one in board.logged[folder] if purge_step is None or one[2] < purge_step]

        def add_text(self, tag: str, text: str, step: int) -> None:
            board.settings["model.name"] = "lstm" if "name: lstm" in text else "?"

        def add_scalar(self, name: str, value: float, step: int) -> None:
            board.add(self.folder, {name: value}, step)

        def close(self) -> None:
            board.ended.append(None)

    return {"torch.utils.tensorboard": module(SummaryWriter=SummaryWriter)}


def trackio(board: Board) -> dict[str, ModuleType]:
    def init(project: str, name: str, config: dict, resume: str) -> None:
        assert (project, resume) == ("syntaxlm", "allow")
        board.start(name, name in board.logged)
        board.settings |= config

    def log(numbers: dict[str, float], step: int) -> None:
        board.add(board.started[-1][0], numbers, step)

    return {"trackio": module(init=init, log=log, finish=lambda: board.ended.append(None))}


def wandb(board: Board) -> dict[str, ModuleType]:
    def init(project: str, id: str, name: str, config: dict, resume: str) -> SimpleNamespace:
        assert (project, name, resume) == ("syntaxlm", "run", "allow")
        board.start(id, id in board.logged)
        board.settings |= config

        def log(numbers: dict[str, float]) -> None:
            board.add(id, numbers, numbers.pop("step"))

        return SimpleNamespace(
            log=log,
            define_metric=lambda name, step_metric: None,
            finish=lambda exit_code: board.ended.append(exit_code),
        )

    return {"wandb": module(init=init)}


def mlflow(board: Board) -> dict[str, ModuleType]:
    class MlflowClient:
        def get_experiment_by_name(self, name: str) -> None:
            return None

        def create_experiment(self, name: str) -> str:
            assert name == "syntaxlm"
            return "7"

        def create_run(self, experiment: str, run_name: str) -> SimpleNamespace:
            assert (experiment, run_name) == ("7", "run")
            board.start("abc", False)
            return SimpleNamespace(info=SimpleNamespace(run_id="abc"))

        def update_run(self, run: str, status: str) -> None:
            assert status == "RUNNING"
            board.start(run, True)

        def log_batch(self, run: str, metrics: tuple = (), params: tuple = ()) -> None:
            board.settings |= {one.key: one.value for one in params}
            for one in metrics:
                board.add(run, {one.key: one.value}, one.step)

        def set_terminated(self, run: str, status: str) -> None:
            board.ended.append(status)

    def metric(key: str, value: float, timestamp: int, step: int) -> SimpleNamespace:
        return SimpleNamespace(key=key, value=value, step=step)

    entities = module(Metric=metric, Param=lambda key, value: SimpleNamespace(key=key, value=value))
    return {"mlflow": module(MlflowClient=MlflowClient), "mlflow.entities": entities}


def module(**names: object) -> ModuleType:
    made = ModuleType("fake")
    vars(made).update(names)
    return made


@pytest.fixture(params=NAMES)
def logger(request, monkeypatch) -> tuple[str, Board]:
    board = Board()
    fakes = {"tensorboard": tensorboard, "trackio": trackio, "wandb": wandb, "mlflow": mlflow}
    for name, fake in fakes[request.param](board).items():
        monkeypatch.setitem(sys.modules, name, fake)
    for variable in ("TRACKIO_PROJECT", "WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(variable, raising=False)
    return request.param, board


LOGGED = ("epoch", "train_loss", "valid_loss", "valid_perplexity", "learning_rate", "gradient_norm")


def expected(folder, test) -> set[tuple[str, float, int]]:
    lines = {(name, line[name], line["step"]) for line in metrics(folder) for name in LOGGED if name in line}
    steps = metrics(folder)[-1]["step"]
    return lines | {("test_loss", test.loss, steps), ("test_perplexity", test.perplexity, steps)}


@pytest.mark.parametrize("stopped", [3, 4])  # in the middle, and after the last step
def test_a_logger_gets_the_numbers_of_the_metrics_and_a_resumed_run_continues_its_run(logger, stopped, few, tmp_path):
    name, board = logger
    recipe = few.recipe("lstm", schedule={"epochs": 1, "validations_per_epoch": 2}, run={"log_steps": 1})
    folder = tmp_path / "run"
    with ExperimentLogger(name) as callback:
        stop = stop_at(stopped)
        assert train(recipe, folder, lambda event: (callback(event), stop(event))).stopped
    assert {step for _, _, step in board.numbers()} == set(range(1, stopped + 1))
    with ExperimentLogger(name) as callback:
        result = resume(folder, callback)

    # One run in the logger, with all numbers at their steps; a step that is repeated has the same numbers.
    assert set(board.numbers()) == expected(folder, result.test)
    assert len(board.numbers()) == len(set(board.numbers()))
    assert [resumes for _, resumes in board.started] == [False, True]
    assert len(board.logged) == 1
    assert board.settings["model.name"] == "lstm"
    assert not any(name.startswith("about") for name in board.settings)
    assert parse_json((folder / LOGGERS).read_bytes(), LOGGERS).keys() == {name}
    assert len(board.ended) == 2
    assert board.ended in ([None, None], [1, 0], ["KILLED", "FINISHED"])


def test_a_logger_that_fails_warns_once_and_does_not_change_the_run(logger, few, tmp_path):
    name, board = logger
    recipe = few.recipe("lstm", schedule={"epochs": 1})
    train(recipe, tmp_path / "alone")
    board.fault = ConnectionError("no route to host")
    with pytest.warns(InputWarning) as warned:
        syntaxlm.train(recipe, tmp_path / "run", callbacks=[ExperimentLogger(name)])
    texts = [str(one.message) for one in warned if "logger" in str(one.message)]
    assert texts == [f"the logger {name} failed: no route to host. Training continues without it"]
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == (
        tmp_path / "alone" / "weights.safetensors"
    ).read_bytes()
    assert metrics(tmp_path / "run") == metrics(tmp_path / "alone")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_is_named_before_training(name, monkeypatch, refused, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard" if name == "tensorboard" else name, None)
    message = refused("train", "lstm-toy", "-o", tmp_path / "run", "--logger", name)
    assert f"the logger {name} needs the package {name}" in message
    assert f"pip install {name}" in message
    assert not (tmp_path / "run").exists()


def test_an_unknown_logger_is_refused():
    with pytest.raises(InputError, match="found 'comet'; expected tensorboard, trackio, wandb, mlflow"):
        ExperimentLogger("comet")  # type: ignore[arg-type]


def test_callbacks_are_called_in_order_and_entered_if_they_are_contexts(few, tmp_path):
    seen: list[str] = []

    class Context(nullcontext):
        def __enter__(self):
            seen.append("enter")

        def __exit__(self, *_):
            seen.append("exit")

        def __call__(self, event):
            seen.append(f"first {event.kind}")

    recipe = few.recipe("lstm", schedule={"epochs": 1})
    callbacks = [Context(), lambda event: seen.append(f"second {event.kind}")]
    syntaxlm.train(recipe, tmp_path / "run", callbacks=callbacks)
    assert seen[:3] == ["enter", "first step", "second step"]
    assert seen[-3:] == ["first end", "second end", "exit"]
    with pytest.raises(TypeError, match="callbacks: found 'tensorboard'; expected a function of an event"):
        syntaxlm.train(recipe, tmp_path / "other", callbacks="tensorboard")
