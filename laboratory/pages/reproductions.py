"""docs/papers.md and docs/papers: the experiments of the papers with verdicts, claims, and values beside ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan

from laboratory.pages.claims import Decision, Result, Verdict, decisions, numbers_of_claim, verdict_on
from laboratory.pages.experiments import Entry, Measured, measured
from laboratory.pages.markdown import joined, table
from laboratory.pages.papers import published
from laboratory.pages.stored_results import short

FOUR_PAPERS = ("prpn", "on-lstm", "palm", "tree-rnn")
# The pages in docs/papers, by their keys in published.yaml.
PAGES = {
    "prpn": "prpn", "on-lstm": "on-lstm", "palm": "palm", "tree-rnn": "tree-rnn", "structformer": "structformer",
    "tree-reg": "tree-reg", "compared": "compared-systems", "pcfg": "neural-pcfgs",
}  # fmt: skip
_COUNTED = [verdict for verdict in Verdict if verdict is not Verdict.PICTURE]
_TOTAL = "**these four papers**"
_GROUPS = {
    "PRPN": ("prpn",), "ON-LSTM": ("on-lstm",), "PaLM": ("palm",), "TreeRNN and TreeLSTM": ("tree-rnn",),
    _TOTAL: FOUR_PAPERS,
    "other models: StructFormer, TreeReg, neural PCFGs": ("structformer", "tree-reg", "pcfg"),
    "baselines, and systems that the papers compare with": ("compared",),
}  # fmt: skip


def rows_of(papers: Iterable[str]) -> list[Entry]:
    """Return the experiments of papers.

    Args:
        papers: keys of published.yaml.
    """
    experiments = published()["experiments"]
    return [row for paper in papers for row in experiments[paper]["rows"]]


def overview() -> str:
    """The first table: the experiments of the four papers, with the values of their first claim."""
    heads = ["experiment", "published", "here", "seeds", "claims that hold", "verdict"]
    return table(heads, (_overview_row(row, PAGES[paper]) for paper in FOUR_PAPERS for row in rows_of([paper])))


def _overview_row(row: Entry, page: str) -> list[str]:
    decided = decisions(row)
    held = f"{_held(decided)} of {len(decided)}" if decided else ""
    seeds = str(decided[0].seeds or "") if decided else ""
    section_link = f"[{row['item']}](papers/{page}.md#{_anchor(row['item'])})"
    return [section_link, row["finding"], _first_values(row), seeds, held, _label(row)]


def _first_values(row: Entry) -> str:
    """Return our values of the first claim of a row, or its picture."""
    if "claims" in row:
        return "; ".join(numbers_of_claim(row, row["claims"][0]))
    pictures = [system["here"] for system in row.get("systems", ()) if "picture" in system.get("here", {})]
    return measured(pictures[0]).value if pictures else ""


def _anchor(heading: str) -> str:
    """The anchor of a heading on its page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _held(decided: Sequence[Decision]) -> int:
    """The number of claims that hold."""
    return [decision.result for decision in decided].count(Result.HOLDS)


def _label(row: Entry) -> str:
    """Return the verdict on an experiment, with a note if more seeds could change it."""
    return f"{verdict_on(row)}{', one seed' * _undecided(decisions(row))}"


def _undecided(decided: Sequence[Decision]) -> bool:
    """Return whether no claim holds, and each of them is about a model with one seed."""
    return bool(decided) and all(decision.seeds == 1 for decision in decided)


def counts() -> str:
    """The number of experiments by paper and verdict; those without a trained model and pictures are counted apart."""
    groups = {title: rows_of(papers) for title, papers in _GROUPS.items()}
    quantities = [row for row in rows_of(FOUR_PAPERS) if "quantity" in row]
    lines = []
    for title, rows in groups.items():
        lines.append(_counted(title, rows))
        if title == _TOTAL:
            lines.append(_counted("of these: path lengths, parameters and speed, without a trained model", quantities))
    return table(["papers", *_COUNTED, "experiments", "pictures"], lines)


def _counted(title: str, rows: Iterable[Entry]) -> list[str]:
    """Return a line of the table of counts."""
    verdicts = [verdict_on(row) for row in rows]
    pictures = verdicts.count(Verdict.PICTURE)
    numbers = [*map(verdicts.count, _COUNTED), len(verdicts) - pictures, pictures]
    return [title, *map(str, numbers)]


def counted_sentence() -> str:
    """The counts of the four papers as a sentence, for README."""
    tested = [row for row in rows_of(FOUR_PAPERS) if verdict_on(row) is not Verdict.PICTURE]
    quantities = Counter(verdict_on(row) for row in tested if "quantity" in row)
    trained = Counter(verdict_on(row) for row in tested if "quantity" not in row)
    none = "" if trained[Verdict.REPRODUCED] else "none is reproduced, "
    return (
        f"- **Reproduction.** The papers on PRPN, ON-LSTM, PaLM and TreeRNN report {trained.total()} experiments with "
        f"trained models. By [a fixed rule](docs/papers.md#how-a-verdict-is-reached), {none}{_listed(trained)}. Of "
        f"{quantities.total()} results on path lengths, parameters and speed, which need no trained model, "
        f"{_listed(quantities)}. *Found at small size* means that all claims hold for our smaller models "
        "([list of experiments](docs/papers.md)).\n"
    )


