"""Two files of trees of the same sentences: which words are scored, and whether the sentences are the same."""

from __future__ import annotations

import json
import unicodedata
import warnings

import pytest

from syntaxlm.cli import main
from syntaxlm.comparison.averages import average_files
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.evaluation.trees import evaluate_trees
from syntaxlm.trees.f1 import PROTOCOLS

PUNCTUATED = """\
( (S (NP-SBJ (DT The) (NN dog)) (, ,) (VP (VBD slept) (PP (IN on) (NP (DT the) (NN mat)))) (. .)) )
( (S (NP-SBJ (PRP It)) (VP (VBD cost) (NP ($ $) (CD 5) (-NONE- *U*))) (. .)) )
"""
MISTAGGED = """\
(ROOT (S (NP (DT The) (NN dog)) (NN ,) (VP (VBD slept) (PP (IN on) (NP (DT the) (NN mat)))) (. .)))
(ROOT (S (NP (PRP It)) (VP (VBD cost) (NP (NN $) (CD 5))) (. .)))
"""
UNTAGGED = "(X (X The dog) (X , (X (X slept (X on (X the mat))) .)))\n(X It (X (X cost (X $ 5)) .))\n"
KEPT_WORDS = "(X (X The dog) (X slept (X on (X the mat))))\n(X It (X cost 5))\n"
ALL_NOUNS = "(S (NP (NN The) (NN dog)) (NN ,) (VP (NN slept) (PP (NN on) (NP (NN the) (NN mat)))) (NN .))\n" + (
    "(S (NN It) (VP (NN cost) (NP (NN $) (NN 5))) (NN .))\n"
)
FUNCTIONS = PUNCTUATED.replace("NN ", "NN-HL ").replace("(, ,)", "(,-X ,)")
THREE = """\
(S (NP (DT The) (NN dog)) (VP (VBD slept) (ADVP (RB well))))
(S (NP (PRP We)) (VP (VBD left) (NP (DT the) (NN house))))
(S (NP (PRP She)) (VP (VBZ likes) (NP (JJ green) (NN tea))))
"""
OTHER_WORDS = """\
(S (NP (DT Un) (NN gato)) (VP (VBD come) (ADVP (RB hoy))))
(S (NP (PRP Eso)) (VP (VBD fue) (NP (DT otra) (NN cosa))))
(S (NP (PRP Yo)) (VP (VBZ tengo) (NP (JJ dos) (NN perros))))
"""


@pytest.fixture
def files(tmp_path):
    """Writes the predictions and the gold trees; returns their paths."""

    def files(predicted: str, gold: str):
        for name, text in (("predicted.mrg", predicted), ("gold.mrg", gold)):
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / "predicted.mrg", tmp_path / "gold.mrg"

    return files


