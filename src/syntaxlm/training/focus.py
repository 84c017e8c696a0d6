"""Parse-focusing: training a grammar on the trees that several parsers predict for its training text.

Park & Kim 2024, "Structural Optimization Ambiguity and Simplicity Bias in Unsupervised Neural Grammar Induction". The
parsers are several seeds of one recipe and, if given, other models. No gold trees are used. The results are in one
folder: parsers/seed-N, trees/NAME.mrg and, with their hashes, NAME.json, agreement.json, focused. If the command is
started again, finished steps are kept, interrupted ones are resumed, and missing ones are run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import (
    check_stored,
    locked,
    make_folder,
    parse_json,
    read_stored,
    remove_unfinished,
    replaced,
    to_json,
    write_text,
)
from syntaxlm.models.abilities import ParsesSentences
from syntaxlm.parsing.agreement import Agreement, measure_agreement
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_text
from syntaxlm.storage.bundled import find_model
from syntaxlm.storage.folder import read_model
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.training.recipe import Recipe, TextRecipe, with_overrides
from syntaxlm.training.result import TrainingResult
from syntaxlm.training.run import fingerprint, refuse_run
from syntaxlm.training.study import Watching, check_settings, is_finished, seeded, train_or_resume
from syntaxlm.training.study_table import model_hashes

AGREEMENT = "agreement.json"


@dataclass(frozen=True)
class FocusResult:
    """The results of parse-focusing.

    parsers: names of the parsers.
    agreement, focused: agreement of the parsers, and result of the focused grammar; None if training was interrupted
        before.
    omitted: reason, by name, to omit each parser whose trees are not used.
    """

    folder: Path
    parsers: Sequence[str]
    agreement: Agreement | None = None
    focused: TrainingResult | None = None
    omitted: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "parsers": list(self.parsers),
            "omitted": dict(self.omitted),
            "agreement": self.agreement and self.agreement.to_dict(),
            "focused": self.focused and self.focused.to_dict(),
        }

    def __str__(self) -> str:
        if self.focused is None:
            return f"{self.folder}: training stopped; a checkpoint is saved. Resume with the same command."
        return str(self.focused)


def focus(
    recipe: Recipe,
    folder: Path,
    seeds: int,
    strength: float,
    also: Sequence[str | Path],
    watching: Watching,
    say: Callable[[str], None] = lambda line: None,
    keep_all: bool = False,
) -> FocusResult:
    """Train parsers, parse the training text with them, and train a grammar that is focused on their trees.

    recipe: the recipe of the parsers and of the focused grammar.
    folder: the folder of the results.
    seeds: number of parsers to train.
    strength: `model.focus` of the focused grammar.
    also: folders of other models to use as parsers.
    watching: returns a context manager with a progress callback for a recipe.
    say: prints a line of progress; also called with the agreement of the parsers.
    keep_all: use all parsers. By default, parsers that have collapsed or are outliers are omitted, unless fewer than
        two would remain.
    Raises InputError before training if the recipe's model cannot be focused, if a model does not parse, or if the
    folder holds runs with other settings.
    """
    runs, parsers = _parsers(recipe, folder, seeds, also)
    files = {name: folder / "trees" / f"{name}.mrg" for name in parsers}

    def focus_on(names: Iterable[str]) -> Recipe:
        return with_overrides(recipe, {"model.focus": strength, "text.focus": [str(files[name]) for name in names]})

    focus_on(parsers)
    refuse_run(folder)
    for path, of_parser in runs.items():
        check_settings(path, of_parser)
    make_folder(folder / "trees")
    with locked(folder):
        remove_unfinished(folder)
        remove_unfinished(folder / "trees")
        for file in files.values():
            check_stored(file)
        for path, of_parser in runs.items():
            say(f"{path}: {'finished' if is_finished(path) else 'training'}")
            if train_or_resume(path, of_parser, watching).stopped:
                return FocusResult(folder, list(parsers))
        agreement = measure_agreement([read_model(path) for path in parsers.values()], recipe.data.valid, list(parsers))
        write_text(to_json(agreement.to_dict(), indent=2) + "\n", folder / AGREEMENT, stored=True)
        say(str(agreement))
        reasons = {} if keep_all else agreement.reasons_to_omit()
        omitted = {name: reasons[number] for number, name in enumerate(parsers) if number in reasons}
        for name, reason in omitted.items():
            say(f"{name}: omitted, {reason}")
        followed = [name for name in parsers if name not in omitted]
        target, focused = folder / "focused", focus_on(followed)
        try:
            check_settings(target, focused)
        except InputError as error:
            raise InputError(
                f"{error}\nTo focus on other parsers or with another strength, move {target} away first. The parsers"
                " and their trees can be used again."
            ) from None
        for name in followed:
            _write_trees(parsers[name], recipe.data.train, files[name], say)
        say(f"{target}: {'finished' if is_finished(target) else 'training'}")
        result = train_or_resume(target, focused, watching)
    return FocusResult(folder, list(parsers), agreement, None if result.stopped else result, omitted)


def _parsers(
    recipe: Recipe, folder: Path, seeds: int, also: Sequence[str | Path]
) -> tuple[dict[Path, Recipe], dict[str, Path]]:
    """Return the recipes of the parsers to train, by folder, and the folders of all parsers, by name.

    Raises InputError for a model that cannot be focused, fewer than two parsers, two with one name, and models that do
    not parse.
    """
    if not isinstance(recipe, TextRecipe) or not hasattr(recipe.model, "focus"):
        raise InputError(
            f"model.name: {recipe.model.name} models cannot be focused on trees; expected a neural PCFG, such as"
            " simple-pcfg"
        )
    if seeds + len(also) < 2:
        raise InputError(
            f"found {seeds + len(also)} parser; expected two or more. Use --seeds 2 or more, or --also MODEL"
        )
    runs: dict[Path, Recipe] = {folder / "parsers" / name: of_seed for name, of_seed in seeded(recipe, seeds).items()}
    paths = [*runs, *map(Path, also)]
    names = [Path(os.path.abspath(path)).name for path in paths]
    for name, count in Counter(names).items():
        if count > 1:
            same = ", ".join(str(path) for path, other in zip(paths, names, strict=True) if other == name)
            raise InputError(f"--also: found {count} parsers with the name {name}: {same}. Rename a folder.")
    for path in also:
        read_model(path).require(ParsesSentences, f"focusing on the trees of {path}")
    return runs, dict(zip(names, paths, strict=True))


def _write_trees(parser: Path, text: str, file: Path, say: Callable[[str], None]) -> None:
    """Write a parser's trees of a text atomically, one per line with a word.

    Existing trees are kept if parser and text have not changed. Their hashes are beside the trees, in NAME.json.
    """
    origin = file.with_suffix(".json")
    hashes = {"format": 1, "text": fingerprint({"text": text})["text"], "model": model_hashes(find_model(parser))}
    with suppress(InputError):
        if file.exists() and parse_json(read_stored(origin), str(origin)) == hashes:
            return
    say(f"{file}: parsing {text}")
    with replaced(file, stored=True) as temporary, open(temporary, "w", encoding="utf-8") as output:
        for parses in parse_text([read_model(parser)], text, ParseOptions(**AS_WRITTEN)):
            output.writelines(tree + "\n" for tree in parses.brackets() if tree)
    write_text(to_json(hashes, indent=2) + "\n", origin, stored=True)
