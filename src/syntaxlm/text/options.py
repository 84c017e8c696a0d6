"""Options of reading text for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypedDict

from syntaxlm.core.declarations import Options

Punctuation = Literal["auto", "keep", "split", "drop"]
Contractions = Literal["auto", "keep", "split"]


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """How words are split before a model's normaliser reads them; by default as its vocabulary requires.

    See `TextReader.of` for `auto`, and `TreebankStyle` for the other choices.

    Raises InputError for other choices.

    Attributes:
        punctuation: Treat English punctuation marks at the ends of words in this way, before the model's normaliser.
            - `auto` (default): as the model's vocabulary requires
            - `keep`: as they are written
            - `split`: each mark becomes a word
            - `drop`: marks are removed
        contractions: Treat contractions such as n't, 's and 'll in this way.
            - `auto` (default): as the model's vocabulary requires
            - `keep`: as they are written
            - `split`: each becomes a separate word, as in treebanks
    """

    heading: ClassVar[str] = "Text"

    punctuation: Punctuation = "auto"
    contractions: Contractions = "auto"

    def __str__(self) -> str:
        shown = {"keep": "as written", "split": "split off", "drop": "dropped", "auto": "as the model requires"}
        return f"punctuation {shown[self.punctuation]}, contractions {shown[self.contractions]}"


class TextKeywords(TypedDict, total=False):
    """The options of `TextOptions` as keywords of a method, for type checkers."""

    punctuation: Punctuation
    contractions: Contractions


AS_WRITTEN: dict[str, Any] = {"punctuation": "keep", "contractions": "keep"}
"""Options for text that is tokenised like the model's training text."""
