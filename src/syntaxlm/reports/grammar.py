"""The induced grammar of a PCFG: its most used symbols with their rules, words and examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from syntaxlm import result_tables
from syntaxlm.drawing.svg import Theme
from syntaxlm.drawing.text import shortened
from syntaxlm.errors import InputError
from syntaxlm.files import refuse_overwriting, to_json, write_text
from syntaxlm.generation.sampling import as_text
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import HasGrammar
from syntaxlm.progress import progress_bar
from syntaxlm.reports.grammar_use import SymbolUse, parsed_sentences, sampled_sentences, use_of
from syntaxlm.reports.page import KeyFigure, Page, Paragraph, Section, Table
from syntaxlm.result_tables import Column
from syntaxlm.text_files import source_name

SCHEMA_VERSION = 1
SYMBOLS = 10  # default number of nonterminals and of preterminals listed
RULES, WORDS, EXAMPLES = 5, 8, 3  # listed for each symbol
SAMPLED, SEED = 1_000, 0  # number of sentences sampled if there is no text, and the seed
LONGEST_EXAMPLE = 70  # characters of an example in text and on a page
SHOWN = 0.0005  # smaller probabilities would be 0.000 with three decimals
FORMATS = (".txt", ".json", ".html")


@dataclass(frozen=True)
class ListedRule:
    """A binary rule. left, right: its children.

    left_word, right_word: the most probable word of a preterminal child; None for a nonterminal.
    """

    left: str
    right: str
    probability: float
    left_word: str | None = None
    right_word: str | None = None

    def __str__(self) -> str:
        pairs = (self.left, self.left_word), (self.right, self.right_word)
        return " ".join(name if word is None else f"{name} ({word})" for name, word in pairs)


@dataclass(frozen=True)
class ListedNonterminal:
    """A nonterminal. count, share: number and share of constituents with this label.  start_probability: p(S -> A).

    rules: the most probable rules.  examples: its most frequent constituents, as text.
    """

    symbol: str
    count: int
    share: float
    start_probability: float
    rules: tuple[ListedRule, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ListedWord:
    """A word of a preterminal. probability: p(w | T)."""

    word: str
    probability: float


@dataclass(frozen=True)
class ListedPreterminal:
    """A preterminal. count, share: number and share of words with this label.  words: its most probable words."""

    symbol: str
    count: int
    share: float
    words: tuple[ListedWord, ...]


@dataclass(frozen=True)
class Use:
    """The sentences in which symbols are counted. source: a text file, or None for sentences sampled with a seed.

    skipped: number of one-word sentences, which are not in the grammar and not counted.
    nonterminals, preterminals: number of symbols that occur.
    """

    source: str | None
    seed: int | None
    sentences: int
    skipped: int
    constituents: int
    words: int
    nonterminals: int
    preterminals: int

    def __str__(self) -> str:
        what = f"parsed, {self.source}" if self.source else f"sampled from the grammar, seed {self.seed}"
        skipped = f"; {self.skipped:,} of one word skipped" if self.skipped else ""
        return f"{self.sentences:,} sentences {what}{skipped}"


GRAMMAR_ENTRIES = result_tables.Table(
    "grammar",
    "rule of a nonterminal, or word of a preterminal",
    {
        "symbol": Column("text", "the symbol"),
        "type": Column("text", "nonterminal or preterminal"),
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


@dataclass(frozen=True)
class GrammarReport(result_tables.HasRows):
    """A grammar's most used symbols. rules_note: which rules are listed; "" for a grammar with fixed rules."""

    model_type: str
    nonterminal_count: int
    preterminal_count: int
    rules_note: str
    use: Use
    nonterminals: tuple[ListedNonterminal, ...]
    preterminals: tuple[ListedPreterminal, ...]

    table = GRAMMAR_ENTRIES

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The listed rules and words, with the columns of `GRAMMAR_ENTRIES`."""
        empty = dict.fromkeys(GRAMMAR_ENTRIES.columns)
        for one in self.nonterminals:
            head = {name: getattr(one, name) for name in ("symbol", "count", "share", "start_probability")}
            for rule in one.rules:
                yield {**empty, **head, "type": "nonterminal", **asdict(rule)}
        for each in self.preterminals:
            head = {name: getattr(each, name) for name in ("symbol", "count", "share")}
            for word in each.words:
                yield {**empty, **head, "type": "preterminal", **asdict(word)}

    def __str__(self) -> str:
        use = self.use
        lines = [
            f"{self.model_type}   nonterminals {self.nonterminal_count:,}   preterminals {self.preterminal_count:,}"
            + (f"   {self.rules_note}" if self.rules_note else ""),
            f"use: {use}   constituents {use.constituents:,}   words {use.words:,}",
            f"nonterminals in use {use.nonterminals:,}   preterminals in use {use.preterminals:,}",
        ]
        for one in self.nonterminals:
            lines += ["", "   ".join(_headings(one))]
            lines += [f"  {_number(rule.probability)}  {rule}" for rule in one.rules]
            lines.append(f"  examples: {_joined(one.examples)}")
        lines.append("")
        width = max((len(each.symbol) for each in self.preterminals), default=0)
        for each in self.preterminals:
            words = "  ".join(f"{word.word} {_number(word.probability)}" for word in each.words)
            lines.append(f"{each.symbol:<{width}}  {_percent(each.share):>6} of words   {words}")
        return "\n".join(lines)

    def page(self) -> Page:
        """The grammar as an HTML page in a single file."""
        use = self.use
        figures = (
            KeyFigure("nonterminals in use", f"{use.nonterminals:,} of {self.nonterminal_count:,}", str(use)),
            KeyFigure("preterminals in use", f"{use.preterminals:,} of {self.preterminal_count:,}", str(use)),
            KeyFigure("constituents", f"{use.constituents:,}", f"{use.words:,} words"),
        )
        explained = (
            "The most used nonterminals, with their most probable binary rules, p(A → B C), and their most frequent"
            " constituents. A preterminal is followed by its most probable word."
            + (f" Listed are the {self.rules_note}." if self.rules_note else "")
        )
        words = "The most used preterminals, with their most probable words, p(w | T)."
        return Page(
            f"Grammar of a {self.model_type} model",
            figures,
            (
                Section("Nonterminals", (Paragraph(explained), *map(_nonterminal_table, self.nonterminals)), True),
                Section("Preterminals", (Paragraph(words), *map(_preterminal_table, self.preterminals)), True),
            ),
        )

    def write(self, path: str | Path, theme: Theme = "auto") -> None:
        """Write the grammar atomically, as text (.txt), JSON (.json) or HTML (.html). Raises InputError."""
        suffix = check_format(path)
        if suffix == ".html":
            self.page().write(Path(path), theme)
        else:
            text = str(self) if suffix == ".txt" else to_json(self.to_dict(), indent=2)
            write_text(text + "\n", path)


def check_format(path: str | Path) -> str:
    """The extension of an output file. Raises InputError for an unsupported one."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path}: found the extension {suffix or 'none'}; expected one of {', '.join(FORMATS)}")
    return suffix


