"""`data` and its commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from syntaxlm.cli.command import Folder
from syntaxlm.cli.options import Brackets, MaxWords, Preprocessing, SentencesFile, Share, has_labels
from syntaxlm.cli.output import (
    WRONG_INPUT,
    OutputFile,
    ReportOutput,
    SummaryFormat,
    formatted,
    output_path,
    print_summary,
)
from syntaxlm.core.declarations import Argument, Count, Name, Seed, Shown, With
from syntaxlm.core.files import to_json
from syntaxlm.core.progress import status

SPLITS = ("train", "valid", "test")
TOY_FILES = tuple(f"{split}.{suffix}" for split in SPLITS for suffix in ("txt", "mrg", "conllu"))
PAIR_FILES = tuple(f"{split}.tsv" for split in SPLITS)
WITH_VALID = With(("valid_output",))
PairFolder = Annotated[Path, Folder(may_hold="new files", files=PAIR_FILES, help="Write into this folder.")]
TextFolder = Annotated[
    Path, Folder(may_hold="new files", files=("train.txt", "valid.txt"), help="Write into this folder.")
]
ToyFolder = Annotated[Path, Folder(files=TOY_FILES)]


@dataclass(frozen=True, kw_only=True)
class WordExtraction:
    """Which words of a treebank are written, and where.

    Attributes:
        treebank: File of trees or tagged text, folder or quoted pattern, or `-` for standard input.
        output: Write the text to this file, or to standard output (`-`, the default).
    """

    treebank: Annotated[str, Argument("TREEBANK")]
    output: OutputFile | None = None
    preprocessing: Preprocessing = "ptb-keep"
    max_words: MaxWords | None = None
    brackets: Brackets | None = None
    format: SummaryFormat = "text"

    def run(self, with_tags: bool) -> None:
        """Write the words, and print their number."""
        from syntaxlm.data.treebanks import read_treebank, write_words

        with status("reading"), output_path(self.output) as path:
            treebank = read_treebank(self.treebank, self.preprocessing, labelled=has_labels(self.brackets))
            summary = write_words(treebank, path, self.max_words, with_tags)
        print_summary(summary, self.format, self.output, f"{self.output or 'standard output'}: ")


def inspect(
    files: Annotated[Sequence[str], Argument("FILE")],
    output: ReportOutput,
) -> int:
    """Show what files are and how commands would read them.

    Each file is read by the readers of the commands, and the output shows:

    - the form of the file, and the evidence for it
    - the numbers of sentences, words or rows, and the first two of them as read
    - what would be dropped or is unusual, with line numbers

    The command reads text, tagged text, trees, dependency trees, tables, minimal pairs, test suites, frequency lists,
    n-grams and model folders. Its exit code is 2 if a file cannot be read.

    Args:
        files: Files of any type.

    Examples:
        syntaxlm inspect treebank.mrg stimuli.csv
    """
    from syntaxlm.evaluation.inspection import inspect

    with status("reading"):
        report = inspect(*files)
    output.write(report, with_head=False)
    return WRONG_INPUT if report.problems else 0


def toy(
    output: ToyFolder,
    sentences: Count = 20_000,
    seed: Seed = 0,
    punctuated: bool = False,
    format: SummaryFormat = "text",
) -> None:
    """Sample the built-in corpus of English sentences and trees from a grammar.

    The command writes text, constituency trees, dependency trees, and the perplexity floor, which is the lowest
    perplexity that a model can have.

    Args:
        output: Write the corpus into this folder. Files of the same names are replaced only if this command wrote them.
        sentences: Sample N training sentences.
        punctuated: Write commas and full stops in text and constituency trees. The words are the same.

    Examples:
        syntaxlm data toy -o toy --sentences 2000
    """
    from syntaxlm.data.toy import write_corpus

    with status("sampling, and computing exact sentence probabilities"):
        summary = write_corpus(output, sentences, seed, punctuated)
    print(to_json(asdict(summary)) if format == "json" else f"{output}: {summary}")


def text8(file: Annotated[str, Argument("FILE")], output: TextFolder, format: SummaryFormat = "text") -> None:
    """Split text8 into training and validation text.

    `DIR/train.txt` has the first 99 million characters and `DIR/valid.txt` the last million, each on one line. This is
    the split of published results. Training requires `batches.context carry`.

    Args:
        file: Unpacked text8 of 100,000,000 bytes, or `-` for standard input.

    Examples:
        syntaxlm data text8 text8 -o data/text8
    """
    from syntaxlm.data.running_text import split_text8

    with status("reading and writing 100 million bytes"):
        summary = split_text8(file, output)
    print(formatted(summary, format))


def words(extraction: WordExtraction) -> None:
    """Extract the words of a treebank as plain text.

    The output has one sentence per line after gold-tree preprocessing. It is training text for a model that does not
    read the trees.

    Examples:
        syntaxlm data words treebank.mrg -o train.txt
    """
    extraction.run(with_tags=False)


def tags(extraction: WordExtraction) -> None:
    """Extract the words of a treebank with their tags.

    The output has one sentence per line after gold-tree preprocessing, as tagged text (`word_TAG`). It is training text
    for models of part-of-speech tags (`text.normaliser.units: tags`). TREEBANK may also be tagged text, whose
    punctuation is removed.

    Examples:
        syntaxlm data tags masc.tagged.txt.gz -o train.tagged.txt --preprocessing ptb-keep
    """
    extraction.run(with_tags=True)


def trees(
    text: SentencesFile,
    shape: Literal["right", "left", "balanced", "random"],
    output: OutputFile | None = None,
    seed: Annotated[Seed, With(("shape",), "random")] = 0,
    format: SummaryFormat = "text",
) -> None:
    """Write right-branching, left-branching, balanced or random trees of a text.

    The output has a binary tree for each sentence of the text, which depends only on the number of words. The trees are
    the baselines of `evaluate parse`, and control trees for models that learn from trees (`text.trees`).

    Args:
        shape: Build trees of this shape.
            - `right`: every constituent ends at the last word
            - `left`: every constituent starts at the first word
            - `balanced`: every constituent splits in the middle
            - `random`: every constituent splits at a uniformly random position
        output: Write the trees to this file, or to standard output (`-`, the default).

    Examples:
        syntaxlm data trees train.txt --shape random --seed 1 -o random.mrg
    """
    from syntaxlm.data.treebanks import write_baseline_trees

    with output_path(output) as path:
        summary = write_baseline_trees(text, path, shape, seed)
    print_summary(summary, format, output, f"{output or 'standard output'}: ")


def sentences(
    files: Annotated[Sequence[str], Argument("FILES")],
    output: OutputFile | None = None,
    valid_output: Annotated[Path, Shown("FILE", use="output")] | None = None,
    valid_share: Annotated[Share, Shown("P"), WITH_VALID] = 0.05,
    seed: Annotated[Seed, WITH_VALID] = 0,
    paragraphs: Literal["blank-lines", "lines"] = "blank-lines",
    abbreviation: Annotated[Sequence[str], Shown("WORD")] = (),
    punctuation: Literal["keep", "split", "drop"] = "keep",
    contractions: Literal["keep", "split"] = "keep",
    encoding: Name = "utf-8",
    format: SummaryFormat = "text",
) -> None:
    """Split books into one sentence per line.

    The input is plain text with arbitrary line breaks, in which blank lines separate paragraphs. Abbreviations, whose
    full stops do not end a sentence, are learned from the text.

    Args:
        files: Plain text files, which may be compressed (`.gz`, `.bz2`, `.xz`, `.zst` or `.zip`), or `-` for standard
            input.
        output: Write the sentences to this file, or to standard output (`-`, the default).
        valid_output: Write some paragraphs, drawn at random, to this file instead, as validation text.
        valid_share: Draw this share of the paragraphs for the validation text, more than 0 and less than 1.
        paragraphs: Separate paragraphs in this way.
            - `blank-lines` (default): at blank lines
            - `lines`: at every line end
        abbreviation: Treat the full stop of this word as the mark of an abbreviation, as for the learned abbreviations.
        punctuation: Treat English punctuation marks at the ends of words in this way.
            - `keep` (default): as they are written
            - `split`: each mark becomes a word
            - `drop`: marks are removed
        contractions: Treat contractions such as n't, 's and 'll in this way.
            - `keep` (default): as they are written
            - `split`: each becomes a separate word, as in treebanks
        encoding: Read the files in this encoding.

    Examples:
        syntaxlm data sentences novels/*.txt -o train.txt --valid-output valid.txt
    """
    from syntaxlm.data.running_text import write_sentences
    from syntaxlm.text.treebank_style import TreebankStyle

    style = TreebankStyle(punctuation, contractions)
    with output_path(output) as path:
        summary = write_sentences(
            files, path, valid_output, valid_share, seed, paragraphs == "lines", encoding, abbreviation, style
        )
    if output is None:  # not the temporary file
        summary = replace(summary, train=replace(summary.train, file="standard output"))
    print_summary(summary, format, output)


def logic(output: PairFolder, pairs: Count = 100_000, seed: Seed = 0, format: SummaryFormat = "text") -> None:
    """Sample pairs of propositional formulas and their relations.

    Truth tables determine which of seven relations holds between the two formulas of a pair. Training and validation
    pairs have up to 6 operators, and test pairs have 1 to 12.

    Args:
        pairs: Sample N training pairs.

    Examples:
        syntaxlm data logic -o logic
    """
    from syntaxlm.data.labelled_pairs import write_logic

    with status("sentences"):
        summary = write_logic(output, pairs, seed)
    print(formatted(summary, format))


def next_sentence(
    text: SentencesFile, output: PairFolder, max_words: Count = 40, seed: Seed = 0, format: SummaryFormat = "text"
) -> None:
    """Make labelled pairs of sentences that follow each other in a text or do not.

    The text has one sentence per line. Half of the pairs are a sentence and the next one (label `next`). The others are
    a sentence and another one of the same part of the text (label `other`). The first 90% of the text are for training,
    the next 5% for validation, and the last 5% for testing.

    Args:
        max_words: Omit pairs with a sentence of more than N words.

    Examples:
        syntaxlm data next-sentence text.txt -o pairs
    """
    from syntaxlm.data.labelled_pairs import write_next_sentence_pairs

    with status("writing pairs"):
        summary = write_next_sentence_pairs(text, output, max_words, seed)
    print(formatted(summary, format))
