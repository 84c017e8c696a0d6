"""Recall of constituents whose boundaries depend on commas: clauses before a comma, and lists.

    python -m laboratory.measurements.marked_constituents MODEL... --treebank TREES [--json]

MODEL: several models are averaged. TREES: gold trees with punctuation, which the preprocessing ptb-keep drops.

A clause before a comma is a constituent S, SBAR, SINV or SQ of two words or more that is followed by a comma, as in
*If it rains, we stay*. A list is a constituent with a conjunction and three other children or more, of which two are
separated by a comma, as in *dogs, cats and mice*; its parts are its children of two words or more. Recall is the share
of these constituents in the predicted trees, with every decoder, without marks and with them. A clause or list that is
a whole sentence is in every tree and does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import syntaxlm
from laboratory.measurements.output import measurement_parser, show
from syntaxlm.data.treebanks import Treebank, TreebankSentence
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.trees.marks import MarkClass
from syntaxlm.trees.preprocessing import plain_label
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import Tree

CLAUSES = frozenset(("S", "SBAR", "SINV", "SQ"))
CONJUNCTIONS = frozenset(("CC", "CONJP"))
FEWEST_CONJUNCTS = 3  # of a list
Span = tuple[int, int]


def main() -> None:
    """Measure one model, or an average; see the module."""
    parser = measurement_parser(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--treebank", required=True)
    options = parser.parse_args()
    bundle, *also = map(syntaxlm.load, options.models)
    treebank = syntaxlm.read_treebank(options.treebank, "ptb-keep")
    report = evaluate_parsing(bundle, treebank, "wsj-test", preprocessing="ptb-keep", also=also)
    show(recalls(treebank, report.predicted), options.json)


def recalls(treebank: Treebank, predicted: Mapping[str, SpanSets]) -> dict[str, float]:
    """Return the number of constituents of each type, and their recall in the trees of each name, 0 to 1.

    Args:
        predicted: trees of the sentences of the treebank.
    """
    gold = {
        "clauses before a comma": list(map(clauses_before_commas, treebank)),
        "lists": [[span for span, _ in lists_of(sentence)] for sentence in treebank],
        "parts of lists": [[part for _, parts in lists_of(sentence) for part in parts] for sentence in treebank],
    }
    result: dict[str, float] = {}
    for constituents, spans in gold.items():
        result[constituents] = sum(map(len, spans))
        for name, trees in predicted.items():
            correct = sum(len(set(of_gold) & of_tree) for of_gold, of_tree in zip(spans, span_sets(trees), strict=True))
            result[f"{constituents}, {name}"] = correct / max(1, result[constituents])
    return result


def span_sets(trees: SpanSets) -> Iterator[set[Span]]:
    """Yield the spans of each sentence."""
    spans = list(zip(trees.starts.tolist(), trees.ends.tolist(), strict=True))
    return (set(spans[begin:end]) for begin, end in pairwise(trees.offsets.tolist()))


def clauses_before_commas(sentence: TreebankSentence) -> list[Span]:
    """Return the clauses of two words or more that are followed by a comma, each span once."""
    tree = tree_of(sentence)
    clauses = (
        (start, end)
        for label, start, end in tree.constituents
        if plain_label(label) in CLAUSES and end - start > 1 and end < len(tree)
        if sentence.marks[end] & MarkClass.COMMA
    )
    return list(dict.fromkeys(clauses))


def lists_of(sentence: TreebankSentence) -> list[tuple[Span, list[Span]]]:
    """Return the lists of a sentence, each with its parts of two words or more."""
    tree = tree_of(sentence)
    lists = []
    for place, (_, start, end) in enumerate(tree.constituents):
        children = children_of(tree, place)
        conjuncts = [(first, last) for label, first, last in children if plain_label(label) not in CONJUNCTIONS]
        has_comma = any(sentence.marks[first] & MarkClass.COMMA for _, first, _ in children[1:])
        is_list = len(children) > len(conjuncts) >= FEWEST_CONJUNCTS and has_comma
        if is_list and end - start < len(tree):
            lists.append(((start, end), [(first, last) for first, last in conjuncts if last - first > 1]))
    return lists


def children_of(tree: Tree, place: int) -> Sequence[tuple[str, int, int]]:
    """Return the children of a constituent, including words: label or tag, start and end."""
    _, start, end = tree.constituents[place]
    children: list[tuple[str, int, int]] = []
    covered = start  # the end of the last child
    for label, first, last in tree.constituents[place + 1 :]:
        if first >= end:
            break
        if first >= covered:  # otherwise it is inside an earlier child
            children += [(tree.tags[word], word, word + 1) for word in range(covered, first)]
            children.append((label, first, last))
            covered = last
    return children + [(tree.tags[word], word, word + 1) for word in range(covered, end)]


def tree_of(sentence: TreebankSentence) -> Tree:
    """Return the constituency tree of a sentence."""
    assert sentence.tree is not None, "evaluate_parsing requires constituency trees"
    return sentence.tree


if __name__ == "__main__":
    main()
