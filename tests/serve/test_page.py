"""The page in a browser: the system's Chromium. Skipped where there is none.

Each task of the page has a test here; `test_page_details`, `test_page_results` and `test_page_requests` have the
others, which are long.
"""

from __future__ import annotations

import csv
import json
import re

import pytest

from tests.accessibility import check_no_barriers
from tests.drawing.reading import of_role, read_svg
from tests.serve.conftest import NO_BROWSER, PAIR, SENTENCE
from tests.serve.test_page_results import TABLE, saved

pytestmark = pytest.mark.skipif(NO_BROWSER is not None, reason=f"page not tested: {NO_BROWSER}")


def test_typed_text_is_refused_with_a_reason_and_parsed_with_the_keyboard(opened):
    page = opened()
    field = page.get_by_label("Text")
    field.fill(" ")
    page.get_by_role("button", name="Parse").click()
    assert page.get_by_role("status").text_content().startswith("Type a sentence first.")
    field.fill("... !?")
    page.get_by_role("button", name="Parse").click()
    page.wait_for_selector("#status.wrong >> text=There are no words in this text.")
    field.fill("the cat " * 60)
    page.get_by_role("button", name="Parse").click()
    page.wait_for_selector("#status.wrong >> text=found 120 words; expected at most 100")
    field.fill(f"{SENTENCE}\n\na dog sees zebra")
    page.keyboard.press("Control+Enter")
    page.locator("article h2", has_text="zebra").wait_for()
    assert page.locator("article h2").all_text_contents() == [SENTENCE, "a dog sees zebra"]
    assert page.locator("figure").first.locator(".slm-word, .slm-unknown").all_text_contents() == SENTENCE.split()
    assert page.get_by_role("status").text_content() == "2 sentences, 1 model."
    assert "unknown: \u2068zebra\u2069" in page.locator("article").nth(1).locator(".facts").text_content()


def test_readings_are_stepped_through_with_their_probabilities(opened, models):
    page = opened(view="sentences", models=("simple-pcfg",), text=SENTENCE)
    trees = models["simple-pcfg"].parse(SENTENCE, best=3).alternatives
    said = page.get_by_role("group", name="Readings").locator("span")
    page.get_by_text("As tables").click()
    for place in (0, 1, 2, 0):
        tree = trees[place]
        found = re.fullmatch(r"Reading (\d) of 3 \(probability (.+), confidence (.+)\)", said.text_content())
        assert int(found[1]) == place + 1
        assert float(found[2]) == pytest.approx(tree.probability, rel=0.06)
        assert float(found[3]) == pytest.approx(tree.confidence, abs=0.006)
        spans = [[part.start, part.end] for part in tree.tree.constituents if part.end - part.start > 1]
        marks = "all => all.map(({ dataset }) => [Number(dataset.start), Number(dataset.end)])"
        assert page.locator("figure").first.locator("[data-start]").evaluate_all(marks) == spans
        rows = page.get_by_role("table", name="Constituents").locator("tbody td:first-child")
        assert rows.all_text_contents() == [" ".join(SENTENCE.split()[start:end]) for start, end in spans]
        assert page.locator("pre").text_content() == str(tree.tree)
        page.get_by_role("button", name="Next reading").click()
    assert page.get_by_role("status").text_content() == f"{said.text_content()}."
    page.get_by_role("button", name="Previous reading").click()
    assert said.text_content().startswith("Reading 1 of 3")
    labelled = opened(view="sentences", models=("simple-pcfg",), text=SENTENCE, labels="1")  # only the best has labels
    assert labelled.get_by_role("group", name="Readings").count() == 0


def test_script_in_a_sentence_or_link_does_not_run(opened):
    attack = '<img src=x onerror="alert(1)"><script>alert(2)</script> the <svg onload=alert(3)> cat'
    page = opened(view="sentences", models=("prpn", "lstm"), text=attack)
    assert page.locator("article h2").text_content() == attack
    assert page.locator("article img, article script, article svg[onload]").count() == 0
    page = opened(view="pair", models=("lstm",), first=attack, second=f"{attack} dog")
    assert page.locator("article img, article script").count() == 0  # `opened` fails if a dialog opens


