"""What `inspect` shows of files: their forms, counts, first sentences, remarks, and problems."""

from __future__ import annotations

import gzip
import json

import pytest

import syntaxlm
from syntaxlm import cli
from syntaxlm.core.errors import InputError
from syntaxlm.core.reading import collected
from syntaxlm.evaluation.inspection import Inspection, inspect
from syntaxlm.storage.folder import write_model
from tests.fresh_models import fresh

COMPRESSED = gzip.compress(b"the cat\n", mtime=0)
TREES = "(S (NP (DT the) (NN cat)) (VP (VBD sat)))\n"
PAIRS = '{"sentence_good": "the cat sits", "sentence_bad": "the cat sit"}\n'
SUITE = {
    "meta": {"name": "agreement", "metric": "sum"},
    "predictions": [{"type": "formula", "formula": "(1;%a%) < (1;%b%)"}],
    "items": [
        {
            "item_number": 1,
            "conditions": [
                {"condition_name": name, "regions": [{"region_number": 1, "content": text}]}
                for name, text in (("a", "the cat sits"), ("b", "the cat sit"))
            ],
        }
    ],
}
ARPA = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-0.5\t</s>\n\n\\end\\\n"


@pytest.fixture
def found(tmp_path):
    def found(content: str | bytes, name: str) -> list[Inspection]:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return list(inspect(path).inspections)

    return found


@pytest.mark.parametrize(
    ("name", "content", "forms", "counts"),
    [
        ("a.txt", "the cat sat .\n\na dog\n", ["text, one sentence per line"], {"sentences": 2, "words": 6}),
        ("a.txt.gz", COMPRESSED, ["text, one sentence per line"], {"sentences": 1, "words": 2}),
        ("mac.txt", "a b\rc d\r", ["text, one sentence per line"], {"sentences": 2, "words": 4}),
        ("a.mrg", TREES, ["labelled trees"], {"sentences": 1, "words": 3}),
        ("trees.txt", TREES, ["labelled trees"], {"sentences": 1, "words": 3}),
        ("a.conllu", "1\tcats\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n", ["dependency trees, CoNLL-U"], {"words": 1}),
        ("a.tagged.txt", "the_DT cat_NN\n", ["tagged text"], {"sentences": 1, "words": 2}),
        ("a.csv", "item,sentence\n1,the cat sat\n2,a dog ran\n", ["table, separated by commas"], {"rows": 2}),
        ("counts.txt", "the 50\ncat 3\n", ["frequency list, separated by spaces"], {"rows": 2}),
        (
            "counts.tsv", "word\tcount\nthe\t50\ncat\t3\n",
            ["displayed words, one per row", "frequency list, separated by tabs, columns word and count"], {"rows": 2},
        ),
        ("plain.tsv", "item\tn\ttext\tscore\n1\ta\tthe cat\t2\n", ["table, separated by tabs"], {"rows": 1}),
        ("w.tsv", "word\tzone\titem\nthe\t1\t1\ncat\t2\t1\n", ["displayed words, one per row"], {"words": 2}),
        (
            "s.csv", "item,condition,sentence\n1,a,the cat | sat\n1,b,a cat | sat\n",
            ["stimuli, regions separated by '|'"], {"sentences": 2, "items": 1, "conditions": 2, "regions": 2},
        ),
        ("SUBTLEX.txt", "Word\tFREQcount\tCDcount\tLg10WF\nthe\t50\t9\t1.7\ncat\t3\t2\t0.6\n", None, {"rows": 2}),
        ("a.jsonl", PAIRS, ["minimal pairs, JSON lines"], {"items": 1}),
        ("a.json", json.dumps(SUITE), ["test suite agreement, JSON"], {"items": 1, "sentences": 2, "predictions": 1}),
        ("model.arpa", ARPA, ["n-grams of order 1, ARPA"], {"1-grams": 3}),
    ],
)  # fmt: skip
def test_each_form_is_recognised_and_counted(found, name, content, forms, counts):
    inspections = found(content, name)
    assert not any(one.problem for one in inspections)
    reports = [one.report for one in inspections]
    if forms is not None:
        assert [report.form.split(",")[0] for report in reports] == [form.split(",")[0] for form in forms]
        assert all(report.form.startswith(form) for report, form in zip(reports, forms, strict=True))
    assert counts.items() <= reports[-1].counts.items()
    assert all(one.commands for one in inspections)


