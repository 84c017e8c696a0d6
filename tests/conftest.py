"""What several packages test with: the built-in corpus, small, and three tiny models trained on it.

The process that only distributes tests to xdist's workers reads this file, too, so torch is imported when needed.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

if TYPE_CHECKING:
    from syntaxlm.storage.folder import ModelBundle
    from syntaxlm.training.recipe import Recipe

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # idle threads of OpenMP sleep instead of taking processor time

MODELS = {
    "prpn": {
        "name": "prpn", "embedding_size": 12, "hidden_size": 16, "layers": 2, "memory_slots": 4, "look_back": 3,
        "residual_blocks": 1, "dropout": 0.2, "layer_dropout": 0.2, "recurrent_dropout": 0.2, "init_range": 0.1,
    },
    "lstm": {"name": "lstm", "embedding_size": 12, "hidden_size": 16, "layers": 2},
    "on-lstm": {"name": "on-lstm", "embedding_size": 12, "layer_sizes": [12, 12], "chunk_size": 4},
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Toy:
    """A small built-in corpus in a folder, and recipes for it."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def recipe_data(self, model: str = "prpn", /, **sections: dict[str, Any]) -> dict[str, Any]:
        """A recipe as nested dicts: seconds of training; `sections` are put over it, setting by setting."""
        is_stream = sections.get("batches", {}).get("context") == "carry"
        data: dict[str, Any] = {
            "model": MODELS[model],
            "text": {part: str(self.folder / f"{part}.txt") for part in ("train", "valid", "test")},
            "batches": {"batch_size": 8, "bptt": 12} if is_stream else {"token_budget": 256},
            "optimiser": {"learning_rate": 0.01, "beta1": 0.0},
            "schedule": {"epochs": 2},
            "run": {"accelerator": "cpu", "log_steps": 3},
        }
        return {name: values | sections.get(name, {}) for name, values in data.items()}

    def recipe(self, model: str = "prpn", /, **sections: dict[str, Any]) -> Recipe:
        from syntaxlm.training.recipe import recipe_from

        return recipe_from(self.recipe_data(model, **sections), "recipe.yaml")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Settings of the processes that run tests."""
    if session.config.getoption("numprocesses", None):  # it only distributes them
        return
    gc.disable()  # until all tests are collected: nearly all that is made before stays
    import hypothesis
    import torch

    # Property tests draw fewer examples unless the long tests run, too (make test-all).
    hypothesis.settings.register_profile("short", max_examples=30, deadline=None)
    hypothesis.settings.register_profile("long", max_examples=200, deadline=None)
    hypothesis.settings.load_profile("long" if os.environ.get("SYNTAXLM_LONG_TESTS") else "short")
    torch.set_num_threads(1)  # tiny products: more threads only wait for each other


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most combinations of parameters as long where several `parametrize` multiply them.

    The short tests have each value of each parameter, and every fourth of the other combinations.
    """
    seen: set[tuple[str, tuple[str, ...], tuple[int, ...]]] = set()
    repeated: Counter[str] = Counter()
    for item in items:
        if not hasattr(item, "callspec") or item.get_closest_marker("long"):
            continue
        test, parameters = item.nodeid.partition("[")[0], item.callspec.params
        together = [argument_names(mark) for mark in item.iter_markers("parametrize")]
        named = {name for names in together for name in names}
        together += [(name,) for name in parameters if name not in named]  # of fixtures
        rows = {(test, names, tuple(id(parameters[name]) for name in names)) for names in together}
        if rows <= seen:
            repeated[test] += 1
            if repeated[test] % 4:
                item.add_marker("long")
        seen |= rows


def argument_names(mark: pytest.Mark) -> tuple[str, ...]:
    """The parameters that one `parametrize` gives."""
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip tests that need pipes, forks or signals of POSIX on Windows, which lacks them."""
    try:
        return (yield)
    except AttributeError as error:
        if sys.platform == "win32" and error.obj in (os, signal):
            pytest.skip(f"needs {error.name} of POSIX")
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Print the exit code of a worker that did not end by itself; negative: the signal that killed it."""
    if error:
        print(f"\n{node.gateway.id} ended with exit code {node.gateway._io.popen.wait(timeout=30)}", flush=True)


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported and collected is not searched again
    gc.enable()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a folder of a name in the first worker that asks for it; the others get the same one.

    Nothing may be written into it afterwards.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def made_once(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = root / name, root / f"{name}.done"
        with FileLock(root / f"{name}.lock"):
            if not done.exists():
                make(folder)
                done.touch()
        return folder

    return made_once


@pytest.fixture(scope="session")
def larger_toy(made_once) -> Toy:
    """300 training sentences, 15 to validate and 15 to test on: enough that a model learns more than the vocabulary."""
    from syntaxlm.data.toy import write_corpus

    return Toy(made_once("larger-toy", lambda folder: write_corpus(folder, 300, seed=0)))


@pytest.fixture(scope="session")
def toy(larger_toy: Toy, made_once) -> Toy:
    """The first 150 of the training sentences, and the same 15 to validate and 15 to test on."""

    def first_half(folder: Path) -> None:
        shutil.copytree(larger_toy.folder, folder)
        for suffix, end in (("txt", "\n"), ("mrg", "\n"), ("conllu", "\n\n")):
            path = folder / f"train.{suffix}"
            sentences = path.read_text(encoding="utf-8").split(end)[:150]
            path.write_text("".join(sentence + end for sentence in sentences), encoding="utf-8")

    return Toy(made_once("toy", first_half))


@pytest.fixture(scope="session")
def few(toy: Toy, made_once) -> Toy:
    """The 80 shortest training sentences, and the 8 shortest each to validate and to test on. Plain text only."""

    def shortest(folder: Path) -> None:
        folder.mkdir()
        for part, count in (("train", 80), ("valid", 8), ("test", 8)):
            lines = (toy / f"{part}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / f"{part}.txt").write_text("".join(sorted(lines, key=len)[:count]), encoding="utf-8")

    return Toy(made_once("few", shortest))


@pytest.fixture(scope="session")
def trained(toy: Toy, made_once) -> SimpleNamespace:
    """Folders of three trained models: `prpn`, `lstm` and `on-lstm`. Nothing may be written into them."""

    def train_all(root: Path) -> None:
        from syntaxlm.training.run import train

        for name in MODELS:
            train(toy.recipe(name), root / name)

    root = made_once("trained", train_all)
    return SimpleNamespace(**{name: root / name for name in MODELS})


@pytest.fixture
def prpn(trained: SimpleNamespace) -> ModelBundle:
    from syntaxlm.storage.folder import read_model

    return read_model(trained.prpn)


@pytest.fixture
def lstm(trained: SimpleNamespace) -> ModelBundle:
    from syntaxlm.storage.folder import read_model

    return read_model(trained.lstm)


@pytest.fixture
def run(capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs a command; returns exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        from syntaxlm import cli

        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def refused(run) -> Callable[..., str]:
    """Runs a command that must exit with code 2, no output and one message on stderr; returns the message."""

    def refused(*words: object) -> str:
        code, out, error = run(*words)
        assert (code, out) == (2, ""), error
        assert error.count("error:") == 1
        assert error.endswith("\n")
        return error

    return refused
