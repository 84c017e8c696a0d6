"""The models of a server: what each of them answers, as values for JSON and pictures, computed in a thread."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest
from typing import Any

from syntaxlm.api.model import LanguageModel
from syntaxlm.api.results import SentenceSurprisal
from syntaxlm.core.errors import InputError
from syntaxlm.drawing.latex import format_latex
from syntaxlm.drawing.surprisal import pair_picture
from syntaxlm.drawing.tree import SpanNote, tree_picture
from syntaxlm.generation.options import SamplingOptions
from syntaxlm.generation.sentences import (
    Draw,
    draws_of,
    generate_draws,
    refuse_word_options,
    sample_draws_with_trees,
)
from syntaxlm.models.abilities import (
    HasTreeBeliefs,
    LabelsSpans,
    ParsesSentences,
    PredictsNextToken,
    ScoresSentences,
    ScoresTokens,
    abilities_of,
)
from syntaxlm.models.combination import believing_parser
from syntaxlm.parsing.result import Alternative, Parse
from syntaxlm.scoring.engine import TIE
from syntaxlm.scoring.surprisal import WordSurprisal
from syntaxlm.serve.limits import Limits, with_places
from syntaxlm.serve.pictures import chart_picture, sentence_picture
from syntaxlm.serve.schemas import AccuracyInfo, AlignedWord, DrawnTree, ModelInfo
from syntaxlm.serve.threads import Check, Compute, ModelThread, OverloadError
from syntaxlm.storage.cards import card_text, read_card
from syntaxlm.storage.folder import structure_name
from syntaxlm.storage.model_index import Result
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.reader import AUTO_STYLE, TextReader
from syntaxlm.trees.tree import Tree, format_brackets, parse_brackets

Values = dict[str, Any]

_log = logging.getLogger("uvicorn.error")


class ComputationError(Exception):
    """Raised for an error of the program in a model's thread."""


async def answer_of(future: Future[list[Any]], limits: Limits, name: str) -> list[Any]:
    """Return what a thread computes for a request.

    Args:
        name: the name of the thread, for the log.

    Raises:
        OverloadError: if the server stops.
        TimeoutError: after `max_seconds`.
        InputError: if the computation does.
        ComputationError: for its other errors, which are logged.
    """
    try:
        async with asyncio.timeout(limits.max_seconds):
            return await asyncio.wrap_future(future)
    except (TimeoutError, InputError, OverloadError):
        raise
    except Exception as error:
        _log.exception("%s: a request failed", name)
        raise ComputationError("the server failed to compute this request; its log has the reason") from error
    finally:
        future.cancel()  # after the time limit, or if the client has gone