def by_region(factors: dict[str, list[str]], region: str, text: str) -> str:
    """Two items with three rows for each sentence, and a column of times."""
    regions = ["the cat", "sees", "a dog ."]
    levels = [" ".join(one) for one in zip(*factors.values(), strict=True)]
    rows = [
        "\t".join([str(item), *condition.split(), str(number), words, str(300 + number)])
        for item in (1, 2) for condition in levels for number, words in enumerate(regions, 1)
    ]  # fmt: skip
    return "\n".join(["\t".join(["item", *factors, region, text, "rt"]), *rows]) + "\n"


@pytest.mark.parametrize(
    ("content", "forms", "command"),
    [
        (
            by_region({"condition": ["a", "b"]}, "region", "text"),
            ["stimuli, a row for each region, named in the column region"],
            "syntaxlm items MODEL {} --region-rows region --column text",
        ),
        (
            by_region({"head": ["sg", "sg", "pl", "pl"], "attractor": ["sg", "pl", "sg", "pl"]}, "zone", "word"),
            ["displayed words, one per row", "stimuli, a row for each region, named in the column zone"],
            "syntaxlm items MODEL {} --region-rows zone --column word --condition head --condition attractor",
        ),
        (
            by_region({"condition": ["a", "b", "a", "b"]}, "region", "text"),  # of two participants
            ["table, separated by tabs"],
            "syntaxlm items MODEL {} --region-rows region --column text",
        ),
        (
            by_region({"type": ["a", "b"]}, "RegionNumber", "string").replace("item", "Item ID", 1),
            ["stimuli, a row for each region, named in the column RegionNumber"],
            "syntaxlm items MODEL {} --region-rows RegionNumber --column string --item 'Item ID' --condition type",
        ),
        (
            by_region({"condition": ["a", "b", "a", "b"]}, "position", "word"),  # of two participants
            ["table, separated by tabs"],
            "syntaxlm items MODEL {} --region-rows position --column word",
        ),
        (
            by_region({"kind": ["x"]}, "region", "sentence"),
            ["table, separated by tabs"],
            "syntaxlm items MODEL {} --region-rows region --column sentence --condition NAME",
        ),
    ],
)
def test_a_table_with_a_row_per_region_has_the_command_that_reads_it(found, tmp_path, content, forms, command):
    inspections = found(content, "long.tsv")
    assert not any(one.problem for one in inspections)
    assert [one.report.form for one in inspections] == forms
    assert command.format(tmp_path / "long.tsv") in inspections[-1].commands


@pytest.mark.parametrize(
    ("header", "commands"),
    [
        ("item,head,sentence", ["items MODEL {} --condition NAME", "score MODEL {} --column sentence"]),
        ("item,condition,subj", ["items MODEL {} --column NAME", "score MODEL {} --column NAME"]),
        ("set,condition,text", ["items MODEL {} --column NAME --item NAME", "score MODEL {} --column NAME"]),
    ],
)
def test_commands_for_other_tables_leave_only_unusual_columns_open(found, tmp_path, header, commands):
    (inspection,) = found(f"{header}\n1,a,the | cat\n1,b,a | cat\n", "table.csv")
    assert list(inspection.commands) == [f"syntaxlm {one}".format(tmp_path / "table.csv") for one in commands]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.mrg", "(S (NN a)\n", "is never closed"),
        ("a.pdf", b"%PDF-1.4\n\xe2", "found a PDF document"),
        ("a.txt", b"caf\xe9\n", "found byte 0xe9 at offset 3"),
        ("a.json", "{}", "a.json"),
        ("a.conllu", "1\ta\t_\n", "a.conllu, line 1"),
        ("a.txt", "", "found no sentence"),
    ],
)
def test_what_cannot_be_read_has_the_message_of_its_reader(found, name, content, problem):
    (inspection,) = found(content, name)
    assert inspection.report is None
    assert problem in inspection.problem


