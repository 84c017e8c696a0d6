"""Models of the library transformers (extra `transformers`), read as models that score text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, cast

import torch

from syntaxlm.core.declarations import TRANSFORMERS as PREFIX
from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.progress import error_console, status
from syntaxlm.core.tensor_files import refuse
from syntaxlm.core.threads import torch_globals
from syntaxlm.models.layers import value_faults
from syntaxlm.models.registry import ModelConfig
from syntaxlm.models.sizes import shapes_of
from syntaxlm.models.transformer import (
    LONGEST_SHOWN,
    CausalTransformer,
    DecoderTransformer,
    EmptyInputDecoder,
    MaskedSentence,
    MaskedTransformer,
    TransformersConfig,
    WordTokenizer,
)
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import OpenVocabulary

LARGEST_WINDOW = 2048  # sub-tokens; longer windows take much memory and hardly change surprisals of words
_BYTES_OF_SPACE = ("Ġ", "Ċ", "ĉ", "č", "ċ", "Č")  # space, line feed, tab, ... in tokenizers of bytes
_OTHER_SPACE = ("▁", "<0x20>", "<0x0A>", "<0x09>", "<0x0D>")  # in tokenizers of characters
_END_OF_WORD = "</w>"
_LONGEST_REASON = 300  # characters of an error of the library
_DIFFERENCE = 1e-3  # of logits that should be equal
_MASKED = ("ForMaskedLM", "ForPreTraining")  # at the end of the name of a network
_DISCRIMINATORS = ("ElectraForPreTraining", "FunnelForPreTraining")
_OTHER_TASK = re.compile(r"\w+For(?!\w*LM$|PreTraining$|\w*Generation$|TextToText$)[A-Z]\w*")  # classifiers and others
_EXPECTED = (
    "expected a language model, whose config.json names an architecture that ends in ForCausalLM, LMHeadModel,"
    " ForMaskedLM or ForConditionalGeneration"
)

_NetworkType = Literal["causal", "masked", "sequence-to-sequence"]
_CLASSES: dict[_NetworkType, str] = {
    "causal": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "sequence-to-sequence": "AutoModelForSeq2SeqLM",
}


def read_transformers(
    name: str, device: str | torch.device = "cpu", revision: str | None = None, token: str | None = None
) -> ModelBundle:
    """Read a language model that the library transformers knows: causal, masked, or sequence-to-sequence.

    Weights are read from safetensors only, and no code of the repository is run.

    Args:
        name: a folder, or a repository of the Hugging Face hub, such as "gpt2".
        revision: the revision of a repository, see `syntaxlm.load`.
        token: for a private repository, see `syntaxlm.load`.

    Raises:
        InputError: for a model that cannot be loaded, does not fit in memory, has NaN or infinite weights, is of none
            of these types or has no known word boundaries, and if the library is missing.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        if error.name != "transformers":  # installed, but broken
            raise
        raise InputError(
            f"{PREFIX}{name}: the library transformers is not installed. Install it with: pip install"
            " 'syntaxlm[transformers]'"
        ) from None
    folder = Path(name).expanduser()
    place = str(folder) if folder.is_dir() else name
    options: dict[str, Any] = {"revision": revision or "main", "token": token, "trust_remote_code": False}
    try:
        with torch_globals, _quiet(transformers), status(f"loading {PREFIX}{name}"):
            config = transformers.AutoConfig.from_pretrained(place, **options)
            network_type = _network_type(transformers, config, name)
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
            loader = getattr(transformers, _CLASSES[network_type])
            network = _network(loader, config, place, name, options).to(device).eval()
        model = _BUILDERS[network_type](network, tokenizer, name)
    except InputError:
        raise
    except Exception as error:  # damaged files raise errors of any type in the library
        reason = " ".join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
        raise InputError(f"{PREFIX}{name}: the library transformers cannot load this model: {reason}") from error
    own = TransformersConfig(source=name, architecture=type(network).__name__, window=model.window)
    model = model.to(device).eval()
    normaliser = NormaliserSettings(unicode_form="keep")
    # Not in the registry, because it is neither built nor trained here.
    settings = ModelSettings(cast(ModelConfig, own), normaliser, carry_state=False, predict_eos=False)
    return ModelBundle(model, settings, model.vocabulary)


