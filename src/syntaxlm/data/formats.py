"""File names of constituency trees, dependency trees and tagged text.

The suffix of a file decides its format, where it is one of these and not .txt; otherwise the content does.
"""

from __future__ import annotations

from pathlib import Path

from syntaxlm.text_files import content_suffix, uncompressed_name
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS

_OF_TREES = (".mrg", ".brackets", ".bracket", ".tree", ".trees", ".parse", ".penn", ".prd", ".psd")
CONSTITUENCY_SUFFIXES = (*_OF_TREES, ".txt", ".ptb", ".clean")
DEPENDENCY_SUFFIXES = tuple(DEPENDENCY_FORMATS)
TAGGED_SUFFIX = ".tagged"  # of tagged text, before .txt or last
NO_TEXT_SUFFIXES = (*_OF_TREES, *DEPENDENCY_SUFFIXES)  # files with other suffixes may be plain text
TREEBANK_SUFFIXES = (*CONSTITUENCY_SUFFIXES, *DEPENDENCY_SUFFIXES, TAGGED_SUFFIX)


def is_tagged(path: str | Path) -> bool:
    """Whether a name is that of tagged text, one `word_TAG` token after another: masc.tagged or masc.tagged.txt."""
    name = uncompressed_name(path)
    return name.suffix.lower() == TAGGED_SUFFIX or (
        Path(name.stem).suffix.lower() == TAGGED_SUFFIX and (name.suffix.lower() == ".txt")
    )


def treebank_suffix(path: str | Path) -> str:
    """The suffix of a treebank file: one of TREEBANK_SUFFIXES, or another, whose format the content decides."""
    return TAGGED_SUFFIX if is_tagged(path) else content_suffix(path)
