"""A trained model as one object: `load` reads it, its methods parse, score and generate."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, overload

import torch

from syntaxlm.api.results import Results, SentenceSurprisal
from syntaxlm.errors import InputError
from syntaxlm.evaluation.completion import evaluate_completion
from syntaxlm.evaluation.completion_report import CompletionReport
from syntaxlm.evaluation.pairs import PairsReport, evaluate_pairs
from syntaxlm.generation.sampling import Sampling
from syntaxlm.generation.sentences import GeneratedSentence, generate
from syntaxlm.generation.stop_io import read_stops
from syntaxlm.generation.top_down import SentenceWithTree, refuse_word_settings, sample_with_trees
from syntaxlm.generation.trees import GeneratedTree, generate_trees
from syntaxlm.model_io import CONFIG, ModelBundle, read_model
from syntaxlm.models.abilities import TrainsByGradient
from syntaxlm.models.batches import TextMode
from syntaxlm.parsing.evaluation import evaluate_parsing, protocol_named
from syntaxlm.parsing.parse import Parse, Parses, parse_lines, parse_lines_together
from syntaxlm.parsing.report import ParsingReport
from syntaxlm.parsing.structure import Rule
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.perplexity import LanguageModelScore, evaluate_text
from syntaxlm.scoring.surprisal import Context, surprisals
from syntaxlm.text.normaliser import UntaggedTokenError
from syntaxlm.text.reader import AUTO_STYLE, TextReader
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.trees import PROTOCOLS, GoldPreprocessing, Protocol, TieBreaking, Tree

PARSED_TOGETHER = 2000  # texts of `parse`: enough for batches of like length, few enough for memory
PROTOCOL = PROTOCOLS["wsj-test"]
SHOWN = 5  # model folders in a message


@dataclass(frozen=True, repr=False)
class LanguageModel(ModelBundle):
    """A trained model that parses, scores and generates text, as far as its model type can.

    A text is one sentence, as it is written; the model's own normaliser reads it. For a model of tags it is tagged
    text: "the_DT cat_NN". Methods that take a text or several return one result for a string, and a list in the order
    of the input for anything else. What a model type cannot do raises an InputError that names the types that can.
    Functions of the modules that take a `ModelBundle` take a LanguageModel.

    folder: where the model was read from; None: it was not.
    """

    folder: Path | None = None

    def __repr__(self) -> str:
        place = "" if self.folder is None else f"{str(self.folder)!r}, "
        return f"LanguageModel({place}{self.name}, {self.model.parameter_count:,} parameters, {self.device})"

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.device

    def to(self, device: str | torch.device) -> LanguageModel:
        """Move the model, and return it.

        device: "cpu", "cuda", "cuda:1", "mps", or "auto" for the fastest one available. Model types that are counted,
        not trained by gradient (n-grams), stay on the CPU.
        Raises InputError for a device that is not available.
        """
        found = find_device(device)
        if isinstance(self.model, TrainsByGradient):
            self.model.to(found)
        return self

    @overload
    def parse(  # type: ignore[overload-overlap]  # a string is an iterable, too
        self, text: str, *, decoder: Rule | None = None, layer: int | None = None, labels: bool = False,
        also: Sequence[ModelBundle] = (), ties: TieBreaking = "random", style: TreebankStyle = AUTO_STYLE,
    ) -> Parse: ...  # fmt: skip

    @overload
    def parse(
        self, text: Iterable[str], *, decoder: Rule | None = None, layer: int | None = None, labels: bool = False,
        also: Sequence[ModelBundle] = (), ties: TieBreaking = "random", style: TreebankStyle = AUTO_STYLE,
    ) -> Results[Parse]: ...  # fmt: skip

    def parse(
        self,
        text: str | Iterable[str],
        *,
        decoder: Rule | None = None,
        layer: int | None = None,
        labels: bool = False,
        also: Sequence[ModelBundle] = (),
        ties: TieBreaking = "random",
        style: TreebankStyle = AUTO_STYLE,
    ) -> Parse | Results[Parse]:
        """Parse one sentence, or several.

        A text without a word has a parse without words, which is false, so that results stay in step with the texts.
        decoder: the decoding algorithm; None: the default of the model's structure.
        layer: whose distances, 1 is the first; None: the model's own.  labels: whether to add induced labels (PCFGs).
        also: other models; the tree is then the average of the trees of all, over the words as this model reads them,
        without distances, span scores and labels.  ties: which of equally good splits an average takes.
        style: how punctuation and contractions are split before the model reads them; by default as its vocabulary
        needs, see `TextReader.of`.
        Raises InputError for a model that does not parse, or not with this decoder, layer or labels.
        """
        texts = [text] if isinstance(text, str) else text
        parses = Results(
            self.pipe(
                texts, PARSED_TOGETHER, decoder=decoder, layer=layer, labels=labels, also=also, ties=ties, style=style
            )
        )
        return parses[0] if isinstance(text, str) else parses

    def pipe(
        self,
        texts: Iterable[str],
        batch_size: int = 256,
        *,
        decoder: Rule | None = None,
        layer: int | None = None,
        labels: bool = False,
        also: Sequence[ModelBundle] = (),
        ties: TieBreaking = "random",
        style: TreebankStyle = AUTO_STYLE,
    ) -> Iterator[Parse]:
        """Parse a stream of sentences, and yield their parses in order.

        texts: an iterable, which may be endless: it is read as the parses are asked for.
        batch_size: sentences that are read at a time; more are faster, and take more memory.
        The rest, and errors: as of `parse`.
        """
        if isinstance(texts, str):
            raise TypeError("pipe takes several texts, not one string; for one, call parse")
        if batch_size < 1:
            raise InputError(f"batch_size: found {batch_size}; expected 1 or more")
        if labels and also:
            raise InputError("labels: averaged trees have no labels; parse with one model, or leave labels out")
        if also:
            models = [self, *also]
            read = partial(
                parse_lines_together, models, decoder=decoder, layer=layer, names=_names(models), ties=ties, style=style
            )
        else:
            read = partial(parse_lines, self, decoder=decoder, layer=layer, labels=labels, style=style)
        read([])  # wrong options are reported now, not with the first parse
        rest = iter(texts)
        chunks = iter(lambda: list(islice(rest, batch_size)), [])
        firsts = itertools.count(1, batch_size)
        return (
            parse for chunk, first in zip(chunks, firsts, strict=False) for parse in _whole(read(chunk, first=first))
        )

    @overload
    def surprisal(  # type: ignore[overload-overlap]
        self, text: str, *, context: Context | None = None, style: TreebankStyle = AUTO_STYLE
    ) -> SentenceSurprisal: ...

    @overload
    def surprisal(
        self, text: Iterable[str], *, context: Context | None = None, style: TreebankStyle = AUTO_STYLE
    ) -> Results[SentenceSurprisal]: ...

    def surprisal(
        self, text: str | Iterable[str], *, context: Context | None = None, style: TreebankStyle = AUTO_STYLE
    ) -> SentenceSurprisal | Results[SentenceSurprisal]:
        """The surprisal of every word of one sentence, or of several, in bits.

        A row is a word as written, separated by white space; for a character-level model, a character. The rows of a
        sentence add up to -log2 of its probability. A text without a word has no rows.
        context: "reset" reads each sentence by itself; "carry" reads all as one stream; None: as the model was trained.
        style: as of `parse`.
        Raises InputError for a model without token probabilities, and one of dependency trees.
        """
        self._check_reads_text("surprisal", "syntaxlm.scoring.tree_scores.tree_surprisals")
        lines = [text] if isinstance(text, str) else text
        found = Results(map(SentenceSurprisal, surprisals(self, lines, context, style)))
        return found[0] if isinstance(text, str) else found

    @overload
    def log_prob(self, text: str, *, style: TreebankStyle = AUTO_STYLE) -> float: ...  # type: ignore[overload-overlap]

    @overload
    def log_prob(self, text: Iterable[str], *, style: TreebankStyle = AUTO_STYLE) -> list[float]: ...

    def log_prob(self, text: str | Iterable[str], *, style: TreebankStyle = AUTO_STYLE) -> float | list[float]:
        """The natural log-probability of one sentence, or of each of several, in nats.

        Each is read by itself. The end of the sentence counts where the model predicts it. style: as of `parse`.
        Raises InputError for a model without sentence probabilities, and one of dependency trees.
        """
        self._check_reads_text("log_prob", "syntaxlm.scoring.tree_scores.log_probs_of_trees")
        scorer = Scorer.of(self, TextMode(carry_state=False, predict_eos=self.mode.predict_eos))
        found: list[float] = scorer.sentences(
            list(self._tokens([text] if isinstance(text, str) else text, style))
        ).tolist()
        return found[0] if isinstance(text, str) else found

    def perplexity(
        self, text: str | Path | Iterable[str], *, context: Context | None = None, cache: CacheSettings | None = None
    ) -> LanguageModelScore:
        """How well the model predicts a text: perplexity, bits per token and per character.

        text: a file, one sentence per line; or a list of sentences. For a dependency-tree model, a file of trees.
        context: as of `surprisal`.  cache: of a neural cache, whose weights `syntaxlm.tune_cache` finds.
        Raises InputError for a file that cannot be read, and a model without probabilities.
        """
        mode = None if context is None else TextMode(context == "carry", self.mode.predict_eos)
        return evaluate_text(self, text, mode, cache)

    @overload
    def generate(
        self, count: int = 1, prompt: str | None = None, *, temperature: float = Sampling.temperature,
        top_k: int | None = None, seed: int = Sampling.seed, max_words: int | None = None, keep_unknown: bool = False,
        trees: Literal[False] = False,
    ) -> Results[GeneratedSentence]: ...  # fmt: skip

    @overload
    def generate(
        self, count: int = 1, prompt: str | None = None, *, temperature: float = Sampling.temperature,
        top_k: int | None = None, seed: int = Sampling.seed, max_words: int | None = None, keep_unknown: bool = False,
        trees: Literal[True],
    ) -> Results[SentenceWithTree] | Results[GeneratedTree]: ...  # fmt: skip

    def generate(
        self,
        count: int = 1,
        prompt: str | None = None,
        *,
        temperature: float = Sampling.temperature,
        top_k: int | None = None,
        seed: int = Sampling.seed,
        max_words: int | None = None,
        keep_unknown: bool = False,
        trees: bool = False,
    ) -> Results[GeneratedSentence] | Results[SentenceWithTree] | Results[GeneratedTree]:
        """Sample sentences. The same seed gives the same sentences.

        prompt: words that each sentence starts with.  temperature: below 1 favours probable words; 0: always the most
        probable word.  top_k: draw from so many most probable words only.
        max_words: of a sentence, without the prompt's; None: 100 (500 characters).
        keep_unknown: whether the unknown word may be drawn.
        trees: whether to sample sentences with their trees: from a PCFG top-down, without prompt, temperature and
        top_k; from a dependency-tree model, whose folder must have stop classifiers, without prompt.
        Raises InputError for settings out of range and a model that does not sample sentences, or not with trees.
        """
        if self.model.reads == "trees":
            if not trees or prompt is not None:
                found = "trees=False" if not trees else "a prompt"
                raise InputError(
                    f"generate: found {found}; a {self.name} model samples dependency trees: expected trees=True and no"
                    " prompt"
                )
            stops = read_stops(self._folder("generate"), self)
            return Results(
                generate_trees(
                    self, stops, count, temperature=temperature, top_k=top_k, seed=seed, maximum_words=max_words,
                    keep_unknown=keep_unknown,
                )
            )  # fmt: skip
        if trees:
            refuse_word_settings(prompt, temperature, top_k, "Sentences with trees are sampled top-down.")
            return Results(
                sample_with_trees(self, count, seed=seed, maximum_words=max_words, keep_unknown=keep_unknown)
            )
        return Results(
            generate(
                self, count, prompt, temperature=temperature, top_k=top_k, seed=seed, maximum_words=max_words,
                keep_unknown=keep_unknown, style=AUTO_STYLE,
            )
        )  # fmt: skip

    def evaluate_parsing(
        self,
        treebank: str | Path,
        protocol: str | Protocol = PROTOCOL,
        *,
        decoder: Rule | None = None,
        layer: int | None = None,
        preprocessing: GoldPreprocessing | str | Path = "ptb-keep",
        max_words: int | None = None,
        also: Sequence[ModelBundle] = (),
        random_weights: int = 0,
        ties: TieBreaking = "random",
    ) -> ParsingReport:
        """F1 of the model's trees against a treebank, beside baselines.

        treebank: a bracket file, a folder of them, or a pattern.  protocol: its name or the protocol itself.
        preprocessing: of the gold trees.  max_words: longer sentences are left out.
        random_weights: number of untrained models with the same settings to score, too.
        The rest: as of `parse`. Raises InputError as `parse`, and for a treebank that cannot be read.
        """
        if isinstance(protocol, str):
            protocol = protocol_named(protocol, max_words)
        elif max_words is not None:
            raise InputError("max_words: the protocol itself is given; set its max_words, or give its name")
        return evaluate_parsing(self, treebank, protocol, decoder, preprocessing, layer, also, random_weights, ties)

    def evaluate_pairs(
        self,
        files: str | Path | Sequence[str | Path],
        *,
        style: TreebankStyle = AUTO_STYLE,
        also: Mapping[str, ModelBundle] | None = None,
    ) -> PairsReport:
        """How often the model prefers the better sentence of minimal pairs.

        files: JSON lines of pairs, or folders of them.  style: what is done to the text before the model reads it.
        also: other models by name, compared with this one.
        Raises InputError for files that cannot be read and a model without sentence probabilities.
        """
        return evaluate_pairs(self._with(also), files, style)

    def evaluate_completion(
        self,
        questions: str | Path,
        answers: str | Path,
        *,
        style: TreebankStyle = AUTO_STYLE,
        per_token: bool = False,
        parses: str | Path | None = None,
        also: Mapping[str, ModelBundle] | None = None,
        shares: Sequence[float] | None = None,
    ) -> CompletionReport:
        """How often the model picks the right word of sentence completion questions.

        questions, answers, parses: files; parses are of the questions, for a dependency-tree model.
        style: as of `evaluate_pairs`.  per_token: compare mean log-probabilities per token.
        also: other models by name, interpolated with this one.  shares: their weights; None: chosen on half the
        questions.
        Raises InputError for files that cannot be read and a model without sentence probabilities.
        """
        return evaluate_completion(self._with(also), questions, answers, style, shares, per_token, parses)

    def _with(self, also: Mapping[str, ModelBundle] | None) -> Mapping[str, ModelBundle]:
        """This model and others by name."""
        name = _names([self])[0]
        if name in (also or {}):
            raise InputError(f"also: {name} is the name of this model; expected another name")
        return {name: self, **(also or {})}

    def _folder(self, use: str) -> Path:
        if self.folder is None:
            raise InputError(f"{use}: the model was not read from a folder, which has its stop classifiers")
        return self.folder

    def _tokens(self, texts: Iterable[str], style: TreebankStyle) -> Iterator[list[str]]:
        reader = TextReader.of(self.normaliser, self.vocabulary, style)
        for number, text in enumerate(texts, 1):
            try:
                yield reader.tokens(text)
            except UntaggedTokenError as error:
                raise error.at(f"sentence {number}") from None

    def _check_reads_text(self, use: str, instead: str) -> None:
        if self.model.reads == "trees":
            raise InputError(
                f"{use}: a {self.name} model reads dependency trees, not text; use perplexity with a file of trees, or"
                f" {instead}"
            )


def load(name_or_folder: str | Path, device: str | torch.device = "cpu") -> LanguageModel:
    """Load a trained model.

    name_or_folder: a folder as `syntaxlm train` writes it.
    device: "cpu", "cuda", "cuda:1", "mps", or "auto" for the fastest one available.
    Raises InputError for a folder that is not a model's, a damaged one, and a device that is not available.
    """
    found = find_device(device)  # before seconds are spent on reading
    folder = Path(name_or_folder).expanduser()
    _check_folder(folder, name_or_folder)
    stored = read_model(folder)
    return LanguageModel(stored.model, stored.settings, stored.vocabulary, stored.labels, folder).to(found)


def _check_folder(folder: Path, given: str | Path) -> None:
    """Raises InputError for what is not a model folder, naming the model folders inside it."""
    expected = f"expected a folder as syntaxlm train writes it, with {CONFIG} and weights"
    if not folder.exists():
        raise InputError(f"{given}: no such model folder; {expected}")
    if not folder.is_dir():
        raise InputError(f"{given}: found a file; {expected}")
    if not (folder / CONFIG).exists():
        inside = sorted(str(path.parent) for pattern in ("*", "*/*") for path in folder.glob(f"{pattern}/{CONFIG}"))
        shown = ", ".join(inside[:SHOWN]) + (", ..." if len(inside) > SHOWN else "")
        advice = f". There are model folders in it: {shown}" if inside else f"; {expected}"
        raise InputError(f"{given}: not a model folder: {CONFIG} is missing{advice}")


def find_device(device: str | torch.device) -> torch.device:
    """A device of this machine. Raises InputError for one that is not available, naming those that are."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device(next(name for name, there in available.items() if there))
    names = ", ".join(name for name, there in available.items() if there)
    try:
        found = torch.device(device)
    except RuntimeError:
        raise InputError(f"device {device!r}: no such device; available here: {names}") from None
    if not available.get(found.type, False):
        raise InputError(f"device {str(found)!r}: not available; available here: {names}")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {str(found)!r}: not available; this machine has {torch.cuda.device_count()} GPUs")
    return found


def _whole(parses: Parses) -> Iterator[Parse]:
    """Every text's parse, one without words where the text has none."""
    for number, parse in enumerate(parses, parses.first):
        yield Parse(number, [], [], [], Tree((), (), ())) if parse is None else parse


def _names(models: Sequence[ModelBundle]) -> list[str]:
    """The folders of models, or their types, for messages."""
    folders = [getattr(one, "folder", None) for one in models]
    return [one.name if folder is None else str(folder) for one, folder in zip(models, folders, strict=True)]