def _causal(network: Any, tokenizer: Any, name: str) -> CausalTransformer:
    """Return a causal language model."""
    words = word_tokenizer(tokenizer, name)
    logit_count = _check_causal(network, words.start, name)
    return CausalTransformer(network, words, OpenVocabulary(), _window(network, tokenizer), logit_count)


def _decoder(network: Any, tokenizer: Any, name: str) -> DecoderTransformer:
    """Return the decoder of a sequence-to-sequence model, which reads an empty encoder input.

    The decoder reads its start token and, if the tokenizer begins texts with a special token, that token.
    """
    first = getattr(network.config, "decoder_start_token_id", None)
    if first is None:
        raise InputError(
            f"{PREFIX}{name}: config.json has no decoder_start_token_id; expected the decoder's first token"
        )
    empty = list(tokenizer("")["input_ids"])
    if not empty:
        raise InputError(f"{PREFIX}{name}: the tokenizer gives an empty input no token; expected at least EOS")
    begins = len(empty) > 1 and empty[0] == tokenizer.bos_token_id
    words = word_tokenizer(tokenizer, name)
    words.start = tokenizer.bos_token_id if begins else first
    before = [first] if begins else []
    decoder = EmptyInputDecoder(network, torch.tensor([empty], device=network.device), before).eval()
    logit_count = _check_causal(decoder, words.start, name, network.device)
    window = _window(network, tokenizer) - len(before)
    return DecoderTransformer(
        tokenizer.unk_token_id, network=decoder, tokenizer=words, vocabulary=OpenVocabulary(), window=window,
        logit_count=logit_count,
    )  # fmt: skip


def _masked(network: Any, tokenizer: Any, name: str) -> MaskedTransformer:
    """Return a masked language model."""
    if tokenizer.mask_token_id is None:
        raise InputError(f"{PREFIX}{name}: the tokenizer has no mask token; expected one, such as [MASK]")
    if not tokenizer.is_fast:
        raise InputError(
            f"{PREFIX}{name}: the tokenizer {type(tokenizer).__name__} gives no places of sub-tokens; expected a fast"
            " tokenizer (tokenizer.json)"
        )
    with torch.no_grad():
        ids = torch.tensor([[tokenizer.mask_token_id]], device=network.device)
        logit_count = int(network(input_ids=ids).logits.shape[-1])
    # Networks such as RoBERTa count positions from the one after the position of padding.
    window = _window(network, tokenizer)
    for part, module in network.named_modules():
        if part.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            window = min(window, len(module.weight) - module.padding_idx - 1)
    return MaskedTransformer(
        network, sentence_encoder(tokenizer), tokenizer.mask_token_id, tokenizer.unk_token_id, OpenVocabulary(), window,
        logit_count,
    )  # fmt: skip


_BUILDERS: dict[_NetworkType, Callable[[Any, Any, str], CausalTransformer | MaskedTransformer]] = {
    "causal": _causal,
    "masked": _masked,
    "sequence-to-sequence": _decoder,
}


def _window(network: Any, tokenizer: Any) -> int:
    """Return the number of sub-tokens that a network reads at a time."""
    limits = [getattr(network.config, limit, None) for limit in ("max_position_embeddings", "n_positions", "n_ctx")]
    limits.append(tokenizer.model_max_length)
    return min([LARGEST_WINDOW, *(limit for limit in limits if isinstance(limit, int) and limit > 1)])


