"""ON-LSTM: the master gates of every word of a sentence, and the tree that their means give.

    python -m laboratory.figures.on_lstm_gates MODEL SENTENCE -o docs/images/on-lstm-gates.svg

From top to bottom: the tree of one layer (--layer, by default the model's) with its distances, 1 - mean of the forget
master gate; the means of both master gates in each layer; and the gates of the chosen layer, one row per chunk of
neurons. Each gate is a cumulative softmax, so it rises or falls from chunk to chunk. Shen et al. 2019, equations (9)
and (10).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from laboratory.figures import shared
from syntaxlm.api.model import load
from syntaxlm.core.errors import InputError
from syntaxlm.drawing import svg
from syntaxlm.drawing.heat_map import heat_map
from syntaxlm.drawing.svg import UNKNOWN, Picture
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import drop_weights
from syntaxlm.models.on_lstm import ONLSTMBackbone
from syntaxlm.models.recurrent import LSTMLayer
from syntaxlm.ops.on_lstm import cumax
from syntaxlm.parsing.analysis import analyse
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.structure import decodings
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import AS_WRITTEN

Gates = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class MasterGates:
    """Master gates of one layer at every word. forget, write: (T, K), f~ and i~, for K chunks of neurons."""

    forget: Gates
    write: Gates


@torch.no_grad()
def master_gates(model: ModelBundle, tokens: Sequence[str]) -> list[MasterGates]:
    """The master gates of each layer at the words of a sentence that follows BOS, equations (9) and (10).

    Computed from the states of the layers, because the recurrence keeps only the means of the gates.
    Raises InputError for a model that is not an ON-LSTM.
    """
    network = model.model
    backbone = network.backbone if isinstance(network, NeuralModel) else None
    if not isinstance(backbone, ONLSTMBackbone) or backbone.config.cell != "on-lstm":
        raise InputError(f"found a model of type {model.settings.model.name}; expected an ON-LSTM")
    assert isinstance(network, NeuralModel)
    network.eval()
    ids = torch.tensor([[model.vocabulary.begin_id, *model.vocabulary.encode(tokens)]]).T.to(network.device)
    batch = TokenBatch(ids, ids)
    rows, inputs = backbone.enter(backbone.embed(network.embedding, batch.tokens), batch)
    by_layer = []
    outputs, _ = backbone.stack(inputs, rows, None)
    for layer, output in zip(backbone.stack.layers, outputs, strict=True):
        states = output.hidden
        assert isinstance(layer, LSTMLayer)
        assert layer.chunk is not None
        count = layer.size // layer.chunk  # chunks; the first 2 K rows of weights and biases are of the master gates
        recurrent = drop_weights(layer.recurrent_weight, layer.weight_drop, layer.rescaled, False)[: 2 * count]
        before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
        bias = (layer.input_bias + layer.recurrent_bias)[: 2 * count]
        write, forget = (inputs @ layer.input_weight[: 2 * count].T + before @ recurrent.T + bias).split(count, dim=-1)
        # Without the gates at BOS, the first step.
        gates = (gate[1:].float().cpu().numpy() for gate in (cumax(forget), (1 - cumax(write)).clamp(min=0)))
        by_layer.append(MasterGates(*gates))
        inputs = states
    return by_layer


def picture(model: ModelBundle, sentence: str, layer: int | None = None) -> Picture:
    """The figure. layer: of the tree and of the gates below it; None: the model's."""
    options = ParseOptions(layer=layer, **AS_WRITTEN)
    analysis = analyse(model, sentence, options)
    words = list(analysis.words)
    notes = [UNKNOWN if unknown else "" for unknown in analysis.unknown]
    tree = tree_picture(analysis.tree, analysis.distances, words=words, notes=notes)

    by_layer = master_gates(model, analysis.tokens)
    names = [f"layer {place + 1}" for place in range(len(by_layer))]
    means = [
        heat_map(np.array([getattr(gates, gate).mean(1) for gates in by_layer]), names, words, title)
        for gate, title in (("forget", "Mean of the forget master gate"), ("write", "Mean of the input master gate"))
    ]

    _, number = decodings([model], options)[0]
    gates_of_tree = by_layer[number - 1]
    count = gates_of_tree.forget.shape[1]
    chunks = [str(place + 1) if place % 5 == 4 or place == 0 else "" for place in range(count)]  # 1, 5, 10, ...
    whole = [
        heat_map(getattr(gates_of_tree, gate).T, chunks, words, title, "chunk of neurons", compact=True)
        for gate, title in (
            ("forget", f"Forget master gate, layer {number}"),
            ("write", f"Input master gate, layer {number}"),
        )
    ]
    heading = f"Tree of layer {number}, with distances: 1 - mean of the forget master gate"
    parts = [shared.headed(tree, heading), svg.beside(means), svg.beside(whole)]
    return svg.stacked(parts, f"Master gates of an ON-LSTM: {' '.join(words)}")


def main() -> tuple[Picture, argparse.Namespace]:
    parser = shared.options(__doc__)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("sentence", metavar="SENTENCE")
    parser.add_argument("--layer", type=int, metavar="N", help="default: the model's")
    chosen = parser.parse_args()
    return picture(load(chosen.model), chosen.sentence, chosen.layer), chosen


if __name__ == "__main__":
    shared.run(main)
