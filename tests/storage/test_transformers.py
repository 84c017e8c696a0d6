"""Models of the library transformers as scorers, compared with direct computations of the formula."""

from __future__ import annotations

import builtins
import json
import math
import pickle
import shutil
from functools import partial

import pandas
import pytest
import safetensors.torch
import torch

import syntaxlm
from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.displayed_words import displayed_words
from syntaxlm.data.input_table import InputTable
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.models.batches import TextMode
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.word_table import score_words
from syntaxlm.storage import transformers as reader
from syntaxlm.storage.transformers import read_transformers
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import OpenVocabulary
from tests.fresh_models import reading
from tests.storage.small_transformers import EOS, WINDOW, write_transformer
from tests.turns import in_threads

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

NAMES = ["bytes", "characters", "ends"]
TEXTS = ["the old cat sees a doghouse .", "cats", "", "The café is older — too , too", "a dog's <s> </s> <unk>"]


@pytest.fixture(scope="module")
def folders(made_once):
    def write_all(root):
        for name in NAMES:
            write_transformer(name, root / name)

    root = made_once("transformers", write_all)
    return {name: root / name for name in NAMES}


@pytest.fixture(scope="module")
def models(folders):
    """In float64, for exact comparisons."""
    loaded = {name: syntaxlm.load(f"hf:{folder}") for name, folder in folders.items()}
    for one in loaded.values():
        one.model.double()
    return loaded


@pytest.fixture(scope="module")
def direct(folders):
    """The network and the tokenizer, read by the library."""
    return {
        name: (
            transformers.AutoModelForCausalLM.from_pretrained(folder).double().eval(),
            transformers.AutoTokenizer.from_pretrained(folder),
        )
        for name, folder in folders.items()
    }


def begins_word(tokenizer, number):
    """Whether a sub-token follows a space, from what the tokenizer decodes or writes."""
    written = tokenizer.convert_ids_to_tokens(number)
    return number == tokenizer.eos_token_id or written.startswith(("Ġ", "▁")) or written in ("Ċ", "ĉ", "č", "ċ", "Č")


@torch.no_grad()
def predictions(network, ids):
    """Log-probabilities of every sub-token at each place, (n, V)."""
    return network(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)


def words_of(tokenizer, text):
    """The sub-tokens of each word of a text that is tokenised as a whole."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    words = [[] for _ in text.split()]
    for number, (_, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        words[text[:end].count(" ")].append(number)
    return words


def subtokens(tokenizer, text):
    return [number for word in words_of(tokenizer, text) for number in word]


def expected(network, tokenizer, name, text):
    """The log-probability of each word by the formula, and that of the text's sub-tokens with a boundary after them."""
    words = words_of(tokenizer, text)
    ids = [tokenizer.eos_token_id, *(number for word in words for number in word)]
    log_probs = predictions(network, ids)
    boundary = [number for number in range(len(tokenizer)) if begins_word(tokenizer, number)]
    bounded = log_probs[:, boundary].logsumexp(-1) if name != "ends" else torch.zeros(len(ids))
    found, place = [], 0
    for number, word in enumerate(words):
        value = sum(log_probs[place + step, one] for step, one in enumerate(word))
        end = place + len(word)
        found.append(float(value + bounded[end] - (bounded[place] if number else 0)))
        place = end
    total = sum(log_probs[step, one] for step, one in enumerate(ids[1:])) + bounded[-1]
    return found, float(total)


