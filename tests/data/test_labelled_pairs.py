"""Labelled pairs: sentences, adjacent sentences of a text, and formulas with all their relations."""

from __future__ import annotations

import itertools
import random
import re

import pandas
import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.labelled_pairs import (
    RELATIONS,
    TOKENS,
    VARIABLES,
    Formula,
    LabelledPair,
    read_formula_pairs,
    read_labelled_pairs,
    relation,
    sample_formula,
    write_formula_pairs,
    write_logic,
    write_next_sentence_pairs,
)
from syntaxlm.text.normaliser import Normaliser
from tests.normalisers import normaliser_with

PAIRS = [LabelledPair("a dog", "a cat", "yes"), LabelledPair("it rains", "no", "no")]


@pytest.mark.parametrize(
    "text",
    [
        "a dog\ta cat\tyes\nit rains\tno\tno\n",
        "sentence1\tsentence2\tlabel\na dog\ta cat\tyes\tmore\n\nit rains\tno\tno\n",
        "\nsentence1\tsentence2\tlabel\na dog\ta cat\tyes\nit rains\tno\tno\n",
        "id\tlabel\tsentence2\tsentence1\n1\tyes\ta cat\ta dog\n2\tno\tno\tit rains\n",
    ],
    ids=["without header", "with header", "below a blank line", "by name"],
)
def test_pairs_are_read_with_and_without_a_header(tmp_path, text):
    (tmp_path / "pairs.tsv").write_text(text)
    assert read_labelled_pairs(tmp_path / "pairs.tsv", Normaliser()) == PAIRS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tyes\na\tb\n", "line 2: found 2 cells; expected at least 3"),
        ("a\tb\tyes\n!\tb\tyes\n", "line 2: found '!' in sentence1, which has no words after normalisation"),
        ("a\tb\tmaybe\n", "line 1: found the label 'maybe'; expected a label of the training file: no, yes"),
        ("a\tb\t\n", "line 1: found an empty label"),
        ("sentence1\tsentence2\tlabel\n", "found no pair"),
        (
            "a\tb\tyes\n\ufeffsentence1\tsentence2\tlabel\nc\td\tno\n",
            "line 2: found a header; expected it in the first",
        ),
        ("gold_label\tsentence1\tsentence2\nyes\ta\tb\n", "line 1: found the header gold_label, sentence1, sentence2"),
        ("Sentence1\tSentence2\tLabel\na\tb\tyes\n", "line 1: found the header Sentence1, Sentence2, Label"),
        ("premise\thypothesis\tlabel\na\tb\tyes\n", "line 1: found the header premise, hypothesis, label"),
        ("label\tlabel\tsentence1\tsentence2\n", "line 1: found several columns 'label'; expected one"),
        (
            '"sentence1"\t"sentence2"\t"label"\n"a"\t"b"\t"yes"\n',
            'line 1: found the header "sentence1", "sentence2", "label"; .* Remove the quotation marks around cells',
        ),
        ('"a"\t"b"\t"yes"\n', 'line 1: found the label "yes"; expected a label without quotation marks'),
        ('"a"\t"b"\tyes\n"c"\t"d"\tno\n', "found quotation marks around every sentence; expected sentences without"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(InputError, match=rf"pairs\.tsv.*{message}"):
        read_labelled_pairs(tmp_path / "pairs.tsv", normaliser_with(drop_punctuation=True), ["no", "yes"])


def test_next_sentence_pairs_are_of_separate_parts_of_the_text(tmp_path):
    lines = [f"sentence {number}" for number in range(400)]
    lines[100] = ""
    lines[200] = "long " * 41
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    summary = write_next_sentence_pairs(tmp_path / "text.txt", tmp_path / "pairs", seed=3)
    parts = {
        name: read_labelled_pairs(tmp_path / "pairs" / f"{name}.tsv", Normaliser())
        for name in ("train", "valid", "test")
    }
    found = {name: len(pairs) for name, pairs in parts.items()}
    assert found == {"train": 355, "valid": 19, "test": 19}
    assert summary.to_dict()["train"] == 355
    train, valid, test = ({side for pair in pairs for side in (pair.left, pair.right)} for pairs in parts.values())
    assert not train & valid
    assert not valid & test
    assert 120 < [pair.label for pair in parts["train"]].count("next") < 235
    for pair in parts["train"]:
        left, right = (int(side.split()[1]) for side in (pair.left, pair.right))
        assert (right == left + 1) == (pair.label == "next")
    with pytest.raises(InputError, match=r"no pair of adjacent sentences of up to 1 words for train\.tsv in 400 lines"):
        write_next_sentence_pairs(tmp_path / "text.txt", tmp_path / "none", 1)


def test_next_sentence_pairs_of_tagged_text_have_its_words(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"sentence {number}\n" for number in range(400)))
    (tmp_path / "text.tagged.txt").write_text("".join(f"sentence_NN {number}_CD\n" for number in range(400)))
    for name in ("text.txt", "text.tagged.txt"):
        write_next_sentence_pairs(tmp_path / name, tmp_path / f"of-{name}")
    words, tagged = ((tmp_path / f"of-{name}" / "train.tsv").read_text() for name in ("text.txt", "text.tagged.txt"))
    assert tagged == words


