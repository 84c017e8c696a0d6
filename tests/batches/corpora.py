"""Corpora whose words encode their position, and comparison of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

from hypothesis import strategies as st
from torch import Tensor

from syntaxlm.data.corpora import EncodedCorpus
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


def plain(value: Any) -> Any:
    """Batches as lists and dictionaries, which compare equal if all their parts do."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, list):
        return list(map(plain, value))
    return {name: plain(part) for name, part in vars(value).items()} if is_dataclass(value) else value
