"""Agreement between the trees of several models, and detection of collapsed grammars."""

from __future__ import annotations

import json

import numpy as np
import pytest

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.evaluation.agreement import Agreement, measure_agreement
from syntaxlm.evaluation.collapse import TreeFigures, tree_figures
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.trees.averaging import AgreementMatrix, BranchingF1
from syntaxlm.trees.bounds import left, right
from syntaxlm.trees.f1 import PROTOCOLS, score
from tests.fresh_models import fresh

LINES = ["the cat sees a dog", "a old dog sees the cat N", "the dog", "a cat sees the old dog ! N", "cat"]
NAMES = ["one", "two", "three"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def agreement_of(values, branching=None) -> Agreement:
    names = ["one", "two", "three", "four", "five"][: len(values)]
    matrix = AgreementMatrix(np.array(values), PROTOCOLS["wsj-test"], 9)
    sides = branching or [BranchingF1(0.4, 0.1, 9)] * len(values)
    return Agreement(names, ["mbr"] * len(values), "t", matrix, sides)


def test_figures_are_f1_between_the_trees_of_the_models(text):
    models = [fresh("prpn"), fresh("on-lstm"), fresh("simple-pcfg")]
    found = measure_agreement(models, text, NAMES)
    spans = [parse_lines(one, LINES).spans for one in models]
    protocol = PROTOCOLS["wsj-test"]
    for row, one in enumerate(spans):
        assert found.branching[row].right == score(one, right(one.lengths), protocol).f1
        assert found.branching[row].left == score(one, left(one.lengths), protocol).f1
        for column, other in enumerate(spans):
            assert found.matrix.values[row, column] == pytest.approx(score(one, other, protocol).f1)
    assert found.decoders == ["biased", "biased", "mbr"]
    assert found.matrix.with_others == pytest.approx((found.matrix.values.sum(1) - 1) / 2)
    written = json.loads(json.dumps(found.to_dict()))
    assert written["sentences"] == found.matrix.sentences
    assert written["right_branching"] == [each.right for each in found.branching]
    assert written["odd_one_out"] in NAMES
    assert "1 one (biased)" in str(found)


def test_only_the_first_sentences_are_parsed(text):
    models = [fresh("prpn"), fresh("on-lstm")]
    assert measure_agreement(models, text, NAMES[:2], sentences=2).matrix.sentences == 2


def test_a_model_that_agrees_much_less_than_the_others_is_an_outlier():
    found = agreement_of([[1, 0.8, 0.4], [0.8, 1, 0.45], [0.4, 0.45, 1]])
    assert found.odd_one_out == 2
    assert found.stands_apart
    assert "three is an outlier" in str(found)
    assert list(found.reasons_to_omit()) == [2]


def test_a_model_that_agrees_a_little_less_does_not():
    found = agreement_of([[1, 0.8, 0.75], [0.8, 1, 0.74], [0.75, 0.74, 1]])
    assert not found.stands_apart
    assert not found.reasons_to_omit()
    assert "three agrees least with the others, but is not an outlier." in str(found)


def test_several_outliers_are_omitted_one_after_the_other_and_only_among_their_like():
    values = np.full((4, 4), 0.8)
    values[3], values[:, 3] = 0.2, 0.2
    np.fill_diagonal(values, 1)
    found = agreement_of(values, [BranchingF1(0.99, 0.1, 9), *[BranchingF1(0.4, 0.1, 9)] * 3])
    assert list(found.reasons_to_omit()) == [0, 3]
    assert list(found.reasons_to_omit([[0], [1, 2], [3]])) == [], "a kind that has collapsed as a whole is kept"
    assert list(found.reasons_to_omit([[0, 1, 2], [3]])) == [0]
    two = np.full((5, 5), 0.8)
    two[3:], two[:, 3:] = 0.3, 0.3
    np.fill_diagonal(two, 1)
    assert sorted(agreement_of(two).reasons_to_omit()) == [3, 4]


def test_two_models_have_no_outlier():
    found = agreement_of([[1, 0.2], [0.2, 1]])
    assert not found.stands_apart
    assert found.to_dict()["odd_one_out"] is None
    assert "With two models, no outlier is determined" in str(found)


def test_trees_of_one_branching_direction_are_reported_as_collapsed():
    found = agreement_of([[1, 0.2], [0.2, 1]], [BranchingF1(0.95, 0.0, 9), BranchingF1(0.3, 0.91, 9)])
    assert found.collapsed() == {0: "right", 1: "left"}
    assert "one has collapsed: nearly all its trees are right branching." in str(found)


def test_what_cannot_be_compared_is_refused(text, tmp_path):
    one, other = fresh("prpn"), fresh("on-lstm")
    with pytest.raises(InputError, match="found 1 model; expected two or more"):
        measure_agreement([one], text, ["one"])
    with pytest.raises(InputError, match="sentences: found 0"):
        measure_agreement([one, other], text, NAMES[:2], sentences=0)
    with pytest.raises(InputError, match="this lstm model with these settings does not parse"):
        measure_agreement([one, fresh("lstm")], text, NAMES[:2])
    dropping = fresh("on-lstm", drop_words=("the",))
    with pytest.raises(
        InputError, match="two and one read different words; expected models with the same tokenisation"
    ):
        measure_agreement([one, dropping], text, NAMES[:2])
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n", encoding="utf-8")
    with pytest.raises(InputError, match="found no sentence"):
        measure_agreement([one, other], empty, NAMES[:2])


def test_the_command_takes_a_decoder_as_other_commands_do(text, monkeypatch, capsys):
    models = {"prpn": fresh("prpn"), "palm": fresh("palm"), "pcfg": fresh("simple-pcfg")}
    monkeypatch.setattr("syntaxlm.storage.sources.read_model", lambda folder: models[str(folder)])
    command = ["evaluate", "agreement", str(text), *models, "--json", "--decoder"]
    for decoder, expected in (("viterbi", ["biased", "greedy-right", "viterbi"]), ("cky", ["biased", "cky", "mbr"])):
        assert main([*command, decoder]) == 0
        assert json.loads(capsys.readouterr().out)["decoders"] == expected
    assert main([*command, "upward"]) == 2
    assert "argument --decoder: invalid choice: 'upward'" in capsys.readouterr().err


def test_figures_of_a_grammar_are_of_its_own_trees_and_labels():
    stored = fresh("simple-pcfg")
    corpus = EncodedCorpus.from_sentences([stored.vocabulary.encode(line.split()) for line in LINES])
    found = tree_figures(stored, corpus)
    longer = [line for line in LINES if len(line.split()) > 2]
    spans = parse_lines(stored, longer).spans
    assert found.right_branching == score(spans, right(spans.lengths), PROTOCOLS["wsj-test"]).f1
    assert found.sentences == len(longer)
    assert 1 <= found.symbols <= stored.model.nonterminal_count
    assert tree_figures(stored, EncodedCorpus.from_sentences([stored.vocabulary.encode(["cat"])])) is None


@pytest.mark.parametrize(
    ("figures", "warning"),
    [
        (TreeFigures(0.95, 0.0, 9.0, 300), "nearly all trees are right branching (F1 95)"),
        (TreeFigures(0.0, 0.9, 9.0, 300), "nearly all trees are left branching (F1 90)"),
        (TreeFigures(0.5, 0.1, 1.2, 300), "most spans have the same label (effective number of labels 1.2)"),
        (TreeFigures(0.5, 0.1, 9.0, 300), None),
        (TreeFigures(0.5, 0.1, None, 300), None),
    ],
)
def test_a_collapsed_grammar_is_warned_of(figures, warning):
    if warning is None:
        assert figures.warning is None
        assert "warning" not in str(figures)
    else:
        assert warning in figures.warning
        assert str(figures).endswith(f"warning: {figures.warning}")
