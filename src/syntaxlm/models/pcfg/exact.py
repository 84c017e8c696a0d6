"""Neural PCFGs with fixed rules, which give next-word probabilities through prefix probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from syntaxlm.models.abilities import PredictsNextToken, TokenScores
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.pcfg.config import BOS, EOS, SPECIALS, to_grammar
from syntaxlm.models.pcfg.grammars import Sentences
from syntaxlm.models.pcfg.model import SentencePCFG
from syntaxlm.ops.inside import Layout, next_words, prefix_log_probs

_PREFIX_CHART = 1 << 22  # most entries of a float64 chart of a group of sentences


class PCFG(SentencePCFG, PredictsNextToken):
    """A grammar that also gives the probability of every next word, from prefix probabilities in float64.

    The state has all tokens of the prefix since BOS.
    """

    likelihood_estimate = None

    @torch.no_grad()
    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        tokens = batch.tokens if state is None else torch.cat([state["tokens"], batch.tokens])
        steps = len(batch.tokens)
        mask = batch.mask()
        if self._is_text(batch, mask):
            result = self._of_text(batch, tokens)
        else:  # each target from the distribution after its prefix
            result = self.unigrams.new_zeros(batch.targets.shape, dtype=torch.float64)
            for step in range(steps):
                prefix = tokens[: len(tokens) - steps + step + 1]
                result[step] = self._next(prefix).gather(1, batch.targets[step][:, None])[:, 0]
        return TokenScores(result.masked_fill(~mask, 0), {"tokens": tokens})

    @staticmethod
    def _is_text(batch: TokenBatch, mask: Tensor) -> bool:
        """Return whether each target is the next input, no target is BOS, and EOS is only a last target."""
        continues = mask[1:]
        before_last = batch.targets[:-1][continues]
        return (
            torch.equal(before_last, batch.tokens[1:][continues])
            and not bool((before_last == EOS).any())
            and not bool((batch.targets[mask] == BOS).any())
        )

    @torch.no_grad()
    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        tokens = batch.tokens if state is None else torch.cat([state["tokens"], batch.tokens])
        before = len(tokens) - len(batch.tokens)
        lengths = None if batch.lengths is None else batch.lengths + before
        return self._next(tokens, lengths), {"tokens": tokens}

    sentence_log_probs = SentencePCFG.sentence_log_probs  # type: ignore[assignment]  # faster than a sum over tokens

    def _of_text(self, batch: TokenBatch, tokens: Tensor) -> Tensor:
        """Return log-probabilities of targets that are the next inputs: differences of prefix log-probabilities. (T,
        B).
        """
        steps, columns = batch.targets.shape
        before = len(tokens) - steps
        lengths = torch.full((columns,), steps) if batch.lengths is None else batch.lengths
        words: list[Tensor] = []
        for column, length in enumerate(lengths.tolist()):
            last = batch.targets[length - 1 : length, column]
            words.append(torch.cat([tokens[1 : before + length, column], last[last != EOS]]))
        sentences = Sentences(to_grammar(torch.cat(words)), tuple(map(len, words)))
        prefixes, wholes = self._prefixes(sentences)
        result = prefixes.new_zeros(steps, columns)
        for column, length in enumerate(lengths.tolist()):
            own = prefixes[column, : len(words[column]) + 1]
            if len(own) == before + length:  # EOS is the last target
                own = torch.cat([own, wholes[column, len(own) - 1 : len(own)]])
            result[:length, column] = torch.diff(own)[before:]
        return result

    def _prefixes(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Return natural log-probabilities of prefixes of 0 to n words, and of these as whole sentences: (B, n + 1)
        each.
        """
        share, rest = self.one_word_share.double().log(), torch.log1p(-self.one_word_share.double())
        shape = len(sentences), max(sentences.lengths) + 1
        prefixes = self.unigrams.new_full(shape, -torch.inf, dtype=torch.float64)
        wholes = prefixes.clone()
        prefixes[:, 0] = 0
        for chosen in self._groups(sentences, 1, _PREFIX_CHART):
            part = sentences.select(chosen)
            # The layout needs two words: a single word is repeated, and the prefix of the second is ignored.
            parts = [own if len(own) > 1 else own.repeat(2) for own in part.words.split(part.lengths)]
            padded = Sentences(torch.cat(parts), tuple(map(len, parts)))
            tables = self._tables(padded)
            found = prefix_log_probs(tables.rules, tables.emissions, tables.words, Layout(padded.lengths, self.device))
            index, size = self._index(chosen), found.prefixes.shape[1]
            alone = share + self.unigrams.double()[torch.stack([own[0] for own in parts])]
            prefixes[index, 1 : size + 1] = (rest + found.prefixes)[:, : shape[1] - 1]
            prefixes[index, 1] = torch.logaddexp(prefixes[index, 1], alone)
            wholes[index, 1 : size + 1] = (rest + found.sentences)[:, : shape[1] - 1]
            wholes[index, 1] = alone
        return prefixes, wholes

    def _next(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the next-token distribution after prefixes, (T, B) with BOS first -> (B, V). Each prefix is computed
        once.
        """
        given = self._sentences(TokenBatch(tokens, tokens, lengths))
        parts = [tuple(part.tolist()) for part in given.words.split(given.lengths)]
        places = {part: place for place, part in enumerate(dict.fromkeys(parts))}
        sentences = Sentences.of(places, self.device)
        if any(sentences.lengths):
            prefixes, wholes = self._prefixes(sentences)
        else:
            prefixes = self.unigrams.new_zeros(len(sentences), 1, dtype=torch.float64)
            wholes = torch.full_like(prefixes, -torch.inf)
        tables = self._tables(sentences)  # of the words in the prefixes only
        emissions = self._all_tables()[1]
        rest = torch.log1p(-self.one_word_share.double())
        found = next_words(tables.rules, tables.emissions, tables.words, sentences.lengths)
        words = torch.log(found.weights @ emissions.exp().double().T) + found.scales[:, None] + rest
        empty = torch.tensor([not length for length in sentences.lengths], device=words.device)
        alone = self.unigrams.double() + self.one_word_share.double().log()
        words[empty] = torch.logaddexp(words[empty], alone)
        last = torch.tensor(sentences.lengths, device=words.device)[:, None]
        of_prefix = prefixes.gather(1, last)
        result = words.new_full((len(words), self.vocabulary_size), -torch.inf)
        result[:, 0] = words[:, 0] - of_prefix[:, 0]
        result[:, SPECIALS + 1 :] = words[:, 1:] - of_prefix
        result[:, EOS] = (wholes.gather(1, last) - of_prefix)[:, 0]
        return result[self._index([places[part] for part in parts])]
