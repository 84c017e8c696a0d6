"""Faults of settings name file, key, what was found and what was expected, all of them at once."""

from __future__ import annotations

import copy
import typing
from dataclasses import fields, is_dataclass

import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import flat_overrides, override
from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.prpn import PRPNConfig
from syntaxlm.models.registry import MODELS
from syntaxlm.scoring.cache import CacheSettings
from syntaxlm.training.classifiers import StopRecipe
from syntaxlm.training.recipe import RECIPES, SentenceBatchSettings, StreamBatchSettings, read_recipe, recipe_from

PATHS = {"train": "a.txt", "valid": "b.txt"}
RIGHT = {"model": {"name": "prpn"}, "text": PATHS}


def listed(message: str) -> list[str]:
    """The faults of a message that has several."""
    first, *faults = message.splitlines()
    assert first == f"my.yaml: {len(faults)} settings cannot be used"
    return [fault.removeprefix("  ") for fault in faults]


def fault_of(changes: dict) -> str:
    """The message about a correct recipe with settings changed, {"model.layers": 0}."""
    data = copy.deepcopy(RIGHT)
    for key, value in changes.items():
        place = data
        *path, last = key.split(".")
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    with pytest.raises(InputError) as caught:
        recipe_from(data, "my.yaml")
    return str(caught.value)


def test_the_correct_recipe_is_accepted():
    recipe = recipe_from(copy.deepcopy(RIGHT), "my.yaml")
    assert recipe.model == PRPNConfig()
    assert recipe_from({**RIGHT, "model": {"name": "lstm", "layers": 1}}, "my.yaml").model == LSTMConfig(layers=1)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("model.hiden_size", "model.hidden_size"),
        ("model.droput", "model.dropout"),
        ("schedule.epoch", "schedule.epochs"),
        ("text.normaliser.lowercase", "text.normaliser.lower_case"),
        ("text.vocabulary.min_count", "text.vocabulary.minimum_count"),
        ("optimizer", "optimiser"),
    ],
)
def test_a_misspelt_key_is_reported_with_file_and_closest_match(key, nearest):
    assert fault_of({key: 1}) == f"my.yaml: {key}: no such setting. Did you mean {nearest}?"


@pytest.mark.parametrize("value", ["32", 32])
def test_a_precision_is_read_as_text_or_as_the_number_that_yaml_makes_of_it(value):
    assert read_recipe("lstm-toy", {"run.precision": value}).run.precision == "32"
    assert "run.precision: found 16" in fault_of({"run.precision": 16})


def test_an_unknown_key_without_a_close_match_lists_the_available_keys():
    assert fault_of({"run.zzzzz": 1}) == (
        "my.yaml: run.zzzzz: no such setting. There are: seed, precision, accelerator, checkpoint_seconds, log_steps,"
        " process_timeout."
    )


def test_a_key_of_another_model_is_not_a_setting_of_this_model():
    assert "model.memory_slots: no such setting" in fault_of({"model": {"name": "lstm", "memory_slots": 3}})


@pytest.mark.parametrize(
    ("key", "value", "found", "expected"),
    [
        ("model.dropout", "lots", '"lots"', "number"),
        ("model.hidden_size", 3.5, "3.5", "integer"),
        ("model.tied", "yes", '"yes"', "true or false"),
        ("model.layers", True, "true", "integer"),
        ("model.form", "printed", '"printed"', "'released' or 'paper'"),
        ("model", [1, 2], "[1, 2]", "section"),
        ("model", "prpn", '"prpn"', "section"),
        ("schedule", [3], "[3]", "section"),
        ("text.normaliser", "plain", '"plain"', "section"),
        ("text.train", 5, "5", "string"),
        ("text.normaliser.drop_words", "a b", '"a b"', "a list"),
        ("optimiser.learning_rate", None, "null", "number"),
        ("run.accelerator", "gpuu", '"gpuu"', "'auto', 'cpu'"),
        ("batches.predict_eos", "yes", '"yes"', "true or false"),
        ("batches.context", "stream", '"stream"', "one of reset, carry"),
        # YAML reads some text as another type.
        ("text.train", False, "false", "a valid string; put it in quotes"),
    ],
)
def test_a_wrong_type_is_reported_with_key_found_and_expected(key, value, found, expected):
    fault = fault_of({key: value})
    assert fault.startswith(f"my.yaml: {key}: found {found}; expected ")
    assert expected in fault.partition("expected ")[2]
    assert len(fault.splitlines()) == 1


