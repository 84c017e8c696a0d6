"""Trees that know nothing of the text, for the comparison of models with and without trees: recipes/trees-as-signal.

    python -m figures.control_trees random data/ptb/tenth.txt -o runs/random.mrg

right: every constituent ends at the last word.  random: every constituent is split at a uniformly random position.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from syntaxlm.core.files import write_text
from syntaxlm.trees.bounds import random_trees, right
from syntaxlm.trees.spans import format_spans


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["right", "random"])
    parser.add_argument("text", type=Path, help="one sentence per line, words apart by spaces")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1, help="of the random trees; default 1")
    options = parser.parse_args()
    sentences = [words for line in options.text.read_text(encoding="utf-8").splitlines() if (words := line.split())]
    lengths = np.array([len(words) for words in sentences])
    spans = right(lengths) if options.kind == "right" else random_trees(lengths, options.seed)
    write_text("\n".join([*format_spans(spans, sentences), ""]), options.output)


if __name__ == "__main__":
    main()