@pytest.mark.parametrize("name", NAMES)
def test_words_have_the_probabilities_of_the_formula(name, models, direct):
    nlp = models[name]
    found = nlp.surprisal(TEXTS)
    for text, rows in zip(TEXTS, found, strict=True):
        assert [row.word for row in rows] == text.split()
        assert all(row.in_vocabulary for row in rows)
        if rows:
            words, total = expected(*direct[name], name, text)
            assert [-row.surprisal * math.log(2) for row in rows] == pytest.approx(words, rel=1e-9)
            assert nlp.log_prob(text) == pytest.approx(total, rel=1e-9)
            assert sum(words) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_ends_of_sentences_have_the_probability_of_eos_where_they_are_asked_for(name, models, direct):
    nlp, (network, tokenizer) = models[name], direct[name]
    scorer = Scorer.of(nlp, TextMode(predict_eos=True))
    texts = [text for text in TEXTS if text]
    found = scorer.sentences([text.split() for text in [*texts, ""]])
    for text, value in zip([*texts, ""], found, strict=True):
        ids = [tokenizer.eos_token_id, *subtokens(tokenizer, text), tokenizer.eos_token_id]
        log_probs = predictions(network, ids)
        assert value == pytest.approx(float(sum(log_probs[place, one] for place, one in enumerate(ids[1:]))), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_read_as_running_text(name, models, direct):
    nlp = models[name]
    lines = ["the old cat", "sees a dog", "", "too ."]
    rows = [row for line in nlp.surprisal(lines, context="carry") for row in line]
    words, total = expected(*direct[name], name, "the old cat sees a dog too .")
    assert [-row.surprisal * math.log(2) for row in rows] == pytest.approx(words, rel=1e-9)
    below_blank = [row for line in nlp.surprisal(["", "dogs see"], context="carry") for row in line]
    assert [row.tokens for row in below_blank] == [row.tokens for row in nlp.surprisal("dogs see", context="carry")]
    score = evaluate_text(nlp, lines, reading(TextMode(carry_state=True, predict_eos=False)))
    assert score.nats == pytest.approx(-total, rel=1e-9)
    assert (score.tokens, score.unknown) == (8, 0)
    with pytest.raises(InputError, match=r"expected no ends of sentences, because .*--no-predict-eos"):
        evaluate_text(nlp, lines, reading(TextMode(carry_state=True, predict_eos=True)))


def test_long_texts_are_read_in_windows_that_overlap_by_half(models, direct):
    network, tokenizer = direct["bytes"]
    text = " ".join(["the old cat sees a doghouse"] * 25)
    ids = [tokenizer.eos_token_id, *subtokens(tokenizer, text)]
    assert len(ids) > 2 * WINDOW
    total, begin, end = 0.0, 0, 0
    while end < len(ids):
        fresh = end
        begin = max(0, end - WINDOW // 2)
        end = min(begin + WINDOW, len(ids))
        log_probs = predictions(network, ids[begin:end])
        for place in range(fresh, end):
            if place + 1 < len(ids):
                total += float(log_probs[place - begin, ids[place + 1]])
    boundary = [number for number in range(len(tokenizer)) if begins_word(tokenizer, number)]
    total += float(log_probs[-1, boundary].logsumexp(-1))
    assert models["bytes"].log_prob(text) == pytest.approx(total, rel=1e-9)


def test_streams_keep_half_a_window_of_context(models, direct):
    nlp, (network, tokenizer) = models["bytes"], direct["bytes"]
    words = ("the old cat sees a doghouse too . " * 20).split()
    stream = Scorer.of(nlp, TextMode(carry_state=True, predict_eos=False)).stream()

    def read(part):
        return stream.read(EncodedCorpus.from_sentences([nlp.vocabulary.encode(part)])).log_probs.tolist()

    read(words[:100])
    context = subtokens(tokenizer, " ".join(words[:100]))[-WINDOW // 2 :]
    new = words_of(tokenizer, " ".join(words[:101]))[100]
    log_probs = predictions(network, [*context, *new])
    boundary = [number for number in range(len(tokenizer)) if begins_word(tokenizer, number)]
    bounded = log_probs[:, boundary].logsumexp(-1)
    value = sum(log_probs[len(context) - 1 + step, one] for step, one in enumerate(new))
    value += bounded[-1] - bounded[len(context) - 1]
    assert read(words[100:101]) == pytest.approx([float(value)], rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_displayed_words_have_the_number_of_their_subtokens(name, folders, direct):
    words = ["the", "oldest", "doghouse,", "sees.", "a", "catnap"]
    table = pandas.DataFrame({"word": words, "sentence": [1, 1, 1, 1, 2, 2]})
    displayed = displayed_words(InputTable.read(table), sentence="sentence")
    _, tokenizer = direct[name]
    lines = [words[:4], words[4:]]
    for context in ("reset", "carry"):
        scores = score_words(read_transformers(str(folders[name])), displayed, ScoreOptions(context=context))
        texts = lines if context == "reset" else [words]
        assert scores.token_counts.sum() == sum(len(subtokens(tokenizer, " ".join(text))) for text in texts)
        assert scores.token_counts.max() > 1


@pytest.mark.parametrize(("between", "joined"), [("|", "tree."), (" | ", "tree ."), ("| ", "tree .")])
def test_a_region_of_punctuation_is_scored_as_written(folders, tmp_path, between, joined):
    """`tree|.` is the word `tree.`, which has other sub-tokens than `tree .`."""
    path = tmp_path / "items.tsv"
    regions = between.join(["The apple", "fell", "from the tree", "."])
    path.write_text(f"item\tcondition\tsentence\n1\ta\t{regions}\n")
    nlp = syntaxlm.load(f"hf:{folders['bytes']}")
    rows = nlp.evaluate_items(path).to_dataframe()
    expected = -nlp.log_prob(f"The apple fell from the {joined}") / math.log(2)
    assert rows["surprisal"].sum() == pytest.approx(expected, abs=1e-4)


def first_subtokens(network, tokenizer, name, ids, is_first):
    """The log-probabilities of what may follow: of all sub-tokens, or after a boundary of those that begin a word."""
    log_probs = predictions(network, ids)[-1]
    if is_first or name == "ends":
        return dict(enumerate(log_probs.tolist()))
    begins = [number for number in range(len(tokenizer)) if begins_word(tokenizer, number)]
    total = math.log(sum(math.exp(log_probs[number]) for number in begins))
    return {number: float(log_probs[number]) - total for number in begins}


def check_predictions(row, following, first, after, tokenizer):
    """Compare the measures of a word with its distribution, and that of the next word, None without one."""

    def entropy(log_probs):
        return -sum(math.exp(value) * value for value in log_probs.values()) / math.log(2)

    assert sum(map(math.exp, following.values())) == pytest.approx(1)
    assert row.measures["entropy"] == pytest.approx(entropy(following), rel=1e-9)
    assert row.measures["rank"] == 1 + sum(value > following[first] for value in following.values())
    if after is None:
        assert row.measures["entropy_reduction"] is None
    else:
        difference = entropy(following) - entropy(after)
        assert row.measures["entropy_reduction"] == pytest.approx(difference, rel=1e-6, abs=1e-9)
    # The word is at most as probable as its first sub-token.
    assert -row.surprisal * math.log(2) <= following[first] + 1e-9
    ranked = sorted(following.items(), key=lambda item: -item[1])[:3]
    found = [text.rpartition(" ") for text in row.measures["next_words"].split("; ")]
    for (number, value), (text, _, probability) in zip(ranked, found, strict=True):
        token = tokenizer.convert_ids_to_tokens(number) if number < len(tokenizer) else f"[{number}]"
        ends = number == tokenizer.eos_token_id or token.endswith("</w>")
        expected_text = token.strip("Ġ▁").removesuffix("</w>")
        if expected_text.isascii() and expected_text.strip():  # other bytes are written as other characters
            assert text.removesuffix("…") == expected_text
        assert text.endswith("…") != ends
        assert float(probability) == pytest.approx(math.exp(value), rel=1e-3)


OF_PREDICTIONS = {"measures": ["entropy", "entropy_reduction", "rank"], "next_words": 3}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("context", ["reset", "carry"])
def test_entropy_rank_and_next_words_are_those_of_the_first_subtoken(name, context, models, direct):
    network, tokenizer = direct[name]
    texts = ["the old cat sees a doghouse .", "cats", "older dogs see the cat's house"]
    lines = models[name].surprisal(texts, context=context, **OF_PREDICTIONS)
    before = []
    for text, rows in zip(texts, lines, strict=True):
        whole = " ".join([*before, text])
        words = words_of(tokenizer, whole)
        ids = [tokenizer.eos_token_id]
        distributions = []
        for number, word in enumerate(words):
            distributions.append(first_subtokens(network, tokenizer, name, ids, not number))
            ids += word
        own = range(len(words) - len(rows), len(words))
        for row, place in zip(rows, own, strict=True):
            after = distributions[place + 1] if place + 1 < len(words) else None
            check_predictions(row, distributions[place], words[place][0], after, tokenizer)
        before = [whole] if context == "carry" else []


def test_entropy_of_long_texts_is_that_of_the_windows_of_their_surprisals(models, direct):
    network, tokenizer = direct["bytes"]
    text = " ".join(["the old cat sees a doghouse"] * 12)
    words = words_of(tokenizer, text)
    ids = [tokenizer.eos_token_id, *(number for word in words for number in word)]
    assert len(ids) > WINDOW
    rows = models["bytes"].surprisal(text, **OF_PREDICTIONS)
    place = len(ids) - len(words[-1])  # of the last word, which the last window predicts
    begin = 0
    while begin + WINDOW < place:
        begin += WINDOW // 2
    following = first_subtokens(network, tokenizer, "bytes", ids[begin:place], is_first=False)
    check_predictions(rows[-1], following, words[-1][0], None, tokenizer)


def test_the_end_of_a_sentence_is_one_of_its_predictions(models, direct):
    network, tokenizer = direct["bytes"]
    nlp = models["bytes"]
    scored = Scorer.of(nlp, TextMode(predict_eos=True)).tokens(
        EncodedCorpus.from_sentences([nlp.vocabulary.encode(["the", "cat"])]), best=1
    )
    found = next(iter(scored)).predictions
    ids = [tokenizer.eos_token_id, *subtokens(tokenizer, "the cat")]
    following = first_subtokens(network, tokenizer, "bytes", ids, is_first=False)
    rank = 1 + sum(value > following[tokenizer.eos_token_id] for value in following.values())
    assert int(found.rank[-1]) == rank


def test_displayed_words_have_entropy_and_batches_do_not_change_it(models, monkeypatch):
    nlp = models["characters"]
    table = pandas.DataFrame({"word": ["the", "old", "cat", "sees", "a", "doghouse", "."]})
    expected_values = nlp.word_table(table, measures=["entropy"]).values["entropy"]
    texts = ["the old cat sees a doghouse .", "a dog", "the older cats see a dog"] * 2
    for logits in (1, 1 << 26):
        monkeypatch.setattr("syntaxlm.models.transformer.LOGITS_TOGETHER", logits)
        rows = nlp.surprisal(texts, measures=["entropy"])
        values = [row.measures["entropy"] for row in rows[0]]
        assert values == pytest.approx(expected_values, rel=1e-6)
        assert values == pytest.approx([row.measures["entropy"] for row in rows[3]], rel=1e-12)


def test_batches_give_what_single_sentences_give(models, monkeypatch):
    nlp = models["characters"]
    texts = [text for text in TEXTS if text] * 3
    expected_values = [nlp.log_prob(text) for text in texts]
    for logits in (1, 5000, 1 << 26):
        monkeypatch.setattr("syntaxlm.models.transformer.LOGITS_TOGETHER", logits)
        assert nlp.log_prob(texts) == pytest.approx(expected_values, rel=1e-9)


def test_what_needs_trees_or_sampling_is_refused_by_name(models, tmp_path):
    nlp = models["bytes"]
    with pytest.raises(InputError, match=r"this transformers model .*, so parsing cannot use it\. Model types"):
        nlp.parse("the cat")
    with pytest.raises(InputError, match="this transformers model"):
        nlp.generate()
    with pytest.raises(InputError, match="a transformers model cannot be saved as a model folder"):
        nlp.save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_commands_take_transformers_models(folders, models, tmp_path, capsys):
    model = f"hf:{folders['bytes']}"

    def output(*words):
        assert cli.main([*map(str, words)]) == 0
        return capsys.readouterr().out

    rows = [json.loads(line) for line in output("score", model, "--text", "the old cat", "--json").splitlines()]
    bits = [row.surprisal for row in models["bytes"].surprisal("the old cat")]
    assert [row["surprisal"] for row in rows] == pytest.approx(bits, rel=1e-4)
    text = tmp_path / "text.txt"
    text.write_text("the old cat\nsees a dog\n")
    score = json.loads(output("evaluate", "perplexity", model, text, "--json"))
    nats = -sum(models["bytes"].log_prob(["the old cat", "sees a dog"]))
    assert score["nats"] == pytest.approx(nats, rel=1e-4)
    assert not score["predict_eos"]
    pairs = tmp_path / "pairs.jsonl"
    pair = {"sentence_good": "the cat sees", "sentence_bad": "cat the sees", "UID": "order"}
    pairs.write_text(json.dumps(pair) + "\n")
    report = json.loads(output("evaluate", "pairs", model, pairs, "--json"))
    good, bad = models["bytes"].log_prob([pair["sentence_good"], pair["sentence_bad"]])
    assert report["models"][0]["all"]["correct"] == int(good > bad)
    (tmp_path / "questions.txt").write_text("the cat sees a dog\nthe cat dog a sees\n" * 2)
    (tmp_path / "answers.txt").write_text("the cat sees a dog\n" * 2)
    assert output("evaluate", "completion", model, tmp_path / "questions.txt", tmp_path / "answers.txt", "--json")
    assert cli.main(["parse", model, "the cat"]) == 2
    assert "a model of the library transformers only scores text" in capsys.readouterr().err


def with_tokenizer_that_drops_joiners(folder, target):
    shutil.copytree(folder, target)
    content = json.loads((target / "tokenizer.json").read_text())
    dropped = {"type": "Replace", "pattern": {"Regex": " ?[\u200c\u200d]+"}, "content": ""}
    (target / "tokenizer.json").write_text(json.dumps(content | {"normalizer": dropped}))
    return f"hf:{target}"


@pytest.mark.parametrize("name", NAMES)
def test_words_that_the_tokenizer_drops_have_rows_without_surprisal(name, folders, models, tmp_path, capsys):
    dropping_name = with_tokenizer_that_drops_joiners(folders[name], tmp_path / "dropping")
    dropping = syntaxlm.load(dropping_name)
    dropping.model.double()
    text = "\u200d the \u200c\u200d old cat \u200d"
    rows = dropping.surprisal(text, measures=["rank", "entropy"])
    assert [row.word for row in rows] == text.split()
    read = models[name].surprisal("the old cat", measures=["rank", "entropy"])
    assert [row.surprisal for row in rows if row.tokens] == pytest.approx([row.surprisal for row in read], rel=1e-9)
    assert [(row.rank, row.tokens) for row in rows if row.tokens] == [(row.rank, row.tokens) for row in read]
    for row in rows[0], rows[2], rows[5]:
        assert (row.token, row.in_vocabulary, row.surprisal, row.tokens, row.rank) == ("", None, None, 0, None)
    (tmp_path / "text.txt").write_text(f"{text}\nthe \u200b cat\n", encoding="utf-8")
    assert cli.main(["score", dropping_name, str(tmp_path / "text.txt")]) == 0
    notes = capsys.readouterr().err
    assert "1 word of zero-width spaces only (U+200B), read as white space (line 2)" in notes
    assert "5 words, 0 unknown (0.0%), 3 not read (\u200d \u200c\u200d)" in notes


@pytest.fixture
def copied(folders, tmp_path):
    return shutil.copytree(folders["bytes"], tmp_path / "copy")


def refused(folder, message):
    with pytest.raises(InputError, match=message):
        syntaxlm.load(f"hf:{folder}")


def test_weights_are_read_from_safetensors_only(copied):
    weights = transformers.AutoModelForCausalLM.from_pretrained(copied).state_dict()
    (copied / "model.safetensors").unlink()
    torch.save(weights, copied / "pytorch_model.bin")
    refused(copied, "the library transformers cannot load this model: .*safetensors")


def test_code_of_a_model_is_not_run(copied):
    config = json.loads((copied / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}}
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "mine.py").write_text(f"open({str(copied / 'run')!r}, 'w')\nclass Config: pass\nclass Model: pass\n")
    refused(copied, "the library transformers cannot load this model")
    assert not (copied / "run").exists()


def without_a_product(weights):
    del weights["transformer.h.0.mlp.c_fc.weight"]


def with_nan(weights):
    weights["transformer.ln_f.bias"][0] = float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_a_product, "the weights are incomplete, because .*mlp.* is missing"),
        (with_nan, "the weights are unusable: transformer.ln_f.bias has NaN values"),
    ],
)
def test_incomplete_and_nan_weights_are_refused(copied, change, message):
    path = copied / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}
    change(weights)
    safetensors.torch.save_file(weights, path, {"format": "pt"})
    refused(copied, message)


