"""Punctuation marks as evidence of constituents: in training, in parsing and in evaluation."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.batches import SentenceBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.toy import write_corpus
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.models.abilities import TextCounts
from syntaxlm.models.pcfg.grammars import SimplePCFGConfig
from syntaxlm.models.registry import build_model
from syntaxlm.ops.inside import log_partition_reference
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import read_model
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe import recipe_from
from syntaxlm.training.run import train
from syntaxlm.trees.marks import MarkClass
from tests.normalisers import normaliser_with

LINES = ["if it rains , we stay at home .", "we stay", "dogs , cats ( and fish ) swim"]
GOLD = "(S (NP (NN dogs) (, ,) (NP (NN cats))) (VP (VB swim) (RB well)) (. .))\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES * 4) + "\n")
    return path


def recipe_of(text, **model):
    return recipe_from(
        {
            "model": {"name": "simple-pcfg", "nonterminals": 3, "preterminals": 4, "embedding_size": 5, **model},
            "text": {"train": str(text), "valid": str(text), "normaliser": {"drop_punctuation": True}},
            "batches": {"token_budget": 30},
            "schedule": {"epochs": 1},
        },
        "recipe.yaml",
    )


def test_the_loss_in_training_weighs_spans_that_cross_a_mark(text):
    normaliser = normaliser_with(drop_punctuation=True)
    vocabulary = Vocabulary.build({word: 1 for line in LINES for word in normaliser.tokens(line)})
    corpus = EncodedCorpus.encode(text, normaliser, vocabulary, marks=True)
    comma, end = MarkClass.COMMA, MarkClass.END
    assert corpus.marks.tolist()[:11] == [0, 0, 0, comma, 0, 0, 0, end, 0, 0, 0]
    torch.manual_seed(0)
    config = SimplePCFGConfig(nonterminals=3, preterminals=4, embedding_size=5, marks=1.5, marks_side="end")
    model = build_model(config, len(vocabulary)).double()
    ones = torch.ones(len(vocabulary), dtype=torch.int64)
    model.setup(TextCounts(ones, first_words=ones, final_words=ones, one_word_sentences=ones * 0))
    (batch,) = SentenceBatches(corpus, vocabulary, 1000, shuffle=False, seed=0).iterate()
    sentence = list(batch.indices).index(0)  # we stay at home, after three words and a comma
    words = batch.tokens[1:8, sentence] - 2
    weights = torch.zeros(7, 7, dtype=torch.float64)
    for first in range(3):
        weights[first, 3:6] = -1.5
    rules, emissions = model.grammar.all_tables()
    expected = log_partition_reference(rules, emissions[words], weights)
    found = model._log_probs(model._sentences(batch), model._span_weights(model._sentences(batch), batch))
    torch.testing.assert_close(found[sentence], expected + torch.log1p(-model.one_word_share))
    assert model.train().loss(batch).total > model.eval().loss(batch).total, "training alone is weighted"


def test_a_model_parses_with_marks_as_it_was_trained_and_the_options_decide(text, tmp_path, gold):
    model = read_model(train(recipe_of(text, marks=1.0), tmp_path / "run").folder)
    plain, auto, both, end = (
        parse_lines(model, LINES, ParseOptions(marks=use, **AS_WRITTEN)).brackets()
        for use in ("none", "auto", "both", "end")
    )
    assert auto == both
    assert plain[1] == auto[1], "a sentence without marks"
    assert [line.count("(") for line in end] == [line.count("(") for line in plain], "trees remain binary"
    report = evaluate_parsing(model, gold)
    assert list(report.scores) == ["mbr", "mbr with marks (both)"]
    assert report.chosen == "mbr"
    stated = evaluate_parsing(model, gold, marks="end")
    assert stated.chosen == "mbr with marks (end)"
    assert list(evaluate_parsing(model, gold, marks="none").scores) == ["mbr"]


@pytest.fixture
def gold(tmp_path):
    path = tmp_path / "gold.mrg"
    path.write_text(GOLD)
    return path


def test_texts_and_treebanks_without_marks_are_reported(text, tmp_path):
    text.write_text("no mark here\nnone here either\n")
    with pytest.raises(InputError, match=r"text\.txt: found no punctuation mark .* model\.marks 0"):
        train(recipe_of(text, marks=1.0), tmp_path / "run")
    gold = tmp_path / "unmarked.mrg"
    gold.write_text("(S (NN a) (NN b) (NN c))\n")
    model = read_model(train(recipe_of(text), tmp_path / "plain").folder)
    with pytest.raises(InputError, match=r"unmarked\.mrg: found no punctuation mark .* Use marks none"):
        evaluate_parsing(model, gold, marks="end")
    assert list(evaluate_parsing(model, gold).scores) == ["mbr"]


@pytest.mark.long
def test_marks_of_the_built_in_corpus_are_evidence_in_training_and_in_parsing(tmp_path):
    write_corpus(tmp_path, 200, seed=3, punctuated=True)
    recipe = recipe_of(tmp_path / "train.txt", marks=2.0, marks_side="both")
    train(recipe, tmp_path / "run")
    bundle = read_model(tmp_path / "run")
    report = evaluate_parsing(bundle, tmp_path / "test.mrg", random_weights=0)
    assert set(report.scores) == {"mbr", "mbr with marks (both)"}
    (parse,) = parse_lines(bundle, ["after lunch , the old dog often sleeps ."], ParseOptions(**AS_WRITTEN))
    assert {(0, 2), (2, 7)} <= {(start, end) for _, start, end in parse.tree.constituents}


@pytest.fixture
def reader(tmp_path):
    """The recipe of a span parser, for sentences whose trees depend on a comma alone."""
    lines = {"dogs cats , swim .": "((dogs cats) swim)", "dogs , cats swim .": "(dogs (cats swim))"}
    (tmp_path / "pairs.txt").write_text("\n".join([*lines] * 20) + "\n")
    (tmp_path / "pairs.mrg").write_text("\n".join([*lines.values()] * 20) + "\n")
    text, trees = (str(tmp_path / f"pairs.{suffix}") for suffix in ("txt", "mrg"))
    return {
        "model": {"name": "span-parser", "embedding_size": 8, "hidden_size": 16, "layers": 1, "reads_marks": True},
        "text": {
            "train": text,
            "valid": text,
            "focus": [trees],
            "focus_valid": [trees],
            "normaliser": {"drop_punctuation": True},
        },
        "batches": {"token_budget": 40},
        "optimiser": {"learning_rate": 0.02},
        "schedule": {"epochs": 5, "keep": "last"},
    }


def test_a_span_parser_learns_what_a_mark_separates_and_parses_without_marks(reader, tmp_path):
    result = train(recipe_from(reader, "recipe.yaml"), tmp_path / "run")
    assert result.criterion.value < 0.1, "below ln(2) / 3, the loss of a parser that does not read the comma"
    model = read_model(tmp_path / "run")
    lines = ["dogs cats, swim.", "dogs, cats swim."]
    assert parse_lines(model, lines).brackets() == ["(X (X dogs cats) swim)", "(X dogs (X cats swim))"]
    hidden = parse_lines(model, lines, ParseOptions(marks="none"))
    assert hidden.brackets()[0] == hidden.brackets()[1]
    assert 0.1 < hidden.structure.table.chart(0)[0, 1] < 0.9, "some sentences of the training were without marks"


def test_a_text_without_marks_is_reported_to_a_parser_that_reads_them(reader, tmp_path):
    (tmp_path / "pairs.txt").write_text("dogs cats swim\n" * 40)
    with pytest.raises(InputError, match=r"found no punctuation mark .* model\.reads_marks false"):
        train(recipe_from(reader, "recipe.yaml"), tmp_path / "run")
