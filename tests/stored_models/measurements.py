"""What is measured on each stored model: sections as they are in `expected/`, plain JSON values with all digits.

Paths are relative to this folder.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from syntaxlm.comparison.averages import average_files
from syntaxlm.core.errors import InputError
from syntaxlm.data.parse_candidates import read_candidates
from syntaxlm.evaluation.boundaries import evaluate_boundaries
from syntaxlm.evaluation.cache_tuning import tune_cache
from syntaxlm.evaluation.completion import evaluate_completion
from syntaxlm.evaluation.pair_classification import EncodedPairs, evaluate_inference
from syntaxlm.evaluation.pairs import evaluate_pairs
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.evaluation.reranking import evaluate_reranking, rerank
from syntaxlm.evaluation.trees import evaluate_parsing, evaluate_trees, protocol_named
from syntaxlm.generation.options import SamplingOptions, TreeSamplingOptions
from syntaxlm.generation.sentences import generate
from syntaxlm.generation.stops import read_stops, score_stops, tree_corpus, tree_model
from syntaxlm.generation.trees import generate_trees
from syntaxlm.models.abilities import GeneratesTrees, ParsesSentences
from syntaxlm.models.batches import TextMode
from syntaxlm.models.structures import SpanScores
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import structure_of
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import WordSurprisal, surprisals, tree_log_probs, tree_surprisals
from syntaxlm.storage.arpa import read_arpa, write_arpa
from syntaxlm.storage.folder import ModelBundle, distinct_tensors, read_classifier, read_model
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.run import resume, train
from tests.fresh_models import reading

TEST, DEV, TREEBANK = "inputs/test.txt", "inputs/dev.txt", "inputs/test.mrg"
REPEATED = "inputs/repeated.txt"
QUESTIONS, ANSWERS, PAIRS = "inputs/questions.txt", "inputs/answers.txt", "inputs/pairs.jsonl"
PARSED_QUESTIONS, PARSED_ANSWERS = "inputs/questions.conllu", "inputs/answers.conllu"
PLAIN_QUESTIONS, PLAIN_ANSWERS = "inputs/parsed-questions.txt", "inputs/parsed-answers.txt"
BEST, GOLD = "inputs/test-best.conllu", "inputs/test-best.gold.conllu"
TUNE = "inputs/dev-best.conllu", "inputs/dev-best.gold.conllu"
TREES = "inputs/test.conllu"
CACHE = CacheSettings(0.2, 0.1, 60)
RANDOM_WEIGHTS = ("prpn", "on-lstm", "palm")  # also scored with two draws of fresh weights
MODES = {
    "sentences": TextMode(carry_state=False, predict_eos=True),
    "open-sentences": TextMode(carry_state=False, predict_eos=False),
    "stream": TextMode(carry_state=True, predict_eos=True),
}
"""The names of text modes in the recorded figures."""

Section = Callable[[str], Any]
Models = dict[str, ModelBundle]


def folder(name: str) -> str:
    return f"models/{name}"


@functools.cache
def model(name: str) -> Any:
    return read_model(folder(name))


def models(*names: str) -> Models:
    return {name: model(name) for name in names}


def only(name: str) -> Models:
    """A model under the name that it has in figures of one model."""
    return {"model": model(name)}


def lines() -> list[str]:
    return Path("inputs/sentences.txt").read_text(encoding="utf-8").split("\n")[:-1]


def tokens(bundle: ModelBundle) -> list[list[str]]:
    """The tokens of each line after normalisation."""
    return [bundle.normaliser.tokens(line) for line in lines()]


def tried(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The value of a call, or a note that it was refused."""
    try:
        value = call(*arguments, **options)
    except InputError as error:
        return {"error": "InputError", "message": str(error)}
    return value.to_dict() if hasattr(value, "to_dict") else value


# ---- a model and its type


def mode(name: str) -> str:
    """How a model of text was trained to read, under its name in the recorded figures."""
    return next(key for key, mode in MODES.items() if mode == model(name).mode)


def facts_of(bundle: ModelBundle) -> dict[str, Any]:
    model = bundle.model
    parses = isinstance(model, ParsesSentences)
    layers = model.distance_layers if parses else 0
    facts = {
        "name": bundle.name,
        **dataclasses.asdict(bundle.mode),
        "reads": model.reads,
        "reads_labels": isinstance(model, GeneratesTrees) and model.reads_labels,
        "weights": model.parameter_count,
        "vocabulary": len(bundle.vocabulary),
        "labels": None if bundle.labels is None else len(bundle.labels),
        "distance_layers": layers,
        "default_layer": model.default_layer if parses and layers else None,
        "span_scores": parses and model.structure_type is SpanScores,
        "rules": list(getattr(model, "decoders", ())),
        "settings": dataclasses.asdict(bundle.settings.model),
        "normaliser": bundle.settings.normaliser.to_dict(),
    }
    return json.loads(json.dumps(facts))  # tuples as lists


