"""The models of a server: what each of them answers, as values for JSON. The methods run in a model's thread."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from syntaxlm.api.model import LanguageModel
from syntaxlm.api.results import SentenceSurprisal
from syntaxlm.app.serve.limits import Limits
from syntaxlm.app.serve.pairs import align, decisive_column, likelier
from syntaxlm.app.serve.pictures import chart_picture, sentence_picture
from syntaxlm.app.serve.schemas import ModelInfo
from syntaxlm.core.errors import InputError
from syntaxlm.drawing.surprisal import pair_picture
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.generation.sentences import GeneratedSentence, SentenceWithTree
from syntaxlm.generation.trees import GeneratedTree
from syntaxlm.models.abilities import (
    LabelsSpans,
    ParsesSentences,
    PredictsNextToken,
    ScoresSentences,
    ScoresTokens,
    abilities_of,
)
from syntaxlm.parsing.parse import Parse
from syntaxlm.storage.folder import structure_name
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.reader import AUTO_STYLE, TextReader
from syntaxlm.trees.tree import Tree, format_brackets

# One thread per model, which computes the requests that wait for it, so that none blocks the server.


TOGETHER = 32  # most texts of several requests that are computed in one batch

Compute = Callable[[list[Any]], Sequence[Any]]


class OverloadError(Exception):
    """Raised if too many requests wait for a model."""


@dataclass(frozen=True, eq=False)
class _Job:
    """compute: maps all items to as many results. Jobs with the same key differ only in their items."""

    key: Hashable
    items: list[Any]
    compute: Compute
    result: Future[list[Any]] = field(default_factory=Future)


class ModelThread:
    """A thread that computes jobs in order. Waiting jobs with the same key are computed in one batch."""

    def __init__(self, name: str, max_waiting: int) -> None:
        self._jobs: deque[_Job] = deque()
        self._max_waiting = max_waiting
        self._changed = threading.Condition()
        self._closed = False
        self._name = name
        self._thread = threading.Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    def submit(self, key: Hashable, items: list[Any], compute: Compute) -> Future[list[Any]]:
        """Return a future of one result per item. Raises OverloadError if too many jobs wait."""
        job = _Job(key, items, compute)
        with self._changed:
            if len(self._jobs) >= self._max_waiting:
                raise OverloadError(f"{self._name}: {len(self._jobs)} requests are waiting. Try again in a few seconds")
            if self._closed:
                raise OverloadError("the server is stopping")
            self._jobs.append(job)
            self._changed.notify()
        return job.result

    def close(self) -> None:
        """Cancel the jobs that wait, and ends the thread after the present one."""
        with self._changed:
            self._closed = True
            for job in self._jobs:
                job.result.cancel()
            self._jobs.clear()
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while jobs := self._next():
            running = [job for job in jobs if job.result.set_running_or_notify_cancel()]
            if running:
                _run(running)

    def _next(self) -> list[_Job]:
        """Return the next job, and those that are computed with it; none if the worker is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return []
            first = self._jobs.popleft()
            jobs, size = [first], len(first.items)
            for job in [job for job in self._jobs if job.key == first.key]:
                size += len(job.items)
                if size > TOGETHER:
                    break
                jobs.append(job)
                self._jobs.remove(job)
            return jobs


def _run(jobs: list[_Job]) -> None:
    try:
        results = list(jobs[0].compute([item for job in jobs for item in job.items]))
    except InputError as error:
        if len(jobs) == 1:
            jobs[0].result.set_exception(error)
        else:  # only one of them may be wrong
            for job in jobs:
                _run([job])
    except BaseException as error:  # the request reports it, and the thread computes the next job
        for job in jobs:
            job.result.set_exception(error)
    else:
        start = 0
        for job in jobs:
            job.result.set_result(results[start : start + len(job.items)])
            start += len(job.items)


Values = dict[str, Any]


_log = logging.getLogger("uvicorn.error")


