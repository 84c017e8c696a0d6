"""Models written as folders of the library transformers: the same probabilities, tokens and generated words."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.generation.options import SamplingOptions
from syntaxlm.generation.sentences import generate
from syntaxlm.models.causal_transformer import CausalTransformerConfig
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.prpn import PRPNConfig
from syntaxlm.models.registry import MODELS
from syntaxlm.scoring.engine import Scorer
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.storage.transformers_export import write_transformers
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.options import TextOptions
from syntaxlm.text.reader import TextReader
from syntaxlm.text.vocabulary import Vocabulary

TEXT = "The old cats don't see 12 zebras, and the cat runs and runs and runs."
WORDS = ("the", "old", "cats", "do", "n't", "see", "N", ",", "and", "cat", "runs", ".")
VOCABULARY = Vocabulary(["<unk>", "<s>", "</s>", "<unk:s>", *WORDS])
LSTM = LSTMConfig(embedding_size=8, hidden_size=12, layers=2)
TRANSFORMER = CausalTransformerConfig(embedding_size=16, layers=2, heads=2, window=3)


def bundle_of(config):
    """A model with random weights, biases included."""
    torch.manual_seed(5)
    model = MODELS[config.name].build(config, len(VOCABULARY))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.5 * torch.randn_like(weight))
        model.decoder.bias[VOCABULARY.begin_id] -= 20  # it is never generated here
    normaliser = NormaliserSettings(lower_case=True, numbers="whole")
    return ModelBundle(model.eval(), ModelSettings(config, normaliser), VOCABULARY)


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Writes a model, and returns the model and the tokenizer that transformers reads."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))

    def loaded(bundle):
        folder = tmp_path / "exported"
        write_transformers(bundle, folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
        return model.eval(), transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)

    return loaded


@pytest.mark.parametrize(
    "config",
    [
        LSTM,
        replace(LSTM, cell="rnn", tied=False),
        replace(LSTM, cutoffs=(6, 10)),
        TRANSFORMER,
        replace(TRANSFORMER, tied=False),
        replace(TRANSFORMER, cutoffs=(6, 10)),
    ],
    ids=["lstm", "untied rnn", "adaptive lstm", "transformer", "untied transformer", "adaptive transformer"],
)
def test_probabilities_tokens_and_greedy_words_are_those_of_the_model(config, loaded):
    bundle = bundle_of(config)
    model, tokenizer = loaded(bundle)
    read = tokenizer(TEXT, return_tensors="pt")
    tokens = TextReader.of(bundle.normaliser, VOCABULARY, TextOptions()).tokens(TEXT)
    assert len(tokens) > 3 * TRANSFORMER.window
    assert read["input_ids"][0].tolist() == [VOCABULARY.begin_id, *VOCABULARY.encode(tokens)]
    assert VOCABULARY.id("zebras") == VOCABULARY.id("<unk:s>") in read["input_ids"]

    ids = [*VOCABULARY.encode(tokens), VOCABULARY.end_id]
    with torch.no_grad():
        log_probs = model(**read).logits[0].log_softmax(-1)
    (expected,) = Scorer.of(bundle).sentences([tokens])
    assert float(log_probs[range(len(ids)), ids].double().sum()) == pytest.approx(expected, abs=1e-5)

    start = tokenizer("the old", return_tensors="pt")
    ours = next(generate(bundle, 1, "the old", SamplingOptions(temperature=0, keep_unknown=True, max_words=6)))
    theirs = model.generate(**start, max_new_tokens=6, do_sample=False)[0, 1:].tolist()
    if ours.ended:
        theirs.remove(VOCABULARY.end_id)
    assert VOCABULARY.decode(theirs) == ours.tokens


def test_padding_on_the_right_changes_nothing_and_on_the_left_is_refused(loaded):
    model, tokenizer = loaded(bundle_of(LSTM))
    alone = model(**tokenizer("the cat", return_tensors="pt")).logits
    batch = tokenizer(["the cat", "the old cats see"], return_tensors="pt", padding=True)
    together = model(**batch, labels=batch["input_ids"])
    torch.testing.assert_close(together.logits[:1, : alone.shape[1]], alone)
    assert together.loss > 0
    with pytest.raises(ValueError, match="expected padding on the right"):
        model(batch["input_ids"], batch["attention_mask"].flip(1))


def test_other_models_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="a prpn model is not exported, because"):
        write_transformers(bundle_of(PRPNConfig(embedding_size=8, hidden_size=8)), tmp_path / "new")
    with pytest.raises(InputError, match=r"model\.mixture: found 2; a mixture of softmaxes is not exported"):
        write_transformers(bundle_of(replace(LSTM, mixture=2)), tmp_path / "new")
    assert not (tmp_path / "new").exists()
