"""Training text: running text of books is split into sentences, one per line; text8 into its published parts.

A full stop ends a sentence or an abbreviation. Abbreviations are learned from the books themselves with the nltk
implementation (Punkt) of Kiss & Strunk 2006, "Unsupervised Multilingual Sentence Boundary Detection". Therefore the
language need not be known, and nothing is downloaded.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import compress, pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from nltk.tokenize.punkt import PunktLanguageVars, PunktSentenceTokenizer, PunktTrainer

from syntaxlm.core.errors import InputError, amount
from syntaxlm.core.files import make_folder, refuse_overwriting, replaced, split_lines
from syntaxlm.core.progress import progress_bar
from syntaxlm.core.settings import read_yaml
from syntaxlm.core.text_files import open_bytes, read_bytes, read_whole_text, source_name
from syntaxlm.text.treebank_style import AS_WRITTEN, TreebankStyle


@cache
def english_abbreviations() -> dict[str, frozenset[str]]:
    """Return the abbreviations of `english_abbreviations.yaml`: "titles", "before_numbers", "others"."""
    tables = read_yaml(Path(__file__).with_name("english_abbreviations.yaml"))
    return {name: frozenset(words.split()) for name, words in tables.items()}


LEARNT = 5_000_000  # characters of all books together from which abbreviations are learned: about 8 seconds
# Frequent English words. A text counts as English if their share is above ENGLISH. The share is 0.22 to 0.24 in books
# and 0.19 in web text. In Spanish and Portuguese it is 0, and at most 0.05 in any 60 words.
_FREQUENT = frozenset(
    ["the", "and", "to", "it", "he", "she", "that", "with", "for", "his", "they", "this", "you", "not", "have", "from"]
)
ENGLISH = 0.08
SMALL_LETTERS = 0.03  # share of full stops before small letters; above it, sentences often begin with small letters
LONGEST = 50_000  # characters processed at once; nltk aborts on a line that takes 5 seconds

# The notices of Project Gutenberg around a book, in newer and older files.
_NOTICE_BEFORE = re.compile(
    r"^[ \t]*(?:\*{3}\s*START OF TH(?:E|IS) PROJECT GUTENBERG[^*]{0,300}\*{3}|\*END\b.*SMALL PRINT).*$", re.I | re.M
)
_NOTICE_AFTER = re.compile(
    r"^[ \t]*(?:\*{3}\s*END OF TH(?:E|IS) PROJECT GUTENBERG|(?:The )?End of (?:the |this )?Project Gutenberg)",
    re.I | re.M,
)
_EMPHASIS = re.compile(r"(?<!\w)_([^_]+)_(?!\w)")  # _so_
_DASH = re.compile(r" *(--+|—) *")
_END_WITHOUT_SPACE = re.compile(r"([。！？][」』”’）]*)(?=\S)")
_HYPHENED = re.compile(r"[^\W\d_]-$")
_LETTER = re.compile(r"[^\W_]")  # or digit
_LIST_ITEM = re.compile(r"\(?(?:\d{1,3}(?:\.\d{1,2})*|[a-zA-Z]|[ivx]{1,5})[.)]")
_TAIL = re.compile(  # references and emoticons, which follow the end of their sentence
    r"(?:(?:\[(?:\d+(?:\s*[-–,]\s*\d+)*|\.{3}|…)\]|>?[:;=]['’o-]?[()\[\]DPp/\\|]+|\^_*\^|<3)(?=\s|$)\s*)+"
)
_DOTS = re.compile(r"(?:(?<!\.)\.{2,}(?!\.)|…)[\"'”’»)\]]*(?P<space>\s+)(?=[\"'“‘«(]*(?P<word>[^\W\d_]+))")
_OPENING_MARKS = "\"'([{‘“«„¿¡`"
_AROUND = _OPENING_MARKS + ")]}’”»,;:"


class _Marks(PunktLanguageVars):
    """The marks of nltk, with sentence ends of more scripts and quotation marks of more languages."""

    sent_end_chars = (".", "?", "!", "。", "！", "？", "।", "؟", "።")
    re_boundary_realignment = re.compile(r"[\"')\]}‘’“”„«»」』）]+?(?:\s+|(?=--)|$)", re.MULTILINE)
    _re_word_start = r"[^\(\"\`{\[:;&\#\*@\)}\]\-,‘’“”„«»¿¡—_]"
    _re_non_word_chars = r"(?:[)\";}\]\*:@\'\({\[‘’“”„«»?!。！？।؟።」』）])"


@dataclass(frozen=True)
class WrittenText:
    """The counts of a text file that was written. Words are separated by white space."""

    file: str
    sentences: int
    words: int

    def __str__(self) -> str:
        return f"{self.file}: {amount(self.sentences, 'sentence')}   {amount(self.words, 'word')}"


@dataclass(frozen=True)
class SentencesSummary:
    """The result of `write_sentences`.

    valid: the validation file; None if all paragraphs went to `train`.
    notices: the number of books from which notices of Project Gutenberg were removed.
    abbreviations: learned or given words, in small letters, whose full stop does not end a sentence.
    english: whether the text is English. If so, common English abbreviations were also used.
    """

    train: WrittenText
    valid: WrittenText | None
    books: int
    paragraphs: int
    notices: int
    abbreviations: tuple[str, ...]
    english: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        notices = f" ({self.notices:,} with notices of Project Gutenberg, left out)" if self.notices else ""
        of = f"files {self.books:,}{notices}   paragraphs {self.paragraphs:,}"
        written = [str(text) for text in (self.train, self.valid) if text is not None]
        common = "   (and common English ones)" if self.english else ""
        return "\n".join([*written, of, f"abbreviations: {' '.join(self.abbreviations) or 'none'}{common}"])


@dataclass(frozen=True)
class Splitter:
    """Splitter of paragraphs into sentences.

    A sentence ends at a mark such as . ? or !, with any closing quotation marks and brackets, if white space follows.
    It does not end
    - after an abbreviation, unless the next word is likely to begin a sentence;
    - after a title (Mr.) or an initial (J. R. Smith);
    - after a month, "No." or a similar word before a number;
    - before a small letter that follows quotation marks, a bracket, dots or an unknown abbreviation: "Where?" he asked.
      If sentences often begin with small letters, as in web text, only quotation marks and dots count;
    - after the number of a list item: 3. Play the card.
    A part without a letter or digit belongs to the preceding sentence, and so do references ([12]) and emoticons.
    """

    tokenizer: PunktSentenceTokenizer
    abbreviations: tuple[str, ...]  # learned or given, in small letters, without full stop
    is_english: bool = False  # whether English titles and abbreviations are also used
    begins_with_small_letters: bool = False  # whether sentences often begin so

    @classmethod
    def learn(
        cls, texts: Sequence[Sequence[str]], abbreviations: Sequence[str] = (), fewest_words: int = 0
    ) -> Splitter:
        """Learn abbreviations from the paragraphs of books.

        abbreviations: additional abbreviations, with or without full stop.  fewest_words: from fewer, none are learned.
        """
        trainer = PunktTrainer(lang_vars=_Marks())
        share = LEARNT // max(1, len(texts))
        windows = [window for paragraphs in texts for window in _windows("\n".join(paragraphs)[:share])]
        for text in texts:
            trainer.train("\n".join(_windows("\n".join(text)[:share])), finalize=False)
        trainer.finalize_training()
        parameters = trainer.get_params()
        words = " ".join(windows).split()
        # The letters after full stops of words with four letters or more.
        firsts = [
            following[0]
            for word, following in pairwise(words)
            if word[-1] == "." and len(word) > 4 and word[:-1].isalpha() and following[0].isalpha()
        ]
        small_letters = sum(map(str.islower, firsts)) / max(1, len(firsts)) > SMALL_LETTERS
        likely = likely_abbreviations(parameters.abbrev_types, words, small_letters)
        parameters.abbrev_types = likely if len(words) >= fewest_words else set()
        parameters.abbrev_types.update(word.lower().removesuffix(".") for word in abbreviations)
        learnt = tuple(sorted(parameters.abbrev_types))
        english = is_english(words)
        if english:
            known = english_abbreviations()
            parameters.abbrev_types.update(known["titles"] | known["others"])
        tokenizer = PunktSentenceTokenizer(parameters, lang_vars=_Marks())
        return cls(tokenizer, learnt, english, small_letters)

    def __call__(self, paragraph: str) -> list[str]:
        paragraph = _END_WITHOUT_SPACE.sub(r"\1 ", paragraph)
        spans: list[tuple[int, int]] = []
        item: int | None = None  # start of the number of a list item, which belongs to the next part
        for begin, end in self._spans(paragraph):
            if spans and item is None and (tail := _TAIL.match(paragraph, begin, end)):
                spans[-1] = spans[-1][0], begin + len(tail[0].rstrip())
                begin = tail.end()
            if begin == end:
                continue
            begin, item = begin if item is None else item, None
            part = paragraph[begin:end]
            if _LIST_ITEM.fullmatch(part) and end < len(paragraph):
                item = begin
            elif not spans or (_LETTER.search(part) and not self._continues(paragraph[slice(*spans[-1])], part)):
                spans.append((begin, end))
            else:
                spans[-1] = spans[-1][0], end
        sentences = (paragraph[begin:end] for begin, end in spans)
        return [sentence for sentence in sentences if _LETTER.search(sentence)]

    def _continues(self, sentence: str, part: str) -> bool:
        """Return whether a part belongs to the preceding sentence."""
        last = sentence.rsplit(maxsplit=1)[-1].lstrip(_OPENING_MARKS)
        word = last.rstrip(".").lower()
        if self.is_english and last.endswith("."):
            if word in english_abbreviations()["titles"] and part[0].isalpha():
                return True
            if word in english_abbreviations()["before_numbers"] and part[0].isdigit():
                return True
        if part[0] in ")],;:":
            return True
        letter = _LETTER.search(part)
        if letter is None or not letter.group().islower():
            return False
        return not self.begins_with_small_letters or not last.endswith((".", "!", "?")) or last.endswith("..")

    def _spans(self, paragraph: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of sentences.

        A long paragraph is processed in windows. Each window starts at the last sentence of the previous window.
        Punkt often does not split after dots (...) before a capital. There, sentences are split, but not before the
        word "I", which is always a capital.
        """
        begin = 0
        while begin < len(paragraph):
            end = _window_end(paragraph, begin)
            spans = [(begin + low, begin + high) for low, high in self.tokenizer.span_tokenize(paragraph[begin:end])]
            begin = end
            if end < len(paragraph) and len(spans) > 1:
                begin, _ = spans.pop()
            for start, stop in spans:
                for dots in _DOTS.finditer(paragraph, start, stop):
                    if dots["word"][0].isupper() and dots["word"] != "I":
                        yield start, dots.start("space")
                        start = dots.end()
                yield start, stop