@functools.cache
def facts(name: str) -> dict[str, Any]:
    return facts_of(model(name))


# ---- models of text


def row_of(row: WordSurprisal) -> list[Any]:
    return [row.word, row.begin, row.end, row.token, row.in_vocabulary, row.surprisal]


def word_surprisals(name: str) -> dict[str, Any]:
    """All rows as the model was trained to read; bits alone of the other way."""

    def rows_of(context: Any) -> list[list[list[Any]]]:
        options = ScoreOptions(context=context, **AS_WRITTEN)
        return [list(map(row_of, rows)) for rows in surprisals(model(name), lines(), options)]

    trained, other = ("carry", "reset") if mode(name) == "stream" else ("reset", "carry")
    return {"as trained": rows_of(trained), other: [[row[-1] for row in rows] for rows in rows_of(other)]}


def sentence_log_probs(bundle: ModelBundle) -> list[float]:
    """Natural log-probability of each line read by itself; EOS counts where the model predicts it."""
    return Scorer.of(bundle).sentences(tokens(bundle)).tolist()


def text_scores(name: str) -> dict[str, Any]:
    """In the mode of training and in the others."""
    modes = {"as trained": None} | {key: value for key, value in MODES.items() if key != mode(name)}
    return {key: text_score(name, TEST, value) for key, value in modes.items()}


def text_score(name: str, path: str, read_as: TextMode | None) -> dict[str, Any]:
    """Figures of a text or of trees. Ends of sentences that are not predicted count as characters, as they did."""
    score = evaluate_text(model(name), path, reading(read_as))
    if not score.mode.predict_eos or score.given_trees:
        score = dataclasses.replace(score, characters=score.characters + score.sentences)
    return score.to_dict()


def text_scores_with_cache(name: str) -> dict[str, Any]:
    return {
        f"{key}; {path}": tried(evaluate_text, model(name), path, reading(MODES[key]), CACHE)
        for key in ("sentences", "stream")
        for path in (TEST, REPEATED)
    }


def tuned_cache(name: str) -> dict[str, Any]:
    """The best cache weight and theta on a text, all trials, and the text's nats without a cache."""
    tuned = tune_cache(model(name), REPEATED, size=200)
    return {
        "weight": tuned.best.weight,
        "theta": tuned.best.theta,
        "perplexity": tuned.best_trial.perplexity,
        "without_nats": tuned.without_cache.nats,
        "trials": tuned.to_dict()["trials"],
    }


def minimal_pairs(bundles: Models, punctuation: Any = "keep", contractions: Any = "keep") -> dict[str, Any]:
    """Figures; each model's log-probabilities of the better and the worse sentence of each pair."""
    report = evaluate_pairs(bundles, PAIRS, punctuation=punctuation, contractions=contractions)
    scored = [row for row in report.details() if row["adjacent"]]  # the others were not recorded
    rows = [{name: values["log_prob"] for name, values in row["models"].items()} for row in scored]
    return {"figures": report.to_dict(), "log_probs": rows}


def completion(
    bundles: Models,
    questions: str,
    answers: str,
    shares: Sequence[float] | None = None,
    per_token: bool = False,
    parsed: str | None = None,
) -> dict[str, Any]:
    """Figures; what each model, and their interpolation, gives for each question's candidates."""
    report = evaluate_completion(
        bundles, questions, answers, per_token=per_token, parses=parsed, shares=shares, punctuation="keep",
        contractions="keep",
    )  # fmt: skip
    return {"figures": report.to_dict(), "questions": [row["models"] for row in report.details()]}


def completion_of_text(name: str) -> dict[str, Any]:
    return {
        "sums": tried(completion, only(name), QUESTIONS, ANSWERS),
        "means": tried(completion, only(name), QUESTIONS, ANSWERS, per_token=True),
        "parsed": tried(completion, only(name), PARSED_QUESTIONS, PARSED_ANSWERS),
    }


def generated(name: str) -> dict[str, Any]:
    def draw(prompt: str | None = None, **sampling: Any) -> Any:
        options = SamplingOptions(**sampling)
        return tried(lambda: [dict(vars(sample)) for sample in generate(model(name), 5, prompt, options)])

    return {
        "temperature 1": draw(seed=1, max_words=20),
        "temperature 0": draw(temperature=0, seed=1, max_words=20),
        "prompt": draw("the young", temperature=0.8, top_k=5, seed=2, max_words=12, keep_unknown=True),
    }


