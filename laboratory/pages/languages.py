"""The table of SN-PCFG in several languages."""

from __future__ import annotations

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import percent
from laboratory.results.store import StoredRun, select


def languages() -> str:
    """F1 of every stored evaluation of simple-pcfg-languages: of sentences of all lengths, then of short ones."""
    rows = [
        _language_row(run, length)
        for max_words, length in ((None, "all"), (10, "up to 10 words"))
        for run in sorted(select("simple-pcfg-languages", what="trees", max_words=max_words), key=_language_run)
    ]
    heads = ["run", "length", "preprocessing", "sentences", "decoder", "protocol", "models", "F1", "with marks",
             "right", "left", "balanced", "random"]  # fmt: skip
    return table(heads, rows)


def _language_run(run: StoredRun) -> str:
    return ", ".join(filter(None, [run.run.replace("-", " "), str(run.factors["language"])]))


def _language_row(run: StoredRun, length: str) -> list[str]:
    report, baselines = run.report, run.report["baselines"]
    marked = report["f1_by_decoder"].get("mbr with marks (both)")
    return [
        _language_run(run), length, f"`{report['preprocessing']}`", f"{report['sentences']:,}",
        f"`{report['decoder']}`", f"`{report['protocol']}`", str(report.get("averaged_models", 1)),
        percent(report["f1"]), percent(marked) if marked else "",
        *(percent(baselines[name]) for name in ("right", "left", "balanced")), percent(baselines["random"]["mean"]),
    ]  # fmt: skip