class ComputationError(Exception):
    """Raised for an error of the program in a model's thread."""


class ServedModel:
    """A model with the thread that computes its requests."""

    def __init__(self, name: str, model: LanguageModel, limits: Limits) -> None:
        """Raise InputError for a model that reads dependency trees."""
        if model.model.reads == "trees":
            raise InputError(f"{name}: a {model.name} model reads dependency trees; serve expects a model of text")
        self.name, self.model, self.limits = name, model, limits
        self._thread: ModelThread | None = None

    def start(self) -> None:
        """Start the thread, and compute a sentence, because first calls take longer."""
        self._thread = ModelThread(self.name, self.limits.max_waiting)
        with suppress(InputError):  # a tag model cannot read it
            self._thread.submit(object(), ["a b"], partial(self.analyse, pictures=False)).result()

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.close()

    async def compute(self, key: Hashable, items: Sequence[Any], compute: Compute) -> list[Any]:
        """Return one result per item, computed by the thread together with waiting requests of the same key.

        Raises OverloadError if too many requests wait, asyncio.TimeoutError after `max_seconds`, InputError if
        `compute` does, and ComputationError for its other errors, which are logged.
        """
        assert self._thread is not None, "start() was not called"
        future = self._thread.submit(key, list(items), compute)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.max_seconds)
        except (TimeoutError, InputError):
            raise
        except Exception as error:
            _log.exception("%s: a request failed", self.name)
            raise ComputationError("the server failed to compute this request; its log has the reason") from error

    def info(self) -> ModelInfo:
        model = self.model.model
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
        )

    def parse(self, sentences: list[str], **options: Any) -> list[Values]:
        """Return each sentence's `Parse.to_dict`, and its tree in brackets. options: of `LanguageModel.parse`."""
        self._check(sentences)
        return [_parse_values(parse) for parse in self.model.parse(sentences, **options)]

    def surprisal(self, sentences: list[str]) -> list[Values]:
        """Return the surprisal of each word, each sentence read by itself: requests must not depend on each other."""
        self._check(sentences)
        return [_surprisal_values(one) for one in self.model.surprisal(sentences, context="reset")]

    def analyse(
        self,
        sentences: list[str],
        decoder: Any = None,
        layer: int | None = None,
        labels: bool = False,
        pictures: bool = True,
    ) -> list[Values]:
        """Return trees and surprisals, as far as the model gives them, with pictures."""
        self._check(sentences)
        model = self.model.model
        nothing = [None] * len(sentences)
        parses: Sequence[Parse | None] = nothing
        surprisals: Sequence[SentenceSurprisal | None] = nothing
        if isinstance(model, ParsesSentences):
            own = labels and isinstance(model, LabelsSpans)
            parses = self.model.parse(sentences, decoder=decoder, layer=layer, labels=own)
        if isinstance(model, ScoresTokens):
            surprisals = self.model.surprisal(sentences, context="reset")
        found = []
        for sentence, parse, surprisal in zip(sentences, parses, surprisals, strict=True):
            values: Values = {"sentence": sentence}
            if parse is not None:
                values["parse"] = _parse_values(parse)
            if surprisal is not None:
                values["surprisal"] = _surprisal_values(surprisal)
            if pictures:
                picture = sentence_picture(sentence, parse, surprisal, self.model.normaliser.units)
                chart = None if parse is None else chart_picture(parse)
                values["svg"], values["chart_svg"] = (None if one is None else one.svg() for one in (picture, chart))
            found.append(values)
        return found

    def pairs(self, pairs: list[tuple[str, str]], pictures: bool = True) -> list[Values]:
        """Return which sentence of each pair is likelier, and where."""
        sentences = [sentence for pair in pairs for sentence in pair]
        self._check(sentences)
        if isinstance(self.model.model, ScoresTokens):
            scored = self.model.surprisal(sentences, context="reset")
            return [
                _pair_values(pair, (one, other), pictures)
                for pair, one, other in zip(pairs, scored[::2], scored[1::2], strict=True)
            ]
        self.model.require(ScoresSentences, "minimal pairs")
        bits = [-log_prob / math.log(2) for log_prob in self.model.log_prob(sentences)]
        found = []
        for (first, second), one, other in zip(pairs, bits[::2], bits[1::2], strict=True):
            difference = other - one
            found.append(
                {
                    "first": {"sentence": first, "bits": one, "words": None},
                    "second": {"sentence": second, "bits": other, "words": None},
                    "likelier": likelier(difference), "difference": difference, "columns": None,
                    "decisive_column": None,
                }
            )  # fmt: skip
        return found

    def generate(self, count: int, pictures: bool, **options: Any) -> list[Values]:
        """Return sampled sentences. options: of `LanguageModel.generate`."""
        longest = self._longest()
        asked = options.pop("max_words") or longest
        if asked > longest:
            raise InputError(f"max_words: found {asked:,}; expected at most {longest:,}")
        return [_generated_values(one, pictures) for one in self.model.generate(count, max_words=asked, **options)]

    def _longest(self) -> int:
        """Return most tokens of a sentence."""
        in_characters = self.model.normaliser.units == "characters"
        return self.limits.max_characters if in_characters else self.limits.max_words

    def _check(self, sentences: Sequence[str]) -> None:
        """Raise InputError for a sentence of too many words as the model splits them, and for an untagged word."""
        if self.model.normaliser.units == "characters":  # already limited
            return
        reader = TextReader.of(self.model.normaliser, self.model.vocabulary, AUTO_STYLE)
        for number, sentence in enumerate(sentences, 1):
            try:
                words = len(reader.tokens(sentence))
            except UntaggedTokenError as error:
                raise error.at(f"sentence {number}") from None
            self.limits.check_words(words, number)


