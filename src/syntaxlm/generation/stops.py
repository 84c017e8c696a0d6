"""Evaluation of stop classifiers on trees, with a baseline that always stops."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.batches import TreeBatches
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import sha256, to_json, write_text, written_together
from syntaxlm.core.tensor_files import read_tensors, write_tensors
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.models.abilities import GeneratesTrees, Model
from syntaxlm.models.classifiers import STOPS_FORMAT, StopExamples, Stops, StopSettings
from syntaxlm.models.sizes import shapes_of
from syntaxlm.ops.tree_levels import EDGES
from syntaxlm.scoring.engine import TOKEN_BUDGET, check_labels
from syntaxlm.storage.folder import STOP_WEIGHTS, STOPS, ModelBundle, distinct_tensors, put_tensors, read_config
from syntaxlm.trees.dependencies import Edge

QUESTIONS = {
    Edge.LEFT: "add left", Edge.RIGHT: "add right", Edge.NX_LEFT: "add next left", Edge.NX_RIGHT: "add next right",
}  # fmt: skip


def possible_edges(edges: Tensor, is_root: Tensor) -> Tensor:
    """Return the edge types that can leave words, given the edge to each word and whether it comes from ROOT: (n, 4).

    LEFT and RIGHT can leave any word; NX-LEFT a word on the left of its head, NX-RIGHT one on the right except a root.
    """
    possible = torch.ones(len(edges), EDGES, dtype=torch.bool, device=edges.device)
    possible[:, Edge.NX_LEFT] = (edges == Edge.LEFT) | (edges == Edge.NX_LEFT)
    possible[:, Edge.NX_RIGHT] = ~possible[:, Edge.NX_LEFT] & ~is_root
    return possible


class StopBatches:
    """The words of batches of trees, read by a dependency-tree model, which is left in evaluation mode."""

    carries_state = False

    def __init__(self, model: GeneratesTrees, batches: TreeBatches) -> None:
        self.model = model
        self.batches = batches

    def count(self, epoch: int = 0) -> int:
        """Return the number of batches of an epoch."""
        return self.batches.count(epoch)

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[StopExamples]:
        """Yield the batches of an epoch from number `start` on."""
        model = self.model.eval()
        corpus_labels = torch.from_numpy(self.batches.corpus.labels)
        for batch in self.batches.iterate(epoch, start):
            labels = corpus_labels[self.batches.places(batch)].long().to(model.device)
            read = batch.to(model.device)
            with torch.no_grad():
                hidden = model.token_log_probs(read).hidden
                edges = read.levels.edges()
                assert hidden is not None
                is_root = torch.arange(len(edges), device=edges.device) < read.levels.sizes[0]
                examples = StopExamples(
                    hidden,
                    model.embedded(read.targets),
                    model.inputs(read.targets, labels),
                    read.continuations(),
                    possible_edges(edges, is_root),
                    labels,
                )
            yield examples


@dataclass(frozen=True)
class StopScore:
    """Accuracy of a classifier.

    Attributes:
        words: number of decisions.
        correct: number of correct decisions.
        edges: number of words with an edge.
    """

    words: int
    correct: int
    edges: int

    @property
    def accuracy(self) -> float:
        return self.correct / max(1, self.words)

    @property
    def always_stop(self) -> float:
        """Accuracy of the baseline that always stops."""
        return (self.words - self.edges) / max(1, self.words)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"accuracy": self.accuracy, "always_stop": self.always_stop}


@dataclass(frozen=True)
class StopReport:
    """Results on the trees of a file.

    Attributes:
        nats: total of all decisions and labels.
        every_word: accuracy by edge type, for every word, as in the paper.
        possible: accuracy by edge type, for the words that an edge of the type can leave.
        labels: numbers of edge labels (words), of correctly predicted ones (correct) and of the most frequent one
            (majority), and both as shares (accuracy, most_frequent); None if the model reads no labels.
    """

    source: str
    trees: int
    words: int
    nats: float
    every_word: dict[Edge, StopScore]
    possible: dict[Edge, StopScore]
    labels: dict[str, float] | None = None

    @property
    def loss(self) -> float:
        """Nats per word."""
        return self.nats / self.words

    def to_dict(self) -> dict[str, Any]:
        """Return all results, for JSON."""
        values: dict[str, Any] = {"source": self.source, "trees": self.trees, "words": self.words, "loss": self.loss}
        for name, scores in (("every_word", self.every_word), ("possible", self.possible)):
            values[name] = {QUESTIONS[edge]: score.to_dict() for edge, score in scores.items()}
        return values | {"labels": self.labels}

    def __str__(self) -> str:
        lines = [
            f"{self.source}: {self.words:,} words of {self.trees:,} trees, loss {self.loss:.4f} nats per word",
            f"{'':<16}{'every word':<26}words the edge can leave",
            f"{'accuracy, %':<16}{'classifier':>10}  {'always stop':>11}   {'words':>9}  {'classifier':>10}"
            f"  {'always stop':>11}",
        ]
        for edge, question in QUESTIONS.items():
            every_word = _accuracies(self.every_word[edge])
            possible = self.possible[edge]
            lines.append(f"{question:<16}{every_word}   {possible.words:>9,}  {_accuracies(possible)}")
        if self.labels is not None:
            accuracies = f"{100 * self.labels['accuracy']:>10.1f}  {100 * self.labels['most_frequent']:>11.1f}"
            lines.append(f"{'label':<16}{accuracies}   (second column: the most frequent label)")
        return "\n".join(lines)


def _accuracies(score: StopScore) -> str:
    return f"{100 * score.accuracy:>10.1f}  {100 * score.always_stop:>11.1f}"


@torch.no_grad()
def score_stops(stops: Stops, model: GeneratesTrees, corpus: DependencyCorpus) -> StopReport:
    """Evaluate the classifiers on the words of a corpus. Leaves both networks in evaluation mode.

    Raises:
        InputError: for trees without labels if the model reads labels.
    """
    check_labels(model, corpus)
    stops.eval()
    counts = torch.zeros(2, 3, EDGES, dtype=torch.int64)  # every word, possible; words, correct, edges
    nats = 0.0
    correct_labels = 0
    label_counts = torch.zeros(max(1, stops.settings.labels), dtype=torch.int64)
    for batch in StopBatches(model, TreeBatches(corpus, TOKEN_BUDGET, shuffle=False, seed=0)).iterate():
        nats += float(batch.nats(stops).sum(dtype=torch.float64))
        correct = (stops(batch.hidden, batch.inputs) > 0) == batch.leaving
        for row, counted in zip(counts, (torch.ones_like(batch.possible), batch.possible), strict=True):
            row += torch.stack([flags.sum(0) for flags in (counted, counted & correct, counted & batch.leaving)]).cpu()
        if stops.label_network is not None:
            predicted = stops.label_logits(batch.hidden, batch.embedded).argmax(1)
            correct_labels += int((predicted == batch.labels).sum())
            label_counts += torch.bincount(batch.labels.cpu(), minlength=len(label_counts))
    every_word = {edge: StopScore(*counts[0, :, edge].tolist()) for edge in Edge}
    possible = {edge: StopScore(*counts[1, :, edge].tolist()) for edge in Edge}
    words = corpus.text.word_count
    labels: dict[str, float] | None = None
    if stops.label_network is not None:
        labels = {"words": words, "correct": correct_labels, "majority": int(label_counts.max())}
        labels |= {"accuracy": correct_labels / max(1, words), "most_frequent": labels["majority"] / max(1, words)}
    return StopReport(corpus.source, len(corpus), words, nats, every_word, possible, labels)


def tree_model(bundle: ModelBundle) -> GeneratesTrees:
    """Return the model, typed as generating trees. Raises InputError for a model that does not."""
    return bundle.require(GeneratesTrees, "generation of trees")


def tree_corpus(bundle: ModelBundle, path: str | Path) -> DependencyCorpus:
    """Return dependency trees as the model reads them.

    Raises:
        InputError: like `dependency_trees`, and for missing labels.
    """
    if bundle.labels is None:
        tree_model(bundle)
        raise InputError("the model has no edge labels")
    corpus = DependencyCorpus.read(path, bundle.normaliser, bundle.vocabulary, bundle.labels)
    check_labels(bundle.model, corpus)
    return corpus


# Stop classifiers in a model folder: settings in JSON, weights in safetensors.


OF_MODEL = "model"  # metadata key of their weights: the fingerprint of the model they were trained for


def write_stops(folder: Path, stops: Stops, model: Model) -> None:
    """Write classifiers to their model's folder, where their files appear together. Earlier ones are replaced."""
    with written_together(folder, stored=True) as temporary:
        write_text(to_json(dataclasses.asdict(stops.settings), indent=2) + "\n", temporary / STOPS, stored=True)
        tensors = {name: tensor.cpu() for name, tensor in stops.state_dict().items()}
        write_tensors(temporary / STOP_WEIGHTS, tensors, {OF_MODEL: fingerprint(model)})


