"""Causal transformers of the library transformers, which score words through their sub-tokens.

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

The library itself is imported only by `storage.transformers`, which reads such models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import Count
from syntaxlm.models.abilities import Model, Predictions, PredictsSubtokens, TokenScores
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.text.vocabulary import OpenVocabulary

LOGITS_TOGETHER = 1 << 26  # most logits of a forward pass: 256 MiB
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
                ids += self.tokenizer.subtokens(self.vocabulary.tokens[number], is_first)
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
