"""Size of the package, and how much of it one command crosses.

    python -m laboratory.benchmarks.structure [--source FOLDER] [--json]

FOLDER: the folder that holds the package `syntaxlm`; by default that of this checkout. Two checkouts can be compared.
Prints lines and files of each package, and the files and functions of the package that are entered by
`parse en "..."`, `score en "..."` and one training loss. A function counts once. Not counted: what reads the
arguments, code of modules and class bodies and what it calls, comprehensions and generator expressions.
A file counts as it is: `ruff format` must leave it unchanged, otherwise the script stops.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

SENTENCE = "The old man the boats."
COMMANDS = {
    "parse": ["parse", "en", SENTENCE],
    "score": ["score", "en", SENTENCE],
}
RECIPE = """\
model: {name: prpn, embedding_size: 8, hidden_size: 8, layers: 1, memory_slots: 3, look_back: 2}
text: {train: "%s", valid: "%s"}
run: {accelerator: cpu}
"""
TRACE = """\
import sys
entered, importing = set(), [0]
def note(frame, event, argument):
    code = frame.f_code
    if not code.co_filename.startswith(PACKAGE):
        return
    if code.co_name == "<module>":
        importing[0] += {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not importing[0] and not code.co_name.startswith("<") and code.co_flags & 2:
        entered.add((code.co_filename, code.co_qualname))
"""
COMMAND = """\
import argparse
from importlib.metadata import EntryPoint
parse_known_args = argparse.ArgumentParser.parse_known_args
def parsed(*arguments, **options):
    result = parse_known_args(*arguments, **options)
    entered.clear()
    return result
argparse.ArgumentParser.parse_known_args = parsed
main = EntryPoint("syntaxlm", ENTRY, "").load()
sys.setprofile(note)
try:
    main(ARGUMENTS)
except SystemExit:
    pass
"""
LOSS = """\
import syntaxlm
class Done(Exception):
    pass
from torch import Tensor
backward = Tensor.backward
def stop(*arguments, **options):
    raise Done
Tensor.backward = stop
recipe = syntaxlm.read_recipe(ARGUMENTS[0])
sys.setprofile(note)
try:
    syntaxlm.train(recipe, ARGUMENTS[1])
except Done:
    pass
"""
REPORT = """\
sys.setprofile(None)
import json
print("\\n" + json.dumps(sorted(entered)))
"""


def sizes(source: Path) -> dict[str, tuple[int, int]]:
    """Return lines and files of each package, and of all: {"trees": (3000, 12), ..., "all": (40000, 200)}."""
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--check", str(source / "syntaxlm")], capture_output=True, text=True
    )
    if formatted.returncode:
        raise SystemExit(f"structure: not formatted by ruff:\n{formatted.stdout}{formatted.stderr}")
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in (source / "syntaxlm").rglob("*.py"):
        parts = path.relative_to(source / "syntaxlm").parts
        package = "top level" if len(parts) == 1 else parts[0]
        for name in (package, "all"):
            lines[name] += len(path.read_text(encoding="utf-8").splitlines())
            files[name] += 1
    return {name: (lines[name], files[name]) for name in sorted(lines, key=lambda name: (name == "all", name))}


def crossed(source: Path, code: str, arguments: list[str]) -> list[tuple[str, str]]:
    """Return the files and names of the functions of the package that a program calls in a new process.

    Args:
        source: folder that holds the package.
        code: COMMAND or LOSS.
        arguments: what the program reads as ARGUMENTS.
    """
    entry = "syntaxlm.cli:main"
    program = (
        f"ENTRY = {entry!r}\nPACKAGE = {str(source / 'syntaxlm')!r}\nARGUMENTS = {arguments!r}\n{TRACE}{code}{REPORT}"
    )
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    if completed.returncode:
        raise SystemExit(f"structure: {arguments}: {completed.stderr}")
    return [(file, name) for file, name in json.loads(completed.stdout.splitlines()[-1])]


def walks(source: Path) -> dict[str, tuple[int, int, int]]:
    """Return files, functions and distinct names of functions crossed by each command and by a training loss."""
    called = {name: crossed(source, COMMAND, arguments) for name, arguments in COMMANDS.items()}
    with tempfile.TemporaryDirectory() as folder:
        text, recipe = Path(folder, "text.txt"), Path(folder, "recipe.yaml")
        text.write_text("the old man the boats\nthe cat sleeps\n" * 20, encoding="utf-8")
        recipe.write_text(RECIPE % (text, text), encoding="utf-8")
        called["training loss"] = crossed(source, LOSS, [str(recipe), str(Path(folder, "run"))])
    return {
        name: (
            len({file for file, _ in functions}),
            len(functions),
            len({function.rpartition(".")[2] for _, function in functions}),
        )
        for name, functions in called.items()
    }


def main() -> None:
    """Print sizes and walks of a checkout."""
    parser = argparse.ArgumentParser(description="Size of the package, and how much of it one command crosses.")
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[2] / "src", metavar="FOLDER")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", choices=[*COMMANDS], help="list the functions that a command crosses")
    options = parser.parse_args()
    source = options.source.resolve()
    if options.list:
        for file, name in crossed(source, COMMAND, COMMANDS[options.list]):
            print(f"{Path(file).relative_to(source / 'syntaxlm')}: {name}")
        return
    size, walk = sizes(source), walks(source)
    if options.json:
        print(json.dumps({"lines_and_files": size, "files_functions_and_names_crossed": walk}, indent=2))
        return
    print(f"{'package':16} {'lines':>7} {'files':>6}")
    for name, (lines, files) in size.items():
        print(f"{name:16} {lines:7,} {files:6}")
    print(f"\n{'crossed by':16} {'files':>7} {'functions':>10} {'names':>6}")
    for name, (files, functions, names) in walk.items():
        print(f"{name:16} {files:7} {functions:10} {names:6}")


if __name__ == "__main__":
    main()
