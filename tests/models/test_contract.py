"""The one contract, which every model of the registry keeps; of one that reads trees test_tree_rnn.py asks it."""

from __future__ import annotations

from itertools import product
from statistics import median

import pytest
import torch

from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.registry import MODELS, build_model, reads

WORDS = 23
SMALL = {
    "embedding_size": 6, "hidden_size": 8, "layers": 2, "memory_slots": 4, "look_back": 3, "init_range": 0.5,
    "layer_sizes": (8, 6), "chunk_size": 2, "attention_after": 1, "span_size": 6, "scorer_size": 5, "maximum_span": 4,
}  # fmt: skip


def ablations_of_prpn() -> dict[str, tuple[str, dict[str, object]]]:
    """Every combination of its parts that can be, by a name that says what is left out."""
    parts = ("parsing", "reading_attention", "predict_attention")
    found = {}
    for kept in product([True, False], repeat=3):
        settings = dict(zip(parts, kept, strict=True))
        if not all(kept) and (not settings["parsing"] or any(kept[1:])):
            found["prpn without " + ", ".join(part for part in parts if not settings[part])] = "prpn", settings
    return found


OTHERS = {
    "awd-lstm": ("on-lstm", {"cell": "lstm"}),
    "palm, right-branching": ("palm", {"scores": "right-branching"}),
    "palm, paper's form": ("palm", {"form": "paper"}),
    "palm, attention after the last layer": ("palm", {"attention_after": 2}),
}
TEXT_MODELS = [name for name, (config, _) in MODELS.items() if reads(config) == "tokens"]
VARIANTS = {name: (name, {}) for name in TEXT_MODELS} | ablations_of_prpn() | OTHERS


def built(name: str, **settings):
    """A small model with weights large enough that everything in it matters, in float64 and evaluation.

    settings: those that the model has. One that learns by counting has counted a text of all words.
    """
    model_name, own = VARIANTS[name]
    kind = MODELS[model_name][0]
    torch.manual_seed(3)
    known = {key: value for key, value in (SMALL | own | settings).items() if key in kind.__dataclass_fields__}
    assert known.keys() >= own.keys()
    model = build_model(kind(**known), WORDS).double()
    if model.is_counted:
        model.count([read(400, 5, seed=9)])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
    return model.eval()


def read(steps: int, columns: int, seed: int = 1) -> TokenBatch:
    tokens = torch.randint(WORDS, (steps + 1, columns), generator=torch.Generator().manual_seed(seed))
    return TokenBatch(tokens[:-1], tokens[1:])


every_model = pytest.mark.parametrize("name", VARIANTS)
every_neural_model = pytest.mark.parametrize("name", [name for name in VARIANTS if not built(name).is_counted])


@every_model
@pytest.mark.parametrize(("steps", "columns"), [(1, 1), (7, 3), (20, 2)])
def test_shapes(name, steps, columns):
    model = built(name)
    batch = read(steps, columns)
    output = model(batch)
    assert output.log_probs(batch.targets).shape == (steps, columns)
    assert all(penalty.shape == () for penalty in output.penalties.values())
    has_distances = output.syntax is not None and output.syntax.distances is not None
    assert has_distances == (model.distance_layers > 0)
    if has_distances:
        assert output.syntax.distances.shape == (model.distance_layers, steps, columns)
        assert model.syntax(batch).distances.shape == (model.distance_layers, steps, columns)
    has_scores = output.syntax is not None and output.syntax.span_scores is not None
    assert has_scores == model.gives_span_scores
    if has_scores:
        assert output.syntax.span_scores.shape[:2] == (steps, columns)
        assert model.syntax(batch).span_scores.shape[:2] == (steps, columns)
        assert model.syntax(batch).span_scores.shape[2] >= steps - 1, "spans of every length are scored"
    if output.syntax is not None:
        assert all(picture.shape[:2] == (steps, columns) for picture in output.syntax.maps.values())


@every_model
@pytest.mark.parametrize("tied", [True, False])
def test_probabilities_sum_to_one_over_the_vocabulary(name, tied):
    model = built(name, tied=tied)
    batch = read(7, 3)
    log_probs = model(batch).log_probs
    total = sum(log_probs(torch.full_like(batch.targets, word)).exp() for word in range(WORDS))
    torch.testing.assert_close(total, torch.ones(7, 3, dtype=torch.float64))


