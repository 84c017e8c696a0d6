"""Reads text that is tokenised: every string between white space is one token, whatever the normaliser would do."""

from __future__ import annotations

from collections.abc import Iterator

from syntaxlm.core.errors import InputError
from syntaxlm.text.normaliser import TAG_MARK, AlignedToken, Normaliser, split_tag, split_words, word_spans
from syntaxlm.text.reader import TextReader
from syntaxlm.text.vocabulary import Vocabulary


class PretokenisedReader(TextReader):
    """Reads each word of a line as one token, as the words of a treebank are read (`Normaliser.word`).

    A word that the normaliser would split is one token, and so is a word that it would drop: the model reads them as
    unknown words, unless the vocabulary has them. In tagged text, the token is the tag.

    Raises:
        InputError: for a character-level model.
    """

    def __init__(self, normaliser: Normaliser, vocabulary: Vocabulary) -> None:
        if normaliser.units == "characters":
            raise InputError(
                "pretokenised: the model reads characters, and a word has several; expected a model that reads words"
                " or tags"
            )
        super().__init__(normaliser, vocabulary)

    def tokens(self, line: str) -> list[str]:
        return [str(part.token) for part in self.align(line)]

    def token_parts(self, line: str) -> Iterator[list[str]]:
        return iter([self.tokens(line)])

    def written_length(self, line: str) -> int:
        return len(" ".join(split_words(line)))

    def align(self, line: str) -> list[AlignedToken]:
        parts: list[AlignedToken] = []
        for start, end in word_spans(line):
            (part,) = self._parts_of_word(line[start:end])
            parts.append(AlignedToken(part.written, start + part.start, start + part.end, part.token))
        return parts

    def without_splitting(self) -> TextReader:
        return self

    def _parts_of_word(self, word: str, *_: bool) -> list[AlignedToken]:
        if self.normaliser.units != "tags":
            return [AlignedToken(word, 0, len(word), self.normaliser.word(word))]
        written, tag = split_tag(word)
        start = 0 if written else len(TAG_MARK)
        end = len(written) if written else len(word)
        return [AlignedToken(word[start:end], start, end, tag)]
