"""Pictures and facts as HTML: whole pages, and tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from syntaxlm.drawing.svg import Picture, Theme, escaped, number

SMALLEST = 0.65  # on a narrow page, wide pictures shrink to this fraction of their size, then scroll

_STYLE = """
:root{{color-scheme:{scheme}}}
body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;{light}}}
body{{overflow-wrap:anywhere}}
h1{{font-size:1.3rem}}
h2{{font-size:1.05rem;margin-top:2rem}}
figure{{display:inline-block;vertical-align:top;width:var(--width);max-width:100%;margin:.5rem 0;overflow-x:auto}}
figure svg{{display:block;width:100%;min-width:calc({smallest} * var(--width));height:auto}}
pre{{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}}
table{{border-collapse:collapse}}
th,td{{text-align:start;padding:.15rem 1rem .15rem 0;font-weight:normal;vertical-align:top}}
th{{opacity:.7}}
"""
_LIGHT, _DARK = "background:#fff;color:#1d2125", "background:#16191d;color:#e8eaed"


@dataclass(frozen=True)
class Section:
    """text: a paragraph below the heading. preformatted: texts by name, below the pictures, collapsed until opened."""

    heading: str
    pictures: tuple[Picture, ...] = ()
    text: str = ""
    preformatted: Mapping[str, str] | None = None


def html_page(title: str, sections: Sequence[Section], theme: Theme = "auto") -> str:
    """Return a self-contained page without scripts. Wide pictures shrink with the page, then scroll separately."""
    scheme = "light dark" if theme == "auto" else theme
    style = _STYLE.format(scheme=scheme, light=_DARK if theme == "dark" else _LIGHT, smallest=SMALLEST)
    if theme == "auto":
        style += f"@media (prefers-color-scheme:dark){{body{{{_DARK}}}}}\n"
    return (
        '<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<h1 dir="auto">{escaped(title)}</h1>\n'
        + "".join(_section(section, theme) for section in sections)
        + "</body>\n</html>\n"
    )


def _section(section: Section, theme: Theme) -> str:
    parts = [f"<h2>{escaped(section.heading)}</h2>\n"] if section.heading else []
    if section.text:
        parts.append(f'<p dir="auto">{escaped(section.text)}</p>\n')
    for picture in section.pictures:
        parts.append(f'<figure style="--width:{number(picture.width)}px">{picture.svg(theme)}</figure>\n')
    for name, content in (section.preformatted or {}).items():
        parts.append(f'<details><summary>{escaped(name)}</summary><pre dir="auto">{escaped(content)}</pre></details>\n')
    return f"<section>\n{''.join(parts)}</section>\n"


def table_html(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """Return a table for a notebook, in the notebook's own colours."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:left">{escaped(cell)}</{tag}>' for cell in cells) + "</tr>"

    return "<table>" + row(heads, "th") + "".join(row(cells, "td") for cells in rows) + "</table>"


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return named facts as a table for a notebook, in the notebook's own colours."""
    rows = "".join(
        f'<tr><th style="text-align:left;font-weight:normal;opacity:.7">{escaped(name)}</th>'
        f'<td style="text-align:left">{escaped(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<div><strong>{escaped(title)}</strong><table>{rows}</table></div>"
