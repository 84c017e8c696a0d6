"""Gold treebanks with constituency trees, dependency trees, or both for the same sentences, after preprocessing.

Tagged text (`word_TAG` tokens) is read as a treebank without trees. Files may be compressed (.gz, .bz2, .xz, .zst,
.zip); "-" is standard input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import TypeAlias

import numpy as np

from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError, amount, warn_caller
from syntaxlm.core.files import write_text
from syntaxlm.core.reading import ReadingReport, announce
from syntaxlm.core.settings import check_number
from syntaxlm.core.text_files import (
    no_sentence,
    source_name,
)
from syntaxlm.data.corpora import (
    DEPENDENCY_SUFFIXES,
    read_sentences,
)
from syntaxlm.data.treebank_files import ReadSentence, TreebankFile, files_of, read_files
from syntaxlm.text.normaliser import TAG_MARK, Normaliser, split_words
from syntaxlm.trees import bounds
from syntaxlm.trees.conllu import NO_HEAD, iterate_dependencies
from syntaxlm.trees.matching import SAME_SENTENCE
from syntaxlm.trees.preprocessing import (
    EMPTY_TAG,
    PREPROCESSINGS,
    GoldPreprocessing,
    dropped_marks,
    find_preprocessing,
    kept_words,
    preprocess,
    without_lemmas,
)
from syntaxlm.trees.spans import SpanSets, format_spans
from syntaxlm.trees.tree import DependencyTree, Tree

_ID = "ID"  # tag of the ID of a sentence in historical corpora


@dataclass(frozen=True)
class TreebankSentence:
    """One gold sentence after preprocessing.

    Attributes:
        words: as written in the file.
        tags: as written in the file; a missing tag is "".
        tree: the constituency tree over `words`; None if only dependencies or tagged text were read.
        heads: the 1-based position in `words` of each word's head, 0 for the root; None if no dependencies were read.
        labels: the labels of the arcs; () if no dependencies were read.
        number: the 1-based number of the sentence in the treebank before preprocessing.
        name: the id of the sentence in a dependency file, or "".
        marks: the classes of the punctuation marks that preprocessing drops in each gap, see `trees.marks.gap_marks`.
        place: the file, line or sentence, for messages.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    tree: Tree | None = None
    heads: tuple[int, ...] | None = None
    labels: tuple[str, ...] = ()
    number: int = 0
    name: str = ""
    marks: tuple[int, ...] = ()
    place: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        """Return the constituency tree or, without one, the words."""
        return " ".join(self.words) if self.tree is None else str(self.tree)

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Treebank:
    """Gold sentences in the order of their files.

    Attributes:
        source: the path that was read, for messages.
        emptied: the numbers of the sentences that have no word after preprocessing.
        reading: how the files were read: form, counts, and what was dropped or is odd; also announced.
        kept: for each sentence that was read, emptied ones too, whether preprocessing keeps each word; without empty
            nodes.
        preprocessing: what the sentences were read with; None: unknown.
    """

    sentences: tuple[TreebankSentence, ...]
    source: str
    emptied: tuple[int, ...] = ()
    reading: ReadingReport | None = None
    kept: tuple[tuple[bool, ...], ...] = ()
    preprocessing: GoldPreprocessing | None = None

    def __len__(self) -> int:
        return len(self.sentences)

    def __str__(self) -> str:
        """Return the path and the size."""
        words = sum(len(sentence.words) for sentence in self.sentences)
        return f"{self.source}: {amount(len(self), 'sentence')}, {amount(words, 'word')}"

    def __iter__(self) -> Iterator[TreebankSentence]:
        return iter(self.sentences)


Preprocessing: TypeAlias = GoldPreprocessing | str | Path
"""The words to keep: the name of a preprocessing, a YAML file or the preprocessing itself."""


