"""The vocabulary: ids, special tokens, and its file."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.errors import InputError
from syntaxlm.text.vocabulary import Vocabulary

SMALL = Vocabulary(["<unk>", "<s>", "</s>", "the", "cat"])


def test_special_tokens_come_first_then_falling_counts_then_code_points():
    counts = Counter({"b": 2, "a": 2, "c": 5, "rare": 1, "<unk>": 9, "</s>": 7})
    assert Vocabulary.build(counts, minimum_count=2).tokens == ("<unk>", "<s>", "</s>", "c", "a", "b")
    assert Vocabulary.build(counts, maximum_size=4).tokens == ("<unk>", "<s>", "</s>", "c")
    assert Vocabulary.build(counts, begin="<eos>", end="<eos>", maximum_size=4).tokens == (
        "<unk>",
        "<eos>",
        "</s>",
        "c",
    )


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
        (["<unk>", "<s>"], "lacks its end token"),
        (["<s>", "</s>"], "lacks its unknown token"),
    ],
)
def test_invalid_vocabularies_are_refused(tokens, fault):
    with pytest.raises(InputError, match=fault):
        Vocabulary(tokens)


def test_unknown_cannot_be_begin_or_end():
    with pytest.raises(InputError, match="both unknown"):
        Vocabulary(["<s>", "</s>"], unknown="<s>")


def test_no_room_for_the_special_tokens_is_an_error():
    with pytest.raises(InputError, match="is too small"):
        Vocabulary.build({"a": 1}, maximum_size=2)
