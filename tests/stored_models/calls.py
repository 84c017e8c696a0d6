"""Calls into syntaxlm whose results are recorded in part or in another form.

Each function takes models, lines and paths, and returns plain JSON values with all digits. Paths are relative to this
folder.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from syntaxlm.data.parse_candidates import read_candidates
from syntaxlm.evaluation.completion import evaluate_completion
from syntaxlm.evaluation.pair_classification import EncodedPairs, evaluate_inference
from syntaxlm.evaluation.pairs import evaluate_pairs
from syntaxlm.evaluation.reranking import rerank
from syntaxlm.generation.options import SamplingOptions, TreeSamplingOptions
from syntaxlm.generation.sentences import generate
from syntaxlm.generation.stops import read_stops
from syntaxlm.generation.trees import generate_trees
from syntaxlm.models.abilities import GeneratesTrees, ParsesSentences
from syntaxlm.models.batches import TextMode
from syntaxlm.models.structures import SpanScores
from syntaxlm.parsing.evaluation import evaluate_parsing, protocol_named
from syntaxlm.parsing.options import DecodingOptions, ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import structure_of
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.scoring.cache_tuning import tune_cache
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.perplexity import evaluate_text
from syntaxlm.scoring.surprisal import WordSurprisal, surprisals
from syntaxlm.storage.folder import (
    ModelBundle,
    read_classifier,
)
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees.averaging import average_files
from tests.fresh_models import reading

MODES = {
    "sentences": TextMode(carry_state=False, predict_eos=True),
    "open-sentences": TextMode(carry_state=False, predict_eos=False),
    "stream": TextMode(carry_state=True, predict_eos=True),
}
"""The names of text modes in the recorded figures."""


# ---- a model and its type


def mode(bundle: ModelBundle) -> str:
    """How a model of text was trained to read, under its name in the recorded figures."""
    return next(name for name, one in MODES.items() if one == bundle.mode)


def facts(bundle: ModelBundle) -> dict[str, Any]:
    model = bundle.model
    parses = isinstance(model, ParsesSentences)
    layers = model.distance_layers if parses else 0
    found = {
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
        "normaliser": bundle.normaliser.to_dict(),
    }
    return json.loads(json.dumps(found))  # tuples as lists


# ---- models of text


def tokens(bundle: ModelBundle, lines: Sequence[str]) -> list[list[str]]:
    """The tokens of each line after normalisation."""
    return [bundle.normaliser.tokens(line) for line in lines]


def word_surprisals(bundle: ModelBundle, lines: Sequence[str], context: Any = None) -> list[list[list[Any]]]:
    """Rows [word, begin, end, token, in vocabulary, bits] of each line.  context: "reset", "carry", None as trained."""
    return [list(map(row_of, rows)) for rows in surprisals(bundle, lines, ScoreOptions(context=context, **AS_WRITTEN))]


def row_of(row: WordSurprisal) -> list[Any]:
    return [row.word, row.begin, row.end, row.token, row.in_vocabulary, row.surprisal]


def text_score(
    bundle: ModelBundle, path: str, mode: str | None = None, cache: tuple[float, float, int] | None = None
) -> dict[str, Any]:
    """Perplexity and related figures.  mode: of `MODES`.  cache: weight, theta, size."""
    settings = None if cache is None else CacheSettings(*cache)
    return evaluate_text(bundle, path, reading(None if mode is None else MODES[mode]), settings).to_dict()


def tuned_cache(bundle: ModelBundle, path: str, size: int) -> dict[str, Any]:
    """The best cache weight and theta on a text, all trials, and the text's nats without a cache."""
    found = tune_cache(bundle, path, size=size)
    return {
        "weight": found.best.weight,
        "theta": found.best.theta,
        "perplexity": found.best_trial.perplexity,
        "without_nats": found.without_cache.nats,
        "trials": found.to_dict()["trials"],
    }


def parses(bundle: ModelBundle, lines: Sequence[str], decoder: Any, layer: int | None) -> list[str]:
    """The bracketed tree of each line; "" for a line without words."""
    return parse_lines(bundle, lines, ParseOptions(decoder=decoder, layer=layer, **AS_WRITTEN)).brackets()


def distances(bundle: ModelBundle, lines: Sequence[str]) -> list[list[list[float]]]:
    """Syntactic distances before each word, by layer and by line with words."""
    full = [one for one in tokens(bundle, lines) if one]
    ends = np.cumsum([len(one) for one in full])[:-1]
    layers = structure_of(bundle, full).values.astype(np.float64)
    return [[part.tolist() for part in np.split(layer, ends)] for layer in layers]


