"""Model folders: reading and writing, and errors for damaged files."""

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
from syntaxlm.tensor_files import read_tensors, write_tensors
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary


@pytest.fixture
def folder(trained, tmp_path):
    """A copy of a model folder, to damage."""
    shutil.copytree(trained.lstm, tmp_path / "model")
    return tmp_path / "model"


def assert_error(folder, *parts: str) -> str:
    with pytest.raises(InputError) as caught:
        read_model(folder)
    message = str(caught.value)
    assert all(part in message for part in parts), message
    return message


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["prpn", "lstm"])
def test_a_written_model_is_read(toy, tmp_path, name, tied):
    config = toy.recipe(name, model={"tied": tied}).model
    vocabulary = Vocabulary.build({"a": 2, "cat": 1})
    settings = ModelSettings(config, Normaliser(lower_case=True, drop_words=("$", "#")), carry_state=True)
    model = build_model(config, len(vocabulary))
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(torch.randn(tensor.shape).abs() * 3)
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


def test_a_vocabulary_in_a_different_order_raises_an_error(trained, tmp_path):
    folder = shutil.copytree(trained.lstm, tmp_path / "model")
    stored = read_model(folder).vocabulary
    special = {stored.unknown, stored.begin, stored.end}
    words = [token for token in stored.tokens if token not in special]
    turned = iter(words[1:] + words[:1])
    tokens = [token if token in special else next(turned) for token in stored.tokens]
    Vocabulary(tokens, stored.unknown, stored.begin, stored.end).write(folder / VOCABULARY)
    with pytest.raises(InputError, match=r"the weights belong to a different vocabulary than .*vocabulary\.json"):
        read_model(folder)


def test_tied_weights_are_stored_once(trained):
    names = safetensors.torch.load_file(trained.lstm / WEIGHTS).keys()
    assert "embedding.weight" in names
    assert "decoder.weight" not in names


def test_all_files_of_a_folder_have_the_same_permissions(trained):
    modes = {path.name: path.stat().st_mode for path in trained.lstm.iterdir()}
    assert len(modes) >= 6
    assert len(set(modes.values())) == 1, modes


def test_only_files_of_killed_writes_are_removed(tmp_path):
    names = [".weights.safetensors.1f" + UNFINISHED, ".tmpA1b2C3", ".tmp", "a.tmpA1b2C3", ".hidden", WEIGHTS]
    for name in names:
        (tmp_path / name).write_text("")
    remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names[2:])


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_truncated_weights_raise_an_error(folder, kept):
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:kept])
    assert_error(folder, str(path), "damaged or cut short")


def test_a_pickle_instead_of_weights_raises_an_error_and_is_never_run(folder, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (folder / WEIGHTS).write_bytes(pickle.dumps(Trap()))
    assert_error(folder, "damaged or cut short")
    torch.save({"embedding.weight": torch.zeros(3)}, folder / WEIGHTS)
    assert_error(folder, "damaged or cut short")
    assert not (tmp_path / "sprung").exists()


def test_a_vocabulary_that_does_not_fit_the_weights_raises_an_error(folder):
    Vocabulary.build({"a": 2, "cat": 1}).write(folder / VOCABULARY)
    assert_error(folder, WEIGHTS, "do not fit the settings and the vocabulary (5 words)", "embedding.weight has shape")


def test_settings_that_do_not_fit_the_weights_raise_an_error(folder):
    data = json.loads((folder / CONFIG).read_text())
    data["model"]["layers"] = 3
    (folder / CONFIG).write_text(json.dumps(data))
    assert_error(folder, WEIGHTS, "backbone.lstm.weight_ih_l2 is missing", "more)")


@pytest.mark.parametrize("name", [CONFIG, VOCABULARY, WEIGHTS])
def test_a_missing_file_is_named_in_the_error(folder, name):
    (folder / name).unlink()
    assert_error(folder, str(folder), name)


def test_a_missing_folder_and_a_file_in_its_place_raise_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for name, found in (("nowhere", "no such model folder"), ("file", "found a file")):
        assert_error(tmp_path / name, f"{name}: {found}; expected a folder")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"model": {"na', "damaged or cut short"),
        (b"\xff\xfe", "expected UTF-8 text"),
        (b"", "damaged or cut short"),
        (b"[" * 100_000, "damaged or cut short"),
        (b"[1, 2]", "expected a section with the settings model, normaliser, carry_state, predict_eos, format"),
        (b"3", "expected a section"),
        (b"{}", "model: missing"),
    ],
)
def test_a_damaged_config_raises_an_error(folder, content, expected):
    (folder / CONFIG).write_bytes(content)
    assert_error(folder, str(folder / CONFIG), expected)


