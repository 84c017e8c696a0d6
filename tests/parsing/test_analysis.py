"""From a stored model and a sentence to its pictures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.sentence import Drawing, map_pictures, over_earlier_steps
from syntaxlm.models.prpn import PRPNConfig
from syntaxlm.models.registry import build_model
from syntaxlm.parsing.analysis import analyse, maps_of, read_gold
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.text.vocabulary import Vocabulary
from tests.drawing.reading import drawn, of_role, read_svg, styled_roles, tooltip, used_roles

GOLD = "(S (NP-SBJ (DT The) (NN cat)) (VP (VBD cost) (NP ($ $) (CD 50) (-NONE- *U*))))"


def tiny(normaliser: NormaliserSettings, text: str) -> ModelBundle:
    """A model with random weights and the vocabulary of a text."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.build(Counter(Normaliser(normaliser).tokens(text)))
    config = PRPNConfig(embedding_size=6, hidden_size=8, memory_slots=3, look_back=2)
    return ModelBundle(build_model(config, len(vocabulary)).eval(), ModelSettings(config, normaliser), vocabulary)


@pytest.fixture
def penn() -> ModelBundle:
    return tiny(NormaliserSettings(lower_case=True, numbers="whole", drop_words=("$",)), "the cat cost N dollars")


def test_a_line_is_parsed_like_by_the_command_parse_and_its_words_are_kept_as_written(penn):
    analysis = analyse(penn, "The CAT cost $ 1,000 Dollars", ParseOptions(decoder="unbiased", **AS_WRITTEN))
    (parse,) = parse_lines(penn, ["The CAT cost $ 1,000 Dollars"], ParseOptions(decoder="unbiased"))
    assert analysis.words == ("The", "CAT", "cost", "1,000", "Dollars")
    assert analysis.tokens == ("the", "cat", "cost", "N", "dollars")
    assert analysis.tree == parse.tree
    assert list(analysis.distances) == parse.distances


def test_a_treebanks_words_are_neither_split_nor_dropped(penn):
    gold = read_gold(GOLD)
    analysis = analyse(penn, gold.words, ParseOptions(decoder="unbiased"))
    assert analysis.words == analysis.tree.words == gold.words == ("The", "cat", "cost", "$", "50")
    assert analysis.tokens == ("the", "cat", "cost", "$", "N")
    assert analysis.unknown == (False, False, False, True, False)
    assert len(analysis.distances) == 5


def test_a_parse_is_displayed_as_tree_and_distances(penn):
    (parse,) = parse_lines(penn, ["The cat cost 5 dollars"])
    words = [drawn(word) for word in of_role(read_svg(parse._repr_svg_()), "word")]
    assert words == ["The", "cat", "cost", "5", "dollars"]


@pytest.mark.parametrize("decoder", ["biased", "unbiased"])
def test_the_requested_decoder_is_used(penn, decoder):
    line = "the cat cost N dollars the cat cost N"
    (parse,) = parse_lines(penn, [line], ParseOptions(decoder=decoder))
    options = ParseOptions(decoder=decoder, **AS_WRITTEN)
    assert analyse(penn, line, options).tree == analyse(penn, line.split(), options).tree == parse.tree


def test_a_sentence_without_words_raises_an_error(penn):
    with pytest.raises(InputError, match="found no words that the model reads in '\\$'"):
        analyse(penn, "$")


def test_words_of_a_character_level_model_are_characters_with_visible_spaces():
    stored = tiny(NormaliserSettings(units="characters"), "the cat")
    analysis = analyse(stored, "the  cat")
    root = read_svg(Drawing(analysis).picture().svg())
    assert [drawn(word) for word in of_role(root, "word")] == ["t", "h", "e", "␣", "c", "a", "t"]
    assert len(of_role(root, "bar")) == 6


