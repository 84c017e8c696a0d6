"""Tables of stimuli: what is read, what is refused because it has another form, and what is warned of."""

from __future__ import annotations

import csv
import io

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.reading import collected
from syntaxlm.data.stimuli import Stimuli

FACTORS = {"condition": ("head", "attractor")}
NOUNS = ("key", "label", "door", "picture")


def design(items: int = 4, between: str = " | ") -> list[dict[str, str]]:
    """The rows of a design with two factors; a sentence has four regions."""
    rows = []
    for item in range(1, items + 1):
        for head in ("sg", "pl"):
            for attractor in ("sg", "pl"):
                noun = NOUNS[(item - 1) % len(NOUNS)] + ("s" if head == "pl" else "")
                regions = {
                    "subject": f"The {noun}",
                    "prep": "to the cabinet" + ("s" if attractor == "pl" else ""),
                    "verb": "was" if head == "sg" else "were",
                    "spill": "on the table.",
                }
                names = {"item": str(item), "head": head, "attractor": attractor}
                rows.append(names | {"sentence": between.join(regions.values())} | regions)
    return rows


def csv_of(rows: list[dict[str, str]]) -> str:
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


@pytest.fixture
def read(tmp_path):
    """Reads rows as a table; returns the stimuli and the line that says how."""

    def read(rows, **options):
        path = tmp_path / "items.csv"
        path.write_text(csv_of(rows))
        with collected() as reports:
            stimuli = Stimuli.read(path, **(FACTORS | options))
        (report,) = reports
        return stimuli, str(report).replace(str(tmp_path), ""), report

    return read


@pytest.fixture
def refused(read):
    def refused(rows, **options):
        with pytest.raises(InputError) as found:
            read(rows, **options)
        return str(found.value)

    return refused


def warned(recwarn) -> list[str]:
    return [str(warning.message) for warning in recwarn.list if issubclass(warning.category, InputWarning)]


REGIONS = ("subject", "prep", "verb", "spill")
COUNTS = "16 sentences, 4 items, 4 conditions, 4 regions"


def test_the_first_sentence_is_shown_with_its_regions_as_read(read, recwarn):
    _, line, report = read(design())
    first = "first sentence: The key | to the cabinet | was | on the table."
    assert line == f"/items.csv: stimuli, regions separated by '|', {COUNTS}; {first}"
    assert report.sample[1] == "The key | to the cabinets | was | on the table."
    assert report.to_dict()["counts"]["conditions"] == 4
    _, line, _ = read(design(), regions=REGIONS)
    assert line == f"/items.csv: stimuli, regions in the columns subject, prep, verb, spill, {COUNTS}; {first}"
    _, line, _ = read(design(between=" "))
    assert "each word is a region because no sentence has '|', 16 sentences, 4 items, 4 conditions; first" in line
    assert line.endswith("The | key | to | the | cabinet | was | on | the | table.")
    assert not warned(recwarn)


def test_empty_regions_are_counted_with_their_lines(read):
    rows = design()
    rows[2]["prep"] = rows[5]["prep"] = ""
    assert "2 regions without words (lines 4, 7)" in read(rows, regions=REGIONS)[1]


# ---- separators


@pytest.mark.parametrize("sign", ["/", " / ", "#", "\\", "^", " - ", " -- ", "¦", "｜", "│", "~", "*", "+"])
def test_another_sign_between_regions_is_refused_and_named(refused, read, sign):
    rows = design(between=sign)
    message = refused(rows)
    assert f"found no '|' between regions, but {sign.strip()!r} in every sentence, such as 'The key" in message
    assert f"add separator={sign.strip()!r}" in message
    assert read(rows, separator=sign.strip())[0].region_names == ["1", "2", "3", "4"]


def test_a_sign_that_no_sentence_has_is_refused(refused):
    assert "found no '/' between regions, but '|' in every sentence" in refused(design(), separator="/")
    message = refused(design(between=" "), separator="/")
    assert "found '/' in no sentence" in message
    assert "omit separator=..." in message