def likely_abbreviations(
    candidates: Iterable[str], words: Sequence[str], begins_with_small_letters: bool = False
) -> set[str]:
    """Return the abbreviations found by Punkt that the text supports.

    Punkt also proposes words that often end sentences.

    candidates: in small letters, without full stop.
    words: the text, split at white space.
    begins_with_small_letters: whether sentences of the text often do; a small letter is then no evidence.
    A candidate with an inner full stop is kept (p.m.). Any other candidate must meet two conditions: it is followed by
    a full stop more often than not, and at least twice and in most cases the sentence continues after this full stop.
    The sentence continues with a comma or similar mark, a small letter, a digit, or a capitalised word that never
    occurs in small letters in the text, such as a name.
    """
    candidates = set(candidates)
    small = Counter(word.strip(_AROUND) for word in words if word[:1].islower())
    without: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        bare = word.strip(_AROUND + "!?…").lower()
        stem = bare.removesuffix(".")
        if stem not in candidates:
            continue
        if stem == bare:
            without[stem] += 1
            continue
        if begins_with_small_letters and following[:1].islower():
            continue
        after = following.lstrip(_OPENING_MARKS)
        is_name = after[:1].isalpha() and not small.get(after.strip(_AROUND + ".!?…").lower(), 0)
        if word[-1] in ",;:" or after[:1].islower() or after[:1].isdigit() or is_name:
            inside[stem] += 1
        else:
            ends[stem] += 1
    return {
        word
        for word in candidates
        if "." in word or (inside[word] > max(1, ends[word]) and inside[word] + ends[word] > without[word])
    }