def test_maps_equal_those_of_the_model_and_attention_sums_to_at_most_one(prpn):
    maps = maps_of(prpn, ["the", "cat", "sees", "a", "dog", "and", "sleeps"]).over_steps
    assert set(maps) >= {"memory gate", "next gate", "predict attention"}
    for name, values in maps.items():
        assert values.shape == (8, 4)
        if "attention" in name:
            matrix = over_earlier_steps(values)
            assert (np.nansum(matrix, axis=1) <= 1 + 1e-5).all()
            assert np.nansum(matrix, axis=1).max() > 0.1


def test_a_map_has_the_value_of_every_slot_under_both_words(prpn):
    analysis = analyse(prpn, "the cat sees a dog")
    maps = maps_of(prpn, analysis.tokens)
    values = maps.over_steps["memory gate"]
    picture = next(one for one in map_pictures(analysis.words, maps) if one.title == "memory gate")
    document = picture.svg()
    cells = dict(tooltip(cell).rsplit(": ", 1) for cell in of_role(read_svg(document), "cell") if tooltip(cell))
    # With four slots, the last word cannot attend to BOS. Slot k of a step is the step k + 1 before it.
    assert {name: float(value) for name, value in cells.items()} == {
        f"{reader} → {seen}": pytest.approx(values[row, row - 1 - column], rel=1e-3)
        for row, reader in enumerate(analysis.words, 1)
        for column, seen in enumerate([prpn.vocabulary.begin, *analysis.words[:-1]])
        if row - 4 <= column < row
    }
    assert used_roles(document) <= styled_roles(document)


def test_a_model_without_maps_or_distances_raises_an_error(lstm):
    with pytest.raises(InputError, match="no gates or attention"):
        maps_of(lstm, ["the", "cat"])
    with pytest.raises(InputError, match="does not parse"):
        analyse(lstm, "the cat")


def test_a_gold_tree_is_read_from_brackets_or_a_file(tmp_path):
    path = tmp_path / "gold.mrg"
    path.write_text("(S (A a) (B b))\n(S (A c) (B d))\n", encoding="utf-8")
    assert read_gold(str(path), 2).words == ("c", "d")
    assert read_gold(" (S (A c) (B d))").words == ("c", "d")
    assert read_gold(GOLD, preprocessing="ptb-keep").words == ("The", "cat", "cost", "50")
    with pytest.raises(InputError, match=r"gold.mrg: found 2 trees; expected one. Choose it with a number from 1 to 2"):
        read_gold(str(path))
    for number in (0, 3):
        with pytest.raises(InputError, match=rf"gold.mrg: there is no tree {number}; the file has trees 1 to 2"):
            read_gold(str(path), number)
    with pytest.raises(InputError, match="cannot be read"):
        read_gold(str(tmp_path / "none.mrg"))
    with pytest.raises(InputError, match="the gold tree, line 1"):
        read_gold("(S (A a)")


def test_a_page_lists_unknown_words(penn):
    gold = read_gold(GOLD)
    drawing = Drawing(analyse(penn, gold.words), gold)
    page = drawing.page()
    assert "Underlined words are not in the model&#39;s vocabulary: $" in page
    assert "(NP (DT The) (NN cat))" in page
    assert "vocabulary" not in Drawing(analyse(penn, "the cat")).page()
    assert "vocabulary: xyzzy</p>" in Drawing(analyse(penn, "xyzzy xyzzy")).page(), "each word is listed once"


def test_a_drawing_stacks_its_maps_under_its_tree(prpn):
    analysis = analyse(prpn, "the cat sees a dog")
    whole = Drawing(analysis, maps=maps_of(prpn, analysis.tokens)).picture()
    maps = map_pictures(analysis.words, maps_of(prpn, analysis.tokens))
    tree = Drawing(analysis).picture()
    assert whole.height > tree.height + max(one.height for one in maps)
    root = read_svg(whole.svg())
    assert [drawn(title) for title in of_role(root, "title")] == [one.title for one in maps]
