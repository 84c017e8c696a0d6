"""Sampling of sentences from a model's next-word probabilities, in batches.

Grammars that do not predict the next word are sampled top-down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError, listed, warn_caller
from syntaxlm.core.iteration import batched
from syntaxlm.core.threads import check_wanted
from syntaxlm.generation.options import SamplingOptions
from syntaxlm.models.abilities import LabelsSpans, PredictsNextToken, SamplesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.reports.report import HasRows
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import UntaggedTokenError, as_text
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import TextReader
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.tree import INDUCED_LABEL, Constituent, Tree

MAXIMUM = {"words": 100, "characters": 500, "tags": 100}  # default limits of the tokens of a sampled sentence
SAMPLED_TOGETHER = 64  # sentences sampled in one batch


class Draw(NamedTuple):
    """What determines a sampled sentence, besides the model and the options.

    Attributes:
        number: of the sentence, from 1.
    """

    seed: int
    number: int

    def random(self) -> np.random.Generator:
        return np.random.default_rng(self)


def draws_of(count: int, seed: int) -> list[Draw]:
    """Return the draws of this number of sentences. Raises InputError for fewer than one sentence."""
    return [Draw(seed, number) for number in numbers_to(count)]


def numbers_to(count: int) -> range:
    """Return the numbers of sentences, from 1. Raises InputError for fewer than one sentence."""
    if count < 1:
        raise InputError(f"count: found {count}; expected 1 or more")
    return range(1, count + 1)


SAMPLED_TREES = Columns(
    "sampled trees",
    "sentence",
    {
        "number": Column("integer", "number of the sentence, from 1"),
        "text": Column("text", "the sentence as a line of text"),
        "tokens": Column("list of text", "tokens of the sentence"),
        "tree": Column("text", "labelled tree in bracket notation"),
        "spans": Column("list of pairs", "first word and the word after the last of each constituent, from 0"),
        "labels": Column("list of text", "label of each constituent"),
        "word_labels": Column("list of text", "label of each token"),
    },
)


@dataclass(frozen=True)
class SentenceWithTree(HasRows):
    """One sampled sentence with its tree.

    Attributes:
        number: number of the sentence, from 1.
        text: the tokens as a line of text.
        tree: over the tokens, with the grammar's symbols as labels and each word's label as its tag. A sentence of one
            word, which the grammar does not generate, has a tree without labels.
    """

    number: int
    text: str
    tokens: list[str]
    tree: Tree

    columns = SAMPLED_TREES

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return the sentence with its tree.

        spans: [start, end) of the constituents; labels: one for each; word_labels: one for each token.
        """
        parts = [part for part in self.tree.constituents if part.end - part.start > 1]
        return {
            "number": self.number,
            "text": self.text,
            "tokens": self.tokens,
            "spans": [[part.start, part.end] for part in parts],
            "labels": [part.label for part in parts],
            "word_labels": list(self.tree.tags),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row, with the columns of `SAMPLED_TREES`."""
        yield self.to_dict() | {"tree": str(self.tree)}


def sample_with_trees(
    bundle: ModelBundle, count: int = 1, options: SamplingOptions = SamplingOptions()
) -> Iterator[SentenceWithTree]:
    """Sample sentences of a grammar with their trees, top-down from the start symbol.

    Sentences of more than `max_words` are resampled. An unknown word is resampled, too, and the tree is kept.

    Raises:
        InputError: for options that only apply word by word, and for a model that does not sample whole sentences.
    """
    return sample_draws_with_trees(bundle, draws_of(count, options.seed), options)


def sample_draws_with_trees(
    bundle: ModelBundle, draws: Sequence[Draw], options: SamplingOptions = SamplingOptions()
) -> Iterator[SentenceWithTree]:
    """As `sample_with_trees`, for given draws. The seed of the options is ignored."""
    refuse_word_options(None, options, "Sentences with trees are sampled top-down.")
    model = bundle.require(SamplesSentences, "sampling of trees")
    bundle.model.eval()
    labels: Sequence[str] = model.labels if isinstance(model, LabelsSpans) else ()
    omitted = 0 if options.keep_unknown else len(bundle.vocabulary.unknown_ids)
    longest = options.max_words or MAXIMUM[bundle.normaliser.units]

    def sentence(draw: Draw) -> SentenceWithTree:
        check_wanted()
        (sampled,) = model.sample(1, longest, draw.random(), omitted=omitted)
        tokens = bundle.vocabulary.decode(sampled.words)
        spans = tuple(
            Constituent(INDUCED_LABEL if label < 0 else labels[label], first, last + 1)
            for first, last, label in sampled.spans
        )
        tags = [labels[label] for label in sampled.word_labels] or [""] * len(tokens)
        tree = Tree(tuple(tokens), tuple(tags), spans)
        return SentenceWithTree(draw.number, as_text(bundle.normaliser, tokens), tokens, tree)

    return map(sentence, draws)


def refuse_word_options(prompt: str | None, options: SamplingOptions, reason: str) -> None:
    """Raise InputError for options that only apply word by word.

    Args:
        reason: why they do not apply, as a sentence.
    """
    is_set = {
        "prompt": prompt is not None,
        "temperature": options.temperature != SamplingOptions.temperature,
        "top_k": options.top_k is not None,
    }
    if named := [name for name in is_set if is_set[name]]:
        raise InputError(f"{', '.join(named)}: {reason} Leave {'it' if len(named) == 1 else 'them'} out.")


GENERATED_SENTENCES = Columns(
    "generated sentences",
    "sentence",
    {
        "number": Column("integer", "number of the sentence, from 1"),
        "text": Column("text", "the sentence as a line of text"),
        "tokens": Column("list of text", "tokens of the sentence, the prompt included, without EOS"),
        "surprisals": Column(
            "list of numbers",
            "surprisal in bits of each token, and of EOS if the sentence ended; empty if it was sampled top-down",
        ),
        "ended": Column("boolean", "whether the sentence ended before the maximum length"),
    },
)


@dataclass(frozen=True)
class GeneratedSentence(HasRows):
    """One sampled sentence.

    Attributes:
        number: number of the sentence, from 1.
        text: the tokens as a line of text.
        tokens: the tokens, including those of the prompt, without the end.
        surprisals: surprisal in bits of each token, and of the end if the sentence ended, by the model's own
            probabilities, whatever the temperature. Empty if the sentence was sampled top-down.
        ended: False if the sentence reached the length limit.
    """

    number: int
    text: str
    tokens: list[str]
    surprisals: list[float]
    ended: bool

    columns = GENERATED_SENTENCES

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"surprisals": [round(bits, 6) for bits in self.surprisals]}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row, with the columns of `GENERATED_SENTENCES`."""
        yield dict(vars(self))


def generate(
    bundle: ModelBundle,
    count: int = 1,
    prompt: str | None = None,
    options: SamplingOptions = SamplingOptions(),
    text: TextOptions = TextOptions(),
) -> Iterator[GeneratedSentence]:
    """Sample sentences independently from BOS. Every sentence has at least one word.

    Models that predict the next token are sampled word by word, other models that sample whole sentences top-down.
    Gives an InputWarning for unknown words of the prompt.

    Args:
        prompt: raw text with which each sentence starts, or None.
        text: how its words are split.

    Raises:
        InputError: for a prompt without words, a prompt, temperature or top_k if sentences are sampled top-down, and a
            model that does not sample sentences.
    """
    return generate_draws(bundle, draws_of(count, options.seed), prompt, options, text)


def generate_draws(
    bundle: ModelBundle,
    draws: Sequence[Draw],
    prompt: str | None = None,
    options: SamplingOptions = SamplingOptions(),
    text: TextOptions = TextOptions(),
) -> Iterator[GeneratedSentence]:
    """As `generate`, for given draws, which are sampled in batches. The seed of the options is ignored."""
    if not isinstance(bundle.model, PredictsNextToken) and isinstance(bundle.model, SamplesSentences):
        reason = f"a {bundle.name} model does not predict the next token; its sentences are sampled top-down."
        refuse_word_options(prompt, options, reason)
        trees = sample_draws_with_trees(bundle, draws, options)
        return (GeneratedSentence(sampled.number, sampled.text, sampled.tokens, [], True) for sampled in trees)
    words: list[str] = []
    if prompt is not None:
        try:
            words = TextReader.of(bundle.normaliser, bundle.vocabulary, text).tokens(prompt)
        except UntaggedTokenError as error:
            raise error.at("prompt") from None
        if not words:
            raise InputError(f"prompt: found {prompt!r}, which has no words that the model reads; expected one or more")
    ids = bundle.vocabulary.encode(words)
    is_unknown = bundle.vocabulary.is_unknown(np.array(ids, int))
    if is_unknown.any():
        unknown = listed(dict.fromkeys(compress(words, is_unknown)))
        warn_caller(f"prompt: not in the vocabulary of {bundle.name}, and read as unknown: {unknown}")
    batches = batched(draws, SAMPLED_TOGETHER)
    return (sentence for batch in batches for sentence in _together(bundle, batch, ids, options))


@torch.no_grad()
def _together(
    bundle: ModelBundle, draws: Sequence[Draw], prompt: list[int], options: SamplingOptions
) -> list[GeneratedSentence]:
    """Sample sentences in one batch, one column per sentence."""
    model = bundle.require(PredictsNextToken, "generate", SamplesSentences)
    vocabulary = bundle.vocabulary
    device = bundle.model.eval().device

    # Read BOS and the prompt in every column. The target after the prompt is not known yet.
    random = [draw.random() for draw in draws]
    read = torch.tensor([vocabulary.begin_id, *prompt])[:, None].repeat(1, len(random))
    batch = TokenBatch(read, read.roll(-1, 0)).to(device)
    drawn: list[list[int]] = [list(prompt) for _ in random]
    log_probs: list[list[float]] = [[] for _ in random]
    if prompt:
        log_probs = model.token_log_probs(batch).log_probs[:-1].T.tolist()
    next_log_probs, state = model.next_log_probs(batch)

    # Tokens that cannot be drawn first, and later. BOS may be the same token as EOS. A model that does not predict EOS
    # has not learned it.
    barred = barred_tokens(vocabulary, options.keep_unknown)
    barred_later = barred.copy()
    barred_later[vocabulary.end_id] = not bundle.mode.predict_eos
    if prompt:
        barred = barred_later
    elif bundle.normaliser.space is not None:
        barred[vocabulary.id(bundle.normaliser.space)] = True
    if barred.all():
        raise InputError(
            "found no word in the model's vocabulary except the unknown word; expected words to sample, or the option"
            " keep_unknown"
        )

    growing = list(range(len(random)))  # columns of the sentences that have not ended
    for _ in range(options.max_words or MAXIMUM[bundle.normaliser.units]):
        check_wanted()
        next_values: Numbers = next_log_probs[growing].double().cpu().numpy()
        uniform = np.array([random[column].random() for column in growing])
        chosen = choose(np.where(barred, -np.inf, next_values), uniform, options)
        barred = barred_later
        tokens = np.full(len(random), chosen[0])  # sentences that have ended read any word
        tokens[growing] = chosen
        for column, token, values in zip(growing, chosen.tolist(), next_values, strict=True):
            log_probs[column].append(float(values[token]))
            if token != vocabulary.end_id:
                drawn[column].append(token)
        growing = [column for column in growing if tokens[column] != vocabulary.end_id]
        if not growing:
            break
        read = torch.from_numpy(tokens)[None].to(device)
        next_log_probs, state = model.next_log_probs(TokenBatch(read, read, carries=True), state)

    sentences = []
    for column, draw in enumerate(draws):
        words = vocabulary.decode(drawn[column])
        bits = [0.0 - value / math.log(2) for value in log_probs[column]]
        ended = column not in growing
        sentences.append(GeneratedSentence(draw.number, as_text(bundle.normaliser, words), words, bits, ended))
    return sentences


def choose(log_probs: Numbers, uniform: Numbers, options: SamplingOptions) -> Integers:
    """Sample one token for each column, (B, V) -> (B,); -inf is never chosen.

    Args:
        uniform: (B,), random numbers in [0, 1), compared with the cumulative probabilities of the tokens.

    Raises:
        InputError: for NaN.
    """
    top = log_probs.max(1, keepdims=True)
    if np.isnan(top).any():  # as soon as one value is NaN
        raise InputError("the model returned NaN; its weights are unusable")
    if options.temperature == 0:
        return log_probs.argmax(1)
    if options.top_k is not None and options.top_k < log_probs.shape[1]:
        rest = np.argpartition(-log_probs, options.top_k, axis=1)[:, options.top_k :]
        log_probs = log_probs.copy()
        np.put_along_axis(log_probs, rest, -np.inf, axis=1)
    with np.errstate(over="ignore"):  # overflow to -inf at a temperature near 0
        weights = np.exp((log_probs - top) / options.temperature)
    sums = weights.cumsum(1)
    # Stay below the total, so that a larger cumulative sum exists and its token has a probability above 0.
    points = np.minimum(uniform * sums[:, -1], np.nextafter(sums[:, -1], 0))
    return np.array([row.searchsorted(point, side="right") for row, point in zip(sums, points, strict=True)])


def barred_tokens(vocabulary: Vocabulary, keep_unknown: bool) -> Flags:
    """(V,) True for the tokens that a sentence cannot start with: BOS, EOS and, unless it is kept, the unknown word."""
    barred = np.zeros(len(vocabulary), np.bool_)
    barred[[vocabulary.begin_id, vocabulary.end_id]] = True
    barred[list(vocabulary.unknown_ids)] = not keep_unknown
    return barred
