"""Damaged or edited run folders are reported by file, and no file outside is changed."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.core.tensor_files import read_tensors, write_tensors
from syntaxlm.training.result import CHECKPOINT, METRICS, RECIPE, RESULT, read_result
from syntaxlm.training.run import LARGEST_RECIPE, resume, train
from tests.training.runs import stop_at


@pytest.fixture(scope="module")
def stopped_run(toy, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("damage") / "run"
    assert train(
        toy.recipe("lstm", batches={"context": "carry", "batch_size": 8}, run={"log_steps": 1}), folder, stop_at(5)
    ).stopped
    return folder


@pytest.fixture
def run(stopped_run, tmp_path) -> Path:
    return Path(shutil.copytree(stopped_run, tmp_path / "run"))


def edit(folder: Path, *, progress: dict | str | None = None, tensors: dict | None = None) -> None:
    """Changes progress and tensors of a checkpoint. progress: text replaces it; None removes a tensor."""
    stored, notes = read_tensors(folder / CHECKPOINT)
    is_text = isinstance(progress, str)
    notes["progress"] = progress if is_text else json.dumps(json.loads(notes["progress"]) | (progress or {}))
    stored |= tensors or {}
    write_tensors(folder / CHECKPOINT, {name: one for name, one in stored.items() if one is not None}, notes)


def assert_refused(folder: Path, *parts: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(InputError) as caught:
        resume(folder)
    assert all(part in str(caught.value) for part in (str(folder), *parts)), caught.value
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", -1), ("epoch", "three"), ("epoch", 10**400), ("epoch", 1.5), ("batch", -3), ("steps", None),
        ("seconds", -1.0), ("seconds", float("nan")), ("loss_sum", float("inf")), ("loss_count", True),
        ("best_loss", "low"), ("metrics_bytes", -1), ("finished", "no"), ("plateau", []), ("plateau", {"best": "x"}),
        ("averaging", 3),
        ("averaging", {"losses": ["x"]}), ("averaging", {"began": -5}), ("averaging", {"began": 10**6}),
        ("averaging", {"restarted": 2}), ("averaging", {"began": 3, "restarted": 2}), ("round_figures", {"a": "x"}),
        ("round_figures", []), ("unheard", 1),
    ],
)  # fmt: skip
def test_a_damaged_field_of_the_progress_is_reported_by_name(run, name, value):
    edit(run, progress={name: value})
    assert_refused(run, CHECKPOINT, f"progress: {name}")


@pytest.mark.parametrize(
    "progress",
    [{"loss_sum": 2e9}, {"averaging": {"losses": [5.0] * 30_000}}],
    ids=["much text since the last validation", "many validations"],
)
def test_the_progress_of_a_long_run_is_read(run, progress):
    edit(run, progress=progress)
    assert resume(run).steps > 5


def test_a_checkpoint_is_valid_json(run):
    def refuse(text: str) -> None:
        pytest.fail(f"{text} is not JSON")

    _, notes = read_tensors(run / CHECKPOINT)
    for note in notes.values():
        json.loads(note, parse_constant=refuse)


@pytest.mark.parametrize("progress", ["{", "[" * 50_000, "[]", "3"])
def test_progress_that_is_not_an_object_is_refused(run, progress):
    edit(run, progress=progress)
    assert_refused(run, CHECKPOINT)


def test_a_checkpoint_that_was_cut_short_or_is_another_file_is_refused(run):
    content = (run / CHECKPOINT).read_bytes()
    (run / CHECKPOINT).write_bytes(content[:-100])
    assert_refused(run, CHECKPOINT, "damaged or cut short")
    write_tensors(run / CHECKPOINT, {"a": torch.zeros(1)})
    assert_refused(run, CHECKPOINT, "not a valid checkpoint")


@pytest.mark.parametrize(
    ("tensors", "reported"),
    [
        ({"random": torch.zeros(3, dtype=torch.uint8)}, "random: expected"),
        ({"random": torch.zeros(5056, dtype=torch.uint8)}, "random"),
        ({"model/decoder.bias": None}, "decoder.bias is missing"),
        ({"model/decoder.bias": torch.zeros(3)}, "decoder.bias has shape (3,)"),
        ({"model/more": torch.zeros(3)}, "more does not belong to this model"),
        ({"optimiser/0/exp_avg": None}, "optimiser/0 lacks its state"),
        ({"optimiser/0/exp_avg": torch.zeros(2)}, "optimiser/0/exp_avg"),
        ({"optimiser/99/exp_avg": torch.zeros(2)}, "optimiser/99/exp_avg"),
        ({"optimiser/x/exp_avg": torch.zeros(2)}, "optimiser/x/exp_avg"),
        ({"optimiser/0/step": torch.tensor(float("nan"))}, "0/step has NaN"),
        ({"average/decoder.bias": torch.zeros(2)}, "embedding.weight is missing"),
        ({"state/hidden": torch.full((2, 8, 16), float("nan"))}, "hidden contains NaN"),
        ({"state/hidden": torch.zeros(2, 3, 16)}, "carried state does not fit"),
        ({"state/hidden": torch.zeros(3)}, "carried state does not fit"),
        ({"state/hidden": None}, "carried state does not fit"),
    ],
)
def test_damaged_tensors_of_a_checkpoint_are_refused(run, tensors, reported):
    edit(run, tensors=tensors)
    assert_refused(run, CHECKPOINT, reported)


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
@pytest.mark.parametrize("name", [METRICS, RECIPE, CHECKPOINT, "vocabulary.json", "inputs.json"])
@pytest.mark.parametrize("odd", ["link", "pipe", "device"])
def test_a_link_and_a_pipe_are_refused_and_what_a_link_points_to_is_not_touched(run, tmp_path, name, odd):
    edit(run, progress={"metrics_bytes": 3})
    outside = tmp_path / "outside"
    (run / name).rename(outside)
    before = outside.read_bytes()
    if odd == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to(outside if odd == "link" else "/dev/zero")
    with pytest.raises(InputError, match=re.escape(name)):
        resume(run)
    assert outside.read_bytes() == before


def test_averaging_without_averaged_weights_is_refused(run):
    edit(run, progress={"averaging": {"began": 2}})
    assert_refused(run, CHECKPOINT, "averag")


def test_a_changed_batch_size_is_refused(run):
    path = run / RECIPE
    path.write_text(path.read_text().replace("batch_size: 8", "batch_size: 5"))
    assert_refused(run, CHECKPOINT, "the carried state does not fit the recipe", "recipe.yaml was changed")


@pytest.mark.parametrize(("setting", "value", "found"), [("bptt", 12, 6), ("seed", 1, 2), ("layer_dropout", 0.2, 0.5)])
def test_another_model_or_order_of_the_training_data_is_refused(run, setting, value, found):
    path = run / RECIPE
    path.write_text(re.sub(rf"\b{setting}: {value}\b", f"{setting}: {found}", path.read_text()))
    assert_refused(run, RECIPE, f".{setting}: found {found}; expected {value}, as at the start")


@pytest.mark.parametrize(("content", "found"), [("", "no settings"), ("3", "a single value"), ("- text", "a list")])
def test_a_recipe_without_sections_is_refused(run, content, found):
    (run / RECIPE).write_text(content)
    assert_refused(run, RECIPE, f"found {found}; expected the sections model, text, batches")


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize("odd", ["pipe", "device", "large"])
def test_the_command_refuses_a_recipe_that_is_no_regular_file_or_too_large(run, odd, capsys):
    path = run / RECIPE
    path.unlink()
    if odd == "pipe":
        os.mkfifo(path)
    elif odd == "device":
        path.symlink_to("/dev/zero")
    else:
        with open(path, "wb") as file:
            file.truncate(LARGEST_RECIPE + 1)
    assert main(["train", "--resume", str(run)]) == 2
    errors = capsys.readouterr().err
    expected = "expected at most 1,048,576" if odd == "large" else "may contain only regular files"
    assert f"error: {path}: " in errors
    assert expected in errors


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
@pytest.mark.parametrize("name", ["config.json", "weights.safetensors", RESULT, METRICS])
def test_what_a_link_points_to_is_not_made_either(run, tmp_path, name):
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match=re.escape(name)):
        resume(run)
    assert not (tmp_path / "outside").exists()


@pytest.fixture(scope="module")
def result(trained) -> dict:
    return json.loads((trained.lstm / RESULT).read_text())


@pytest.mark.parametrize(
    "change",
    [
        {"steps": -1}, {"steps": "x"}, {"epochs": 1e308 * 10}, {"seconds": None}, {"steps": 10**400}, {"valid": 3},
        {"valid": {}}, {"supervised": [1]}, {"counted": {"discounts": "many"}}, {"counted": 3}, {"averaged": "no"},
        {"valid.nats": "x"}, {"valid.tokens": 0}, {"valid.tokens": 1.5}, {"valid.source": 3},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_result_is_refused(result, tmp_path, change):
    ((name, value),) = change.items()
    part, _, entry = name.partition(".")
    (tmp_path / RESULT).write_text(json.dumps(result | {part: result[part] | {entry: value} if entry else value}))
    with pytest.raises(InputError, match=r"result\.json: not a valid training result"):
        read_result(tmp_path)


def test_a_result_that_is_nested_deeply_is_refused_and_an_infinite_score_is_kept(result, tmp_path):
    (tmp_path / RESULT).write_text("[" * 50_000 + "]" * 50_000)
    with pytest.raises(InputError, match=r"result\.json: not a valid training result.*nested too deeply"):
        read_result(tmp_path)
    (tmp_path / RESULT).write_text(json.dumps(result | {"valid": result["valid"] | {"nats": None}}))
    assert read_result(tmp_path).valid.nats == float("inf")


def test_the_result_of_a_run_that_read_thousands_of_files_is_read(result, tmp_path):
    hashes = {f"{number}.txt": "0" for number in range(25_000)}
    (tmp_path / RESULT).write_text(json.dumps(result | {"run": result["run"] | {"sha256": hashes}}))
    assert read_result(tmp_path).run["sha256"] == hashes