def sentence_encoder(tokenizer: Any) -> Callable[[Sequence[str]], MaskedSentence]:
    """Return the function that gives the sub-tokens of a sentence, by its words, with special ones around them.

    A sub-token is of the word in which its first character other than white space is. The function raises InputError
    for a special token in the text, other than that of unknown words, which would be read as this token.
    """
    special = [token for token in tokenizer.all_special_tokens if token != tokenizer.unk_token]

    def encode(words: Sequence[str]) -> MaskedSentence:
        text = " ".join(words)
        if read := next((token for token in special if token in text), None):
            raise InputError(
                f"found {read!r} in the sentence {shortened(text, LONGEST_SHOWN)!r}; expected text, because this is a"
                " special token of the model. Remove it, or write it otherwise"
            )
        encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        begins = list(accumulate((len(word) + 1 for word in words[:-1]), initial=0))
        places: list[int | None] = []
        for (begin, end), is_special in zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True):
            spaces = len(text[begin:end]) - len(text[begin:end].lstrip())
            places.append(None if is_special else max(0, bisect_right(begins, begin + spaces) - 1))
        # Some tokenizers take the whole text for one word.
        units = [
            None if place is None else (place, unit) for place, unit in zip(places, encoded.word_ids(), strict=True)
        ]
        return MaskedSentence(encoded["input_ids"], places, units)

    return encode


def _network_type(transformers: Any, config: Any, name: str) -> _NetworkType:
    """Return the type of a network by its settings. What is neither masked nor sequence-to-sequence may be causal.

    Raises:
        InputError: for a network that is not a language model.
    """
    architectures = _architectures(config)
    found = f"{PREFIX}{name}: found {architectures[0] if architectures else config.model_type} in config.json"
    no_text = f"{found}, which is not a language model of text; {_EXPECTED}"
    if not any(_has(transformers, each, config) for each in _CLASSES):
        raise InputError(no_text)
    if architectures and all(
        architecture in _DISCRIMINATORS or _OTHER_TASK.fullmatch(architecture) for architecture in architectures
    ):
        if architectures[0] in _DISCRIMINATORS:
            raise InputError(
                f"{found}, a discriminator, which only decides whether tokens were replaced; {_EXPECTED}. Use another"
                " model; for ELECTRA, the generator that was trained with it, such as"
                f" {PREFIX}google/electra-small-generator"
            )
        raise InputError(
            f"{found}, which was trained for another task and predicts no words; {_EXPECTED}. Use the language model"
            " from which it was trained"
        )

    network_type: _NetworkType = "causal"
    if getattr(config, "is_encoder_decoder", False):
        network_type = "sequence-to-sequence"
    elif any(each.endswith(_MASKED) for each in architectures) or not _has(transformers, "causal", config):
        network_type = "masked"
    if not _has(transformers, network_type, config):
        raise InputError(no_text)
    return network_type


def _architectures(config: Any) -> list[str]:
    """Return the names of classes of networks in the settings."""
    return list(map(str, getattr(config, "architectures", None) or ()))


def _has(transformers: Any, network_type: _NetworkType, config: Any) -> bool:
    """Return whether the library has a language model of this type with such settings."""
    return type(config) in getattr(transformers, _CLASSES[network_type])._model_mapping


def _network(loader: Any, config: Any, place: str, name: str, options: dict[str, Any]) -> Any:
    """Return the model with its weights, in float32. Raises InputError, and errors of the library.

    Args:
        loader: the class of the library that loads this type of network.
    """
    # While the library builds a model, its precision is that of new tensors in all threads.
    precision = {"dtype": torch.float32}
    try:
        shapes_of(lambda: loader.from_config(config, trust_remote_code=False, **precision))
    except InputError as error:
        raise InputError(f"{PREFIX}{name}: {error}") from error
    network, loaded = loader.from_pretrained(
        place, use_safetensors=True, output_loading_info=True, **precision, **options
    )
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(f"{PREFIX}{name}: {_incompleteness(network, _architectures(config), missing)}")
    network = network.float()
    refuse(f"{PREFIX}{name}", "the weights are unusable", value_faults(network, dict(network.named_parameters())))
    return network


