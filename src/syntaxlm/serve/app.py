"""The JSON interface. A request names a model, never a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as BaseHTTPException

from syntaxlm.api.model import LanguageModel
from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import check_encodable
from syntaxlm.core.version import VERSION
from syntaxlm.serve import schemas
from syntaxlm.serve.guard import RETRY_AFTER, error_answer
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.models import ComputationError, ServedModel, answer_of, described_tree
from syntaxlm.serve.site import Site
from syntaxlm.serve.threads import Compute, ModelThread, OverloadError

FEWEST_WORDS = 5_000  # from which abbreviations are learned; three sentences that end in "him." would look like one
MOST_FAULTS, LONGEST_SHOWN = 5, 80  # errors in a message; characters of a value or a name

T = TypeVar("T", bound=BaseModel)
DESCRIPTION = (
    "Trees and surprisals of language models. Requests and answers are JSON in UTF-8. Errors have a detail, which says"
    " what is wrong and what was expected."
)
_REASONS = {
    400: "The body is not UTF-8, or is nested too deeply",
    404: "No model has this name",
    408: "The request was sent too slowly",
    413: "The request is too large",
    422: "The request is wrong, or above a limit",
    503: "Too many requests are waiting",
    504: "The answer took too long",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": reason} for status, reason in _REASONS.items()
}

WITHOUT_MODEL = (400, 408, 413, 422, 503, 504)  # errors of requests that no model computes


@dataclass(frozen=True)
class Served:
    """What the requests of an application use.

    Attributes:
        models: by name; the first is the default of requests.
        splitter: the thread that splits text into sentences, and draws trees that users type.
    """

    models: Mapping[str, ServedModel]
    limits: Limits
    splitter: ModelThread

    @property
    def threads(self) -> list[ModelThread]:
        """All threads that compute answers."""
        return [self.splitter, *(each for model in self.models.values() for each in (model.thread, model.sampler))]

    def start(self) -> None:
        """Prepare for the first requests."""
        next(iter(self.models.values())).start()  # the others may never be used
        self.splitter.submit(object(), [""], _split)  # imports nltk while the user types

    async def compute(self, text: str, compute: Compute) -> list[Any]:
        """Return what the splitter computes for a text, as the only item. Raises errors as `answer_of` does."""
        return await answer_of(self.splitter.submit(object(), [text], compute), self.limits, "sentences")

    def model(self, name: str | None) -> ServedModel:
        """Return a model by name. Raises HTTPException for an unknown name."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise HTTPException(404, f"model: found {name!r}; expected one of {', '.join(self.models)}")
        return self.models[name]


def create_app(models: Mapping[str, LanguageModel], limits: Limits | None = None, hosts: Sequence[str] = ()) -> Site:
    """Return a site of models that are in memory. Parameters and errors: see `create_interface` and `Site`."""
    limits = limits or Limits()
    interface = create_interface(models, limits)
    return Site(lambda: interface, limits, hosts)


def create_interface(models: Mapping[str, LanguageModel], limits: Limits) -> FastAPI:
    """Return the JSON interface of a site.

    Args:
        models: by name; the first is the default of requests.

    Raises:
        InputError: for a model that does not read text, and for a name that JSON cannot hold.
    """
    for name in models:
        check_encodable(name, "the name of a model")
    by_name = {name: ServedModel(name, model, limits) for name, model in models.items()}
    app = FastAPI(
        title="syntaxlm", version=VERSION, description=DESCRIPTION, openapi_url="/api/openapi.json",
        docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.served = Served(by_name, limits, ModelThread("sentences", limits.max_waiting))
    _add_errors(app, limits)
    app.include_router(router)
    return app


def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


ServedHere = Annotated[Served, Depends(_served)]
router = APIRouter(prefix="/api")
_post = partial(router.post, responses=ERRORS, response_model_exclude_unset=True)


@router.get("/models", summary="List the models and the limits of this server")
async def models(served: ServedHere) -> schemas.ModelsAnswer:
    limits = schemas.LimitsInfo.model_validate(served.limits, from_attributes=True)
    info = [model.info() for model in served.models.values()]
    return schemas.ModelsAnswer(version=VERSION, models=info, limits=limits)


@_post("/parse", summary="Parse sentences")
async def parse(request: schemas.ParseRequest, served: ServedHere) -> schemas.ParseAnswer:
    return await _by_sentence(served, request, "parse", schemas.ParseAnswer)


@_post("/surprisal", summary="Compute the surprisal of each word")
async def surprisal(request: schemas.SurprisalRequest, served: ServedHere) -> schemas.SurprisalAnswer:
    return await _by_sentence(served, request, "surprisal", schemas.SurprisalAnswer)


@_post("/analyse", summary="Parse sentences, compute surprisals, and draw both")
async def analyse(request: schemas.AnalyseRequest, served: ServedHere) -> schemas.AnalyseAnswer:
    return await _by_sentence(served, request, "analyse", schemas.AnalyseAnswer)


@_post("/pair", summary="Compare a minimal pair: which sentence is likelier, and where")
async def pair(request: schemas.PairRequest, served: ServedHere) -> schemas.PairAnswer:
    model = served.model(request.model)
    both = request.first, request.second
    served.limits.check(both)
    compute = partial(model.pairs, pictures=request.pictures)
    (compared,) = await model.compute(("pair", request.pictures), [both], compute, model.check_pairs)
    return _validated(schemas.PairAnswer, model=model.name, **compared)


@_post("/generate", summary="Sample sentences")
async def generate(request: schemas.GenerateRequest, served: ServedHere) -> schemas.GenerateAnswer:
    model = served.model(request.model)
    if request.count > served.limits.max_sentences:
        raise InputError(f"count: found {request.count:,}; expected at most {served.limits.max_sentences:,}")
    if request.prompt is not None:
        served.limits.check_text(request.prompt, "prompt")
    sampled = await model.sample(**request.model_dump(exclude={"model"}))
    return _validated(schemas.GenerateAnswer, model=model.name, sentences=sampled)


@router.get("/card", include_in_schema=False)  # for readers: Markdown, not JSON
async def card(served: ServedHere, model: schemas.ModelName = None) -> PlainTextResponse:
    found = served.model(model)
    if found.card_text is None:
        raise HTTPException(404, f"{found.name}: the model has no card")
    return PlainTextResponse(found.card_text)


@router.post("/tree", summary="Draw a tree in brackets", responses={key: ERRORS[key] for key in WITHOUT_MODEL})
async def tree(request: schemas.TreeRequest, served: ServedHere) -> schemas.TreeAnswer:
    compute = partial(_drawn, limits=served.limits)
    (drawn,) = await served.compute(request.brackets, compute)
    return _validated(schemas.TreeAnswer, **drawn)


def _drawn(texts: Sequence[str], limits: Limits) -> list[dict[str, Any]]:
    return [described_tree(text, limits) for text in texts]


@router.post(
    "/sentences",
    summary="Split running text into sentences",
    responses={key: ERRORS[key] for key in WITHOUT_MODEL},
)
async def sentences(request: schemas.SplitRequest, served: ServedHere) -> schemas.SplitAnswer:
    (split,) = await served.compute(request.text, _split)
    return schemas.SplitAnswer(sentences=split)


def _split(texts: Sequence[str]) -> list[list[str]]:
    from syntaxlm.data.sentence_splitter import Splitter  # imports nltk, which takes as long as half of torch

    (text,) = texts
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.splitlines() if paragraph.strip()]
    if not paragraphs:
        return [[]]
    splitter = Splitter.learn([paragraphs], fewest_words=FEWEST_WORDS)
    return [[sentence for paragraph in paragraphs for sentence in splitter(paragraph)]]