WORLDS = [dict(zip(VARIABLES, values, strict=True)) for values in itertools.product((False, True), repeat=6)]


def holds_in(text):
    """Returns the worlds in which a formula is true, by Python's operators and, or, not."""
    code = compile(re.sub(r"\( (and|or) ", r"\1 ( ", text), "formula", "eval")
    return frozenset(number for number, world in enumerate(WORLDS) if eval(code, {}, world))


def relation_of(left, right):
    """Determines the relation by the four regions into which two sets split the worlds."""
    outside = set(range(len(WORLDS))) - left - right
    regions = bool(left & right), bool(left - right), bool(right - left), bool(outside)
    return {
        (True, False, True, True): "<",
        (True, True, False, True): ">",
        (True, False, False, True): "=",
        (False, True, True, True): "|",
        (False, True, True, False): "^",
        (True, True, True, False): "v",
        (True, True, True, True): "#",
    }[regions]


def test_the_truth_of_formulas_and_all_seven_relations_are_those_of_their_truth_tables():
    draw = random.Random(0)
    formulas = [sample_formula(draw, count, "abc") for count in range(13) for _ in range(6)]
    worlds = {formula: holds_in(formula.text) for formula in formulas}
    assert all(formula.truth.bit_count() == len(worlds[formula]) for formula in formulas)
    assert all(formula.is_constant == (len(worlds[formula]) in (0, 64)) for formula in formulas)
    pairs = itertools.product([one for one in formulas if not one.is_constant], repeat=2)
    found = {(relation(left.truth, right.truth), relation_of(worlds[left], worlds[right])) for left, right in pairs}
    assert found == {(sign, sign) for sign in RELATIONS}


def test_a_truth_is_right_world_by_world():
    formula = Formula.variable("a").negated().joined("and", Formula.variable("c"))
    assert formula.text == "( ( not a ) ( and c ) )"
    assert formula.operators == 2
    for world in range(64):
        assert bool(formula.truth >> world & 1) == (not world & 1 and bool(world & 4))


@pytest.mark.parametrize("operators", range(13))
def test_a_sampled_formula_has_the_requested_operators_and_at_most_three_levels(operators):
    draw = random.Random(operators)
    for _ in range(30):
        formula = sample_formula(draw, operators)
        tokens = formula.text.split()
        assert operators == formula.operators == sum(token in ("and", "or", "not") for token in tokens)
        assert sum(token in ("and", "or") for token in tokens) <= 7


def test_formulas_of_so_many_operators_are_as_probable_as_where_all_are_sampled_and_sorted():
    """The published way: a formula is a variable or joins two smaller ones, and may be negated."""
    draw = random.Random(3)

    def naive(level):
        text = draw.choice("ab")
        if level and draw.random() < 4 / 9:
            left, operator, right = naive(level - 1), draw.choice(("and", "or")), naive(level - 1)
            text = f"( {left} ( {operator} {right} ) )"
        return f"( not {text} )" if draw.random() < 1 / 3 else text

    def shape(text):
        return re.sub(r"\b[ab]\b", "x", text).replace("and", "or")

    sampled = [text for text in (naive(3) for _ in range(20_000)) if sum(map(text.count, ("and", "or", "not"))) == 3]
    shapes = [shape(text) for text in sampled]
    ours = [shape(sample_formula(draw, 3, "ab").text) for _ in range(len(shapes))]
    assert set(ours) <= set(shapes)
    for one in {one for one in shapes if shapes.count(one) > 100}:
        assert ours.count(one) == pytest.approx(shapes.count(one), abs=5 * shapes.count(one) ** 0.5)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logic")
    return folder, write_logic(folder, 400, seed=5)


def test_no_pair_is_in_two_files_nor_its_mirror_image_and_lengths_are_as_promised(written):
    folder, summary = written
    parts = {name: read_formula_pairs(folder / f"{name}.tsv") for name in ("train", "valid", "test")}
    assert {name: len(part) for name, part in parts.items()} == {"train": 400, "valid": 20, "test": 48}
    keys = [frozenset((pair.left, pair.right)) for part in parts.values() for pair in part]
    assert len(set(keys)) == len(keys)
    assert max(pair.operators for pair in parts["train"] + parts["valid"]) == 6
    assert [pair.operators for pair in parts["test"]] == [number for number in range(1, 13) for _ in range(4)]
    assert sum(summary.train["relations"].values()) == 400
    assert str(folder) in str(summary)
    for pair in parts["train"][::20] + parts["test"]:
        assert pair.label == relation_of(holds_in(pair.left), holds_in(pair.right))
        assert set(pair.left.split()) <= set(TOKENS)
        assert len({token for token in f"{pair.left} {pair.right}".split() if token in VARIABLES}) <= 4


