"""The results on the page: tables, trees of the user, comparisons, refusals, prints and barriers."""

from __future__ import annotations

import csv
import re

import pytest

from syntaxlm.serve.app import create_interface
from syntaxlm.serve.limits import Limits
from tests.accessibility import PHONE, check_no_barriers
from tests.serve.conftest import NO_BROWSER, PAIR, SENTENCE, starting

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NO_BROWSER is not None, reason=f"page not tested: {NO_BROWSER}"),
]
PAGES = re.compile(rb"/Type\s*/Page[^s]")
TABLE = f"item\tsentence\tcondition\n1\t{SENTENCE}\tgood\n2\tthe cat {'old ' * 120}\tbad\n3\ta dog sees, the cat\tgood"


def saved(page, name: str) -> tuple[str, str]:
    """The name and the text of a file that a button saves."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).first.click()
    return download.value.suggested_filename, download.value.path().read_text("utf-8")


@pytest.mark.parametrize(
    "state",
    [
        {"view": "sentences", "models": ("simple-pcfg", "palm"), "text": "((the (old cat)) (sees (a dog)))"},
        {"view": "sentences", "models": ("simple-pcfg",), "text": TABLE},
        {"view": "pair", "models": ("lstm", "simple-pcfg"), **PAIR},
        {"view": "pair", "models": ("lstm",), "pairs": f"{SENTENCE}\nthe old cat see a dog"},
        {"view": "generate", "models": ("simple-pcfg",), "count": 2, "trees": 1, "max_words": 6},
        {"path": "/api/"},
    ],
)
def test_no_view_has_barriers_in_light_or_dark_or_on_a_phone(opened, state):
    check_no_barriers(opened(**state))


def test_a_first_visit_shows_a_sentence_with_its_tree(opened):
    page = opened()
    assert page.locator("figure [data-start]").count() > 3
    assert page.get_by_role("status").text_content() == "An example. Type a sentence of your own, and press Parse."
    assert page.url.endswith("/")


@pytest.mark.parametrize(
    "content", ['\ufeffid,text\n1,"the cat, ""old"""\n2,a dog\n', 'id;text\n1;the cat, "old"\n2;a dog\n']
)
def test_a_dropped_csv_file_is_read_as_a_table(opened, content):
    page = opened()
    page.evaluate(
        """(content) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([content], "items.csv"));
            document.getElementById("text").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
        }""",
        content,
    )
    page.locator("article h2", has_text="a dog").wait_for()
    assert page.locator("article h2").all_text_contents() == ['the cat, "old"', "a dog"]


def test_a_tree_in_brackets_is_compared_with_that_of_a_model(opened, models):
    page = opened(view="sentences", models=("simple-pcfg",), text="((the (old cat)) (sees (a dog)))")
    mine = {(0, 3), (1, 3), (3, 6), (4, 6)}
    theirs = {(row["start"], row["end"]) for row in models["simple-pcfg"].parse(SENTENCE).rows()} - {(0, 6)}
    said = page.locator(".agreement").all_text_contents()
    same = len(mine & theirs)
    f1 = 200 * same / (len(mine) + len(theirs))
    constituents = "constituents inside the sentence are also in"
    assert said[0].startswith(f"{same} of 4 {constituents} simple-pcfg (F1 {f1:.1f})")
    assert said[1].startswith(f"{same} of {len(theirs)} {constituents} your tree")
    ringed = """all => all.map(({ parentNode: { dataset } }) => [Number(dataset.start), Number(dataset.end)])"""
    for place, lacking in enumerate((mine - theirs, theirs - mine)):
        rings = page.locator("figure").nth(place).locator(".slm-node-differs")
        assert {tuple(span) for span in rings.evaluate_all(ringed)} == lacking
    assert saved(page, "LaTeX")[1].startswith("% \\usepackage{forest}\n\\begin{forest}\n[")
    assert saved(page, "SVG")[1].count('class="slm-node-differs"') == len(mine - theirs)


