"""The settings of a normaliser: how a line of text becomes the tokens of a model, as stored with the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from syntaxlm.core.errors import InputError, closest_match
from syntaxlm.core.settings import Bounds, Settings

Units = Literal["words", "characters", "tags"]
UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD", "keep"]
Splitting = Literal["whitespace", "punctuation"]
Numbers = Literal["keep", "whole", "runs"]
Token = Annotated[str, Bounds(min_length=1)]


@dataclass(frozen=True)
class NormaliserSettings(Settings, section="normaliser"):
    """The normalisation of text before a model reads it, in this order.

    1. Splitting. `whitespace`: at runs of white space as in str.split(), which includes no-break spaces, and at U+200B.
       `punctuation`: then, at both ends of every piece, characters of the Unicode categories P* and S* are split off,
       each run of the SAME character as one token ("..." is one token, `!?` is two). The rest remains one token, so
       inner apostrophes, hyphens and points are kept: `"don't!"` -> `" don't ! "`, but `Mr.` -> `Mr .`, `$5` -> `$ 5`.
       Markup of the form <unk> is never split.
    2. U+00AD, U+2060, U+FEFF and marks of the direction of writing, such as U+200E and U+200F, are removed; the Unicode
       form is applied; then lower case (and the form once more, because lower case can undo it); white space that a
       compatibility form adds inside a word is removed.
    3. Numbers. `whole`: a token made of digits and - + . , : / \\ % with at least one digit becomes N; so does a single
       %. This is the rule of Mikolov's Penn Treebank text: 3\\/4, 1989-90, 10:30 and % become N, but 30-year, 1980s and
       '86 do not. `runs`: every run of digits becomes N ("1,000" -> "N,N"), as in PRPN's and ON-LSTM's trees. If
       numbers are replaced, a token N in the text counts as a number, and lower case does not change it.
    4. With units `characters`, every piece is split into code points, with one `space` between pieces. A character is a
       code point, not a grapheme: under NFD, an accent is a separate token. A character of the text that equals `space`
       becomes another token (\\_ for _), so that different texts remain different. If `space` is None, white space is
       omitted, for scripts without spaces.
    5. Dropping: tokens in `drop_words`, or without letter, digit or combining mark. The `space` is never dropped.

    With units `tags`, text is `word_TAG` tokens separated by white space, and a model reads the tags (the text after
    the last underscore) unchanged: rules 1 to 3 do not apply, rule 5 does. The word may be empty: `_DT`.

    Attributes:
        units: what becomes a token; tags: the part-of-speech tags of tagged text (word_TAG) or of a treebank
        unicode_form: Unicode normal form (annex 15 of the standard); keep: text is not changed
        splitting: where words are split: at white space only, or also between a word and punctuation at its ends
        lower_case: whether text is lower-cased
        numbers: which numbers become N: none (keep), tokens that are numbers (whole), or every run of digits (runs)
        drop_words: tokens to leave out, such as $, written as they are after normalisation
        drop_punctuation: whether to leave out tokens that contain no letter, digit or combining mark
        space: with units characters, the token that stands for white space; null: white space is omitted
    """

    units: Units = "words"
    unicode_form: UnicodeForm = "NFC"
    splitting: Splitting = "whitespace"
    lower_case: bool = False
    numbers: Numbers = "keep"
    drop_words: tuple[str, ...] = ()
    drop_punctuation: bool = False
    space: Token | None = "_"

    def __post_init__(self) -> None:
        if isinstance(self.drop_words, list):  # JSON and YAML give lists; tuples keep the settings hashable
            object.__setattr__(self, "drop_words", tuple(self.drop_words))
        super().__post_init__()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> NormaliserSettings:
        """Return the inverse of `to_dict`.

        Raises:
            InputError: for an unknown setting.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                hint = closest_match(name, known, f"There are {', '.join(known)}.", "normaliser.")
                raise InputError(f"normaliser.{name}: no such setting. {hint}")
        return cls(**settings)
