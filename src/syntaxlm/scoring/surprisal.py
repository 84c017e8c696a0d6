"""The surprisal of every word of a text, -log2 p(word | all words before it).

Models predict tokens, but the rows of the result are words: the units of the original text that white space separates.
If the normaliser splits a word into several tokens ("dog." is read as "dog" and "."), their surprisals are added, which
is the surprisal of the word by the chain rule. For a character-level model, a row is a character. The surprisals of the
rows of a sentence, including its end, sum to the negative log-probability of the sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.iteration import batched
from syntaxlm.core.text_files import LINES_TOGETHER
from syntaxlm.data.dependencies import DependencyCorpus, read_words
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.models.abilities import GeneratesTrees, Predictions, PredictsSubtokens, ScoresTokens, ScoresWords
from syntaxlm.models.registry import require
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.scoring.beliefs import BeliefMeasures, BeliefReader
from syntaxlm.scoring.engine import ScoredTokens, Scorer, TokenStream, require_predictions
from syntaxlm.scoring.options import BELIEF_MEASURES, TREE_MEASURES, ScoreOptions
from syntaxlm.scoring.parts import numbered_corpus
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.lines import WrittenWord
from syntaxlm.text.reader import REMEMBERED_WORDS, TextReader
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.marks import is_mark
from syntaxlm.trees.tree import DependencyTree

SURPRISALS = Columns(
    "surprisals",
    "word (character-level models: per character) and per end of a sentence",
    {
        "sentence": Column("integer", "number of the line, from 1"),
        "position": Column("integer", "number of the word in the line, from 1"),
        "word": Column("text", "the word as written; empty for the end of the sentence"),
        "begin": Column("integer", "start of the word in the line, in code points"),
        "end": Column("integer", "end of the word in the line, in code points"),
        "token": Column(
            "text", "the tokens of the word, joined by spaces; empty if the model reads nothing of the word"
        ),
        "in_vocabulary": Column(
            "boolean", "whether the vocabulary contains all its tokens; missing if nothing is read"
        ),
        "surprisal": Column("number", "surprisal in bits; missing if nothing is read", ".2f"),
        "surprisal_word": Column(
            "number", "surprisal without punctuation marks; missing if the model reads only marks of the word", ".2f"
        ),
        "surprisal_marks": Column("number", "surprisal of its punctuation marks; missing if nothing is read", ".2f"),
        "tokens": Column("integer", "number of its tokens, or of its sub-tokens if the model splits tokens further"),
    },
)

MEASURES = {
    "entropy": Column(
        "number",
        "entropy of the next token before the word, in bits; of models with sub-tokens (hf:NAME), of the first"
        " sub-token of the next word, a lower bound of the entropy of the word",
        ".2f",
    ),
    "entropy_reduction": Column(
        "number",
        "entropy of the next token before the word minus entropy after it, in bits; missing after the last word",
        ".2f",
    ),
    "rank": Column(
        "integer",
        "rank of the (first) token of the word among all tokens, 1 for the most probable; of models with sub-tokens, of"
        " its first sub-token among those that can begin a word",
    ),
    "prefix_surprisal": Column("number", "-log2 of the probability of the sentence up to the word; in bits", ".2f"),
    "constituents_ended": Column("integer", "constituents of the best tree whose last word it is"),
    "depth": Column("integer", "constituents of the best tree around the word, the sentence included"),
    "distance": Column(
        "integer",
        "height of the smallest constituent of the best tree that contains the word and the word before it; missing for"
        " the first word",
    ),
    "belief_update": Column(
        "number", "change of the probabilities of constituents of earlier words, in bits, order 1/2", ".3f"
    ),
    "belief_update_kl": Column(
        "number",
        "change of the probabilities of constituents of earlier words, in bits, order 1 (Kullback-Leibler)",
        ".3f",
    ),
    "expected_ended": Column("number", "expected number of constituents that end at the word", ".2f"),
    "expected_open": Column("number", "expected number of constituents that are open after the word", ".2f"),
    "expected_depth": Column("number", "expected number of constituents around the word", ".2f"),
    "low_attachment": Column(
        "number", "probability that the smallest constituent around the word has at most three words", ".2f"
    ),
    "derivation_entropy": Column("number", "entropy of the whole derivation after the word, in bits", ".1f"),
    "derivation_entropy_reduction": Column(
        "number", "decrease of derivation entropy by the word, in bits, at least 0; missing for the first word", ".1f"
    ),
    "lexical_surprisal": Column("number", "surprisal of the word given its preterminal, in bits", ".2f"),
    "structural_surprisal": Column("number", "surprisal of the preterminal of the word, in bits", ".2f"),
    "next_words": Column(
        "text",
        "most probable next tokens before the word, each with its probability; of models with sub-tokens, the beginning"
        " of the word up to …, whose probability is an upper bound of that of each word that begins so",
    ),
}


NO_MEASURES: Mapping[str, Any] = MappingProxyType({})


def word_columns(options: ScoreOptions) -> Columns:
    """Return the columns of words with these options."""
    chosen = [*options.measures, *(["next_words"] if options.next_words else [])]
    measures = {name: column for name, column in MEASURES.items() if name in chosen}
    return SURPRISALS.beside(measures)


class WordSurprisal(NamedTuple):
    """One word of a text with its surprisal.

    Attributes:
        sentence: number of the line, from 1.
        position: number of the word in the line, from 1.
        word: the word as written, line[begin:end]; "" for the end of the sentence.
        begin: start of the word in the line, in code points.
        end: end of the word in the line, in code points.
        token: the tokens of the word, joined by spaces; "" if the model reads nothing of the word, because its
            normaliser or its tokenizer drops it.
        in_vocabulary: whether all its tokens are in the model's vocabulary; None if nothing is read.
        surprisal: surprisal in bits; None if nothing is read.
        surprisal_word: the part that is not of punctuation marks; None if only marks are read, and for an end.
        surprisal_marks: the part of punctuation marks, 0 without marks; None if nothing is read, and for an end.
        tokens: number of its tokens; if the model splits its tokens into sub-tokens, of these.
        measures: further measures by name, see `MEASURES`; None where a word has none. They are attributes, too.
    """

    sentence: int
    position: int
    word: str
    begin: int
    end: int
    token: str
    in_vocabulary: bool | None
    surprisal: float | None
    surprisal_word: float | None = None
    surprisal_marks: float | None = None
    tokens: int = 0
    measures: Mapping[str, Any] = NO_MEASURES

    def __reduce__(self) -> tuple[Any, ...]:
        """Allow copies, also in other processes: `NO_MEASURES` cannot be copied."""
        return WordSurprisal, self[:-1] if self.measures is NO_MEASURES else tuple(self)

    def __getattr__(self, name: str) -> Any:
        """Return a measure that was asked for, such as `word.entropy`."""
        if name in self.measures:
            return self.measures[name]
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in MEASURES:
            option = "next_words=5" if name == "next_words" else f"measures=[{name!r}]"
            message = f"{name}: not computed; expected {option} in the call that gave the surprisals"
        raise AttributeError(message, name=name, obj=self)

    def __str__(self) -> str:
        """Return the word, or the token at the end of a sentence, and its bits."""
        return f"{self.word or self.token} {'-' if self.surprisal is None else format(self.surprisal, '.2f')}"

    def to_dict(self) -> dict[str, Any]:
        """Return the row with rounded numbers."""
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in self.row().items()}

    def row(self) -> dict[str, Any]:
        """Return the row, with the columns of `word_columns`."""
        return {**dict(zip(_FIELDS, self, strict=False)), **self.measures}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the row."""
        yield self.row()


