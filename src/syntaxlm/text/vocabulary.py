"""The tokens that a model knows, and their ids."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar

from syntaxlm.errors import InputError
from syntaxlm.files import parse_json, read_stored, replaced

_FORMAT = "syntaxlm vocabulary 1"


class Vocabulary:
    """Tokens in the order of their ids, from 0, including the three special tokens.

    unknown: the token for words that are not in the vocabulary; a literal `unknown` in a text is this token, too.
    begin, end: BOS and EOS. They may be the same token ("<eos>").
    A text cannot contain BOS or EOS: a word of a text that looks like one is unknown.
    Raises InputError for a repeated or empty token, and if a special token is missing.
    """

    is_open: ClassVar[bool] = False  # whether every word is known; a model then reads text as it is written

    def __init__(self, tokens: Sequence[str], unknown: str = "<unk>", begin: str = "<s>", end: str = "</s>") -> None:
        self.tokens: Sequence[str] = tuple(tokens)
        self.unknown, self.begin, self.end = unknown, begin, end
        ids: dict[str, int] = {token: number for number, token in enumerate(self.tokens)}
        self._check(ids)
        self.unknown_id, self.begin_id, self.end_id = ids[unknown], ids[begin], ids[end]
        self._ids_in_text = {token: number for token, number in ids.items() if token not in (begin, end)}

    def _check(self, ids: Mapping[str, int]) -> None:
        if len(ids) < len(self.tokens):
            twice = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise InputError(f"the vocabulary contains {len(twice)} tokens more than once; the first is {twice[0]!r}")
        if "" in ids:
            raise InputError(f"token {ids['']} of the vocabulary is empty")
        for role, token in (("unknown", self.unknown), ("begin", self.begin), ("end", self.end)):
            if token not in ids:
                raise InputError(f"the vocabulary of {len(self.tokens)} tokens lacks its {role} token {token!r}")
        if self.unknown in (self.begin, self.end):
            raise InputError(f"the token {self.unknown!r} of the vocabulary is both unknown and begin or end")

    @classmethod
    def build(
        cls,
        counts: Mapping[str, int],
        unknown: str = "<unk>",
        begin: str = "<s>",
        end: str = "</s>",
        minimum_count: int = 1,
        maximum_size: int | None = None,
    ) -> Vocabulary:
        """The vocabulary of a text: special tokens first, then by decreasing count, ties by code points.

        counts: the frequency of each token in the text.  minimum_count: rarer tokens are omitted.
        maximum_size: of the whole vocabulary, including special tokens; None for no limit.
        """
        special = list(dict.fromkeys((unknown, begin, end)))
        if maximum_size is not None and maximum_size < len(special):
            raise InputError(f"a vocabulary of {maximum_size} tokens is too small for {', '.join(special)}")
        frequent = [token for token, count in counts.items() if count >= minimum_count and token not in special]
        frequent.sort(key=lambda token: (-counts[token], token))
        most = None if maximum_size is None else maximum_size - len(special)
        return cls(special + frequent[:most], unknown, begin, end)

    def fingerprint(self) -> str:
        """A hash of the tokens in their order and of the special tokens, as an identifier."""
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.tokens, self.unknown, self.begin, self.end))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens, unknown={self.unknown!r}, begin={self.begin!r}, end={self.end!r})"

    def id(self, token: str) -> int:
        """The id of a token of a text: that of `unknown` if the token is not in the vocabulary, or is BOS or EOS."""
        return self._ids_in_text.get(token, self.unknown_id)

    def knows(self, token: str) -> bool:
        """Whether a token of a text is in the vocabulary."""
        return self.id(token) != self.unknown_id

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The `id` of every token. BOS and EOS are not added."""
        return list(map(self._ids_in_text.get, tokens, repeat(self.unknown_id)))

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids, including special tokens. Raises ValueError for an id out of range."""
        tokens = []
        for number in ids:
            if not 0 <= number < len(self.tokens):
                raise ValueError(f"the vocabulary has ids 0 to {len(self.tokens) - 1}, not {number}")
            tokens.append(self.tokens[number])
        return tokens

    def to_dict(self) -> dict[str, Any]:
        """The vocabulary as JSON values."""
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
            raise InputError(f'{path}: not a vocabulary: expected the entry "format": "{_FORMAT}"')
        for name in ("unknown", "begin", "end"):
            if not isinstance(content.get(name), str):
                raise InputError(f"{path}: the entry {name!r} is {content.get(name)!r}; expected a token")
        tokens = content.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise InputError(f"{path}: the entry 'tokens' is not a list of tokens")
        try:
            return cls(tokens, content["unknown"], content["begin"], content["end"])
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
