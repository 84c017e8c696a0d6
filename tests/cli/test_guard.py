"""No command overwrites what it reads, a model's files, or a user's files in an output folder."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import MISSING
from pathlib import Path
from typing import TextIO

import pytest

from syntaxlm import cli
from syntaxlm.cli.command import Folder
from syntaxlm.core.declarations import Option
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import refuse_overwriting
from syntaxlm.storage.folder import write_model
from tests.grammar_models import grammar

LEAVES = cli.all_commands()
OUTPUTS = [(name, option, option.mark(Folder)) for name, leaf in LEAVES.items() for option in leaf.outputs]
FILE_OUTPUTS = [(name, option) for name, option, folder in OUTPUTS if folder is None]
FOLDER_OUTPUTS = {
    name: folder for name, option, folder in OUTPUTS if folder is not None and option.names[-1] == "--output"
}


def names(case: object) -> str:
    return case.names[-1].strip("-") if isinstance(case, Option) else str(case)


@pytest.fixture
def model(trained, tmp_path) -> Path:
    return shutil.copytree(trained.lstm, tmp_path / "model")


def arguments_of(name: str, given: dict[str, str], other: str) -> list[str]:
    """A command line with all required arguments of a command: given by destination, or `other`."""
    words = name.split()
    for option in LEAVES[name].options.values():
        unused = f"{other}-output" if option.mark(Folder) else other
        value = str(option.choices[0]) if option.choices else given.get(option.name, unused)
        is_optional = option.default is not MISSING
        if option.shown.is_positional and (option.name in given or not is_optional or option.is_list):
            words.append(value)
        elif not option.shown.is_positional and (option.name in given or not is_optional):
            words += [option.names[-1], *[value] * option.count]
    return words


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    before = content(folder)
    assert cli.main(words) == 2, words
    out, error = capsys.readouterr()
    assert not out
    assert error.count("error:") == 1
    assert content(folder) == before
    return error


@pytest.mark.parametrize(("name", "output"), FILE_OUTPUTS, ids=names)
@pytest.mark.parametrize(
    "link",
    [
        pytest.param(None, id="same"),
        pytest.param(os.symlink, id="symbolic", marks=pytest.mark.long),
        pytest.param(os.link, id="hard", marks=pytest.mark.long),
    ],
)
def test_an_output_that_is_an_input_is_refused_and_the_file_unchanged(name, output, link, model, tmp_path, capsys):
    check_that_an_input_is_refused(name, output, link, model, tmp_path, capsys)


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_an_output_that_is_a_link_to_an_input_is_refused(link, model, tmp_path, capsys):
    (output,) = (output for name, output in FILE_OUTPUTS if name == "parse")
    check_that_an_input_is_refused("parse", output, link, model, tmp_path, capsys)


def check_that_an_input_is_refused(name, output, link, model, tmp_path, capsys) -> None:
    text = tmp_path / "input.txt"
    text.write_text("a b\n")
    written = text
    if link is not None:
        written = tmp_path / "link.txt"
        link(text, written)
    for option in LEAVES[name].inputs:
        given = {option.name: str(text), output.name: str(written)}
        assert "is also an input" in refused(arguments_of(name, given, str(model)), tmp_path, capsys)


@pytest.mark.parametrize(("name", "output"), FILE_OUTPUTS, ids=names)
def test_a_file_of_a_model_folder_is_refused_as_output(name, output, model, tmp_path, capsys):
    for file in ("weights.safetensors", "vocabulary.json", "new.txt"):
        given = {output.name: str(model / file)}
        error = refused(arguments_of(name, given, str(model)), tmp_path, capsys)
        assert "model folder" in error
    assert "model folder" in refused(arguments_of(name, given, str(tmp_path / "x")), tmp_path, capsys)  # read or not


@pytest.mark.parametrize("name", [name for name, leaf in LEAVES.items() if len(leaf.outputs) > 1 and name != "train"])
def test_two_outputs_of_one_name_are_refused(name, tmp_path, capsys):
    given = {output.name: str(tmp_path / "out") for output in LEAVES[name].outputs}
    assert "is given for two outputs" in refused(arguments_of(name, given, "x"), tmp_path, capsys)


@pytest.mark.parametrize("name", sorted(FOLDER_OUTPUTS))
def test_a_users_files_in_an_output_folder_stay(name, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    for file in (*FOLDER_OUTPUTS[name].files, "vocabulary.json"):
        (mine / file).write_text("my own\n")
    error = refused(arguments_of(name, {"output": str(mine)}, "x"), tmp_path, capsys)
    assert any(part in error for part in ("did not write", "not belong to a run", "already contains", "is not empty"))


@pytest.mark.parametrize("name", sorted(FOLDER_OUTPUTS))
def test_an_output_folder_inside_a_model_is_refused(name, model, tmp_path, capsys):
    files = FOLDER_OUTPUTS[name].files
    for option in LEAVES[name].inputs:
        given = {option.name: str(model), "output": str(model / "below")}
        error = refused(arguments_of(name, given, str(tmp_path / "x")), tmp_path, capsys)
        assert "in the model folder" in error or (not files and "is a model folder" in error)


@pytest.mark.parametrize(
    ("command", "written"), [("compare kn5-toy", "comparison.json"), ("focus simple-pcfg-toy", "agreement.json")]
)
def test_a_text_that_is_a_result_of_the_folder_is_refused(command, written, toy, tmp_path, capsys):
    folder = tmp_path / "study"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "recipe.yaml").touch()
    shutil.copy(toy / "train.txt", folder / written)
    texts = [f"--text.train={folder / written}", f"--text.valid={toy / 'valid.txt'}", f"--text.test={toy / 'test.txt'}"]
    assert f"{written}: is also an input" in refused([*command.split(), "-o", str(folder), *texts], tmp_path, capsys)


def test_a_report_replaces_its_own_page_and_is_not_written_into_its_model(model, trained, tmp_path, capsys):
    for folder in (model, model / "below"):
        assert "is in the model folder" in refused(["report", str(model), "-o", str(folder)], tmp_path, capsys)
    for _ in range(2):
        assert cli.main(["report", str(model), "-o", str(tmp_path / "page")]) == 0


def test_the_corpus_overwrites_itself_and_nothing_else(tmp_path, capsys):
    words = ["data", "toy", "-o", str(tmp_path / "toy"), "--sentences", "2"]
    assert cli.main(words) == cli.main(words) == 0
    capsys.readouterr()
    (tmp_path / "toy" / "valid.mrg").write_text("(S (A mine))")
    assert "changed: valid.mrg. Name a new folder" in refused(words, tmp_path, capsys)
    (tmp_path / "toy" / "floor.json").write_text('{"sha256": [1]}')
    assert "that this command did not write" in refused(words, tmp_path, capsys)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").write_text("mine")
    assert cli.main(["data", "toy", "-o", str(tmp_path / "other"), "--sentences", "2"]) == 0
    assert (tmp_path / "other" / "notes.md").read_text() == "mine"


def test_files_of_folders_and_patterns_that_are_read_stay_and_new_ones_may_be_made(tmp_path):
    bank = tmp_path / "bank"
    bank.mkdir()
    (bank / "a.mrg").write_text("(S (A a))\n")
    for read in (bank, str(bank / "*.mrg"), str(tmp_path / "**" / "*.mrg")):
        with pytest.raises(InputError, match=r"a\.mrg: is (also an input|a file of the input folder)"):
            refuse_overwriting(bank / "a.mrg", [read])
        refuse_overwriting(bank / "new.txt", [read])
    refuse_overwriting(None, [bank])
    refuse_overwriting("-", ["-"])
    refuse_overwriting(os.devnull, [os.devnull])
    refuse_overwriting(tmp_path / "new.txt", ["A sentence, is it?", "a" * 5000])


def test_an_output_that_standard_input_reads_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("a\n")
    with open(path) as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.raises(InputError, match="is also an input"):
            refuse_overwriting(path)
        refuse_overwriting(tmp_path / "other.txt")


@pytest.mark.parametrize(("name", "output"), FILE_OUTPUTS, ids=names)
def test_an_output_that_is_redirected_to_standard_input_is_refused(name, output, model, tmp_path, monkeypatch, capsys):
    path = tmp_path / "text.txt"
    path.write_text("a\n")
    with open(path) as file:
        monkeypatch.setattr(sys, "stdin", file)
        error = refused(arguments_of(name, {output.name: str(path)}, str(model)), tmp_path, capsys)
        assert "is also an input" in error


PRINTING = [
    "score MODEL TEXT", "score MODEL TEXT --json", "parse PCFG TEXT", "parse PCFG TEXT --json",
    "draw PCFG SENTENCE", "generate MODEL", "grammar PCFG", "evaluate perplexity MODEL TEXT",
    "evaluate trees TREES TREES", "evaluate parse PCFG TREES", "data words TREES",
    "data tags TREES", "data trees TEXT --shape left", "data sentences TEXT", "models list", "models info MODEL",
    "recipes list", "recipes show prpn-toy", "completion bash",
]  # fmt: skip


def run_to(output: TextIO | None, words: str, paths: dict[str, Path | str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdout", output)
    return cli.main([str(paths.get(word, word)) for word in words.split()])


@pytest.fixture(scope="module")
def pcfg(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("grammar") / "pcfg"
    write_model(folder, grammar("simple-pcfg"))
    return folder


@pytest.fixture
def paths(model, pcfg, toy) -> dict[str, Path | str]:
    return {
        "MODEL": model,
        "PCFG": pcfg,
        "TEXT": toy / "test.txt",
        "TREES": toy / "test.mrg",
        "SENTENCE": "the cat sleeps",
    }


@pytest.mark.parametrize("words", PRINTING)
def test_a_closed_standard_output_is_reported(words, paths, monkeypatch, capsys):
    code = run_to(None, words, paths, monkeypatch)
    error = capsys.readouterr().err
    assert (code, error.count("error:"), "Traceback" in error) == (2, 1, False) or (code, error) == (0, "")


@pytest.mark.parametrize("words", [*PRINTING, "--help", "parse --help", "--version"])
def test_a_pipe_whose_reader_has_gone_ends_a_command_without_a_message(words, paths, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    output = open(writer, "w", encoding="utf-8")  # noqa: SIM115 - closed below; the command may replace its file
    code = run_to(output, words, paths, monkeypatch)
    output.close()  # what a command leaves to be written would be reported by the interpreter
    assert (code, "error:" in capsys.readouterr().err) == (0, False)


@pytest.mark.parametrize(
    "words", [["parse", "", "a cat"], ["train", "prpn-toy", "-o", ""], ["score", "en", "a cat", "-o", ""]]
)
def test_an_empty_name_is_not_the_current_folder(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    assert (
        "found an empty name; expected the name of a file or folder. Is a variable not set?" in capsys.readouterr()[1]
    )
    assert not list(tmp_path.iterdir())


def test_the_walk_finds_the_outputs_that_there_are():
    found = {(name, names(output)) for name, output in FILE_OUTPUTS}
    assert {("score", "output"), ("evaluate trees", "details"), ("data sentences", "valid-output")} <= found
    assert FOLDER_OUTPUTS.keys() >= {"train", "compare", "report", "data toy", "ngram from-arpa"}
