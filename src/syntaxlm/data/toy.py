"""The built-in corpus: sentences sampled from the built-in grammar, written as text and as trees."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from syntaxlm.data.toy_grammar import english_fragment
from syntaxlm.files import make_folder, write_text
from syntaxlm.settings import LARGEST_SEED, check_number
from syntaxlm.trees import write_brackets, write_conllu


@dataclass(frozen=True)
class SplitSummary:
    """One split of a written corpus.  floor: the exact perplexity floor per token, None for the training split."""

    sentences: int
    words: int
    mean_length: float
    seed: int
    floor: float | None


@dataclass(frozen=True)
class CorpusSummary:
    """The summary of a written corpus; the content of floor.json.  seed: the argument of `write_corpus`."""

    seed: int
    vocabulary: int
    expected_length: float
    train: SplitSummary
    valid: SplitSummary
    test: SplitSummary


MOST_SENTENCES = 5_000_000  # limit for `write_corpus`, which holds all sentences in memory


def write_corpus(folder: str | Path, sentences: int = 20_000, seed: int = 0) -> CorpusSummary:
    """Write samples of the English fragment: train, valid and test, each as .txt, .mrg and .conllu; and floor.json.

    sentences: of train; valid and test have 5 % as many each, at least 1 and at most 2,000. The splits are independent
    samples, so a short sentence can occur in several. floor.json holds the returned summary; its perplexity floors are
    per token, count the end of each sentence as a token, and are exact for valid and test.
    Files are written atomically. Raises InputError for numbers out of range, and if the folder cannot be written.
    """
    check_number("sentences", sentences, 1, MOST_SENTENCES)
    check_number("seed", seed, 0, LARGEST_SEED)
    folder = Path(folder)
    make_folder(folder)
    grammar = english_fragment()
    held_out = min(2000, max(1, sentences // 20))
    splits: dict[str, SplitSummary] = {}
    for index, (name, count) in enumerate({"train": sentences, "valid": held_out, "test": held_out}.items()):
        own_seed = int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0])
        sample = grammar.sample(count, own_seed)
        write_text("".join(" ".join(sentence.words) + "\n" for sentence in sample), folder / f"{name}.txt")
        write_brackets([sentence.tree for sentence in sample], folder / f"{name}.mrg")
        named = (replace(sentence.dependencies, name=f"toy-{name}-{i}") for i, sentence in enumerate(sample, 1))
        write_conllu(named, folder / f"{name}.conllu")
        words = sum(len(sentence.words) for sentence in sample)
        floor = grammar.perplexity_floor([sentence.words for sentence in sample]) if name != "train" else None
        splits[name] = SplitSummary(count, words, words / count, own_seed, floor)
    summary = CorpusSummary(seed, len(grammar.vocabulary), grammar.expected_length(), **splits)
    write_text(json.dumps(asdict(summary), indent=2) + "\n", folder / "floor.json")
    return summary
