"""The whole parser: one meaning per option, closest matches, help, paths declared as inputs or outputs."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated

import pytest

from syntaxlm import cli
from syntaxlm.cli.app import app_of, parse
from syntaxlm.cli.command import Command, Folder, Group
from syntaxlm.core.declarations import Option, OutputFile, Shown, With
from syntaxlm.core.errors import InputError

LEAVES = cli.all_commands()
PATHS = {"MODEL", "TEXT", "ITEMS", "TREEBANK", "FILE", "FILES", "DIR", "FOLDER", "TREES", "TREE", "TRAIN", "RECIPE",
         "RULE", "PREDICTED", "GOLD", "CANDIDATES", "QUESTIONS", "ANSWERS", "PAIRS", "CANDIDATES GOLD"}  # fmt: skip


def test_numbers_of_any_size_are_read_or_refused_in_a_short_message():
    numbers = [option for leaf in LEAVES.values() for option in leaf.options.values() if option.type in (int, float)]
    assert len(numbers) > 20
    texts = "1" + "0" * 30, "9" * 400, "-" + "9" * 400, "9" * 9999, "nan", "1e999"
    assert all(len(message_of(option, text)) < 250 for option in numbers for text in texts)


def message_of(option: Option, text: str) -> str:
    try:
        option.read(text)
    except InputError as error:
        return str(error)
    return ""


def options(command: Command) -> list[Option]:
    return [option for option in command.options.values() if not option.shown.is_positional]


def test_an_option_has_one_form_in_all_commands():
    forms, names, defaults = defaultdict(set), defaultdict(set), defaultdict(set)
    for command in LEAVES.values():
        for option in options(command):
            long = option.names[-1]
            metavar = option.shown.metavar if option.shown.metavar in PATHS else None
            forms[long].add((option.type is bool, metavar))
            names[long].add(option.names)
            defaults[long].add(str(option.default))
    # FILE or DIR; one file, or candidates and gold trees; trees as a file or as text
    assert {name for name, found in forms.items() if len(found) > 1} <= {"--output", "--tune", "--gold"}
    assert all(len(found) == 1 for found in names.values())
    assert all(len(defaults[f"--{name}"]) == 1 for name in ("decoder", "layer", "protocol", "ties", "theme"))


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_is_quiet_on_request_and_has_an_output_a_help_and_an_example(name):
    command = LEAVES[name]
    known = {name for option in options(command) for name in option.names}
    assert {"-q", "--quiet"} <= known
    without_output = {"tune stops", "serve", "models push"}  # the model's folder; a page; the hub
    assert ({"-o", "--output"} <= known) == (name not in without_output)
    without_results = {"draw", "recipes show", "completion", "serve", "models download", "models push", "models export"}
    assert ("--json" in known) == (name not in without_results)
    assert command.example.startswith(f"syntaxlm {name}")


@pytest.mark.parametrize("name", LEAVES)
def test_help_consists_of_a_sentence_explanations_and_a_sentence_for_each_option(name):
    command = LEAVES[name]
    for text in (command.docstring.summary, *(option.help for option in command.options.values())):
        first = text.partition("\n")[0]
        assert re.fullmatch(r"[`A-Z-].*[.]", first), first
        assert text.count("`") % 2 == 0
        assert len(first.split()) < 70
    paragraphs = re.split(r"\n(?:- |\n)", command.docstring.description)
    assert not [paragraph for paragraph in paragraphs if len(paragraph.split()) > 75]
    assert command.docstring.summary not in command.docstring.description


def test_the_default_of_an_option_is_in_its_help():
    for command in LEAVES.values():
        for option in options(command):
            if type(option.default) in (int, float, str):
                value = re.escape(option.default if isinstance(option.default, str) else format(option.default, ",g"))
                assert re.search(rf"`{value}` \(default|Default: `?{value}`?[.,]", option.help), option


@pytest.mark.parametrize("name", LEAVES)
def test_options_of_a_heading_follow_each_other_in_the_help_and_output_comes_last(name):
    command = LEAVES[name]
    found = [option.heading for option in command.options.values()]
    assert found == sorted(found, key=command.headings.index)
    assert command.headings[-1] == "Output"
    assert all(command.headings)


def test_every_command_is_below_a_heading_of_the_help(capsys):
    words = [word for words in cli.COMMAND_HEADINGS.values() for word in words]
    assert sorted(words) == sorted(cli.COMMANDS)
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"─ {title} ─" in out for title in cli.COMMAND_HEADINGS)


def test_help_in_a_terminal_has_lists_headings_and_no_code_marks(capsys):
    assert cli.main(["score", "--help"]) == 0
    out = capsys.readouterr().out
    assert "`" not in out
    assert "─ Displayed words ─" in out
    assert re.search(r"^│ +- reset \(default\): each sentence by itself", out, re.MULTILINE)
    assert "[choices: auto, light, dark]" in out  # no list explains them


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_that_runs_a_model_has_a_device_and_its_model_is_called_model(name):
    command = LEAVES[name]
    models = [command.options[key] for key in ("model", "models", "also", "like") if key in command.options]
    assert all(option.shown.metavar == "MODEL" for option in models)
    # Commands without a device: tables, formats, and classifiers of fixed states, which are trained on the CPU.
    without = {"models info", "models export", "ngram to-arpa", "ngram from-arpa", "tune stops"}
    has_device = "device" in command.options
    assert has_device == ((bool(models or command.takes_overrides) and name not in without) or name == "quickstart")


def test_models_of_transformers_are_in_the_help_of_commands_that_take_them_and_refused_by_all_others(refused):
    for command in LEAVES.values():
        for option in command.options.values():
            if option.shown.metavar == "MODEL" and option.shown.is_positional:
                assert ("hf:NAME" in option.help) == (option.name not in command.needs)
    taking = {"score", *(f"evaluate {one}" for one in ("perplexity", "pairs", "completion", "reading-times"))}
    assert not [name for name in taking if LEAVES[name].needs]
    model = "hf:no-such-user/no-such-model"
    for words in (
        ["parse", model, "a sentence"],
        ["parse", "no-such-folder", "a sentence", "--also", model],
        ["draw", model, "a sentence"],
        ["report", model, "-o", "page"],
        ["grammar", model],
        ["generate", model],
        ["combine", "no-such-folder", model, "-o", "combined"],
        ["combine", "no-such-folder", "--scorer", model, "-o", "combined"],
        ["focus", "simple-pcfg-text", "-o", "focused", "--also", model],
        ["rerank", model, "k-best.conllu"],
        ["serve", model],
        ["models", "info", model],
        ["ngram", "to-arpa", model],
        ["tune", "cache", model, "text"],
        ["tune", "stops", model, "trees", "--valid", "trees"],
        ["evaluate", "parse", model, "trees"],
        ["evaluate", "agreement", "text", "no-such-folder", model],
        ["evaluate", "boundaries", model, "text"],
        ["evaluate", "logic", model, "pairs"],
        ["evaluate", "perplexity", model, "text", "--cache-weight", "0.1", "--cache-theta", "1"],
    ):
        error = refused(*words)
        assert f"{model}: a model of the library transformers only scores text, but " in error
        assert " needs " in error


@pytest.mark.parametrize("name", LEAVES)
def test_every_path_is_declared_as_input_or_output(name):
    command = LEAVES[name]
    declared = {option.name for option in (*command.inputs, *command.outputs)}
    for option in command.options.values():
        assert (option.name in declared) == (option.shown.metavar in PATHS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("parse M T --otput x", "syntaxlm parse: error: unrecognized option --otput; did you mean --output?"),
        ("data toy --sentence 3", "unrecognized option --sentence; did you mean --sentences?"),  # -o is missing, too
        ("pars M", "syntaxlm: error: unknown command 'pars'; did you mean parse?"),
        ("evaluate perplexty M T", "syntaxlm evaluate: error: unknown command 'perplexty'; did you mean perplexity?"),
        ("evaluate --jsn perplexity", "syntaxlm evaluate: error: unrecognized option --jsn"),
        ("parse M T --format latx", "invalid choice: 'latx'; did you mean latex? (choose from brackets, json, latex"),
        ("generate M U", "syntaxlm generate: error: unexpected argument 'U'"),
        (
            "items M T --condition head attractor",
            "syntaxlm items: error: unexpected argument 'attractor'; for several values, repeat the option:"
            " --condition head --condition attractor",
        ),
        ("parse M T --schedule.epochs 3", "unrecognized option --schedule.epochs; this command does not take"),
        ("score M T --device gpu", "argument --device: found 'gpu'; expected cpu, cuda, cuda:N, mps or auto"),
        ("parse M T --layer one", "argument --layer: found 'one'; expected an integer from 1 to 100"),
        ("parse M T --layer 0", "argument --layer: found '0'; expected an integer from 1 to 100"),
        ("data toy -o x --sentences 1_0", "argument --sentences: found '1_0'; expected an integer, 1 or more"),
        ("data toy -o x --sentences 9999999999", "found '9999999999'; expected at most 2,147,483,647"),
        ("generate M --temperature hot", "argument --temperature: found 'hot'; expected a number"),
        ("parse M T --decoder mbr --decoder cky", "--decoder and --decoder: expected one of them, once"),
        ("score M T --json --format=csv", "--json and --format: expected one of them, once"),
        ("parse", "the following arguments are required: MODEL (see"),
    ],
)
def test_a_slip_is_answered_in_one_line_with_the_closest_match_and_the_help_to_read(capsys, words, message):
    assert cli.main(words.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert re.search(r"\(see syntaxlm( [a-z]+)* --help\)$", error)


def test_the_bare_command_prints_help_and_a_bare_group_its_help_on_stderr(capsys):
    assert cli.main([]) == 0
    out, error = capsys.readouterr()
    assert out.startswith("Usage: syntaxlm ")
    assert re.search(r"^\W+parse +Parse plain or tagged text\.", out, re.MULTILINE)
    assert not error
    for name, group in cli.COMMANDS.items():
        if isinstance(group, Group):
            assert cli.main([name]) == 2
            out, error = capsys.readouterr()
            assert not out
            assert error.startswith(f"Usage: syntaxlm {name} ")


def test_an_option_may_include_its_value_and_two_dashes_end_the_options():
    def command(output: OutputFile | None = None, text: Annotated[str, Shown("TEXT", is_positional=True)] = ""): ...

    app = app_of("p", {"c": command})
    assert parse(app, ["c", "-oout.txt", "--", "--text"])[1] == {"output": Path("out.txt"), "text": "--text"}
    assert parse(app, ["c", "--output=-"])[1] == {"output": None}
    for text in ("a sentence -- with dashes", "- he said", "-1", "-1e-3", "-0.5 / 0.5 - -0.5 / -0.5"):
        assert parse(app, ["c", text, "-o", "x"])[1]["text"] == text


def test_quiet_prints_errors_but_no_warnings(capsys, trained, toy, tmp_path):
    arguments = ["score", str(trained.lstm), str(toy / "test.txt"), "--context", "carry"]
    assert cli.main(arguments) == 0
    out, error = capsys.readouterr()
    assert "syntaxlm: warning: " in error
    assert cli.main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr() == (out, "")
    assert cli.main(["evaluate", "perplexity", "-q", str(tmp_path / "none"), "x"]) == 2
    assert "no such model folder" in capsys.readouterr().err


def test_an_unavailable_device_is_reported(capsys, trained, toy, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert cli.main(["parse", str(trained.prpn), str(toy / "test.txt"), "--device", "cuda:1"]) == 2
    assert "device 'cuda:1': not available; available here: cpu" in capsys.readouterr().err
    assert cli.main(["parse", str(trained.prpn), str(toy / "test.txt"), "--device", "auto"]) == 0
    assert cli.main(["train", "lstm-toy", "-o", "x", "--device", "cuda:1"]) == 2
    assert "CUDA_VISIBLE_DEVICES=1" in capsys.readouterr().err


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"syntaxlm \d+\.\d+\.\d+\n", capsys.readouterr().out)


WITHOUT_EFFECT = [
    ("score M T --theme dark", "--theme: applies only with --picture; add --picture FILE, or omit it"),
    ("score M T --picture-dpi 600", "--picture-dpi: applies only with --picture FILE.png; add --picture FILE.png"),
    ("score M T --picture a.svg --picture-dpi 600", "--picture-dpi: applies only with --picture FILE.png"),
    ("score M T --word-column w", "--word-column: applies only with --words; add --words FILE"),
    ("score M T --spillover 2", "--spillover: applies only with --words or --group or"),
    ("score M T --frequency-column n", "--frequency-column: applies only with --frequencies"),
    ("items M T --picture-width 85", "--picture-width: applies only with --picture"),
    ("items M T --picture-kind contrasts", "--picture-kind: applies only with --picture"),
    ("items M T --picture-region verb", "--picture-region: applies only with --picture"),
    ("items M T --table means", "--table: found --format text; expected tsv, csv or parquet, which have rows"),
    ("items M T --frequencies en --json", "--frequencies: found --format json"),
    ("train R -o D --picture-width 85", "--picture-width: applies only with --picture"),
    ("compare R -o D --theme light", "--theme: applies only with --picture"),
    ("compare R -o D --max-words 10", "--max-words: applies only with --treebank; add --treebank TREEBANK"),
    ("compare R -o D --preprocessing ud", "--preprocessing: applies only with --treebank"),
    ("report M -o D --decoder cky", "--decoder: applies only with TREEBANK; add TREEBANK, or omit it"),
    ("parse M T --sample-seed 0", "--sample-seed: applies only with --samples; add --samples N"),
    ("parse M --text a --show-unread", "--show-unread: found --format tree; expected brackets or latex"),
    ("draw M sentence --preprocessing ud", "a SENTENCE: found --preprocessing; expected --gold"),
    ("draw M --gold (A(B(b))(C(c))) --contractions keep", "--gold: found --contractions; expected a SENTENCE"),
    ("draw trees.conllu --punctuation drop", "trees.conllu: found --punctuation with a file of dependency trees"),
    ("generate M --punctuation keep", "--punctuation: applies only with --prompt; add --prompt WORDS"),
    ("grammar M T --rule N --symbols 3", "--symbols: found --rule, which lists constituents instead of symbols"),
    ("rerank M K --score s", "--score: applies only with --weight or --tune or --gold"),
    ("evaluate reading-times M --words W --frequencies F --subject s", "--subject: applies only with --export"),
    ("evaluate reading-times M --words W --frequencies F --key k", "--key: applies only with --times"),
    ("evaluate reading-times M --words W --frequencies F --allow-unmatched", "--allow-unmatched: applies only with"),
    ("evaluate reading-times M --words W --frequencies F --theme dark", "--theme: applies only with --picture"),
    ("data sentences T --seed 3", "--seed: applies only with --valid-output"),
    ("data sentences T --valid-share 0.1", "--valid-share: applies only with --valid-output"),
    ("data trees T --shape left --seed 3", "--seed: applies only with --shape random; add --shape random"),
]


@pytest.mark.parametrize(("words", "message"), WITHOUT_EFFECT)
def test_an_option_without_the_one_that_it_belongs_to_is_refused(refused, monkeypatch, tmp_path, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*words.split())
    assert not list(tmp_path.iterdir())


def test_options_that_others_belong_to_exist_and_each_such_option_is_tested():
    marked = [
        (command.name, option, option.mark(With))
        for command in LEAVES.values()
        for option in command.declared.values()
        if option.mark(With)
    ]
    for name, option, others in marked:
        assert set(others.names) & set(LEAVES[name].declared), (name, option.name)
    tested = " ".join(words for words, _ in WITHOUT_EFFECT)
    job = {"ray_address", "lines_per_shard", "bad_lines", "max_line_bytes", "id_column", "column"}  # see test_jobs.py
    assert {f"--{option.names[-1].strip('-')}" for _, option, _ in marked if option.name not in job} <= {
        *tested.split(), "--protocol", "--layer"
    }  # fmt: skip


def test_options_with_the_one_that_they_belong_to_are_read(run, refused, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sees\n")
    assert run("data", "trees", text, "--shape", "random", "--seed", 3)[0] == 0
    for words in (
        ["--samples", 2, "--sample-seed", 0],
        ["--workers", 1, "-o", tmp_path / "job", "--bad-lines", "skip"],
    ):
        assert "no-such-model: no such model folder" in refused("parse", "no-such-model", text, *words)


def outputs_of(command: Command) -> list[Option]:
    return [option for option in command.outputs if not isinstance(option.shown, Folder)]


@pytest.mark.parametrize("name", [name for name, command in LEAVES.items() if outputs_of(command)])
def test_each_output_is_checked_before_anything_is_read(refused, tmp_path, name):
    command = LEAVES[name]
    (tmp_path / "folder.csv").mkdir()
    words = [*name.split()]
    for option in command.options.values():
        if option.default is MISSING:
            value = option.choices[0] if option.choices else "no-such-file"
            folder = isinstance(option.shown, Folder)
            words += [
                *([] if option.shown.is_positional else [option.names[-1]]),
                tmp_path / "runs" if folder else value,
            ]
    for option in outputs_of(command):
        for path, fault in (("folder.csv", "it is a folder"), ("missing/a.csv", "the folder")):
            error = refused(*words, option.names[-1], tmp_path / path)
            assert f"{tmp_path / path}: cannot be written: {fault}" in error
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]
