"""Every notebook runs from its first cell to its last, and gives the outputs that are stored in it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laboratory.pages.notebook import outputs_of, store_outputs
from laboratory.pages.stored_results import baselines, of_baseline, percent, trees

from tests.docs.examples import ROOT
from tests.docs.test_stimuli import is_same

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}
LARGEST = 100_000  # bytes of a notebook with its outputs
Outputs = list[dict[str, Any]]


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def shown(outputs: Outputs) -> Iterator[str]:
    """What a reader sees of the outputs of a cell: printed text, and the words and numbers of a picture."""
    for output in outputs:
        data = output.get("data", {})
        if "image/svg+xml" in data:
            yield " ".join(re.findall(r"<(?:text|title)[^>]*>([^<]+)<", "".join(data["image/svg+xml"])))
        else:
            yield "".join(output.get("text", data.get("text/plain", "")))


def differences(path: Path, found: list[Outputs]) -> list[str]:
    """The cells whose outputs differ from the stored ones; for a cell with the tag `varies`, in the kinds of outputs.

    What training gives depends on the processor; so `varies` marks the cells that show it.
    """
    different = []
    for cell, outputs in zip(code_cells(path), found, strict=True):
        kinds, stored_kinds = (
            [sorted(one.get("data", [one["output_type"]])) for one in some] for some in (outputs, cell["outputs"])
        )
        varies = "varies" in cell["metadata"].get("tags", ())
        same = varies or all(map(is_same, shown(outputs), shown(cell["outputs"])))
        if kinds != stored_kinds or not same:
            different.append("".join(cell["source"]))
    return different


def printed(outputs: list[Outputs]) -> str:
    return "\n".join(text for cell in outputs for text in shown(cell))


def check_parse(text: str) -> None:
    """In the best tree the dog gets meat, in the second one another woman gets the meat of a dog."""
    assert "(X (X her dog) meat)" in text
    assert "(X her (X dog meat))" in text


def check_surprisals(text: str) -> None:
    """The interval around the interaction is that of the tutorial, which has the same items."""
    found = re.search(r"interaction ([\d.-]+) bits, 95% interval ([\d.-]+) to ([\d.-]+)", text)
    assert found
    tutorial = (ROOT / "docs" / "tutorials" / "stimuli.md").read_text(encoding="utf-8")
    in_tutorial = re.search(r"^verb_type x comma +([\d.-]+) +([\d.-]+) +([\d.-]+)", tutorial, re.M)
    assert in_tutorial
    assert list(map(float, found.groups())) == pytest.approx(list(map(float, in_tutorial.groups())), abs=0.02)


def check_train(text: str) -> None:
    """The model has learned something: its perplexity is far below its vocabulary, its F1 above right branching."""
    found = re.search(r"perplexity ([\d.]+), vocabulary (\d+)", text)
    assert found
    assert float(found[1]) < int(found[2]) / 4
    f1 = {name: float(value) for value, name in re.findall(r"^ *([\d.]+)  ([a-z ]+)$", text, re.M)}
    assert f1["mbr"] > f1["right branching"] + 5


def check_first_hour(text: str) -> None:
    """`en` has learned agreement across a noun, which attracts the verb; `en-fast` has not."""
    found = re.findall(r"^(en|en-fast) +(singular|plural) / (correct|wrong) +([\d.]+)$", text, re.M)
    means = {(model, noun, verb): float(value) for model, noun, verb, value in found}
    cost = {
        (model, noun): means[model, noun, "wrong"] - means[model, noun, "correct"]
        for model in ("en", "en-fast")
        for noun in ("singular", "plural")
    }
    assert cost["en", "singular"] == pytest.approx(4.16, abs=0.02)
    assert cost["en", "plural"] == pytest.approx(6.21, abs=0.02)
    assert max(cost["en-fast", "singular"], cost["en-fast", "plural"]) == pytest.approx(-0.72, abs=0.02)


CHECKS = {"first-hour": check_first_hour, "parse": check_parse, "surprisals": check_surprisals, "train": check_train}


def test_scores_in_the_text_of_the_first_hour_are_stored():
    cells = json.loads(NOTEBOOKS["first-hour"].read_text(encoding="utf-8"))["cells"]
    text = " ".join(" ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown").split())
    en, fast = (trees("shipped", "WSJ sample", "mbr", name) for name in ("en", "en-fast"))
    right, bound = (100 * of_baseline(baselines("wsj"), name).mean for name in ("right", "binary_bound"))
    assert f"On {en.sentences:,} sentences of the Wall Street Journal, `en` reaches an F1 of {percent(en.f1)}" in text
    assert (
        f"and `en-fast` {percent(fast.f1)}. Right branching reaches {right:.1f}, and the upper bound is {bound:.1f}"
        in text
    )


def test_every_notebook_has_a_check():
    assert set(NOTEBOOKS) == set(CHECKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_stored_outputs_are_small_and_hold_what_the_notebook_states(name):
    stored = [cell["outputs"] for cell in code_cells(NOTEBOOKS[name])]
    assert all(stored[1:]), "only the first cell, which installs, shows nothing"
    CHECKS[name](printed(stored))
    assert NOTEBOOKS[name].stat().st_size < LARGEST


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name != "parse")) for name in NOTEBOOKS]
)
def test_a_notebook_gives_its_stored_outputs(name, monkeypatch):
    for package in {"first-hour": ["matplotlib"], "surprisals": ["pandas", "statsmodels"]}.get(name, ()):
        pytest.importorskip(package)
    found = outputs_of(NOTEBOOKS[name])
    assert differences(NOTEBOOKS[name], found) == []
    CHECKS[name](printed(found))


def test_another_number_word_or_kind_of_output_is_a_difference(tmp_path):
    sources = ["x = 4\nprint('F1', x / 3)", "x"]
    cells = [{"cell_type": "code", "metadata": {}, "source": [one], "outputs": []} for one in sources]
    path = tmp_path / "small.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    store_outputs(path)
    found = outputs_of(path)
    assert printed(found) == "F1 1.3333333333333333\n\n4"
    assert differences(path, found) == []
    for text in ("F1 1.5\n", "UAS 1.3333333333333333\n"):
        changed = copy.deepcopy(found)
        changed[0][0]["text"] = [text]
        assert differences(path, changed) == [sources[0]]
    assert differences(path, [[], found[1]]) == [sources[0]]
    stored = json.loads(path.read_text())
    stored["cells"][0]["metadata"] = {"tags": ["varies"]}
    path.write_text(json.dumps(stored))
    assert differences(path, changed) == []
    assert differences(path, [[], found[1]]) == [sources[0]]