def test_doubled_and_mixed_signs_and_words_joined_by_low_lines_are_refused(refused, read):
    assert "found '||' between regions; expected '|'. Choose it with separator='||'" in refused(design(between=" || "))
    assert read(design(between=" || "), separator="||")[0].region_names == ["1", "2", "3", "4"]
    rows = design(between=" / ")
    rows[3]["sentence"] = design()[3]["sentence"].replace("|", "/", 1)
    assert "line 5: found '|' and '/' in one sentence" in refused(rows, separator="/")
    rows = design()
    for row in rows:
        row["sentence"] = row["sentence"].replace(" ", "_").replace("_|_", " ")
    assert "found '_' between the words of every sentence, such as 'The_key to_the_cabinet" in refused(rows)


def test_a_slash_in_some_sentences_is_a_word(read):
    rows = design(between=" ")
    rows[0]["sentence"] += " and / or"
    assert read(rows)[0].are_words


# ---- columns of regions


def test_a_column_or_a_separator_beside_regions_is_refused(refused):
    for option in ({"column": "sentence"}, {"column": "spill"}, {"separator": "|"}, {"separator": "/"}):
        (name, value), *_ = option.items()
        message = refused(design(), regions=REGIONS, **option)
        assert f"--{name} {value}: found with --region subject, prep, verb, spill; expected either" in message


@pytest.mark.parametrize("mark", ["|", " | ", "｜"])
def test_a_mark_in_a_region_is_refused(refused, mark):
    rows = design()
    rows[4]["spill"] = f"on{mark}the table."
    message = refused(rows, regions=REGIONS)
    assert f"line 6: found {mark.strip()!r} in the region spill" in message
    assert "regions='verb': is given twice" in refused(design(), regions=("subject", "verb", "verb"))


def test_regions_in_another_order_than_the_columns_are_warned_of(read, recwarn):
    _, line, _ = read(design(), regions=("verb", "subject", "prep", "spill"))
    assert line.endswith("first sentence: was | The key | to the cabinet | on the table.")
    (message,) = warned(recwarn)
    assert (
        "reads the regions in the order verb, subject, prep, spill; the table has the columns in the order" in message
    )


def test_columns_in_alphabetical_order_say_nothing_about_the_order_of_reading(read, recwarn):
    rows = [dict(sorted(row.items())) for row in design()]
    read(rows, regions=REGIONS)
    assert not warned(recwarn)


@pytest.mark.parametrize(
    ("regions", "column"),
    [
        (("subject", "verb", "spill"), "prep"),  # inside
        (("prep", "verb", "spill"), "subject"),  # at the start
        (("subject", "prep", "verb"), "spill"),  # at the end
    ],
)
def test_a_region_that_is_left_out_is_warned_of(read, regions, column, recwarn):
    read(design(), regions=regions)
    (message,) = warned(recwarn)
    assert f"the column {column}, such as {design()[0][column]!r}, is not read, so the first sentence is" in message


def test_columns_of_numbers_and_of_the_whole_sentence_are_not_regions(read, recwarn):
    rows = [
        {"item": row["item"], "head": row["head"], "attractor": row["attractor"], "subject": row["subject"],
         "length": "3", "all": row["sentence"].replace(" | ", " "), **{name: row[name] for name in REGIONS[1:]}}
        for row in design()
    ]  # fmt: skip
    read(rows, regions=REGIONS)
    assert not warned(recwarn)


def test_the_same_sentence_in_all_conditions_is_warned_of(read, recwarn):
    rows = design()
    for row in rows:
        row["what"] = "A word."
    read(rows, column="what")
    (message,) = warned(recwarn)
    assert "the sentence is the same in all conditions of 4 of 4 items, such as 'A | word.' in item 1" in message


# ---- rows that are parts of sentences