class ServedModel:
    """A model with the threads that compute its requests.

    Attributes:
        card_text: the card of the model, in Markdown; None without one.
        sampler: samples sentences, which takes long.
        thread: computes everything else.
    """

    def __init__(self, name: str, model: LanguageModel, limits: Limits) -> None:
        """Raise InputError for a model that reads dependency trees."""
        if model.model.reads == "trees":
            raise InputError(f"{name}: a {model.name} model reads dependency trees; serve expects a model of text")
        self.name = name
        self.model = model
        self.limits = limits
        self._card = None
        self.card_text: str | None = None
        if model.files is not None:
            with suppress(InputError):  # damaged; the model can be used without it
                self._card = read_card(model.files)
                self.card_text = card_text(model.files)
        self.thread, self.sampler = ModelThread(name, limits.max_waiting), ModelThread(name, limits.max_waiting)

    def start(self) -> None:
        """Compute a sentence, because first calls take longer."""
        with suppress(InputError):  # a tag model cannot read it
            self.analyse(["a b"], pictures=False)

    async def compute(
        self, key: Hashable, items: Sequence[Any], compute: Compute, check: Check | None = None
    ) -> list[Any]:
        """Return one result per item, computed by the thread together with waiting requests of the same key.

        Raises errors as `answer_of` does.

        Args:
            key: what the computation depends on besides the items.
            items: sentences or pairs.
            compute: maps some items to as many results.
            check: raises an error for wrong items; it gets all of the request.
        """
        return await answer_of(self.thread.submit(key, list(items), compute, check), self.limits, self.name)

    async def sample(self, count: int, seed: int, **options: Any) -> list[Values]:
        """Return sampled sentences. Waiting requests that differ only in count and seed are computed together.

        Raises errors as `answer_of` does.

        Args:
            options: the other options of `generate`.
        """
        key, draws = tuple(options.items()), draws_of(count, seed)
        compute = partial(self.generate, **options)
        return await answer_of(self.sampler.submit(key, draws, compute), self.limits, self.name)

    def info(self) -> ModelInfo:
        model, card = self.model.model, self._card
        accuracy = card.accuracy if card else None
        return ModelInfo(
            name=self.name,
            model_type=self.model.name,
            parameters=model.parameter_count,
            vocabulary=len(self.model.vocabulary),
            units=self.model.normaliser.units,
            abilities=abilities_of(model),
            structure=structure_name(model),
            decoders=list(model.decoders) if isinstance(model, ParsesSentences) else [],
            layers=model.distance_layers if isinstance(model, ParsesSentences) else 0,
            by_word=isinstance(model, PredictsNextToken),
            beliefs=isinstance(model, HasTreeBeliefs) or believing_parser(model) is not None,
            language=card.language if card else None,
            description=card.description if card else None,
            accuracy=_stated(accuracy) if accuracy else None,
            perplexities=[_stated(result) for result in card.perplexities] if card else [],
            has_card=self.card_text is not None,
        )

    def parse(self, sentences: list[str], **options: Any) -> list[Values]:
        """Return each sentence's `Parse.to_dict`, and its tree in brackets.

        Args:
            **options: of `LanguageModel.parse`.
        """
        parses = self.model.parse(sentences, **options)
        return [parse.to_dict() | {"brackets": _brackets(parse.tree)} for parse in parses]

    def surprisal(self, sentences: list[str], **options: Any) -> list[Values]:
        """Return the surprisal of each word, each sentence read by itself: requests must not depend on each other.

        Args:
            **options: of `LanguageModel.surprisal`.
        """
        return [_surprisal_values(scored) for scored in self.model.surprisal(sentences, **options)]

    def analyse(
        self,
        sentences: list[str],
        decoder: Any = None,
        layer: int | None = None,
        labels: bool = False,
        best: int = 1,
        pictures: bool = True,
    ) -> list[Values]:
        """Return trees and surprisals, as far as the model gives them, with pictures."""
        model = self.model.model
        nothing = [None] * len(sentences)
        parses: Sequence[Parse | None] = nothing
        surprisals: Sequence[SentenceSurprisal | None] = nothing
        if isinstance(model, ParsesSentences):
            has_labels = labels and isinstance(model, LabelsSpans)
            parses = self.model.parse(sentences, decoder=decoder, layer=layer, labels=has_labels, best=best)
        if isinstance(model, ScoresTokens):
            surprisals = self.model.surprisal(sentences, context="reset")
        results = []
        for sentence, parse, scored in zip(sentences, parses, surprisals, strict=True):
            values: Values = {"sentence": sentence}
            if parse is not None:
                values["parse"] = parse.to_dict() | {"brackets": _brackets(parse.tree)}
            if scored is not None:
                values["surprisal"] = _surprisal_values(scored)
            if parse is not None and parse.alternatives:
                values["readings"] = [
                    self._reading(parse, alternative, scored, pictures) for alternative in parse.alternatives
                ]
            if pictures:
                tree = sentence_picture(parse, scored, self.model.normaliser.units)
                chart = None if parse is None else chart_picture(parse)
                values["svg"], values["chart_svg"] = (None if each is None else each.svg() for each in (tree, chart))
            results.append(values)
        return results

    def _reading(
        self, parse: Parse, alternative: Alternative, surprisal: SentenceSurprisal | None, pictures: bool
    ) -> Values:
        """Return one of the best trees of a sentence."""
        reading = dataclasses.replace(parse, tree=alternative.tree, alternatives=[])
        values = {name: value for name, value in reading.to_dict().items() if name in DrawnTree.model_fields}
        values |= {"probability": alternative.probability, "brackets": _brackets(reading.tree)}
        if pictures:
            picture = sentence_picture(reading, surprisal, self.model.normaliser.units)
            values["svg"] = None if picture is None else picture.svg()
        return values

    def pairs(self, pairs: list[tuple[str, str]], pictures: bool = True) -> list[Values]:
        """Return which sentence of each pair is likelier, and where."""
        sentences = [sentence for pair in pairs for sentence in pair]
        scored: Sequence[SentenceSurprisal | None] = [None] * len(sentences)
        if isinstance(self.model.model, ScoresTokens):
            scored = self.model.surprisal(sentences, context="reset")
            bits = [words.bits for words in scored]
        else:
            self.model.require(ScoresSentences, "minimal pairs")
            bits = [-log_prob / math.log(2) for log_prob in self.model.log_prob(sentences)]
        places = range(0, len(sentences), 2)
        return [
            _pair_values(pair, bits[place : place + 2], scored[place : place + 2], pictures)
            for place, pair in zip(places, pairs, strict=True)
        ]

    def generate(
        self,
        draws: Sequence[Draw],
        prompt: str | None,
        max_words: int | None,
        trees: bool,
        pictures: bool,
        **options: Any,
    ) -> list[Values]:
        """Return a sampled sentence for each draw.

        Args:
            trees: whether sentences are sampled with their trees.
            pictures: whether trees have a picture.
            **options: of `SamplingOptions`.
        """
        in_characters = self.model.normaliser.units == "characters"
        longest = self.limits.max_characters if in_characters else self.limits.max_words
        if max_words is not None and max_words > longest:
            raise InputError(f"max_words: found {max_words:,}; expected at most {longest:,}")
        sampling = SamplingOptions(max_words=max_words or longest, **options)
        if not trees:
            if prompt is not None:
                self._check_text(prompt, "prompt")
            return [sentence.to_dict() for sentence in generate_draws(self.model, draws, prompt, sampling)]
        refuse_word_options(prompt, sampling, "Sentences with trees are sampled top-down.")
        sampled = []
        for sentence in sample_draws_with_trees(self.model, draws, sampling):
            values = sentence.to_dict() | {"brackets": _brackets(sentence.tree)}
            sampled.append(values | ({"svg": tree_picture(sentence.tree).svg()} if pictures else {}))
        return sampled

    def check(self, sentences: Sequence[str], given: str | None = None) -> None:
        """Raise InputError for a sentence of too many words as the model splits them, and for an untagged word.

        Args:
            given: what is read before each sentence.
        """
        for text, place in with_places(sentences, given):
            self._check_text(text, place)

    def check_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Check the sentences of a pair as `check` does; a request has one pair."""
        for pair in pairs:
            self.check(pair)

    def _check_text(self, text: str, place: str) -> None:
        if self.model.normaliser.units == "characters":  # already limited
            return
        reader = TextReader.of(self.model.normaliser, self.model.vocabulary, AUTO_STYLE)
        try:
            words = len(reader.tokens(text))
        except UntaggedTokenError as error:
            raise error.at(place) from None
        self.limits.check_words(words, place)


def _stated(result: Result) -> AccuracyInfo:
    return AccuracyInfo(values=result.row(), protocol=result.protocol)


def described_tree(brackets: str, limits: Limits) -> Values:
    """Return a tree that a user typed, with its picture and its LaTeX code.

    Raises:
        InputError: for text that is not one tree, and for a tree with too many words.
    """
    trees = parse_brackets(brackets, source="brackets")
    if len(trees) != 1:
        raise InputError(f"brackets: found {len(trees)} trees; expected one")
    (tree,) = trees
    limits.check_words(len(tree), "brackets")

    # A constituent in a group of its own can be marked by the page.
    labels = {(part.start, part.end): part.label for part in tree.constituents if part.end - part.start > 1}
    notes = {span: SpanNote(label or "constituent") for span, label in labels.items()}
    return {
        "sentence": " ".join(tree.words),
        "words": list(tree.words),
        "spans": list(labels),
        "brackets": _brackets(tree),
        "latex": format_latex(tree),
        "svg": tree_picture(tree, span_notes=notes).svg(),
    }


def _brackets(tree: Tree) -> str | None:
    """Return none for a tree without words, and for words that cannot be written in brackets."""
    try:
        return format_brackets(tree) if tree.words else None
    except InputError:
        return None


def _surprisal_values(surprisal: SentenceSurprisal) -> Values:
    bits = None if math.isnan(surprisal.bits) else round(surprisal.bits, 6)
    return {"bits": bits, "words": surprisal.to_dict()}


def _pair_values(
    sentences: tuple[str, str], bits: Sequence[float], scored: Sequence[SentenceSurprisal | None], pictures: bool
) -> Values:
    """Return a comparison.

    Args:
        scored: the words of both sentences; None if the model gives no surprisals.

    Raises:
        InputError: for a sentence without words.
    """
    is_equal = math.isclose(*bits, rel_tol=0, abs_tol=TIE / math.log(2))  # both may be infinite
    difference = 0.0 if is_equal else bits[1] - bits[0]
    likelier = "first" if difference > 0 else "second"
    values: Values = {
        "likelier": likelier if difference else "equal",
        "difference": round(difference, 6),
        "columns": None,
        "decisive_column": None,
    }
    for number, (name, words) in enumerate(zip(("first", "second"), scored, strict=True), 1):
        rows = None if words is None else [row._replace(sentence=number).to_dict() for row in words]
        if math.isnan(bits[number - 1]):
            raise InputError(f"{name}: found no words that the model reads; expected a sentence")
        values[name] = {"sentence": sentences[number - 1], "bits": round(bits[number - 1], 6), "words": rows}
    first, second = scored
    if first is not None and second is not None:
        columns = align(first, second)
        sign = 1 if difference > 0 else -1

        def effect(column: int) -> float:
            value = columns[column].difference
            assert value is not None  # only JSON lacks infinite numbers
            return sign * value

        if difference != 0:
            values["decisive_column"] = max(range(len(columns)), key=effect)
        values["columns"] = columns
        if pictures:
            places = [(column.first, column.second) for column in columns]
            values["svg"] = pair_picture(first, second, places, values["decisive_column"]).svg()
    return values


def align(first: Sequence[WordSurprisal], second: Sequence[WordSurprisal]) -> list[AlignedWord]:
    """Align the words of two sentences: equal ones, and between these the others one by one, in order."""
    matcher = SequenceMatcher(None, [row.word for row in first], [row.word for row in second], autojunk=False)
    columns = []
    for _, start, end, other_start, other_end in matcher.get_opcodes():
        for place, other in zip_longest(range(start, end), range(other_start, other_end)):
            before = 0.0 if place is None else first[place].surprisal or 0.0
            after = 0.0 if other is None else second[other].surprisal or 0.0
            difference = after - before if after != before else 0.0  # both may be infinite
            columns.append(AlignedWord(place, other, difference))
    return columns
