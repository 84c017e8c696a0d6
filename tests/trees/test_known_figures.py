"""Baselines on treebanks, compared with known results.  The treebanks are not part of the repository."""

from functools import cache

import pytest

from syntaxlm.trees.baselines import BaselineScores, baseline_scores
from syntaxlm.trees.conllu import read_conllu
from syntaxlm.trees.f1 import PROTOCOLS, Protocol
from syntaxlm.trees.preprocessing import find_preprocessing, preprocess
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import Tree, read_brackets
from tests.shared_data import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no treebanks in {DATA}")


@cache
def trees_of(name: str) -> list[Tree]:
    path = DATA / name
    files = sorted(path.glob("*.mrg")) if path.is_dir() else [path]
    return [tree for file in files for tree in read_brackets(file)]


@cache
def gold(name: str, preprocessing: str, count: int | None = None) -> SpanSets:
    return SpanSets.of(preprocess(trees_of(name)[:count], find_preprocessing(preprocessing), name).trees)


def baselines(spans: SpanSets, max_words: int | None, biased_bound: bool = False) -> BaselineScores:
    return baseline_scores(spans, Protocol("wsj-test", max_words=max_words), range(10), biased_bound)


@pytest.mark.parametrize(
    ("max_words", "right", "left", "random"), [(10, 57.6, 17.2, 30), (40, 40.3, 8.5, 18), (None, 39.7, 8.3, 17.5)]
)
def test_wall_street_journal(max_words, right, left, random):
    scores = baselines(gold("wsj-sample/mrg", "ptb-keep"), max_words)
    assert round(100 * scores.right.f1, 1) == right
    assert round(100 * scores.left.f1, 1) == left
    assert 100 * scores.random.mean == pytest.approx(random, abs=1)
    if max_words == 10:
        assert scores.right.sentences == 542
        assert scores.right.by_sentence.lengths.min() == 2


def test_bounds_of_the_wall_street_journal():
    scores = baselines(gold("wsj-sample/mrg", "ptb-keep"), None, biased_bound=True)
    assert round(100 * scores.binary_bound.f1, 1) == 84.4
    assert scores.biased_bound is not None
    assert round(100 * scores.biased_bound.f1, 1) == 83.0


@pytest.mark.parametrize(("max_words", "right"), [(10, 64.5), (40, 48.0), (None, 47.0)])
@pytest.mark.parametrize("preprocessing", ["ptb-keep", "ptb-drop"])
def test_gum(preprocessing, max_words, right):
    # Its tags are Penn's, plus HYPH, NFP, AFX, ADD, GW: both preprocessings give these results.
    assert round(100 * baselines(gold("gum/test.mrg", preprocessing), max_words).right.f1, 1) == right


# The known results for the Spanish trees count empty subjects, *0*, and brackets, -Fpa- -Fpt-, as words.
@pytest.mark.parametrize(
    ("name", "preprocessing", "right", "left", "random"),
    [
        ("zh-sinica", "zh-sinica", 26.9, 21.8, 25.9),
        pytest.param("zh-sinica", "letters", 26.9, 21.8, 25.9, marks=pytest.mark.long),
        pytest.param("es-cess", "letters-only", 40.1, 18.9, 26.8, marks=pytest.mark.long),
        ("es-cess", "letters", 42.0, 20.1, 29.7),
        ("es-cess", "es-cess", 43.3, 19.5, 30.8),
        ("pt-floresta", "pt-floresta", 52.2, 16.3, 31.7),
        pytest.param("pt-floresta", "letters", 52.2, 16.3, 31.7, marks=pytest.mark.long),
    ],
)
def test_other_languages(name, preprocessing, right, left, random):
    scores = baselines(gold(f"other-languages/{name}.mrg", preprocessing, 4000), 10)
    assert round(100 * scores.right.f1, 1) == right
    assert round(100 * scores.left.f1, 1) == left
    assert 100 * scores.random.mean == pytest.approx(random, abs=0.5)  # of ten seeds


@pytest.mark.parametrize(
    ("name", "rules", "right", "left"),
    [
        pytest.param("zh-sinica", "punctuation: unicode", 26.9, 21.8, marks=pytest.mark.long),
        pytest.param("es-cess", "punctuation: unicode", 40.1, 18.9, marks=pytest.mark.long),
        ("es-cess", "punctuation: unicode\ndrop_words: ['*0*', -Fpa-, -Fpt-, -fe-]", 43.3, 19.5),
        ("pt-floresta", "punctuation: unicode\nfunction_before: +", 52.2, 16.3),
    ],
)
def test_other_languages_by_a_preprocessing_file_of_few_lines(name, rules, right, left, tmp_path):
    (tmp_path / "mine.yaml").write_text(rules)
    scores = baselines(gold(f"other-languages/{name}.mrg", str(tmp_path / "mine.yaml"), 4000), 10)
    assert (round(100 * scores.right.f1, 1), round(100 * scores.left.f1, 1)) == (right, left)


@pytest.mark.parametrize(
    ("name", "labels"), [("zh-sinica", {"NP", "VP", "S"}), ("es-cess", {"sn", "sp"}), ("pt-floresta", {"np", "pp"})]
)
def test_labels_of_other_languages_are_categories(name, labels):
    spans = gold(f"other-languages/{name}.mrg", name, 4000)
    assert labels <= set(spans.label_names)
    assert not any("+" in label or "-SUJ" in label for label in spans.label_names)


def test_gum_has_the_same_sentences_as_dependencies():
    constituency, dependency = read_brackets(DATA / "gum/dev.mrg"), read_conllu(DATA / "gum/dev.conllu")
    assert [len(tree) for tree in constituency] == [len(tree) for tree in dependency]


def test_every_protocol_scores_the_treebank():
    spans = gold("wsj-sample/mrg", "ptb-keep")
    assert {
        name: baseline_scores(spans, protocol, [0], False).right.sentences for name, protocol in PROTOCOLS.items()
    } == {
        "wsj-test": 3901,
        "prpn": 3914,
        "wsj10": 542,
        "wsj40": 3751,
        "evalb": 3901,
    }