_FIELDS = WordSurprisal._fields[:-1]  # without the measures


def surprisals(
    bundle: ModelBundle, lines: Iterable[str], options: ScoreOptions = ScoreOptions()
) -> Iterator[list[WordSurprisal]]:
    """Yield the words of each line of text with their surprisal.

    If the model predicts ends of sentences, the last row of a line is its end.

    Args:
        lines: one sentence per line; some thousand lines are read at a time. A line without tokens has no end, and a
            line without words has no rows.
        options: the context "carry" gives an InputWarning for a model that was trained on single sentences. However
            words are split, a row is a word as written, with the sum of the surprisals of its tokens. Measures of trees
            are not computed, see `word_measures`.

    Raises:
        InputError: for measures that need distributions if the model does not give them.
    """
    if isinstance(lines, str):
        raise TypeError("surprisals takes lines, not one string")
    return surprisals_of(bundle, options)(lines)


def surprisals_of(
    bundle: ModelBundle, options: ScoreOptions
) -> Callable[[Iterable[str]], Iterator[list[WordSurprisal]]]:
    """Return a function that does what `surprisals` does, for several texts. Warnings are given only once, now."""
    return lines_scorer(Scorer.of(bundle, options.mode(bundle.mode)), bundle, options)


def lines_scorer(
    scorer: Scorer, bundle: ModelBundle, options: ScoreOptions
) -> Callable[[Iterable[str]], Iterator[list[WordSurprisal]]]:
    """Return the function that scores the lines of a text, see `surprisals_of`."""
    reader = TextReader.of(bundle.normaliser, bundle.vocabulary, options)
    if options.predictions is not None:
        require_predictions(bundle.model, bundle.name)
    belief_reader = None
    if options.beliefs:
        purpose = f"the measure {options.beliefs[0]}"
        belief_reader = BeliefReader(bundle.model, bundle.vocabulary, bundle.name, purpose)

    def text_surprisals(lines: Iterable[str]) -> Iterator[list[WordSurprisal]]:
        stream = scorer.stream(best=options.predictions) if scorer.mode.carry_state else None
        return _rows(scorer, stream, reader, iter(lines), options, belief_reader)

    return text_surprisals


