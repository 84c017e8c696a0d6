"""Every command: help, output, and errors for invalid input."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from syntaxlm import cli
from syntaxlm.cli.command import Group
from syntaxlm.core.files import UNFINISHED
from syntaxlm.core.yaml_files import read_yaml, yaml_text
from syntaxlm.parsing import parse as parsing_text
from syntaxlm.training.run import train
from syntaxlm.trees.tree import parse_brackets, read_brackets

COMMANDS = [
    (),
    *((name,) for name, each in cli.COMMANDS.items() if isinstance(each, Group)),
    *(tuple(name.split()) for name in cli.all_commands()),
]


@pytest.fixture
def text(tmp_path):
    """Writes a file; returns its path."""

    def text(content: str | bytes, name: str = "text.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return text


def standard_input(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_all_it_takes(run, command):
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: {' '.join(['syntaxlm', *command])}")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_reported_in_one_line(refused, command):
    assert len(refused(*command, "--nonsense").splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a cat\nthe\x00dog\n", "text.txt, line 2: found a zero byte"),
        (b"a cat\nna\xefve\n", "text.txt, line 2: found byte 0xef at offset 8 of the file; expected UTF-8 text"),
    ],
)
def test_invalid_text_is_reported_with_file_and_line_and_nothing_is_written(
    refused, text, trained, tmp_path, content, message
):
    path = text(content)
    assert message in refused("evaluate", "perplexity", trained.prpn, path)
    assert message in refused("parse", trained.prpn, path, "-o", tmp_path / "out.mrg")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_parses_of_an_empty_text_are_empty_so_that_a_build_of_many_files_continues(run, refused, text, trained):
    path = text(b"")
    assert run("parse", trained.prpn, path)[:2] == (0, "")
    assert run("parse", trained.prpn, path, "--json")[:2] == (0, "")
    assert "found no sentence; expected one sentence" in refused("parse", trained.prpn, path, "--format", "svg")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("parse nowhere text.txt", "no such model folder"),
        ("evaluate perplexity . text.txt", "not a model folder: config.json is missing"),
        ("parse PRPN none.txt", "No such file or directory"),
        ("parse PRPN text.txt -o none/out.mrg", "cannot be written"),
        ("parse PRPN text.txt -o .", "it is a folder"),
        ("parse PRPN text.txt -o text.txt/below", "cannot be written"),
        ("parse LSTM text.txt", "this lstm model with these settings does not parse"),
        ("evaluate parse LSTM gold.mrg --preprocessing none", "this lstm model with these settings does not parse"),
        ("evaluate parse PRPN tags.mrg", "X 16"),
        ("evaluate parse PRPN tags.mrg", "another tag set"),
        ("evaluate parse PRPN gold.mrg --preprocessing none --max-words 1", "no sentence to score"),
        ("evaluate trees gold.mrg gold.mrg --max-words 1", "no sentence to score"),
        ("evaluate trees gold.mrg gold.mrg --protocol wsj", "wsj"),
        ("evaluate trees gold.mrg gold.mrg --preprocessing ptb", "ptb"),
        ("evaluate trees short.mrg gold.mrg", "gold.mrg, sentence 2"),
        ("evaluate parse PRPN text.txt", "text.txt"),
        ("evaluate trees text.txt gold.mrg", "text.txt"),
        ("train", "expected either RECIPE and --output DIR"),
        ("train RECIPE", "expected either RECIPE and --output DIR"),
        ("train RECIPE --resume LSTM", "--resume uses the recipe and settings"),
        ("train --resume LSTM --run.seed 3", "--resume uses the recipe"),
        ("train RECIPE --output run --seeds 0", "--seeds: found '0'"),
        ("train RECIPE --output run --seed 3", "--seed"),
        ("train xyz --output run", "no such recipe"),
        ("train RECIPE --output LSTM", "already holds a run"),
        ("train --resume .", "no run to resume"),
        ("train RECIPE --output run --model.hiden_size 3", "Did you mean model.hidden_size?"),
        ("train RECIPE --output run --model.layers", "--model.layers: the value is missing"),
        (
            "train RECIPE --output run --text.weights=",
            "--text.weights: the value is empty; expected a value, or null for none",
        ),
        ("train RECIPE --output run --model.layers 1 --model.layers=2", "--model.layers: is given twice"),
        ("train RECIPE --output run --text.train nothing.txt", "nothing.txt: cannot be read"),
        (
            "train kn5-text --output run",
            "train.txt: cannot be read: No such file or directory (text.train of the recipe",
        ),
        ("parse PRPN --run.seed 3", "--run.seed"),
        ("compare RECIPE -o out --seeds 0", "--seeds: found '0'"),
        ("compare RECIPE -o out --minutes -1", "--minutes: found '-1'"),
        ("compare prpn-tyo -o out", "no such recipe"),
        ("data toy -o toy --sentences 0", "--sentences: found '0'; expected"),
        ("data toy -o text.txt/toy --sentences 40", "cannot be made"),
        ("data text8 text.txt -o out", "found 6 bytes; expected the unpacked text8, which has 100,000,000"),
        ("evaluate boundaries PRPN text.txt", "reads words"),
        pytest.param(
            "parse PRPN text.txt -o /dev/full",
            "/dev/full: cannot be written",
            marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full"),
        ),
    ],
)
def test_wrong_input_is_reported_in_one_message(refused, text, toy, trained, tmp_path, monkeypatch, words, message):
    text("a cat\n")
    text("(S (A0 (X the) (X cat)) (X sees) (X it))\n" * 4, "tags.mrg")
    text("(S (A a) (B b))\n(S (A the) (B old) (C cat))\n", "gold.mrg")
    text("(S (A a) (B b))\n(S (A the) (B cat))\n", "short.mrg")
    recipe = text(yaml_text(toy.recipe_data("lstm")), "tiny.yaml")
    monkeypatch.chdir(tmp_path)
    places = {"PRPN": trained.prpn, "LSTM": trained.lstm, "RECIPE": recipe}
    assert message in refused(*(places.get(word, word) for word in words.split()))
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_parse_keeps_line_and_tree_together(run, text, trained):
    code, out, _ = run("parse", trained.prpn, text("the cat sees a dog\n\n   \ncat\r\nxyzzy plugh\n"))
    trees = out.split("\n")
    assert code == 0
    assert len(trees) == 6
    assert [len(parse_brackets(tree)[0].words) if tree else 0 for tree in trees] == [5, 0, 0, 1, 2, 0]
    assert trees[3] == "(X cat)"
    code, out, error = run("parse", trained.prpn, text("\n\n\n"))
    assert (code, out) == (0, "\n\n\n")
    assert error.endswith("text, one sentence per line, 0 sentences; 3 blank lines\n")


def test_options_may_be_before_between_and_after_arguments(run, toy, trained):
    decoder = ["--decoder", "unbiased"]
    expected = run("parse", trained.prpn, toy / "test.txt", *decoder)
    assert expected[0] == 0
    assert run("parse", trained.prpn, *decoder, toy / "test.txt") == expected
    assert run("parse", *decoder, trained.prpn, toy / "test.txt") == expected


@pytest.mark.parametrize("together", [1, 2, 100])
def test_parsing_in_chunks_changes_nothing(run, toy, trained, monkeypatch, together):
    def parsed():
        out = run("parse", trained.prpn, toy / "test.txt", "--format", "json")[1]
        lines = list(map(json.loads, out.splitlines()))
        return lines, [line.pop("distances") for line in lines]

    expected, distances = parsed()
    monkeypatch.setattr(parsing_text, "LINES_TOGETHER", together)
    lines, found = parsed()
    assert lines == expected
    for some, others in zip(found, distances, strict=True):  # products of different sizes are rounded differently
        assert some == pytest.approx(others, abs=2e-6)


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_parse_reads_standard_input(run, trained, monkeypatch, arguments):
    standard_input(monkeypatch, b"the cat sees a dog\n\n")
    code, out, _ = run("parse", trained.prpn, *arguments)
    assert code == 0
    assert out.count("\n") == 2
    assert parse_brackets(out)[0].words == ("the", "cat", "sees", "a", "dog")


def test_parse_writes_json_lines_and_latex(run, text, trained):
    path = text("the cat sees a dog\n\n")
    lines = [json.loads(line) for line in run("parse", trained.prpn, path, "--format", "json")[1].splitlines()]
    assert lines[1] is None
    assert lines[0].keys() == {"number", "words", "tokens", "offsets", "known", "not_read", "distances", "spans"}
    assert [0, 5] in lines[0]["spans"]
    assert r"\begin{forest}" in run("parse", trained.prpn, path, "--format", "latex")[1]


def test_words_that_brackets_cannot_hold_as_they_are_come_back_the_same(run, text, trained):
    words = "( ) -LRB- [ ] {x} \\ / * # \" ' % …"
    code, out, _ = run("parse", trained.prpn, text(words + "\n"), "--punctuation", "keep")
    assert code == 0
    (tree,) = parse_brackets(out)
    assert len(tree.words) == len(words.split())
    (complete,) = parse_brackets(run("parse", trained.prpn, text(words + "\n"), "--show-unread")[1])
    assert len(complete.words) == len(words.split()) + 2, "dropped marks are put back, {x} as three"


def test_marks_that_are_not_read_are_shown_in_each_of_several_trees(run):
    words = "parse", "en-fast", "--text", "The old man the boats.", "--format", "brackets", "--show-unread"
    (complete,) = run(*words)[1].splitlines()
    trees = [line.rpartition("\t")[2] for line in run(*words, "--best", 3)[1].splitlines() if line]
    assert trees[0] == complete
    assert [tree.count("(UNREAD .)") for tree in trees] == [1, 1, 1]


def test_output_files_are_written_atomically(run, refused, text, trained, tmp_path, monkeypatch):
    path, out = text("the cat sees a dog\n" * 3), tmp_path / "deep" / "out.mrg"
    out.parent.mkdir()
    assert run("parse", trained.prpn, path, "-o", out, "--quiet") == (0, "", "")
    whole = out.read_text()
    assert whole == run("parse", trained.prpn, path)[1]
    assert whole.count("\n") == 3
    monkeypatch.setattr(parsing_text, "LINES_TOGETHER", 2)
    broken = text(b"a cat\na cat\na cat\n\xff\n", "broken.txt")
    refused("parse", trained.prpn, broken, "-o", out)
    assert out.read_text() == whole
    assert not list(out.parent.glob(f"*{UNFINISHED}"))


LENGTHS = [("cat\n", 1), ("the cat sees a dog " * 1000 + "\n", 5000), ("xyzzy plugh\n", 2)]


@pytest.mark.parametrize("model", ["prpn", "lstm"])
@pytest.mark.parametrize(("content", "words"), LENGTHS, ids=["one", "many", "unknown"])
def test_sentences_of_one_word_of_thousands_and_of_unknown_ones_are_scored(run, text, trained, model, content, words):
    code, out, err = run("evaluate", "perplexity", getattr(trained, model), text(content), "--json")
    assert code == 0, err
    figures = json.loads(out)
    assert figures["tokens"] == words + 1
    assert 1 < figures["perplexity"] < 1e9


@pytest.mark.parametrize("decoder", ["biased", "unbiased"])
@pytest.mark.parametrize(("content", "words"), LENGTHS, ids=["one", "many", "unknown"])
def test_sentences_of_one_word_of_thousands_and_of_unknown_ones_are_parsed(run, text, trained, decoder, content, words):
    code, out, err = run("parse", trained.prpn, text(content), "--decoder", decoder)
    assert code == 0, err
    (tree,) = parse_brackets(out)
    assert len(tree.words) == words
    assert len([part for part in tree.constituents if part.end - part.start > 1]) == words - 1


@pytest.mark.parametrize("mode", ["reset", "carry"])
def test_evaluate_perplexity_reads_files_and_standard_input_in_both_modes(run, toy, trained, monkeypatch, mode):
    code, from_file, _ = run("evaluate", "perplexity", trained.prpn, toy / "test.txt", "--context", mode)
    assert code == 0
    assert "perplexity" in from_file
    standard_input(monkeypatch, (toy / "test.txt").read_bytes())
    assert run("evaluate", "perplexity", trained.prpn, "-", "--context", mode)[1] == from_file


def test_evaluate_parse_prints_figures_and_baselines_and_json(run, toy, trained):
    code, out, _ = run("evaluate", "parse", trained.prpn, toy / "test.mrg")
    assert code == 0
    for part in ("unlabelled F1", "biased", "unbiased", "right branching", "protocol wsj-test", "recall by label"):
        assert part in out
    figures = json.loads(run("evaluate", "parse", trained.prpn, toy / "test.mrg", "--json", "--max-words", "10")[1])
    assert 0 <= figures["f1"] <= 1
    assert figures["protocol_fields"]["max_words"] == 10


@pytest.fixture
def recipe(toy, tmp_path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml_text(toy.recipe_data("lstm", schedule={"epochs": 1})))
    return path


@pytest.mark.parametrize("before", [True, False])
def test_train_accepts_settings_anywhere_on_the_command_line(run, recipe, tmp_path, before):
    settings = ["--model.hidden_size", "8", "--run.seed=5", "--optimiser.learning_rate", "1e-3"]
    places = [*settings, recipe] if before else [recipe, *settings]
    code, out, err = run("train", *places, "--output", tmp_path / "run", "--json")
    assert code == 0, err
    assert json.loads(out)["test"]["perplexity"] > 1
    written = read_yaml(tmp_path / "run" / "recipe.yaml")
    assert (written["model"]["hidden_size"], written["run"]["seed"]) == (8, 5)
    assert written["optimiser"]["learning_rate"] == 0.001


def test_train_prints_progress_on_stderr_and_the_result_on_stdout(run, recipe, tmp_path):
    code, out, err = run("train", recipe, "--output", tmp_path / "run")
    assert code == 0
    assert "valid perplexity" in err
    assert "best so far" in err
    assert all(err.splitlines()), "an empty line"
    assert "test: perplexity" in out


def test_seeds_are_summed_up(run, recipe, tmp_path):
    code, out, _ = run("train", recipe, "--output", tmp_path / "runs", "--seeds", "2", "--json")
    assert code == 0
    figures = json.loads(out)
    assert len(figures["runs"]) == 2
    assert figures["test_perplexity"].keys() == {"mean", "std"}


def test_data_toy_writes_the_corpus_and_reports_the_files(run, refused, tmp_path):
    code, out, _ = run("data", "toy", "-o", tmp_path / "toy", "--sentences", "40", "--json")
    assert code == 0
    figures = json.loads(out)
    assert figures["train"]["sentences"] == 40
    assert figures == json.loads((tmp_path / "toy" / "floor.json").read_text())
    assert len((tmp_path / "toy" / "train.txt").read_text().splitlines()) == 40
    assert "perplexity floor" in run("data", "toy", "-o", tmp_path / "toy", "--sentences", "40")[1]


def test_data_text8_splits_the_file(run, text, tmp_path, monkeypatch):
    path = text("a term of abuse ", "text8")
    monkeypatch.setattr("syntaxlm.data.running_text.TEXT8_BYTES", 16)
    monkeypatch.setattr("syntaxlm.data.running_text.TEXT8_TRAINING_BYTES", 9)
    code, out, _ = run("data", "text8", path, "-o", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(out)["train_words"] == 3
    assert (tmp_path / "out" / "valid.txt").read_text() == " abuse \n"
    assert "valid.txt: 1 word" in run("data", "text8", path, "-o", tmp_path / "other")[1]


@pytest.mark.long
def test_compare_trains_prints_the_table_and_resumes(run, refused, toy, tmp_path):
    for name in ("prpn", "lstm"):
        (tmp_path / f"tiny-{name}.yaml").write_text(yaml_text(toy.recipe_data(name)))
    command = "compare", tmp_path / "tiny-prpn.yaml", tmp_path / "tiny-lstm.yaml", "-o", tmp_path / "out"
    settings = "--schedule.epochs", "1", "--seeds", "2", "--minutes", "5"
    code, out, err = run(*command, *settings)
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()] == ["recipe", "tiny-prpn", "tiny-lstm"]
    assert "(4 of 4)" in err
    code, again, err = run(*command, *settings, "--json")
    assert "valid perplexity" not in err, "trained again"
    figures = json.loads(again)
    stored = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert stored.pop("run")["command"] == figures.pop("run")["command"]
    assert figures == stored
    assert f"{figures['rows'][0]['test']['perplexity']['mean']:.2f} ± " in out
    table = [line.split(",") for line in run(*command, *settings, "--format", "csv")[1].splitlines()]
    assert [row[:2] for row in table[1:]] == [
        [f"tiny-{name}", text] for name in ("prpn", "lstm") for text in ("valid", "test")
    ]
    assert float(table[2][2]) == pytest.approx(figures["rows"][0]["test"]["perplexity"]["mean"])
    code, out, err = run(*command, *settings, "--treebank", toy / "test.mrg", "--max-words", "20", "--format", "tsv")
    rows = list(csv.DictReader(io.StringIO(out), delimiter="\t"))
    assert {(row["recipe"], row["role"]) for row in rows} >= {("tiny-prpn", "recipe"), ("right branching", "baseline")}
    assert {row["recipe"] for row in rows if not row["f1"]} == {"tiny-lstm"}
    assert all(float(row["sentences_per_second"]) > 0 for row in rows if row["recipe"] == "tiny-prpn")
    assert "valid perplexity" not in err, "trained again"
    assert "schedule.minutes: found 5.0, expected 9.0" in refused(*command, "--schedule.epochs", "1", "--minutes", "9")


def test_a_comparison_with_a_run_that_failed_prints_the_others_and_ends_with_1(run, toy, tmp_path):
    spoiled = toy.recipe_data("lstm", optimiser={"learning_rate": 1e9}, schedule={"epochs": 1})
    for name, data in (("spoiled", spoiled), ("good", toy.recipe_data("lstm", schedule={"epochs": 1}))):
        (tmp_path / f"{name}.yaml").write_text(yaml_text(data))
    code, out, err = run("compare", tmp_path / "spoiled.yaml", tmp_path / "good.yaml", "-o", tmp_path / "out", "-q")
    assert code == 1
    assert out.splitlines()[2].endswith("1 of 1")
    assert "1 of 2 runs failed. Finished runs are kept" in err
    assert f"{tmp_path / 'out' / 'spoiled' / 'seed-1'}: " in err
    assert "learning_rate" in err


@pytest.fixture(scope="module")
def of_characters(toy, made_once) -> Path:
    """A character-level model, trained for one epoch of few sentences."""
    text = {"train": str(toy / "valid.txt"), "normaliser": {"units": "characters"}}
    return made_once("characters", lambda folder: train(toy.recipe(text=text, schedule={"epochs": 1}), folder))


def test_evaluate_boundaries_prints_figures_and_baselines_and_json(run, refused, toy, of_characters):
    code, out, err = run("evaluate", "boundaries", of_characters, toy / "test.txt")
    assert code == 0, err
    for part in ("gaps between characters", "layer 1, distance of the space", "every gap", "random F1"):
        assert part in out
    arguments = of_characters, toy / "test.txt", "--tune", toy / "valid.txt"
    figures = json.loads(run("evaluate", "boundaries", *arguments, "--json")[1])
    assert figures["tuned_on"] == str(toy / "valid.txt")
    assert 0 < figures["scores"][0]["recall"] <= 1
    assert "No such file" in refused("evaluate", "boundaries", of_characters, "none.txt")


@pytest.mark.parametrize("rule", ["letters", "mine.yaml"])
def test_a_treebank_of_other_tags_is_written_as_words_and_scored(run, refused, text, trained, tmp_path, rule):
    bank = text("(S (A0 el) (B1 gato) (Fp .))\n(S (P+A0 y) (N (A0 un) (B1 pez)) (Fp ¿))\n(S (Fp .))\n", "bank.mrg")
    if rule.endswith(".yaml"):
        rule = text("drop_tags: [Fp]\n", rule)
    words, rows = tmp_path / "words.txt", tmp_path / "rows.jsonl"
    code, out, _ = run("data", "words", bank, "-o", words, "--preprocessing", rule)
    assert code == 0
    assert "2 sentences   5 words   left out: 1 sentence without a word" in out
    assert words.read_text() == "el gato\ny un pez\n"
    figures = json.loads(run("data", "words", bank, "-o", words, "--preprocessing", rule, "--json")[1])
    assert figures == {"sentences": 2, "words": 5, "joined": 0, "blank": 0, "emptied": 1, "longer": 0}
    for arguments in (["parse", trained.prpn, bank], ["trees", bank, bank]):
        code, out, err = run("evaluate", *arguments, "--preprocessing", rule, "--details", rows)
        assert code == 0, err
        assert f"preprocessing {rule}" in out
        assert [json.loads(line)["number"] for line in rows.read_text().splitlines()] == [1, 2]
    for arguments in (["data", "words", bank, "-o", words], ["evaluate", "parse", trained.prpn, bank]):
        assert "another tag set" in refused(*arguments)
        bad = text("drop_tag: [Fp]\n", "bad.yaml")
        assert "Did you mean drop_tags?" in refused(*arguments, "--preprocessing", bad)


@pytest.mark.long
def test_the_quickstart_trains_measures_and_draws(run, refused, toy, tmp_path, monkeypatch):
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "prpn-toy.yaml").write_text(yaml_text(toy.recipe_data("prpn", schedule={"epochs": 1})))
    monkeypatch.setattr("syntaxlm.training.recipe_files.bundled_recipes", lambda: recipes)
    monkeypatch.setattr("syntaxlm.cli.quickstart.SENTENCES", 200)
    code, out, err = run("quickstart", "--model-type", "prpn", "--output", tmp_path / "quick", "--seed", "2")
    assert code == 0, err
    for part in ("Test perplexity", "unlabelled F1", "right branching", "Model folder", "│"):
        assert part in out
    assert "Writing the built-in corpus, 200 sentences" in err
    written = read_yaml(tmp_path / "quick" / "model" / "recipe.yaml")
    assert written["run"]["seed"] == 2
    before = (tmp_path / "quick" / "corpus" / "train.txt").stat().st_mtime_ns
    assert "is not empty; found corpus, model, report.html" in refused(
        "quickstart", "--model-type", "prpn", "--output", tmp_path / "quick"
    )
    assert (tmp_path / "quick" / "corpus" / "train.txt").stat().st_mtime_ns == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_training_that_saved_and_stopped_ends_with_the_code_of_the_signal(run, recipe, tmp_path, monkeypatch, number):
    monkeypatch.setattr(
        "syntaxlm.training.progress.ProgressDisplay.__call__",
        lambda self, event: event.kind == "end" or os.kill(os.getpid(), number),
    )
    code, out, _ = run("train", recipe, "--output", tmp_path / "run")
    assert code == 128 + number
    assert f"Resume with: syntaxlm train --resume {tmp_path / 'run'}" in out
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_an_interrupt_ends_with_130_and_one_line(run, trained, text, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("syntaxlm.cli.options.load_model", interrupt)
    assert run("parse", trained.prpn, text("a\n")) == (130, "", "syntaxlm: interrupted\n")


def test_as_a_module_a_closed_pipe_is_no_error_and_output_is_utf_8(text, trained):
    """head reads one line of many; the locale is ASCII."""
    path = text("naïve “cat” and the dog …\n" * 4000)
    command = [sys.executable, "-m", "syntaxlm", "parse", str(trained.prpn), str(path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "ascii"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        first = process.stdout.readline().decode("utf-8")
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert parse_brackets(first)[0].words == ("naïve", "cat", "and", "the", "dog")
    assert errors == ""


def test_output_goes_into_a_pipe_and_through_a_link_without_replacing_them(trained, tmp_path):
    text, target, link, pipe = (tmp_path / name for name in ("in.txt", "target.mrg", "link.mrg", "pipe"))
    text.write_text("the dog sees a cat\n")
    target.write_text("old\n")
    link.symlink_to(target)
    assert cli.main(["parse", str(trained.prpn), str(text), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert target.read_text().startswith("(X ")
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    read: list[str] = []
    reader.start()
    assert cli.main(["parse", str(trained.prpn), str(text), "-o", str(pipe)]) == 0
    reader.join(10)
    assert read == [target.read_text()]
    assert pipe.is_fifo()


def test_brackets_of_characters_write_a_space_as_its_token(of_characters, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text("a dog\n")
    assert cli.main(["parse", str(of_characters), str(text), "-o", str(tmp_path / "out.mrg")]) == 0
    assert read_brackets(tmp_path / "out.mrg")[0].words == ("a", "_", "d", "o", "g")
