"""Commands that are killed (SIGKILL) at random moments and repeated or resumed give the results of uninterrupted ones.

The processes are forks of this one, which has imported torch already: a process that is killed has worked, not only
started. The seed of the moments is in the name of each test.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from syntaxlm.cli import main
from syntaxlm.comparison.runs import COMPARISON
from syntaxlm.core.files import UNFINISHED
from syntaxlm.core.tensor_files import read_tensors
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.generation.stops import STOP_WEIGHTS, STOPS
from syntaxlm.jobs.folder import REPORT, ROWS
from syntaxlm.training.result import CHECKPOINT, METRICS, RECIPE
from tests.comparison.test_focus import PCFG
from tests.training.runs import TREE_RNN
from tests.training.runs import tree_data as data_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="clocks of other processes"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="a fork cannot use a GPU of this process"),
]

LONG = pytest.mark.long
KILLS_OF_A_RUN = 3  # then it ends
DMV = {"name": "dmv", "smoothing": 0.01}
FEW = KILLS_OF_A_RUN  # in `make test`: one run
MOST_LIVES = 20
TIMES = ("seconds", "minutes", "tokens_per_second", "folder", "metrics_bytes", "run")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Imports here what every fork would otherwise import for itself."""
    import syntaxlm.training.run  # noqa: F401


def fork(arguments: list[str]) -> int:
    """Starts a command. Returns the process id."""
    child = os.fork()
    if child:
        return child
    code = 99
    with contextlib.suppress(BaseException), open(os.devnull, "w") as nothing:
        sys.stdout = sys.stderr = nothing
        code = main(arguments)
    os._exit(code)


