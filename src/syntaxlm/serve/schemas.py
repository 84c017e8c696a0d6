"""The requests and answers of the JSON interface; options and rows of results have the fields of their classes."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from syntaxlm.core.declarations import options_of
from syntaxlm.core.text_files import check_encodable
from syntaxlm.generation.options import SamplingOptions
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.result import NotRead
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import MEASURES, SURPRISALS, WordSurprisal

SCHEMA_VERSION = 1


def _check_text(value: Any) -> Any:
    """Return a value. Raises InputError for a text with half of a surrogate pair, which JSON can escape."""
    if isinstance(value, str):
        check_encodable(value, "the text")
    return value


def _fields_of(declared: type, *names: str) -> dict[str, Any]:
    """Return fields of a dataclass of options, with its types, limits, defaults and help."""
    hints = typing.get_type_hints(declared, include_extras=True)
    options = options_of(declared)
    return {
        name: (
            Annotated[hints[name], AfterValidator(_check_text)],
            Field(options[name].default, description=options[name].help),
        )
        for name in names
    }


def _fields_of_row(row: type, meanings: Mapping[str, str | None]) -> dict[str, Any]:
    """Return fields of a named tuple, with their types.

    Args:
        row: the named tuple.
        meanings: descriptions of the fields that belong to the model.
    """
    hints = typing.get_type_hints(row)
    return {name: (hints[name], Field(description=meaning)) for name, meaning in meanings.items()}


class Declared(BaseModel):
    """A model whose further fields are declared elsewhere: a subclass gives their types and descriptions by name."""

    def __init_subclass__(cls, fields: Mapping[str, tuple[Any, Any]] | None = None, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.__annotations__ = dict(inspect.get_annotations(cls))
        for name, (hint, field) in (fields or {}).items():
            cls.__annotations__[name] = hint
            setattr(cls, name, field)


Text = Annotated[str, AfterValidator(_check_text)]
ModelName = Annotated[str | None, Field(description="Name of a model of this server. Default: its first model.")]
Pictures = Annotated[bool, Field(description="Add SVG pictures.")]


class Request(Declared):
    """Fields that are not listed are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SentencesRequest(Request):
    model: ModelName = None
    sentences: Annotated[list[Text], Field(min_length=1, description="Sentences, one text each.")]


class SampleRequest(Request):
    model: ModelName = None
    count: Annotated[int, Field(ge=1, description="Number of sentences.")] = 1
    prompt: Annotated[
        Text | None, Field(description="Words that each sentence starts with; only for sampling word by word.")
    ] = None
    max_words: Annotated[
        int | None, Field(ge=1, description="Maximum length of a sentence. Default: the server's limit.")
    ] = None
    trees: Annotated[bool, Field(description="Sample top-down and return trees, if the model is a PCFG.")] = False
    pictures: Pictures = True


class ParseRequest(SentencesRequest, fields=_fields_of(ParseOptions, "decoder", "layer", "labels", "best")):
    pass


class AnalyseRequest(ParseRequest):
    pictures: Pictures = True


class GenerateRequest(SampleRequest, fields=_fields_of(SamplingOptions, "temperature", "top_k", "seed")):
    pass


class SurprisalRequest(SentencesRequest, fields=_fields_of(ScoreOptions, "given", "measures", "next_words")):
    pass


class UnreadPart(Declared, fields=_fields_of_row(NotRead, dict.fromkeys(NotRead._fields))):
    pass


_MEASURES = {
    name: ((str if column.type == "text" else float) | None, Field(None, description=column.meaning))
    for name, column in MEASURES.items()
}
_SURPRISALS = _fields_of_row(WordSurprisal, {name: column.meaning for name, column in SURPRISALS.items()})


class ScoredWord(Declared, fields={**_SURPRISALS, **_MEASURES}):
    pass


class PairRequest(Request):
    model: ModelName = None
    first: Annotated[Text, Field(description="First sentence of the pair.")]
    second: Annotated[Text, Field(description="Second sentence of the pair.")]
    pictures: Pictures = True


class SplitRequest(Request):
    text: Annotated[Text, Field(description="Running text.")]


class TreeRequest(Request):
    brackets: Annotated[Text, Field(description="One tree in brackets, with or without labels.")]


class Error(BaseModel):
    detail: Annotated[str, Field(description="What is wrong, what was expected, and what to do.")]


class Answer(BaseModel):
    schema_version: int = SCHEMA_VERSION


class AccuracyInfo(BaseModel):
    """A result that the card of a model states."""

    values: Annotated[dict[str, str], Field(description="The first result of the card, by heading.")]
    protocol: Annotated[str, Field(description="How it was measured.")]


class ModelInfo(BaseModel):
    name: str
    model_type: str
    parameters: int
    vocabulary: Annotated[int, Field(description="Number of tokens.")]
    units: Annotated[Literal["words", "characters", "tags"], Field(description="What the model reads.")]
    abilities: list[str]
    structure: Annotated[str, Field(description="From which trees are decoded.")]
    decoders: Annotated[list[str], Field(description="Decoding algorithms, the default first.")]
    layers: Annotated[int, Field(description="Number of layers of distances.")]
    by_word: Annotated[bool, Field(description="Whether sentences can be sampled word by word.")]
    beliefs: Annotated[bool, Field(description="Whether it has measures such as belief_update.")]
    language: Annotated[str | None, Field(description="Codes of languages, from the model's card.")] = None
    description: Annotated[str | None, Field(description="From the model's card.")] = None
    accuracy: Annotated[AccuracyInfo | None, Field(description="From the model's card.")] = None
    perplexities: Annotated[list[AccuracyInfo], Field(description="From the model's card.")] = []
    has_card: Annotated[bool, Field(description="Whether `api/card` returns a card.")] = False


