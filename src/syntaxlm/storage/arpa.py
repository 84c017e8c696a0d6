"""ARPA files, the exchange format of n-gram models: text, with a section per order and a line per n-gram.

A line has log10 p(last word | the others), the words and, except in the highest order, the log10 back-off weight: the
probability mass left to shorter contexts. Words are separated by spaces, the three fields by tabs. Programs differ in
details: what KenLM reads is read, and fields that are separated by spaces only, as by the CMU toolkit.
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.core.arrays import Integers, Numbers
from syntaxlm.core.errors import InputError, amount, shortened, warn_caller
from syntaxlm.core.files import decode_text, replaced
from syntaxlm.core.reading import ReadingReport, Remarks, announce
from syntaxlm.core.systems import memory_size
from syntaxlm.core.text_files import open_bytes, source_name
from syntaxlm.core.threads import no_collection
from syntaxlm.models.batches import TextMode
from syntaxlm.models.layers import LOG_PROBS
from syntaxlm.models.ngram import LOG10_NEVER, Level, NGramConfig, NGramModel
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary

_MOST_OFF = 0.1  # by which the sum of the probabilities of the 1-grams may differ from 1 without a warning
DATA, END = "\\data\\", "\\end\\"
UNKNOWN = "<unk>", "<UNK>"  # the usual spellings
# BOS and EOS, by how the text was read.
MARKS = {TextMode(carry_state=False): ("<s>", "</s>"), TextMode(carry_state=True): ("<eos>", "<eos>")}

_SENTENCE_START = MARKS[TextMode(carry_state=False)][0]
_COUNT = re.compile(r"ngram[ \t]+([0-9]{1,4})[ \t]*=[ \t]*([0-9]{1,15})", re.ASCII)
_NUMERIC = "0123456789.+-einfatyEINFATY"  # characters of numbers; Python also reads 1_0 and digits of other scripts
_HIGHEST_ORDER = 20  # of the models, see `NGramConfig`
_VALUE_BYTES = 8  # of each word, log-probability and back-off weight
_SPACED = "words with white space"
_CHANGED = "words changed by the normaliser"
_SHOWN = 60  # characters of a faulty line
_PIECE = 2**18  # bytes read at a time
_LONGEST_LINE = 2**20  # bytes
_LONGEST_START = 2**18  # characters before the line \data\
_OTHER_FORMATS = {  # first characters of other n-gram files, and what to do
    "iARPA": "an intermediate file of IRSTLM; expected ARPA. Convert it with compile-lm --text=yes",
    "qARPA": "a quantised file of IRSTLM; expected ARPA. Convert it with compile-lm --text=yes",
    "blmt": "a binary file of IRSTLM; expected ARPA. Convert it with compile-lm --text=yes",
    "Qblmt": "a binary file of IRSTLM; expected ARPA. Convert it with compile-lm --text=yes",
    "mmap lm http://kheafield.com": "a binary file of KenLM; expected ARPA, the text from which it was built",
    "SRILM_BINARY_NGRAM": "a binary file of SRILM; expected ARPA. Convert it with ngram -lm FILE -write-lm ARPA",
}


@dataclass(frozen=True)
class NGramSummary:
    """Contents of a file or model folder.

    Attributes:
        counts: number of n-grams of 1, 2, ... words.
    """

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

    Raises:
        InputError: for other model types, for a token that contains white space, and if the file cannot be written.
    """
    model = bundle.model
    if not isinstance(model, NGramModel):
        raise InputError(f"this is a {bundle.name} model; ARPA files can only store n-gram models (ngram)")
    path = Path(path)
    levels = model.each_level
    tokens = bundle.vocabulary.tokens
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


def read_arpa(path: str | Path, normaliser: NormaliserSettings | None = None, predict_eos: bool = True) -> ModelBundle:
    """Read an ARPA file, optionally compressed (.gz, .bz2, .xz, .zst, .zip); "-" is standard input.

    The vocabulary has the words of the 1-grams, in their order. Sentences are enclosed in `<s>` and `</s>`, or a stream
    has `<eos>` after each sentence; `<s>` is never predicted, whatever its probability in the file. A missing `<unk>`
    is added with an InputWarning and is never predicted either. Words that no text can contain, because they contain
    white space or are changed by the normaliser, are counted in an InputWarning.

    Args:
        normaliser: the normalisation of the model's training text; None: words are not changed, except to the form NFC.
        predict_eos: whether the model predicts ends of sentences that are read by themselves.

    Raises:
        InputError: with the line number if something is missing, duplicated or not a number, if a probability is above
            1, and if the n-grams are fewer or more than the header declares.
    """
    with no_collection():
        return _bundle(_ArpaFile(path), normaliser or NormaliserSettings(), predict_eos)