def run(arguments: list[str], wall: bool = False) -> float:
    """Runs a command to its end. Returns its CPU or wall-clock time in seconds."""
    started = time.monotonic()
    _, status, used = os.wait4(fork(arguments), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return time.monotonic() - started if wall else used.ru_utime + used.ru_stime


def killed(arguments: list[str], seconds: float, wall: bool = False) -> int:
    """Starts a command and kills it after some seconds of CPU time, which does not depend on the load of the machine.

    wall: wall-clock time counts instead, for a command whose work other processes do.
    Returns its exit code: -9 if it had not ended before.
    """
    child = fork(arguments)
    clock = (~child << 3) | 2  # CPU-time clock of a process, as by clock_getcpuclockid, which Python lacks
    started = time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if (time.monotonic() - started if wall else time.clock_gettime(clock)) >= seconds:
            break
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def until_killed_often(
    command: Callable[[Path], list[str]], whole: Path, broken: Path, check: Callable[[Path, Path], None],
    kills: int, seed: int, intact: Callable[[Path], None] = lambda folder: None, wall: bool = False,
) -> None:  # fmt: skip
    """Runs a command to its end in one folder and, with kills, in others; compares the results.

    command: the arguments that start or resume it in a folder.
    check: compares two results.  intact: checks what a killed command has left.  wall: see `killed`.
    """
    duration = run(command(whole), wall)
    moments, done, early = random.Random(seed), 0, 0
    for life in range(MOST_LIVES):
        folder = broken.with_name(f"{broken.name}-{life}")
        for _ in range(min(KILLS_OF_A_RUN, kills - done)):
            code = killed(command(folder), moments.uniform(0, duration), wall)
            intact(folder)
            if code != -signal.SIGKILL:
                assert code == 0
                early += 1
                break
            done += 1
        run(command(folder))
        check(whole, folder)
        if done >= kills:
            break
    print(f"\nseed {seed}: {done} kills, {life + 1} runs, {early} ended before a kill, {duration:.1f} seconds each")
    assert done >= kills


def resumed(recipe: Path) -> Callable[[Path], list[str]]:
    def command(folder: Path) -> list[str]:
        if (folder / RECIPE).exists():
            return ["train", "--resume", str(folder)]
        return ["train", str(recipe), "-o", str(folder)]

    return command


def without_times(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def state(folder: Path) -> tuple[object, ...]:
    """The contents of a run folder, without times and paths."""
    tensors, notes = read_tensors(folder / CHECKPOINT)
    progress = without_times({name: json.loads(note) for name, note in notes.items()})
    lines = [without_times(json.loads(line)) for line in (folder / METRICS).read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    start = {name: result["run"][name] for name in ("recipe", "overrides", "seed", "sha256")}
    values = {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
    files = [path.read_bytes() for path in sorted(folder.glob("*.json")) if path.name != "result.json"]
    weights = (folder / "weights.safetensors").read_bytes()
    return values, progress, lines, without_times(result), start, files, weights


def same_run(one: Path, other: Path) -> None:
    for first, second in zip(state(one), state(other), strict=True):
        assert first == second
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir())


def written(path: Path, data: dict) -> Path:
    path.write_text(yaml_text(data))
    return path


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    ("kind", "kills"), [("em", FEW), *(pytest.param(kind, 9, marks=LONG) for kind in ("gradient", "em", "pcfg"))]
)
def test_training_with_kills_ends_as_without(toy, few, tmp_path, kind, kills, seed):
    often = {"checkpoint_seconds": 0.0, "log_steps": 1}
    data = {
        "gradient": toy.recipe_data("prpn", run=often, batches={"context": "carry"}, schedule={"epochs": 6}),
        "em": toy.recipe_data("lstm", schedule={"epochs": 12 if kills > FEW else 5}) | {"model": DMV},
        "pcfg": few.recipe_data("lstm", run=often, schedule={"epochs": 4}) | {"model": PCFG},
    }[kind]
    if kind == "em":
        data["batches"] = {"token_budget": 32768, "maximum_words": 10}
    recipe = written(tmp_path / "recipe.yaml", data)
    until_killed_often(resumed(recipe), tmp_path / "whole", tmp_path / "broken", same_run, kills, seed)


@LONG
@pytest.mark.parametrize("seed", [2])
def test_stop_classifiers_with_kills_are_those_without_and_earlier_ones_stay_intact(toy, tmp_path, seed):
    model = tmp_path / "model"
    recipe = written(tmp_path / "recipe.yaml", data_of(toy, model=TREE_RNN, schedule={"epochs": 1}))
    run(["train", str(recipe), "-o", str(model)])
    given = ["--epochs", "4", "--valid", str(toy / "valid.conllu")]

    def command(folder: Path) -> list[str]:
        if not folder.exists():
            shutil.copytree(model, folder)
        return ["tune", "stops", str(folder), str(toy / "train.conllu"), *given]

    def same(one: Path, other: Path) -> None:
        for name in (STOPS, STOP_WEIGHTS):
            assert (one / name).read_bytes() == (other / name).read_bytes()
        assert not list(other.glob(f".*{UNFINISHED}"))

    def intact(folder: Path) -> None:
        assert (folder / "weights.safetensors").read_bytes() == (model / "weights.safetensors").read_bytes()
        if (folder / STOP_WEIGHTS).exists():
            assert read_tensors(folder / STOP_WEIGHTS)

    until_killed_often(command, tmp_path / "whole", tmp_path / "broken", same, 5, seed, intact)


@LONG
@pytest.mark.parametrize("seed", [3])
def test_a_comparison_with_kills_is_the_one_without(few, tmp_path, seed):
    often = {"checkpoint_seconds": 0.0}
    recipes = [
        str(written(tmp_path / f"{name}.yaml", few.recipe_data(name, run=often, schedule={"epochs": 2})))
        for name in ("prpn", "lstm")
    ]

    def command(folder: Path) -> list[str]:
        return ["compare", *recipes, "--seeds", "2", "-o", str(folder)]

    def same(one: Path, other: Path) -> None:
        for name in ("prpn", "lstm"):
            for seed in (1, 2):
                same_run(one / name / f"seed-{seed}", other / name / f"seed-{seed}")
        first, second = (json.loads((folder / COMPARISON).read_text()) for folder in (one, other))
        assert without_times(first) == without_times(second)
        assert not list(other.rglob(f".*{UNFINISHED}"))

    until_killed_often(command, tmp_path / "whole", tmp_path / "broken", same, 6, seed)


@pytest.mark.parametrize("seed", [4])
@pytest.mark.parametrize("kills", [FEW, pytest.param(6, marks=LONG)])
def test_trees_with_kills_are_those_without_and_an_earlier_file_is_replaced_only_as_a_whole(
    trained, toy, tmp_path, kills, seed
):
    text = tmp_path / "text.txt"
    text.write_text((toy / "train.txt").read_text() * 60)

    def command(folder: Path) -> list[str]:
        folder.mkdir(exist_ok=True)
        if not (folder / "trees.txt").exists():
            (folder / "trees.txt").write_text("earlier")
        return ["parse", str(trained.prpn), str(text), "-o", str(folder / "trees.txt")]

    def same(one: Path, other: Path) -> None:
        assert (one / "trees.txt").read_bytes() == (other / "trees.txt").read_bytes()

    def intact(folder: Path) -> None:
        if (found := (folder / "trees.txt").read_bytes()) != b"earlier":
            assert found == (tmp_path / "whole" / "trees.txt").read_bytes()

    until_killed_often(command, tmp_path / "whole", tmp_path / "broken", same, kills, seed, intact)


@LONG
@pytest.mark.parametrize(("engine", "kills", "seed"), [("processes", 4, 5), ("ray", 2, 6)])
def test_a_job_with_kills_has_the_rows_of_one_without(trained, toy, tmp_path, engine, kills, seed):
    if engine == "ray":
        pytest.importorskip("ray")
    text = tmp_path / "text.txt"
    text.write_text((toy / "train.txt").read_text() * 60)
    lines = len(text.read_text().splitlines())

    def command(folder: Path) -> list[str]:
        shards = ["--lines-per-shard", str(lines // 40), "--workers", "2", "--engine", engine]
        return ["parse", str(trained.prpn), str(text), *shards, "-o", str(folder)]

    def same(one: Path, other: Path) -> None:
        names = [path.name for path in sorted((one / ROWS).iterdir())]
        assert len(names) >= 40
        assert names == [path.name for path in sorted((other / ROWS).iterdir())]
        for name in names:
            assert (one / ROWS / name).read_bytes() == (other / ROWS / name).read_bytes()
        assert json.loads((other / REPORT).read_text())["lines"] == lines

    until_killed_often(command, tmp_path / "whole", tmp_path / "broken", same, kills, seed, wall=True)
