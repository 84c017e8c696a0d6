"""`ngram to-arpa` and `ngram from-arpa`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syntaxlm.app.cli import main

KENLM = Path(__file__).parents[2] / "golden_data" / "kenlm"
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


def test_a_model_to_arpa_and_back_is_the_same_byte_by_byte(model, tmp_path, capsys):
    arpa, back = tmp_path / "kn3.arpa", tmp_path / "back"
    assert main(["ngram", "to-arpa", str(model), "-o", str(arpa)]) == 0
    assert main(["ngram", "from-arpa", str(arpa), "-o", str(back), "--like", str(model)]) == 0
    reported = capsys.readouterr().out.splitlines()
    assert reported == [f"{place}: 26 1-grams   114 2-grams   282 3-grams" for place in (arpa, back)]
    assert {path.name for path in back.iterdir()} == set(FILES)
    for name in FILES:
        assert (back / name).read_bytes() == (model / name).read_bytes()


def test_a_file_of_another_program_serves_the_other_commands(tmp_path, capsys):
    assert main(["ngram", "from-arpa", str(KENLM / "model.arpa"), "-o", str(tmp_path / "m"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == [26, 114, 282, 381]
    (tmp_path / "text.txt").write_text("the old cat sees a dog\n")
    assert main(["score", str(tmp_path / "m"), str(tmp_path / "text.txt")]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("\t1.169969")  # KenLM: log10 -0.3521959
    assert main(["generate", str(tmp_path / "m"), "--sentences", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["parse", str(tmp_path / "m"), str(tmp_path / "text.txt")]) == 2
    assert "does not parse" in capsys.readouterr().err


def test_words_are_read_unchanged_or_as_another_model_reads_them(model, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("The OLD cat sees a dog\n")
    for name, like in (("plain", []), ("like", ["--like", str(model)])):
        arguments = ["ngram", "from-arpa", str(KENLM / "model.arpa"), "-o", str(tmp_path / name), *like]
        assert main(arguments) == 0
        capsys.readouterr()
        assert main(["evaluate", "perplexity", str(tmp_path / name), str(tmp_path / "text.txt"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["unknown"] == (0 if like else 2)


def test_a_folder_with_a_model_is_left_as_it_is(model, capsys):
    before = {name: (model / name).read_bytes() for name in FILES}
    assert main(["ngram", "from-arpa", str(KENLM / "model.arpa"), "-o", str(model)]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert {name: (model / name).read_bytes() for name in FILES} == before


def test_a_damaged_file_makes_no_folder(tmp_path, capsys):
    (tmp_path / "bad.arpa").write_text("\\data\\\nngram 1=1\n\n\\1-grams:\nx\t<unk>\n\n\\end\\\n")
    assert main(["ngram", "from-arpa", str(tmp_path / "bad.arpa"), "-o", str(tmp_path / "m")]) == 2
    assert "bad.arpa, line 5: found 'x\\t<unk>'" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
    assert main(["ngram", "from-arpa", str(tmp_path / "none.arpa"), "-o", str(tmp_path / "m")]) == 2
    assert "none.arpa: cannot be read" in capsys.readouterr().err


def test_a_closed_vocabulary_gives_a_warning(tmp_path, capsys):
    text = "\\data\\\nngram 1=3\n\n\\1-grams:\n-99\t<s>\n-0.3\t</s>\n-0.3\ta\n\n\\end\\\n"
    (tmp_path / "closed.arpa").write_text(text)
    assert main(["ngram", "from-arpa", str(tmp_path / "closed.arpa"), "-o", str(tmp_path / "m")]) == 0
    assert "syntaxlm: warning: " in capsys.readouterr().err
