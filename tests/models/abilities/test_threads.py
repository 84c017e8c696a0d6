"""Every model type gives the same values to several threads as to one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from syntaxlm.api import LanguageModel
from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import EncodesSentences
from syntaxlm.models.registry import MODELS
from syntaxlm.reports.report import HasReport
from syntaxlm.scoring.surprisal import log_probs_of_trees
from syntaxlm.text.reader import TextReader
from syntaxlm.trees.tree import DependencyTree
from tests.api.models import language_model
from tests.fresh_models import KNOWN, fresh
from tests.models.variants import ragged
from tests.tree_models import tree_model
from tests.turns import THREADS, in_threads

pytestmark = pytest.mark.filterwarnings("ignore::syntaxlm.core.errors.InputWarning")  # most words are unknown

CALLS = 2  # of each method in each thread
IN_SHORT = ("lstm", "simple-pcfg", "dmv")  # a model of each structure; the others are long
OF_TEXT = [name for name, kind in MODELS.items() if kind.reads != "trees"]
OF_TREES = [name for name, kind in MODELS.items() if kind.reads == "trees"]

Call = Callable[[LanguageModel, list[str], int], Any]
METHODS: dict[str, Call] = {
    "parse": lambda model, texts, seed: model.parse(texts),
    "best trees": lambda model, texts, seed: model.parse(texts, best=3),
    "samples of trees": lambda model, texts, seed: model.parse(texts, samples=2, sample_seed=seed),
    "labels": lambda model, texts, seed: model.parse(texts, labels=True),
    "pipe": lambda model, texts, seed: list(model.pipe(texts, 2)),
    "average": lambda model, texts, seed: model.parse(texts, also=[model]),
    "surprisal": lambda model, texts, seed: model.surprisal(texts),
    "measures": lambda model, texts, seed: model.surprisal(texts, measures=("entropy", "rank"), next_words=2),
    "log_prob": lambda model, texts, seed: model.log_prob(texts),
    "perplexity": lambda model, texts, seed: model.perplexity(texts),
    "generate": lambda model, texts, seed: model.generate(2, max_words=6, seed=seed),
    "generate with trees": lambda model, texts, seed: model.generate(2, trees=True, max_words=6, seed=seed),
}


def sentences(seed: int) -> list[str]:
    """Some sentences, half of whose words occur in no other ones."""
    draw, known = random.Random(seed), KNOWN["words"].split()
    lengths = [draw.randint(1, 5) for _ in range(2)]
    return [
        " ".join(draw.choice(known) if draw.random() < 0.5 else f"w{seed}{draw.randrange(99)}" for _ in range(length))
        for length in lengths
    ]


def shown(result: Any) -> str:
    """Every value of a result, as text, so that NaN equals NaN."""
    if isinstance(result, HasReport):
        return repr(result.to_dict())
    return repr([one if isinstance(one, float) else one.to_dict() for one in result])


def supported(model: LanguageModel) -> dict[str, Call]:
    """The methods of a model that do not refuse."""
    found = {}
    for name, call in METHODS.items():
        try:
            call(model, ["the cat"], 0)
        except InputError:
            continue
        found[name] = call
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.long) for name in OF_TEXT]
)
def test_a_model_of_text_gives_every_thread_the_values_that_one_thread_gets(name):
    model = language_model(fresh(name))
    methods = supported(model)
    assert methods
    seeds = range(THREADS * CALLS)

    calls = [
        partial(lambda call, seed: shown(call(model, sentences(seed), seed)), call, seed)
        for seed in seeds
        for call in methods.values()
    ]
    TextReader._remembered.cache_clear()  # the threads start without remembered words
    found = in_threads(calls)
    TextReader._remembered.cache_clear()
    assert found == [call() for call in calls]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("on-lstm", "diora") else pytest.mark.long)
        for name in OF_TEXT
        if MODELS[name].has(EncodesSentences)
    ],
)
def test_a_model_of_sentence_vectors_gives_every_thread_the_values_that_one_thread_gets(name):
    model = fresh(name).model
    calls = [partial(lambda seed: model.encode(ragged(seed=seed)).features.tolist(), seed) for seed in range(24)]
    assert in_threads(calls) == [call() for call in calls]


@pytest.mark.parametrize("name", OF_TREES)
def test_a_model_of_trees_gives_every_thread_the_values_that_one_thread_gets(name):
    model = tree_model()
    assert model.name == name

    def scored(seed: int) -> list[float]:
        words = sentences(seed)[0].split()
        heads = tuple(range(len(words)))  # each word depends on the one before it
        tree = DependencyTree(tuple(words), ("",) * len(words), heads, ("",) * len(words), "")
        return list(log_probs_of_trees(model, [tree]))

    calls = [partial(scored, seed) for seed in range(24)]
    assert in_threads(calls) == [call() for call in calls]


def test_two_models_of_one_vocabulary_do_not_mix_their_words():
    models = [language_model(fresh(name)) for name in ("lstm", "ngram")]
    calls = [
        partial(lambda model, seed: model.surprisal(sentences(seed)).to_dict(), models[seed % 2], seed)
        for seed in range(120)
    ]
    TextReader._remembered.cache_clear()
    found = in_threads(calls)
    TextReader._remembered.cache_clear()
    assert found == [call() for call in calls]


def test_threads_may_load_models_at_the_same_time(tmp_path):
    model = language_model(fresh("on-lstm"))
    model.save_pretrained(tmp_path / "model")
    loads = [partial(LanguageModel.from_pretrained, tmp_path / "model") for _ in range(12)]
    assert {one.log_prob("the cat") for one in in_threads(loads)} == {loads[0]().log_prob("the cat")}
