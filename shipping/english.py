"""Makes the bundled English models again: prepares the text, trains the members and combines them.

    python -m shipping.english DATA RUNS

DATA: a folder as for `shipping.english_text`.  RUNS: a folder for text and runs; interrupted runs are resumed, finished
ones are kept.
Writes the model folders `en` and `en-fast` in src/syntaxlm/storage/bundled, but for their model cards, which
`shipping.model_card` writes. Takes about two hours on one core.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path

import torch

import syntaxlm.storage.bundled
from shipping.english_text import write_english
from syntaxlm.core.files import write_text
from syntaxlm.core.text_files import read_lines
from syntaxlm.storage.combination import combine
from syntaxlm.storage.folder import read_model, write_model
from syntaxlm.training.focus import FocusOptions, focus
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.result import RESULT
from syntaxlm.training.run import resume, train

SEEDS = (1, 2, 3)
AVERAGED = 2  # grammars in `en`: those with the lowest validation perplexity; three do not fit into 15 MB
SCORER, FAST = "lstm-1", "fast"
SHORT = 22  # words and marks; the sentences from which the small grammar learns
FOCUS = 2.0  # nats, `model.focus`

SHIPPED = Path(syntaxlm.storage.bundled.__file__).parent


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
    for seed in SEEDS:
        _train(options.runs / f"pcfg-{seed}", "simple-pcfg-en", seed, train_text, valid_text)
    _train(options.runs / SCORER, "lstm-en", 1, train_text, valid_text)
    train_fast(options.runs)
    write_shipped(options.runs)


def train_fast(runs: Path) -> None:
    """Trains the small grammar on the short sentences, focused on the trees of all grammars."""
    text, short = runs / "data", runs / "data" / "short.txt"
    if not short.exists():
        lines = (line for _, line in read_lines(text / "train.txt"))
        write_text("".join(f"{line}\n" for line in lines if len(line.split()) <= SHORT), short)
    settings = {"text.train": str(short), "text.valid": str(text / "valid.txt")}
    recipe = read_recipe("simple-pcfg-en-fast", settings)
    parsers = [runs / f"pcfg-{seed}" for seed in SEEDS]
    options = FocusOptions(seeds=0, also=parsers, strength=FOCUS)
    focus(recipe, runs / FAST, options, lambda recipe: nullcontext(lambda event: None), print)


def write_shipped(runs: Path) -> None:
    """Writes the bundled model folders from the finished runs, with weights in bfloat16."""
    folders = sorted((runs / f"pcfg-{seed}" for seed in SEEDS), key=_valid_loss)[:AVERAGED]
    parsers = [read_model(folder) for folder in sorted(folders)]
    write_model(SHIPPED / "en", combine(parsers, read_model(runs / SCORER)), torch.bfloat16)
    write_model(SHIPPED / "en-fast", read_model(runs / FAST / "focused"), torch.bfloat16)


def _valid_loss(folder: Path) -> float:
    return float(json.loads((folder / RESULT).read_text(encoding="utf-8"))["valid"]["loss"])


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
