"""Messages stay readable, whatever they quote."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError, InputWarning, amount
from syntaxlm.text.normaliser import UntaggedTokenError


@pytest.mark.parametrize(("number", "text"), [(0, "0 words"), (1, "1 word"), (1200, "1,200 words")])
def test_one_is_singular(number, text):
    assert amount(number, "word") == text


@pytest.mark.parametrize("type_", [InputError, InputWarning])
def test_a_message_that_quotes_a_long_text_keeps_its_place_and_its_advice(type_):
    message = str(type_(f"text.txt, line 3: found {'x' * 1_000_000}; expected a word. Split the line\nsecond line"))
    assert len(message) < 5_000
    assert message.startswith("text.txt, line 3: found xxx")
    assert message.endswith("xxx; expected a word. Split the line\nsecond line")
    short = "text.txt: found x\n" * 1000
    assert str(type_(short)) == short


@pytest.mark.parametrize("words", [["parse", "X"], ["X"], ["parse", "en", "--X"], ["train", "prpn-toy", "--model.X=1"]])
def test_arguments_of_any_length_give_short_messages(words, capsys):
    long = [word.replace("X", "x" * 100_000) for word in words]
    try:
        code = main(long)
    except SystemExit as end:
        code = end.code
    assert (code, len(capsys.readouterr().err) < 10_000) == (2, True)


CONTROLS = "a\x1b[31mb\x07\x9bc\x7f\rd\u202ee\u2066f"
ESCAPED = r"a\x1b[31mb\x07\x9bc\x7f\rd\u202ee\u2066f"


@pytest.mark.parametrize("type_", [InputError, InputWarning, UntaggedTokenError])
def test_control_characters_of_a_quoted_text_are_escapes(type_):
    assert ESCAPED in str(type_(f"text.txt: found {CONTROLS}"))


@pytest.mark.parametrize("text", ["line 1\n\tline 2", "naïve – 猫 שלום\u200d\u00a0", r"a\x1b"])
def test_other_text_is_unchanged(text):
    assert str(InputError(text)) == text


@pytest.mark.parametrize(
    "command",
    [
        ["parse", "{model}X", "no.txt"],
        ["evaluate", "trees", "{model}X.mrg", "X.mrg"],
        ["train", "X", "-o", "new"],
        ["train", "prpn-toy", "-o", "new", "--model.X", "1"],
        ["X"],
        ["parse", "en", "--X"],
        ["models", "info", "{model}"],
        ["evaluate", "perplexity", "{model}", "{text}"],
        ["score", "{model}", "{text}", "-o", "{out}"],
        ["parse", "en-fast", "The old X man", "--format", "tree"],
    ],
)
def test_names_and_quoted_words_do_not_control_the_terminal(command, trained, tmp_path, capsys):
    model, text = tmp_path / f"model{CONTROLS}", tmp_path / f"text{CONTROLS}"
    shutil.copytree(trained.lstm, model)
    text.write_text(f"the cat {CONTROLS}\n")
    names = {"model": model, "text": text, "out": tmp_path / f"out{CONTROLS}"}
    words = [word.replace("X", CONTROLS).format(**names) for word in command]
    with contextlib.suppress(SystemExit):
        main(words)
    printed = "".join(capsys.readouterr())
    assert printed
    assert not any(sign in printed for sign in "\x1b\x07\x9b\x7f\r")


@pytest.mark.parametrize("table", ["item,coX,sentence\n1,a,the cat\n", "item,condition,sentence\n1,aX,the cat\n"])
def test_names_in_a_table_do_not_control_the_terminal(table, trained, tmp_path, capsys):
    (tmp_path / "items.csv").write_text(table.replace("X", CONTROLS.replace("\r", "")))
    main(["items", str(trained.lstm), str(tmp_path / "items.csv")])
    printed = "".join(capsys.readouterr())
    assert len(printed) > 50
    assert not any(sign in printed for sign in "\x1b\x07\x9b\x7f")
