"""README's two tables: trees, and perplexity in rows that compare the same text, read in the same way."""

from __future__ import annotations

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    EN_SEEDS,
    baselines,
    bundled_perplexity,
    of_baseline,
    parsed,
    percent,
    perplexity,
    perplexity_of_test,
    trained,
    trees,
)

_PTB, _WSJ = "PTB text", "WSJ sample"
_TREES = [  # model, recipe, decoders, run
    ("six SN-PCFGs averaged by [`focus`](docs/commands/focus.md)", "simple-pcfg-ptb-128", ("mbr",), "six-average"),
    ("[span parser](MODELS/span-parser.md), trained on their trees", "simple-pcfg-ptb-128", ("mbr",), "six-student"),
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
    rows = [["`en`, bundled", "textbooks, novels, speeches, MASC", "`mbr`", EN_SEEDS, percent(en.f1)]]
    for model, recipe, decoders, name in _TREES:
        by_decoder = [trees(recipe, _WSJ, decoder, name) for decoder in decoders]
        f1 = " / ".join(percent(one.f1) for one in by_decoder)
        shown = " / ".join(f"`{decoder}`" for decoder in decoders)
        rows.append([model, _PTB, shown, by_decoder[0].seeds, f1])
    random, bound = of_baseline(baselines("wsj"), "random"), parsed("simple-pcfg-ptb", "wsj").first["baselines"]
    baseline = " / ".join(map(percent, (en.right_branching, random.mean, bound["binary_bound"])))
    rows.append(["right branching / random trees / best possible binary trees", "", "", "", baseline])
    return table(["model", "trained on", "decoder", "seeds", "F1"], rows)


def readme_perplexity() -> str:
    """Test perplexity beside a baseline that read the same text in the same way."""
    palm, palm_seeds = perplexity_of_test("palm-s-gum-small")
    awd_lstm, _ = perplexity_of_test("awd-lstm-gum-small")
    without_trees = f"this LSTM without trees {_signal('plain')}"
    rows = [
        ["LSTM, trees of SN-PCFGs, 10 epochs", "PTB", "1", _signal("stream"), without_trees],
        ["ON-LSTM, 18 epochs", "PTB", "2", _converged("on-lstm"), f"LSTM of ON-LSTM's sizes {_converged('lstm')}"],
        ["PRPN, 12 epochs", "PTB", "3", _converged("prpn"), f"LSTM of PRPN's sizes {_converged('prpn-lstm')}"],
        ["PaLM-S, trained with trees", "GUM", str(palm_seeds), perplexity(palm), f"AWD-LSTM {perplexity(awd_lstm)}"],
        [
            "`en`",
            "English Web Treebank",
            "1",
            f"{bundled_perplexity('en'):.1f}",
            f"5-grams of the same text {bundled_perplexity('kn5'):.1f}",
        ],
    ]
    return table(["model", "test text", "seeds", "perplexity", "baseline"], rows)


def _converged(name: str) -> str:
    """Perplexity after the recipes convergence/..."""
    return perplexity(trained("converged", name).perplexity("test"))


def _signal(name: str) -> str:
    return perplexity(trained("trees-as-signal", name).perplexity("test"))
