"""The tokens that a model knows, and their ids."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Flags
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import parse_json, read_stored, replaced, sha256
from syntaxlm.core.threads import publishing

IntegerArray = npt.NDArray[np.integer[Any]]

_FORMAT = "syntaxlm vocabulary 1"
_LONGEST_SUFFIX = 4  # characters
_SHORTEST_STEM = 2  # characters that a word has besides the suffix of its class
_WITH_DIGIT, _WITH_HYPHEN = "0", "-"  # classes of unknown words by shape; a suffix has letters only


class _Ids(dict[str, int]):
    """Ids of tokens; of an unknown word, the id of its class."""

    unknown_id: int
    classes: Mapping[str, int]

    def __missing__(self, token: str) -> int:
        if not self.classes:
            return self.unknown_id
        return next((self.classes[name] for name in _classes_of(token) if name in self.classes), self.unknown_id)


class Vocabulary:
    """Tokens in the order of their ids, from 0, including the three special tokens.

    A text cannot contain BOS or EOS: a word of a text that looks like one is unknown.
    Unknown words can have classes, which are tokens as well: <unk:ing> stands for unknown words that end in -ing (of
    several suffixes the longest counts), <unk:0> for those with a digit, <unk:-> for those with a hyphen, and <unk> for
    all others.

    Args:
        tokens: in the order of their ids.
        unknown: the token for words that are not in the vocabulary; a literal `unknown` in a text is this token, too.
        begin: BOS.
        end: EOS, which may be the same token as BOS ("<eos>").

    Raises:
        InputError: for a repeated or empty token, and if a special token is missing.
    """

    is_open: ClassVar[bool] = False  # whether every word is known; a model then reads text as it is written

    def __init__(self, tokens: Sequence[str], unknown: str = "<unk>", begin: str = "<s>", end: str = "</s>") -> None:
        self.tokens: Sequence[str] = tuple(tokens)
        self.unknown = unknown
        self.begin = begin
        self.end = end
        ids: dict[str, int] = {token: number for number, token in enumerate(self.tokens)}
        if len(ids) < len(self.tokens):
            twice = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise InputError(
                f"the vocabulary contains {len(twice)} tokens more than once, such as {twice[0]!r}; expected each token"
                " once"
            )
        if "" in ids:
            raise InputError(f"token {ids['']} of the vocabulary is empty; expected text")
        for role, token in (("unknown", unknown), ("begin", begin), ("end", end)):
            if token not in ids:
                raise InputError(
                    f"the vocabulary of {len(self.tokens)} tokens does not contain its {role} token {token!r}; expected"
                    " it among the tokens"
                )
        if unknown in (begin, end):
            raise InputError(
                f"the token {unknown!r} of the vocabulary is both the unknown token and BOS or EOS; expected different"
                " tokens"
            )
        self.unknown_id = ids[unknown]
        self.begin_id = ids[begin]
        self.end_id = ids[end]

        # Tokens such as <unk:ing> are classes of unknown words.
        before, after = _around_class(unknown)
        name_in = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL).fullmatch
        possible = [token for token in self.tokens if token.startswith(before)]
        classes = {name[1]: ids[token] for token in possible if (name := name_in(token))}
        self.unknown_ids: tuple[int, ...] = (self.unknown_id, *sorted(classes.values()))
        self._unknown = frozenset(self.unknown_ids)

        # A text cannot contain BOS and EOS: a word that looks like one is unknown.
        self._ids_in_text = _Ids(ids)
        for token in {begin, end}:
            del self._ids_in_text[token]
        self._ids_in_text.unknown_id = self.unknown_id
        self._ids_in_text.classes = classes

    @classmethod
    def build(
        cls,
        counts: Mapping[str, int],
        unknown: str = "<unk>",
        begin: str = "<s>",
        end: str = "</s>",
        minimum_count: int = 1,
        maximum_size: int | None = None,
        unknown_classes: int = 0,
    ) -> Vocabulary:
        """Return the vocabulary of a text.

        Special tokens come first, then classes of unknown words, then words by decreasing count, ties by code points.

        Args:
            counts: the frequency of each token in the text.
            unknown: the token for unknown words.
            begin: BOS.
            end: EOS.
            minimum_count: rarer tokens are omitted.
            maximum_size: of the whole vocabulary, including special tokens and classes; None for no limit.
            unknown_classes: number of suffixes that become classes of unknown words, besides the classes of words with
                a digit or a hyphen; 0: unknown words have no classes.
        """
        special = list(dict.fromkeys((unknown, begin, end)))
        shapes = [_WITH_DIGIT, _WITH_HYPHEN] if unknown_classes else []
        reserved = len(special) + len(shapes) + unknown_classes
        if maximum_size is not None and maximum_size < reserved:
            classes = f" and {unknown_classes} classes of unknown words" if unknown_classes else ""
            raise InputError(
                f"text.vocabulary.maximum_size: found {maximum_size}; expected at least {reserved}, for"
                f" {', '.join(special)}{classes}"
            )
        frequent = [token for token, count in counts.items() if count >= minimum_count and token not in special]
        frequent.sort(key=lambda token: (-counts[token], token))
        if maximum_size is not None:
            frequent = frequent[: maximum_size - reserved]
        if unknown_classes:
            known = {*frequent, *special}
            rare = {token: count for token, count in counts.items() if token not in known}
            names = [*shapes, *_frequent_suffixes(rare, unknown_classes)]
            before, after = _around_class(unknown)
            special += [before + name + after for name in names]
        return cls(special + frequent, unknown, begin, end)

    def fingerprint(self) -> str:
        """Return a hash of the tokens in their order and of the special tokens, as an identifier."""
        return sha256([json.dumps(self.to_dict()).encode()])

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.tokens, self.unknown, self.begin, self.end))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens, unknown={self.unknown!r}, begin={self.begin!r}, end={self.end!r})"

    def id(self, token: str) -> int:
        """Return the id of a token of a text. A token that is not in the vocabulary, or is BOS or EOS, has the id of
        its class of unknown words, or of `unknown`.
        """
        return self._ids_in_text[token]

    def knows(self, token: str) -> bool:
        """Return whether a token of a text is in the vocabulary."""
        return self._ids_in_text[token] not in self._unknown

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the `id` of every token. BOS and EOS are not added."""
        return list(map(self._ids_in_text.__getitem__, tokens))

    def is_unknown(self, ids: IntegerArray) -> Flags:
        """Return whether each id stands for unknown words.  ids, result: arrays of the same shape."""
        return np.isin(ids, self.unknown_ids)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens of ids, including special tokens. Raises ValueError for an id out of range."""
        tokens = []
        for number in ids:
            if not 0 <= number < len(self.tokens):
                raise ValueError(f"the vocabulary has ids 0 to {len(self.tokens) - 1}, not {number}")
            tokens.append(self.tokens[number])
        return tokens

    def to_dict(self) -> dict[str, Any]:
        """Return the vocabulary as JSON values."""
        return {"unknown": self.unknown, "begin": self.begin, "end": self.end, "tokens": list(self.tokens)}

    def write(self, path: str | Path) -> None:
        """Write as JSON, one token per line. The file is written atomically."""
        text = json.dumps({"format": _FORMAT, **self.to_dict()}, ensure_ascii=False, indent=0) + "\n"
        with replaced(Path(path), stored=True) as temporary:
            # A lone surrogate, which JSON can contain, is not UTF-8, but must be restored unchanged.
            temporary.write_bytes(text.encode("utf-8", "surrogatepass"))

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Read a file of `write`. Raises InputError, naming the file, for any other content."""
        try:
            text = read_stored(path).decode("utf-8-sig", "surrogatepass")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: damaged or cut short: {error}") from error
        content = parse_json(text, str(path))
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise InputError(f'{path}: not a vocabulary; expected the entry "format": "{_FORMAT}"')
        for name in ("unknown", "begin", "end"):
            if not isinstance(content.get(name), str):
                raise InputError(f"{path}: the entry {name!r} is {content.get(name)!r}; expected a token")
        tokens = content.get("tokens")
        if not isinstance(tokens, list) or not {str}.issuperset(map(type, tokens)):
            raise InputError(f"{path}: the entry 'tokens' is not a list of tokens")
        try:
            return cls(tokens, content["unknown"], content["begin"], content["end"])
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _around_class(unknown: str) -> tuple[str, str]:
    """Return the text before and after the name of a class of unknown words in its token: "<unk:", ">"."""
    return f"{unknown.removesuffix('>')}:", ">" * unknown.endswith(">")


