"""`average`."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def files(tmp_path):
    """Files of trees, of which the first two agree."""
    left, right = "(X (X the cat) sat)\n(X a)\n", "(X the (X cat sat))\n(X a)\n"
    for name, text in (("a", left), ("b", left), ("c", right)):
        (tmp_path / f"{name}.mrg").write_text(text)
    return [str(tmp_path / f"{name}.mrg") for name in "abc"]


def test_the_average_is_written_and_the_agreement_printed(files, tmp_path, run):
    out = tmp_path / "out.mrg"
    code, printed, _ = run("average", *files, "-o", out)
    assert (code, out.read_text()) == (0, "(X (X the cat) sat)\n(X a)\n")
    rows = [line.split() for line in printed.splitlines() if line.endswith(".mrg")]
    assert rows == [
        ["100.0", "100.0", "0.0", "50.0", "100.0", "1", files[0]],
        ["100.0", "100.0", "0.0", "50.0", "100.0", "2", files[1]],
        ["0.0", "0.0", "100.0", "0.0", "0.0", "3", files[2]],
    ]


def test_the_agreement_is_also_a_table_of_latex_and_rows(files, tmp_path, run):
    out = tmp_path / "out.mrg"
    code, printed, _ = run("average", *files, "-o", out, "--format", "latex", "--weights", "1,1,0.5")
    assert code == 0
    assert "\\begin{tabular}" in printed
    lines = printed.splitlines()
    assert lines[lines.index(r"\midrule") - 1] == r"trees & with 1 & with 2 & with 3 & others & average \\"
    rows = [line.split(" & ") for line in lines if ".mrg" in line]
    assert [row[1:] for row in rows] == [
        ["100.0", "100.0", "0.0", "50.0", r"100.0 \\"],
        ["100.0", "100.0", "0.0", "50.0", r"100.0 \\"],
        ["0.0", "0.0", "100.0", "0.0", r"0.0 \\"],
    ]

    _, printed, _ = run("average", *files, "-o", out, "--format", "csv")
    head, *rows = printed.splitlines()
    assert head == "trees,weight,other,f1,sentences,protocol,ties"
    assert len(rows) == 3 * 3
    assert rows[2] == f"{files[0]},1.000000,,1.000000,1,wsj-test,random"
    assert out.read_text() == "(X (X the cat) sat)\n(X a)\n"


def test_ties_are_broken_as_requested(files, tmp_path, run):
    out = tmp_path / "out.mrg"
    command = "average", files[0], files[2], "-o", out, "--json"
    assert json.loads(run(*command)[1])["ties"] == "random"
    assert json.loads(run(*command, "--ties", "first")[1])["ties"] == "first"
    assert out.read_text() == "(X the (X cat sat))\n(X a)\n"


def test_weights_and_json(files, tmp_path, run):
    out = tmp_path / "out.mrg"
    code, printed, _ = run("average", *files, "-o", out, "--weights", "1,1,2.5", "--json", "--protocol", "evalb")
    assert (code, out.read_text()) == (0, "(X the (X cat sat))\n(X a)\n")
    figures = json.loads(printed)
    assert figures["with_average"] == [0.5, 0.5, 1.0]
    assert figures["agreement"] == [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
    assert figures["with_others"] == [0.75, 0.75, 0.5]
    assert figures["weights"] == [1.0, 1.0, 2.5]
    assert (figures["trees"], figures["sentences"]) == (2, 1)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--weights", "1,two,3"], "--weights: found '1,two,3'"),
        (["--weights", "1,2"], "weights: found 1, 2; expected 3 positive numbers"),
        (["--weights", "1,2,0"], "expected 3 positive numbers"),
        (["--protocol", "none"], "found protocol 'none'; expected one of"),
    ],
)
def test_errors_are_reported_and_nothing_is_written(files, tmp_path, refused, extra, message):
    assert message in refused("average", *files, "-o", tmp_path / "out.mrg", *extra)
    assert not (tmp_path / "out.mrg").exists()