def list_grammar(
    stored: ModelBundle, text: str | Path | None = None, symbols: int = SYMBOLS, output: str | Path | None = None
) -> GrammarReport:
    """The most used symbols of a model's grammar, with rules, words and examples.

    text: a text file that is parsed to count symbols; None: sentences are sampled from the grammar.
    symbols: number of nonterminals and of preterminals to list.  output: file to which the report is also written.
    Raises InputError for a model without a grammar, a text without sentences of two or more words, and an output file
    with an unsupported extension.
    """
    if output is not None:
        check_format(output)
        refuse_overwriting(output, [text])
    if symbols < 1:
        raise InputError(f"symbols: found {symbols}; expected 1 or more")
    model = stored.require(HasGrammar, "syntaxlm grammar")
    stored.model.eval()
    if text is None:
        source, sentences = None, progress_bar(sampled_sentences(stored, SAMPLED, SEED), "sampling", SAMPLED)
    else:
        source, sentences = source_name(text), progress_bar(parsed_sentences(stored, text), "parsing")
    report = _listed(stored, model, use_of(sentences, model), source, symbols)
    if output is not None:
        report.write(output)
    return report


def _listed(stored: ModelBundle, model: HasGrammar, use: SymbolUse, source: str | None, symbols: int) -> GrammarReport:
    labels, starts = list(model.labels), model.start_probabilities()

    def words_of(symbol: int, count: int) -> tuple[ListedWord, ...]:
        found = model.top_words(symbol, count)
        words = stored.vocabulary.decode(one.word for one in found)
        return tuple(ListedWord(word, one.probability) for word, one in zip(words, found, strict=True))

    def rule(left: int, right: int, probability: float) -> ListedRule:
        words = (None if one < use.nonterminal_count else words_of(one, 1)[0].word for one in (left, right))
        return ListedRule(labels[left], labels[right], probability, *words)

    nonterminals = tuple(
        ListedNonterminal(
            labels[symbol],
            int(use.counts[symbol]),
            use.share(symbol),
            float(starts[symbol]),
            tuple(rule(*one) for one in model.top_rules(symbol, RULES)),
            tuple(as_text(stored.normaliser, list(words)) for words in use.examples_of(symbol, EXAMPLES)),
        )
        for symbol in use.most_used(True, symbols)
    )
    preterminals = tuple(
        ListedPreterminal(labels[symbol], int(use.counts[symbol]), use.share(symbol), words_of(symbol, WORDS))
        for symbol in use.most_used(False, symbols)
    )
    counts = use.nonterminal_count, len(labels) - use.nonterminal_count
    counted = Use(
        source,
        SEED if source is None else None,
        use.sentences,
        use.skipped,
        use.constituents,
        use.words,
        use.used(True),
        use.used(False),
    )
    return GrammarReport(stored.name, *counts, model.rules_note, counted, nonterminals, preterminals)


def _nonterminal_table(one: ListedNonterminal) -> Table:
    rows = tuple((str(rule), _number(rule.probability)) for rule in one.rules)
    title = ", ".join(_headings(one)).replace("->", "→")
    return Table(title, ("rule", "probability"), rows, _joined(one.examples), numeric=False)


def _preterminal_table(one: ListedPreterminal) -> Table:
    rows = tuple((word.word, _number(word.probability)) for word in one.words)
    return Table(f"{one.symbol}, {_percent(one.share)} of words", ("word", "probability"), rows, numeric=False)


def _headings(one: ListedNonterminal) -> list[str]:
    """The heading of a nonterminal, with p(S -> A) unless it is tiny."""
    headings = [one.symbol, f"{_percent(one.share)} of constituents"]
    if one.start_probability >= SHOWN:
        headings.append(f"p(S -> {one.symbol}) {_number(one.start_probability)}")
    return headings


def _joined(examples: Sequence[str]) -> str:
    return " | ".join(shortened(example, LONGEST_EXAMPLE) for example in examples)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share >= SHOWN else "<0.1%"


def _number(probability: float) -> str:
    return f"{probability:.3f}" if probability >= SHOWN else f"{probability:.0e}"