def read_stops(folder: str | Path, bundle: ModelBundle) -> Stops:
    """Return the classifiers in a model's folder, in evaluation mode on the device of the model.

    Raises:
        InputError: if they have not been trained, or were trained for other weights of the model, and for a file that
            is damaged or does not fit the other.
    """
    folder = Path(folder)
    model = tree_model(bundle)
    train = f"syntaxlm tune stops {folder} TRAIN --valid VALID"
    if not (folder / STOPS).exists() or not (folder / STOP_WEIGHTS).exists():
        raise InputError(
            f"{folder}: to generate trees, the model needs stop classifiers, which predict where a tree ends."
            f" Train them on dependency trees:\n  {train}"
        )
    settings = read_config(StopSettings, folder / STOPS, STOPS_FORMAT)
    expected = model.state_size, model.word_size, model.input_size, model.label_count or 0
    stored = settings.state_size, settings.word_size, settings.input_size, settings.labels
    if stored != expected or settings.hidden_size < 1:
        raise InputError(
            f"{folder / STOPS}: found state, word, input sizes and labels {stored}, hidden_size {settings.hidden_size};"
            f" expected {expected} as in the model, and hidden_size 1 or more"
        )
    tensors, metadata = read_tensors(folder / STOP_WEIGHTS)
    if metadata.get(OF_MODEL) != fingerprint(model):
        raise InputError(
            f"{folder / STOP_WEIGHTS}: the classifiers were trained for other model weights. Train them again:\n"
            f"  {train}"
        )
    stops = shapes_of(lambda: Stops(settings))
    put_tensors(stops, tensors, str(folder / STOP_WEIGHTS), f"the weights do not fit {STOPS}")
    return stops.to(next(model.parameters())).eval()


def fingerprint(model: Model) -> str:
    """Return an identifier of a model's weights: a hash of names, shapes and values."""

    def parts() -> Iterator[bytes]:
        for name, tensor in distinct_tensors(model).items():
            yield f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode()
            yield tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes()

    return sha256(parts())
