"""Combinations: grammars that parse together, and a language model for the probabilities."""

from __future__ import annotations

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import read_settings
from syntaxlm.models.registry import build_model
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import structure_of
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage import combination
from syntaxlm.storage.combination import combine
from syntaxlm.storage.folder import ModelSettings, read_model, write_model
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import read_recipe
from tests.fresh_models import SENTENCES, STREAM, fresh

LINES = ["the old cat sees a dog", "the dog", "", "a cat sees unheard things . N"]
WORDS = ("the", "cat", "dog", "sees", "a", "old", ".", "N")


def member(name, mode=SENTENCES, words=WORDS, seed=0):
    """A model with these words; its weights depend on the seed."""
    special = ["<eos>"] if mode.carry_state else ["<s>", "</s>"]
    stored = fresh(name, mode)
    vocabulary = Vocabulary(["<unk>", *special, *words], begin=special[0], end=special[-1])
    torch.manual_seed(seed)
    model = build_model(stored.settings.model, len(vocabulary))
    if name == "simple-pcfg":
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(3)
    return dataclasses.replace(stored, model=model.eval(), vocabulary=vocabulary)


@pytest.fixture(params=[SENTENCES, STREAM], ids=["two ends", "one end"])
def parts(request):
    return [member("simple-pcfg", seed=1), member("simple-pcfg", seed=2)], member("lstm", request.param)


def marginals(stored):
    """The span probabilities of each sentence with words."""
    found = structure_of(stored, [line.split() for line in LINES if line])
    return found.table.values


def rounded(stored):
    """The model with its weights rounded to bfloat16."""
    model = copy.deepcopy(stored.model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.bfloat16())
    return dataclasses.replace(stored, model=model)


def test_spans_have_the_mean_of_the_grammars_probabilities_and_words_those_of_the_scorer(parts):
    parsers, scorer = parts
    stored = combine(parsers, scorer)
    one, two = (marginals(parser) for parser in parsers)
    assert marginals(stored) == pytest.approx((one + two) / 2, abs=1e-6)
    assert abs(one - two).max() > 0.01
    rows = [[(row.word, row.surprisal) for row in rows] for rows in surprisals(stored, LINES)]
    assert rows == [[(row.word, row.surprisal) for row in rows] for rows in surprisals(scorer, LINES)]


def test_without_a_scorer_the_grammars_parse_with_the_vocabulary_of_the_largest(parts, tmp_path):
    parsers = [*parts[0][:1], member("simple-pcfg", words=WORDS[1:-1], seed=2)]
    write_model(tmp_path / "average", combine(parsers[::-1]))
    stored = read_model(tmp_path / "average")
    assert stored.name == "parser-combination"
    assert stored.vocabulary.tokens == parsers[0].vocabulary.tokens
    one, two = (marginals(parser) for parser in parsers)
    assert marginals(stored) == pytest.approx((one + two) / 2, abs=1e-6)
    with pytest.raises(InputError, match="this parser-combination model gives no token probabilities"):
        list(surprisals(stored, LINES))


def test_a_combination_is_read_back_and_halves_its_size_in_bfloat16(parts, tmp_path):
    stored = combine(*parts)
    write_model(tmp_path / "whole", stored)
    write_model(tmp_path / "half", stored, torch.bfloat16)
    whole, half = read_model(tmp_path / "whole"), read_model(tmp_path / "half")
    assert marginals(whole).tolist() == marginals(stored).tolist()
    assert marginals(half).tolist() == marginals(rounded(stored)).tolist()
    assert next(half.model.parameters()).dtype == torch.float32
    size = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("whole", "half")]
    assert size[1] < 0.8 * size[0]
    assert [str(parse) for parse in parse_lines(whole, LINES)] == [str(parse) for parse in parse_lines(stored, LINES)]


def test_models_that_do_not_fit_together_are_refused():
    parser, scorer = member("simple-pcfg"), member("lstm")
    with pytest.raises(InputError, match="found a lstm model as a parser; expected simple-pcfg"):
        combine([scorer], scorer)
    with pytest.raises(InputError, match="found a simple-pcfg model as the scorer"):
        combine([parser], parser)
    lower = dataclasses.replace(scorer.settings, normaliser=NormaliserSettings(lower_case=True))
    with pytest.raises(InputError, match="parser 1 has another normaliser"):
        combine([parser], dataclasses.replace(scorer, settings=lower))


def test_each_parser_reads_the_words_of_its_own_vocabulary():
    parser, scorer = member("simple-pcfg", words=WORDS[1:-1]), member("lstm", STREAM)
    stored = combine([parser], scorer)
    assert marginals(stored) == pytest.approx(marginals(parser), abs=1e-6)


