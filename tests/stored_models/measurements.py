"""What is measured on each stored model: sections as they are in `expected/`."""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.boundaries import evaluate_boundaries
from syntaxlm.evaluation.reranking import evaluate_reranking
from syntaxlm.generation.stops import read_stops, score_stops, tree_corpus, tree_model
from syntaxlm.parsing.evaluation import evaluate_trees, protocol_named
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.surprisal import tree_log_probs, tree_surprisals
from syntaxlm.storage.arpa import read_arpa, write_arpa
from syntaxlm.storage.folder import ModelBundle, distinct_tensors, read_model
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.run import resume, train
from tests.stored_models import calls
from tests.stored_models.calls import MODES

FOLDER = Path(__file__).parent

TEST, DEV, TREEBANK = "inputs/test.txt", "inputs/dev.txt", "inputs/test.mrg"
REPEATED = "inputs/repeated.txt"
QUESTIONS, ANSWERS, PAIRS = "inputs/questions.txt", "inputs/answers.txt", "inputs/pairs.jsonl"
PARSED_QUESTIONS, PARSED_ANSWERS = "inputs/questions.conllu", "inputs/answers.conllu"
PLAIN_QUESTIONS, PLAIN_ANSWERS = "inputs/parsed-questions.txt", "inputs/parsed-answers.txt"
BEST, GOLD = "inputs/test-best.conllu", "inputs/test-best.gold.conllu"
TUNE = "inputs/dev-best.conllu", "inputs/dev-best.gold.conllu"
TREES = "inputs/test.conllu"
CACHE = 0.2, 0.1, 60
RANDOM_WEIGHTS = ("prpn", "on-lstm", "palm")  # also scored with two draws of fresh weights

Section = Callable[[str], Any]


def folder(name: str) -> str:
    return f"models/{name}"


@functools.cache
def model(name: str) -> Any:
    return read_model(folder(name))


@functools.cache
def facts(name: str) -> dict[str, Any]:
    return calls.facts(model(name))


def lines() -> list[str]:
    return Path("inputs/sentences.txt").read_text(encoding="utf-8").split("\n")[:-1]