def experiments(paper: str) -> str:
    """The counts of verdicts on a paper, and a section for every table, figure or experiment."""
    return "\n".join([_summary(paper), *(section(row) for row in rows_of([paper]))])


def _summary(paper: str) -> str:
    number = Counter(verdict_on(row) for row in rows_of([paper]))
    pictures = number.pop(Verdict.PICTURE, 0)
    about_pictures = f" The page also shows {pictures} picture{'s' * (pictures > 1)}." if pictures else ""
    total, not_run = number.total(), number.pop(Verdict.NOT_RUN, 0)
    verdicts = joined([f"*{verdict}* for {number[verdict]}" for verdict in Verdict if number[verdict]])
    start = f"Of the {total} experiments with a testable result, "
    start += f"{not_run} {_verb(Verdict.NOT_RUN, not_run)} not run. The" if not_run else "the"
    return f"{start} verdict is {verdicts}.{about_pictures}\n"


def _listed(number: Mapping[Verdict, int]) -> str:
    verdicts = [verdict for verdict in Verdict if number[verdict]]
    return joined([f"{number[verdict]} {_verb(verdict, number[verdict])} {verdict}" for verdict in verdicts])


def _verb(verdict: Verdict, number: int) -> str:
    forms = ("was", "were") if verdict is Verdict.NOT_RUN else ("is", "are")
    return forms[number > 1]


def section(row: Entry) -> str:
    """The section of an experiment: verdict and reasons, claims, and values."""
    notes = [_sentence(row["about"])] if "about" in row else []
    if "recipe" in row:
        notes.append(f"The recipe `{row['recipe']}` has the published size.")
    elif "experiment" in row:
        notes.append(f"`python -m laboratory run {row['experiment']}` trains at the published size.")
    decided = decisions(row)
    parts = [f"## {row['item']}", f"**{_label(row).capitalize()}.** {_sentence(row['why'])}", " ".join(notes)]
    parts.append(_claims(decided) if decided else "")
    if systems := row.get("systems"):
        parts.append(_values(row, systems))
    parts.append(also_published(row))
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def also_published(row: Entry) -> str:
    """The published values of a table that have no value of ours, with the reason, as one paragraph; "" for none."""
    if "quoted" not in row:
        return ""
    values = "; ".join(f"{name}: {value}" for name, value in row["quoted"]["values"].items())
    return f"Also published: {values}. {_sentence(row['quoted']['why'])}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" + "." * (text[-1] not in ".?")


def _claims(decided: Sequence[Decision]) -> str:
    """A table of the claims: our difference or value, its interval, the published one, and whether the claim holds."""
    lines = []
    for decision in decided:
        ours = decision.ours
        interval = "one seed" if isnan(ours.low) else f"{_number(ours.low)} to {_number(ours.high)}"
        if decision.seeds is None:
            interval = "no seeds"
        lines.append([decision.claim, _number(ours.value), interval, decision.published, f"**{decision.result}**"])
    heads = ["claim", "here", "95% interval over seeds", "published", "result"]
    shown = [place for place, column in enumerate(zip(*lines, strict=True)) if any(column)]
    return table([heads[place] for place in shown], ([line[place] for place in shown] for line in lines))


def _number(value: float) -> str:
    places = next((places for places, limit in ((3, 0.1), (2, 10)) if abs(value) < limit), 1)
    return f"{value:.{places}f}"


def _values(row: Entry, systems: Sequence[Entry]) -> str:
    """Published values beside ours.

    A column without values is left out. A value that all lines share stands above the table instead of in a column.
    """
    both = [f"{name} (published / here)" for name in ("seeds", "parameters", "text read")]
    heads = ["system", f"published: {row['measure']}", "here", "measured by", *both, "run"]
    ours = [measured(system["here"]) if "here" in system else Measured("") for system in systems]
    if row.get("deterministic"):
        ours = [replace(value, seeds=None) for value in ours]
    lines = [_cells(row.get("scale", {}) | system, value) for system, value in zip(systems, ours, strict=True)]
    shown, shared = [], []
    for place, column in enumerate(zip(*lines, strict=True)):
        if place > 2 and len(lines) > 1 and len(set(column)) == 1 and column[0]:
            shared.append(f"{heads[place].capitalize()}: {column[0]}.")
        elif any(column):
            shown.append(place)
    text = table([heads[place] for place in shown], ([line[place] for place in shown] for line in lines))
    return "\n\n".join([*([" ".join(shared)] if shared else []), text])


def _cells(system: Entry, ours: Measured) -> list[str]:
    """The cells of a system. The seeds, parameters and text of a published model are shown only with its value."""
    published_model = system if "published" in system else {}
    return [
        system["system"], str(system.get("published", "")), ours.value, ours.how,
        _beside(published_model.get("seeds"), ours.seeds),
        _beside(published_model.get("parameters"), ours.parameters and short(ours.parameters)),
        _beside(published_model.get("read"), ours.text), _run(ours),
    ]  # fmt: skip


def _beside(published_fact: object, our_fact: object) -> str:
    """What is known of the published model and of ours."""
    return f"{published_fact or '-'} / {our_fact or '-'}" if published_fact or our_fact else ""


def _run(value: Measured) -> str:
    """Return the experiment of a value, as a link to its stored lines, and its run there."""
    if value.source is None:
        return ""
    experiment, run = value.source
    return f"[{experiment}](../laboratory/results/{experiment}.jsonl)" + f": {run}" * bool(run)
