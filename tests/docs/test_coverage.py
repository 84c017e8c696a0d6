"""Every command, model, setting, recipe, protocol and preprocessing rule is in the documentation."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path

import pytest
from laboratory.pages.commands import all_commands, page_name
from laboratory.pages.parts import without_parts
from laboratory.pages.recipes import all_recipes
from laboratory.pages.reference import all_packages
from laboratory.pages.scoring import preprocessing_table, protocol_table
from laboratory.pages.settings import all_settings, listed_settings, model_settings, settings_table
from laboratory.pages.tables import TABLES, format_table, table_at

import syntaxlm
from syntaxlm.core.yaml_files import parse_yaml
from syntaxlm.models.registry import MODELS
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.recipe_files import recipe_names
from syntaxlm.trees.f1 import PROTOCOLS
from syntaxlm.trees.preprocessing import PREPROCESSINGS
from tests.docs.examples import ROOT, examples_of

DOCS = ROOT / "docs"


def text_of(name: str | Path) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", all_commands())
def test_every_command_has_a_page_with_an_example_its_output_and_what_it_means(command):
    page = text_of(f"commands/{page_name(command)}")
    assert page.startswith(f"# `syntaxlm {command}`\n")
    written = without_parts(page)
    assert re.search("^## What it (means|makes|prints|shows)$", written, re.MULTILINE)
    assert "\n## Example\n" in written
    assert re.search(r"^```console\n(?:\$ .*\n)+[^$`]|^```text\n|^!\[", written, re.MULTILINE), "no output"
    calls = [" ".join(example.words) for example in examples_of(DOCS / "commands" / page_name(command))]
    assert any(call.startswith(command) for call in calls)


def test_no_page_is_of_a_command_that_there_is_not():
    written = {path.name for path in (DOCS / "commands").glob("*.md")} - {"index.md"}
    assert written == {page_name(command) for command in all_commands()}


@pytest.mark.parametrize("command", all_commands())
def test_the_page_of_a_command_has_all_that_it_takes(command):
    declared, page = all_commands()[command], text_of(f"commands/{page_name(command)}")
    for option in declared.options.values():
        assert option.help
        assert all(f"{name}" in page for name in option.names)
    assert ("SECTION.SETTING" in page) == declared.takes_overrides


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_page_with_its_settings(name):
    (page,) = [path for path in (DOCS / "models").glob("*.md") if f"<!-- generated: model {name} -->" in text_of(path)]
    assert page.stem == name or name.endswith(f"-{page.stem}")
    assert "$$" in text_of(page)
    assert f"models/{page.name}" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    is_trained = page.stem != "combination"  # by a recipe
    assert is_trained == (f"](../models/{page.name}#settings)" in text_of("reference/settings.md"))
    table = settings_table(model_settings(name))
    fields = set(MODELS[name].config.__dataclass_fields__) - {"name"}
    assert {f"`model.{field}`" for field in fields} == set(re.findall("^[|] (`[^`]+`)", table, re.MULTILINE))


def test_every_setting_says_what_it_means_beside_it_or_in_the_text():
    page = text_of("reference/settings.md")
    mute = {one.name for one in all_settings() if not one.meaning}
    assert all(f"`{name}`" in page for name in mute), mute


def test_the_settings_listed_are_those_a_recipe_has():
    listed = {one.name for one in all_settings()}
    for path in all_recipes():
        assert dotted(read_recipe(path).to_dict()) <= listed | {"model.name"}


def test_settings_that_several_sections_have_are_listed_once_and_referred_to():
    page = text_of("reference/settings.md")
    rows = [one for settings in listed_settings().values() for one in settings]
    assert all(f"| `{one.name}` | " in page for one in rows)
    assert [name for name in ("text", "trees", "pairs") if f"| `{name}.normaliser.lower_case` |" in page] == ["text"]
    row = "| `{0}` | as [`text.{1}`](#text) | the same | all settings of `text.{1}`, such as `{0}.{2}` |"
    assert row.format("trees.normaliser", "normaliser", "units") in page
    assert row.format("pairs.vocabulary", "vocabulary", "minimum_count") in page
    unlisted = {one.name for one in all_settings() if not one.name.startswith("model.")} - {one.name for one in rows}
    assert {name.rpartition(".")[0] for name in unlisted} == {one.name for one in rows if "](#" in one.takes}


def dotted(data: dict, prefix: str = "") -> set[str]:
    found = set()
    for key, value in data.items():
        found |= dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return found


def test_defaults_are_told_as_yaml_has_them():
    recipe = read_recipe("lstm-toy").to_dict()
    for one in all_settings():
        if one.default != "required":
            assert one.default.startswith("`")
            parse_yaml(one.default.strip("`"), "")
    by_name = {one.name: one for one in all_settings()}
    assert by_name["optimiser.gradient_clip"].default == f"`{recipe['optimiser']['gradient_clip']}`"
    assert by_name["text.train"].default == "required"
    assert by_name["text.normaliser.units"].takes == "`words`, `characters`, `tags`"
    assert by_name["schedule.minutes"].takes == "positive number or `null`"
    assert by_name["optimiser.beta1"].takes == "number from 0 to under 1"
    assert by_name["batches.bptt"].takes == "whole number, 1 to 65,536"
    assert by_name["schedule.epochs"].takes == "whole number, 1 or more"
    assert by_name["model.layer_sizes"].takes == "list, each a whole number, 1 to 65,536"


def test_every_recipe_is_listed_with_its_comment():
    page = text_of("reference/recipes.md")
    for name in recipe_names():
        row = re.search(rf"^\| `{name}` \| (.+) \|$", page, re.MULTILINE)
        assert row is not None, name
        assert len(row[1]) > 20


def test_every_protocol_and_preprocessing_rule_is_told():
    page = text_of("reference/scoring.md")
    assert protocol_table() in page
    assert preprocessing_table() in page
    assert all(f"| `{name}` |" in page for name in (*PROTOCOLS, *PREPROCESSINGS))


def test_the_reference_has_every_package():
    assert {"trees", "models", "storage", "core"} <= set(all_packages())
    assert "cli" not in all_packages()


def test_every_table_of_results_and_every_command_with_formats_is_in_the_documentation():
    defined = [
        f"{'.'.join(path.relative_to(ROOT / 'src').with_suffix('').parts)}:{name}"
        for path in sorted((ROOT / "src" / "syntaxlm").rglob("*.py"))
        for name in re.findall(r"^([A-Z_]+) = (?:tables\.)?Columns\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        if name != "NOTHING"
    ]
    assert sorted(TABLES) == sorted(defined)
    for place, names in TABLES.items():
        for name in (name.partition(" --")[0] for name in names):
            page = text_of(f"commands/{page_name(name)}").partition("## Output columns")[2]
            assert all(f"| `{column}` |" in page for column in table_at(place))
            assert f"| `{name}` |" in format_table()


def test_pages_of_models_name_files_that_exist():
    for page in sorted((ROOT / "docs" / "models").glob("*.md")):
        named = re.findall(r"`((?:models|ops|storage)/\w+(?:\.py)?)`", page.read_text(encoding="utf-8"))
        assert named, page.name
        for name in named:
            path = ROOT / "src" / "syntaxlm" / name
            assert path.exists() or path.with_suffix(".py").exists(), f"{page.name}: {name}"


def test_every_picture_is_in_the_gallery():
    shown = re.findall(r'<img src="images/([^"]+)" alt="[^"]+"', text_of("gallery.md"))
    assert sorted(shown) == sorted(path.name for path in (DOCS / "images").iterdir())


def test_extras_have_one_form_and_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [ROOT / "README.md", *DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb"), *(ROOT / "src").rglob("*.py")]
    found = [one for path in files for one in re.findall(r"pip install ['\"]([^'\"\n]+)['\"]", path.read_text("utf-8"))]
    assert len(found) > 15
    for one in found:
        extras = re.fullmatch(r"syntaxlm(?:\[|&#91;)([a-z,]+)\]", one)
        assert extras is not None, one
        assert set(extras[1].split(",")) <= project["optional-dependencies"].keys()


def calls_of_the_cheat_sheet() -> list[str]:
    rows = re.findall(r"^\|.*\|.*\|(.*)\|$", text_of("reference/cheat-sheet.md"), re.MULTILINE)
    return [call for row in rows for call in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("call", calls_of_the_cheat_sheet())
def test_the_python_calls_of_the_cheat_sheet_have_these_names_and_parameters(call):
    for node in ast.walk(ast.parse(call)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = {"nlp": syntaxlm.LanguageModel, "syntaxlm": syntaxlm}.get(getattr(node.func.value, "id", ""))
            if owner is not None:
                signature = inspect.signature(getattr(owner, node.func.attr))
                given = [None] * (len(node.args) + (owner is not syntaxlm))
                signature.bind(*given, **{one.arg: None for one in node.keywords})
