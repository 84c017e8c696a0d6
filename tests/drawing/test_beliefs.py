"""The picture of beliefs after each word."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from syntaxlm.drawing.beliefs import SentenceBeliefs, beliefs_picture
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.parsing.analysis import beliefs_of
from syntaxlm.storage.combination import combine
from tests.drawing.reading import drawn, numbers, of_role, read_svg, styled_roles, tooltip, used_roles
from tests.grammar_models import grammar

WORDS = ["knew", "the", "answer", "was"]


@pytest.fixture
def beliefs():
    """*knew the answer* is a constituent, until *was* is read; then *the answer was ...* is probable."""
    ended, open_from = np.zeros((5, 4, 4)), np.zeros((4, 4))
    ended[2:, 1, 2] = 0.99
    ended[2, 0, 2], ended[3, 0, 2], ended[4, 0, 3] = 0.6, 0.03, 1.0
    open_from[1, 1], open_from[2, 1], open_from[3, 1] = 1.0, 0.4, 0.96
    ended[3, 0, 1] = 0.15  # is not drawn
    update = np.array([0, 0, 0, 0.9, 4.0])
    return SentenceBeliefs(WORDS, [False] * 3 + [True], ended, open_from, np.arange(1.0, 6), update, "Model: en")


def test_what_a_word_changes_is_marked_with_the_probabilities_before_and_after(beliefs):
    root = read_svg(beliefs_picture(beliefs).svg())
    assert list(map(tooltip, of_role(root, "fell"))) == ["knew the answer: 60→3%", ""]  # and one in the legend
    assert list(map(tooltip, of_role(root, "rose"))) == ["the answer was ...: 40→96%", ""]
    plain = [tooltip(cell) for cell in of_role(root, "cell")][:-2]
    assert plain == [
        "the ...: 100%", "the answer: 99%", "the answer ...: 40%", "knew the answer: 60%", "the answer: 99%",
        "the answer: 99%", "knew the answer was: 100%",
    ]  # fmt: skip


def test_each_row_has_the_words_read_so_far_and_the_measures(beliefs):
    picture = beliefs_picture(beliefs)
    root = read_svg(picture.svg())
    assert [drawn(word) for word in of_role(root, "word")] == WORDS[:3]
    assert [drawn(word) for word in of_role(root, "unknown")] == ["was"] * 2
    bars = [float(bar.get("width")) for bar in of_role(root, "bar")]
    assert bars[::2] == pytest.approx([58 / 4, 29, 43.5, 58], abs=0.1)  # none for the end
    assert bars[1::2] == [0, 0, 0, 58]
    assert "was: knew the answer 60→3, the answer 99, the answer was ... 40→96." in picture.description
    assert used_roles(picture.svg()) <= styled_roles(picture.svg())


def test_the_beliefs_of_a_combination_are_those_of_its_grammar():
    alone = beliefs_of(grammar("simple-pcfg"), "mine", "the old cat sleeps")
    combined = beliefs_of(combine([grammar("compound-pcfg"), grammar("simple-pcfg")]), "both", "the old cat sleeps")
    np.testing.assert_allclose(combined.ended, alone.ended)
    np.testing.assert_allclose(combined.update, alone.update)
    assert alone.model == "Model: mine"
    assert combined.model == "Model: simple-pcfg, member 2 of the combination both"


def test_numbers_and_legend_of_a_right_to_left_sentence_can_be_read(beliefs):
    """Direction marks would swap the numbers around an arrow, so that a rise looks like a fall."""
    mirrored = replace(beliefs, words=["ידע", "את", "התשובה", "היה"])
    picture = beliefs_picture(mirrored)
    root = read_svg(picture.svg())
    assert [cell.text for cell in of_role(root, "figure") if "→" in (cell.text or "")] == ["60→3"]
    assert [cell.text for cell in of_role(root, "inverse") if "→" in (cell.text or "")] == ["40→96"]
    legend = next(note for note in of_role(root, "note") if "Constituents" in drawn(note))
    group = next(element for element in root.iter() if legend in element)
    moved = float(re.findall(r"[\d.]+", group.get("transform", ""))[0])
    assert moved + numbers(legend, "x")[0] == pytest.approx(picture.width - MARGIN, abs=0.1)
