"""Sentence completion: choose the correct sentence among candidates that fill one gap with different words.

Zweig & Burges 2011, "The Microsoft Research Sentence Completion Challenge". Candidates are plain text, one per line, or
parsed sentences in CoNLL-U. Word-level models read the words of either. With plain text, dependency-tree models also
need a file of parses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.reading import ReadingReport, announce
from syntaxlm.core.text_files import content_suffix, no_sentence, read_lines, source_name
from syntaxlm.text.normaliser import split_words
from syntaxlm.trees.conllu import read_conllu
from syntaxlm.trees.tree import DependencyTree

PARSED_SUFFIX = ".conllu"

_BEGIN, _END = "<s>", "</s>"  # BOS and EOS in published files
_LABEL = re.compile(r"\s*([1-9]\d{0,8})([a-z])\)(?:\s+|$)")
_FILLED_GAP = re.compile(r"\[([^\[\]]*)\]")  # the word that fills the gap, marked in labelled files
_SENTENCE_CHARACTERS = 60  # characters of a faulty sentence in a message


@dataclass(frozen=True)
class CompletionQuestion:
    """The candidates of one question as written, without `<s>` and `</s>`.

    Attributes:
        name: the number in the labels of the candidates, or else the 1-based number of the question.
        correct: the 0-based index of the correct candidate.
        place: the position of the first candidate, such as "questions.txt, line 6".
        trees: the parses of the candidates in the same order, or ().
        parses: the file that contains the trees.
    """

    candidates: tuple[str, ...]
    correct: int
    name: str
    place: str
    trees: tuple[DependencyTree, ...] = ()
    parses: str = ""

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self.candidates)


class _Sentence(NamedTuple):
    """One sentence of a file.

    Attributes:
        number: number in the label, such as 3 for "3b)"; 0 without a label.
        letter: letter in the label, such as b; "" without a label.
        block: the number of blank lines before the sentence.
    """

    text: str
    place: str
    number: int = 0
    letter: str = ""
    block: int = 0
    tree: DependencyTree | None = None

    @property
    def shown(self) -> str:
        """The label and the shortened text, for messages."""
        text = repr(shortened(self.text, _SENTENCE_CHARACTERS))
        return f"{self.number}{self.letter}) {text}" if self.number else text


def read_questions(
    questions: str | Path, answers: str | Path, parses: str | Path | None = None
) -> list[CompletionQuestion]:
    """Read the questions of a file in order, and the correct candidate of each from a file of answers.

    `questions` or `answers` may be "-" (standard input). The message names the file, the line (in CoNLL-U, the
    sentence) and the question.

    Args:
        questions: plain text or CoNLL-U, as determined by the file name. Candidates are grouped by their labels (`3a)`
            and `3b)` for the third question), or else by blank lines between questions. Without either, all questions
            have the same number of candidates: the number of sentences divided by the number of answers.
        answers: one answer per question, in order: the correct sentence, a label such as `3d)`, or both. In labelled
            lines, the square brackets around the word that fills the gap are removed.
        parses: a CoNLL-U file with one tree per candidate, in order. These trees replace those in `questions`. Words
            may be split differently, but the characters must be the same.

    Raises:
        InputError: if text is not UTF-8, a question has fewer than two candidates or a repeated candidate, answers are
            missing, surplus or not among the candidates, or trees are missing, surplus or have other words.
    """
    candidates, correct = _read(questions), _read(answers)
    if parses is not None:
        candidates = _with_trees(candidates, source_name(questions), parses)
    groups = _groups(candidates, correct, source_name(questions), source_name(answers))
    if len(groups) != len(correct):
        beyond = f"; question {_name(groups, len(correct))} has none" if len(correct) < len(groups) else ""
        raise InputError(
            f"{source_name(answers)}: found {len(correct):,} answers for the {len(groups):,} questions of"
            f" {source_name(questions)}{beyond}; expected one answer for each question"
        )
    read = [
        _question(group, answer, _name(groups, place), str(questions if parses is None else parses))
        for place, (group, answer) in enumerate(zip(groups, correct, strict=True))
    ]
    counts = {"questions": len(read), "candidates": len(candidates)}
    first = tuple(sentence.text for sentence in candidates[:2])
    announce(ReadingReport(source_name(questions), "completion questions", counts, sample=first))
    return read


def _read(path: str | Path) -> list[_Sentence]:
    """Read the sentences of a file. Raises InputError if there is none."""
    if content_suffix(path) == PARSED_SUFFIX:
        trees = enumerate(read_conllu(path), 1)
        named = (tree if tree.name else replace(tree, name=str(number)) for number, tree in trees)
        return [_Sentence(" ".join(tree.words), f"{path}, sentence {tree.name}", tree=tree) for tree in named]
    sentences: list[_Sentence] = []
    blank = 0
    for number, line in read_lines(path):
        if not line.strip():
            blank += bool(sentences)
            continue
        place = f"{source_name(path)}, line {number}"
        if label := _LABEL.match(line):
            text = _FILLED_GAP.sub(r"\1", line[label.end() :])
            sentences.append(_Sentence(_bare(text), place, int(label[1]), label[2], blank))
        else:
            sentences.append(_Sentence(_bare(line), place, block=blank))
    if not sentences:
        raise no_sentence(path)
    return sentences


def _with_trees(asked: Sequence[_Sentence], source: str, parses: str | Path) -> list[_Sentence]:
    """Add the trees of another file to candidates."""
    if content_suffix(parses) != PARSED_SUFFIX:
        raise InputError(
            f"{parses}: found a name that does not end in .conllu; expected CoNLL-U with a tree for each candidate"
        )
    parsed = _read(parses)
    counts = (
        f"{len(parsed):,} trees for the {len(asked):,} candidates of {source}; expected one tree for each, in order"
    )
    for sentence, tree in zip(asked, parsed, strict=False):
        if "".join(split_words(sentence.text)) != "".join(split_words(tree.text)):
            shared = len(os.path.commonprefix([sentence.text, tree.text]))  # noqa: RUF071 - characters
            expected, parsed_text = (
                repr(("... " if begin else "") + shortened(text[begin:], _SENTENCE_CHARACTERS))
                for text in (sentence.text, tree.text)
                for begin in [text.rfind(" ", 0, shared) + 1]  # of the word in which they differ
            )
            more = "" if len(asked) == len(parsed) else f". There are {counts}"
            raise InputError(
                f"{tree.place}: found {parsed_text}; expected the words of {sentence.place}, {expected}{more}"
            )
    if len(asked) != len(parsed):
        longer = max(asked, parsed, key=len)
        alone = longer[min(len(asked), len(parsed))]
        raise InputError(f"{parses}: found {counts}. The first without a partner is {alone.place}")
    return [sentence._replace(tree=tree.tree) for sentence, tree in zip(asked, parsed, strict=True)]


def _bare(line: str) -> str:
    """Return a sentence without BOS and EOS, with single spaces between words."""
    words = split_words(line)
    words = words[1:] if words[:1] == [_BEGIN] else words
    return " ".join(words[:-1] if words[-1:] == [_END] else words)


def _groups(
    candidates: Sequence[_Sentence], correct: Sequence[_Sentence], source: str, answers: str
) -> list[tuple[_Sentence, ...]]:
    """Group sentences by question."""
    if any(sentence.number for sentence in candidates):
        return _labelled(candidates)
    if candidates[-1].block:
        return [tuple(group) for _, group in groupby(candidates, lambda sentence: sentence.block)]
    size, rest = divmod(len(candidates), len(correct))
    if rest or size < 2:
        size = max(2, round(len(candidates) / len(correct)))
        # The first mismatch is at or after the place where a candidate is missing or surplus.
        for number, answer in enumerate(correct, 1):
            group = candidates[(number - 1) * size : number * size]
            is_answered = not answer.text or any(sentence.text == answer.text for sentence in group)
            if not is_answered or len(group) < size:
                where = f", from {group[0].place} on," if group else ""
                lacking = "a candidate" if is_answered else f"its answer, {answer.shown}"
                fault = f"question {number}{where} is the first to lack {lacking}"
                break
        else:
            fault = f"{candidates[len(correct) * size].place} belongs to no question"
        raise InputError(
            f"{source}: found {len(candidates):,} candidates for the {len(correct):,} answers of {answers}; expected"
            f" the same number of candidates, two or more, for each question. With {size} candidates each, {fault}."
            " Separate questions of different sizes by blank lines."
        )
    return [tuple(candidates[begin : begin + size]) for begin in range(0, len(candidates), size)]


def _labelled(asked: Sequence[_Sentence]) -> list[tuple[_Sentence, ...]]:
    """Group candidates by labels: the number of the question followed by a), b), ..."""
    for sentence in asked:
        if not sentence.number:
            raise InputError(
                f"{sentence.place}: found {sentence.shown}; expected a label before it, like on other lines"
            )
    groups = [tuple(group) for _, group in groupby(asked, lambda sentence: sentence.number)]
    seen: dict[int, str] = {}
    for group in groups:
        first = group[0]
        if first.number in seen:
            raise InputError(
                f"{first.place}: found question {first.number} again, after {seen[first.number]}; expected all its"
                " candidates one after another"
            )
        seen[first.number] = first.place
        for place, sentence in enumerate(group):
            letter = ascii_lowercase[place : place + 1]
            if sentence.letter != letter:
                raise InputError(
                    f"{sentence.place}, question {first.number}: found {sentence.shown}; expected"
                    f" {f'{first.number}{letter})' if letter else 'at most 26 candidates'}: a candidate is missing, or"
                    " out of order"
                )
    return groups


def _name(groups: Sequence[tuple[_Sentence, ...]], place: int) -> str:
    return str(groups[place][0].number or place + 1)


def _question(group: tuple[_Sentence, ...], answer: _Sentence, name: str, source: str) -> CompletionQuestion:
    """Build a question.

    Args:
        answer: the sentence or label of its correct candidate.
        source: the file of the trees, if there are any.
    """
    texts = [sentence.text for sentence in group]
    if len(group) < 2:
        raise InputError(
            f"{group[0].place}, question {name}: found one candidate, {group[0].shown}; expected two or more"
        )
    for number, sentence in enumerate(group):
        if not sentence.text:
            raise InputError(f"{sentence.place}, question {name}: found no word; expected a sentence")
        if sentence.text in texts[:number]:
            raise InputError(
                f"{sentence.place}, question {name}: found {sentence.shown} twice; expected different candidates"
            )
    problem = f"{answer.place}, question {name}: found {answer.shown}"
    correct = ascii_lowercase.index(answer.letter) if answer.number else 0
    if answer.number and str(answer.number) != name:
        raise InputError(f"{problem}; expected the answer of question {name}")
    if correct >= len(group):
        raise InputError(
            f"{problem}; expected a letter from a to {ascii_lowercase[len(group) - 1]}, because the question has"
            f" {len(group)} candidates, from {group[0].place} on"
        )
    if not answer.number:
        if answer.text not in texts:
            raise InputError(
                f"{problem}; expected one of the {len(group)} candidates of the question, from {group[0].place} on"
            )
        correct = texts.index(answer.text)
    elif answer.text and answer.text != texts[correct]:
        raise InputError(f"{problem}; expected {texts[correct]!r}, which is candidate {answer.letter}")
    trees = tuple(sentence.tree for sentence in group if sentence.tree is not None)
    return CompletionQuestion(tuple(texts), correct, name, group[0].place, trees, source if trees else "")
