"""How cost grows with text, vocabulary, sentence length and model size.

    python -m laboratory.benchmarks.scale [KIND ...] -o FILE

Every point is a command in a process of its own, on one thread, over text drawn at random: sentences of a given length,
words by Zipf's law. Measured are wall-clock seconds, tokens per second (of training: after the first steps; of parsing
and n-grams: of processor time), and the largest resident memory of the process.
KIND: text (1 to 100 MB), vocabulary (10,000 to 200,000 words), length (10 to 400 words), size (of the model).
FILE: JSON. Points that it has are not measured again, so a stopped run can be continued.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from laboratory.results.store import with_head
from syntaxlm.core.files import to_json, write_text

SCHEMA_VERSION = 1
SEED = 0
MINUTES = 0.2  # training time of a point
SLOW, LONG = 200_000, 400  # words of a vocabulary, and of a sentence, that need a minute for some steps
TOKENS = 700  # of a batch; more for a longer sentence
KINDS = ("text", "vocabulary", "length", "size")
LENGTH, WORDS, VALID_WORDS = 20, 10_000, 2_000  # defaults: words per sentence, vocabulary, words of validation text
LETTERS = 5.5  # characters per word of the text, with the space
MEGABYTES = (1, 3, 10, 30, 100)
VOCABULARIES = (10_000, 20_000, 50_000, 100_000, 200_000)
LENGTHS = (10, 20, 40, 80, 160, 400)
SIZES = {"PRPN": (100, 200, 400, 800), "ON-LSTM": (100, 200, 400, 800, 1200), "SN-PCFG": (128, 256, 512, 1024, 2048)}
PARSED_WORDS = 100_000  # of the text that is parsed at each length
MOST_PARSED = 10  # MB


class Key(NamedTuple):
    """What a point measures."""

    kind: str
    task: str
    system: str
    size: int


# Measures in an empty folder. Returns wall-clock seconds, tokens per second and the largest resident memory in bytes.
Measure = Callable[[Path], tuple[float, float, int]]


@dataclass(frozen=True)
class Point:
    """One measurement. size: of what grows; tokens: read per second, in training after the first steps.

    seconds: wall-clock time of the whole command. memory: largest resident memory, in bytes.
    """

    kind: str
    task: str
    system: str
    size: int
    seconds: float
    tokens_per_second: float
    memory: int

    @property
    def key(self) -> Key:
        return Key(self.kind, self.task, self.system, self.size)


def model(system: str, size: int | None = None) -> dict[str, Any]:
    """Settings of a model of moderate or given size: neurons, or preterminals of a grammar."""
    if system == "PRPN":
        size = size or 200
        return {"name": "prpn", "embedding_size": size // 2, "hidden_size": size}
    if system == "ON-LSTM":
        size = size or 200
        return {"name": "on-lstm", "embedding_size": size // 2, "layer_sizes": [size, size // 2], "chunk_size": 10}
    if system == "LSTM":
        size = size or 200
        return {"name": "on-lstm", "cell": "lstm", "embedding_size": size // 2, "layer_sizes": [size, size // 2]}
    if system == "SN-PCFG":
        size = size or 512
        return {"name": "simple-pcfg", "nonterminals": size // 2, "preterminals": size, "embedding_size": 128}
    return {"name": "ngram", "order": 5}


def write_sentences(path: Path, words: int, length: int, vocabulary: int, seed: int = SEED) -> None:
    """Writes sentences of `length` words, drawn from `vocabulary` words by Zipf's law. Every word occurs at least once,
    if `words` suffices."""
    generator = np.random.default_rng(seed)
    weights = 1 / (np.arange(vocabulary) + 2.7)
    names = np.array([f"w{number:x}" for number in range(vocabulary)])
    some = 1_000_000 // length * length
    with open(path, "w", encoding="utf-8") as file:
        all_once = generator.permutation(vocabulary) if words >= vocabulary else np.empty(0, int)
        while words > 0:
            drawn = generator.choice(vocabulary, min(words, some), p=weights / weights.sum())
            place = generator.permutation(len(drawn))[: len(all_once)]
            drawn[place], all_once = all_once[: len(place)], all_once[len(place) :]
            for start in range(0, len(drawn), length):
                file.write(" ".join(names[drawn[start : start + length]]) + "\n")
            words -= len(drawn)


class Used(NamedTuple):
    """What a process used: wall-clock seconds, seconds of processor time, and largest resident memory in bytes."""

    seconds: float
    processor: float
    memory: int


def run(folder: Path, *arguments: str) -> Used:
    """Runs a command on one thread.

    Exits with the output of a command that fails.
    """
    started = time.perf_counter()
    with open(folder / "output.txt", "wb") as output:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "syntaxlm", *arguments]
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(arguments)} failed:\n{(folder / 'output.txt').read_text(encoding='utf-8')[-2000:]}")
    return Used(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def train(
    folder: Path, settings: Mapping[str, Any], words: int, length: int = LENGTH, vocabulary: int = WORDS
) -> tuple[float, float, int]:
    """Trains on `words` words for `MINUTES`, with a large vocabulary or long sentences for longer.

    Models without gradients are trained until they have read the text.
    """
    write_sentences(folder / "train.txt", words, length, vocabulary)
    write_sentences(folder / "valid.txt", VALID_WORDS, length, vocabulary, SEED + 1)
    recipe: dict[str, Any] = {
        "model": dict(settings),
        "text": {"train": "train.txt", "valid": "valid.txt", "vocabulary": {"minimum_count": 1}},
        "run": {"precision": "bf16-mixed", "log_steps": 1},
    }
    if settings["name"] == "ngram":
        recipe["run"] = {}
    else:
        recipe["schedule"] = {"minutes": max(MINUTES, vocabulary / SLOW, length / LONG), "epochs": 1000}
        recipe["batches"] = {"token_budget": max(TOKENS, length + 2), "maximum_words": length}
        recipe["text"]["vocabulary"]["maximum_size"] = None
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    used = run(folder, "train", "recipe.yaml", "-o", "run", "-q")
    rate = words / used.processor
    if settings["name"] != "ngram":
        rate = _tokens_per_second(folder / "run" / "metrics.jsonl", words + words // length)
    return used.seconds, rate, used.memory


def _tokens_per_second(log: Path, tokens: int) -> float:
    """The rate after the first steps, in which memory is allocated and kernels are compiled. tokens: of an epoch."""
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    steps = [(event["epoch"], event["seconds"]) for event in events if event["event"] == "step"]
    (first, begun), (last, ended) = steps[1], steps[-1]
    return (last - first) * tokens / (ended - begun)


def parse(
    folder: Path, settings: Mapping[str, Any], length: int, words: int = PARSED_WORDS
) -> tuple[float, float, int]:
    """Parses text with a model that was trained for one step only, which takes as long as any other."""
    write_sentences(folder / "train.txt", 4 * VALID_WORDS, LENGTH, WORDS)
    write_sentences(folder / "valid.txt", VALID_WORDS, LENGTH, WORDS, SEED + 1)
    write_sentences(folder / "text.txt", words, length, WORDS, SEED + 2)
    (folder / "one.txt").write_text("w1 w2\n", encoding="utf-8")
    recipe = {
        "model": dict(settings),
        "text": {"train": "train.txt", "valid": "valid.txt"},
        "schedule": {"minutes": 0.01, "epochs": 1},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    run(folder, "train", "recipe.yaml", "-o", "run", "-q")
    start = run(folder, "parse", "run", "one.txt", "-o", "one.mrg")
    used = run(folder, "parse", "run", "text.txt", "-o", "text.mrg")
    return used.seconds, words / (used.processor - start.processor), used.memory


def points() -> Iterator[tuple[Key, Measure]]:
    """Everything that is measured, and how."""
    for megabytes in MEGABYTES:
        words = int(megabytes * 1e6 / LETTERS)
        for system in ("Kneser-Ney", "ON-LSTM", "SN-PCFG"):
            yield Key("text", "train", system, megabytes), partial(train, settings=model(system), words=words)
        if megabytes <= MOST_PARSED:
            parsed = partial(parse, settings=model("PRPN"), length=LENGTH, words=words)
            yield Key("text", "parse", "PRPN", megabytes), parsed
    for size in VOCABULARIES:
        for system in ("LSTM", "ON-LSTM", "PRPN", "SN-PCFG"):
            trained = partial(train, settings=model(system), words=2_000_000, vocabulary=size)
            yield Key("vocabulary", "train", system, size), trained
    for length in LENGTHS:
        for system in ("ON-LSTM", "PRPN", "SN-PCFG"):
            trained = partial(train, settings=model(system), words=500_000, length=length)
            yield Key("length", "train", system, length), trained
            words = PARSED_WORDS
            if system == "SN-PCFG":  # cubic
                words = max(2 * length, int(words * min(1.0, (LENGTH / length) ** 2)))
            parsed = partial(parse, settings=model(system), length=length, words=words)
            yield Key("length", "parse", system, length), parsed
    for system, sizes in SIZES.items():
        for size in sizes:
            trained = partial(train, settings=model(system, size), words=500_000)
            yield Key("size", "train", system, size), trained


def measured(path: Path) -> list[Point]:
    """The points of a file; none if it does not exist."""
    if not path.exists():
        return []
    return [Point(**point) for point in json.loads(path.read_text(encoding="utf-8"))["points"]]


def show(found: list[Point]) -> None:
    table = Table("kind", "task", "system", "size", "seconds", "tokens/s", "memory, GiB")
    for one in found:
        figures = f"{one.size:,}", f"{one.seconds:.1f}", f"{one.tokens_per_second:,.0f}", f"{one.memory / 2**30:.2f}"
        table.add_row(one.kind, one.task, one.system, *figures)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=KINDS)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"found {kind}; expected some of {', '.join(KINDS)}")
    found = measured(options.output)
    for key, measure in points():
        if key.kind not in options.kinds or key in [one.key for one in found]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            seconds, rate, memory = measure(Path(folder))
        found.append(Point(*key, seconds, rate, memory))
        report = {
            "schema_version": SCHEMA_VERSION,
            "torch": torch.__version__,
            "points": [asdict(one) for one in found],
        }
        report = with_head(report)
        write_text(to_json(report, indent=1) + "\n", options.output)
        print(*key, f"{seconds:.1f} s", f"{rate:,.0f} tokens/s", f"{memory / 2**30:.2f} GiB", flush=True)
    show(found)


if __name__ == "__main__":
    main()