async def _by_sentence(served: Served, request: schemas.SentencesRequest, method: str, answer: type[T]) -> T:
    """Return the results of a method of the model, one for each sentence.

    They may have been computed with sentences of other requests; their numbers are those in this one.
    """
    model = served.model(request.model)
    options = request.model_dump(exclude={"model", "sentences"})
    given = options.get("given")
    served.limits.check(request.sentences, given)
    compute = partial(getattr(model, method), **options)
    check = partial(model.check, given=given)
    results = await model.compute((method, *options.items()), request.sentences, compute, check)
    for number, values in enumerate(results, 1):
        values["number"] = number
        if "parse" in values:
            values["parse"]["number"] = number
        for row in values.get("surprisal", values).get("words", ()):
            if isinstance(row, dict):  # not a word of a parse
                row["sentence"] = number
    return _validated(answer, model=model.name, sentences=results)


def _validated(answer: type[T], **values: Any) -> T:
    """Return an answer with its schema version, so that `exclude_unset` keeps it."""
    return answer.model_validate({"schema_version": schemas.SCHEMA_VERSION, **values})


def _add_errors(app: FastAPI, limits: Limits) -> None:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, RequestValidationError):
            errors = error.errors()
            more = f"; and {len(errors) - MOST_FAULTS:,} more errors" if len(errors) > MOST_FAULTS else ""
            return error_answer(422, "; ".join(map(_fault, errors[:MOST_FAULTS])) + more)
        if isinstance(error, BaseHTTPException):  # of the library, or an unknown name of a model
            return error_answer(error.status_code, _unreadable(error.__cause__) or str(error.detail), error.headers)
        if isinstance(error, OverloadError):
            return error_answer(503, str(error), {"Retry-After": RETRY_AFTER})
        if isinstance(error, TimeoutError):
            return error_answer(504, f"no answer within {limits.max_seconds} seconds; send fewer or shorter sentences")
        return error_answer(422 if isinstance(error, InputError) else 500, str(error))

    for kind in (InputError, RequestValidationError, BaseHTTPException, OverloadError, TimeoutError, ComputationError):
        app.add_exception_handler(kind, answer)


def _unreadable(cause: BaseException | None) -> str | None:
    """Return what is wrong with a body that is no JSON for the library; None for other errors."""
    if isinstance(cause, UnicodeDecodeError):
        wrong = cause.object[cause.start : cause.start + 1].hex()
        return f"the body is not {cause.encoding}: found byte 0x{wrong} at offset {cause.start}; expected JSON in UTF-8"
    if isinstance(cause, RecursionError):
        return "the body is nested too deeply; expected a JSON object with the fields of this request"
    return f"the body cannot be read: {cause}" if isinstance(cause, ValueError) else None


def _fault(error: Mapping[str, Any]) -> str:
    """Return an error of a request as text: the field, and what is wrong with it."""
    if error["type"] == "json_invalid":
        return f"the body is not JSON: {error['ctx']['error']}, at character {error['loc'][-1]}"
    place = ".".join(map(str, error["loc"][1:]))[:LONGEST_SHOWN] or "body"
    if error["type"] == "extra_forbidden":
        return f"{place}: no such field"
    if place == "body":
        return "the body is not a JSON object; expected one, with the header Content-Type: application/json"
    if error["type"] == "value_error":
        return f"{place}: {error['ctx']['error']}"
    if error["type"] == "too_short":
        return f"{place}: found an empty array; expected one item or more"
    match error["input"]:  # arrays and objects may be nested too deeply to be written
        case list():
            shown = "an array"
        case dict():
            shown = "an object"
        case value:
            shown = json.dumps(value, default=str)[:LONGEST_SHOWN]
    return f"{place}: {error['msg'][0].lower()}{error['msg'][1:]}, found {shown}"
