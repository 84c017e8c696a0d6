"""The surprisal of every word of a text, -log2 p(word | all before it), beside the word as it was written.

A model predicts tokens; people read words. A row is what white space parts in the original text, and where the
normaliser makes several tokens of it ("dog." read as "dog" and ".") their surprisals are added, which is the surprisal
of the word by the chain rule. Of a character-level model, a row is a character. So the rows of a sentence, its end
included, add up to its log-probability.
"""

from __future__ import annotations

import math
from collections import Counter
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
from syntaxlm.text.reader import AS_TOKENISED, AUTO_STYLE, TextReader
from syntaxlm.text.treebank_style import TreebankStyle

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


def written_words(reader: TextReader | Normaliser, line: str) -> list[WrittenWord]:
    """The words of a line, separated by white space; in character units its characters, white space included."""
    normaliser = reader.normaliser if isinstance(reader, TextReader) else reader
    in_characters = normaliser.units == "characters"
    words: list[WrittenWord] = []
    for _, begin, end, token in reader.align(line):
        tokens = () if token is None else (token,)
        before = words[-1] if words else None
        # Tokens of one character share its place; parts of one word touch, as words never do.
        if before and ((begin, end) == before[:2] if in_characters else begin <= before.end):
            words[-1] = WrittenWord(before.begin, end, before.tokens + tokens)
        else:
            words.append(WrittenWord(begin, end, tokens))
    return words


def surprisals(
    stored: ModelBundle,
    lines: Iterable[str],
    context: Context | None = None,
    style: TreebankStyle = AS_TOKENISED,
) -> Iterator[list[WordSurprisal]]:
    """The words of each line of text, a sentence each, with their surprisal; the last row is the sentence's end,
    where the model predicts it.

    lines: taken some thousand at a time. A line without a token has no end, and one without a word no row.
    context: "reset" reads each sentence by itself; "carry" reads all as one stream, each sentence after those before
    it; None: as the model was trained. An InputWarning is raised where a model of single sentences carries its state.
    style: how words are split before the model's normaliser reads them, see `TextReader.of`; AUTO_STYLE for text as
    people write it. A row stays a word as written, and has the sum of its tokens' surprisals.
    """
    if isinstance(lines, str):
        raise TypeError("surprisals takes lines, not one string")
    trained = stored.mode
    carry = trained.carry_state if context is None else context == "carry"
    reader = TextReader.of(stored.normaliser, stored.vocabulary, style)
    scorer = Scorer.of(stored, TextMode(carry, trained.predict_eos))
    if carry:
        stream = scorer.stream()
        return _rows(stored, reader, iter(lines), stream.read, trained.predict_eos)

    def read(corpus: EncodedCorpus) -> ScoredTokens:
        parts = list(scorer.tokens(corpus))
        return ScoredTokens(*(torch.cat([getattr(p, name) for p in parts]) for name in ("tokens", "log_probs")))

    return _rows(stored, reader, iter(lines), read, trained.predict_eos)


def _rows(
    stored: ModelBundle,
    reader: TextReader,
    lines: Iterator[str],
    read: Callable[[EncodedCorpus], ScoredTokens],
    ends: bool,
) -> Iterator[list[WordSurprisal]]:
    """read: scores every token, sentence after sentence.  ends: whether the ends of sentences are among them."""
    first = 1
    while chunk := list(islice(lines, LINES_TOGETHER)):
        words = []
        for number, line in enumerate(chunk, first):
            try:
                words.append(written_words(reader, line))
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


MANY_UNKNOWN = 0.1  # of the words; more are explained
EXAMPLES = 5  # of unknown words
REMEMBERED_UNKNOWN = 100_000  # different ones


class UnknownWords:
    """Counts the words of rows that a model does not know, and reports their share and a way to reduce it."""

    def __init__(self, stored: ModelBundle, style: TreebankStyle = AS_TOKENISED) -> None:
        """style: the one that the rows were read with."""
        self._reader = TextReader.of(stored.normaliser, stored.vocabulary, style)
        self._auto = TextReader.of(stored.normaliser, stored.vocabulary, AUTO_STYLE)
        self.words = 0  # that the model read, ends of sentences excluded
        self.not_read = 0  # words and marks that were dropped
        self.unknown: Counter[str] = Counter()
        self.unknown_count = 0

    @property
    def share(self) -> float:
        return self.unknown_count / self.words if self.words else 0.0

    def add(self, rows: Iterable[WordSurprisal]) -> None:
        for row in rows:
            if row.in_vocabulary is None:
                self.not_read += 1
            elif row.word:
                self.words += 1
                if not row.in_vocabulary:
                    self.unknown_count += 1
                    if row.word in self.unknown or len(self.unknown) < REMEMBERED_UNKNOWN:
                        self.unknown[row.word] += 1

    def __str__(self) -> str:
        """One line: "120 words, 3 unknown (2.5%)", and what to do about a large share."""
        units = "characters" if self._reader.normaliser.units == "characters" else "words"
        text = f"{self.words:,} {units}, {self.unknown_count:,} unknown ({self.share:.1%})"
        if self.not_read:
            text += f", {self.not_read:,} not read"
        return f"{text}. {self._advice()}" if self.share > MANY_UNKNOWN else text

    def _advice(self) -> str:
        for word, _ in self.unknown.most_common():
            parts = [part for part in self._auto.align(word) if part.token is not None]
            known = " ".join(part.written for part in parts if self._auto.vocabulary.knows(str(part.token)))
            is_known = bool(parts) and all(self._auto.vocabulary.knows(str(part.token)) for part in parts)
            if is_known and not all(map(self._reader.vocabulary.knows, self._reader.tokens(word))):
                read_as = " ".join(str(part.token) for part in parts)
                shown = f"{known!r} is known" if known != word else f"{read_as!r} is known"
                return f"{word!r} is unknown, but {shown}: use --punctuation auto --contractions auto"
        examples = ", ".join(word for word, _ in self.unknown.most_common(EXAMPLES))
        return (
            f"Most frequent: {examples}. The surprisal of an unknown word says little about it; expected text like the"
            " model's training text"
        )


def _bits(log_probs: Tensor) -> Bits:
    """Surprisals from natural log-probabilities; never -0."""
    return 0.0 - log_probs.double().cpu().numpy() / math.log(2)
