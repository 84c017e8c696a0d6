"""Parses one sentence with a model and collects its gates and attention, for a drawing."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from syntaxlm.drawing.sentence import Analysis, SentenceMaps
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import HasMaps
from syntaxlm.models.batches import TokenBatch
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import Rule, layers_for, rules_for, structure_of
from syntaxlm.text.reader import AS_TOKENISED
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees.decoding import DECODING_RULES
from syntaxlm.trees.spans import trees_of
from syntaxlm.trees.tree import DependencyTree, Tree


def analyse(
    stored: ModelBundle,
    sentence: str | Sequence[str] | Tree,
    decoder: Rule | None = None,
    layer: int | None = None,
    style: TreebankStyle = AS_TOKENISED,
) -> Analysis:
    """Parse a line of text, or a treebank sentence, whose words are neither split nor dropped.

    sentence: text, words, or a tree, whose words and tags are read (models of tags need the tags).
    decoder, layer, style: as for `parse_lines`; style applies to text only.
    Raises InputError like `parse_lines`, and for a sentence without words.
    """
    if not isinstance(sentence, str):
        return _analyse_words(stored, sentence, decoder, layer)
    (parse,) = parse_lines(stored, [sentence], decoder, layer=layer, style=style)
    if parse is None:
        raise InputError(f"the sentence {sentence[:40]!r} has no words that the model reads")
    return Analysis(
        tuple(parse.words),
        tuple(parse.tokens),
        tuple(parse.distances),
        _unknown(stored, parse.tokens),
        parse.tree,
        parse.span_scores,
        parse.marginals,
        parse.dependencies,
    )


def _analyse_words(
    stored: ModelBundle, sentence: Sequence[str] | Tree, decoder: Rule | None, layer: int | None
) -> Analysis:
    words = list(sentence.words if isinstance(sentence, Tree) else sentence)
    tags = list(sentence.tags) if isinstance(sentence, Tree) else [""] * len(words)
    tokens = list(map(stored.normaliser.word, words, tags))
    (rule,), (layer,) = rules_for([stored], decoder), layers_for([stored], layer)
    structure = structure_of(stored, [tokens], labels=False)
    leaves = [tokens] if stored.normaliser.units == "tags" else None
    (tree,) = trees_of(structure.decode(rule, layer), [words], leaves)
    distances = structure.distances[layer - 1].tolist() if rule in DECODING_RULES else []
    scores, marginals = (None if one is None else one.chart(0) for one in (structure.span_scores, structure.marginals))
    dependencies = None
    if structure.heads is not None:
        dependencies = DependencyTree(tree.words, tree.tags, tuple(structure.heads.tolist()), ("",) * len(tree))
    unknown = _unknown(stored, tokens)
    return Analysis(tuple(words), tuple(tokens), tuple(distances), unknown, tree, scores, marginals, dependencies)


def _unknown(stored: ModelBundle, tokens: Sequence[str]) -> tuple[bool, ...]:
    return tuple(not stored.vocabulary.knows(token) for token in tokens)


@torch.no_grad()
def maps_of(stored: ModelBundle, tokens: Sequence[str]) -> SentenceMaps:
    """The model's gates and attention (`Maps`) over one sentence. Raises InputError for a model that has none."""
    vocabulary = stored.vocabulary
    ids = vocabulary.encode(tokens)
    read = torch.tensor([[vocabulary.begin_id, *ids]]).T
    batch = TokenBatch(read, torch.tensor([[*ids, vocabulary.end_id]]).T)
    maps = stored.require(HasMaps, "drawing of maps").maps(batch.to(stored.model.device))
    over_steps, over_units = (
        {name: values[:, 0].float().cpu().numpy() for name, values in group.items()}
        for group in (maps.earlier_tokens, maps.units)
    )
    return SentenceMaps(over_steps, over_units, vocabulary.begin)
