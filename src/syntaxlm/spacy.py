"""The spaCy pipeline component `syntaxlm`: constituents of every sentence, and the surprisal of every token.

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("syntaxlm", config={"model": "en"})
    doc = nlp("The old man the boats.")
    for sentence in doc.sents:
        sentence._.parse_string, sentence._.constituents, [token._.surprisal for token in sentence]

The model reads the text of each sentence with its own tokens, which may be shorter or longer than spaCy's. Both are
aligned by their characters. Constituents are stored in `doc.spans["syntaxlm"]`, so they are saved with a Doc.
"""

# Annotations are evaluated here: spaCy before 3.8.14 cannot read those of a factory that are strings.

import math
import os
import re
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, cast

import srsly
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup, Token
from spacy.util import minibatch

from syntaxlm.core.errors import InputError
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.trees.tree import Constituent, Tree, format_brackets

if TYPE_CHECKING:
    from syntaxlm.api.model import LanguageModel
    from syntaxlm.parsing.options import Decoder
    from syntaxlm.parsing.result import Parse

SPANS = "syntaxlm"  # name of the group of constituents in `doc.spans`
_WHITE_SPACE = re.compile(r"\s+")


def constituents(span: Span) -> tuple[Span, ...]:
    """Return the constituents inside a span, the span itself included, in pre-order: `span._.constituents`.

    Those of a sentence start with the sentence. Empty for text that the component has not parsed.
    """
    group = span.doc.spans.get(SPANS, ())
    first = bisect_left(group, span.start, key=lambda part: part.start)
    end = bisect_left(group, span.end, key=lambda part: part.start)
    parts = (group[place] for place in range(first, end))
    return tuple(part for part in parts if part.end <= span.end)


def parse_string(span: Span) -> str | None:
    """Return a constituent or sentence as bracketed text, with spaCy's tokens as leaves: `span._.parse_string`.

    White space inside a token is written as _. None for a span that is not a constituent, for a sentence of which the
    model reads no word, and for text that the component has not parsed.
    """
    parts = constituents(span)
    if not parts or (parts[0].start, parts[0].end) != (span.start, span.end):
        return None
    # Number of leaves before each token; tokens of white space are not leaves.
    before = list(accumulate((not token.is_space for token in span), initial=0))
    words = [_WHITE_SPACE.sub("_", token.text) for token in span if not token.is_space]
    places = [(before[part.start - span.start], before[part.end - span.start]) for part in parts]
    nodes = tuple(Constituent(part.label_, *place) for part, place in zip(parts, places, strict=True))
    return format_brackets(Tree(tuple(words), ("",) * len(words), nodes))


def register_attributes() -> None:
    """Register the attributes `Span._.parse_string`, `Span._.constituents`, `Token._.surprisal` and its parts.

    Adding the component does this; call it to read them from Docs that were saved before.

    Raises:
        InputError: if another package has registered one of them.
    """
    attributes: list[tuple[Any, str, dict[str, Any]]] = [
        (Span, "parse_string", {"getter": parse_string}),
        (Span, "constituents", {"getter": constituents}),
        (Token, "surprisal", {"default": None}),
        (Token, "surprisal_word", {"default": None}),
        (Token, "surprisal_marks", {"default": None}),
        (Token, "surprisal_tokens", {"default": 0}),
    ]
    for owner, name, settings in attributes:
        if not owner.has_extension(name):
            owner.set_extension(name, **settings)
        elif owner.get_extension(name)[2] is not settings.get("getter"):
            raise InputError(
                f"{owner.__name__}._.{name}: another package has registered this attribute; use either that package or"
                " the component syntaxlm in one process"
            )


@Language.factory(
    "syntaxlm",
    default_config={
        "model": "en", "device": "cpu", "parse": None, "surprisal": None, "decoder": None, "labels": False
    },
    requires=["doc.sents"],
    assigns=[
        "span._.parse_string", "span._.constituents",
        "token._.surprisal", "token._.surprisal_word", "token._.surprisal_marks", "token._.surprisal_tokens",
    ],
)  # fmt: skip
def make_syntaxlm(
    nlp: Language,
    name: str,
    model: str,
    device: str,
    # spaCy evaluates these types with pydantic, on every version of Python.
    parse: Optional[bool],  # noqa: UP045
    surprisal: Optional[bool],  # noqa: UP045
    decoder: Optional[str],  # noqa: UP045
    labels: bool,
) -> "SyntaxComponent":
    """Create the component. The settings are those of `SyntaxComponent`."""
    return SyntaxComponent(name, model, device, parse, surprisal, decoder, labels)