def _bundle(file: _ArpaFile, normaliser: NormaliserSettings, predict_eos: bool) -> ModelBundle:
    counts = file.read_counts()
    log_probs, back_offs, _ = file.read_section(1, counts[0], has_back_offs=len(counts) > 1)
    sample = tuple(" ".join(gram) for gram in zip(map(repr, log_probs[:2].tolist()), file.words, strict=False))
    tokens = list(file.words)
    unknown = next((token for token in UNKNOWN if token in file.words), None)
    if unknown is None:
        tokens.append(unknown := UNKNOWN[0])
        rate = f"unknown words get the lowest probability, 1e{LOG10_NEVER:.0f}"
        warn_caller(f"{file.source}: {unknown} is missing among the 1-grams: {rate}")
        log_probs = np.append(log_probs, LOG10_NEVER)
        back_offs = np.append(back_offs, [0.0] * (len(counts) > 1))
    mode = next((mode for mode, marks in MARKS.items() if all(mark in file.words for mark in marks)), None)
    if mode is None:
        raise InputError(
            f"{file.source}: found neither <s> and </s> nor <eos> among the 1-grams; expected the symbols that end"
            " sentences"
        )
    _warn_of_sum(log_probs, file)
    vocabulary = Vocabulary(tokens, unknown, *MARKS[mode])
    if not mode.carry_state:
        log_probs[vocabulary.begin_id] = LOG10_NEVER
    file.remark_unreachable(normaliser, {unknown, *MARKS[mode]})

    levels = [Level(torch.arange(len(tokens)), torch.from_numpy(log_probs), torch.from_numpy(back_offs))]
    for order, number in enumerate(counts[1:], 2):
        levels.append(file.read_level(order, number, levels, is_last=order == len(counts)))
    file.skip_title(END)
    file.remark_rest()

    model = NGramModel(NGramConfig(order=len(levels)), len(tokens))
    model.levels = nn.ModuleList(levels)
    form = f"n-grams of order {len(counts)}, ARPA"
    evidence = f"line {file.start}: {DATA}"
    numbers = {f"{order}-grams": number for order, number in enumerate(counts, 1)}
    announce(ReadingReport(file.source, form, numbers, evidence, file.remarks.all(), sample))
    settings = ModelSettings(model.config, normaliser, mode.carry_state, predict_eos or mode.carry_state)
    return ModelBundle(model.eval(), settings, vocabulary)


def _warn_of_sum(log_probs: Numbers, file: _ArpaFile) -> None:
    """Warn if the probabilities of the 1-grams do not add up to 1."""
    begin = file.words.get("<s>")
    predicted = log_probs if begin is None else np.delete(log_probs, begin)
    total = float(np.sum(10.0**predicted))
    if abs(total - 1) > _MOST_OFF:
        of_e = float(np.sum(np.exp(predicted)))
        guess = " They are natural logarithms, it seems" if abs(of_e - 1) <= _MOST_OFF else ""
        warn_caller(
            f"{file.source}: the probabilities of the 1-grams add up to {total:.3g}; expected about 1, in log10.{guess}"
        )


