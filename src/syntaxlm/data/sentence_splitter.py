"""Splits running text into sentences.

A full stop ends a sentence or an abbreviation. Abbreviations are learned from the text itself with the nltk
implementation (Punkt) of Kiss & Strunk 2006, "Unsupervised Multilingual Sentence Boundary Detection". Therefore the
language need not be known, and nothing is downloaded. Words of a few languages are known as well (`languages.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, zip_longest

from nltk.tokenize.punkt import PunktLanguageVars, PunktSentenceTokenizer, PunktTrainer

from syntaxlm.data.languages import UNKNOWN, Language, language_of

MAX_LEARNED_CHARACTERS = 5_000_000  # of all texts together, from which abbreviations are learned: about 8 seconds
MIN_LEARNED_WORDS = 2_000  # from which abbreviations are learned; in a few sentences, "him." looks like one
SMALL_LETTERS = 0.03  # share of full stops before small letters; above it, sentences often begin with small letters
MAX_CHUNK = 50_000  # characters processed at once; nltk aborts on a line that takes 5 seconds

_LETTER = re.compile(r"[^\W_]")  # or digit
_OPENING_MARKS = "\"'([{‘“«„¿¡`"
_AROUND = _OPENING_MARKS + ")]}’”»,;:"
_SUPERSCRIPTS = "¹²³⁰⁴-⁹"
_EMOJI = "\u2600-\u26ff\u2728\u2763\u2764\u270a-\u270d\ufe0f\u200d\U0001f000-\U0001faff"  # no dingbats: list marks

_END_WITHOUT_SPACE = re.compile(r"([。！？][」』”’）]*)(?=\S)")
# 3.  3.1.  1)  (1.)  a.)  iv.  II.  § 3.
_LIST_ITEM = re.compile(
    r"[(\[]?(?:§{1,2}\s?)?(?:\d{1,3}(?:\.\d{1,2}|[-–]\d{1,3})*|[^\W\d_]|[ivxlc]{1,7}|[IVXLC]{1,7})(?:\.[)\]]|[.)\]])"
)
_LIST_NUMBER = re.compile(r"\d{1,3}[.)]+")
_TAIL = re.compile(  # references, emoticons and emoji, which follow the end of their sentence
    r"(?:(?:\[(?:\d+(?:\s*[-–,]\s*\d+)*|\.{3}|…)\]|>?[:;=]['’o-]?[()\[\]DPp/\\|]+|\^_*\^|<3"
    rf"|[{_EMOJI}]+|(?<=\S)[{_SUPERSCRIPTS}*†‡]+)(?=\s|$)\s*)+"
)
_DOTS = re.compile(r"(?:(?<!\.)\.{2,}(?!\.)|…)[\"'”’»)\]]*(?P<space>\s+)(?=[\"'“‘«(]*(?P<word>[^\W\d_]+))")

_NUMBER = re.compile(r"\d|[(\[]\d+[a-z]?[)\]]|(?:[IVXLC]{2,}|[VX])(?=[\s.,;:)\]]|$)")
_REFERENCE = re.compile(  # 4  (4)  A2  B-12  IV  A, but neither "I think" nor "A man"
    r"[(\[]?(?:[A-Z]{0,2}[-.]?\d|(?![IA]\s+(?!(?:of|and|to|or)\b)\w)(?:[IVXLC]+|[A-Z])(?=[\s.,;:)\]]|$))"
)
_INITIALS = re.compile(r"(?:[^\W\d_]\.-?)+")  # of a name, or of an abbreviation such as U.S.
_ONE_INITIAL = re.compile(r"[^\W\d_]\.")
_ORDINAL = re.compile(r"\d{1,2}\.")
_PLURAL_INITIALS = re.compile(r"([A-ZÑ])\1\.")  # EE. UU.
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_LONGEST_ABBREVIATION = 60  # characters
_AMPERSAND = re.compile(r"&\s*[A-Z]")  # Com. & Adm.
_MIXED_CASE = re.compile(r"[a-z]{1,2}[A-Z]")  # iPhone begins a sentence, though with a small letter


class _Marks(PunktLanguageVars):
    """The marks of nltk, with sentence ends of more scripts and quotation marks of more languages."""

    sent_end_chars = (".", "?", "!", "。", "！", "？", "।", "؟", "。")
    re_boundary_realignment = re.compile(r"[\"')\]}‘’“”„«»」』）]+?(?:\s+|(?=--)|$)", re.MULTILINE)
    _re_word_start = r"[^\(\"\`{\[:;&\#\*@\)}\]\-,‘’“”„«»¿¡—_]"
    _re_non_word_chars = rf"(?:[)\";}}\]\*:@\'\({{\[‘’“”„«»?!。！？।؟।」』）†‡{_SUPERSCRIPTS}{_EMOJI}])"


@dataclass(frozen=True)
class Splitter:
    """Splitter of paragraphs into sentences.

    A sentence ends at a mark such as . ? or !, with any closing quotation marks and brackets, if white space follows.
    It does not end
    - after an abbreviation, unless the next word is likely to begin a sentence;
    - after a title (Mr.), an initial (J. R. Smith), or an abbreviation that never ends one (e.g., cf.);
    - after a month, "No." or a similar word before a number, or "Fig." before a number or letter;
    - before a small letter that follows quotation marks, a bracket, dots or an unknown abbreviation: "Where?" he asked.
      If sentences often begin with small letters, as in web text, only quotation marks and dots count;
    - after the number of a list item: 3. Play the card.
    A part without a letter or digit belongs to the preceding sentence, and so do references ([12]), emoticons and
    emoji.

    Attributes:
        abbreviations: learned or given, in small letters, without full stop.
        language: the language of the text, whose titles and abbreviations are also used.
        begins_with_small_letters: whether sentences often begin so.
    """

    tokenizer: PunktSentenceTokenizer
    abbreviations: tuple[str, ...]
    language: Language = UNKNOWN
    begins_with_small_letters: bool = False

    @classmethod
    def learn(
        cls, texts: Sequence[Sequence[str]], abbreviations: Sequence[str] = (), fewest_words: int = MIN_LEARNED_WORDS
    ) -> Splitter:
        """Learn abbreviations from the paragraphs of texts.

        Args:
            abbreviations: additional abbreviations, with or without full stop.
            fewest_words: from fewer words, only abbreviations with an inner full stop (z.B.) are learned.
        """
        trainer = PunktTrainer(lang_vars=_Marks())
        share = MAX_LEARNED_CHARACTERS // max(1, len(texts))
        words: list[str] = []  # with "" after each paragraph
        for text in texts:
            windows = list(_windows("\n".join(text)[:share]))
            trainer.train("\n".join(windows), finalize=False)
            for line in "".join(windows).split("\n"):
                words += [*line.split(), ""]
        trainer.finalize_training()
        parameters = trainer.get_params()

        language = language_of(words)
        small_letters = _begin_with_small_letters(words, parameters.abbrev_types | language.others)
        likely = likely_abbreviations(parameters.abbrev_types, words, small_letters, language)
        if len(words) < fewest_words:
            likely = {word for word in likely if "." in word}
        given = {word.lower().removesuffix(".") for word in abbreviations}
        learnt = tuple(sorted(likely | given))
        parameters.abbrev_types = {*learnt, *language.titles, *language.others}
        return cls(PunktSentenceTokenizer(parameters, lang_vars=_Marks()), learnt, language, small_letters)

    @property
    def is_english(self) -> bool:
        return self.language.name == "english"

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
            part = paragraph[begin:end]
            is_number = item is None and end < len(paragraph) and _LIST_ITEM.fullmatch(part) is not None
            sentence = paragraph[slice(*spans[-1])] if spans and item is None else ""
            continues = bool(sentence) and self._continues(sentence, part, is_number)
            begin, item = begin if item is None else item, None
            if is_number and not continues:
                item = begin
            elif not spans or (not continues and _LETTER.search(part)):
                spans.append((begin, end))
            else:
                spans[-1] = spans[-1][0], end
        sentences = (paragraph[begin:end] for begin, end in spans)
        return [sentence for sentence in sentences if _LETTER.search(sentence)]

    def _continues(self, sentence: str, part: str, is_number: bool) -> bool:
        """Return whether a part belongs to the preceding sentence.

        Args:
            is_number: whether it may be that of a list item.
        """
        before, last = ["", *sentence.rsplit(maxsplit=2)][-2:]
        last = last.lstrip(_OPENING_MARKS)
        if last.endswith(".") and self._is_abbreviation(before, last, part):
            return True
        if part[0] in ")],;:" or _AMPERSAND.match(part):
            return True
        item = _LIST_ITEM.match(part)  # (b) The second one
        is_number = is_number or (item is not None and part[item.end() :].lstrip()[:1].isupper())
        letter = _LETTER.search(part)
        if is_number or letter is None or not letter[0].islower() or _MIXED_CASE.match(part, letter.start()):
            return False
        ends = last.endswith((".", "!", "?")) and not (last.endswith("..") or sentence.endswith((". .", ". . .")))
        return not self.begins_with_small_letters or not ends

    def _is_abbreviation(self, before: str, last: str, part: str) -> bool:
        """Return whether a word with a full stop does not end its sentence, whatever the next word usually does.

        Args:
            before: the word before the last.
            last: the last word.
            part: what follows.
        """
        known, word = self.language, _stem(last)
        if word in known.titles and part[0].isalpha():
            return not (word in known.others and self._starts(part))  # Oak St. She left.
        if word in known.never_last and _LETTER.match(part.lstrip(_OPENING_MARKS)):
            return True
        if word in known.before_numbers and _NUMBER.match(part):
            return True
        if word in known.before_references and _REFERENCE.match(part):
            return True
        if word == "al" and before.lower() in ("et", "(et"):
            return not self._starts(part)
        if before.lower() in known.before_ordinals and _ORDINAL.fullmatch(last):
            return True
        if _PLURAL_INITIALS.fullmatch(last) and _PLURAL_INITIALS.match(part):
            return True
        return self._is_initial(before, last, part)

    def _is_initial(self, before: str, last: str, part: str) -> bool:
        """Return whether a word is the initial of a name that a part continues: J. R. / Smith."""
        following = _WORD.match(part)
        if not _INITIALS.fullmatch(last) or following is None or not last[0].isupper() or not part[0].isupper():
            return False
        if _ONE_INITIAL.fullmatch(last) is None and _stem(last) in self.tokenizer._params.abbrev_types:
            return False  # U.S.: nothing is known about the next word
        if _INITIALS.match(part):
            return True
        if last == "I." or following[0].lower() in self.language.function_words:
            return False
        bare = before.lstrip(_OPENING_MARKS)
        if not bare or _ONE_INITIAL.fullmatch(bare) or bare.endswith(","):
            return True
        if bare[0].isupper():
            return not self._is_in_small_letters(bare)  # not: Vitamin C. Doctors say
        return bare in self.language.before_initials

    def _starts(self, part: str) -> bool:
        """Return whether a part begins with a word that begins sentences."""
        word = _WORD.match(part)
        return word is not None and word[0].lower() in self.language.starters

    def _is_in_small_letters(self, word: str) -> bool:
        """Return whether the text has a word in small letters."""
        return bool(self.tokenizer._params.ortho_context.get(word.lower(), 0) & _SMALL)

    def _spans(self, paragraph: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of sentences.

        A long paragraph is processed in windows. Each window starts at the last sentence of the previous window.
        """
        begin = 0
        while begin < len(paragraph):
            end = _window_end(paragraph, begin)
            spans = [(begin + low, begin + high) for low, high in self.tokenizer.span_tokenize(paragraph[begin:end])]
            inner = iter(self._inner_ends(paragraph, begin, end, {start for start, _ in spans}))
            begin = end
            if end < len(paragraph) and len(spans) > 1:
                begin, _ = spans.pop()
            before, after = next(inner, (end, end))
            for start, stop in spans:
                while after < stop:
                    if before > start:
                        yield start, before
                        start = after
                    before, after = next(inner, (end, end))
                yield start, stop

    def _inner_ends(self, paragraph: str, begin: int, end: int, starts: Container[int]) -> list[tuple[int, int]]:
        """Return the ends of sentences that Punkt does not find, and where the next sentences begin.

        Punkt often does not split after dots (...) before a capital. There, sentences are split, but not before the
        word "I", which is always a capital. It does not split either between an abbreviation and a word that begins
        sentences, unless the text shows it, and where the space is missing: It was late.We went home.

        Args:
            starts: where the sentences found by Punkt begin.
        """
        known = self.language
        ends = [
            (dots.start("space"), dots.end())
            for dots in _DOTS.finditer(paragraph, begin, end)
            if dots["word"][0].isupper() and dots["word"] != "I"
        ]
        for mark in _before(known.starters).finditer(paragraph, begin, end) if known.starters else ():
            if mark.end() in starts:
                continue
            before = max(begin, mark.start() - _LONGEST_ABBREVIATION)
            last = paragraph[before : mark.start() + 1].rsplit(maxsplit=1)[-1].lstrip(_OPENING_MARKS)
            word = _stem(last)
            is_title = word in known.never_last or (word in known.titles and word not in known.others)
            if not (is_title or word.isdecimal() or last.endswith("..") or _is_address(last)):
                ends.append((mark.end("mark"), mark.end()))
        return sorted(ends)


