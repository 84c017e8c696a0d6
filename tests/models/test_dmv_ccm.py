"""DMV+CCM: the product of both models over all dependency trees, and EM."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models import dmv_ccm, sizes
from syntaxlm.models.dmv_ccm import DMVCCM, DMVCCMConfig
from syntaxlm.ops.dmv import TreeDecisions, projective_trees, tree_log_prob
from syntaxlm.trees.decoding import decode_heads
from tests.models.test_dmv import batch_of

SENTENCES = [[3, 4, 5, 3, 4], [4, 3, 3, 5, 6], [5, 3, 4, 7], [3, 4, 5], [5, 3, 4], [3, 4], [6, 3], [7]]


def trained(rounds: int) -> DMVCCM:
    model = DMVCCM(DMVCCMConfig(), 9)
    for _ in range(rounds):
        model.accumulate(batch_of(SENTENCES))
        model.maximise()
    return model


def test_scores_and_trees_are_those_of_all_trees():
    model, sentence = trained(3), [4, 3, 3, 5, 6]
    batch = batch_of([sentence])
    decisions = TreeDecisions(*model.dmv.decisions(torch.tensor([sentence])))
    (weights,) = model.ccm.log_span_weights(batch)
    trees = list(projective_trees(len(sentence)))
    spans = decode_heads(np.concatenate(trees), np.full(len(trees), len(sentence)), "heads-binary")
    singles = {(word, word + 1) for word in range(len(sentence))}
    scores = torch.stack(
        [
            tree_log_prob(decisions, tree) + sum(weights[span] for span in spans.sentence(number) | singles)
            for number, tree in enumerate(trees)
        ]
    )
    constant = model.ccm.distituent_log_probs(model.ccm.types(torch.tensor([sentence]).T))
    assert float(model.loss(batch).total) == pytest.approx(-float(scores.logsumexp(0) + constant), rel=1e-12)
    closed = batch_of([sentence], closed=True)
    assert tuple(model.structure(closed).values[0].tolist()) == trees[int(scores.argmax())]


def test_no_round_lowers_the_product_with_the_prior_of_the_smoothing():
    model, batch = trained(1), batch_of(SENTENCES)
    values = []
    for _ in range(12):
        values.append(float(model.loss(batch).total) - model.ccm._log_prior())
        model.accumulate(batch)
        model.maximise()
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(values))
    assert values[0] - values[-1] > 0.5


def test_groups_of_sentences_make_no_difference(monkeypatch):
    expected = trained(3)
    monkeypatch.setattr(dmv_ccm, "_HEADS_TOGETHER", 1)
    for one, other in zip(expected.buffers(), trained(3).buffers(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_sentence_that_does_not_fit_in_memory_is_an_error(monkeypatch):
    model = trained(2)
    monkeypatch.setattr(sizes, "memory_size", lambda: 10_000)
    with pytest.raises(InputError, match=r"a sentence of 5 words, whose chart needs about .* GiB.* or use a dmv model"):
        model.structure(batch_of([[3, 4, 5, 3, 4]], closed=True))
