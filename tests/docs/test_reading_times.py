"""The Python blocks of the guide on reading times run without changes, on simulated times."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from syntaxlm import cli
from tests.docs.examples import ROOT

GUIDE = (ROOT / "docs" / "guides" / "reading-times.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.M | re.S)


@pytest.fixture
def folder(toy, trained, tmp_path, monkeypatch):
    """The working directory for the guide."""
    generator = np.random.default_rng(0)
    lines = [(toy / f"{part}.txt").read_text().replace("\n", ".\n").split() for part in ("valid", "test")]
    words = [(word, zone, item) for item, line in enumerate(lines, 1) for zone, word in enumerate(line, 1)]
    rows = [f"{word}\t{zone}\t{item}\n" for word, zone, item in words]
    for name in ("all_stories.tok", "words.tsv"):
        (tmp_path / name).write_text("word\tzone\titem\n" + "".join(rows))
    noise = generator.normal(0, 20, (4, len(words))) + generator.normal(0, 40, (4, 1))
    means = "".join(
        f"{zone}\t{item}\t{300 + 5 * len(word) + mean:.1f}\n"
        for (word, zone, item), mean in zip(words, noise.mean(0), strict=True)
    )
    (tmp_path / "wordinfo.tsv").write_text("zone\titem\tmeanItemRT\n" + means)
    times = "".join(
        f"{zone}\t{item}\tp{participant}\t{300 + 5 * len(word) + error:.1f}\n"
        for participant, errors in enumerate(noise)
        for (word, zone, item), error in zip(words, errors, strict=True)
    )
    (tmp_path / "reading-times.tsv").write_text("zone\titem\tparticipant\ttime\n" + times)
    shutil.copy(toy / "train.txt", tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("lstm", "prpn"):
        (tmp_path / "runs" / name).symlink_to(getattr(trained, name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_code_of_the_guide_runs(folder, capsys):
    (command,) = re.findall(r"^syntaxlm (score runs/lstm --words .*)$", GUIDE, re.M)
    assert cli.main(command.split()) == 0
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, names)
    printed = capsys.readouterr().out
    assert "prpn, reset minus" in printed
    assert re.search(r"^previous_surprisal +-?\d", printed, re.M)  # of the mixed model
    assert len(names["table"]) == len((folder / "words.tsv").read_text().splitlines()) - 1
