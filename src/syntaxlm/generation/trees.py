"""Sampling of trees from a dependency-tree model, from the root down, level by level for many trees in one batch.

A step goes along an edge to a new word, which is sampled given the path to it. If the model reads labels, the label of
the edge above the word is sampled next. Then the decisions of the stop classifiers are sampled, which determine the
edges by which the tree continues. Steps of one path depth are independent. Zhang, Lu, Lapata 2016.

If the model reads left dependents, the step to the first right dependent of a word waits until they are all sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.generation.options import SamplingOptions, TreeSamplingOptions
from syntaxlm.generation.sentences import MAXIMUM, SAMPLED_TOGETHER, barred_tokens, choose, numbers_to
from syntaxlm.generation.stops import possible_edges, tree_model
from syntaxlm.models.abilities import GeneratesTrees
from syntaxlm.models.classifiers import Stops
from syntaxlm.ops.tree_levels import EDGES, Levels, States
from syntaxlm.reports.report import HasRows
from syntaxlm.reports.tables import Column, Columns
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.dependencies import Edge, in_order, tree_of_steps
from syntaxlm.trees.tree import DependencyTree

MAXIMUM_DEPTH = 30  # default limit of the heads above a word, including ROOT
ATTEMPTS = 100  # to sample a tree that stays within the limits
ROWS_TOGETHER = 256  # steps whose words are sampled at once: each needs a row of vocabulary size


GENERATED_TREES = Columns(
    "generated dependency trees",
    "sentence",
    {
        "number": Column("integer", "number of the sentence, from 1"),
        "text": Column("text", "words of the sentence, joined by spaces"),
        "tokens": Column("list of text", "words of the sentence"),
        "heads": Column("list of integers", "head of each word, counted from 1; 0: ROOT"),
        "labels": Column("list of text", "label of the edge from each word to its head"),
        "surprisals": Column("list of numbers", "surprisal in bits of each word given its path in the tree"),
        "tree_surprisal": Column("number", "surprisal in bits of the tree: stop decisions and labels"),
        "ended": Column("boolean", "whether the tree ended by itself; otherwise it was cut at a limit"),
    },
)


@dataclass(frozen=True)
class GeneratedTree(HasRows):
    """One sampled tree.

    Attributes:
        number: number of the sentence, from 1.
        tree: named by the number; its words are the model's tokens, in sentence order.
        surprisals: surprisal in bits of each word given its path, as in `tree_surprisals`; they add up to
            -log2 P(S | T).
        tree_surprisal: -log2 P(T) in bits, of all stop decisions and, if the model reads labels, of labels. Both use
            the networks' own probabilities, whatever the temperature.
        cut: the limits at which the tree was cut; () if it ended by itself.
    """

    number: int
    tree: DependencyTree
    surprisals: list[float]
    tree_surprisal: float
    cut: tuple[str, ...] = ()

    columns = GENERATED_TREES

    @property
    def text(self) -> str:
        return " ".join(self.tree.words)

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "text": self.text,
            "tokens": list(self.tree.words),
            "heads": list(self.tree.heads),
            "labels": list(self.tree.labels),
            "surprisals": [round(bits, 6) for bits in self.surprisals],
            "tree_surprisal": round(self.tree_surprisal, 6),
            "ended": not self.cut,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row, with the columns of `GENERATED_TREES`."""
        yield self.to_dict() | {"surprisals": self.surprisals, "tree_surprisal": self.tree_surprisal}

    def comments(self) -> dict[str, str]:
        """Return comments on the tree for a CoNLL-U file."""
        comments = {
            "text": self.text,
            "surprisal": f"{sum(self.surprisals):.6f}",
            "tree_surprisal": f"{self.tree_surprisal:.6f}",
        }
        return comments | ({"cut": "; ".join(self.cut)} if self.cut else {})


def generate_trees(
    bundle: ModelBundle, stops: Stops, count: int = 1, options: TreeSamplingOptions = TreeSamplingOptions()
) -> Iterator[GeneratedTree]:
    """Sample trees with one root. A tree depends on the seed and its number, not on the number of trees.

    Args:
        stops: the classifiers of the model's folder, see `read_stops`.

    Raises:
        InputError: for a model that reads text, and, with redraw, if none of ATTEMPTS trees stays within the limits.
    """
    numbers = numbers_to(count)
    sampler = _TreeSampler(bundle, tree_model(bundle), stops, options)
    chunks = (numbers[start : start + SAMPLED_TOGETHER] for start in range(0, count, SAMPLED_TOGETHER))
    return (tree for chunk in chunks for tree in sampler.trees(chunk))


