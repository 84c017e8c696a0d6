"""Protocols and preprocessing rules, from the code that applies them."""

from __future__ import annotations

from laboratory.pages.markdown import plain, table
from laboratory.pages.settings import settings_of, settings_table
from syntaxlm.trees.f1 import PROTOCOLS
from syntaxlm.trees.preprocessing import PREPROCESSINGS, GoldPreprocessing


def protocol_table() -> str:
    rows = (
        [
            f"`{protocol.name}`",
            "mean of the sentences' F1" if protocol.average == "sentence" else "F1 of the pooled counts",
            "dropped" if protocol.whole_sentence == "drop" else "kept",
            "skipped" if protocol.one_word == "skip" else protocol.one_word,
            "all" if protocol.max_words is None else f"up to {protocol.max_words} words",
        ]
        for protocol in PROTOCOLS.values()
    )
    return table(["protocol", "average", "whole-sentence span", "one-word sentences", "sentences"], rows)


def preprocessing_table() -> str:
    rows = ([f"`{rule.name}`", _kept_words(rule)] for rule in PREPROCESSINGS.values())
    return table(["rule", "words that are kept"], rows)


def preprocessing_settings() -> str:
    """The settings of a preprocessing file."""
    return settings_table(settings_of(GoldPreprocessing))


def _kept_words(rule: GoldPreprocessing) -> str:
    """The words that a rule keeps, in words."""
    conditions = []
    if rule.keep_tags is not None:
        conditions.append(f"with the tags {_listed(rule.keep_tags)}")
    if rule.drop_tags:
        conditions.append(f"without the tags {_listed(rule.drop_tags)}")
    if rule.punctuation == "unicode":
        conditions.append("with a letter or digit")
    kept = f"words {' and '.join(conditions)}" if conditions else "all words"
    if rule.drop_words:
        kept += f", except {_listed(rule.drop_words)}"
    if rule.function_before:
        kept += f" (the label of a constituent is the part after {_listed(rule.function_before)})"
    return kept


def _listed(names: frozenset[str] | str) -> str:
    """Names as code; a backtick among them needs longer fences."""
    return " ".join(f"`` {name} ``" if "`" in name else f"`{plain_pipe(name)}`" for name in sorted(names))


def plain_pipe(name: str) -> str:
    return plain(name) if "|" in name else name