def test_a_missing_section_and_a_missing_setting_are_named():
    with pytest.raises(InputError) as caught:
        recipe_from({"text": {"train": "a.txt"}}, "my.yaml")
    assert set(listed(str(caught.value))) == {"model: missing", "text.valid: missing"}


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ({"name": "prnp"}, 'my.yaml: model.name: found "prnp"; expected one of prpn, lstm, on-lstm'),
        ({"layers": 2}, "my.yaml: model.name: missing; expected one of prpn, lstm, on-lstm"),
        ({"name": 3}, "my.yaml: model.name: found 3; expected one of prpn, lstm, on-lstm"),
    ],
)
def test_an_unknown_model_is_reported_with_the_available_models(model, fault):
    assert fault_of({"model": model}).startswith(fault)
    assert fault_of({"model": model}).endswith(f" expected one of {', '.join(MODELS)}")


def test_several_faults_are_reported_together():
    faults = fault_of({"model": {"name": "unheard"}, "run.sed": 3, "schedule.epochs": "many", "batches": 7})
    assert {line.split(": ")[0] for line in listed(faults)} == {"model.name", "batches", "schedule.epochs", "run.sed"}


RANGES = [
    ("hidden_size", 0), ("hidden_size", -4), ("embedding_size", 0), ("layers", 0), ("memory_slots", 0),
    ("look_back", -1), ("residual_blocks", -1), ("dropout", 1.5), ("dropout", -0.1), ("dropout", 1.0),
    ("layer_dropout", 2.0), ("recurrent_dropout", -1.0), ("resolution", 0.0), ("temperature", -1.0),
    ("init_range", -0.5), ("init_range", float("nan")), ("resolution", float("inf")), ("chunk_size", 0),
    ("input_dropout", 1.0), ("embedding_dropout", -0.1), ("weight_drop", 1.0), ("ar", -1.0),
    ("tar", float("inf")), ("order", 0), ("minimum_counts", []), ("minimum_counts", [2]),
    ("minimum_counts", [1, 3, 2]), ("nonterminals", 0), ("preterminals", 0), ("end_bias", -1.0),
    ("end_bias_epochs", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (model, *pair)
        for model, kind in MODELS.items()
        for pair in RANGES
        if pair[0] in kind.config.__dataclass_fields__
    ],
)
def test_a_model_setting_out_of_range_is_reported_by_name_and_not_by_torch(model, name, value):
    kind = MODELS[model].config
    assert fault_of({"model": {"name": model, name: value}}).startswith(f"my.yaml: model.{name}: found {value}; ")
    with pytest.raises(InputError, match=rf"^model\.{name}: found "):
        kind(**{name: tuple(value) if isinstance(value, list) else value})


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"layer_sizes": [40, 0]}, "model.layer_sizes.1: found 0; expected an integer from 1 to 65,536"),
        ({"layer_sizes": []}, "model.layer_sizes: found []; expected 1 to 100 entries"),
        ({"layer_sizes": 40}, "model.layer_sizes: found 40; expected a list"),
        ({"layer_sizes": [40, "x"]}, 'model.layer_sizes.1: found "x"; expected an integer from 1 to 65,536'),
        ({"layer_sizes": [40, 30]}, "model.layer_sizes: the last is 30; tied weights need embedding_size, 200"),
        (
            {"layer_sizes": [45, 200], "chunk_size": 10},
            "model.chunk_size: layers of 45, 200 neurons with chunks of 10: every size must be a multiple of the"
            " chunk's",
        ),
    ],
)
def test_faults_in_a_list_of_sizes_are_reported(settings, fault):
    assert fault_of({"model": {"name": "on-lstm", **settings}}) == f"my.yaml: {fault}"


