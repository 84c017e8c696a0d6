"""Outputs of released programs, and our models with their weights."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import torch

from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.prpn import PRPNConfig
from syntaxlm.models.recurrent import LSTMLayer, RecurrentStack
from syntaxlm.models.registry import build_model
from syntaxlm.ops.span_attention import SpanWeights

FOLDERS = [Path(__file__).parent / "golden_data", *map(Path, filter(None, [os.environ.get("SYNTAXLM_GOLDEN")]))]
PRPN_FILES = sorted(path for folder in FOLDERS for path in folder.glob("prpn_*.npz"))
ON_LSTM_FILES = sorted(path for folder in FOLDERS for path in folder.glob("on_lstm*.npz"))
CCM_FILES = sorted(path for folder in FOLDERS for path in folder.glob("ccm*.npz"))
INCREMENTAL_FILES = sorted(path for folder in FOLDERS for path in folder.glob("incremental*.npz"))
PALM_FILES = sorted(path for folder in FOLDERS for path in folder.glob("palm*.npz"))

_READER = {
    "memory_rnn.ih.0.weight": "input.weight",
    "memory_rnn.ih.0.bias": "input.bias",
    "memory_rnn.ih.1.gamma": "input_norm.gain",
    "memory_rnn.ih.1.beta": "input_norm.bias",
    "memory_rnn.hh.0.weight": "recurrent.weight",
    "memory_rnn.hh.0.bias": "recurrent.bias",
    "memory_rnn.hh.1.gamma": "recurrent_norm.gain",
    "memory_rnn.hh.1.beta": "recurrent_norm.bias",
    "memory_rnn.c_norm.gamma": "cell_norm.gain",
    "memory_rnn.c_norm.beta": "cell_norm.bias",
    "projector_summ.1.weight": "key.weight",
    "projector_summ.1.bias": "key.bias",
}
_RESIDUAL = {"0": "first", "1": "first_norm", "4": "second", "5": "second_norm"}
_PARSER = {"1": "convolution", "2": "norm", "5": "head"}
_FEED = {"1": "projection", "2": "norm"}


def our_name(released: str) -> str:
    parts = released.split(".")
    match parts:
        case ["encoder", what]:
            return f"embedding.{what}"
        case ["decoder", what]:
            return f"decoder.{what}"
        case ["parser", "gate", index, what]:
            return f"backbone.parser.{_PARSER[index]}.{what}"
        case ["reader", layer, *rest]:
            return f"backbone.reader.{layer}.{_READER['.'.join(rest)]}"
        case ["predictor", "projector_pred", "1", what]:
            return f"backbone.predictor.key.{what}"
        case ["predictor", "ffd", index, what]:
            return f"backbone.predictor.{_FEED[index]}.{what}"
        case ["predictor", "res", "res", block, index, what]:
            return f"backbone.predictor.blocks.{block}.{_RESIDUAL[index]}.{what}"
    raise KeyError(released)


def released_prpn(path: Path) -> tuple[NeuralModel, dict[str, np.ndarray]]:
    """Our PRPN with a golden file's weights, in evaluation mode and float64, and the file's arrays."""
    arrays = dict(np.load(path))
    weights = {
        our_name(name[6:]): torch.from_numpy(value) for name, value in arrays.items() if name.startswith("param.")
    }
    layers = len({name.split(".")[2] for name in weights if name.startswith("backbone.reader.")})
    blocks = len({name.split(".")[3] for name in weights if name.startswith("backbone.predictor.blocks.")})
    vocabulary_size, embedding_size = weights["embedding.weight"].shape
    config = PRPNConfig(
        embedding_size=embedding_size,
        hidden_size=weights["backbone.predictor.key.weight"].shape[0],
        layers=layers,
        memory_slots=int(arrays["n_slots"]),
        look_back=int(arrays["n_lookback"]),
        residual_blocks=blocks,
        tied=False,
        comparison="hard" if arrays["hard"] else "soft",
        resolution=float(arrays["resolution"]),
    )
    model = build_model(config, vocabulary_size).double().eval()
    assert isinstance(model, NeuralModel)
    missing = set(model.state_dict()) - set(weights)
    assert all(name.endswith("num_batches_tracked") for name in missing), missing
    model.load_state_dict(weights, strict=False)
    return model, arrays


def released_on_lstm(path: Path) -> tuple[RecurrentStack, dict[str, np.ndarray]]:
    """Our stack of ordered neurons with a golden file's weights, in evaluation mode and float64, and its arrays."""
    arrays = dict(np.load(path))
    recurrent = [arrays[f"l{layer}.weight_hh"] for layer in range(sum(name.endswith(".weight_hh") for name in arrays))]
    sizes = [weight.shape[1] for weight in recurrent]
    layer = partial(LSTMLayer, chunk=int(arrays["chunk_size"]), weight_drop=0.0, rescaled=False)
    stack = RecurrentStack(arrays["x"].shape[-1], sizes, layer).double().eval()
    stack.load_state_dict({
        f"layers.{layer}.{ours}": torch.from_numpy(arrays[f"l{layer}.{released}"])
        for layer in range(len(sizes))
        for ours, released in ON_LSTM_NAMES.items()
    })  # fmt: skip
    return stack, arrays


ON_LSTM_NAMES = {
    "input_weight": "weight_ih",
    "input_bias": "bias_ih",
    "recurrent_weight": "weight_hh",
    "recurrent_bias": "bias_hh",
}


def released_span_attention(path: Path) -> tuple[SpanWeights, dict[str, torch.Tensor]]:
    """Our weights of a golden file's span scorer, and the file's arrays, by length from 1 on."""
    arrays = {name: torch.from_numpy(value) for name, value in np.load(path).items()}
    runs = [arrays[f"param.rrnn_{direction}.weight"] for direction in ("fw", "bw")]
    forget_biases = [arrays[f"param.rrnn_{direction}.bias"].chunk(2)[1] for direction in ("fw", "bw")]
    weights = SpanWeights(
        torch.cat(
            [
                *(weight.T[0::2] for weight in runs),
                *(weight.T[1::2] for weight in runs),
                arrays["param._w_gate_"],
                arrays["param._w1_token_"],
            ]
        ),
        torch.cat([*forget_biases, arrays["param._b_gate_"], arrays["param._b1_"]]),
        arrays["param._w1_span_"],
        arrays["param._w2_"][0],
    )
    longest_first = ("scores", "attention", "attention_next")
    return weights, {name: array.flip(-1) if name in longest_first else array for name, array in arrays.items()}
