"""Dependency trees of a model: attachment against a treebank, CoNLL-U, constituents and pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from syntaxlm import cli
from syntaxlm.api.model import LanguageModel
from syntaxlm.core.errors import InputError
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.evaluation.attachment import _random, attached, evaluate_attachment
from syntaxlm.evaluation.trees import evaluate_parsing, protocol_named
from syntaxlm.models.dmv import DMV, DMVConfig
from syntaxlm.ops.dmv import LEFT, RIGHT, projective_trees
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import ModelBundle, ModelSettings, write_model
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.conllu import read_conllu
from tests.drawing.reading import of_role, read_svg
from tests.fresh_models import fresh
from tests.trees.faults import is_projective

TAGS = ["DT", "JJ", "NN", "VBZ"]
LINE = "the_DT old_JJ cat_NN sees_VBZ a_DT dog_NN"
HEADS = [3, 3, 4, 0, 6, 4]


def dependency_model() -> ModelBundle:
    """Verbs have nouns on both sides, nouns have determiners and adjectives on the left."""
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *TAGS])
    config = DMVConfig()
    model = DMV(config, len(vocabulary))
    determiner, adjective, noun, verb = (vocabulary.encode([tag])[0] for tag in TAGS)
    model.root[verb] = 5
    model.root[noun] = 1
    model.root.div_(model.root.sum())
    model.choose[verb, :, noun] = 9
    model.choose[noun, LEFT, [determiner, adjective]] = 9
    model.choose.div_(model.choose.sum(-1, keepdim=True))
    model.stop[[determiner, adjective]] = 0.99
    model.stop[noun, RIGHT] = 0.9
    return ModelBundle(model.eval(), ModelSettings(config, NormaliserSettings(units="tags")), vocabulary)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "dmv"
    write_model(path, dependency_model())
    return path


@pytest.fixture
def treebank(tmp_path):
    """Three sentences, with punctuation as a head, a reversed arc, and one that is too long for some limits."""
    path = tmp_path / "gold.dp"
    path.write_text(
        "the\tDT\t2\ncat\tNN\t4\n,\t,\t2\nsees\tVBZ\t0\n.\t.\t4\n\n"  # all correct
        "cats\tNN\t0\nsees\tVBZ\t1\na\tDT\t2\n\n"  # the arc of the first two words is reversed
        "sleeps\tVBZ\t0\n\n"
    )
    return path


def test_heads_of_a_model_of_distances_and_heights_are_scored(treebank):
    bundle = fresh("structformer")
    report = evaluate_attachment(bundle, treebank)
    (parse,) = parse_lines(bundle, ["the cat sees"])
    assert LanguageModel(**vars(bundle)).evaluate_attachment(treebank).predicted == report.predicted
    assert report.sentences[0].predicted == tuple(parse.heads)
    assert sorted(parse.word_values) == ["distances", "heads", "heights"]
    assert parse.dependencies.heads == tuple(parse.heads)
    highest = int(np.argmax(parse.word_values["heights"]))
    assert [word for word, head in enumerate(parse.heads) if head == 0] == [highest]


def test_attachment_is_counted_over_words_without_punctuation(treebank):
    report = evaluate_attachment(dependency_model(), treebank)
    assert [sentence.number for sentence in report.sentences] == [1, 2], "sentences of one word are left out"
    assert [sentence.predicted for sentence in report.sentences] == [(2, 3, 0), (2, 0, 2)]
    assert [sentence.gold for sentence in report.sentences] == [(2, 3, 0), (0, 1, 2)]
    assert (report.predicted.directed, report.predicted.undirected) == (4 / 6, 5 / 6)
    assert (report.next_word.directed, report.next_word.undirected) == (3 / 6, 5 / 6)
    assert (report.previous_word.directed, report.previous_word.undirected) == (3 / 6, 5 / 6)
    counted = evaluate_attachment(dependency_model(), treebank, protocol_named("prpn", 1))
    assert (len(counted.sentences), counted.predicted.directed) == (1, 1)
    with pytest.raises(InputError, match=r"gold\.dp: was read with preprocessing none; expected ptb-keep"):
        evaluate_attachment(dependency_model(), read_treebank(treebank))
    with pytest.raises(InputError, match=r"protocol wsj-test .*: found no sentence to score among 3 of .*gold\.dp"):
        evaluate_attachment(dependency_model(), treebank, protocol_named("wsj-test", 1))


def test_the_root_is_undirected_correct_only_if_it_is_the_root():
    directed, undirected = attached(np.array([0, 1, 2]) - 1, np.array([2, 0, 2]) - 1)
    assert directed.tolist() == [0, 0, 1]
    assert undirected.tolist() == [0, 1, 1]


def test_the_random_baseline_is_the_mean_over_all_projective_trees():
    gold = np.array([2, 3, 0, 3, 2, 0])
    lengths = np.array([4, 2])
    directed, undirected = _random(gold, lengths)
    for part, words in ((slice(4), 4), (slice(4, 6), 2)):
        trees = [np.array(tree) for tree in projective_trees(words)]
        scored = [attached(tree - 1, gold[part] - 1) for tree in trees]
        np.testing.assert_allclose(directed[part], np.mean([one for one, _ in scored], 0))
        np.testing.assert_allclose(undirected[part], np.mean([one for _, one in scored], 0))


def test_the_command_prints_attachment_and_writes_json_tables_and_sentences(folder, treebank, tmp_path, capsys):
    command = ["evaluate", "parse", str(folder), str(treebank)]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert "sentences 2 (2 to 3 words)" not in text
    assert "sentences 2 (3 to 3 words)   words 6" in text
    assert "               66.7         83.3   predicted trees" in text
    assert "random projective trees, uniform (expected value)" in text
    assert cli.main([*command, "--max-words", "3", "--json", "--details", str(tmp_path / "rows.jsonl")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["directed"], found["max_words"]) == (1, 4 / 6, 3)
    assert set(found["baselines"]) == {"next_word", "previous_word", "random"}
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert rows[1]["predicted"] == [2, 0, 2]
    assert cli.main([*command, "--format", "tsv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_options_of_constituency_trees_are_refused(folder, treebank, capsys):
    options = "--decoder", "heads", "--layer", "1", "--marks", "both"
    assert cli.main(["evaluate", "parse", str(folder), str(treebank), *options]) != 0
    said = capsys.readouterr().err
    assert "--decoder, --layer, --marks: found dependency trees in" in said
    assert "expected constituency trees" in said


def test_other_models_and_tagged_text_are_refused(folder, treebank, tmp_path, capsys):
    write_model(tmp_path / "prpn", fresh("prpn"))
    assert cli.main(["evaluate", "parse", str(tmp_path / "prpn"), str(treebank)]) != 0
    assert "found dependency trees or tagged text; expected constituency trees" in capsys.readouterr().err
    with pytest.raises(
        InputError, match=r"this prpn model gives no dependency trees, so .* Model types that can: structformer, dmv"
    ):
        evaluate_attachment(fresh("prpn"), treebank)
    text = tmp_path / "some.tagged.txt"
    text.write_text(LINE)
    with pytest.raises(InputError, match=r"found sentences without heads; expected dependency trees"):
        evaluate_attachment(dependency_model(), text)


def test_constituents_are_scored_on_a_constituency_treebank(tmp_path):
    path = tmp_path / "gold.mrg"
    path.write_text("(S (NP (DT the) (JJ old) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog))))\n")
    report = evaluate_parsing(dependency_model(), path, protocol=protocol_named("wsj10"))
    assert list(report.scores) == ["heads", "heads-binary", "heads-binary-left"]
    assert report.chosen == "heads"
    assert (report.scores["heads"].precision, report.scores["heads"].recall) == (1, 2 / 3)
    assert (report.scores["heads-binary"].precision, report.scores["heads-binary"].recall) == (3 / 4, 1)


def test_a_parse_has_heads_and_constituents():
    (parse,) = parse_lines(dependency_model(), [LINE])
    assert parse.heads == parse.to_dict()["heads"] == HEADS
    assert str(parse.tree) == "(X (X (DT the) (JJ old) (NN cat)) (VBZ sees) (X (DT a) (NN dog)))"
    assert parse.dependencies.heads == tuple(HEADS)
    assert parse.dependencies.tags == parse.tree.tags
    (without,) = parse_lines(fresh("prpn"), ["the cat"])
    assert (without.heads, without.dependencies) == ([], None)
    assert "heads" not in without.to_dict()
    (average,) = parse_lines([dependency_model()] * 2, [LINE])
    assert set(parse.tree.constituents) < set(average.tree.constituents), "averages are binary"
    assert average.heads == []


def test_parse_writes_conllu(folder, tmp_path, capsys):
    lines = tmp_path / "lines.tagged.txt"
    lines.write_text(f"{LINE}\n\nsleeps_VBZ\n")
    assert cli.main(["parse", str(folder), str(lines), "--format", "conllu", "-o", str(tmp_path / "out.conllu")]) == 0
    first, second = read_conllu(tmp_path / "out.conllu")
    assert (list(first.heads), first.name, first.tags) == (HEADS, "1", ("DT", "JJ", "NN", "VBZ", "DT", "NN"))
    assert is_projective(first)
    assert (second.words, second.heads, second.name) == (("sleeps",), (0,), "3")
    write_model(tmp_path / "prpn", fresh("prpn"))
    assert cli.main(["parse", str(tmp_path / "prpn"), "--text", "the cat", "--format", "conllu"]) != 0
    assert "this prpn model gives no dependency trees, so --format conllu cannot use it" in capsys.readouterr().err
    also = ["--also", str(tmp_path / "prpn")]
    assert cli.main(["parse", str(folder), str(lines), "--format", "conllu", *also]) != 0
    assert "averaged trees are constituency trees" in capsys.readouterr().err


def test_draw_has_arcs_beside_the_constituents(folder, tmp_path):
    for name in ("out.svg", "out.tex", "out.html"):
        assert cli.main(["draw", str(folder), LINE, "-o", str(tmp_path / name)]) == 0
    drawing = read_svg((tmp_path / "out.svg").read_text(encoding="utf-8"))
    assert len(of_role(drawing, "arc")) == 5
    assert len(of_role(drawing, "arc-root")) == 1
    latex = (tmp_path / "out.tex").read_text()
    assert "\\begin{dependency}" in latex
    assert "\\begin{forest}" in latex
    assert "Dependencies" in (tmp_path / "out.html").read_text(encoding="utf-8")
    gold = "(S (NP (DT the) (NN cat)) (VBZ sees))"
    assert cli.main(["draw", str(folder), "--gold", gold, "-o", str(tmp_path / "gold.svg")]) == 0
    assert len(of_role(read_svg((tmp_path / "gold.svg").read_text(encoding="utf-8")), "arc")) == 2


def test_generated_sentences_have_trees(folder, capsys):
    assert cli.main(["generate", str(folder), "--sentences", "20", "--trees", "--max-words", "8", "--seed", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 20
    assert any(line.startswith("(X ") for line in lines)
    assert cli.main(["generate", str(folder), "--sentences", "3", "--max-words", "8"]) == 0
    assert set(capsys.readouterr().out.split()) <= set(TAGS)


def test_only_short_sentences_are_extracted(treebank, tmp_path, capsys):
    out = tmp_path / "short.tagged.txt"
    assert cli.main(["data", "tags", str(treebank), "-o", str(out), "--max-words", "2"]) == 0
    assert out.read_text() == "sleeps_VBZ\n"
