"""Whether belief updates find garden paths, and predict reading times beyond surprisal; with null grammars.

    python -m laboratory.measurements.belief_updates items MODEL ITEMS
    python -m laboratory.measurements.belief_updates reading-times MODEL WORDS TIMES FREQUENCIES

MODEL: a PCFG. ITEMS: a table like docs/examples/garden-path-constructions.csv. WORDS and TIMES: Natural Stories;
FREQUENCIES: a text whose words are counted. The page docs/explanation/belief-updates.md says what these measurements
decide.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import syntaxlm
from laboratory.results.store import with_head
from syntaxlm.core.arrays import Numbers
from syntaxlm.core.iteration import batched
from syntaxlm.data.displayed_words import DisplayedWords
from syntaxlm.data.stimuli import Stimuli
from syntaxlm.evaluation.reading_times import evaluate_reading_times
from syntaxlm.evaluation.reading_times_report import ReadingTimesReport
from syntaxlm.models.pcfg.model import PCFG
from syntaxlm.models.sentences import SPECIALS
from syntaxlm.ops.inside import FactoredRules, Rules, belief_updates, incremental_beliefs
from syntaxlm.scoring.word_table import WordScores, score_words, with_previous
from syntaxlm.statistics.intervals import Interval, mean_interval, t_quantile
from syntaxlm.statistics.regression import fit, held_out_log_likelihood
from syntaxlm.storage.folder import ModelBundle

MEASURES = ("belief_update", "belief_update_kl", "structural_surprisal")
REGIONS = ("start", "verb", "phrase", "critical", "rest")
EXCHANGED_TOGETHER = 100  # words of like frequency, which are exchanged among each other
BRANCHING = 0.475  # probability that a child of a random tree branches; sentences then have 21 words on average
VALUES_TOGETHER = 1 << 24  # outside probabilities of all prefixes of some sentences

Grammar = tuple[Rules, Tensor]
Measures = dict[str, Numbers]


def grammars(model: PCFG, seeds: Sequence[int]) -> Iterator[tuple[str, int | None, Grammar, Tensor]]:
    """Yield the trained grammar and the null grammars: name, seed, rules and emissions, and each word's emission row.

    Args:
        model: the trained grammar.
        seeds: of the null grammars that are drawn at random.
    """
    words = model.grammar.vocabulary_size
    own_rows = torch.arange(words)
    with torch.no_grad():
        rules, emissions = model.grammar.all_tables()
    yield "trained", None, (rules, emissions), own_rows
    yield "right branching", None, (right_branching(rules), emissions), own_rows
    yield "random trees", None, (random_tree_rules(), torch.zeros(words, 1)), own_rows
    for seed in seeds:
        yield "words exchanged", seed, (rules, emissions), exchanged_words(model.unigrams, seed)
        torch.manual_seed(seed)
        with torch.no_grad():
            untrained = type(model.grammar)(model.config, words).all_tables()
        yield "untrained", seed, untrained, own_rows


def exchanged_words(unigrams: Tensor, seed: int) -> Tensor:
    """Return a word for each word, one of about the same frequency; the first word, which is unknown, stays.

    Args:
        unigrams: (V,) natural log-probabilities.
        seed: of the exchange.
    """
    generator = torch.Generator().manual_seed(seed)
    by_frequency = unigrams[1:].argsort(descending=True, stable=True) + 1
    result = torch.arange(len(unigrams))
    for group in by_frequency.split(EXCHANGED_TOGETHER):
        result[group] = group[torch.randperm(len(group), generator=generator)]
    return result


def random_tree_rules() -> FactoredRules:
    """Return rules of one nonterminal and one preterminal: all binary trees of a sentence have the same probability."""
    children = torch.tensor([[BRANCHING, 1 - BRANCHING]])
    return FactoredRules(torch.ones(1), children, children)


def right_branching(rules: Rules) -> FactoredRules:
    """Return rules whose left children are preterminals, with the relative probabilities of a grammar's rules."""
    assert isinstance(rules, FactoredRules)
    assert rules.parent is None
    left = rules.left.clone()
    left[:, : rules.nonterminals] = 0
    return FactoredRules(rules.root, left / left.sum(1, keepdim=True), rules.right)


