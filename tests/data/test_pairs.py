"""Files of minimal pairs: JSON lines and tables, cases and groups, errors by file and line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.pairs import MinimalPair, read_pairs

BLIMP = {
    "sentence_good": "Who sings?",
    "sentence_bad": "Who sing?",
    "field": "syntax/semantics",
    "linguistics_term": "binding",
    "UID": "a_case",
    "pairID": "0",
}


@pytest.fixture
def written(tmp_path):
    """Writes items, or unchanged lines, to a file; returns its path."""

    def written(*items, name="pairs.jsonl"):
        path = tmp_path / name
        lines = [item if isinstance(item, str) else json.dumps(item) for item in items]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return written


def test_a_pair_has_its_sentences_case_groups_and_place(written):
    path = written("", BLIMP)
    groups = {"field": "syntax_semantics", "linguistics_term": "binding"}
    assert read_pairs([path]) == [MinimalPair("Who sings?", "Who sing?", "a_case", groups, str(path), 2)]


def test_every_sentence_and_every_worse_one_are_a_pair(written):
    pairs = read_pairs([written({"case": "npi_across_anim", "condition": "past", "sentences": ["a", "b", "c"]})])
    assert [(pair.better, pair.worse) for pair in pairs] == [("a", "b"), ("b", "c"), ("a", "c")]
    assert {pair.case for pair in pairs} == {"npi_across_anim"}
    contrasts = ["grammatical vs intrusive", "intrusive vs ungrammatical", "grammatical vs ungrammatical"]
    expected = [f"long, polarity across a relative clause: {contrast}" for contrast in contrasts]
    assert [pair.groups["construction"] for pair in pairs] == expected
    assert [pair.adjacent for pair in pairs] == [True, True, False]
    assert ["phenomenon" in pair.groups for pair in pairs] == [True, True, False]
    four = read_pairs([written({"sentences": list("abcd"), "group": "mine"})])
    assert [pair.better + pair.worse for pair in four] == ["ab", "bc", "cd", "ac", "bd", "ad"]
    assert [pair.groups.get("group") for pair in four] == ["mine"] * 3 + [None] * 3
    assert four[-1].groups == {"comparison": "1 vs 4"}


@pytest.mark.parametrize(
    ("case", "phenomenon", "dependency"),
    [
        ("simple_agrmt", "agreement", "short"),
        ("prep_inanim", "agreement", "long"),
        ("obj_rel_within_anim", "agreement", "short"),
        ("obj_rel_no_comp_across_inanim", "agreement", "long"),
        ("reflexives_across", "reflexives", "long"),
        ("simple_npi_inanim", "polarity", "short"),
    ],
)
def test_the_cases_of_marvin_and_linzen_are_grouped_as_published(written, case, phenomenon, dependency):
    (pair,) = read_pairs([written({"case": case, "sentences": ["a", "b"]})])
    construction = pair.groups.pop("construction")
    assert construction.startswith(f"{dependency}, {phenomenon} ")
    assert pair.groups == {"phenomenon": phenomenon, "dependency": dependency}


def test_the_long_dependencies_are_the_nine_rows_of_the_published_table(written):
    agreement = "long_vp_coord prep_anim subj_rel obj_rel_across_inanim obj_rel_no_comp_across_anim"
    cases = [*agreement.split(), "reflexives_across", "simple_agrmt", "obj_rel_within_anim"]
    items = [{"case": case, "sentences": ["a", "b"]} for case in cases]
    pairs = read_pairs([written(*items, {"case": "npi_across_anim", "sentences": ["a", "b", "c"]})])
    rows = {pair.groups["construction"] for pair in pairs if pair.groups["construction"][:4] == "long"}
    assert len(rows) == 9
    assert "long, agreement across an object relative clause without that" in rows


def test_a_file_of_ones_own_may_name_groups_and_need_not_name_a_case(written):
    path = written({"sentence_good": "a", "sentence_bad": "b", "group": "mine"}, name="questions.jsonl")
    (pair,) = read_pairs([path])
    assert (pair.case, pair.groups, pair.is_identical) == ("questions", {"group": "mine"}, False)


def test_a_folder_is_read_as_its_files_by_name(written, tmp_path):
    for name in ("b.jsonl", "a.jsonl", ".hidden"):
        written({"sentence_good": name, "sentence_bad": "x"}, name=name)
    (tmp_path / "inner").mkdir()
    extra = written({"sentence_good": "once more", "sentence_bad": "x"}, name="c.jsonl")
    assert [pair.better for pair in read_pairs([tmp_path, extra])] == ["a.jsonl", "b.jsonl", "once more", "once more"]


@pytest.mark.parametrize(("name", "separator"), [("pairs.tsv", "\t"), ("pairs.csv", ",")])
@pytest.mark.parametrize("columns", [("sentence_good", "sentence_bad"), ("better", "worse")])
def test_the_rows_of_a_table_are_items(written, name, separator, columns):
    rows = [["note", "UID", "field", *columns], ["1", "a_case", "syntax/semantics", "Who sings?", "Who sing?"]]
    rows.append(["", "", "", "He, too", "Him too"])
    cells = [[f'"{cell}"' if separator in cell else cell for cell in row] for row in rows]
    path = written(*map(separator.join, cells[:2]), "", separator.join(cells[2]), name=name)
    assert read_pairs([path]) == [
        MinimalPair("Who sings?", "Who sing?", "a_case", {"field": "syntax_semantics"}, str(path), 2),
        MinimalPair("He, too", "Him too", "pairs", {}, str(path), 4),
    ]


def test_a_table_and_json_lines_of_the_same_items_are_the_same_pairs(written):
    names = ["sentence_good", "sentence_bad", "field", "linguistics_term", "UID", "pairID"]
    table = written("\t".join(names), "\t".join(BLIMP[name] for name in names), name="a.tsv")
    (from_table, from_json) = read_pairs([table, written(BLIMP)])
    assert replace(from_table, source="", line=0) == replace(from_json, source="", line=0)


def test_multiblimp_is_read_by_language_and_phenomenon(written):
    names = ["", "sen", "metadata", "wrong_sen", "num_attractors", "phenomenon", "lang"]
    row = ["0", "Is n't she?", '"{\'text\': ""Isn\'t she?""}"', "Am n't she?", "0", "SV-P", "eng"]
    path = written("\t".join(names), "\t".join(row), name="data.tsv")
    groups = {"language": "eng", "phenomenon": "SV-P"}
    assert read_pairs([path]) == [MinimalPair("Is n't she?", "Am n't she?", "eng SV-P", groups, str(path), 2)]
    without_language = written("sen\twrong_sen\tphenomenon", "she is\tshe am\tSV-P", name="eng.tsv")
    assert read_pairs([without_language])[0].case == "SV-P"


def test_ewok_compares_two_targets_after_the_first_context(written):
    texts = {
        "Context1": "Ali turns left.",
        "Context2": "Ali turns right.",
        "Target1": "A sees B.",
        "Target2": "A sees C.",
    }
    kinds = {"Domain": "spatial-relations", "ContextType": "direct", "ContextDiff": "antonym", "TargetDiff": "swap"}
    (pair,) = read_pairs([written(texts | kinds)])
    assert (pair.better, pair.worse) == ("Ali turns left. A sees B.", "Ali turns left. A sees C.")
    assert pair.case == "spatial-relations"
    assert pair.groups == {"context_type": "direct", "context_contrast": "antonym", "target_contrast": "swap"}
    with pytest.raises(InputError, match="line 1: Target2 missing; found the entries Context1, Target1"):
        read_pairs([written({"Context1": "a", "Target1": "b"})])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["good\tbad", "a\tb"], "line 1: sentence_good and sentence_bad missing; found the columns good, bad"),
        (["worse", "b"], "line 1: better missing; found the columns worse; expected"),
        (["better\tworse", "a"], "line 2: found 1 cells; expected 2: better, worse"),
        (["better\tworse", "a\t "], 'line 2: found " " in better, worse; expected a sentence'),
        (["better\tworse"], "found no minimal pairs"),
        (["better\tbetter", "a\tb"], "more than one column is named 'better'"),
    ],
)
def test_tables_of_another_form_are_reported_by_file_and_line(written, lines, said):
    path = written(*lines, name="pairs.tsv")
    with pytest.raises(InputError) as reported:
        read_pairs([path])
    assert str(reported.value).startswith(f"{path}")
    assert said in str(reported.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"sentence_good": "a"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "found [1]; expected an object"),
        ('{"sentence_good": "a", "bad": "b"}', "sentence_bad missing; found the entries sentence_good, bad; expected"),
        ("{}", "sentence_good and sentence_bad missing; found the entries none"),
        ('{"sentence_good": "a", "sentence_bad": 3}', "found 3 in sentence_good, sentence_bad; expected a sentence"),
        ('{"sentence_good": "a", "sentence_bad": " "}', 'found " " in'),
        ('{"sentences": ["a"]}', 'sentences is ["a"]; expected a list of two or more'),
        ('{"sentences": "ab"}', 'sentences is "ab"; expected a list'),
        (
            '{"Context1": "a", "Target1": "b", "Target2": 3}',
            "found 3 in Context1, Target1, Target2; expected a sentence",
        ),
        ('{"sentences": ["a", null]}', "found null in sentences"),
        ('{"sentences": ["a", "b"], "case": [7]}', "case is [7]; expected text"),
        ('{"sentences": ["a", "b"], "case": true}', "case is true; expected text"),
        ('{"sentences": ["a", "\\ud83d"]}', 'found "\\ud83d" in sentences; expected text without zero bytes'),
        ('{"sentences": ["a", "b\\u0000"]}', "expected text without zero bytes"),
    ],
)
def test_invalid_items_are_reported_by_file_and_line_with_what_was_expected(written, line, said):
    path = written(BLIMP, line)
    with pytest.raises(InputError) as reported:
        read_pairs([path])
    assert str(reported.value).startswith(f"{path}, line 2: ")
    assert said in str(reported.value)
    assert len(str(reported.value)) < 500


def read_with_report(path):
    with collected() as reports:
        pairs = read_pairs([path])
    return pairs, str(reports[-1]).removeprefix(f"{path}: ")


def test_null_in_optional_entries_is_absent_and_numbers_are_names(written):
    item = {"sentence_good": "a b", "sentence_bad": "a c", "UID": 5, "field": None, "linguistics_term": float("nan")}
    path = written(item, item | {"UID": 5.0}, item | {"UID": None, "case": 1.5})
    pairs, said = read_with_report(path)
    assert [pair.case for pair in pairs] == ["5", "5", "1.5"]
    assert [pair.groups for pair in pairs] == [{}, {}, {}]
    assert said.startswith("minimal pairs, JSON lines, 3 items; 2 items with a number for UID, read as text: '5'")
    assert "3 items with null for field, read as absent (lines 1, 2, 3)" in said


def test_null_beside_complete_sentences_is_absent(written):
    item = {"sentence_good": None, "sentence_bad": None, "better": "a b", "worse": "a c", "sentences": None}
    (pair,) = read_pairs([written(item)])
    assert (pair.better, pair.worse) == ("a b", "a c")


def test_null_in_a_sentence_is_refused_with_the_line(written):
    with pytest.raises(InputError, match="line 2: found null in sentence_good, sentence_bad; expected a sentence"):
        read_pairs([written(BLIMP, BLIMP | {"sentence_bad": None})])


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_has_the_pairs_of_json_lines(written, indent):
    items = [{"better": f"a {n}", "worse": f"b {n}", "UID": "x"} for n in range(3)]
    path = written(json.dumps(items, indent=indent), name="pairs.json")
    pairs, said = read_with_report(path)
    assert [(pair.better, pair.worse) for pair in pairs] == [("a 0", "b 0"), ("a 1", "b 1"), ("a 2", "b 2")]
    assert [pair.line for pair in pairs] == ([1, 1, 1] if indent is None else [2, 7, 12])
    assert said == "minimal pairs, a JSON array, 3 items"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[\n{"better": "a", "worse": "b"}\n{"better"', "line 2: found "),
        ('[\n{"better": "a", "worse": "b"},\n{"better"', "line 3: not JSON"),
        ('[{"better": "a", "worse": "b"}', "line 1: found the end of the file after this item; expected a comma or ]"),
        ('[{"better": "a", "worse": "b"}]\n{"better": "c"}', "line 2: found "),
        (
            '[\n\n{"better": "a",\n\n"worse" "b"}]',
            "line 3: not JSON: Expecting ':' delimiter in line 5, column 9",
        ),
        ("[\n[1]]", "line 2: found [1]; expected an object"),
        ("[]", "found no minimal pairs"),
    ],
)
def test_faulty_arrays_are_reported_by_line(written, text, said):
    with pytest.raises(InputError) as reported:
        read_pairs([written(text)])
    assert said in str(reported.value)


def test_empty_files_are_reported(written, tmp_path):
    empty = tmp_path / "folder"
    empty.mkdir()
    for path, said in ((written(" "), "found no minimal pairs"), (empty, "the folder contains no files")):
        with pytest.raises(InputError, match=said):
            read_pairs([path])
    with pytest.raises(InputError, match="cannot be read"):
        read_pairs([tmp_path / "missing"])
    with pytest.raises(InputError, match="no file of minimal pairs"):
        read_pairs([])


def test_repeated_keys_are_refused_and_repeated_pairs_are_a_warning(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"sentence_good": "a b", "sentence_bad": "b a", "sentence_good": "x"}\n')
    with pytest.raises(InputError, match="found the key 'sentence_good' twice"):
        read_pairs([path])
    path.write_text('{"sentence_good": "a b", "sentence_bad": "b a"}\n' * 2)
    with pytest.warns(InputWarning, match="1 of 2 pairs repeat an earlier pair"):
        assert len(read_pairs([path])) == 2


@pytest.mark.parametrize("error", ["#NAME?", "#NOM?", "#ERROR!", "#SPILL!"])
def test_the_error_of_a_spreadsheet_is_no_sentence(written, error):
    path = written("sentence_good,sentence_bad", f"The cat sleeps.,{error}", name="pairs.csv")
    with pytest.raises(InputError, match=r"line 2: found '#\w+[?!]' in column sentence_bad, an error of a spreadsheet"):
        read_pairs([path])
