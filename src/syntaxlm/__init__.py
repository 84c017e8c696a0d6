"""Language models that learn syntax: probabilities and trees from plain text.

    nlp = syntaxlm.load("my-model")
    nlp.parse("the old cat sleeps on a red chair").tree.pretty_print()

Most programs need only the names in this module. The subpackages have further functions. Names are imported lazily.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from syntaxlm.core.version import VERSION

if TYPE_CHECKING:
    from syntaxlm.api.functions import compare as compare
    from syntaxlm.api.functions import rerank as rerank
    from syntaxlm.api.functions import resume as resume
    from syntaxlm.api.functions import train as train
    from syntaxlm.api.model import LanguageModel as LanguageModel
    from syntaxlm.api.model import load as load
    from syntaxlm.api.model_report import write_report as write_report
    from syntaxlm.comparison.averages import average_files as average_files
    from syntaxlm.core.errors import InputError as InputError
    from syntaxlm.core.errors import InputWarning as InputWarning
    from syntaxlm.data.frequencies import Frequencies as Frequencies
    from syntaxlm.data.toy import write_corpus as write_corpus
    from syntaxlm.data.treebanks import read_treebank as read_treebank
    from syntaxlm.evaluation.attachment import evaluate_attachment as evaluate_attachment
    from syntaxlm.evaluation.cache_tuning import tune_cache as tune_cache
    from syntaxlm.evaluation.completion import evaluate_completion as evaluate_completion
    from syntaxlm.evaluation.inspection import inspect as inspect
    from syntaxlm.evaluation.items import evaluate_items as evaluate_items
    from syntaxlm.evaluation.options import RegressionSettings as RegressionSettings
    from syntaxlm.evaluation.pairs import evaluate_pairs as evaluate_pairs
    from syntaxlm.evaluation.reading_times import evaluate_reading_times as evaluate_reading_times
    from syntaxlm.evaluation.suites import evaluate_suites as evaluate_suites
    from syntaxlm.evaluation.trees import evaluate_parsing as evaluate_parsing
    from syntaxlm.evaluation.trees import evaluate_trees as evaluate_trees
    from syntaxlm.parsing.result import Parse as Parse
    from syntaxlm.scoring.cache import CacheSettings as CacheSettings
    from syntaxlm.scoring.word_table import word_table as word_table
    from syntaxlm.text.treebank_style import TreebankStyle as TreebankStyle
    from syntaxlm.training.loggers import ExperimentLogger as ExperimentLogger
    from syntaxlm.training.recipe import read_recipe as read_recipe
    from syntaxlm.training.recipe_files import find_recipe as find_recipe
    from syntaxlm.trees.f1 import PROTOCOLS as PROTOCOLS
    from syntaxlm.trees.f1 import Protocol as Protocol
    from syntaxlm.trees.tree import Tree as Tree
    from syntaxlm.trees.tree import read_brackets as read_brackets
    from syntaxlm.trees.tree import write_brackets as write_brackets

__version__ = VERSION

_MODULES = {
    "CacheSettings": "scoring.cache",
    "ExperimentLogger": "training.loggers",
    "Frequencies": "data.frequencies",
    "InputError": "core.errors",
    "InputWarning": "core.errors",
    "LanguageModel": "api.model",
    "PROTOCOLS": "trees.f1",
    "Parse": "parsing.result",
    "Protocol": "trees.f1",
    "RegressionSettings": "evaluation.options",
    "Tree": "trees.tree",
    "TreebankStyle": "text.treebank_style",
    "average_files": "comparison.averages",
    "compare": "api.functions",
    "evaluate_attachment": "evaluation.attachment",
    "evaluate_completion": "evaluation.completion",
    "evaluate_items": "evaluation.items",
    "evaluate_pairs": "evaluation.pairs",
    "evaluate_parsing": "evaluation.trees",
    "evaluate_reading_times": "evaluation.reading_times",
    "evaluate_suites": "evaluation.suites",
    "evaluate_trees": "evaluation.trees",
    "find_recipe": "training.recipe_files",
    "inspect": "evaluation.inspection",
    "load": "api.model",
    "read_brackets": "trees.tree",
    "read_recipe": "training.recipe",
    "read_treebank": "data.treebanks",
    "rerank": "api.functions",
    "resume": "api.functions",
    "train": "api.functions",
    "tune_cache": "evaluation.cache_tuning",
    "word_table": "scoring.word_table",
    "write_brackets": "trees.tree",
    "write_corpus": "data.toy",
    "write_report": "api.model_report",
}

__all__ = [*_MODULES]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import the module of a name when the name is first used, because importing torch takes seconds."""
    if name not in _MODULES:
        raise AttributeError(f"module 'syntaxlm' has no attribute {name!r}")
    return getattr(importlib.import_module(f"syntaxlm.{_MODULES[name]}"), name)
