"""ARPA files, the exchange format of n-gram models: text, with a section per order and a line per n-gram.

A line has log10 p(last word | the others), the words and, except in the highest order, the log10 back-off weight: the
probability mass left to shorter contexts. Words are separated by spaces, the three fields by tabs.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import replaced, split_lines
from syntaxlm.core.text_files import read_whole_text, source_name
from syntaxlm.models.batches import TextMode
from syntaxlm.models.ngram import NEVER, Level, NGramConfig, NGramModel
from syntaxlm.ops.kneser_ney import Integers, Numbers
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary

DATA, END = "\\data\\", "\\end\\"
UNKNOWN = "<unk>", "<UNK>"  # the usual spellings
# BOS and EOS, by how the text was read.
MARKS = {TextMode(carry_state=False): ("<s>", "</s>"), TextMode(carry_state=True): ("<eos>", "<eos>")}

_COUNT = re.compile(r"ngram +([0-9]{1,4}) *= *([0-9]{1,15})")
_SHOWN = 60  # characters of a faulty line
MAXIMUM_ARPA = 2**32  # bytes after decompression


@dataclass(frozen=True)
class NGramSummary:
    """Contents of a file or model folder. counts: number of n-grams of 1, 2, ... words."""

    path: Path
    counts: tuple[int, ...]

    @classmethod
    def of(cls, model: NGramModel, path: Path) -> NGramSummary:
        return cls(path, tuple(len(level.keys) for level in model.each_level))

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "counts": list(self.counts)}

    def __str__(self) -> str:
        return f"{self.path}: " + "   ".join(f"{number:,} {order}-grams" for order, number in enumerate(self.counts, 1))


def write_arpa(bundle: ModelBundle, path: str | Path) -> NGramSummary:
    """Write an n-gram model. Numbers have enough digits to be read back unchanged.

    Raises InputError for other model types, for a token that contains white space, and if the file cannot be written.
    """
    model = bundle.model
    if not isinstance(model, NGramModel):
        raise InputError(f"this is a {bundle.name} model; ARPA files can only store n-gram models (ngram)")
    path, levels, tokens = Path(path), model.each_level, bundle.vocabulary.tokens
    odd = next((token for token in tokens if re.search(r"[ \t\r\n]", token)), None)
    if odd is not None:
        raise InputError(f"{path}: the token {odd!r} contains white space, which separates words in ARPA files")
    summary = NGramSummary.of(model, path)
    with replaced(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(
            "\n".join([DATA, *(f"ngram {order}={number}" for order, number in enumerate(summary.counts, 1))]) + "\n"
        )
        grams: Sequence[str] = [""]
        for order, level in enumerate(levels, 1):
            contexts, words = (part.tolist() for part in (level.keys // len(tokens), level.keys % len(tokens)))
            space = " " if order > 1 else ""
            grams = [f"{grams[context]}{space}{tokens[word]}" for context, word in zip(contexts, words, strict=True)]
            ends = [f"\t{end}" for end in _written(level.back_offs)] if order < len(levels) else [""] * len(grams)
            file.write(f"\n\\{order}-grams:\n")
            lines = zip(_written(level.log_probs), grams, ends, strict=True)
            file.writelines(f"{value}\t{gram}{end}\n" for value, gram, end in lines)
        file.write(f"\n{END}\n")
    return summary


def _written(values: Tensor) -> list[str]:
    """Return the shortest representation of each number that is read back unchanged."""
    return [repr(value).removesuffix(".0") for value in values.tolist()]


def read_arpa(path: str | Path, normaliser: Normaliser | None = None) -> ModelBundle:
    """Read an ARPA file, optionally compressed (.gz, .xz, .zst), of up to 4 GiB of text; "-" is standard input.

    The vocabulary has the words of the 1-grams, in their order. Sentences are enclosed in `<s>` and `</s>`, or a stream
    has `<eos>` after each sentence; `<s>` is never predicted, whatever its probability in the file. A missing `<unk>`
    is added with an InputWarning and is never predicted either.
    normaliser: the normalisation of the model's training text; None: words are not changed.
    Raises InputError with the line number if something is missing, duplicated or not a number, or if a probability is
    above 1.
    """
    file = _ArpaFile(split_lines(read_whole_text(path, MAXIMUM_ARPA)), source_name(path))
    counts = file.read_counts()
    log_probs, back_offs, _ = file.read_section(1, counts[0], has_back_offs=len(counts) > 1)
    tokens = list(file.words)
    unknown = next((token for token in UNKNOWN if token in file.words), None)
    if unknown is None:
        tokens.append(unknown := UNKNOWN[0])
        rate = f"unknown words get the lowest probability, 1e{NEVER:.0f}"
        warnings.warn(InputWarning(f"{path}: {unknown} is missing among the 1-grams: {rate}"), stacklevel=2)
        log_probs, back_offs = np.append(log_probs, NEVER), np.append(back_offs, [0.0] * (len(counts) > 1))
    mode = next((mode for mode, marks in MARKS.items() if all(mark in file.words for mark in marks)), None)
    if mode is None:
        raise InputError(
            f"{file.source}: found neither <s> and </s> nor <eos> among the 1-grams; expected the symbols that end"
            " sentences"
        )
    vocabulary = Vocabulary(tokens, unknown, *MARKS[mode])
    if not mode.carry_state:
        log_probs[vocabulary.begin_id] = NEVER
    levels = [Level(torch.arange(len(tokens)), torch.from_numpy(log_probs), torch.from_numpy(back_offs))]
    for order, number in enumerate(counts[1:], 2):
        levels.append(file.read_level(order, number, levels, is_last=order == len(counts)))
    file.skip_title(END)
    model = NGramModel(NGramConfig(order=len(levels)), len(tokens))
    model.levels = nn.ModuleList(levels)
    settings = ModelSettings(model.config, normaliser or Normaliser(), mode.carry_state, mode.predict_eos)
    return ModelBundle(model.eval(), settings, vocabulary)


class _ArpaFile:
    """A file that is read from its first line to its last. words: the 1-grams, with their indices."""

    def __init__(self, lines: list[str], source: str) -> None:
        self.lines, self.source = lines, source
        self.words: dict[str, int] = {}
        self._place = 0

    def fault(self, place: int, expected: str) -> InputError:
        """Return an error at a line, counted from 0; the index after the last line is the end of the file."""
        if place >= len(self.lines):
            return InputError(f"{self.source}: the file ends after line {len(self.lines)}; expected {expected}")
        line = self.lines[place]
        shown = repr(line if len(line) <= _SHOWN else line[:_SHOWN] + " ...")
        return InputError(f"{self.source}, line {place + 1}: found {shown}; expected {expected}")

    def read_counts(self) -> list[int]:
        """Read the header. Return the numbers of n-grams of 1, 2, ... words."""
        start = next((place for place, line in enumerate(self.lines) if line.strip() == DATA), None)
        if start is None:
            raise InputError(f"{self.source}: not an ARPA file: the line {DATA} is missing")
        self._place = start + 1
        counts: list[int] = []
        while declared := _COUNT.fullmatch(self._next_line()):
            if int(declared[1]) != len(counts) + 1:
                raise self.fault(self._place, f"ngram {len(counts) + 1}=...")
            if int(declared[2]) > len(self.lines):
                raise self.fault(self._place, f"at most as many n-grams as the file has lines, {len(self.lines):,}")
            counts.append(int(declared[2]))
            self._place += 1
        if not counts:
            raise self.fault(self._place, "ngram 1=...")
        return counts

    def _next_line(self) -> str:
        """Skip empty lines. Return the line that follows, "" at the end of the file."""
        while self._place < len(self.lines) and not self.lines[self._place].strip():
            self._place += 1
        return self.lines[self._place].strip() if self._place < len(self.lines) else ""

    def skip_title(self, title: str) -> None:
        """Skip a title. Raises InputError if another line follows."""
        if self._next_line() != title:
            raise self.fault(self._place, f"{title}, as declared in the header")
        self._place += 1

    def read_section(self, order: int, number: int, has_back_offs: bool) -> tuple[Numbers, Numbers, Integers]:
        """Read the n-grams of one order: their log-probabilities, back-off weights and words, (number, order)."""
        self.skip_title(f"\\{order}-grams:")
        first, log_probs, back_offs = self._place, np.zeros(number), np.zeros(number if has_back_offs else 0)
        words: list[int] = []
        expected = f"log10 of a probability, {order} word{'s' * (order > 1)}"
        if has_back_offs:
            expected += ", an optional back-off weight"
        for index, place in enumerate(range(first, first + number)):
            if place >= len(self.lines) or not self.lines[place].strip() or self.lines[place].startswith("\\"):
                raise self.fault(place, f"{number:,} {order}-grams, not only {index:,}")
            fields = self.lines[place].replace("\t", " ").split(" ")
            fields = [field for field in fields if field] if "" in fields else fields
            try:
                log_prob = log_probs[index] = float(fields[0])
                back_off = float(fields.pop()) if len(fields) == order + 2 and has_back_offs else 0.0
            except ValueError:
                raise self.fault(place, expected) from None
            if len(fields) != order + 1 or not (-math.inf < log_prob <= 0 and math.isfinite(back_off)):
                raise self.fault(place, expected)
            if has_back_offs:
                back_offs[index] = back_off
            if order == 1 and self.words.setdefault(fields[1], index) < index:
                raise self.fault(place, f"each word once; it is also on line {first + self.words[fields[1]] + 1}")
            try:
                words += [self.words[word] for word in fields[1:]]
            except KeyError as error:
                raise self.fault(place, f"words that are 1-grams, which {error.args[0]!r} is not") from None
        self._place += number
        return log_probs, back_offs, np.array(words, np.int64).reshape(number, order)

    def read_level(self, order: int, number: int, levels: Sequence[Level], is_last: bool) -> Level:
        """Read the n-grams of one order, and sort them by their keys.  levels: those of the lower orders.

        Raises InputError for an n-gram without its context or given twice.
        """
        log_probs, back_offs, ids = self.read_section(order, number, has_back_offs=not is_last)
        first, words = self._place - number, torch.from_numpy(ids)
        keys = words[:, 0]
        for place, level in enumerate(levels):
            contexts = keys if place == 0 else level.find(keys)
            keys = contexts * len(levels[0].keys) + words[:, place + 1]
        lost = torch.nonzero(keys < 0)
        if len(lost):
            raise self.fault(first + int(lost[0]), "an n-gram that, without its last word, is also listed")
        keys, places = torch.sort(keys, stable=True)
        twice = torch.nonzero(keys[1:] == keys[:-1])
        if len(twice):
            earlier, later = (first + index for index in places[twice[0, 0] : twice[0, 0] + 2].tolist())
            raise self.fault(later, f"each n-gram once; it is also on line {earlier + 1}")
        return Level(keys, torch.from_numpy(log_probs)[places], torch.from_numpy(back_offs)[places[: len(back_offs)]])
