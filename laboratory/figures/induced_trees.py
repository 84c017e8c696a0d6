"""PRPN, Figure 5, and the appendix of ON-LSTM: induced trees beside the trees of a treebank.

    python -m laboratory.figures.induced_trees MODEL TREEBANK -o docs/images/prpn-trees.svg

The sentences are the first ones of the treebank with --min-words to --max-words words after preprocessing, whatever
their scores: none is chosen by hand. Spans that both trees have are marked. Shen et al. 2018; Shen et al. 2019.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice

from laboratory.figures import shared
from syntaxlm.api.model import load
from syntaxlm.core.errors import InputError
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.drawing import svg
from syntaxlm.drawing.svg import UNKNOWN, Picture
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.evaluation.trees import gold_trees
from syntaxlm.parsing.analysis import analyse
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.tree import Tree


def chosen_trees(treebank: str, preprocessing: str, count: int, words: range) -> list[Tree]:
    """The first trees of a treebank with a number of words in a range. Raises InputError if there are too few."""
    fitting = (tree for tree in gold_trees(read_treebank(treebank, preprocessing)) if len(tree) in words)
    chosen = list(islice(fitting, count))
    if len(chosen) < count:
        limits = f"{words.start} to {words.stop - 1} words"
        raise InputError(f"{treebank}: found {len(chosen)} sentences of {limits}; expected at least {count}")
    return chosen


def picture(model: ModelBundle, trees: Sequence[Tree], options: ParseOptions = ParseOptions()) -> Picture:
    """Each sentence with its induced tree, the distances, and the treebank's tree."""
    parts = []
    for tree in trees:
        analysis = analyse(model, tree, options)
        notes = [UNKNOWN if unknown else "" for unknown in analysis.unknown]
        parts.append(tree_picture(analysis.tree, analysis.distances or None, tree, analysis.words, notes))
    return svg.stacked(parts, "Induced trees beside the trees of a treebank", gap=20)


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("treebank", metavar="TREEBANK", help="constituency trees: a file, folder or pattern")
    parser.add_argument("--sentences", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--min-words", type=int, default=7, metavar="N", help="default 7")
    parser.add_argument("--max-words", type=int, default=10, metavar="N", help="default 10")
    parser.add_argument("--preprocessing", default="ptb-keep", metavar="NAME", help="default ptb-keep")
    parser.add_argument("--decoder", metavar="NAME", help="default: the model's")
    parser.add_argument("--layer", type=int, metavar="N", help="layer of the distances; default: the model's")
    chosen = parser.parse_args()
    words = range(chosen.min_words, chosen.max_words + 1)
    trees = chosen_trees(chosen.treebank, chosen.preprocessing, chosen.sentences, words)
    return picture(load(chosen.model), trees, ParseOptions(decoder=chosen.decoder, layer=chosen.layer)), chosen


if __name__ == "__main__":
    shared.run(main)