def read_treebank(
    path: str | Path,
    preprocessing: Preprocessing = "none",
    dependencies: str | Path | None = None,
    labelled: bool | None = None,
) -> Treebank:
    """Read gold trees.

    Args:
        path: a file, a folder, a pattern such as "mrg/wsj_00*.mrg", or "-" for standard input. In a folder, all files
            with a known suffix are read in the order of their names. A pattern also matches compressed files. The
            suffix determines the format (see `data.corpora`) and may be followed by .gz, .bz2, .xz, .zst or .zip. If
            the suffix is .txt or unknown, the first line determines the format.
        preprocessing: "none" still drops empty nodes. The dependents of a dropped word are attached to its head. If the
            root is dropped, its first dependent becomes the root and the others are attached to it.
        dependencies: the dependency trees of the same sentences in the same order, given like `path`.
        labelled: whether brackets start with a label; None: decided for each file, see `parse_brackets`.

    Raises:
        InputError: if files are missing, malformed, or have unknown or different formats; if trees and dependencies
            belong to different sentences; the message names the file and the sentence.

    Examples:
        >>> len(syntaxlm.read_treebank("corpus/test.mrg"))
        3
    """
    return _treebank(path, files_of(path), find_preprocessing(preprocessing), dependencies, labelled)


def _treebank(
    path: str | Path,
    files: Sequence[TreebankFile],
    preprocessing: GoldPreprocessing,
    dependencies: str | Path | None = None,
    labelled: bool | None = None,
) -> Treebank:
    read, reading = read_files(path, files, labelled)
    if dependencies is not None:
        arcs, arc_report = read_files(dependencies, files_of(dependencies))
        announce(arc_report)
        read = _paired(path, read, dependencies, arcs)
    if preprocessing.lemma_after:
        plain = without_lemmas([sentence.words for sentence in read], preprocessing)
        read = [replace(sentence, words=tree) for sentence, tree in zip(read, plain, strict=True)]
    _warn_of_ids(read, preprocessing, source_name(path))
    done = preprocess([sentence.words for sentence in read], preprocessing, source_name(path))
    sentences = []
    for tree, index in zip(done.trees, done.indices, strict=True):
        before, arcs_of = read[index].words, read[index].dependencies
        heads, labels = (None, ()) if arcs_of is None else _projected(before, arcs_of, preprocessing)
        gold = tree if read[index].has_tree else None
        name = arcs_of.name if arcs_of else ""
        marks = dropped_marks(before, preprocessing)
        place = read[index].place
        sentences.append(TreebankSentence(tree.words, tree.tags, gold, heads, labels, index + 1, name, marks, place))
    emptied = tuple(sorted({*range(1, len(read) + 1)} - {index + 1 for index in done.indices}))
    reading = replace(reading, remarks=(*reading.remarks, *done.remarks))
    announce(reading)
    return Treebank(tuple(sentences), source_name(path), emptied, reading, tuple(done.kept), preprocessing)


def _warn_of_ids(read: Sequence[ReadSentence], preprocessing: GoldPreprocessing, source: str) -> None:
    """Warn of the IDs of sentences in historical corpora, if the preprocessing reads them as words."""
    with_ids = sum(_ID in sentence.words.tags for sentence in read)
    if with_ids and not preprocessing.drop_nodes:
        presets = ", ".join(name for name, rules in PREPROCESSINGS.items() if rules.drop_nodes)
        warn_caller(
            f"{source}: {amount(with_ids, 'tree')} with the node ({_ID} ...), as in historical corpora."
            f" {preprocessing.name} reads the ID as a word; expected one of {presets}"
        )


def dependency_trees(path: str | Path, preprocessing: Preprocessing = "none") -> Iterator[DependencyTree]:
    """Yield the dependency trees of a file, a folder or a pattern (see `read_treebank`), named by file and sentence.

    Without preprocessing, trees are read one at a time and keep all words, so files may be larger than memory.

    Raises:
        InputError: like `read_treebank`, and for constituency trees.
    """
    files, chosen = files_of(path), find_preprocessing(preprocessing)
    if files[0].suffix not in DEPENDENCY_SUFFIXES:
        raise InputError(
            f"{source_name(files[0].path)}: found {files[0].suffix}; expected dependency trees, in files that end in"
            f" {' '.join(DEPENDENCY_SUFFIXES)}"
        )
    if chosen != PREPROCESSINGS["none"]:
        for sentence in _treebank(path, files, chosen):
            name = sentence.name or str(sentence.number)
            arcs = sentence.heads or (), sentence.labels
            yield DependencyTree(sentence.words, sentence.tags, *arcs, name, sentence.place)
        return
    for file in files:
        prefix = "" if len(files) == 1 else f"{file.path.name} "
        for number, tree in enumerate(iterate_dependencies(file.path, file.suffix, file.lines), 1):
            yield tree if tree.name else replace(tree, name=f"{prefix}{number}")


