"""Evidence for the form of bracketed text: with or without labels, with escaped parentheses, or another format."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from syntaxlm.trees.bracket_tokens import ATOM, SPACE

LABEL_LIKE = 0.5  # smallest share of labels that look like labels
OVERLAP = 0.1  # largest share of words that also are labels, for labels that are recognised by their recurrence
LABEL_LIKE_OVERLAP = 0.3  # the same for labels that look like labels

# Labels of phrases in lower case, in treebanks of Romance languages and others. Tags are recognised by recurrence.
_LOWER_CASE = frozenset(
    [
        *("s", "sn", "sp", "sv", "sa", "np", "vp", "pp", "ap", "adjp", "advp", "cp", "ip", "dp", "fcl", "icl", "acl"),
        *("grup", "gv", "gn", "spec", "espec", "root", "top", "nn", "vb", "dt", "jj"),
    ]
)
_FUNCTION = re.compile(r"(?<=.)[-=+.|;^:*\d].*", re.DOTALL)
_POSITION = re.compile(r"(\d+)=.+", re.DOTALL)

_ESCAPED = re.compile(r"\\([()])")
_AS_WORDS = (re.compile(rf"\((?:-LRB-|\(){SPACE}+\(\)"), re.compile(rf"\((?:-RRB-|\)){SPACE}+\)\)"))
_WITH_ANY_TAG = re.compile(rf"\(({ATOM}+){SPACE}+\(\)")
_WORDS = {"(": "-LRB-", ")": "-RRB-"}

# The score of a constituent after its label, as the Stanford parser writes it: (ROOT [58.8] (S [57.1] (NP ...
_SCORED = re.compile(rf"(\({SPACE}*{ATOM}++ )\[-?[0-9]+[.,][0-9]+\](?={SPACE}++(\(|{ATOM}))")
_TAGGED = re.compile(rf"\({SPACE}*{ATOM}++{SPACE}++{ATOM}++{SPACE}*\)")

_OTHER_FORMATS = (
    (re.compile(r"\s*<(\?xml|corpus|treebank|s\b|graph)", re.IGNORECASE), "XML"),
    (re.compile(r"(#.*\n)*\d+(-\d+)?\t[^\t\n]*\t"), "columns separated by tabs, such as CoNLL-U"),
    (re.compile(r"\s*[{\[]\s*[\"\[{]"), "JSON"),
)


@lru_cache(maxsize=1 << 14)
def is_label_like(atom: str) -> bool:
    """Return whether an atom looks like a label or a tag: NP-SBJ, VB2, PRP$, X, :, 3, sn-SUJ, but not cat or The."""
    base = _FUNCTION.sub("", atom)
    if base in _LOWER_CASE or base.isdecimal():
        return True
    upper = base.upper()
    return upper == base and (upper != base.lower() or not any(map(str.isalnum, base)))


def has_labels(firsts: Counter[str], words: Counter[str], recurs: bool = True) -> tuple[bool, str]:
    """Return whether the first atoms of brackets are labels, and why. Used where not every word has a tag.

    Args:
        firsts: the first atoms of brackets.
        words: the other atoms.
        recurs: whether labels are recognised by their recurrence; not if many brackets start with a bracket.
    """
    total = firsts.total()
    if not total:
        return False, "no bracket starts with an atom"
    like = sum(count for atom, count in firsts.items() if is_label_like(atom))
    share = f"{like:,} of {total:,} brackets start with an atom that looks like a label"
    as_words = sum(count for word, count in words.items() if word in firsts and any(map(str.isalnum, word)))
    if like >= LABEL_LIKE * total:
        # Words that look like labels may be tags, or text in capital letters. Labels hardly occur as words.
        if as_words <= LABEL_LIKE_OVERLAP * words.total():
            return True, share
        return False, f"{as_words:,} of {words.total():,} words are also the first atom of a bracket"
    most = min(0.6 * total, 3.5 * total**0.55)  # far more than a treebank has labels, far fewer than a text has words
    if recurs and len(firsts) <= most and as_words <= OVERLAP * words.total():
        return True, f"{total:,} brackets start with only {len(firsts):,} different atoms, which hardly occur as words"
    return False, f"only {share}" if like else f"none of {total:,} brackets starts with an atom that looks like a label"


def with_escaped_parentheses(text: str) -> str:
    r"""Return the text with -LRB- and -RRB- for parentheses that are words, or parts of words.

    These are `\(` and `\)`, and parentheses with a tag, such as (-LRB- ()  and (-RRB- )). They are structure instead if
    only then equally many brackets open and close.
    """
    if "\\(" in text or "\\)" in text:
        text = _better(text, _ESCAPED.sub(lambda match: _WORDS[match[1]], text))
    if "()" in text or not _is_balanced(text):
        replaced = _AS_WORDS[1].sub("(-RRB- -RRB-)", _AS_WORDS[0].sub("(-LRB- -LRB-)", text))
        text = _better(text, replaced)
    if "()" in text and not _is_balanced(text):
        replaced = _WITH_ANY_TAG.sub(r"(\1 -LRB-)", text)
        text = replaced if _is_balanced(replaced) else text
    return text


def _better(text: str, replaced: str) -> str:
    return replaced if _is_balanced(replaced) or not _is_balanced(text) else text


def _is_balanced(text: str) -> bool:
    return text.count("(") == text.count(")")


def without_scores(text: str) -> tuple[str, int]:
    """Return the text without the scores of constituents, and their number.

    A word such as [58.8] may follow a label, too, so there are scores only if most constituents have one.
    """
    if " [" not in text:
        return text, 0
    following = [after for _, after in _SCORED.findall(text)]
    brackets = text.count("(") - len(_TAGGED.findall(text))  # other than those of a word and its tag
    if "(" not in following or 2 * len(following) <= brackets:
        return text, 0
    return _SCORED.sub(r"\1", text), len(following)


def foreign_format(text: str) -> str:
    """Return the name of another format that the text is in; "" for bracketed text."""
    return next((name for pattern, name in _OTHER_FORMATS if pattern.match(text)), "")


def is_discontinuous(atoms: list[str]) -> bool:
    """Return whether most atoms are words with their positions, as in 0=On 2=this 1=thought."""
    positions = sum(map(bool, map(_POSITION.fullmatch, atoms)))
    return 2 * positions > len(atoms)