class SyntaxComponent:
    """Parses and scores the sentences of Docs.

    The model is loaded at its first use, so that a saved pipeline, which contains a copy of the model, does not need
    the original.  Errors of wrong settings are therefore raised at the first use.
    Each sentence is read by itself. Results do not depend on the sentences around it, or on batches.

    Args:
        model: name of a model or its folder, see `syntaxlm.load`.
        device: the device that runs it, see `syntaxlm.load`.
        parse: whether to compute constituents; None: if the model can.
        surprisal: whether to compute surprisals; None: if the model can.
        decoder: the decoding algorithm; None: the model's default.
        labels: whether to add induced labels (PCFGs).
    """

    def __init__(
        self,
        name: str,
        model: str,
        device: str = "cpu",
        parse: bool | None = None,
        surprisal: bool | None = None,
        decoder: str | None = None,
        labels: bool = False,
    ) -> None:
        register_attributes()
        self.name = name
        self.model_name = model
        self.device = device
        self._parse, self._surprisal, self._decoder, self._labels = (
            parse,
            surprisal,
            cast("Decoder | None", decoder),
            labels,
        )
        self._model: LanguageModel | None = None
        self._process = os.getpid()  # the process that loaded the model

    def __repr__(self) -> str:
        return f"SyntaxComponent({self.model_name!r})"

    @property
    def language_model(self) -> "LanguageModel":
        """The model, which is loaded if necessary. Raises InputError if it cannot be loaded or used here."""
        if self._model is None:
            from syntaxlm.api.model import load

            self._use(load(self.model_name, self.device))
        assert self._model is not None
        return self._model

    def _use(self, model: "LanguageModel") -> None:
        """Take a model. Raises InputError if it lacks the ability that a setting requires."""
        from syntaxlm.models.abilities import ParsesSentences, ScoresTokens

        if model.model.reads == "trees" or model.normaliser.units == "tags":
            reads = "dependency trees" if model.model.reads == "trees" else "part-of-speech tags"
            raise InputError(f"{self.model_name}: the model reads {reads}; the component {self.name} needs plain text")
        parses = isinstance(model.model, ParsesSentences)
        scores = isinstance(model.model, ScoresTokens)
        if self._parse or not (parses or scores):
            model.require(ParsesSentences, f"the spaCy component {self.name}")
        if self._surprisal:
            model.require(ScoresTokens, f"the spaCy component {self.name}")
        self._parses = parses if self._parse is None else self._parse
        self._scores = scores if self._surprisal is None else self._surprisal
        given = {"decoder": self._decoder is not None, "labels": self._labels}
        if found := ", ".join(name for name, is_given in given.items() if is_given and not self._parses):
            raise InputError(
                f"{self.model_name}: the component {self.name} computes no constituents, but found {found}; omit it, or"
                " use a model that parses"
            )
        self._model, self._process = model, os.getpid()

    def __call__(self, doc: Doc) -> Doc:
        """Add constituents and surprisals to a Doc. Raises InputError if its sentences are not set."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Add constituents and surprisals to a stream of Docs; `batch_size` Docs are read at a time.

        Raises:
            InputError: like a call with one Doc.
        """
        for docs in minibatch(stream, batch_size):
            batch = list(docs)
            self._annotate(batch)
            yield from batch

    def _annotate(self, docs: Sequence[Doc]) -> None:
        sentences = [sentence for doc in docs for sentence in self._sentences(doc)]
        model = self.language_model
        self._prepare_process(model)
        lines = [sentence.text for sentence in sentences]
        if self._parses:
            spans: dict[int, list[Span]] = {id(doc): [] for doc in docs}
            texts = iter(lines)  # a list of single words would be taken for the words of one sentence
            parses = model.pipe(texts, LINES_TOGETHER, decoder=self._decoder, labels=self._labels)
            for sentence, parse in zip(sentences, parses, strict=True):
                spans[id(sentence.doc)] += _constituents(sentence, parse)
            for doc in docs:
                doc.spans[SPANS] = SpanGroup(doc, name=SPANS, spans=spans[id(doc)])
        if self._scores:
            for sentence, tokens in zip(sentences, _scored_tokens(model, lines), strict=True):
                _set_surprisals(sentence, tokens)

    def _sentences(self, doc: Doc) -> Iterator[Span]:
        if not doc.has_annotation("SENT_START"):
            raise InputError(
                f"the component {self.name} reads sentences, and this Doc has no sentence boundaries; add a component"
                f" that sets them, such as nlp.add_pipe('sentencizer', before={self.name!r})"
            )
        sentences: Iterator[Span] = doc.sents
        return sentences

    def _prepare_process(self, model: "LanguageModel") -> None:
        """Prepare a process that was forked after the model was loaded. Raises InputError for a GPU."""
        if os.getpid() == self._process:
            return
        if model.device.type != "cpu":
            raise InputError(
                f"the component {self.name} runs on {model.device}, which processes cannot share; use n_process=1, or"
                " the device cpu"
            )
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings and, if the model is loaded, its files: spaCy pickles components for other processes."""
        files = None if self._model is None else self.to_bytes()
        return vars(self) | {"_model": None, "_files": files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files")
        vars(self).update(state)
        if files is not None:
            self.from_bytes(files)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write a copy of the model to a folder, which is itself a model folder.

        Args:
            exclude: not used.
        """
        from syntaxlm.storage.folder import write_model

        write_model(Path(path), self.language_model)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SyntaxComponent":
        """Read the model from a folder written by `to_disk`, instead of the one that the settings name."""
        from syntaxlm.api.model import load

        self._use(load(Path(path), self.device))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the files of the model folder as bytes.

        Args:
            exclude: not used.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder)
            files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        return cast(bytes, srsly.msgpack_dumps(files))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "SyntaxComponent":
        """Read the result of `to_bytes`. Raises InputError for other files than those of a model."""
        from syntaxlm.storage.folder import CONFIG, LABELS, VOCABULARY, WEIGHTS

        files = srsly.msgpack_loads(data)
        known = (CONFIG, VOCABULARY, WEIGHTS, LABELS)
        if not isinstance(files, dict) or not all(name in known for name in files):
            raise InputError(f"the component {self.name}: found bytes that to_bytes did not write; expected a model")
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                Path(folder, name).write_bytes(content)
            return self.from_disk(folder)


