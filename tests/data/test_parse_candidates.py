"""Parse candidates: groups by sentence, scores, gold trees, and errors by line and sentence."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.parse_candidates import read_candidates, with_gold


def block(words: str, heads: str, *comments: str) -> str:
    """A sentence of CoNLL-U; words and heads are separated by spaces."""
    pairs = enumerate(zip(words.split(), heads.split(), strict=True), 1)
    rows = [f"{place}\t{word}\t_\t_\t_\t_\t{head}\tdep\t_\t_" for place, (word, head) in pairs]
    return "".join(line + "\n" for line in [*comments, *rows, ""])


def cat(heads: str = "2 0", *comments: str) -> str:
    return block("cats sleep", heads, *comments)


def dog(heads: str = "0 1", *comments: str) -> str:
    return block("dogs bark", heads, *comments)


@pytest.fixture
def read(tmp_path):
    def read(text: str, **settings):
        (tmp_path / "k.conllu").write_text(text)
        return list(read_candidates(tmp_path / "k.conllu", **settings))

    return read


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        # Trees of one id are candidates of one sentence, though words repeat.
        (cat("2 0", "# sent_id = a") + cat("0 1", "# sent_id = a") + cat("2 0", "# sent_id = b"),
         [("a", [(2, 0), (0, 1)]), ("b", [(2, 0)])]),
        # Without ids, neighbours of the same words are.
        (cat() + cat("0 1") + dog() + cat(), [("1", [(2, 0), (0, 1)]), ("2", [(0, 1)]), ("3", [(2, 0)])]),
        # The id may be given only at the first candidate.
        (cat("2 0", "# sent_id = a") + cat("0 1") + dog("0 1", "# sent_id = b") + dog("2 0"),
         [("a", [(2, 0), (0, 1)]), ("b", [(0, 1), (2, 0)])]),
    ],
)  # fmt: skip
def test_neighbours_of_one_id_or_the_same_words_are_candidates_of_one_sentence(read, text, groups):
    assert [(group.name, [sentence.tree.heads for sentence in group.sentences]) for group in read(text)] == groups


def test_scores_are_read_from_the_comment_of_their_name(read):
    text = cat("2 0", "# score = -1.5", "# prob=0.25") + cat("0 1", "# score = 2e-1", "# prob = 0.5")
    assert read(text)[0].scores == (-1.5, 0.2)
    assert read(text, score="prob")[0].scores == (0.25, 0.5)
    assert read(text, score="other")[0].scores == ()


def test_lines_are_not_changed(read):
    comments = ["# sent_id = a", "# text = anything"]
    text = cat("2 0", *comments).replace("1\tcats", "1-2\tcatssleep\t_\t_\t_\t_\t_\t_\t_\t_\n1\tcats", 1)
    (one,) = read(text)
    assert one.sentences[0].text() == text
    assert one.sentences[0].text(["# new"]).startswith("# new\n1-2\t")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (cat("2 0", "# sent_id = a") + block("cats slept", "2 0", "# sent_id = a"),
         "k.conllu, line 6, sentence a: found 'slept' as word 2; expected 'sleep' as in k.conllu, line 2, sentence a"),
        (cat("2 0", "# sent_id = a") + dog("0 1", "# sent_id = b") + cat("0 1", "# sent_id = a"),
         "k.conllu, line 10, sentence a: found a candidate of an earlier sentence"),
        (cat("2 0", "# score = high"), "k.conllu, line 2, sentence 1: found # score = high; expected a number"),
        (cat("2 0", "# score = 1_5"), "k.conllu, line 2, sentence 1: found # score = 1_5; expected a number"),
        (cat("2 0", "# score = nan"), "k.conllu, line 2, sentence 1: found # score = nan; expected a number"),
        (cat("2 0", "# score = 1") + cat("0 1"),
         "k.conllu, line 5, sentence 2: found no # score = ...; expected one, as with the candidates before it"),
        (cat("2 0") + cat("0 1", "# score = 1"),
         "k.conllu, line 5, sentence 2: found # score = 1; expected none, as with the candidates before it"),
        (cat("2 7"), "k.conllu, line 2, sentence 1: found head 7 of 'sleep'; expected 0 to 2"),
        ("\n", "k.conllu: found no sentence"),
    ],
)  # fmt: skip
def test_mismatches_are_reported_by_line_and_sentence(read, tmp_path, text, said):
    with pytest.raises(InputError) as error:
        read(text)
    assert str(error.value).replace(f"{tmp_path}/", "").startswith(said)


def test_gold_trees_are_matched_with_their_candidates(read, tmp_path):
    (tmp_path / "gold.conllu").write_text(cat("0 1") + dog("2 0"))
    groups = read(cat() + cat("0 1") + dog())
    assert [one.gold.heads for one in with_gold(groups, tmp_path / "gold.conllu")] == [(0, 1), (2, 0)]


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (cat("0 1"), "k.conllu, line 4, sentence 2: found no gold tree for this sentence"),
        (cat() + dog() + dog(), "gold.conllu, line 7, sentence 3: found no candidates for this sentence"),
        (cat() + cat(), "k.conllu, line 4, sentence 2: found 'dogs' as word 1; expected 'cats' as in gold.conllu,"),
    ],
)
def test_gold_trees_of_other_sentences_are_reported(read, tmp_path, gold, said):
    (tmp_path / "gold.conllu").write_text(gold)
    with pytest.raises(InputError) as error:
        list(with_gold(read(cat() + dog()), tmp_path / "gold.conllu"))
    assert str(error.value).replace(f"{tmp_path}/", "").startswith(said)