def test_damaged_weights_are_reported(copied):
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(copied, "the library transformers cannot load this model")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_layer": 10**6}, "the model has over 100 weight tensors"),
        ({"vocab_size": 10**12}, "the model has over .* parameters"),
        ({"n_positions": -5}, "a model of these sizes cannot be built"),
        ({"n_head": 0}, "the library transformers cannot load this model"),
        ({"model_type": [1]}, "the library transformers cannot load this model"),
        ({"activation_function": "nope"}, "the library transformers cannot load this model"),
        ([1], "the library transformers cannot load this model"),
    ],
)
def test_damaged_settings_are_reported_in_one_line(copied, monkeypatch, settings, message):
    monkeypatch.setattr("syntaxlm.models.sizes.MOST_TENSORS", 100)  # the model is not built any further
    content = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(content | settings if isinstance(settings, dict) else settings))
    with pytest.raises(InputError, match=rf"^hf:{copied}: {message}") as caught:
        syntaxlm.load(f"hf:{copied}")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json"])
def test_other_damaged_files_are_reported_in_one_line(copied, name):
    (copied / name).write_text("[1]")
    refused(copied, "^hf:.*: the library transformers cannot load this model: [^\n]*$")


def test_models_of_both_directions_are_refused(copied):
    tokenizer = transformers.AutoTokenizer.from_pretrained(copied)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        initializer_range=0.6,
    )  # fmt: skip
    transformers.BertLMHeadModel(config).save_pretrained(copied)
    refused(copied, "this BertLMHeadModel reads text in both directions; expected a causal language model")


