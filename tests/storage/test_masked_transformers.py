"""Masked and sequence-to-sequence models of the library transformers, compared with loops over plain calls of it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil

import pandas
import pytest
import torch

import syntaxlm
from syntaxlm import cli
from syntaxlm.core.errors import InputError
from tests.fresh_models import fresh
from tests.storage.small_transformers import WINDOW, write_decoder, write_masked, write_transformer

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

MASKED = ["bert", "roberta"]
DECODERS = ["t5", "bart"]
NAMES = [*MASKED, *DECODERS]
TEXTS = ["the old cat sees a doghouse.", "cats", "", "older dogs see the cat's doghouse", "a dog ."]
PAIRS = [("the cat sees a dog", "cat the sees a dog"), ("cats see dogs", "cats sees dogs")]


@pytest.fixture(scope="module")
def folders(made_once):
    def write_all(root):
        for name in MASKED:
            write_masked(name, root / name)
        for name in DECODERS:
            write_decoder(name, root / name)
        write_transformer("bytes", root / "gpt2")

    root = made_once("masked-transformers", write_all)
    return {name: root / name for name in [*NAMES, "gpt2"]}


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
    networks = dict.fromkeys(MASKED, "AutoModelForMaskedLM") | dict.fromkeys(DECODERS, "AutoModelForSeq2SeqLM")
    return {
        name: (
            getattr(transformers, networks[name]).from_pretrained(folders[name]).double().eval(),
            transformers.AutoTokenizer.from_pretrained(folders[name]),
        )
        for name in NAMES
    }


@torch.no_grad()
def pseudo_log_likelihoods(network, tokenizer, text, masking):
    """The pseudo-log-likelihood of each word, one masked sentence at a time."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids, units = encoded["input_ids"], encoded.word_ids()
    words = [0.0] * len(text.split())
    for place, unit in enumerate(units):
        if unit is None:
            continue
        masked = list(ids)
        later = [other for other in range(place + 1, len(ids)) if units[other] == unit]
        for other in [place, *(later if masking == "word-l2r" else [])]:
            masked[other] = tokenizer.mask_token_id
        logits = network(input_ids=torch.tensor([masked])).logits[0, place]
        word = text[: encoded["offset_mapping"][place][1]].count(" ")
        words[word] += float(logits.log_softmax(-1)[ids[place]])
    return words


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("masking", ["word-l2r", "original"])
def test_masked_models_give_pseudo_log_likelihoods(name, masking, models, direct):
    found = models[name].word_scores(TEXTS, masking=masking)
    for text, sentence in zip(TEXTS, found, strict=True):
        expected = pseudo_log_likelihoods(*direct[name], text, masking)
        assert [row.word for row in sentence] == text.split()
        assert [-row.bits * math.log(2) for row in sentence] == pytest.approx(expected, rel=1e-9)
        assert sentence.score == pytest.approx(sum(expected) if text else math.nan, rel=1e-9, nan_ok=not text)
        assert {row.name for row in sentence} <= {"pseudo_surprisal"}


def test_the_default_masks_the_later_subtokens_of_a_word_only_where_there_are_some(models):
    nlp = models["bert"]
    default, original = (nlp.word_scores(TEXTS[0], masking=masking) for masking in (None, "original"))
    for row, other in zip(default, original, strict=True):
        # The full stop is a word of its own.
        several = row.tokens - row.word.endswith(".") > 1
        assert (abs(row.bits - other.bits) > 1e-4) == several
    assert {row.word: row.tokens for row in default}["a"] == 1
    assert default[-1].tokens > 2