def settings_classes(kind: type) -> set[type]:
    """A dataclass and those inside it."""
    hints = typing.get_type_hints(kind)
    return {kind}.union(*(settings_classes(hints[f.name]) for f in fields(kind) if is_dataclass(hints[f.name])))


CLASSES = set().union(*map(settings_classes, RECIPES)) | {kind.config for kind in MODELS.values()}
CLASSES |= {SentenceBatchSettings, StreamBatchSettings, StopRecipe, CacheSettings}


@pytest.mark.parametrize("kind", sorted(CLASSES, key=str))
def test_every_numeric_field_has_limits(kind):
    hints = typing.get_type_hints(kind, include_extras=True)
    bare = {
        field.name
        for field in fields(kind)
        if hints[field.name] in (int, float, int | None, float | None, tuple[int, ...]) and field.name != "format"
    }
    assert not bare


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("model.hidden_size", 10**400, "1 to 65,536"), ("model.layers", 100_000_000, "1 to 100"),
        ("model.residual_blocks", 10**9, "0 to 100"), ("model.memory_slots", 10**9, "1 to 1,024"),
        ("model.look_back", 10**9, "0 to 1,024"), ("model.embedding_size", 10**9, "1 to 65,536"),
        ("model", {"name": "ngram", "order": 10**9}, "1 to 20"),
        ("model", {"name": "ngram", "minimum_counts": [1] * 21}, "1 to 20 entries"),
        ("model", {"name": "on-lstm", "layer_sizes": [200] * 101}, "1 to 100 entries"),
        ("model", {"name": "on-lstm", "layer_sizes": [10**9, 200]}, "1 to 65,536"),
        ("model", {"name": "palm", "maximum_span": 10**9}, "1 to 1,024"),
        ("model", {"name": "tree-rnn", "noise_words": 10**9}, "1 to 65,536"),
        ("batches", {"context": "carry", "batch_size": 10**9}, "1 to 65,536"),
        ("batches", {"context": "carry", "bptt": 10**9}, "1 to 65,536"),
        ("batches.token_budget", 10**10, "at most 2,147,483,647"),
        ("schedule.plateau_factor", 1.5, "a number above 0 and up to 1"), ("run.seed", 2**32, "0 to 4,294,967,295"),
    ],
)  # fmt: skip
def test_sizes_too_large_for_memory_are_refused_with_the_range(key, value, expected):
    fault = fault_of({key: value})
    assert fault.startswith(f"my.yaml: {key}")
    assert fault.endswith((f"; expected {expected}", f"; expected an integer from {expected}"))
    assert len(fault.splitlines()) == 1


def test_faults_of_types_of_ranges_and_between_settings_are_reported_together():
    faults = fault_of(
        {"model.hidden_size": 7, "optimiser.beta1": 1.0, "schedule.epochs": "many", "text.normaliser.space": ""}
    )
    assert set(listed(faults)) == {
        "model.hidden_size: found 7; expected an even number, because each distance reads half",
        'text.normaliser.space: found ""; expected text that is not empty',
        "optimiser.beta1: found 1.0; expected a number from 0 to under 1",
        'schedule.epochs: found "many"; expected an integer, 1 or more',
    }


