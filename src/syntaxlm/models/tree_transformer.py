"""A Transformer that builds a binary tree while it reads, and sees the stack of its subtrees.

P(words, tree) = prod_t P(word t | words before it, stack) P(decision t | words up to t, stack)

`ops.parse_stack` defines the stack and its decisions. The model is in the line of pushdown layers (Murty et al. 2023)
and Transformer Grammars (Sartran et al. 2022), but the formulation is our own:

- Keys have embeddings of the index and the depth of their token on the stack of the query. With embeddings of 0 the
  words have the probabilities of the plain Transformer.
- The lower blocks read a word while it is an item of its own. A pointer over the items of the stack then decides how
  many are merged. The upper blocks see the merged stack, and predict the next word.

Trees of the training text are given, so training is one forward pass. A text without trees is read by a beam: after
each word, the K most probable sequences of decisions are kept. The next word has the mean of its probabilities under
the kept hypotheses, weighted by theirs. These probabilities add up to 1 with any beam, and are those of the sum over
all trees if nothing is left out. The sum over the beam alone is a lower bound of that sum.

Shapes: T tokens, B sentences, K hypotheses, E embedding size, H heads, D features of a head, V words, S tokens so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.iteration import batched
from syntaxlm.models.abilities import (
    FindsBestTrees,
    HasSpanBeliefs,
    LabelledSpans,
    Loss,
    Model,
    PredictsNextToken,
    SampledSentence,
    SamplesSentences,
    ScoresTrees,
    TokenScores,
    TrainsByGradient,
)
from syntaxlm.models.backbone import new_decoder, new_embedding
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import RMSNorm, dropout
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import BOS, EOS, draw_short, token_of
from syntaxlm.models.stack_blocks import ClosingHead, StackBlock, TreeTransformerConfig
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.ops.parse_stack import (
    begins_item,
    decisions_of_spans,
    merged,
    pushed,
    spans_of_decisions,
    stack_tables,
)
from syntaxlm.ops.sampling import TreeSpans, draw

_VALUES_TOGETHER = 1 << 25  # most numbers of keys, values and logits of sentences that a beam reads together

Beam = dict[str, Tensor]
"""The hypotheses after some tokens.