def test_a_reading_is_part_of_the_link_and_of_the_names_of_files(opened):
    page = opened(view="sentences", models=("simple-pcfg",), text=SENTENCE)
    page.get_by_role("button", name="Next reading").click()
    assert "reading=2" in page.url
    assert "are also in reading 1" in page.locator(".agreement").text_content()
    again = opened(f"/#{page.url.partition('#')[2]}")
    assert again.get_by_role("group", name="Readings").text_content().startswith("‹›Reading 2 of 3")
    assert saved(again, "SVG")[0] == "the-old-cat-sees-a-dog-simple-pcfg-reading2.svg"


def test_many_pairs_become_a_table(opened, models):
    pairs = [(PAIR["first"], PAIR["second"]), ("the zebra sees a dog", "the gnu sees a cat"), ("a dog", "a dog")]
    page = opened(view="pair", models=("lstm",), pairs="\n".join(sentence for pair in pairs for sentence in pair))
    rows = page.get_by_role("table", name="Pairs").locator("tbody tr")
    assert rows.nth(2).locator("td").nth(3).text_content() == "identical for the model"
    for place, pair in enumerate(pairs[:2]):
        first, second = models["lstm"].log_prob(list(pair))
        assert rows.nth(place).locator("td").nth(3).text_content() == ("first" if first > second else "second")
    assert rows.nth(1).locator("td").last.text_content() == "zebra, gnu"
    facts = page.locator(".facts").text_content()
    assert "In 1 pair the sentences differ in unknown words" in facts
    content = list(csv.DictReader(saved(page, "CSV")[1].splitlines()))
    assert content[1]["unknown_words"] == "zebra gnu"
    page.get_by_role("button", name="Show pair 1").click()
    page.locator("figure").wait_for()
    assert page.locator("#first").input_value() == PAIR["first"]


@pytest.mark.parametrize("separator", [",", ";"])
def test_pasted_rows_of_a_csv_file_are_pairs_by_columns(opened, separator):
    lines = [["good", "bad"], ["the old cat sees a dog", "the old dog sees a cat"], ["the cat", "a cat"]]
    page = opened(view="pair", models=("lstm",), pairs="\n".join(map(separator.join, lines)))
    rows = page.get_by_role("table", name="Pairs").locator("tbody tr")
    assert [row.locator("td").nth(1).text_content() for row in rows.all()] == [first for first, _ in lines[1:]]


def test_pasted_rows_of_a_csv_file_are_sentences_by_column(opened):
    text = 'id,condition,sentence\n1,a,"the cat, which sees"\n2,b,a dog\n'
    page = opened(view="sentences", models=("lstm",), text=text)
    assert page.locator("#column").input_value() == "sentence"
    assert page.locator("article h2").all_text_contents() == ["the cat, which sees", "a dog"]


@pytest.mark.parametrize("text", ["(S (NP the dog) (VP sees)", "(S (NP the dog)) (VP sees))"])
def test_a_tree_with_a_bracket_without_partner_is_refused(opened, text):
    page = opened(view="sentences", models=("lstm",), text=text, until="#status.wrong")
    assert "has no partner" in page.get_by_role("status").text_content()


def test_an_odd_list_of_pairs_is_refused(opened):
    page = opened(view="pair", models=("lstm",), pairs="the cat\na dog\nthe dog", until="#status.wrong")
    assert "has 3 lines; the last one has no partner" in page.get_by_role("status").text_content()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The old cat\nsees a dog.\nIt barks.", ["The old cat sees a dog.", "It barks."]),
        ("the old cat\nsees a dog", ["the old cat", "sees a dog"]),
        ("The old cat\nThe dog", ["The old cat", "The dog"]),
    ],
)
def test_broken_lines_are_joined_but_lists_are_not(opened, text, sentences):
    page = opened(view="sentences", models=("lstm",), text=text)
    assert page.locator("article h2").all_text_contents() == sentences
    assert ("read as spaces" in page.get_by_role("status").text_content()) == (sentences[0].endswith("."))


