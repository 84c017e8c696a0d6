"""From a text to a focused grammar: parsers, their trees of the training text, a grammar trained toward these.

Parse-focusing, after Park & Kim 2024, "Structural Optimization Ambiguity and Simplicity Bias in Unsupervised Neural
Grammar Induction". The parsers are several seeds of the same recipe, and any other models of the text; no gold tree is
read. A folder holds it all: parsers/seed-N, trees/NAME.mrg, agreement.json, focused. Started again, the command keeps
what is finished, resumes what was interrupted, and makes what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from syntaxlm.data.corpora import read_sentences
from syntaxlm.errors import InputError
from syntaxlm.files import held, make_folder, replaced, to_json, write_text
from syntaxlm.model_io import ModelBundle, read_model
from syntaxlm.models.abilities import Parses
from syntaxlm.parsing.agreement import Agreement, measure_agreement
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.progress import progress_bar
from syntaxlm.training.recipe import Recipe, recipe_from
from syntaxlm.training.result import TrainingResult
from syntaxlm.training.seeds import Watching, check_settings, seeded, train_or_resume
from syntaxlm.training.trainer import refuse_run

AGREEMENT = "agreement.json"
_PARSED_TOGETHER = 2_000  # lines


@dataclass(frozen=True)
class FocusResult:
    """What was made. focused, agreement: None where training was stopped before."""

    folder: Path
    parsers: Sequence[str]
    agreement: Agreement | None = None
    focused: TrainingResult | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "parsers": list(self.parsers),
            "agreement": self.agreement and self.agreement.as_dict(),
            "focused": self.focused and self.focused.as_dict(),
        }

    def __str__(self) -> str:
        if self.focused is None:
            return f"{self.folder}: stopped; the same command resumes it"
        return f"{self.agreement}\n\n{self.focused}"


def focus(
    recipe: Recipe,
    folder: Path,
    seeds: int,
    strength: float,
    also: Sequence[str | Path],
    watching: Watching,
    say: Callable[[str], None] = lambda line: None,
) -> FocusResult:
    """Trains the recipe's grammar with several seeds, parses its training text with these, and trains a focused one.

    strength: `model.focus` of the focused grammar.  also: folders of further models that parse the text.
    Raises InputError before anything is trained where the recipe's model cannot be focused, models do not parse, or
    the folder holds runs of other settings.
    """
    if seeds + len(also) < 2:
        raise InputError(f"found {seeds + len(also)} parser; expected two or more: --seeds 2, or --also MODEL")
    runs = {folder / "parsers" / name: one for name, one in seeded(recipe, seeds).items()}
    others: dict[str, Path | ModelBundle] = {_name_of(path): read_model(path) for path in also}
    if len(others) < len(also):
        raise InputError(f"--also: two models have the same folder name: {', '.join(map(str, also))}")
    for name, model in others.items():
        _bundle(model).require(Parses, f"focusing on the trees of {name}")
    names = [*(path.name for path in runs), *others]
    files = [folder / "trees" / f"{name}.mrg" for name in names]
    focused = _focused(recipe, files, strength)
    refuse_run(folder)
    for path, one in [*runs.items(), (folder / "focused", focused)]:
        check_settings(path, one)
    make_folder(folder / "trees")
    with held(folder):
        for path, one in runs.items():
            say(f"{path}: training")
            if train_or_resume(path, one, watching).stopped:
                return FocusResult(folder, names)
        models: dict[str, Path | ModelBundle] = {path.name: path for path in runs}
        models |= others
        agreement = _agreement(recipe, folder, models)
        say(str(agreement))
        for file, model in zip(files, models.values(), strict=True):
            if not file.exists():
                say(f"{file}: parsing {recipe.text.train}")
                _write_trees(_bundle(model), recipe.text.train, file)
        say(f"{folder / 'focused'}: training")
        result = train_or_resume(folder / "focused", focused, watching)
    return FocusResult(folder, names, agreement, None if result.stopped else result)


def _name_of(path: str | Path) -> str:
    return Path(os.path.abspath(path)).name


def _bundle(model: Path | ModelBundle) -> ModelBundle:
    return read_model(model) if isinstance(model, Path) else model


def _focused(recipe: Recipe, files: Sequence[Path], strength: float) -> Recipe:
    """The recipe of the focused grammar. Raises InputError for a model that cannot be focused."""
    if not hasattr(recipe.model, "focus"):
        raise InputError(
            f"a {recipe.model.name} model cannot be focused on trees; expected a neural PCFG, such as simple-pcfg"
        )
    data = recipe.as_dict()
    data["model"]["focus"] = strength
    data["text"]["focus"] = [str(file) for file in files]
    return recipe_from(data, "the recipe of the focused grammar")


def _agreement(recipe: Recipe, folder: Path, models: Mapping[str, Path | ModelBundle]) -> Agreement:
    """How far the parsers agree on the validation text; also written to the folder."""
    found = measure_agreement([_bundle(model) for model in models.values()], recipe.text.valid, list(models))
    write_text(to_json(found.as_dict(), indent=2) + "\n", folder / AGREEMENT, stored=True)
    return found


def _write_trees(stored: ModelBundle, text: str, file: Path) -> None:
    """The trees of a text, one per line with a word, atomically."""

    def lines() -> Iterator[str]:
        sentences = (line for _, line in read_sentences(text, stored.normaliser))
        chunks = iter(lambda: list(islice(sentences, _PARSED_TOGETHER)), [])
        for chunk in progress_bar(chunks, f"parsing, chunks of {_PARSED_TOGETHER:,} lines"):
            yield from (tree + "\n" for tree in parse_lines(stored, chunk).brackets() if tree)

    with replaced(file) as temporary, open(temporary, "w", encoding="utf-8") as output:
        output.writelines(lines())
