"""The names of the package: imported lazily, typed, and with examples that run."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

import syntaxlm
from tests.api.models import language_model
from tests.fresh_models import fresh
from tests.tree_models import tree_model

HEAVY = ("nltk", "numpy", "pandas", "polars", "pydantic", "torch")


def test_every_public_name_is_that_of_its_module():
    typed = re.findall(r"^    from syntaxlm\.([\w.]+) import (\w+) as \2$", inspect.getsource(syntaxlm), re.MULTILINE)
    assert {name: module for module, name in typed} == syntaxlm._MODULES
    assert syntaxlm.__all__ == sorted(syntaxlm.__all__)
    for name, module in syntaxlm._MODULES.items():
        assert getattr(syntaxlm, name) is getattr(importlib.import_module(f"syntaxlm.{module}"), name)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        syntaxlm.lode  # noqa: B018


def test_the_package_loads_no_heavy_library():
    program = f"import sys, syntaxlm; dir(syntaxlm); print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def _documented(name):
    """The object of a public name and, of a class of the package's models, its methods."""
    found = getattr(syntaxlm, name)
    yield found
    if name == "LanguageModel":
        yield from (method for method in vars(found).values() if ">>>" in (inspect.getdoc(method) or ""))


@pytest.fixture(scope="module")
def example_names(tmp_path_factory):
    """The names that examples use, in a folder with the built-in corpus and a small model trained on it."""
    folder = tmp_path_factory.mktemp("examples")
    with contextlib.chdir(folder):
        syntaxlm.write_corpus("corpus", 60)
        Path("tree.mrg").write_text("(S (NP (DT the) (NN cat)))\n")
        rows = [("1", "the", "2"), ("2", "cat", "0")], [("1", "the", "0"), ("2", "cat", "1")]
        candidates = ("".join(f"{n}\t{w}\t_\t_\t_\t_\t{h}\tdep\t_\t_\n" for n, w, h in tree) for tree in rows)
        Path("candidates.conllu").write_text("\n".join(candidates) + "\n")
        Path("pairs.jsonl").write_text('{"sentence_good": "the cat sees", "sentence_bad": "sees cat the"}\n')
        Path("suite.csv").write_text("item,condition,1,2\n1,plural,the cats,see\n1,singular,the cat,see\n")
        Path("questions.txt").write_text("the cat sees\nthe cat see\n")
        Path("answers.txt").write_text("the cat sees\n")
        Path("stimuli.csv").write_text("item,condition,sentence\n1,a,the cat | sees\n1,b,the cats | see\n")
        Path("words.csv").write_text("word\nthe\ncat\n")
        words = Path("corpus/train.txt").read_text().split()[:400]
        times = [f"{n // 40},{word},{300 + (37 * n) % 61}" for n, word in enumerate(words)]
        Path("times.csv").write_text("\n".join(["story,word,time", *times]) + "\n")
        files = {"text.train": "corpus/train.txt", "text.valid": "corpus/valid.txt", "text.test": None}
        settings = files | {"schedule.epochs": 1, "model.hidden_size": 8, "model.embedding_size": 8}
        syntaxlm.train("lstm-toy", "my-run", settings)
        models = {"nlp": syntaxlm.load("en-fast"), "trained": language_model(fresh("lstm")), "tree_model": tree_model()}
        models["dependency_parser"] = language_model(fresh("structformer"))
        with patch.dict(sys.modules, {"torch.utils.tensorboard": MagicMock()}):  # tensorboard may not be installed
            yield {"syntaxlm": syntaxlm, "settings": settings} | models


@pytest.mark.parametrize("name", [name for name in syntaxlm.__all__ if name != "PROTOCOLS"])
def test_every_public_name_has_an_example_that_runs(name, example_names):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=options)
    for documented in _documented(name):
        examples = doctest.DocTestParser().get_doctest(
            inspect.getdoc(documented), dict(example_names), documented.__qualname__, None, None
        )
        assert examples.examples, f"{documented.__qualname__} has no example"
        faults: list[str] = []
        runner.run(examples, out=faults.append)
        assert not faults, "".join(faults)


def test_type_checkers_see_the_package_as_typed():
    assert files("syntaxlm").joinpath("py.typed").is_file()
