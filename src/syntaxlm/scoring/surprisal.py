"""The surprisal of every word of a text, -log2 p(word | all before it), beside the word as it was written.

A model predicts tokens; people read words. A row is what white space parts in the original text, and where the
normaliser makes several tokens of it ("dog." read as "dog" and ".") their surprisals are added, which is the surprisal
of the word by the chain rule. Of a character-level model, a row is a character. So the rows of a sentence, its end
included, add up to its log-probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.batches import TextMode
from syntaxlm.scoring.engine import ScoredTokens, Scorer
from syntaxlm.text.normaliser import Normaliser, UntaggedTokenError

LINES_TOGETHER = 2000  # few enough for memory and for early output, enough for batches of like length

Context = Literal["reset", "carry"]
Bits = npt.NDArray[np.float64]


class WordSurprisal(NamedTuple):
    """One word of a text, as written and as read.

    sentence: which line of the text, 1 first.  position: which word of it, 1 first.
    word: line[begin:end], "" for the end of the sentence.  begin, end: code points of the line as it was written.
    token: what the model read; several are joined by a space; "" where the normaliser dropped the word.
    in_vocabulary: whether the model knows all of it; None where dropped.
    surprisal: bits; None where dropped.
    """

    sentence: int
    position: int
    word: str
    begin: int
    end: int
    token: str
    in_vocabulary: bool | None
    surprisal: float | None

    def to_dict(self) -> dict[str, Any]:
        bits = None if self.surprisal is None else round(self.surprisal, 6)
        return self._asdict() | {"surprisal": bits}


class WrittenWord(NamedTuple):
    """A stretch of a line, line[begin:end], and the tokens read of it, none where it was dropped."""

    begin: int
    end: int
    tokens: tuple[str, ...]


def written_words(normaliser: Normaliser, line: str) -> list[WrittenWord]:
    """The words of a line, separated by white space; in character units its characters, white space included."""
    in_characters = normaliser.units == "characters"
    words: list[WrittenWord] = []
    for _, begin, end, token in normaliser.align(line):
        tokens = () if token is None else (token,)
        before = words[-1] if words else None
        # Tokens of one character share its place; parts of one word touch, as words never do.
        if before and ((begin, end) == before[:2] if in_characters else begin <= before.end):
            words[-1] = WrittenWord(before.begin, end, before.tokens + tokens)
        else:
            words.append(WrittenWord(begin, end, tokens))
    return words


def surprisals(
    stored: ModelBundle, lines: Iterable[str], context: Context | None = None
) -> Iterator[list[WordSurprisal]]:
    """The words of each line of raw text, a sentence each, with their surprisal; the last row is the sentence's end,
    where the model predicts it.

    lines: taken some thousand at a time. A line without a token has no end, and one without a word no row.
    context: "reset" reads each sentence by itself; "carry" reads all as one stream, each sentence after those before
    it; None: as the model was trained.
    """
    if isinstance(lines, str):
        raise TypeError("surprisals takes lines, not one string")
    trained = stored.mode
    carry = trained.carry_state if context is None else context == "carry"
    scorer = Scorer.of(stored, TextMode(carry, trained.predict_eos))
    if carry:
        stream = scorer.stream()
        return _rows(stored, iter(lines), stream.read, trained.predict_eos)

    def read(corpus: EncodedCorpus) -> ScoredTokens:
        parts = list(scorer.tokens(corpus))
        return ScoredTokens(*(torch.cat([getattr(p, name) for p in parts]) for name in ("tokens", "log_probs")))

    return _rows(stored, iter(lines), read, trained.predict_eos)


def _rows(
    stored: ModelBundle, lines: Iterator[str], read: Callable[[EncodedCorpus], ScoredTokens], ends: bool
) -> Iterator[list[WordSurprisal]]:
    """read: scores every token, sentence after sentence.  ends: whether the ends of sentences are among them."""
    first = 1
    while chunk := list(islice(lines, LINES_TOGETHER)):
        words = []
        for number, line in enumerate(chunk, first):
            try:
                words.append(written_words(stored.normaliser, line))
            except UntaggedTokenError as error:
                raise error.at(f"sentence {number}") from None
        ids = [stored.vocabulary.encode(token for word in line for token in word.tokens) for line in words]
        full = [sentence for sentence in ids if sentence]
        bits = _bits(read(EncodedCorpus.from_sentences(full)).log_probs) if full else np.zeros(0)
        end = 0
        for number, (line, line_words, line_ids) in enumerate(zip(chunk, words, ids, strict=True), first):
            begin, end = end, end + (len(line_ids) + ends if line_ids else 0)
            yield _sentence_rows(stored, number, line, line_words, line_ids, bits[begin:end].tolist())
        first += len(chunk)


def _sentence_rows(
    stored: ModelBundle, number: int, line: str, words: Sequence[WrittenWord], ids: list[int], bits: list[float]
) -> list[WordSurprisal]:
    """ids: of the sentence's tokens; bits: theirs and, where it is predicted, the end's; none without tokens."""
    vocabulary = stored.vocabulary
    rows = []
    first = 0
    for position, (begin, end, tokens) in enumerate(words, 1):
        written = line[begin:end]
        last = first + len(tokens)
        if tokens:
            read = ids[first:last]
            known = vocabulary.unknown_id not in read
            token = " ".join(vocabulary.tokens[number] for number in read)
            rows.append(WordSurprisal(number, position, written, begin, end, token, known, sum(bits[first:last])))
        else:
            rows.append(WordSurprisal(number, position, written, begin, end, "", None, None))
        first = last
    if len(bits) > len(ids):
        rows.append(WordSurprisal(number, len(words) + 1, "", len(line), len(line), vocabulary.end, True, bits[-1]))
    return rows


def _bits(log_probs: Tensor) -> Bits:
    """Surprisals from natural log-probabilities; never -0."""
    return 0.0 - log_probs.double().cpu().numpy() / math.log(2)
