"""Attachment scores of a model's dependency trees against a dependency treebank, with baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from syntaxlm.core.arrays import Integers, Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.core.reading import keeps_readings
from syntaxlm.data.arguments import suggests_parameters
from syntaxlm.data.treebanks import Preprocessing, Treebank, TreebankSentence
from syntaxlm.evaluation.trees import find_protocol, tokens_for, treebank_of, with_preprocessing
from syntaxlm.models.abilities import ParsesDependencies
from syntaxlm.ops.dmv import TreeDecisions, expected_counts
from syntaxlm.parsing.structure import structure_of
from syntaxlm.reports.report import HasReport, Report
from syntaxlm.reports.tables import PERCENT, Column, Columns, ReportTable
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.trees.conllu import check_heads
from syntaxlm.trees.f1 import PROTOCOLS, Protocol
from syntaxlm.trees.preprocessing import find_preprocessing
from syntaxlm.trees.spans import AnyIntegers, offsets_of
from syntaxlm.trees.tree import DependencyTree

SCHEMA_VERSION = 1  # of `AttachmentReport.to_dict`


DEPENDENCY_SCORES = Columns(
    "attachment scores",
    "model or baseline",
    {
        "trees": Column("text", "predicted, or name of the baseline"),
        "role": Column("text", "predicted or baseline"),
        "directed": Column("number", "share of words with the correct head, 0 to 1"),
        "undirected": Column("number", "share of words with the correct arc in either direction, 0 to 1"),
        "sentences": Column("integer", "number of scored sentences"),
        "words": Column("integer", "number of scored words"),
        "protocol": Column("text", "name of the protocol, which selects the sentences"),
        "preprocessing": Column("text", "gold-tree preprocessing"),
        "treebank": Column("text", "file of the gold trees"),
    },
)


@dataclass(frozen=True)
class Attachment:
    """Attachment of a set of dependency trees, 0 to 1.

    Attributes:
        directed: share of words with the correct head.
        undirected: share of words that are connected to their head by an arc of the gold tree, in either direction; the
            root counts as correct if it is the root of the gold tree.
    """

    directed: float
    undirected: float

    @classmethod
    def of(cls, correct: Numbers) -> Attachment:
        """Return the means over words of what `attached` returns."""
        return cls(*correct.mean(1).tolist())


@dataclass(frozen=True)
class ScoredHeads:
    """One sentence with its heads, counted from 1; 0 is the root.

    Attributes:
        number: the number of the sentence in the treebank before preprocessing, from 1.
        directed: number of words with the correct head.
        undirected: number of words that an arc of the gold tree connects to their head.
    """

    number: int
    words: tuple[str, ...]
    predicted: tuple[int, ...]
    gold: tuple[int, ...]
    directed: int
    undirected: int


@dataclass(frozen=True, eq=False)
class AttachmentReport(HasReport):
    """Attachment of a model's dependency trees, with baselines.

    Attributes:
        next_word: trees in which each word's head is the next word.
        previous_word: trees in which each word's head is the previous word.
        random: the expected value under the uniform distribution over projective trees with one root.
        protocol: selects the sentences by their length; the rest of it does not apply to dependencies.
    """

    predicted: Attachment
    next_word: Attachment
    previous_word: Attachment
    random: Attachment
    sentences: Sequence[ScoredHeads]
    protocol: Protocol
    treebank: str
    preprocessing: str

    @property
    def baselines(self) -> dict[str, Attachment]:
        return {"next_word": self.next_word, "previous_word": self.previous_word, "random": self.random}

    def details(self) -> Sequence[ScoredHeads]:
        """Return every scored sentence."""
        return self.sentences

    def report(self) -> Report:
        """Return the attachment of the predicted trees and of the baselines."""
        lengths = [len(sentence.words) for sentence in self.sentences]
        shared = {
            "sentences": len(lengths),
            "words": sum(lengths),
            "protocol": self.protocol.name,
            "preprocessing": self.preprocessing,
            "treebank": self.treebank,
        }
        rows = [
            {"trees": name.replace("_", " "), "role": "baseline" if name in self.baselines else "predicted"}
            | asdict(attachment)
            | shared
            for name, attachment in {"predicted": self.predicted, **self.baselines}.items()
        ]
        headings = {"directed attachment": PERCENT, "undirected": PERCENT, "trees": ""}
        shown = [[row["directed"], row["undirected"], title] for row, title in zip(rows, _TITLES, strict=True)]
        return Report(
            DEPENDENCY_SCORES,
            rows,
            {
                "schema_version": SCHEMA_VERSION,
                **shared,
                "max_words": self.protocol.max_words,
                **asdict(self.predicted),
                "baselines": self.baselines,
            },
            {
                "preprocessing": self.preprocessing,
                "protocol": self.protocol.name,
                "sentences": f"{len(lengths)} ({min(lengths)} to {max(lengths)} words)",
                "words": sum(lengths),
            },
            tables=[ReportTable(headings, shown, is_named_last=True)],
            data=[self.treebank],
        )


_TITLES = (
    "predicted trees",
    "head is the next word",
    "head is the previous word",
    "random projective trees, uniform (expected value)",
)


def has_dependencies(treebank: Treebank) -> bool:
    """Return whether the sentences have dependency trees and no constituency trees."""
    return all(sentence.heads is not None and sentence.tree is None for sentence in treebank)


@suggests_parameters
@keeps_readings
def evaluate_attachment(
    bundle: ModelBundle,
    treebank: str | Path | Treebank,
    protocol: str | Protocol = PROTOCOLS["wsj-test"],
    *,
    preprocessing: Preprocessing = "ptb-keep",
    max_words: int | None = None,
) -> AttachmentReport:
    """Measure how often the heads of a model's words are those of a dependency treebank, with baselines.

    Args:
        bundle: the model.
        treebank: a CoNLL-U file, a folder of such files, or a pattern; or what was read with the same preprocessing.
        protocol: selects the sentences by their length: a name or a protocol object. Sentences of one word are left
            out, unless the protocol counts them.
        preprocessing: of gold trees. Dependents of a dropped word are attached to its head, or if it was the root, to
            its first remaining dependent, which becomes the root.
        max_words: longer sentences are left out; None: the limit of the protocol.

    Raises:
        InputError: for a model that gives no dependency trees, for a treebank without them or that was read with
            another preprocessing, and like `read_treebank`.

    Examples:
        >>> report = syntaxlm.evaluate_attachment(dependency_parser, "corpus/test.conllu")
        >>> report.to_dict()["sentences"]
        3
    """
    protocol = find_protocol(protocol, max_words)
    treebank = treebank_of(treebank)
    bundle.require(ParsesDependencies, "evaluation on dependency trees")
    rule = find_preprocessing(preprocessing)
    read = with_preprocessing(treebank, rule)
    if any(sentence.heads is None for sentence in read):
        raise InputError(f"{read.source}: found sentences without heads; expected dependency trees")
    chosen = _scored_sentences(read, protocol)
    for sentence in read:
        arcs = DependencyTree(sentence.words, sentence.tags, sentence.heads or (), sentence.labels, sentence.name)
        check_heads(arcs, sentence.place or f"{read.source}, sentence {sentence.number}")

    # The heads of all words, sentence after sentence.
    tokens = tokens_for(bundle, Treebank(chosen, read.source))
    structure = structure_of(bundle, tokens, labels=False, numbers=[sentence.number for sentence in chosen])
    predicted = np.array(structure.word_values(layer=1)["heads"])
    gold = np.concatenate([np.array(sentence.heads) for sentence in chosen])
    lengths = np.array([len(sentence) for sentence in chosen])

    # Heads as positions among the words of all sentences, -1 for a root, and whether they are correct.
    offsets = offsets_of(lengths)
    places = np.arange(len(gold))
    first = np.repeat(offsets[:-1], lengths)
    last = np.repeat(offsets[1:] - 1, lengths)
    gold_places = np.where(gold > 0, first + gold - 1, -1)
    correct = attached(np.where(predicted > 0, first + predicted - 1, -1), gold_places)
    next_word = attached(np.where(places < last, places + 1, -1), gold_places)
    previous_word = attached(np.where(places > first, places - 1, -1), gold_places)

    by_sentence = (np.split(values, offsets[1:-1], axis=-1) for values in (predicted, gold, correct))
    return AttachmentReport(
        predicted=Attachment.of(correct),
        next_word=Attachment.of(next_word),
        previous_word=Attachment.of(previous_word),
        random=Attachment.of(_random(gold, lengths)),
        sentences=[_scored_heads(*heads) for heads in zip(chosen, *by_sentence, strict=True)],
        protocol=protocol,
        treebank=read.source,
        preprocessing=rule.name,
    )


def _scored_sentences(treebank: Treebank, protocol: Protocol) -> tuple[TreebankSentence, ...]:
    """Return the sentences that a protocol selects. Raises InputError if there are none."""
    lengths = np.array([len(sentence) for sentence in treebank])
    chosen = tuple(sentence for sentence, counts in zip(treebank, protocol.scored(lengths), strict=True) if counts)
    if not chosen:
        raise InputError(
            f"protocol {protocol}: found no sentence to score among {len(treebank):,} of {treebank.source}; expected"
            " one or more. Choose another protocol, or raise its limit of words"
        )
    return chosen


def _scored_heads(sentence: TreebankSentence, predicted: Integers, gold: Integers, correct: Numbers) -> ScoredHeads:
    """Return the heads of a sentence with the number of correct ones, see `attached`."""
    heads = (tuple(predicted.tolist()), tuple(gold.tolist()))
    return ScoredHeads(sentence.number, sentence.words, *heads, *map(int, correct.sum(1)))


def attached(predicted: Integers, gold: Integers) -> Numbers:
    """Return whether each word is attached correctly, directed and undirected: (2, words), 0 or 1.

    Args:
        predicted: (words,) position of each word's predicted head among the words of all sentences, -1 for a root.
        gold: the same for the gold heads.
    """
    directed = predicted == gold
    undirected = directed | ((predicted >= 0) & (gold[predicted] == np.arange(len(gold))))
    return np.array([directed, undirected], np.float64)


def _random(gold: AnyIntegers, lengths: Integers) -> Numbers:
    """Return probabilities that words are attached correctly by a random projective tree: (2, words).

    Args:
        gold: (words,) heads from 1, 0 for the root, sentence after sentence.
    """
    charts: dict[int, Numbers] = {}  # (n + 1, n) the share of trees of n words that have each arc; row 0 is the root
    for length in np.unique(lengths).tolist():
        sizes = [(1, length), (1, length, length), (1, length, 2, 2), (1, length, 2, 2)]
        uniform = TreeDecisions(*(torch.zeros(size, dtype=torch.float64) for size in sizes))
        charts[length] = expected_counts(uniform).counts.attached[0].numpy()
    offsets = offsets_of(lengths)
    directed, reversed_ = np.zeros((2, len(gold)))
    for number, length in enumerate(lengths.tolist()):
        chart = charts[length]
        sentence = slice(int(offsets[number]), int(offsets[number + 1]))
        heads = gold[sentence]
        directed[sentence] = chart[heads, np.arange(length)]
        (dependents,) = np.nonzero(heads)
        np.add.at(reversed_[sentence], heads[dependents] - 1, chart[dependents + 1, heads[dependents] - 1])
    return np.array([directed, directed + reversed_])