def is_english(words: Sequence[str]) -> bool:
    """Return whether a text is English, judged by its share of frequent English words."""
    counts = Counter(word.strip(_AROUND + ".!?").lower() for word in words)
    return sum(counts[word] for word in _FREQUENT) > ENGLISH * len(words)


def _windows(text: str) -> Iterator[str]:
    begin = 0
    while begin < len(text):
        end = _window_end(text, begin)
        yield text[begin:end]
        begin = end


def _window_end(text: str, begin: int) -> int:
    """Return the end of the window that starts at `begin`: after its last space, if it contains one."""
    end = begin + LONGEST
    return end if end >= len(text) else text.rfind(" ", begin, end) + 1 or end


def write_sentences(
    paths: Sequence[str | Path],
    train: str | Path,
    valid: str | Path | None = None,
    valid_share: float = 0.05,
    seed: int = 0,
    lines_are_paragraphs: bool = False,
    encoding: str = "utf-8",
    abbreviations: Sequence[str] = (),
    style: TreebankStyle = AS_WRITTEN,
) -> SentencesSummary:
    """Write the sentences of books in order, one per line. The files are UTF-8 and written atomically.

    valid: the file for validation paragraphs. Each paragraph goes there with probability `valid_share`, otherwise to
        `train`. With None, all paragraphs go to `train`.
    lines_are_paragraphs, encoding: see `read_paragraphs`.
    abbreviations: see `Splitter.learn`.
    style: how punctuation and contractions are separated from words; by default, they are kept as written.
    Raises InputError if a book cannot be read or has no sentence, if an output file is given twice or would overwrite a
    book, if the share is not between 0 and 1, and if the encoding is unknown.
    """
    if not paths:
        raise InputError("no file given; expected at least one")
    outputs = [Path(path).resolve() for path in (train, valid) if path is not None]
    if len(set(outputs)) < len(outputs):
        raise InputError(f"{train}: to be written twice; expected a different file for the validation part")
    for output in (train, valid):
        refuse_overwriting(output, paths)
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise InputError(f"{encoding}: no such encoding; expected one such as utf-8, latin-1 or cp1252") from None
    if not 0 < valid_share < 1 or seed < 0:
        raise InputError(
            f"a share of {valid_share:g} put aside, drawn with seed {seed}; expected a share between 0 and 1, and a"
            " seed of 0 or more"
        )
    books = [read_paragraphs(path, lines_are_paragraphs, encoding) for path in progress_bar(paths, "reading, files")]
    splitter = Splitter.learn([book.paragraphs for book in books], abbreviations)
    paragraphs = [paragraph for book in books for paragraph in book.paragraphs]
    for_valid = np.random.default_rng(seed).random(len(paragraphs)) < (0 if valid is None else valid_share)
    written_valid = None
    if valid is not None:
        written_valid = _write(compress(paragraphs, for_valid.tolist()), splitter, style, valid)
    rest = progress_bar(list(compress(paragraphs, (~for_valid).tolist())), "splitting, paragraphs")
    written = _write(rest, splitter, style, train)
    notices = sum(book.has_notice for book in books)
    return SentencesSummary(
        written, written_valid, len(books), len(paragraphs), notices, splitter.abbreviations, splitter.is_english
    )


