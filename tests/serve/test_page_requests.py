"""The page while it waits for answers, after errors, and with unusual numbers, names and files."""

from __future__ import annotations

import csv
import math
import re
from io import BytesIO

import numpy as np
import pytest

from syntaxlm.api import LanguageModel
from tests.serve.conftest import NO_BROWSER, SENTENCE
from tests.serve.test_page_results import saved

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NO_BROWSER is not None, reason=f"page not tested: {NO_BROWSER}"),
]
# The first answer to a request for a path has another status.
FAIL_ONCE = """(() => {
    const real = window.fetch;
    let failed = false;
    window.fetch = (path, options) => {
        if (failed || !path.includes("%s")) return real(path, options);
        failed = true;
        return Promise.resolve(new Response(`%s`, { status: %d }));
    };
})()"""
BUSY = '{"detail": "the models are busy"}'


def held(page, path: str) -> list:
    """The requests for a path, which get no answer until they are continued."""
    routes: list = []
    page.route(f"**/api/{path}", lambda route: routes.append(route))
    return routes


def wait_for(page, routes: list, count: int = 1) -> None:
    for _ in range(200):
        if len(routes) >= count:
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"found {len(routes)} requests; expected {count}")


def select_decoder(page, name: str) -> None:
    page.evaluate("document.getElementById('decoder').closest('details').open = true")
    page.locator("#decoder").select_option(name)


def test_results_of_a_text_that_was_changed_meanwhile_are_marked(opened):
    page = opened(view="sentences", models=("lstm",), text="the cat")
    requests = held(page, "analyse")
    page.get_by_label("Text").fill("a dog")
    page.get_by_role("button", name="Parse").click()
    wait_for(page, requests)
    page.get_by_label("Text").fill("a dog sees")
    requests.pop().continue_()
    page.locator("article h2", has_text=re.compile("^a dog$")).wait_for()
    assert page.locator(".view.stale").count() == 1
    assert page.get_by_role("status").text_content().startswith("The results below are those of an earlier input.")
    page.get_by_label("Text").fill("a dog")
    assert page.locator(".view.stale").count() == 0


def test_an_option_that_is_selected_before_the_first_result_applies_to_it(opened):
    page = opened(view="sentences", models=("prpn", "gone"), text=SENTENCE, until="#status.wrong")
    requests = held(page, "analyse")
    page.get_by_role("button", name="Parse").click()
    wait_for(page, requests)
    select_decoder(page, "unbiased")
    wait_for(page, requests, 2)
    assert [one.request.post_data_json["decoder"] for one in requests] == ["biased", "unbiased"]
    requests[1].continue_()
    page.wait_for_selector("article")
    assert page.locator(".view.stale").count() == 0
    assert "decoder=unbiased" in page.url


def test_earlier_results_are_explained_when_their_tab_is_opened_again(opened):
    page = opened(view="sentences", models=("lstm",), text="the cat")
    page.get_by_label("Text").fill("a dog")
    page.get_by_role("tab", name="Generate").click()
    page.get_by_role("tab", name="Sentences").click()
    assert page.locator(".view.stale").count() == 1
    assert page.get_by_role("status").text_content().startswith("The results below are those of an earlier input.")


def test_a_link_shows_the_options_that_its_state_has(opened):
    state = "view=generate&model=simple-pcfg&count=1&max_words=5"
    page = opened(f"/#{state}&trees=1")
    assert not page.get_by_label("Prompt").is_visible()
    page.evaluate(f"location.hash = '#{state}'")
    page.get_by_label("Prompt").wait_for(timeout=5000)


def test_a_wrong_temperature_is_not_asked_to_be_a_whole_number(opened):
    page = opened(view="generate", models=("lstm",), count=1)
    page.get_by_label("Temperature").fill("-1")
    page.get_by_role("button", name="Generate").click()
    assert page.get_by_role("status").text_content().startswith("Temperature must be a number of 0 or more.")


def test_the_link_to_the_results_keeps_the_address(opened):
    page = opened(view="sentences", models=("lstm",), text="the cat")
    address = page.url
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"
    assert page.url == address