def f1(predicted, gold, preprocessing="ptb-keep") -> float:
    """F1 without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        return evaluate_trees(predicted, gold, preprocessing=preprocessing).scores["predicted"].f1


@pytest.mark.parametrize("preprocessing", ["ptb-keep", "ptb-drop", "letters"])
@pytest.mark.parametrize(
    "predicted",
    [MISTAGGED, UNTAGGED, ALL_NOUNS, PUNCTUATED, FUNCTIONS],
    ids=["mistagged", "untagged", "one-tag", "gold-itself", "tags-with-functions"],
)
def test_words_are_dropped_where_the_gold_tags_drop_them_whatever_the_predicted_tags_are(
    predicted, preprocessing, files
):
    assert f1(*files(predicted, PUNCTUATED), preprocessing) == 1


def test_predictions_over_the_kept_words_are_scored_as_they_are(files):
    assert f1(*files(KEPT_WORDS, PUNCTUATED)) == 1
    assert f1(*files(KEPT_WORDS, FUNCTIONS)) == 1


def test_swapped_tags_leave_the_words_aligned(files):
    gold = "(S (NP (DT The) (NNS dogs) (POS ')) (NP (NN tail)) (VP (VBD moved) (NP (NN up))) ('' '))\n"
    swapped = gold.replace("POS", "QQ").replace("''", "POS").replace("QQ", "''")
    assert f1(*files(swapped, gold)) == 1


def test_traces_on_one_side_only_do_not_count(files):
    traces = PUNCTUATED.replace("(VBD slept)", "(VBD slept) (NP (-NONE- *T*-1))")
    plain = PUNCTUATED.replace(" (-NONE- *U*)", "")
    for predicted, gold in ((plain, traces), (traces, plain), (MISTAGGED, traces)):
        assert f1(*files(predicted, gold)) == 1
    assert f1(*files(plain, traces), "none") == f1(*files(traces, plain), "none") == 1
    averaged = average_files(files(traces, plain), PROTOCOLS["wsj-test"])
    assert averaged.agreement.values.tolist() == [[1, 1], [1, 1]]


def test_sentences_of_punctuation_may_be_left_out_of_the_predictions(files):
    gold = "(S (. .))\n" + PUNCTUATED + "(S (: --) (. !))\n"
    for predicted in (MISTAGGED, UNTAGGED, KEPT_WORDS, "(X .)\n" + UNTAGGED + "(X -- !)\n", gold):
        assert f1(*files(predicted, gold)) == 1
    # Only one of the two is left out: the other loses its words by their own form.
    assert f1(*files("(S (. .))\n" + MISTAGGED.replace("(NN ,)", "(, ,)").replace("NN $", "$ $"), gold)) == 1


def test_a_prediction_with_another_number_of_words_loses_words_by_its_own_tags_and_the_report_says_so(files):
    more = MISTAGGED.replace("(NN ,)", "(, ,) (: --)").replace("NN $", "$ $")
    with collected() as reports:
        assert f1(*files(more, PUNCTUATED)) == 1
    remarks = [str(remark) for report in reports for remark in report.remarks]
    assert any(
        "1 tree with another number of words, from which words were dropped by their own" in text for text in remarks
    )
    assert any(text.startswith("2 words dropped at the positions that preprocessing drops") for text in remarks)


def test_what_was_read_of_both_files_is_in_the_report(files, capsys):
    predicted, gold = files(MISTAGGED, PUNCTUATED)
    report = evaluate_trees(predicted, gold, preprocessing="ptb-keep")
    assert {reading.source for reading in report.readings} == {str(predicted), str(gold)}
    remarks = {remark["what"]: remark["count"] for read in report.to_dict()["readings"] for remark in read["remarks"]}
    assert remarks["words dropped by preprocessing ptb-keep: '.' 2, ',' 1, '$' 1"] == 4
    assert remarks["empty nodes dropped"] == 1
    assert main(["average", str(predicted), str(gold), "--format", "json", "-o", str(gold.parent / "out.mrg")]) == 0
    read = json.loads(capsys.readouterr().out)["readings"]
    assert [one["source"] for one in read][:2] == [str(predicted), str(gold)]


@pytest.mark.parametrize(
    ("predicted", "gold", "preprocessing", "parts"),
    [
        (
            UNTAGGED.replace("(X the mat)", "(X (X the old) mat)"), PUNCTUATED, "ptb-keep",
            ["gold.mrg, sentence 1: the tree has 6 words (8 before preprocessing ptb-keep), but the prediction has 7",
             "The dog slept on the old mat", "predicted.mrg, tree 1", "option pretokenised"],
        ),
        (
            "(X (X x 1/2))\n", "( (S (LS *) (NP-SBJ (NN x)) (VP (SYM =) (NP (CD 1\\/2)))) )\n", "ptb-keep",
            ["the tree has 4 words, but the prediction has 2", "gold:      * x = 1/2", "option pretokenised"],
        ),
        (
            "(X (X We left) .)\n",
            "(S (. .))\n(S (NP (PRP We)) (VP (VBD left)) (. .))\n(S (NP (PRP It)) (VP (VBZ ends)))\n", "ptb-keep",
            ["found 1 trees; expected 2 as in", "(1 more have no word after preprocessing ptb-keep)", "sentence 3",
             "(no tree)"],
        ),
    ],
)  # fmt: skip
def test_predictions_that_do_not_fit_are_named_with_their_sentence(predicted, gold, preprocessing, parts, files):
    with pytest.raises(InputError) as caught:
        evaluate_trees(*files(predicted, gold), preprocessing=preprocessing)
    assert [part for part in parts if part not in str(caught.value)] == []


REVERSED = "".join(reversed(THREE.splitlines(True)))
ONE_OTHER = THREE.replace("We", "Ils").replace("left", "a").replace("the", "la")
SHIFTED = "".join([*THREE.splitlines(True)[1:], "(S (NP (DT A) (NN cat)) (VP (VBD ran) (ADVP (RB off))))\n"])
SHIFTED_BACK = "".join(["(S (NP (DT A) (NN cat)) (VP (VBD ran) (ADVP (RB off))))\n", *THREE.splitlines(True)[:-1]])


@pytest.mark.parametrize(
    ("predicted", "parts"),
    [
        (OTHER_WORDS, ["agree in 3 of 3 sentences.", "sentence 1:", "Un gato come hoy", "The dog slept well"]),
        (REVERSED, ["agree in 2 of 3 sentences.", "sentence 1:", "She likes", "same sentences, in different orders"]),
        (SHIFTED, ["agree in 3 of 3 sentences.", "Most of these sentences are one tree earlier in the first file"]),
        (SHIFTED_BACK, ["agree in 3 of 3 sentences.", "Most of these sentences are one tree later in the first file"]),
        (ONE_OTHER, ["agree in 1 of 3 sentences.", "sentence 2:"]),
    ],
    ids=["other-words", "reversed", "shifted", "shifted-back", "one-sentence"],
)  # fmt: skip
def test_other_words_are_reported_with_the_first_pair(predicted, parts, files):
    paths = files(predicted, THREE)
    for compare in (evaluate_trees, lambda *both: average_files(both, PROTOCOLS["wsj-test"])):
        with collected() as reports, pytest.warns(InputWarning) as caught:
            compare(*paths)
        (message,) = (str(warning.message) for warning in caught)
        if compare is evaluate_trees:
            assert [part for part in parts if part not in message] == []
            remarks = [remark for report in reports for remark in report.remarks]
            assert [remark.count for remark in remarks if "fewer than half of the words" in remark.what] == [
                int(parts[0].split()[2])
            ]
        assert "Trees are compared by their position" in message


@pytest.mark.parametrize(
    "predicted",
    [
        THREE.lower().replace("(s ", "(S "),
        THREE.replace("green", "<unk>").replace("tea", "N").replace("dog", "<unk>"),
        THREE.replace("(JJ green)", "(JJ GREEN)"),
    ],
    ids=["lower-case", "unknown-words", "capitals"],
)
def test_words_that_are_written_in_another_way_are_the_same_sentence(predicted, files):
    assert f1(*files(predicted, THREE), "none") == 1


def test_unicode_forms_are_the_same_word(files):
    gold = THREE.replace("We", "été").replace("left", "à").replace("the", "où")
    assert f1(*files(unicodedata.normalize("NFD", gold), gold), "none") == 1


def test_the_command_warns_before_the_table(files, capsys):
    predicted, gold = map(str, files(OTHER_WORDS, THREE))
    assert main(["evaluate", "trees", predicted, gold]) == 0
    captured = capsys.readouterr()
    assert "warning: " in captured.err
    assert "Un gato come hoy" in captured.err
    assert "Un gato" not in captured.out
