"""The induced grammar of a PCFG: its most used symbols with their rules, words and examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError, amount
from syntaxlm.core.iteration import batched
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.text_files import LINES_TOGETHER, source_name
from syntaxlm.data.corpora import read_sentences
from syntaxlm.drawing.svg import shortened
from syntaxlm.evaluation.phrases import phrase_names
from syntaxlm.generation.sentences import MAXIMUM
from syntaxlm.models.abilities import HasGrammar
from syntaxlm.parsing.structure import structure_of
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import RIGHT, Column, Columns, ReportTable
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser import UntaggedTokenError, as_text
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import TextReader

MAX_EXAMPLES = 1 << 18  # most distinct constituents counted as examples, over all symbols
SYMBOLS = 10  # default number of nonterminals and of preterminals listed
RULES, WORDS, EXAMPLES = 5, 8, 3  # listed for each symbol
LINES = 20  # of a concordance
ANY = "*"  # any symbol, in the rule of a concordance
SAMPLED, SEED = 1_000, 0  # number of sentences sampled if there is no text, and the seed
LONGEST_EXAMPLE = 70  # characters of an example in text and on a page
SMALLEST_PRINTED = 0.0005  # smaller probabilities would be 0.000 with three decimals

LabelledSpan = tuple[int, int, int]


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence with its tree.

    Attributes:
        spans: (first word, last word, nonterminal) of spans of two or more words, both words inclusive.
        word_labels: the label of each word.
        line: number in its file, from 1; 0 for a sampled sentence.
    """

    tokens: Sequence[str]
    spans: Sequence[LabelledSpan]
    word_labels: Sequence[int]
    line: int = 0


@dataclass(frozen=True, eq=False)
class SymbolUse:
    """How often a grammar's symbols are used in some sentences of two or more words.

    Attributes:
        counts: (m + t,), number of constituents of each nonterminal and of words of each preterminal.
        sentences: their number.
        skipped: number of sentences of one word, which the grammar does not generate.
        source: a text file, or None for sentences sampled with the seed SEED.
        classes: tokens that stand for many words, see `class_tokens`.
    """

    counts: Integers
    nonterminal_count: int
    sentences: int
    skipped: int
    examples: dict[int, Counter[tuple[str, ...]]]
    source: str | None = None
    classes: frozenset[str] = frozenset()

    @property
    def constituents(self) -> int:
        return int(self.counts[: self.nonterminal_count].sum())

    @property
    def words(self) -> int:
        return int(self.counts[self.nonterminal_count :].sum())

    def most_used(self, nonterminals: bool, count: int | None = None) -> list[int]:
        """Return the most used nonterminals or preterminals, ties in symbol order; unused symbols are omitted."""
        symbols = np.flatnonzero(self.counts)
        chosen = symbols[(symbols < self.nonterminal_count) == nonterminals]
        order: list[int] = chosen[np.argsort(-self.counts[chosen], kind="stable")][:count].tolist()
        return order

    def share(self, symbol: int) -> float:
        """Return the share of a nonterminal among the constituents, or of a preterminal among the words."""
        total = self.constituents if symbol < self.nonterminal_count else self.words
        return float(self.counts[symbol] / total)

    def to_dict(self) -> dict[str, Any]:
        names = ("source", "sentences", "skipped", "constituents", "words")
        used = {"nonterminals": len(self.most_used(True)), "preterminals": len(self.most_used(False))}
        seed = {"seed": SEED if self.source is None else None}
        return {name: getattr(self, name) for name in names} | seed | used

    def __str__(self) -> str:
        what = f"parsed, {self.source}" if self.source else f"sampled from the grammar, seed {SEED}"
        skipped = f"; {self.skipped:,} of one word skipped" if self.skipped else ""
        return f"{amount(self.sentences, 'sentence')} {what}{skipped}"

    def examples_of(self, symbol: int, count: int) -> list[tuple[str, ...]]:
        """Return the most frequent constituents of a nonterminal; of equally frequent ones the shortest first.

        Those with tokens that stand for many words come last: they show little.
        """
        counts = self.examples.get(symbol, Counter())
        return sorted(counts, key=lambda words: (not self.classes.isdisjoint(words), -counts[words], len(words)))[
            :count
        ]