def test_remarks_warnings_and_line_ends_are_shown(found):
    (inspection,) = found("<s> a b </s>\r<s> c d </s>\r", "a.txt")
    assert [str(remark) for remark in inspection.report.remarks] == [
        "2 lines that end in \\r", "2 lines with sentence marks, which are removed (lines 1, 2)",
    ]  # fmt: skip
    assert "found the sentence marks <s>, </s>" in inspection.warnings[0]
    assert inspection.report.sample == ("a b", "c d")


def test_a_model_folder_and_a_folder_of_trees_are_recognised(tmp_path):
    write_model(tmp_path / "lstm", fresh("lstm"))
    (inspection,) = inspect(tmp_path / "lstm").inspections
    assert inspection.report.form == "folder of a model or a training run"
    for name in ("a.mrg", "b.mrg"):
        (tmp_path / name).write_text(TREES)
    (inspection,) = inspect(tmp_path).inspections
    assert inspection.report.form == "labelled trees in 2 files"


@pytest.mark.parametrize("names", [["a.tagged.txt"], ["a.txt"], ["folder/a.tagged", "folder/b.tagged"]])
def test_tagged_text_has_commands_that_read_it(tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("the_DT cat_NN sat_VBD\na_DT dog_NN ran_VBD\n")
    file = tmp_path / names[0].split("/")[0]
    (inspection,) = inspect(file).inspections
    words, tags = (f"syntaxlm data {kind} {file} -o FILE" for kind in ("words", "tags"))
    parsed = [f"syntaxlm parse MODEL {file}"] if names == ["a.tagged.txt"] else []  # a_DT is a word in other texts
    assert list(inspection.commands) == [*parsed, words, f"{tags}.tagged.txt"]


def test_a_folder_of_dependency_trees_has_the_commands_of_its_files(tmp_path):
    (tmp_path / "a.conllu").write_text("1\tcats\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    (tmp_path / "._suite.json").write_text("written by a Mac")
    (of_folder,) = inspect(tmp_path).inspections
    (of_file,) = inspect(tmp_path / "a.conllu").inspections
    assert [one.replace("/a.conllu", "") for one in of_file.commands] == list(of_folder.commands)


def test_nothing_is_announced_to_others_and_no_file_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("the cat\n")
    with collected() as reports:
        result = syntaxlm.inspect(tmp_path / "a.txt")
    assert not reports
    assert result.to_dict()["files"][0]["reading"]["counts"] == {"sentences": 1, "words": 2}
    with pytest.raises(InputError, match="found no file"):
        inspect()
    with pytest.raises(InputError, match="standard input can be read only once"):
        inspect("-")


def test_the_command_ends_with_2_if_a_file_cannot_be_read(tmp_path, capsys):
    good, bad = tmp_path / "good.mrg", tmp_path / "bad.mrg"
    good.write_text(TREES)
    bad.write_text("(S (NN a)\n")
    assert cli.main(["inspect", str(good)]) == 0
    assert "contents   1 sentence, 3 words" in capsys.readouterr().out
    assert cli.main(["inspect", str(good), str(bad)]) == 2
    assert "is never closed" in capsys.readouterr().out


def test_an_error_in_a_file_of_data_advises_to_inspect_it(tmp_path, capsys):
    bad = tmp_path / "bad file.mrg"
    bad.write_text("(S (NN a)\n")
    assert cli.main(["data", "words", str(bad)]) == 2
    assert capsys.readouterr().err.endswith(f"to see how this file is read: syntaxlm inspect '{bad}'\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("model: {nam: prpn}\n")
    assert cli.main(["train", str(recipe), "-o", str(tmp_path / "run")]) == 2
    assert "inspect" not in capsys.readouterr().err
