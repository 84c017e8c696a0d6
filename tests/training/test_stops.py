"""Training of stop classifiers, and the commands that train and use them."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import locked
from syntaxlm.core.tensor_files import read_tensors, write_tensors
from syntaxlm.generation.stops import STOP_WEIGHTS, STOPS, read_stops, write_stops
from syntaxlm.models.classifiers import Stops
from syntaxlm.storage.folder import WEIGHTS, read_model
from syntaxlm.training.classifiers import StopRecipe, train_stops
from syntaxlm.training.run import train
from syntaxlm.trees.conllu import read_conllu
from tests.generation.growing_models import grown
from tests.training.runs import tree_recipe
from tests.trees.faults import dependency_faults


@pytest.fixture(scope="module")
def folder(larger_toy, tmp_path_factory) -> Path:
    """The folder of a labelled model, initially without classifiers."""
    place = tmp_path_factory.mktemp("stops") / "model"
    train(tree_recipe(larger_toy, model={"labelled": True}, schedule={"epochs": 3}), place)
    return place


@pytest.fixture(scope="module")
def result(larger_toy, folder):
    recipe = stop_recipe(6, 0.02, batch_words=128)
    files = (larger_toy / f"{part}.conllu" for part in ("train", "valid", "test"))
    weights = (folder / WEIGHTS).read_bytes()
    result = train_stops(folder, *files, recipe)
    assert (folder / WEIGHTS).read_bytes() == weights, "the model itself was changed"
    return result


def stop_recipe(epochs: int, learning_rate: float, patience: int = 3, **settings: object) -> StopRecipe:
    recipe = StopRecipe(**settings)
    return dataclasses.replace(
        recipe,
        optimiser=dataclasses.replace(recipe.optimiser, learning_rate=learning_rate),
        schedule=dataclasses.replace(recipe.schedule, epochs=epochs, stop_patience=patience),
    )


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main(list(map(str, arguments)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_trained_classifiers_beat_always_stopping_and_the_most_frequent_label(result):
    report = result.test
    better = [score.accuracy > score.always_stop + 0.02 for score in report.every_word.values()]
    assert better[:2] == [True, True]
    assert all(score.accuracy >= score.always_stop - 0.01 for score in report.every_word.values())
    assert report.labels["correct"] > 2 * report.labels["majority"]
    assert result.valid.source.endswith("valid.conllu")


def test_a_full_disk_keeps_earlier_classifiers_of_other_sizes(tmp_path, monkeypatch):
    bundle, stops = grown("tanh")
    write_stops(tmp_path, stops, bundle.model)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    larger = Stops(dataclasses.replace(stops.settings, hidden_size=2 * stops.settings.hidden_size))
    files = itertools.count(1)

    def write(descriptor: int) -> None:
        if next(files) == 2:  # the weights
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", write)
    with pytest.raises(InputError, match=rf"{STOP_WEIGHTS}: cannot be written: No space left on device"):
        write_stops(tmp_path, larger, bundle.model)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_learning_rate_far_too_high_stops_training_and_keeps_earlier_classifiers(toy, folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    files = toy / "train.conllu", toy / "valid.conllu"
    with pytest.raises(InputError, match=r"diverged at step \d .*rate 1e\+09.*(?s:.*)a lower learning rate\."):
        train_stops(folder, *files, None, stop_recipe(30, 1e9))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_classifiers_kept_are_those_of_the_best_epoch(toy, folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    events = []
    recipe = stop_recipe(6, 1.5, patience=2, reads="states")  # a rate so high that the loss soon rises
    found = train_stops(copy, toy / "train.conllu", toy / "valid.conllu", None, recipe, events.append)
    losses = [event.values["valid_loss"] for event in events if event.kind == "valid"]
    best = losses.index(min(losses)) + 1
    assert (found.epoch, found.epochs) == (best, len(losses))
    assert found.valid.loss == pytest.approx(min(losses), rel=1e-6)
    assert len(losses) == min(6, best + 2)
    assert found.reads == json.loads((copy / STOPS).read_text())["reads"] == "states"
    assert found.test is None


def test_a_folder_that_another_process_uses_is_refused(toy, folder):
    before = {path.name for path in folder.iterdir()}
    with locked(folder), pytest.raises(InputError, match="another process is using this folder"):
        train_stops(folder, toy / "train.conllu", toy / "valid.conllu")
    assert {path.name for path in folder.iterdir()} == before


def test_classifiers_of_other_types_and_values_are_refused(folder, result, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    tensors, notes = read_tensors(copy / STOP_WEIGHTS)
    name = max(tensors, key=lambda name: len(tensors[name]))
    changes = {
        "has dtype int64, expected float32": tensors[name].long(),
        "has NaN values": tensors[name] * float("nan"),
        "has shape": tensors[name][:1],
    }
    for reported, tensor in changes.items():
        write_tensors(copy / STOP_WEIGHTS, tensors | {name: tensor}, notes)
        with pytest.raises(InputError, match=rf"stops\.safetensors: .*{name} {reported}"):
            read_stops(copy, read_model(copy))
    (copy / STOP_WEIGHTS).unlink()
    (copy / STOP_WEIGHTS).symlink_to(folder / STOP_WEIGHTS)
    with pytest.raises(InputError, match=r"stops\.safetensors: is a link"):
        read_stops(copy, read_model(copy))


@pytest.mark.long
def test_the_same_seed_gives_the_same_classifiers(toy, folder, tmp_path):
    recipe = stop_recipe(3, 0.01, batch_words=128)
    copies = [Path(shutil.copytree(folder, tmp_path / name)) for name in ("one", "other")]
    for copy in copies:
        train_stops(copy, toy / "train.conllu", toy / "valid.conllu", recipe=recipe)
    one, other = ((copy / STOP_WEIGHTS).read_bytes() for copy in copies)
    assert one == other
    stops = read_stops(copies[0], read_model(copies[0]))
    assert not stops.training
    assert all(torch.isfinite(weight).all() for weight in stops.parameters())


def test_sampled_trees_are_written_as_conllu_with_the_reported_score(folder, result, tmp_path, capsys):
    arguments = "generate", folder, "--sentences", 20, "--seed", 7, "--max-words", 30
    code, out, said = call(capsys, *arguments, "--format", "conllu")
    assert (code, said) == (0, "")
    (tmp_path / "sampled.conllu").write_text(out, encoding="utf-8")
    trees = read_conllu(tmp_path / "sampled.conllu")
    assert [tree.name for tree in trees] == [str(number) for number in range(1, 21)]
    assert all(dependency_faults(tree) == [] and all(tree.labels) for tree in trees)
    lines = out.splitlines()
    assert [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")] == [
        " ".join(tree.words) for tree in trees
    ]
    reported = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("# surprisal = ")]
    code, out, _ = call(capsys, "score", folder, tmp_path / "sampled.conllu", "--format", "json")
    rows = [json.loads(row) for row in out.splitlines()]
    for number, bits in enumerate(reported, 1):
        read = sum(row["surprisal"] for row in rows if row["sentence"] == number)
        assert read == pytest.approx(bits, abs=1e-3)


def test_sampled_sentences_come_as_text_and_as_json(folder, result, capsys):
    arguments = "generate", folder, "--sentences", 3, "--seed", 7
    texts = call(capsys, *arguments)[1].splitlines()
    found = [json.loads(line) for line in call(capsys, *arguments, "--format", "json")[1].splitlines()]
    assert [one["text"] for one in found] == texts
    assert call(capsys, *arguments)[1].splitlines() == texts
    for one in found:
        assert len(one["tokens"]) == len(one["heads"]) == len(one["labels"]) == len(one["surprisals"])
        assert one["ended"]
        assert one["tree_surprisal"] > 0


def test_the_command_trains_and_prints_figures(toy, folder, result, capsys):
    files = toy / "train.conllu", "--valid", toy / "valid.conllu", "--test", toy / "test.conllu"
    arguments = "tune", "stops", folder, *files, "--epochs", 1, "--hidden-size", 5
    code, out, said = call(capsys, *arguments, "--json")
    assert code == 0
    assert "\nepoch 1" in said
    assert said.startswith(f"read {toy / 'train.conllu'}: dependency trees, CoNLL-U, 150 sentences")
    figures = json.loads(out)
    assert figures["test"]["every_word"].keys() == {"add left", "add right", "add next left", "add next right"}
    code, out, _ = call(capsys, *arguments)
    first = figures["test"]["every_word"]["add left"]
    shown = next(line for line in out.split("test.conllu")[1].splitlines() if line.startswith("add left"))
    assert shown.split()[2:4] == [f"{100 * first['accuracy']:.1f}", f"{100 * first['always_stop']:.1f}"]


@pytest.mark.parametrize("option", [["--format", "conllu"], ["--max-depth", "3"], ["--redraw"]])
def test_a_model_of_text_samples_no_trees(trained, capsys, option):
    code, out, error = call(capsys, "generate", trained.prpn, *option)
    assert (code, out) == (2, "")
    assert f"{' '.join(option).removesuffix(' 3')}: found a prpn model" in error


def test_a_model_of_text_has_no_stops_to_train(trained, toy):
    with pytest.raises(InputError, match="this lstm model does not generate dependency trees"):
        train_stops(trained.lstm, toy / "train.conllu", toy / "valid.conllu")
    assert not (trained.lstm / STOPS).exists()


@pytest.mark.parametrize("setting", ["hidden_size", "batch_words"])
def test_settings_out_of_range_are_reported(setting):
    with pytest.raises(InputError, match=f"{setting}: found 0"):
        StopRecipe(**{setting: 0})
