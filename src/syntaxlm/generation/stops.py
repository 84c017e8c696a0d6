"""How often the classifiers of `models.stops` are right about trees, beside a baseline that always stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.batches import TreeBatches
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.errors import InputError
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import GeneratesTrees
from syntaxlm.models.batches import TreeBatch
from syntaxlm.models.stop_classifiers import StopExamples, Stops
from syntaxlm.ops.tree_levels.types import EDGES
from syntaxlm.scoring.engine import TOKEN_BUDGET, check_labels
from syntaxlm.trees.dependencies import Edge

QUESTIONS = {
    Edge.LEFT: "add left", Edge.RIGHT: "add right", Edge.NX_LEFT: "add next left", Edge.NX_RIGHT: "add next right",
}  # fmt: skip


def possible_edges(edges: Tensor, is_root: Tensor) -> Tensor:
    """Which types of edge can leave words, by the type of edge that leads to each and whether that is ROOT's: (n, 4).

    LEFT and RIGHT leave any word; NX-LEFT one on the left of its head, NX-RIGHT one on the right, but not a root.
    """
    possible = torch.ones(len(edges), EDGES, dtype=torch.bool, device=edges.device)
    possible[:, Edge.NX_LEFT] = (edges == Edge.LEFT) | (edges == Edge.NX_LEFT)
    possible[:, Edge.NX_RIGHT] = ~possible[:, Edge.NX_LEFT] & ~is_root
    return possible


class StopBatches:
    """The words of batches of trees as a dependency-tree model has read them. Leaves it in evaluation mode."""

    carries_state = False

    def __init__(self, model: GeneratesTrees, batches: TreeBatches) -> None:
        self.model, self.batches = model, batches

    def count(self, epoch: int = 0) -> int:
        """Number of batches of an epoch."""
        return self.batches.count(epoch)

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[StopExamples]:
        """The batches of an epoch from number `start` on."""
        model = self.model.eval()
        labels = torch.from_numpy(self.batches.corpus.labels)
        for batch in self.batches.iterate(epoch, start):
            own_labels = labels[self.batches.places(batch)].long()
            yield _read(model, batch.to(model.device), own_labels.to(model.device))


@torch.no_grad()
def _read(model: GeneratesTrees, batch: TreeBatch, labels: Tensor) -> StopExamples:
    """labels: (n,), of the words that the batch generates."""
    hidden, edges = model.token_log_probs(batch).hidden, batch.levels.edges()
    assert hidden is not None
    is_root = torch.arange(len(edges), device=edges.device) < batch.levels.sizes[0]
    return StopExamples(
        hidden,
        model.embedded(batch.targets),
        model.inputs(batch.targets, labels),
        batch.continuations(),
        possible_edges(edges, is_root),
        labels,
    )


@dataclass(frozen=True)
class StopScore:
    """Answers to one question: how many words were asked, how many answers are right, and how often it is "more"."""

    words: int
    right: int
    more: int

    @property
    def accuracy(self) -> float:
        return self.right / max(1, self.words)

    @property
    def always_stop(self) -> float:
        """What the answer "no more" has for all."""
        return (self.words - self.more) / max(1, self.words)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"accuracy": self.accuracy, "always_stop": self.always_stop}


@dataclass(frozen=True)
class LabelScore:
    """Of the labels of the words' edges: how many, how many are found, how many are the most frequent one."""

    words: int
    right: int
    majority: int

    def to_dict(self) -> dict[str, Any]:
        some = max(1, self.words)
        return asdict(self) | {"accuracy": self.right / some, "most_frequent": self.majority / some}