def span_scores(bundle: ModelBundle, lines: Sequence[str]) -> list[list[float]]:
    """Scores of all spans of each line with words, sorted by their last word, then by length."""
    scores = structure_of(bundle, [one for one in tokens(bundle, lines) if one]).table
    assert scores is not None
    values = scores.values.astype(np.float64)
    return [values[begin:end].tolist() for begin, end in zip(scores.offsets[:-1], scores.offsets[1:], strict=True)]


def parsing(
    bundle: ModelBundle,
    treebank: str,
    protocol: str = "wsj-test",
    max_words: int | None = None,
    decoder: Any = None,
    preprocessing: str = "ptb-keep",
    layer: int | None = None,
    also: Sequence[ModelBundle] = (),
    random_weights: int = 0,
) -> dict[str, Any]:
    """All figures of `evaluate parse`; number, F1 and predicted tree of each sentence."""
    asked = protocol_named(protocol, max_words)
    # The recorded averages took the first of equally good splits.
    report = evaluate_parsing(
        bundle,
        treebank,
        protocol=asked,
        preprocessing=preprocessing,
        also=also,
        random_weights=random_weights,
        options=DecodingOptions(decoder=decoder, layer=layer, ties="first"),
    )
    rows = [[one.number, one.f1, one.predicted] for one in report.details()]
    return {"figures": report.to_dict(), "sentences": rows}


def parses_together(bundles: Sequence[ModelBundle], lines: Sequence[str], decoder: Any) -> list[str]:
    """Bracketed averages of several models' trees, ties broken as when the figures were recorded."""
    return parse_lines(bundles, lines, ParseOptions(decoder=decoder, ties="first", **AS_WRITTEN)).brackets()


def averaged(
    paths: Sequence[str | Path], weights: Sequence[float] | None = None, max_words: int | None = None
) -> dict[str, Any]:
    """Figures and trees of the average of tree files, ties broken as when the figures were recorded."""
    found = average_files(paths, protocol_named("wsj-test", max_words), weights, ties="first")
    return {"figures": found.to_dict(), "trees": found.brackets()}


def minimal_pairs(
    bundles: Mapping[str, ModelBundle], path: str, punctuation: Any = "keep", contractions: Any = "keep"
) -> dict[str, Any]:
    """Figures; each model's log-probabilities of the better and the worse sentence of each pair."""
    report = evaluate_pairs(bundles, path, TreebankStyle(punctuation, contractions))
    scored = [row for row in report.details() if row["adjacent"]]  # the others were not recorded
    rows = [{name: one["log_prob"] for name, one in row["models"].items()} for row in scored]
    return {"figures": report.to_dict(), "log_probs": rows}


def completion(
    bundles: Mapping[str, ModelBundle],
    questions: str,
    answers: str,
    shares: Sequence[float] | None = None,
    per_token: bool = False,
    parsed: str | None = None,
) -> dict[str, Any]:
    """Figures; what each model, and their interpolation, gives for each question's candidates."""
    report = evaluate_completion(bundles, questions, answers, TreebankStyle(), shares, per_token, parsed)
    return {"figures": report.to_dict(), "questions": [row["models"] for row in report.details()]}


def generated(bundle: ModelBundle, count: int, prompt: str | None = None, **sampling: Any) -> list[dict[str, Any]]:
    """sampling: temperature, top_k, seed, maximum_words, keep_unknown."""
    return [dict(vars(one)) for one in generate(bundle, count, prompt, SamplingOptions(**sampling))]


# ---- dependency-tree models


def reranked(bundle: ModelBundle, candidates: str, weight: float) -> list[dict[str, Any]]:
    """Which candidate of each sentence is picked, from 0; log-probabilities and values of all candidates."""
    return [
        {"picked": int(one.picked), "log_probs": one.log_probs.tolist(), "values": one.values.tolist()}
        for one in rerank(bundle, read_candidates(candidates), weight)
    ]


def generated_trees(bundle: ModelBundle, folder: str, count: int, **sampling: Any) -> list[dict[str, Any]]:
    return [
        one.to_dict() | {"surprisals": one.surprisals, "tree_surprisal": one.tree_surprisal, "cut": list(one.cut)}
        for one in generate_trees(bundle, read_stops(folder, bundle), count, TreeSamplingOptions(**sampling))
    ]


# ---- logical inference


def logic(folder: str, path: str) -> dict[str, Any]:
    """Figures, answers, and the logits of the classes < > = | ^ v # of each pair, all pairs in one batch."""
    stored = read_classifier(folder)
    report = evaluate_inference(stored, path)
    pairs = EncodedPairs(report.pairs, stored.settings, stored.vocabulary)
    with torch.no_grad():
        logits = stored.classifier(pairs.batch(range(len(pairs))))[0]
    return {"figures": report.to_dict(), "answers": list(report.answers), "logits": logits.double().tolist()}
