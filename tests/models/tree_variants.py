"""Small dependency-tree models of all settings whose parts differ, and trees for them."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from syntaxlm.batches import TreeBatches
from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, label_vocabulary
from syntaxlm.models.abilities import TextCounts
from syntaxlm.models.batches import TreeBatch
from syntaxlm.models.registry import build_model
from syntaxlm.models.tree_rnn import TreeRNN, TreeRNNConfig
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.tree import DependencyTree

WORDS = ["the", "old", "cat", "sleeps", "on", "a", "red", "chair", ".", "dogs"]
VOCABULARY = Vocabulary([UNKNOWN, ROOT, *WORDS], UNKNOWN, ROOT, ROOT)
LABELS = label_vocabulary({"det": 3, "amod": 2, "nsubj": 1, "root": 4, "obl": 1})
VARIANTS = {
    "tanh": {},
    "lstm": {"cell": "lstm"},
    "labelled": {"labelled": True},
    "labelled lstm, by edge": {"labelled": True, "cell": "lstm", "output": "by-edge"},
    "tanh, one softmax": {"output": "shared"},
    "nce": {"loss": "nce", "noise_words": 4, "shared_noise": True},
    "left dependents, lstm": {"left_dependents": True, "cell": "lstm"},
    "left dependents, labelled": {"left_dependents": True, "labelled": True},
    "nce, fresh noise, lstm": {"loss": "nce", "noise_words": 4, "cell": "lstm"},
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def tree(words: str, heads: tuple[int, ...], labels: str = "") -> DependencyTree:
    split = tuple(words.split())
    return DependencyTree(split, ("",) * len(split), heads, tuple(labels.split()) or ("det",) * len(split))


SENTENCE = tree(
    "the old cat sleeps on a red chair .", (3, 3, 4, 0, 8, 8, 8, 4, 4), "det amod nsubj root obl det amod obl x"
)
TREES = [
    SENTENCE,
    tree("dogs", (0,), "root"),
    tree("the dogs sleeps .", (2, 3, 0, 3), "det nsubj root amod"),
    tree("the old red cat on a chair", (4, 4, 4, 0, 4, 7, 5), "det amod amod root obl det obl"),
]


def config_of(name: str, **settings: object) -> TreeRNNConfig:
    """The settings of a small model. settings: applied if TreeRNN has them."""
    sizes = {"embedding_size": 5, "label_size": 3, "hidden_size": 6, "init_range": 0.8}
    fields = {field.name for field in dataclasses.fields(TreeRNNConfig)}
    return TreeRNNConfig(**{key: value for key, value in (sizes | VARIANTS[name] | settings).items() if key in fields})


def built(name: str, **settings: object) -> TreeRNN:
    """A small model in float64 and evaluation mode, in which every part has an effect."""
    torch.manual_seed(3)
    model = build_model(config_of(name, **settings), len(VOCABULARY))
    assert isinstance(model, TreeRNN)
    model.setup(TextCounts(torch.arange(len(VOCABULARY)), len(LABELS)))
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.uniform_(-0.5, 0.5)  # biases, which start at 0
    return model.double().eval()


def batch_of(*trees: DependencyTree) -> TreeBatch:
    corpus = DependencyCorpus.from_trees(trees, Normaliser(), VOCABULARY, LABELS)
    (batch,) = TreeBatches(corpus, 1000, shuffle=False, seed=0).iterate(0)
    return batch


def by_word(model: TreeRNN, *trees: DependencyTree) -> list[list[float]]:
    """The log-probability of each word of each tree, in the order of the sentence."""
    batch = batch_of(*trees)
    found = [[math.nan] * len(one) for one in trees]
    values = model.token_log_probs(batch).log_probs.tolist()
    indices = batch.indices[batch.trees].tolist()
    for index, position, value in zip(indices, batch.positions.tolist(), values, strict=True):
        found[index][position] = value
    return found
