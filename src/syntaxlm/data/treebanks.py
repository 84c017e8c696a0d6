"""Gold treebanks: constituency trees, dependency trees, or both of the same sentences, after one clean-up."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path

from syntaxlm.errors import InputError
from syntaxlm.files import write_text
from syntaxlm.text.normaliser import Normaliser, split_words
from syntaxlm.trees.brackets import read_brackets
from syntaxlm.trees.conllu import DEPENDENCY_FORMATS, iterate_dependencies
from syntaxlm.trees.preprocessing import EMPTY_TAG, PREPROCESSINGS, GoldPreprocessing, clean_all, find_preprocessing
from syntaxlm.trees.tree import DependencyTree, Tree

CONSTITUENCY_SUFFIXES = (".mrg", ".brackets", ".txt", ".tree", ".trees", ".ptb", ".clean")
DEPENDENCY_SUFFIXES = tuple(DEPENDENCY_FORMATS)
NO_TEXT_SUFFIXES = (".mrg", ".brackets", ".tree", ".trees", *DEPENDENCY_SUFFIXES)  # the others may be of plain text

# Two preparations of a treebank may write a few words differently (brackets, quotes, slashes). Sentences that agree in
# fewer of their words than this are not the same.
SAME_SENTENCE = 0.5


@dataclass(frozen=True)
class TreebankSentence:
    """One gold sentence after clean-up.

    words, tags: as the file writes them; tags are "" where it has none.
    tree: its constituency tree over `words`; None if only dependencies were read.
    heads: the 1-based position in `words` of each word's head, 0 for the root; labels: of the arcs. None, and (), if
        only constituents were read.
    number: which sentence of the treebank it was before clean-up, 1 first.
    name: its id in a dependency file, or "".
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    tree: Tree | None = None
    heads: tuple[int, ...] | None = None
    labels: tuple[str, ...] = ()
    number: int = 0
    name: str = ""

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Treebank:
    """Gold sentences in the order of their files.

    source: the path they were asked by, for messages.
    emptied: the numbers of the sentences of which clean-up left no word.
    """

    sentences: tuple[TreebankSentence, ...]
    source: str
    emptied: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[TreebankSentence]:
        return iter(self.sentences)


@dataclass(frozen=True)
class _Read:
    """A sentence of a file. Exactly one of the trees is there."""

    place: str
    tree: Tree | None = None
    dependencies: DependencyTree | None = None


def read_treebank(
    path: str | Path, clean_up: GoldPreprocessing | str | Path = "none", dependencies: str | Path | None = None
) -> Treebank:
    """Read gold trees.

    path: a file; a folder, of which all files of a known suffix are read, sorted by name; or a pattern such as
        "mrg/wsj_00*.mrg". The suffix tells the kind: see CONSTITUENCY_SUFFIXES and DEPENDENCY_SUFFIXES; .gz
        may follow it.
    clean_up: which words stay: a name, a YAML file or the rule as such; "none" still drops empty nodes. The head of a
        dropped word becomes the head of its dependents; where that was the root, the first of them becomes the root
        and has the others.
    dependencies: the dependency trees of the same sentences, in the same order; a path of the same three forms.
    Raises InputError for files that are not there, of no known suffix, or of both kinds; for faults in them; and where
    the two kinds have not the same sentences, naming the file and the sentence.
    """
    rule = find_preprocessing(clean_up)
    read = _read_all(path)
    if dependencies is None:
        trees = [sentence.tree or _flat(sentence.dependencies) for sentence in read]
        arcs = [sentence.dependencies for sentence in read]
    else:
        trees, arcs = _paired(path, read, dependencies, _read_all(dependencies))
    cleaned, indices = clean_all(trees, rule, str(path))
    sentences = []
    for tree, index in zip(cleaned, indices, strict=True):
        gold, arc = (tree if read[index].tree is not None else None), arcs[index]
        heads, labels = (None, ()) if arc is None else _projected(trees[index], arc, rule)
        name = "" if arc is None else arc.name
        sentences.append(TreebankSentence(tree.words, tree.tags, gold, heads, labels, index + 1, name))
    left = set(indices)
    emptied = tuple(index + 1 for index in range(len(trees)) if index not in left)
    return Treebank(tuple(sentences), str(path), emptied)


