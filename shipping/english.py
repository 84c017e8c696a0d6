"""Makes the shipped English models again: prepares the text, trains the members and combines them.

    python -m shipping.english DATA RUNS

DATA: a folder as for `shipping.english_text`.  RUNS: a folder for text and runs; interrupted runs are resumed, finished
ones are kept.
Writes the model folders `en` and `en-fast` of the package src/syntaxlm/shipped, but for their model cards, which
`shipping.model_card` writes. Takes about two hours on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import syntaxlm.shipped
from shipping.english_text import write_english
from syntaxlm.model_io import combine, read_model, write_model
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.result import RESULT
from syntaxlm.training.trainer import resume, train

PARSERS = {"pcfg-1": ("simple-pcfg-en", 1), "pcfg-2": ("simple-pcfg-en", 2)}
SCORER = "lstm-1"
MEMBERS = PARSERS | {SCORER: ("lstm-en", 1), "fast-1": ("simple-pcfg-en-fast", 1)}
"""Folder in RUNS: the recipe and the seed."""

SHIPPED = Path(syntaxlm.shipped.__file__).parent


def main() -> None:
    """Makes the models; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    options = parser.parse_args()
    text = options.runs / "data"
    text.mkdir(parents=True, exist_ok=True)
    train_text, valid_text = text / "train.txt", text / "valid.txt"
    if not (train_text.exists() and valid_text.exists()):
        write_english(options.data, text)
    for name, (recipe, seed) in MEMBERS.items():
        _train(options.runs / name, recipe, seed, train_text, valid_text)
    write_shipped(options.runs)


def write_shipped(runs: Path) -> None:
    """Writes the shipped model folders from the finished runs, with weights in bfloat16."""
    parsers = [read_model(runs / name) for name in PARSERS]
    write_model(SHIPPED / "en", combine(parsers, read_model(runs / SCORER)), torch.bfloat16)
    write_model(SHIPPED / "en-fast", read_model(runs / "fast-1"), torch.bfloat16)


def _train(folder: Path, recipe: str, seed: int, train_text: Path, valid_text: Path) -> None:
    if (folder / RESULT).exists():
        print(f"{folder}: finished")
        return
    print(f"{folder}: training")
    if folder.exists():
        resume(folder)
    else:
        settings = {"run.seed": seed, "text.train": str(train_text), "text.valid": str(valid_text)}
        train(read_recipe(recipe, settings), folder)


if __name__ == "__main__":
    main()
