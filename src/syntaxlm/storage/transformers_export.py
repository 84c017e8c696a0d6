"""LSTMs and Transformers as model folders of the library transformers, with exactly the same probabilities.

The library has no model with an LSTM, and none with the Transformer's blocks and a bias of the decoder. The folder
therefore contains its own code, `modeling_syntaxlm.py`, which is loaded with `trust_remote_code=True`, and a tokenizer
that reads text by means of syntaxlm. The library itself is not needed to write a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import read_text, to_json, write_text, written_together
from syntaxlm.core.tensor_files import write_tensors
from syntaxlm.models.causal_transformer import ROTARY_BASE, CausalTransformerConfig
from syntaxlm.models.combination import Combination
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.storage.folder import CONFIG, VOCABULARY, ModelBundle
from syntaxlm.storage.hub import CARD

MODELING, TOKENIZATION = "modeling_syntaxlm.py", "tokenization_syntaxlm.py"  # copied into the folder
_TOKENIZER = "SyntaxLMTokenizer"
_BACKBONE = "backbone."  # before the names of its tensors
_LONGEST_TEXT = 1 << 20  # tokens; rotations depend on distances only, so any text is read
_EPSILON = 1e-6  # of RMSNorm
_CARD_TEXT = """---
library_name: transformers
pipeline_tag: text-generation
tags: [syntaxlm, {type}]
---

# {name}