def dependency_trees(path: str | Path, clean_up: GoldPreprocessing | str | Path = "none") -> Iterator[DependencyTree]:
    """The dependency trees of a file, a folder or a pattern, as `read_treebank` reads them, named by file and sentence.

    Where clean-up is "none" they are read one at a time, and all words stay: files may be larger than memory.
    Raises InputError as `read_treebank` does, and for constituency trees.
    """
    files = treebank_files(path)
    if _suffix(files[0]) not in DEPENDENCY_SUFFIXES:
        raise InputError(
            f"{files[0]}: found a name that ends in {_suffix(files[0])}; expected dependency trees, in files that end"
            f" in {' '.join(DEPENDENCY_SUFFIXES)}"
        )
    rule = find_preprocessing(clean_up)
    if rule != PREPROCESSINGS["none"]:
        for sentence in read_treebank(path, rule):
            name = sentence.name or str(sentence.number)
            yield DependencyTree(sentence.words, sentence.tags, sentence.heads or (), sentence.labels, name)
        return
    for file in files:
        prefix = "" if len(files) == 1 else f"{file.name} "
        for number, tree in enumerate(iterate_dependencies(file), 1):
            yield tree if tree.name else replace(tree, name=f"{prefix}{number}")


def treebank_tokens(treebank: Treebank, normaliser: Normaliser) -> list[list[str]]:
    """The sentences as the tokens that a model reads, one for each word: `Normaliser.word` of every one."""
    normal: dict[str, str] = {}
    for sentence in treebank:
        for word in sentence.words:
            if word not in normal:
                normal[word] = normaliser.word(word)
    return [[normal[word] for word in sentence.words] for sentence in treebank]


@dataclass(frozen=True)
class WrittenWords:
    """What `write_words` wrote.

    joined: words that had white space in them; blank: words that were nothing else, and are left out.
    emptied: sentences that are left out, for clean-up left no word of them.
    """

    sentences: int
    words: int
    joined: int
    blank: int
    emptied: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        notes = [f"{self.sentences:,} sentences", f"{self.words:,} words"]
        if self.joined:
            notes.append(f"{self.joined:,} words had white space in them and are written without")
        if self.blank:
            notes.append(f"{self.blank:,} words of nothing but white space are left out")
        if self.emptied:
            notes.append(f"{self.emptied:,} sentences without a word after clean-up are left out")
        return "   ".join(notes)


def write_words(treebank: Treebank, path: str | Path) -> WrittenWords:
    """Writes the words of a treebank as plain text, one sentence a line: text to train on, without the trees.

    A word with white space in it is written without, for a reader of lines would take it for several; it is then the
    word that `treebank_tokens` gives. The file appears whole or not at all. Raises InputError.
    """
    lines: list[str] = []
    words = joined = blank = 0
    for sentence in treebank:
        written = ["".join(split_words(word)) for word in sentence.words]
        joined += sum(0 < len(new) < len(word) for new, word in zip(written, sentence.words, strict=True))
        kept = [word for word in written if word]
        words += len(kept)
        blank += len(written) - len(kept)
        if kept:
            lines.append(" ".join(kept) + "\n")
    if not lines:
        raise InputError(f"{treebank.source}: found no word to write")
    write_text("".join(lines), path)
    return WrittenWords(len(lines), words, joined, blank, len(treebank.emptied) + len(treebank) - len(lines))


def treebank_files(path: str | Path) -> list[Path]:
    """The files that a path, a folder or a pattern stands for, sorted; all of one type. Raises InputError."""
    path = Path(path)
    known = CONSTITUENCY_SUFFIXES + DEPENDENCY_SUFFIXES
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.is_file() and _suffix(file) in known]
        if not files:
            raise InputError(f"{path}: no treebank in this folder; expected files that end in {' '.join(known)}")
    elif path.exists():
        files = [path]
    else:
        files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        if not files:
            raise InputError(f"{path}: no such file or folder, and no file of this pattern")
    strange = [file for file in files if _suffix(file) not in known]
    if strange:
        raise InputError(f"{strange[0]}: a treebank of an unknown kind; expected a name that ends in {' '.join(known)}")
    kinds = {_suffix(file) in DEPENDENCY_SUFFIXES for file in files}
    if len(kinds) > 1:
        raise InputError(
            f"{path}: both constituency and dependency files; expected one kind. Give a pattern such as"
            f" {path / '*.mrg' if path.is_dir() else '*.mrg'}, and the dependencies apart."
        )
    return files