@dataclass(frozen=True)
class StopReport:
    """Of the trees of a file.

    nats: of all answers and labels.  every_word, possible: by type of edge, of every word, as the paper has it, and of
    the words that an edge of the type can leave.  labels: None where the model reads none.
    """

    source: str
    trees: int
    words: int
    nats: float
    every_word: dict[Edge, StopScore]
    possible: dict[Edge, StopScore]
    labels: LabelScore | None = None

    @property
    def loss(self) -> float:
        """Nats per word."""
        return self.nats / self.words

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {
            "source": self.source,
            "trees": self.trees,
            "words": self.words,
            "loss": self.loss,
            "every_word": {QUESTIONS[edge]: score.to_dict() for edge, score in self.every_word.items()},
            "possible": {QUESTIONS[edge]: score.to_dict() for edge, score in self.possible.items()},
            "labels": None if self.labels is None else self.labels.to_dict(),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.source}: {self.words:,} words of {self.trees:,} trees, loss {self.loss:.4f} nats per word",
            f"{'':<16}{'every word':<26}where the edge can be",
            f"{'percent right':<16}{'classifier':>10}  {'always stop':>11}   {'words':>9}  {'classifier':>10}"
            f"  {'always stop':>11}",
        ]
        for edge, question in QUESTIONS.items():
            one, other = self.every_word[edge], self.possible[edge]
            lines.append(
                f"{question:<16}{100 * one.accuracy:>10.1f}  {100 * one.always_stop:>11.1f}   {other.words:>9,}"
                f"  {100 * other.accuracy:>10.1f}  {100 * other.always_stop:>11.1f}"
            )
        if self.labels is not None:
            figures = self.labels.to_dict()
            lines.append(
                f"{'label':<16}{100 * figures['accuracy']:>10.1f}  {100 * figures['most_frequent']:>11.1f}   (in the"
                " second column, the most frequent label)"
            )
        return "\n".join(lines)


@torch.no_grad()
def score_stops(stops: Stops, model: GeneratesTrees, corpus: DependencyCorpus) -> StopReport:
    """The classifiers' answers to the words of a corpus. Leaves both networks in evaluation mode.

    Raises InputError for trees without labels that the model reads.
    """
    check_labels(model, corpus)
    stops.eval()
    counts = torch.zeros(2, 3, EDGES, dtype=torch.int64)  # every word, possible; asked, right, more
    nats, labels_right = 0.0, 0
    label_counts = torch.zeros(max(1, stops.settings.labels), dtype=torch.int64)
    for some in StopBatches(model, TreeBatches(corpus, TOKEN_BUDGET, shuffle=False, seed=0)).iterate():
        nats += float(some.nats(stops).sum(dtype=torch.float64))
        right = (stops(some.hidden, some.inputs) > 0) == some.leaving
        for row, asked in zip(counts, (torch.ones_like(some.possible), some.possible), strict=True):
            row += torch.stack([one.sum(0) for one in (asked, asked & right, asked & some.leaving)]).cpu()
        if stops.label_network is not None:
            found = stops.label_logits(some.hidden, some.embedded).argmax(1)
            labels_right += int((found == some.labels).sum())
            label_counts += torch.bincount(some.labels.cpu(), minlength=len(label_counts))
    every_word, possible = ({edge: StopScore(*row[:, edge].tolist()) for edge in Edge} for row in counts)
    words, labels = corpus.text.word_count, None
    if stops.label_network is not None:
        labels = LabelScore(words, labels_right, int(label_counts.max()))
    return StopReport(corpus.source, len(corpus), words, nats, every_word, possible, labels)


def evaluate_stops(stored: ModelBundle, stops: Stops, path: str | Path) -> StopReport:
    """`score_stops` of dependency trees: a file, a folder or a pattern. Raises InputError as `tree_corpus` does."""
    return score_stops(stops, tree_model(stored), tree_corpus(stored, path))


def tree_model(stored: ModelBundle) -> GeneratesTrees:
    """The model that generates trees. Raises InputError for a model that does not."""
    return stored.require(GeneratesTrees, "generation of trees")


def tree_corpus(stored: ModelBundle, path: str | Path) -> DependencyCorpus:
    """Dependency trees as a model reads them. Raises InputError as `dependency_trees` does, and for missing labels."""
    if stored.labels is None:
        tree_model(stored)
        raise InputError("the model has no labels of edges")
    corpus = DependencyCorpus.read(path, stored.normaliser, stored.vocabulary, stored.labels)
    check_labels(stored.model, corpus)
    return corpus
