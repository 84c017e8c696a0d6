"""Speed of dynamic programming over binary trees: python -m laboratory.benchmarks.charts [--against FOLDER] [--json].

Without --against: sentences per second of the functions of trees.charts and ops.charts, on sentences of 10, 23 and 40
words; ratios are relative to `best` in NumPy.
With --against: time ratios, new to old, of the callers of charts (averaging, decoding, the biased upper bound, the
built-in grammar) in this source tree and in another version. The versions run in separate processes and take turns;
each ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

LENGTHS = (10, 23, 40)
OWN_SOURCE = Path(__file__).parents[2] / "src"


def callers() -> dict[str, Callable[[], object]]:
    """Benchmark cases by name, for any version of the package."""
    from syntaxlm.data.toy import english_fragment
    from syntaxlm.trees.averaging import average
    from syntaxlm.trees.bounds import biased_upper_bound, random_trees
    from syntaxlm.trees.decoding import SpanTable, decode_spans

    grammar = english_fragment()
    mixed = np.random.default_rng(0).integers(1, 45, 300)
    cases: dict[str, Callable[[], object]] = {}
    for name, lengths in (*((f"{n} words", np.full(300, n)) for n in LENGTHS), ("1 to 44 words", mixed)):
        predictions = [random_trees(lengths, seed) for seed in range(7)]
        scores = np.random.default_rng(1).standard_normal(int((lengths * (lengths + 1) // 2).sum()))
        spans = SpanTable(lengths, scores)
        cases[f"average of 7, {name}"] = partial(average, predictions)
        cases[f"cky, {name}"] = partial(decode_spans, spans, "cky")
        cases[f"biased bound, {name}"] = partial(biased_upper_bound, predictions[0])
    sentences = [sentence.words for sentence in grammar.sample(150, 0)]
    cases["grammar, 150 sampled sentences"] = partial(grammar.inside_log_probabilities, sentences)
    return cases


def answer_requests() -> None:
    """Runs in the process of a version: reads names of cases, prints the CPU seconds of each."""
    cases = callers()
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        work = cases[line.rstrip("\n")]
        started = time.process_time()  # CPU time, as other processes may share the core
        work()
        print(time.process_time() - started, flush=True)


class Version:
    """A version of the package in a separate process."""

    def __init__(self, source: Path) -> None:
        command = [sys.executable, __file__, "--answer"]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.cases: list[str] = json.loads(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def seconds(self, case: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compared(against: Path, rounds: int) -> list[dict[str, Any]]:
    """Each case in both versions in turn: median seconds, and the median ratio of new to old."""
    new, old = Version(OWN_SOURCE), Version(against)
    rows = []
    for case in new.cases:
        pairs = []
        for number in range(rounds + 1):
            first, second = (new, old) if number % 2 else (old, new)
            taken = {first: first.seconds(case), second: second.seconds(case)}
            if number:  # the first round warms up
                pairs.append((taken[new], taken[old]))
        new_times, old_times = zip(*pairs, strict=True)
        rows.append(
            {
                "case": case,
                "seconds": statistics.median(new_times),
                "old_seconds": statistics.median(old_times),
                "ratio": statistics.median(new_time / old_time for new_time, old_time in pairs),
                "ratio_of_fastest": min(new_times) / min(old_times),
            }
        )
    new.close()
    old.close()
    return rows


def functions(rounds: int) -> list[dict[str, Any]]:
    """Each function of both modules in turn: sentences per second, and the ratio to `best` in NumPy."""
    import torch

    from syntaxlm.ops import charts as torch_charts
    from syntaxlm.trees import charts

    rows = []
    for length in LENGTHS:
        count = max(1, 500_000 // (length * (length + 1)))
        weights = np.random.default_rng(0).standard_normal((length * (length + 1) // 2, count))
        tensor = torch.from_numpy(weights)
        cases: dict[str, Callable[[], object]] = {
            "NumPy best": partial(charts.best, weights),
            "NumPy best, random ties": partial(charts.best, weights, ties="random"),
            "torch total": partial(torch_charts.total, tensor),
            "torch marginals": partial(torch_charts.marginals, tensor),
            "torch best": partial(torch_charts.best, tensor),
        }
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for number in range(rounds + 1):
            for name, work in cases.items():
                started = time.process_time()
                work()
                if number:
                    seconds[name].append(time.process_time() - started)
        medians = {name: statistics.median(times) for name, times in seconds.items()}
        for name, median in medians.items():
            ratio = medians["NumPy best"] / median
            rows.append({"case": f"{name}, {length} words", "sentences_per_second": count / median, "ratio": ratio})
    return rows


def show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(*(name.replace("_", " ") for name in rows[0]))
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else f"{value:,.4g}" for value in row.values()))
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m laboratory.benchmarks.charts", description=__doc__.split("\n")[0])
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="source folder (src) of another version")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds; their median counts (default 9)")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer_requests()
        return
    show(compared(options.against, options.rounds) if options.against else functions(options.rounds), options.json)


if __name__ == "__main__":
    main()
