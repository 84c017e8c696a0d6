"""TreeRNN and LTreeRNN: trees sampled from the models, without and with labels.

    python -m laboratory.figures.generated_trees NAME=MODEL [NAME=MODEL ...] -o docs/images/generated-trees.svg

MODEL: a dependency-tree model with the classifiers of `tune stops`. Drawn are the first trees of the seed that have
--min-words to --max-words words; a longer one is sampled again. Zhang, Lu and Lapata 2016.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from laboratory.figures import shared
from syntaxlm.api.model import load
from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.dependencies import dependency_picture
from syntaxlm.drawing.svg import Picture
from syntaxlm.generation.options import TreeSamplingOptions
from syntaxlm.generation.stops import read_stops
from syntaxlm.generation.trees import generate_trees
from syntaxlm.models.classifiers import Stops
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.tree import DependencyTree

MOST_SAMPLED = 1000


def sampled(
    model: ModelBundle, stops: Stops, count: int, least_words: int, most_words: int, temperature: float, seed: int
) -> list[DependencyTree]:
    """The first `count` sampled trees with `least_words` to `most_words` words.

    Raises InputError like `generate_trees`, and if there are fewer among MOST_SAMPLED.
    """
    trees: list[DependencyTree] = []
    samples = generate_trees(
        model,
        stops,
        MOST_SAMPLED,
        TreeSamplingOptions(temperature=temperature, seed=seed, max_words=most_words, redraw=True),
    )
    for sample in samples:
        if len(sample.tree) >= least_words:
            trees.append(sample.tree)
        if len(trees) == count:
            return trees
    raise InputError(
        f"found {len(trees)} of {MOST_SAMPLED:,} sampled trees with {least_words} words or more; expected {count}:"
        " use a lower limit"
    )


def picture(trees: Mapping[str, list[DependencyTree]]) -> Picture:
    """The trees of each model below each other, the models side by side. trees: by the name of the model."""
    columns = [
        svg.stacked([shared.lines([name], "heading"), *map(dependency_picture, of_model)], name, gap=6)
        for name, of_model in trees.items()
    ]
    return svg.beside(columns, "Sampled dependency trees")


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--trees", type=int, default=4, metavar="N", help="for each model; default 4")
    parser.add_argument("--min-words", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument("--max-words", type=int, default=10, metavar="N", help="default 10")
    parser.add_argument("--temperature", type=float, default=0.7, metavar="T", help="default 0.7")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default 1")
    chosen = parser.parse_args()
    sizes = chosen.trees, chosen.min_words, chosen.max_words
    models = {name: (path, load(path)) for name, path in shared.named(chosen.models)}
    trees = {
        name: sampled(model, read_stops(path, model), *sizes, chosen.temperature, chosen.seed)
        for name, (path, model) in models.items()
    }
    return picture(trees), chosen


if __name__ == "__main__":
    shared.run(main)
