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


def write_masked(name: str, folder: Path) -> None:
    """Write `bert`, with WordPiece, or `roberta`, with byte-level BPE."""
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if name == "bert":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=45, special_tokens=special, show_progress=False)
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, show_progress=False, initial_alphabet=alphabet
        )
    tokenizer.train_from_iterator(TEXT, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", **names)
    fast.save_pretrained(folder)
    torch.manual_seed(3)
    kind = transformers.BertConfig if name == "bert" else transformers.RobertaConfig
    # RoBERTa's positions begin after that of padding.
    positions = WINDOW if name == "bert" else WINDOW + 1
    config = kind(
        vocab_size=len(fast), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=positions, initializer_range=0.6, pad_token_id=0,
    )  # fmt: skip
    network = transformers.BertForMaskedLM if name == "bert" else transformers.RobertaForMaskedLM
    network(config).save_pretrained(folder)


def write_decoder(name: str, folder: Path) -> None:
    """Write the sequence-to-sequence models `t5`, with BPE over characters, or `bart`, with byte-level BPE."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    special = ["<pad>", "</s>", "<unk>", "<s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>" if name == "t5" else None))
    options = {"vocab_size": 60, "special_tokens": special, "show_progress": False}
    if name == "t5":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        options |= {"vocab_size": 300, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(**options))
    ends = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    single = "$A </s>" if name == "t5" else "<s> $A </s>"
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=ends)
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    names |= {} if name == "t5" else {"bos_token": "<s>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.save_pretrained(folder)
    torch.manual_seed(3)
    ids = {"pad_token_id": 0, "eos_token_id": 1}
    if name == "t5":
        config = transformers.T5Config(
            vocab_size=len(fast), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0,
            initializer_factor=3.0, **ids,
        )  # fmt: skip
        network = transformers.T5ForConditionalGeneration(config)
    else:
        sizes = {f"{part}_{name}": 2 for part in ("encoder", "decoder") for name in ("layers", "attention_heads")}
        config = transformers.BartConfig(
            vocab_size=len(fast), d_model=16, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=WINDOW,
            init_std=0.6, bos_token_id=3, decoder_start_token_id=1, forced_eos_token_id=1, **sizes, **ids,
        )  # fmt: skip
        network = transformers.BartForConditionalGeneration(config)
    network.save_pretrained(folder)
