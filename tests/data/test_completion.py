"""Files of completion questions: three formats, answers, and errors with their place."""

from __future__ import annotations

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.completion import CompletionQuestion, read_questions
from syntaxlm.trees.conllu import write_conllu
from syntaxlm.trees.tree import DependencyTree
from tests.shared_data import DATA

MSR = DATA / "msr-completion"

PLAIN = "<s> the cat sat </s> \n<s> the cat ate </s>\n<s> a dog  ran </s>\n<s> a dog flew </s>\n"
PLAIN_ANSWERS = "<s> the cat sat </s>\n<s> a dog flew </s>\n"
LABELLED = "7a) The cat [sat] .\n7b) The cat [ate] .\n\n9a) A [dog] .\n9b) A [fog] .\n9c) A [log] .\n"


@pytest.fixture
def read(tmp_path):
    """Reads questions and answers given as text; returns them as (name, candidates, correct)."""

    def read(questions: str | bytes, answers: str | bytes) -> list[tuple[str, tuple[str, ...], int]]:
        for name, content in (("questions.txt", questions), ("answers.txt", answers)):
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        found = read_questions(tmp_path / "questions.txt", tmp_path / "answers.txt")
        return [(one.name, one.candidates, one.correct) for one in found]

    return read


def test_each_answer_belongs_to_an_equal_number_of_lines(read):
    assert read(PLAIN, PLAIN_ANSWERS) == [
        ("1", ("the cat sat", "the cat ate"), 0),
        ("2", ("a dog ran", "a dog flew"), 1),
    ]


def test_a_question_has_its_place(tmp_path):
    (tmp_path / "q").write_text(PLAIN)
    (tmp_path / "a").write_text(PLAIN_ANSWERS)
    place = f"{tmp_path / 'q'}, line 3"
    assert read_questions(tmp_path / "q", tmp_path / "a")[1] == CompletionQuestion(
        ("a dog ran", "a dog flew"), 1, "2", place
    )


def test_blank_lines_separate_questions_of_different_sizes(read):
    found = read("\na b\na c\n\n\nd e\nd f\nd g\n\n", "a c\n\nd e\n")
    assert [(len(candidates), right) for _, candidates, right in found] == [(2, 1), (3, 0)]


@pytest.mark.parametrize(
    "answers", ["7b)\n9c)\n", "7b) The cat [ate] .\n9c) A [log] .\n", "The cat ate .\nA log .\n"]
)  # fmt: skip
def test_labels_separate_and_name_questions_and_answers_are_labels_or_sentences_or_both(read, answers):
    assert read(LABELLED, answers) == [
        ("7", ("The cat sat .", "The cat ate ."), 1),
        ("9", ("A dog .", "A fog .", "A log ."), 2),
    ]


def test_labels_answer_questions_without_labels_by_their_order(read):
    assert [right for _, _, right in read(PLAIN, "1b)\n2a)\n")] == [1, 0]


def test_windows_line_ends_and_a_byte_order_mark_are_removed(read):
    assert read("\ufeff" + PLAIN.replace("\n", "\r\n"), PLAIN_ANSWERS) == read(PLAIN, PLAIN_ANSWERS)


def test_parsed_candidates_give_their_words_and_keep_their_trees(tmp_path):
    def tree(word: str, name: str = "") -> DependencyTree:
        return DependencyTree(("it", word), ("PRP", "VB"), (2, 0), ("nsubj", "root"), name)

    asked = [tree("rains", "q-1"), tree("reigns", "q-2"), tree("sees"), tree("seas")]
    write_conllu(asked, tmp_path / "q.conllu")
    write_conllu([tree("reigns"), tree("sees")], tmp_path / "a.conllu")
    (tmp_path / "a.txt").write_text("<s> it reigns </s>\n<s> it sees </s>\n")
    for answers in ("a.conllu", "a.txt"):
        first, second = read_questions(tmp_path / "q.conllu", tmp_path / answers)
        assert (first.candidates, first.correct, first.trees) == (("it rains", "it reigns"), 1, tuple(asked[:2]))
        assert first.place == f"{tmp_path / 'q.conllu'}, sentence q-1"
        assert (second.correct, second.place) == (0, f"{tmp_path / 'q.conllu'}, sentence 3")


