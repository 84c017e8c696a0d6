"""Names for induced symbols: the phrases of English grammars that their constituents resemble.

An induced symbol has a number. Its constituents are compared with the noun phrases, verb phrases and so on of the
built-in corpus, by how they begin and end and how long they are. No treebank is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache

from syntaxlm.data.toy import english_fragment

PHRASES = "NP", "VP", "PP", "S", "SBAR"
NOMINAL = "NOM"  # a noun phrase without its determiner
SAMPLED, SEED = 2_000, 0  # sentences of the built-in corpus
LEAST_AFFINITY = 0.7  # of a symbol and the phrase after which it is named, 0 to 1
LEAST_ENGLISH = 0.15  # share of words that are function words of English; below it nothing is named
_LENGTHS = 2, 3, 4, 6, 10  # longest constituents of each group of lengths
_ENDINGS = "ing", "ed", "s"

Profile = tuple[Counter[str], ...]  # of first words, of last words, of lengths


def phrase_names(examples: Mapping[int, Counter[tuple[str, ...]]]) -> dict[int, str]:
    """Return the name, such as NP, of each symbol that resembles a phrase.

    Args:
        examples: by symbol, its constituents with their frequencies. Symbols that resemble no phrase have no name, and
            none has one if the words are not English.
    """
    words: Counter[str] = Counter()
    for constituents in examples.values():
        for tokens, count in constituents.items():
            words.update(dict.fromkeys(tokens, count))
    known = sum(count for word, count in words.items() if word.lower() in _function_words())
    if known < LEAST_ENGLISH * max(1, words.total()):
        return {}
    names = {}
    for symbol, constituents in examples.items():
        profile = profile_of(constituents)
        affinities = {name: affinity(profile, other) for name, other in _profiles().items()}
        best = max(affinities, key=affinities.__getitem__)
        if affinities[best] >= LEAST_AFFINITY:
            names[symbol] = best
    return names


def profile_of(constituents: Mapping[tuple[str, ...], int]) -> Profile:
    """Return how often constituents begin with, end with and have which type of word and length."""
    counts: Profile = Counter(), Counter(), Counter()
    for words, count in constituents.items():
        length = next((str(longest) for longest in _LENGTHS if len(words) <= longest), "longer")
        for counter, value in zip(counts, (_type(words[0]), _type(words[-1]), length), strict=True):
            counter[value] += count
    return counts


def affinity(profile: Profile, other: Profile) -> float:
    """Return the geometric mean of the Bhattacharyya coefficients of two profiles' distributions, 0 to 1."""
    factors = [
        sum(math.sqrt(first[key] * second[key]) for key in first) / math.sqrt(max(1, first.total() * second.total()))
        for first, second in zip(profile, other, strict=True)
    ]
    return math.prod(factors) ** (1 / len(factors))


@cache
def _function_words() -> frozenset[str]:
    content = "Noun[", "Adj[", "Name[", "Verb["
    entries = english_fragment().lexicon.items()
    return frozenset(word for name, entry in entries if not name.startswith(content) for word in entry.words)


def _type(word: str) -> str:
    """Return a function word itself, and of other words the ending."""
    word = word.lower()
    if word in _function_words():
        return word
    return "-" + next((ending for ending in _ENDINGS if word.endswith(ending)), "")


@cache
def _profiles() -> dict[str, Profile]:
    counts: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in (*PHRASES, NOMINAL)}
    for sentence in english_fragment().sample(SAMPLED, SEED):
        for label, start, end in sentence.tree.constituents:
            if label in counts and end - start > 1:
                counts[label][sentence.words[start:end]] += 1
                if label == "NP" and end - start > 2 and sentence.tree.tags[start] in ("DT", "PRP$"):
                    counts[NOMINAL][sentence.words[start + 1 : end]] += 1
    return {name: profile_of(constituents) for name, constituents in counts.items()}
