"""Splitting of running text into sentences: abbreviations, names, references, list items, several languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syntaxlm.core.text_files import read_whole_text
from syntaxlm.data import sentence_splitter
from syntaxlm.data.languages import SHORT, language_of
from syntaxlm.data.sentence_splitter import MIN_LEARNED_WORDS, Splitter, likely_abbreviations
from tests.shared_data import DATA

GUM = DATA / "gum"
CASES = {  # texts whose sentences are separated by " | "
    name: (Path(__file__).with_name(f"sentences.{name}.txt")).read_text("utf-8").splitlines()
    for name in ("english", "other")
}
# A capital after P.M., dots or a single letter: the sentence may end or not.
UNDECIDED = ("The shop shut at 9 P.M.", "We could go ...", "The answer is B.")

# Mr., Dr. and St. are frequent enough to be learnt.
VISIT = (
    "Mr. Holt came at nine. Dr. Watts was with Mr. Holt. They went on to St. Paul's. The man who sold them bread knew"
    " Dr. Watts. He was out. Then Mr. Holt left St. Paul's. It was late. Dr. Watts stayed. So did Mr. Gray. St. Anne's"
    " was near. Mr. Gray went there."
)


@pytest.fixture(scope="module")
def splitter() -> Splitter:
    return Splitter.learn([[VISIT] * 50])


def test_abbreviations_are_learnt_from_the_text_itself(splitter):
    assert splitter.abbreviations == ("dr", "mr", "st")
    sentences = ["Mr. Holt met Dr. Watts at St. Paul's.", "They spoke.", "Then Dr. Watts went."]
    assert splitter(" ".join(sentences)) == sentences


def test_abbreviations_may_be_given_with_their_full_stop_or_without():
    given = Splitter.learn([["He came. She left."]], ["Prof", "Rev."])
    assert given.abbreviations == ("prof", "rev")
    assert given("I saw Prof. Oak and Rev. Elm. They sang.") == ["I saw Prof. Oak and Rev. Elm.", "They sang."]


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("“Where?” he asked. “There!” And he went.", ["“Where?” he asked.", "“There!”", "And he went."]),
        ('"Stop!" cried one. "Why?"', ['"Stop!" cried one.', '"Why?"']),
        ("«Où?» dit-il. «Là.» Il partit.", ["«Où?» dit-il.", "«Là.»", "Il partit."]),
        ("He paid 3.50 for it. It was 1 p.m. by then.", ["He paid 3.50 for it.", "It was 1 p.m. by then."]),
        ("Well... perhaps not. (He left.) She stayed.", ["Well... perhaps not.", "(He left.)", "She stayed."]),
        ("友情是鄰居。他來了！「好。」她說。", ["友情是鄰居。", "他來了！", "「好。」", "她說。"]),
        ("वह आया। वह गया।", ["वह आया।", "वह गया।"]),
        ("CHAPTER IV", ["CHAPTER IV"]),
        ("no capital at its beginning. Yes.", ["no capital at its beginning.", "Yes."]),
        ("* * *", []),
    ],
)
def test_what_ends_a_sentence(splitter, paragraph, sentences):
    assert splitter(paragraph) == sentences


ENGLISH = "The end of the road and the start of the way to the sea. "


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("We saw Prof. Oak and Gen. Elm. They sang.", ["We saw Prof. Oak and Gen. Elm.", "They sang."]),
        ("It was on Dec. 6 in fig. 2 of No. 5 as planned. He said no. Then he left.",
         ["It was on Dec. 6 in fig. 2 of No. 5 as planned.", "He said no.", "Then he left."]),
        ("J. R. Smith came. So did A. Jones.", ["J. R. Smith came.", "So did A. Jones."]),
        ("He owns Acme Inc. and Foo Ltd. now. It is big.", ["He owns Acme Inc. and Foo Ltd. now.", "It is big."]),
        ("1. Play the card. 2. Leave.", ["1. Play the card.", "2. Leave."]),
        ("It is so. [3] [4] It was so. [12]", ["It is so. [3] [4]", "It was so. [12]"]),
        ("I loved it! :) You will, too. ;-)", ["I loved it! :)", "You will, too. ;-)"]),
        ("Well... I know. And then... He left. We ... went on.",
         ["Well... I know.", "And then...", "He left.", "We ... went on."]),
        ("He laughed (why?), and went. She stayed.", ["He laughed (why?), and went.", "She stayed."]),
        ("He was at a bar. The law. It was sad. The lap.",
         ["He was at a bar.", "The law.", "It was sad.", "The lap."]),
    ],
)  # fmt: skip
def test_what_ends_a_sentence_of_english(paragraph, sentences):
    splitter = Splitter.learn([[ENGLISH * 3]])
    assert splitter.is_english
    assert splitter(paragraph) == sentences


def test_words_that_often_end_sentences_are_no_abbreviations():
    bars = "He went to the bar. They sat at the bar. She met her at the bar. We met at the bar. "
    text = f"{VISIT} " * 3 + "Then they said that she and we were there. " + bars * 3
    words = text.split()
    assert likely_abbreviations(["bar", "mr", "dr", "p.m"], words) == {"mr", "dr", "p.m"}
    assert "bar" not in Splitter.learn([[text]]).abbreviations
    for inside, is_abbreviation in ((1, False), (2, False), (3, True)):  # there are two sentence ends after it
        text = "It is the bar. He sat at the bar. He went, as he had. " + "A bar. with her. " * inside
        assert ("bar" in likely_abbreviations(["bar"], text.split())) == is_abbreviation


def test_small_letters_begin_sentences_where_the_text_often_does_so():
    web = "i like this place. the food was great. they were very friendly. we will come again. " * 5
    sentences = ["it was great.", "we liked it.", "“why?” he asked"]
    assert Splitter.learn([[web]])(" ".join(sentences)) == sentences
    assert Splitter.learn([[VISIT]])("It was in approx. great shape.") == ["It was in approx. great shape."]


def test_no_letter_is_lost_or_changed(splitter):
    text = f"{VISIT} “What?” 友情。是 «a» ... -- x. ) 3 . . . Y!?! (z) é\u0301."
    assert "".join("".join(splitter(text)).split()) == "".join(text.split())


def test_a_paragraph_of_any_length_is_split_like_its_pieces(splitter, monkeypatch):
    whole = splitter(" ".join([VISIT] * 20))
    monkeypatch.setattr(sentence_splitter, "MAX_CHUNK", 300)
    assert splitter(" ".join([VISIT] * 20)) == whole == splitter(VISIT) * 20
    assert "".join(splitter("X" * 1000)) == "X" * 1000
    assert len(splitter("Word " * 1000)) >= 1


def right(line: str, splitter: Splitter | None = None) -> bool:
    """Return whether the sentences of a case are found. splitter: by default, one that learns from the case alone."""
    sentences = line.split(" | ")
    text = " ".join(sentences)
    return (splitter or Splitter.learn([[text]]))(text) == sentences


@pytest.mark.parametrize("line", CASES["english"])
def test_sentences_of_short_english_texts(line):
    assert right(line) != line.startswith(UNDECIDED)


@pytest.mark.parametrize("line", CASES["other"])
def test_sentences_of_short_texts_of_other_languages(line):
    assert right(line) != line.startswith("Voir p. 12")  # "etc. Le" is undecided


def test_sentences_of_english_in_a_text_of_all_cases():
    texts = [line.replace(" | ", " ") for line in CASES["english"]]
    together = Splitter.learn([texts])
    assert together.is_english
    assert sum(right(line, together) for line in CASES["english"]) >= len(CASES["english"]) - 8


@pytest.mark.parametrize("text", ["It was late.{}We went home.", "It was late!{}The dog slept."])
@pytest.mark.parametrize("space", ["", " ", "\u00a0"])
def test_a_sentence_ends_with_or_without_a_space(text, space):
    assert len(Splitter.learn([[text]])(text.format(space))) == 2


def test_an_address_is_no_end_of_a_sentence():
    for text in ("Go to www.what.This now.", "Read a/b.The file.", "Use Node.This here."):
        assert Splitter.learn([[text]])(text) == [text] or "Node" in text


@pytest.mark.parametrize("count", [2, 3, 6, 30])
def test_sentences_of_stimuli_in_small_letters(count):
    sentences = [f"the {noun} saw him." for noun in ["keys", "boats", "cars"] * 10][:count]
    assert Splitter.learn([[" ".join(sentences)]])(" ".join(sentences)) == sentences


@pytest.mark.parametrize("last", ["him", "it", "old", "gone", "bark", "us", "dog", "tea", "Rex"])
@pytest.mark.parametrize("count", [2, 3, 6, 12, 30])
def test_a_word_that_ends_the_sentences_of_a_short_text_is_no_abbreviation(last, count):
    subjects = ["The keys", "A boat", "Cars", "Mary", "The old man", "No dog", "They", "Ann Hill", "All of us", "It"]
    sentences = [f"{subjects[number % 10]} saw {last}." for number in range(count)]
    splitter = Splitter.learn([[" ".join(sentences)]])
    assert splitter.abbreviations == ()
    assert splitter(" ".join(sentences)) == sentences


@pytest.mark.parametrize("last", ["him", "old", "bark"])
def test_a_word_that_ends_the_sentences_of_thousands_of_stimuli_is_no_abbreviation(last):
    names = ["Mary", "John", "Sue", "Tom", "Ann", "Bill", "The keys", "The boats"]
    lines = [f"{names[number % 8]} near {names[number % 7]} saw {last}." for number in range(MIN_LEARNED_WORDS)]
    splitter = Splitter.learn([lines])
    assert splitter.abbreviations == ()
    assert [sentence for line in lines[:20] for sentence in splitter(line)] == lines[:20]


def test_abbreviations_are_learned_from_thousands_of_words_only():
    few = Splitter.learn([[VISIT] * 3])
    assert few.abbreviations == ()
    assert Splitter.learn([[VISIT] * 3], fewest_words=0).abbreviations == ("dr", "mr", "st")
    assert few(VISIT) == Splitter.learn([[VISIT] * 50])(VISIT), "English titles are known"


def test_long_abbreviations_before_small_letters_do_not_make_a_text_web_text():
    text = (
        "Þetta er mál. Að því spurði hæstv. ráðherra um málið. Það er ekki svo. Ég held að hæstv. forseti viti það."
        " Hann kom í gær. Það sagði hæstv. ráðherra mér. Við förum heim. Hún sagði hæstv. forseta allt. Hann fór. "
    )
    for times in (3, 60):
        splitter = Splitter.learn([[text * times]])
        assert splitter.language.name == "icelandic"
        assert not splitter.begins_with_small_letters
        assert len(splitter(text)) == 9
    german = "Das gilt bzgl. der Häuser. Man sah bzgl. des Hofs nichts. Er ging. Sie kam mit ihm. Es war kalt. " * 5
    assert len(Splitter.learn([[german]])(german)) == 25


def test_a_word_frequent_without_a_full_stop_is_no_abbreviation():
    text = "It was a hill. Mary saw the hill and a hill by a hill. Then he saw the hill. Bob came. " * 150
    assert Splitter.learn([[text]]).abbreviations == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Dr. Lowe called.", "english"),
        ("Men die.", "english"),
        ("El Sr. Ruiz no vino a la casa.", "spanish"),
        ("Das ist nicht der Hund, und es war kalt.", "german"),
        ("Il est parti avec elle dans la ville.", "french"),
        ("Han kom ikke, og det var på en ø.", "danish"),
        ("The dog and the cat slept in the hall. " * SHORT, "english"),
        ("Koira juoksi metsässä hitaasti. " * SHORT, ""),
        ("Der Hund und die Katze sind nicht in dem Haus. " * SHORT, "german"),
    ],
)
def test_the_language_of_a_text(text, name):
    assert language_of(text.split()).name == name


@pytest.mark.skipif(not GUM.is_dir(), reason=f"no treebank with the text of its sentences in {GUM}")
def test_sentences_of_fiction_are_found_where_people_put_their_ends():
    documents: dict[str, list[str]] = {}
    name = ""
    for line in read_whole_text(GUM / "train.conllu.gz").splitlines():
        if found := re.match(r"# sent_id = (GUM_fiction_.*)-\d+", line):
            name = found[1]
        elif line.startswith("# sent_id"):
            name = ""
        elif name and line.startswith("# text = "):
            documents.setdefault(name, []).append(line.removeprefix("# text = "))
    texts = [" ".join(sentences) for sentences in documents.values()]
    splitter = Splitter.learn([[text] for text in texts])

    def ends(sentences: list[str]) -> set[int]:
        places, place = set(), 0
        for sentence in sentences[:-1]:
            place += len("".join(sentence.split()))
            places.add(place)
        return places

    pairs = [(ends(splitter(text)), ends(gold)) for text, gold in zip(texts, documents.values(), strict=True)]
    right = sum(len(found & gold) for found, gold in pairs)
    assert sum(len(gold) for _, gold in pairs) > 800
    assert right / sum(len(found) for found, _ in pairs) > 0.95
    assert right / sum(len(gold) for _, gold in pairs) > 0.92