def _rows(
    scorer: Scorer,
    stream: TokenStream | None,
    reader: TextReader,
    lines: Iterator[str],
    options: ScoreOptions,
    belief_reader: BeliefReader | None,
) -> Iterator[list[WordSurprisal]]:
    """Yield the rows of each line.

    Args:
        stream: the stream that the lines continue; None if each line is read by itself.
        belief_reader: measures beliefs about trees; None unless measures need them.
    """
    given = scorer.vocabulary.encode(_tokens_before(reader, options.given or ""))
    ends = int(scorer.mode.predict_eos)
    maker = _RowMaker(scorer, options)
    first, starts_text = 1, not given
    for chunk in batched(lines, LINES_TOGETHER):
        read = reader.read(chunk, first)
        sentences = [(*given, *ids) if ids else () for ids in read.by_line(read.ids.tolist())]
        numbered = [(number, sentence) for number, sentence in enumerate(sentences, first) if sentence]
        scored = _scored_sentences(scorer, stream, numbered, options, belief_reader)

        # The bits of each line with tokens follow each other: those of `given`, of its own tokens and of its end.
        end = 0
        for number, (line, words, sentence) in enumerate(zip(chunk, read.words(), sentences, strict=True), first):
            begin = end
            if sentence:
                begin += len(given)
                end += len(sentence) + ends
            tokens = _LineTokens(
                bits=scored.bits[begin:end].tolist(),
                begin=begin,
                distributions=scored.distributions,
                beliefs=scored.beliefs.get(sentence),
                given=len(given),
                starts_text=starts_text,
            )
            starts_text = starts_text and (stream is None or not sentence)
            yield maker.rows(number, line, words, tokens)
        first += len(chunk)


def _tokens_before(reader: TextReader, given: str) -> list[str]:
    """Return the tokens of words that precede a text. If the model reads white space, they end in a space."""
    tokens = reader.tokens(given)
    space = reader.normaliser.space
    return [*tokens, space] if tokens and space is not None else tokens


class _ScoredSentences(NamedTuple):
    """The scores of several sentences.

    Attributes:
        bits: (n,) the surprisal of each token, sentence after sentence, with their ends if these are predicted.
        distributions: before each of these tokens; None unless measures need them.
        beliefs: about each sentence, by its token ids; empty unless measures need them.
    """

    bits: Numbers
    distributions: Predictions | None
    beliefs: Mapping[tuple[int, ...], BeliefMeasures]


def _scored_sentences(
    scorer: Scorer,
    stream: TokenStream | None,
    sentences: Sequence[tuple[int, Sequence[int]]],
    options: ScoreOptions,
    belief_reader: BeliefReader | None,
) -> _ScoredSentences:
    """Score sentences, each given by its number and token ids. Parameters: see `_rows`."""
    if not sentences:
        return _ScoredSentences(np.zeros(0), None, {})
    corpus = numbered_corpus(sentences)
    parts = scorer.tokens(corpus, best=options.predictions) if stream is None else [stream.read(corpus)]
    scored = ScoredTokens.joined(list(parts))
    bits = 0.0 - scored.log_probs.double().cpu().numpy() / math.log(2)  # never -0
    beliefs = {} if belief_reader is None else belief_reader.measures(corpus, options.beliefs)
    return _ScoredSentences(bits, scored.predictions, beliefs)


