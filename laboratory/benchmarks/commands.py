"""Time of whole commands: python -m laboratory.benchmarks.commands TEXT [--json].

TEXT: one sentence per line, such as the validation text of the Penn Treebank. In turn, on otherwise idle cores:
- start: `--help`, `parse` of one sentence with a bundled model, and `import torch` alone, in processes of their own;
- parse: sentences per second of `parse` with one and two workers, for models of small recipes that were trained for one
  step only, which is as fast. Quick models parse the text several times. The time of a job with half of the text is
  subtracted, and with it the workers' start;
- train: tokens per second of ON-LSTM with one and two threads, and with two processes of one thread each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from laboratory.results.store import with_head

SCHEMA_VERSION = 1
# Recipes, and how often each parses the text: a quick one needs more text for a time that can be measured.
RECIPES = {"prpn-ptb-parsing": 40, "on-lstm-ptb-words-small": 4, "simple-pcfg-ptb": 2}
TRAINED = "on-lstm-ptb-words-small"
SYNTAXLM = [sys.executable, "-m", "syntaxlm"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "syntaxlm"]


@dataclass(frozen=True)
class Measured:
    """A command. figure: its speed or time, in `unit`.  processes: their number.  threads: of each process."""

    kind: str
    what: str
    processes: int
    threads: int
    figure: float
    unit: str


def seconds_of(command: Sequence[str], threads: int = 1) -> float:
    """Runs a command. Returns its wall-clock seconds; exits with its output if it fails."""
    started = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    completed = subprocess.run(command, capture_output=True, text=True, env=environment)
    if completed.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{completed.stdout[-1000:]}{completed.stderr[-2000:]}")
    return time.perf_counter() - started


def starts(rounds: int) -> Iterator[Measured]:
    """Each command in turn, round after round; the median counts."""
    sentence = ["parse", "en-fast", "The old man the boats.", "--quiet"]
    commands = {
        "--help": [*SYNTAXLM, "--help"],
        "parse of one sentence": [*SYNTAXLM, *sentence],
        "import torch": [sys.executable, "-c", "import torch"],
    }
    times: dict[str, list[float]] = {what: [] for what in commands}
    for number in range(rounds + 1):
        for what, command in commands.items():
            seconds = seconds_of(command)
            if number:  # the first round reads the files from the disk
                times[what].append(seconds)
    for what, seconds_of_rounds in times.items():
        yield Measured("start", what, 1, 1, statistics.median(seconds_of_rounds), "seconds")


def parses(folder: Path, text: Path) -> Iterator[Measured]:
    """The speed of jobs, by the difference in time between the whole text and half of it."""
    lines = text.read_text(encoding="utf-8").splitlines()
    half_of_lines = lines[::2]
    for recipe, repeats in RECIPES.items():
        model, whole, half = folder / recipe, folder / f"{recipe}.txt", folder / f"{recipe}-half.txt"
        for path, sentences in ((whole, lines), (half, half_of_lines)):
            path.write_text("\n".join(sentences * repeats) + "\n", encoding="utf-8")
        difference = repeats * (len(lines) - len(half_of_lines))
        settings = ["--text.train", str(text), "--text.valid", str(text), "--schedule.minutes", "0.01"]
        seconds_of([*SYNTAXLM, "train", recipe, "-o", str(model), *settings, "--text.test", "null", "--quiet"])
        for workers in (1, 2):
            shards = ["--workers", str(workers), "--lines-per-shard", str(200 * repeats), "--quiet", "-o"]
            half_seconds, whole_seconds = (
                seconds_of([*SYNTAXLM, "parse", str(model), str(path), *shards, str(folder / f"{path.stem}-{workers}")])
                for path in (half, whole)
            )
            speed = difference / (whole_seconds - half_seconds)
            yield Measured("parse", recipe, workers, 1, speed, "sentences/s")


def trains(folder: Path, text: Path, seconds: float) -> Iterator[Measured]:
    """The speed of training for some seconds, without its first steps, which are slower."""
    for processes, threads in ((1, 1), (1, 2), (2, 1)):
        run = folder / f"train-{processes}-{threads}"
        settings = ["--text.train", str(text), "--text.valid", str(text), "--text.test", "null", "--run.log_steps", "1"]
        command = ["train", TRAINED, "-o", str(run), *settings, "--schedule.minutes", str(seconds / 60), "--quiet"]
        seconds_of([*(TORCHRUN if processes > 1 else SYNTAXLM), *command], threads)
        events = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        first, last = steps[2], steps[-1]
        words = sum(len(line.split()) + 1 for line in text.read_text(encoding="utf-8").splitlines())
        rate = (last["epoch"] - first["epoch"]) * words / (last["seconds"] - first["seconds"])
        yield Measured("train", TRAINED, processes, threads, rate, "tokens/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, metavar="TEXT")
    parser.add_argument("--rounds", type=int, default=3, help="timed starts of each command (default 3)")
    parser.add_argument("--seconds", type=float, default=40, help="of each training (default 40)")
    parser.add_argument("--only", choices=("start", "parse", "train"), help="measure this only")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), options.text.resolve()
        kinds = {
            "start": lambda: starts(options.rounds),
            "parse": lambda: parses(folder, text),
            "train": lambda: trains(folder, text, options.seconds),
        }
        measured = [row for kind, measure in kinds.items() if options.only in (None, kind) for row in measure()]
    if options.json:
        facts = {"schema_version": SCHEMA_VERSION, "torch": torch.__version__, "cores": os.cpu_count()}
        print(json.dumps(with_head(facts | {"commands": [asdict(row) for row in measured]}), indent=1))
        return
    table = Table("kind", "what", "processes", "threads", "figure", "unit")
    for row in measured:
        table.add_row(row.kind, row.what, str(row.processes), str(row.threads), f"{row.figure:,.2f}", row.unit)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
