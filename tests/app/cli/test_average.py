"""`average`."""

from __future__ import annotations

import json

import pytest

from syntaxlm.app.cli import main


@pytest.fixture
def files(tmp_path):
    trees = {
        "a": "(X (X the cat) sat)\n(X a)\n",
        "b": "(X (X the cat) sat)\n(X a)\n",
        "c": "(X the (X cat sat))\n(X a)\n",
    }
    for name, text in trees.items():
        (tmp_path / f"{name}.mrg").write_text(text)
    return [str(tmp_path / f"{name}.mrg") for name in trees]


def test_the_average_is_written_and_the_agreement_printed(files, tmp_path, capsys):
    out = tmp_path / "out.mrg"
    assert main(["average", *files, "-o", str(out)]) == 0
    assert out.read_text() == "(X (X the cat) sat)\n(X a)\n"
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith(".mrg")]
    assert rows == [
        ["100.0", "100.0", "0.0", "50.0", "100.0", "1", files[0]],
        ["100.0", "100.0", "0.0", "50.0", "100.0", "2", files[1]],
        ["0.0", "0.0", "100.0", "0.0", "0.0", "3", files[2]],
    ]


def test_ties_are_broken_as_requested(files, tmp_path, capsys):
    out = tmp_path / "out.mrg"
    assert main(["average", files[0], files[2], "-o", str(out), "--ties", "first", "--json"]) == 0
    assert out.read_text() == "(X the (X cat sat))\n(X a)\n"
    assert json.loads(capsys.readouterr().out)["ties"] == "first"
    assert main(["average", files[0], files[2], "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ties"] == "random"


def test_weights_and_json(files, tmp_path, capsys):
    out = tmp_path / "out.mrg"
    assert main(["average", *files, "-o", str(out), "--weights", "1,1,2.5", "--json", "--protocol", "evalb"]) == 0
    assert out.read_text() == "(X the (X cat sat))\n(X a)\n"
    figures = json.loads(capsys.readouterr().out)
    assert figures["with_average"] == [0.5, 0.5, 1.0]
    assert figures["agreement"] == [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
    assert figures["with_others"] == [0.75, 0.75, 0.5]
    assert figures["weights"] == [1.0, 1.0, 2.5]
    assert (figures["trees"], figures["sentences"]) == (2, 1)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--weights", "1,two,3"], "--weights: found '1,two,3'"),
        (["--weights", "1,2"], "weights: found 1, 2; expected 3 positive numbers"),
        (["--weights", "1,2,0"], "expected 3 positive numbers"),
        (["--protocol", "none"], "found protocol 'none'; expected one of"),
    ],
)
def test_errors_are_reported_and_nothing_is_written(files, tmp_path, capsys, extra, said):
    assert main(["average", *files, "-o", str(tmp_path / "out.mrg"), *extra]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out.mrg").exists()
