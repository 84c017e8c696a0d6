"""Transformers of the library transformers, which score words through their sub-tokens.

Causal ones give surprisals. Masked ones and the decoders of sequence-to-sequence models give scores with other names
(`ScoresWords`).

A tokenizer marks where a word begins: " cat" is a token of its own ("Ġcat", "▁cat"). The probability of a word's
sub-tokens therefore includes that of the boundary before the word, and not that of the boundary after it: "cat" could
continue as "cats". The boundary belongs to the word that it ends, so the probability of a word w after a context c is

    p(w | c) = prod_j p(s_j | c, s_1 ... s_{j-1}) * p(boundary | c, w) / p(boundary | c),

where s_1, s_2, ... are the sub-tokens of w, and p(boundary | ...) is the probability that the next sub-token begins a
word or ends the text. For the first word of a text, which has no boundary before it, the last factor is 1. The product
over a text is the probability of its sub-tokens times that of a boundary after the last word. Oh & Schuler 2024;
Pimentel & Meister 2024.

There are infinitely many next words, but the distribution of their first sub-token is exact. After a boundary, a sub-
token s that begins a word has the probability p(s | c) / p(boundary | c), and any other sub-token 0. EOS, which also
ends a word, is one of those that may follow. The probability of a sub-token is the sum over all words that begin with
it: an upper bound of the probability of each of them. The entropy of the first sub-token is a lower bound of that of
the word.

Masked transformers read all words. The pseudo-log-likelihood of a sentence is the sum over its sub-tokens of
ln p(s | all other sub-tokens), where s is masked (Salazar et al. 2020). The later sub-tokens of a word often determine
an earlier one: "##uven" and "##ir" leave nothing but "so". They are therefore masked, too (Kauf & Ivanova 2023,
PLL-word-l2r), so rare words are not overrated.

A decoder of a sequence-to-sequence model reads nothing but an empty encoder input and the words before. Its words have
the formula above.

The library itself is imported only by `storage.transformers`, which reads such models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from syntaxlm.core.declarations import Masking
from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.settings import Count
from syntaxlm.models.abilities import (
    MasksTokens,
    Model,
    Predictions,
    PredictsSubtokens,
    ScoresSentences,
    ScoresTokens,
    ScoresWords,
    TokenScores,
    WordScoreType,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.text.vocabulary import OpenVocabulary

LOGITS_TOGETHER = 1 << 26  # most logits of a forward pass: 256 MiB
LONGEST_SHOWN = 60  # characters of a sentence in a message
_WORD_BEFORE = "a"  # precedes a word that is tokenised as in the middle of a text
_CONTEXT_PADDING = -1  # in the state, of columns with shorter contexts


@dataclass(frozen=True)
class TransformersConfig(BaseConfig):
    """Settings of a transformers model.

    Attributes:
        source: name of its repository, or its folder
        architecture: class of the network
        window: sub-tokens that are read at a time
    """

    name: Literal["transformers"] = "transformers"
    source: str = ""
    architecture: str = ""
    window: Count = 1024


class WordTokenizer:
    """The sub-tokens of words, and the sub-tokens that show where a word ends.

    Args:
        tokenize: the sub-tokens of a text, without special tokens.
        start: the special token before a text.
        end: that after a text; None if there is none.
        boundaries: the sub-tokens that begin a word or end a text; None if the tokenizer marks the ends of words, which
            are then part of a word's sub-tokens.
        decode: a sub-token as text, with the white space that it includes and a space if it ends a word; None: its
            number.
    """

    def __init__(
        self,
        tokenize: Callable[[str], Sequence[int]],
        start: int,
        end: int | None,
        boundaries: Sequence[int] | None,
        decode: Callable[[int], str] | None = None,
    ) -> None:
        self.decode = decode or str
        self.start = start
        self.end = end
        self.boundaries = boundaries
        self._tokenize = tokenize
        self._before = list(tokenize(_WORD_BEFORE))
        self._known: dict[tuple[str, bool], list[int]] = {}

    def subtokens(self, word: str, is_first: bool) -> list[int]:
        """Return the sub-tokens of a word.

        Args:
            is_first: whether it is the first of its text, without a space before it.

        Raises:
            InputError: for a tokenizer that joins words.
        """
        known = self._known.get((word, is_first))
        if known is not None:
            return known
        if is_first:
            subtokens = list(self._tokenize(word))
        else:
            two_words = list(self._tokenize(f"{_WORD_BEFORE} {word}"))
            if two_words[: len(self._before)] != self._before:
                raise InputError(
                    f"the tokenizer joins the words {_WORD_BEFORE!r} and {word!r}, so the sub-tokens of a word depend"
                    " on its neighbours; expected a tokenizer that splits text at white space"
                )
            subtokens = two_words[len(self._before) :]
        self._known[word, is_first] = subtokens
        return subtokens


class _Word(NamedTuple):
    """A word of a column: its step in the batch, and its sub-tokens [first, end) in the column.

    Attributes:
        is_first: whether there is no boundary before it.
        is_end: whether it is the end of the text, without one after it.
    """

    step: int
    first: int
    end: int
    is_first: bool
    is_end: bool


class CausalTransformer(Model, PredictsSubtokens):
    """A causal language model over sub-tokens that gives log-probabilities of words.

    Sentences are read by themselves. A stream is running text, whose words are separated by spaces: ends of sentences
    have no sub-tokens, and the log-probability 0. The state is the last window // 2 sub-tokens.

    Args:
        network: takes input_ids and attention_mask, (B, T), and returns an object with logits, (B, T, V).
        vocabulary: turns the ids of a batch into words.
        window: sub-tokens that the network reads at a time. Longer texts are read in windows that overlap by half, so
            each sub-token has at least window // 2 before it.
        logit_count: V.
    """

    boundaries: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        tokenizer: WordTokenizer,
        vocabulary: OpenVocabulary,
        window: int,
        logit_count: int,
    ) -> None:
        super().__init__()
        self.network = network
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.window, self.logit_count = window, logit_count
        self.vocabulary_size = len(vocabulary)
        boundaries = None if tokenizer.boundaries is None else torch.tensor(sorted(tokenizer.boundaries))
        self.register_buffer("boundaries", boundaries, persistent=False)

    def subtoken_count(self, token: str, is_first: bool) -> int:
        return len(self.tokenizer.subtokens(token, is_first))

    def subtoken_text(self, number: int) -> str:
        text = self.tokenizer.decode(number)
        ends_word = self.tokenizer.boundaries is None and text.endswith(" ")
        if number == self.tokenizer.end or ends_word:
            return text.strip()
        return (text.strip() or repr(text).strip("'")) + "…"

    def first_subtokens(self, batch: TokenBatch, best: int, state: State = None) -> Predictions:
        rows = self._rows(batch, state)
        begins = self.logit_count if self.boundaries is None else len(self.boundaries)
        best = min(best, begins)
        device = batch.targets.device
        weight = next(self.parameters())
        entropy = torch.zeros(batch.targets.shape, dtype=weight.dtype, device=device)
        rank = torch.ones_like(batch.targets)
        subtokens = batch.targets.new_zeros(*batch.targets.shape, best)
        log_probs = torch.zeros(subtokens.shape, dtype=weight.dtype, device=device)

        def read(column: int, begin: int, logits: Tensor) -> None:
            """Read the distributions after the sub-tokens of a column from `begin` on, (n, V)."""
            ids, words = rows[column]
            for word in words:
                place = word.first - 1 - begin
                if not 0 <= place < len(logits):
                    continue
                values = logits[place]
                if self.boundaries is not None and not word.is_first:
                    after_boundary = torch.full_like(values, -torch.inf)
                    after_boundary[self.boundaries] = values[self.boundaries]
                    values = after_boundary
                values = values.log_softmax(0)
                entropy[word.step, column] = torch.special.entr(values.exp()).sum()
                rank[word.step, column] = 1 + (values > values[ids[word.first]]).sum()
                log_probs[word.step, column], subtokens[word.step, column] = values.topk(best)

        self._predictions([ids for ids, _ in rows], read)
        mask = batch.mask()
        return Predictions(entropy[mask], rank[mask], subtokens[mask], log_probs[mask])

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        rows = self._rows(batch, state)

        # A word's sub-tokens, with the boundary after it and not the boundary before it.
        log_probs = torch.zeros(batch.targets.shape, dtype=torch.float64)
        predictions = self._predictions([ids for ids, _ in rows])
        for column, ((_, words), (nexts, boundaries)) in enumerate(zip(rows, predictions, strict=True)):
            for word in words:
                value = nexts[word.first : word.end].sum()
                if not word.is_end:
                    value = value + boundaries[word.end - 1]
                if not word.is_first:
                    value = value - boundaries[word.first - 1]
                log_probs[word.step, column] = value

        # The next batch of a stream reads half a window of context, (T, B).
        carried_tokens = max(1, self.window // 2)
        contexts = [torch.tensor(ids[-carried_tokens:]) for ids, _ in rows]
        carried = nn.utils.rnn.pad_sequence(contexts, padding_value=_CONTEXT_PADDING)
        weight = next(self.parameters())
        return TokenScores(log_probs.to(weight), {"context": carried})

    def _rows(self, batch: TokenBatch, state: State) -> list[tuple[list[int], list[_Word]]]:
        """Return the sub-tokens of each column, after those of its context, and its words."""
        columns = zip(self._contexts(batch, state), batch.targets.T.tolist(), batch.step_counts().tolist(), strict=True)
        is_stream = batch.indices is None
        return [self._row(context, targets[:length], is_stream) for context, targets, length in columns]

    def _contexts(self, batch: TokenBatch, state: State) -> list[list[int]]:
        """Return the sub-tokens before each column."""
        if state is not None:
            return [
                [number for number in column if number != _CONTEXT_PADDING] for column in state["context"].T.tolist()
            ]
        contexts = []
        for number in batch.tokens[0].tolist():
            is_special = number in (self.vocabulary.begin_id, self.vocabulary.end_id)
            word = [] if is_special else self.tokenizer.subtokens(self.vocabulary.tokens[number], is_first=True)
            contexts.append([self.tokenizer.start, *word])
        return contexts

    def _row(self, context: list[int], targets: list[int], is_stream: bool) -> tuple[list[int], list[_Word]]:
        """Return the sub-tokens of a column, after those of its context, and its words."""
        ids, words = list(context), []
        for step, number in enumerate(targets):
            first = len(ids)
            is_first = ids == [self.tokenizer.start]
            is_end = number == self.vocabulary.end_id
            if not is_end:
                subtokens = self.tokenizer.subtokens(self.vocabulary.tokens[number], is_first)
                if not subtokens:  # such as a word of zero-width characters, which many tokenizers remove
                    continue
                ids += subtokens
            elif is_stream:
                continue
            elif self.tokenizer.end is None:
                raise InputError(
                    "the tokenizer has no EOS token, so ends of sentences cannot be predicted; omit them with"
                    " predict_eos false (--no-predict-eos)"
                )
            else:
                ids.append(self.tokenizer.end)
            words.append(_Word(step, first, len(ids), is_first, is_end))
        return ids, words

    def _predictions(
        self, rows: Sequence[list[int]], read_logits: Callable[[int, int, Tensor], None] | None = None
    ) -> list[tuple[Tensor, Tensor]]:
        """Return the log-probability of each sub-token, 0 for the first, and of a boundary after it: (n,) each.

        They are in float64 on the CPU. After the first window of a row, half of each has been read before.

        Args:
            read_logits: called with the logits of each part of a row: the row, its first sub-token in the row, and the
                logits after each of its sub-tokens, (n, V).
        """
        result = [(torch.zeros(len(row)).double(), torch.zeros(len(row)).double()) for row in rows]

        # Overlapping windows of all rows, longest first.
        read_before = self.window // 2
        stride = self.window - read_before
        windows = [
            (row, begin, min(begin + self.window, len(ids)))
            for row, ids in enumerate(rows)
            for begin in range(0, max(1, len(ids) - read_before), stride)
        ]
        windows.sort(key=lambda window: window[1] - window[2])
        while windows:
            # As many windows as the limit of logits allows, each with the sub-token after it, which is predicted.
            longest = windows[0][2] - windows[0][1]
            count = max(1, LOGITS_TOGETHER // (longest * self.logit_count))
            part, windows = windows[:count], windows[count:]
            ids = torch.zeros(len(part), longest + 1, dtype=torch.int64)
            mask = torch.zeros(len(part), longest, dtype=torch.int64)
            for place, (row, begin, end) in enumerate(part):
                read = torch.tensor(rows[row][begin : end + 1])
                ids[place, : len(read)] = read
                mask[place, : end - begin] = 1

            ids, mask = ids.to(self.device), mask.to(self.device)
            logits = self.network(input_ids=ids[:, :-1], attention_mask=mask, use_cache=False).logits
            if logits.dtype != torch.float64:
                logits = logits.float()
            totals = logits.logsumexp(-1)
            next_log_probs = (logits.gather(-1, ids[:, 1:, None])[..., 0] - totals).cpu().double()
            boundary_log_probs = torch.zeros_like(next_log_probs)
            if self.boundaries is not None:
                boundary_log_probs = (logits[..., self.boundaries].logsumexp(-1) - totals).cpu().double()

            # Only what no earlier window of the row has read.
            for place, (row, begin, end) in enumerate(part):
                nexts, boundaries = result[row]
                fresh = begin + read_before if begin else 0
                new = slice(fresh - begin, end - begin)
                into = nexts[fresh + 1 : end + 1]
                into[:] = next_log_probs[place, new][: len(into)]
                boundaries[fresh:end] = boundary_log_probs[place, new]
                if read_logits is not None:
                    read_logits(row, fresh, logits[place, new])
        return result


_WORKS_IN = "(it works in score, evaluate pairs and word_scores)"
_DECODES = f"is a sequence-to-sequence model, which was not trained to predict text after an empty input {_WORKS_IN}"
_MASKS = f"is a masked model, which reads the words after a word, too, and gives pseudo-log-likelihoods {_WORKS_IN}"


class EmptyInputDecoder(nn.Module):
    """The decoder of a sequence-to-sequence network that reads an empty input, as a network for `CausalTransformer`.

    Args:
        network: a network of transformers.
        source: (1, S) int64, the sub-tokens of the empty input.
        before: sub-tokens that the decoder reads before those of each text.
    """

    source: Tensor

    def __init__(self, network: nn.Module, source: Tensor, before: Sequence[int]) -> None:
        super().__init__()
        self.network = network
        self.before = tuple(before)
        self.register_buffer("source", source, persistent=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, use_cache: bool = False) -> _Logits:
        """Return logits, (B, T, V), of sub-tokens, (B, T), that are padded on the right."""
        rows = len(input_ids)
        before = input_ids.new_tensor(self.before).expand(rows, -1)
        if attention_mask is not None:
            attention_mask = torch.cat([torch.ones_like(before), attention_mask], 1)
        # The encoder reads the same input for all rows.
        encoder: Any = self.network.get_encoder
        encoded = encoder()(input_ids=self.source).last_hidden_state.expand(rows, -1, -1)
        logits = self.network(
            encoder_outputs=(encoded,),
            attention_mask=torch.ones(rows, encoded.shape[1], dtype=torch.int64, device=encoded.device),
            decoder_input_ids=torch.cat([before, input_ids], 1),
            decoder_attention_mask=attention_mask,
            use_cache=use_cache,
        ).logits
        return _Logits(logits[:, len(self.before) :])


class _Logits(NamedTuple):
    logits: Tensor


class DecoderTransformer(CausalTransformer, ScoresWords):
    """The decoder of a sequence-to-sequence model that reads an empty encoder input and the words before.

    Args:
        unknown: the sub-token of what the tokenizer cannot write; None if there is none.
        **settings: of `CausalTransformer`.
    """

    score_type = WordScoreType(
        "decoder_surprisal",
        "decoder_log_probability",
        "of the decoder of a sequence-to-sequence model that reads an empty encoder input and the words before; the"
        " model was not trained to predict text from an empty input, so this is not the surprisal of a language model",
    )
    lacks = (ScoresSentences, ScoresTokens, PredictsSubtokens)
    reasons = dict.fromkeys(lacks, _DECODES)

    def __init__(self, unknown: int | None, **settings: Any) -> None:
        super().__init__(**settings)
        self.unknown = unknown

    def knows(self, token: str) -> bool:
        subtokens = self.tokenizer.subtokens(token, is_first=False)
        return bool(subtokens) and self.unknown not in subtokens


class MaskedSentence(NamedTuple):
    """The n sub-tokens of a sentence.

    Attributes:
        subtokens: with special ones.
        words: the index of the word of each sub-token; None for special ones.
        units: the part of the word that the tokenizer takes for a word, by the index of the word and its own number;
            None for special ones. A mark is one of its own for most tokenizers.
    """

    subtokens: Sequence[int]
    words: Sequence[int | None]
    units: Sequence[tuple[int, int | None] | None]


class _Variant(NamedTuple):
    """A sentence with masks.

    Attributes:
        column: of the sentence.
        place: of the sub-token that is predicted.
        masked: the places of all masks.
        size: n, the number of sub-tokens.
    """

    column: int
    place: int
    masked: Sequence[int]
    size: int


class MaskedTransformer(Model, MasksTokens):
    """A masked language model, which gives pseudo-log-likelihoods of words.

    Args:
        network: takes input_ids and attention_mask, (B, T), and returns an object with logits, (B, T, V).
        encode: returns the sub-tokens of a sentence, by its words.
        mask: the sub-token [MASK].
        unknown: the sub-token of what the tokenizer cannot write; None if there is none.
        vocabulary: turns the ids of a batch into words.
        window: largest number of sub-tokens, with special ones.
        logit_count: V.
        masking: which sub-tokens are masked with the one that is predicted: the later ones of its word, or none.
    """

    reasons = dict.fromkeys((ScoresSentences, ScoresTokens), _MASKS)

    def __init__(
        self,
        network: nn.Module,
        encode: Callable[[Sequence[str]], MaskedSentence],
        mask: int,
        unknown: int | None,
        vocabulary: OpenVocabulary,
        window: int,
        logit_count: int,
        masking: Masking = "word-l2r",
    ) -> None:
        super().__init__()
        self.network = network
        self.encode = encode
        self.mask, self.unknown = mask, unknown
        self.vocabulary = vocabulary
        self.window, self.logit_count = window, logit_count
        self.masking = masking
        self.vocabulary_size = len(vocabulary)

    def with_masking(self, masking: Masking) -> MaskedTransformer:
        other = copy(self)
        other.masking = masking
        return other

    @property
    def score_type(self) -> WordScoreType:  # type: ignore[override]
        masked = {
            "word-l2r": "with the earlier sub-tokens of its word; PLL-word-l2r of Kauf and Ivanova 2023",
            "original": "with all other sub-tokens of its word; PLL of Salazar et al. 2020",
        }
        return WordScoreType(
            "pseudo_surprisal",
            "pseudo_log_likelihood",
            "of a masked model: each sub-token given the other words of the sentence, before and after it"
            f" ({masked[self.masking]}); this is not the surprisal given the words before",
        )

    def subtoken_count(self, token: str, is_first: bool) -> int:
        words = [token] if is_first else ["a", token]
        return sum(word == len(words) - 1 for word in self.encode(words).words)

    def knows(self, token: str) -> bool:
        sentence = self.encode([token])
        subtokens = [
            number for number, word in zip(sentence.subtokens, sentence.words, strict=True) if word is not None
        ]
        return bool(subtokens) and self.unknown not in subtokens

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        log_probs = torch.zeros(batch.targets.shape, dtype=torch.float64)
        counts = batch.step_counts().tolist()
        sentences = [
            self._encoded([self.vocabulary.tokens[number] for number in numbers[:count]])
            for numbers, count in zip(batch.targets.T.tolist(), counts, strict=True)
        ]

        # The masked variants of sentences of similar lengths together, those of one sentence after each other.
        variants = list(chain.from_iterable(map(self._variants, range(len(sentences)), sentences)))
        variants.sort(key=lambda variant: (-variant.size, variant.column))
        while variants:
            most = max(1, LOGITS_TOGETHER // (variants[0].size * self.logit_count))
            part, variants = variants[:most], variants[most:]
            for variant, value in zip(part, self._masked_log_probs(part, sentences), strict=True):
                word = sentences[variant.column].words[variant.place]
                assert word is not None
                log_probs[word, variant.column] += value
        return TokenScores(log_probs.to(next(self.parameters())))

    def sentence_log_probs(self, batch: TokenBatch) -> Tensor:
        return self.token_log_probs(batch).log_probs.sum(0, dtype=torch.float64)

    def _encoded(self, words: Sequence[str]) -> MaskedSentence:
        sentence = self.encode(words)
        if len(sentence.subtokens) > self.window:
            raise InputError(
                f"found a sentence of {len(sentence.subtokens):,} sub-tokens, which begins with"
                f" {shortened(' '.join(words), LONGEST_SHOWN)!r}; expected at most {self.window:,}, because the masked"
                " model reads whole sentences. Split it"
            )
        return sentence

    def _variants(self, column: int, sentence: MaskedSentence) -> list[_Variant]:
        """Return the sentence with each of its sub-tokens masked in turn."""
        size = len(sentence.subtokens)
        places = [place for place, word in enumerate(sentence.words) if word is not None]
        variants = []
        for _, group in groupby(places, key=lambda place: sentence.units[place]):
            unit = list(group)
            for number, place in enumerate(unit):
                masked = unit[number:] if self.masking == "word-l2r" else [place]
                variants.append(_Variant(column, place, masked, size))
        return variants

    def _masked_log_probs(self, variants: Sequence[_Variant], sentences: Sequence[MaskedSentence]) -> list[float]:
        """Return the log-probability of the sub-token that each variant predicts."""
        ids = torch.zeros(len(variants), variants[0].size, dtype=torch.int64)
        is_read = torch.zeros_like(ids)
        for row, variant in enumerate(variants):
            ids[row, : variant.size] = torch.tensor(sentences[variant.column].subtokens)
            is_read[row, : variant.size] = 1
        rows, places = torch.arange(len(variants)), torch.tensor([variant.place for variant in variants])
        predicted = ids[rows, places]
        for row, variant in enumerate(variants):
            ids[row, list(variant.masked)] = self.mask
        logits = self.network(input_ids=ids.to(self.device), attention_mask=is_read.to(self.device)).logits
        chosen = logits[rows.to(self.device), places.to(self.device)].cpu().double()
        return chosen.log_softmax(-1).gather(1, predicted[:, None])[:, 0].tolist()