class _ArpaFile:
    """A file that is read from its first line to its last.

    Attributes:
        words: the 1-grams, with their indices.
        start: number of the line that starts the header.
        line: the next line, None after the last one.
        number: the number of this line, from 1.
    """

    def __init__(self, path: str | Path) -> None:
        self.source = source_name(path)
        self.words: dict[str, int] = {}
        self.remarks = Remarks()
        self.start = 0
        self.number = 0
        self.line: str | None = None
        self._lines = _lines(path)
        self._declared: list[int] = []  # lines of the header
        self._read = ""  # what the header declares about the last section
        self._places = _Places(0)  # of the n-grams of the last section
        self._advance()

    def _advance(self) -> None:
        self.line = next(self._lines, None)
        self.number += 1

    def fault(self, expected: str, why: str = "", line: str | None = None, number: int = 0) -> InputError:
        """Return an error at the next line, or at another one.

        Args:
            expected: what the line should contain.
            why: what is wrong with it, if this is not obvious.
            line: the other line.
            number: its number.
        """
        if number == 0:
            line, number = self.line, self.number
        if line is None:
            return InputError(f"{self.source}: the file ends after line {number - 1}; expected {expected}")
        return InputError(
            f"{self.source}, line {number}: found {shortened(line, _SHOWN)!r}{why and f', {why}'}; expected {expected}"
        )

    def read_counts(self) -> list[int]:
        """Read the header. Return the numbers of n-grams of 1, 2, ... words."""
        self._find_header()
        counts: list[int] = []
        while declared := _COUNT.fullmatch(self._next_line()):
            order = len(counts) + 1
            if int(declared[1]) != order:
                raise self.fault(f"ngram {order}=...")
            if order > _HIGHEST_ORDER:
                raise self.fault(f"n-grams of at most {_HIGHEST_ORDER} words")
            if order == 1 and int(declared[2]) == 0:
                raise self.fault("at least one 1-gram")
            counts.append(int(declared[2]))
            if sum(number * (order + 2) * _VALUE_BYTES for order, number in enumerate(counts, 1)) > memory_size():
                raise self.fault(f"n-grams that fit into the memory, {memory_size() / 2**30:,.1f} GiB")
            self._declared.append(self.number)
            self._advance()
        if not counts:
            raise self.fault("ngram 1=...")
        return counts

    def _find_header(self) -> None:
        """Skip what other programs write before the header. Text without a header is not read to its end."""
        length = 0
        while self.line is not None and self.line.strip() != DATA:
            line = self.line.strip()
            remedy = next((remedy for start, remedy in _OTHER_FORMATS.items() if line.startswith(start)), None)
            if remedy is not None:
                raise InputError(f"{self.source}, line {self.number}: found {remedy}")
            length += len(self.line) + 1
            if length > _LONGEST_START:
                self.line = None
                break
            if line:
                self.remarks.add(f"lines before {DATA}, ignored", self.number)
            self._advance()
        if self.line is None:
            raise InputError(
                f"{self.source}: not an ARPA file: the line {DATA} is missing (searched for in"
                f" {amount(self.number - 1, 'line')})"
            )
        self.start = self.number
        self._advance()

    def _next_line(self) -> str:
        """Skip empty lines. Return the line that follows, "" at the end of the file."""
        while self.line is not None and not self.line.strip():
            self._advance()
        return "" if self.line is None else self.line.strip()

    def skip_title(self, title: str) -> None:
        """Skip a title. Raises InputError if another line follows."""
        if self._next_line() != title:
            raise self.fault(f"{title}, as declared in the header{self._read and f' ({self._read})'}")
        self._advance()

    def remark_rest(self) -> None:
        """Count the lines after the end, which are not part of the model."""
        while self._next_line():
            self.remarks.add(f"lines after {END}, ignored", self.number)
            self._advance()

    def remark_unreachable(self, settings: NormaliserSettings, symbols: set[str]) -> None:
        """Count the words that no text contains after normalisation, so that the model never uses them.

        Args:
            symbols: words that do not come from a text.
        """
        if settings.units != "words":
            return
        normaliser, remarks = Normaliser(settings), Remarks()
        for word, index in self.words.items():
            if word not in symbols and normaliser.tokens(word) != [word]:
                what = _SPACED if len(word.split()) != 1 else _CHANGED
                for every in (remarks, self.remarks):
                    every.add(what, self._places.line(index), word)
        for remark in remarks.all():
            reason = "text is split there" if remark.what == _SPACED else "text has only their normalised forms"
            message = f"{self.source}: found {remark}; never matched in a text, because {reason}"
            warn_caller(message)

    def read_section(self, order: int, number: int, has_back_offs: bool) -> tuple[Numbers, Numbers, Integers]:
        """Read the n-grams of one order: their log-probabilities, back-off weights and words, (number, order).

        Empty lines are skipped. Memory grows with the n-grams that are read, whatever number is declared.
        """
        self.skip_title(f"\\{order}-grams:")
        log_probs = array("d")
        back_offs = array("d")
        words = array("q")
        ids = self.words
        most = Level.value_ranges["back_offs"][1] if has_back_offs else 0.0
        least = -sys.float_info.max if has_back_offs else 0.0
        places = self._places = _Places(self.number)
        lines = chain([self.line], self._lines) if number and self.line is not None else ()
        index, self.line = 0, None if number else self.line
        for line in lines:
            # Usual lines have a tab before and after the words, and single spaces between them.
            parts = line.split("\t")
            fields = parts[1].split(" ") if 1 < len(parts) < 4 else []
            value = parts[0]
            weight = parts[2] if len(parts) == 3 else ""
            is_odd = len(fields) != order or "" in fields
            if is_odd or (("_" in line or not line.isascii()) and (value + weight).strip(_NUMERIC)):
                if not line.strip():
                    places.skip(index)
                    continue
                if line.startswith("\\"):
                    self.line = line
                    break
                value, fields, weight = self._fields(line, places.line(index), order, has_back_offs)

            try:
                log_prob = float(value)
                back_off = float(weight) if weight else 0.0
            except ValueError:
                log_prob = back_off = math.nan
            if log_prob == -math.inf and fields == [_SENTENCE_START]:
                log_prob = LOG10_NEVER
            if not (LOG_PROBS[0] <= log_prob <= 0 and least <= back_off <= most):
                raise self.fault(
                    _expected(order, has_back_offs), _problem(value, weight, has_back_offs), line, places.line(index)
                )
            if order == 1 and self.words.setdefault(fields[0], index) < index:
                earlier = places.line(self.words[fields[0]])
                raise self.fault(f"each word once; it is also on line {earlier}", "", line, places.line(index))
            try:
                words.extend([ids[word] for word in fields])
            except KeyError as error:
                expected = f"words that are 1-grams, which {error.args[0]!r} is not"
                raise self.fault(expected, "", line, places.line(index)) from None

            log_probs.append(log_prob)
            if has_back_offs:
                back_offs.append(back_off)
            index += 1
            if index == number:
                self.line = next(self._lines, None)
                break

        self.number = places.line(index)
        declared = self._declared[order - 1]
        if index < number:
            raise self.fault(f"{number:,} {order}-grams, not only {index:,}, because line {declared} declares them")
        self._read = f"line {declared} declares {amount(number, f'{order}-gram')}"
        numbers = np.array(log_probs, np.float64), np.array(back_offs, np.float64)
        return *numbers, np.array(words, np.int64).reshape(number, order)

    def _fields(self, line: str, number: int, order: int, has_back_offs: bool) -> tuple[str, list[str], str]:
        """Return log-probability, words and back-off weight ("" if there is none) of a line with unusual separators or
        numbers.
        """
        value, *words = re.findall(r"[^ \t]+", line) or [""]
        weight = words.pop() if len(words) == order + 1 else ""
        is_apart = not weight or "\t" not in line.strip(" \t") or re.search(r"\t *[^ \t]+[ \t]*$", line)
        if len(words) != order or not is_apart or (value + weight).strip(_NUMERIC):
            raise self.fault(_expected(order, has_back_offs), "", line, number)
        return value, words, weight

    def read_level(self, order: int, number: int, levels: Sequence[Level], is_last: bool) -> Level:
        """Read the n-grams of one order, and sort them by their keys.

        Args:
            levels: those of the lower orders.

        Raises:
            InputError: for an n-gram without its context or given twice.
        """
        log_probs, back_offs, ids = self.read_section(order, number, has_back_offs=not is_last)
        words = torch.from_numpy(ids)
        keys = words[:, 0]
        for place, level in enumerate(levels):
            contexts = keys if place == 0 else level.find(keys)
            keys = contexts * len(levels[0].keys) + words[:, place + 1]
        lost = torch.nonzero(keys < 0)
        if len(lost):
            index = int(lost[0])
            raise self._fault_of(index, ids, "an n-gram that, without its last word, is also listed")
        keys, places = torch.sort(keys, stable=True)
        twice = torch.nonzero(keys[1:] == keys[:-1])
        if len(twice):
            earlier, later = places[twice[0, 0] : twice[0, 0] + 2].tolist()
            expected = f"each n-gram once; it is also on line {self._places.line(earlier)}"
            raise self._fault_of(later, ids, expected)
        return Level(keys, torch.from_numpy(log_probs)[places], torch.from_numpy(back_offs)[places[: len(back_offs)]])

    def _fault_of(self, index: int, ids: Integers, expected: str) -> InputError:
        """Return an error at an n-gram of the last section.

        Args:
            ids: the words of its n-grams.
        """
        tokens = list(self.words)
        gram = " ".join(tokens[word] for word in ids[index])
        return self.fault(expected, "", gram, self._places.line(index))