def tried(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The value of a call, or a note that it was refused."""
    try:
        value = call(*arguments, **options)
    except InputError as error:
        return {"error": "InputError", "message": str(error)}
    return value.to_dict() if hasattr(value, "to_dict") else value


# ---- models of text


def surprisals(name: str) -> dict[str, Any]:
    """All rows as the model was trained to read; bits alone of the other way."""
    other = "reset" if calls.mode(model(name)) == "stream" else "carry"
    bits = [[row[-1] for row in rows] for rows in calls.word_surprisals(model(name), lines(), other)]
    return {"as trained": calls.word_surprisals(model(name), lines()), other: bits}


def sentence_log_probs(bundle: ModelBundle) -> list[float]:
    """Natural log-probability of each line read by itself; EOS counts where the model predicts it."""
    return Scorer.of(bundle).sentences(calls.tokens(bundle, lines())).tolist()


def text_scores(name: str) -> dict[str, Any]:
    """In the mode of training and in the others."""
    others = [mode for mode in MODES if mode != calls.mode(model(name))]
    scores = {mode: calls.text_score(model(name), TEST, mode) for mode in others}
    return {"as trained": calls.text_score(model(name), TEST)} | scores


def text_scores_with_cache(name: str) -> dict[str, Any]:
    return {
        f"{mode}; {path}": tried(calls.text_score, model(name), path, mode, CACHE)
        for mode in ("sentences", "stream")
        for path in (TEST, REPEATED)
    }


def minimal_pairs(name: str) -> dict[str, Any]:
    only = {"model": model(name)}
    return {
        "as written": tried(calls.minimal_pairs, only, PAIRS),
        "dropped, split": tried(calls.minimal_pairs, only, PAIRS, "drop", "split"),
    }


def completion(name: str) -> dict[str, Any]:
    only = {"model": model(name)}
    return {
        "sums": tried(calls.completion, only, QUESTIONS, ANSWERS),
        "means": tried(calls.completion, only, QUESTIONS, ANSWERS, per_token=True),
        "parsed": tried(calls.completion, only, PARSED_QUESTIONS, PARSED_ANSWERS),
    }


def generated(name: str) -> dict[str, Any]:
    draw = functools.partial(tried, calls.generated, model(name), 5)
    return {
        "temperature 1": draw(seed=1, max_words=20),
        "temperature 0": draw(temperature=0, seed=1, max_words=20),
        "prompt": draw("the young", temperature=0.8, top_k=5, seed=2, max_words=12, keep_unknown=True),
    }


def parses(name: str) -> Any:
    """By decoder and layer."""
    rules, layers = facts(name)["rules"], facts(name)["distance_layers"]
    if not rules:
        return tried(calls.parses, model(name), lines(), None, None)
    return {
        f"{rule}, layer {layer}": calls.parses(model(name), lines(), rule, layer)
        for rule in rules
        for layer in (None, *range(1, layers + 1))
    }


def parsing(name: str) -> dict[str, Any]:
    rules, layers = facts(name)["rules"], facts(name)["distance_layers"]
    found = {
        "default": calls.parsing(model(name), TREEBANK),
        "evalb, 10 words, last rule, last layer, no clean-up": calls.parsing(
            model(name), TREEBANK, "evalb", 10, rules[-1], "none", layers or None
        ),
    }
    if name in RANDOM_WEIGHTS:
        report = calls.parsing(model(name), TREEBANK, random_weights=2)
        found["random weights"] = report["figures"]["random_weights"]
    return found


def boundaries(name: str) -> dict[str, Any]:
    return {
        "first tenth": tried(evaluate_boundaries, model(name), TEST),
        "tuned": tried(evaluate_boundaries, model(name), TEST, DEV),
    }


def arpa(name: str, outputs: Path) -> dict[str, Any]:
    path = outputs / "model.arpa"
    write_arpa(model(name), path)
    written = path.read_text(encoding="utf-8")
    return {
        "characters": len(written),
        "sha256": hashlib.sha256(written.encode()).hexdigest(),
        "first lines": written.split("\n")[:20],
        "sentence_log_probs of the model read back": sentence_log_probs(read_arpa(path)),
    }


TEXT: dict[str, Section] = {
    "facts": facts,
    "tokens": lambda name: calls.tokens(model(name), lines()),
    "sentence_log_probs": lambda name: tried(sentence_log_probs, model(name)),
    "surprisals": surprisals,
    "evaluate_text": text_scores,
    "evaluate_text_with_cache": text_scores_with_cache,
    "tune_cache": lambda name: tried(calls.tuned_cache, model(name), REPEATED, 200),
    "evaluate_pairs": minimal_pairs,
    "evaluate_completion": completion,
    "generate": generated,
    "parses": parses,
    "distances": lambda name: calls.distances(model(name), lines()),
    "span_scores": lambda name: calls.span_scores(model(name), lines()),
    "evaluate_parsing": parsing,
    "evaluate_boundaries": boundaries,
}


# ---- dependency-tree models


def tree_text_scores(name: str) -> dict[str, Any]:
    return {
        "as trained": calls.text_score(model(name), TREES),
        "sentences": tried(calls.text_score, model(name), TEST, "sentences"),
    }


def reranking(name: str) -> dict[str, Any]:
    return {
        "model alone": evaluate_reranking(model(name), BEST, GOLD).to_dict(),
        "tuned": evaluate_reranking(model(name), BEST, GOLD, tune=TUNE).to_dict(),
    }


def tree_completion(name: str) -> dict[str, Any]:
    only = {"model": model(name)}
    return {
        "parsed": calls.completion(only, PARSED_QUESTIONS, PARSED_ANSWERS),
        "plain, with parses": calls.completion(only, PLAIN_QUESTIONS, PLAIN_ANSWERS, parsed=PARSED_QUESTIONS),
    }


def generated_trees(name: str) -> dict[str, Any]:
    draw = functools.partial(tried, calls.generated_trees, model(name), folder(name), 5)
    return {
        "temperature 1": draw(seed=1, max_words=20),
        "temperature 0": draw(temperature=0, seed=1, max_words=12),
        "redrawn": draw(temperature=0.7, top_k=10, seed=2, max_words=15, max_depth=6, redraw=True),
    }


def stops_score(name: str) -> dict[str, Any]:
    """How often the stop classifiers of a folder are correct on the trees of a file."""
    bundle = model(name)
    return score_stops(read_stops(folder(name), bundle), tree_model(bundle), tree_corpus(bundle, TREES)).to_dict()


DEPENDENCY_TREES: dict[str, Section] = {
    "facts": facts,
    "evaluate_text": tree_text_scores,
    "tree_log_probs": lambda name: tree_log_probs(model(name), tree_corpus(model(name), TREES)).tolist(),
    "surprisals": lambda name: [list(map(calls.row_of, rows)) for rows in tree_surprisals(model(name), TREES)],
    "rerank": lambda name: {str(weight): calls.reranked(model(name), BEST, weight) for weight in (1.0, 0.4)},
    "evaluate_reranking": reranking,
    "evaluate_completion": tree_completion,
    "stops": lambda name: tried(stops_score, name),
    "generate": generated_trees,
}


# ---- logical inference


def logic(name: str) -> dict[str, Any]:
    return {part: calls.logic(folder(name), f"inputs/logic/{part}.tsv") for part in ("learnt", "test")}


# ---- several models at once

GROUPS = {
    "prpn, on-lstm, prpn-paper": ["prpn", "on-lstm", "prpn-paper"],
    "prpn, palm, on-lstm": ["prpn", "palm", "on-lstm"],
    "palm, palm-s": ["palm", "palm-s"],
}


def models(*names: str) -> dict[str, Any]:
    return {name: model(name) for name in names}


def parses_together() -> dict[str, Any]:
    return {
        f"{names}; {rule}": tried(calls.parses_together, [*models(*group).values()], lines(), rule)
        for names, group in GROUPS.items()
        for rule in (None, "unbiased", "greedy-sum")
    }


def parsing_together() -> dict[str, Any]:
    return {
        names: calls.parsing(model(first), TREEBANK, also=[*models(*others).values()])
        for names, (first, *others) in GROUPS.items()
    }


def completion_together() -> dict[str, Any]:
    trees_and_text = models("tree-rnn-labelled", "lstm-open", "ngram")
    plain = models("tree-rnn-labelled", "lstm")
    return {
        "prpn, lstm": calls.completion(models("prpn", "lstm"), QUESTIONS, ANSWERS),
        "prpn, ngram, on-lstm": calls.completion(models("prpn", "ngram", "on-lstm"), QUESTIONS, ANSWERS),
        "prpn, lstm, fixed": calls.completion(models("prpn", "lstm"), QUESTIONS, ANSWERS, [0.3]),
        "tree-rnn-labelled, lstm-open, ngram": calls.completion(trees_and_text, PARSED_QUESTIONS, PARSED_ANSWERS),
        "tree-rnn-labelled, lstm, plain": calls.completion(
            plain, PLAIN_QUESTIONS, PLAIN_ANSWERS, parsed=PARSED_QUESTIONS
        ),
    }


PREDICTED = ["inputs/predicted/prpn.mrg", "inputs/predicted/on-lstm.mrg", "inputs/predicted/palm.mrg"]


def scored_trees(path: str) -> dict[str, Any]:
    return evaluate_trees(path, TREEBANK, protocol_named("wsj-test", None), "none").to_dict()


TOGETHER: dict[str, Callable[[], Any]] = {
    "parse_together": parses_together,
    "evaluate_parsing_together": parsing_together,
    "evaluate_completion": completion_together,
    "evaluate_pairs": lambda: calls.minimal_pairs(models("prpn", "lstm", "ngram"), PAIRS),
    "average": lambda: {
        "alike": calls.averaged(PREDICTED),
        "2,1,1, up to 10 words": calls.averaged(PREDICTED, [2, 1, 1], 10),
    },
    "evaluate_trees": lambda: {path: scored_trees(path) for path in PREDICTED},
}


# ---- training


def resumed(name: str, outputs: Path) -> tuple[dict[str, Any], Path]:
    """Figures and folder of a stopped run that is resumed to its end."""
    made = outputs / name
    shutil.copytree(f"{folder(name)}-stopped", made)
    return resume(made).to_dict(), made


def trained(name: str, outputs: Path) -> tuple[dict[str, Any], Path]:
    """Figures and folder of a run with the stored recipe."""
    made = outputs / name
    return train(read_recipe(f"{folder(name)}/recipe.yaml"), made).to_dict(), made


def largest_weight_difference(one: Path, other: Path) -> float:
    """Of two model folders. 0 means that all weights are identical."""
    tensors, others = (distinct_tensors(read_model(path).model) for path in (one, other))
    assert tensors.keys() == others.keys()
    pairs = [(tensors[name].double(), others[name].double()) for name in tensors if tensors[name].numel()]
    return max(float((tensor - other).abs().max()) for tensor, other in pairs)