def class_tokens(bundle: ModelBundle) -> frozenset[str]:
    """Return the tokens that stand for many words: the unknown word, its classes, and N where numbers are replaced."""
    number = {"N"} if bundle.settings.normaliser.numbers != "keep" else set()
    return frozenset(bundle.vocabulary.decode(bundle.vocabulary.unknown_ids)) | number


def use_of(
    sentences: Iterable[LabelledSentence],
    model: HasGrammar,
    source: str | None = None,
    classes: frozenset[str] = frozenset(),
) -> SymbolUse:
    """Count the symbols of a model in sentences with trees.

    Args:
        source: see `SymbolUse`.
        classes: see `SymbolUse`.
    """
    counts = np.zeros(len(model.labels), np.int64)
    examples: dict[int, Counter[tuple[str, ...]]] = {}
    number = skipped = kept = 0
    for sentence in sentences:
        if len(sentence.tokens) < 2:
            skipped += 1
            continue
        number += 1
        np.add.at(counts, list(sentence.word_labels), 1)
        for first, last, symbol in sentence.spans:
            counts[symbol] += 1
            symbol_examples = examples.setdefault(symbol, Counter())
            words = tuple(sentence.tokens[first : last + 1])
            if words in symbol_examples or kept < MAX_EXAMPLES:
                kept += words not in symbol_examples
                symbol_examples[words] += 1
    return SymbolUse(counts, model.nonterminal_count, number, skipped, examples, source, classes)


def sampled_sentences(bundle: ModelBundle, count: int, seed: int) -> Iterator[LabelledSentence]:
    """Yield sentences sampled from the grammar, with unknown words."""
    model = bundle.require(HasGrammar, "sampling")
    longest = MAXIMUM[bundle.normaliser.units]
    generator = np.random.default_rng(seed)
    for _ in range(count):
        (drawn,) = model.sample(1, longest, generator)
        yield LabelledSentence(bundle.vocabulary.decode(drawn.words), drawn.spans, drawn.word_labels)


def parsed_sentences(bundle: ModelBundle, path: str | Path) -> Iterator[LabelledSentence]:
    """Yield the sentences of a text file with their minimum Bayes risk trees and each span's most probable label.

    Words are split as the vocabulary requires, see `TextReader.of`.

    Raises:
        InputError: like `read_sentences`, and for a text without a sentence of two or more words.
    """
    lines = read_sentences(path, bundle.normaliser)
    reader = TextReader.of(bundle.normaliser, bundle.vocabulary, TextOptions())
    is_empty = True
    for chunk in batched(lines, LINES_TOGETHER):
        sentences = []
        for number, line in chunk:
            try:
                tokens = reader.tokens(line)
            except UntaggedTokenError as error:
                raise error.at(f"{path}, line {number}") from None
            if len(tokens) == 1:
                yield LabelledSentence(tokens, (), (), number)
            elif tokens:
                sentences.append((number, tokens))
        if not sentences:
            continue
        is_empty = False
        trees = structure_of(bundle, [tokens for _, tokens in sentences]).labelled("mbr")
        assert trees.labels is not None
        rows = list(zip(trees.starts.tolist(), (trees.ends - 1).tolist(), trees.labels.tolist(), strict=True))
        for (number, tokens), (begin, end) in zip(sentences, pairwise(trees.offsets.tolist()), strict=True):
            words = sorted((first, label) for first, last, label in rows[begin:end] if first == last)
            spans = [span for span in rows[begin:end] if span[0] < span[1]]
            yield LabelledSentence(tokens, spans, [label for _, label in words], number)
    if is_empty:
        raise InputError(
            f"{path}: found no sentence of two or more words; expected one or more, because a grammar does not parse"
            " single words"
        )


