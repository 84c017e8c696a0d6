"""The example of a Hugging Face Space, with the parts of gradio that it uses."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

APP = Path(__file__).parents[2] / "examples" / "hugging-face-space" / "app.py"


class Error(Exception):
    """An error that gradio shows."""


def test_the_space_shows_the_tree_and_a_surprisal_for_each_word(monkeypatch):
    parts = {name: lambda *given, **options: (given, options) for name in ("Interface", "Textbox", "HTML", "Dataframe")}
    monkeypatch.setitem(sys.modules, "gradio", SimpleNamespace(Error=Error, **parts))
    (read,), options = runpy.run_path(str(APP))["app"]
    assert len(options["outputs"]) == 2
    picture, words = read("The old man the boats.")
    assert picture.startswith("<svg")
    assert "boats" in picture
    assert words["word"].tolist() == ["The", "old", "man", "the", "boats."]
    assert (words["surprisal_word"] > 0).all()
    with pytest.raises(Error, match="Write a sentence"):
        read(" ")