def _parse_values(parse: Parse) -> Values:
    return parse.to_dict() | {"brackets": _brackets(parse.tree)}


def _brackets(tree: Tree) -> str | None:
    """Return none for a tree without words, and for words that cannot be written in brackets."""
    try:
        return format_brackets(tree) if tree.words else None
    except InputError:
        return None


def _as_number(surprisal: SentenceSurprisal, number: int) -> SentenceSurprisal:
    return SentenceSurprisal(row._replace(sentence=number) for row in surprisal)


def _surprisal_values(surprisal: SentenceSurprisal) -> Values:
    return {"bits": round(surprisal.bits, 6), "words": surprisal.to_dict()}


def _pair_values(
    sentences: tuple[str, str], scored: tuple[SentenceSurprisal, SentenceSurprisal], pictures: bool
) -> Values:
    """Raise InputError for a sentence without words."""
    scored = _as_number(scored[0], 1), _as_number(scored[1], 2)
    for name, one in zip(("first", "second"), scored, strict=True):
        if not any(row.surprisal is not None for row in one):
            raise InputError(f"{name}: found no words that the model reads; expected a sentence")
    columns = align(*scored)
    difference = scored[1].bits - scored[0].bits
    decisive = decisive_column(columns, difference)
    values: Values = {
        "first": {"sentence": sentences[0], **_surprisal_values(scored[0])},
        "second": {"sentence": sentences[1], **_surprisal_values(scored[1])},
        "likelier": likelier(difference),
        "difference": round(difference, 6),
        "columns": columns,
        "decisive_column": decisive,
    }
    if pictures:
        values["svg"] = pair_picture(*scored, [column.places for column in columns], decisive).svg()
    return values


def _generated_values(one: GeneratedSentence | SentenceWithTree | GeneratedTree, pictures: bool) -> Values:
    values = one.to_dict()
    if isinstance(one, SentenceWithTree):
        values["brackets"] = _brackets(one.tree)
        if pictures:
            values["svg"] = tree_picture(one.tree).svg()
    return values
