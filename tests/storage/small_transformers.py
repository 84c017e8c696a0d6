"""Folders of tiny causal transformers with random weights, and their tokenizers, as transformers saves them.

`bytes`: GPT-2 with byte-level BPE, which marks a space as Ġ. `characters`: Llama with BPE over characters, which marks
every word as ▁. `ends`: GPT with </w> at the end of words.
"""

from __future__ import annotations

from pathlib import Path

import torch

TEXT = [
    "the old cat sees a dog .",
    "cats see the older dogs !",
    "a doghouse is older than the cat's house , too .",
] * 20
WINDOW = 64
EOS = "<|end|>"


def write_tokenizer(name: str, folder: Path) -> int:
    """Trains a tokenizer and saves it; returns its size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    options = {"vocab_size": 330 if name == "bytes" else 60, "special_tokens": [EOS, "<unk>"], "show_progress": False}
    ends = {"end_of_word_suffix": "</w>"} if name == "ends" else {}
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **ends))
    if name == "bytes":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    elif name == "characters":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(**options, **ends))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, unk_token="<unk>")
    fast.save_pretrained(folder)
    return len(fast)


def write_transformer(name: str, folder: Path, **settings: object) -> None:
    import transformers

    size = write_tokenizer(name, folder)
    torch.manual_seed(3)
    if name == "characters":
        config = transformers.LlamaConfig(
            vocab_size=size + 5, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=WINDOW, initializer_range=0.6, **settings,
        )  # fmt: skip
        network = transformers.LlamaForCausalLM(config)
    else:
        kind = transformers.GPT2Config if name == "bytes" else transformers.OpenAIGPTConfig
        config = kind(
            vocab_size=size, n_positions=WINDOW, n_embd=16, n_layer=2, n_head=2, initializer_range=0.6,
            bos_token_id=0, eos_token_id=0, **settings,
        )  # fmt: skip
        network = transformers.GPT2LMHeadModel(config) if name == "bytes" else transformers.OpenAIGPTLMHeadModel(config)
    network.save_pretrained(folder)
