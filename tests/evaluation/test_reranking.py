"""Reranking: picked candidates by weight, baselines and upper bounds, choice of the weight."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.parse_candidates import read_candidates
from syntaxlm.evaluation import reranking
from syntaxlm.evaluation.reranking import (
    BEST,
    FIRST,
    MODEL,
    PARSER,
    PICKED,
    RANDOM,
    WEIGHTS,
    evaluate_reranking,
    rerank,
)
from syntaxlm.scoring.surprisal import log_probs_of_trees
from syntaxlm.trees.conllu import read_conllu, write_conllu
from syntaxlm.trees.tree import DependencyTree
from tests.models.test_tree_rnn import SENTENCE
from tests.tree_models import tree_model

WORDS, GOLD = SENTENCE.words, SENTENCE.heads


def tree(heads: tuple[int, ...], name: str = "", tag: str = "") -> DependencyTree:
    return DependencyTree(WORDS, (tag,) * 9, heads, ("dep",) * 9, name)


@pytest.fixture
def files(tmp_path):
    """Writes candidates and gold trees of sentences; returns their paths. Heads are given as (score, heads)."""

    def files(sentences: list[list[tuple[float | None, tuple[int, ...]]]], name: str = "k"):
        lines: list[str] = []
        for number, candidates in enumerate(sentences, 1):
            for score, heads in candidates:
                lines += [f"# sent_id = s{number}", "# note = kept"]
                lines += [] if score is None else [f"# score = {score}"]
                rows = zip(WORDS, heads, strict=True)
                lines += [f"{place}\t{w}\tlemma\t_\t_\tA=b\t{h}\tdep\t_\tX=y" for place, (w, h) in enumerate(rows, 1)]
                lines.append("")
        (tmp_path / f"{name}.conllu").write_text("\n".join(lines) + "\n")
        write_conllu(
            [tree(GOLD, f"s{number}") for number in range(1, len(sentences) + 1)], tmp_path / f"{name}-gold.conllu"
        )
        return tmp_path / f"{name}.conllu", tmp_path / f"{name}-gold.conllu"

    return files


FLAT, RIGHT = (4, 4, 4, 0, 4, 4, 4, 4, 4), (0, 1, 2, 3, 4, 5, 6, 7, 8)
THREE = [[(3.0, FLAT), (2.0, GOLD), (1.0, RIGHT)], [(5.0, RIGHT), (4.0, FLAT), (4.5, GOLD)]]


def spoken(monkeypatch, log_probs):
    """Replaces a model's log-probabilities of trees by those of their heads."""
    monkeypatch.setattr(
        reranking, "log_probs_of_trees",
        lambda stored, trees, source="": np.array([log_probs[one.heads] for one in trees], np.float64),
    )  # fmt: skip


def test_the_tree_that_makes_the_words_most_probable_is_picked_by_the_model_alone(files):
    stored = tree_model()
    path, _ = files(THREE)
    for one, candidates in zip(rerank(stored, read_candidates(path)), THREE, strict=True):
        expected = log_probs_of_trees(stored, [tree(heads) for _, heads in candidates])
        assert one.log_probs == pytest.approx(expected)
        assert one.picked == expected.argmax()


@pytest.mark.parametrize("together", [1, 4, 1000])
def test_batch_size_does_not_change_the_results(files, monkeypatch, together):
    path, _ = files(THREE * 5)
    expected = [one.values for one in rerank(tree_model(), read_candidates(path), 0.5)]
    monkeypatch.setattr(reranking, "TREES_TOGETHER", together)
    found = [one.values for one in rerank(tree_model(), read_candidates(path), 0.5)]
    assert len(found) == 10
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("weight", "picked"), [(0.0, 0), (0.25, 0), (0.5, 1), (1.0, 1)])
def test_the_parsers_score_has_the_rest_of_the_weight(files, monkeypatch, weight, picked):
    spoken(monkeypatch, {FLAT: -10.0, GOLD: -8.0, RIGHT: -10.0})
    path, _ = files([[(3.0, FLAT), (2.0, GOLD), (1.0, RIGHT)]])
    (one,) = rerank(tree_model(), read_candidates(path), weight)
    assert one.values == pytest.approx(weight * np.array([-10, -8, -10]) + (1 - weight) * np.array([3, 2, 1]))
    assert one.picked == picked