def test_results_follow_the_models_are_marked_when_the_text_changes_and_stay_after_a_refusal(opened):
    page = opened(view="sentences", models=("simple-pcfg",), text=SENTENCE)
    page.get_by_label("prpn").check()
    page.get_by_role("heading", name="prpn").wait_for()
    page.get_by_label("Text").fill("a dog")
    assert page.locator(".view.stale article").count() == 1
    page.get_by_label("Text").fill(SENTENCE)
    assert page.locator(".view.stale").count() == 0
    page.get_by_label("Text").fill("old " * 120)
    page.get_by_role("button", name="Parse").click()
    page.wait_for_selector("#status.wrong >> text=found 120 words")
    assert page.locator("article h2").all_text_contents() == [SENTENCE]
    page.get_by_role("tab", name="Generate").click()
    assert page.locator("article").count() == 0
    page.get_by_role("spinbutton", name="Sentences").fill("51")
    page.get_by_role("button", name="Generate").click()
    assert page.get_by_role("status").text_content() == "Sentences must be a whole number from 1 to 50."
    assert page.locator("#count[aria-invalid]:focus").count() == 1
    page.get_by_role("tab", name="Sentences").click()
    assert page.locator("article h2").all_text_contents() == [SENTENCE]


def test_a_slow_answer_can_be_cancelled(opened, models, release, monkeypatch):
    with starting(lambda: create_interface({"lstm": models["lstm"]}, Limits())) as (client, _, _):
        page = opened(at=str(client.base_url).rstrip("/"), view="sentences", text="a dog")
        page.route("**/api/analyse", lambda _: None)  # no answer
        page.get_by_label("Text").fill("the cat")
        page.get_by_role("button", name="Parse").click()
        page.get_by_role("button", name="Cancel").click()
        page.wait_for_selector("#status.wrong >> text=Cancelled.")
        assert page.locator("article h2").all_text_contents() == ["a dog"]
        page.locator("#submit:not([aria-disabled])").wait_for()
        assert page.evaluate("document.activeElement.id") == "submit"


def test_five_sentences_are_two_light_pages_without_the_form(opened):
    text = " ".join(["The old cat sees a dog and the other cat near the house.", *["The cat sees a dog."] * 4])
    page = opened(view="sentences", models=("simple-pcfg",), text=text, color_scheme="dark")
    assert len(PAGES.findall(page.pdf(format="A4"))) == 2
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator("form").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.slm-word')).fill") == "rgb(29, 33, 37)"


def test_on_a_phone_the_result_and_the_decisive_word_are_in_view(opened):
    pair = {name: f"{text} {SENTENCE}" for name, text in PAIR.items()}
    page = opened(view="pair", models=("lstm",), viewport=PHONE, **pair)
    page.get_by_role("button", name="Compare").click()
    page.locator("#submit:not([aria-disabled])").wait_for()
    assert page.locator("article").bounding_box()["y"] < PHONE["height"] / 2
    marked = page.locator("figure .slm-bar").bounding_box()
    assert 0 <= marked["x"] <= PHONE["width"] - marked["width"]


def test_columns_of_one_name_are_told_apart(opened):
    first, second = PAIR.values()
    table = f"sentence\tsentence\n{first}\t{second}\n{second}\t{first}"
    page = opened(view="pair", models=("lstm",), pairs=table)
    row = page.get_by_role("table", name="Pairs").locator("tbody tr").first
    assert row.locator("td").all_text_contents()[1:3] == [first, second]


def test_a_file_in_another_encoding_is_refused(opened, tmp_path):
    file = tmp_path / "latin.csv"
    file.write_bytes("item,sentence\n1,le café noir\n".encode("latin-1"))
    page = opened()
    before = page.locator("#text").input_value()
    page.locator("#file").set_input_files(file)
    page.get_by_text("latin.csv is not text in UTF-8. Save it as plain text or CSV in UTF-8").wait_for()
    assert page.locator("#text").input_value() == before


def test_percentages_have_two_digits_whatever_their_size(opened):
    shares = [1, 0.996, 0.5, 0.04, 0.00012, 1e-9, 0]
    script = f'async () => {{ const {{ percent }} = await import("/elements.js"); return {shares}.map(percent); }}'
    assert opened().evaluate(script) == ["100%", "100%", "50%", "4.0%", "0.012%", "1e-7%", "0.0%"]
