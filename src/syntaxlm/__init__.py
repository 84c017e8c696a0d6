"""Language models that learn syntax: probabilities and trees from plain text.

Most programs need only the names below; each subpackage has more. They are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from syntaxlm import display

if TYPE_CHECKING:
    from syntaxlm.data.toy import write_corpus
    from syntaxlm.data.treebanks import read_treebank
    from syntaxlm.errors import InputError
    from syntaxlm.evaluation.completion import evaluate_completion
    from syntaxlm.evaluation.pairs import evaluate_pairs
    from syntaxlm.generation.sentences import generate
    from syntaxlm.model_io import read_model
    from syntaxlm.parsing.evaluation import evaluate_parsing, evaluate_trees
    from syntaxlm.parsing.parse import parse_lines
    from syntaxlm.reports.report import write_report
    from syntaxlm.scoring.cache import CacheSettings
    from syntaxlm.scoring.cache_tuning import tune_cache
    from syntaxlm.scoring.perplexity import evaluate_text
    from syntaxlm.scoring.surprisal import surprisals
    from syntaxlm.training.recipe import read_recipe
    from syntaxlm.training.recipe_files import find_recipe
    from syntaxlm.training.trainer import resume, train
    from syntaxlm.trees import read_brackets, write_brackets
    from syntaxlm.trees.averaging import average_files

__version__ = "0.1.0"

_MODULES = {
    "CacheSettings": "scoring.cache",
    "InputError": "errors",
    "average_files": "trees.averaging",
    "evaluate_completion": "evaluation.completion",
    "evaluate_pairs": "evaluation.pairs",
    "evaluate_parsing": "parsing.evaluation",
    "evaluate_text": "scoring.perplexity",
    "evaluate_trees": "parsing.evaluation",
    "find_recipe": "training.recipe_files",
    "generate": "generation.sentences",
    "parse_lines": "parsing.parse",
    "read_brackets": "trees",
    "read_model": "model_io",
    "read_recipe": "training.recipe",
    "read_treebank": "data.treebanks",
    "resume": "training.trainer",
    "surprisals": "scoring.surprisal",
    "train": "training.trainer",
    "tune_cache": "scoring.cache_tuning",
    "write_brackets": "trees",
    "write_corpus": "data.toy",
    "write_report": "reports.report",
}

__all__ = [
    "CacheSettings",
    "InputError",
    "average_files",
    "evaluate_completion",
    "evaluate_pairs",
    "evaluate_parsing",
    "evaluate_text",
    "evaluate_trees",
    "find_recipe",
    "generate",
    "parse_lines",
    "read_brackets",
    "read_model",
    "read_recipe",
    "read_treebank",
    "resume",
    "surprisals",
    "train",
    "tune_cache",
    "write_brackets",
    "write_corpus",
    "write_report",
]


# How results show themselves in notebooks.
display.register(
    {
        "tree": "syntaxlm.drawing.tree:tree_svg",
        "dependency tree": "syntaxlm.drawing.dependencies:dependency_svg",
        "facts": "syntaxlm.drawing.page:facts_html",
    }
)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import a name's module when the name is first used: torch takes seconds to import."""
    if name not in _MODULES:
        raise AttributeError(f"module 'syntaxlm' has no attribute {name!r}")
    return getattr(importlib.import_module(f"syntaxlm.{_MODULES[name]}"), name)
