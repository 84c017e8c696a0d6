"""Models in repositories of the hub: what is uploaded and downloaded, cards, and every error with its remedy."""

from __future__ import annotations

import builtins
import dataclasses
import json
import re
import shutil

import pytest

import syntaxlm
from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.storage import hub as hub_module
from syntaxlm.storage.folder import write_model
from tests.api.models import language_model
from tests.fresh_models import SENTENCES, fresh
from tests.generation.growing_models import grown
from tests.grammar_models import grammar
from tests.storage.stub import Repository

NAME = "somebody/small-prpn"
FILES = {"config.json", "vocabulary.json", "weights.safetensors", "README.md"}


@pytest.fixture(scope="module")
def prpn():
    stored = fresh("prpn")
    return language_model(dataclasses.replace(stored, model=stored.model.float()))


def files_of(hub, name=NAME, branch="main"):
    return hub.repositories[name].branches[branch]


def front_of(card: str):
    assert card.startswith("---\n")
    return parse_yaml(card.split("---\n")[1], "")


def test_an_uploaded_model_is_downloaded_as_it_was(hub, prpn):
    assert prpn.push_to_hub(NAME, licence="mit") == f"{hub.address}/{NAME}"
    assert set(files_of(hub)) == FILES
    again = syntaxlm.load(NAME)
    text = "the old cat sees a dog"
    assert again.parse(text) == prpn.parse(text)
    assert again.log_prob(text) == prpn.log_prob(text)
    assert (again.settings, again.vocabulary) == (prpn.settings, prpn.vocabulary)
    assert syntaxlm.LanguageModel.from_pretrained(NAME).log_prob(text) == prpn.log_prob(text)


def test_only_files_of_models_travel_and_none_that_could_be_unpickled(hub, prpn, tmp_path):
    folder = tmp_path / "model"
    write_model(folder, prpn)
    for name in ("pytorch_model.bin", "checkpoint.safetensors", "notes.txt", "recipe.yaml"):
        (folder / name).write_text("{}")
    hub_module.upload(folder, NAME)
    assert set(files_of(hub)) == FILES - {"README.md"}
    files_of(hub).update({"pytorch_model.bin": b"\x80\x04", "sub/config.json": b"{}", "config.py": b"1"})
    hub.requests.clear()
    hub_module.download(NAME, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == FILES - {"README.md"}
    assert all(not path.is_symlink() for path in (tmp_path / "copy").iterdir())
    asked = {request.rpartition("/")[2] for request in hub.requests if "/resolve/" in request}
    assert asked == FILES - {"README.md"}


def test_dependency_tree_models_travel_with_labels_and_stop_classifiers(hub, tmp_path, capsys):
    from syntaxlm.generation.stops import write_stops

    stored, stops = grown("tanh")
    model, stops = stored.model.float(), stops.float()
    write_model(tmp_path / "model", dataclasses.replace(stored, model=model))
    write_stops(tmp_path / "model", stops, model)
    nlp = syntaxlm.load(tmp_path / "model")
    nlp.push_to_hub(NAME)
    assert {"labels.json", "stops.json", "stops.safetensors"} <= set(files_of(hub))
    hub_module.download(NAME, tmp_path / "copy")
    syntaxlm.load(NAME).save_pretrained(tmp_path / "saved")
    expected = [str(one) for one in nlp.generate(2, trees=True, seed=1, max_words=9)]
    for copied in (tmp_path / "copy", NAME, tmp_path / "saved"):
        assert [str(one) for one in syntaxlm.load(copied).generate(2, trees=True, seed=1, max_words=9)] == expected
    assert cli.main(["generate", NAME, "--sentences", "2", "--seed", "1", "--max-words", "9", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == expected


def test_branches_tags_and_commits_are_revisions(hub, prpn):
    prpn.push_to_hub(NAME)
    other = language_model(grammar("simple-pcfg"))
    other.push_to_hub(NAME, revision="grammar")
    assert syntaxlm.load(NAME).name == "prpn"
    assert syntaxlm.load(NAME, revision="grammar").name == "simple-pcfg"
    commit = hub.repositories[NAME].commit("grammar")
    assert syntaxlm.load(NAME, revision=commit).name == "simple-pcfg"
    with pytest.raises(InputError, match="no such revision: v7; expected a branch, tag or commit"):
        syntaxlm.load(NAME, revision="v7")


def test_a_downloaded_model_loads_without_the_hub(hub, prpn, monkeypatch):
    prpn.push_to_hub(NAME)
    syntaxlm.load(NAME)
    hub.failing = 503
    assert syntaxlm.load(NAME).name == "prpn"
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    assert syntaxlm.load(NAME).name == "prpn"
    with pytest.raises(InputError, match=r"the Hugging Face hub cannot be reached, and the model is not in its cache"):
        syntaxlm.load("somebody/another")
    with pytest.raises(InputError, match="cannot be reached"):
        prpn.push_to_hub("somebody/another")


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError("Consistency check failed"), RuntimeError("CAS error")]
)
def test_a_download_that_fails_is_reported_as_a_download(hub, prpn, monkeypatch, error):
    def fail(*_, **settings):
        raise error

    prpn.push_to_hub(NAME)
    monkeypatch.setattr("huggingface_hub.HfApi.snapshot_download", fail)
    with pytest.raises(InputError, match=f"{NAME}: the download failed: {re.escape(str(error))}"):
        syntaxlm.load(NAME)


def test_private_gated_and_missing_repositories(hub, prpn, monkeypatch):
    prpn.push_to_hub(NAME, private=True)
    assert hub.repositories[NAME].private
    assert syntaxlm.load(NAME).name == "prpn"
    hub.repositories["somebody/gated"] = Repository(gated=True)
    with pytest.raises(InputError, match="access to this repository must be requested on its page"):
        syntaxlm.load("somebody/gated")
    monkeypatch.delenv("HF_TOKEN")
    shutil.rmtree(hub_module.fetch(NAME, token="hf_stub").parents[1])
    for name in (NAME, "somebody/none"):
        with pytest.raises(InputError, match=rf"{name}: no such folder here, and .* that you may read. Check the name"):
            syntaxlm.load(name)
    assert syntaxlm.load(NAME, token="hf_stub").name == "prpn"
    with pytest.raises(InputError, match=r"the Hugging Face hub answered 401: .*Log in \(hf auth login\)"):
        prpn.push_to_hub("somebody/mine")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is not a syntaxlm model: config.json is missing; expected config.json, vocabulary.json"),
        (
            {"config.json": b"{}", "model.safetensors": b""},
            "vocabulary.json is missing. It has weights of a transformers model; .* load hf:somebody/small-prpn",
        ),
        (
            {"config.json": b"{", "vocabulary.json": b"{}", "weights.safetensors": b""},
            "^somebody/small-prpn/config.json: damaged",
        ),
    ],
)
def test_other_repositories_are_refused(hub, files, message):
    hub.repositories[NAME] = Repository(branches={"main": files})
    with pytest.raises(InputError, match=message):
        syntaxlm.load(NAME)