def brackets(bundles: Any, **options: Any) -> list[str]:
    """The bracketed tree of each line; "" for a line without words."""
    return parse_lines(bundles, lines(), ParseOptions(**options, **AS_WRITTEN)).brackets()


def parses(name: str) -> Any:
    """By decoder and layer."""
    rules, layers = facts(name)["rules"], facts(name)["distance_layers"]
    if not rules:
        return tried(brackets, model(name))
    return {
        f"{rule}, layer {layer}": brackets(model(name), decoder=rule, layer=layer)
        for rule in rules
        for layer in (None, *range(1, layers + 1))
    }


def distances(name: str) -> list[list[list[float]]]:
    """Syntactic distances before each word, by layer and by line with words."""
    sentences = list(filter(None, tokens(model(name))))
    ends = np.cumsum(list(map(len, sentences)))[:-1]
    layers = structure_of(model(name), sentences).values.astype(np.float64)
    return [[part.tolist() for part in np.split(layer, ends)] for layer in layers]


def span_scores(name: str) -> list[list[float]]:
    """Scores of all spans of each line with words, sorted by their last word, then by length."""
    scores = structure_of(model(name), list(filter(None, tokens(model(name))))).table
    return [part.tolist() for part in np.split(scores.values.astype(np.float64), scores.offsets[1:-1])]


def parsing_report(
    name: str,
    protocol: str = "wsj-test",
    max_words: int | None = None,
    preprocessing: str = "ptb-keep",
    also: Sequence[str] = (),
    random_weights: int = 0,
    **decoding: Any,
) -> dict[str, Any]:
    """All figures of `evaluate parse`; number, F1 and predicted tree of each sentence."""
    report = evaluate_parsing(
        model(name),
        TREEBANK,
        protocol=protocol_named(protocol, max_words),
        preprocessing=preprocessing,
        also=list(map(model, also)),
        random_weights=random_weights,
        ties="first",
        **decoding,  # the recorded averages took the first of equal splits
    )
    rows = [[sentence.number, sentence.f1, sentence.predicted] for sentence in report.details()]
    return {"figures": report.to_dict(), "sentences": rows}


def parsing(name: str) -> dict[str, Any]:
    rules, layers = facts(name)["rules"], facts(name)["distance_layers"]
    last = {"decoder": rules[-1], "layer": layers or None}
    reports = {
        "default": parsing_report(name),
        "evalb, 10 words, last rule, last layer, no clean-up": parsing_report(name, "evalb", 10, "none", **last),
    }
    if name in RANDOM_WEIGHTS:
        reports["random weights"] = parsing_report(name, random_weights=2)["figures"]["random_weights"]
    return reports


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
    "tokens": lambda name: tokens(model(name)),
    "sentence_log_probs": lambda name: tried(sentence_log_probs, model(name)),
    "surprisals": word_surprisals,
    "evaluate_text": text_scores,
    "evaluate_text_with_cache": text_scores_with_cache,
    "tune_cache": lambda name: tried(tuned_cache, name),
    "evaluate_pairs": lambda name: {
        "as written": tried(minimal_pairs, only(name)),
        "dropped, split": tried(minimal_pairs, only(name), "drop", "split"),
    },
    "evaluate_completion": completion_of_text,
    "generate": generated,
    "parses": parses,
    "distances": distances,
    "span_scores": span_scores,
    "evaluate_parsing": parsing,
    "evaluate_boundaries": boundaries,
}


# ---- dependency-tree models


def tree_text_scores(name: str) -> dict[str, Any]:
    return {
        "as trained": text_score(name, TREES, None),
        "sentences": tried(evaluate_text, model(name), TEST, reading(MODES["sentences"])),
    }


def reranked(name: str, weight: float) -> list[dict[str, Any]]:
    """Which candidate of each sentence is picked, from 0; log-probabilities and values of all candidates."""
    return [
        {"picked": int(choice.picked), "log_probs": choice.log_probs.tolist(), "values": choice.values.tolist()}
        for choice in rerank(model(name), read_candidates(BEST), weight)
    ]


def generated_trees(name: str) -> dict[str, Any]:
    def draw(**sampling: Any) -> Any:
        trees = generate_trees(model(name), read_stops(folder(name), model(name)), 5, TreeSamplingOptions(**sampling))
        return [
            tree.to_dict()
            | {"surprisals": tree.surprisals, "tree_surprisal": tree.tree_surprisal, "cut": list(tree.cut)}
            for tree in trees
        ]

    return {
        "temperature 1": tried(draw, seed=1, max_words=20),
        "temperature 0": tried(draw, temperature=0, seed=1, max_words=12),
        "redrawn": tried(draw, temperature=0.7, top_k=10, seed=2, max_words=15, max_depth=6, redraw=True),
    }


