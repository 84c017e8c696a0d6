"""Reads trees to draw from files and bracketed text, for the command `draw`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.errors import InputError
from syntaxlm.text_files import content_suffix
from syntaxlm.trees.brackets import parse_brackets, read_brackets
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS
from syntaxlm.trees.dependencies import steps_of
from syntaxlm.trees.preprocessing import clean_all, find_preprocessing
from syntaxlm.trees.tree import DependencyTree, Tree

MOST_TREES = 30  # per picture
MOST_WORDS = 1000  # per tree


def is_dependency_file(path: Path) -> bool:
    """Whether a path has the extension of a dependency tree format."""
    return content_suffix(path) in DEPENDENCY_FORMATS and not path.is_dir()


def read_gold(text_or_path: str, number: int | None = None, clean_up: str = "none") -> Tree:
    """A gold tree from bracketed text or a bracket file. number: index of the tree, from 1.

    Raises InputError, for example if there are several trees and no number is given.
    """
    if text_or_path.lstrip().startswith("("):
        source, trees = "the gold tree", parse_brackets(text_or_path, source="the gold tree")
    else:
        source, trees = text_or_path, read_brackets(Path(text_or_path))
    if number is None and len(trees) > 1:
        raise InputError(f"{source}: found {len(trees)} trees; choose one with a number from 1 to {len(trees)}")
    if number is not None and not 1 <= number <= len(trees):
        raise InputError(f"{source}: there is no tree {number}; the file has trees 1 to {len(trees)}")
    (tree,), _ = clean_all([trees[(number or 1) - 1]], find_preprocessing(clean_up), source)
    return tree


def read_trees(path: Path, number: int | None = None, clean_up: str = "none") -> list[DependencyTree]:
    """The dependency trees of a file. number: index of the only tree to read, from 1; None: all, at most MOST_TREES.

    Raises InputError like `dependency_trees`, and for a number out of range, too many trees or words, and words whose
    heads do not lead to a root.
    """
    if number is not None and number < 1:
        raise InputError(f"{path}: there is no tree {number}; trees are numbered from 1")
    most = MOST_TREES + 1 if number is None else number
    trees = list(islice(dependency_trees(path, clean_up), most))
    if number is None and len(trees) > MOST_TREES:
        raise InputError(f"{path}: found more than {MOST_TREES} trees; choose one with --number")
    if number is not None and len(trees) < number:
        raise InputError(f"{path}: there is no tree {number}; the file has trees 1 to {len(trees)}")
    chosen = trees if number is None else trees[-1:]
    for tree in chosen:
        if len(tree) > MOST_WORDS:
            raise InputError(f"{path}, sentence {tree.name}: {len(tree):,} words; expected at most {MOST_WORDS}")
        try:
            steps_of(tree)
        except InputError as error:
            raise InputError(f"{path}, {error}") from error
    return chosen
