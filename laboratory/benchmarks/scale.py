"""How time and memory grow with the text, the length of its sentences, the vocabulary and the size of the model.

    python -m laboratory.benchmarks.scale [KIND ...] -o FILE [--sizes N ...] [--repeats N] [--json]

KIND, and what is measured:
- sentences: jobs of two workers on 10,000 to 10,000,000 sentences of the built-in corpus
- length: parses, surprisals, beliefs and training of sentences of 10 to 1,000 words
- symbols: parses, surprisals and training steps of grammars of 64 to 4,096 nonterminals
- text, vocabulary, size: training on 1 to 100 MB, with 10,000 to 200,000 words, and of models of several sizes

Every point is measured in a process of its own, with one thread for each worker, and repeated. Texts but those of jobs
are drawn at random: sentences of a given length, words by Zipf's law. Models that are not trained have random weights,
which take as long as others.
FILE: JSON. What it has is not measured again, so a stopped run can be continued. At the end, the growth is printed: the
slope of time and of memory on logarithmic axes, with its 95% interval.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from laboratory.benchmarks.growth import COLUMNS, GROWING, LETTERS, THROUGH_RAY, Key, Point, cells, lines, points_of
from laboratory.benchmarks.processes import run
from laboratory.results.store import with_head
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import to_json, write_text
from syntaxlm.core.settings import read_settings
from syntaxlm.data.toy import english_fragment
from syntaxlm.models.abilities import NeedsTextCounts, TextCounts
from syntaxlm.models.registry import build_model
from syntaxlm.storage.folder import ModelBundle, ModelSettings, write_model
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import read_recipe

SCHEMA_VERSION = 2
SEED = 0
REPEATS = 3
ENOUGH = 600.0  # seconds: a point that has taken longer is not repeated
MINUTES = 0.2  # training time of a point
SLOW, LONG = 200_000, 400  # words of a vocabulary, and of a sentence, that need a minute for some steps
TOKENS = 700  # of a batch; more for a longer sentence
LENGTH, WORDS, VALID_WORDS = 20, 10_000, 2_000  # defaults: words per sentence, vocabulary, words of validation text
NONTERMINALS = 128  # of a grammar, as in the bundled ones

JOBS = (10_000, 100_000, 1_000_000, 10_000_000)  # sentences
SLOW_JOBS = JOBS[:3]  # of models that need hours for more
WORKERS, LINES_PER_SHARD = 2, 5_000
DISTINCT = 100_000  # sentences of the built-in corpus, which longer texts repeat
RECIPES = {"PRPN": "prpn-toy", "LSTM": "lstm-toy"}  # of the models of jobs; the grammar is a bundled model
BUNDLED = {"SN-PCFG": "en-fast"}
LENGTHS = (10, 30, 100, 300, 1_000)
SHORT_LENGTHS = LENGTHS[:4]  # of tasks that need an hour, or too much memory, for more
SYMBOLS = (64, 128, 256, 512, 1_024, 2_048, 4_096)
MEGABYTES = (1, 3, 10, 30, 100)
VOCABULARIES = (10_000, 20_000, 50_000, 100_000, 200_000)
SIZES = {"PRPN": (100, 200, 400, 800), "ON-LSTM": (100, 200, 400, 800, 1200)}
SENTENCES = 10  # that a model reads in one call
CHART_WORDS = 300  # that a grammar reads in one call if its sentences are short; of longer ones, it reads one


class Measured(NamedTuple):
    """What a point is made of, see `Point`."""

    seconds: float
    tokens_per_second: float
    memory: int
    job: Mapping[str, Any] | None = None


class Series(NamedTuple):
    """Points that differ in their size only.

    Attributes:
        sizes: that are measured.
        measure: called with an empty folder and a size.
    """

    kind: str
    task: str
    system: str
    sizes: tuple[int, ...]
    measure: Callable[[Path, int], Measured]


def model(system: str, size: int | None = None) -> dict[str, Any]:
    """Settings of a model. size: neurons, or nonterminals of a grammar; None: a moderate size."""
    size = size or (256 if system == "SN-PCFG" else 200)
    half = size // 2
    settings: dict[str, dict[str, Any]] = {
        "PRPN": {"name": "prpn", "embedding_size": half, "hidden_size": size},
        "ON-LSTM": {"name": "on-lstm", "embedding_size": half, "layer_sizes": [size, half], "chunk_size": 10},
        "LSTM": {"name": "on-lstm", "cell": "lstm", "embedding_size": half, "layer_sizes": [size, half]},
        "SN-PCFG": {"name": "simple-pcfg", "nonterminals": size, "preterminals": 2 * size, "embedding_size": 128},
        "Kneser-Ney": {"name": "ngram", "order": 5},
    }
    return settings[system]


def word_names(vocabulary: int) -> list[str]:
    """The words of a vocabulary of this size."""
    return [f"w{number:x}" for number in range(vocabulary)]


def write_sentences(path: Path, words: int, length: int, vocabulary: int, seed: int = SEED) -> None:
    """Writes sentences of `length` words, drawn from `vocabulary` words by Zipf's law.

    Every word occurs at least once, if there are as many `words`: words that have not been written replace words that
    are drawn.
    """
    generator = np.random.default_rng(seed)
    weights = 1 / (np.arange(vocabulary) + 2.7)  # Zipf's law as modified by Mandelbrot
    names = np.array(word_names(vocabulary))
    drawn_together = 1_000_000 // length * length
    with open(path, "w", encoding="utf-8") as file:
        unwritten = generator.permutation(vocabulary) if words >= vocabulary else np.empty(0, int)
        while words > 0:
            drawn = generator.choice(vocabulary, min(words, drawn_together), p=weights / weights.sum())
            places = generator.permutation(len(drawn))[: len(unwritten)]
            drawn[places], unwritten = unwritten[: len(places)], unwritten[len(places) :]
            for start in range(0, len(drawn), length):
                file.write(" ".join(names[drawn[start : start + length]]) + "\n")
            words -= len(drawn)


def write_untrained(folder: Path, settings: Mapping[str, Any], words: Iterable[str]) -> None:
    """Write a model with random weights. settings: of the model; words: of its vocabulary."""
    model_settings = read_settings(ModelSettings, {"model": dict(settings), "normaliser": {}}, "model")
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *words])
    torch.manual_seed(SEED)
    untrained = build_model(model_settings.model, len(vocabulary)).eval()
    if isinstance(untrained, NeedsTextCounts):
        counts = torch.ones(len(vocabulary), dtype=torch.int64)
        untrained.setup(TextCounts(counts, first_words=counts, final_words=counts, one_word_sentences=counts))
    write_model(folder, ModelBundle(untrained, model_settings, vocabulary))


@cache
def corpus() -> tuple[list[str], int]:
    """Sentences of the built-in corpus, with their ends of lines, and the number of their words."""
    sentences = english_fragment().sample(DISTINCT, SEED)
    word_count = sum(len(sentence.words) for sentence in sentences)
    return [" ".join(sentence.words) + "\n" for sentence in sentences], word_count


def job(folder: Path, size: int, task: str, system: str, engine: str = "processes") -> Measured:
    """Parse or score a text in a job. size: number of sentences; 0: one for each worker, which measures the start."""
    lines_of_corpus, words = corpus()
    count, shard = (size, LINES_PER_SHARD) if size else (WORKERS, 1)
    with open(folder / "text.txt", "w", encoding="utf-8") as file:
        for start in range(0, count, len(lines_of_corpus)):
            file.writelines(lines_of_corpus[: count - start])
    if system in BUNDLED:
        name = BUNDLED[system]
    else:
        name = RECIPES[system]
        settings = asdict(read_recipe(name).model)
        write_untrained(folder / name, settings, sorted({word for line in lines_of_corpus for word in line.split()}))
    command = "parse" if task == "parse" else "score"
    options = ["--workers", str(WORKERS), "--lines-per-shard", str(shard), "--engine", engine, "--quiet", "-o", "rows"]
    used = run(folder, ["-m", "syntaxlm", command, name, "text.txt", *options])
    report = json.loads((folder / "rows" / "report.json").read_text(encoding="utf-8"))
    rate = words / len(lines_of_corpus) * count / used.seconds
    return Measured(used.seconds, rate, used.memory, {**report, "model": name})


def alone(folder: Path, task: str, settings: Mapping[str, Any], length: int, count: int) -> Measured:
    """Read sentences of one length in one call. count: how many."""
    write_untrained(folder / "model", settings, word_names(WORDS))
    write_sentences(folder / "text.txt", length * count, length, WORDS, SEED + 2)
    return _run_alone(folder, task, "model", "text.txt")


def step(folder: Path, size: int) -> Measured:
    """A training step of a grammar. size: nonterminals."""
    return _run_alone(folder, "step", str(size))


def _run_alone(folder: Path, *arguments: str) -> Measured:
    """Run `laboratory.benchmarks.alone`."""
    used = run(folder, ["-m", "laboratory.benchmarks.alone", *arguments])
    report = json.loads(used.output)
    return Measured(used.seconds, report["words"] / report["seconds"], report["memory"])


def of_length(folder: Path, size: int, task: str, system: str) -> Measured:
    """Read sentences of `size` words."""
    is_grammar = system == "SN-PCFG"
    settings = model(system, NONTERMINALS if is_grammar else None)
    return alone(folder, task, settings, size, max(1, CHART_WORDS // size) if is_grammar else SENTENCES)


def of_symbols(folder: Path, size: int, task: str) -> Measured:
    """Read sentences with a grammar of `size` nonterminals."""
    return alone(folder, task, model("SN-PCFG", size), LENGTH, SENTENCES)


def train(
    folder: Path, settings: Mapping[str, Any], words: int, length: int = LENGTH, vocabulary: int = WORDS
) -> Measured:
    """Train on `words` words for `MINUTES`, with a large vocabulary or long sentences for longer.

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
    used = run(folder, ["-m", "syntaxlm", "train", "recipe.yaml", "-o", "run", "-q"])
    rate = words / used.processor
    if settings["name"] != "ngram":
        rate = _tokens_per_second(folder / "run" / "metrics.jsonl", words + words // length)
    return Measured(used.seconds, rate, used.memory)


def _tokens_per_second(log: Path, tokens: int) -> float:
    """The rate after the first steps, in which memory is allocated and kernels are compiled. tokens: of an epoch."""
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    first, last = steps[1], steps[-1]
    return (last["epoch"] - first["epoch"]) * tokens / (last["seconds"] - first["seconds"])


def trained(folder: Path, size: int, kind: str, system: str) -> Measured:
    """Train a model on text, sentences or a vocabulary of a size, or a model of this size."""
    if kind == "text":
        return train(folder, model(system), int(size * 1e6 / LETTERS))
    if kind == "vocabulary":
        return train(folder, model(system), 2_000_000, vocabulary=size)
    if kind == "length":
        return train(folder, model(system), 500_000, length=size)
    return train(folder, model(system, size), 500_000)


def all_series() -> Iterator[Series]:
    """Everything that is measured. The size 0 of a job is its start."""
    jobs: Sequence[tuple[str, str, tuple[int, ...]]] = (
        ("parse", "PRPN", JOBS), ("parse", "SN-PCFG", SLOW_JOBS), ("surprisal", "LSTM", SLOW_JOBS),
    )  # fmt: skip
    for task, system, sizes in jobs:
        yield Series("sentences", task, system, (0, *sizes), partial(job, task=task, system=system))
    through_ray = partial(job, task="parse", system="PRPN", engine="ray")
    yield Series("sentences", "parse", THROUGH_RAY, (0, *JOBS), through_ray)
    readings: Sequence[tuple[str, str, tuple[int, ...]]] = (
        ("parse", "SN-PCFG", LENGTHS), ("parse", "PRPN", LENGTHS), ("parse", "ON-LSTM", LENGTHS),
        ("surprisal", "SN-PCFG", LENGTHS), ("surprisal", "LSTM", LENGTHS), ("beliefs", "SN-PCFG", SHORT_LENGTHS),
    )  # fmt: skip
    for task, system, sizes in readings:
        yield Series("length", task, system, sizes, partial(of_length, task=task, system=system))
    for task in ("parse", "surprisal"):
        yield Series("symbols", task, "SN-PCFG", SYMBOLS, partial(of_symbols, task=task))
    yield Series("symbols", "train", "SN-PCFG", SYMBOLS, step)
    trainings: Mapping[str, Mapping[str, tuple[int, ...]]] = {
        "length": dict.fromkeys(("ON-LSTM", "PRPN", "SN-PCFG"), SHORT_LENGTHS),
        "text": dict.fromkeys(("Kneser-Ney", "ON-LSTM", "SN-PCFG"), MEGABYTES),
        "vocabulary": dict.fromkeys(("LSTM", "ON-LSTM", "PRPN", "SN-PCFG"), VOCABULARIES),
        "size": SIZES,
    }
    for kind, sizes_of in trainings.items():
        for system, sizes in sizes_of.items():
            yield Series(kind, "train", system, sizes, partial(trained, kind=kind, system=system))


def measurable(series: Series) -> bool:
    """Whether this environment has what a series needs; prints what it lacks."""
    if series.system != THROUGH_RAY or find_spec("ray") is not None:
        return True
    print(f"{series.kind}, {series.system}: skipped, because Ray is not installed (pip install ray)", file=sys.stderr)
    return False


def missing(
    chosen: Iterable[Series], sizes: Sequence[int], repeats: int, measured: Sequence[Point]
) -> Iterator[tuple[Key, Series]]:
    """What is not measured yet, the first repeat of everything before the second.

    sizes: replace the sizes of the series, except for starts; empty: the sizes of the series.
    """
    for repeat in range(repeats):
        for series in chosen:
            starts = [size for size in series.sizes if not size]
            for size in (*starts, *sizes) if sizes else series.sizes:
                key = Key(series.kind, series.task, series.system, size, repeat)
                earlier = [point for point in measured if point.key._replace(repeat=repeat) == key]
                is_measured = any(point.repeat == repeat for point in earlier)
                if not is_measured and sum(point.seconds for point in earlier) < ENOUGH:
                    yield key, series


def show(points: Sequence[Point]) -> None:
    """Print the growth of everything that has been measured."""
    table = Table(*COLUMNS)
    for line in lines(points):
        table.add_row(*cells(line))
    Console(width=150).print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m laboratory.benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="default: all")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="of one KIND; default: those of the page")
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, metavar="N",
        help=f"of points that take less than {ENOUGH:.0f} seconds together (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the content of FILE instead of a table")
    options = parser.parse_args(arguments)
    for kind in options.kinds:
        if kind not in GROWING:
            parser.error(f"found {kind}; expected some of {', '.join(GROWING)}")
    if options.sizes and (len(options.kinds) != 1 or min(options.sizes) < 1):
        parser.error("--sizes: expected one KIND, and numbers of at least 1")
    if options.repeats < 1:
        parser.error(f"--repeats: found {options.repeats}; expected at least 1")
    report = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {"points": []}
    points = points_of(report)
    chosen = [series for series in all_series() if series.kind in (options.kinds or GROWING) and measurable(series)]
    failed: dict[Series, int] = {}  # the smallest size that failed; larger ones are not tried
    for key, series in missing(chosen, options.sizes or (), options.repeats, points):
        if key.size >= failed.get(series, key.size + 1):
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                measured = series.measure(Path(folder), key.size)
        except InputError as error:
            failed[series] = key.size
            print(f"{key}: {error}", file=sys.stderr)
            continue
        points.append(Point(**key._asdict(), **measured._asdict()))
        facts = {"schema_version": SCHEMA_VERSION, "torch": torch.__version__}
        report = with_head(facts | {"points": list(map(asdict, points))})
        write_text(to_json(report, indent=1) + "\n", options.output)
        print(
            f"{key}: {measured.seconds:.1f} s, {measured.tokens_per_second:,.0f} tokens/s,"
            f" {measured.memory / 2**30:.2f} GiB",
            file=sys.stderr,
            flush=True,
        )
    if not points:
        sys.exit(f"error: nothing was measured, so {options.output} is not written")
    if options.json:
        print(json.dumps(report))
    else:
        show(points)


if __name__ == "__main__":
    main()