def test_large_repositories_are_refused_before_a_file_is_downloaded(hub, prpn, monkeypatch):
    prpn.push_to_hub(NAME)
    monkeypatch.setattr(hub_module, "LARGEST", 1000)
    hub.requests.clear()
    with pytest.raises(InputError, match=r"bytes of model files; expected at most 1,000"):
        syntaxlm.load(NAME)
    assert not any("/resolve/" in request for request in hub.requests)


def test_folders_come_before_repositories_and_have_no_revisions(hub, prpn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / NAME, prpn)
    assert syntaxlm.load(NAME).folder is not None
    with pytest.raises(InputError, match="revision main: found the folder"):
        syntaxlm.load(NAME, revision="main")
    with pytest.raises(InputError, match="no such model folder"):
        syntaxlm.load(tmp_path / "no" / "folder")  # a path is never the name of a repository
    with pytest.raises(InputError, match="no such model folder"):
        syntaxlm.load("a/b/c")
    assert not hub.requests


def test_cards_have_what_the_user_states_and_what_the_model_is(hub, prpn):
    prpn.push_to_hub(NAME, licence="mit", language=["en", "pt"], data="Novels | in the public domain.", description="x")
    card = files_of(hub)["README.md"].decode()
    assert front_of(card) == {
        "library_name": "syntaxlm", "tags": ["syntaxlm", "prpn", "syntax"], "license": "mit", "language": ["en", "pt"]
    }  # fmt: skip
    assert f'nlp = syntaxlm.load("{NAME}")' in card
    assert "## Training data\n\nNovels | in the public domain.\n" in card
    assert f"| parameters | `{prpn.model.parameter_count:,}` |" in card
    assert f"| hidden_size | `{prpn.settings.model.hidden_size}` |" in card
    with pytest.raises(InputError, match="licence: found 'MIT License'; expected an identifier"):
        prpn.push_to_hub(NAME, licence="MIT License")
    with pytest.raises(InputError, match=r'the upload failed: .*"license" must be one of'):
        prpn.push_to_hub(NAME, licence="mine")


@pytest.mark.parametrize("name", ["prpn", "lstm", "compound-pcfg", "tags"])
def test_the_code_of_a_card_runs(name, tmp_path, monkeypatch, capsys):
    stored = fresh("prpn", SENTENCES, units="tags") if name == "tags" else fresh(name)
    monkeypatch.chdir(tmp_path)
    language_model(dataclasses.replace(stored, model=stored.model.float())).save_pretrained("here")
    card = (tmp_path / "here" / "README.md").read_text()
    assert "license" not in front_of(card)
    assert "## Licence\n\nNot stated.\n" in card
    exec(re.search(r"```python\n(.*?)```", card, re.S)[1], {})
    assert capsys.readouterr().out


