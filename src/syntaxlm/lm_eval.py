"""The model `syntaxlm` of EleutherAI's lm-evaluation-harness: models of syntaxlm in its tasks.

    python -m syntaxlm.lm_eval run --model syntaxlm --model_args pretrained=en --tasks blimp

A text without a context is read as in `syntaxlm evaluate pairs`: as one sentence from an empty state, whose end counts
if the model predicts it. Decisions on minimal pairs are therefore the same. After a context, only the words of the
continuation count. Generation tasks are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from syntaxlm.api.model import load
from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.abilities import PredictsNextToken
from syntaxlm.scoring.engine import LogProbs, Scorer
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.reader import TextReader

_DEFAULT_DEVICE = "cuda:0"  # of the harness, on every machine


@register_model("syntaxlm")
class SyntaxLM(LM):
    """A model of syntaxlm, for the harness.

    Args:
        pretrained: any name that `syntaxlm.load` takes.
        device: see `syntaxlm.load`; without a CUDA device, the harness's default means "auto".
        punctuation: how punctuation is split off before the model reads the words, see `TextOptions`.
        contractions: how contractions are split.
        batch_size: ignored, because batches are chosen by length.
        max_batch_size: ignored.
    """

    def __init__(
        self,
        pretrained: str | Path,
        device: str | None = None,
        punctuation: Punctuation = "auto",
        contractions: Contractions = "auto",
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        has_device = device != _DEFAULT_DEVICE or torch.cuda.is_available()
        self.language_model = load(pretrained, device if device and has_device else "auto")
        self.style = TextOptions(punctuation=punctuation, contractions=contractions)
        self._reader = TextReader.of(self.language_model.normaliser, self.language_model.vocabulary, self.style)
        self._has_ranks = isinstance(self.language_model.model, PredictsNextToken)
        if not self._has_ranks:
            warnings.warn(
                f"{pretrained}: a {self.language_model.name} model does not predict the next token, so is_greedy is"
                " false for every request; accuracies of multiple-choice tasks do not depend on it",
                InputWarning,
                stacklevel=2,
            )

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return the log-probability of each continuation, in nats, and whether its words are the most probable ones.

        Args:
            requests: with `args`: a context, which may be empty, and its continuation.
            disable_tqdm: ignored.
        """
        read = [self._read(*request.args) for request in requests]
        for request, (_, words) in zip(requests, read, strict=True):
            if not words:
                raise InputError(f"continuation: {request.args[1]!r} has no words that the model reads")

        whole = [number for number, (context, _) in enumerate(read) if not context]
        continued = [number for number, (context, _) in enumerate(read) if context]
        answers = dict(zip(whole, self._whole([read[number][1] for number in whole]), strict=True))
        answers |= zip(continued, self._continued([read[number] for number in continued]), strict=True)
        return [answers[number] for number in range(len(read))]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Return the log-probability of each text, in nats, whose lines are read as by `LanguageModel.perplexity`.

        Args:
            requests: with `args`: a text.
            disable_tqdm: ignored.
        """
        texts = [[line for line in request.args[0].splitlines() if self._reader.tokens(line)] for request in requests]
        return [-self.language_model.perplexity(lines, **vars(self.style)).nats if lines else 0.0 for lines in texts]

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> NoReturn:
        """Raise InputError: these tasks compare text as it is written, and the models write normalised words."""
        raise InputError(
            "generate_until: models of syntaxlm write normalised words, not text; expected tasks of the types"
            " multiple_choice, loglikelihood or loglikelihood_rolling"
        )

    def _read(self, context: str, continuation: str) -> tuple[list[str], list[str]]:
        """Return the tokens of a context and of its continuation, in which white space between them is a token, too."""
        before, words = self._reader.tokens(context), self._reader.tokens(continuation)
        space = self._reader.normaliser.space
        is_separate = context[-1:].isspace() or continuation[:1].isspace()
        if before and words and is_separate and space is not None:
            words.insert(0, space)
        return before, words

    def _whole(self, sentences: list[list[str]]) -> Iterator[tuple[float, bool]]:
        """Score sentences, with their ends if these are predicted."""
        log_probs = Scorer.of(self.language_model).sentences(sentences).tolist()

        # Ranks take several times longer than probabilities. Few sentences begin with the most probable word.
        greedy: set[tuple[str, ...]] = set()
        if self._has_ranks:
            starts = [[start] for start in dict.fromkeys(words[0] for words in sentences)]
            best = {start for (start,), (_, ranks) in zip(starts, self._tokens(starts), strict=True) if ranks[0] == 1}
            candidates = [words for words in sentences if words[0] in best]
            scored = zip(candidates, self._tokens(candidates), strict=True)
            greedy = {tuple(words) for words, (_, ranks) in scored if (ranks == 1).all()}
        return ((log_prob, tuple(words) in greedy) for log_prob, words in zip(log_probs, sentences, strict=True))

    def _continued(self, read: list[tuple[list[str], list[str]]]) -> Iterator[tuple[float, bool]]:
        """Score the words after contexts, without the ends of sentences."""
        for (context, words), (log_probs, ranks) in zip(read, self._tokens([c + w for c, w in read]), strict=True):
            scored = slice(len(context), len(context) + len(words))
            yield float(log_probs[scored].sum()), self._has_ranks and bool((ranks[scored] == 1).all())

    def _tokens(self, sentences: list[list[str]]) -> Iterator[tuple[LogProbs, Integers]]:
        """Yield the log-probability and the rank of each token of each sentence, and of its end if it is predicted."""
        if not sentences:
            return
        mode = replace(self.language_model.mode, carry_state=False)
        encode = self.language_model.vocabulary.encode
        corpus = EncodedCorpus.from_sentences([encode(words) for words in sentences])
        scorer = Scorer.of(self.language_model, mode)
        parts = list(scorer.tokens(corpus, best=0 if self._has_ranks else None))
        log_probs = np.concatenate([part.log_probs.double().cpu().numpy() for part in parts])
        predictions = [part.predictions for part in parts if part.predictions]
        ranks = np.concatenate([np.zeros(0, np.int64), *(part.rank.cpu().numpy() for part in predictions)])
        ends = np.cumsum(corpus.lengths + int(mode.predict_eos))
        for first, end in pairwise([0, *ends.tolist()]):
            yield log_probs[first:end], ranks[first:end]


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