def test_settings_created_in_python_are_checked_like_those_of_a_file():
    with pytest.raises(InputError) as caught:
        PRPNConfig(layers=0, dropout=1.5, form="printed")
    assert str(caught.value).splitlines() == [
        "model.layers: found 0; expected an integer from 1 to 100",
        "model.dropout: found 1.5; expected a number from 0 to under 1",
        "model.form: found \"printed\"; expected 'released' or 'paper'",
    ]
    with pytest.raises(ValueError, match=r"^model\.hidden_size: found 7; expected an even number"):
        PRPNConfig(hidden_size=7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("text.vocabulary.minimum_count", 0), ("text.vocabulary.maximum_size", 0), ("batches.token_budget", 0),
        ("batches.maximum_words", -1),
        ("optimiser.learning_rate", 0.0), ("optimiser.learning_rate", float("inf")),
        ("optimiser.learning_rate", float("nan")), ("optimiser.beta1", 1.0), ("optimiser.beta2", -0.1),
        ("optimiser.epsilon", 0.0), ("optimiser.weight_decay", -1e-6), ("optimiser.gradient_clip", 0.0),
        ("schedule.plateau_patience", 0), ("schedule.plateau_factor", 0.0), ("schedule.epochs", 0),
        ("schedule.minutes", -1.0), ("schedule.validations_per_epoch", 0), ("run.seed", -1), ("run.seed", 2**70),
        ("run.checkpoint_seconds", -1.0), ("run.log_steps", 0),
        ("optimiser.warmup_steps", -1), ("schedule.decay_from", 1.0), ("schedule.decay_from", -0.1),
        ("schedule.keep", "first"), ("batches.curriculum", 5),
    ],
)  # fmt: skip
def test_a_setting_out_of_range_is_reported_by_name(key, value):
    assert fault_of({key: value}).startswith(f"my.yaml: {key}: found ")


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        (
            {"text": PATHS, "batches": {"bptt": 3}},
            "batches.bptt: no such setting. It belongs to recipes with batches.context: carry.",
        ),
        (
            {"text": PATHS, "batches": {"context": "carry", "curriculum": [10]}},
            "batches.curriculum: no such setting. It belongs to recipes with batches.context: reset.",
        ),
        (
            {"trees": PATHS | {"focus": ["a.mrg"]}},
            "trees.focus: no such setting. It is a setting of recipes with a section text.",
        ),
        ({"text": PATHS, "classifier": {}}, "classifier: no such setting. Only recipes with a section pairs have it."),
        ({}, "found no section of data; expected one of the sections text, trees, pairs"),
        ({"text": PATHS, "pairs": PATHS}, "found text and pairs; expected one of the sections text, trees, pairs"),
        (
            {"trees": PATHS},
            "model.name: found prpn, which learns from text; expected a section text in place of trees, or a"
            " dependency-tree model",
        ),
    ],
)
def test_settings_of_another_type_of_data_are_reported_with_their_place(sections, fault):
    with pytest.raises(InputError) as caught:
        recipe_from({"model": {"name": "tree-rnn" if "focus" in str(sections) else "prpn"}} | sections, "my.yaml")
    assert str(caught.value) == f"my.yaml: {fault}"


def test_contradictory_settings_are_reported_with_their_section():
    assert fault_of({"model.supervision": 0.1, "model.name": "palm"}) == (
        "my.yaml: model.supervision: found 0.1; expected 0, or text.trees to learn from"
    )


PCFGS = ["simple-pcfg", "holographic-pcfg", "tensor-pcfg", "neural-pcfg", "compound-pcfg"]


