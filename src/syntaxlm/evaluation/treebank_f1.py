"""Unlabelled F1 of a model while it is trained, on the first sentences of a treebank, beside branching trees.

F1 is measured to be shown. It has no influence on training: gold trees must not choose the weights of a model that
learns without them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from syntaxlm.core.errors import InputError
from syntaxlm.data.treebanks import Preprocessing, read_treebank
from syntaxlm.evaluation.collapse import SENTENCES
from syntaxlm.evaluation.trees import gold_trees_of, known_tokens_for
from syntaxlm.parsing.options import DecodingOptions
from syntaxlm.parsing.structure import decodings, structure_of
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.bounds import left, right
from syntaxlm.trees.f1 import PROTOCOLS, score
from syntaxlm.trees.preprocessing import find_preprocessing
from syntaxlm.trees.spans import SpanSets

PROTOCOL = PROTOCOLS["wsj40"]


class TreebankF1:
    """The first 300 sentences of a treebank with 2 to 40 words, and the F1 of branching trees on them.

    Args:
        treebank: a file, folder or pattern.
        preprocessing: the gold-tree preprocessing: a name, a YAML file or a rule.
        bundle: the model, of any weights; its vocabulary and normaliser give the tokens.

    Raises:
        InputError: if the model does not parse, or cannot read the treebank, and for a treebank without such sentences.
    """

    def __init__(self, treebank: str | Path, preprocessing: Preprocessing, bundle: ModelBundle) -> None:
        rule = find_preprocessing(preprocessing)
        read = read_treebank(treebank, rule)
        scored = np.flatnonzero(PROTOCOL.scored(np.array([len(sentence) for sentence in read], np.int64)))
        if not len(scored):
            raise InputError(
                f"{treebank}: found no sentence of 2 to {PROTOCOL.max_words} words; expected some to score"
            )
        first = dataclasses.replace(read, sentences=tuple(read.sentences[place] for place in scored[:SENTENCES]))
        (self._decoding,) = decodings([bundle], DecodingOptions())
        self._tokens = known_tokens_for(bundle, first)
        self._gold = gold_trees_of(first, rule).spans
        lengths = self._gold.lengths
        self._baselines = {
            "treebank_right_branching": self._f1(right(lengths)),
            "treebank_left_branching": self._f1(left(lengths)),
        }

    def figures(self, bundle: ModelBundle) -> dict[str, float]:
        """Return F1 of a model's trees by its default decoder, and of branching trees, by name: 0 to 1."""
        trees = structure_of(bundle, self._tokens, labels=False).decode(*self._decoding)
        return {"treebank_f1": self._f1(trees), **self._baselines}

    def _f1(self, trees: SpanSets) -> float:
        return score(trees, self._gold, PROTOCOL, details=False).f1
