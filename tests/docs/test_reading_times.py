"""The Python blocks of the guide on reading times run without changes, on simulated times."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import chdir

import numpy as np
import pandas as pd
import pytest

import syntaxlm
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


LME4 = (ROOT / "docs" / "guides" / "reading-times-to-lme4.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder in which the first command of the page on lme4 was run, on the times of six subjects."""
    folder = tmp_path_factory.mktemp("study")
    generator = np.random.default_rng(0)
    text = (
        "The old man sat by the window and read the paper. His wife had left early in the morning, and the house was"
        " quiet. A dog barked in the street, but nobody looked at it. The news was good, and he could not believe it."
    )
    words = [(story, zone, word) for story in (1, 2, 3, 4) for zone, word in enumerate(text.split()[story:], 1)]
    rows = "".join(f'{story},{zone},"{word}"\n' for story, zone, word in words)
    (folder / "words.csv").write_text("story,zone,word\n" + rows)
    times = [
        f"s{subject},{story},{zone},{300 + 5 * len(word) + 20 * subject + generator.normal(0, 30):.0f}\n"
        for subject in range(6)
        for story, zone, word in words
    ]
    (folder / "times.csv").write_text("subject,story,zone,RT\n" + "".join(times) + "s1,1,1,99999\ns1,1,1,NA\n")
    first = re.findall(r"^syntaxlm (evaluate .*)$", LME4, re.M)[0]
    with chdir(folder):
        assert cli.main([*first.split(), "-o", "report.txt"]) == 0
    return folder


@pytest.mark.long
def test_the_commands_of_the_page_on_lme4_run(study, capsys, monkeypatch):
    monkeypatch.chdir(study)
    second = re.findall(r"^syntaxlm (evaluate .*)$", LME4, re.M)[1]
    printed = (study / "report.txt").read_text()
    assert "outside the limits: 1, missing: 1" in printed
    assert "context: carry" in printed

    # Scaled predictors, and those of the word before beside them.
    rows = pd.read_csv(study / "rows.csv")
    assert rows["surprisal_z"].mean() == pytest.approx(0, abs=1e-5)
    assert rows["surprisal_z"].std() == pytest.approx(1, abs=1e-5)
    word = rows[(rows["subject"] == "s2") & (rows["word_id"] == 5)].iloc[0]
    before = rows[(rows["subject"] == "s3") & (rows["word_id"] == 4)].iloc[0]
    assert word["previous_surprisal"] == before["surprisal"]
    assert (rows.groupby("word_id").size() == 6).all()

    assert cli.main(second.split()) == 0
    assert "expected_open beyond the other measures" in capsys.readouterr().out
    (block,) = re.findall(r"^```python\n(.*?)^```", LME4, re.M | re.S)
    exec(block, {})


@pytest.mark.long
def test_an_edited_script_is_kept_and_a_predictor_with_the_name_of_a_column_is_refused(study, capsys, monkeypatch):
    monkeypatch.chdir(study)
    first = re.findall(r"^syntaxlm (evaluate .*)$", LME4, re.M)[0].replace("rows.csv", "again.csv").split()
    (study / "again.R").write_text("# mine\n# Measure, in the column time: RT (times)\n")
    assert cli.main(first) == 0
    assert "again.R: is kept, because it differs" in capsys.readouterr().err
    assert (study / "again.R").read_text().startswith("# mine\n")

    # A predictor of the user would be replaced by a column of the model or of the times.
    words = pd.read_csv(study / "words.csv")
    refusals = {"surprisal": "the baseline has a predictor", "time": "the exported table has a column"}
    for name, refusal in refusals.items():
        words.assign(**{name: np.arange(len(words))}).to_csv(study / "own.csv", index=False)
        own = ["own.csv" if one == "words.csv" else one for one in first]
        assert cli.main([*own, "--key", "story", "--key", "zone", "--predictor", name]) == 2
        assert f"--predictor {name}: {refusal} of this name" in capsys.readouterr().err
    assert cli.main([*first[:-1], "rows.parquet"]) == 2


def test_the_script_for_lme4_runs_as_it_is(study):
    has_lme4 = ["Rscript", "-e", "quit(status = !requireNamespace('lme4', quietly = TRUE))"]
    if shutil.which("Rscript") is None or subprocess.run(has_lme4, capture_output=True).returncode:
        pytest.skip("Rscript with lme4 is not installed")
    found = subprocess.run(["Rscript", str(study / "rows.R")], capture_output=True, text=True, cwd="/")
    assert found.returncode == 0, found.stderr
    assert re.search(r"^surprisal_z +-?\d", found.stdout, re.M)
    assert "gain in log-likelihood per observation" in found.stdout


def test_the_surprisals_of_a_first_word_on_the_page_on_lme4_are_those_of_the_model():
    page = " ".join((ROOT / "docs" / "guides" / "reading-times-to-lme4.md").read_text(encoding="utf-8").split())
    alone, carried = re.findall(r"([\d.]+) bits in the story and ([\d.]+) bits alone", page)[0][::-1]
    nlp = syntaxlm.load("en")
    for context, shown in (("reset", alone), ("carry", carried)):
        _, second = nlp.surprisal(["The man came home.", "He sat down."], context=context)
        assert f"{second[0].surprisal:.2f}" == shown