class _Places:
    """Line numbers of the n-grams of a section, between which there may be empty lines.

    Args:
        first: of the section.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self._skipped: dict[int, int] = {}  # number of empty lines before an n-gram

    def skip(self, index: int) -> None:
        """Count an empty line before an n-gram."""
        self._skipped[index] = self._skipped.get(index, 0) + 1

    def line(self, index: int) -> int:
        """Return the line of an n-gram."""
        return self.first + index + sum(number for place, number in self._skipped.items() if place <= index)


def _expected(order: int, has_back_offs: bool) -> str:
    """Return the description of a line in messages."""
    expected = f"log10 of a probability, {amount(order, 'word')}"
    return expected + ", an optional back-off weight" if has_back_offs else expected


def _problem(value: str, weight: str, has_back_offs: bool) -> str:
    """Return what is wrong with the numbers of a line, "" if they are not numbers.

    Args:
        value: the log-probability, as written.
        weight: the back-off weight, as written.
    """
    try:
        log_prob, back_off = float(value), float(weight or 0)
    except ValueError:
        return ""
    if math.isnan(log_prob) or math.isnan(back_off):
        return "where nan is not a number"
    if log_prob > 0:
        return f"where {value} is above 0, as IRSTLM may write"
    if log_prob == -math.inf:
        return f"where {value} is possible only for <s>"
    if log_prob < LOG_PROBS[0]:
        return f"where {value} is below {LOG_PROBS[0]:.0e}"
    if not has_back_offs and back_off != 0:
        return f"where {weight} is a back-off weight other than 0 in the highest order"
    if has_back_offs and not -math.inf < back_off <= Level.value_ranges["back_offs"][1]:
        return f"where {weight} is no possible back-off weight"
    return ""


def _lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their ends. At most a few MiB are held in memory.

    Lines end with \\n or \\r\\n; with \\r, if the first piece of the file has no \\n, except perhaps at its end.

    Raises:
        InputError: as `open_bytes` does, for what is not UTF-8 text, and for a line that is too long.
    """
    source = source_name(path)
    number = 1
    offset = 0
    rest = b""
    line_end = b""
    with open_bytes(path) as file:
        while piece := file.read(_PIECE):
            content = rest + piece
            line_end = line_end or (b"\r" if b"\r" in piece and b"\n" not in piece.rstrip() else b"\n")
            end = content.rfind(line_end) + 1
            block, rest = content[:end], content[end:]
            # Binary files may have no line ends.
            text = _decoded(content if b"\0" in content else block, source, number, offset)
            lines = text.split(line_end.decode())[:-1]
            yield from [line.removesuffix("\r") for line in lines] if "\r" in text else lines
            number, offset = number + len(lines), offset + len(block)
            if len(rest) > _LONGEST_LINE:
                raise InputError(
                    f"{source}, line {number}: more than {_LONGEST_LINE / 2**20:.0f} MiB in one line; expected an ARPA"
                    " file, with a line per n-gram"
                )
        if rest.strip():
            yield _decoded(rest, source, number, offset)


def _decoded(content: bytes, source: str, number: int, offset: int) -> str:
    """Return the text of a part of a file, without the byte order mark of the first part.

    Args:
        number: number of the first line, from 1.
        offset: offset of the first byte, from 0.
    """
    text = decode_text(content, source, number, offset)
    return text if offset == 0 or not content.startswith(BOM_UTF8) else content.decode()