@dataclass
class _Growing:
    """A tree during sampling: for each step the ids of word and label, its edge, its parent step, the word's bits.

    Attributes:
        heads: the step of each step's head.
        left: the words of the left dependents of a step so far, closest first.
        unfinished: the steps that further left dependents follow.
        waiting: number of steps that are decided, but wait for left dependents.
    """

    random: np.random.Generator
    words: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    bits: list[float] = field(default_factory=list)
    tree_bits: float = 0.0
    cut: dict[str, None] = field(default_factory=dict)
    left: dict[int, list[int]] = field(default_factory=dict)
    unfinished: set[int] = field(default_factory=set)
    waiting: int = 0

    def add(self, word: int, label: int, edge: int, parent: int) -> int:
        """Add a step, and return its number, from 1."""
        is_first = edge in (Edge.LEFT, Edge.RIGHT)
        head = parent if is_first else self.heads[parent - 1]
        self.words.append(word)
        self.labels.append(label)
        self.edges.append(edge)
        self.parents.append(parent)
        self.heads.append(head)
        if edge in (Edge.LEFT, Edge.NX_LEFT):
            self.left.setdefault(head, []).append(word)
        return len(self.words)

    def decide(self, step: int, has_left: bool, has_next_left: bool) -> None:
        """Note which left dependents follow a step."""
        if has_left:
            self.unfinished.add(step)
        if self.edges[step - 1] in (Edge.LEFT, Edge.NX_LEFT) and not has_next_left:
            self.unfinished.discard(self.heads[step - 1])


@dataclass(frozen=True)
class _Level:
    """Steps that can be taken together, sorted by edge type: (n,) each. Mostly, they have one path depth.

    Attributes:
        trees: index of each step's tree.
        edges: types.
        rows: index of the state that each continues, among those of ROOT and of all steps so far.
        sources: id of the word that each edge leaves.
        labels: id of the label above it.
        steps: number of that word's step.
        depths: number of heads above the new word, including ROOT.
    """

    trees: Integers
    edges: Integers
    rows: Integers
    sources: Integers
    labels: Integers
    steps: Integers
    depths: Integers

    def at(self, places: Integers | Flags) -> _Level:
        """Return some of the steps."""
        return _Level(**{name: values[places] for name, values in vars(self).items()})

    def with_others(self, others: _Level) -> _Level:
        """Return these steps and others, sorted by edge type."""
        joined = {name: np.concatenate([values, getattr(others, name)]) for name, values in vars(self).items()}
        return _Level(**joined).at(np.argsort(joined["edges"], kind="stable"))


