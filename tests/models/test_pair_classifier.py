"""The pair classifier with several encoders."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.classifiers import ClassifierSettings, PairBatch, PairClassifier
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.on_lstm import ONLSTMConfig
from syntaxlm.models.prpn import PRPNConfig

ENCODERS = {
    "lstm": LSTMConfig(embedding_size=6, hidden_size=8, layers=2, tied=False),
    "lstm, tied": LSTMConfig(embedding_size=6, hidden_size=8, layers=1),
    "on-lstm": ONLSTMConfig(embedding_size=6, layer_sizes=(8, 10), chunk_size=2, tied=False),
    "plain cell": ONLSTMConfig(cell="lstm", embedding_size=6, layer_sizes=(8,), tied=False),
    "prpn": PRPNConfig(embedding_size=6, hidden_size=8, layers=1, memory_slots=3, look_back=2),
}
LEFT = [torch.tensor(one) for one in ([1, 2, 3], [4], [0, 1, 2, 3, 4])]
RIGHT = [torch.tensor(one) for one in ([2, 2], [3, 1, 0, 4, 4, 2], [1])]


def classifier(name):
    torch.manual_seed(0)
    return PairClassifier(ENCODERS[name], ClassifierSettings(7, 0.3), tokens=5, classes=4).double()


@pytest.mark.parametrize("name", ENCODERS)
def test_pairs_in_a_batch_are_classified_independently_from_their_last_tokens(name):
    model = classifier(name).eval()
    together, _ = model(PairBatch.of(LEFT, RIGHT))
    assert together.shape == (3, 4)
    for left, right, logits in zip(LEFT, RIGHT, together, strict=True):
        states = []
        for sentence in (left, right):
            batch = TokenBatch(sentence[:, None], sentence[:, None])
            states.append(model.encoder.read(batch).hidden[-1])
        u, v = states
        features = torch.cat([u, v, u * v, (u - v).abs()])
        torch.testing.assert_close(model.layers(features), logits)


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "prpn"])
def test_every_weight_learns_and_penalties_are_those_of_the_encoder(name):
    model = classifier(name).train()
    logits, encoding = model(PairBatch.of(LEFT, RIGHT))
    assert set(encoding.penalties) == (set() if name.startswith("lstm") else {"ar", "tar"})
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 3])).backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())