def treebank_tokens(treebank: Treebank, normaliser: Normaliser) -> list[list[str]]:
    """Return the tokens that a model reads for each sentence. `Normaliser.word` gives one token per word.

    If the units are tags, raises InputError for a word without a tag and names its sentence.
    """
    if normaliser.units == "tags":
        check_tags(treebank)
        return [list(sentence.tags) for sentence in treebank]
    words = chain.from_iterable(sentence.words for sentence in treebank)
    normal = {word: normaliser.word(word) for word in dict.fromkeys(words)}
    return [[normal[word] for word in sentence.words] for sentence in treebank]


def check_tags(treebank: Treebank) -> None:
    """Raise InputError naming the first sentence with a word that has no part-of-speech tag."""
    for sentence in treebank:
        if "" in sentence.tags:
            word = sentence.words[sentence.tags.index("")]
            raise InputError(
                f"{treebank.source}, sentence {sentence.number}: the word {word!r} has no part-of-speech tag, and the"
                " model reads tags (text.normaliser.units: tags); expected trees such as (NP (DT the) (NN cat))"
            )


@dataclass(frozen=True)
class WrittenSentences:
    """The counts of a file that was written."""

    sentences: int
    words: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{amount(self.sentences, 'sentence')}   {amount(self.words, 'word')}"


@dataclass(frozen=True)
class WrittenWords(WrittenSentences):
    """What `write_words` wrote.

    Attributes:
        joined: the number of words that contain white space, which is removed.
        blank: the number of words that consist of white space; they are left out.
        emptied: the number of sentences without a word after preprocessing; they are left out.
        longer: the number of sentences that are longer than the limit; they are left out.
    """

    joined: int
    blank: int
    emptied: int
    longer: int = 0

    def __str__(self) -> str:
        notes = {
            f"white space removed from {amount(self.joined, 'word')}": self.joined,
            f"left out: {amount(self.blank, 'word')} of white space only": self.blank,
            f"left out: {amount(self.emptied, 'sentence')} without a word after preprocessing": self.emptied,
            f"left out: {amount(self.longer, 'longer sentence')}": self.longer,
        }
        return "   ".join([super().__str__(), *(note for note, count in notes.items() if count)])


def write_words(
    treebank: Treebank, path: str | Path, maximum_words: int | None = None, with_tags: bool = False
) -> WrittenWords:
    """Write the words of a treebank as training text, one sentence per line.

    White space within a word is removed, because it would split the word when the text is read. The word then equals
    the word that `treebank_tokens` reads. The file is written atomically. Raises InputError, with tags also if a word
    has no tag, or a tag that contains an underscore or white space; the message then names the sentence.

    Args:
        maximum_words: longer sentences are left out; None: no limit.
        with_tags: write tagged text (`word_TAG` tokens), to train models that read tags.
    """
    if maximum_words is not None:
        check_number("maximum words", maximum_words, 1)
    short = [sentence for sentence in treebank if maximum_words is None or len(sentence) <= maximum_words]
    lines: list[str] = []
    words = joined = blank = 0
    for sentence in short:
        read = list(sentence.words)
        for place, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True) if with_tags else ()):
            if not tag or TAG_MARK in tag or split_words(tag) != [tag]:
                problem = f"the tag {tag!r}" if tag else "no tag"
                raise InputError(
                    f"{treebank.source}, sentence {sentence.number}: the word {word!r} has {problem}; expected a"
                    " part-of-speech tag without underscore or white space"
                )
            read[place] = f"{word}{TAG_MARK}{tag}" if split_words(word) else word
        written = ["".join(split_words(word)) for word in read]
        joined += sum(0 < len(new) < len(word) for new, word in zip(written, read, strict=True))
        kept = [word for word in written if word]
        words += len(kept)
        blank += len(written) - len(kept)
        if kept:
            lines.append(" ".join(kept) + "\n")
    longer = len(treebank) - len(short)
    if not lines:
        within = f" in sentences of up to {maximum_words} words" if longer else ""
        raise InputError(
            f"{treebank.source}: found no word to write{within} after preprocessing; expected sentences with words"
        )
    write_text("".join(lines), path)
    return WrittenWords(len(lines), words, joined, blank, len(treebank.emptied) + len(short) - len(lines), longer)