def test_stored_tokens_that_no_parser_has_are_refused(parts, tmp_path):
    stored = combine(*parts)
    stored.model.parser_tokens[1, 4] = 99
    write_model(tmp_path / "model", stored)
    with pytest.raises(InputError, match="parser_tokens has ids that are not in the vocabularies"):
        read_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"scorer": {"name": "ngram"}}, 'model.scorer.name: found "ngram"; expected one of lstm, on-lstm, prpn, palm'),
        (
            {"scorer": {"name": "lstm", "layrs": 3}},
            "model.scorer.layrs: no such setting. Did you mean model.scorer.layers",
        ),
        ({"scorer": 7}, "model.scorer: found 7; expected a section with the entry name"),
        (
            {"parsers": [{}, {}]},
            "model.parsers.1.name: missing; expected one of simple-pcfg, holographic-pcfg, tensor-pcfg",
        ),
        (
            {"parsers": [{"name": "simple-pcfg"}, {"name": "neural-pcfg", "nonterminals": 0}]},
            "model.parsers.1.nonterminals: found 0; expected an integer from 1 to 65,536",
        ),
    ],
)
def test_faults_in_the_settings_of_a_part_are_reported_with_their_place(parts, fault):
    with pytest.raises(InputError) as caught:
        read_settings(ModelSettings, {"model": {"name": "combination", **parts}, "normaliser": {}}, "config.json")
    assert fault in str(caught.value)


def test_a_combination_is_not_trained(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("model: {name: combination}\ntext: {train: a.txt, valid: b.txt}\n")
    with pytest.raises(
        InputError,
        match=r"model\.name: found combination, which is made of trained models .*; expected a model type that is",
    ):
        read_recipe(recipe)


def test_the_command_writes_a_model_folder(parts, tmp_path, capsys):
    parsers, scorer = parts
    folders = [tmp_path / name for name in ("one", "two", "scorer")]
    for folder, stored in zip(folders, [*parsers, scorer], strict=True):
        write_model(folder, stored)
    output = tmp_path / "combined"
    arguments = ["combine", *map(str, folders[:2]), "--scorer", str(folders[2]), "-o", str(output)]
    assert main([*arguments, "--precision", "bfloat16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parsers"] == 2
    assert marginals(read_model(output)).tolist() == marginals(rounded(combine(parsers, scorer))).tolist()
    assert main(arguments) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_member_is_the_grammar_that_was_combined(parts):
    parsers, scorer = parts
    for combined in (combine(parsers, scorer), combine(parsers)):
        for number, parser in enumerate(parsers, 1):
            found = combination.member(combined, number)
            assert found.vocabulary.tokens[3:] == parser.vocabulary.tokens[3:]
            assert found.settings.model == parser.settings.model
            np.testing.assert_array_equal(marginals(found), marginals(parser))


def test_words_that_a_combination_does_not_tell_apart_are_unknown_words_of_a_member(parts):
    parser = member("simple-pcfg", words=("the", "rare", "cat"))
    found = combination.member(combine([parser], parts[1]), 1)
    assert found.vocabulary.tokens[3:] == ("the", "<unk:4>", "cat")


def test_members_of_other_models_and_numbers_are_reported(parts):
    parsers, scorer = parts
    with pytest.raises(InputError, match="member 1: the model is of type lstm; expected a combination of parsers"):
        combination.member(scorer, 1)
    with pytest.raises(InputError, match="member: found 3; expected 1 to 2, a parser of the combination"):
        combination.member(combine(parsers), 3)


@pytest.fixture
def reads_marks():
    """Parsers that drop punctuation, one of them a span parser, and a scorer that reads it."""
    dropping = NormaliserSettings(lower_case=True, drop_punctuation=True)
    parsers = [member("simple-pcfg", words=WORDS[:-2], seed=1), member("span-parser", words=WORDS[:-2], seed=2)]
    scorer = member("lstm", STREAM, words=(*WORDS[:-1], ","))
    normalisers = (*(dropping for _ in parsers), dataclasses.replace(dropping, drop_punctuation=False))
    return [
        dataclasses.replace(stored, settings=dataclasses.replace(stored.settings, normaliser=normaliser))
        for stored, normaliser in zip((*parsers, scorer), normalisers, strict=True)
    ]


def test_a_scorer_may_read_the_punctuation_that_the_parsers_drop(reads_marks, tmp_path):
    *parsers, scorer = reads_marks
    write_model(tmp_path / "model", combine(parsers, scorer))
    stored = read_model(tmp_path / "model")
    (parse,) = parse_lines(stored, ["The cat sees, the dog."])
    (expected,) = parse_lines(parsers, ["The cat sees, the dog."])
    assert str(parse) == str(expected)
    assert [part.text for part in parse.not_read] == [",", "."]
    with_mark, without = surprisals(stored, ["The cat sees, the dog.", "The cat sees the dog."])
    assert with_mark[2].token == "sees ,"
    assert with_mark[3].surprisal != without[3].surprisal
    member_settings = combination.member(stored, 2).settings
    assert member_settings == parsers[1].settings


def test_all_parsers_must_drop_punctuation_if_the_scorer_does_not(reads_marks):
    first, second, scorer = reads_marks
    settings = dataclasses.replace(second.settings, normaliser=scorer.settings.normaliser)
    second = dataclasses.replace(second, settings=settings)
    with pytest.raises(InputError, match="parser 2 has another normaliser than the scorer"):
        combine([first, second], scorer)