scores: (B, K) float64, ln P(words, decisions); hidden: (B, K, E), from which the next word is predicted; index, depth:
(B, K, S), the stack; firsts: (B, K, S), the decisions; item_keys: (B, K, S, E), what the pointer compares; keys.L,
values.L: (B, K, H, S, D), of block L, the keys after rotation.
"""
Select = Callable[[Tensor], tuple[Tensor, Tensor]]
"""The log-probabilities of continued hypotheses, (B, N) -> those that are kept, (B, K), and their places among N."""


@model("tree-transformer", TreeTransformerConfig)
class TreeTransformer(
    Model, TrainsByGradient, PredictsNextToken, FindsBestTrees, ScoresTrees, SamplesSentences, HasSpanBeliefs
):
    """A Transformer with closing decisions after each word. It reads single sentences: the end closes all items.

    Trees of a sentence have the probabilities of the hypotheses in the beam at its end; a tree that the beam has left
    out has none.

    Attributes:
        beam: number of hypotheses, K.
    """

    reads = "sentences"
    structure_type = SpanMarginals
    likelihood_estimate = "by a beam of trees"

    def __init__(self, config: TreeTransformerConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size, self.beam = config, vocabulary_size, config.beam
        self.embedding = new_embedding(config, vocabulary_size)
        self.blocks: Any = nn.ModuleList(StackBlock(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.embedding_size)
        self.closing = ClosingHead(config)
        self.decoder = new_decoder(self.embedding, config.embedding_size, config, vocabulary_size)

    @contextmanager
    def validating(self) -> Iterator[None]:
        """Read with the smaller beam of validations, which are frequent."""
        self.beam = self.config.validation_beam
        try:
            yield
        finally:
            self.beam = self.config.beam

    def step_size(self, tokens: int, longest: int) -> int:
        """See `TrainsByGradient`. Scores of places have the size of attention, which is in memory several times."""
        return super().step_size(tokens, longest) + 6 * tokens * (longest + 1) * self.config.layers * self.config.heads

    # ---- training: words and given trees

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """Return the loss of words and, as the penalty "closings", of the decisions that build the batch's trees.

        Sentences of three words or more without a tree are left out. In evaluation mode, the loss is that of words
        alone, by the beam.
        """
        if not self.training:
            scores = self.token_log_probs(batch, state)
            total = -scores.log_probs.sum()
            return Loss(total, batch.token_count(), batch.sentence_count(), state=scores.state)

        # One or two words have one tree. Others have a tree if there are constituents.
        lengths = batch.step_counts()
        spans = batch.tokens.new_zeros(0, 3) if batch.spans is None else batch.span_steps()
        constituents = torch.bincount(spans[:, 0], minlength=len(lengths)).to(lengths.device)
        (chosen,) = torch.nonzero((lengths <= 3) | (constituents > 0), as_tuple=True)
        if not len(chosen):
            return Loss(self.norm.gain.new_zeros(()), 0, batch.sentence_count())
        firsts = decisions_of_spans(spans, lengths, len(batch.tokens))
        columns = chosen.to(batch.tokens.device)
        part = TokenBatch(batch.tokens[:, columns], batch.targets[:, columns], lengths[chosen])
        words, decisions = self.joint_log_probs(part, firsts[columns])
        count = part.token_count()
        closings = -self.config.supervision * decisions.sum() / count
        return Loss(-words.sum(), count, batch.sentence_count(), {"closings": closings})

    def joint_log_probs(self, batch: TokenBatch, firsts: Tensor) -> tuple[Tensor, Tensor]:
        """Return natural log-probabilities at each real step, (n,) each: of the target, and of the step's decision.

        Args:
            batch: sentences with BOS.
            firsts: (B, T), the decisions.
        """
        tables = stack_tables(firsts)
        lower = self.config.lower_blocks
        hidden = dropout(self.embedding(batch.tokens), self.config.dropout, self.training)
        for block in self.blocks[:lower]:
            hidden, _ = block.read(hidden, tables.index_before, tables.depth_before)
        queries, keys = self.closing.query_and_key(hidden.transpose(0, 1))
        decisions = self.closing.log_probs(queries, keys, tables.index_before, tables.begins_item)
        for block in self.blocks[lower:]:
            hidden, _ = block.read(hidden, tables.index_after, tables.depth_after)

        mask = batch.mask()
        words = self.decoder.log_probs(self.norm(hidden[mask]), batch.targets[mask])
        return words, decisions.gather(2, firsts[..., None])[..., 0].T[mask]

    # ---- reading without trees, by a beam

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        log_probs, beams = [], []
        for columns, beam in self._parts(batch, state, 0):
            tokens, targets = batch.tokens[:, columns], batch.targets[:, columns]
            known: Tensor | None = None
            values = []
            for step, target in enumerate(targets):
                if step and not torch.equal(tokens[step], targets[step - 1]):
                    known = None
                beam = self._read(beam, tokens[step], known)
                known = self._word_log_probs(beam, target)
                values.append((beam["scores"] + known).logsumexp(1) - beam["scores"].logsumexp(1))
            log_probs.append(torch.stack(values))
            beams.append(beam)
        return TokenScores(torch.cat(log_probs, 1).masked_fill(~batch.mask(), 0), _joined(beams))

    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        lengths = batch.step_counts()
        rows, beams = [], []
        for columns, beam in self._parts(batch, state, self.vocabulary_size):
            ends = lengths[columns]
            result = beam["scores"].new_zeros(len(ends), self.vocabulary_size)
            for step, tokens in enumerate(batch.tokens[:, columns]):
                beam = self._read(beam, tokens)
                (here,) = torch.nonzero(ends == step + 1, as_tuple=True)
                if len(here):
                    here = here.to(tokens.device)
                    words = self._all_word_log_probs(beam["hidden"][here])
                    weights = beam["scores"][here].log_softmax(1)
                    result[here] = (weights[:, :, None] + words).logsumexp(1)
            rows.append(result)
            beams.append(beam)
        return torch.cat(rows), _joined(beams)

    def _parts(self, batch: TokenBatch, state: State, numbers: int) -> Iterator[tuple[slice, Beam]]:
        """Yield columns that are read together, with their hypotheses before the batch.

        Args:
            numbers: that a hypothesis has in memory besides keys and values.
        """
        count = batch.sentence_count()
        before = self._begun(count) if state is None else state
        together = self._together(before["index"].shape[-1] + len(batch.tokens), numbers)
        for start in range(0, count, together):
            columns = slice(start, start + together)
            yield columns, {name: part[columns] for name, part in before.items()}

    def _together(self, tokens: int, numbers: int = 0) -> int:
        """Return how many sentences are read together."""
        size = tokens * self.config.embedding_size * (2 * self.config.layers + 1) + numbers
        return max(1, _VALUES_TOGETHER // (self.beam * size))

    def _begun(self, count: int) -> Beam:
        """Return one hypothesis for each of `count` sentences, before BOS."""
        config, like = self.config, self.norm.gain
        beam = {name: like.new_zeros(count, 1, 0, dtype=torch.int64) for name in ("index", "depth", "firsts")}
        beam["scores"] = like.new_zeros(count, 1, dtype=torch.float64)
        beam["hidden"] = like.new_zeros(count, 1, config.embedding_size)
        beam["item_keys"] = like.new_zeros(count, 1, 0, config.embedding_size)
        for number in range(config.layers):
            for name in ("keys", "values"):
                shape = count, 1, config.heads, 0, config.embedding_size // config.heads
                beam[f"{name}.{number}"] = like.new_zeros(shape)
        return beam

    def _read(
        self, beam: Beam, tokens: Tensor, word_log_probs: Tensor | None = None, select: Select | None = None
    ) -> Beam:
        """Return the hypotheses after one more token of each sentence, (B,), and the decisions after it.

        Args:
            word_log_probs: (B, K), of these tokens; None: they are computed.
            select: which continued hypotheses are kept; None: the best ones.
        """
        scores = beam["scores"]
        if beam["index"].shape[-1]:  # the first token, BOS, is given
            scores = scores + (self._word_log_probs(beam, tokens) if word_log_probs is None else word_log_probs)
        lower = self.config.lower_blocks

        # The token is pushed, and read by the lower blocks.
        index, depth = pushed(beam["index"], 1), pushed(beam["depth"], 0)
        hidden = self.embedding(tokens)[:, None].expand(*scores.shape, -1)
        hidden, beam = self._blocks(slice(0, lower), hidden, beam, index, depth)
        query, key = self.closing.query_and_key(hidden)
        item_keys = torch.cat([beam["item_keys"], key[:, :, None]], 2)

        # All decisions about it continue every hypothesis. BOS is no item that can be merged.
        begins = begins_item(index)
        if index.shape[-1] > 1:
            begins[..., 0] = False
        decisions = self.closing.log_probs(query[:, :, None], item_keys, index[:, :, None], begins[:, :, None])
        candidates = (scores[:, :, None] + decisions[:, :, 0]).flatten(1)
        kept, places = (select or self._best)(candidates)

        # The kept ones continue a parent, whose items are merged. Where fewer are possible, others have probability 0.
        size = index.shape[-1]
        parents = places // size
        firsts = torch.where(kept > -torch.inf, places % size, size - 1)
        of_hypotheses = beam | {"index": index, "depth": depth, "item_keys": item_keys, "hidden": hidden}
        count = scores.shape[1]

        # Hypotheses that stay in their places, as with a beam of one, are not copied.
        if not torch.equal(parents, torch.arange(count, device=parents.device).expand_as(scores)):
            rows = (torch.arange(len(tokens), device=tokens.device)[:, None] * count + parents).flatten()
            of_hypotheses = {
                name: part.flatten(0, 1).index_select(0, rows).unflatten(0, kept.shape)
                for name, part in of_hypotheses.items()
            }
        beam = of_hypotheses | {"scores": kept}
        beam["firsts"] = torch.cat([beam["firsts"], firsts[..., None]], -1)
        beam["index"], beam["depth"] = merged(beam["index"], beam["depth"], firsts)

        # The upper blocks see the merged stack.
        upper = slice(lower, self.config.layers)
        hidden, beam = self._blocks(upper, beam["hidden"], beam, beam["index"], beam["depth"])
        return beam | {"hidden": self.norm(hidden)}

    def _best(self, candidates: Tensor) -> tuple[Tensor, Tensor]:
        kept, places = candidates.topk(min(self.beam, candidates.shape[1]))
        return kept, places

    def _blocks(self, numbers: slice, hidden: Tensor, beam: Beam, index: Tensor, depth: Tensor) -> tuple[Tensor, Beam]:
        """Return the output of some blocks for one token of each hypothesis, (B, K, E), and the beam with its keys."""
        shape = hidden.shape
        rows = hidden.reshape(1, -1, shape[-1])
        stack = index.flatten(0, 1)[:, None], depth.flatten(0, 1)[:, None]
        beam = dict(beam)
        for number in range(self.config.layers)[numbers]:
            names = f"keys.{number}", f"values.{number}"
            before = beam[names[0]].flatten(0, 1), beam[names[1]].flatten(0, 1)
            rows, known = self.blocks[number].read(rows, *stack, before)
            beam |= {name: part.unflatten(0, shape[:2]) for name, part in zip(names, known, strict=True)}
        return rows.view(shape), beam

    def _word_log_probs(self, beam: Beam, words: Tensor) -> Tensor:
        """Return the log-probability of one word of each sentence, (B,), by each hypothesis: (B, K)."""
        hidden = beam["hidden"]
        rows, count = hidden.flatten(0, 1), hidden.shape[1]
        return self.decoder.log_probs(rows, words.repeat_interleave(count)).view(-1, count)

    def _all_word_log_probs(self, hidden: Tensor) -> Tensor:
        """Return the log-probability of every word. (..., E) -> (..., V)."""
        return self.decoder(hidden).to(self.decoder.bias.dtype).log_softmax(-1)

    # ---- trees of whole sentences

    @torch.no_grad()
    def _trees(self, batch: TokenBatch) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield sentences of n words: columns, ln P(hypothesis, words, end), (b, K), and trees, (b, K, n).

        A tree is its decisions: the first word of the item on top after each word, from 0. The end of the sentence
        closes all, so hypotheses that differ in the last decision only have the same tree.
        """
        for columns, words in batch.by_length(2, lambda length: self._together(length + 1, length**2)):
            beam = self._begun(len(words))
            for tokens in pad(words, (1, 0), value=BOS).T:
                beam = self._read(beam, tokens)
            yield columns, *self._ended(beam)

    def _ended(self, beam: Beam) -> tuple[Tensor, Tensor]:
        """Return the scores of hypotheses with the end of the sentence, (B, K), and their trees, (B, K, n)."""
        ends = beam["firsts"].new_full((len(beam["firsts"]),), EOS)
        trees = (beam["firsts"] - 1)[..., 1:]
        trees[..., -1] = 0
        return beam["scores"] + self._word_log_probs(beam, ends), trees

    def log_prob_bounds(self, batch: TokenBatch) -> Tensor:
        """Return the logarithm of the sum over the beam of each sentence with BOS and EOS, (B,) float64.

        It is a lower bound of ln P(words), the sum over all trees.
        """
        result = self.norm.gain.new_zeros(batch.sentence_count(), dtype=torch.float64)
        for columns, scores, _ in self._trees(batch):
            result[columns] = scores.logsumexp(1)
        return result

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        longest = max(1, len(batch.tokens) - 2)
        values = self.norm.gain.new_zeros(batch.sentence_count(), longest, longest, dtype=torch.float64)
        for columns, scores, trees in self._trees(batch):
            length = trees.shape[-1]
            values[columns, :length, :length] = _span_probabilities(scores, trees)
        return SpanMarginals(values)

    @torch.no_grad()
    def span_beliefs(self, sentences: Sequence[Sequence[int]]) -> list[Numbers]:
        beliefs_of: dict[int, Numbers] = {}
        for length in sorted(set(map(len, sentences))):
            places = [place for place, sentence in enumerate(sentences) if len(sentence) == length]
            for together in batched(places, self._together(length + 1, length**2)):
                words = torch.tensor([sentences[place] for place in together], device=self.device)
                beam = self._read(self._begun(len(together)), torch.full_like(words[:, 0], BOS))
                beliefs = beam["scores"].new_zeros(len(together), length + 1, length, length)
                for last, tokens in enumerate(words.T):
                    beam = self._read(beam, tokens)
                    read = slice(0, last + 1)
                    beliefs[:, last, read, read] = _span_probabilities(beam["scores"], (beam["firsts"] - 1)[..., 1:])
                beliefs[:, length] = _span_probabilities(*self._ended(beam))
                beliefs_of |= zip(together, beliefs.cpu().numpy(), strict=True)
        return [beliefs_of[place] for place in range(len(sentences))]

    def best_trees(self, batch: TokenBatch) -> list[LabelledSpans]:
        labelled: list[LabelledSpans] = [[] for _ in range(batch.sentence_count())]
        for columns, scores, trees in self._trees(batch):
            weights = scores.softmax(1)
            is_same = (trees[:, :, None] == trees[:, None]).all(-1)
            best = (is_same * weights[:, None]).sum(2).argmax(1)
            spans = spans_of_decisions(trees[torch.arange(len(best)), best])
            spans.diagonal(dim1=1, dim2=2).fill_(True)
            for column, sentence_spans in enumerate(spans, columns.start):
                labelled[column] = [(first, last, -1) for first, last in sentence_spans.nonzero().tolist()]
        return labelled

    def tree_log_probs(self, batch: TokenBatch, spans: Tensor) -> Tensor:
        result = torch.zeros(batch.sentence_count(), dtype=torch.float64, device=spans.device)
        for columns, scores, trees in self._trees(batch):
            weights = scores.softmax(1)
            length = trees.shape[-1]
            wanted = spans[columns, None, :length, :length].triu(1)
            is_same = (spans_of_decisions(trees) == wanted).flatten(2).all(2)
            result[columns] = (is_same * weights).sum(1).clamp(max=1).log()
        return result

    def sample_trees(self, batch: TokenBatch, count: int, generator: np.random.Generator) -> list[list[TreeSpans]]:
        samples: list[list[TreeSpans]] = [[] for _ in range(batch.sentence_count())]
        for columns, scores, trees in self._trees(batch):
            weights = scores.softmax(1)
            for column, sentence_weights, spans in zip(
                range(columns.start, columns.stop), weights, spans_of_decisions(trees), strict=True
            ):
                drawn = [draw(sentence_weights.cpu().numpy(), generator) for _ in range(count)]
                samples[column] = [
                    [(first, last + 1) for first, last in spans[number].nonzero().tolist()] for number in drawn
                ]
        return samples

    # ---- sentences with their trees

    @torch.no_grad()
    def sample(
        self, count: int, maximum_words: int, generator: np.random.Generator, *, omitted: int = 0
    ) -> Sequence[SampledSentence]:
        """See `SamplesSentences`. Words and decisions are drawn from left to right."""
        is_barred = torch.zeros(self.vocabulary_size, dtype=torch.bool, device=self.device)
        is_barred[[BOS, *map(token_of, range(omitted))]] = True
        draw_one = partial(self._sampled, maximum_words, generator, is_barred)
        return [draw_short(draw_one, maximum_words) for _ in range(count)]

    def _sampled(self, maximum_words: int, generator: np.random.Generator, is_barred: Tensor) -> SampledSentence | None:
        """Return a sentence, or None if it has more than the maximum of words."""

        def select(candidates: Tensor) -> tuple[Tensor, Tensor]:
            place = draw(candidates[0].softmax(0).cpu().numpy(), generator)
            return torch.zeros_like(candidates[:, :1]), candidates.new_full((1, 1), place, dtype=torch.int64)

        beam, words = self._begun(1), [BOS]
        while len(words) <= maximum_words + 1:
            beam = self._read(beam, torch.tensor(words[-1:], device=self.device), select=select)
            chances = self._all_word_log_probs(beam["hidden"][0, 0]).exp().masked_fill(is_barred, 0)
            if len(words) == 1:
                chances[EOS] = 0
            words.append(draw(chances.cpu().numpy(), generator))
            if words[-1] == EOS:
                tree = (beam["firsts"][0, 0] - 1)[1:]
                tree[-1] = 0
                spans = spans_of_decisions(tree).nonzero().tolist()
                in_order = sorted(spans, key=lambda span: (span[0], -span[1]))
                return SampledSentence(tuple(words[1:-1]), tuple((first, last, -1) for first, last in in_order))
        return None


def _span_probabilities(scores: Tensor, trees: Tensor) -> Tensor:
    """Return the share of the hypotheses that have each span: (B, K), (B, K, n) -> (B, n, n)."""
    spans = spans_of_decisions(trees).to(scores.dtype)
    return torch.einsum("bk,bkij->bij", scores.softmax(1), spans).clamp(0, 1)


def _joined(beams: Sequence[Beam]) -> Beam:
    """Return the hypotheses of all columns."""
    return {name: torch.cat([beam[name] for beam in beams]).detach() for name in beams[0]}
