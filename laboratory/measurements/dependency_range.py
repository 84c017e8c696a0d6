"""How far apart a word and what predicts it are, along the sentence and along dependency paths.

    python -m laboratory.measurements.dependency_range TREEBANK [--json]

TREEBANK: dependency trees: a file, a folder or a quoted pattern. A recurrent network reads a sentence of n words in n
steps. TreeRNN reaches a word in as many steps as the word's path from ROOT has edges, so its longest recurrence is the
longest path of the tree. Zhang, Lu, Lapata 2015, sections 2 and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from laboratory.measurements.output import measurement_parser, show
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.trees.dependencies import paths_of


@dataclass(frozen=True)
class DependencyRange:
    """Numbers of steps of a recurrent network and of TreeRNN.

    Attributes:
        sentences: number of sentences.
        words: number of words.
        longest_in_sentence: steps of the recurrent network, the words of a sentence; mean over sentences.
        longest_in_tree: steps of TreeRNN, the edges of the longest path of a tree; mean over trees.
        in_sentence: steps of the recurrent network to a word, itself included; mean over words.
        in_tree: steps of TreeRNN to a word, the edges of its path; mean over words.
    """

    sentences: int
    words: int
    longest_in_sentence: float
    longest_in_tree: float
    in_sentence: float
    in_tree: float


def main() -> None:
    """Measure files of trees; see the module."""
    parser = measurement_parser(__doc__)
    parser.add_argument("treebank")
    options = parser.parse_args()
    heads = [tree.heads for tree in dependency_trees(options.treebank)]
    show(asdict(dependency_range(heads)), options.json)


def dependency_range(heads: Sequence[Sequence[int]]) -> DependencyRange:
    """Return the ranges of trees.

    Args:
        heads: of each tree, the position of each word's head, 0 for the root.
    """
    lengths = np.array([len(tree) for tree in heads], np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    depths = paths_of(np.concatenate([np.array(tree, np.int64) for tree in heads]), offsets).depths
    positions = np.arange(1, len(depths) + 1) - np.repeat(offsets[:-1], lengths)
    return DependencyRange(
        len(heads),
        len(depths),
        float(lengths.mean()),
        float(np.maximum.reduceat(depths, offsets[:-1]).mean()),
        float(positions.mean()),
        float(depths.mean()),
    )


if __name__ == "__main__":
    main()
