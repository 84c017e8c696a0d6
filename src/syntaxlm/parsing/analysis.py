"""Parses one sentence with a model and collects its gates and attention, for a drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.core.reading import ReadingReport, announce
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.drawing.beliefs import SentenceBeliefs
from syntaxlm.drawing.layout import Span
from syntaxlm.drawing.sentence import Analysis, SentenceMaps
from syntaxlm.drawing.tree import SpanNote
from syntaxlm.models.abilities import HasMaps, HasTreeBeliefs
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.combination import believing_parser
from syntaxlm.models.structures import CorpusSplitScores
from syntaxlm.ops.inside import belief_updates
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.result import Parse
from syntaxlm.parsing.structure import decodings, structure_of
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.combination import member
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.options import AS_WRITTEN, TextOptions
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.dependencies import paths_of
from syntaxlm.trees.preprocessing import find_preprocessing, preprocess
from syntaxlm.trees.spans import trees_of
from syntaxlm.trees.tree import DependencyTree, Tree, parse_brackets, read_brackets

MOST_TREES = 30  # per picture
MOST_WORDS = 1000  # per tree


def read_gold(
    text_or_path: str, number: int | None = None, preprocessing: str = "none", labelled: bool | None = None
) -> Tree:
    """Return a gold tree from bracketed text or a bracket file.

    Raises InputError, for example if there are several trees and no number is given.

    Args:
        number: index of the tree, from 1.
        labelled: whether brackets start with a label; None: decided, see `parse_brackets`.
    """
    if text_or_path.lstrip().startswith("("):
        source = "the gold tree"
        trees = parse_brackets(text_or_path, labelled, source)
    else:
        source = text_or_path
        trees = read_brackets(Path(text_or_path), labelled)
    if number is None and len(trees) > 1:
        raise InputError(
            f"{source}: found {len(trees)} trees; expected one. Choose it with a number from 1 to {len(trees)}"
        )
    number = 1 if number is None else number
    if not 1 <= number <= len(trees):
        raise InputError(f"{source}: there is no tree {number}; the file has trees 1 to {len(trees)}")
    rule = find_preprocessing(preprocessing)
    preprocessed = preprocess([trees[number - 1]], rule, source)
    (tree,) = preprocessed.trees
    if preprocessed.remarks:
        counts = {"words": len(tree)}
        announce(ReadingReport(source, f"words of tree {number}", counts, remarks=preprocessed.remarks))
    return tree


def read_trees(path: Path, number: int | None = None, preprocessing: str = "none") -> list[DependencyTree]:
    """Return the dependency trees of a file.

    Args:
        number: index of the only tree to read, from 1; None: all, at most MOST_TREES.

    Raises:
        InputError: like `dependency_trees`, and for a number out of range, too many trees or words, and words whose
            heads do not lead to a root.
    """
    if number is not None and number < 1:
        raise InputError(f"{path}: there is no tree {number}; trees are numbered from 1")
    most = MOST_TREES + 1 if number is None else number
    trees = list(islice(dependency_trees(path, preprocessing), most))
    if number is None and len(trees) > MOST_TREES:
        raise InputError(f"{path}: found more than {MOST_TREES} trees; choose one with --number")
    if number is not None and len(trees) < number:
        raise InputError(f"{path}: there is no tree {number}; the file has trees 1 to {len(trees)}")
    chosen = trees if number is None else trees[-1:]
    for tree in chosen:
        if len(tree) > MOST_WORDS:
            raise InputError(f"{path}, sentence {tree.name}: found {len(tree):,} words; expected at most {MOST_WORDS}")
        paths_of(np.array(tree.heads), np.array([0, len(tree)]), [tree.place])  # checks the heads
    return chosen


def analyse(
    bundle: ModelBundle,
    sentence: str | Sequence[str] | Tree,
    options: ParseOptions = ParseOptions(**AS_WRITTEN),
) -> Analysis:
    """Parse a line of text, or a treebank sentence, whose words are neither split nor dropped.

    Args:
        sentence: text, words, or a tree, whose words and tags are read (models of tags need the tags).
        options: as for `parse_lines`; the text options apply to text only.

    Raises:
        InputError: like `parse_lines`, and for a sentence without words.
    """
    if isinstance(sentence, str):
        (parse,) = parse_lines(bundle, [sentence], options)
        if not parse:
            raise InputError(
                f"found no words that the model reads in {sentence[:40]!r}; expected a sentence with words"
            )
    else:
        words = list(sentence.words if isinstance(sentence, Tree) else sentence)
        tags = list(sentence.tags) if isinstance(sentence, Tree) else [""] * len(words)
        tokens = list(map(bundle.normaliser.word, words, tags))
        (decoding,) = decodings([bundle], options)
        structure = structure_of(bundle, [tokens], labels=False)
        leaves = [tokens] if bundle.normaliser.units == "tags" else None
        (tree,) = trees_of(structure.decode(*decoding), [words], leaves)
        values = structure.word_values(decoding.layer), structure.span_values(0)
        parse = Parse(1, words, tokens, tree, *values, structure=structure.name)
    return analysis_of(parse, bundle.vocabulary)


def with_surprisals(analysis: Analysis, bundle: ModelBundle, sentence: str, options: TextOptions) -> Analysis:
    """Return the analysis of a line of text with the surprisals of its words.

    Args:
        analysis: as returned by `analyse`.
        bundle: the model.
        sentence: the text.
        options: how words are split.

    Raises:
        InputError: like `surprisals`.
    """
    reading = ScoreOptions(punctuation=options.punctuation, contractions=options.contractions)
    (words,) = surprisals(bundle, [sentence], reading)
    return replace(analysis, surprisals=words, units=bundle.normaliser.units)


def analysis_of(parse: Parse, vocabulary: Vocabulary | None = None) -> Analysis:
    """Return a parsed sentence for a drawing.

    Args:
        parse: the sentence.
        vocabulary: decides which words are unknown; None: `Parse.known`.
    """
    known = parse.known if vocabulary is None else map(vocabulary.knows, parse.tokens)
    return Analysis(
        tuple(parse.words),
        tuple(parse.tokens),
        tuple(parse.distances),
        tuple(not is_known for is_known in known),
        parse.tree,
        parse.span_scores,
        parse.marginals,
        parse.dependencies,
        tuple(parse.offsets),
        span_notes(parse),
        are_logarithms=_are_logarithms(parse),
    )


def _are_logarithms(parse: Parse) -> bool:
    """Return whether the scores of spans, if there are any, are logarithms of shares of the attention."""
    return parse.structure != CorpusSplitScores.name


def span_notes(parse: Parse) -> dict[Span, SpanNote]:
    """Return what the marker of each constituent shows: its probability or score, or the distances inside it."""
    notes = {}
    for row in parse.rows():
        start = row["start"]
        end = row["end"]
        label = row["label"] and f", {row['label']}"
        if row["marginal"] is not None:
            note = SpanNote(f"probability {row['marginal']:.3f}{label}", row["marginal"])
        elif row["score"] is not None:
            share = math.exp(row["score"]) if _are_logarithms(parse) else 0.0
            note = SpanNote(f"score {row['score']:.3f}{label}", share)
        elif parse.distances:
            note = SpanNote(f"largest distance inside {max(parse.distances[start + 1 : end]):.3f}")
        else:
            note = SpanNote(row["label"] or "constituent")
        notes[start, end] = note
    return notes


@torch.no_grad()
def maps_of(bundle: ModelBundle, tokens: Sequence[str]) -> SentenceMaps:
    """Return the model's gates and attention (`Maps`) over one sentence. Raises InputError for a model that has
    none.
    """
    vocabulary = bundle.vocabulary
    ids = vocabulary.encode(tokens)
    read = torch.tensor([[vocabulary.begin_id, *ids]]).T
    batch = TokenBatch(read, torch.tensor([[*ids, vocabulary.end_id]]).T)
    maps = bundle.require(HasMaps, "drawing of maps").maps(batch.to(bundle.model.device))

    def arrays(values_by_name: Mapping[str, torch.Tensor]) -> dict[str, npt.NDArray[np.float32]]:
        return {name: values[:, 0].float().cpu().numpy() for name, values in values_by_name.items()}

    return SentenceMaps(arrays(maps.earlier_tokens), arrays(maps.units), vocabulary.begin)


def beliefs_of(
    bundle: ModelBundle,
    name: str,
    sentence: str | Sequence[str] | Tree,
    options: ParseOptions = ParseOptions(**AS_WRITTEN),
) -> SentenceBeliefs:
    """Return what a model believes about the tree after each word of a sentence.

    The beliefs of a combination are those of its `believing_parser`.

    Args:
        bundle: the model.
        name: its name.
        sentence: text, words, or a tree, as for `analyse`.
        options: as for `analyse`.

    Raises:
        InputError: like `analyse`, and for a model without beliefs about trees.
    """
    model = f"Model: {name}"
    place = believing_parser(bundle.model)
    if place is not None:
        bundle = member(bundle, place + 1)
        model = f"Model: {bundle.name}, member {place + 1} of the combination {name}"
    believer = bundle.require(HasTreeBeliefs, "a drawing of beliefs")

    analysis = analyse(bundle, sentence, options)
    (beliefs,) = believer.tree_beliefs([bundle.vocabulary.encode(analysis.tokens)])
    updates = belief_updates(torch.from_numpy(beliefs.spans), 0.5).numpy()
    surprisal = beliefs.lexical + beliefs.structural
    return SentenceBeliefs(
        analysis.words, analysis.unknown, beliefs.spans, beliefs.open_from, surprisal, updates, model
    )