def _suffix(path: Path) -> str:
    """The suffix that tells the kind, without .gz."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _read_all(path: str | Path) -> list[_Read]:
    sentences: list[_Read] = []
    for file in treebank_files(path):
        suffix = _suffix(file)
        if suffix in CONSTITUENCY_SUFFIXES:
            trees = read_brackets(file)
            sentences.extend(_Read(f"{file}, sentence {number}", tree=tree) for number, tree in enumerate(trees, 1))
        else:
            sentences.extend(
                _Read(f"{file}, sentence {number}", dependencies=arcs)
                for number, arcs in enumerate(iterate_dependencies(file), 1)
            )
    return sentences


def _flat(arcs: DependencyTree | None) -> Tree:
    """The words of a dependency tree as a tree without constituents, so that clean-up has one form."""
    assert arcs is not None
    return Tree(arcs.words, arcs.tags, ())


def _paired(
    path: str | Path, trees: Sequence[_Read], dependencies: str | Path, arcs: Sequence[_Read]
) -> tuple[list[Tree], list[DependencyTree | None]]:
    """The trees and the dependency trees of the same sentences. Raises InputError at the first that is not the same."""
    if trees[0].tree is None or arcs[0].dependencies is None:
        raise InputError(f"{path} and {dependencies}: expected constituency trees first, then dependency trees")
    for first, second in zip(trees, arcs, strict=False):
        assert first.tree is not None
        assert second.dependencies is not None
        tags = zip(first.tree.words, first.tree.tags, strict=True)
        words = [word for word, tag in tags if tag != EMPTY_TAG]
        others = second.dependencies.words
        same = sum(map(str.__eq__, words, others))
        if len(words) != len(others) or same < SAME_SENTENCE * len(words):
            raise InputError(
                f"{first.place} and {second.place} are not the same: {len(words)} and {len(others)} words"
                f" (empty nodes left out).\n  constituents: {' '.join(words)}\n  dependencies: {' '.join(others)}"
            )
    if len(trees) != len(arcs):
        longer = trees if len(trees) > len(arcs) else arcs
        raise InputError(
            f"{path} has {len(trees)} sentences and {dependencies} has {len(arcs)}; expected the same sentences."
            f" The first without a partner is {longer[min(len(trees), len(arcs))].place}."
        )
    return [sentence.tree for sentence in trees if sentence.tree is not None], [each.dependencies for each in arcs]


def _projected(tree: Tree, arcs: DependencyTree, rule: GoldPreprocessing) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The heads and labels of the words that clean-up leaves, as positions among those.

    tree: before clean-up, with the same words as `arcs` but for empty nodes.
    """
    pairs = zip(tree.words, tree.tags, strict=True)
    stays = [rule.keeps(word, tag) for word, tag in pairs if tag != EMPTY_TAG]
    # 1-based, before clean-up -> after; 0 for those that go.
    position = [0, *(count if keeps else 0 for count, keeps in zip(accumulate(stays), stays, strict=True))]
    heads: list[int] = []
    orphans: list[int] = []  # places in `heads` whose head was dropped and had none itself
    for old, keeps in enumerate(stays, 1):
        if not keeps:
            continue
        head = arcs.heads[old - 1]
        climbed = 0
        # A cycle of dropped words has no way up: its dependents are orphans, too.
        while head and not position[head] and climbed <= len(stays):
            head = arcs.heads[head - 1]
            climbed += 1
        heads.append(position[head])
        if climbed and not heads[-1]:
            orphans.append(len(heads) - 1)
    roots = [place for place, head in enumerate(heads) if not head and place not in orphans]
    root = (roots or orphans or [0])[0]
    for place in orphans:
        heads[place] = root + 1 if place != root else 0
    return tuple(heads), tuple(label for label, keeps in zip(arcs.labels, stays, strict=True) if keeps)