def test_cards_are_kept_unless_something_is_stated(hub, prpn, tmp_path):
    folder = tmp_path / "mine"
    prpn.save_pretrained(folder)
    card = folder / "README.md"
    assert 'syntaxlm.load("mine")' in card.read_text()
    card.write_text(card.read_text() + 'My words, compared with `syntaxlm.load("en")`.\n')
    prpn.save_pretrained(folder)
    assert "My words, " in card.read_text()
    syntaxlm.load(folder).push_to_hub(NAME)  # with the folder's card
    pushed = files_of(hub)["README.md"].decode()
    assert 'My words, compared with `syntaxlm.load("en")`.' in pushed
    assert f'syntaxlm.load("{NAME}")' in pushed
    syntaxlm.load(NAME).save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "README.md").read_text() == pushed.replace(NAME, "saved")
    files_of(hub)["README.md"] += b"Edited on the hub.\n"
    prpn.push_to_hub(NAME)
    assert files_of(hub)["README.md"].endswith(b"Edited on the hub.\n")
    prpn.push_to_hub(NAME, licence="mit")
    assert b"My words" not in files_of(hub)["README.md"]
    assert front_of(files_of(hub)["README.md"].decode())["license"] == "mit"


def test_runs_and_odd_names_are_refused(hub, prpn, tmp_path):
    (tmp_path / "recipe.yaml").write_text("")
    with pytest.raises(InputError, match="is the folder of a training run; expected another folder"):
        prpn.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="small: not the name of a repository; expected user/name"):
        prpn.push_to_hub("small")
    with pytest.raises(InputError, match="some--body/x: not the name of a repository"):
        prpn.push_to_hub("some--body/x")
    with pytest.raises(InputError, match=r"config\.json is missing"):
        hub_module.upload(tmp_path, NAME)
    assert not hub.requests


@pytest.mark.parametrize("name", ["config.json", "classifier.json"])
def test_a_model_of_another_program_and_a_classifier_are_not_replaced(prpn, tmp_path, name):
    (tmp_path / name).write_text('{"model_type": "gpt2"}')
    with pytest.raises(InputError, match="holds a model of another program, or a pair classifier"):
        prpn.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"model_type": "gpt2"}'


def test_the_card_of_another_model_is_not_kept(prpn, tmp_path):
    prpn.save_pretrained(tmp_path)
    lstm = language_model(fresh("lstm"))
    with pytest.raises(InputError, match=r"README\.md describes a model with other settings"):
        lstm.save_pretrained(tmp_path)
    assert syntaxlm.load(tmp_path).name == "prpn"
    lstm.save_pretrained(tmp_path, licence="mit")
    assert syntaxlm.load(tmp_path).name == "lstm"
    assert "| model type | `lstm` |" in (tmp_path / "README.md").read_text()


def test_without_the_library_the_extra_is_reported(monkeypatch, prpn):
    real = builtins.__import__

    def without(name, *rest):
        if name == "huggingface_hub":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for use in (syntaxlm.load, prpn.push_to_hub):
        with pytest.raises(InputError, match=r"pip install 'syntaxlm\[hub\]'"):
            use(NAME)


def test_commands_upload_download_and_use_models_of_the_hub(hub, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert (
        cli.main(["models", "push", str(trained.prpn), NAME, "--licence", "mit", "--language", "en", "--private"]) == 0
    )
    assert capsys.readouterr().out == f"{hub.address}/{NAME}\n"
    assert set(files_of(hub)) == FILES
    assert hub.repositories[NAME].private
    for words in ([NAME, "-o", "copy"], [NAME, "--revision", "main"]):
        assert cli.main(["models", "download", *words]) == 0
        out, error = capsys.readouterr()
        assert out.startswith(f"{NAME}: downloaded")
        assert not error
    outputs = []
    for model in (NAME, "copy", trained.prpn):
        assert cli.main(["parse", str(model), "the cat sleeps"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2]
    assert cli.main(["models", "download", NAME, "-o", "copy"]) == 2
    assert "copy: is not empty" in capsys.readouterr().err
    assert cli.main(["models", "download", "small"]) == 2
    assert "expected user/name" in capsys.readouterr().err
    assert cli.main(["parse", "somebody/none", "the cat"]) == 2
    assert "no such folder here" in capsys.readouterr().err
    assert json.loads((tmp_path / "copy" / "config.json").read_text())["model"]["name"] == "prpn"
