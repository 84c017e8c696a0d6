"""The overview of docs/results.md: model types, what F1 owes to the decoder, and README's perplexities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from laboratory.pages.markdown import table
from laboratory.pages.stored_results import (
    EN_SEEDS,
    Trees,
    all_parsed,
    baselines,
    bundled_perplexity,
    of_baseline,
    parsed,
    percent,
    perplexity,
    perplexity_of_test,
    trained,
    trees,
    untrained,
)

_WSJ, _GUM = "WSJ sample", "GUM test"


@dataclass(frozen=True)
class Row:
    """A recipe in the overview.

    text: test text, as shown.  lstm: experiment and run of an LSTM on the same text.  run: name of the run.
    """

    model: str
    recipe: str
    text: str
    lstm: tuple[str, str]
    treebank: str = ""
    decoders: tuple[str, ...] = ()
    run: str = ""
    mark: str = ""  # of a footnote to the LSTM's perplexity


_PTB_LSTM = "awd-lstm-ptb-words-small", ""
_GUM_LSTM = "awd-lstm-gum-small", ""
_TREES_LSTM = "gum-trees", "lstm"
OVERVIEW = [
    Row("[SN-PCFG](MODELS/pcfg.md)", "simple-pcfg-ptb", "PTB, sentences", _PTB_LSTM, _WSJ, ("mbr",), mark=" ¹"),
    Row("[PRPN](MODELS/prpn.md)", "prpn-ptb-parsing", "PTB, sentences", _PTB_LSTM, _WSJ, ("biased", "unbiased"),
        mark=" ¹"),
    Row("[ON-LSTM](MODELS/on-lstm.md), layer 2", "on-lstm-ptb-words-small", "PTB, stream", _PTB_LSTM, _WSJ,
        ("biased", "unbiased")),
    Row("[PaLM-S](MODELS/palm.md), trained with trees", "palm-s-gum-small", "GUM, stream", _GUM_LSTM, _GUM,
        ("greedy-sum", "greedy-right")),
    Row("[TreeRNN](MODELS/tree-rnn.md)", "gum-trees", "GUM, words given their trees ²", _TREES_LSTM, run="tree-rnn"),
    Row("[AWD-LSTM](MODELS/lstm.md)", "awd-lstm-ptb-words-small", "PTB, stream", _PTB_LSTM),
    Row("[Kneser-Ney 5-grams](MODELS/ngram.md)", "kn5", "PTB, stream", _PTB_LSTM, run="ptb-words-stream"),
]  # fmt: skip


def overview() -> str:
    """A row for every model type and decoder. LSTM baseline: its perplexity on the same test text."""
    heads = ["model", "decoder", "treebank (sentences), protocol", "seeds", "F1", "random, same decoder",
             "right branching", "test perplexity", "LSTM baseline"]  # fmt: skip
    return table(heads, [_shipped_line(), *(line for row in OVERVIEW for line in _lines(row))])


def _shipped_line() -> list[str]:
    one = trees("shipped", _WSJ, "mbr", "en")
    random = percent(parsed("shipped", "wsj", "en").first["baselines"]["random"]["mean"])
    place = f"{_named(_WSJ)} ({one.sentences:,}), `{one.protocol}`"
    figure = f"{bundled_perplexity('en'):.1f} (EWT with marks, stream)"
    cells = place, EN_SEEDS, percent(one.f1), random, percent(one.right_branching), figure
    return ["`en`, bundled", "`mbr`", *cells, "its own"]


def _lines(row: Row) -> Iterator[list[str]]:
    """One line per decoder, with the perplexities in the first, and one for averaged trees where they are stored."""
    _, seeds = perplexity_of_test(row.recipe, row.run)
    perplexities = [f"{_perplexity(row.recipe, row.run)} ({row.text})", _perplexity(*row.lstm) + row.mark]
    if not row.decoders:
        yield [row.model, "gives no trees", "", str(seeds or ""), "", "", "", *perplexities]
    for number, decoder in enumerate(row.decoders):
        cells = _cells(row, trees(row.recipe, row.treebank, decoder))
        yield [row.model, *cells, *perplexities] if number == 0 else ["", *cells, "", ""]
    for one in all_parsed(row.recipe, "wsj"):
        if one.name == "average":
            average = trees(row.recipe, row.treebank, one.first["decoder"], one.name)
            yield ["the same, seeds averaged", *_cells(row, average), "", ""]


def _perplexity(recipe: str, name: str = "") -> str:
    return perplexity(perplexity_of_test(recipe, name)[0])


def _cells(row: Row, one: Trees) -> list[str]:
    place = f"{_named(row.treebank)} ({one.sentences:,}), `{one.protocol}`"
    random = " / ".join(_without_training(row, one.decoder))
    return [f"`{one.decoder}`", place, one.seeds, percent(one.f1), random, percent(one.right_branching)]


def _named(treebank: str) -> str:
    """A treebank as shown: GUM's constituency trees are automatic."""
    return f"{treebank}, silver trees" if treebank == _GUM else treebank


_EVALUATED_ON = {_WSJ: "wsj", _GUM: "gum"}


def _without_training(row: Row, decoder: str) -> Iterator[str]:
    """F1 of random distances (of random trees for other structures), and of untrained models, by the same decoder."""
    name = "random_biased" if decoder == "biased" else "random"
    yield percent(of_baseline(baselines(_EVALUATED_ON[row.treebank]), name).mean)
    yield percent(untrained(row.recipe, decoder).mean)


def rule() -> str:
    """F1 with and without training by every decoder: how much of a score is the rule."""
    rows = []
    for row in OVERVIEW:
        for decoder in row.decoders:
            one, fresh = trees(row.recipe, row.treebank, decoder), untrained(row.recipe, decoder)
            stored = baselines(_EVALUATED_ON[row.treebank])
            random = of_baseline(stored, "random_biased" if decoder == "biased" else "random")
            distances = decoder in ("biased", "unbiased")
            rows.append([
                row.model, f"`{decoder}`", _named(row.treebank), percent(one.f1), percent(random) if distances else "",
                percent(fresh), percent(one.right_branching),
                percent(of_baseline(stored, "random")), percent(of_baseline(stored, "random_binary")),
            ])  # fmt: skip
    heads = ["model", "decoder", "treebank", "F1, trained", "random distances, same decoder",
             "untrained models, same decoder", "right branching", "random, uniform over splits",
             "random, uniform over binary trees"]  # fmt: skip
    return table(heads, rows)


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