_SMALL = 1 << 4 | 1 << 5 | 1 << 6  # Punkt's marks of words that occur in small letters


def _stem(word: str) -> str:
    """Return a word with a full stop in small letters, without the full stop and what is before a hyphen."""
    return word.rstrip(".").lower().rpartition("-")[2]


def _is_address(word: str) -> bool:
    return "/" in word or "@" in word or word.lower().startswith("www.")


@cache
def _before(starters: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern of the end of a sentence before one of these words, with or without a space."""
    words = "|".join(sorted(word.capitalize() for word in starters))
    return re.compile(
        rf"(?P<mark>[.!?](?:(?<=[a-zß-ÿ]{{2}}.)(?=[A-Z])|(?<=\.)[\"'”’»)\]{_SUPERSCRIPTS}]*(?=\s)))\s*"
        rf"(?=(?:{words})(?:[,’']|\s))"
    )


def _begin_with_small_letters(words: Sequence[str], abbreviations: Iterable[str]) -> bool:
    """Return whether sentences of a text often begin with small letters.

    Judged by the beginnings of paragraphs, and by the letters after full stops of words with four letters or more.
    Abbreviations, though they may be only likely ones, do not count. One small letter after a full stop shows nothing.
    """
    begins = [word[0] for before, word in pairwise(["", *words]) if not before and word[:1].isalpha()]
    if sum(map(str.islower, begins)) > len(begins) / 2:
        return True
    abbreviations = set(abbreviations)
    firsts = [
        following[0]
        for word, following in pairwise(words)
        if len(word) > 4
        and word[-1] == "."
        and word[:-1].isalpha()
        and following[:1].isalpha()
        and word[:-1].lower() not in abbreviations
    ]
    small = sum(map(str.islower, firsts))
    return small > SMALL_LETTERS * len(firsts) and small > 1


def likely_abbreviations(
    candidates: Iterable[str],
    words: Sequence[str],
    begins_with_small_letters: bool = False,
    language: Language = UNKNOWN,
) -> set[str]:
    """Return the abbreviations found by Punkt that the text supports.

    Punkt also proposes words that often end sentences.

    A candidate with an inner full stop is kept (p.m.). Any other candidate must meet three conditions: it is followed
    by a full stop more often than not; at least twice and in most cases the sentence continues after this full stop;
    and if only names show that it continues, the word never ends a paragraph. The sentence continues with a comma or
    similar mark, a small letter, a digit, or a capitalised word that never occurs in small letters in the text, such
    as a name. Another candidate with a full stop shows nothing: it was late. Dr. Watts left.

    Args:
        candidates: in small letters, without full stop.
        words: the text, split at white space, with "" after each paragraph.
        begins_with_small_letters: whether sentences of the text often do; a small letter is then no evidence.
        language: the language of the text, whose function words are no abbreviations.
    """
    candidates = set(candidates) - language.function_words
    no_names = language.function_words | language.starters
    small = Counter(word.strip(_AROUND) for word in words if word[:1].islower())
    without: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    names: Counter[str] = Counter()
    last: set[str] = set()  # in a paragraph
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        bare = word.strip(_AROUND + "!?…").lower()
        stem = bare.removesuffix(".")
        if stem not in candidates:
            continue
        if stem == bare:
            without[stem] += 1
            continue
        if (begins_with_small_letters and following[:1].islower()) or _LIST_NUMBER.fullmatch(following):
            continue
        after = following.lstrip(_OPENING_MARKS)
        begins = after.strip(_AROUND + ".!?…").lower()
        if word[-1] in ",;:" or after[:1].islower() or after[:1].isdigit():
            inside[stem] += 1
        elif after[:1].isalpha() and not small.get(begins, 0) and begins not in no_names:
            if begins not in candidates or not after.endswith("."):
                names[stem] += 1
        else:
            ends[stem] += 1
            if not following:
                last.add(stem)
    return {
        word
        for word in candidates
        if "." in word
        or (
            inside[word] + names[word] > max(1, ends[word], without[word] - ends[word])
            and (inside[word] or word not in last)
        )
    }


def _windows(text: str) -> Iterator[str]:
    begin = 0
    while begin < len(text):
        end = _window_end(text, begin)
        yield text[begin:end]
        begin = end


def _window_end(text: str, begin: int) -> int:
    """Return the end of the window that starts at `begin`: after its last space, if it contains one."""
    end = begin + MAX_CHUNK
    return end if end >= len(text) else text.rfind(" ", begin, end) + 1 or end