def test_a_pair_shows_the_likelier_sentence_and_where(opened, models):
    page = opened(view="pair", models=("lstm",), **PAIR)
    first, second = models["lstm"].log_prob(list(PAIR.values()))
    assert PAIR["first" if first > second else "second"] in page.locator(".facts").text_content()
    assert page.locator("figure .slm-bar").count() == 1  # the marked column
    page.get_by_text("As tables").click()
    assert page.locator("tr.decisive").count() == 1


def test_generated_sentences_can_be_parsed(opened, models):
    page = opened(view="generate", models=("simple-pcfg",), count=2, seed=3, max_words=6, trees=1)
    texts = [one.text for one in models["simple-pcfg"].generate(2, seed=3, max_words=6, trees=True)]
    assert page.locator("ol.generated li > span").all_text_contents() == texts
    assert page.locator("ol.generated figure").count() == 2
    page.get_by_role("button", name="Parse", exact=True).first.click()
    page.locator("article h2", has_text=texts[0]).wait_for()
    assert page.get_by_role("tab", name="Sentences").get_attribute("aria-selected") == "true"


def test_a_link_restores_the_state(opened):
    page = opened()
    page.get_by_role("tab", name="Generate").click()
    page.get_by_label("lstm").check()
    page.get_by_label("simple-pcfg").uncheck()
    page.get_by_label("Prompt").fill("the cat & <dog> #1")
    page.get_by_label("Seed").fill("7")
    page.get_by_role("button", name="Generate").click()
    page.wait_for_selector("article")
    path = page.url.partition("#")[2]
    again = opened(f"/#{path}")
    assert again.get_by_label("Prompt").input_value() == "the cat & <dog> #1"
    assert again.get_by_label("Seed").input_value() == "7"
    assert again.get_by_role("checkbox", name="lstm").is_checked()
    assert not again.get_by_role("checkbox", name="simple-pcfg").is_checked()
    texts = [one.locator("ol.generated li > span").all_text_contents() for one in (page, again)]
    assert texts[0] == texts[1]


