"""README's two tables: trees, and perplexity in rows that compare the same text, read in the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docs.generation.markdown import table
from docs.generation.papers import baselines, of_baseline, percent
from docs.generation.stored_results import RESULTS, Figure, perplexity_of_test, run, trees

_PTB, _WSJ = "PTB text", "WSJ sample"
_TREES = [  # model, recipe, decoders, run
    ("[SN-PCFG](MODELS/pcfg.md), trees of all seeds averaged", "simple-pcfg-ptb", ("mbr",), "average"),
    ("[SN-PCFG](MODELS/pcfg.md)", "simple-pcfg-ptb", ("mbr",), ""),
    (
        "[LSTM](MODELS/lstm.md), [trees that SN-PCFGs induced](docs/explanation/trees-as-signal.md) in training",
        "trees-as-signal",
        ("greedy-sum",),
        "stream",
    ),
    ("[ON-LSTM](MODELS/on-lstm.md), layer 2", "on-lstm-ptb-words-small", ("biased", "unbiased"), ""),
    ("[PRPN](MODELS/prpn.md)", "prpn-ptb-parsing", ("biased", "unbiased"), ""),
]


def readme_trees() -> str:
    """F1 on the WSJ sample, all lengths, protocol `wsj-test`: models, then baselines and the upper bound."""
    en = trees("shipped", _WSJ, "mbr", "en")
    rows = [["`en`, bundled", "textbooks, novels, speeches, MASC", "`mbr`", "", percent(en.f1)]]
    for model, recipe, decoders, name in _TREES:
        by_decoder = [trees(recipe, _WSJ, decoder, name) for decoder in decoders]
        f1 = " / ".join(percent(one.f1) for one in by_decoder)
        shown = " / ".join(f"`{decoder}`" for decoder in decoders)
        rows.append([model, _PTB, shown, str(by_decoder[0].count), f1])
    random, bound = of_baseline(baselines("wsj-all"), "random"), run("simple-pcfg-ptb", "wsj").first["baselines"]
    baseline = " / ".join(map(percent, (en.right_branching, random.mean, bound["binary_bound"])))
    rows.append(["right branching / random trees / best possible binary trees", "", "", "", baseline])
    return table(["model", "trained on", "decoder", "seeds", "F1"], rows)


def readme_perplexity() -> str:
    """Test perplexity beside a baseline that read the same text in the same way."""
    palm, palm_seeds = perplexity_of_test("palm-s-gum-small")
    awd_lstm, _ = perplexity_of_test("awd-lstm-gum-small")
    rows = [
        ["LSTM, trees of SN-PCFGs, 10 epochs", "PTB", "1", _signal("stream"), f"LSTM without trees {_signal('plain')}"],
        ["ON-LSTM, 18 epochs", "PTB", "2", _shown(_converged("on-lstm")), f"LSTM {_shown(_converged('lstm'))}"],
        ["PRPN, 12 epochs", "PTB", "1", _shown(_converged("prpn")), f"LSTM {_shown(_converged('prpn-lstm'))}"],
        ["PaLM-S, trained with trees", "GUM", str(palm_seeds), _shown(palm), f"LSTM {_shown(awd_lstm)}"],
        ["`en`", "English Web Treebank", "1", _bundled("en"), f"5-grams of the same text {_bundled('kn5')}"],
    ]
    return table(["model", "test text", "seeds", "perplexity", "baseline"], rows)


def _converged(name: str) -> Figure:
    """Perplexity after the recipes convergence/..."""
    reports = [_read(path) for path in sorted((RESULTS / "converged").glob(f"{name}-seed-?-training.json"))]
    return Figure.of(report["test"]["perplexity"] for report in reports)


def _signal(name: str) -> str:
    return _shown(run("trees-as-signal", "training", name).perplexity("test"))


def _bundled(name: str) -> str:
    return f"{run('shipped', 'ewt', name).first['perplexity']:.1f}"


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _shown(figure: Figure) -> str:
    return f"{figure.mean:.1f}" + (f" ± {figure.std:.1f}" if figure.std is not None else "")
