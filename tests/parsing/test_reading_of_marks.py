"""A span parser that reads punctuation marks, on all ways in, and the decoder's use of marks beside it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from syntaxlm.batches import SentenceBatches
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.treebanks import read_treebank
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.models.registry import build_model
from syntaxlm.models.span_parser import SpanParserConfig
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import structure_of
from syntaxlm.storage.combination import combine
from syntaxlm.storage.folder import ModelBundle, ModelSettings, read_model, write_model
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.marks import MarkClass
from syntaxlm.trees.spans import SpanSets
from tests.models.variants import WORDS, sentences

VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>", "the", "dog", "cat", "who", "sees", "a", "n't", "did", "old", "'s"])
DROPPING = NormaliserSettings(lower_case=True, drop_punctuation=True)
MARKED = "The dog, who sees (the cat) a \"dog\", did n't: the cat's old."
PLAIN = "The dog who sees the cat a dog did n't the cat's old"
GOLD = (
    "(S (DT The) (NN dog) (, ,) (WP who) (VB sees) (-LRB- -LRB-) (DT the) (NN cat) (-RRB- -RRB-) (DT a)"
    " (`` ``) (NN dog) ('' '') (, ,) (VB did) (RB n't) (: :) (DT the) (NN cat) (POS 's) (JJ old) (. .))\n"
)


def parser(seed=1, **settings) -> ModelBundle:
    """A span parser with large random weights, so that every part has an effect."""
    torch.manual_seed(seed)
    config = SpanParserConfig(embedding_size=6, hidden_size=8, layers=1, **settings)
    model = build_model(config, len(VOCABULARY))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    return ModelBundle(model.eval(), ModelSettings(config, DROPPING), VOCABULARY)


def probabilities(bundle, line, **options):
    return parse_lines(bundle, [line], ParseOptions(**options)).structure.table.values


def corpus_of(line: str, tmp_path) -> EncodedCorpus:
    """A line of tokenised text as in training."""
    path = tmp_path / "text.txt"
    path.write_text(line + "\n")
    return EncodedCorpus.encode(path, parser().normaliser, VOCABULARY, marks=True)


@pytest.fixture
def reading():
    return parser(reads_marks=True)


@pytest.fixture
def gold(tmp_path):
    path = tmp_path / "gold.mrg"
    path.write_text(GOLD)
    return path


def test_hidden_marks_give_the_values_of_a_text_without_marks(reading):
    hidden = probabilities(reading, MARKED, marks="none")
    assert hidden.tolist() == probabilities(reading, PLAIN).tolist()
    assert abs(hidden - probabilities(reading, MARKED)).max() > 0.01


def test_settings_of_marks_change_nothing_of_other_span_parsers():
    other = parser(marks_dropout=0.9)
    assert {name for name, _ in other.model.named_parameters() if "marks" in name} == set()
    assert probabilities(other, MARKED).tolist() == probabilities(parser(), PLAIN).tolist()


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize("marks", [",", "; ``", "--", "( '' ."])
def test_a_mark_changes_the_class_of_its_gap_alone_in_a_batch(place, marks, tmp_path):
    words = ["the", "old", "dog", "did", "n't", "see", "cats"]
    corpus = corpus_of(" ".join([*words[:place], marks, *words[place:]]), tmp_path)
    for closed in (False, True):
        (batch,) = SentenceBatches(corpus, VOCABULARY, 100, shuffle=False, seed=0, closed=closed).iterate()
        classes = batch.marks[:, 0].tolist()
        expected = {
            ",": MarkClass.COMMA,
            "; ``": MarkClass.SEMICOLON | MarkClass.OPENING_QUOTE,
            "--": MarkClass.DASH,
            "( '' .": MarkClass.OPENING_BRACKET | MarkClass.CLOSING_QUOTE | MarkClass.END,
        }[marks]
        assert classes == [expected if gap == place else 0 for gap in range(len(batch.tokens))]


def test_sentences_of_a_batch_and_chosen_ones_keep_their_marks(tmp_path):
    corpus = corpus_of("the dog .\n, the old , cat\n...\ndog\nthe ; cat !", tmp_path)
    comma, semicolon, end = MarkClass.COMMA, MarkClass.SEMICOLON, MarkClass.END
    expected = [[0, 0, end], [comma, 0, comma, 0], [0, 0], [0, semicolon, end]]
    for part, chosen in ((corpus, [0, 1, 2, 3]), (corpus.select(np.array([3, 1, 0])), [3, 1, 0])):
        (batch,) = SentenceBatches(part, VOCABULARY, 100, shuffle=False, seed=0).iterate()
        for column, index in enumerate(batch.indices.tolist()):
            classes = expected[chosen[index]]
            assert batch.marks[:, column].tolist() == classes + [0] * (len(batch.tokens) - len(classes))


def test_text_and_a_treebank_of_the_same_sentence_give_the_same_marks_and_spans(reading, gold):
    (sentence,) = read_treebank(gold, "ptb-keep")
    batch = parse_lines(reading, [MARKED], ParseOptions())
    assert batch.words == [
        ["The", "dog", "who", "sees", "the", "cat", "a", "dog", "did", "n't", "the", "cat", "'s", "old"]
    ]
    assert batch.read.gap_marks().tolist() == list(sentence.marks)
    report = evaluate_parsing(reading, gold)
    assert list(report.scores) == ["mbr", "mbr with marks (read)"]
    read = report.predicted["mbr with marks (read)"]
    assert as_sets(read) == as_sets(batch.spans)
    assert as_sets(report.predicted["mbr"]) == as_sets(parse_lines(reading, [PLAIN]).spans)
    line = "The dog , who sees ( the cat ) a `` dog '' , did n't : the cat 's old ."
    assert probabilities(reading, line, **AS_WRITTEN).tolist() == batch.structure.table.values.tolist()


def as_sets(trees: SpanSets) -> set[tuple[int, int]]:
    return {
        (start, end) for start, end in zip(trees.starts.tolist(), trees.ends.tolist(), strict=True) if end - start > 1
    }


def test_an_average_penalises_only_the_parsers_that_do_not_read_marks(reading, gold):
    """A stated side is a penalty for all of them."""
    other = parser(seed=2, marks=True)
    with_marks, without = (
        sum(structure_of(bundle, corpus).table.chart(0) for bundle in (reading, other)) / 2
        for corpus in (corpus_with_marks(), corpus_with_marks(hidden=True))
    )
    for models in ([combine([reading, other])], [reading, other]):
        for use, chart in (
            ("auto", with_marks - 0.5 * penalties()),
            ("both", with_marks - penalties()),
            ("none", without),
        ):
            assert as_sets(parse_lines(models, [MARKED], ParseOptions(marks=use)).spans) == best(chart)
        names = list(evaluate_parsing(models[0], gold, also=models[1:]).scores)
        assert names == ["mbr", "mbr with marks (both)"]


PLAIN_TOKENS = ["the", "dog", "who", "sees", "the", "cat", "a", "dog", "did", "n't", "the", "cat", "'s", "old"]
INNER = (2, 4, 6, 7, 8, 10)  # words that a mark precedes


def corpus_with_marks(hidden: bool = False) -> EncodedCorpus:
    gaps = parse_lines(parser(), [MARKED], ParseOptions()).read.gap_marks()
    return EncodedCorpus.from_sentences([VOCABULARY.encode(PLAIN_TOKENS)], marks=None if hidden else gaps)


def penalties():
    """By first and last word, for the side `both`."""
    size = len(PLAIN_TOKENS)
    result = np.zeros((size, size))
    for start in range(size):
        for end in range(start + 1, size + 1):
            missing = (start not in (0, *INNER)) + (end not in (size, *INNER))
            if any(start < mark < end for mark in INNER):
                result[start, end - 1] = (0, 0.25, 1)[missing]
    return result


def best(chart) -> set[tuple[int, int]]:
    """The spans of the binary tree with the highest sum, by dynamic programming."""
    size = len(chart)
    trees = {(place, place + 1): (0.0, frozenset()) for place in range(size)}
    for length in range(2, size + 1):
        for start in range(size - length + 1):
            end = start + length
            splits = [(trees[start, middle], trees[middle, end]) for middle in range(start + 1, end)]
            value, spans = max(((a[0] + b[0], a[1] | b[1]) for a, b in splits), key=lambda split: split[0])
            trees[start, end] = (value + chart[start, end - 1], spans | {(start, end)})
    return set(trees[0, size][1])


def test_all_its_trees_and_probabilities_depend_on_the_marks(reading):
    """The best trees, samples, the most probable tree, and a folder that was written."""

    def values(options, line):
        (parse,) = parse_lines(reading, [line], ParseOptions(**options))
        return [(str(tree), confidence, probability) for tree, confidence, probability in parse.alternatives]

    for options in ({"best": 3}, {"samples": 4}):
        marked, plain = values(options, MARKED), values(options, PLAIN)
        assert marked != plain
        assert values(options | {"marks": "none"}, MARKED) == plain
    best_trees = [
        as_sets(parse_lines(reading, [line], ParseOptions(decoder="viterbi")).spans) for line in (MARKED, PLAIN)
    ]
    assert best_trees[0] != best_trees[1]


def test_a_folder_and_a_member_of_a_combination_read_marks(reading, tmp_path):
    write_model(tmp_path / "model", combine([parser(seed=2), reading]))
    stored = read_model(tmp_path / "model")
    assert [settings.reads_marks for settings in stored.settings.model.parser_settings] == [False, True]
    values = probabilities(stored, MARKED)
    expected = (probabilities(parser(seed=2), MARKED) + probabilities(reading, MARKED)) / 2
    assert values == pytest.approx(expected, abs=1e-6)


def test_gradients_reach_the_classes_that_occur_and_hidden_sentences_have_none():
    batch = sentences((5, 3))
    marks = torch.zeros(len(batch.tokens), 2, dtype=torch.int16)
    marks[2, 0] = MarkClass.COMMA
    marks[5, 0] = MarkClass.END
    batch = dataclasses.replace(batch, marks=marks, spans=torch.tensor([[3, 0, 2], [4, 1, 2]]))

    def gradient(rate):
        torch.manual_seed(0)
        model = build_model(
            SpanParserConfig(embedding_size=6, hidden_size=8, reads_marks=True, marks_dropout=rate), WORDS
        )
        model.train().loss(batch).total.backward()
        grad = model.mark_embeddings.weight.grad
        return set() if grad is None else {place for place in range(grad.shape[1]) if grad[:, place].any()}

    classes = list(MarkClass)
    comma, end = classes.index(MarkClass.COMMA), classes.index(MarkClass.END)
    assert gradient(0.0) == {place + side for place in (comma, end) for side in (0, len(classes))}
    assert gradient(1 - 1e-9) == set()
