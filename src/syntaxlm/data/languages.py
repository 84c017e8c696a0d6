"""Which language a text is in, and the words of it that show where sentences end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from syntaxlm.core.yaml_files import read_yaml

# Frequent English words. A text of some length is English if their share is above ENGLISH. The share is 0.22 to 0.24 in
# books and 0.19 in web text. In Spanish and Portuguese it is 0, and at most 0.05 in any 60 words.
_FREQUENT = frozenset(
    ["the", "and", "to", "it", "he", "she", "that", "with", "for", "his", "they", "this", "you", "not", "have", "from"]
)
ENGLISH = 0.08
OTHER_LANGUAGE = 0.15  # share of the function words of another language, above which a text of some length is in it
SHORT = 200  # words; a shorter text is English unless it has more function words of another language
CLEAR = 2  # function words of another language that a short text must have

_AROUND = "\"'([{‘“«„¿¡`)]}’”»,;:.!?…"


@dataclass(frozen=True)
class Language:
    """The words of a language that a splitter knows; `abbreviations.yaml` says what each set means."""

    name: str = ""
    function_words: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()
    before_numbers: frozenset[str] = frozenset()
    before_references: frozenset[str] = frozenset()
    never_last: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    starters: frozenset[str] = frozenset()
    before_initials: frozenset[str] = frozenset()
    before_ordinals: frozenset[str] = frozenset()


UNKNOWN = Language()


@cache
def languages() -> dict[str, Language]:
    """Return the languages of `abbreviations.yaml`, English first."""
    tables = read_yaml(Path(__file__).with_name("abbreviations.yaml"))
    return {
        name: Language(name, **{kind: frozenset(words.split()) for kind, words in sets.items()})
        for name, sets in tables.items()
    }


def language_of(words: Sequence[str]) -> Language:
    """Return the language of a text, judged by its share of function words; `UNKNOWN` if it has few of any language.

    A short text is English unless it is clearly of another language: it may have no function words at all.
    """
    counts = Counter(word.strip(_AROUND).lower() for word in words)
    english, *others = languages().values()
    found = {language.name: sum(counts[word] for word in language.function_words) for language in others}
    best = max(found, key=lambda name: found[name])
    if len(words) < SHORT:
        is_other = found[best] >= max(CLEAR, 1 + sum(counts[word] for word in english.function_words))
        return languages()[best] if is_other else english
    if sum(counts[word] for word in _FREQUENT) > ENGLISH * len(words):
        return english
    return languages()[best] if found[best] > OTHER_LANGUAGE * len(words) else UNKNOWN
