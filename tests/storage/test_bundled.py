"""The models that are part of the package."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

import syntaxlm
from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.storage.bundled import bundled_names, find_model
from syntaxlm.storage.folder import read_model

MOST_BYTES = 27_000_000  # of all bundled models in the wheel
SENTENCE = "The keys to the cabinet are on the table."
ORDINARY = Path(__file__).parents[2] / "laboratory" / "shipping" / "ordinary-sentences.mrg"
COMPLETE, VERB_PHRASES = 40, 0.85  # sentences with all constituents, and recall, at least
NAMES = ["en", "en-fast", "is"]
FILES = {"config.json", "vocabulary.json", "weights.safetensors", "README.md"}


@pytest.fixture(scope="module")
def en():
    return syntaxlm.load("en")


def constituents(parse):
    words = parse.tree.words
    return {" ".join(words[span.start : span.end]) for span in parse.tree.constituents}


@pytest.mark.long
def test_the_bundled_models_fit_into_the_wheel(tmp_path):
    assert bundled_names() == NAMES
    with zipfile.ZipFile(tmp_path / "wheel", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in NAMES:
            files = list(find_model(name).iterdir())
            parts = {"config.json", "vocabulary.json", "weights.safetensors", "README.md"}
            assert {path.name for path in files} == parts | ({"frequencies.tsv.xz"} if name == "en" else set())
            for path in files:
                archive.write(path, f"{name}/{path.name}")
    assert (tmp_path / "wheel").stat().st_size < MOST_BYTES


def test_a_bundled_model_is_saved_with_its_card(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "is").mkdir()
    (tmp_path / "is" / "README.md").write_text("The Icelandic pages of another project.\n")
    syntaxlm.load("is").save_pretrained("mine")
    card = (find_model("is") / "README.md").read_text(encoding="utf-8")
    saved = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert saved == card.replace('load("is")', 'load("mine")')


@pytest.mark.parametrize("name", ["en", "en-fast"])
def test_phrases_of_a_plain_sentence_are_constituents(name):
    parse = syntaxlm.load(name).parse(SENTENCE)
    assert {"the cabinet", "to the cabinet", "on the table"} <= constituents(parse)


def test_icelandic_is_parsed_and_scored():
    icelandic = syntaxlm.load("is")
    parse = icelandic.parse("Í flestum löndum setja menn á bækur þann fróðleik sem þar hefur gerst.")
    assert {"flestum löndum", "á bækur", "þann fróðleik"} <= constituents(parse)
    good, bad = icelandic.log_prob(["Hann fór heim með mönnum sínum.", "Hann fór heim mönnum með sínum."])
    assert good > bad


def test_surprisals_add_up_and_mark_unknown_words(en):
    text = "The unflaggable dog sleeps."
    found = en.surprisal(text)
    assert sum(row.surprisal for row in found) == pytest.approx(-en.log_prob(text) / 0.6931471805599453, rel=1e-4)
    by_word = {row.word: row for row in found}
    assert not by_word["unflaggable"].in_vocabulary
    assert by_word["unflaggable"].token == "<unk:able>"
    assert by_word["dog"].in_vocabulary


def test_agreement_is_learned(en):
    good, bad = en.log_prob(["The authors are here.", "The authors is here."])
    assert good > bad


def test_commands_take_the_name_of_a_bundled_model(capsys):
    assert main(["parse", "en", SENTENCE, "--format", "brackets"]) == 0
    assert "(X the cabinet)" in capsys.readouterr().out
    assert main(["models", "info", "en", "--json"]) == 0
    assert '"combination"' in capsys.readouterr().out


def test_bundled_models_are_listed_first(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(find_model("en-fast"), "mine")
    assert main(["models", "list", "--json"]) == 0
    assert [one["folder"] for one in json.loads(capsys.readouterr().out)["models"]] == [*NAMES, "mine"]


def test_a_folder_comes_before_a_bundled_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_model("en").name == "en"
    assert find_model("en").is_absolute()
    shutil.copytree(find_model("en-fast"), "en")
    assert not find_model("en").is_absolute()
    assert read_model("en").name == "simple-pcfg"


def test_a_wrong_name_lists_the_bundled_models():
    with pytest.raises(InputError, match="or the name of a bundled model: en, en-fast, is"):
        syntaxlm.load("de")
    with pytest.raises(
        InputError, match=r"or the name of a bundled model: .*\. For another language, train a model on your text"
    ):
        read_model("es")


def test_ordinary_words_are_known_and_the_scorer_reads_punctuation(en):
    words = ["raced", "crashed", "airport", "stadium", "install", "cancelled", "laptop", "website", "emails"]
    assert [word for word in words if not en.vocabulary.knows(word)] == []
    assert len(en.vocabulary) >= 30_000
    with_comma, without = en.surprisal(["While the man hunted, the deer ran.", "While the man hunted the deer ran."])
    assert with_comma[5].word == without[5].word == "deer"
    assert abs(with_comma[5].surprisal - without[5].surprisal) > 0.05


def test_most_ordinary_sentences_have_all_their_constituents(en):
    report = en.evaluate_parsing(ORDINARY, preprocessing="letters")
    complete = sum(sentence.recall == 1 for sentence in report.details())
    assert complete >= COMPLETE
    assert report.scores["mbr"].recall_by_label["VP"][0] > VERB_PHRASES
