"""Predictions with failed parses, from files and from pipes, against gold trees."""

import os
import threading

import pytest

from syntaxlm.comparison.averages import average_files
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.evaluation.trees import evaluate_trees
from syntaxlm.trees.f1 import PROTOCOLS

GOLD = """(S (NP (DT The) (NN dog)) (VP (VBD slept) (ADVP (RB well))))
(S (NP (PRP We)) (VP (VBD left) (NP (DT the) (NN house))))
(S (NP (PRP She)) (VP (VBZ likes) (NP (JJ green) (NN tea))))
"""
RIGHT_BRANCHING = "(The (dog (slept well)))\n(We (left (the house)))\n(She (likes (green tea)))\n"


@pytest.fixture
def gold(tmp_path):
    (tmp_path / "gold.mrg").write_text(GOLD)
    return tmp_path / "gold.mrg"


def f1(predicted, gold, **options):
    return 100 * evaluate_trees(predicted, gold, **options).scores["predicted"].f1


@pytest.mark.parametrize("placeholder", ["(ROOT)", "(())", "()", "(NOPARSE)", "(TOP ())", "(X)", "", " "])
def test_failed_parses_are_left_out_or_scored_without_brackets(tmp_path, gold, placeholder):
    lines = GOLD.split("\n")
    lines[1] = placeholder
    (tmp_path / "predicted.mrg").write_text("\n".join(lines))
    with pytest.warns(InputWarning, match=r"1 failed parse \(trees without words; line 2\), of the gold sentences 2"):
        assert f1(tmp_path / "predicted.mrg", gold) == pytest.approx(100)
    with pytest.warns(InputWarning, match="scored without brackets"):
        assert f1(tmp_path / "predicted.mrg", gold, failed="zero") == pytest.approx(200 / 3)
    with pytest.raises(InputError, match=r"predicted\.mrg"):
        average_files([gold, tmp_path / "predicted.mrg"], PROTOCOLS["wsj-test"])


def test_blank_lines_are_named_if_the_numbers_of_sentences_differ(tmp_path, gold):
    (tmp_path / "predicted.mrg").write_text("\n\n" + GOLD.split("\n")[0] + "\n\n")
    with pytest.raises(InputError, match=r"Blank lines among the predictions: 1, 2, 4"):
        f1(tmp_path / "predicted.mrg", gold)


def test_failed_gold_parses_are_not_scored(tmp_path, gold):
    (tmp_path / "odd.mrg").write_text(GOLD + "(ROOT)\n")
    assert f1(gold, tmp_path / "odd.mrg") == pytest.approx(100)


def test_roots_without_a_label_have_several_children(tmp_path):
    (tmp_path / "gold.mrg").write_text(
        "( (S (NP (PRP We)) (VP (VBD left))) (. .) )\n( (S (NP (PRP She)) (VP (VBZ is))))"
    )
    (tmp_path / "predicted.mrg").write_text("(S (NP (PRP We)) (VP (VBD left)) (. .))\n(S (NP (PRP She)) (VP (VBZ is)))")
    report = evaluate_trees(tmp_path / "predicted.mrg", tmp_path / "gold.mrg")
    assert [reading.counts["words"] for reading in report.readings] == [5, 5]
    assert report.scores["predicted"].f1 == pytest.approx(0.5)


def test_a_root_without_a_label_counts_only_if_it_has_several_children(tmp_path):
    (tmp_path / "gold.mrg").write_text(
        "( (S (NP (PRP We)) (VP (VBD left) (NP (NN town)))) (. .))\n( (S (A a) (B b)))\n"
    )
    (tmp_path / "predicted.mrg").write_text("(S (X (A We) (VP (B left) (C town))) (. .))\n(S (A a) (B b))\n")
    scores = evaluate_trees(tmp_path / "predicted.mrg", tmp_path / "gold.mrg", "evalb").scores["predicted"]
    assert (scores.precision, scores.recall, scores.f1) == (1, 1, 1)


def test_trees_without_labels_are_read_equally_on_both_sides(tmp_path, gold):
    (tmp_path / "bare.mrg").write_text(RIGHT_BRANCHING)
    assert f1(tmp_path / "bare.mrg", gold) == f1(gold, tmp_path / "bare.mrg") == pytest.approx(250 / 3)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("side", ["predicted", "gold"])
def test_a_pipe_is_read_once(tmp_path, gold, side):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(RIGHT_BRANCHING), daemon=True)
    writer.start()
    files = (tmp_path / "pipe", gold) if side == "predicted" else (gold, tmp_path / "pipe")
    assert f1(*files) == pytest.approx(250 / 3)
    writer.join(5)
