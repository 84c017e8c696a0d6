"""Preprocessing of gold trees for scoring: drops words by tag or form, functions of labels, and empty nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, chain, compress
from pathlib import Path
from typing import Literal

from syntaxlm.core.errors import InputError, closest_match
from syntaxlm.core.reading import Remark, Remarks
from syntaxlm.core.settings import read_settings
from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.trees.marks import gap_marks
from syntaxlm.trees.tree import Constituent, Tree

EMPTY_TAG = "-NONE-"  # tag of empty nodes, whose leaves are always dropped
WRAPPERS = frozenset({"", "ROOT", "TOP"})  # labels of an outermost bracket around the tree
BETWEEN_ALTERNATIVES = "|"  # in a tag such as RB|RP
TAGS_SHOWN = 12  # in a reading report


def _tags(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_KEPT = _tags(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH "
    "VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB"
)
_PUNCTUATION = _tags(", . : '' `` -LRB- -RRB-")
# Used in treebanks after the WSJ: other brackets; hyphen, other punctuation.
_LATER_PUNCTUATION = _tags("( ) -LCB- -RCB- -LSB- -RSB- HYPH NFP")
_LATER_WORDS = _tags("AFX ADD GW XX")  # affix, address, part of a word that goes with another part, unknown
_PENN = _KEPT | _PUNCTUATION | _LATER_PUNCTUATION | frozenset({"GW", "$", "#", EMPTY_TAG})
_UNIVERSAL = _tags("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X")

# Parsed corpora of historical languages: nodes that are not text, and empty categories.
_NOT_TEXT = _tags("ID CODE METADATA REF VERSION")
_TRACE = re.compile(r"\*(\w+\*)?(-\d+)?|0")  # also *, as in (NP *)
_NUMERALS = ("NUM", "CD")
_LEMMAS = 0.9  # share of words with the separator, from which words have lemmas


@dataclass(frozen=True)
class GoldPreprocessing:
    """Rules for the words and labels of gold trees.  A word is dropped if any rule drops it.

    These are also the settings of a preprocessing file. Words are as in the sentence: ( instead of -LRB-.
    A tag with alternatives, RB|RP, is kept if one of them is. Functions and indices of an unlisted tag are ignored, so
    NN-SBJ is an NN. A word with a tag that is not among the known tags is dropped if it has no letter or digit.

    Attributes:
        name: name in reports; in a file, the default is the name of the file
        keep_tags: tags of words to keep; null: all
        drop_tags: tags of words to drop
        drop_words: words to drop, for example empty leaves such as *0*
        punctuation: whether punctuation is recognised by tag only, or words without a letter or digit are dropped as
            well (unicode)
        known_tags: tags of the treebank; words with other tags are counted, and the treebank is refused if most words
            have other tags; empty: all tags are known
        drop_nodes: labels of constituents to drop with their words, such as METADATA
        drop_traces: whether to drop empty categories such as *T*-1, *con* and 0, whatever their tag
        lemma_after: character between a word and its lemma, as in hún-hún, if nearly all words are written so
        function_after: characters that start the functions and indices of a label, as in NP-SBJ
        function_before: characters that end a function before the label; with "+", SUBJ+np is an np
    """

    name: str
    keep_tags: frozenset[str] | None = None
    drop_tags: frozenset[str] = frozenset()
    drop_words: frozenset[str] = frozenset()
    punctuation: Literal["by tag", "unicode"] = "by tag"
    known_tags: frozenset[str] = frozenset()
    drop_nodes: frozenset[str] = frozenset()
    drop_traces: bool = False
    lemma_after: str = ""
    function_after: str = "-="
    function_before: str = ""

    def __post_init__(self) -> None:
        # No settings, and therefore no fields.
        object.__setattr__(self, "_kept_tags", _KeptTags(self))
        only_tags = not self.drop_words and not self.drop_traces and self.punctuation == "by tag"
        object.__setattr__(self, "_only_tags", only_tags)

    def keeps(self, word: str, tag: str) -> bool:
        """Return whether a word is scored."""
        memory: _KeptTags = self._kept_tags  # type: ignore[attr-defined]
        is_kept = memory[tag]
        if is_kept is False or word in self.drop_words:
            return False
        if self.drop_traces and _is_trace(word, tag):
            return False
        return (is_kept and self.punctuation == "by tag") or any(map(str.isalnum, word))

    def keeps_each(self, words: Sequence[str], tags: Sequence[str]) -> list[bool]:
        """Return `keeps` for each word of a sentence."""
        if self._only_tags:  # type: ignore[attr-defined]  # most sentences have only known tags, which decide alone
            decided = list(map(self._kept_tags.__getitem__, tags))  # type: ignore[attr-defined]
            if None not in decided:
                return decided
        return list(map(self.keeps, words, tags))

    def keeps_tag(self, tag: str) -> bool | None:
        """Return whether words with a tag are kept; None if the tag is not known, and the word decides."""
        memory: _KeptTags = self._kept_tags  # type: ignore[attr-defined]
        return memory[tag]


class _KeptTags(dict[str, bool | None]):
    """Tag -> what `GoldPreprocessing.keeps_tag` returns. Each tag is decided once."""

    def __init__(self, rules: GoldPreprocessing) -> None:
        super().__init__()
        self._rules = rules
        self[EMPTY_TAG] = False

    def __reduce__(self) -> tuple[type[_KeptTags], tuple[GoldPreprocessing]]:
        return _KeptTags, (self._rules,)

    def __missing__(self, tag: str) -> bool | None:
        alternatives = [part for part in tag.split(BETWEEN_ALTERNATIVES) if part] or [tag]
        decisions = set(map(self._keeps_alternative, alternatives))
        if True in decisions:
            self[tag] = True
        else:
            self[tag] = None if None in decisions else False
        return self[tag]

    def _keeps_alternative(self, tag: str) -> bool | None:
        rules = self._rules
        for form in dict.fromkeys((tag, plain_label(tag, rules.function_after, rules.function_before))):
            if form in rules.drop_tags:
                return False
            if rules.keep_tags is not None and form in rules.keep_tags:
                return True
            if form in rules.known_tags:
                return rules.keep_tags is None
        return None if rules.known_tags else rules.keep_tags is None


# ptb-keep: the list of tags that PRPN and ON-LSTM keep; $ and # are dropped with the punctuation. So is GW, of later
#   treebanks, which is part of the word beside it. Other tags that the WSJ does not have, such as ADD (addresses), AFX
#   (affixes) and XX, are not known: these words are kept if they have a letter or digit.
# ptb-keep-currency: the same plus $ and #, as in PaLM's supervision trees.
# ptb-drop: as in compound-pcfg, drops punctuation tags: , . : '' `` -LRB- -RRB-, and the brackets, hyphens and other
#   punctuation of later treebanks (-LCB- -RCB- -LSB- -RSB- ( ) HYPH NFP); $ and # are kept, and AFX, ADD, GW and XX.
# ud: drops PUNCT and SYM of Universal Dependencies.
# letters: drops words without a letter or digit, whatever their tag, and *0* (the empty subjects of Spanish trees).
# letters-only: the same, but keeps *0*, which contains a digit.
# zh-sinica, es-cess, pt-floresta: treebanks of Chinese, Spanish and Portuguese, each with its own tag set. In the
#   Spanish one, *0* are empty subjects, and -Fpa- -Fpt- -fe- are brackets and quotes.
# icepahc, ppche, keyaki: parsed corpora of Icelandic, of historical English (PPCHE, YCOE) and of Japanese. Nodes that
#   are not text are dropped (ID, CODE, METADATA, REF; LATIN in ppche), and empty categories (*T*-1, *con*, *pro*, 0).
#   icepahc: the lemmas of word-lemma leaves are removed.
# none: keeps every word; empty nodes are still dropped.
PREPROCESSINGS = {
    rules.name: rules
    for rules in (
        GoldPreprocessing("ptb-keep", keep_tags=_KEPT, known_tags=_PENN),
        GoldPreprocessing("ptb-keep-currency", keep_tags=_KEPT | {"$", "#"}, known_tags=_PENN),
        GoldPreprocessing("ptb-drop", drop_tags=_PUNCTUATION | _LATER_PUNCTUATION, known_tags=_PENN | _LATER_WORDS),
        GoldPreprocessing("ud", drop_tags=frozenset({"PUNCT", "SYM"}), known_tags=_UNIVERSAL | {EMPTY_TAG}),
        GoldPreprocessing("letters", drop_words=frozenset({"*0*"}), punctuation="unicode"),
        GoldPreprocessing("letters-only", punctuation="unicode"),
        GoldPreprocessing("zh-sinica", punctuation="unicode"),
        GoldPreprocessing("es-cess", drop_words=frozenset({"*0*", "-Fpa-", "-Fpt-", "-fe-"}), punctuation="unicode"),
        GoldPreprocessing("pt-floresta", punctuation="unicode", function_before="+"),
        GoldPreprocessing("icepahc", punctuation="unicode", drop_nodes=_NOT_TEXT, drop_traces=True, lemma_after="-"),
        GoldPreprocessing(
            "ppche", punctuation="unicode", drop_nodes=_NOT_TEXT | {"LATIN"}, drop_traces=True, function_after="-=^"
        ),
        GoldPreprocessing(
            "keyaki", punctuation="unicode", drop_nodes=_NOT_TEXT, drop_traces=True, function_after="-=;"
        ),
        GoldPreprocessing("none"),
    )
}


def find_preprocessing(rule: GoldPreprocessing | str | Path) -> GoldPreprocessing:
    """Return the rules with a name, or those of a YAML file with the settings of `GoldPreprocessing`.

    Raises:
        InputError: for an unknown name that is not a file either, and with all errors of a file.
    """
    if isinstance(rule, GoldPreprocessing):
        return rule
    if str(rule) in PREPROCESSINGS:
        return PREPROCESSINGS[str(rule)]
    path = Path(rule)
    if path.suffix in (".yaml", ".yml") or path.exists():
        data = read_yaml(path)
        if not isinstance(data, dict):
            names = ", ".join(GoldPreprocessing.__dataclass_fields__)
            raise InputError(f"{path}: found no settings; expected some of {names}, for example punctuation: unicode")
        return read_settings(GoldPreprocessing, {"name": str(path)} | data, str(path))
    available = f"Available: {', '.join(PREPROCESSINGS)}; or a YAML file."
    hint = f"{closest_match(rule, PREPROCESSINGS)} {available}".strip()
    raise InputError(f"preprocessing {str(rule)!r}: no such rule or file. {hint}")


@lru_cache(maxsize=2**16)
def plain_label(label: str, function_after: str = "-=", function_before: str = "") -> str:
    """Return a label without function tags and co-indices: NP-SBJ-1 -> NP, NP=2 -> NP; -LRB- is unchanged.

    Args:
        function_after: characters that precede function tags, see `GoldPreprocessing`.
        function_before: characters that follow function tags, see `GoldPreprocessing`.
    """
    for mark in function_before:
        label = label.rpartition(mark)[2] or label
    if label.startswith("-"):
        return label
    ends = (label.find(mark, 1) for mark in function_after)
    return label[: min((end for end in ends if end > 0), default=len(label))]


def clean(tree: Tree, preprocessing: GoldPreprocessing, kept: Sequence[bool] | None = None) -> Tree | None:
    """Return the tree over the words that are scored; None if every word is dropped.

    Constituents without words are dropped too; labels lose functions and indices; an outermost ROOT, TOP or unlabelled
    bracket is removed. Unary chains are kept (scoring collapses them).

    Args:
        kept: whether each word is scored; by default, the preprocessing decides.
    """
    if kept is None:
        kept = kept_words(tree, preprocessing)
    before = [0, *accumulate(map(int, kept))]  # words kept before each position
    if not before[-1]:
        return None
    spans = tree.constituents
    wrappers = 0  # outermost constituents that only wrap the tree
    while wrappers < len(spans) and spans[wrappers].label in WRAPPERS and spans[wrappers][1:] == (0, len(tree)):
        # An unlabelled one is the root unless it is around a single constituent, apart from dropped words.
        is_single = any(before[span.end] - before[span.start] == before[-1] for span in spans[wrappers + 1 :])
        if not (spans[wrappers].label or is_single):
            break
        wrappers += 1
    separators = preprocessing.function_after, preprocessing.function_before
    constituents = [
        Constituent(plain_label(label, *separators), before[start], before[end])
        for label, start, end in spans[wrappers:]
        if before[start] < before[end]
    ]
    return Tree(tuple(compress(tree.words, kept)), tuple(compress(tree.tags, kept)), tuple(constituents))


def kept_words(tree: Tree, preprocessing: GoldPreprocessing) -> list[bool]:
    """Return whether each word is scored."""
    kept = preprocessing.keeps_each(tree.words, tree.tags)
    if preprocessing.drop_nodes:
        kept = [stays and tag not in preprocessing.drop_nodes for stays, tag in zip(kept, tree.tags, strict=True)]
        for label, start, end in tree.constituents:
            if label in preprocessing.drop_nodes:
                kept[start:end] = [False] * (end - start)
    return kept


def without_lemmas(trees: Sequence[Tree], preprocessing: GoldPreprocessing) -> list[Tree]:
    """Return the trees without the lemmas of their words, if the rules say how these are written and nearly all words
    have one.
    """
    mark = preprocessing.lemma_after
    if not mark:
        return list(trees)
    kept = [word for tree in trees for word, tag in zip(tree.words, tree.tags, strict=True) if _is_text(word, tag)]
    if sum(mark in word[1:] for word in kept) < _LEMMAS * max(len(kept), 1):
        return list(trees)
    forms = {word: word.rpartition(mark)[0] or word for word in kept}
    return [replace(tree, words=tuple(forms.get(word, word) for word in tree.words)) for tree in trees]


def _is_trace(word: str, tag: str) -> bool:
    """Return whether a word is an empty category of the treebanks that write these as words: *T*-1, *con*, 0."""
    return _TRACE.fullmatch(word) is not None and not (word == "0" and tag.startswith(_NUMERALS))


def _is_text(word: str, tag: str) -> bool:
    return tag not in _NOT_TEXT and not _TRACE.fullmatch(word)


def dropped_marks(tree: Tree, preprocessing: GoldPreprocessing) -> tuple[int, ...]:
    """Return the classes of the dropped punctuation marks in each gap of the words that are scored: see `gap_marks`."""
    kept = kept_words(tree, preprocessing)
    parts = zip(tree.words, tree.tags, kept, strict=True)
    return tuple(gap_marks((word, stays) for word, tag, stays in parts if tag != EMPTY_TAG))


@dataclass(frozen=True)
class PreprocessedTrees:
    """Trees after preprocessing.

    Attributes:
        trees: the trees that have words left.
        indices: the index of each of them among all trees, from 0.
        kept: for each of all trees, whether each of its words stays; without empty nodes and nodes that are not text.
        remarks: which words were dropped, by their tags, and which tags are not known.
    """

    trees: list[Tree]
    indices: list[int]
    kept: list[tuple[bool, ...]]
    remarks: tuple[Remark, ...]


def preprocess(trees: Sequence[Tree], preprocessing: GoldPreprocessing, source: str) -> PreprocessedTrees:
    """Preprocess the trees of a file.

    Args:
        source: origin of the trees, for messages.

    Raises:
        InputError: with the tags found and expected if the rules do not fit: more than half of the sentences lose every
            word, or most words' tags are not in the tag set.
    """
    kept = [kept_words(tree, preprocessing) for tree in trees]
    cleaned = [clean(tree, preprocessing, flags) for tree, flags in zip(trees, kept, strict=True)]
    counts = Counter(chain.from_iterable(tree.tags for tree in trees))
    empty = counts.pop(EMPTY_TAG, 0)
    indices = [index for index, tree in enumerate(cleaned) if tree is not None]

    # Rules that do not fit the treebank.
    if 2 * len(indices) < len(trees):
        lost = f"{len(trees) - len(indices)} of {len(trees)} sentences"
        raise _foreign(
            counts, preprocessing, f"{source}: preprocessing {preprocessing.name} drops every word of {lost}"
        )
    unknown = Counter({tag: count for tag, count in counts.items() if preprocessing.keeps_tag(tag) is None})
    if 2 * unknown.total() > counts.total():
        unsupported = f"have tags that preprocessing {preprocessing.name} does not support"
        raise _foreign(counts, preprocessing, f"{source}: {unknown.total()} of {counts.total()} words {unsupported}")

    in_text = kept
    if empty or preprocessing.drop_nodes or preprocessing.drop_traces:
        texts = (text_words(tree, preprocessing) for tree in trees)
        in_text = [list(compress(flags, text)) for flags, text in zip(kept, texts, strict=True)]
    return PreprocessedTrees(
        [tree for tree in cleaned if tree is not None],
        indices,
        list(map(tuple, in_text)),
        _remarks(trees, kept, preprocessing, unknown),
    )


def text_words(tree: Tree, preprocessing: GoldPreprocessing) -> list[bool]:
    """Return whether each word is in the text of the sentence: no empty node, and no node that is not text."""
    if preprocessing.drop_nodes or preprocessing.drop_traces:
        return kept_words(tree, _text_rules(preprocessing))
    return [tag != EMPTY_TAG for tag in tree.tags]


@lru_cache
def _text_rules(preprocessing: GoldPreprocessing) -> GoldPreprocessing:
    """Return the rules without those about tags, words and punctuation."""
    none = frozenset[str]()
    return replace(
        preprocessing, keep_tags=None, drop_tags=none, drop_words=none, punctuation="by tag", known_tags=none
    )


def _remarks(
    trees: Sequence[Tree], kept: Sequence[Sequence[bool]], preprocessing: GoldPreprocessing, unknown: Counter[str]
) -> tuple[Remark, ...]:
    """Return which words preprocessing dropped, and which tags it does not know.

    Args:
        kept: whether each word stays.
        unknown: the tags that the rules do not know, with their numbers of words.
    """
    dropped: Counter[str] = Counter()
    examples: dict[str, str] = {}  # a word of each unknown tag
    kept_unknown = 0
    for tree, flags in zip(trees, kept, strict=True):
        if not all(flags):
            words = zip(tree.words, tree.tags, flags, strict=True)
            dropped.update(tag or word for word, tag, stays in words if not stays)
        if unknown and not unknown.keys().isdisjoint(tree.tags):
            for word, tag, stays in zip(tree.words, tree.tags, flags, strict=True):
                if tag in unknown:
                    examples.setdefault(tag, word)
                    kept_unknown += stays

    remarks = Remarks()
    empty = dropped.pop(EMPTY_TAG, 0)
    if preprocessing == PREPROCESSINGS["none"]:
        marks = sum(tag in _PUNCTUATION for tree in trees for tag in tree.tags)
        if marks:
            remarks.add("punctuation marks kept by preprocessing none", count=marks)
    if unknown:
        kept_words_note = f"{kept_unknown:,} kept because of a letter or digit"
        what = f"words with tags that {preprocessing.name} does not know: {_by_tag(unknown)}, {kept_words_note}"
        for place, word in enumerate(examples.values()):
            remarks.add(what, example=word, count=0 if place else unknown.total())
    if dropped:
        remarks.add(f"words dropped by preprocessing {preprocessing.name}: {_by_tag(dropped)}", count=dropped.total())
    if empty:
        remarks.add("empty nodes dropped", count=empty)
    if emptied := sum(len(flags) > 0 and not any(flags) for flags in kept):
        remarks.add("sentences without a word after preprocessing", count=emptied)
    return remarks.all()


def _by_tag(counts: Counter[str]) -> str:
    """Return tags with their numbers of words, the most frequent first: "ADD 8, AFX 4"; marks are in quotes."""

    def name(tag: str) -> str:
        if not tag:
            return "(no tag)"
        return tag if any(map(str.isalnum, tag)) else repr(tag)

    listed = ", ".join(f"{name(tag)} {count:,}" for tag, count in counts.most_common(TAGS_SHOWN))
    rest = len(counts) - TAGS_SHOWN
    return f"{listed} and {rest:,} more tags" if rest > 0 else listed


def _foreign(counts: Counter[str], preprocessing: GoldPreprocessing, fault: str) -> InputError:
    """Return the error of rules that do not fit, with the tags found.

    Args:
        counts: how often the treebank has each tag.
        fault: the start of the message.
    """
    met = ", ".join(f"{tag or '(none)'} {count}" for tag, count in counts.most_common(20))
    expected = preprocessing.keep_tags or preprocessing.known_tags
    tags = f"tags: {' '.join(sorted(expected))}" if expected else "words that contain a letter or digit"
    if 2 * sum(count for tag, count in counts.items() if not tag) > counts.total():
        advice = (
            "The words have no tags, as in the trees of a parser: use preprocessing letters, which drops words without"
            " a letter or digit, or none, which keeps all words"
        )
    else:
        alternatives = ", ".join(name for name in PREPROCESSINGS if name != preprocessing.name)
        advice = (
            f"Does the treebank use another tag set? Other preprocessing: {alternatives}; or your own YAML file, such"
            " as\n  drop_tags: [PU, SYM]\n  punctuation: unicode"
        )
    return InputError(f"{fault}.\n  found tags:    {met}\n  expected {tags}\n{advice}")
