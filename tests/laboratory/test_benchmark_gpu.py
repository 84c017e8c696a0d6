"""The benchmark of training on a GPU, run completely at tiny sizes on any device."""

from __future__ import annotations

import json

import pytest
import torch
from laboratory.benchmarks import gpu, inside, on_lstm, timing, training
from laboratory.benchmarks.timing import matrix_rate

from syntaxlm.models.batches import TokenBatch
from syntaxlm.ops.products import tiles_usable


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(gpu, "refuse_failing_tests", lambda *paths: None)
    monkeypatch.setattr(gpu, "REPEATS", 1)
    monkeypatch.setattr(gpu, "WORDS", 50)
    for module in (timing, inside):  # large products take seconds
        monkeypatch.setattr(module, "matrix_rate", lambda *arguments, **more: 100.0)


@pytest.mark.long
def test_every_model_and_nn_lstm_are_timed_in_every_precision_and_a_recipe_is_trained(toy, tmp_path, capsys):
    texts = "--text", str(toy / "train.txt"), "--valid", str(toy / "valid.txt")
    folder = str(tmp_path / "run")
    gpu.main(["--tiny", "--json", "--rounds", "1", "--minutes", "0.02", *texts, "--output", folder])
    report = json.loads(capsys.readouterr().out)
    rows = report["speeds"]
    assert {row["case"].split()[0] for row in rows} >= {"prpn", "on-lstm"}
    precisions = {*gpu.precisions(torch.device("cuda" if torch.cuda.is_available() else "cpu"))}
    assert {row["precision"] for row in rows} == precisions
    for case in {row["case"] for row in rows}:
        for precision in precisions:
            by_form = {row["form"]: row for row in rows if (row["case"], row["precision"]) == (case, precision)}
            assert {"fast", "uncompiled", "nn.LSTM"} <= by_form.keys()
            assert by_form["uncompiled"]["ratio_to_reference"] == by_form["nn.LSTM"]["ratio_to_lstm"] == 1
            ratio = by_form["fast"]["tokens_per_second"] / by_form["nn.LSTM"]["tokens_per_second"]
            assert by_form["fast"]["ratio_to_lstm"] == pytest.approx(ratio)
    grammars = {(row["form"], row["precision"]) for row in report["pcfg"]}
    assert {("torch", "32"), ("reference", "32")} <= grammars
    assert all(row["tokens_per_second"] > 0 for row in report["pcfg"])
    by_epoch = report["run"]["by_epoch"]
    assert by_epoch[-1]["epoch"] == pytest.approx(report["run"]["epochs"], abs=1e-3)
    assert all(1 < epoch["valid_perplexity"] < 1e6 for epoch in by_epoch)
    assert (tmp_path / "run" / "weights.safetensors").exists()


def test_without_tiny_the_published_sizes_are_used():
    cases = {case.name: case for case in gpu.cases(tiny=False)}
    on_lstm, prpn = cases["on-lstm"], cases["prpn"]
    assert str(on_lstm) == "on-lstm 400-1150-1150-400 T70 B20"
    assert str(prpn) == "prpn 800-1200 T35 B64"
    assert training.WORDS == 10_000


def test_the_lstm_has_the_layers_of_the_model():
    (case,) = [case for case in gpu.cases(tiny=True) if case.name == "on-lstm"]
    layers = [module for module in gpu.torch_lstm(case.config).modules() if isinstance(module, torch.nn.LSTM)]
    assert [(layer.input_size, layer.hidden_size) for layer in layers] == [(8, 12), (12, 12), (12, 8)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            [], "no CUDA device here; --tiny checks", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="GPU")
        ),
        (["--tiny", "--minutes", "1"], "--minutes, --text and --valid must be given together"),
        (["--tiny", "--text", "a.txt", "--valid", "b.txt"], "--minutes, --text and --valid must be given together"),
    ],
)
def test_invalid_arguments_raise_an_error(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        gpu.main(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_peak_is_the_rate_of_the_fastest_product(monkeypatch, dtype):
    times = []

    def times_of(product, device):
        product()
        times.append(1.0 / (1 + len(times)))
        return [times[-1]]

    monkeypatch.setattr(timing, "_times", times_of)
    assert matrix_rate(dtype, 64) == pytest.approx(2e-9 * 64**3 * len(times))
    assert len(times) == 2 + (dtype == torch.bfloat16 and tiles_usable(64))


@pytest.mark.parametrize("form", ["fast", "reference", "nn.LSTM"])
def test_every_form_of_the_benchmark_of_on_lstm_takes_a_step(form, monkeypatch):
    monkeypatch.setattr(on_lstm, "WORDS", 50)
    config = on_lstm.ONLSTMConfig(embedding_size=8, layer_sizes=(20, 8), chunk_size=4)
    tokens = torch.randint(50, (4, 3))
    batches = [TokenBatch(tokens[:-1], tokens[1:])]
    step = training.contestant(lambda: on_lstm.model_of(config, form), batches, form, "32", on_lstm.SETTINGS)
    step.step()
    assert step.tokens == 9