def test_of_equal_candidates_the_parsers_first_is_picked(files, monkeypatch):
    spoken(monkeypatch, {FLAT: -8.0, GOLD: -8.0, RIGHT: -9.0})
    path, _ = files([[(None, RIGHT), (None, FLAT), (None, GOLD)]])
    assert [one.picked for one in rerank(tree_model(), read_candidates(path))] == [1]


def test_picks_are_read_against_the_first_the_best_and_chance(files, monkeypatch):
    spoken(monkeypatch, {FLAT: -8.0, GOLD: -9.0, RIGHT: -10.0})
    path, gold = files(THREE)
    right = {heads: sum(map(int.__eq__, heads, GOLD)) for heads in (FLAT, GOLD, RIGHT)}  # "." never counts here
    unmarked = {heads: right[heads] - (heads[8] == 4) for heads in right}
    report = evaluate_reranking(tree_model(), path, gold, weight=0.6)
    expected = {
        PICKED: 2 * unmarked[FLAT], MODEL: 2 * unmarked[FLAT], PARSER: unmarked[FLAT] + unmarked[RIGHT],
        FIRST: unmarked[FLAT] + unmarked[RIGHT], RANDOM: 2 * sum(unmarked.values()) / 3, BEST: 2 * unmarked[GOLD],
    }  # fmt: skip
    assert {name: scores.uas() for name, scores in report.scores.items()} == pytest.approx(
        {name: value / 16 for name, value in expected.items()}
    )
    assert (report.sentences, report.candidates, report.others) == (2, 6, 1)
    assert report.scores[BEST].las() == 1, "the gold tree is a candidate"
    figures = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert figures["scores"][PICKED]["uas_all_words"] == pytest.approx(2 * right[FLAT] / 18)
    assert figures["scores"][PICKED]["las"] == pytest.approx(figures["scores"][PICKED]["uas"])
    assert (figures["words"], figures["all_words"]) == (16, 18)
    assert figures["picked_against_first"]["difference"] == pytest.approx((unmarked[FLAT] - unmarked[RIGHT]) / 16)
    assert "picked compared with first candidate, without punctuation: UAS difference" in str(report)
    alone = evaluate_reranking(tree_model(), path, gold)
    assert MODEL not in alone.scores
    assert alone.weight == 1


def test_a_weight_is_chosen_on_other_sentences(files, monkeypatch):
    # The parser's scores are correct on sentences of the first type, the model on the second; both together on all.
    spoken(monkeypatch, {FLAT: -10.0, GOLD: -9.0, RIGHT: -8.5})
    first = [(9.0, GOLD), (1.0, RIGHT)]
    second = [(2.0, FLAT), (1.9, GOLD)]
    dev, test = files([first, second] * 3, "dev"), files([second, first], "test")
    report = evaluate_reranking(tree_model(), *test, tune=dev)
    assert report.tuning is not None
    assert 0.1 / 1.1 < report.weight < 8 / 8.5
    assert report.tuning.uas == report.scores[PICKED].uas() == 1
    assert max(report.tuning.model_uas, report.tuning.parser_uas) < 1
    assert report.tuning.sentences == 6
    good = [weight for weight in WEIGHTS if 0.1 / 1.1 < weight < 8 / 8.5]
    assert good[0] < report.weight < good[-1], "the middle one of equally good weights"
    assert f"chosen on {dev[0]} (6 sentences), where UAS is 100.0;" in str(report)


def test_weights_are_tried_over_eight_decades_of_scale(files, monkeypatch):
    assert (WEIGHTS[0], WEIGHTS[-1]) == (0, 1)
    assert list(WEIGHTS) == sorted(set(WEIGHTS))
    spoken(monkeypatch, {FLAT: -10.0, GOLD: -9.0, RIGHT: -8.5})
    for scale in (1e-3, 1.0, 1e3):
        dev = files([[(9.0 * scale, GOLD), (1.0 * scale, RIGHT)], [(2.0 * scale, FLAT), (1.9 * scale, GOLD)]], "dev")
        assert reranking.tune_weight(tree_model(), *dev).uas == 1


