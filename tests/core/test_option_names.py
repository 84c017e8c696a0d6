"""Messages name options as those write them who read the message."""

from __future__ import annotations

import pandas as pd
import pytest

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.core.option_names import command_line, option_name
from syntaxlm.data.input_table import InputTable


@pytest.mark.parametrize(
    ("flag", "value", "in_command", "in_python"),
    [
        ("--column", None, "--column", "column=..."),
        ("--group", "my item", "--group 'my item'", "group='my item'"),
        ("--sentence-column", "line", "--sentence-column line", "sentence='line'"),
        ("--min-time", 1, "--min-time 1", "minimum=1"),
        ("syntaxlm train --resume", "run", "syntaxlm train --resume run", "syntaxlm.resume('run')"),
    ],
)
def test_an_option_is_a_flag_for_commands_and_a_parameter_in_python(flag, value, in_command, in_python):
    with command_line():
        assert option_name(flag, value) == in_command
    assert option_name(flag, value) == in_python


def test_a_missing_column_is_chosen_as_the_reader_of_the_message_writes_it(tmp_path, capsys):
    (tmp_path / "words.csv").write_text("place,line\n1,1\n")
    assert main(["score", "en-fast", "--words", str(tmp_path / "words.csv")]) == 2
    assert "no column 'word'; found place, line. Choose one with --word-column" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"Choose one with word_column=\.\.\."):
        InputTable.read(pd.DataFrame({"place": [1]})).column("word", "--word-column")
