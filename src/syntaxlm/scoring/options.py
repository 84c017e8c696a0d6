"""Options of scoring text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypedDict, get_args

from syntaxlm.core.declarations import Bounds, Options, Shown
from syntaxlm.core.errors import InputError
from syntaxlm.text.options import Contractions, Punctuation, TextOptions

if TYPE_CHECKING:
    from syntaxlm.models.batches import TextMode

Context = Literal["reset", "carry"]
BeliefMeasure = Literal[
    "belief_update", "belief_update_kl", "expected_ended", "expected_open", "expected_depth", "low_attachment",
    "derivation_entropy", "derivation_entropy_reduction", "lexical_surprisal", "structural_surprisal",
]  # fmt: skip
TreeMeasure = Literal["constituents_ended", "depth", "distance"]
Measure = Literal["entropy", "entropy_reduction", "rank", "prefix_surprisal", TreeMeasure, BeliefMeasure]
TREE_MEASURES = frozenset(get_args(TreeMeasure))
BELIEF_MEASURES = frozenset(get_args(BeliefMeasure))
MOST_NEXT_WORDS = 100
MOST_SPILLOVER = 10  # previous words in a table of displayed words


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Options):
    """How a text of several sentences is read.

    Attributes:
        context: Read each sentence by itself (`reset`), or the text as one stream whose state is carried from sentence
            to sentence (`carry`). Default: as in training.
    """

    heading: ClassVar[str] = "Text"

    context: Context | None = None

    def mode(self, trained: TextMode) -> TextMode:
        """Return how text is read. trained: as in training."""
        carries = trained.carry_state if self.context is None else self.context == "carry"
        return replace(trained, carry_state=carries)


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ReadingOptions, TextOptions):
    """How the words of a text are scored.

    Attributes:
        context: Read the sentences of the text in this way. Displayed words with `--group` are read as in training by
            default.
            - `reset` (default): each sentence by itself; a model that was trained on a stream reads it as if another
              sentence had just ended
            - `carry`: as one stream whose state is carried from sentence to sentence, for running text
        given: Read these words before every text, as the beginning of its sentence. The output contains no rows for
            them.
        measures: Add a column with this measure of each word. The measures from `belief_update` on require a PCFG, but
            a Tree Transformer also has `belief_update`, `belief_update_kl` and `expected_ended`. They are computed from
            the trees of the words read so far.
            - `entropy`: entropy of the next token before the word, in bits
            - `entropy_reduction`: decrease of this entropy by the word, in bits
            - `rank`: rank of the word among all words, 1 for the most probable
            - `prefix_surprisal`: -log2 of the probability of the sentence up to the word, in bits
            - `constituents_ended`: number of constituents of the best tree that end at the word
            - `depth`: number of constituents of the best tree that contain the word
            - `distance`: height of the smallest constituent of the best tree with both the word and the word before it
            - `belief_update`, `belief_update_kl`: change of the probabilities of earlier constituents by the word, in
              bits, as Renyi's divergence of order 1/2 or of order 1
            - `expected_ended`, `expected_open`, `expected_depth`: expected number of constituents that end at the word,
              are still open after it, or contain it
            - `low_attachment`: probability that the smallest constituent around the word has at most three words
            - `derivation_entropy`, `derivation_entropy_reduction`: entropy of the whole derivation after the word, and
              its decrease by the word, in bits
            - `lexical_surprisal`, `structural_surprisal`: the two parts of the surprisal, in bits: the surprisal of the
              word given its preterminal, and the surprisal of the preterminal
        next_words: Add a column with the N most probable next words before each word, and their probabilities.
    """

    heading: ClassVar[str] = "Scores"

    given: Annotated[str, Shown("WORDS")] | None = None
    measures: Annotated[Sequence[Measure], Shown("NAME", ("--measure",))] = ()
    next_words: Annotated[int, Bounds(ge=0, le=MOST_NEXT_WORDS), Shown("N")] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "measures", tuple(self.measures))  # hashable, also if given as a list
        if self.given is not None and self.context == "carry":
            raise InputError('given: found with the context "carry"; expected sentences that are read by themselves')
        if self.beliefs and self.context == "carry":
            raise InputError(
                f'measure {self.beliefs[0]}: found with the context "carry"; expected sentences that are read by'
                " themselves"
            )

    def mode(self, trained: TextMode) -> TextMode:
        return replace(trained, carry_state=self.context == "carry")

    @property
    def beliefs(self) -> list[Measure]:
        """The measures that are of the probabilities of constituents after each word."""
        return [name for name in self.measures if name in BELIEF_MEASURES]

    @property
    def predictions(self) -> int | None:
        """The number of most probable tokens to ask of the scorer; None if no measure needs distributions."""
        needs = self.next_words or {"entropy", "entropy_reduction", "rank"}.intersection(self.measures)
        return self.next_words if needs else None


class ScoreKeywords(TypedDict, total=False):
    """The options of `ScoreOptions` as keywords of a method, for type checkers."""

    context: Context | None
    given: str | None
    measures: Sequence[Measure]
    next_words: int
    punctuation: Punctuation
    contractions: Contractions


@dataclass(frozen=True, kw_only=True)
class PerplexityOptions(ReadingOptions, TextOptions):
    """How the perplexity of a text is measured.

    Attributes:
        predict_eos: Count the ends of sentences as tokens, or omit them with `--no-predict-eos`. Default: as in
            training.
        punctuation: Treat English punctuation marks at the ends of words in this way, before the model's normaliser.
            - `keep` (default): as they are written, for text that is tokenised like the training text
            - `auto`: as the model's vocabulary requires
            - `split`: each mark becomes a word
            - `drop`: marks are removed
        contractions: Treat contractions such as n't, 's and 'll in this way.
            - `keep` (default): as they are written
            - `auto`: as the model's vocabulary requires
            - `split`: each becomes a separate word, as in treebanks
    """

    heading: ClassVar[str] = "Text"

    predict_eos: bool | None = None
    punctuation: Punctuation = "keep"
    contractions: Contractions = "keep"

    def mode(self, trained: TextMode) -> TextMode:
        mode = super().mode(trained)
        return mode if self.predict_eos is None else replace(mode, predict_eos=self.predict_eos)
