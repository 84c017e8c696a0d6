"""The built-in corpus: sentences sampled from a probabilistic grammar of a fragment of English, as text and as trees.

Every sampled sentence has a constituency tree, a dependency tree and a probability, so a model trained on the corpus
can be compared with the true grammar: `ToyGrammar.perplexity_floor` is the lowest perplexity that any model can have in
expectation. `toy.yaml` contains the rules and words and explains their notation.

Sentences are never truncated or rejected, because the recursion probabilities are low enough that very long sentences
are rare. Therefore sampling and scoring use exactly the same distribution.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from syntaxlm.core.errors import InputError, listed
from syntaxlm.core.files import (
    UNFINISHED,
    parse_json,
    read_text,
    sha256,
    system_error,
    write_text,
    written_together,
)
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.settings import LARGEST_SEED, check_number
from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.trees.charts import equal_lengths, parts
from syntaxlm.trees.conllu import write_conllu
from syntaxlm.trees.tree import Constituent, DependencyTree, Tree, write_brackets

_LITERAL = re.compile(r"(?P<word>[^A-Z\[\]\s]+)_(?P<tag>[A-Z$]+)")
_FEATURE = re.compile(r"(?<=[\[,])[^\[\],]+(?=[\],])")  # "person" and "n" in NP[person,n]
_CHILD = re.compile(r"(?P<symbol>[^*/\s]+)(?P<head>\*)?(?:/(?P<relation>\S+))?")
COMMA = ","  # between children, where text with punctuation has a comma; also its tag

Features = Mapping[str, Mapping[str, float]]


class Rule(NamedTuple):
    """One rule of a grammar, with expanded features.

    Attributes:
        head: 0-based index of the head child.
        relations: one relation per child, "" for the head.
        commas: indices of the children before which a comma is written, in text with punctuation.
    """

    category: str
    children: tuple[str, ...]
    probability: float
    head: int
    relations: tuple[str, ...]
    commas: tuple[int, ...] = ()


class LexicalCategory(NamedTuple):
    """The tag and the words of one preterminal. The probabilities of the words sum to 1."""

    tag: str
    words: tuple[str, ...]
    probabilities: tuple[float, ...]

    @classmethod
    def zipf(cls, tag: str, words: Sequence[str]) -> LexicalCategory:
        """Build a category in which the word of rank r (1-based) has a probability proportional to 1 / r."""
        total = sum(1 / rank for rank in range(1, len(words) + 1))
        return cls(tag, tuple(words), tuple(1 / rank / total for rank in range(1, len(words) + 1)))


def read_rules(table: str, features: Features, start: str) -> list[Rule]:
    """Return the rules reachable from `start`, with expanded features and normalised weights.

    Args:
        table: lines in the notation of `toy.yaml`. A category without a line has no rule and must be in the lexicon.
    """
    weights: dict[str, dict[tuple[tuple[str, ...], int, tuple[str, ...], tuple[int, ...]], float]] = defaultdict(dict)
    for line in filter(str.strip, table.splitlines()):
        left, _, right = line.partition("->")
        for alternative in right.split("|"):
            weight, *parts = alternative.split()
            written = [part for part in parts if part != COMMA]
            places = [place for place, part in enumerate(parts) if part == COMMA]
            commas = tuple(place - number for number, place in enumerate(places))
            children = [child for text in written if (child := _CHILD.fullmatch(text))]
            heads = [place for place, child in enumerate(children) if child["head"] or len(children) == 1]
            relations = tuple(child["relation"] or "" for child in children)
            for category, symbols, share in _expanded(left.strip(), [child["symbol"] for child in children], features):
                key = symbols, heads[0], relations, commas
                weights[category][key] = weights[category].get(key, 0.0) + float(weight) * share
    rules: list[Rule] = []
    seen, agenda = {start}, [start]
    while agenda:
        category = agenda.pop()
        total = sum(weights[category].values())
        for (symbols, head, relations, commas), share in weights[category].items():
            rules.append(Rule(category, symbols, share / total, head, relations, commas))
            fresh = [symbol for symbol in dict.fromkeys(symbols) if symbol not in seen]
            seen.update(fresh)
            agenda.extend(fresh)
    return rules


def _expanded(left: str, right: Sequence[str], features: Features) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield category, children and share for each assignment of the variables of a rule.

    Each value of a variable on the left has all of the weight; those of the others share it.
    """
    on_left = _FEATURE.findall(left)
    names = [name for name in dict.fromkeys(_FEATURE.findall(" ".join([left, *right]))) if name in features]
    for values in itertools.product(*(features[name] for name in names)):
        binding = dict(zip(names, values, strict=True))
        shares = (features[name][binding[name]] / sum(features[name].values()) for name in names if name not in on_left)
        category, *children = (_bound(symbol, binding) for symbol in (left, *right))
        yield category, tuple(children), math.prod(shares)


