"""Small models of every type in the registry, under all settings whose parts differ, and batches for them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from syntaxlm.models.abilities import Model, NeedsTextCounts, ScoresTokens, TextCounts, TrainsByCounting
from syntaxlm.models.batches import State, TokenBatch, TreeBatch
from syntaxlm.models.registry import MODELS, ModelConfig, build_model
from tests.models import tree_variants

WORDS = 23
BOS, EOS = 1, 2
SMALL = {
    "embedding_size": 6, "hidden_size": 8, "layers": 2, "memory_slots": 4, "look_back": 3, "init_range": 0.5,
    "layer_sizes": (8, 6), "chunk_size": 2, "attention_after": 1, "span_size": 6, "scorer_size": 5, "maximum_span": 4,
    "nonterminals": 3, "preterminals": 4, "rank": 5, "latent_size": 2, "encoder_size": 3, "heads": 3,
    "beam": 5,
}  # fmt: skip


def _small(kind: Any, **settings: object) -> Any:
    """Settings of a small model. kind: the class of the settings."""
    fields = {field.name for field in dataclasses.fields(kind)}
    if settings.get("tied") is False:
        settings.pop("cutoffs", None)  # which need tied weights
    return kind(**{key: value for key, value in (SMALL | settings).items() if key in fields})


def _grammars(count: int) -> tuple[ModelConfig, ...]:
    return tuple(_small(MODELS["simple-pcfg"].config, nonterminals=3 + number) for number in range(count))


def ablations_of_prpn() -> dict[str, tuple[str, dict[str, object]]]:
    """All combinations of its components, named by the removed ones."""
    parts = ("parsing", "reading_attention", "predict_attention")
    found = {}
    for kept in product([True, False], repeat=3):
        settings = dict(zip(parts, kept, strict=True))
        if not all(kept) and (not settings["parsing"] or any(kept[1:])):
            found["prpn without " + ", ".join(part for part in parts if not settings[part])] = "prpn", settings
    return found


OTHERS = {
    "elman rnn": ("lstm", {"cell": "rnn"}),
    "awd-lstm": ("on-lstm", {"cell": "lstm"}),
    "lstm with an adaptive softmax": ("lstm", {"cutoffs": (5, 12)}),
    "transformer with a short window": ("transformer", {"heads": 1, "window": 3}),
    "lstm that learns from trees": ("lstm", {"supervision": 1.0}),
    "transformer that learns from trees": ("transformer", {"heads": 1, "embedding_size": 16, "supervision": 1.0}),
    "awd-lstm that learns from trees": (
        "on-lstm",
        {"cell": "lstm", "supervision": 1.0, "embedding_size": 16, "layer_sizes": (16, 16)},
    ),
    "recurrent highway network": ("on-lstm", {"cell": "highway", "highway_depth": 3}),
    "nas cell": ("on-lstm", {"cell": "nas"}),
    "awd-lstm with skip connections": ("on-lstm", {"cell": "lstm", "skip": True, "layer_sizes": (6, 6)}),
    "on-lstm with a mixture": ("on-lstm", {"mixture": 3, "layer_sizes": (8, 4)}),
    "highway network that learns from trees": (
        "on-lstm",
        {"cell": "highway", "supervision": 1.0, "skip": True, "embedding_size": 16, "layer_sizes": (16, 16)},
    ),
    **{f"{name} with a mixture": (name, {"mixture": 3}) for name in ("lstm", "palm", "prpn", "transformer")},
    "palm, right-branching": ("palm", {"scores": "right-branching"}),
    "palm, gold spans first": ("palm", {"supervision": 1.0, "supervision_epochs": 1.0}),
    "palm, paper's form": ("palm", {"form": "paper"}),
    "palm, attention after the last layer": ("palm", {"attention_after": 2}),
}
PARTS: dict[str, dict[str, object]] = {
    "combination": {
        "parsers": _grammars(2),
        "vocabulary_sizes": (WORDS, WORDS),
        "scorer": _small(MODELS["lstm"].config),
    },
    "parser-combination": {"parsers": _grammars(2), "vocabulary_sizes": (WORDS, WORDS)},
}
"""Settings that a model type needs."""

TEXT_MODELS = [name for name, kind in MODELS.items() if kind.reads == "tokens"]
TOKEN_SCORERS = [name for name in TEXT_MODELS if MODELS[name].has(ScoresTokens)]
VARIANTS = {name: (name, PARTS.get(name, {})) for name in TEXT_MODELS} | ablations_of_prpn() | OTHERS
"""Variants that read any text: name -> model type and settings."""

SENTENCE_VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name, kind in MODELS.items() if kind.reads == "sentences"},
    **{
        f"{name} that relaxes collapse": (name, {"network": "collapse-relaxing"})
        for name in ("simple-pcfg", "neural-pcfg", "compound-pcfg")
    },
}
"""Variants that read whole sentences with their ends."""

TREE_PREFIX = "tree-rnn, "
TREE_VARIANTS = [TREE_PREFIX + name for name in tree_variants.VARIANTS]
TOKEN_VARIANTS = VARIANTS | SENTENCE_VARIANTS
EVERY = [*TOKEN_VARIANTS, *TREE_VARIANTS]
COMBINED = {
    *(name for name in VARIANTS if name.startswith("prpn without") and "," in name),
    "awd-lstm that learns from trees",
    "highway network that learns from trees",
    *(f"{name} with a mixture" for name in ("lstm", "palm", "prpn", "transformer")),
    *("palm, attention after the last layer", "tree-rnn, labelled", "tree-rnn, nce"),
}
"""Variants whose parts other variants have, too: their tests are marked `long`."""

SIMILAR = {
    *ablations_of_prpn(),
    *OTHERS,
    *(name for name in SENTENCE_VARIANTS if name not in MODELS),
    *(TREE_PREFIX + name for name in ("lstm", "labelled", "tanh, one softmax", "nce", "left dependents, labelled")),
}
"""Variants of a model type of which another variant has short tests: most of their own tests are marked `long`."""


def config_of(name: str, **settings: object) -> ModelConfig:
    """The settings of a small model. settings: applied if the model type has them."""
    if name in TREE_VARIANTS:
        return tree_variants.config_of(name.removeprefix(TREE_PREFIX), **settings)
    model_name, own = TOKEN_VARIANTS[name]
    kind = MODELS[model_name].config
    assert {field.name for field in dataclasses.fields(kind)} >= own.keys()
    return _small(kind, **own | settings)


def built(name: str, **settings: object) -> Any:
    """A small model in float64 and evaluation mode, with weights so large that every part has an effect.

    Models trained by counting have counted a text of all words; models that need text counts have those of such a text.
    Each call returns another copy, and sets the random numbers to those after the model was built.
    """
    if name in TREE_VARIANTS:
        return tree_variants.built(name.removeprefix(TREE_PREFIX), **settings)
    model, random_state = _built_once(name, tuple(settings.items()))
    torch.set_rng_state(random_state)
    return copy.deepcopy(model)


@cache
def _built_once(name: str, settings: tuple[tuple[str, object], ...]) -> tuple[Model, Tensor]:
    torch.manual_seed(3)
    model = build_model(config_of(name, **dict(settings)), WORDS).double()
    if isinstance(model, TrainsByCounting):
        model.accumulate(read(400, 5, seed=9))
        model.maximise()
    if isinstance(model, NeedsTextCounts):
        counts = torch.arange(1, WORDS + 1)
        model.setup(
            TextCounts(3 * counts, first_words=counts, final_words=counts.flip(0), one_word_sentences=counts % 3)
        )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and name not in SENTENCE_VARIANTS:  # small grammars already differ enough
                parameter.mul_(2)
    return model.eval(), torch.get_rng_state()


def read(steps: int, columns: int, seed: int = 1) -> TokenBatch:
    """A batch of random tokens."""
    tokens = torch.randint(WORDS, (steps + 1, columns), generator=torch.Generator().manual_seed(seed))
    return TokenBatch(tokens[:-1], tokens[1:])


def ragged(steps: int = 12, lengths: tuple[int, ...] = (12, 9, 7, 3), seed: int = 1) -> TokenBatch:
    """A batch of random tokens whose columns have these lengths."""
    return dataclasses.replace(read(steps, len(lengths), seed), lengths=torch.tensor(lengths))


def sentences(lengths: tuple[int, ...] = (5, 3, 2, 1), seed: int = 1) -> TokenBatch:
    """A batch of random sentences of these lengths: BOS is read first, EOS predicted last."""
    tokens = torch.full((max(lengths) + 2, len(lengths)), EOS)
    tokens[0] = BOS
    generator = torch.Generator().manual_seed(seed)
    for column, length in enumerate(lengths):
        words = torch.randint(WORDS - 2, (length,), generator=generator)
        tokens[1 : length + 1, column] = words + 2 * (words > 0)  # neither BOS nor EOS; 0 is the unknown word
    return TokenBatch(tokens[:-1], tokens[1:], torch.tensor(lengths) + 1)


def closed_sentences(lengths: tuple[int, ...] = (5, 3, 2, 1), seed: int = 1) -> TokenBatch:
    """Like `sentences`, with EOS also read, as in parsing."""
    batch = sentences(lengths, seed)
    tokens = torch.cat([batch.tokens, torch.full((1, len(lengths)), EOS)])
    targets = torch.cat([batch.targets, torch.full((1, len(lengths)), EOS)])
    assert batch.lengths is not None
    return TokenBatch(tokens, targets, batch.lengths + 1)


def read_for(name: str, steps: int, columns: int) -> TokenBatch:
    """A batch of random tokens; for models of whole sentences, of the first words of sentences."""
    if name not in SENTENCE_VARIANTS:
        return read(steps, columns)
    batch = sentences((steps,) * columns)
    return TokenBatch(batch.tokens[:steps], batch.targets[:steps])


def batch_for(name: str) -> TokenBatch | TreeBatch:
    """A batch of whole sentences, of unequal lengths, of the type that a variant reads; with trees if it needs them."""
    if name in SENTENCE_VARIANTS:
        spans = torch.tensor([[3, 0, 2], [6, 0, 3], [6, 0, 2], [4, 1, 2]])  # step after the last word, column, length
        learns_from_trees = name in ("span-parser", "tree-transformer")
        return dataclasses.replace(sentences(), spans=spans if learns_from_trees else None)
    return tree_variants.batch_of(*tree_variants.TREES) if name in TREE_VARIANTS else ragged()


@cache
def _example(name: str) -> Model:
    """A model that is only asked for its abilities."""
    return built(name)


def names_with(*abilities: type, among: list[str] | None = None) -> list[str]:
    """The variants that have all the given abilities."""
    return [name for name in among or EVERY if all(isinstance(_example(name), ability) for ability in abilities)]


def every(
    *abilities: type, text: bool = False, among: list[str] | None = None, with_similar: bool = False
) -> Callable[[Any], Any]:
    """Parametrises a test by the `name` of all variants with some abilities.

    text: only of those that read any text.  among: the variants to choose from; None for all.
    with_similar: whether the test of a variant that is `SIMILAR` to another one is short, too.
    """
    chosen = list(VARIANTS) if text else among
    long = COMBINED if with_similar else COMBINED | SIMILAR
    return pytest.mark.parametrize("name", [marked(name, long) for name in names_with(*abilities, among=chosen)])


def marked(name: str, long: Collection[str] = SIMILAR, *values: object) -> Any:
    """The parameters of a test of a variant, `long` for some variants."""
    return pytest.param(name, *values, marks=pytest.mark.long if name in long else ())


def log_probs(model: Any, batch: TokenBatch | TreeBatch, state: State = None) -> Tensor:
    """The log-probability of each target of a batch."""
    found: Tensor = model.token_log_probs(batch, state).log_probs
    return found


def word_log_probs(model: Any, batch: TokenBatch | TreeBatch, state: State = None) -> Tensor:
    """Natural log-probability of every word of the vocabulary at each step: targets' shape + (V,).

    Words are scored one at a time or, for text without a state, together, each in its own columns.
    """
    if state is None and isinstance(batch, TokenBatch):
        (steps, columns), words = batch.targets.shape, model.vocabulary_size
        repeated = TokenBatch(
            batch.tokens.repeat_interleave(words, 1),
            torch.arange(words).repeat(steps, columns),
            None if batch.lengths is None else batch.lengths.repeat_interleave(words),
            batch.carries,
        )
        return log_probs(model, repeated).unflatten(1, (columns, words))

    def scored(word: int) -> Tensor:
        if not isinstance(batch, TreeBatch):
            return log_probs(model, dataclasses.replace(batch, targets=torch.full_like(batch.targets, word)), state)

        # Words are replaced one at a time, because other steps may read them as left dependents.
        steps = range(len(batch.targets))
        targets = (batch.targets.index_fill(0, torch.tensor([step]), word) for step in steps)
        batches = (dataclasses.replace(batch, targets=changed) for changed in targets)
        return torch.stack([log_probs(model, one)[step] for step, one in zip(steps, batches, strict=True)])

    return torch.stack([scored(word) for word in range(model.vocabulary_size)], dim=-1)
