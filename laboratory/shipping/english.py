"""Makes the bundled English models again: prepares the text, trains the members and combines them.

    python -m laboratory.shipping.english DATA RUNS

DATA: a folder as for `shipping.english_text`.  RUNS: a folder for text and runs; interrupted runs are resumed, finished
ones are kept.
Writes the model folders `en` and `en-fast` in src/syntaxlm/storage/bundled, but for their model cards, which
`shipping.model_cards` writes. Takes about four hours on one core without bfloat16 tiles (AMX).

Two grammars with different biases, each trained on its half of the text, parse short sentences. A small grammar and a
span parser learn from the trees of their average: en-fast is this grammar, and en averages both.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch

import syntaxlm.storage.bundled
from laboratory.experiment import recipe_of
from laboratory.shipping.english_text import write_english
from syntaxlm.comparison.focus import FocusOptions, focus
from syntaxlm.core.files import write_text
from syntaxlm.storage.combination import combine
from syntaxlm.storage.folder import read_model, write_model
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.result import RESULT
from syntaxlm.training.run import resume, train

GRAMMARS: Mapping[str, tuple[int, Mapping[str, object]]] = {  # name: half of the text and seed, settings
    "grammar-1": (1, {}),
    "grammar-2": (2, {"model.marks": 1.0, "model.marks_side": "either"}),
}
SCORER, LEARNERS = "scorer", "learners"
PARSED, LONGEST = 80_000, 30  # sentences from whose trees the small parsers learn, and their most words and marks
VALID_PARSED = 1_000
FOCUS = 2.0  # nats, `model.focus`

SHIPPED = Path(syntaxlm.storage.bundled.__file__).parent


def main() -> None:
    """Makes the models; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    options = parser.parse_args()
    write_texts(options.data, options.runs / "data")
    train_members(options.runs)
    write_shipped(options.runs)


def write_texts(data: Path, output: Path) -> None:
    """Writes the text, its halves, and the sentences from whose trees the small parsers learn."""
    output.mkdir(parents=True, exist_ok=True)
    if not all((output / name).exists() for name in ("train.txt", "valid.txt")):
        write_english(data, output)
    lines, valid = ((output / name).read_text("utf-8").splitlines() for name in ("train.txt", "valid.txt"))
    draw, generator = random.Random(0), np.random.default_rng(0)
    halves = [1 if draw.random() < 0.5 else 2 for _ in lines]
    parts = {f"half-{half}": [line for line, its in zip(lines, halves, strict=True) if its == half] for half in (1, 2)}
    parts["parsed"] = _short(lines, PARSED, generator)
    parts["valid-parsed"] = _short(valid, VALID_PARSED, generator)
    parts["valid-fifth"] = valid[::5]
    for name, part in parts.items():
        if not (output / f"{name}.txt").exists():
            write_text("".join(f"{line}\n" for line in part), output / f"{name}.txt")


def _short(lines: Sequence[str], count: int, generator: np.random.Generator) -> list[str]:
    """Some of the short sentences, in order."""
    short = [line for line in lines if len(line.split()) <= LONGEST]
    chosen = generator.permutation(len(short))[:count]
    return [short[place] for place in np.sort(chosen).tolist()]


def train_members(runs: Path) -> None:
    """Trains the grammars, the parsers that learn from their trees, and the scorer."""
    text = runs / "data"
    for name, (half, settings) in GRAMMARS.items():
        own = {"run.seed": half, "text.train": str(text / f"half-{half}.txt"), **settings}
        _train(runs / name, "simple-pcfg", {**own, "text.valid": str(text / "valid-fifth.txt")})
    settings = {"text.train": str(text / "parsed.txt"), "text.valid": str(text / "valid-parsed.txt")}
    recipe = recipe_of("english", "simple-pcfg-fast", settings)
    student = read_recipe("span-parser-text", settings)
    options = FocusOptions(seeds=0, also=[runs / name for name in GRAMMARS], strength=FOCUS, student=student)
    focus(recipe, runs / LEARNERS, options, lambda recipe: nullcontext(lambda event: None), print)
    both = {"text.train": str(text / "train.txt"), "text.valid": str(text / "valid-fifth.txt")}
    _train(runs / SCORER, "lstm", both)


def write_shipped(runs: Path) -> None:
    """Writes the bundled model folders from the finished runs, with weights in bfloat16."""
    parsers = [read_model(runs / LEARNERS / name) for name in ("focused", "student")]
    write_model(SHIPPED / "en", combine(parsers, read_model(runs / SCORER)), torch.bfloat16)
    write_model(SHIPPED / "en-fast", parsers[0], torch.bfloat16)


def _train(folder: Path, name: str, settings: Mapping[str, object]) -> None:
    """Train a run of the experiment `english`, or resume it."""
    if (folder / RESULT).exists():
        print(f"{folder}: finished")
        return
    print(f"{folder}: training")
    if folder.exists():
        resume(folder)
    else:
        train(recipe_of("english", name, settings), folder)


if __name__ == "__main__":
    main()
