"""Messages stay readable, whatever they quote."""

from __future__ import annotations

import pytest

from syntaxlm.app.cli import main
from syntaxlm.core.errors import InputError, InputWarning, amount


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
