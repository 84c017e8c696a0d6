"""Candidates for the parse of each sentence of a text: the k best trees of a parser, in one CoNLL-U file.

The candidates of a sentence follow each other, the parser's best first. Neighbours are of one sentence where their
`# sent_id` is the same; where one of them has none, where their words are. The parser's score of a candidate may stand
in a comment, `# score = -12.3`, the higher the better.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.errors import InputError
from syntaxlm.trees.conllu import ConlluSentence, iterate_conllu
from syntaxlm.trees.matching import check_same_words
from syntaxlm.trees.tree import DependencyTree

SCORE = "score"  # what the comment with the parser's score is called


@dataclass(frozen=True)
class ParseCandidates:
    """The candidates for the parse of one sentence.

    sentences: each as the file has it, in its order. scores: the parser's, of each; () in a file without.
    number: which sentence of the file, 1 first. gold: the gold tree; None without one.
    """

    sentences: tuple[ConlluSentence, ...]
    scores: tuple[float, ...]
    number: int
    gold: DependencyTree | None = None

    def __len__(self) -> int:
        """How many."""
        return len(self.sentences)

    @property
    def name(self) -> str:
        """The sentence's id, or its number."""
        return self.sentences[0].tree.name or str(self.number)


def read_candidates(path: str | Path, score: str = SCORE) -> Iterator[ParseCandidates]:
    """The candidates of a CoNLL-U file (.gz too), sentence by sentence.

    score: the name of the comment that holds the parser's score.
    Raises InputError as `read_conllu` does, and naming line and sentence where candidates differ in their words, where
    an id comes again after another sentence, where a score is no number, and where some have scores and some have none.
    """
    pattern = re.compile(rf"#\s*{re.escape(score)}\s*=\s*(.*)")
    seen: set[str] = set()
    group: list[ConlluSentence] = []
    scores: list[float] = []
    scored: bool | None = None
    number = 0
    for sentence in iterate_conllu(path):
        if group and not _same(group[0], sentence):
            number += 1
            yield ParseCandidates(tuple(group), tuple(scores), number)
            group, scores = [], []
        name = sentence.tree.name
        if group:
            check_same_words(sentence.tree.words, group[0].tree.words, sentence.place, group[0].place)
        elif name in seen:
            raise InputError(
                f"{sentence.place}: more candidates of a sentence after another one; expected them one after another"
            )
        if name:
            seen.add(name)
        found = _score(sentence, pattern, score)
        scored = found is not None if scored is None else scored
        if scored != (found is not None):
            problem = f"no # {score} = ...; expected one" if scored else f"# {score} = {found:g}; expected none"
            raise InputError(f"{sentence.place}: found {problem}, as with the candidates before it")
        group.append(sentence)
        scores += [] if found is None else [found]
    yield ParseCandidates(tuple(group), tuple(scores), number + 1)


def _same(first: ConlluSentence, other: ConlluSentence) -> bool:
    """Whether two are candidates of one sentence."""
    if first.tree.name and other.tree.name:
        return first.tree.name == other.tree.name
    return first.tree.words == other.tree.words


def _score(sentence: ConlluSentence, pattern: re.Pattern[str], name: str) -> float | None:
    for comment in sentence.comments:
        if found := pattern.fullmatch(comment):
            try:
                value = float(found[1])
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise InputError(f"{sentence.place}: found # {name} = {found[1][:40]}; expected a number")
            return value
    return None


def with_gold(candidates: Iterable[ParseCandidates], gold: str | Path) -> Iterator[ParseCandidates]:
    """Candidates with the gold tree of their sentence, matched by position.

    gold: dependency trees, as `dependency_trees` takes them. Raises InputError as that does, where words differ, and
    where there are not as many sentences.
    """
    trees = dependency_trees(gold)
    count = 0
    for one in candidates:
        tree = next(trees, None)
        if tree is None:
            raise InputError(f"{one.sentences[0].place}: no gold tree for it; {gold} has only {count:,}")
        first = one.sentences[0]
        check_same_words(first.tree.words, tree.words, first.place, f"{gold}, sentence {tree.name}")
        count += 1
        yield replace(one, gold=tree)
    if (left := next(trees, None)) is not None:
        raise InputError(f"{gold}, sentence {left.name}: no candidates for it; there are those of {count:,} sentences")
