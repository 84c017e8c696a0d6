"""The page on other languages: its commands run on a small Spanish text, and its models know the words of its items."""

from __future__ import annotations

import json
import shlex

from tests.docs.test_stimuli import blocks, files_of

PAGE = "docs/guides/your-language.md"
SUBJECTS = {"está": ("La llave", "La carta"), "están": ("Las llaves", "Las cartas")}
OF = ("", " del armario", " de los armarios", " del vecino", " de los vecinos")
PLACES = ("en la mesa", "en la cocina")


def test_the_commands_for_your_own_text_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences = [
        f"{subject}{of} {verb} {place}.\n\n"
        for verb, subjects in SUBJECTS.items()
        for subject in subjects
        for of in OF
        for place in PLACES
    ]
    (tmp_path / "es.txt").write_text("".join(sentences) * 3, encoding="utf-8")
    for name, text in files_of(PAGE).items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    # The block of an LSTM takes forty minutes, and that of a published model needs a network.
    (commands,) = [body for language, body, _ in blocks(PAGE) if language == "sh" and "kn5-text" in body]
    for command in commands.splitlines():
        code, _, error = run(*shlex.split(command)[1:])
        assert code == 0, error
        assert "warning" not in error

    code, printed, _ = run(*shlex.split(command)[1:], "--format", "json")
    figures = json.loads(printed)
    assert (code, figures["items"]) == (0, 2)
    assert figures["unknown_words"]["es-kn5"] == {}
