"""The stop classifiers: their inputs and their independence."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.models.classifiers import Stops, StopSettings

SIZES = {"state_size": 5, "word_size": 3, "input_size": 4, "hidden_size": 6}


def built(**settings) -> Stops:
    torch.manual_seed(1)
    return Stops(StopSettings(**SIZES | settings)).double()


@pytest.mark.parametrize("reads", ["states", "states-and-words"])
def test_each_classifier_is_a_network_of_two_layers_and_reads_words_only_where_it_should(reads):
    stops = built(reads=reads)
    hidden, inputs = torch.randn(7, 5).double(), torch.randn(7, 4).double()
    found = stops(hidden, inputs)
    features = torch.cat([hidden, inputs], 1) if reads == "states-and-words" else hidden
    for edge, (first, _, second) in enumerate(stops.classifiers):
        layer = (features @ first.weight.T + first.bias).clamp(min=0)
        torch.testing.assert_close(found[:, edge], (layer @ second.weight.T + second.bias)[:, 0])
    assert torch.equal(found, stops(hidden, inputs + 1)) == (reads == "states")


def test_a_classifier_gets_no_gradient_from_another_classifier():
    stops = built()
    stops(torch.randn(2, 5).double(), torch.randn(2, 4).double())[:, 2].sum().backward()
    touched = [
        any(weight.grad is not None and weight.grad.any() for weight in one.parameters()) for one in stops.classifiers
    ]
    assert touched == [False, False, True, False]


def test_labels_are_predicted_only_if_the_model_reads_them():
    assert built().label_network is None
    stops = built(labels=9)
    hidden, embedded = torch.randn(2, 5).double(), torch.randn(2, 3).double()
    assert stops.label_logits(hidden, embedded).shape == (2, 9)
    assert not torch.equal(stops.label_logits(hidden, embedded), stops.label_logits(hidden, embedded + 1))
