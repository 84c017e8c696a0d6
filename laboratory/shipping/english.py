"""Makes the bundled English models: prepares the text, trains the parsers and the scorer, and combines them.

Four grammars with different biases, the teachers, are trained on the whole text and parse short sentences. Three
parsers learn from the trees of their average: a large grammar, a small grammar, and a span parser. en-fast is the small
grammar. en averages the smallest of the three that agree well with the teachers; no tree of a treebank is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path

import numpy as np
import torch

import syntaxlm.storage.bundled
from laboratory.experiment import recipe_of
from laboratory.shipping.english_text import write_english
from syntaxlm.comparison.focus import FocusOptions, focus
from syntaxlm.core.files import write_text
from syntaxlm.evaluation.agreement import measure_agreement
from syntaxlm.storage.combination import combine
from syntaxlm.storage.folder import ModelBundle, read_model, write_model
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.result import RESULT
from syntaxlm.training.run import resume, train

_MARKS: Mapping[str, object] = {"model.marks": 1.0, "model.marks_side": "either"}
TEACHERS: Mapping[str, Mapping[str, object]] = {  # name, with the seed at the end: settings
    "teacher-1": _MARKS,
    "teacher-2": {},
    "teacher-3": _MARKS,
    "teacher-4": {},
}
LEARNERS, SMALL, SCORER, NGRAMS = "learners", "small", "scorer", "kn5"
CHOICE = "choice.json"
PARSED, LONGEST = 100_000, 35  # sentences from whose trees the parsers learn, and their most words and marks
VALID_PARSED = 1_000
FOCUS = 2.0  # nats, `model.focus`
TOLERANCE = 0.005  # F1 by which a smaller average of parsers may agree less with the teachers

SHIPPED = Path(syntaxlm.storage.bundled.__file__).parent


def make_english(data: Path, runs: Path) -> None:
    """Trains the models and writes the folders `en` and `en-fast`, but for their cards.

    Args:
        data: the folder of `shipping.english_text`.
        runs: a folder for text and runs; interrupted runs are resumed, finished ones are kept.
    """
    write_texts(data, runs / "data")
    for name in TEACHERS:
        train_teacher(runs, name)
    train_learners(runs)
    train_language_models(runs)
    write_shipped(runs)


def write_texts(data: Path, output: Path) -> None:
    """Writes the text, and the sentences from whose trees the parsers learn."""
    output.mkdir(parents=True, exist_ok=True)
    if not all((output / name).exists() for name in ("train.txt", "valid.txt")):
        write_english(data, output)
    train_lines, valid_lines = ((output / name).read_text("utf-8").splitlines() for name in ("train.txt", "valid.txt"))
    generator = np.random.default_rng(0)
    parts = {
        "parsed": _short(train_lines, PARSED, generator),
        "valid-parsed": _short(valid_lines, VALID_PARSED, generator),
        "valid-fifth": valid_lines[::5],
    }
    for name, part in parts.items():
        if not (output / f"{name}.txt").exists():
            write_text("".join(f"{line}\n" for line in part), output / f"{name}.txt")


def _short(lines: Sequence[str], count: int, generator: np.random.Generator) -> list[str]:
    """Sentences of at most `LONGEST` words and marks, `count` of them drawn at random, in order."""
    short = [line for line in lines if len(line.split()) <= LONGEST]
    chosen = generator.permutation(len(short))[:count]
    return [short[place] for place in np.sort(chosen).tolist()]


def train_teacher(runs: Path, name: str) -> None:
    """Trains a grammar on the whole text."""
    seed = int(name.rpartition("-")[2])
    _train(runs / name, "simple-pcfg", {**_whole_text(runs), "run.seed": seed, **TEACHERS[name]})


def train_language_models(runs: Path) -> None:
    """Trains the scorer, and the n-grams that it is compared with, on the whole text."""
    _train(runs / SCORER, "lstm", _whole_text(runs))
    _train(runs / NGRAMS, "kn5", _whole_text(runs))


def train_learners(runs: Path) -> None:
    """Trains the parsers that learn from the trees of the teachers' average."""
    text = runs / "data"
    short = {"text.train": str(text / "parsed.txt"), "text.valid": str(text / "valid-parsed.txt")}
    recipe = recipe_of("english", "simple-pcfg-focused", short)
    student = read_recipe("span-parser-text", short)
    options = FocusOptions(seeds=0, also=[runs / name for name in TEACHERS], strength=FOCUS, student=student)
    focus(recipe, runs / LEARNERS, options, lambda recipe: nullcontext(lambda event: None), print)
    trees = str(runs / LEARNERS / "trees" / "average.mrg")
    _train(runs / SMALL, "simple-pcfg-fast", {**short, "model.focus": FOCUS, "text.focus": [trees]})


def _whole_text(runs: Path) -> Mapping[str, object]:
    return {"text.train": str(runs / "data" / "train.txt"), "text.valid": str(runs / "data" / "valid-fifth.txt")}


def write_shipped(runs: Path) -> None:
    """Writes the bundled model folders from the finished runs, with weights in bfloat16."""
    parsers = chosen_parsers(runs)
    write_model(SHIPPED / "en", combine(parsers, read_model(runs / SCORER)), torch.bfloat16)
    write_model(SHIPPED / "en-fast", read_model(runs / SMALL), torch.bfloat16)


def chosen_parsers(runs: Path) -> list[ModelBundle]:
    """Returns the parsers of `en`: the smallest whose average agrees with that of the teachers as well as the best do.

    All parsers that learned from the teachers' trees are candidates, alone and averaged. Agreement is the F1 between
    the trees of validation sentences, and up to `TOLERANCE` below the best counts as equally good. Sizes and agreements
    are written to choice.json in the folder of runs.
    """
    learners = {
        "SN-PCFG, 256": read_model(runs / LEARNERS / "focused"),
        "SN-PCFG, 128": read_model(runs / SMALL),
        "span parser": read_model(runs / LEARNERS / "student"),
    }
    candidates = {
        " + ".join(names): [learners[name] for name in names]
        for count in range(1, len(learners) + 1)
        for names in combinations(learners, count)
    }
    models = [parsers[0] if len(parsers) == 1 else combine(parsers) for parsers in candidates.values()]
    teachers = read_model(runs / LEARNERS / "average")
    text = str(runs / "data" / "valid-parsed.txt")
    agreement = measure_agreement([*models, teachers], text, [*candidates, "teachers"])
    f1 = dict(zip(candidates, agreement.matrix.values[:-1, -1].round(4).tolist(), strict=True))
    sizes = {
        name: sum(weight.numel() for model in parsers for weight in model.model.parameters())
        for name, parsers in candidates.items()
    }
    good = [name for name in candidates if f1[name] >= max(f1.values()) - TOLERANCE]
    chosen = min(good, key=lambda name: sizes[name])
    sentences = agreement.matrix.sentences
    choice = {"sentences": sentences, "f1_with_teachers": f1, "sizes": sizes, "chosen": chosen}
    write_text(json.dumps(choice, indent=2) + "\n", runs / CHOICE)
    print(choice)
    return candidates[chosen]


def _train(folder: Path, name: str, settings: Mapping[str, object]) -> None:
    """Train a run of the experiment `english`, or resume it."""
    if (folder / RESULT).exists():
        print(f"{folder}: finished")
        return
    print(f"{folder}: training")
    if folder.exists():
        resume(folder)
    else:
        train(recipe_of("english", name, settings), folder)
