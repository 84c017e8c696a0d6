"""Training speed of PaLM: python -m laboratory.benchmarks.palm [--json].

model: a step is forward, loss over the vocabulary, backward, clipping and optimiser, on a stream with carried state.
One run has PaLM-U and the same AWD-LSTM without span attention, in float32 and bf16-mixed, and PaLM-U with the
references of its ops. Sizes 400-1020-1020-400, R 400, A 100, m 20, T 70, B 20, V 10,000. op: forward and
backward of span attention alone, at these sizes: compiled, in torch, and the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from laboratory.benchmarks.timing import Contestant, Row, benchmark_parser, race, refuse_failing_tests, show
from laboratory.benchmarks.training import BACKENDS, WORDS, contestant, random_stream
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.on_lstm import ONLSTMBackbone, ONLSTMConfig
from syntaxlm.models.palm import PaLMBackbone, PaLMConfig, SpanAttention
from syntaxlm.ops.backend import using
from syntaxlm.ops.span_attention import SpanWeights, span_attention
from syntaxlm.training.recipe import OptimiserSettings

STEPS, COLUMNS = 70, 20
SIZES = (1020, 1020, 400)
SETTINGS = OptimiserSettings(learning_rate=0.001, gradient_clip=0.25)
AWD_LSTM = ONLSTMConfig(
    cell="lstm",
    embedding_size=400,
    layer_sizes=SIZES,
    dropout=0.4,
    layer_dropout=0.2,
    input_dropout=0.4,
    embedding_dropout=0.1,
    weight_drop=0.45,
    weight_drop_rescaled=True,
    ar_after_dropout=True,
)
PALM = PaLMConfig(
    embedding_size=400,
    layer_sizes=SIZES,
    span_size=400,
    scorer_size=100,
    maximum_span=20,
    dropout=0.4,
    layer_dropout=0.2,
    input_dropout=0.4,
    embedding_dropout=0.1,
    weight_drop=0.45,
)


def model_of(form: str) -> NeuralModel:
    """AWD-LSTM or PaLM."""
    if form == "AWD-LSTM":
        return NeuralModel(ONLSTMBackbone(AWD_LSTM), AWD_LSTM, WORDS)
    return NeuralModel(PaLMBackbone(PALM), PALM, WORDS)


def models() -> list[Contestant]:
    """PaLM-U, AWD-LSTM and the reference, which take training steps on a stream."""
    batches = random_stream(WORDS, STEPS, COLUMNS, carries=True)
    forms = (
        ("PaLM-U", "32"),
        ("PaLM-U", "bf16-mixed"),
        ("AWD-LSTM", "32"),
        ("AWD-LSTM", "bf16-mixed"),
        ("reference", "32"),
    )
    return [contestant(partial(model_of, form), batches, form, precision, SETTINGS) for form, precision in forms]


def ops() -> list[Contestant]:
    """The forms of span attention alone."""
    torch.manual_seed(0)
    layer = SpanAttention(SIZES[1], PALM.span_size, PALM.scorer_size, PALM.maximum_span, PALM.form)
    weights = SpanWeights(layer.input_weight, layer.input_bias, layer.span_weight, layer.score_weight)
    inputs = torch.randn(STEPS * COLUMNS, SIZES[1], requires_grad=True)
    carried = torch.randn(PALM.maximum_span, COLUMNS, SIZES[1])

    def step(form: str, precision: str) -> Callable[[], None]:
        def run() -> None:
            autocast = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed")
            with autocast, using(BACKENDS.get(form, "compiled")):
                reading = span_attention(inputs, carried, weights, PALM.maximum_span, [COLUMNS] * STEPS)
            reading.context.sum().backward()

        return run

    forms = ("compiled", "32"), ("compiled", "bf16-mixed"), ("torch", "32"), ("reference", "32")
    return [Contestant(form, precision, step(form, precision), STEPS * COLUMNS) for form, precision in forms]


def main() -> None:
    parser = benchmark_parser("palm", __doc__, rounds=3)
    parser.add_argument("--case", choices=["model", "op"], help="run only this case")
    options = parser.parse_args()
    refuse_failing_tests("tests/ops/test_span_attention.py", "tests/models/test_palm.py")
    rows: list[Row] = []
    if options.case != "op":
        rows += race("model", models(), options.rounds, "reference", "AWD-LSTM")
    if options.case != "model":
        rows += race("op", ops(), options.rounds, "reference", None)
    show(rows, options.json)


if __name__ == "__main__":
    main()