def _write(paragraphs: Iterable[str], splitter: Splitter, style: TreebankStyle, path: str | Path) -> WrittenText:
    count = words = 0
    with replaced(Path(path)) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        for paragraph in paragraphs:
            for sentence in filter(None, map(style, splitter(paragraph))):
                file.write(sentence + "\n")
                count, words = count + 1, words + len(sentence.split())
        if not count:
            raise InputError(
                f"{path}: no paragraph was drawn for it; expected more text, another share, or one paragraph per line"
                " (--paragraphs lines)"
            )
    return WrittenText(str(path), count, words)


@dataclass(frozen=True)
class Book:
    """The paragraphs of a book, each on one line. has_notice: whether notices of Project Gutenberg were removed."""

    paragraphs: tuple[str, ...]
    has_notice: bool


def read_paragraphs(path: str | Path, lines_are_paragraphs: bool = False, encoding: str = "utf-8") -> Book:
    """Read the paragraphs of a plain text file, which may be compressed, or of "-" (standard input).

    Blank lines separate paragraphs. With lines_are_paragraphs, every line is a paragraph.

    Lines are joined by a space, except after a hyphen. The marks of _emphasis_ are removed, and dashes (-- and —) get a
    space on both sides. Paragraphs without a letter or digit (* * *) are left out. Raises InputError if the file cannot
    be read, does not have this encoding, or has no paragraph.
    """
    text = _decoded(path, encoding)
    begin, end = 0, len(text)
    for notice in _NOTICE_BEFORE.finditer(text):
        begin = notice.end()
    if after := _NOTICE_AFTER.search(text, begin):
        end = after.start()
    written = filter(_LETTER.search, _paragraphs(text[begin:end], lines_are_paragraphs))
    paragraphs = tuple(_DASH.sub(r" \1 ", _EMPHASIS.sub(r"\1", paragraph)).strip() for paragraph in written)
    if not paragraphs:
        raise InputError(f"{source_name(path)}: no sentence in it; expected running text")
    return Book(paragraphs, begin > 0 or end < len(text))


