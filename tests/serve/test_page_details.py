"""Details of the page: links, pairs, guides, phones, colours, pointer and keyboard."""

from __future__ import annotations

import json
import re

import pytest

import syntaxlm
from syntaxlm.serve.app import create_app, create_interface
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.server import running
from syntaxlm.storage.bundled import find_model
from syntaxlm.storage.cards import read_card
from tests.accessibility import PHONE
from tests.serve.conftest import NO_BROWSER, PAIR, SENTENCE, starting

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NO_BROWSER is not None, reason=f"page not tested: {NO_BROWSER}"),
]


def test_a_paragraph_is_split_into_sentences_unless_each_line_is_one(opened):
    text = "It rained. We stayed at home.\nThen the sun came out."
    split = opened(view="sentences", text=text)
    assert split.locator("article h2").all_text_contents() == [
        "It rained.", "We stayed at home.", "Then the sun came out.",
    ]  # fmt: skip
    assert split.get_by_role("status").text_content() == "3 sentences (split automatically), 1 model."
    by_line = opened(view="sentences", text=text, lines="1")
    assert by_line.locator("article h2").all_text_contents() == text.splitlines()


def test_unknown_words_and_a_missing_chart_are_said(opened):
    page = opened(view="sentences", models=("simple-pcfg",), text=f"zebra\n{'the cat ' * 21}", lines="1")
    facts, long = page.locator("p.facts").all_text_contents()
    assert facts.startswith("1 word · ")
    notice = "1 of 1 word is not in the vocabulary (\u2068zebra\u2069): the surprisals and the tree say little"
    assert notice in page.locator(".notice").text_content()
    assert long.startswith("42 words · ")
    assert "too long for a chart" in long
    assert "too long" not in facts


def test_the_guide_states_the_accuracy_of_the_card(opened, models):
    bundled = models | {"is": syntaxlm.load("is")}
    card = read_card(find_model("is"))
    with running(create_app(bundled)) as at:
        page = opened(at=at)
        page.get_by_role("button", name="Guide").click()
        assert page.locator("#guide").get_attribute("open") is not None
        table = page.locator("#accuracy table")
        assert table.locator("tbody td").all_text_contents() == ["is", *card.accuracy.row().values()]
        assert f"F1 {card.accuracy.row()['F1']}" in page.locator(".chip", has_text="is").last.text_content()
        assert "simple-pcfg" in page.locator("#accuracy p").last.text_content()  # without a card
        page.get_by_label("Text").fill("the cat & a dog!")
        page.get_by_label("Icelandic").check()
        page.get_by_role("checkbox", name="simple-pcfg").uncheck()
        page.get_by_role("button", name="Parse").click()
        page.locator("article h2", has_text="dog!").wait_for()
        page.locator("#submit:not([aria-disabled])").wait_for()
        assert "The model reads Icelandic." in page.locator(".notice").text_content()
        facts = page.get_by_role("region", name="is: the cat & a dog!", exact=True).locator(".facts").text_content()
        assert facts.endswith("not in the tree: \u2068&\u2069 \u2068!\u2069")


def test_words_that_the_tree_does_not_have_are_counted_and_unknown_as_in_python(opened):
    """The grammar of `en` reads no emoji, its model of words does."""
    nlp = syntaxlm.load("en")
    text = "“Don’t!” he said 😀."
    rows = [row for row in nlp.surprisal(text) if row.word]
    assert [row.word for row in rows if not row.in_vocabulary] == ["😀."]
    with running(create_app({"en": nlp})) as at:
        page = opened(at=at)
        page.get_by_label("Text").fill(text)
        page.get_by_role("button", name="Parse").click()
        page.locator("article h2", has_text="😀").wait_for()
        facts = page.locator("article .facts").text_content()
        bars = page.locator("article figure .slm-area-1").count()
    assert facts.startswith("5 words · ")
    assert "unknown: \u2068😀.\u2069" in facts
    assert bars == 5  # of two joined words, two words, an emoji beside the last one, and the end


