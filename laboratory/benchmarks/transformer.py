"""Training speed of the Transformer: python -m laboratory.benchmarks.transformer [--json].

A step is forward, loss over the vocabulary, backward, clipping and optimiser. In one run, in float32 and bf16-mixed:
- the fast form;
- the reference: the blocks are nn.TransformerEncoderLayer with a causal mask, pre-norm, without biases, with as many
  weights: the two feed-forward matrices are larger by a half, because SwiGLU has three.

small: 5 blocks of 192, 6 heads, T 64, B 16. medium: 8 blocks of 384, 6 heads, T 128, B 16. V 10,000.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from laboratory.benchmarks.timing import Row, benchmark_parser, race, refuse_failing_tests, show
from laboratory.benchmarks.training import WORDS, contestant, random_stream
from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.causal_transformer import CausalTransformerBackbone, CausalTransformerConfig, Reach
from syntaxlm.training.recipe import OptimiserSettings

SETTINGS = OptimiserSettings(learning_rate=0.001)
ENCODER = "nn.TransformerEncoder"
CASES = {  # steps, columns, settings
    "small": (64, 16, CausalTransformerConfig(embedding_size=192, layers=5, heads=6, window=128, dropout=0.1)),
    "medium": (128, 16, CausalTransformerConfig(embedding_size=384, layers=8, heads=6, window=128, dropout=0.1)),
}


class TorchBlock(nn.Module):
    """nn.TransformerEncoderLayer in place of a block. It leaves out the rotation, so it knows no positions."""

    def __init__(self, config: CausalTransformerConfig) -> None:
        super().__init__()
        size, inner = config.embedding_size, config.inner_size * 3 // 2
        self.layer = nn.TransformerEncoderLayer(size, config.heads, inner, config.dropout, norm_first=True, bias=False)

    def forward(
        self, hidden: Tensor, reach: list[Reach], rotation: tuple[Tensor, Tensor], before: None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        mask = nn.Transformer.generate_square_subsequent_mask(len(hidden), device=hidden.device)
        empty = hidden.new_zeros(hidden.shape[1], 1, 0, 1)  # no keys and values for a next batch
        return self.layer(hidden, src_mask=mask, is_causal=True), (empty, empty)


def model_of(config: CausalTransformerConfig, form: str) -> NeuralModel:
    """The model with its own blocks, or with those of torch."""
    model = NeuralModel(CausalTransformerBackbone(config), config, WORDS)
    if form == ENCODER:
        model.backbone.blocks = nn.ModuleList(TorchBlock(config) for _ in range(config.layers))
    return model


def main() -> None:
    parser = benchmark_parser("transformer", __doc__, rounds=10)
    parser.add_argument("--case", choices=list(CASES), help="run only this case")
    options = parser.parse_args()
    refuse_failing_tests("tests/models/test_causal_transformer.py")
    rows: list[Row] = []
    for name in [options.case] if options.case else list(CASES):
        steps, columns, config = CASES[name]
        batches = random_stream(WORDS, steps, columns)
        case = f"{name} {config.layers} x {config.embedding_size} T{steps} B{columns}"
        for precision in ("32", "bf16-mixed"):
            contestants = [
                contestant(partial(model_of, config, form), batches, form, precision, SETTINGS)
                for form in ("fast", ENCODER)
            ]
            rows += race(case, contestants, options.rounds, ENCODER, None, precision)
    show(rows, options.json)


if __name__ == "__main__":
    main()
