"""Parts of a corpus that are scored together: some sentences at a time, and repeated sentences once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from syntaxlm.core.arrays import Integers
from syntaxlm.data.corpora import EncodedCorpus


def numbered_corpus(sentences: Sequence[tuple[int, Sequence[int]]]) -> EncodedCorpus:
    """Return the sentences with these numbers as a corpus."""
    corpus = EncodedCorpus.from_sentences([sentence for _, sentence in sentences])
    corpus.line_numbers = np.array([number for number, _ in sentences], np.int64)
    return corpus


def parts_of(corpus: EncodedCorpus, tokens: int) -> Iterator[EncodedCorpus]:
    """Yield the corpus in parts of whole sentences, of at most `tokens` tokens with their ends, or of one sentence."""

    def start(sentence: int) -> int:  # one at a time: offsets may be on disk and are never all in memory
        return int(corpus.offsets[sentence]) + sentence

    first = 0
    while first < len(corpus):
        end = bisect_right(range(len(corpus) + 1), start(first) + tokens, key=start)
        last = max(first + 1, end - 1)
        offsets = np.asarray(corpus.offsets[first : last + 1])
        yield EncodedCorpus(corpus.ids[offsets[0] : offsets[-1]], offsets - offsets[0], corpus.line_numbers[first:last])
        first = last


def distinct_sentences(corpus: EncodedCorpus) -> tuple[EncodedCorpus, Integers]:
    """Return the distinct sentences of a corpus, and for each sentence its index among them.

    Scoring repeated sentences once saves time and keeps ties: rounding differs between batches.
    """
    ids = np.asarray(corpus.ids)
    offsets = np.asarray(corpus.offsets)
    places: dict[bytes, int] = {}
    index = np.empty(len(corpus), np.int64)
    for number in range(len(corpus)):
        key = ids[offsets[number] : offsets[number + 1]].tobytes()
        index[number] = places.setdefault(key, len(places))
    if len(places) == len(corpus):
        return corpus, index
    firsts = np.unique(index, return_index=True)[1]
    numbered = [
        (int(corpus.line_numbers[first]), ids[offsets[first] : offsets[first + 1]].tolist()) for first in firsts
    ]
    return numbered_corpus(numbered), index