def test_tokenizers_without_word_boundaries_or_special_tokens_are_refused(direct, monkeypatch):
    tokenizer = direct["bytes"][1]
    with pytest.raises(InputError, match="has neither BOS nor EOS"):
        reader.word_tokenizer(_Tokenizer(["a", "b"], None), "x")
    with pytest.raises(InputError, match="does not mark where words begin or end"):
        reader.word_tokenizer(_Tokenizer(["a", "b"], 0), "x")
    joining = reader.WordTokenizer(lambda text: [0] if text == "a" else [1], 0, 0, None)
    with pytest.raises(InputError, match="the tokenizer joins the words 'a' and 'dog'"):
        joining.subtokens("dog", is_first=False)
    assert reader.word_tokenizer(tokenizer, "x").start == tokenizer.convert_tokens_to_ids(EOS)


class _Tokenizer:
    """A tokenizer of these tokens."""

    bos_token_id = None

    def __init__(self, tokens, end):
        self.tokens, self.eos_token_id = tokens, end

    def __len__(self):
        return len(self.tokens)

    def convert_ids_to_tokens(self, ids):
        return [self.tokens[one] for one in ids]

    def encode(self, text, add_special_tokens):
        return [0]


def test_a_missing_folder_and_a_missing_library_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refused(tmp_path / "none", "the library transformers cannot load this model")
    real = builtins.__import__

    def without(name, *rest):
        if name == "transformers":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    refused("gpt2", r"pip install 'syntaxlm\[transformers\]'")