@every_model
@pytest.mark.parametrize("lengths", [None, [7, 4, 1]])
def test_the_next_token_has_the_probabilities_that_targets_have_at_the_last_step(name, lengths):
    model = built(name)
    batch = read(7, 3)
    output = model(TokenBatch(batch.tokens, batch.targets, None if lengths is None else torch.tensor(lengths)))
    if output.next_log_probs is None:
        pytest.skip("the model does not go word by word")
    found = output.next_log_probs()
    assert found.shape == (3, WORDS)
    last = torch.tensor(lengths or [7] * 3) - 1
    for word in range(WORDS):
        expected = output.log_probs(torch.full_like(batch.targets, word))[last, torch.arange(3)]
        torch.testing.assert_close(found[:, word], expected, rtol=0, atol=1e-12)


@every_model
def test_padding_and_company_never_change_a_real_token(name):
    model = built(name)
    batch = read(9, 4)
    lengths = [9, 7, 5, 1]
    together = model(TokenBatch(batch.tokens, batch.targets, torch.tensor(lengths))).log_probs(batch.targets)
    for column, length in enumerate(lengths):
        part = slice(length), slice(column, column + 1)
        alone = TokenBatch(batch.tokens[part], batch.targets[part])
        torch.testing.assert_close(together[part], model(alone).log_probs(alone.targets), rtol=0, atol=1e-12)
        assert not together[length:, column].any(), "padding has a log-probability other than 0"


@every_model
@pytest.mark.parametrize("cuts", [(1,), (5,), (3, 4, 9), tuple(range(1, 12))])
def test_a_stream_in_chunks_equals_the_whole_read_at_once(name, cuts):
    model = built(name)
    batch = read(12, 2)
    whole = model(batch).log_probs(batch.targets)
    state, parts = None, []
    for start, end in zip((0, *cuts), (*cuts, 12), strict=True):
        chunk = TokenBatch(batch.tokens[start:end], batch.targets[start:end], carries=start > 0)
        output = model(chunk, state)
        state = output.state
        parts.append(output.log_probs(chunk.targets))
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)


@every_model
def test_the_carried_state_matters(name):
    model = built(name)
    first, second = read(6, 2, seed=1), read(6, 2, seed=2)
    carried = model(second, model(first).state).log_probs(second.targets)
    assert (carried - model(second).log_probs(second.targets)).abs().max() > 1e-6


@every_model
def test_the_state_is_a_flat_dict_of_detached_tensors_that_are_not_changed_by_reading_on(name):
    model = built(name).train()
    batch = read(6, 2)
    state = model(batch).state
    assert state
    assert all(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in state.items())
    assert not any(value.requires_grad for value in state.values())
    before = {key: value.clone() for key, value in state.items()}
    log_probs = model(batch, state).log_probs(batch.targets)
    if not model.is_counted:
        log_probs.sum().backward()
    assert all(torch.equal(value, before[key]) for key, value in state.items())


@every_model
def test_a_word_has_no_say_in_what_stands_before_it(name):
    model = built(name)
    batch = read(10, 2)
    changed = batch.tokens.clone()
    changed[6:] = (changed[6:] + 1) % WORDS
    one, other = model(batch), model(TokenBatch(changed, batch.targets))
    log_probs, others = one.log_probs(batch.targets), other.log_probs(batch.targets)
    torch.testing.assert_close(log_probs[:6], others[:6], rtol=0, atol=1e-12)
    assert (log_probs[6:] - others[6:]).abs().max() > 1e-6
    if model.distance_layers:
        torch.testing.assert_close(one.syntax.distances[:, :6], other.syntax.distances[:, :6], rtol=0, atol=1e-12)
        assert (one.syntax.distances - other.syntax.distances).abs().max() > 1e-6
    if model.gives_span_scores:
        torch.testing.assert_close(one.syntax.span_scores[:6], other.syntax.span_scores[:6], rtol=0, atol=1e-12)


