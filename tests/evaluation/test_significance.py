"""The test between two models, from files of details."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.significance import RIGHT_BRANCHING, compare_details, read_details
from syntaxlm.evaluation.trees import evaluate_trees
from syntaxlm.statistics.bootstrap import compare_runs
from syntaxlm.trees.baselines import run_scores
from syntaxlm.trees.bounds import random_trees, right
from syntaxlm.trees.f1 import PROTOCOLS, score
from syntaxlm.trees.spans import SpanSets, trees_of
from syntaxlm.trees.tree import read_brackets, write_brackets


@pytest.fixture(params=["wsj-test", "evalb"])
def scored(request, toy, tmp_path):
    """Details files and scores of trees from four seeds."""
    gold = read_brackets(toy / "test.mrg")[:60]
    write_brackets(gold, tmp_path / "gold.mrg")
    files, scores = [], []
    for seed in range(4):
        spans = random_trees([len(tree) for tree in gold], seed, "biased" if seed < 2 else "unbiased")
        write_brackets(trees_of(spans, [tree.words for tree in gold]), tmp_path / "predicted.mrg")
        report = evaluate_trees(tmp_path / "predicted.mrg", tmp_path / "gold.mrg", PROTOCOLS[request.param])
        files.append(tmp_path / f"{seed}.jsonl")
        report.write_details(files[-1])
        scores.append(report.scores["predicted"])
    return files, scores


def test_files_of_details_give_the_test_of_their_scores(scored):
    files, scores = scored
    found = compare_details(files[:2], files[2:], samples=300)
    assert found.result == compare_runs(run_scores(scores[:2]), run_scores(scores[2:]), samples=300)
    assert found.first.over_seeds.mean == pytest.approx(np.mean([one.f1 for one in scores[:2]]))
    assert found.known is None
    assert "bootstrap over seeds and items" in str(found)
    assert "note" not in str(found)
    single = compare_details(files[:1], files[2:], samples=20)
    assert "note: with a single seed" in str(single)
    assert [row["std"] for row in single.rows()][:2] == [None, found.second.over_seeds.std]
    figures = single.to_dict()
    assert [figures[side]["score"]["std"] for side in ("first", "second")] == [None, found.second.over_seeds.std]
    assert found.to_dict()["difference"]["seeds"] == [2, 2]


def test_trees_are_compared_with_right_branching(scored, tmp_path, capsys):
    files, scores = scored
    gold = SpanSets.of(read_brackets(tmp_path / "gold.mrg"))
    baseline = score(right(gold.lengths), gold, scores[0].protocol)
    command = ["evaluate", "significance", *map(str, files[:2]), "--against", "right-branching"]
    assert main([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["second"]["score"]["mean"] == pytest.approx(baseline.f1)
    assert figures["difference"]["difference"] == pytest.approx(np.mean([one.f1 for one in scores[:2]]) - baseline.f1)
    assert figures["difference"]["seeds"] == [2, 1]
    found = compare_details(files[:2], [RIGHT_BRANCHING], samples=300)
    assert found.result == compare_runs(run_scores(scores[:2]), run_scores([baseline]), samples=300)
    rows = {row["row"]: row for row in found.rows()}
    assert (rows["second"]["runs"], rows["second"]["seeds"]) == ("right branching", None)
    assert rows["second"]["score"] == pytest.approx(baseline.f1)
    assert (rows["difference"]["score"], rows["difference"]["low"]) == (found.result.difference, found.result.low)
    assert "note" not in str(found), "right branching has no seeds"
    assert "note: with a single seed" in str(compare_details(files[:1], [RIGHT_BRANCHING], samples=20))


def test_only_trees_are_compared_with_right_branching(tmp_path):
    pairs = pairs_file(tmp_path / "pairs.jsonl", {"a": [True] * 10})
    with pytest.raises(InputError, match=r"pairs\.jsonl: found no trees; expected details of evaluate parse or"):
        compare_details([pairs], [RIGHT_BRANCHING])
    with pytest.raises(InputError, match="found right-branching and files; expected files, or"):
        compare_details([pairs], [RIGHT_BRANCHING, pairs])


@pytest.fixture
def lines(scored):
    """The lines of a file of details, and a function that writes them again with changes of the third: its path."""
    files, _ = scored
    rows = [json.loads(line) for line in files[0].read_text().splitlines()]

    def changed(**values):
        path = files[0].with_name("changed.jsonl")
        path.write_text("".join(json.dumps(row | values if at == 2 else row) + "\n" for at, row in enumerate(rows)))
        return path

    return rows, changed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        *(
            (values, r"changed\.jsonl, line 3: found a line that --details did not write")
            for values in (
                {"f1": 50}, {"f1": -0.1}, {"f1": 10**400}, {"f1": None}, {"matched_spans": -1}, {"protocol": 3},
                {"protocol": "wsj"}, {"gold": 4},
            )
        ),
        ({"protocol": "wsj10"}, r"line 3: found the protocol wsj10; expected (wsj-test|evalb), as in the lines"),
        ({"decoder": "cky"}, "line 3: found the decoder cky; expected predicted, as in the lines"),
    ],
)  # fmt: skip
def test_a_line_with_impossible_scores_or_another_protocol_or_decoder_is_an_error_that_names_it(lines, values, message):
    with pytest.raises(InputError, match=message):
        read_details(lines[1](**values))


@pytest.mark.parametrize("gold", ["", "(S (X a))", "(S (X a)) (S (X b))"])
def test_right_branching_needs_the_gold_tree_of_the_words(lines, gold):
    with pytest.raises(InputError, match=r"changed\.jsonl, line 3"):
        compare_details([lines[1](gold=gold)], [RIGHT_BRANCHING])


def test_files_with_other_gold_trees_are_not_compared(lines, scored):
    rows, changed = lines
    gold = "(S " + " ".join(f"(X {word})" for word in rows[2]["words"]) + ")"
    with pytest.raises(InputError, match=r"changed\.jsonl, line 3: found another item"):
        compare_details([scored[0][0]], [changed(gold=gold)])


def test_a_file_counts_once_and_one_model_has_one_decoder(lines, scored):
    (first, *_), _ = scored
    with pytest.raises(InputError, match="given twice for one model"):
        compare_details([first, first], [RIGHT_BRANCHING])
    other = first.with_name("other.jsonl")
    other.write_text("".join(json.dumps(row | {"decoder": "cky"}) + "\n" for row in lines[0]))
    with pytest.raises(InputError, match=r"other\.jsonl: found trees of the decoder cky; expected predicted"):
        compare_details([first, other], [RIGHT_BRANCHING])
    assert compare_details([first], [other], samples=20).result.difference == 0, "two models may have two decoders"


def test_a_link_to_a_file_and_another_path_of_it_are_the_same_file(scored):
    (first, second, *_), _ = scored
    link = first.with_name("link.jsonl")
    link.symlink_to(first)
    for again in (link, f"{first.parent}/./{first.name}"):
        with pytest.raises(InputError, match=rf"{again}: is given twice for one model \(also as .*0\.jsonl\)"):
            compare_details([first, second, again], [RIGHT_BRANCHING])


def test_right_branching_is_scored_on_the_sentences_of_a_file_with_another_limit_of_words(tmp_path):
    lengths = [5, 12] * 6
    words = [[f"w{place}" for place in range(length)] for length in lengths]
    for seed in range(2):
        write_brackets(trees_of(random_trees(lengths, seed), words), tmp_path / f"{seed}.mrg")
    protocol = replace(PROTOCOLS["wsj10"], max_words=40)
    evaluate_trees(tmp_path / "0.mrg", tmp_path / "1.mrg", protocol).write_details(tmp_path / "0.jsonl")
    found = compare_details([tmp_path / "0.jsonl"], [RIGHT_BRANCHING], samples=20)
    assert found.items == 12
    assert found.second.over_seeds.mean == pytest.approx(score(right(lengths), random_trees(lengths, 1), protocol).f1)


def test_against_may_be_repeated(scored, capsys):
    files, _ = scored
    one, two, three, _ = map(str, files)
    assert main(["evaluate", "significance", one, "--against", two, "--against", three, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["second"]["files"] == [two, three]


def test_a_string_is_not_a_list_of_files():
    with pytest.raises(TypeError, match="lists of files"):
        compare_details("a.jsonl", ["b.jsonl"])


def pairs_file(path, right):
    """right: by model, whether each pair is correct; the last pair has an unknown word."""
    rows = [
        {
            "case": "agreement", "better": f"better {place}", "worse": f"worse {place}",
            "models": {
                name: {"correct": values[place], "differing_words_known": place < len(values) - 1}
                for name, values in right.items()
            },
        }
        for place in range(len(next(iter(right.values()))))
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_models_of_a_file_of_pairs_are_runs(tmp_path, capsys):
    good = pairs_file(tmp_path / "good.jsonl", {"a": [True] * 9 + [False], "b": [True] * 10})
    bad = pairs_file(tmp_path / "bad.jsonl", {"c": [True, False] * 5})
    found = compare_details([good], [bad], samples=200)
    assert found.first.scores.values.tolist() == [0.9, 1.0]
    assert found.result.difference == pytest.approx(0.45)
    assert found.known.difference == pytest.approx(1 - 5 / 9)
    assert main(["evaluate", "significance", str(good), "--against", str(bad), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["first"]["runs"] == ["a", "b"]
    assert figures["measure"] == "accuracy, minimal pairs"
    assert figures["difference_differing_words_known"]["difference"] == pytest.approx(4 / 9)


def test_questions_with_another_key_are_other_items(tmp_path):
    models = {"a": {"credit": 1.0, "differing_words_known": [True, True]}}
    paths = [tmp_path / f"{correct}.jsonl" for correct in range(2)]
    for correct, path in enumerate(paths):
        row = {"question": "1", "candidates": ["x", "y"], "correct": correct, "models": models}
        path.write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="found another item than in"):
        compare_details(paths[:1], paths[1:])


def test_questions_give_credit_without_the_interpolated_column(tmp_path):
    row = {"question": "1", "candidates": ["x", "y"], "correct": 0, "models": {
        "a": {"credit": 0.5, "differing_words_known": [True, False]},
        "interpolated": {"credit": 1.0, "differing_words_known": [True, True]},
    }}  # fmt: skip
    (tmp_path / "one.jsonl").write_text(json.dumps(row) + "\n")
    read = read_details(tmp_path / "one.jsonl")
    assert read.names == ("a",)
    assert read.scores.values.tolist() == [0.5]
    assert read.known.tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("[1]\n", "line 1: found a line that --details did not write"),
        ('{"f1": 1}\n', "line 1: found a line that --details did not write"),
        ('{"f1": 1, "protocol": []}\n', "line 1: found a line that --details did not write"),
        ('{"candidates": ["a"], "models": {}}\n[1]\n', "line 2: found a line that --details did not write"),
        ('{"candidates": ["a"], "models": {}}\n5\n', "line 2: found a line that --details did not write"),
        ("{", "line 1: damaged or cut short"),
    ],
)
def test_a_file_that_is_not_one_of_details_is_an_error(text, message, tmp_path):
    (tmp_path / "wrong.jsonl").write_text(text)
    with pytest.raises(InputError, match=message):
        read_details(tmp_path / "wrong.jsonl")


def test_files_of_other_items_or_measures_are_an_error(tmp_path, toy):
    one = pairs_file(tmp_path / "one.jsonl", {"a": [True] * 5})
    longer = pairs_file(tmp_path / "longer.jsonl", {"a": [True] * 6})
    with pytest.raises(InputError, match=r"longer\.jsonl, line 6: found another item than in .* \(6 and 5 items\)"):
        compare_details([one], [longer])
    gold = tmp_path / "gold.mrg"
    gold.write_text("(S (X (D the) (N cat)) (V sleeps))\n" * 5)
    evaluate_trees(gold, gold).write_details(tmp_path / "trees.jsonl")
    with pytest.raises(
        InputError, match=r"trees\.jsonl: found F1, protocol wsj-test; expected accuracy, minimal pairs"
    ):
        compare_details([one], [tmp_path / "trees.jsonl"])
