"""What of a gold tree is scored: words kept or dropped by tag or by form, labels without functions, no empty nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from syntaxlm.errors import InputError
from syntaxlm.trees.tree import Constituent, Tree

EMPTY_TAG = "-NONE-"  # of empty nodes: their leaves are no words, whatever the clean-up
WRAPPERS = frozenset({"", "ROOT", "TOP"})  # labels of a bracket that only holds the tree


def _tags(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_KEPT = _tags(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH "
    "VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB"
)
_PUNCTUATION = _tags(", . : '' `` -LRB- -RRB-")
# Beyond the Wall Street Journal: other brackets; hyphen, other punctuation, affix, address, "goes with", unknown.
_LATER = _tags("( ) -LCB- -RCB- -LSB- -RSB- HYPH NFP AFX ADD GW XX")
_PENN = _KEPT | _PUNCTUATION | _LATER | frozenset({"$", "#", EMPTY_TAG})
_UNIVERSAL = _tags("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X")

_FUNCTION = re.compile(r"(?!^)[-=].*", re.DOTALL)


@dataclass(frozen=True)
class CleanUp:
    """Which words of a tree are scored.  A word goes if any of the rules says so."""

    name: str
    keep: frozenset[str] | None = None  # tags of words that stay; None: all
    drop: frozenset[str] = frozenset()  # tags of words that go
    drop_words_without_letters_or_digits: bool = False  # punctuation told by the word itself
    empty_words: frozenset[str] = frozenset()  # leaves that stand for nothing, such as *0*
    tag_set: frozenset[str] = frozenset()  # tags the rules were made for; empty: any.  `clean_all` refuses others

    def keeps(self, word: str, tag: str) -> bool:
        """Whether a word is scored."""
        if tag == EMPTY_TAG or tag in self.drop or word in self.empty_words:
            return False
        if self.keep is not None and tag not in self.keep:
            return False
        return not self.drop_words_without_letters_or_digits or any(map(str.isalnum, word))


# ptb-keep: PRPN's and ON-LSTM's list of tags that stay; $ and # go with the punctuation.
# ptb-keep-currency: the same and $ #, as in PaLM's supervision trees.
# ptb-drop: compound-pcfg's way, a list of punctuation tags that go: , . : '' `` -LRB- -RRB-, and the brackets, hyphens
#   and other punctuation of later treebanks (-LCB- -RCB- -LSB- -RSB- ( ) HYPH NFP); $ and # stay.
# ud: Universal Dependencies' PUNCT and SYM go.
# letters: words without a letter or digit go, whatever their tag, and *0* (the empty subjects of Spanish trees).
# letters-only: the same, but *0* stays, for it has a digit in it.
# none: every word stays; empty nodes still go.
CLEAN_UPS = {
    clean_up.name: clean_up
    for clean_up in (
        CleanUp("ptb-keep", keep=_KEPT, tag_set=_PENN),
        CleanUp("ptb-keep-currency", keep=_KEPT | {"$", "#"}, tag_set=_PENN),
        CleanUp("ptb-drop", drop=_PUNCTUATION | _LATER - {"AFX", "ADD", "GW", "XX"}, tag_set=_PENN),
        CleanUp("ud", drop=frozenset({"PUNCT", "SYM"}), tag_set=_UNIVERSAL | {EMPTY_TAG}),
        CleanUp("letters", drop_words_without_letters_or_digits=True, empty_words=frozenset({"*0*"})),
        CleanUp("letters-only", drop_words_without_letters_or_digits=True),
        CleanUp("none"),
    )
}


def plain_label(label: str) -> str:
    """A label without function tags and co-indices: NP-SBJ-1 -> NP, NP=2 -> NP; -LRB- stays."""
    return label if label.startswith("-") else _FUNCTION.sub("", label)


def clean(tree: Tree, clean_up: CleanUp) -> Tree | None:
    """The tree over the words that are scored; None when every word goes.

    Constituents without words go with them; labels lose function tags and co-indices; a ROOT, TOP or label-less
    wrapper is stripped.  Unary chains stay (scoring collapses them).
    """
    kept = list(map(clean_up.keeps, tree.words, tree.tags))
    before = [0, *accumulate(kept)]  # words kept before each position
    if not before[-1]:
        return None
    constituents = [
        Constituent(plain_label(label), before[start], before[end])
        for label, start, end in tree.constituents[_wrappers(tree) :]
        if before[start] < before[end]
    ]
    words = tuple(word for word, stays in zip(tree.words, kept, strict=True) if stays)
    tags = tuple(tag for tag, stays in zip(tree.tags, kept, strict=True) if stays)
    return Tree(words, tags, tuple(constituents))


def _wrappers(tree: Tree) -> int:
    """How many outermost constituents only wrap the tree.

    One without a label counts only around a single constituent or in a labelled tree: of others it is the root.
    """
    spans = tree.constituents
    labelled = any(span.label for span in spans)
    count = 0
    while count < len(spans) and spans[count].label in WRAPPERS and spans[count][1:] == (0, len(tree.words)):
        single = count + 1 < len(spans) and spans[count + 1][1:] == spans[count][1:]
        if not (spans[count].label or single or labelled):
            break
        count += 1
    return count


def clean_all(trees: Sequence[Tree], clean_up: CleanUp, source: str) -> tuple[list[Tree], list[int]]:
    """The cleaned trees that have words left, and their indices in `trees` (from 0).

    source: what the trees came from, for messages.  Raises InputError that shows the tags met and those expected when
    the clean-up does not fit: over half of the sentences lose every word, or most words' tags are not of its tag set.
    """
    cleaned = [clean(tree, clean_up) for tree in trees]
    indices = [index for index, tree in enumerate(cleaned) if tree is not None]
    if 2 * len(indices) < len(trees):
        lost = len(trees) - len(indices)
        raise _foreign(
            trees, clean_up, f"{source}: clean-up {clean_up.name} drops every word of {lost} of {len(trees)} sentences"
        )
    if clean_up.tag_set:
        counts = _tag_counts(trees)
        foreign = sum(count for tag, count in counts.items() if tag not in clean_up.tag_set)
        if 2 * foreign > counts.total():
            found = (
                f"{source}: {foreign} of {counts.total()} words have tags that clean-up {clean_up.name} does not know"
            )
            raise _foreign(trees, clean_up, found)
    return [tree for tree in cleaned if tree is not None], indices


def _tag_counts(trees: Iterable[Tree]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for tree in trees:
        counts.update(tree.tags)
    return counts


def _foreign(trees: Iterable[Tree], clean_up: CleanUp, found: str) -> InputError:
    met = ", ".join(f"{tag or '(none)'} {count}" for tag, count in _tag_counts(trees).most_common(20))
    expected = clean_up.keep or clean_up.tag_set
    tags = (
        "expected tags: " + " ".join(sorted(expected)) if expected else "expected words with a letter or digit in them"
    )
    others = ", ".join(name for name in CLEAN_UPS if name != clean_up.name)
    return InputError(
        f"{found}.\n  tags met:      {met}\n  {tags}\nIs this another tag set? Other clean-ups: {others}."
    )