def test_measures_can_be_requested_again_after_an_error(opened):
    page = opened(view="sentences", models=("lstm",), text="the cat")
    page.evaluate(FAIL_ONCE % ("api/surprisal", BUSY, 503))
    page.get_by_text("As tables").click()
    button = page.get_by_role("button", name="Entropy, rank and next words")
    button.click()
    page.get_by_text("the models are busy").wait_for()
    button.click(timeout=5000)
    page.get_by_role("columnheader", name="most probable instead").wait_for()
    assert page.get_by_text("the models are busy").count() == 0


def test_the_models_are_requested_until_the_server_has_read_them(opened):
    page = opened()
    page.add_init_script(FAIL_ONCE % ("api/models", BUSY, 503))
    page.reload()
    page.wait_for_selector(".chip", timeout=10_000)
    assert page.get_by_text("loading …").count() == 0


def test_an_incomplete_answer_is_reported(opened):
    page = opened(view="sentences", models=("lstm",), text="the cat")
    page.evaluate(FAIL_ONCE % ("api/analyse", '{"model": "ls', 200))
    page.get_by_label("Text").fill("a dog")
    page.get_by_role("button", name="Parse").click()
    page.wait_for_selector("#status.wrong >> text=The answer of the server is incomplete.")


def test_the_page_of_the_interface_reports_an_error(browser, address):
    page = browser.new_page()
    page.add_init_script(FAIL_ONCE % ("openapi.json", BUSY, 503))
    page.goto(f"{address}/api/")
    page.locator("#about", has_text="the models are busy").wait_for(timeout=5000)
    page.close()


def test_a_png_is_light_and_needs_no_server(opened):
    from matplotlib.image import imread

    page = opened(view="sentences", models=("lstm",), text=SENTENCE, color_scheme="dark")
    page.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('no server')); }")
    with page.expect_download(timeout=10_000) as download:
        page.get_by_role("button", name="PNG", exact=True).click()
    grey = imread(BytesIO(download.value.path().read_bytes()), "png")[..., :3].mean(-1)
    assert np.median(grey) == 1, "paper"
    assert grey.min() < 0.3, "ink"


def test_a_picture_that_is_too_large_for_png_is_not_saved(opened):
    page = opened(view="sentences", models=("lstm",), text=SENTENCE)
    page.evaluate("() => { HTMLCanvasElement.prototype.toBlob = (done) => done(null); }")  # as for a large canvas
    page.get_by_role("button", name="PNG", exact=True).click()
    page.wait_for_selector("#status.wrong >> text=The browser cannot draw this picture as PNG.", timeout=5000)


def test_a_chart_names_what_its_squares_show(opened, models):
    page = opened(view="sentences", models=("palm",), text=SENTENCE)
    page.locator("summary", has_text="Span scores").click()
    page.get_by_role("group", name="Chart of spans").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    share = math.exp(models["palm"].parse(SENTENCE).span_scores[0, 1])
    shown = re.fullmatch(r"the old: share of the attention (.+)", page.get_by_role("status").text_content())
    assert float(shown[1]) == pytest.approx(share, rel=0.06)


@pytest.fixture
def impossible_dogs(monkeypatch):
    """All models give the word "dog" the probability 0, as an n-gram model may."""
    surprisal = LanguageModel.surprisal

    def changed(model, *texts, **options):
        scored = surprisal(model, *texts, **options)
        for sentence in scored:
            sentence[:] = [
                row._replace(surprisal=math.inf, surprisal_word=math.inf) if row.word == "dog" else row
                for row in sentence
            ]
        return scored

    monkeypatch.setattr(LanguageModel, "surprisal", changed)


def test_an_infinite_surprisal_is_shown_and_saved_as_such(opened, impossible_dogs):
    page = opened(view="sentences", models=("lstm",), text=SENTENCE)
    assert "inf bits" in page.locator(".facts").text_content()
    page.get_by_text("As tables").click()
    cells = page.get_by_role("table", name="Words").locator("tbody td.number").all_text_contents()
    assert cells[-2:][0] == "inf", "dog"
    rows = list(csv.DictReader(saved(page, "CSV")[1].splitlines()))
    assert [row["word"] for row in rows if row["surprisal"] == row["surprisal_word"] == "inf"] == ["dog"]


