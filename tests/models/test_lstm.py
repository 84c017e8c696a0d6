"""The two ways in which the LSTM is computed: by nn.LSTM, and by rows of real tokens in training with bfloat16."""

import pytest
import torch

from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import Rows
from syntaxlm.models.lstm import LSTMBackbone, LSTMConfig
from syntaxlm.models.registry import build_model

LENGTHS = torch.tensor([6, 5, 5, 2])


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["stream", "sentences"])
@pytest.mark.parametrize("is_continued", [False, True])
def test_rows_of_real_tokens_have_the_states_and_gradients_of_nn_lstm(lengths, is_continued):
    torch.manual_seed(0)
    backbone = LSTMBackbone(LSTMConfig(embedding_size=8, hidden_size=12, layers=2)).double().eval()
    inputs = torch.randn(6, 4, 8, dtype=torch.float64)
    rows = Rows(6, 4, lengths, inputs.device)
    state = None
    if is_continued:
        state = {name: torch.randn(2, 4, 12, dtype=torch.float64) for name in ("hidden", "cell")}

    padded, after = backbone._read(inputs, state)
    tokens, after_rows = backbone._read_rows(rows.of(inputs), rows, state)
    torch.testing.assert_close(tokens, rows.of(padded))
    if lengths is None:
        torch.testing.assert_close(after_rows, after)
    weights = list(backbone.lstm.parameters())
    expected = torch.autograd.grad(rows.of(padded).square().sum(), weights)
    torch.testing.assert_close(torch.autograd.grad(tokens.square().sum(), weights), expected)


def test_training_with_bfloat16_computes_rows_and_has_the_loss_of_float32(monkeypatch):
    torch.manual_seed(0)
    config = LSTMConfig(embedding_size=16, hidden_size=24, layers=2, dropout=0.0, layer_dropout=0.0)
    model = build_model(config, 50).train()
    tokens = torch.randint(3, 50, (6, 4))
    batch = TokenBatch(tokens, tokens.roll(-1, 0), LENGTHS)
    exact = model.loss(batch).total
    monkeypatch.setattr(LSTMBackbone, "_read", None)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.loss(batch)
    assert loss.total.item() == pytest.approx(exact.item(), rel=2e-3)
    assert loss.total.item() != exact.item()
