"""Results can be sent to other processes and copied."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import pytest

import syntaxlm
from syntaxlm.comparison.report import Comparison
from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import SettingsError
from syntaxlm.reports.report import HasReport, HasRows
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.training.result import CriterionValue, TrainingResult
from tests.api.models import TEXTS, language_model, results_of_every_type
from tests.fresh_models import fresh
from tests.grammar_models import grammar
from tests.tree_models import tree_model

COPIES: dict[str, Callable[[Any], Any]] = {
    "another process": lambda one: pickle.loads(pickle.dumps(one)),
    "deep copy": copy.deepcopy,
    "copy": copy.copy,
}
every_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=list(COPIES))


def contents(result: Any) -> list[Any]:
    """Everything that a result shows."""
    shown = [type(result), str(result), [list(row.items()) for row in result.rows()] if hasattr(result, "rows") else []]
    if isinstance(result, HasReport):
        shown.append(result.to_dict())
    return shown


@pytest.fixture(scope="module")
def evaluations(toy, tmp_path_factory) -> list[HasRows]:
    """Results of the evaluations of small models."""
    folder = tmp_path_factory.mktemp("evaluations")
    files = {
        "pairs.jsonl": json.dumps({"sentence_good": "the cat sees", "sentence_bad": "sees cat the", "UID": "order"}),
        "suite.csv": "item,condition,1,2\n1,a,the cat,sees\n1,b,the cats,sees",
        "items.csv": "item,condition,sentence\n1,a,the | cat\n1,b,a | dog",
        "words.csv": "line,word,time\n" + "\n".join(
            f"{line},{word},{300 + 7 * line % 90 + len(word)}"
            for line, words in enumerate(islice(permutations(["the", "cat", "old", "sees", "a", "dog"]), 0, 720, 45))
            for word in words
        ),
        "list.txt": "the 9\ncat 2\nold 3\nsees 1\na 8\ndog 2",
        "questions.txt": "<s> the cat sees </s>\n<s> the cat sat </s>\n",
        "answers.txt": "<s> the cat sees </s>\n",
        "gold.dp": "the\tDT\t2\ncat\tNN\t3\nsees\tVBZ\t0\n",
        "best.conllu": "".join(f"{n}\t{w}\t_\t_\t_\t_\t{h}\tdep\t_\t_\n" for n, w, h in ((1, "the", 2), (2, "cat", 0))),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text + "\n")
    lstm, pcfg = language_model(fresh("lstm")), language_model(grammar("simple-pcfg"))
    found: list[HasRows] = [
        lstm.perplexity(TEXTS),
        lstm.surprisal(TEXTS, measures=("entropy", "rank"), next_words=2),
        syntaxlm.evaluate_pairs({"lstm": lstm, "other": fresh("prpn")}, folder / "pairs.jsonl"),
        lstm.evaluate_suites(folder / "suite.csv", predictions=["(2;%a%) < (2;%b%)"]),
        lstm.evaluate_items(folder / "items.csv", frequencies=folder / "list.txt"),
        lstm.word_table(folder / "words.csv", frequencies=folder / "list.txt"),
        pcfg.parse(TEXTS, best=2),
        pcfg.parse(TEXTS, samples=2),
        pcfg.evaluate_parsing(toy / "test.mrg", preprocessing="none"),
        syntaxlm.evaluate_trees(toy / "test.mrg", toy / "test.mrg"),
        syntaxlm.rerank(tree_model(), folder / "best.conllu"),
        lstm.evaluate_completion(folder / "questions.txt", folder / "answers.txt"),
        language_model(fresh("structformer")).evaluate_attachment(folder / "gold.dp"),
        syntaxlm.tune_cache(lstm, toy / "valid.txt", size=20),
        syntaxlm.inspect(folder / "items.csv"),
        Comparison(folder, [], 1, faults={"run": "no text"}),
    ]
    if find_spec("statsmodels"):
        found.append(
            lstm.evaluate_reading_times(folder / "words.csv", frequencies=folder / "list.txt", sentence="line")
        )
    return found


@every_copy
def test_results_of_texts_can_be_copied(copied):
    for result in results_of_every_type():
        assert contents(copied(result)) == contents(result)


@every_copy
def test_results_of_evaluations_can_be_copied(evaluations, copied):
    for result in evaluations:
        again = copied(result)
        assert contents(again) == contents(result), type(result)
        assert getattr(again, "readings", None) == getattr(result, "readings", None)


@every_copy
def test_results_of_training_can_be_copied(copied):
    result = TrainingResult(Path("run"), 3, 1.0, 6.0, criterion=CriterionValue("loss", "nats per token", 2.0))
    assert copied(result) == result


def test_a_copied_row_has_the_measures_of_the_row():
    (first, *_), *_ = language_model(fresh("lstm")).surprisal(TEXTS)
    assert pickle.loads(pickle.dumps(first)) == first
    assert pickle.loads(pickle.dumps(first)).measures is first.measures


def test_a_copied_model_gives_the_same_results_without_the_caches_of_the_original():
    pcfg = language_model(grammar("simple-pcfg"))
    size = len(pickle.dumps(pcfg))
    parses, samples = list(map(str, pcfg.parse(TEXTS))), list(map(str, pcfg.generate(2, seed=1)))
    stored = pickle.dumps(pcfg)
    assert len(stored) == size
    again = pickle.loads(stored)
    assert list(map(str, again.parse(TEXTS))) == parses
    assert list(map(str, again.generate(2, seed=1))) == samples
    assert again.log_prob(TEXTS) == pytest.approx(pcfg.log_prob(TEXTS), nan_ok=True)


@every_copy
@pytest.mark.parametrize(
    "error", [InputError("a: wrong"), SettingsError(["size: 0", "rate: 2"], "model"), UntaggedTokenError("cat")]
)
def test_errors_can_be_copied(copied, error):
    again = copied(error)
    assert (type(again), str(again), again.args, vars(again)) == (type(error), str(error), error.args, vars(error))
