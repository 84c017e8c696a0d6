"""Which names stand for which kind of file: constituency trees, dependency trees, tagged text."""

from __future__ import annotations

from pathlib import Path

from syntaxlm.text_files import content_suffix, uncompressed_name
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS

CONSTITUENCY_SUFFIXES = (".mrg", ".brackets", ".txt", ".tree", ".trees", ".ptb", ".clean")
DEPENDENCY_SUFFIXES = tuple(DEPENDENCY_FORMATS)
TAGGED_SUFFIX = ".tagged"  # of tagged text, before .txt or last
NO_TEXT_SUFFIXES = (".mrg", ".brackets", ".tree", ".trees", *DEPENDENCY_SUFFIXES)  # the others may be of plain text
TREEBANK_SUFFIXES = (*CONSTITUENCY_SUFFIXES, *DEPENDENCY_SUFFIXES, TAGGED_SUFFIX)


def is_tagged(path: str | Path) -> bool:
    """Whether a name stands for tagged text, one `word_TAG` token after another: masc.tagged or masc.tagged.txt."""
    name = uncompressed_name(path)
    return name.suffix.lower() == TAGGED_SUFFIX or (
        Path(name.stem).suffix.lower() == TAGGED_SUFFIX and (name.suffix.lower() == ".txt")
    )


def treebank_suffix(path: str | Path) -> str:
    """The suffix that decides how a treebank file is read: one of TREEBANK_SUFFIXES, or another."""
    return TAGGED_SUFFIX if is_tagged(path) else content_suffix(path)