@every_model
def test_syntax_alone_equals_that_of_a_whole_reading(name):
    model = built(name)
    batch = read(9, 3)
    padded = TokenBatch(batch.tokens, batch.targets, torch.tensor([9, 4, 1]))
    full, alone = model(padded).syntax, model.syntax(padded)
    assert (full is None) == (alone is None)
    real = padded.mask()
    if model.distance_layers:
        torch.testing.assert_close(alone.distances[:, real], full.distances[:, real], rtol=0, atol=1e-12)
    if model.gives_span_scores:
        lengths = min(alone.span_scores.shape[-1], full.span_scores.shape[-1])
        one, other = (scores[real][:, :lengths] for scores in (alone.span_scores, full.span_scores))
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@every_neural_model
@pytest.mark.parametrize("tied", [True, False])
def test_gradients_reach_every_parameter(name, tied):
    model = built(name, tied=tied).train()
    batch = read(12, 4)
    output = model(TokenBatch(batch.tokens, batch.targets, torch.tensor([12, 9, 7, 3])))
    (-output.log_probs(batch.targets).sum() + sum(output.penalties.values())).backward()
    missing = [key for key, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not missing


@every_neural_model
def test_the_gradient_in_evaluation_agrees_with_finite_differences(name):
    model = built(name)
    batch = read(5, 2)
    loss = -model(batch).log_probs(batch.targets).sum()
    loss.backward()
    generator = torch.Generator().manual_seed(5)
    for key, weight in model.named_parameters():
        direction = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weight.add_(step * direction)
                values.append(float(-model(batch).log_probs(batch.targets).sum()))
                weight.sub_(step * direction)
        expected = (values[0] - values[1]) / 2e-6
        assert float((weight.grad * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-6), key


@every_neural_model
def test_bfloat16_products_stay_near_float32_in_value_and_gradient(name):
    """In the middle of several batches: now and then a norm of eight features makes much of a rounding error."""
    model = built(name, init_range=0.1).float()
    value_errors, gradient_errors = [], []
    for seed in range(5):
        batch = read(10, 4, seed)
        results = []
        for low in (False, True):
            model.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                output = model(batch)
                log_probs = output.log_probs(batch.targets)
            assert log_probs.dtype == torch.float32
            log_probs.sum().backward()
            results.append((log_probs.detach(), model.embedding.weight.grad.clone()))
        (exact, exact_grad), (rough, rough_grad) = results
        value_errors.append(float((exact - rough).abs().max()))
        gradient_errors.append(float((exact_grad - rough_grad).norm() / exact_grad.norm()))
    assert 0 < median(value_errors) < 0.1
    assert median(gradient_errors) < 0.15


@every_neural_model
def test_hidden_has_of_each_real_step_what_the_decoder_reads(name):
    model = built(name)
    batch = read(6, 3)
    for lengths in (None, torch.tensor([6, 4, 1])):
        batch = TokenBatch(batch.tokens, batch.targets, lengths)
        output = model(batch)
        log_probs = torch.log_softmax(model.decoder(output.hidden), dim=-1)
        expected = log_probs.gather(1, batch.targets[batch.mask()][:, None])[:, 0]
        torch.testing.assert_close(output.log_probs(batch.targets)[batch.mask()], expected)


@every_neural_model
def test_dropout_works_in_training_only(name):
    names = set(MODELS[VARIANTS[name][0]][0].__dataclass_fields__) - {"ar_after_dropout"}
    rates = {key: 0.5 for key in names if key.endswith("dropout")}
    assert rates
    model = built(name, **rates)
    batch = read(8, 3)
    torch.testing.assert_close(model(batch).log_probs(batch.targets), model(batch).log_probs(batch.targets))
    model.train()
    assert (model(batch).log_probs(batch.targets) - model(batch).log_probs(batch.targets)).abs().max() > 1e-3


@every_model
def test_what_is_counted_has_no_weights_for_gradients_and_all_else_has(name):
    model = built(name)
    assert model.is_counted == (not list(model.parameters()))
    assert model.parameter_count > 0
    assert model.device.type == "cpu"


@pytest.mark.parametrize("name", [name for name in VARIANTS if built(name).is_counted])
def test_counting_a_text_makes_it_more_probable_and_depends_on_no_order_of_its_batches(name):
    texts = [read(30, 4, seed) for seed in range(5)]
    fresh, one, other = (build_model(MODELS[VARIANTS[name][0]][0](), WORDS) for _ in range(3))
    one.count(texts)
    other.count(texts[::-1])
    before, after, same = (float(model(texts[0]).log_probs(texts[0].targets).sum()) for model in (fresh, one, other))
    assert after > before + 100
    assert same == after
