"""A trained model as one object: `load` reads it; its methods parse, score and generate."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack, overload

import torch

from syntaxlm.api.results import Results, SentenceSurprisal, SentenceWordScores, Surprisals
from syntaxlm.api.stored_model import StoredModel
from syntaxlm.core.declarations import Masking
from syntaxlm.core.errors import LONGEST_NAME, InputError, shortened
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.arguments import (
    check_integer,
    check_models,
    check_names,
    file_of,
    model_names,
    shows_options,
    suggests_parameters,
    texts_and_cells,
    texts_in,
    texts_of,
)
from syntaxlm.drawing.beliefs import beliefs_picture
from syntaxlm.drawing.svg import Picture
from syntaxlm.evaluation.attachment import evaluate_attachment
from syntaxlm.evaluation.completion import evaluate_completion
from syntaxlm.evaluation.items import evaluate_items
from syntaxlm.evaluation.pairs import evaluate_pairs
from syntaxlm.evaluation.perplexity import LanguageModelScore, evaluate_text
from syntaxlm.evaluation.reading_times import evaluate_reading_times
from syntaxlm.evaluation.suites import evaluate_suites
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.generation.options import SamplingKeywords, SamplingOptions, TreeSamplingOptions
from syntaxlm.generation.sentences import (
    GeneratedSentence,
    SentenceWithTree,
    generate,
    refuse_word_options,
    sample_with_trees,
)
from syntaxlm.generation.stops import read_stops
from syntaxlm.generation.trees import GeneratedTree, generate_trees
from syntaxlm.models.abilities import ScoresTokens, ScoresWords
from syntaxlm.parsing.analysis import beliefs_of
from syntaxlm.parsing.options import ParseKeywords, ParseOptions
from syntaxlm.parsing.processes import parse_stream
from syntaxlm.parsing.result import CONSTITUENTS, Parse
from syntaxlm.parsing.word_measures import word_measures
from syntaxlm.reports.tables import Columns
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import Context, PerplexityOptions, ReadingOptions, ScoreKeywords, ScoreOptions
from syntaxlm.scoring.surprisal import word_columns
from syntaxlm.scoring.word_scores import WordScore, score_columns, scored_lines, with_masking
from syntaxlm.scoring.word_table import word_table
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.storage.sources import read_named
from syntaxlm.text.doubts import checked, warn_of_doubts
from syntaxlm.text.options import Contractions, Punctuation, TextKeywords, TextOptions
from syntaxlm.text.reader import TextReader, each_line

_INNER = frozenset(  # attributes that other packages read, and that completion does not offer
    [
        "files", "is_encoder", "labels", "mode", "model", "normaliser", "parser_normaliser", "require", "settings",
        "vocabulary",
    ]
)  # fmt: skip
AnyResult = TypeVar("AnyResult")


@dataclass(frozen=True, repr=False)
class LanguageModel(StoredModel):
    """A trained model that parses, scores and generates text, depending on its model type.

    A text is one sentence of ordinary text, which the model's own normaliser reads. For a tag model it is tagged text:
    "the_DT cat_NN". Methods that take one or several texts return one result for a string, and a list in the order of
    the input for any other iterable. If the model type does not support a method, it raises an InputError that names
    the types that do. Functions that take a `ModelBundle` also accept a LanguageModel. Threads may share a model.

    Attributes:
        folder: the folder that the model was read from, or None.

    Examples:
        >>> nlp = syntaxlm.load("en-fast")
        >>> nlp.name
        'simple-pcfg'
    """

    def __repr__(self) -> str:
        place = "" if self.folder is None else f"{str(self.folder)!r}, "
        return f"LanguageModel({place}{self.name}, {self.model.parameter_count:,} parameters, {self.device})"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _INNER]

    @overload
    def parse(  # type: ignore[overload-overlap]  # a string is an iterable, too
        self, text: str, *, also: Sequence[ModelBundle] = (), max_words: int | None = None,
        progress: bool = False, **options: Unpack[ParseKeywords],
    ) -> Parse: ...  # fmt: skip

    @overload
    def parse(
        self, text: Iterable[str], *, also: Sequence[ModelBundle] = (), max_words: int | None = None,
        progress: bool = False, **options: Unpack[ParseKeywords],
    ) -> Results[Parse]: ...  # fmt: skip

    @overload
    def parse(
        self, text: Any, *, column: str, also: Sequence[ModelBundle] = (), max_words: int | None = None,
        progress: bool = False, **options: Unpack[ParseKeywords],
    ) -> Results[Parse]: ...  # fmt: skip

    @suggests_parameters
    @shows_options(ParseOptions, ParseKeywords)
    def parse(
        self,
        text: Any,
        *,
        column: str | None = None,
        also: Sequence[ModelBundle] = (),
        max_words: int | None = None,
        progress: bool = False,
        **options: Unpack[ParseKeywords],
    ) -> Parse | Results[Parse]:
        """Parse one sentence or several.

        There is one result per text. The parse of a text without words is empty, and false in a condition.

        Args:
            text: a sentence, several, or a table.
            column: the column of sentences, if `text` is a data frame or the file of a table; its other columns are
                added to the rows of the parses.
            also: other models; the tree is then the average of the trees of all models, over the words as this model
                reads them, without distances, span scores and labels.
            max_words: longer sentences are not parsed: their parses are empty, and an InputWarning names them. The time
                of models with a chart grows with the cube of the length.
            progress: whether to show a progress bar; where stderr is no terminal, a line every ten seconds.
            decoder: the decoding algorithm; by default that of the model's structure.
            layer: the layer whose distances are used, from 1; by default the model's.
            ties: how to choose among equally good splits in an average.
            marks: whether punctuation marks that the model does not read are evidence of constituents.
            labels: whether to add induced labels (PCFGs).
            best: number of trees of each sentence, in `alternatives` of the parse.
            samples: number of trees that are drawn instead.
            sample_seed: the random seed of the samples.
            pretokenised: whether each string between white space is one word of the tree, whatever the model reads.
            punctuation: how punctuation is split off before the model reads the words, by default as its vocabulary
                requires; see `TextReader.of`. "keep" for text that is tokenised like the model's training text.
            contractions: how contractions are split.

        Raises:
            InputError: if the model does not parse, or does not support this decoder, layer or labels.

        Examples:
            >>> parse = nlp.parse("The old man the boats.")
            >>> print(parse)
            (X (X The (X old man)) (X the boats))
            >>> [part.text for part in parse.not_read]
            ['.']
        """
        models = [self, *check_models(also)]
        texts, columns, cells = _read_parsed(text, column, "parse")
        parses = parse_stream(models, texts, ParseOptions(**options), max_words=max_words)
        parses = _with_cells(parses, cells)
        results = Results(_shown(parses, text) if progress else parses, columns)
        return results[0] if isinstance(text, str) and column is None else results

    @suggests_parameters
    @shows_options(ParseOptions, ParseKeywords)
    def pipe(
        self,
        texts: Any,
        batch_size: int = 256,
        *,
        n_process: int = 1,
        column: str | None = None,
        also: Sequence[ModelBundle] = (),
        max_words: int | None = None,
        progress: bool = False,
        **options: Unpack[ParseKeywords],
    ) -> Iterator[Parse]:
        """Parse a stream of sentences, and yield their parses in order.

        Args:
            texts: an iterable, which may be endless; it is read lazily. With `column`, a table, which is read at once.
            batch_size: number of sentences read at a time; larger batches are faster and take more memory.
            n_process: number of processes, which parse different batches and share the processor cores; -1: one for
                each core. Their start takes seconds.

        Other parameters and errors: see `parse`.

        Examples:
            >>> for parse in nlp.pipe(["a cat sleeps", "the dog"]):
            ...     print(parse)
            (X (X a cat) sleeps)
            (X the dog)
        """
        if isinstance(texts, str) and column is None:
            raise TypeError("pipe: expected an iterable of texts, found one string; use parse for one text")
        models = [self, *check_models(also)]
        read, _, cells = _read_parsed(texts, column, "pipe")
        parses = parse_stream(models, read, ParseOptions(**options), batch_size, n_process, max_words)
        parses = _with_cells(parses, cells)
        return _shown(parses, texts) if progress else parses

    @overload
    def surprisal(  # type: ignore[overload-overlap]
        self, text: str, *, progress: bool = False, **options: Unpack[ScoreKeywords]
    ) -> SentenceSurprisal: ...

    @overload
    def surprisal(
        self, text: Iterable[str], *, progress: bool = False, **options: Unpack[ScoreKeywords]
    ) -> Surprisals: ...

    @overload
    def surprisal(
        self, text: Any, *, column: str, progress: bool = False, **options: Unpack[ScoreKeywords]
    ) -> Surprisals: ...

    @suggests_parameters
    @shows_options(ScoreOptions, ScoreKeywords)
    def surprisal(
        self, text: Any, *, column: str | None = None, progress: bool = False, **options: Unpack[ScoreKeywords]
    ) -> SentenceSurprisal | Surprisals:
        """Compute the surprisal of every word of one sentence or several, in bits.

        Each row is a word as written, separated by white space, or a character for a character-level model. The rows
        of a sentence add up to -log2 of its probability. A text without words has no rows.

        Args:
            text: a sentence, several, or a table.
            column: the column of sentences, if `text` is a data frame or the file of a table; its other columns are
                added to every row.
            progress: see `parse`.
            context: "reset" reads each sentence by itself; "carry" reads all as one stream.
            given: the beginning of the sentence, which every text continues.
            measures: further values of each word, in `measures` of its row and as columns: "entropy",
                "entropy_reduction", "rank", "prefix_surprisal", "constituents_ended", "depth", "distance"; with a PCFG,
                also those of its beliefs after each word, such as "belief_update" (docs/reference/measures.md); a Tree
                Transformer has three of these.
            next_words: number of most probable next words before each word.
            punctuation: see `parse`.
            contractions: see `parse`.

        Raises:
            InputError: for models without token probabilities and for dependency-tree models.

        Examples:
            >>> for row in nlp.surprisal("the cat sleeps"):
            ...     print(row.word or row.token, round(row.surprisal, 1))
            the 3.2
            cat 12.9
            sleeps 18.4
            </s> 4.8
        """
        self._check_reads_text("surprisal", "syntaxlm.scoring.surprisal.tree_surprisals")
        self.require(ScoresTokens, "scoring of tokens")
        chosen = ScoreOptions(**options)
        others: Iterator[dict[str, Any]] = cycle([{}])
        columns = word_columns(chosen)
        texts = text
        if column is not None:
            texts, columns, cells = texts_and_cells(text, column, "surprisal", columns)
            others = iter(cells)
        reader = TextReader.of(self.normaliser, self.vocabulary, chosen)
        lines = checked(texts_of(texts, "surprisal"), reader, Path(model_names([self])[0]).name)
        scored = word_measures(self, lines, chosen)
        sentences = (SentenceSurprisal(words, columns, next(others)) for words in scored)
        rows = Surprisals(_shown(sentences, texts) if progress else sentences, columns)
        return rows[0] if isinstance(text, str) and column is None else rows

    @overload
    def word_scores(  # type: ignore[overload-overlap]
        self, text: str, *, given: str | None = None, masking: Masking | None = None, **options: Unpack[TextKeywords]
    ) -> SentenceWordScores: ...

    @overload
    def word_scores(
        self, text: Iterable[str], *, given: str | None = None, masking: Masking | None = None,
        **options: Unpack[TextKeywords],
    ) -> Results[SentenceWordScores]: ...  # fmt: skip

    @overload
    def word_scores(
        self, text: Any, *, column: str, given: str | None = None, masking: Masking | None = None,
        **options: Unpack[TextKeywords],
    ) -> Results[SentenceWordScores]: ...  # fmt: skip

    @suggests_parameters
    @shows_options(TextOptions, TextKeywords)
    def word_scores(
        self,
        text: Any,
        *,
        column: str | None = None,
        given: str | None = None,
        masking: Masking | None = None,
        **options: Unpack[TextKeywords],
    ) -> SentenceWordScores | Results[SentenceWordScores]:
        """Score every word with a masked or a sequence-to-sequence model of transformers.

        The scores are not surprisals given the words before, so `surprisal` refuses these models. Masked models give
        pseudo-log-likelihoods, sequence-to-sequence models log-probabilities of the decoder after an empty encoder
        input. Rows have the negative score in bits, and the attribute `score` of a sentence has the sum in nats.

        Args:
            text: a sentence, several, or a table.
            column: the column of sentences, if `text` is a data frame or the file of a table; its other columns are
                added to every row.
            given: the beginning of the sentence, which every text continues; its words are read, but have no rows.
            masking: sub-tokens that a masked model masks with the one that it predicts: the later ones of its word
                ("word-l2r", the default), or none ("original").
            punctuation: see `parse`.
            contractions: see `parse`.

        Raises:
            InputError: for models that give surprisals, for `masking` with a model without masks, and for a sentence
                that is longer than a masked model reads.
        """
        self.require(ScoresWords, "word_scores")
        (bundle,) = with_masking({self.name: self}, masking, "word_scores").values()
        model = bundle.require(ScoresWords, "word_scores")
        chosen = ScoreOptions(given=given, **options)
        others: Iterator[dict[str, Any]] = cycle([{}])
        columns = score_columns(model.score_type)
        texts = text
        if column is not None:
            texts, columns, cells = texts_and_cells(text, column, "word_scores", columns)
            others = iter(cells)
        name = model.score_type.word
        sentences = (
            SentenceWordScores([WordScore.of(word, name) for word in words], columns, next(others))
            for words in scored_lines(bundle, texts_of(texts, "word_scores"), chosen)
        )
        results = Results(sentences, columns)
        return results[0] if isinstance(text, str) and column is None else results

    @suggests_parameters
    def draw_beliefs(
        self, text: str, *, punctuation: Punctuation = "auto", contractions: Contractions = "auto"
    ) -> Picture:
        """Draw what a grammar believes about the tree of a sentence after each of its words.

        The beliefs of a combination are those of its first grammar; the picture names it.

        Args:
            text: a sentence.
            punctuation: see `parse`.
            contractions: see `parse`.

        Returns:
            The picture, which notebooks show, and `save` writes.

        Raises:
            InputError: for a model without a grammar that gives such beliefs, and for a sentence without words.

        Examples:
            >>> nlp.draw_beliefs("The old man the boats.").title
            'Beliefs after each word: The old man the boats'
        """
        options = ParseOptions(punctuation=punctuation, contractions=contractions)
        name = self.name if self.folder is None else self.folder.resolve().name
        return beliefs_picture(beliefs_of(self, name, text, options))

    @overload
    def log_prob(  # type: ignore[overload-overlap]
        self, text: str, *, given: str | None = None, **options: Unpack[TextKeywords]
    ) -> float: ...

    @overload
    def log_prob(
        self, text: Iterable[str], *, given: str | None = None, **options: Unpack[TextKeywords]
    ) -> list[float]: ...

    @overload
    def log_prob(
        self, text: Any, *, column: str, given: str | None = None, **options: Unpack[TextKeywords]
    ) -> list[float]: ...

    @suggests_parameters
    @shows_options(TextOptions, TextKeywords)
    def log_prob(
        self, text: Any, *, column: str | None = None, given: str | None = None, **options: Unpack[TextKeywords]
    ) -> float | list[float]:
        """Compute the natural log-probability of one sentence, or of each of several sentences, in nats.

        Each sentence is read by itself. EOS counts if the model predicts it. A text without words, such as an empty
        row, has nan.

        Args:
            text: a sentence, several, or a table.
            column: the column of sentences, if `text` is a data frame or the file of a table.
            given: the beginning of the sentence, which every text continues; its own probability is not included.
            punctuation: see `parse`.
            contractions: see `parse`.

        Raises:
            InputError: for models without sentence probabilities and for dependency-tree models, and with `given`, for
                models without token probabilities.

        Examples:
            >>> round(nlp.log_prob("the cat sleeps"), 1)
            -27.3
        """
        self._check_reads_text("log_prob", "syntaxlm.scoring.surprisal.log_probs_of_trees")
        check_names(given=given)
        chosen = TextOptions(**options)
        texts = list(texts_of(text, "log_prob") if column is None else texts_in(text, column, "log_prob"))
        reader = TextReader.of(self.normaliser, self.vocabulary, chosen)
        sentences = list(each_line(reader.tokens, texts))
        if given is not None:
            log_probs = [-sentence.bits * math.log(2) for sentence in self.surprisal(texts, given=given, **options)]
        else:
            warn_of_doubts(reader, texts, Path(model_names([self])[0]).name)
            scorer = Scorer.of(self, ReadingOptions(context="reset").mode(self.mode))
            log_probs = scorer.sentences(sentences).tolist()
        log_probs = [value if tokens else math.nan for tokens, value in zip(sentences, log_probs, strict=True)]
        return log_probs[0] if isinstance(text, str) and column is None else log_probs

    @suggests_parameters
    @keeps_readings
    def perplexity(
        self,
        text: Any,
        *,
        column: str | None = None,
        context: Context | None = None,
        cache: CacheSettings | None = None,
        predict_eos: bool | None = None,
        punctuation: Punctuation = "keep",
        contractions: Contractions = "keep",
    ) -> LanguageModelScore:
        """Measure perplexity, bits per token and bits per character of a text.

        Args:
            text: a file with one sentence per line, a list of sentences, or a table. For a dependency-tree model, a
                file of trees.
            column: the column of sentences, if `text` is a data frame or the file of a table.
            context: see `surprisal`.
            cache: settings of a neural cache, see `syntaxlm.tune_cache`.
            predict_eos: whether ends of sentences count as tokens. Default: as in training.
            punctuation: by default "keep", for text that is tokenised like the training text; "auto": words are split
                as in `surprisal`; see `parse`.
            contractions: see `punctuation`.

        Raises:
            InputError: for files that cannot be read and for models without probabilities.

        Examples:
            >>> round(nlp.perplexity(["the cat sleeps"]).perplexity)
            912
        """
        reading = PerplexityOptions(
            context=context, predict_eos=predict_eos, punctuation=punctuation, contractions=contractions
        )
        if column is not None:
            return evaluate_text(self, texts_in(text, column, "perplexity"), reading, cache)
        if isinstance(text, str) and any(map(str.isspace, text)) and not os.path.exists(text):
            raise InputError(
                f"perplexity: found {shortened(text, LONGEST_NAME)!r}, which is not the name of a file; for a sentence,"
                " pass a list of sentences"
            )
        return evaluate_text(
            self, text if isinstance(text, str | Path) else texts_of(text, "perplexity"), reading, cache
        )

    @overload
    def generate(
        self, count: int = 1, prompt: str | None = None, *, trees: Literal[False] = False,
        **options: Unpack[SamplingKeywords],
    ) -> Results[GeneratedSentence]: ...  # fmt: skip

    @overload
    def generate(
        self, count: int = 1, prompt: str | None = None, *, trees: Literal[True], **options: Unpack[SamplingKeywords]
    ) -> Results[SentenceWithTree] | Results[GeneratedTree]: ...

    @suggests_parameters
    @shows_options(SamplingOptions, SamplingKeywords)
    def generate(
        self, count: int = 1, prompt: str | None = None, *, trees: bool = False, **options: Unpack[SamplingKeywords]
    ) -> Results[GeneratedSentence] | Results[SentenceWithTree] | Results[GeneratedTree]:
        """Sample sentences. The same seed gives the same sentences.

        Args:
            count: number of sentences.
            prompt: words that each sentence starts with.
            trees: whether to sample sentences with their trees. PCFGs sample them top-down, without prompt, temperature
                and top_k. Dependency-tree models require stop classifiers in their folder, and no prompt.
            temperature: below 1 favours probable words; 0 always takes the most probable word.
            top_k: draw only from the top_k most probable words.
            seed: the random seed.
            max_words: maximum length of a sentence, without the prompt; by default 100 words (500 characters).
            keep_unknown: whether the unknown word may be drawn.

        Raises:
            InputError: for options out of range, and if the model does not sample sentences or trees.

        Examples:
            >>> len(nlp.generate(2, max_words=6))
            2
        """
        check_integer(count, "count")
        check_names(prompt=prompt)
        sampling = SamplingOptions(**options)
        if self.model.reads == "trees":
            if not trees or prompt is not None:
                found = "trees=False" if not trees else "a prompt"
                raise InputError(
                    f"generate: found {found}; expected trees=True and no prompt, because a {self.name} model samples"
                    " dependency trees"
                )
            if self.files is None:
                raise InputError(
                    "generate: the model was not read from a folder, so it has no stop classifiers; load it from its"
                    " folder"
                )
            stops = read_stops(self.files, self)
            return Results(generate_trees(self, stops, count, TreeSamplingOptions(**vars(sampling))))
        if not trees:
            return Results(generate(self, count, prompt, sampling))
        refuse_word_options(prompt, sampling, "Sentences with trees are sampled top-down.")
        return Results(sample_with_trees(self, count, sampling))

    # Functions of one model, or of several models by name, which are also methods of a model.
    evaluate_parsing = evaluate_parsing
    evaluate_attachment = evaluate_attachment
    evaluate_pairs = evaluate_pairs
    evaluate_suites = evaluate_suites
    evaluate_completion = evaluate_completion
    evaluate_items = evaluate_items
    evaluate_reading_times = evaluate_reading_times
    word_table = word_table

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        device: str | torch.device = "cpu",
        *,
        revision: str | None = None,
        token: str | None = None,
    ) -> LanguageModel:
        """Load a model, see `syntaxlm.load`."""
        return load(name_or_folder, device, revision=revision, token=token)

    def _check_reads_text(self, use: str, instead: str) -> None:
        if self.model.reads == "trees":
            raise InputError(
                f"{use}: a {self.name} model reads dependency trees, not text; use perplexity with a file of trees, or"
                f" {instead}"
            )


@suggests_parameters
def load(
    name_or_folder: str | Path,
    device: str | torch.device = "cpu",
    *,
    revision: str | None = None,
    token: str | None = None,
) -> LanguageModel:
    """Load a trained model.

    Args:
        name_or_folder: a model folder, written by `syntaxlm train` or `save_pretrained`; or the name of a bundled
            model, such as "en", if there is no such model folder here; or, as a string, the name of a repository of the
            Hugging Face hub, "user/name", if there is no such folder here. "hf:NAME" is a language model of the library
            transformers, which scores text: a repository such as "hf:gpt2", or a folder. It is causal, masked (see
            `word_scores`) or sequence-to-sequence.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto" for the fastest one available.
        revision: the revision of a repository: a branch, tag or commit; None: its main branch.
        token: for a private repository; None: that of `hf auth login` or HF_TOKEN.

    Raises:
        InputError: if there is no such model or it is damaged, and if the device is not available.

    Examples:
        >>> nlp = syntaxlm.load("en-fast")
        >>> nlp.parse("The old man the boats.").tree.words
        ('The', 'old', 'man', 'the', 'boats')
    """
    stored, folder = read_named(file_of(name_or_folder, "name_or_folder"), device, revision, token)
    return LanguageModel(**vars(stored), folder=folder)


def _read_parsed(text: Any, column: str | None, method: str) -> tuple[Iterator[str], Columns, list[dict[str, Any]]]:
    """Return texts to parse, the columns of their parses, and what is copied to the rows of each from a table."""
    if column is None:
        return texts_of(text, method), CONSTITUENTS, []
    texts, columns, cells = texts_and_cells(text, column, method, CONSTITUENTS)
    return iter(texts), columns, cells


def _with_cells(parses: Iterator[Parse], cells: Sequence[Mapping[str, Any]]) -> Iterator[Parse]:
    """Return parses with what is copied to the rows of each from a table, if there is any."""
    if not cells:
        return parses
    return (replace(parse, others=others) for parse, others in zip(parses, cells, strict=True))


def _shown(results: Iterator[AnyResult], texts: object) -> Iterator[AnyResult]:
    """Yield results while showing how many of the texts are done."""
    total = len(texts) if isinstance(texts, Sized) and not isinstance(texts, str) else None
    return progress_bar(results, "sentences", total, everywhere=True)