@dataclass(frozen=True)
class ListedRule:
    """A binary rule.

    Attributes:
        left: its left child.
        right: its right child.
        left_word: the most probable word of a left preterminal, see `ListedPreterminal`; None for a nonterminal.
        right_word: the same of the right child.
        left_phrase: the phrase that a left nonterminal resembles, see `ListedNonterminal`; None if none.
        right_phrase: the same of the right child.
    """

    left: str
    right: str
    probability: float
    left_word: str | None = None
    right_word: str | None = None
    left_phrase: str | None = None
    right_phrase: str | None = None

    def __str__(self) -> str:
        children = (self.left, self.left_word, self.left_phrase), (self.right, self.right_word, self.right_phrase)
        return " ".join(
            f"{name} ({word})" if word is not None else _with_phrase(name, phrase) for name, word, phrase in children
        )


@dataclass(frozen=True)
class ListedNonterminal:
    """A nonterminal.

    Attributes:
        count: number of constituents with this label.
        share: share of constituents with this label.
        start_probability: p(S -> A).
        phrase: the English phrase that its constituents resemble, such as NP, see `phrase_names`; None if none.
        rules: the most probable rules.
        examples: its most frequent constituents, as text.
    """

    symbol: str
    phrase: str | None
    count: int
    share: float
    start_probability: float
    rules: tuple[ListedRule, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ListedWord:
    """A word of a preterminal.

    Attributes:
        probability: p(w | T).
    """

    word: str
    probability: float


@dataclass(frozen=True)
class ListedPreterminal:
    """A preterminal.

    Tokens that stand for many words are left out where there are others, see `class_tokens`.

    Attributes:
        count: number of words with this label.
        share: share of words with this label.
        words: its most probable words.
    """

    symbol: str
    count: int
    share: float
    words: tuple[ListedWord, ...]


GRAMMAR_ENTRIES = Columns(
    "grammar",
    "rule of a nonterminal, or word of a preterminal",
    {
        "symbol": Column("text", "the symbol"),
        "type": Column("text", "nonterminal or preterminal"),
        "phrase": Column("text", "English phrase that the constituents of a nonterminal resemble, such as NP"),
        "count": Column("integer", "number of constituents or words with this label"),
        "share": Column("number", "share of all constituents or words, 0 to 1"),
        "start_probability": Column("number", "p(S -> symbol); missing for preterminals"),
        "left": Column("text", "left child of the rule; missing for words"),
        "right": Column("text", "right child of the rule; missing for words"),
        "left_word": Column("text", "most probable word of a left child that is a preterminal"),
        "right_word": Column("text", "most probable word of a right child that is a preterminal"),
        "word": Column("text", "word of the preterminal; missing for rules"),
        "probability": Column("number", "probability of the rule or word, given the symbol"),
    },
)


@dataclass(frozen=True, eq=False)
class GrammarReport(HasReport):
    """A grammar's most used symbols.

    Attributes:
        rules_note: which rules are listed; "" for a grammar with fixed rules.
    """

    model_type: str
    nonterminal_count: int
    preterminal_count: int
    rules_note: str
    use: SymbolUse
    nonterminals: tuple[ListedNonterminal, ...]
    preterminals: tuple[ListedPreterminal, ...]

    def report(self) -> Report:
        """Return the listed rules and words, with a table for each nonterminal."""
        use, used = self.use, self.use.to_dict()
        rows = []
        tables = []
        for nonterminal in self.nonterminals:
            rows += [{"type": "nonterminal", **vars(nonterminal), **vars(rule)} for rule in nonterminal.rules]
            tables.append(_rule_table(nonterminal))
        preterminals = []
        for preterminal in self.preterminals:
            rows += [{"type": "preterminal", **vars(preterminal), **vars(word)} for word in preterminal.words]
            words = "  ".join(f"{word.word} {_number(word.probability)}" for word in preterminal.words)
            preterminals.append([preterminal.symbol, _percent(preterminal.share), words])
        headings = {"preterminal": "", "of words": RIGHT, "most probable words, p(w | T)": ""}
        return Report(
            GRAMMAR_ENTRIES,
            [{name: row.get(name) for name in GRAMMAR_ENTRIES} for row in rows],
            {"schema_version": 1, **vars(self)},
            {
                self.model_type: "",
                "nonterminals": self.nonterminal_count,
                "preterminals": self.preterminal_count,
                **({self.rules_note: ""} if self.rules_note else {}),
            },
            [
                f"use: {use}   constituents {use.constituents:,}   words {use.words:,}",
                f"nonterminals in use {used['nonterminals']:,}   preterminals in use {used['preterminals']:,}",
            ],
            [*tables, ReportTable(headings, preterminals)],
        )


def _rule_table(nonterminal: ListedNonterminal) -> ReportTable:
    """Return the rules of a nonterminal, below its share, p(S -> A) unless it is tiny, and examples."""
    title = f"{_with_phrase(nonterminal.symbol, nonterminal.phrase)}   {_percent(nonterminal.share)} of constituents"
    if nonterminal.start_probability >= SMALLEST_PRINTED:
        title += f"   p(S -> {nonterminal.symbol}) {_number(nonterminal.start_probability)}"
    examples = " | ".join(shortened(example, LONGEST_EXAMPLE) for example in nonterminal.examples)
    rules = [[_number(rule.probability), str(rule)] for rule in nonterminal.rules]
    return ReportTable({"p": RIGHT, "rule": ""}, rules, f"{title}\nexamples: {examples}", is_named_last=True)


def list_grammar(bundle: ModelBundle, text: str | Path | None = None, symbols: int = SYMBOLS) -> GrammarReport:
    """Return the most used symbols of a model's grammar, with rules, words and examples.

    Args:
        text: a text file that is parsed to count symbols; None: sentences are sampled from the grammar.
        symbols: number of nonterminals and of preterminals to list.

    Raises:
        InputError: for a model without a grammar, and for a text without sentences of two or more words.
    """
    if symbols < 1:
        raise InputError(f"symbols: found {symbols}; expected 1 or more")
    model = bundle.require(HasGrammar, "syntaxlm grammar")
    bundle.model.eval()
    if text is None:
        source = None
        sentences = progress_bar(sampled_sentences(bundle, SAMPLED, SEED), "sampling", SAMPLED)
    else:
        source = source_name(text)
        sentences = progress_bar(parsed_sentences(bundle, text), "parsing")
    classes = class_tokens(bundle)
    use = use_of(sentences, model, source, classes)
    labels, starts = list(model.labels), model.start_probabilities()
    phrases = phrase_names(use.examples) if bundle.normaliser.units == "words" else {}

    def words_of(symbol: int, count: int) -> tuple[ListedWord, ...]:
        top = model.top_words(symbol, count + len(classes))
        words = bundle.vocabulary.decode(top_word.word for top_word in top)
        entries = [ListedWord(word, top_word.probability) for word, top_word in zip(words, top, strict=True)]
        ordinary = [entry for entry in entries if entry.word not in classes]
        return tuple((ordinary or entries)[:count])

    def rule(left: int, right: int, probability: float) -> ListedRule:
        words = (None if child < use.nonterminal_count else words_of(child, 1)[0].word for child in (left, right))
        return ListedRule(
            labels[left], labels[right], probability, *words, *(phrases.get(child) for child in (left, right))
        )

    nonterminals = tuple(
        ListedNonterminal(
            labels[symbol],
            phrases.get(symbol),
            int(use.counts[symbol]),
            use.share(symbol),
            float(starts[symbol]),
            tuple(rule(*entry) for entry in model.top_rules(symbol, RULES)),
            tuple(as_text(bundle.normaliser, list(words)) for words in use.examples_of(symbol, EXAMPLES)),
        )
        for symbol in use.most_used(True, symbols)
    )
    preterminals = tuple(
        ListedPreterminal(labels[symbol], int(use.counts[symbol]), use.share(symbol), words_of(symbol, WORDS))
        for symbol in use.most_used(False, symbols)
    )
    counts = use.nonterminal_count, len(labels) - use.nonterminal_count
    return GrammarReport(bundle.name, *counts, model.rules_note, use, nonterminals, preterminals)


CONCORDANCE = Columns(
    "concordance",
    "constituent that the rule produced",
    {
        "line": Column("integer", "line of the text, from 1"),
        "before": Column("text", "words before the constituent"),
        "left": Column("text", "words of the left child"),
        "right": Column("text", "words of the right child"),
        "after": Column("text", "words after the constituent"),
        "rule": Column("text", "the rule, parent -> left right"),
    },
)


@dataclass(frozen=True, eq=False)
class Concordance(HasReport):
    """Constituents of a text that a rule makes, with their contexts.

    Attributes:
        rule: as asked for.
        constituents: the listed ones, with the columns of CONCORDANCE.
        count: the count of all.
    """

    rule: str
    count: int
    constituents: tuple[dict[str, Any], ...]

    def report(self) -> Report:
        lines = [
            [
                _end(str(row["before"]), LONGEST_EXAMPLE // 2),
                f"[{shortened(str(row['left']), LONGEST_EXAMPLE)} | {shortened(str(row['right']), LONGEST_EXAMPLE)}]",
                shortened(str(row["after"]), LONGEST_EXAMPLE // 2),
            ]
            for row in self.constituents
        ]
        table = ReportTable({"before": RIGHT, "[left | right]": "", "after": ""}, lines)
        listed = f"{self.count:,} constituents"
        if self.count > len(lines):
            listed += f", the first {len(lines)} listed"
        data = {"schema_version": 1, **vars(self)}
        return Report(CONCORDANCE, list(self.constituents), data, {self.rule: ""}, [listed], [table])


def list_concordance(bundle: ModelBundle, text: str | Path, rule: str, lines: int = LINES) -> Concordance:
    """Return the constituents of a parsed text that a rule makes.

    Args:
        rule: parent, left and right child, such as "NT-3 -> NT-4 T-7"; * stands for any symbol, and the arrow may be
            left out.
        lines: number of constituents to list.

    Raises:
        InputError: for a rule of another form or with unknown symbols, and like `list_grammar`.
    """
    model = bundle.require(HasGrammar, "syntaxlm grammar")
    bundle.model.eval()
    labels = list(model.labels)
    wanted = rule.replace("->", " ").replace("→", " ").split()
    if len(wanted) != 3:
        raise InputError(f"rule: found {rule!r}; expected three symbols, such as 'NT-3 -> NT-4 T-7' or 'NT-3 -> * *'")
    for symbol in wanted:
        if symbol not in labels and symbol != ANY:
            raise InputError(
                f"rule: found {symbol}; expected a symbol of the grammar, {labels[0]} to {labels[-1]}, or *"
            )
    count = 0
    rows: list[dict[str, Any]] = []
    for sentence in progress_bar(parsed_sentences(bundle, text), "parsing"):
        symbol_at = {(first, last): symbol for first, last, symbol in sentence.spans}
        symbol_at |= {(place, place): symbol for place, symbol in enumerate(sentence.word_labels)}
        for first, last, parent in sorted(sentence.spans):
            # The trees are binary: exactly one split has a constituent or a word on each side.
            middle = next(k for k in range(first, last) if (first, k) in symbol_at and (k + 1, last) in symbol_at)
            names = [labels[symbol] for symbol in (parent, symbol_at[first, middle], symbol_at[middle + 1, last])]
            if all(symbol in (ANY, name) for symbol, name in zip(wanted, names, strict=True)):
                count += 1
                if len(rows) < lines:
                    cuts = 0, first, middle + 1, last + 1, len(sentence.tokens)
                    parts = (as_text(bundle.normaliser, list(sentence.tokens[a:b])) for a, b in pairwise(cuts))
                    values = (sentence.line, *parts, f"{names[0]} -> {names[1]} {names[2]}")
                    rows.append(dict(zip(CONCORDANCE, values, strict=True)))
    return Concordance(rule, count, tuple(rows))


def _with_phrase(symbol: str, phrase: str | None) -> str:
    return symbol if phrase is None else f"{symbol} ({phrase}-like)"


def _end(text: str, size: int) -> str:
    """Return the end of a text that is too long."""
    return text if len(text) <= size else "…" + text[len(text) - size + 1 :]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share >= SMALLEST_PRINTED else "<0.1%"


def _number(probability: float) -> str:
    return f"{probability:.3f}" if probability >= SMALLEST_PRINTED else f"{probability:.0e}"
