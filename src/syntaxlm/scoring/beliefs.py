"""Measures of words from what a grammar believes about the tree of a sentence after each of its words."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.abilities import HasSpanBeliefs, HasTreeBeliefs, Model, TreeBeliefs
from syntaxlm.models.combination import Combination, ParserCombination, believing_parser
from syntaxlm.models.registry import require
from syntaxlm.ops.inside import belief_updates
from syntaxlm.scoring.options import BELIEF_MEASURES
from syntaxlm.text.normaliser import is_punctuation
from syntaxlm.text.vocabulary import Vocabulary

OF_SPANS = ("belief_update", "belief_update_kl", "expected_ended")  # measures that need no beliefs but those of spans
_SPANS_TOGETHER = 1 << 24  # most probabilities of spans, after each word, that are in memory together


@dataclass(frozen=True)
class BeliefMeasures:
    """The beliefs about one sentence, and how each token changes them.

    Attributes:
        beliefs: about the sentence, without `spans` and `open_from`, which take most memory.
        updates: (n + 1,), belief updates of tokens and of the end, in bits, of order 1/2.
        updates_kl: (n + 1,), of order 1.
        places: (m + 2,), for a sentence of m tokens of which the grammar reads n, the number of these before each
            token, before the end, and with the end.
    """

    beliefs: TreeBeliefs
    updates: Numbers
    updates_kl: Numbers
    places: Sequence[int]

    def of_tokens(self, first: int, after: int) -> dict[str, Any]:
        """Return the measures of a word with the tokens [first, after), or of the end of the sentence.

        What tokens add, such as constituents that end, is summed. Other measures are those of its first token, or
        after its last one. The end of a sentence is in no constituent. A word that the grammar does not read has none.
        """
        beliefs = self.beliefs
        first, after = self.places[first], self.places[after]
        if first == after:
            return dict.fromkeys(BELIEF_MEASURES)
        last = after - 1
        entropy = float(beliefs.entropies[last]) / math.log(2)
        # Missing before the first word, and if the entropy is infinite before and after the word.
        before = math.nan if first == 0 else float(beliefs.entropies[first - 1]) / math.log(2)
        reduction = before - entropy
        values = {
            "belief_update": float(self.updates[first:after].sum()),
            "belief_update_kl": float(self.updates_kl[first:after].sum()),
            "derivation_entropy": entropy,
            "derivation_entropy_reduction": None if math.isnan(reduction) else max(0.0, reduction),
            "lexical_surprisal": float(beliefs.lexical[first:after].sum()),
            "structural_surprisal": float(beliefs.structural[first:after].sum()),
        }
        in_constituents = dict.fromkeys(("expected_ended", "expected_open", "expected_depth", "low_attachment"))
        if first == len(beliefs.open):
            return values | in_constituents
        return values | {
            "expected_ended": float(beliefs.ended[first:after].sum()),
            "expected_open": float(beliefs.open[last]),
            "expected_depth": float(beliefs.open[first] + beliefs.ended[first]),
            "low_attachment": float(beliefs.low[first]),
        }


class BeliefReader:
    """Reads sentences of a model for its grammar: the model itself, or the `believing_parser` of a combination, which
    perhaps does not read punctuation marks.

    The sum of the parts of a surprisal is the surprisal of the grammar, also where a language model predicts the words.

    Raises:
        InputError: for a model without a grammar that has beliefs about trees.
    """

    def __init__(self, model: Model, vocabulary: Vocabulary, name: str, purpose: str = "beliefs about trees") -> None:
        self._name = name
        self._ids: Tensor | None = None
        self._is_read = np.ones(0, bool)
        member = believing_parser(model)
        self.grammar: HasTreeBeliefs | HasSpanBeliefs
        if member is None:
            if isinstance(model, HasSpanBeliefs):
                self.grammar = model
            else:
                self.grammar = require(model, HasTreeBeliefs, name, purpose)
            return
        assert isinstance(model, ParserCombination)
        self.grammar = model.parsers[member]
        self._ids = model.parser_tokens[member]
        drops = isinstance(model, Combination) and model.drops_punctuation
        self._is_read = np.array([not (drops and is_punctuation(token)) for token in vocabulary.tokens])

    def measures(self, corpus: EncodedCorpus, wanted: Collection[str]) -> dict[tuple[int, ...], BeliefMeasures]:
        """Return the measures of each distinct sentence of a corpus, by its token ids.

        Args:
            corpus: the sentences, as the model reads them.
            wanted: names of measures; others may be NaN.

        Raises:
            InputError: for a sentence too long for the memory, and for measures that the model does not have.
        """
        distinct = dict.fromkeys(tuple(corpus.sentence(number)) for number in range(len(corpus)))
        read = [(sentence, tokens) for sentence in distinct if (tokens := self._read(sentence))]
        measures: dict[tuple[int, ...], BeliefMeasures] = {}

        # Sentences of similar lengths together, but few enough that the probabilities of their spans fit in memory.
        together: dict[tuple[int, ...], list[int]] = {}
        size = 0
        for sentence, tokens in sorted(read, key=lambda item: len(item[1])):
            if together and size + len(tokens) ** 3 > _SPANS_TOGETHER:
                measures |= self._measures_together(together, wanted)
                together = {}
                size = 0
            together[sentence] = tokens
            size += len(tokens) ** 3
        return measures | self._measures_together(together, wanted)

    def _measures_together(
        self, read: dict[tuple[int, ...], list[int]], wanted: Collection[str]
    ) -> dict[tuple[int, ...], BeliefMeasures]:
        """Return the measures of sentences, given as the grammar reads them."""
        sentences = list(read.values())
        if isinstance(self.grammar, HasSpanBeliefs):
            if others := [name for name in wanted if name not in OF_SPANS]:
                raise InputError(
                    f"{others[0]}: a {self._name} model does not have this measure; expected {', '.join(OF_SPANS)}"
                )
            all_beliefs = list(map(_of_spans, self.grammar.span_beliefs(sentences)))
        else:
            spans = any(name.startswith("belief_update") for name in wanted)
            entropies = any(name.startswith("derivation_entropy") for name in wanted)
            all_beliefs = self.grammar.tree_beliefs(sentences, spans, entropies)
        return {
            sentence: self._measures_of(sentence, beliefs) for sentence, beliefs in zip(read, all_beliefs, strict=True)
        }

    def _read(self, sentence: tuple[int, ...]) -> list[int]:
        """Return the tokens of a sentence as the grammar reads them."""
        if self._ids is None:
            return list(sentence)
        tokens = np.array(sentence)
        return self._ids[torch.from_numpy(tokens[self._is_read[tokens]])].tolist()

    def _measures_of(self, sentence: tuple[int, ...], beliefs: TreeBeliefs) -> BeliefMeasures:
        spans = torch.from_numpy(beliefs.spans)
        updates, updates_kl = (belief_updates(spans, order).numpy() for order in (0.5, 1.0))
        is_read = np.ones(len(sentence) + 1, bool)
        if self._ids is not None:
            is_read[:-1] = self._is_read[np.array(sentence)]
        kept = replace(beliefs, spans=np.zeros((0, 0, 0)), open_from=np.zeros((0, 0)))
        return BeliefMeasures(kept, updates, updates_kl, np.append(0, is_read.cumsum()).tolist())


def _of_spans(spans: Numbers) -> TreeBeliefs:
    """Return beliefs of which only those about spans are known, (n + 1, n, n); all others are NaN."""
    words = spans.shape[1]
    of_words, of_steps = np.full(words, np.nan), np.full(words + 1, np.nan)
    last = np.arange(words)
    return TreeBeliefs(
        spans=spans,
        open=of_words,
        open_from=np.full((words, words), np.nan),
        ended=spans[last, :, last].sum(1),
        low=of_words,
        entropies=of_steps,
        lexical=of_steps,
        structural=of_steps,
    )
