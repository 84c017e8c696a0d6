"""Measures what classes of unknown words are worth: two models of the same text, with classes and without.

    python -m laboratory.shipping.unknown_words WITH WITHOUT TEXT [-o FILE]

WITH, WITHOUT: model folders.  TEXT: tokenised sentences, one per line.
Prints the mean surprisal, in bits, of the words that both models know: of all, and of those that follow an unknown word
of either model. Ends of sentences are counted as known words. The surprisals of unknown words themselves are not
comparable: a class says more than <unk> does.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

from laboratory.results.store import with_head
from syntaxlm.core.files import to_json, write_text
from syntaxlm.core.text_files import read_lines
from syntaxlm.scoring.options import Context, ScoreOptions
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.folder import read_model
from syntaxlm.text.options import AS_WRITTEN


def main() -> None:
    """Compares two models; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("with_classes", metavar="WITH", type=Path)
    parser.add_argument("without", metavar="WITHOUT", type=Path)
    parser.add_argument("text", metavar="TEXT", type=Path)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path)
    options = parser.parse_args()
    report = to_json(with_head(compared(options.with_classes, options.without, options.text)), indent=1)
    print(report)
    if options.output:
        write_text(report + "\n", options.output)


def compared(with_classes: Path, without: Path, text: Path) -> dict[str, object]:
    """The mean surprisals of the words that two models know, in bits."""
    lines = [line for _, line in read_lines(text)]
    models = [read_model(folder) for folder in (with_classes, without)]
    contexts: list[Context] = ["carry" if model.mode.carry_state else "reset" for model in models]
    scored = [
        surprisals(model, lines, ScoreOptions(context=context, **AS_WRITTEN))
        for model, context in zip(models, contexts, strict=True)
    ]
    pairs: list[tuple[float, float]] = []
    after_unknown: list[tuple[float, float]] = []
    for rows_with_classes, rows_without in zip(*scored, strict=True):
        unknown_before = False
        for row, other_row in zip(rows_with_classes, rows_without, strict=True):
            known = bool(row.in_vocabulary and other_row.in_vocabulary)
            if known:
                assert row.surprisal is not None
                assert other_row.surprisal is not None
                pairs.append((row.surprisal, other_row.surprisal))
                if unknown_before:
                    after_unknown.append(pairs[-1])
            if row.in_vocabulary is not None:  # None: the model reads nothing of the word
                unknown_before = not known
    return {
        "models": [with_classes.name, without.name],
        "text": text.name,
        "words": len(pairs),
        "mean_surprisal": [fmean(values) for values in zip(*pairs, strict=True)],
        "words_after_unknown_words": len(after_unknown),
        "mean_surprisal_after_unknown_words": [fmean(values) for values in zip(*after_unknown, strict=True)],
    }


if __name__ == "__main__":
    main()
