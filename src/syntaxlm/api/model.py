"""A trained model as one object: `load` reads it; its methods parse, score and generate."""

from __future__ import annotations

import math
import operator
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, overload

import torch

from syntaxlm.api.results import Results, SentenceSurprisal, Surprisals
from syntaxlm.core.errors import LONGEST_NAME, InputError, shortened
from syntaxlm.core.files import named_path
from syntaxlm.core.iteration import batched
from syntaxlm.core.reading import keeps_readings
from syntaxlm.core.settings import check_number
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.core.threads import core_count
from syntaxlm.data.arguments import (
    check_models,
    check_names,
    check_table,
    file_of,
    model_names,
    suggests_parameters,
    texts_of,
)
from syntaxlm.data.input_table import InputTable, is_frame
from syntaxlm.data.tables import input_columns
from syntaxlm.evaluation.attachment import evaluate_attachment
from syntaxlm.evaluation.completion import evaluate_completion
from syntaxlm.evaluation.items import evaluate_items
from syntaxlm.evaluation.pairs import evaluate_pairs
from syntaxlm.evaluation.perplexity import LanguageModelScore, evaluate_text
from syntaxlm.evaluation.reading_times import evaluate_reading_times
from syntaxlm.evaluation.suites import evaluate_suites
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.generation.options import SamplingOptions, TreeSamplingOptions
from syntaxlm.generation.sentences import (
    GeneratedSentence,
    SentenceWithTree,
    generate,
    refuse_word_options,
    sample_with_trees,
)
from syntaxlm.generation.stops import read_stops, write_stops
from syntaxlm.generation.trees import GeneratedTree, generate_trees
from syntaxlm.parsing.options import Decoder, MarkUse, ParseOptions, Ties
from syntaxlm.parsing.parse import check_text_of, parse_lines
from syntaxlm.parsing.processes import parse_in_processes
from syntaxlm.parsing.result import CONSTITUENTS, Parse
from syntaxlm.parsing.word_measures import word_measures
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import Context, Measure, PerplexityOptions, ReadingOptions, ScoreOptions
from syntaxlm.scoring.surprisal import word_columns
from syntaxlm.scoring.word_table import word_table
from syntaxlm.storage.folder import STOPS, ModelBundle, write_model
from syntaxlm.storage.hub import CardFacts, check_repository_name, has_card, upload, write_card
from syntaxlm.storage.sources import read_named
from syntaxlm.text.doubts import checked, warn_of_doubts
from syntaxlm.text.options import Contractions, Punctuation, TextOptions
from syntaxlm.text.reader import TextReader, each_line


