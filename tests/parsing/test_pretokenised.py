"""Parsing of text that is tokenised: one leaf for each string between white space."""

from __future__ import annotations

import dataclasses
import json

import pytest

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.data.treebanks import read_treebank, write_words
from syntaxlm.evaluation.trees import evaluate_parsing, evaluate_trees
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import ModelBundle, read_model
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.trees.tree import read_brackets

TOKENS = "= * :) do n't cannot don't ( x ) $5 1/2 -- , . U.S. `` ''"
LINES = [TOKENS, "", ",", "= =", "cannot", "the old cat", "( ) [ ] { }", "a\u00a0b c\u200bd"]
GOLD = """\
( (S (LS *) (NP-SBJ (NN x)) (VP (SYM =) (NP (CD 1\\/2)))) )
( (S (NP-SBJ (PRP We)) (VP (MD cannot) (VP (VB go)))) )
( (S (NP-SBJ (PRP They)) (VP (VBP don't) (NP (UH :\\))) (NP (NN $5)) (NP (NN (x))))) )
( (S (LS =)) )
( (S (NP-SBJ (NNS Dogs)) (VP (VBP bark) (ADVP (RB loudly))) (. .)) )
""".replace(":\\)", ":D").replace("(NN (x))", "(NN option-LRB-s-RRB-)")


@pytest.fixture(params=[{}, {"splitting": "punctuation"}, {"drop_punctuation": True}, {"drop_words": ("=", "cat")}])
def model(prpn, request) -> ModelBundle:
    """A model whose normaliser splits or drops words."""
    normaliser = NormaliserSettings(lower_case=True, **request.param)
    return ModelBundle(prpn.model, dataclasses.replace(prpn.settings, normaliser=normaliser), prpn.vocabulary)


def test_each_token_is_one_word_of_the_tree(model):
    parses = parse_lines(model, LINES, ParseOptions(pretokenised=True))
    for line, parse, brackets in zip(LINES, parses, parses.brackets(), strict=True):
        words = line.replace("\u200b", " ").split()
        assert parse.words == list(parse.tree.words) == words
        assert len(parse.tokens) == len(parse.distances) == len(parse.known) == len(words)
        assert [line[start:end] for start, end in parse.offsets] == words
        assert not parse.not_read
        if words:
            assert [tree.words for tree in read_brackets([brackets])] == [tuple(words)]
        else:
            assert not brackets


def test_words_of_a_treebank_are_read_as_in_the_evaluation_of_the_model(model, tmp_path):
    (tmp_path / "gold.mrg").write_text(GOLD)
    for preprocessing in ("ptb-keep", "none"):
        write_words(read_treebank(tmp_path / "gold.mrg", preprocessing), tmp_path / "words.txt")
        lines = (tmp_path / "words.txt").read_text().splitlines()
        trees = parse_lines(model, lines, ParseOptions(pretokenised=True, decoder="biased")).brackets()
        (tmp_path / "parsed.mrg").write_text("\n".join(trees) + "\n")
        scored = evaluate_trees(tmp_path / "parsed.mrg", tmp_path / "gold.mrg", preprocessing=preprocessing)
        expected = evaluate_parsing(model, tmp_path / "gold.mrg", preprocessing=preprocessing, random_weights=0)
        assert scored.scores["predicted"].f1 == expected.scores["biased"].f1
        assert scored.scores["predicted"].sentences == expected.scores["biased"].sentences


def test_several_models_read_the_same_words_however_they_normalise(model, prpn):
    parses = parse_lines([model, prpn], LINES, ParseOptions(pretokenised=True))
    assert [parse.words for parse in parses] == [line.replace("\u200b", " ").split() for line in LINES]
    assert [parse.words for parse in parse_lines([prpn, model], LINES, ParseOptions(pretokenised=True))] == [
        parse.words for parse in parses
    ]


def test_the_pipeline_of_the_commands_with_a_bundled_model(tmp_path, capsys):
    (tmp_path / "gold.mrg").write_text(GOLD)
    gold, words, parsed = (str(tmp_path / name) for name in ("gold.mrg", "words.txt", "parsed.mrg"))
    assert main(["data", "words", gold, "-o", words]) == 0
    assert main(["parse", "en-fast", words, "-o", parsed, "--pretokenised"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "trees", parsed, gold, "--preprocessing", "ptb-keep", "--format", "json"]) == 0
    scored = json.loads(capsys.readouterr().out)["f1"]
    assert main(["evaluate", "parse", "en-fast", gold, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["f1_by_decoder"]["mbr"] == scored
    assert main(["parse", "en-fast", words, "-o", parsed]) == 0
    assert main(["evaluate", "trees", parsed, gold, "--preprocessing", "ptb-keep"]) == 2
    assert "with the option pretokenised gives each word" in capsys.readouterr().err
    assert main(["draw", "en-fast", "cannot = :)", "--pretokenised", "-o", str(tmp_path / "x.svg")]) == 0


def test_tags_of_tagged_text_are_the_tokens(prpn):
    settings = dataclasses.replace(prpn.settings, normaliser=NormaliserSettings(units="tags", drop_words=("PUNCT",)))
    tags = ModelBundle(prpn.model, settings, prpn.vocabulary)
    (parse,) = parse_lines(tags, ["the_DT cat_NN ._PUNCT _X"], ParseOptions(pretokenised=True))
    assert (parse.tokens, parse.words) == (["DT", "NN", "PUNCT", "X"], ["the", "cat", ".", "X"])
    with pytest.raises(InputError, match="sentence 1: found 'cat'"):
        parse_lines(tags, ["the_DT cat"], ParseOptions(pretokenised=True))


def test_what_contradicts_the_option_is_refused(prpn):
    for option in ({"punctuation": "drop"}, {"punctuation": "split"}, {"contractions": "split"}):
        with pytest.raises(InputError, match="pretokenised: found together with"):
            ParseOptions(pretokenised=True, **option)
    settings = dataclasses.replace(prpn.settings, normaliser=NormaliserSettings(units="characters"))
    characters = ModelBundle(prpn.model, settings, prpn.vocabulary)
    with pytest.raises(InputError, match="pretokenised: the model reads characters"):
        parse_lines(characters, ["the cat"], ParseOptions(pretokenised=True))


@pytest.fixture(scope="module")
def bundled() -> ModelBundle:
    return read_model("en-fast")


def test_a_bundled_model_keeps_every_token(bundled):
    (parse,) = parse_lines(bundled, [TOKENS], ParseOptions(pretokenised=True))
    assert parse.words == TOKENS.split()
