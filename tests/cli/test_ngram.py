"""`ngram to-arpa` and `ngram from-arpa`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syntaxlm.cli import main

KENLM = Path(__file__).parents[1] / "golden_data" / "kenlm"
FILES = ("weights.safetensors", "vocabulary.json", "config.json")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder that `train` wrote, for lower-case text."""
    root = tmp_path_factory.mktemp("ngram")
    text = str(KENLM / "train.txt")
    recipe = "model: {name: ngram, order: 3}\ntext: {train: T, valid: T, normaliser: {lower_case: true}}\n"
    (root / "kn3.yaml").write_text(recipe.replace("T", json.dumps(text)))
    assert main(["train", str(root / "kn3.yaml"), "--output", str(root / "model")]) == 0
    return root / "model"


def test_a_model_to_arpa_and_back_is_the_same_byte_by_byte(model, tmp_path, run):
    arpa, back = tmp_path / "kn3.arpa", tmp_path / "back"
    written = run("ngram", "to-arpa", model, "-o", arpa), run("ngram", "from-arpa", arpa, "-o", back, "--like", model)
    counts = "26 1-grams   114 2-grams   282 3-grams\n"
    assert [result[:2] for result in written] == [(0, f"{place}: {counts}") for place in (arpa, back)]
    assert {path.name for path in back.iterdir()} == set(FILES)
    for name in FILES:
        assert (back / name).read_bytes() == (model / name).read_bytes()


def test_a_model_that_predicts_no_ends_of_sentences_to_arpa_and_back_is_the_same(model, tmp_path, run):
    recipe = (model.parent / "kn3.yaml").read_text()
    (tmp_path / "open.yaml").write_text(recipe + "batches: {predict_eos: false}\n")
    trained, arpa, back = (tmp_path / name for name in ("trained", "open.arpa", "back"))
    for words in (
        ("train", tmp_path / "open.yaml", "-o", trained),
        ("ngram", "to-arpa", trained, "-o", arpa),
        ("ngram", "from-arpa", arpa, "-o", back, "--like", trained),
    ):
        assert run(*words)[0] == 0
    for name in FILES:
        assert (back / name).read_bytes() == (trained / name).read_bytes()


def test_a_file_of_another_program_serves_the_other_commands(tmp_path, run, refused):
    folder, text = tmp_path / "m", tmp_path / "text.txt"
    counts = json.loads(run("ngram", "from-arpa", KENLM / "model.arpa", "-o", folder, "--json")[1])["counts"]
    assert counts == [26, 114, 282, 381]
    text.write_text("the old cat sees a dog\n")
    assert run("score", folder, text)[1].splitlines()[1].split("\t")[7] == "1.169969"  # KenLM: log10 -0.3521959
    assert len(run("generate", folder, "--sentences", "2")[1].splitlines()) == 2
    assert "does not parse" in refused("parse", folder, text)


def test_words_are_read_unchanged_or_as_another_model_reads_them(model, tmp_path, run):
    (tmp_path / "text.txt").write_text("The OLD cat sees a dog\n")
    for name, like in (("plain", []), ("like", ["--like", model])):
        assert run("ngram", "from-arpa", KENLM / "model.arpa", "-o", tmp_path / name, *like)[0] == 0
        figures = json.loads(run("evaluate", "perplexity", tmp_path / name, tmp_path / "text.txt", "--json")[1])
        assert figures["unknown"] == (0 if like else 2)


def test_wrong_files_and_folders_are_reported_and_nothing_is_written(model, tmp_path, refused):
    before = {name: (model / name).read_bytes() for name in FILES}
    (tmp_path / "bad.arpa").write_text("\\data\\\nngram 1=1\n\n\\1-grams:\nx\t<unk>\n\n\\end\\\n")
    for file, folder, message in (
        (KENLM / "model.arpa", model, "already holds a run"),
        (tmp_path / "bad.arpa", tmp_path / "m", "bad.arpa, line 5: found 'x\\t<unk>'"),
        (tmp_path / "none.arpa", tmp_path / "m", "none.arpa: cannot be read"),
    ):
        assert message in refused("ngram", "from-arpa", file, "-o", folder)
    assert {name: (model / name).read_bytes() for name in FILES} == before
    assert not (tmp_path / "m").exists()


def test_a_closed_vocabulary_gives_a_warning(tmp_path, run):
    text = "\\data\\\nngram 1=3\n\n\\1-grams:\n-99\t<s>\n-0.3\t</s>\n-0.3\ta\n\n\\end\\\n"
    (tmp_path / "closed.arpa").write_text(text)
    code, _, error = run("ngram", "from-arpa", tmp_path / "closed.arpa", "-o", tmp_path / "m")
    assert code == 0
    assert "syntaxlm: warning: " in error