def long(rows, punctuation: bool = True) -> list[dict[str, str]]:
    """A row for each region."""
    return [
        {**{name: row[name] for name in ("item", "head", "attractor")}, "place": str(number), "part": name,
         "text": row[name] if punctuation else row[name].lower().strip(".")}
        for row in rows for number, name in enumerate(REGIONS, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("punctuation", [True, False])
@pytest.mark.parametrize("options", [{"column": "text"}, {"regions": ("text",)}])
def test_a_row_for_each_region_is_refused(refused, punctuation, options):
    message = refused(long(design(), punctuation), **options)
    start = "The key" if punctuation else "the key"
    assert "line 2: found 4 rows of item 1, condition sg / sg, which are parts of one sentence" in message
    assert f"{start!r}, 'to the cabinet', 'was', ..." in message
    assert "expected one row per sentence" in message
    assert "add region_rows='place'" in message


def test_a_row_for_each_word_is_refused(refused):
    rows = [
        {**{name: row[name] for name in ("item", "head", "attractor")}, "word": word, "zone": str(zone)}
        for row in design() for zone, word in enumerate(row["sentence"].replace("| ", "").split(), 1)
    ]  # fmt: skip
    message = refused(rows, column="word")
    assert "parts of one sentence: 'The', 'key', 'to', ..." in message
    assert "score --words" in message


def test_several_sentences_of_an_item_and_condition_are_sentences(read):
    rows = design()
    others = [row | {"sentence": row["sentence"].replace("The", "This old").replace("table", "shelf")} for row in rows]
    assert len(read(rows + others)[0].items) == 32
    repeated = [row | {"subject_number": str(number)} for number in range(3) for row in rows]
    assert len(read(repeated)[0].items) == 48
    plain = [row | {"sentence": row["sentence"].replace(" |", "")} for row in rows + others]
    assert len(read(plain)[0].items) == 32


# ---- conditions


def test_spaces_around_items_and_conditions_are_removed_and_counted(read, recwarn):
    rows = design()
    rows[1]["head"], rows[2]["head"], rows[3]["item"] = "sg ", " pl", "1  "
    stimuli, line, _ = read(rows)
    assert list(dict.fromkeys(stimuli.conditions)) == ["sg / sg", "sg / pl", "pl / sg", "pl / pl"]
    assert set(stimuli.items) == {"1", "2", "3", "4"}
    assert "3 cells with spaces that were removed: " in line
    assert {row[1] for row in stimuli.words.table.values} == {"sg", "pl"}
    assert not warned(recwarn)


@pytest.mark.parametrize("level", ["SG", "Sg", "s g", "sg."])
def test_levels_that_differ_only_in_capitals_spaces_or_signs_are_warned_of(read, level, recwarn):
    rows = design()
    rows[4]["head"] = level
    _, line, _ = read(rows)
    message = warned(recwarn)[0]
    assert f"line 6: column head: found {level!r} in 1 row and 'sg' in 7, which differ only in capitals" in message
    assert f"1 condition that may be typing errors: {level!r} (line 6)" in line


@pytest.mark.parametrize("level", ["p1ural", "plual", "plurla", "lural"])
def test_a_rare_level_that_differs_in_one_letter_is_warned_of(read, level, recwarn):
    rows = design()
    for row in rows:
        row["head"] = {"sg": "singular", "pl": "plural"}[row["head"]]
    rows[3]["head"] = level
    read(rows)
    message = f"line 5: column head: found {level!r} in 1 row and 'plural' in 7, which differ in one letter"
    assert message in warned(recwarn)[0]


def test_a_level_of_very_few_rows_is_warned_of(read, recwarn):
    rows = design(8)
    rows[3]["head"] = "other"
    read(rows)
    assert "line 5: column head: found 'other' in 1 row only, the others in 15 or more" in warned(recwarn)[0]


def test_a_first_condition_of_one_item_is_warned_of(read, recwarn):
    rows = design()
    rows[0]["attractor"] = "none"
    read(rows)
    assert any("the first condition, 'sg / none', has sentences of 1 item; other" in one for one in warned(recwarn))


def test_missing_combinations_of_factors_are_named(read, recwarn):
    read([row for row in design() if (row["head"], row["attractor"]) != ("pl", "pl")])
    (message,) = warned(recwarn)
    assert "the factors head, attractor are not crossed, because no sentence has head pl / attractor pl" in message


@pytest.mark.parametrize("levels", [("a", "b"), ("1", "2"), ("cond1", "cond2"), ("than", "that")])
def test_short_and_numbered_levels_are_not_misspelt(read, levels, recwarn):
    rows = design()
    for row in rows:
        row["head"] = levels[0] if row["head"] == "sg" else levels[1]
    read(rows)
    assert not warned(recwarn)


def test_a_data_frame_is_read_in_the_same_way():
    pandas = pytest.importorskip("pandas")
    with collected() as reports:
        stimuli = Stimuli.read(pandas.DataFrame(design()), **FACTORS)
    assert len(stimuli.items) == 16
    assert str(reports[0]).startswith("the data frame: stimuli, regions separated by '|', 16 sentences")


def test_a_sign_in_the_place_of_a_region_is_a_warning(tmp_path):
    rows = [{"item": str(n), "condition": c, "r1": "The dog", "r2": "-" if (n, c) == (1, "b") else "that", "r3": "ran"}
            for n in (1, 2) for c in "ab"]  # fmt: skip
    path = tmp_path / "items.csv"
    path.write_text(csv_of(rows))
    with pytest.warns(InputWarning, match=r"line 3: region r2 is '-', in 1 of 4 sentences without a letter or digit"):
        Stimuli.read(path, regions=["r1", "r2", "r3"])


@pytest.mark.parametrize(("order", "is_warned_of"), [(REGIONS, False), (sorted(REGIONS), True)])
def test_regions_that_were_sorted_by_name_are_warned_of(read, recwarn, order, is_warned_of):
    rows = [
        {name: row[name] for name in ("item", "head", "attractor")} | {"region": region, "text": row[region]}
        for row in design() for region in order
    ]  # fmt: skip
    read(rows, column="text", region_rows="region")
    message = "are in the order of the alphabet, prep, spill, subject, verb; expected the order of reading"
    assert any(message in one for one in warned(recwarn)) == is_warned_of


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        ("-2 -1 0 1", None), ("-3 -2 -1 0", None), ("-4 -3 -2 -1", None), ("0.5 1 1.25 1.5", None),
        ("1.8 1.9 1.10 1.11", None), ("-1 -2 0 1", "region -2 after region -1"),
        ("1 0 -1 -2", "region 0 after region 1"), ("0.5 0.25 1 2", "region 0.25 after region 0.5"),
        ("r1 r10 r2 r3", "region r2 after region r10"),
    ],
)  # fmt: skip
def test_numbered_regions_ascend_by_their_values(read, names, refused):
    rows = by_region(dict(zip(REGIONS, names.split(), strict=True)))
    if refused is None:
        read(rows, column="text", region_rows="region")
        return
    with pytest.raises(InputError, match=rf"found {refused} in column region; expected the order of reading"):
        read(rows, column="text", region_rows="region")


