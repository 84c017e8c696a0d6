"""Makes the bundled English models again, measures them and writes their cards.

    python -m laboratory.shipping DATA RUNS

DATA: a folder with the folders english (see `shipping.english_text`), wsj-sample, gum, craft, blimp, syntaxgym and
natural-stories.  RUNS: a folder for text and runs; interrupted runs are resumed, finished ones are kept.
Writes the model folders `en` and `en-fast` in src/syntaxlm/storage/bundled, and the experiment `shipped`. Takes about
four hours on one core without bfloat16 tiles (AMX).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from laboratory.shipping.english import make_english
from laboratory.shipping.figures import measure
from laboratory.shipping.frequencies import write_frequencies
from laboratory.shipping.model_cards import write_cards


def main() -> None:
    """Makes the models; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    options = parser.parse_args()
    data, runs = options.data.resolve(), options.runs.resolve()
    make_english(data / "english", runs)
    write_frequencies(runs / "data" / "train.txt")
    measure(data, runs)
    write_cards()


if __name__ == "__main__":
    main()