def test_words_are_masked_one_by_one_if_the_tokenizer_takes_the_text_for_one_word(folders, tmp_path):
    import tokenizers

    shutil.copytree(folders["roberta"], tmp_path / "whole")
    path = str(tmp_path / "whole" / "tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.save(path)
    sentence = syntaxlm.load(f"hf:{tmp_path / 'whole'}").model.encode(["the", "cat"])
    units = [unit for unit in sentence.units if unit is not None]
    assert len({number for _, number in units}) == 1
    assert [place for place, _ in units] == [word for word in sentence.words if word is not None]
    assert {0, 1} == {place for place, _ in units}


def test_special_tokens_in_the_text_are_refused(models):
    with pytest.raises(InputError, match=r"found '\[MASK\]' in the sentence 'the \[MASK\] sees'; expected text"):
        models["bert"].word_scores("the [MASK] sees")


@torch.no_grad()
def decoder_log_probs(network, tokenizer, text):
    """The log-probability of each word after an empty encoder input, with the boundary after it and not before it."""
    words = [0.0] * len(text.split())
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    start = [network.config.decoder_start_token_id]
    if len(tokenizer("")["input_ids"]) > 1:
        start.append(tokenizer.bos_token_id)
    ids = [*start, *encoded["input_ids"]]
    source = torch.tensor([tokenizer("")["input_ids"]])
    logits = network(input_ids=source, decoder_input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    ends = (tokenizer.eos_token_id, tokenizer.bos_token_id)
    boundary = [
        number for number, token in enumerate(tokens) if token[0] in "Ġ▁ĊĉčċČ" or token[0].isspace() or number in ends
    ]
    bounded = logits[:, boundary].logsumexp(-1)
    for place, (number, (_, end)) in enumerate(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)):
        words[text[:end].count(" ")] += float(logits[place + len(start) - 1, number])
    place = len(start) - 1
    for word in range(len(words)):
        words[word] -= float(bounded[place]) if word else 0
        place += sum(text[:end].count(" ") == word for _, end in encoded["offset_mapping"])
        words[word] += float(bounded[place])
    return words


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_give_log_probabilities_after_an_empty_input(name, models, direct):
    found = models[name].word_scores(TEXTS)
    for text, sentence in zip(TEXTS, found, strict=True):
        expected = decoder_log_probs(*direct[name], text) if text else []
        assert [-row.bits * math.log(2) for row in sentence] == pytest.approx(expected, rel=1e-9)
        assert {row.name for row in sentence} <= {"decoder_surprisal"}


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_any_size_give_what_single_sentences_give(name, models, monkeypatch):
    nlp = models[name]
    expected = [nlp.word_scores(text).score for text in TEXTS]
    sizes = []
    network = nlp.model.network
    hook = network.register_forward_hook(lambda _, __, output: sizes.append(output.logits.numel()))
    for most in (1, 20_000, 1 << 26):
        monkeypatch.setattr("syntaxlm.models.transformer.LOGITS_TOGETHER", most)
        sizes.clear()
        assert [one.score for one in nlp.word_scores(TEXTS)] == pytest.approx(expected, rel=1e-9, nan_ok=True)
        assert max(sizes) <= max(most, 20 * nlp.model.logit_count)
    hook.remove()
    # All variants of all sentences fit into one batch.
    assert len(sizes) == 1


@pytest.mark.parametrize("name", NAMES)
def test_given_words_are_read_but_have_no_rows(name, models):
    nlp = models[name]
    whole = nlp.word_scores("the old cat sees")
    part = nlp.word_scores("cat sees", given="the old")
    assert [row.bits for row in part] == pytest.approx([row.bits for row in whole[2:]], rel=1e-9)


def test_words_of_unknown_subtokens_are_not_in_the_vocabulary_and_words_of_none_are_not_read(models):
    rows = models["bert"].word_scores("the \u0416 \ue000 \u200d \ufeff cat")
    assert [row.word for row in rows] == ["the", "\u0416", "\ue000", "\u200d", "\ufeff", "cat"]
    assert [row.in_vocabulary for row in rows] == [True, False, None, None, None, True]
    assert [row.token for row in rows] == ["the", "\u0416", "", "", "", "cat"]
    assert [row.bits is None for row in rows] == [False, False, True, True, True, False]
    assert rows[-1].bits == pytest.approx(models["bert"].word_scores("the \u0416 cat")[-1].bits, rel=1e-9)


def test_scores_of_a_table_keep_its_cells_and_name_their_column(models):
    table = pandas.DataFrame({"text": ["the cat", "a dog sees"], "item": [7, 8]})
    found = models["bert"].word_scores(table, column="text")
    frame = found.to_dataframe()
    assert list(frame["item"]) == [7, 7, 8, 8, 8]
    assert list(frame["pseudo_surprisal"]) == [row.bits for sentence in found for row in sentence]
    assert not any(column.startswith("surprisal") for column in frame)
    assert "pseudo_surprisal" in str(found[0])


def test_a_sentence_that_is_too_long_for_a_masked_model_is_refused(models):
    message = rf"found a sentence of \d+ sub-tokens, which begins with 'cat cat.*expected at most {WINDOW}"
    for name in MASKED:
        with pytest.raises(InputError, match=message):
            models[name].word_scores("cat " * 2 * WINDOW)


@pytest.mark.parametrize(("name", "column"), [("bert", "pseudo_surprisal"), ("t5", "decoder_surprisal")])
def test_score_names_its_column_in_every_format(name, column, folders, models, capsys, tmp_path):
    model = f"hf:{folders[name]}"
    bits = [row.bits for row in models[name].word_scores("the old doghouse")]  # in float64

    def output(*options):
        assert cli.main(["score", model, "--text", "the old doghouse", *map(str, options)]) == 0
        return capsys.readouterr()

    rows = list(csv.DictReader(io.StringIO(output("--format", "csv").out)))
    assert "surprisal" not in rows[0]
    assert [float(row[column]) for row in rows] == pytest.approx(bits, abs=1e-4)
    found = output("--json")
    assert [json.loads(line)[column] for line in found.out.splitlines()] == pytest.approx(bits, abs=1e-4)
    assert f"{column} is the negative score in bits of" in found.err
    assert "this is not the surprisal" in found.err
    text = output("--format", "text").out
    assert f"{column} in bits, {sum(bits):.1f} in total" in text
    assert "surprisal" not in text.replace(column, "")
    output("-o", tmp_path / "rows.parquet")
    assert list(pandas.read_parquet(tmp_path / "rows.parquet")[column]) == pytest.approx(bits, abs=1e-4)


def test_options_of_surprisals_are_refused(folders, capsys):
    bert, gpt2, t5 = (f"hf:{folders[name]}" for name in ("bert", "gpt2", "t5"))
    for options, message in {
        ("--measure", "entropy"): "--measure: found with a model that gives pseudo_surprisal",
        ("--next-words", "3"): "--next-words: found with a model that gives pseudo_surprisal",
        ("--context", "carry"): "--context carry: found with a model that gives pseudo_surprisal",
        ("--picture", "x.svg"): "--picture: found pseudo_surprisal; expected models that give surprisals",
        ("--also", gpt2): "which cannot be compared; score these models separately",
        ("--also", t5): "pseudo_surprisal of .*, decoder_surprisal of .*, which cannot be compared",
    }.items():
        assert cli.main(["score", bert, "--text", "the cat", *options]) == 2
        assert_matches(message, capsys.readouterr().err)
    assert cli.main(["score", t5, "--text", "the cat", "--masking", "original"]) == 2
    assert "masks no tokens, so score with --masking cannot use it" in capsys.readouterr().err


def assert_matches(pattern, text):
    assert re.search(pattern, " ".join(text.split())), text


def test_minimal_pairs_compare_scores_that_are_named(folders, models, tmp_path, capsys):
    path = tmp_path / "pairs.tsv"
    path.write_text("better\tworse\n" + "".join(f"{better}\t{worse}\n" for better, worse in PAIRS))
    named = {name: models[name] for name in ("gpt2", "bert", "t5")}
    report = syntaxlm.evaluate_pairs(named, str(path))
    figures = json.loads(json.dumps(report.to_dict()))
    scores = {"gpt2": "log_prob", "bert": "pseudo_log_likelihood", "t5": "decoder_log_probability"}
    assert {one["model"]: one["score"] for one in figures["models"]} == scores
    assert dict(report.to_dataframe()[["model", "score"]].drop_duplicates().values) == scores
    assert "(end of sentence not included, state reset" in str(report)
    both = syntaxlm.evaluate_pairs({"gpt2": models["gpt2"], "lstm": fresh("lstm")}, str(path))
    assert "(end of sentence included, except for gpt2, state reset" in str(both)
    assert "bert: pseudo_log_likelihood instead of the log-probability: of a masked model" in str(report)
    assert "t5: decoder_log_probability instead of the log-probability" in str(report)
    assert "gpt2: log_prob" not in str(report)
    for (better, worse), row in zip(PAIRS, report.details(), strict=True):
        for name in ("bert", "t5"):
            found = row["models"][name][scores[name]]
            expected = [models[name].word_scores(sentence).score for sentence in (better, worse)]
            assert found == pytest.approx(expected, abs=1e-4)
            assert row["models"][name]["correct"] == (expected[0] > expected[1])
    other = syntaxlm.evaluate_pairs(named, str(path), masking="original").models[1]
    assert "PLL of Salazar et al. 2020" in other.score_meaning
    assert cli.main(["evaluate", "pairs", f"hf:{folders['bert']}", str(path), "--masking", "original"]) == 0
    assert "PLL of Salazar et al. 2020" in capsys.readouterr().out
    with pytest.raises(InputError, match="masks no tokens, so minimal pairs with masking"):
        syntaxlm.evaluate_pairs(models["gpt2"], str(path), masking="original")


@pytest.mark.parametrize(("name", "what"), [("bert", "is a masked model"), ("bart", "is a sequence-to-sequence model")])
def test_what_needs_probabilities_given_the_words_before_is_refused(name, what, models, tmp_path):
    nlp = models[name]
    missing = str(tmp_path / "missing.csv")  # the model is refused before files are read
    for use in (
        lambda: nlp.surprisal("the cat"),
        lambda: nlp.surprisal(missing, column="text"),
        lambda: nlp.log_prob("the cat"),
        lambda: nlp.perplexity(["the cat"]),
        lambda: nlp.evaluate_items(missing),
        lambda: nlp.word_table(missing, frequencies=missing),
        lambda: nlp.evaluate_suites(missing),
        lambda: nlp.evaluate_completion(missing, missing),
        lambda: syntaxlm.evaluate_reading_times(nlp, missing, frequencies=missing),
    ):
        with pytest.raises(InputError, match=f"this transformers model {what}.*cannot use it"):
            use()
    for use in (lambda: nlp.parse("the cat"), nlp.generate, lambda: nlp.surprisal("the cat", next_words=2)):
        with pytest.raises(InputError, match="this transformers model"):
            use()
    with pytest.raises(InputError, match="cannot be saved as a model folder"):
        nlp.save_pretrained(tmp_path / "saved")


def test_commands_refuse_a_model_before_they_read_tables(folders, tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_bytes(b"\xff\xff")  # cannot be read
    for command in (
        ["items", "MODEL", table],
        ["score", "MODEL", "--words", table, "--frequencies", table],
        ["evaluate", "reading-times", "MODEL", "--words", table, "--frequencies", table],
    ):
        words = [f"hf:{folders['bert']}" if word == "MODEL" else str(word) for word in command]
        assert cli.main(words) == 2
        assert_matches("this transformers model is a masked model", capsys.readouterr().err)


def test_measures_that_a_model_lacks_are_refused_before_a_table_is_read(models, tmp_path):
    missing = str(tmp_path / "missing.csv")
    for measure, message in {
        "depth": "does not parse, so measures of trees cannot use it",
        "belief_update": "gives no probabilities of constituents after each word, so the measure belief_update",
    }.items():
        with pytest.raises(InputError, match=message):
            syntaxlm.evaluate_items(models["gpt2"], missing, measures=[measure])
        settings = syntaxlm.RegressionSettings(measures=["surprisal", measure])
        with pytest.raises(InputError, match=message):
            syntaxlm.evaluate_reading_times(models["gpt2"], missing, frequencies=missing, settings=settings)
    with pytest.raises(InputError, match="gives no probabilities of constituents"):
        syntaxlm.word_table(models["gpt2"], missing, measures=["belief_update"])


def test_models_that_give_surprisals_have_no_other_scores(models):
    with pytest.raises(InputError, match="this transformers model gives surprisals, so word_scores cannot use it"):
        models["gpt2"].word_scores("the cat")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("ElectraForPreTraining", "found ElectraForPreTraining in config.json, a discriminator, .*Use another model;"
         " for ELECTRA, the generator that was trained with it, such as hf:google/electra-small-generator$"),
        ("BertForSequenceClassification", "found BertForSequenceClassification in config.json, which was trained for"
         " another task and predicts no words; .*Use the language model from which it was trained$"),
        ("GPT2ForSequenceClassification", "found GPT2ForSequenceClassification in config.json, which was trained for"),
        ("BertModel", r"the weights of BertModel have no language-model head, because cls.* is missing;"),
        ("ElectraModel", "the weights of ElectraModel have no language-model head, because generator_"),
        ("DebertaV2Model", "the weights of DebertaV2Model have no language-model head, because cls.*is missing;"),
        ("T5EncoderModel", "found T5EncoderModel in config.json, which is not a language model of text"),
        ("ViTForImageClassification", "found ViTForImageClassification in config.json, which is not a language model"),
        ("CLIPModel", "found CLIPModel in config.json, which is not a language model of text; expected a language"
         " model, whose config.json names an architecture that ends in ForCausalLM, LMHeadModel, ForMaskedLM or For"),
    ],
)  # fmt: skip
def test_networks_that_are_not_language_models_are_refused_by_name(written, message, folders, tmp_path):
    folder = shutil.copytree(folders["t5" if written.startswith("T5") else "bert"], tmp_path / "other")
    network = getattr(transformers, written)
    if written in ("CLIPModel", "ViTForImageClassification"):
        config = network.config_class(architectures=[written])
        config.save_pretrained(folder)
    else:
        sizes = dict.fromkeys(("hidden_size", "embedding_size", "intermediate_size", "n_embd", "d_model", "d_ff"), 16)
        sizes |= dict.fromkeys(("num_hidden_layers", "num_attention_heads", "n_layer", "n_head", "num_layers"), 1)
        network(network.config_class(vocab_size=60, pad_token_id=0, **sizes)).save_pretrained(folder)
    with pytest.raises(InputError, match=f"^hf:{folder}: {message}"):
        syntaxlm.load(f"hf:{folder}")


def test_networks_without_a_named_architecture_are_masked_if_the_library_has_only_masked_ones(folders, tmp_path):
    folder = shutil.copytree(folders["bert"], tmp_path / "unnamed")
    config = transformers.DebertaV2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=60, pad_token_id=0
    )
    transformers.DebertaV2ForMaskedLM(config).save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    del saved["architectures"]
    (folder / "config.json").write_text(json.dumps(saved))
    nlp = syntaxlm.load(f"hf:{folder}")
    assert type(nlp.model.network) is transformers.DebertaV2ForMaskedLM
    assert nlp.model.score_type.word == "pseudo_surprisal"


def test_tokenizers_without_a_mask_are_refused(folders, tmp_path):
    copy = shutil.copytree(folders["bert"], tmp_path / "copy")
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if (copy / file).exists():
            settings = json.loads((copy / file).read_text())
            settings.pop("mask_token", None)
            (copy / file).write_text(json.dumps(settings))
    with pytest.raises(InputError, match="the tokenizer has no mask token"):
        syntaxlm.load(f"hf:{copy}")
