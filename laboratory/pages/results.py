"""The tables of README.md, docs/results.md, docs/papers and other pages, from the stored results.

`python -m laboratory.pages.results` rewrites docs/leaderboard.csv and what stands between `<!-- results: NAME -->`
and `<!-- end of results -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from laboratory.pages import (
    belief_updates,
    bundled,
    evaluations,
    leaderboard,
    papers,
    reproductions,
    seeds,
    signal,
    speed,
)
from laboratory.pages.specified import specifications, specified_table

ROOT = Path(__file__).parents[2]
_NAMES = (
    "results.md", "papers.md", "papers/published-f1.md",
    *(f"papers/{name}.md" for name in reproductions.PAGES.values()),
    "figures.md", "guides/bundled-models.md",
    "guides/ordinary-sentences.md", "models/ccm.md", "models/tree-rnn.md",
    "models/dmv.md", "models/pcfg.md", "models/prpn.md", "reference/speed.md",
    "guides/very-large-jobs.md", "explanation/trees-as-signal.md",
    "explanation/belief-updates.md",
)  # fmt: skip
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in _NAMES)]
_BLOCK = re.compile(r"(<!-- results: (?P<name>\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
_MODELS = {"README.md": "docs/models", "bundled-models.md": "../models"}  # the folder of the models' pages
_LINK = re.compile(r"\]\((?!https?://|#)")
# Functions that give the block of their own name.
_TABLES: tuple[Callable[[], str], ...] = (
    evaluations.compared_parsers, evaluations.languages, seeds.agreeing_seeds, seeds.decoder_gain, seeds.agreement,
    seeds.loss_and_f1,
    evaluations.suites, bundled.ordinary_sentences, bundled.unknown_words, bundled.shipped_choice,
    bundled.shipped_pairs, bundled.shipped_pairs_by_paradigm, speed.command_speed, speed.job_speed, speed.server_load,
    speed.growth, speed.growth_slopes,
    leaderboard.leaderboard, papers.significance,
)  # fmt: skip
BLOCKS: dict[str, Callable[[], str]] = {
    **{name: partial(specified_table, name) for name in specifications() if not name.startswith("measured-")},
    **{table.__name__.replace("_", "-"): table for table in _TABLES},
    "speed-aims": speed.aims,
    "released-speed": speed.released,
    "experiments": reproductions.overview,
    "counts": reproductions.counts,
    "headlines": lambda: bundled.headlines() + reproductions.counted_sentence(),
    "signal-tenth": partial(signal.by_trees, "tenth"),
    "signal-third": partial(signal.by_trees, "third"),
    "signal-gum-trained": partial(signal.by_trees, "gum"),
    "signal-while-reading-beams": signal.beams,
    "signal-while-reading-seeds": signal.seeds_of_beams,
    "signal-while-reading-items": signal.items_of_seeds,
    "signal-while-reading": partial(signal.while_reading, "whole"),
    "signal-while-reading-tenth": partial(signal.while_reading, "tenth"),
    "signal-outside": signal.outside,
    "signal-pairs": signal.minimal_pairs,
    "belief-updates-garden-paths": belief_updates.garden_paths,
    "belief-updates-first-analyses": belief_updates.first_analyses,
    "belief-updates-reading-times": belief_updates.reading_times,
    "belief-updates-nulls": belief_updates.garden_path_nulls,
    **{f"pairs-{name}": partial(papers.marvin_linzen, name) for name in papers.published()["constructions"]},
    **{f"experiments-{name}": partial(reproductions.experiments, name) for name in papers.published()["experiments"]},
    **{f"comparison-{name}": partial(papers.comparison, name) for name in papers.published()["comparisons"]},
}


def with_results(text: str, models: str) -> str:
    """A page with all its blocks generated anew. models: the folder of the models' pages, seen from the page."""

    def block(match: re.Match[str]) -> str:
        return f"{match.group(1)}\n{BLOCKS[match['name']]().replace('MODELS', models)}\n{match.group(3)}"

    return _BLOCK.sub(block, text)


def generated(page: Path) -> str:
    """The text of a page with all its blocks generated anew."""
    text = with_results(page.read_text(encoding="utf-8"), _MODELS.get(page.name, "models"))
    return _BLOCK.sub(_linked_from_papers, text) if page.parent.name == "papers" else text


def _linked_from_papers(block: re.Match[str]) -> str:
    """Return a block whose links, which are written as seen from docs/, lead to the same pages from docs/papers/."""
    return _LINK.sub("](../", block.group()).replace("](../papers/", "](")


def without_results(text: str) -> str:
    """A page without its generated blocks."""
    return _BLOCK.sub("", text)


def main() -> None:
    for page in PAGES:
        page.write_text(generated(page), encoding="utf-8")
    leaderboard.CSV.write_text(leaderboard.csv_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
