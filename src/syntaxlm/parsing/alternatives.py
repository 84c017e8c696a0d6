"""Several trees of each sentence: the best ones, or samples, with their confidence and probability."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.abilities import ScoresTrees
from syntaxlm.models.structures import CorpusMarginals, CorpusStructure
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.structure import Decoding, averaging_inputs, batches_of
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.averaging import RankedTree, best_averages
from syntaxlm.trees.marks import Marks


def check_several(bundles: Sequence[ModelBundle], chosen: Sequence[Decoding], options: ParseOptions) -> None:
    """Raise InputError if the options request several trees of a sentence, but the models cannot give them."""
    if not options.several:
        return
    if not any(decoder == "mbr" for decoder, _ in chosen):
        pairs = zip(bundles, chosen, strict=True)
        names = dict.fromkeys(f"{bundle.name} with decoder {decoding.decoder}" for bundle, decoding in pairs)
        expected = "expected a model of span probabilities, and the decoder mbr"
        raise InputError(f"{options.several}: found {', '.join(names)}; {expected}")
    if options.samples and len(bundles) > 1:
        raise InputError(f"samples: found {len(bundles)} models; expected one")
    if options.samples:
        bundles[0].require(ScoresTrees, "samples of trees")


def alternatives_of(
    bundles: Sequence[ModelBundle],
    corpus: EncodedCorpus,
    structures: Sequence[CorpusStructure],
    chosen: Sequence[Decoding],
    options: ParseOptions,
    marks: Marks | None = None,
) -> list[list[RankedTree]]:
    """Return several trees of each sentence, the best first, or in the order in which they were drawn.

    The trees of a single model have probabilities, if it gives these.

    Args:
        corpus: the sentences as the first model reads them.
        structures: what each model says about the sentences.
        marks: see `best_averages`; samples do not depend on them.
    """
    bundle = bundles[0]
    structure = structures[0]
    if options.samples and isinstance(structure, CorpusMarginals):
        trees = _sampled(bundle, corpus, structure, options.samples, options.sample_seed)
    else:
        inputs = averaging_inputs(structures, chosen)
        trees = best_averages(inputs, options.best, marks)
    is_single = len(bundles) == 1 and isinstance(bundle.model, ScoresTrees)
    return _with_probabilities(bundle, corpus, trees) if is_single else trees


def _sampled(
    bundle: ModelBundle, corpus: EncodedCorpus, structure: CorpusMarginals, count: int, seed: int
) -> list[list[RankedTree]]:
    """Return trees drawn from P(tree | sentence).

    Each sentence has its own generator, so that its trees do not depend on the others.
    """
    model = bundle.require(ScoresTrees, "samples of trees")
    trees = []
    for number in range(len(corpus)):
        ((batch, _),) = batches_of(bundle, corpus.select(np.array([number])))
        (drawn,) = model.sample_trees(batch, count, np.random.default_rng([seed, *corpus.sentence(number)]))
        probabilities = structure.table.chart(number)
        trees.append([RankedTree.of(spans, probabilities) for spans in drawn])
    return trees


def _with_probabilities(
    bundle: ModelBundle, corpus: EncodedCorpus, trees: Sequence[Sequence[RankedTree]]
) -> list[list[RankedTree]]:
    """Return the trees of each sentence with P(tree | sentence)."""
    model = bundle.require(ScoresTrees, "probabilities of trees")
    # A corpus that repeats each sentence for each of its trees.
    repeated = corpus.select(np.repeat(np.arange(len(corpus)), list(map(len, trees))))
    all_trees = list(chain.from_iterable(trees))
    probabilities = np.zeros(len(all_trees))
    for batch, indices in batches_of(bundle, repeated):
        longest = len(batch.tokens) - 2
        spans = torch.zeros(len(indices), longest, longest, dtype=torch.bool)
        for column, index in enumerate(indices.tolist()):
            for start, end in all_trees[index].spans:
                spans[column, start, end - 1] = True
        probabilities[indices] = model.tree_log_probs(batch, spans.to(bundle.device)).exp().cpu().numpy()
    values = iter(probabilities.tolist())
    return [[tree._replace(probability=next(values)) for tree in alternatives] for alternatives in trees]
