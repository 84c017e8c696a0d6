"""Model folders: reading and writing, and errors for damaged files."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import shutil

import pytest
import safetensors.torch
import torch

from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import UNFINISHED, remove_unfinished, replaced, write_text
from syntaxlm.core.tensor_files import read_tensors, write_tensors
from syntaxlm.models.classifiers import ClassifierSettings
from syntaxlm.models.registry import MODELS, build_model, model_shapes
from syntaxlm.storage.folder import (
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    ModelSettings,
    PairClassifierSettings,
    distinct_tensors,
    load_weights,
    read_model,
    write_model,
    write_settings,
    write_weights,
)
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from tests.fresh_models import fresh
from tests.models.variants import EVERY, built, config_of


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
    settings = ModelSettings(config, NormaliserSettings(lower_case=True, drop_words=("$", "#")), carry_state=True)
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


def test_a_vocabulary_in_a_different_order_raises_an_error(folder):
    stored = read_model(folder).vocabulary
    special = {stored.unknown, stored.begin, stored.end}
    words = [token for token in stored.tokens if token not in special]
    turned = iter(words[1:] + words[:1])
    tokens = [token if token in special else next(turned) for token in stored.tokens]
    Vocabulary(tokens, stored.unknown, stored.begin, stored.end).write(folder / VOCABULARY)
    assert_error(folder, f"the weights belong to a different vocabulary than {folder / VOCABULARY}")


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
    (tmp_path / ".tmpdEf4G5").mkdir()  # of another program
    remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*names[2:], ".tmpdEf4G5"}


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


def with_config(folder, **changes):
    """Changes entries of the settings; the settings of the model are changed one by one."""
    data = json.loads((folder / CONFIG).read_text())
    data["model"] |= changes.pop("model", {})
    (folder / CONFIG).write_text(json.dumps(data | changes))


def test_settings_that_do_not_fit_the_weights_raise_an_error(folder):
    with_config(folder, model={"layers": 3})
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
        (b"{}", "format: found no such entry; expected 2"),
        (b'{"format": 2}', "model: missing"),
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


def with_bias(value, dtype=torch.float32):
    """Returns a change of weights: another value of the bias."""

    def change(tensors):
        bias = tensors["decoder.bias"].to(dtype)
        bias[3] = value
        return tensors | {"decoder.bias": bias}

    return change


UNUSABLE = "the tensors are unusable: decoder.bias has "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_bias(1, torch.int64), "decoder.bias has dtype int64, expected float32"),
        (with_bias(1, torch.bool), "decoder.bias has dtype bool, expected float32"),
        (with_bias(1, torch.uint8), "decoder.bias has dtype uint8, expected float32"),
        (with_bias(math.nan), f"{UNUSABLE}NaN values"),
        (with_bias(math.inf), f"{UNUSABLE}infinite values"),
        (with_bias(-math.inf), f"{UNUSABLE}infinite values"),
        (with_bias(1e300, torch.float64), f"{UNUSABLE}infinite values"),  # beyond float32
        (with_bias(1e25, torch.float64), f"{UNUSABLE}values from "),  # as by a damaged exponent
    ],
)
def test_weights_of_other_types_and_values_raise_an_error_with_tensor_and_file(folder, change, message):
    with_weights(folder, change)
    assert_error(folder, str(folder / WEIGHTS), message)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_of_a_different_precision_are_read(folder, dtype):
    with_weights(folder, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()})
    assert read_model(folder).model.decoder.bias.dtype == torch.float32


def test_weights_of_wrong_shapes_raise_an_error(folder):
    with_weights(folder, lambda tensors: tensors | {"decoder.bias": torch.zeros(1, 7)})
    assert_error(folder, "decoder.bias has shape (1, 7)")


@pytest.mark.parametrize(("key", "value"), [("hidden_size", 10**7), ("layers", 10**8), ("embedding_size", 10**400)])
def test_settings_of_a_model_too_large_for_memory_raise_an_error(folder, key, value):
    with_config(folder, model={key: value})
    assert_error(folder, str(folder / CONFIG))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hidden_size", -3, "model.hidden_size: found -3; expected an integer from 1 to 65,536"),
        ("hiden_size", 3, "model.hiden_size: no such setting. Did you mean model.hidden_size?"),
        ("name", "mamba", 'model.name: found "mamba"; expected one of prpn, lstm'),
        ("layers", "two", 'model.layers: found "two"; expected an integer'),
    ],
)
def test_a_wrong_setting_in_a_config_raises_an_error_with_file_and_key(folder, key, value, expected):
    with_config(folder, model={key: value})
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


# ---- damaged values


@pytest.mark.parametrize("name", EVERY)
def test_a_model_without_values_takes_those_of_a_file_as_its_own(name):
    model = built(name).float()
    empty = model_shapes(config_of(name), model.vocabulary_size)
    load_weights(empty, distinct_tensors(model), "file")
    assert not any(tensor.is_meta for tensor in (*empty.parameters(), *empty.buffers()))
    assert [key for key, _ in empty.named_parameters()] == [key for key, _ in model.named_parameters()]
    loaded = empty.state_dict()
    assert all(torch.equal(tensor, loaded[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("name", EVERY)
def test_nan_in_any_tensor_and_values_outside_the_range_of_a_table_raise_an_error(name):
    model = built(name)
    tensors = {key: tensor.clone() for key, tensor in distinct_tensors(model).items()}
    load_weights(model, tensors, "file")

    def assert_refused(key: str, place: int, value: float, message: str) -> None:
        damaged = tensors[key].clone()
        damaged.view(-1)[place] = value
        with pytest.raises(InputError, match=message):
            load_weights(model, tensors | {key: damaged}, "file")

    for key, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            assert_refused(key, -1, math.nan, f"^file: the tensors are unusable: {re.escape(key)} has NaN values$")
    ranges = {
        f"{prefix}.{key}" if prefix else key: limits
        for prefix, part in model.named_modules()
        for key, limits in getattr(part, "value_ranges", {}).items()
    }
    for key, (least, most) in ranges.items():
        for value in (least - 1, most + 1):
            if math.isfinite(value) and tensors[key].numel():
                assert_refused(key, 0, 2 * value, f"{re.escape(key)} has values from .* expected")
    assert ranges or name not in {"prpn", "ngram", "ccm", "dmv", "diora", "simple-pcfg"}


# ---- settings and files that do not fit together


@pytest.mark.parametrize(
    ("name", "changes", "fault"),
    [
        (
            "tree-rnn",
            {"carry_state": True},
            "carry_state: found true; expected false, because tree-rnn models read dependency",
        ),
        (
            "ccm",
            {"carry_state": True},
            "carry_state: found true; expected false, because ccm models read whole sentences",
        ),
        (
            "dmv",
            {"predict_eos": False},
            "predict_eos: found false; expected true, because dmv models read ends of sentences",
        ),
        (
            "lstm",
            {"carry_state": True, "predict_eos": False},
            "predict_eos: found false; expected true, because a stream has",
        ),
        ("tree-rnn", {"normaliser": {"units": "characters"}}, "normaliser.units: found characters; expected words"),
    ],
)
def test_settings_that_a_model_type_cannot_have_raise_an_error(tmp_path, name, changes, fault):
    is_tree = name == "tree-rnn"
    settings = ModelSettings(MODELS[name].config(), NormaliserSettings(), predict_eos=not is_tree)
    write_settings(tmp_path, settings, Vocabulary.build({"a": 2}), Vocabulary.build({}) if is_tree else None)
    with_config(tmp_path, **changes)
    assert_error(tmp_path, f"{tmp_path / CONFIG}: the settings contradict each other: {fault}")


@pytest.mark.parametrize("format", [0, 1, 99, 10**400, True, "2", 1.5, None, [2]])
def test_another_format_is_reported_before_the_settings(folder, format):
    with_config(folder, format=format, model={"name": "unheard"})
    assert_error(folder, f"{folder / CONFIG}: format: found ", "expected 2. The file needs another version")


def test_huge_and_deep_configs_raise_an_error(folder):
    text = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text('{"a":' * 50_000 + "1" + "}" * 50_000)
    assert_error(folder, str(folder / CONFIG), "nested too deeply")
    with_sections = text.replace('"layers"', '"other": ' + "[" * 150 + "]" * 150 + ', "layers"')
    (folder / CONFIG).write_text(with_sections)
    assert_error(folder, str(folder / CONFIG), "model.other: no such setting")
    (folder / CONFIG).write_text(text)
    os.truncate(folder / CONFIG, 1 << 30)
    assert_error(folder, f"{folder / CONFIG}: found 1,073,741,824 bytes; expected at most 1,048,576")


def test_a_repeated_key_raises_an_error(folder):
    text = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(text.replace('"layers": 2', '"layers": 2, "layers": 3'))
    assert_error(folder, str(folder / CONFIG), "found the key 'layers' twice")
    (folder / CONFIG).write_text(text)
    content = (folder / VOCABULARY).read_text()
    (folder / VOCABULARY).write_text(content.replace('"unknown"', '"tokens": [], "unknown"', 1))
    assert_error(folder, str(folder / VOCABULARY), "found the key 'tokens' twice")


def test_a_vocabulary_that_is_far_too_large_raises_an_error(folder):
    Vocabulary.build({f"w{number}": 1 for number in range(200_000)}).write(folder / VOCABULARY)
    assert_error(folder, str(folder / WEIGHTS), "do not fit the settings and the vocabulary (200", "has shape")


def test_special_tokens_in_other_places_raise_an_error_for_models_of_whole_sentences(tmp_path):
    settings = ModelSettings(MODELS["dmv"].config(), NormaliserSettings())
    write_settings(tmp_path, settings, Vocabulary(["a", "<unk>", "<s>", "</s>"]))
    assert_error(tmp_path, str(tmp_path / VOCABULARY), "found the unknown token, BOS and EOS at places (1, 2, 3)")


def test_weights_exchanged_while_a_folder_is_read_raise_an_error(folder, trained, monkeypatch):
    read = Vocabulary.read

    def read_and_exchange(path):
        shutil.copy(trained.prpn / WEIGHTS, folder / WEIGHTS)
        return read(path)

    monkeypatch.setattr(Vocabulary, "read", read_and_exchange)
    assert_error(folder, str(folder / WEIGHTS), "the weights do not fit the settings")


@pytest.mark.parametrize("name", ["lstm", "ngram"])
def test_weights_that_claim_a_terabyte_in_a_sparse_file_raise_an_error(tmp_path, name):
    size = 1 << 40
    tensor = "decoder.bias" if name == "lstm" else "levels.1.keys"
    entry = {"dtype": "I64", "shape": [size // 8], "data_offsets": [0, size]}
    header = json.dumps({tensor: entry}).encode()
    (tmp_path / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(tmp_path / WEIGHTS, 8 + len(header) + size)
    vocabulary = Vocabulary.build({"a": 2})
    write_settings(tmp_path, ModelSettings(MODELS[name].config(), NormaliserSettings()), vocabulary)
    assert_error(tmp_path, str(tmp_path / WEIGHTS))


def test_repeated_labels_of_a_pair_classifier_raise_an_error():
    model, classifier = MODELS["lstm"].config(), ClassifierSettings()
    with pytest.raises(InputError, match="labels: found 'yes' 2 times; expected different labels"):
        PairClassifierSettings(model, classifier, "sentences", ("yes", "no", "yes"), NormaliserSettings(), 6)
    with pytest.raises(InputError, match=r"labels: found .*; expected 1 to 10000 entries"):
        PairClassifierSettings(model, classifier, "sentences", (), NormaliserSettings(), 6)


@pytest.mark.parametrize("command", [["score"], ["evaluate", "perplexity"]])
def test_a_model_without_probabilities_is_refused_before_its_text_is_checked(tmp_path, capsys, command):
    write_model(tmp_path / "ccm", fresh("ccm", units="tags"))
    (tmp_path / "untagged.txt").write_text("the cat sees .\n")
    assert cli.main([*command, str(tmp_path / "ccm"), str(tmp_path / "untagged.txt")]) == 2
    error = capsys.readouterr().err
    assert "this ccm model" in error
    assert "word_TAG" not in error
