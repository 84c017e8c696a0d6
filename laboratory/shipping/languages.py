"""Makes a model of another language from the words of a treebank, whose trees are not used, and measures it.

    python -m laboratory.shipping.languages LANGUAGE TREEBANK RUNS

LANGUAGE: `is`, the bundled Icelandic model, or `pt`, a Portuguese model that is not bundled.  TREEBANK: IcePaHC (CC BY
4.0) or Floresta (for research only) as a bracket file.  RUNS: a folder for text and runs; interrupted runs are resumed,
finished ones are kept.
Writes `is` to src/syntaxlm/storage/bundled, but for its model card, which `shipping.model_cards` writes, and `pt` to
RUNS. The figures are stored in the experiment `shipped`. Takes about an hour on one core without bfloat16 tiles (AMX).

Three grammars with different biases parse the text, and the model is a grammar that learns from the trees of their
average. The last tenth of the treebank is for tests, the tenth before it for validation.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path

import torch

from laboratory.experiment import recipe_of
from laboratory.shipping.english import SHIPPED
from laboratory.shipping.figures import store_report
from syntaxlm.comparison.focus import FocusOptions, focus
from syntaxlm.core.files import write_text
from syntaxlm.storage.folder import read_model, write_model
from syntaxlm.trees.tree import read_brackets, write_brackets

MINUTES = 45.0  # for all trainings
SMALL = {"model.embedding_size": 64, "text.vocabulary.maximum_size": 15_000}
VARIANTS = [[("model.end_bias", "0")], [("model.marks", "1"), ("model.marks_side", "both")]]
TEST_SETS = {"is": "icepahc-test", "pt": "floresta-test"}


def main() -> None:
    """Makes the model; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=sorted(TEST_SETS))
    parser.add_argument("treebank", type=Path)
    parser.add_argument("runs", type=Path)
    options = parser.parse_args()
    language = options.language
    write_parts(options.treebank, options.runs)
    train_grammars(options.runs)
    model = (SHIPPED if language == "is" else options.runs) / language
    write_model(model, read_model(options.runs / "learners" / "focused"), torch.bfloat16)
    os.chdir(options.runs)  # so that the reports name the data by their files alone
    trees = "parse", language, "test.mrg", "--preprocessing", "letters"
    for arguments in (trees, (*trees, "--max-words", "10"), ("perplexity", language, "test.txt")):
        store_report(language, TEST_SETS[language], "evaluate", *arguments)


def write_parts(treebank: Path, runs: Path) -> None:
    """Writes the words of the three parts, and the trees of the test part."""
    runs.mkdir(parents=True, exist_ok=True)
    trees = read_brackets(treebank)
    tenth = len(trees) // 10
    parts = {"train": trees[: -2 * tenth], "valid": trees[-2 * tenth : -tenth], "test": trees[-tenth:]}
    for name, part in parts.items():
        if not (runs / f"{name}.txt").exists():
            write_text("".join(f"{' '.join(tree.words)}\n" for tree in part), runs / f"{name}.txt")
    if not (runs / "test.mrg").exists():
        write_brackets(parts["test"], runs / "test.mrg")


def train_grammars(runs: Path) -> None:
    """Trains the grammars."""
    text = {"text.train": str(runs / "train.txt"), "text.valid": str(runs / "valid.txt"), "text.test": None}
    recipe = recipe_of("english", "of-treebank", {**text, **SMALL})
    options = FocusOptions(seeds=1, variants=VARIANTS, minutes=MINUTES)
    focus(recipe, runs / "learners", options, lambda recipe: nullcontext(lambda event: None), print)


if __name__ == "__main__":
    main()