@dataclass(frozen=True)
class _LineTokens:
    """The predictions of the tokens of a line, its end included if it is predicted.

    Attributes:
        bits: the surprisal of each token.
        begin: index of the first token in `distributions`.
        distributions: the distributions of all tokens of several lines; None unless measures need them.
        beliefs: of the line, with the words it continues; None unless measures need them.
        given: number of tokens that the line continues.
        starts_text: whether nothing is read before the line.
    """

    bits: list[float]
    begin: int
    distributions: Predictions | None
    beliefs: BeliefMeasures | None = None
    given: int = 0
    starts_text: bool = True


class _RowMaker:
    """Makes the rows of lines: adds the surprisals of the tokens of each word."""

    def __init__(self, scorer: Scorer, options: ScoreOptions) -> None:
        self.model: ScoresTokens | ScoresWords
        if scorer.takes_scores and isinstance(scorer.model, ScoresWords):
            self.model = scorer.model
        else:
            self.model = require(scorer.model, ScoresTokens, scorer.name, "scoring of tokens")
        self.vocabulary = scorer.vocabulary
        self.ends = scorer.mode.predict_eos
        self.columns = [name for name in word_columns(options) if name in MEASURES and name not in TREE_MEASURES]
        self._unknown = frozenset(self.vocabulary.unknown_ids)
        self._described = lru_cache(REMEMBERED_WORDS)(self._describe)

    def _text(self, token: int) -> str:
        """Return a predicted token as text."""
        if isinstance(self.model, PredictsSubtokens):
            return self.model.subtoken_text(token)
        return self.vocabulary.tokens[token]

    def _describe(self, ids: tuple[int, ...], is_first: bool) -> tuple[str, bool | None, int]:
        """Return the tokens of a word as text, whether all are known, and their number. Without any: "", None, 0.

        Args:
            is_first: whether the word is the first that is read of its text.
        """
        tokens = [self.vocabulary.tokens[token] for token in ids]
        count = sum(self.model.subtoken_count(token, is_first and not place) for place, token in enumerate(tokens))
        return (" ".join(tokens), self._unknown.isdisjoint(ids), count) if count else ("", None, 0)

    def rows(self, number: int, line: str, words: Iterable[WrittenWord], tokens: _LineTokens) -> list[WordSurprisal]:
        """Return the rows of a line with these words."""
        rows = []
        first = 0  # token of the word
        is_first = tokens.starts_text
        for position, (start, end, ids, marks) in enumerate(words, 1):
            token, known, count = self._described(ids, is_first)
            is_first = is_first and not count
            after = first + len(ids)
            bits = tokens.bits[first:after] if count else []
            marks = marks if count else ()
            of_marks = sum(compress(bits, marks), 0.0)
            of_words = sum((value for value, mark in zip(bits, marks, strict=True) if not mark), 0.0)
            measures = self._measures(tokens, first, first + len(bits)) if self.columns else NO_MEASURES
            rows.append(
                WordSurprisal(
                    number, position, line[start:end], start, end, token, known,
                    sum(bits) if count else None,
                    None if all(marks) else of_words,
                    of_marks if count else None,
                    count,
                    measures,
                )
            )  # fmt: skip
            first = after
        if tokens.bits and self.ends:
            measures = self._measures(tokens, first, first + 1) if self.columns else NO_MEASURES
            size = len(line)
            end_token = self.vocabulary.end
            rows.append(
                WordSurprisal(
                    number, len(rows) + 1, "", size, size, end_token, True, tokens.bits[-1], tokens=1, measures=measures
                )
            )
        return rows

    def _measures(self, tokens: _LineTokens, first: int, after: int) -> dict[str, Any]:
        """Return the measures of the word with the tokens [first, after) of a line; None if it has none."""
        if first == after:
            return dict.fromkeys(self.columns)
        values: dict[str, Any] = {"prefix_surprisal": sum(tokens.bits[:after])}
        if tokens.distributions is not None:
            # Entropy before the word and after it; there is none after the last token of the line.
            place = tokens.begin + first
            last = tokens.begin + len(tokens.bits) - 1
            is_last = tokens.begin + after > last
            before_and_after = [place, min(tokens.begin + after, last)]
            entropy, entropy_after = tokens.distributions.entropy[before_and_after].tolist()
            values["entropy"] = entropy / math.log(2)
            values["entropy_reduction"] = None if is_last else (entropy - entropy_after) / math.log(2)
            values["rank"] = int(tokens.distributions.rank[place])
            probabilities = tokens.distributions.log_probs[place].exp().tolist()
            best = zip(tokens.distributions.best[place].tolist(), probabilities, strict=True)
            values["next_words"] = "; ".join(f"{self._text(token)} {probability:.4g}" for token, probability in best)
        values |= dict.fromkeys(BELIEF_MEASURES)
        if tokens.beliefs is not None:
            values |= tokens.beliefs.of_tokens(tokens.given + first, tokens.given + after)
        return {name: values[name] for name in self.columns}