@torch.no_grad()
def measures_of(grammar: Grammar, sentences: Sequence[Sequence[int]]) -> list[Measures]:
    """Return the measures of the words of each sentence.

    Args:
        grammar: rules, and emissions of all words, (V, t).
        sentences: rows of emissions; at least two words each.
    """
    rules, emissions = grammar
    values_of_span = len(rules.left) if isinstance(rules, FactoredRules) else rules.nonterminals
    measures: dict[int, Measures] = {}
    for length in sorted(set(map(len, sentences))):
        places = [place for place, sentence in enumerate(sentences) if len(sentence) == length]
        for batch in batched(places, max(1, VALUES_TOGETHER // (length**3 * values_of_span))):
            words = torch.tensor([sentences[place] for place in batch])
            distinct, rows = torch.unique(words, return_inverse=True)
            beliefs = incremental_beliefs(rules, emissions[distinct], rows)
            structural = beliefs.lexical_and_structural(emissions.double()[words])[1]
            updates, updates_kl = (belief_updates(beliefs.spans, order)[:, :-1] for order in (0.5, 1.0))
            for place, *values in zip(batch, updates.numpy(), updates_kl.numpy(), structural.numpy(), strict=True):
                measures[place] = dict(zip(MEASURES, values, strict=True))
    return [measures[place] for place in range(len(sentences))]


def measures_of_words(
    bundle: ModelBundle, words: DisplayedWords, scores: WordScores, grammar: Grammar, row_of_word: Tensor
) -> Measures:
    """Return the measures of displayed words, which may have several tokens: their sums.

    They are 0 in a sentence of one token, which no grammar makes.

    Args:
        bundle: the model that reads the words.
        words: the displayed words.
        scores: of the words.
        grammar: rules and emissions.
        row_of_word: (V,) the row of emissions of each word of the grammar.
    """
    spans = [(first, end) for first, end in words.spans(words.sentences)]
    sentences = [" ".join(scores.tokens[first:end]).split() for first, end in spans]
    ids = [(torch.tensor(list(map(bundle.vocabulary.id, tokens))) - SPECIALS).clamp(min=0) for tokens in sentences]
    long_enough = [place for place, sentence in enumerate(ids) if len(sentence) > 1]
    of_tokens = measures_of(grammar, [row_of_word[ids[place]].tolist() for place in long_enough])

    result = {name: np.zeros(len(words)) for name in MEASURES}
    for place, of_sentence in zip(long_enough, of_tokens, strict=True):
        first, end = spans[place]
        token_offsets = np.cumsum([0, *(len(word.split()) for word in scores.tokens[first:end])]).tolist()
        for name, values in of_sentence.items():
            result[name][first:end] = [values[start:stop].sum() for start, stop in pairwise(token_offsets)]
    return result


def items_report(bundle: ModelBundle, path: str, seeds: Sequence[int] = (1, 2, 3)) -> dict[str, Any]:
    """Return the difference of ambiguous and unambiguous sentences at the critical word, for each construction.

    Args:
        bundle: a PCFG.
        path: the table of items.
        seeds: of null grammars.
    """
    stimuli = Stimuli.read(path, condition=["reading"], regions=REGIONS)
    scores = score_words(bundle, stimuli.words)
    constructions = np.array([item.rpartition("-")[0] for item in stimuli.items])
    critical = np.array([regions[REGIONS.index("critical")].first for regions in stimuli.regions])
    # The two sentences of each item, in the order of the file.
    ambiguous, unambiguous = np.argsort(stimuli.items, kind="stable").reshape(-1, 2).T
    if any(stimuli.conditions[place] != "ambiguous" for place in ambiguous):
        raise ValueError(f"{path}: expected each item's ambiguous sentence before the unambiguous one")

    rows = []
    for name, seed, grammar, row_of_word in grammars(bundle.require(PCFG, "beliefs"), seeds):
        measures = measures_of_words(bundle, stimuli.words, scores, grammar, row_of_word)
        for measure, values in {"surprisal": scores.surprisal, **measures}.items():
            if measure == "surprisal" and name != "trained":
                continue
            for construction in dict.fromkeys(constructions.tolist()):
                chosen = constructions[ambiguous] == construction
                differences, of_surprisal = (
                    column[critical[ambiguous[chosen]]] - column[critical[unambiguous[chosen]]]
                    for column in (values, scores.surprisal)
                )
                row = {"construction": construction, "grammar": name, "seed": seed, "measure": measure}
                rows.append(row | _contrast(differences, of_surprisal))
    report = {"items": len(ambiguous), "differences": rows}
    return report | {"first_analysis": _first_analysis(bundle, stimuli, scores, constructions)}


def _first_analysis(
    bundle: ModelBundle, stimuli: Stimuli, scores: WordScores, constructions: npt.NDArray[np.str_]
) -> list[dict[str, Any]]:
    """Return how probable it is that verb and phrase are a constituent, before and after the critical word.

    In NP/Z and NP/S this is the analysis that the critical word excludes. The words are single tokens.
    """
    with torch.no_grad():
        rules, emissions = bundle.require(PCFG, "beliefs").grammar.all_tables()
    beliefs = []
    for regions, (first, end) in zip(stimuli.regions, stimuli.words.spans(stimuli.words.sentences), strict=True):
        ids = torch.tensor([[bundle.vocabulary.id(token) - SPECIALS for token in scores.tokens[first:end]]])
        spans = incremental_beliefs(rules, emissions[ids[0]], torch.arange(end - first)[None]).spans[0]
        verb, critical = (regions[REGIONS.index(name)].first - first for name in ("verb", "critical"))
        beliefs.append([float(spans[critical + after, verb, critical - 1]) for after in (-1, 0)])
    rows = []
    for construction in dict.fromkeys(constructions.tolist()):
        for reading in ("ambiguous", "unambiguous"):
            chosen = (constructions == construction) & (np.array(stimuli.conditions) == reading)
            before, after = (mean_interval(column)._asdict() for column in np.array(beliefs)[chosen].T)
            rows.append({"construction": construction, "reading": reading, "before": before, "after": after})
    return rows


def _contrast(differences: Numbers, of_surprisal: Numbers) -> dict[str, Any]:
    """Return the mean of by-item differences, and the difference expected of an item whose surprisals are equal."""
    contrast = {"items": len(differences), "difference": mean_interval(differences)._asdict()}
    contrast |= {"positive": int((differences > 1e-9).sum()), "beyond_surprisal": None}
    if not np.array_equal(differences, of_surprisal) and np.ptp(differences) > 1e-9:
        regression = fit(differences, {"surprisal": of_surprisal})
        if intercept := regression.coefficient("intercept"):
            reach = t_quantile(len(differences) - 2) * intercept.standard_error
            ends = intercept.value, intercept.value - reach, intercept.value + reach
            contrast["beyond_surprisal"] = Interval(*ends)._asdict()
    return contrast


def reading_times_report(
    bundle: ModelBundle, words: str, times: str, frequencies: str, seeds: Sequence[int] = (1,)
) -> dict[str, Any]:
    """Return how much each measure adds to the held-out log-likelihood of reading times, beyond surprisal.

    Args:
        bundle: a PCFG.
        words: the displayed words of Natural Stories.
        times: their reading times.
        frequencies: a text whose words are counted.
        seeds: of null grammars.
    """
    data = evaluate_reading_times(
        bundle, words, times, frequencies=frequencies, time_column="meanItemRT", group="item", context="reset"
    )
    (result,) = data.models
    sentences = data.words.sentences[data.analysed]
    of_words = {"tokens": result.scores.token_counts.astype(float), "surprisal": result.scores.surprisal}
    baseline = {name: values[data.analysed] for name, values in data.predictors.items()} | _of_analysed(data, of_words)
    observed, folds = data.times.values[data.analysed], data.fold[data.analysed]
    baseline_likelihood = held_out_log_likelihood(observed, baseline, folds)

    rows: list[dict[str, Any]] = []
    trained_gains: dict[str, Numbers] = {}
    for name, seed, grammar, row_of_word in grammars(bundle.require(PCFG, "beliefs"), seeds):
        measures = measures_of_words(bundle, data.words, result.scores, grammar, row_of_word)
        for measure, values in measures.items():
            predictors = baseline | _of_analysed(data, {measure: values})
            gains = held_out_log_likelihood(observed, predictors, folds) - baseline_likelihood
            row: dict[str, Any] = {"grammar": name, "seed": seed, "measure": measure}
            row["gain"] = mean_interval(gains, sentences)._asdict()
            trained_gains.setdefault(measure, gains)  # the trained grammar is the first
            row["trained_minus_this"] = mean_interval(trained_gains[measure] - gains, sentences)._asdict()
            coefficient = fit(observed, predictors).coefficient(measure)
            row["coefficient"] = coefficient and {"value": coefficient.value, "t": coefficient.t}
            rows.append(row)
    surprisal = result.delta._asdict()
    return {"words": data.count, "surprisal": surprisal, "measures": rows}


def _of_analysed(data: ReadingTimesReport, columns: Measures) -> Measures:
    """Return columns, and the same columns of the previous word, for the words in the regressions."""
    previous = with_previous(columns, data.words, data.settings.spillover)
    return {name: values[data.analysed] for name, values in previous.items()}


def main() -> None:
    """Measure items or reading times; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    analyses = parser.add_subparsers(dest="what", required=True)
    for name, files in (("items", ["items"]), ("reading-times", ["words", "times", "frequencies"])):
        analysis = analyses.add_parser(name)
        for argument in ("model", *files):
            analysis.add_argument(argument)
    options = parser.parse_args()
    bundle = syntaxlm.load(options.model)
    if options.what == "items":
        report = items_report(bundle, options.items)
    else:
        report = reading_times_report(bundle, options.words, options.times, options.frequencies)
    print(json.dumps(with_head({"model": options.model, **report}), indent=1))


if __name__ == "__main__":
    main()
