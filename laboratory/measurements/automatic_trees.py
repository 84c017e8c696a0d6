"""Dependency trees of a spaCy parser for the words of a treebank.

    python -m laboratory.measurements.automatic_trees TREEBANK -o OUTPUT [--pipeline NAME]

TREEBANK: a file of dependency trees, of which only the words and the ends of sentences are read.
OUTPUT: a CoNLL-U file with the same words, and the heads and labels of the parser.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Token

from syntaxlm.trees.conllu import iterate_dependencies, write_conllu
from syntaxlm.trees.tree import DependencyTree


def main() -> None:
    """Parse the words of a treebank; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--pipeline", default="en_core_web_sm", help="an installed spaCy pipeline with a parser")
    options = parser.parse_args()

    pipeline = spacy.load(options.pipeline, exclude=["ner", "lemmatizer", "senter"])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_conllu(parsed(list(iterate_dependencies(options.treebank)), pipeline), options.output)


def parsed(trees: Sequence[DependencyTree], pipeline: Language) -> Iterator[DependencyTree]:
    """Yield a tree of the parser for the words of each tree, in the same order.

    Args:
        trees: their heads, tags and labels are not read.
        pipeline: a spaCy pipeline with a parser, which must keep given ends of sentences.
    """
    documents = (
        Doc(pipeline.vocab, words=list(tree.words), sent_starts=[place == 0 for place in range(len(tree))])
        for tree in trees
    )
    for tree, document in zip(trees, pipeline.pipe(documents), strict=True):
        yield DependencyTree(
            tree.words,
            tuple(token.tag_ for token in document),
            tuple(map(_head, document)),
            tuple(token.dep_ for token in document),
            tree.name,
        )


def _head(token: Token) -> int:
    """Return the position of a word's head, from 1; 0 for the root, which is its own head in spaCy."""
    return 0 if token.head.i == token.i else token.head.i + 1


if __name__ == "__main__":
    main()
