"""Speed of the recurrence along dependency paths: python -m laboratory.benchmarks.tree_levels [--trees FILE] [--json].

A step is forward and backward of the operation over a batch of 64 trees, 200 neurons, inputs of size 100. In one run:
- level by level, in float32 and bf16-mixed;
- the reference, step by step, in float32;
- nn.RNN or nn.LSTM of the same sizes over the same sentences from left to right, packed, in float32.

Without a file the trees are random: each word depends on an earlier word in a random order.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from laboratory.benchmarks.timing import Contestant, Row, benchmark_parser, race, refuse_failing_tests, show
from syntaxlm.batches import TreeBatches
from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, label_vocabulary
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.models.batches import TreeBatch
from syntaxlm.ops.backend import Backend, using
from syntaxlm.ops.tree_levels import EDGES, EdgeWeights, States, recurrence
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.tree import DependencyTree

TREES, INPUT, SIZE = 64, 100, 200
MOST_WORDS = 34  # random trees have 1 to 34 words, with the same mean as in GUM


def random_tree(random: np.random.Generator) -> DependencyTree:
    """A tree of 1 to `MOST_WORDS` words, each of which depends on an earlier word in a random order."""
    order = random.permutation(int(random.integers(1, MOST_WORDS + 1))) + 1
    heads = [0] * len(order)
    for place, word in enumerate(order[1:], 1):
        heads[word - 1] = int(order[random.integers(place)])
    blank = ("",) * len(order)
    return DependencyTree(("w",) * len(order), blank, tuple(heads), blank)


def batch_of(path: str | None) -> TreeBatch:
    """A batch of trees of a file, or of random trees without a file."""
    random = np.random.default_rng(0)
    trees = [random_tree(random) for _ in range(TREES)] if path is None else list(dependency_trees(path))
    vocabulary = Vocabulary([UNKNOWN, ROOT], UNKNOWN, ROOT, ROOT)
    corpus = DependencyCorpus.from_trees(trees, Normaliser(), vocabulary, label_vocabulary(Counter()))
    chosen = random.choice(len(corpus), TREES, replace=False)
    return TreeBatches(corpus, corpus.text.word_count, shuffle=False, seed=0).batch(chosen)


def along_paths(backend: Backend, batch: TreeBatch, lstm: bool, precision: str) -> Contestant:
    """The recurrence along dependency paths, by level or, with the backend `reference`, step by step."""
    generator = torch.Generator().manual_seed(0)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).mul_(0.1).requires_grad_()

    gates = 4 * SIZE if lstm else SIZE
    weights = EdgeWeights(leaf(EDGES, gates, INPUT), leaf(EDGES, gates, SIZE), leaf(EDGES, gates) if lstm else None)
    inputs, zeros = leaf(batch.token_count(), INPUT), torch.zeros(1, SIZE)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision != "32"), using(backend):
            states = recurrence(inputs, weights, batch.levels, States(zeros, zeros if lstm else None))
        states.hidden.sum().backward()

    return Contestant("reference" if backend == "reference" else "level by level", precision, step, len(inputs))


def from_left_to_right(batch: TreeBatch, lstm: bool) -> Contestant:
    """nn.RNN or nn.LSTM over the sentences of the batch, packed."""
    layer = (nn.LSTM if lstm else nn.RNN)(INPUT, SIZE)
    lengths = torch.bincount(batch.trees).tolist()
    inputs = pack_sequence([torch.randn(length, INPUT) for length in lengths], enforce_sorted=False)

    def step() -> None:
        layer(inputs)[0].data.sum().backward()

    return Contestant("nn.LSTM" if lstm else "nn.RNN", "32", step, batch.token_count())


def main() -> None:
    parser = benchmark_parser("tree_levels", __doc__, rounds=5)
    parser.add_argument("--trees", metavar="FILE", help="dependency trees to sample a batch from")
    options = parser.parse_args()
    refuse_failing_tests("tests/ops/test_tree_levels.py", "tests/data/test_dependencies.py")
    batch = batch_of(options.trees)
    rows: list[Row] = []
    for name, lstm in (("tanh", False), ("lstm", True)):
        contestants = [
            along_paths("compiled", batch, lstm, "bf16-mixed"),
            along_paths("compiled", batch, lstm, "32"),
            along_paths("reference", batch, lstm, "32"),
            from_left_to_right(batch, lstm),
        ]
        case = f"{name} {INPUT}-{SIZE}, {batch.sentence_count()} trees, {len(batch.levels.counts)} levels"
        rows += race(case, contestants, options.rounds, "reference", contestants[-1].form)
    show(rows, options.json)


if __name__ == "__main__":
    main()