@pytest.mark.parametrize("name", PCFGS)
def test_models_of_whole_sentences_refuse_streams_and_sentences_without_eos(name):
    stream = fault_of({"model": {"name": name}, "batches.context": "carry"})
    assert (
        stream == f"my.yaml: batches.context: found carry; expected reset, because {name} models read whole sentences"
    )
    ends = fault_of({"model": {"name": name}, "batches.predict_eos": False})
    assert (
        ends
        == f"my.yaml: batches.predict_eos: found false; expected true, because {name} models read ends of sentences"
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("2024-99-99", 'found "2024-99-99", which is not a valid timestamp'),
        ("!!int ''", 'found "", which is not a valid int'),
        ("!!float x", 'found "x", which is not a valid float'),
        ("!!bool perhaps", 'found "perhaps", which is not a valid bool'),
        ("!!map [a]", "expected a mapping node, but found sequence"),
        ("{<<: 3}", "expected a mapping or list of mappings"),
        ("!unheard of", "could not determine a constructor"),
        ("*nobody", "found undefined alias"),
        ("\x07", "found the character U+0007"),
    ],
)
def test_an_invalid_yaml_value_is_reported_with_file_and_line(tmp_path, value, found):
    path = tmp_path / "odd.yaml"
    # Line ends to YAML, and to no editor, come before.
    path.write_text(f"model: a\u2028\ntext: b\u0085\nrun: {value}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path}, line 3: not YAML: ")
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"model: {name: prpn}\ntext:\n  train: [a.txt\nrun: {}\n", ", line 4: not YAML"),
        (b"run:\n  seed: 1\n  seed: 2\n", ', line 3: not YAML: found duplicate key "seed"'),
        (b"run:\n  seed: 0x" + b"f" * 5000, ", line 2: not YAML: found .*, which is not a valid int"),
        (b"[" * 20_000, ": nested too deeply"),
        (b"", ": found no settings; expected the sections model, text, batches"),
        (b"just words", ": found a single value; expected the sections"),
        (b"- a\n- list", ": found a list; expected the sections"),
        (b"\xff\xfe\x00", ", line 1: found the byte order mark of UTF-16"),
        (b"a: &a [*a]", ""),
        (b"\x00", ", line 1: found a zero byte"),
    ],
)
def test_a_file_that_is_not_a_recipe_is_reported_by_name_and_line(tmp_path, content, fault):
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"odd\.yaml{fault}"):
        read_recipe(path)


def test_nested_aliases_are_refused_before_they_fill_the_memory(tmp_path):
    path = tmp_path / "many.yaml"
    rows = ["a0: &a0 [x]", *(f"a{row}: &a{row} [{', '.join([f'*a{row - 1}'] * 10)}]" for row in range(1, 40))]
    path.write_text("\n".join(rows))
    with pytest.raises(InputError, match=r"many\.yaml, line \d: not YAML: over 20,000 values"):
        read_yaml(path)
    path.write_text("base: &base {layers: 2}\nmodel: {<<: *base, name: lstm}\nrest: [*base, *base]\n")
    assert read_yaml(path)["model"] == {"layers": 2, "name": "lstm"}


def test_overrides_replace_settings_make_sections_and_keep_the_rest():
    data = copy.deepcopy(RIGHT) | {"run": None}
    override(data, [("model.layers", "1"), ("schedule.minutes", "2.5"), ("run.seed", "7"), ("text.test", "null")])
    recipe = recipe_from(data, "my.yaml")
    assert (recipe.model.layers, recipe.schedule.minutes, recipe.run.seed, recipe.text.test) == (1, 2.5, 7, None)
    assert recipe.text.train == "a.txt"


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", "1E-3"])
def test_a_number_may_have_an_exponent_without_a_decimal_point_and_a_date_is_text(text):
    data = copy.deepcopy(RIGHT)
    override(data, [("optimiser.learning_rate", text), ("text.train", "2024-01-31")])
    recipe = recipe_from(data, "my.yaml")
    assert (recipe.optimiser.learning_rate, recipe.text.train) == (0.001, "2024-01-31")
    assert flat_overrides([("text.train", "2024-01-31")]) == {"text.train": "2024-01-31"}


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("run.seed.x", "1", r"--run\.seed\.x: seed is a single setting, not a section"),
        ("run.seed", "[1", r"--run\.seed: '\[1' is not a value"),
    ],
)
def test_an_override_that_cannot_be_applied_is_reported(key, value, fault):
    with pytest.raises(InputError, match=fault):
        override({**RIGHT, "run": {"seed": 3}}, [(key, value)])