def test_the_citation_names_the_decoder_that_is_used(opened):
    page = opened(view="sentences", models=("prpn",), text=SENTENCE, decoder="unbiased")
    cited = page.locator("#citation q")
    assert cited.text_content().endswith(" parameters, decoder unbiased); each sentence was read by itself.")
    page.evaluate("document.getElementById('decoder').closest('details').open = true")
    page.locator("#decoder").select_option("")
    assert ", decoder biased)" in cited.text_content()


def test_back_returns_to_the_previous_result_and_then_to_none(opened):
    page = opened()
    for text in ("the cat", "a dog"):
        page.get_by_label("Text").fill(text)
        page.get_by_role("button", name="Parse").click()
        page.locator("article h2", has_text=text).wait_for()
    page.go_back()
    page.locator("article h2", has_text="the cat").wait_for()
    assert page.get_by_label("Text").input_value() == "the cat"
    page.go_back()
    page.locator("article h2", has_text="She saw the man").wait_for()  # the example of a first visit
    page.go_forward()
    page.locator("article h2", has_text="the cat").wait_for()


def test_a_copied_link_says_that_it_is_local(opened):
    page = opened(view="sentences", text=SENTENCE)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Text").fill("a dog")
    page.get_by_role("button", name="Copy link").click()
    page.locator("#status", has_text="works only on this computer").wait_for()
    assert "text=a+dog" in page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_all_pictures_have_one_magnification_which_leaves_text_legible(opened, width):
    text = f"{SENTENCE}\nthe cat\nthe {'old ' * 30} cat"
    page = opened(
        view="sentences", models=("simple-pcfg",), text=text, lines="1", viewport={"width": width, "height": 900}
    )
    sizes = """() => [...document.querySelectorAll("figure text.slm-small")].map((text) =>
        10 * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b))"""
    found = page.evaluate(sizes)
    assert max(found) - min(found) < 0.01
    assert 8.99 <= min(found) <= 14.01
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    bits = page.locator("rect.slm-area-1 > title").all_text_contents()
    heights = page.locator("rect.slm-area-1").evaluate_all("all => all.map((one) => one.getBBox().height)")
    for title, height in zip(bits, heights, strict=True):
        assert height == pytest.approx(4.8 * float(re.search(r"([\d.]+) bits", title)[1]), abs=1), "20 bits: 96 pixels"
    if page.locator("#fit").is_visible():
        page.locator("#fit").check()
        assert page.evaluate(
            "[...document.querySelectorAll('figure')].every((one) => one.scrollWidth <= one.clientWidth)"
        )


def test_a_tap_shows_a_score_until_the_next_one(opened):
    page = opened(view="sentences", models=("prpn",), text=SENTENCE, viewport=PHONE, has_touch=True)
    assert page.locator(".keys").is_hidden()
    figure = page.locator("figure").first
    figure.locator("[data-start] .slm-target").nth(1).tap()
    assert (
        page.locator("#tooltip")
        .text_content()
        .startswith(f"{' '.join(figure.locator('text.on').all_text_contents())}: ")
    )
    figure.locator(".slm-area-1").first.tap()
    assert "bits" in page.locator("#tooltip").text_content()
    assert figure.locator("text.on").count() == 0
    page.locator("h1").tap()
    assert page.locator("#tooltip").is_hidden()


def test_models_stand_side_by_side_and_one_may_lack_trees(opened):
    page = opened(view="sentences", models=("prpn", "lstm"), text=SENTENCE)
    columns = page.locator(".column")
    assert columns.locator("h3").all_text_contents() == ["prpn", "lstm"]
    boxes = [columns.nth(place).bounding_box() for place in range(2)]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    assert columns.nth(0).locator("[data-start]").count() > 0  # constituents
    assert columns.nth(1).locator("[data-start]").count() == 0
    assert columns.nth(1).locator("figure .slm-area-1").count() == len(SENTENCE.split()) + 1  # bars, with the end


