"""Model folders: what is written is read, and what is damaged is told."""

from __future__ import annotations

import json
import os
import pickle
import shutil

import pytest
import safetensors.torch
import torch

from syntaxlm.errors import InputError
from syntaxlm.files import UNFINISHED, remove_unfinished, replaced, write_text
from syntaxlm.model_io import CONFIG, VOCABULARY, WEIGHTS, ModelSettings, read_model, write_settings, write_weights
from syntaxlm.models.registry import build_model
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary


@pytest.fixture
def folder(trained, tmp_path):
    """A copy of a model folder, to damage."""
    shutil.copytree(trained.lstm, tmp_path / "model")
    return tmp_path / "model"


def assert_told(folder, *parts: str) -> str:
    with pytest.raises(InputError) as caught:
        read_model(folder)
    message = str(caught.value)
    assert all(part in message for part in parts), message
    return message


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["prpn", "lstm"])
def test_what_is_written_is_read(toy, tmp_path, name, tied):
    config = toy.recipe(name, model={"tied": tied}).model
    vocabulary = Vocabulary.build({"a": 2, "cat": 1})
    settings = ModelSettings(config, Normaliser(lower_case=True, drop_words=("$", "#")), carry_state=True)
    model = build_model(config, len(vocabulary))
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(torch.randn(tensor.shape) * 3)
    write_settings(tmp_path, settings, vocabulary)
    write_weights(tmp_path, model, vocabulary)
    stored = read_model(tmp_path)
    assert stored.settings == settings
    assert stored.vocabulary == vocabulary
    assert not stored.model.training
    assert (stored.model.decoder.weight is stored.model.embedding.weight) is tied
    read = stored.model.state_dict()
    assert read.keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, read[key]) for key, tensor in model.state_dict().items())


def test_a_vocabulary_of_as_many_tokens_in_another_order_is_refused(trained, tmp_path):
    folder = shutil.copytree(trained.lstm, tmp_path / "model")
    stored = read_model(folder).vocabulary
    special = {stored.unknown, stored.begin, stored.end}
    words = [token for token in stored.tokens if token not in special]
    turned = iter(words[1:] + words[:1])
    tokens = [token if token in special else next(turned) for token in stored.tokens]
    Vocabulary(tokens, stored.unknown, stored.begin, stored.end).write(folder / VOCABULARY)
    with pytest.raises(InputError, match=r"the weights are of another vocabulary than .*vocabulary\.json"):
        read_model(folder)


def test_tied_weights_are_stored_once(trained):
    names = safetensors.torch.load_file(trained.lstm / WEIGHTS).keys()
    assert "embedding.weight" in names
    assert "decoder.weight" not in names


def test_all_files_of_a_folder_can_be_read_by_the_same_people(trained):
    modes = {path.name: path.stat().st_mode for path in trained.lstm.iterdir()}
    assert len(modes) >= 6
    assert len(set(modes.values())) == 1, modes


def test_what_a_killed_write_left_is_removed_and_nothing_else(tmp_path):
    names = [".weights.safetensors.1f" + UNFINISHED, ".tmpA1b2C3", ".tmp", "a.tmpA1b2C3", ".hidden", WEIGHTS]
    for name in names:
        (tmp_path / name).write_text("")
    remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names[2:])


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_weights_cut_short_are_told(folder, kept):
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:kept])
    assert_told(folder, str(path), "damaged or cut short")


def test_a_pickle_in_place_of_weights_is_refused_and_never_run(folder, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (folder / WEIGHTS).write_bytes(pickle.dumps(Trap()))
    assert_told(folder, "damaged or cut short")
    torch.save({"embedding.weight": torch.zeros(3)}, folder / WEIGHTS)
    assert_told(folder, "damaged or cut short")
    assert not (tmp_path / "sprung").exists()


def test_a_vocabulary_that_does_not_fit_the_weights_is_told(folder):
    Vocabulary.build({"a": 2, "cat": 1}).write(folder / VOCABULARY)
    assert_told(folder, WEIGHTS, "do not fit settings and vocabulary (5 words)", "embedding.weight has shape")


def test_settings_that_do_not_fit_the_weights_are_told(folder):
    data = json.loads((folder / CONFIG).read_text())
    data["model"]["layers"] = 3
    (folder / CONFIG).write_text(json.dumps(data))
    assert_told(folder, WEIGHTS, "backbone.lstm.weight_ih_l2 is missing", "more)")


@pytest.mark.parametrize("name", [CONFIG, VOCABULARY, WEIGHTS])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert_told(folder, str(folder), name)


def test_a_missing_folder_and_a_file_in_its_place_are_told(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("nowhere", "file"):
        assert_told(tmp_path / name, f"{name}: no such model folder")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"model": {"na', "damaged or cut short"),
        (b"\xff\xfe", "damaged or cut short"),
        (b"", "damaged or cut short"),
        (b"[" * 100_000, "damaged or cut short"),
        (b"[1, 2]", "expected a section with the settings model, normaliser, carry_state, predict_eos, format"),
        (b"3", "expected a section"),
        (b"{}", "model: missing"),
    ],
)
def test_a_damaged_config_is_told(folder, content, told):
    (folder / CONFIG).write_bytes(content)
    assert_told(folder, str(folder / CONFIG), told)


def test_a_config_from_the_future_is_told_as_such_whatever_else_is_in_it(folder):
    (folder / CONFIG).write_text(json.dumps({"format": 99, "model": {"name": "mamba"}, "tokeniser": "new"}))
    assert_told(folder, "format 99 is newer than this program's, 2")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("hidden_size", -3, "model.hidden_size: found -3; expected 1 or more"),
        ("hiden_size", 3, "model.hiden_size: no such setting. Did you mean model.hidden_size?"),
        ("name", "mamba", 'model.name: found "mamba"; expected one of prpn, lstm'),
        ("layers", "two", 'model.layers: found "two"; expected a valid integer'),
    ],
)
def test_a_wrong_setting_in_a_config_is_told_by_file_and_key(folder, key, value, told):
    data = json.loads((folder / CONFIG).read_text())
    data["model"][key] = value
    (folder / CONFIG).write_text(json.dumps(data))
    message = assert_told(folder, f"{folder / CONFIG}: {told}")
    assert len(message.splitlines()) == 1


def test_a_write_that_fails_leaves_the_old_file_and_nothing_half_written(tmp_path):
    path = tmp_path / "file.txt"
    write_text("old", path)

    def failing_write() -> None:
        with replaced(path) as temporary:
            temporary.write_text("half of the ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"file\.txt: cannot be written: No space left on device"):
        failing_write()
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("place", ["file/below", "file/below/further", "folder", "x" * 300])
def test_a_place_that_cannot_be_written_is_told(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_text("text", tmp_path / place)
    assert not list(tmp_path.rglob(f"*{UNFINISHED}"))