def _paragraphs(text: str, lines_are_paragraphs: bool) -> Iterator[str]:
    pieces: list[str] = []
    for line in [*split_lines(text), ""]:
        words = line.split()
        if pieces and (lines_are_paragraphs or not words):
            yield "".join(pieces)
            pieces = []
        if words:
            if pieces and not _HYPHENED.search(pieces[-1]):
                pieces.append(" ")
            pieces.append(" ".join(words))


def _decoded(path: str | Path, encoding: str) -> str:
    if codecs.lookup(encoding).name == "utf-8":
        try:
            return read_whole_text(path)
        except InputError as error:
            if isinstance(error.__cause__, UnicodeDecodeError):
                raise InputError(
                    f"{error}. Older books are often in latin-1: give the encoding (--encoding latin-1)"
                ) from error
            raise
    try:
        text = read_bytes(path).decode(encoding)
        text.encode()  # some encodings have half surrogate pairs
    except (UnicodeError, LookupError) as error:
        raise InputError(f"{source_name(path)}: cannot be read as {encoding}: {error}") from error
    if "\0" in text:
        raise InputError(f"{source_name(path)}: found a zero character; expected text in {encoding}, or its encoding")
    return text


# text8: 10^8 bytes of cleaned Wikipedia text, one line of lower-case words, which the user provides. The first 99
# million characters are the training text, the last million the validation text (Mikolov et al. 2014, "Learning Longer
# Memory in Recurrent Neural Networks"; Shen et al. 2018 follow them).
TEXT8_BYTES = 100_000_000
TEXT8_TRAINING_BYTES = 99_000_000


@dataclass(frozen=True)
class Text8Summary:
    """The written files. train_words, valid_words: number of words, including parts of the word at the cut, `cut`."""

    train: str
    valid: str
    train_words: int
    valid_words: int
    cut: str | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = f"{self.train}: {amount(self.train_words, 'word')}\n{self.valid}: {amount(self.valid_words, 'word')}"
        return parts + (f"\nThe cut is inside the word {self.cut!r}: each file has a part of it." if self.cut else "")


def split_text8(path: str | Path, folder: str | Path) -> Text8Summary:
    """Write folder/train.txt and folder/valid.txt, each atomically and as one line, like the original file.

    Raises InputError if the file does not have 10^8 bytes, or contains other characters than a to z and spaces.
    """
    path, folder = Path(path), Path(folder)
    with open_bytes(path) as opened:
        text = opened.read(TEXT8_BYTES + 1)
    if len(text) != TEXT8_BYTES:
        size = f"{len(text):,}" if len(text) < TEXT8_BYTES else f"more than {TEXT8_BYTES:,}"
        expected = f"expected the unpacked text8, which has {TEXT8_BYTES:,}"
        raise InputError(f"{source_name(path)}: found {size} bytes; {expected}")
    other = re.search(rb"[^a-z ]", text)
    if other is not None:
        raise InputError(
            f"{source_name(path)}: found byte 0x{other.group()[0]:02x} at offset {other.start():,}; expected text8,"
            " which has only a to z and spaces"
        )
    make_folder(folder)
    train, valid = text[:TEXT8_TRAINING_BYTES], text[TEXT8_TRAINING_BYTES:]
    for name, part in (("valid", valid), ("train", train)):  # the larger last: it is what is missing after a failure
        with replaced(folder / f"{name}.txt") as temporary, open(temporary, "wb") as file:
            file.write(part)
            file.write(b"\n")
    cut = None
    if not train.endswith(b" ") and not valid.startswith(b" "):
        cut = (train[train.rfind(b" ") + 1 :] + valid.partition(b" ")[0]).decode("ascii")
    files = str(folder / "train.txt"), str(folder / "valid.txt")
    return Text8Summary(*files, _word_count(train), _word_count(valid), cut)


def _word_count(text: bytes) -> int:
    """Return the number of words, counted without a list: split() would create 17 million strings."""
    letters = np.frombuffer(b" " + text, np.uint8) != ord(" ")
    return int(np.count_nonzero(letters[1:] & ~letters[:-1]))