def test_the_difference_to_a_sentence_with_probability_0_is_infinite(opened, impossible_dogs):
    pair = {"first": "the cat sees a cat", "second": "the cat sees a dog"}
    page = opened(view="pair", models=("lstm",), **pair)
    assert "Likelier: the cat sees a cat by inf bits, most at “cat” / “dog”." in page.locator(".facts").text_content()
    page = opened(view="pair", models=("lstm",), pairs="\n".join(pair.values()))
    cells = page.get_by_role("table", name="Pairs").locator("tbody td").all_text_contents()
    assert cells[3:5] == ["first", "inf"]
    (row,) = csv.DictReader(saved(page, "CSV")[1].splitlines())
    assert (row["second_bits"], row["difference"]) == ("inf", "inf")
    assert float(row["first_bits"]) > 0


def test_missing_and_infinite_numbers_differ_from_0_which_has_no_sign(opened):
    values = "[0.126, -0.001, -0.126, 0, null, undefined, NaN, Infinity, -Infinity]"
    script = (
        f'async () => {{ const {{ number }} = await import("/elements.js"); return {values}.map((x) => number(x)); }}'
    )
    assert opened().evaluate(script) == ["0.13", "0.00", "-0.13", "0.00", "", "", "", "inf", "-inf"]


def test_file_names_have_whole_letters_and_their_marks(opened):
    texts = ["a" + "\U00010414" * 50, "नमस्ते दुनिया", "Über uns!"]
    script = (
        'async (texts) => { const { fileName } = await import("/files.js"); return texts.map((one) => fileName(one)); }'
    )
    found = opened().evaluate(script, texts)
    assert found == ["a" + "\U0001043c" * 39, "नमस्ते-दुनिया", "über-uns"]


def test_columns_with_the_name_of_a_result_are_kept_in_csv_files(opened):
    table = f"word\tstimulus\ttext\tinput_word\nfirst\t{SENTENCE}\tA\tB\nsecond\tthe cat\tC\tD"
    page = opened(view="sentences", models=("lstm",), text=table)
    words = list(csv.DictReader(saved(page, "CSV of words")[1].splitlines()))
    assert [words[0][name] for name in ("word", "input_word", "input_input_word", "text")] == ["the", "B", "first", "A"]
    sentences = list(csv.DictReader(saved(page, "CSV of sentences")[1].splitlines()))
    assert [sentences[1][name] for name in ("text", "input_text", "word")] == ["the cat", "C", "second"]
    pairs = f"pair\tgood\tbad\tlikelier\n7\t{SENTENCE}\tthe cat\tno\n9\ta dog sees\ta dog\tyes"
    page = opened(view="pair", models=("lstm",), pairs=pairs)
    rows = list(csv.DictReader(saved(page, "CSV")[1].splitlines()))
    assert [(row["pair"], row["input_pair"], row["input_likelier"]) for row in rows] == [
        ("1", "7", "no"),
        ("2", "9", "yes"),
    ]
    assert {row["likelier"] for row in rows} <= {"first", "second"}


def test_one_row_with_two_sentences_is_a_pair(opened):
    page = opened(view="pair", models=("lstm",), pairs="the cat sees a dog\tthe cat see a dog\n")
    cells = page.get_by_role("table", name="Pairs").locator("tbody td").all_text_contents()
    assert cells[1:3] == ["the cat sees a dog", "the cat see a dog"]


def test_a_file_with_the_line_ends_of_old_macs_is_read_whole(opened, tmp_path):
    file = tmp_path / "old.csv"
    file.write_bytes(b"item,sentence\r1,the cat\r2,a dog sees\r")
    page = opened()
    page.locator("#file").set_input_files(file)
    page.locator("article h2", has_text="a dog sees").wait_for()
    assert page.locator("article h2").all_text_contents() == ["the cat", "a dog sees"]


def test_the_likely_column_of_a_new_table_is_selected_unless_another_one_was_chosen(opened):
    page = opened(view="sentences", models=("lstm",), text="1\tthe cat sees\n2\ta dog sees")
    assert page.locator("article h2").all_text_contents() == ["the cat sees", "a dog sees"]
    page.get_by_label("Text").fill("the old cat\t1\nthe old dog\t2")
    assert page.locator("#column").input_value() == "column 1"
    page.locator("#column").select_option("column 2")
    page.get_by_label("Text").fill("the old cat\t3\nthe old dog\t4")
    assert page.locator("#column").input_value() == "column 2"
    again = opened(f"/#{page.url.partition('#')[2]}")
    assert again.locator("#column").input_value() == "column 2"
