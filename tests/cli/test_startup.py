"""Imports of the command line before it computes anything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = {
    "annotated_types", "jinja2", "nltk", "numpy", "pandas", "polars", "pyarrow", "pydantic", "ruamel.yaml",
    "safetensors", "syntaxlm.reports.report", "torch",
}  # fmt: skip


NOT_NEEDED = {
    "fastapi",
    "fsspec",
    "lightning",
    "narwhals",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "spacy",
    "statsmodels",
    "transformers",
}


def imported_by(arguments):
    """Runs a command in a new process. Returns its standard output and the modules that it imported."""
    program = (
        "import sys\n"
        "from syntaxlm.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return result.stdout, set(result.stderr.split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["train", "--help"], ["draw", "--help"], ["completion", "bash"]]
)
def test_help_and_completion_load_no_heavy_library(arguments):
    out, modules = imported_by(arguments)
    assert "syntaxlm" in out
    assert HEAVY & modules == set()


# Each command runs in a fork of one process, which has imported what all of them need.
FORKS = """
import os, sys
import torch
from syntaxlm.cli import main
for number, line in enumerate(sys.stdin):
    if not os.fork():
        sys.stdout = open(os.path.join(sys.argv[1], f"{number}.out"), "w")
        sys.stderr = open(os.path.join(sys.argv[1], f"{number}.err"), "w")
        try:
            main(line.split("\\t")[1:-1])
        finally:
            sys.stdout.close()
            with open(os.path.join(sys.argv[1], f"{number}.modules"), "w") as file:
                print(*sys.modules, file=file)
            os._exit(0)
    os.wait()
"""
PARSE = ["parse", "en-fast", "The old man the boats.", "--quiet"]


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory):
    """The standard output and the modules of commands that need torch, by their names."""
    if not hasattr(os, "fork"):
        pytest.skip("forks are those of POSIX")
    folder = tmp_path_factory.mktemp("startup")
    (folder / "empty").mkdir()
    (folder / "text.txt").write_text("a b c\n" * 5)
    text = folder / "text.txt"
    (folder / "recipe.yaml").write_text(f"{{model: {{name: ngram}}, text: {{train: {text}, valid: {text}}}}}")
    commands = {
        "models": ["models", "list", "recipes", "--quiet"],
        "parse": PARSE,
        "parse to brackets": [*PARSE, "--format", "brackets"],
        "serve": ["serve", str(folder / "empty"), "--port", "0"],
        "train": ["train", str(folder / "recipe.yaml"), "--output", str(folder / "run")],
    }
    lines = "".join("\t".join(["", *words, "\n"]) for words in commands.values())
    subprocess.run([sys.executable, "-c", FORKS, str(folder)], input=lines, text=True, check=True)
    assert (folder / "run" / "result.json").exists()
    return {
        name: ((folder / f"{number}.out").read_text(), set((folder / f"{number}.modules").read_text().split()))
        for number, name in enumerate(commands)
    }


@pytest.mark.parametrize(
    ("command", "further"),
    [
        ("models", {"nltk"}),
        ("parse", {"nltk", "numpy.ma", "rich", "syntaxlm.core.display"}),
        ("parse to brackets", {"nltk", "numpy.ma", "rich"}),
        ("train", {"torch._dynamo"}),
    ],
)
def test_commands_with_models_load_only_what_they_need(with_torch, command, further):
    out, modules = with_torch[command]
    assert out
    assert (NOT_NEEDED | further) & modules == set()


def test_the_page_is_served_and_a_model_missed_without_torch():
    _, modules = imported_by(["serve", "no-such-model"])
    assert "syntaxlm.serve.server" in modules
    assert {"torch", "fastapi", "nltk"} & modules == set()


def test_models_are_served_without_the_library_that_splits_text_into_sentences(with_torch):
    _, modules = with_torch["serve"]
    assert "syntaxlm.serve.app" in modules
    assert {"nltk", "syntaxlm.data.running_text"} & modules == set()


def test_a_command_ends_without_a_last_search_for_cycles():
    program = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "from syntaxlm.__main__ import run\n"
        "sys.argv = ['syntaxlm', '--version']\n"
        "run()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split()[-1] == "True"


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["parse", "no-such-model", "a b"], 2)])
def test_a_process_ends_at_once_after_its_output_and_what_is_called_at_the_exit(arguments, code, tmp_path):
    """What takes modules apart is not run: here, an object that would say so."""
    program = (
        "import atexit, sys\n"
        "from syntaxlm.__main__ import command\n"
        "class Last:\n"
        "    def __del__(self):\n"
        "        print('taken apart', flush=True)\n"
        "last = Last()\n"
        f"sys.argv = ['syntaxlm', *{arguments!r}]\n"
        "from syntaxlm import __main__\n"
        "run = __main__.run\n"
        "__main__.run = lambda: (atexit.register(print, 'called at the exit'), run())[1]\n"
        "sys.exit(command())\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert result.stdout.splitlines()[-1] == "called at the exit"
    assert ("syntaxlm: error: " in result.stderr) == (code == 2)


def test_a_process_that_fails_reports_the_error():
    program = "import sys\nfrom syntaxlm import __main__\n__main__.run = lambda: 1 / 0\nsys.exit(__main__.command())\n"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "ZeroDivisionError" in result.stderr


@pytest.mark.parametrize(("given", "used"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_idle_threads_sleep_unless_the_user_wants_otherwise(given, used):
    """Spinning threads make training on a busy machine some forty times slower. OpenMP reads this before it starts."""
    code = (
        "import os, sys\n"
        "from syntaxlm.__main__ import run\n"
        "sys.argv = ['syntaxlm', '--version']\n"
        "run()\n"
        "print(os.environ['OMP_WAIT_POLICY'])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == used