def _incompleteness(network: Any, architectures: Sequence[str], missing: Sequence[str]) -> str:
    """Return why weights are missing: those of a head were never there if the settings name a network without one.

    Args:
        architectures: those in the settings.
        missing: the names of the weights.
    """
    lacks_head = not any(key.startswith(f"{network.base_model_prefix}.") for key in missing)
    is_complete_network = any(name == type(network).__name__ or name.endswith(_MASKED) for name in architectures)
    if is_complete_network or not (architectures or lacks_head):
        return f"the weights are incomplete, because {missing[0]} is missing. Download the model again"
    of = f" of {architectures[0]}" if architectures else ""
    return (
        f"the weights{of} have no language-model head, because {missing[0]} is missing; {_EXPECTED}. Use a model with"
        " such a head"
    )


def word_tokenizer(tokenizer: Any, name: str) -> WordTokenizer:
    """Return the sub-tokens of words according to a tokenizer of transformers.

    Args:
        name: the name of the model, for messages.

    Raises:
        InputError: if it has neither BOS nor EOS, or if it marks neither beginnings nor ends of words.
    """
    start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    if start is None:
        raise InputError(f"{PREFIX}{name}: the tokenizer has neither BOS nor EOS; expected one as the first context")

    def tokenize(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    def decode(number: int) -> str:
        if number >= len(tokenizer):  # a logit without a token
            return f"[{number}]"
        written = str(tokenizer.convert_ids_to_tokens(number))
        if written.endswith(_END_OF_WORD):
            return written.removesuffix(_END_OF_WORD) + " "
        if "▁" in written:
            return written.replace("▁", " ")
        return str(tokenizer.decode([number], clean_up_tokenization_spaces=False))

    return WordTokenizer(tokenize, start, tokenizer.eos_token_id, _boundaries(tokenizer, name), decode)


def _boundaries(tokenizer: Any, name: str) -> list[int] | None:
    """Return the sub-tokens that begin a word or end the text; None if the tokenizer marks the ends of words."""
    written = [str(token) for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    of_bytes, of_characters = (sum(token.startswith(mark) for token in written) for mark in ("Ġ", "▁"))
    of_ends = sum(token.endswith(_END_OF_WORD) for token in written)
    if of_ends > max(of_bytes, of_characters):
        return None
    if not of_bytes and not of_characters:
        raise InputError(
            f"{PREFIX}{name}: the tokenizer does not mark where words begin or end; expected tokens that start with a"
            " space (Ġ or ▁) or end with </w>"
        )
    marks = _BYTES_OF_SPACE if of_bytes > of_characters else _OTHER_SPACE
    ends = {tokenizer.eos_token_id, tokenizer.bos_token_id}
    return [
        number
        for number, token in enumerate(written)
        if token.startswith(marks) or token[:1].isspace() or number in ends
    ]


@torch.no_grad()
def _check_causal(network: Any, start: int, name: str, device: torch.device | None = None) -> int:
    """Raise InputError if a prediction depends on later tokens. Returns the number of logits.

    Args:
        device: of the network; None: its attribute `device`.
    """
    ids = torch.tensor([[start, 0, 0], [start, 0, 1]], device=device or network.device)
    logits = network(input_ids=ids, use_cache=False).logits
    first, second = logits[:, :2]
    if (first - second).abs().max() > _DIFFERENCE * max(1.0, float(first.abs().max())):
        raise InputError(
            f"{PREFIX}{name}: this {type(network).__name__} reads text in both directions; expected a causal language"
            " model, or a masked one, whose config.json names an architecture that ends in ForMaskedLM"
        )
    return int(logits.shape[-1])


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Show the library's progress bars on a terminal only, and only its errors."""
    logging = transformers.utils.logging
    console = error_console()
    verbosity = logging.get_verbosity()
    shown = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if console.quiet or not console.is_terminal:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