def _constituents(sentence: Span, parse: "Parse") -> list[Span]:
    """Return the constituents of a sentence, itself first, as spans of spaCy's tokens in pre-order.

    Tokens that the model does not read belong to the lowest constituent around them, see `Parse.complete_tree`.
    A constituent that starts or ends inside a token is left out, and so is one within a single token.
    """
    if not parse.words:
        return []
    doc, base = sentence.doc, sentence.start_char
    tokens = [token for token in sentence if not token.is_space]
    starts = [token.idx - base for token in tokens]
    ends = [token.idx - base + len(token) for token in tokens]
    labelled = parse.word_labels is not None
    whole, *others = parse.tree.constituents or [("", 0, 0)]
    if (whole[1], whole[2]) != (0, len(parse.words)):
        whole, others = ("", 0, 0), [*parse.tree.constituents]
    found = [Span(doc, sentence.start, sentence.end, label=whole[0] if labelled else "")]
    seen: set[tuple[int, int]] = set()
    for label, first, end in others:
        # The first token that ends after the constituent's start, and the last one that starts before its end.
        begin = bisect_right(ends, parse.offsets[first][0])
        last = bisect_left(starts, parse.offsets[end - 1][1]) - 1
        inside = first > 0 and parse.offsets[first - 1][1] > starts[begin]
        inside = inside or (end < len(parse.words) and parse.offsets[end][0] < ends[last])
        if begin < last and not inside and (begin, last) not in seen:
            seen.add((begin, last))
            found.append(Span(doc, tokens[begin].i, tokens[last].i + 1, label=label if labelled else ""))
    return found


class ScoredToken(NamedTuple):
    """A token of the model.

    Attributes:
        start: its first character in the sentence.
        bits: its surprisal.
        is_mark: whether it is a punctuation mark.
        subtokens: their number, 1 if the model does not split tokens.
    """

    start: int
    bits: float
    is_mark: bool
    subtokens: int


def _scored_tokens(model: "LanguageModel", lines: Sequence[str]) -> Iterator[list[ScoredToken]]:
    """Yield the tokens that the model reads of each sentence, without its end."""
    from syntaxlm.data.corpora import EncodedCorpus
    from syntaxlm.models.abilities import ScoresTokens
    from syntaxlm.models.batches import TextMode
    from syntaxlm.scoring.engine import Scorer
    from syntaxlm.text.reader import AUTO_STYLE, TextReader

    reader = TextReader.of(model.normaliser, model.vocabulary, AUTO_STYLE)
    predict_eos = model.mode.predict_eos
    scorer = Scorer.of(model, TextMode(carry_state=False, predict_eos=predict_eos))
    subtoken_count = model.require(ScoresTokens, "surprisal").subtoken_count
    for chunk in minibatch(lines, LINES_TOGETHER):
        read = reader.read(chunk)
        full = [sentence for sentence in read.by_line(read.ids.tolist()) if sentence]
        scored = scorer.tokens(EncodedCorpus.from_sentences(full)) if full else ()
        bits = iter([0.0 - value / math.log(2) for part in scored for value in part.log_probs.tolist()])
        marks = iter(read.are_marks())
        for parts in read.aligned():
            tokens = [part for part in parts if part.token is not None]
            of_sentence: list[ScoredToken] = []
            for part in tokens:
                values = next(bits), next(marks)
                if count := subtoken_count(str(part.token), is_first=not of_sentence):  # otherwise it is not read
                    of_sentence.append(ScoredToken(part.start, *values, count))
            yield of_sentence
            if tokens and predict_eos:
                next(bits)


def _set_surprisals(sentence: Span, tokens: Iterable[ScoredToken]) -> None:
    """Set `token._.surprisal`, its parts and the number of its tokens: sums over those that start in spaCy's token."""
    for token in sentence:
        token._.surprisal = token._.surprisal_word = token._.surprisal_marks = None
        token._.surprisal_tokens = 0
    starts = [token.idx - sentence.start_char for token in sentence]
    for start, bits, is_mark, count in tokens:
        token = sentence[bisect_right(starts, start) - 1]
        if start >= token.idx - sentence.start_char + len(token):  # a space between tokens
            continue
        values = token._
        values.surprisal = bits + (values.surprisal or 0.0)
        values.surprisal_marks = (bits if is_mark else 0.0) + (values.surprisal_marks or 0.0)
        values.surprisal_tokens += count
        if not is_mark:
            values.surprisal_word = bits + (values.surprisal_word or 0.0)
