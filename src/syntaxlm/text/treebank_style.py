"""Raw English as treebanks write it: punctuation off the words, contractions in two.

For test sentences that are ordinary text ("The cat doesn't sleep.") where a model was trained on text of a treebank
("the cat does n't sleep"). What comes out is text again, for the model's own normaliser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from syntaxlm.errors import InputError
from syntaxlm.text.normaliser import split_words

Punctuation = Literal["keep", "split", "drop"]
Contractions = Literal["keep", "split"]

_OPENING = re.compile(r"[\"“”«(\[{¿¡]")
_CLOSING = re.compile(r"(?:\.{2,}|[\"“”»)\]},;:?!…])$")
_CONTRACTION = re.compile(r"(?i)(?<=[^\W\d_])(?:n['’]t|['’](?:s|re|ve|ll|d|m)|(?<=s)['’])$")
_CANNOT = re.compile(r"(?i)(can)(not)")


@dataclass(frozen=True)
class TreebankStyle:
    """What is done to a sentence before a model's normaliser reads it.

    punctuation: of both ends of a word: quotation marks, brackets, , ; : ? ! and two dots or more; and the full stop of
    the sentence's last word, unless the word has another (U.S.). `split`: each becomes a word of its own; `drop`: it
    goes. All other full stops are of abbreviations and stay, as hyphens and apostrophes do.
    contractions: `split`: n't, 's, 're, 've, 'll, 'd, 'm, and the apostrophe after a final s become words of their own,
    as in the Penn Treebank: does n't, ca n't, wo n't, it 's, the girls '; and cannot becomes can not.
    """

    punctuation: Punctuation = "keep"
    contractions: Contractions = "keep"

    def __post_init__(self) -> None:
        for name, choices in (("punctuation", get_args(Punctuation)), ("contractions", get_args(Contractions))):
            if getattr(self, name) not in choices:
                raise InputError(f"{name}: found {getattr(self, name)!r}; expected {' or '.join(choices)}")

    def __call__(self, sentence: str) -> str:
        """The sentence, its words separated by single spaces; as it is where nothing is to be done."""
        if self == TreebankStyle():
            return sentence
        words = split_words(sentence)
        return " ".join(part for place, word in enumerate(words, 1) for part in self._parts(word, place == len(words)))

    def __str__(self) -> str:
        shown = {"keep": "as written", "split": "split off", "drop": "dropped"}
        return f"punctuation {shown[self.punctuation]}, contractions {shown[self.contractions]}"

    def _parts(self, word: str, is_last: bool) -> list[str]:
        opening: list[str] = []
        closing: list[str] = []
        if self.punctuation != "keep":
            opening, word, closing = _without_punctuation(word, is_last)
            if self.punctuation == "drop":
                opening, closing = [], []
        core = _without_contractions(word) if self.contractions == "split" else [word]
        return [part for part in (*opening, *core, *closing) if part]


def _without_punctuation(word: str, is_last: bool) -> tuple[list[str], str, list[str]]:
    """Opening marks, what is between, closing marks."""
    opening: list[str] = []
    closing: list[str] = []
    while found := _OPENING.match(word):
        opening.append(found.group())
        word = word[found.end() :]
    while found := _CLOSING.search(word):
        closing.insert(0, found.group())
        word = word[: found.start()]
    if is_last and word.endswith(".") and "." not in word[:-1]:
        closing.insert(0, ".")
        word = word[:-1]
    return opening, word, closing


def _without_contractions(word: str) -> list[str]:
    if found := _CANNOT.fullmatch(word):
        return list(found.groups())
    ending: list[str] = []
    while found := _CONTRACTION.search(word):  # shouldn't've has two
        ending.insert(0, found.group().replace("’", "'"))
        word = word[: found.start()]
    return [word, *ending]
