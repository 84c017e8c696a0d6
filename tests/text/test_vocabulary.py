"""The vocabulary: ids, special tokens, and its file."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.text.vocabulary import OpenVocabulary, Vocabulary
from tests.turns import in_threads

SMALL = Vocabulary(["<unk>", "<s>", "</s>", "the", "cat"])


def test_special_tokens_come_first_then_falling_counts_then_code_points():
    counts = Counter({"b": 2, "a": 2, "c": 5, "rare": 1, "<unk>": 9, "</s>": 7})
    assert Vocabulary.build(counts, minimum_count=2).tokens == ("<unk>", "<s>", "</s>", "c", "a", "b")
    assert Vocabulary.build(counts, maximum_size=4).tokens == ("<unk>", "<s>", "</s>", "c")
    one_mark = Vocabulary.build(counts, begin="<eos>", end="<eos>", maximum_size=4)
    assert one_mark.tokens == ("<unk>", "<eos>", "</s>", "c")


def test_a_text_cannot_write_begin_or_end():
    assert SMALL.encode(["<s>", "the", "</s>", "dog", "<unk>"]) == [0, 3, 0, 0, 0]
    assert not SMALL.knows("<s>")
    assert not SMALL.knows("<unk>")
    assert SMALL.knows("cat")


def test_begin_and_end_may_be_one_token():
    vocabulary = Vocabulary(["<unk>", "<eos>", "a"], begin="<eos>", end="<eos>")
    assert vocabulary.begin_id == vocabulary.end_id == 1
    assert vocabulary.encode(["<eos>", "a"]) == [0, 2]


def test_decoding_inverts_encoding_of_known_words():
    assert SMALL.decode(SMALL.encode(["cat", "the"])) == ["cat", "the"]
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match="0 to 4"):
            SMALL.decode([wrong])


@given(st.sets(st.text(st.characters(), min_size=1), max_size=20))
def test_a_vocabulary_survives_its_file_whatever_its_characters(tmp_path_factory, tokens):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.json"
    vocabulary = Vocabulary.build(dict.fromkeys(tokens, 1))
    vocabulary.write(path)
    again = Vocabulary.read(path)
    assert again == vocabulary
    assert again.tokens == vocabulary.tokens
    assert list(path.parent.iterdir()) == [path]


def test_a_truncated_file_is_reported_by_name(tmp_path):
    path = tmp_path / "vocabulary.json"
    SMALL.write(path)
    whole = path.read_bytes()
    for length in range(len(whole.rstrip()) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"vocabulary\.json: "):
            Vocabulary.read(path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "not a vocabulary"),
        ('{"tokens": []}', "not a vocabulary"),
        ("[" * 100_000, "cut short"),
        ("\x00\x01", "cut short"),
        ('{"format": "syntaxlm vocabulary 1", "unknown": 1, "begin": "a", "end": "b", "tokens": []}', "'unknown' is 1"),
        ('{"format": "syntaxlm vocabulary 1", "unknown": "u", "begin": "a", "end": "b", "tokens": [1]}', "not a list"),
        (
            '{"format": "syntaxlm vocabulary 1", "unknown": "u", "begin": "a", "end": "b", "tokens": ["u", "a"]}',
            "end token",
        ),
    ],
)
def test_a_wrong_file_is_reported_by_name_and_error(tmp_path, content, fault):
    path = tmp_path / "wrong.json"
    path.write_text(content)
    with pytest.raises(InputError, match=rf"wrong\.json: .*{fault}"):
        Vocabulary.read(path)


def test_a_missing_file_or_folder_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"none\.json"):
        Vocabulary.read(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        Vocabulary.read(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        SMALL.write(tmp_path / "no folder" / "vocabulary.json")


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        (["<unk>", "<s>", "</s>", "a", "a"], "'a'"),
        (["<unk>", "<s>", "</s>", ""], "empty"),
        (["<unk>", "<s>"], "does not contain its end token"),
        (["<s>", "</s>"], "does not contain its unknown token"),
        (["</s>", "<s>"], "both the unknown token and BOS or EOS"),
    ],
)
def test_invalid_vocabularies_are_refused(tokens, fault):
    with pytest.raises(InputError, match=fault):
        Vocabulary(tokens, unknown="<s>" if "both" in fault else "<unk>")


RARE = ("walking", "singing", "calling", "darkly", "slowly", "madly", "tops", "cars", "dogs", "pins", "cats")
WITH_CLASSES = Vocabulary.build(
    Counter({"the": 9, "cat": 5, **dict.fromkeys(RARE, 1)}), minimum_count=3, unknown_classes=3
)


def test_classes_of_unknown_words_are_the_suffixes_that_explain_the_most_characters():
    # Three words with three characters, three with two, five with one.
    classes = ("<unk:0>", "<unk:->", "<unk:ing>", "<unk:ly>", "<unk:s>")
    assert WITH_CLASSES.tokens == ("<unk>", "<s>", "</s>", *classes, "the", "cat")


@pytest.mark.parametrize(
    ("word", "token"),
    [
        ("cat", "cat"),
        ("running", "<unk:ing>"),
        ("using", "<unk:ing>"),
        ("ring", "<unk>"),  # too short for the suffix
        ("houses", "<unk:s>"),
        ("1990s", "<unk:0>"),
        ("well-being", "<unk:->"),
        ("-", "<unk>"),
        ("tree", "<unk>"),
        ("<unk:ly>", "<unk:ly>"),
        ("</s>", "<unk>"),
        ("日本", "<unk>"),
    ],
)
def test_an_unknown_word_has_the_id_of_its_class(word, token):
    number = WITH_CLASSES.id(word)
    assert WITH_CLASSES.tokens[number] == token
    assert WITH_CLASSES.encode([word]) == [number]
    assert WITH_CLASSES.knows(word) == (word == "cat")
    assert WITH_CLASSES.is_unknown(np.array([number])).tolist() == [word != "cat"]


def test_classes_survive_the_file(tmp_path):
    WITH_CLASSES.write(tmp_path / "vocabulary.json")
    found = Vocabulary.read(tmp_path / "vocabulary.json")
    assert found == WITH_CLASSES
    assert found.unknown_ids == WITH_CLASSES.unknown_ids == (0, 3, 4, 5, 6, 7)


def test_a_longer_suffix_divides_the_class_of_a_shorter_one():
    counts = Counter(
        {"darkness": 1, "kindness": 1, "illness": 1, **{f"word{letter}s": 1 for letter in "abcdefghijklmn"}}
    )
    vocabulary = Vocabulary.build(counts, minimum_count=2, unknown_classes=2)
    assert set(vocabulary.tokens[-2:]) == {"<unk:s>", "<unk:ness>"}
    assert vocabulary.decode(vocabulary.encode(["goodness", "words"])) == ["<unk:ness>", "<unk:s>"]


def test_suffixes_have_up_to_four_characters():
    counts = Counter({"station": 1, "nation": 1, "ration": 1})
    assert Vocabulary.build(counts, minimum_count=2, unknown_classes=1).tokens[-1] == "<unk:tion>"


def test_the_limit_of_the_size_includes_classes():
    counts = Counter({f"word{chr(97 + number)}ing": 1 for number in range(26)})
    vocabulary = Vocabulary.build(counts, maximum_size=12, unknown_classes=4)
    assert len(vocabulary) <= 12
    with pytest.raises(
        InputError, match="found 8; expected at least 9, for <unk>, <s>, </s> and 4 classes of unknown words"
    ):
        Vocabulary.build(counts, maximum_size=8, unknown_classes=4)
    with pytest.raises(InputError, match=r"maximum_size: found 2; expected at least 3, for <unk>, <s>, </s>$"):
        Vocabulary.build({"a": 1}, maximum_size=2)


def test_threads_get_one_number_for_each_word_of_an_open_vocabulary():
    for _ in range(20):
        vocabulary = OpenVocabulary()
        words = [f"w{number}" for number in range(300)]
        found = in_threads([partial(vocabulary.encode, words) for _ in range(4)])
        assert found == [found[0]] * 4
        assert vocabulary.decode(found[0]) == words