def test_picked_trees_are_written_with_all_their_lines_and_say_why(files, monkeypatch, tmp_path):
    spoken(monkeypatch, {FLAT: -10.0, GOLD: -8.0, RIGHT: -10.5})
    path, _ = files(THREE)
    written: list[str] = []
    evaluate_reranking(tree_model(), path, weight=0.5, write=written.append)
    lines = written[0].splitlines()
    assert lines[:6] == [
        "# sent_id = s1", "# note = kept", "# score = 2.0", "# rerank_candidate = 2 of 3",
        "# rerank_log_prob = -8.000000", "# rerank_value = -3.000000",
    ]  # fmt: skip
    assert lines[6] == "1\tthe\tlemma\t_\t_\tA=b\t3\tdep\t_\tX=y"
    again = tmp_path / "again.conllu"
    again.write_text("".join(written))
    assert [one.heads for one in read_conllu(again)] == [GOLD, GOLD]
    twice: list[str] = []
    evaluate_reranking(tree_model(), again, write=twice.append)
    assert twice[0].count("rerank_") == 3, "comments of an earlier time are replaced"
    assert "# rerank_candidate = 1 of 1" in twice[0]


def test_gold_trees_without_labels_have_no_las(files, tmp_path):
    path, _ = files(THREE)
    write_conllu([replace(tree(GOLD), labels=("",) * 9)] * 2, tmp_path / "bare.conllu")
    report = evaluate_reranking(tree_model(), path, tmp_path / "bare.conllu")
    assert report.scores[PICKED].las() is None
    assert " - " in str(report)


def test_sentences_of_punctuation_alone_have_no_figure_without_it(files, tmp_path):
    path, _ = files(THREE)
    write_conllu([tree(GOLD, tag="PUNCT")] * 2, tmp_path / "marks.conllu")
    report = evaluate_reranking(tree_model(), path, tmp_path / "marks.conllu")
    assert report.scores[PICKED].uas() is None
    assert "compared" not in str(report)
    with pytest.raises(InputError, match="found only punctuation"):
        reranking.tune_weight(tree_model(), path, tmp_path / "marks.conllu")


def test_what_cannot_be_ranked_or_weighted_is_reported(files, lstm, tmp_path):
    path, gold = files(THREE)
    bare, _ = files([[(None, FLAT), (None, GOLD)]], "bare")
    cyclic, _ = files([[(1.0, GOLD), (0.0, (2, 1, 4, 0, 8, 8, 8, 4, 4))]], "cyclic")
    for arguments, said in (
        ({"candidates": path, "weight": 1.5}, "weight: found 1.5; expected a number from 0 to 1"),
        (
            {"candidates": bare, "weight": 0.5},
            r"bare.conllu, line 3, sentence s1: found no parser's score in the comments",
        ),
        (
            {"candidates": path, "tune": (bare, gold)},
            r"gold.conllu, line \d+, sentence s2: found no candidates for this sentence",
        ),
        ({"candidates": bare, "tune": (path, gold), "weight": 0.5}, "found weight 0.5, and "),
        (
            {"candidates": path, "gold": gold, "tune": (path, gold)},
            "k.conllu: is also evaluated; expected a different file",
        ),
        (
            {"candidates": bare, "gold": gold, "tune": (path, gold)},
            "k-gold.conllu: is also evaluated; expected a different file",
        ),
        ({"candidates": cyclic}, r"cyclic.conllu, line 17, sentence s1: words 1, 2 have no path to a root"),
    ):
        with pytest.raises(InputError, match=said):
            evaluate_reranking(tree_model(), **arguments)
    with pytest.raises(InputError, match="this lstm model does not generate dependency trees"):
        evaluate_reranking(lstm, path)
    write_conllu([tree(GOLD)], tmp_path / "one.conllu")
    with pytest.raises(
        InputError, match=r"bare.conllu: found no comments with parser's scores, # score = ...; expected one for each"
    ):
        evaluate_reranking(tree_model(), path, tune=(bare, tmp_path / "one.conllu"))
