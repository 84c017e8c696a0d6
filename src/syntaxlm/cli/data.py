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
PairFolder = Annotated[Path, Folder(may_hold="new files", files=PAIR_FILES, help="output folder")]
TextFolder = Annotated[Path, Folder(may_hold="new files", files=("train.txt", "valid.txt"), help="output folder")]
WITH_VALID = With(("valid_output",))
ToyFolder = Annotated[Path, Folder(files=TOY_FILES)]


@dataclass(frozen=True, kw_only=True)
class WordExtraction:
    """Which words of a treebank are written, and where.

    Attributes:
        treebank: file of trees or tagged text, folder or quoted pattern; - for standard input
        output: write the text to this file (written atomically); default, or -: standard output
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

    Show how other commands would read each file. Print its format with the evidence, the numbers of sentences, words or
    rows, the first two of them as read, and, with line numbers, what would be dropped or looks unusual.

    The files may be text, tagged text, trees, dependency trees, tables, minimal pairs, test suites, frequency lists,
    n-grams and model folders. The exit code is 2 if a file cannot be read.

    Args:
        files: any files

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

    Sample sentences from a small English grammar. Write text, constituency trees, dependency trees, and the perplexity
    of the grammar (perplexity floor), which is the lowest perplexity that a model can expect to reach.

    Args:
        output: output folder: new, empty, or written by this command before
        sentences: number of training sentences
        punctuated: add commas and full stops to text and constituency trees; the words do not change

    Examples:
        syntaxlm data toy -o toy --sentences 2000
    """
    from syntaxlm.data.toy import write_corpus

    with status("sampling, and computing exact sentence probabilities"):
        summary = write_corpus(output, sentences, seed, punctuated)
    print(to_json(asdict(summary)) if format == "json" else f"{output}: {summary}")


def text8(file: Annotated[str, Argument("FILE")], output: TextFolder, format: SummaryFormat = "text") -> None:
    """Split text8 into training and validation text.

    Write the first 99 million characters of text8 to DIR/train.txt and the last million to DIR/valid.txt, each as one
    line. Published results use this split. Training requires batches.context carry.

    Args:
        file: unpacked text8, 100,000,000 bytes; - for standard input

    Examples:
        syntaxlm data text8 text8 -o data/text8
    """
    from syntaxlm.data.running_text import split_text8

    with status("reading and writing 100 million bytes"):
        summary = split_text8(file, output)
    print(formatted(summary, format))


def words(extraction: WordExtraction) -> None:
    """Extract the words of a treebank as plain text.

    Write the words of a treebank, one sentence per line, after gold-tree preprocessing, as training text for a model
    that does not read trees.

    Examples:
        syntaxlm data words treebank.mrg -o train.txt
    """
    extraction.run(with_tags=False)


def tags(extraction: WordExtraction) -> None:
    """Extract the words of a treebank with their tags.

    Write the words of a treebank with their tags (word_TAG), one sentence per line, after gold-tree preprocessing, as
    training text for models of part-of-speech tags (text.normaliser.units: tags). TREEBANK may also be tagged text,
    whose punctuation is then removed.

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
    """Write baseline trees of a text: right-branching, left-branching, balanced or random.

    Write a binary tree for each sentence of a text. The tree depends only on the number of words. Such trees are the
    baselines of evaluate parse, and controls for models that learn from trees (text.trees).

    Args:
        shape: right (every constituent ends at the last word), left (every constituent starts at the first word),
            balanced (every constituent splits in the middle) or random (every constituent splits at a random position)
        output: write the trees to this file (written atomically); default, or -: standard output

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

    Split plain text with arbitrary line breaks, such as books, into sentences, one per line. Blank lines separate
    paragraphs. The command learns from the text which words are abbreviations, whose full stops do not end a sentence.

    Args:
        files: plain text files, optionally .gz, .bz2, .xz, .zst or .zip; - for standard input
        output: write the sentences to this file (written atomically); default, or -: standard output
        valid_output: write some paragraphs, drawn at random, to this file instead, as validation text
        valid_share: share of the paragraphs in the validation text
        paragraphs: end of a paragraph: blank lines (default) or every line end
        abbreviation: another word whose full stop does not end a sentence; may be repeated
        punctuation: English punctuation marks at the ends of words: keep (default), split (each mark becomes a word) or
            drop
        contractions: n't, 's, 'll and similar: keep (default) or split (they become separate words, as in treebanks)
        encoding: encoding of the files

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

    Sample pairs of propositional formulas, each labelled with one of seven relations, which is computed from truth
    tables. Training and validation pairs contain up to 6 operators, and test pairs 1 to 12.

    Args:
        pairs: number of training pairs

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
    """Make labelled sentence pairs from a text: does the second sentence follow the first?

    Make labelled sentence pairs from a text with one sentence per line. In half of the pairs, the second sentence is
    the next sentence of the text (label next). In the other half, it is a random sentence from the same part of the
    text (label other). The first 90% of the text are for training, the next 5% for validation, and the last 5% for
    testing.

    Args:
        max_words: omit pairs with a longer sentence

    Examples:
        syntaxlm data next-sentence text.txt -o pairs
    """
    from syntaxlm.data.labelled_pairs import write_next_sentence_pairs

    with status("writing pairs"):
        summary = write_next_sentence_pairs(text, output, max_words, seed)
    print(formatted(summary, format))