def test_open_vocabularies_know_every_word_and_keep_special_words_apart():
    vocabulary = OpenVocabulary()
    ids = vocabulary.encode(["<s>", "cat", "</s>", "cat", "<unk>"])
    assert ids == [3, 4, 5, 4, 6]
    assert vocabulary.decode(ids) == ["<s>", "cat", "</s>", "cat", "<unk>"]
    assert vocabulary.knows("dog")
    assert len(vocabulary) == 7
    assert pickle.loads(pickle.dumps(vocabulary)).encode(["cat"]) == [4]


def test_texts_with_more_words_than_16_bits_are_encoded(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("one two three four five six")
    vocabulary = OpenVocabulary()
    vocabulary.encode(map(str, range(2**16 - len(vocabulary) - 2)))
    assert EncodedCorpus.encode(path, Normaliser(), vocabulary).sentence(0) == list(range(2**16 - 2, 2**16 + 4))


def test_the_spacy_component_takes_transformers_models(folders, models):
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    pytest.importorskip("syntaxlm.spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("syntaxlm", config={"model": f"hf:{folders['bytes']}"})
    doc = nlp("The old cat sees.")
    bits = [row.surprisal for row in models["bytes"].surprisal("The old cat sees.")]
    assert [token._.surprisal for token in doc[:4]] == pytest.approx(bits, rel=1e-4)
    assert (doc[4]._.surprisal, next(doc.sents)._.parse_string) == (None, None)  # "sees." is one word
    with pytest.raises(InputError, match="a transformers model cannot be saved as a model folder"):
        nlp.to_bytes()


def test_tokens_of_spacy_that_the_tokenizer_drops_have_no_surprisal(folders, models, tmp_path):
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    pytest.importorskip("syntaxlm.spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    model = with_tokenizer_that_drops_joiners(folders["bytes"], tmp_path / "dropping")
    nlp.add_pipe("syntaxlm", config={"model": model})
    values = [token._.surprisal for token in nlp("\u200d the old \u200c cat")]
    assert [values[0], values[3]] == [None, None]
    expected = [row.surprisal for row in models["bytes"].surprisal("the old cat")]
    assert [value for value in values if value is not None] == pytest.approx(expected, rel=1e-4)


def test_threads_get_the_values_that_one_thread_gets(folders, models):
    model = models["bytes"]
    texts = [[f"the old cat sees w{number} and {' '.join(TEXTS)}"] for number in range(24)]
    found = in_threads([partial(lambda text: model.surprisal(text).to_dict(), text) for text in texts])
    again = syntaxlm.load(f"hf:{folders['bytes']}")
    again.model.double()
    assert found == [again.surprisal(text).to_dict() for text in texts]


def test_loading_does_not_change_the_precision_of_tensors_in_other_threads(monkeypatch, folders, tmp_path):
    folder = shutil.copytree(folders["bytes"], tmp_path / "half")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    used, change = set(), torch.set_default_dtype
    monkeypatch.setattr(torch, "set_default_dtype", lambda dtype: (used.add(dtype), change(dtype)))
    half = syntaxlm.load(f"hf:{folder}")
    assert used <= {torch.float32}
    assert half.surprisal(TEXTS).to_dict() == syntaxlm.load(f"hf:{folders['bytes']}").surprisal(TEXTS).to_dict()