def test_tables_and_downloads_have_what_the_pictures_show(opened, models, tmp_path):
    page = opened(view="sentences", models=("simple-pcfg",), text=SENTENCE)
    parse = models["simple-pcfg"].parse(SENTENCE)
    page.get_by_text("As tables").click()
    words = page.get_by_role("table", name="Words").locator("tbody tr")
    stem = "the-old-cat-sees-a-dog-simple-pcfg"
    surprisal = models["simple-pcfg"].surprisal(SENTENCE, context="reset")
    assert [float(value) for value in words.locator("td.number").all_text_contents()] == [
        pytest.approx(row.surprisal, abs=0.01) for row in surprisal
    ]
    spans = page.get_by_role("table", name="Constituents").locator("tbody tr")
    assert spans.locator("td:first-child").all_text_contents() == [row["text"] for row in parse.rows()]
    page.get_by_role("button", name="Entropy, rank and next words").click()
    page.get_by_role("columnheader", name="most probable instead").wait_for()
    measured = models["simple-pcfg"].surprisal(SENTENCE, measures=["rank"], next_words=5)
    assert words.locator("td:nth-child(5)").all_text_contents() == [str(row.measures["rank"]) for row in measured]
    likeliest = page.locator("td:nth-child(7) span span:first-child").all_text_contents()
    assert len(likeliest) == len(measured)
    assert likeliest[0].startswith(measured[0].measures["next_words"].split()[0])
    page.get_by_role("button", name="Beliefs about the tree").click()
    page.get_by_role("columnheader", name="belief update, bits").wait_for()
    believed = models["simple-pcfg"].surprisal(SENTENCE, measures=["belief_update"])
    assert words.locator("td:nth-child(9)").all_text_contents() == [
        f"{row.measures['belief_update']:.3f}" for row in believed
    ]

    def saved(name: str) -> bytes:
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        download.value.save_as(tmp_path / name)
        assert re.match(rf"{stem}(-chart)?\.", download.value.suggested_filename)
        return (tmp_path / name).read_bytes()

    rows = list(csv.DictReader(saved("CSV").decode().splitlines()))
    assert [row["word"] for row in rows] == [row.word for row in surprisal]
    assert [float(row["rank"]) for row in rows] == [row.measures["rank"] for row in measured]
    page.locator("summary", has_text="Span probabilities").click()
    assert [float(row["surprisal"]) for row in rows] == [pytest.approx(row.surprisal, abs=1e-5) for row in surprisal]
    chart = read_svg(saved("Chart SVG").decode())
    assert len(of_role(chart, "cell")) >= len(SENTENCE.split())
    assert saved("Chart PNG")[:8] == b"\x89PNG\r\n\x1a\n"
    assert saved("Brackets").decode() == f"{parse}\n"
    assert json.loads(saved("JSON"))["parse"]["spans"] == [list(span) for span in parse.to_dict()["spans"]]
    picture = read_svg(saved("SVG").decode())
    assert [word.text for word in of_role(picture, "word")] == SENTENCE.split()
    (title,) = of_role(picture, "heading")
    assert title.text.startswith("simple-pcfg: \u2068the old")
    png = saved("PNG")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    size = [int.from_bytes(png[start : start + 4], "big") for start in (16, 20)]
    assert size == [pytest.approx(2 * float(picture.get(name)), abs=2) for name in ("width", "height")]


def test_a_table_of_sentences_becomes_a_table_of_results_and_a_refused_sentence_leaves_the_others(opened, models):
    page = opened(view="sentences", models=("simple-pcfg",), text=TABLE)
    assert page.locator("#column").input_value() == "sentence"
    rows = page.get_by_role("table", name="Sentences").locator("tbody tr")
    bits = [models["simple-pcfg"].surprisal(text).bits for text in (SENTENCE, "a dog sees, the cat")]
    expected = [
        ["1", "1", "good", SENTENCE, f"{bits[0]:.1f}"],
        ["3", "3", "good", "a dog sees, the cat", f"{bits[1]:.1f}"],
    ]
    assert [rows.nth(place).locator("td").all_text_contents() for place in (0, 2)] == expected
    assert rows.nth(1).locator("td").last.text_content() == "refused"
    refused = page.locator("article").nth(1).locator(".wrong").text_content()
    assert refused.startswith("This sentence is refused: found 122 words; expected at most 100.")
    name, content = saved(page, "CSV of words")
    words = list(csv.DictReader(content.splitlines()))
    assert name == "the-old-cat-sees-a-dog-and-2-more-simple-pcfg.csv"
    assert {(row["sentence"], row["condition"]) for row in words} == {("1", "good"), ("3", "good")}
    summary = list(csv.DictReader(saved(page, "CSV of sentences")[1].splitlines()))
    assert [row["item"] for row in summary] == ["1", "2", "3"]
    assert summary[1]["simple-pcfg_bits"] == ""
    page.get_by_role("button", name="a dog sees, the cat").click()
    assert page.evaluate("document.activeElement.textContent") == "a dog sees, the cat"


def test_sentences_have_no_barriers_in_light_or_dark_or_on_a_phone(opened):
    check_no_barriers(opened(view="sentences", models=("simple-pcfg", "prpn"), text=f"{SENTENCE} zebra."))


def test_a_link_to_a_model_that_the_server_lacks_says_so(opened):
    page = opened(models=("lstm", "gone"), until="#status.wrong", view="sentences", text=SENTENCE)
    assert page.get_by_role("status").text_content().startswith("The link asks for the model gone, which this server")
    assert page.locator("article").count() == 0
