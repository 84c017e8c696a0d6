"""The tables of docs/reference/speed.md, from results/speed (benchmarks) and results/scale."""

from __future__ import annotations

import json
from typing import Any

from docs.generation.markdown import table
from docs.generation.stored_results import RESULTS

_FORMS = {"nn.LSTM": "`nn.LSTM`", "AWD-LSTM": "AWD-LSTM"}
_PRECISIONS = {"32": "float32"}


def training_speed() -> str:
    """Every row of the stored benchmarks of training."""
    rows = []
    for path in sorted((RESULTS / "speed").glob("*.json")):
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for row in found["rows"]:
            cells = [row["case"], _FORMS.get(row["form"], row["form"])]
            cells += [_PRECISIONS.get(row["precision"], row["precision"]), f"{row['tokens_per_second']:,.0f}"]
            ratios = (row["ratio_to_reference"], row["ratio_to_lstm"])
            shares = (row["in_products"], row["share_of_peak"])
            cells += ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
            cells += ["" if share is None else f"{100 * share:.0f}%" for share in shares]
            rows.append(cells)
    heads = ["case", "form", "precision", "tokens/s", "to the reference", "to the LSTM", "in products", "of the peak"]
    return table(heads, rows)


def matrix_speed() -> str:
    """The speed of a matrix product in the run of each benchmark."""
    rows = []
    for path in sorted((RESULTS / "speed").glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        speeds = [f"{found['gflops'][one]:,.0f}" for one in ("32", "bf16-mixed")]
        rows.append([f"`benchmarks.{path.stem}`", str(found["threads"]), *speeds])
    return table(["benchmark", "threads", "float32, GFLOP/s", "bfloat16, GFLOP/s"], rows)
