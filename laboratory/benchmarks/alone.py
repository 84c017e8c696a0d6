"""Processor time and memory of one task, in a process of its own, on one thread.

    python -m laboratory.benchmarks.alone {parse,surprisal,beliefs} MODEL TEXT
    python -m laboratory.benchmarks.alone step NONTERMINALS

A model parses or scores all sentences of TEXT, one per line, in one call; "beliefs" scores them with the belief updates
of a PCFG. "step" is a training step of an SN-PCFG, see `laboratory.benchmarks.inside`.

Prints a JSON object: words of the text or the batch, seconds of processor time, and the peak of resident memory in
bytes. The task is repeated until it has taken a second. Before that, it is done once, for the first words of the text
only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from laboratory.benchmarks.inside import Sizes, sentences, step
from laboratory.benchmarks.timing import PROCESSOR
from syntaxlm.api.model import LanguageModel, load
from syntaxlm.core.systems import keep_freed_memory, peak_memory

LEAST = 1.0  # seconds of all repetitions together
FIRST = 10  # words of the text that are read before the time is measured

TASKS: dict[str, Callable[[LanguageModel, list[str]], object]] = {
    "parse": lambda model, texts: list(model.parse(texts)),
    "surprisal": lambda model, texts: list(model.surprisal(texts)),
    "beliefs": lambda model, texts: list(model.surprisal(texts, measures=["belief_update"])),
}


def seconds_of(work: Callable[[], object]) -> float:
    """The mean processor time of a call, which is repeated until the calls have taken `LEAST` seconds."""
    started, calls = time.process_time(), 0
    while not calls or time.process_time() - started < LEAST:
        work()
        calls += 1
    return (time.process_time() - started) / calls


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m laboratory.benchmarks.alone",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    for name in TASKS:
        task = tasks.add_parser(name)
        task.add_argument("model", metavar="MODEL")
        task.add_argument("text", type=Path, metavar="TEXT")
    tasks.add_parser("step").add_argument("nonterminals", type=int, metavar="NONTERMINALS")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.task == "step":
        keep_freed_memory()  # as in training
        sizes = replace(Sizes(), nonterminals=options.nonterminals, preterminals=2 * options.nonterminals)
        batch = sentences(sizes.words, sizes.sentences, 2, sizes.longest)
        work = step("compiled", "bf16-mixed", sizes, batch, PROCESSOR)
        words = len(batch.words)
        work()
    else:
        model = load(options.model)
        texts = options.text.read_text(encoding="utf-8").splitlines()
        words = sum(len(text.split()) for text in texts)
        TASKS[options.task](model, [" ".join(texts[0].split()[:FIRST])])

        def work() -> None:
            TASKS[options.task](model, texts)

    report = {"words": words, "seconds": seconds_of(work), "memory": peak_memory()}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