def test_a_config_with_a_byte_order_mark_is_read_and_utf_16_raises_an_error(folder):
    text = (folder / CONFIG).read_text()
    (folder / CONFIG).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_model(folder).settings.model.name == "lstm"
    (folder / CONFIG).write_text(text, encoding="utf-16")
    assert_error(folder, str(folder / CONFIG), "expected UTF-8 text")


@pytest.mark.skipif(os.name == "nt", reason="pipes and devices of POSIX")
@pytest.mark.parametrize("name", [CONFIG, VOCABULARY, WEIGHTS])
@pytest.mark.parametrize("odd", ["pipe", "/dev/zero", "link"])
def test_pipes_devices_and_links_in_a_model_folder_raise_an_error(folder, tmp_path, name, odd):
    path = folder / name
    path.rename(tmp_path / "outside")
    if odd == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "outside" if odd == "link" else odd)
    assert_error(folder, f"{path}: is ", "A model or run folder may contain only regular files.")


def test_a_model_folder_that_is_a_link_is_read(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert read_model(tmp_path / "link").vocabulary == read_model(folder).vocabulary


def with_weights(folder, change):
    """Changes the stored weights."""
    tensors, notes = read_tensors(folder / WEIGHTS)
    write_tensors(folder / WEIGHTS, change(tensors), notes)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_weights_that_are_not_floating_point_raise_an_error(folder, dtype):
    with_weights(folder, lambda tensors: tensors | {"decoder.bias": tensors["decoder.bias"].to(dtype)})
    name = str(dtype).removeprefix("torch.")
    assert_error(folder, str(folder / WEIGHTS), f"decoder.bias has dtype {name}, expected float32")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_of_a_different_precision_are_read(folder, dtype):
    with_weights(folder, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()})
    assert read_model(folder).model.decoder.bias.dtype == torch.float32


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_weights_raise_an_error_with_tensor_and_file(folder, value):
    def change(tensors):
        tensors["decoder.bias"][3] = value
        return tensors

    with_weights(folder, change)
    assert_error(folder, str(folder / WEIGHTS), "decoder.bias has ", " values")


def test_weights_of_wrong_shapes_raise_an_error_before_a_model_is_built_or_a_tensor_read(folder, monkeypatch):
    with_weights(folder, lambda tensors: tensors | {"decoder.bias": torch.zeros(1, 7)})
    monkeypatch.setattr("syntaxlm.model_io.build_model", lambda *_: pytest.fail("a model was built"))
    monkeypatch.setattr("syntaxlm.tensor_files.TensorFile.read", lambda *_: pytest.fail("a tensor was read"))
    assert_error(folder, "decoder.bias has shape (1, 7)")


@pytest.mark.parametrize(("key", "value"), [("hidden_size", 10**7), ("layers", 10**8), ("embedding_size", 10**400)])
def test_settings_of_a_model_too_large_for_memory_raise_an_error(folder, key, value):
    data = json.loads((folder / CONFIG).read_text())
    data["model"][key] = value
    (folder / CONFIG).write_text(json.dumps(data))
    assert_error(folder, str(folder / CONFIG))


def test_a_newer_config_format_is_reported_first(folder):
    (folder / CONFIG).write_text(json.dumps({"format": 99, "model": {"name": "mamba"}, "tokeniser": "new"}))
    assert_error(folder, "found format 99; expected at most 2")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hidden_size", -3, "model.hidden_size: found -3; expected 1 or more"),
        ("hiden_size", 3, "model.hiden_size: no such setting. Did you mean model.hidden_size?"),
        ("name", "mamba", 'model.name: found "mamba"; expected one of prpn, lstm'),
        ("layers", "two", 'model.layers: found "two"; expected an integer'),
    ],
)
def test_a_wrong_setting_in_a_config_raises_an_error_with_file_and_key(folder, key, value, expected):
    data = json.loads((folder / CONFIG).read_text())
    data["model"][key] = value
    (folder / CONFIG).write_text(json.dumps(data))
    message = assert_error(folder, f"{folder / CONFIG}: {expected}")
    assert len(message.splitlines()) == 1


def test_a_failed_write_leaves_the_old_file_and_no_partial_file(tmp_path):
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
def test_an_unwritable_path_raises_an_error(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_text("text", tmp_path / place)
    assert not list(tmp_path.rglob(f"*{UNFINISHED}"))
