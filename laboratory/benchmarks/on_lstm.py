"""Training speed of ON-LSTM: python -m laboratory.benchmarks.on_lstm [--json].

A step is forward, loss over the vocabulary, backward, clipping and optimiser. In one run:
- the fast form, in float32 and bf16-mixed;
- the reference: the same model with the references of its ops, a per-step autograd loop, in float32;
- nn.LSTM: layers of the same sizes, with the same dropouts except weight drop, which it does not support, in both
  precisions.

published: sizes 400-1150-1150-400, T 70, B 20, V 10,000. small: 200-400-400-200, T 35, B 32.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from torch import Tensor, nn

from laboratory.benchmarks.timing import Row, benchmark_parser, race, refuse_failing_tests, show
from laboratory.benchmarks.training import WORDS, contestant, random_stream
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.layers import Rows
from syntaxlm.models.on_lstm import ONLSTMBackbone, ONLSTMConfig
from syntaxlm.models.recurrent import RecurrentLayer
from syntaxlm.ops.on_lstm import Recurrence
from syntaxlm.training.recipe import OptimiserSettings

SETTINGS = OptimiserSettings(learning_rate=0.001, gradient_clip=0.25)
CASES = {  # steps, columns, settings
    "published": (
        70,
        20,
        ONLSTMConfig(
            embedding_size=400,
            layer_sizes=(1150, 1150, 400),
            dropout=0.45,
            layer_dropout=0.3,
            input_dropout=0.5,
            embedding_dropout=0.1,
            weight_drop=0.45,
        ),
    ),
    "small": (35, 32, ONLSTMConfig(embedding_size=200, layer_sizes=(400, 400, 200))),
}


class TorchLayer(nn.Module):
    """nn.LSTM in place of a layer of the stack."""

    state_names = RecurrentLayer.state_names

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, size)

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor] | None, rows: Rows) -> Recurrence:
        assert state is None
        hidden, (last, cell) = self.lstm(rows.padded(inputs))
        return Recurrence(rows.of(hidden), (last[0], cell[0]))


def model_of(config: ONLSTMConfig, form: str) -> NeuralModel:
    """The model in one form of this benchmark: fast, reference, nn.LSTM."""
    if form == "nn.LSTM":
        config = replace(config, cell="lstm")  # without distances
    model = NeuralModel(ONLSTMBackbone(config), config, WORDS)
    if form == "nn.LSTM":
        sizes = config.embedding_size, *config.layer_sizes
        model.backbone.get_submodule("stack").layers = nn.ModuleList(map(TorchLayer, sizes, sizes[1:]))
    return model


def main() -> None:
    parser = benchmark_parser("on_lstm", __doc__, rounds=3)
    parser.add_argument("--case", choices=list(CASES), help="run only this case")
    options = parser.parse_args()
    refuse_failing_tests("tests/ops/test_on_lstm.py", "tests/models/test_on_lstm.py")
    rows: list[Row] = []
    for name in [options.case] if options.case else list(CASES):
        steps, columns, config = CASES[name]
        batches = random_stream(WORDS, steps, columns)
        contestants = [
            contestant(partial(model_of, config, form), batches, form, precision, SETTINGS)
            for form, precision in (
                ("fast", "bf16-mixed"),
                ("fast", "32"),
                ("reference", "32"),
                ("nn.LSTM", "32"),
                ("nn.LSTM", "bf16-mixed"),
            )
        ]
        sizes = "-".join(map(str, (config.embedding_size, *config.layer_sizes)))
        rows += race(f"{name} {sizes} T{steps} B{columns}", contestants, options.rounds, "reference", "nn.LSTM")
    show(rows, options.json)


if __name__ == "__main__":
    main()
