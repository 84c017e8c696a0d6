"""Candidate parses of the sentences of a text: the k best trees of a parser, in one CoNLL-U file.

The candidates of a sentence follow each other, the parser's best first. Adjacent trees belong to one sentence if their
`# sent_id` is the same or, if one of them has none, if their words are the same. The parser's score of a candidate may
be in a comment, `# score = -12.3`; higher is better.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from syntaxlm.core.errors import InputError
from syntaxlm.data.tables import number_of
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.trees.conllu import ConlluSentence, check_heads, iterate_conllu
from syntaxlm.trees.matching import check_same_words
from syntaxlm.trees.tree import DependencyTree

SCORE = "score"  # name of the comment with the parser's score


@dataclass(frozen=True)
class ParseCandidates:
    """The candidate parses of one sentence.

    Attributes:
        sentences: the candidates, in the order of the file.
        scores: the parser's score of each; () if there are none.
        number: the number of the sentence in the file, from 1.
        gold: the gold tree, or None.
    """

    sentences: tuple[ConlluSentence, ...]
    scores: tuple[float, ...]
    number: int
    gold: DependencyTree | None = None

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self.sentences)

    @property
    def name(self) -> str:
        """The sentence's id, or its number."""
        return self.sentences[0].tree.name or str(self.number)


def read_candidates(path: str | Path, score: str = SCORE) -> Iterator[ParseCandidates]:
    """Yield the candidates of a CoNLL-U file (.gz too), sentence by sentence.

    Args:
        score: the name of the comment with the parser's score.

    Raises:
        InputError: as `read_conllu` does, and naming line and sentence if candidates differ in their words, if an id is
            repeated after another sentence, if a score is not a number, and if only some candidates have scores.
    """
    pattern = re.compile(rf"#\s*{re.escape(score)}\s*=\s*(.*)")
    seen: set[str] = set()
    group: list[ConlluSentence] = []
    scores: list[float] = []
    scored: bool | None = None
    number = 0
    for sentence in iterate_conllu(path):
        first = group[0].tree if group else sentence.tree
        tree = sentence.tree
        if first.name != tree.name if first.name and tree.name else first.words != tree.words:
            number += 1
            yield ParseCandidates(tuple(group), tuple(scores), number)
            group, scores = [], []
        name = sentence.tree.name
        if group:
            check_same_words(sentence.tree.words, group[0].tree.words, sentence.place(), group[0].place())
        elif name in seen:
            raise InputError(
                f"{sentence.place()}: found a candidate of an earlier sentence; expected all candidates of a sentence"
                " together"
            )
        if name:
            seen.add(name)
        value = _score(sentence, pattern, score)
        scored = value is not None if scored is None else scored
        if scored != (value is not None):
            problem = f"no # {score} = ...; expected one" if scored else f"# {score} = {value:g}; expected none"
            raise InputError(f"{sentence.place()}: found {problem}, as with the candidates before it")
        group.append(sentence)
        scores += [] if value is None else [value]
    yield ParseCandidates(tuple(group), tuple(scores), number + 1)


def _score(sentence: ConlluSentence, pattern: re.Pattern[str], name: str) -> float | None:
    for comment in sentence.comments:
        if match := pattern.fullmatch(comment):
            try:
                value = number_of(match[1])
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise InputError(f"{sentence.place()}: found # {name} = {match[1][:40]}; expected a number")
            return value
    return None


def with_gold(candidates: Iterable[ParseCandidates], gold: str | Path) -> Iterator[ParseCandidates]:
    """Yield candidates with the gold trees of their sentences, matched by position.

    Args:
        gold: see `dependency_trees`.

    Raises:
        InputError: as `dependency_trees` does, if words differ, and if the numbers of sentences differ.
    """
    trees = dependency_trees(gold)
    count = 0
    for parses in candidates:
        tree, first = next(trees, None), parses.sentences[0]
        if tree is None:
            raise InputError(
                f"{first.place()}: found no gold tree for this sentence; expected a gold tree for each sentence, but"
                f" {gold} has only {count:,}"
            )
        check_same_words(first.tree.words, tree.words, first.place(), tree.place)
        check_heads(tree, tree.place)
        count += 1
        yield replace(parses, gold=tree)
    if (left := next(trees, None)) is not None:
        raise InputError(
            f"{left.place}: found no candidates for this sentence; expected candidates for each gold"
            f" tree, but only {count:,} sentences have some"
        )