@dataclass(frozen=True, repr=False)
class LanguageModel(ModelBundle):
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

    folder: Path | None = None

    def __repr__(self) -> str:
        place = "" if self.folder is None else f"{str(self.folder)!r}, "
        return f"LanguageModel({place}{self.name}, {self.model.parameter_count:,} parameters, {self.device})"

    @overload
    def parse(  # type: ignore[overload-overlap]  # a string is an iterable, too
        self, text: str, *, also: Sequence[ModelBundle] = (),
        decoder: Decoder | None = None, layer: int | None = None, ties: Ties = "random", marks: MarkUse = "auto",
        labels: bool = False, best: int = 1, samples: int = 0, sample_seed: int = 0, pretokenised: bool = False,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> Parse: ...  # fmt: skip

    @overload
    def parse(
        self, text: Iterable[str], *, also: Sequence[ModelBundle] = (),
        decoder: Decoder | None = None, layer: int | None = None, ties: Ties = "random", marks: MarkUse = "auto",
        labels: bool = False, best: int = 1, samples: int = 0, sample_seed: int = 0, pretokenised: bool = False,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> Results[Parse]: ...  # fmt: skip

    @suggests_parameters
    def parse(
        self, text: str | Iterable[str], *, also: Sequence[ModelBundle] = (),
        decoder: Decoder | None = None, layer: int | None = None, ties: Ties = "random", marks: MarkUse = "auto",
        labels: bool = False, best: int = 1, samples: int = 0, sample_seed: int = 0, pretokenised: bool = False,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> Parse | Results[Parse]:  # fmt: skip
        """Parse one sentence or several.

        There is one result per text. The parse of a text without words is empty, and false in a condition.

        Args:
            text: a sentence, or several.
            also: other models; the tree is then the average of the trees of all models, over the words as this model
                reads them, without distances, span scores and labels.
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
        chosen = ParseOptions(
            decoder=decoder, layer=layer, ties=ties, marks=marks, labels=labels, best=best, samples=samples,
            sample_seed=sample_seed, pretokenised=pretokenised, punctuation=punctuation, contractions=contractions,
        )  # fmt: skip
        parses = Results(self._parses(texts_of(text, "parse"), LINES_TOGETHER, 1, also, chosen), CONSTITUENTS)
        return parses[0] if isinstance(text, str) else parses

    @suggests_parameters
    def pipe(
        self, texts: Iterable[str], batch_size: int = 256, *, n_process: int = 1, also: Sequence[ModelBundle] = (),
        decoder: Decoder | None = None, layer: int | None = None, ties: Ties = "random", marks: MarkUse = "auto",
        labels: bool = False, best: int = 1, samples: int = 0, sample_seed: int = 0, pretokenised: bool = False,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> Iterator[Parse]:  # fmt: skip
        """Parse a stream of sentences, and yield their parses in order.

        Args:
            texts: an iterable, which may be endless; it is read lazily.
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
        if isinstance(texts, str):
            raise TypeError("pipe: expected an iterable of texts, found one string; use parse for one text")
        _check_integer(batch_size, "batch_size")
        check_number("batch_size", batch_size, 1)
        _check_integer(n_process, "n_process")
        if n_process != -1:
            check_number("n_process", n_process, 1)
        chosen = ParseOptions(
            decoder=decoder, layer=layer, ties=ties, marks=marks, labels=labels, best=best, samples=samples,
            sample_seed=sample_seed, pretokenised=pretokenised, punctuation=punctuation, contractions=contractions,
        )  # fmt: skip
        return self._parses(texts_of(texts, "pipe"), batch_size, n_process, also, chosen)

    def _parses(
        self, texts: Iterator[str], batch_size: int, n_process: int, also: Sequence[ModelBundle], options: ParseOptions
    ) -> Iterator[Parse]:
        """Return the parses of texts, which are read in batches."""
        check_models(also)
        models = [self, *also]
        read = partial(parse_lines, models, options=options, names=model_names(models))
        read([])  # reports wrong options now instead of with the first parse
        batches = enumerate(batched(texts, batch_size))

        def chunks() -> Iterator[tuple[int, list[str]]]:
            for number, batch in batches:
                if number == 0:
                    check_text_of(models, batch, options, _short_names(models))
                yield number * batch_size + 1, batch

        count = core_count() if n_process == -1 else n_process
        if count == 1:
            return (parse for first, batch in chunks() for parse in read(batch, first=first))
        if devices := {model.device.type for model in models} - {"cpu"}:
            raise InputError(
                f"n_process: found {n_process} with a model on {devices.pop()}, which processes cannot share; use"
                " n_process=1, or load the model on the device cpu"
            )
        return parse_in_processes(read, chunks(), count)

    @overload
    def surprisal(  # type: ignore[overload-overlap]
        self, text: str, *,
        context: Context = "reset", given: str | None = None, measures: Sequence[Measure] = (), next_words: int = 0,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> SentenceSurprisal: ...  # fmt: skip

    @overload
    def surprisal(
        self, text: Iterable[str], *,
        context: Context = "reset", given: str | None = None, measures: Sequence[Measure] = (), next_words: int = 0,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> Surprisals: ...  # fmt: skip

    @overload
    def surprisal(
        self, text: Any, *, column: str,
        context: Context = "reset", given: str | None = None, measures: Sequence[Measure] = (), next_words: int = 0,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> Surprisals: ...  # fmt: skip

    @suggests_parameters
    def surprisal(
        self, text: Any, *, column: str | None = None,
        context: Context = "reset", given: str | None = None, measures: Sequence[Measure] = (), next_words: int = 0,
        punctuation: Punctuation = "auto", contractions: Contractions = "auto",
    ) -> SentenceSurprisal | Surprisals:  # fmt: skip
        """Compute the surprisal of every word of one sentence or several, in bits.

        Each row is a word as written, separated by white space, or a character for a character-level model. The rows
        of a sentence add up to -log2 of its probability. A text without words has no rows.

        Args:
            text: a sentence, several, or a table.
            column: the column of sentences, if `text` is a data frame or the file of a table; its other columns are
                added to every row.
            context: "reset" reads each sentence by itself; "carry" reads all as one stream.
            given: the beginning of the sentence, which every text continues.
            measures: further values of each word, in `measures` of its row and as columns: "entropy",
                "entropy_reduction", "rank", "prefix_surprisal", "constituents_ended", "depth", "distance"; with a PCFG,
                also those of its beliefs after each word, such as "belief_update" (docs/reference/measures.md).
            next_words: number of most probable next words before each word.
            punctuation: see `parse`.
            contractions: see `parse`.

        Raises:
            InputError: for models without token probabilities and for dependency-tree models.

        Examples:
            >>> for row in nlp.surprisal("the cat sleeps"):
            ...     print(row.word or row.token, round(row.surprisal, 1))
            the 3.5
            cat 13.5
            sleeps 18.6
            </s> 4.7
        """
        self._check_reads_text("surprisal", "syntaxlm.scoring.surprisal.tree_surprisals")
        chosen = ScoreOptions(
            context=context, given=given, measures=measures, next_words=next_words, punctuation=punctuation,
            contractions=contractions,
        )  # fmt: skip
        others: Iterator[dict[str, Any]] = cycle([{}])
        columns = word_columns(chosen)
        texts = text
        is_one = isinstance(text, str) and column is None
        if column is not None:
            check_names(column=column)
            check_table(text, "surprisal")
            table = InputTable.read(text)
            texts = table.column(column, "column")
            chosen_place = table.names.index(column)
            cells = [[*row[:chosen_place], *row[chosen_place + 1 :]] for row in table.values]
            further = input_columns(list(columns), [name for name in table.names if name != column], cells)
            others = (dict(zip(further, row, strict=True)) for row in cells)
            columns = columns.beside(further)
        elif is_frame(text):
            raise InputError("surprisal: found a data frame; choose its column of sentences: column='sentence'")
        reader = TextReader.of(self.normaliser, self.vocabulary, chosen)
        lines = checked(texts_of(texts, "surprisal"), reader, *_short_names([self]))
        scored = word_measures(self, lines, chosen)
        rows = Surprisals((SentenceSurprisal(words, columns, next(others)) for words in scored), columns)
        return rows[0] if is_one else rows

    @overload
    def log_prob(  # type: ignore[overload-overlap]
        self, text: str, *, given: str | None = None, punctuation: Punctuation = "auto",
        contractions: Contractions = "auto",
    ) -> float: ...  # fmt: skip

    @overload
    def log_prob(
        self, text: Iterable[str], *, given: str | None = None, punctuation: Punctuation = "auto",
        contractions: Contractions = "auto",
    ) -> list[float]: ...  # fmt: skip

    @suggests_parameters
    def log_prob(
        self, text: str | Iterable[str], *, given: str | None = None, punctuation: Punctuation = "auto",
        contractions: Contractions = "auto",
    ) -> float | list[float]:  # fmt: skip
        """Compute the natural log-probability of one sentence, or of each of several sentences, in nats.

        Each sentence is read by itself. EOS counts if the model predicts it.

        Args:
            punctuation: see `parse`.
            contractions: see `parse`.
            given: the beginning of the sentence, which every text continues; its own probability is not included.

        Raises:
            InputError: for models without sentence probabilities and for dependency-tree models, and with `given`, for
                models without token probabilities.

        Examples:
            >>> round(nlp.log_prob("the cat sleeps"), 1)
            -28.0
        """
        self._check_reads_text("log_prob", "syntaxlm.scoring.surprisal.log_probs_of_trees")
        check_names(given=given)
        chosen, texts = (
            TextOptions(punctuation=punctuation, contractions=contractions),
            list(texts_of(text, "log_prob")),
        )
        if given is not None:
            nats = [-one.bits * math.log(2) for one in self.surprisal(texts, given=given, **vars(chosen))]
            return nats[0] if isinstance(text, str) else nats
        reader = TextReader.of(self.normaliser, self.vocabulary, chosen)
        warn_of_doubts(reader, texts, *_short_names([self]))
        scorer = Scorer.of(self, ReadingOptions(context="reset").mode(self.mode))
        log_probs: list[float] = scorer.sentences(list(each_line(reader.tokens, texts))).tolist()
        return log_probs[0] if isinstance(text, str) else log_probs

    @suggests_parameters
    @keeps_readings
    def perplexity(
        self,
        text: str | Path | Iterable[str],
        *,
        context: Context | None = None,
        cache: CacheSettings | None = None,
        punctuation: Punctuation = "keep",
        contractions: Contractions = "keep",
    ) -> LanguageModelScore:
        """Measure perplexity, bits per token and bits per character of a text.

        Args:
            text: a file with one sentence per line, or a list of sentences. For a dependency-tree model, a file of
                trees.
            context: see `surprisal`.
            cache: settings of a neural cache, see `syntaxlm.tune_cache`.
            punctuation: by default "keep", for text that is tokenised like the training text; "auto": words are split
                as in `surprisal`; see `parse`.
            contractions: see `punctuation`.

        Raises:
            InputError: for files that cannot be read and for models without probabilities.

        Examples:
            >>> round(nlp.perplexity(["the cat sleeps"]).perplexity)
            1088
        """
        reading = PerplexityOptions(context=context, punctuation=punctuation, contractions=contractions)
        if isinstance(text, str) and any(map(str.isspace, text)) and not Path(text).exists():
            raise InputError(
                f"perplexity: found {shortened(text, LONGEST_NAME)!r}, which is not the name of a file; for a sentence,"
                " pass a list of sentences"
            )
        return evaluate_text(
            self, text if isinstance(text, str | Path) else texts_of(text, "perplexity"), reading, cache
        )

    @overload
    def generate(
        self, count: int = 1, prompt: str | None = None, *, trees: Literal[False] = False, temperature: float = 1.0,
        top_k: int | None = None, seed: int = 0, max_words: int | None = None, keep_unknown: bool = False,
    ) -> Results[GeneratedSentence]: ...  # fmt: skip

    @overload
    def generate(
        self, count: int = 1, prompt: str | None = None, *, trees: Literal[True], temperature: float = 1.0,
        top_k: int | None = None, seed: int = 0, max_words: int | None = None, keep_unknown: bool = False,
    ) -> Results[SentenceWithTree] | Results[GeneratedTree]: ...  # fmt: skip

    @suggests_parameters
    def generate(
        self, count: int = 1, prompt: str | None = None, *, trees: bool = False, temperature: float = 1.0,
        top_k: int | None = None, seed: int = 0, max_words: int | None = None, keep_unknown: bool = False,
    ) -> Results[GeneratedSentence] | Results[SentenceWithTree] | Results[GeneratedTree]:  # fmt: skip
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
        _check_integer(count, "count")
        check_names(prompt=prompt)
        sampling = SamplingOptions(
            temperature=temperature, top_k=top_k, seed=seed, max_words=max_words, keep_unknown=keep_unknown
        )
        if self.model.reads == "trees":
            if not trees or prompt is not None:
                found = "trees=False" if not trees else "a prompt"
                raise InputError(
                    f"generate: found {found}; a {self.name} model samples dependency trees: expected trees=True and no"
                    " prompt"
                )
            if self.folder is None:
                raise InputError(
                    "generate: the model was not read from a folder, so it has no stop classifiers; load it from its"
                    " folder"
                )
            stops = read_stops(self.folder, self)
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

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        licence: str | None = None,
        language: str | Sequence[str] | None = None,
        data: str | None = None,
        description: str | None = None,
    ) -> None:
        """Write the model as a model folder, with a model card (README.md).

        If none of the following is given, a card in the folder is kept, and otherwise that of the folder from which the
        model was loaded is copied.

        Args:
            folder: a new or existing folder.
            licence: the licence of the model, an identifier of the Hugging Face hub, such as "mit".
            language: code, such as "en", or several.
            data: the training data and their terms.
            description: what the model is for.

        Raises:
            InputError: for the folder of a training run, and if the folder cannot be written.
        """
        self._save(named_path(folder).expanduser(), None, CardFacts(licence, language, data, description))

    def push_to_hub(
        self,
        repository: str,
        *,
        licence: str | None = None,
        language: str | Sequence[str] | None = None,
        data: str | None = None,
        description: str | None = None,
        private: bool | None = None,
        revision: str | None = None,
        token: str | None = None,
        message: str | None = None,
    ) -> str:
        """Upload the model to the Hugging Face hub, with a model card. Returns the address of the repository.

        Args:
            repository: its name, "user/name"; it is created if necessary.
            private: whether a new repository is private.
            revision: a branch; None: the main branch.
            token: None: that of `hf auth login` or HF_TOKEN.
            message: the message of the commit.
            licence: see `save_pretrained`; if none is given and the model's folder has no card, a card that the
                repository already has is kept.
            language: see `save_pretrained`; if none is given and the model's folder has no card, a card that the
                repository already has is kept.
            data: see `save_pretrained`; if none is given and the model's folder has no card, a card that the repository
                already has is kept.
            description: see `save_pretrained`; if none is given and the model's folder has no card, a card that the
                repository already has is kept.

        Raises:
            InputError: if the hub refuses the model or cannot be reached, and if huggingface_hub is not installed.
        """
        check_repository_name(repository)
        facts = CardFacts(licence, language, data, description)
        with tempfile.TemporaryDirectory() as folder:
            self._save(Path(folder), repository, facts)
            return upload(
                Path(folder), repository, private=private, revision=revision, token=token, message=message,
                keep_card=not facts and not has_card(self.folder),
            )  # fmt: skip

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

    def _save(self, folder: Path, repository: str | None, facts: CardFacts) -> None:
        if (folder / "recipe.yaml").exists():
            raise InputError(f"{folder}: is the folder of a training run; expected another folder")
        write_model(folder, self)
        if self.model.reads == "trees" and self.folder is not None and (self.folder / STOPS).exists():
            write_stops(folder, read_stops(self.folder, self), self.model)
        write_card(folder, self, repository or folder.resolve().name, facts, self.folder)

    def _check_reads_text(self, use: str, instead: str) -> None:
        if self.model.reads == "trees":
            raise InputError(
                f"{use}: a {self.name} model reads dependency trees, not text; use perplexity with a file of trees, or"
                f" {instead}"
            )


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
            Hugging Face hub, "user/name", if there is no such folder here. "hf:NAME" is a causal language model of the
            library transformers, which scores text: a repository such as "hf:gpt2", or a folder.
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


def _check_integer(value: int, name: str) -> None:
    try:
        operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: found {value!r}; expected a whole number") from None


def _short_names(models: Sequence[ModelBundle]) -> list[str]:
    """Return the names of models without the folders that they are in."""
    return [Path(name).name for name in model_names(models)]
