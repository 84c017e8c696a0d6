"""PRPN against the program its authors released, and against the equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syntaxlm.models.contract import TokenBatch
from tests.golden import PRPN_FILES, released_prpn


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("path", PRPN_FILES, ids=lambda path: path.stem)
def test_equals_the_released_program_with_carried_state(path, reference):
    model, golden = released_prpn(path)
    if reference:
        model.core.ops = model.core.ops.reference
    state = None
    for suffix in ("", "_next"):
        tokens = torch.from_numpy(golden["x" + suffix])
        output = model(TokenBatch(tokens, tokens), state)
        state = output.state
        logits = model.decoder(model.core(model.embedding(tokens), TokenBatch(tokens, tokens), None).hidden)
        every = [output.log_probs(torch.full_like(tokens, word)) for word in range(model.vocabulary_size)]
        expected = torch.log_softmax(torch.from_numpy(golden["logits" + suffix]), -1)
        assert logits.shape[-1] == expected.shape[-1]
        torch.testing.assert_close(torch.stack(every, -1), expected, rtol=0, atol=1e-9)
        distances = output.syntax.distances[0]
        torch.testing.assert_close(distances, torch.from_numpy(golden["gates" + suffix].T), rtol=0, atol=1e-9)
        if not suffix:
            maps = np.stack([part.detach().numpy() for part in output.syntax.maps.values()], axis=2)
            np.testing.assert_allclose(maps, golden["attentions"], rtol=0, atol=1e-9)
            parsed = model.syntax(TokenBatch(tokens, tokens)).distances[0]
            torch.testing.assert_close(parsed, distances, rtol=0, atol=1e-9)