A language model of the type `{type}` that syntaxlm trained, for the library transformers. The model needs torch and
transformers, its tokenizer also syntaxlm.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{name}", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("{name}", trust_remote_code=True)
logits = model(**tokenizer("The cat sleeps.", return_tensors="pt")).logits
```

BOS comes before each text, and no EOS after it.
"""


def write_transformers(bundle: ModelBundle, folder: Path) -> None:
    """Write a model as a folder of the library transformers. A combination is written as its language model.

    Args:
        bundle: an LSTM, a simple recurrent network or a Transformer.
        folder: a new or empty folder.

    Raises:
        InputError: for other models, for a mixture of softmaxes, and if the folder cannot be written.
    """
    model = bundle.model.scorer if isinstance(bundle.model, Combination) else bundle.model
    settings: Any = getattr(bundle.settings.model, "scorer", bundle.settings.model)
    class_name, config, tensors = _exported(model, settings)
    special = {
        "bos_token_id": bundle.vocabulary.begin_id,
        "eos_token_id": bundle.vocabulary.end_id,
        "pad_token_id": bundle.vocabulary.end_id,
    }
    classes = {"AutoConfig": f"{class_name}Config", "AutoModelForCausalLM": class_name}
    config |= special | {
        "architectures": [class_name],
        "auto_map": {name: f"{Path(MODELING).stem}.{of_folder}" for name, of_folder in classes.items()},
        "vocab_size": len(bundle.vocabulary),
        "tied": settings.tied,
        "cutoffs": [cutoff for cutoff in settings.cutoffs if cutoff < len(bundle.vocabulary)],
        "tie_word_embeddings": False,  # the code of the folder shares the weight itself
        "dtype": "float32",
    }
    tokenizer = {
        "tokenizer_class": _TOKENIZER,
        "auto_map": {"AutoTokenizer": [f"{Path(TOKENIZATION).stem}.{_TOKENIZER}", None]},
        "normaliser": bundle.settings.normaliser.to_dict(),
        "padding_side": "right",
    }

    with written_together(folder) as temporary:
        bundle.vocabulary.write(temporary / VOCABULARY)
        for name, content in (
            (CONFIG, config),
            ("generation_config.json", special | {"use_cache": config["use_cache"]}),
            ("tokenizer_config.json", tokenizer),
        ):
            write_text(to_json(content, 2) + "\n", temporary / name)
        for name in (MODELING, TOKENIZATION):
            write_text(read_text(Path(__file__).with_name(name)), temporary / name)
        write_text(_CARD_TEXT.format(name=folder.resolve().name, type=settings.name), temporary / CARD)
        write_tensors(temporary / "model.safetensors", tensors, {"format": "pt"})


def _exported(model: Any, settings: Any) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    """Return the class of a model in `modeling_syntaxlm.py`, its settings, and its tensors by their names there.

    Raises:
        InputError: for a model that is not exported.
    """
    if not isinstance(settings, LSTMConfig | CausalTransformerConfig):
        raise InputError(
            f"a {settings.name} model is not exported, because the library transformers has nothing like it; expected"
            " an lstm, a transformer, or a combination whose language model is an lstm"
        )
    if settings.mixture > 1:
        raise InputError(
            f"model.mixture: found {settings.mixture}; a mixture of softmaxes is not exported, only a plain or an"
            " adaptive softmax"
        )
    tensors = {name: tensor.detach().float().cpu() for name, tensor in model.state_dict().items()}
    embedding = model.embedding.weight.detach().float().cpu()  # of all bands, if it is adaptive
    if isinstance(settings, LSTMConfig):
        return "SyntaxLMLSTM", _lstm_settings(settings), _lstm_tensors(tensors, embedding, settings)
    return "SyntaxLMTransformer", _transformer_settings(settings), _transformer_tensors(tensors, embedding, settings)


def _lstm_settings(settings: LSTMConfig) -> dict[str, Any]:
    return {
        "model_type": "syntaxlm-lstm",
        "cell": settings.cell,
        "embedding_size": settings.embedding_size,
        "hidden_size": settings.hidden_size,
        "num_hidden_layers": settings.layers,
        "projected": settings.tied and settings.hidden_size != settings.embedding_size,
        "use_cache": False,
    }


def _lstm_tensors(tensors: Mapping[str, Tensor], embedding: Tensor, settings: LSTMConfig) -> dict[str, Tensor]:
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(_BACKBONE)}
    layers = {name.removeprefix(_BACKBONE): tensor for name, tensor in own.items()}
    decoder = _decoder_tensors(tensors, "decoder", len(embedding), settings.tied)
    return {"embedding.weight": embedding} | layers | decoder


def _transformer_settings(settings: CausalTransformerConfig) -> dict[str, Any]:
    return {
        "model_type": "syntaxlm-transformer",
        "hidden_size": settings.embedding_size,
        "intermediate_size": settings.inner_size,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "num_key_value_heads": settings.heads,
        "hidden_act": "silu",
        "rms_norm_eps": _EPSILON,
        "rope_theta": ROTARY_BASE,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROTARY_BASE},
        "sliding_window": settings.window + 1,  # the token itself is one of its own window there
        "max_position_embeddings": _LONGEST_TEXT,
        "attention_dropout": settings.attention_dropout,
        "use_cache": True,
    }


def _transformer_tensors(
    tensors: Mapping[str, Tensor], embedding: Tensor, settings: CausalTransformerConfig
) -> dict[str, Tensor]:
    named = {"model.embed_tokens.weight": embedding, "model.norm.weight": tensors[f"{_BACKBONE}norm.gain"]}
    for number in range(settings.layers):
        before = f"{_BACKBONE}blocks.{number}."
        queries, keys, values = tensors[f"{before}query_key_value"].chunk(3)
        gate, up = tensors[f"{before}gate_up"].chunk(2)
        parts = {
            "input_layernorm": tensors[f"{before}attention_norm.gain"],
            "self_attn.q_proj": queries,
            "self_attn.k_proj": keys,
            "self_attn.v_proj": values,
            "self_attn.o_proj": tensors[f"{before}attention_output"],
            "post_attention_layernorm": tensors[f"{before}feedforward_norm.gain"],
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": tensors[f"{before}down"],
        }
        named |= {f"model.layers.{number}.{name}.weight": tensor.clone() for name, tensor in parts.items()}
    return named | _decoder_tensors(tensors, "lm_head", len(embedding), settings.tied)


def _decoder_tensors(tensors: Mapping[str, Tensor], name: str, words: int, is_tied: bool) -> dict[str, Tensor]:
    """Return the tensors of a decoder by their names in the folder.

    Args:
        tensors: the tensors of the model.
        name: the name of the decoder in the folder.
        words: number of tokens; the biases of an adaptive softmax begin with theirs.
        is_tied: whether the decoder shares the weight of the embeddings.
    """
    bias = tensors["decoder.bias"]
    if "decoder.of_bands" in tensors:
        bands = {f"{name}.bands.weight": tensors["decoder.of_bands"], f"{name}.bands.bias": bias[words:].clone()}
        return {f"{name}.bias": bias[:words].clone()} | bands
    weight = {} if is_tied else {f"{name}.weight": tensors["decoder.weight"]}
    return {f"{name}.bias": bias} | weight
