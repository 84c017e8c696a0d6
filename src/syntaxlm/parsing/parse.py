"""Parsing of lines of text with one model, or with the average of several models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import numpy as np

from syntaxlm.core.errors import InputError
from syntaxlm.core.iteration import batched
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.text_files import LINES_TOGETHER, line_bytes, plain_size, source_name
from syntaxlm.data.corpora import GivenText, is_longer, read_sentences
from syntaxlm.models.abilities import LabelsSpans
from syntaxlm.parsing.alternatives import alternatives_of, check_several
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.result import ParseBatch
from syntaxlm.parsing.structure import (
    Decoding,
    combined_trees,
    decodings,
    share_without_marks,
    structure_of,
    trained_side,
)
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.doubts import warn_of_doubts
from syntaxlm.text.normaliser import split_tag, word_spans
from syntaxlm.text.pretokenised import PretokenisedReader
from syntaxlm.text.reader import TextReader, each_line
from syntaxlm.trees.marks import Marks, MarkSide
from syntaxlm.trees.matching import beginning

_PLACE = re.compile(r"^sentence ([0-9]+)")  # in a message, among the lines with words


def parse_lines(
    models: ModelBundle | Sequence[ModelBundle],
    lines: Sequence[str],
    options: ParseOptions = ParseOptions(),
    first: int = 1,
    names: Sequence[str] = (),
) -> ParseBatch:
    """Parse lines of text, with one sentence per line, with one model or with the average of several.

    Averages have no distances, scores and labels. A model with the decoder `mbr` contributes the probabilities of all
    spans to an average instead of a tree. Vocabularies may differ; the trees contain the words of the first model,
    whose vocabulary also determines how `auto` splits words. If one of the models reads tags, the lines must be tagged
    text, which is never split, and the other models read its words.

    Args:
        first: number of the first line.
        names: names of several models, for messages.

    Raises:
        InputError: for a model that does not parse, for a decoder or layer that no model has, if labels are requested
            from a model without labels or from several, and for a sentence that the models' normalisers split
            differently.
    """
    if isinstance(lines, str):
        raise TypeError("parse_lines takes a list of lines, not one string")
    bundles = [models] if isinstance(models, ModelBundle) else list(models)
    chosen = _checked_decodings(bundles, options)

    # The lines as each model reads them. Without words in any of them, there is nothing to parse.
    if len(bundles) > 1:
        readings = _readings(bundles, lines, options, first, names)
    else:
        readings = [_reading(reader_of(bundles[0], options), lines, first)]
    batch = readings[0]
    numbers = (first + np.flatnonzero(np.diff(batch.read.places))).tolist()
    if not numbers:
        return replace(batch, labelled=options.labels)

    # What each model says about the structure of the lines, and their trees. All models have the same words, so the
    # marks of the first reading are those of all.
    marks = _marks(bundles, batch, options)
    corpora = [reading.corpus(None if marks is None else marks.gaps) for reading in readings]
    structures = [
        structure_of(bundle, corpus, options.labels, numbers) for bundle, corpus in zip(bundles, corpora, strict=True)
    ]
    marks = marks if marks is not None and marks.share else None  # as evidence
    with _naming(numbers):
        if options.several:
            alternatives = alternatives_of(bundles, corpora[0], structures, chosen, options, marks)
            batch = replace(batch, alternatives=alternatives)
        if len(bundles) > 1:
            return replace(batch, spans=combined_trees(structures, chosen, options.ties, marks))
        (structure,) = structures
        (decoding,) = chosen
        spans = structure.labelled(decoding.decoder, marks) if options.labels else structure.decode(*decoding, marks)
    return replace(batch, spans=spans, structure=structure, layer=decoding.layer, labelled=options.labels)


@contextmanager
def _naming(numbers: Sequence[int]) -> Iterator[None]:
    """Name sentences in errors of decoders by their numbers in the text, not by their places among those with words."""
    try:
        yield
    except InputError as error:
        message = _PLACE.sub(lambda place: f"sentence {numbers[int(place[1]) - 1]}", str(error))
        raise InputError(message) from error


def _checked_decodings(bundles: Sequence[ModelBundle], options: ParseOptions) -> list[Decoding]:
    """Return the decoder and layer of each model. Raises InputError for options that the models do not have."""
    if not bundles:
        raise ValueError("found no model; expected one model or more")
    if options.labels and len(bundles) > 1:
        raise InputError(f"labels: found {len(bundles)} models; expected one, because averaged trees have no labels")
    if options.labels:
        bundles[0].require(LabelsSpans, "parsing with labels")
    chosen = decodings(bundles, options)
    check_several(bundles, chosen, options)
    return chosen


def _marks(bundles: Sequence[ModelBundle], batch: ParseBatch, options: ParseOptions) -> Marks | None:
    """Return the punctuation marks of the lines, which are no words; None if no model uses them.

    Some models read them. For others, they are evidence of constituents.

    Args:
        batch: what the first model reads.
    """
    side = _side_of_marks(bundles, options)
    share = share_without_marks(bundles)
    if options.marks == "none" or (side is None and share == 1):
        return None
    if side is None:
        share = 0.0
    elif options.marks != "auto":
        share = 1.0
    lengths = np.diff(batch.read.places)
    return Marks(batch.read.gap_marks(), lengths[lengths > 0], side or "both", share)


def _side_of_marks(bundles: Sequence[ModelBundle], options: ParseOptions) -> MarkSide | None:
    """Return the side of spans at which a mark is required; None if marks are not used."""
    match options.marks:
        case "auto":
            return trained_side(bundles)
        case "none":
            return None
        case side:
            return side


def reader_of(bundle: ModelBundle, options: ParseOptions) -> TextReader:
    """Return the reader of the text that a model parses."""
    if options.pretokenised:
        return PretokenisedReader(bundle.parser_normaliser, bundle.vocabulary)
    return TextReader.of(bundle.parser_normaliser, bundle.vocabulary, options)


def _readings(
    bundles: Sequence[ModelBundle],
    lines: Sequence[str],
    options: ParseOptions,
    first: int,
    names: Sequence[str],
) -> list[ParseBatch]:
    """Return what each of several models reads of the lines. Raises InputError if their words differ."""
    bundle = bundles[0]
    reader = reader_of(bundle, options)
    names = names or [f"model {number}" for number in range(1, len(bundles) + 1)]
    tagged = any(model.parser_normaliser.units == "tags" for model in bundles)
    if tagged and not options.pretokenised:
        reader = TextReader(bundle.parser_normaliser, bundle.vocabulary)

    def lines_for(bundle: ModelBundle, lines: Sequence[str]) -> Sequence[str]:
        """Return the lines in the form that a model reads: without tags, if it reads words and others read tags."""
        if tagged and bundle.parser_normaliser.units != "tags":
            return list(each_line(_with_blank_tags, lines, first))
        return lines

    readings = [_reading(reader, lines_for(bundle, lines), first)]
    split = [reader.split(line) for line in lines]
    expected = _reading(reader.without_splitting(), lines_for(bundle, split), first).words
    for name, further in zip(names[1:], bundles[1:], strict=True):
        further_reader = TextReader(further.parser_normaliser, further.vocabulary)
        if options.pretokenised or not tagged:
            further_reader = reader_of(further, options).without_splitting()
        readings.append(_reading(further_reader, lines_for(further, split), first))
        for number, (words, further_words) in enumerate(zip(expected, readings[-1].words, strict=True), first):
            if words != further_words:
                raise _different_words(number, names[0], words, name, further_words)
    return readings


def _with_blank_tags(line: str) -> str:
    """Return a line of tagged text with spaces in place of the tags, so that the words keep their offsets."""
    blank = [" "] * len(line)
    for start, end in word_spans(line):
        word, _ = split_tag(line[start:end])
        blank[start : start + len(word)] = word
    return "".join(blank)


def _different_words(
    number: int, name: str, words: Sequence[str], further_name: str, further_words: Sequence[str]
) -> InputError:
    """Return the error for a sentence that two models read as different words."""
    pairs = zip(words, further_words, strict=False)
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return InputError(
        f"sentence {number}: the models read different words, starting with word {equal + 1}.\n"
        f"  {name}, {len(words)} words: {beginning(words[equal:])}\n"
        f"  {further_name}, {len(further_words)} words: {beginning(further_words[equal:])}\n"
        "Expected models with the same tokenisation (text.normaliser in their recipes)."
    )


def check_text_of(
    models: Sequence[ModelBundle],
    lines: Sequence[str],
    options: ParseOptions,
    names: Sequence[str] = (),
    place: str = "",
) -> None:
    """Warn of text that is probably not what the models should read, see `warn_of_doubts`."""
    for model, name in zip(models, names or [""] * len(models), strict=True):
        if model.parser_normaliser.units == "words":
            warn_of_doubts(reader_of(model, options), lines, name, place)


def _reading(reader: TextReader, lines: Sequence[str], first: int) -> ParseBatch:
    """Return what a model reads of the lines, not parsed yet."""
    return ParseBatch(reader.read(lines, first), reader, first)


def parse_text(
    models: Sequence[ModelBundle],
    text: str | Path | GivenText,
    options: ParseOptions,
    names: Sequence[str] = (),
    longest: int | None = None,
) -> Iterator[ParseBatch]:
    """Parse a text with one sentence per line, showing a progress bar, and yield the parses of consecutive lines.

    Args:
        models: see `parse_lines`.
        options: see `parse_lines`.
        names: see `parse_lines`.
        longest: most words of a sentence; a longer one is read like a line without words. None: no limit.

    Raises:
        InputError: for the same reasons.
    """
    normalisers = [model.parser_normaliser for model in models]
    tags_first = next((normaliser for normaliser in normalisers if normaliser.units == "tags"), normalisers[0])
    lines = (line for _, line in read_sentences(text, tags_first))
    if longest is not None:
        lines = ("" if is_longer(line, longest, tags_first) else line for line in lines)
    parse_lines(models, [], options, names=names)  # reports wrong options before the text is read

    # Progress is measured in bytes if the size of the text is known, otherwise in lines.
    size = None if isinstance(text, GivenText) else plain_size(text)
    amount: Callable[[Sequence[str]], int] = len if size is None else lambda chunk: sum(map(line_bytes, chunk))
    chunks = batched(lines, LINES_TOGETHER)
    first = 1
    for chunk in progress_bar(chunks, f"parsing {source_name(text)}", size, amount, percent=size is not None):
        if first == 1:
            check_text_of(models, chunk, options, names, source_name(text))
        yield parse_lines(models, chunk, options, first, names)
        first += len(chunk)
