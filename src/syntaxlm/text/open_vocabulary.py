"""A vocabulary without unknown words, for models that read words as strings and split them themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from syntaxlm.text.vocabulary import Vocabulary


class OpenVocabulary(Vocabulary):
    """Gives every new word the next id, so that no word is unknown. It grows with the text that is encoded.

    A word that looks like a special token is an ordinary word.
    """

    is_open = True

    def __init__(self, unknown: str = "<unk>", begin: str = "<s>", end: str = "</s>") -> None:
        super().__init__((unknown, begin, end), unknown, begin, end)
        self._words = list(self.tokens)
        self.tokens = self._words
        self._ids_in_text.clear()

    def id(self, token: str) -> int:
        found = self._ids_in_text.get(token)
        if found is None:
            found = self._ids_in_text[token] = len(self._words)
            self._words.append(token)
        return found

    def knows(self, token: str) -> bool:
        return True

    def encode(self, tokens: Iterable[str]) -> list[int]:
        return list(map(self.id, tokens))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenVocabulary, (self.unknown, self.begin, self.end), {"words": self._words[3:]}

    def __setstate__(self, state: dict[str, list[str]]) -> None:
        self.encode(state["words"])