# Log-probabilities of words and sentences given their dependency trees, P(S | T).


def tree_log_probs(bundle: ModelBundle, corpus: DependencyCorpus) -> Numbers:
    """Return ln P(S | T) of each tree, in nats: (S,). Raises InputError like `Scorer.trees`."""
    return np.add.reduceat(Scorer.of(bundle).trees(corpus), corpus.text.offsets[:-1])


def log_probs_of_trees(bundle: ModelBundle, trees: Sequence[DependencyTree], source: str = "") -> Numbers:
    """Return ln P(S | T) of trees in memory, in nats: (n,), in their order.

    Trees that the model cannot distinguish are scored once, so that rounding, which differs between batches, does not
    break ties.

    Args:
        source: the file, for messages, which name trees.

    Raises:
        InputError: like `Scorer.trees`, for words without a path to a root, and for a model that does not read trees or
            returns NaN.
    """
    labels = _labels(bundle)
    model = bundle.require(GeneratesTrees, "scoring of dependency trees")
    vocabulary = bundle.vocabulary
    normaliser = bundle.normaliser

    # What the model reads of each tree: ids of words, heads, and ids of labels if it reads these.
    words_of_trees = [read_words(tree, normaliser) for tree in trees]
    ids = {word: vocabulary.id(normaliser.word(word, word)) for words in words_of_trees for word in words}
    label_ids = [tuple(map(labels.id, tree.labels)) if model.reads_labels else () for tree in trees]
    read = [
        (tuple(map(ids.__getitem__, words)), tree.heads, tree_labels)
        for words, tree, tree_labels in zip(words_of_trees, trees, label_ids, strict=True)
    ]

    distinct = dict(zip(reversed(read), reversed(trees), strict=True))  # the first of equal trees
    corpus = DependencyCorpus.from_trees(distinct.values(), normaliser, vocabulary, labels, source)
    log_probs = tree_log_probs(bundle, corpus)
    place = {tree: place for place, tree in enumerate(distinct)}
    return log_probs[[place[tree] for tree in read]]


def tree_surprisals(bundle: ModelBundle, path: str | Path) -> Iterator[list[WordSurprisal]]:
    """Yield the words of each tree in sentence order, with their surprisal; the surprisals add up to the tree's.

    Args:
        path: a file, a folder or a pattern, as in `dependency_trees`; read some thousand trees at a time. Positions are
            those in the sentence with single spaces between words. The end is not predicted and has no row.

    Raises:
        InputError: like `dependency_trees`, and for a model that does not read trees.
    """
    labels = _labels(bundle)
    vocabulary = bundle.vocabulary
    first = 1
    for chunk in batched(dependency_trees(path), LINES_TOGETHER):
        corpus = DependencyCorpus.from_trees(chunk, bundle.normaliser, bundle.vocabulary, labels, str(path))
        bits = 0.0 - Scorer.of(bundle).trees(corpus) / math.log(2)  # never -0
        for number, (tree, (start, end)) in enumerate(zip(chunk, pairwise(corpus.text.offsets), strict=True), first):
            rows = []
            begin = 0
            for position, (word, tag, surprisal) in enumerate(
                zip(tree.words, tree.tags, bits[start:end].tolist(), strict=True), 1
            ):
                token = vocabulary.id(bundle.normaliser.word(word, tag))
                is_known = token not in vocabulary.unknown_ids
                stop = begin + len(word)
                is_punctuation = is_mark(word)
                rows.append(
                    WordSurprisal(
                        number, position, word, begin, stop, vocabulary.tokens[token], is_known, surprisal,
                        surprisal_word=None if is_punctuation else surprisal,
                        surprisal_marks=surprisal if is_punctuation else 0.0,
                        tokens=1,
                    )
                )  # fmt: skip
                begin = stop + 1
            yield rows
        first += len(chunk)


def _labels(bundle: ModelBundle) -> Vocabulary:
    bundle.require(GeneratesTrees, "scoring of dependency trees")
    assert bundle.labels is not None
    return bundle.labels