class LimitsInfo(BaseModel):
    max_words: Annotated[int, Field(description="Words of a sentence.")]
    max_characters: Annotated[int, Field(description="Characters of a sentence.")]
    max_sentences: Annotated[int, Field(description="Sentences of a request.")]
    max_body: Annotated[int, Field(description="Bytes of a request.")]


class ModelsAnswer(Answer):
    version: Annotated[str, Field(description="Version of syntaxlm.")]
    models: list[ModelInfo]
    limits: LimitsInfo


class ScoredTree(BaseModel):
    spans: list[tuple[int, int]]
    confidence: Annotated[float, Field(description="Mean probability of its constituents.")]
    probability: Annotated[float | None, Field(description="Of the tree, given the sentence.")] = None


class DrawnTree(ScoredTree):
    """With what `ParsedSentence` says of its own tree."""

    marginals: list[float] | None = None
    brackets: str | None = None
    svg: str | None = None


class ParsedSentence(BaseModel):
    """Spans are [start, end), counted in words from 0; offsets are [start, end), in code points of the sentence."""

    number: Annotated[int, Field(description="Number of the sentence in the request, from 1.")]
    words: list[str]
    tokens: Annotated[list[str], Field(description="The words as the model reads them.")]
    distances: Annotated[list[float] | None, Field(description="Between each word and the one before it.")] = None
    offsets: list[tuple[int, int]]
    known: Annotated[list[bool], Field(description="Whether each word is in the vocabulary.")]
    not_read: Annotated[list[UnreadPart], Field(description="Parts that the model does not read, as punctuation.")]
    spans: list[tuple[int, int]]
    labels: Annotated[list[str] | None, Field(description="Induced label of each span.")] = None
    word_labels: list[str] | None = None
    scores: Annotated[list[float] | None, Field(description="Score of each span, for PaLM a logarithm.")] = None
    marginals: Annotated[list[float] | None, Field(description="Probability of each span.")] = None
    confidence: Annotated[float | None, Field(description="Mean probability of the constituents.")] = None
    alternatives: Annotated[list[ScoredTree] | None, Field(description="The best trees, if requested.")] = None
    brackets: Annotated[str | None, Field(description="The tree; null if a word cannot be written in brackets.")]


class SentenceSurprisals(BaseModel):
    """The last word, "", is the end of the sentence."""

    bits: Annotated[
        float | None,
        Field(description="Surprisal of the sentence; null if nothing of it is read, or if it is infinite."),
    ]
    words: list[ScoredWord]


class AnalysedSentence(BaseModel):
    number: int
    sentence: str
    parse: ParsedSentence | None = None
    surprisal: SentenceSurprisals | None = None
    readings: Annotated[list[DrawnTree] | None, Field(description="The alternatives, if requested, drawn.")] = None
    svg: Annotated[str | None, Field(description="The tree, its distances, and the surprisal of each word.")] = None
    chart_svg: Annotated[str | None, Field(description="Scores or probabilities of all spans.")] = None


class ParseAnswer(Answer):
    model: str
    sentences: list[ParsedSentence]


class SurprisalAnswer(Answer):
    model: str
    sentences: list[SentenceSurprisals]


class AnalyseAnswer(Answer):
    model: str
    sentences: list[AnalysedSentence]


class PairSentence(BaseModel):
    sentence: str
    bits: Annotated[
        float | None, Field(description="-log2 of the probability of the sentence; null if it is infinite.")
    ]
    words: Annotated[list[ScoredWord] | None, Field(description="null if the model gives no surprisals.")]


@dataclass(frozen=True)
class AlignedWord:
    """Words of two sentences that are aligned.

    A word may be missing, if the other sentence has a word more here.
    """

    first: Annotated[int | None, Field(description="Index of a word of the first sentence.")]
    second: Annotated[int | None, Field(description="Index of the aligned word of the second sentence.")]
    difference: Annotated[
        float | None, Field(description="Bits of the second minus bits of the first; null if one of them is infinite.")
    ]


class PairAnswer(Answer):
    model: str
    first: PairSentence
    second: PairSentence
    likelier: Literal["first", "second", "equal"]
    difference: Annotated[
        float | None,
        Field(description="Bits of the second sentence minus bits of the first; null if one of them is infinite."),
    ]
    columns: Annotated[list[AlignedWord] | None, Field(description="Aligned words; null without surprisals.")]
    decisive_column: Annotated[int | None, Field(description="Index of the column with the greatest effect.")]
    svg: str | None = None


class Generated(BaseModel):
    number: int
    text: str
    tokens: list[str]
    surprisals: Annotated[list[float] | None, Field(description="In bits, of each token and of the end.")] = None
    ended: Annotated[bool | None, Field(description="False if it reached the greatest length.")] = None
    spans: list[tuple[int, int]] | None = None
    labels: list[str] | None = None
    word_labels: list[str] | None = None
    brackets: str | None = None
    svg: str | None = None


class GenerateAnswer(Answer):
    model: str
    sentences: list[Generated]


class TreeAnswer(Answer):
    """The tree of a request. Spans are [start, end), counted in words from 0; those of one word are left out."""

    sentence: Annotated[str, Field(description="The words, joined by spaces.")]
    words: list[str]
    spans: list[tuple[int, int]]
    brackets: str | None
    latex: Annotated[str, Field(description="For the package forest.")]
    svg: str


class SplitAnswer(Answer):
    sentences: list[str]