SHAPES: dict[str, Callable[[Integers, int], SpanSets]] = {
    "right": lambda lengths, _: bounds.right(lengths),
    "left": lambda lengths, _: bounds.left(lengths),
    "balanced": lambda lengths, _: bounds.balanced(lengths),
    "random": bounds.random_trees,
}


def write_baseline_trees(text: str | Path, path: str | Path, shape: str, seed: int = 0) -> WrittenSentences:
    """Write one binary tree for each sentence of a text, in the order of the text, as bracketed text.

    The file is written atomically.

    Args:
        text: one sentence per line; blank lines are left out.
        shape: one of SHAPES.
        seed: the seed of random trees.

    Raises:
        InputError: like `read_sentences`, and if the text has no word.
    """
    sentences = [words for _, line in read_sentences(text, Normaliser()) if (words := split_words(line))]
    if not sentences:
        raise no_sentence(text)
    lengths = np.array([len(words) for words in sentences])
    write_text("\n".join([*format_spans(SHAPES[shape](lengths, seed), sentences), ""]), path)
    return WrittenSentences(len(sentences), int(lengths.sum()))


def _paired(
    path: str | Path, trees: Sequence[ReadSentence], dependencies: str | Path, arcs: Sequence[ReadSentence]
) -> list[ReadSentence]:
    """Return the trees with the dependency trees of the same sentences. Raises InputError at the first difference."""
    if not trees[0].has_tree or arcs[0].dependencies is None:
        raise InputError(f"{path} and {dependencies}: expected constituency trees first, then dependency trees")
    for first, second in zip(trees, arcs, strict=False):
        tags = zip(first.words.words, first.words.tags, strict=True)
        words = [word for word, tag in tags if tag != EMPTY_TAG]
        others = second.words.words
        same = sum(map(str.__eq__, words, others))
        if len(words) != len(others) or same < SAME_SENTENCE * len(words):
            raise InputError(
                f"{first.place} and {second.place}: found different sentences of {len(words)} and {len(others)} words"
                f" (without empty nodes); expected the same sentence.\n  constituents: {' '.join(words)}"
                f"\n  dependencies: {' '.join(others)}"
            )
    if len(trees) != len(arcs):
        longer = trees if len(trees) > len(arcs) else arcs
        raise InputError(
            f"{path} has {len(trees)} sentences and {dependencies} has {len(arcs)}; expected the same sentences."
            f" The first without a partner is {longer[min(len(trees), len(arcs))].place}."
        )
    return [replace(tree, dependencies=arc.dependencies) for tree, arc in zip(trees, arcs, strict=True)]


def _projected(
    tree: Tree, arcs: DependencyTree, preprocessing: GoldPreprocessing
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the heads and labels of the words that preprocessing keeps. Heads are positions among these words.

    Args:
        tree: the tree before preprocessing. Apart from empty nodes, its words are those of `arcs`.
    """
    pairs = zip(kept_words(tree, preprocessing), tree.tags, strict=True)
    stays = [keeps for keeps, tag in pairs if tag != EMPTY_TAG]
    if all(stays):
        return arcs.heads, arcs.labels
    # Maps 1-based positions before preprocessing to positions after it; 0 for dropped words.
    position = [0, *(count if keeps else 0 for count, keeps in zip(accumulate(map(int, stays)), stays, strict=True))]
    heads: list[int] = []
    orphans: list[int] = []  # indices in `heads` of words whose head was dropped and has no remaining ancestor
    for old, keeps in enumerate(stays, 1):
        if not keeps:
            continue
        head, climbed = arcs.heads[old - 1], 0
        # Dropped words may form a cycle without an exit; their dependents are also orphans.
        while head > 0 and not position[head] and climbed <= len(stays):
            head, climbed = arcs.heads[head - 1], climbed + 1
        heads.append(position[head] if head != NO_HEAD else NO_HEAD)
        if climbed and not heads[-1]:
            orphans.append(len(heads) - 1)
    roots = [place for place, head in enumerate(heads) if not head and place not in orphans]
    root = (roots or orphans or [0])[0]
    for place in orphans:
        heads[place] = root + 1 if place != root else 0
    return tuple(heads), tuple(label for label, keeps in zip(arcs.labels, stays, strict=True) if keeps)
