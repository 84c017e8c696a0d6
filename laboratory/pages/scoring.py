"""Protocols and preprocessing rules, from the code that applies them."""

from __future__ import annotations

from laboratory.pages.markdown import plain, table
from laboratory.pages.settings import Setting, settings_of, settings_table
from syntaxlm.trees.f1 import PROTOCOLS
from syntaxlm.trees.preprocessing import PREPROCESSINGS, GoldPreprocessing


def protocol_table() -> str:
    rows = (
        [
            f"`{one.name}`",
            "mean of the sentences' F1" if one.average == "sentence" else "F1 of the pooled counts",
            "dropped" if one.whole_sentence == "drop" else "kept",
            "skipped" if one.one_word == "skip" else one.one_word,
            "all" if one.max_words is None else f"up to {one.max_words} words",
        ]
        for one in PROTOCOLS.values()
    )
    return table(["protocol", "average", "whole-sentence span", "one-word sentences", "sentences"], rows)


def preprocessing_table() -> str:
    return table(["rule", "words that are kept"], ([f"`{one.name}`", _rule(one)] for one in PREPROCESSINGS.values()))


def preprocessing_settings() -> str:
    """The settings of a preprocessing file."""
    return settings_table(one for one in _preprocessing_settings())


def _preprocessing_settings() -> list[Setting]:
    return list(settings_of(GoldPreprocessing))


def _rule(one: GoldPreprocessing) -> str:
    parts = []
    if one.keep_tags is not None:
        parts.append(f"with the tags {_listed(one.keep_tags)}")
    if one.drop_tags:
        parts.append(f"without the tags {_listed(one.drop_tags)}")
    if one.punctuation == "unicode":
        parts.append("with a letter or digit")
    kept = f"words {' and '.join(parts)}" if parts else "all words"
    if one.drop_words:
        kept += f", except {_listed(one.drop_words)}"
    if one.function_before:
        kept += f" (the label of a constituent is the part after {_listed(one.function_before)})"
    return kept


def _listed(names: frozenset[str] | str) -> str:
    """Names as code; a backtick among them needs longer fences."""
    return " ".join(f"`` {name} ``" if "`" in name else f"`{plain_pipe(name)}`" for name in sorted(names))


def plain_pipe(name: str) -> str:
    return plain(name) if "|" in name else name