def by_region(names: dict[str, str], **columns: str) -> list[dict[str, str]]:
    """A row for each region, whose columns of the design have other names."""
    return [
        {name: row[name] for name in ("item", "head", "attractor")}
        | {"region": new, "text": row[region]} | {new_name: row[name] for new_name, name in columns.items()}
        for row in design() for region, new in names.items()
    ]  # fmt: skip


THREE = {"subject": "clause", "verb": "verb", "spill": "wrap"}  # in alphabetical order as they are read
SORTED_THREE = {"spill": "after", "subject": "before", "verb": "critical"}


def test_three_sorted_regions_are_warned_of_unless_the_texts_show_their_order(read, recwarn):
    _, line, _ = read(by_region(THREE), column="text", region_rows="region")
    assert not warned(recwarn)
    assert "; order of the regions: clause, verb, wrap; first sentence: The key | was | on the table." in line
    _, line, _ = read(by_region(SORTED_THREE), column="text", region_rows="region")
    (message,) = warned(recwarn)
    assert "order of the alphabet, after, before, critical; expected the order of reading. The first" in message
    assert "is read as 'on the table. | The key | was'. If the rows were sorted by the column region" in message
    recwarn.clear()
    plain = [{**row, "text": row["text"].lower().rstrip(".")} for row in by_region(THREE)]
    read(plain, column="text", region_rows="region")
    assert len(warned(recwarn)) == 1  # nothing shows the order


