"""The constituent-context model: its equations, by enumeration; EM; unseen spans; training on tags and on words."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
import torch

from syntaxlm import cli
from syntaxlm.data.treebanks import read_treebank, write_words
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.ccm import CCM, CCMConfig, random_split_marginals
from syntaxlm.storage.folder import read_model
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.run import resume, train
from syntaxlm.trees.charts import spans_in
from tests.golden import CCM_FILES
from tests.trees.enumeration import all_binary_trees

ROUNDS = 5


def batch_of(sentences, closed=False):
    """A batch of sentences, the longest first, whose BOS and EOS are 1 and 2."""
    lengths = [len(sentence) for sentence in sentences]
    tokens = torch.full((max(lengths) + 2, len(sentences)), 2)
    tokens[0] = 1
    for column, sentence in enumerate(sentences):
        tokens[1 : len(sentence) + 1, column] = torch.as_tensor(sentence)
    steps = len(tokens) if closed else len(tokens) - 1
    return TokenBatch(tokens[:steps], tokens[:steps], torch.tensor(lengths) + (2 if closed else 1))


def sample(count=40, words=6, seed=0):
    """Sentences of up to 8 words, some spans frequent."""
    random = np.random.default_rng(seed)
    found = [random.integers(3, 3 + words, random.integers(1, 9)).tolist() for _ in range(count)]
    return sorted(found, key=len, reverse=True)


def trained(sentences, rounds=ROUNDS, **settings):
    model = CCM(CCMConfig(**settings), 16)
    figures = []
    for _ in range(rounds):
        model.accumulate(batch_of(sentences))
        figures.append(model.maximise())
    return model, figures


@pytest.mark.parametrize("path", CCM_FILES, ids=str)
def test_marginals_and_likelihood_of_every_round_are_those_of_enumeration(path):
    arrays = np.load(path)
    count = sum(name.endswith(".tags") for name in arrays)
    tags = [arrays[f"sentence.{number}.tags"] + 3 for number in range(count)]
    order = sorted(range(count), key=lambda number: -len(tags[number]))
    sentences = [tags[number] for number in order]
    model = CCM(CCMConfig(), 3 + max(int(one.max()) for one in tags))
    likelihoods = arrays["log_likelihood"]
    for number in range(len(likelihoods) + 1):
        if number:
            model.accumulate(batch_of(sentences))
            figures = model.maximise()
            assert float(model.loss(batch_of(sentences)).total) == pytest.approx(-likelihoods[number - 1], rel=1e-12)
            assert number == 1 or figures["log_likelihood"] == pytest.approx(likelihoods[number - 2], rel=1e-12)
        found = model.structure(batch_of(sentences, closed=True)).values.numpy()
        for column, index in enumerate(order):
            expected = arrays[f"round.{number}.sentence.{index}.marginals"]
            starts, ends = spans_in(len(tags[index]))
            if number == 0:  # the start is that of EM, not of the parser
                chart = random_split_marginals(len(tags[index]), 1)[:, 0]
                np.testing.assert_allclose(chart, expected[starts, ends], rtol=0, atol=1e-12)
                continue
            longer = ends - starts > 1
            starts, ends = starts[longer], ends[longer]
            np.testing.assert_allclose(found[column, starts, ends - 1], expected[starts, ends], rtol=0, atol=1e-12)


@pytest.mark.parametrize("smoothing", [(2, 8), (0.1, 0.1), (30, 3)])
def test_the_smoothed_objective_never_rises(smoothing):
    names = ("constituent_smoothing", "distituent_smoothing")
    _, figures = trained(sample(), 25, **dict(zip(names, smoothing, strict=True)))
    assert "objective" not in figures[0], "the first round starts from splits at random, not from parameters"
    values = [one["objective"] for one in figures[1:]]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(values))
    assert values[-1] < values[0] - 1e-3


def test_weights_marginals_and_best_trees_are_those_of_all_binary_trees():
    model, _ = trained(sample())
    sentence = [3, 5, 4, 8, 3, 6]
    (weights,) = model.log_span_weights(batch_of([sentence]))
    trees = all_binary_trees(0, len(sentence))
    sums = torch.stack([sum(weights[span] for span in tree) for tree in trees])
    (found,) = model.structure(batch_of([sentence], closed=True)).values
    shares = sums.softmax(0)
    for start, end in {span for tree in trees for span in tree}:
        expected = sum(share for share, tree in zip(shares, trees, strict=True) if (start, end) in tree)
        assert float(found[start, end - 1]) == pytest.approx(float(expected), rel=1e-12)
    (best,) = model.best_trees(batch_of([sentence], closed=True))
    assert {(first, last + 1) for first, last, _ in best if last > first} == trees[int(sums.argmax())]


def test_a_round_from_given_posteriors_equals_a_round_of_its_own():
    sentences = sample()
    own, _ = trained(sentences, 3)
    given, _ = trained(sentences, 2)
    batch = batch_of(sentences)
    marginals = given.structure(batch_of(sentences, closed=True)).values
    posteriors = torch.nn.functional.pad(marginals, (1, 0))
    words = torch.arange(marginals.shape[1])
    posteriors[:, words, words + 1] = 1
    given.accumulate_posteriors(batch, posteriors)
    given.maximise()
    for name, tensor in own.state_dict().items():
        torch.testing.assert_close(tensor, given.state_dict()[name], rtol=1e-10, atol=1e-10)


def test_a_span_in_an_unseen_yield_or_context_has_the_share_of_its_smoothing():
    sentences = [[3, 4, 5], [3, 4]]
    model, figures = trained(sentences, 1, constituent_smoothing=1.0, distituent_smoothing=3.0)
    assert (figures[0]["yields"], figures[0]["contexts"]) == (6, 6)
    # Six spans and three spans; in the first sentence, two have probability 1/2 each.
    constituents, distituents = 3 + 1 + 1 + 3, 1
    (weights,) = model.log_span_weights(batch_of([[9, 9, 9, 9]]))

    def ratio(types: int) -> float:
        return float(np.log(1 / (constituents + types)) - np.log(3 / (distituents + 3 * types)))

    assert float(weights[1, 3]) == pytest.approx(2 * ratio(6))
    (seen,) = model.log_span_weights(batch_of([[9, 4, 5, 9]]))
    assert float(seen[1, 3]) != pytest.approx(float(weights[1, 3])), "the yield is that of the first sentence"


def test_tables_are_probabilities_of_what_was_seen():
    model, _ = trained(sample())
    for table in (model.yield_log_probs, model.context_log_probs):
        torch.testing.assert_close(table[:, :-1].exp().sum(1), torch.ones(2, dtype=torch.float64))
        assert (table[:, -1:] <= table[:, :-1]).all(), "nothing is less probable than what was never seen"


# ---- training from tagged text


@pytest.fixture(scope="module")
def tagged(toy, tmp_path_factory):
    """Tagged text of the built-in corpus's sentences of up to 10 words."""
    folder = tmp_path_factory.mktemp("tagged")
    for part in ("train", "valid"):
        write_words(read_treebank(toy / f"{part}.mrg"), folder / f"{part}.tagged.txt", 10, with_tags=True)
    path = folder / "train.tagged.txt"
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    return folder


