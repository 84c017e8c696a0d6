"""Parses raw text into dependency trees with an installed spaCy pipeline, for text without a treebank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import no_sentence
from syntaxlm.data.corpora import read_lines
from syntaxlm.trees.tree import DependencyTree

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Token


def load_pipeline(name: str | Path) -> Language:
    """Return a spaCy pipeline, by the name of its package or the folder where it was saved.

    Raises InputError if spaCy is not installed or has no such pipeline.
    """
    try:
        import spacy
    except ImportError:
        raise InputError(
            "spaCy, which parses raw text, is not installed. Install it with: pip install 'syntaxlm[spacy]'"
        ) from None
    try:
        return spacy.load(name)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{name}: the spaCy pipeline cannot be loaded: {' '.join(str(error).split())}") from error


def parse_text(path: str | Path, pipeline: Language, split: bool = False) -> Iterator[DependencyTree]:
    """Yield the dependency trees of a UTF-8 text, named by line number; "-" is standard input.

    pipeline: any pipeline with a dependency parser; its tokens, except white space, are the words.
    split: whether the pipeline splits a line into sentences, named 3.1, 3.2 and so on. Otherwise a line is one
        sentence, and its tree has several roots if the parser finds several sentences.
    Raises InputError as `read_lines` does, for a line that is too long for the pipeline, for a pipeline without a
    parser, and for a file without words.
    """
    any_tree = False
    lines, texts = tee(_numbered(path, pipeline.max_length))
    for (number, _), doc in zip(lines, pipeline.pipe(text for _, text in texts), strict=True):
        if not doc.has_annotation("DEP"):
            components = ", ".join(pipeline.pipe_names) or "nothing"
            raise InputError(f"the spaCy pipeline {_name(pipeline)} has no parser; its components are {components}")
        sentences = enumerate(doc.sents, 1) if split else [(0, doc)]
        for part, sentence in sentences:
            tree = _tree(sentence, f"{number}.{part}" if split else str(number))
            if len(tree):
                any_tree = True
                yield tree
    if not any_tree:
        raise no_sentence(path)


def _numbered(path: str | Path, longest: int) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    for number, line in read_lines(path):
        if len(line) > longest:
            raise InputError(f"{path}, line {number}: {len(line)} characters; expected at most {longest}")
        if line and not line.isspace():
            yield number, line


def _name(pipeline: Language) -> str:
    return f"{pipeline.meta['lang']}_{pipeline.meta['name']}"


def _tree(tokens: Iterable[Token], name: str) -> DependencyTree:
    """Return the tree of a sentence. The head of a token of white space becomes that of its dependents."""
    words = [token for token in tokens if not token.is_space]
    positions = {token.i: position for position, token in enumerate(words, 1)}
    heads = []
    for token in words:
        head = token.head
        while head.is_space and head.head.i != head.i:
            head = head.head
        heads.append(0 if head.i == token.i else positions.get(head.i, 0))
    return DependencyTree(
        tuple(token.text for token in words),
        tuple(token.tag_ or token.pos_ for token in words),
        tuple(heads),
        tuple(token.dep_ for token in words),
        name,
    )