def stops_score(name: str) -> dict[str, Any]:
    """How often the stop classifiers of a folder are correct on the trees of a file."""
    bundle = model(name)
    return score_stops(read_stops(folder(name), bundle), tree_model(bundle), tree_corpus(bundle, TREES)).to_dict()


DEPENDENCY_TREES: dict[str, Section] = {
    "facts": facts,
    "evaluate_text": tree_text_scores,
    "tree_log_probs": lambda name: tree_log_probs(model(name), tree_corpus(model(name), TREES)).tolist(),
    "surprisals": lambda name: [list(map(row_of, rows)) for rows in tree_surprisals(model(name), TREES)],
    "rerank": lambda name: {str(weight): reranked(name, weight) for weight in (1.0, 0.4)},
    "evaluate_reranking": lambda name: {
        "model alone": evaluate_reranking(model(name), BEST, GOLD).to_dict(),
        "tuned": evaluate_reranking(model(name), BEST, GOLD, tune=TUNE).to_dict(),
    },
    "evaluate_completion": lambda name: {
        "parsed": completion(only(name), PARSED_QUESTIONS, PARSED_ANSWERS),
        "plain, with parses": completion(only(name), PLAIN_QUESTIONS, PLAIN_ANSWERS, parsed=PARSED_QUESTIONS),
    },
    "stops": lambda name: tried(stops_score, name),
    "generate": generated_trees,
}


# ---- logical inference


def inference(name: str, part: str) -> dict[str, Any]:
    """Figures, answers, and the logits of the classes < > = | ^ v # of each pair, all pairs in one batch."""
    stored = read_classifier(folder(name))
    report = evaluate_inference(stored, f"inputs/logic/{part}.tsv")
    pairs = EncodedPairs(report.pairs, stored.settings, stored.vocabulary)
    with torch.no_grad():
        logits = stored.classifier(pairs.batch(range(len(pairs))))[0]
    return {"figures": report.to_dict(), "answers": list(report.answers), "logits": logits.double().tolist()}


# ---- several models at once

GROUPS = {
    "prpn, on-lstm, prpn-paper": ["prpn", "on-lstm", "prpn-paper"],
    "prpn, palm, on-lstm": ["prpn", "palm", "on-lstm"],
    "palm, palm-s": ["palm", "palm-s"],
}
PREDICTED = ["inputs/predicted/prpn.mrg", "inputs/predicted/on-lstm.mrg", "inputs/predicted/palm.mrg"]


def parses_together() -> dict[str, Any]:
    """Averages of several models' trees, ties broken as when the figures were recorded."""
    return {
        f"{names}; {rule}": tried(brackets, [*models(*group).values()], decoder=rule, ties="first")
        for names, group in GROUPS.items()
        for rule in (None, "unbiased", "greedy-sum")
    }


def completion_together() -> dict[str, Any]:
    plain = models("tree-rnn-labelled", "lstm")
    return {
        "prpn, lstm": completion(models("prpn", "lstm"), QUESTIONS, ANSWERS),
        "prpn, ngram, on-lstm": completion(models("prpn", "ngram", "on-lstm"), QUESTIONS, ANSWERS),
        "prpn, lstm, fixed": completion(models("prpn", "lstm"), QUESTIONS, ANSWERS, [0.3]),
        "tree-rnn-labelled, lstm-open, ngram": completion(
            models("tree-rnn-labelled", "lstm-open", "ngram"), PARSED_QUESTIONS, PARSED_ANSWERS
        ),
        "tree-rnn-labelled, lstm, plain": completion(plain, PLAIN_QUESTIONS, PLAIN_ANSWERS, parsed=PARSED_QUESTIONS),
    }


def averaged(weights: Sequence[float] | None = None, max_words: int | None = None) -> dict[str, Any]:
    """Figures and trees of the average of tree files, ties broken as when the figures were recorded."""
    average = average_files(PREDICTED, protocol_named("wsj-test", max_words), weights, ties="first")
    return {"figures": average.to_dict(), "trees": average.brackets()}


TOGETHER: dict[str, Callable[[], Any]] = {
    "parse_together": parses_together,
    "evaluate_parsing_together": lambda: {
        names: parsing_report(first, also=others) for names, (first, *others) in GROUPS.items()
    },
    "evaluate_completion": completion_together,
    "evaluate_pairs": lambda: minimal_pairs(models("prpn", "lstm", "ngram")),
    "average": lambda: {"alike": averaged(), "2,1,1, up to 10 words": averaged([2, 1, 1], 10)},
    "evaluate_trees": lambda: {
        path: evaluate_trees(path, TREEBANK, protocol_named("wsj-test", None), "none").to_dict() for path in PREDICTED
    },
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