@pytest.mark.parametrize("names", [("rest", "middle", "first"), ("3a", "2b", "1c")])
def test_regions_in_any_order_are_warned_of_if_the_texts_contradict_it(read, recwarn, names):
    read(by_region(dict(zip(("spill", "verb", "subject"), names, strict=True))), column="text", region_rows="region")
    (message,) = warned(recwarn)
    assert "most sentences start after their first region and end before their last one" in message
    assert "is read as 'on the table. | was | The key'. If the rows were sorted by the column region" in message


def test_two_sorted_regions_are_warned_of_if_the_texts_contradict_their_order(read, recwarn):
    read(by_region({"subject": "a", "spill": "b"}), column="text", region_rows="region")
    assert not warned(recwarn)
    read(by_region({"spill": "a", "subject": "b"}), column="text", region_rows="region")
    assert "order of the alphabet, a, b; expected" in warned(recwarn)[0]


def test_a_column_with_the_whole_sentence_decides_about_the_order_and_lost_rows(read, refused, recwarn):
    order = dict(zip(REGIONS, ("a", "b", "c", "d"), strict=True))
    rows = by_region(order)
    for row, one in zip(rows, [one for one in design(between=" ") for _ in REGIONS], strict=True):
        row["whole"] = one["sentence"]
    read(rows, column="text", region_rows="region")
    assert not warned(recwarn)
    chosen = {"column": "text", "region_rows": "region"}
    swapped = [rows[place + {0: 1, 1: -1}.get(place % 4, 0)] for place in range(len(rows))]
    message = refused(swapped, **chosen)
    assert "line 2: the regions are 'to the cabinet The key was on the table.', but the column whole has" in message
    lost = [
        row for row in rows if (row["item"], row["head"], row["attractor"], row["region"]) != ("1", "sg", "sg", "d")
    ]
    one_item = [row for row in lost if row["item"] == "1"]
    assert "has 'The key to the cabinet was on the table.'; expected a row for each" in refused(one_item, **chosen)


def test_a_sentence_that_may_have_lost_a_row_is_warned_of(read, recwarn):
    numbered = by_region({region: str(number) for number, region in enumerate(REGIONS, 1)})
    cut = ("2", "sg", "pl", "4")  # the last region of a sentence, which may also be shorter
    rows = [row for row in numbered if (row["item"], row["head"], row["attractor"], row["region"]) != cut]
    _, line, _ = read(rows, column="text", region_rows="region")
    (message,) = warned(recwarn)
    assert "line 22: found no row of region 4 in item 2, condition sg / pl; it is read as 'The label | to" in message
    assert "1 sentence without a row of a region" in line
    recwarn.clear()
    one_item = [row for row in numbered if row["item"] == "1" and (row["head"], row["region"]) != ("pl", "2")]
    read(one_item, column="text", region_rows="region")
    (message,) = warned(recwarn)
    assert (
        "found no row of region 2 in item 1, condition pl / sg (and 1 more); it is read as 'The keys | were" in message
    )
    recwarn.clear()
    read([row for row in numbered if (row["head"], row["region"]) != ("pl", "2")], column="text", region_rows="region")
    assert not warned(recwarn)  # a condition without the region


@pytest.mark.parametrize("names", [("r1", "r10", "r2", "r3"), ("1", "10", "2", "3")])
def test_numbers_that_were_sorted_as_text_are_refused(refused, names):
    rows = by_region(dict(zip(REGIONS, names, strict=True)))
    message = refused(rows, column="text", region_rows="region")
    assert f"line 4: found region {names[2]} after region {names[1]} in column region; expected the order" in message


def test_punctuation_after_an_empty_region_is_joined_to_the_word_before(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text(
        'item,condition,np,relative,adverb,verb\n1,a,The dog,who barked,", too,",ran.\n1,b,The dog,,", too,",ran.\n'
    )
    with collected() as reports:
        words = Stimuli.read(path, regions=("np", "relative", "adverb", "verb")).words
    lines = [words.line(*span, attaches=True)[0] for span in words.spans(words.sentences)]
    assert lines == ["The dog who barked, too, ran.", "The dog, too, ran."]
    assert "2 regions that start with punctuation, joined to the word before: ', too,' (lines 2, 3)" in str(reports[0])