def test_a_span_shows_its_score_to_the_pointer_and_to_the_keyboard(opened, models):
    names = ("simple-pcfg", "prpn", "palm")  # with probabilities, neither, and scores
    page = opened(view="sentences", models=names, text=SENTENCE)
    for place, name in enumerate(names):
        figure = page.locator(".column").nth(place).locator("figure").first
        rows = list(models[name].parse(SENTENCE).rows())
        assert figure.locator("[data-start]").count() == len(rows)
        row = rows[1]
        mark = figure.locator(f'[data-start="{row["start"]}"][data-end="{row["end"]}"]')
        mark.locator(".slm-target").hover()
        shown = page.locator("#tooltip").text_content()
        assert shown.startswith(f"{row['text']}: ")
        value = row["marginal"] if row["marginal"] is not None else row["score"]
        assert (value is None) == (name == "prpn")
        if value is not None:
            assert float(re.search(r"-?[\d.]+$", shown)[0]) == pytest.approx(value, abs=0.002)
        assert figure.locator("text.on").all_text_contents() == row["text"].split()

        figure.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("status").text_content() == page.locator("#tooltip").text_content()
        page.keyboard.press("Escape")
        assert page.locator("#tooltip").is_hidden()


@pytest.mark.parametrize(
    ("second", "unknown"),
    [("the zebra sees a dog", ["zebra"]), ("the gnu sees a cow", ["cow", "gnu"]), ("the cat sees a cat", [])],
)
def test_a_pair_that_differs_in_unknown_words_says_nothing_about_grammar(opened, second, unknown):
    page = opened(view="pair", models=("lstm",), first=SENTENCE, second=second)
    notices = page.locator(".notice").all_text_contents()
    assert len(notices) == bool(unknown)
    assert all(f"\u2068{word}\u2069" in notices[0] for word in unknown)
    same = opened(view="pair", models=("lstm",), first="the zebra sees a dog", second="the zebra sees a cat")
    assert same.locator(".notice").count() == 0, "both sentences have the same unknown word"


@pytest.mark.parametrize(
    "task", [{"view": "sentences", "text": SENTENCE}, {"view": "pair", **PAIR}, {"view": "generate"}]
)
@pytest.mark.parametrize("names", [("gone",), ("lstm", "gone"), ("gone", "<b>lost</b>")])
def test_a_link_to_a_model_that_the_server_lacks_says_so_and_shows_no_other_model(opened, task, names):
    page = opened(models=names, until="#status.wrong", **task)
    said = page.get_by_role("status").text_content()
    lacking = " and ".join(f"the model {name}" for name in names if name != "lstm")
    assert said.startswith(f"The link asks for {lacking}, which this server does not have. It has the models ")
    assert page.locator("article").count() == 0
    checked = page.locator("#models input:checked").evaluate_all("all => all.map(({ value }) => value)")
    assert checked == [name for name in names if name == "lstm"]
    page.get_by_label("lstm").check()
    page.locator("#submit").click()
    page.wait_for_selector("article")
    assert "gone" not in page.url
    assert page.locator("#status.wrong").count() == 0


def test_a_link_to_a_decoder_or_layer_that_the_models_lack_says_so(opened):
    state = {"view": "sentences", "models": ("simple-pcfg",), "text": SENTENCE}
    page = opened(decoder="none", until="#status.wrong", **state)
    assert "asks for the decoder none, which this server does not have" in page.get_by_role("status").text_content()
    assert page.locator("article").count() == 0
    assert opened(decoder="viterbi", **state).locator("article").count() == 1


def test_a_link_that_is_followed_later_removes_the_results_of_other_models(opened):
    page = opened(view="sentences", models=("simple-pcfg",), text=SENTENCE)
    page.evaluate("location.hash = '#view=sentences&model=gone&text=a+dog'")
    page.wait_for_selector("#status.wrong")
    assert page.locator("article").count() == 0
    page.go_back()
    page.wait_for_selector("article")
    assert page.locator("#status.wrong").count() == 0


@pytest.mark.parametrize("last", ["him", "it", "old", "gone", "bark"])
def test_typed_sentences_that_end_in_the_same_short_word_stay_apart(opened, last):
    text = " ".join(f"The {noun} saw {last}." for noun in ("keys", "boats", "cars", "dogs", "cats", "birds"))
    page = opened(view="sentences", text=text)
    assert page.locator("article h2").count() == 6