def _bound(symbol: str, binding: Mapping[str, str]) -> str:
    """Return a symbol with the values of its variables."""
    return _FEATURE.sub(lambda name: binding.get(name[0], name[0]), symbol)


def plural(noun: str) -> str:
    """Return the regular plural of a noun or the regular third person singular of a verb."""
    if noun.endswith(("s", "x", "z", "ch", "sh", "o")) and noun != "piano":
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def verb_forms(entry: str) -> dict[str, str]:
    """Return the six forms of a verb entry such as "give:gave:given", by the names of the feature f."""
    base, *irregular = entry.split(":")
    stem = base[:-1] if base.endswith("e") else base
    past = base[:-1] + "ied" if base.endswith("y") and base[-2] not in "aeiou" else stem + "ed"
    regular_ing = (base if base.endswith("ee") else stem) + "ing"
    past = irregular[0] if irregular else past
    done = irregular[1] if len(irregular) > 1 else past
    ing = irregular[2] if len(irregular) > 2 else regular_ing
    return {"sg": plural(base), "pl": base, "base": base, "past": past, "done": done, "ing": ing}


@cache
def english_fragment() -> ToyGrammar:
    """Return the built-in fragment of English."""
    words = read_yaml(Path(__file__).with_name("toy.yaml"))
    lexicon = {"Noun[meal,sg]": LexicalCategory.zipf("NN", words["meals"].split())}
    for noun_class, line in words["nouns"].items():
        nouns = [entry.split(":") for entry in line.split()]
        lexicon[f"Noun[{noun_class},sg]"] = LexicalCategory.zipf("NN", [noun[0] for noun in nouns])
        plurals = [noun[1] if len(noun) > 1 else plural(noun[0]) for noun in nouns]
        lexicon[f"Noun[{noun_class},pl]"] = LexicalCategory.zipf("NNS", plurals)
    for section, name, tag in (("names", "Name", "NNP"), ("adjectives", "Adj", "JJ")):
        for word_class, line in words[section].items():
            lexicon[f"{name}[{word_class}]"] = LexicalCategory.zipf(tag, line.split())
    for verb_class, line in words["verbs"].items():
        verbs = [verb_forms(entry) for entry in line.split()]
        for form, tag in words["verb_tags"].items():
            lexicon[f"Verb[{verb_class},{form}]"] = LexicalCategory.zipf(tag, [verb[form] for verb in verbs])
    for row in words["closed"].splitlines():
        name, tag, *closed = row.split()
        lexicon[name] = LexicalCategory.zipf(tag, closed)
    labels = {category: label for label, line in words["labels"].items() for category in line.split()}
    return ToyGrammar(read_rules(words["rules"], words["features"], "TOP"), lexicon, labels, "TOP")