def _classes_of(word: str) -> list[str]:
    """Return the names of the classes that a word can belong to, in order of preference: its longest suffix first."""
    if any(map(str.isdigit, word)):
        return [_WITH_DIGIT]
    if "-" in word[1:-1]:
        return [_WITH_HYPHEN]
    lengths = range(min(_LONGEST_SUFFIX, len(word) - _SHORTEST_STEM), 0, -1)
    return [word[-length:] for length in lengths if word[-length:].isalpha()]


def _frequent_suffixes(counts: Mapping[str, int], number: int) -> list[str]:
    """Return the suffixes that explain the most characters of a list of words, chosen one after the other.

    A word belongs to its longest chosen suffix.

    Args:
        counts: the frequency of each word.
        number: of suffixes.
    """
    suffixes = {word: _classes_of(word) for word in counts}
    suffixes = {word: names for word, names in suffixes.items() if names and names[0].isalpha()}
    with_suffix: dict[str, list[str]] = defaultdict(list)
    totals: Counter[str] = Counter()  # of each suffix, the frequency of the words that it would take
    for word, names in suffixes.items():
        for suffix in names:
            with_suffix[suffix].append(word)
            totals[suffix] += counts[word]

    # The best suffix takes its words from shorter ones. Longer ones keep them: they divide the class further.
    chosen: list[str] = []
    lengths: dict[str, int] = dict.fromkeys(suffixes, 0)  # of each word's longest chosen suffix
    while len(chosen) < number and totals:
        best = max(totals, key=lambda suffix: (len(suffix) * totals[suffix], suffix))
        chosen.append(best)
        del totals[best]
        for word in with_suffix[best]:
            for suffix in suffixes[word]:
                if suffix in totals and lengths[word] < len(suffix) < len(best):
                    totals[suffix] -= counts[word]
            lengths[word] = max(lengths[word], len(best))
    return chosen


class _NewIds(_Ids):
    """Ids of tokens; a new token gets the next id."""

    tokens: list[str]

    def __missing__(self, token: str) -> int:
        with publishing:
            if token not in self:  # another thread may just have added it
                self.tokens.append(token)
                self[token] = len(self.tokens) - 1  # only now: a thread that finds the id finds its token
            return self[token]


class OpenVocabulary(Vocabulary):
    """Gives every new word the next id, so that no word is unknown. It grows with the text that is encoded.

    For models that read words as strings and split them themselves. A word that looks like a special token is an
    ordinary word.
    """

    is_open = True

    def __init__(self, unknown: str = "<unk>", begin: str = "<s>", end: str = "</s>") -> None:
        super().__init__((unknown, begin, end), unknown, begin, end)
        self._ids_in_text = _NewIds()
        self.tokens = self._ids_in_text.tokens = list(self.tokens)

    def knows(self, token: str) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)