def test_the_same_seed_gives_the_same_files_and_another_gives_others(written, tmp_path):
    folder, _ = written
    write_logic(tmp_path / "same", 400, seed=5)
    write_logic(tmp_path / "other", 400, seed=6)
    for name in ("train.tsv", "valid.tsv", "test.tsv"):
        assert (tmp_path / "same" / name).read_bytes() == (folder / name).read_bytes()
        assert (tmp_path / "other" / name).read_bytes() != (folder / name).read_bytes()


def test_pairs_come_back_as_written_and_a_file_without_a_header_is_read(tmp_path):
    pairs = [LabelledPair("a", "( not b )", "#", 1), LabelledPair("( a ( or b ) )", "( not a )", "v", 1)]
    write_formula_pairs(pairs, tmp_path / "pairs.tsv")
    assert read_formula_pairs(tmp_path / "pairs.tsv") == pairs
    (tmp_path / "bare").write_text("#\ta\t( not b )\nv\t( a ( or b ) )\t( not a )\n")
    assert read_formula_pairs(tmp_path / "bare") == pairs


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("#\ta", "found 2 cells; expected relation, left, right"),
        ("~\ta\tb", "found the relation '~'; expected one of < > = | ^ v #"),
        ("#\ta\t( not g )", "found 'g' in '( not g )'; expected tokens of ( ) a b"),
        ("#\t\tb", "found an empty formula"),
    ],
)
def test_invalid_pairs_are_reported_by_file_and_line(tmp_path, line, said):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"relation\tleft\tright\n#\ta\tb\n{line}\n")
    with pytest.raises(InputError) as reported:
        read_formula_pairs(path)
    assert str(reported.value).startswith(f"{path}, line 3: ")
    assert said in str(reported.value)
    path.write_text("\nrelation\tleft\tright\toperators\n")
    with pytest.raises(InputError, match="found no pair"):
        read_formula_pairs(path)


@pytest.mark.parametrize("header", ["", "sentence1\tsentence2\tlabel\n"])
def test_a_tab_in_a_sentence_does_not_move_the_label(tmp_path, header):
    (tmp_path / "pairs.tsv").write_text(f"{header}a dog\ta cat\tyes\nit rains\tno\tno\nthe\tcat\tit sleeps\tno\n")
    with pytest.raises(InputError, match=r"line \d: found 4 cells, with the label 'it sleeps'; expected 3"):
        read_labelled_pairs(tmp_path / "pairs.tsv", Normaliser())


def test_cells_without_a_column_are_counted(tmp_path):
    (tmp_path / "pairs.tsv").write_text("a dog\ta cat\tyes\tmore\nit rains\tno\tno\n")
    (tmp_path / "wider.tsv").write_text("a dog\ta cat\tyes\nit rains\tno\tno\tmore\n")
    for name, remarks in (("pairs.tsv", 0), ("wider.tsv", 1)):
        with collected() as reports:
            assert read_labelled_pairs(tmp_path / name, Normaliser()) == PAIRS
        assert len(reports[0].remarks) == remarks


def test_quotation_marks_that_a_program_doubled_are_read_once(tmp_path):
    left, right = 'He said "yes".', '"No"'
    pandas.DataFrame([(left, right, "x")]).to_csv(tmp_path / "pairs.tsv", sep="\t", header=False, index=False)
    assert read_labelled_pairs(tmp_path / "pairs.tsv", Normaliser()) == [LabelledPair(left, right, "x")]
    (tmp_path / "pairs.tsv").write_text(f'"{left}\t{right}\tx\n')
    assert read_labelled_pairs(tmp_path / "pairs.tsv", Normaliser()) == [LabelledPair(f'"{left}', right, "x")]


def test_labels_that_are_probably_none_are_a_warning(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a dog\ta cat\tyes\nit rains\tno\t-\n")
    with pytest.warns(InputWarning, match=r"pairs\.tsv: found the label '-' in 1 pair, which SNLI"):
        read_labelled_pairs(path, Normaliser())
    path.write_text("".join(f"{number}\ta dog {number}\ta cat {number}\tyes\n" for number in range(10)))
    with pytest.warns(InputWarning, match="10 different labels of 10 pairs, such as 'a cat 0'; expected a few labels"):
        read_labelled_pairs(path, Normaliser())