def parsed(*sentences: str) -> list[DependencyTree]:
    """Trees in which the head of each word is the word before it."""
    words = [tuple(sentence.split()) for sentence in sentences]
    return [DependencyTree(one, ("",) * len(one), tuple(range(len(one))), ("",) * len(one)) for one in words]


CATS = ["the cat sat", "the cat ate", "a dog ran", "a dog flew"]


@pytest.mark.parametrize("plain", [PLAIN, PLAIN.replace("</s>\n<s> a", "</s>\n\n<s> a", 1)])
def test_plain_questions_take_their_trees_from_a_file_of_parses(tmp_path, plain):
    (tmp_path / "q.txt").write_text(plain)
    (tmp_path / "a.txt").write_text(PLAIN_ANSWERS)
    write_conllu(parsed("the cat sat", "the cat ate", "a dog ran", "a do g flew"), tmp_path / "p.conllu")
    first, second = read_questions(tmp_path / "q.txt", tmp_path / "a.txt", tmp_path / "p.conllu")
    assert (first.candidates, first.correct, first.place) == (tuple(CATS[:2]), 0, f"{tmp_path / 'q.txt'}, line 1")
    assert [tree.words for tree in second.trees] == [("a", "dog", "ran"), ("a", "do", "g", "flew")]
    assert [tree.name for tree in second.trees] == ["3", "4"]
    assert (first.parses, second.parses) == (str(tmp_path / "p.conllu"),) * 2
    assert read_questions(tmp_path / "q.txt", tmp_path / "a.txt")[0].parses == ""


@pytest.mark.parametrize(
    ("trees", "reported"),
    [
        (parsed(*CATS[:3]),
         "p.conllu: found 3 trees for the 4 candidates of q.txt; expected one tree for each, in order. The first"
         " without a partner is q.txt, line 4"),
        (parsed(*CATS, "it is"),
         "p.conllu: found 5 trees for the 4 candidates of q.txt; expected one tree for each, in order. The first"
         " without a partner is p.conllu, sentence 5"),
        (parsed(CATS[0], *CATS[2:]),
         "p.conllu, sentence 2: found 'a dog ran'; expected the words of q.txt, line 2, 'the cat ate'. There are 3"
         " trees for the 4 candidates"),
        (parsed(*CATS[:3], "a dog flies"),
         "p.conllu, sentence 4: found '... flies'; expected the words of q.txt, line 4, '... flew'"),
    ],
)  # fmt: skip
def test_parses_of_other_candidates_are_reported_by_sentence_and_line(tmp_path, trees, reported):
    (tmp_path / "q.txt").write_text(PLAIN)
    (tmp_path / "a.txt").write_text(PLAIN_ANSWERS)
    write_conllu(trees, tmp_path / "p.conllu")
    with pytest.raises(InputError) as error:
        read_questions(tmp_path / "q.txt", tmp_path / "a.txt", tmp_path / "p.conllu")
    assert str(error.value).replace(f"{tmp_path}/", "").startswith(reported)


def test_parses_are_in_conllu(tmp_path):
    (tmp_path / "q.txt").write_text(PLAIN)
    (tmp_path / "a.txt").write_text(PLAIN_ANSWERS)
    with pytest.raises(InputError, match=r"q\.txt: found a name that does not end in \.conllu"):
        read_questions(tmp_path / "q.txt", tmp_path / "a.txt", tmp_path / "q.txt")


