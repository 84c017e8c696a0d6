"""HTML pages and tables."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from syntaxlm.drawing import Section, facts_html, html_page, tree_picture
from syntaxlm.storage import StoredModel
from syntaxlm.trees import parse_brackets

VOID = {"meta"}


class Balanced(HTMLParser):
    """Checks that every element is closed, and keeps the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [f"{tag} {name}" for name, _ in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_needs_nothing_else_and_says_what_it_was_given():
    picture = tree_picture(parse_brackets("(S (NP the <cat>) sleeps)")[0])
    section = Section("A <heading>", (picture, picture), "Some & text", {"as brackets": "(S <x>)"})
    page = Balanced(html_page("A <title>", [section, Section("")]))
    assert page.links == []
    for text in ("A <title>", "A <heading>", "Some & text", "as brackets", "(S <x>)", "<cat>"):
        assert text in page.text


def test_a_page_follows_the_theme():
    auto, light, dark = (html_page("t", [], theme) for theme in ("auto", "light", "dark"))
    assert "prefers-color-scheme" in auto
    assert "color-scheme:light dark" in auto
    assert "prefers-color-scheme" not in light + dark
    assert light != dark


def test_facts_are_a_table():
    table = Balanced(facts_html("Model <x>", {"size": "1 & 2"}))
    assert table.text == "Model <x>size1 & 2"


def test_a_stored_model_tells_of_itself_in_a_notebook(prpn: StoredModel, lstm: StoredModel):
    weights = sum(weight.numel() for weight in prpn.model.parameters())
    page = prpn._repr_html_()
    for fact in ("Model prpn", f"{weights:,}", f"{len(prpn.vocabulary):,} tokens", "hidden_size 16", "units words"):
        assert fact in Balanced(page).text
    assert re.search(r"layers of distances</th><td[^>]*>0<", lstm._repr_html_())
