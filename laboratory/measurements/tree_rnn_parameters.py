"""Number of parameters of a TreeRNN and of a recurrent network with states of the same size.

    python -m laboratory.measurements.tree_rnn_parameters --words V --hidden-size R [--json]

Zhang, Lu, Lapata 2015, appendix B. The recurrent network is an Elman network whose embeddings have the size of its
states; embeddings of TreeRNN have min(100, R / 2) features. Both are models of this package, with the biases of its
softmax.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from laboratory.measurements.output import measurement_parser, show
from syntaxlm.models.lstm import LSTMConfig
from syntaxlm.models.registry import ModelConfig, build_model
from syntaxlm.models.sizes import without_memory
from syntaxlm.models.tree_rnn import TreeRNNConfig


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters.

    Attributes:
        words: size of the vocabulary, V.
        hidden_size: features of a state, R.
        tree_rnn: parameters of the TreeRNN.
        rnn: parameters of the recurrent network.
        ratio: parameters of the TreeRNN divided by those of the recurrent network.
    """

    words: int
    hidden_size: int
    tree_rnn: int
    rnn: int
    ratio: float


def main() -> None:
    """Count the parameters; see the module."""
    parser = measurement_parser(__doc__)
    parser.add_argument("--words", type=int, required=True)
    parser.add_argument("--hidden-size", type=int, required=True)
    options = parser.parse_args()
    show(asdict(parameters(options.words, options.hidden_size)), options.json)


def parameters(words: int, size: int) -> Parameters:
    """Return the numbers of parameters of the two models.

    Args:
        words: size of the vocabulary.
        size: features of a state.
    """
    tree_rnn = _count(TreeRNNConfig(embedding_size=min(100, size // 2), hidden_size=size), words)
    rnn = _count(LSTMConfig(cell="rnn", embedding_size=size, hidden_size=size, layers=1, tied=False), words)
    return Parameters(words, size, tree_rnn, rnn, tree_rnn / rnn)


def _count(config: ModelConfig, words: int) -> int:
    with without_memory():
        return build_model(config, words).parameter_count


if __name__ == "__main__":
    main()
