"""File names of constituency trees, dependency trees and tagged text.

A suffix in this module determines the format of a file, except .txt. Otherwise the content determines it.
"""

from __future__ import annotations

from pathlib import Path

from syntaxlm.text_files import content_suffix, uncompressed_name
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS

_OF_TREES = (".mrg", ".brackets", ".bracket", ".tree", ".trees", ".parse", ".penn", ".prd", ".psd")
CONSTITUENCY_SUFFIXES = (*_OF_TREES, ".txt", ".ptb", ".clean")
DEPENDENCY_SUFFIXES = tuple(DEPENDENCY_FORMATS)
TAGGED_SUFFIX = ".tagged"  # also followed by .txt
NO_TEXT_SUFFIXES = (*_OF_TREES, *DEPENDENCY_SUFFIXES)  # files with other suffixes may be plain text
TREEBANK_SUFFIXES = (*CONSTITUENCY_SUFFIXES, *DEPENDENCY_SUFFIXES, TAGGED_SUFFIX)


def is_tagged(path: str | Path) -> bool:
    """Whether a file name, such as masc.tagged or masc.tagged.txt, denotes tagged text (`word_TAG` tokens)."""
    name = uncompressed_name(path)
    return name.suffix.lower() == TAGGED_SUFFIX or (
        Path(name.stem).suffix.lower() == TAGGED_SUFFIX and (name.suffix.lower() == ".txt")
    )


def treebank_suffix(path: str | Path) -> str:
    """Return the suffix of a treebank file. If it is not in TREEBANK_SUFFIXES, the content determines the format."""
    return TAGGED_SUFFIX if is_tagged(path) else content_suffix(path)