class _TreeSampler:
    """Samples trees. Raises InputError if no word or no label is allowed."""

    def __init__(self, bundle: ModelBundle, model: GeneratesTrees, stops: Stops, options: TreeSamplingOptions) -> None:
        assert bundle.labels is not None
        bundle.model.eval()
        self.model = model
        self.stops = stops.eval()
        self.options = options
        self.most_words = options.max_words or MAXIMUM["words"]
        self.most_depth = options.max_depth or MAXIMUM_DEPTH
        self.device = bundle.model.device
        self.vocabulary = bundle.vocabulary
        self.labels = bundle.labels
        self.barred = barred_tokens(self.vocabulary, options.keep_unknown)
        self.barred_labels = barred_tokens(self.labels, False)
        if self.barred.all() or (model.reads_labels and self.barred_labels.all()):
            what = "vocabulary has no word" if self.barred.all() else "labels have none"
            raise InputError(f"the model's {what} to sample except the unknown one")

    def trees(self, numbers: range) -> list[GeneratedTree]:
        """Return the trees with these numbers."""
        trees: dict[int, _Growing] = {}
        missing = list(numbers)
        for attempt in range(ATTEMPTS if self.options.redraw else 1):
            again = [attempt] if attempt else []
            growing = [_Growing(np.random.default_rng([self.options.seed, number, *again])) for number in missing]
            self._grow(growing)
            trees |= dict(zip(missing, growing, strict=True))
            missing = [number for number in missing if trees[number].cut]
            if not missing:
                break
        if missing and self.options.redraw:
            raise InputError(
                f"tree {missing[0]}: none of {ATTEMPTS} ended within {self.most_words} words and a depth of"
                f" {self.most_depth}; use higher limits, or allow trees to be cut at them"
            )
        generated = []
        for number in numbers:
            grown = trees[number]
            words = self.vocabulary.decode(grown.words)
            labels = self.labels.decode(grown.labels) if self.model.reads_labels else ()
            tree = tree_of_steps(words, grown.edges, grown.parents, labels, str(number))
            bits = [grown.bits[step - 1] for step in in_order(grown.edges, grown.parents)]
            generated.append(GeneratedTree(number, tree, bits, grown.tree_bits, tuple(grown.cut)))
        return generated

    @torch.no_grad()
    def _grow(self, trees: list[_Growing]) -> None:
        # The root word of each tree is the first right dependent of ROOT.
        zeros = np.zeros(len(trees), np.int64)
        level = _Level(
            trees=np.arange(len(trees)),
            edges=zeros + Edge.RIGHT,
            rows=zeros,
            sources=zeros + self.vocabulary.begin_id,
            labels=zeros + self.labels.begin_id,
            steps=zeros,
            depths=zeros + 1,
        )
        waiting = level.at(zeros[:0])
        states = self.model.root_states()
        while len(level.trees):
            levels = Levels.of(torch.from_numpy(level.rows), (_counts(level.edges),)).to(self.device)
            sources = torch.from_numpy(level.sources).to(self.device)
            labels = torch.from_numpy(level.labels).to(self.device)
            left = self._left_states(trees, level) if self.model.reads_left_dependents else None
            new_states = self.model.follow(self.model.inputs(sources, labels), levels, states, left)
            decided = self._step(trees, level, levels, new_states.hidden, len(states.hidden))
            states = _joined(states, new_states)
            level, waiting = self._ready(trees, waiting.with_others(decided))

    def _left_states(self, trees: list[_Growing], level: _Level) -> Tensor:
        """Return what the steps along RIGHT edges read of the left dependents."""
        is_right = level.edges == Edge.RIGHT
        heads = zip(level.trees[is_right], level.steps[is_right], strict=True)
        words = [torch.tensor(trees[place].left.get(step, [])[::-1], dtype=torch.int64) for place, step in heads]
        padded = pad_sequence(words) if words else torch.zeros(0, 0, dtype=torch.int64)
        return self.model.left_states(padded.to(self.device), torch.tensor(list(map(len, words)), dtype=torch.int64))

    def _ready(self, trees: list[_Growing], level: _Level) -> tuple[_Level, _Level]:
        """Return the steps that can be taken now, and those that wait for left dependents."""
        waits = np.zeros(len(level.trees), np.bool_)
        if self.model.reads_left_dependents:
            unfinished = [step in trees[place].unfinished for place, step in zip(level.trees, level.steps, strict=True)]
            waits = (level.edges == Edge.RIGHT) & np.array(unfinished, np.bool_)
        for place, count in enumerate(np.bincount(level.trees[waits], minlength=len(trees)).tolist()):
            trees[place].waiting = count
        return level.at(~waits), level.at(waits)

    def _step(self, trees: list[_Growing], level: _Level, levels: Levels, hidden: Tensor, first: int) -> _Level:
        """Sample the words of a level, their labels and stop decisions. Returns the steps that follow.

        Args:
            first: number of states before those of this level.
        """
        count = len(level.trees)
        uniform = _uniform(trees, level.trees)
        words = np.empty(count, np.int64)
        bits = np.empty(count)
        for start in range(0, count, ROWS_TOGETHER):
            rows = slice(start, start + ROWS_TOGETHER)
            parents = Levels.of(levels.parents[rows], (_counts(level.edges[rows]),))
            values = self.model.all_log_probs(hidden[rows], parents).double().cpu().numpy()
            words[rows], bits[rows] = _drawn(values, self.barred, uniform[rows], self.options)
        word_ids = torch.from_numpy(words).to(hidden.device)

        labels = np.full(count, self.labels.begin_id)
        label_bits = np.zeros(count)
        if self.model.reads_labels:
            label_logits = self.stops.label_logits(hidden, self.model.embedded(word_ids))
            values = label_logits.double().log_softmax(-1).cpu().numpy()
            options = replace(self.options, top_k=None)
            labels, label_bits = _drawn(values, self.barred_labels, _uniform(trees, level.trees), options)
        inputs = self.model.inputs(word_ids, torch.from_numpy(labels).to(hidden.device))
        logits = self.stops(hidden, inputs).double().cpu()

        steps = np.empty(count, np.int64)
        for row, place in enumerate(level.trees):
            tree = trees[place]
            steps[row] = tree.add(int(words[row]), int(labels[row]), int(level.edges[row]), int(level.steps[row]))
            tree.bits.append(float(bits[row]))
            tree.tree_bits += float(label_bits[row])

        # A step follows for each edge by which a word continues.
        answers = self._answers(trees, level, logits)
        for row, place in enumerate(level.trees):
            trees[place].decide(int(steps[row]), bool(answers[row, Edge.LEFT]), bool(answers[row, Edge.NX_LEFT]))
        edges, rows_below = np.nonzero(answers.T)  # sorted by edge
        is_dependent = (edges == Edge.LEFT) | (edges == Edge.RIGHT)  # else a sibling
        return _Level(
            level.trees[rows_below],
            edges,
            first + rows_below,
            words[rows_below],
            labels[rows_below],
            steps[rows_below],
            level.depths[rows_below] + is_dependent,
        )

    def _answers(self, trees: list[_Growing], level: _Level, logits: Tensor) -> Flags:
        """Return the edges by which each word of a level continues, (n, 4), within the limits. Adds their bits."""
        temperature = self.options.temperature
        edges = torch.from_numpy(level.edges)
        possible = possible_edges(edges, torch.from_numpy(level.steps == 0)).numpy()
        uniform = np.stack([_uniform(trees, level.trees) for _ in Edge], axis=1)
        wanted = logits.numpy() > 0 if temperature == 0 else uniform < torch.sigmoid(logits / temperature).numpy()
        wanted &= possible

        # Trees that reach a limit of depth or size are marked as cut.
        answers = wanted.copy()
        answers[level.depths >= self.most_depth, : Edge.NX_LEFT] = False  # LEFT and RIGHT lead to dependents
        for place in level.trees[(wanted & ~answers).any(1)].tolist():
            trees[place].cut[f"at a depth of {self.most_depth}"] = None
        words_left = [self.most_words - len(tree.words) - tree.waiting for tree in trees]
        for row, edge in np.argwhere(answers).tolist():
            place = int(level.trees[row])
            words_left[place] -= 1
            if words_left[place] < 0:
                answers[row, edge] = False
                trees[place].cut[f"at {self.most_words} words"] = None

        signs = torch.from_numpy(np.where(answers, 1.0, -1.0))
        nats = -torch.nn.functional.logsigmoid(signs * logits).numpy()
        for place, bits in zip(level.trees.tolist(), (nats * possible).sum(1) / math.log(2), strict=True):
            trees[place].tree_bits += float(bits)
        return answers


def _joined(before: States, new: States) -> States:
    """Return the states of two groups of steps, one after the other."""
    cells = None if before.cells is None or new.cells is None else torch.cat([before.cells, new.cells])
    return States(torch.cat([before.hidden, new.hidden]), cells)


def _counts(edges: Integers) -> tuple[int, ...]:
    return tuple(np.bincount(edges, minlength=EDGES).tolist())


def _uniform(trees: list[_Growing], places: Integers) -> Numbers:
    """Return a number in [0, 1) for each row, from its own tree's generator, in the order of the rows."""
    numbers = np.empty(len(places))
    for place in np.unique(places):
        is_in_tree = places == place
        numbers[is_in_tree] = trees[place].random.random(np.count_nonzero(is_in_tree))
    return numbers


def _drawn(log_probs: Numbers, barred: Flags, uniform: Numbers, options: SamplingOptions) -> tuple[Integers, Numbers]:
    """Return the sampled token of each row, (n, V) -> (n,), and its bits by the unmodified log-probabilities."""
    chosen = choose(np.where(barred, -np.inf, log_probs), uniform, options)
    return chosen, 0.0 - log_probs[np.arange(len(chosen)), chosen] / math.log(2)