def recipe_of(tagged, units, **settings):
    text = {"text.train": f"{tagged}/train.tagged.txt.gz", "text.valid": f"{tagged}/valid.tagged.txt"}
    return read_recipe("ccm-toy", text | {"text.normaliser.units": units, "schedule.epochs": 4} | settings)


@pytest.fixture(scope="module")
def folders(tagged, tmp_path_factory):
    root = tmp_path_factory.mktemp("ccm")
    for units in ("tags", "words"):
        train(recipe_of(tagged, units), root / units)
    return root


@pytest.mark.parametrize("units", ["tags", "words"])
def test_a_model_of_tags_or_words_parses_and_gives_no_perplexity(units, folders, tagged, toy, capsys):
    folder = str(folders / units)
    report = evaluate_parsing(read_model(folder), toy / "test.mrg", preprocessing="none", decoder="viterbi")
    assert set(report.scores) == {"mbr", "viterbi"}
    assert 0 < report.scores["viterbi"].f1 < 1
    line = "the_DT old_JJ dog_NN sleeps_VBZ" if units == "tags" else "the old dog sleeps"
    assert cli.main(["parse", folder, "--decoder", "viterbi", "--text", line]) == 0
    assert "sleeps" in capsys.readouterr().out
    assert cli.main(["evaluate", "perplexity", folder, str(tagged / "valid.tagged.txt")]) == 2
    assert "this ccm model gives no sentence probabilities" in capsys.readouterr().err


def test_the_log_has_the_likelihood_of_every_round_and_the_last_weights_are_kept(folders):
    lines = [json.loads(line) for line in (folders / "tags" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert all("log_likelihood" in line for line in lines[1:])
    assert all("valid_loss" in line and "valid_perplexity" not in line for line in lines)
    assert lines[0]["criterion"] == "negative log-likelihood of yields and contexts, nats per span"


def test_a_resumed_run_has_the_tables_of_an_uninterrupted_one(folders, tagged, tmp_path):
    folder = tmp_path / "run"

    def stop(event):
        if event.kind == "round" and event.trainer.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe_of(tagged, "tags"), folder, stop)
    resume(folder)
    one, other = (read_model(path).model.state_dict() for path in (folder, folders / "tags"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