def test_it_fits_a_phone(opened):
    states = [
        {"view": "sentences", "text": f"{SENTENCE} {SENTENCE} {SENTENCE}"},
        {"view": "pair", **PAIR},
        {"view": "generate", "count": 1, "max_words": 20},
    ]
    for state in states:
        page = opened(models=("simple-pcfg", "prpn"), viewport=PHONE, **state)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        edges = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, textarea, summary")]
                .map((one) => one.getBoundingClientRect()).map(({ left, right }) => [left, right])"""
        )
        assert min(left for left, _ in edges) >= 0
        assert max(right for _, right in edges) <= PHONE["width"]


@pytest.mark.parametrize("width", [320, 390])
def test_no_task_is_cut_off_on_a_phone(opened, width):
    page = opened(viewport=PHONE | {"width": width})
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert page.get_by_role("tablist").evaluate("one => one.scrollWidth <= one.clientWidth")


def test_models_are_shown_as_loading_until_they_can_be_used(opened, models, release):
    def load():
        release.wait(60)
        return create_interface({"lstm": models["lstm"]}, Limits())

    with starting(load) as (client, _, _):
        page = opened(at=str(client.base_url).rstrip("/"), until="text=loading …")
        page.get_by_role("button", name="Parse").click()
        assert page.get_by_role("status").text_content() == "No models are loaded yet."
        release.set()
        page.wait_for_selector(".chip")
        assert page.get_by_text("loading …").count() == 0
        assert page.get_by_role("status").text_content() == ""


@pytest.mark.parametrize("chosen", ["system", "menu"])
def test_dark_mode_follows_the_system_or_the_menu(opened, chosen):
    scheme = "dark" if chosen == "system" else "light"
    page = opened(view="sentences", models=("prpn",), text=SENTENCE, color_scheme=scheme)
    if chosen == "menu":
        page.get_by_label("Colours").select_option("dark")
    pairs = page.evaluate(
        """() => [["body", "article"], [".facts", "article"], [".hint", "form"]].map(
            ([ink, paper]) => [getComputedStyle(document.querySelector(ink)).color,
                               getComputedStyle(document.querySelector(paper)).backgroundColor])"""
    )
    for ink, paper in pairs:
        assert luminance(ink) > luminance(paper)
        assert contrast(ink, paper) >= 4.5
    word = page.evaluate("getComputedStyle(document.querySelector('figure .slm-word')).fill")
    assert contrast(word, pairs[0][1]) >= 4.5


def luminance(colour: str) -> float:
    """Relative luminance of "rgb(r, g, b)" (WCAG 2)."""
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


def test_everything_is_reached_by_the_keyboard_and_has_a_name(opened):
    page = opened(view="sentences", models=("prpn",), text=SENTENCE)
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const one = document.activeElement; return one === document.body ? null : {
                id: one.id || one.value || one.textContent.trim().slice(0, 20),
                outline: getComputedStyle(one).outlineStyle,
                name: one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent }; }"""
        )
        if found is None:
            break
        assert found["name"].strip(), found
        assert found["outline"] != "none", found
        reached.append(found["id"])
    order = ["tab-sentences", "text", "prpn", "submit", "link", "How to read this", "SVG", "As tables"]
    assert [one for one in reached if one in order] == order
    assert reached[0] == "Skip to the results"

    page.get_by_role("tab", name="Sentences").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tabpanel").get_attribute("aria-labelledby") == "tab-pair"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-generate"


def test_the_page_of_the_interface_lists_and_tries_its_operations(opened):
    page = opened("/api/")
    assert "POST /api/parse" in page.locator("article h2").all_text_contents()
    parse = page.locator("article").filter(has=page.get_by_role("heading", name="POST /api/parse", exact=True))
    assert "decoder" in parse.locator("td code").all_text_contents()
    parse.get_by_text("Try it").click()
    parse.get_by_role("button", name="Send").click()
    parse.locator("pre").wait_for()
    assert json.loads(parse.locator("pre").text_content())["sentences"][0]["number"] == 1