@pytest.mark.parametrize(
    ("questions", "answers", "reported"),
    [
        (PLAIN.replace("<s> the cat ate </s>\n", ""), PLAIN_ANSWERS,
         "questions.txt: found 3 candidates for the 2 answers of answers.txt; expected the same number of candidates,"
         " two or more, for each question. With 2 candidates each, question 2,"
         " from questions.txt, line 3 on, is the first to lack a candidate."),
        (PLAIN.replace("<s> the cat sat </s> \n", ""), PLAIN_ANSWERS,
         "questions.txt: found 3 candidates for the 2 answers of answers.txt; expected the same number of candidates,"
         " two or more, for each question. With 2 candidates each, question 1,"
         " from questions.txt, line 1 on, is the first to lack its answer, 'the cat sat'."),
        (PLAIN + "it is\n", PLAIN_ANSWERS,
         "questions.txt: found 5 candidates for the 2 answers of answers.txt; expected the same number of candidates,"
         " two or more, for each question. With 2 candidates each, questions.txt, line 5 belongs to no question."),
        (PLAIN, PLAIN_ANSWERS * 2, "questions.txt: found 4 candidates for the 4 answers"),
        (PLAIN, PLAIN_ANSWERS.replace("flew", "flies"),
         "answers.txt, line 2, question 2: found 'a dog flies'; expected one of the 2 candidates of the question, from"
         " questions.txt, line 3 on"),
        ("a b\na c\n\nd e\nd f\n", "a b\n",
         "answers.txt: found 1 answers for the 2 questions of questions.txt; question 2"),
        ("a b\na c\n\nd e\nd f\n", "a b\nd e\nd f\n", "answers.txt: found 3 answers for the 2 questions"),
        ("a b\na c\n\nd e\n", "a b\nd e\n", "questions.txt, line 4, question 2: found one candidate, 'd e';"),
        ("a b\na b\n", "a b\n", "questions.txt, line 2, question 1: found 'a b' twice; expected different candidates"),
        ("a b\n<s> </s>\n", "a b\n", "questions.txt, line 2, question 1: found no word"),
        (LABELLED.replace("7b)", "7c)"), "7a)\n9a)\n",
         "questions.txt, line 2, question 7: found 7c) 'The cat ate .'; expected 7b): a candidate is missing"),
        (LABELLED.replace("9", "7"), "7a)\n7a)\n", "questions.txt, line 4, question 7: found 7a) 'A dog .'; expected"),
        (LABELLED + "7c) The cat slept .\n", "7a)\n9a)\n",
         "questions.txt, line 7: found question 7 again, after questions.txt, line 1"),
        (LABELLED.replace("9b) ", ""), "7a)\n9a)\n", "questions.txt, line 5: found 'A [fog] .'; expected a label"),
        (LABELLED, "7c)\n9a)\n", "answers.txt, line 1, question 7: found 7c) ''; expected a letter from a to b"),
        (LABELLED, "9a)\n7a)\n", "answers.txt, line 1, question 7: found 9a) ''; expected the answer of question 7"),
        (LABELLED, "7a) The cat [ate] .\n9a)\n",
         "answers.txt, line 1, question 7: found 7a) 'The cat ate .'; expected 'The cat sat .', which is candidate a"),
        (PLAIN, "", "answers.txt: found no sentence"),
        ("\n\n", PLAIN_ANSWERS, "questions.txt: found no sentence"),
        (PLAIN.encode().replace(b"ate", b"\xe9"), PLAIN_ANSWERS, "questions.txt, line 2: found byte 0xe9 at offset 34"),
        (PLAIN, PLAIN_ANSWERS.encode("utf-16"), "answers.txt, line 1: found the byte order mark of UTF-16"),
    ],
)  # fmt: skip
def test_mismatches_are_reported_by_file_line_and_question(read, tmp_path, questions, answers, reported):
    with pytest.raises(InputError) as error:
        read(questions, answers)
    assert str(error.value).replace(f"{tmp_path}/", "").startswith(reported)


def test_a_missing_file_is_reported(tmp_path):
    (tmp_path / "q.txt").write_text(PLAIN)
    for questions, answers in (("nowhere.txt", "q.txt"), ("q.txt", "nowhere.txt"), ("nowhere.conllu", "q.txt")):
        with pytest.raises(InputError, match=r"nowhere\.\w+: cannot be read"):
            read_questions(tmp_path / questions, tmp_path / answers)


@pytest.mark.skipif(not MSR.is_dir(), reason=f"no completion questions in {MSR}")
def test_the_published_questions_are_1040_of_five_and_their_parses_are_the_same_questions():
    plain = read_questions(MSR / "Holmes.lm_format.questions.txt", MSR / "Holmes.lm_format.answers.txt")
    parsed = read_questions(MSR / "holmes.questions.conllu", MSR / "holmes.answers.conllu")
    assert [len(question) for question in plain] == [5] * 1040
    assert [(one.candidates, one.correct) for one in plain] == [(one.candidates, one.correct) for one in parsed]
    assert [[tree.words for tree in one.trees] for one in parsed[:9]] == [
        [tuple(candidate.split()) for candidate in one.candidates] for one in plain[:9]
    ]