@dataclass(frozen=True)
class ToySentence:
    """A sampled sentence with its gold trees, without punctuation.

    Attributes:
        log_probability: log probability of the derivation, in nats.
        commas: number of words before each comma.
    """

    tree: Tree
    dependencies: DependencyTree
    log_probability: float
    commas: tuple[int, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return self.tree.words

    def with_punctuation(self) -> Tree:
        """Return the tree with commas and a full stop. A comma is a child of the smallest constituent around it."""
        tree = self.tree
        words = list(tree.words)
        tags = list(tree.tags)
        size = len(tree) + len(self.commas) + 1
        for place in reversed(self.commas):
            words.insert(place, COMMA)
            tags.insert(place, COMMA)
        first, *others = (
            Constituent(
                constituent.label,
                constituent.start + self._commas(constituent.start + 1),
                constituent.end + self._commas(constituent.end),
            )
            for constituent in tree.constituents
        )
        whole = Constituent(first.label, 0, size)
        return Tree((*words, "."), (*tags, "."), (whole, *others))

    def _commas(self, words: int) -> int:
        """Return the number of commas before the word with this number, from 1."""
        return sum(place < words for place in self.commas)


class ToyGrammar:
    """A probabilistic context-free grammar with head children, with exact sampling and scoring.

    A literal child such as "that_IN" is a preterminal with this one word.

    Args:
        rules: the rules, from `read_rules`.
        lexicon: maps preterminals to their words.
        labels: maps category names without features to constituent labels. Categories without a label give no
            constituent.
        start: the category of a sentence.
    """

    def __init__(
        self, rules: Sequence[Rule], lexicon: Mapping[str, LexicalCategory], labels: Mapping[str, str], start: str
    ) -> None:
        self.start = start
        self.labels = dict(labels)
        self.rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self.rules.setdefault(rule.category, []).append(rule)
        used = dict.fromkeys([start, *(child for rule in rules for child in rule.children)])
        self.lexicon = {name: lexicon[name] for name in used if name in lexicon}
        for name in used:
            if literal := _LITERAL.fullmatch(name):
                self.lexicon[name] = LexicalCategory(literal["tag"], (literal["word"],), (1.0,))

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """All words, sorted."""
        return tuple(sorted({word for entry in self.lexicon.values() for word in entry.words}))

    def expected_length(self) -> float:
        """Return the exact expected length of a sentence, in words; negative if derivations have infinite size.

        Solves x = w + M x, where M[a, b] is the expected number of children b of category a, and w[a] that of words.
        """
        index = {name: position for position, name in enumerate(self.rules)}
        children = np.zeros((len(index), len(index)))
        words = np.zeros(len(index))
        for rule in itertools.chain.from_iterable(self.rules.values()):
            for child in rule.children:
                if child in index:
                    children[index[rule.category], index[child]] += rule.probability
                else:
                    words[index[rule.category]] += rule.probability
        return float(np.linalg.solve(np.eye(len(index)) - children, words)[index[self.start]])

    @cached_property
    def _sampler(self) -> _Sampler:
        return _Sampler(self)

    @cached_property
    def _inside(self) -> _Inside:
        return _Inside(self)

    def sample(self, count: int, seed: int) -> list[ToySentence]:
        """Sample `count` independent sentences. The same seed gives the same sentences."""
        generator = np.random.default_rng(seed)
        draw = itertools.chain.from_iterable(iter(lambda: generator.random(8192).tolist(), None)).__next__
        return [self._sampler.sentence(draw) for _ in progress_bar(range(count), "sampling sentences")]

    def inside_log_probabilities(self, sentences: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """Return the log probability (nats) of each sentence, summed over all derivations. Shape: (sentences,).

        The value is -inf for a sentence that the grammar does not generate. The end of the sentence is included, so the
        probabilities of all sentences sum to 1. Uses the inside algorithm on the binarised grammar and sums unary
        chains with a matrix inverse. Sources: Baker 1979; Stolcke 1995 (unit productions).
        """
        return self._inside.log_probabilities(sentences)

    def perplexity_floor(self, sentences: Sequence[tuple[str, ...]]) -> float:
        """Return the perplexity exp(-sum log p / tokens) under the true grammar.

        n words are n + 1 tokens, because the end of the sentence is predicted. No model has a lower perplexity in
        expectation. The value is inf if the grammar does not generate one of the sentences.

        Args:
            sentences: at least one.
        """
        tokens = sum(len(sentence) + 1 for sentence in sentences)
        return math.exp(-float(self.inside_log_probabilities(sentences).sum()) / tokens)


class _Sampler:
    """Sampler of derivations, from left to right with an explicit stack, with both trees.

    A projection is the path from a word up through the constituents that it heads. The head child of a rule continues
    the projection of its parent, and every other child starts a new one. Heads are therefore known when all words are.
    """

    def __init__(self, grammar: ToyGrammar) -> None:
        names = [*grammar.rules, *grammar.lexicon]
        number = {name: position for position, name in enumerate(names)}
        self.start = number[grammar.start]
        self.phrasal, self.comma = len(grammar.rules), len(names)
        self.labels = [grammar.labels.get(name.partition("[")[0], "") for name in grammar.rules]
        self.cumulative: list[list[float]] = []
        # For a category: log probability, then (symbol, relation) of each child from right to left.
        # For a preterminal: log probability, word, tag.
        self.outcomes: list[list[Any]] = []
        for rules in grammar.rules.values():
            outcomes = []
            for rule in rules:
                children = [number[child] for child in rule.children]
                pairs = list(zip(children, rule.relations, strict=True))
                for place in reversed(rule.commas):
                    pairs.insert(place, (self.comma, ""))
                outcomes.append((math.log(rule.probability), pairs[::-1]))
            self._add([rule.probability for rule in rules], outcomes)
        for entry in grammar.lexicon.values():
            words = zip(entry.words, entry.probabilities, strict=True)
            self._add(entry.probabilities, [(math.log(p), word, entry.tag) for word, p in words])

    def _add(self, probabilities: Sequence[float], outcomes: list[Any]) -> None:
        self.cumulative.append([*itertools.accumulate(probabilities[:-1]), 1.0])
        self.outcomes.append(outcomes)

    def sentence(self, draw: Callable[[], float]) -> ToySentence:
        words: list[str] = []
        tags: list[str] = []
        opened: list[tuple[str, int]] = []  # label and start of each constituent, in pre-order
        ends: list[int] = []
        governor, relation, head_word = [0], ["root"], [0]  # for each projection; word positions are 1-based
        projections: list[int] = []  # the projection of each word
        commas: list[int] = []
        log_probability = 0.0
        stack = [(self.start, 0)]
        while stack:
            symbol, projection = stack.pop()
            if symbol < 0:  # the end of constituent ~symbol
                ends[~symbol] = len(words)
                continue
            if symbol == self.comma:
                commas.append(len(words))
                continue
            outcome = self.outcomes[symbol][bisect_right(self.cumulative[symbol], draw())]
            log_probability += outcome[0]
            if symbol >= self.phrasal:
                words.append(outcome[1])
                tags.append(outcome[2])
                projections.append(projection)
                head_word[projection] = len(words)
                continue
            if self.labels[symbol]:
                stack.append((~len(opened), 0))
                opened.append((self.labels[symbol], len(words)))
                ends.append(0)
            for child, name in outcome[1]:
                if name:
                    stack.append((child, len(governor)))
                    governor.append(projection)
                    relation.append(name)
                    head_word.append(0)
                else:
                    stack.append((child, projection))
        heads = tuple(head_word[governor[p]] if p else 0 for p in projections)
        spans = [Constituent(label, start, end) for (label, start), end in zip(opened, ends, strict=True)]
        # Nested categories with the same label and span (NP over NPB) are one constituent.
        spans = [span for index, span in enumerate(spans) if not index or span != spans[index - 1]]
        tree = Tree(tuple(words), tuple(tags), tuple(spans))
        relations = tuple(relation[p] for p in projections)
        dependencies = DependencyTree(tree.words, tree.tags, heads, relations)
        return ToySentence(tree, dependencies, log_probability, tuple(commas))


class _Inside:
    """The inside algorithm for a grammar with symbols, for batches of sentences of the same length.

    A chart has one array (starts, symbols, sentences) per width. In memory, symbols are the first dimension, so that
    gathering the children of the rules copies whole rows. A narrow symbol covers only one word and so determines the
    split. Only rules with two wide children need all splits (`charts.parts`).
    """

    def __init__(self, grammar: ToyGrammar) -> None:
        unary: dict[tuple[Any, Any], float] = defaultdict(float)
        binary: dict[tuple[Any, Any, Any], float] = defaultdict(float)
        for rule in itertools.chain.from_iterable(grammar.rules.values()):
            if len(rule.children) == 1:
                unary[rule.category, rule.children[0]] += rule.probability
                continue
            # A tuple of names is the intermediate symbol of the last children. Rules with the same ending share it.
            rest: Any = rule.children[1:] if len(rule.children) > 2 else rule.children[1]
            binary[rule.category, rule.children[0], rest] += rule.probability
            while isinstance(rest, tuple):
                tail = rest[1:] if len(rest) > 2 else rest[1]
                binary[rest, rest[0], tail] = 1.0
                rest = tail
        wide = dict.fromkeys(parent for parent, _, _ in binary)
        while more := [parent for parent, child in unary if child in wide and parent not in wide]:
            wide |= dict.fromkeys(more)
        symbols = [*wide, *(name for name in [*grammar.rules, *grammar.lexicon] if name not in wide)]
        number = {symbol: position for position, symbol in enumerate(symbols)}
        self.start = number[grammar.start]
        self.wide = len(wide)
        # Unary chains, (I - U)^-1, are included in the emissions of words and stored for wide symbols.
        size = len(number)
        chains = np.zeros((size, size))
        for (parent, child), probability in unary.items():
            chains[number[parent], number[child]] += probability
        chains = np.asarray(np.linalg.inv(np.eye(size) - chains), dtype=np.float64)
        self.word_ids = {word: position for position, word in enumerate(grammar.vocabulary)}
        emissions = np.zeros((size, len(self.word_ids)))
        for name, entry in grammar.lexicon.items():
            for word, probability in zip(entry.words, entry.probabilities, strict=True):
                emissions[number[name], self.word_ids[word]] += probability
        emissions = chains @ emissions
        # Scale each word so that products over hundreds of words stay in the range of float64. The factor 8 is about
        # the contribution of the rules per word.
        scale = emissions.max(axis=0) / 8
        self.emissions = emissions / scale
        self.log_scale = np.log(scale)
        extra = chains[: self.wide, : self.wide] - np.eye(self.wide)
        self.chain_tops = np.flatnonzero(np.abs(extra).sum(axis=1) > 0)
        self.chain_bottoms = np.flatnonzero(np.abs(extra).sum(axis=0) > 0)
        self.chains = np.maximum(extra[np.ix_(self.chain_tops, self.chain_bottoms)], 0)

        # Pairs of children are grouped by which of them is wide; the rules over these pairs are sorted by parent.
        rules = sorted((number[a], number[b], number[c], p) for (a, b, c), p in binary.items())
        both = (False, True)
        groups: dict[tuple[bool, bool], list[tuple[int, int]]] = {(left, right): [] for left in both for right in both}
        for left, right in dict.fromkeys((left, right) for _, left, right, _ in rules):
            groups[left < self.wide, right < self.wide].append((left, right))
        pairs = [pair for group in groups.values() for pair in group]
        edges = itertools.pairwise(itertools.accumulate(map(len, groups.values()), initial=0))
        self.slices = {are_wide: slice(*edge) for are_wide, edge in zip(groups, edges, strict=True)}
        self.left, self.right = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        place = {pair: position for position, pair in enumerate(pairs)}
        self.rule_pairs = np.array([place[left, right] for _, left, right, _ in rules], dtype=np.intp)
        self.rule_weights = np.array([p for *_, p in rules]).reshape(-1, 1, 1)
        parents = np.array([parent for parent, *_ in rules], dtype=np.intp)
        self.parents, self.rule_starts = np.unique(parents, return_index=True)

    def log_probabilities(self, sentences: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        result = np.full(len(sentences), -np.inf)
        known = [i for i, words in enumerate(sentences) if words and all(word in self.word_ids for word in words)]
        lengths = np.array([len(sentences[i]) for i in known], np.int64)
        # Chart rows of about 384 numbers fit into the cache.
        for _, group in equal_lengths(lengths, lambda length: max(1, 384 // length)):
            chosen = [known[i] for i in group]
            words = np.array([[self.word_ids[word] for word in sentences[i]] for i in chosen]).T
            with np.errstate(divide="ignore"):
                result[chosen] = np.log(self._batch(words)) + self.log_scale[words].sum(axis=0)
        return result

    def _batch(self, words: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return scaled inside probabilities of shape (sentences,).

        Args:
            words: (length, sentences) word ids.
        """
        length, count = words.shape
        charts = [np.empty((0, 0, count)), self.emissions[:, words].swapaxes(0, 1)]
        for width in range(2, length + 1):
            starts = length - width + 1
            # For each pair of children, the products of their probabilities are summed over the splits.
            sums = np.zeros((len(self.left), starts, count))
            for (wide_left, wide_right), rows in self.slices.items():
                splits = range(1 if wide_right else width - 1, (width - 1 if wide_left else 1) + 1)
                part = sums[rows]
                lefts = self.left[rows]
                rights = self.right[rows]
                for left, right in parts(charts, charts, width, splits):
                    products = left.swapaxes(0, 1)[lefts]
                    products *= right.swapaxes(0, 1)[rights]
                    part += products
            values = sums[self.rule_pairs] * self.rule_weights
            chart = np.zeros((self.wide, starts, count))
            chart[self.parents] = np.add.reduceat(values, self.rule_starts, axis=0) if len(values) else 0.0
            bottoms = chart[self.chain_bottoms].reshape(len(self.chain_bottoms), starts * count)
            chart[self.chain_tops] += (self.chains @ bottoms).reshape(len(self.chain_tops), starts, count)
            charts.append(chart.swapaxes(0, 1))
        if length > 1 and self.start >= self.wide:
            return np.zeros(count)
        return charts[length][0, self.start]


@dataclass(frozen=True)
class SplitSummary:
    """One split of a written corpus.

    Attributes:
        floor: the exact perplexity floor per token, None for the training split.
    """

    sentences: int
    words: int
    mean_length: float
    seed: int
    floor: float | None


@dataclass(frozen=True)
class CorpusSummary:
    """The summary of a written corpus; the content of floor.json.

    Attributes:
        seed: the argument of `write_corpus`.
        sha256: the sha256 of each file, by name.
    """

    seed: int
    vocabulary: int
    expected_length: float
    train: SplitSummary
    valid: SplitSummary
    test: SplitSummary
    sha256: dict[str, str]

    def __str__(self) -> str:
        """Return the size of the vocabulary and a line for each split."""
        lines = [f"{self.vocabulary} word forms"]
        for name in SPLITS:
            split: SplitSummary = getattr(self, name)
            floor = f", perplexity floor {split.floor:.2f}" if split.floor else ""
            lines.append(f"  {name:5} {split.sentences:,} sentences of {split.mean_length:.1f} words on average{floor}")
        return "\n".join(lines)


FLOOR = "floor.json"
SPLITS = ("train", "valid", "test")
FILES = tuple(f"{split}.{suffix}" for split in SPLITS for suffix in ("txt", "mrg", "conllu"))
MOST_SENTENCES = 5_000_000  # limit for `write_corpus`, which holds all sentences in memory


def write_corpus(folder: str | Path, sentences: int = 20_000, seed: int = 0, punctuated: bool = False) -> CorpusSummary:
    """Write samples of the English fragment: train, valid and test, each as .txt, .mrg and .conllu; and floor.json.

    The files appear together.

    Args:
        sentences: the sentences of train; valid and test have 5 % as many each, at least 1 and at most 2,000. The
            splits are independent samples, so a short sentence can occur in several.
        punctuated: whether text and constituency trees have commas and full stops. The words are the same; dependency
            trees have no marks, and the perplexity floor counts none. floor.json holds the returned summary; its
            perplexity floors are per token, count the end of each sentence as a token, and are exact for valid and
            test.

    Raises:
        InputError: for numbers out of range, if the folder cannot be written, and if it has files of these names that
            this function did not write, or that were changed since.

    Examples:
        >>> syntaxlm.write_corpus("other-corpus", 60).train.sentences
        60
    """
    check_number("sentences", sentences, 1, MOST_SENTENCES)
    check_number("seed", seed, 0, LARGEST_SEED)
    folder = Path(folder)
    _refuse_changed(folder)
    with written_together(folder) as temporary:
        return _write_files(temporary, sentences, seed, punctuated)


def _write_files(folder: Path, sentences: int, seed: int, punctuated: bool) -> CorpusSummary:
    """Write the files of `write_corpus`, with their hashes last."""
    grammar = english_fragment()
    held_out = min(2000, max(1, sentences // 20))
    splits: dict[str, SplitSummary] = {}
    for index, (name, count) in enumerate(zip(SPLITS, (sentences, held_out, held_out), strict=True)):
        split_seed = int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint32)[0])
        sample = grammar.sample(count, split_seed)
        trees = [sentence.with_punctuation() if punctuated else sentence.tree for sentence in sample]
        write_text("".join(" ".join(tree.words) + "\n" for tree in trees), folder / f"{name}.txt")
        write_brackets(trees, folder / f"{name}.mrg")
        named = (replace(sentence.dependencies, name=f"toy-{name}-{i}") for i, sentence in enumerate(sample, 1))
        write_conllu(named, folder / f"{name}.conllu")
        words = sum(len(sentence.words) for sentence in sample)
        floor = grammar.perplexity_floor([sentence.words for sentence in sample]) if name != "train" else None
        splits[name] = SplitSummary(count, words, words / count, split_seed, floor)
    hashes = {name: _hash(folder / name) for name in FILES}
    summary = CorpusSummary(seed, len(grammar.vocabulary), grammar.expected_length(), **splits, sha256=hashes)
    write_text(json.dumps(asdict(summary), indent=2) + "\n", folder / FLOOR)
    return summary


def _refuse_changed(folder: Path) -> None:
    """Raise InputError if files that `write_corpus` would replace are not as it wrote them.

    A run that was killed while it moved its files has left the hashes of the new ones in its temporary folder.
    """
    hashes = _hashes_in(folder)
    written = [hashes, *map(_hashes_in, folder.glob(f".*{UNFINISHED}"))]
    present = [name for name in FILES if (folder / name).is_file()]
    changed = [name for name in present if _hash(folder / name) not in [known.get(name) for known in written]]
    if (folder / FLOOR).exists() and not hashes:
        changed.append(FLOOR)
    if changed:
        raise InputError(
            f"{folder}: contains files that this command did not write, or that were changed: {listed(changed)}. Name a"
            " new folder, or move the files away."
        )


def _hashes_in(folder: Path) -> Mapping[str, object]:
    """Return the hashes of the files of a folder by name; none if this program has not written them."""
    with suppress(InputError):
        content = parse_json(read_text(folder / FLOOR), FLOOR)
        if isinstance(content, dict) and isinstance(content.get("sha256"), dict):
            return cast(Mapping[str, object], content["sha256"])
    return {}


def _hash(path: Path) -> str:
    try:
        return sha256([path.read_bytes()])
    except OSError as error:
        raise system_error(path, "read", error) from error
