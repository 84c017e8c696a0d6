"""Corpora whose words encode their position, and comparison of batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.batches import TokenBatch
from syntaxlm.text.vocabulary import Vocabulary

WORDS = 300
VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(WORDS))])
ONE_MARK = Vocabulary(["<unk>", "<eos>", *(f"w{number}" for number in range(WORDS + 1))], begin="<eos>", end="<eos>")

LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=25)


def corpus_of(lengths: Sequence[int]) -> EncodedCorpus:
    """Sentences of these lengths; all words differ, so that a word identifies its position."""
    word = iter(range(3, 10_000))
    return EncodedCorpus.from_sentences([[next(word) for _ in range(length)] for length in lengths])


def stream_of(corpus: EncodedCorpus, vocabulary: Vocabulary) -> list[int]:
    """All tokens, with EOS after each sentence."""
    return [word for number in range(len(corpus)) for word in [*corpus.sentence(number), vocabulary.end_id]]


def assert_same(found: Sequence[TokenBatch], expected: Sequence[TokenBatch]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(one.targets, other.targets)
        assert torch.equal(one.mask(), other.mask())
        assert one.carries == other.carries
        assert (one.indices is None) == (other.indices is None)
        assert one.indices is None or torch.equal(one.indices, other.indices)
