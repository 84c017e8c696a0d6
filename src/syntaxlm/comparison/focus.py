"""Parse-focusing: train several parsers, average their trees, and train new parsers on the averaged trees.

Park & Kim 2024, "Structural Optimization Ambiguity and Simplicity Bias in Unsupervised Neural Grammar Induction". The
parsers are several seeds of one recipe and of its variants and, if given, other models. No gold trees are used. If the
command is started again, finished steps are kept, interrupted ones are resumed, and missing ones are run. The folder of
the results has:

    parsers/NAME         the trained parsers
    agreement.json       how well their trees agree
    trees/average.mrg    the averaged trees
    trees/average.json   hashes of the parsers and the text that they come from
    average              the averaged model, if the parsers can be combined
    focused              a PCFG trained on the averaged trees
    student              a span parser, or a language model supervised by the averaged trees
    learned              the average of `focused` and a span-parser student, as one model
"""

from __future__ import annotations

import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from syntaxlm.comparison.runs import Watching, check_settings, seeded, train_all
from syntaxlm.comparison.treebank import model_hashes
from syntaxlm.core.errors import InputError, amount
from syntaxlm.core.files import (
    check_name,
    check_stored,
    locked,
    make_folder,
    parse_json,
    read_stored,
    refuse_overwriting,
    remove_unfinished,
    repeated_file,
    replaced,
    to_json,
    write_text,
)
from syntaxlm.core.run_head import run_head, training_recipe
from syntaxlm.core.settings import Overrides
from syntaxlm.core.text_files import no_sentence
from syntaxlm.data.corpora import is_longer, read_sentences
from syntaxlm.evaluation.agreement import Agreement, measure_agreement
from syntaxlm.models.abilities import LearnsFromTrees, ParsesSentences
from syntaxlm.models.combination import PARSER_TYPES
from syntaxlm.models.registry import MODELS
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_text
from syntaxlm.storage.bundled import find_model
from syntaxlm.storage.combination import combine
from syntaxlm.storage.folder import ModelBundle, read_model, write_model
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.options import AS_WRITTEN
from syntaxlm.training.recipe import Recipe, TextRecipe, with_overrides
from syntaxlm.training.result import TrainingResult, read_result
from syntaxlm.training.run import fingerprint, fingerprints_of, refuse_run
from syntaxlm.trees.tree import Constituent, Tree

AGREEMENT = "agreement.json"
AVERAGE, LEARNED = "average", "learned"
STRENGTH = 5.0  # nats
_TRAINING = 0.85  # share of the minutes for training; the rest is for parsing
MAX_PARSED_WORDS = 150  # words of a sentence that is parsed: a chart takes minutes for a thousand


@dataclass(frozen=True)
class FocusResult:
    """The results of parse-focusing.

    Attributes:
        parsers: names of the parsers.
        agreement: agreement of the parsers; None if training was interrupted before.
        omitted: reason, by name, to omit each parser that is not in the average.
        average: folder of the average as a model; None before it is written, and if a combination cannot have one of
            the parsers.
        focused: result of the focused grammar; None if there is none, or if training was interrupted before.
        student: result of the student; None as for `focused`.
        learned: folder of the average of both as a model; None if one is missing.
        stopped: whether training was interrupted.
    """

    folder: Path
    parsers: Sequence[str]
    agreement: Agreement | None = None
    omitted: Mapping[str, str] = field(default_factory=dict)
    average: Path | None = None
    focused: TrainingResult | None = None
    student: TrainingResult | None = None
    learned: Path | None = None
    stopped: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "parsers": list(self.parsers),
            "omitted": dict(self.omitted),
            "average": self.average and str(self.average),
            "agreement": self.agreement and self.agreement.to_dict(),
            "focused": self.focused and self.focused.to_dict(),
            "student": self.student and self.student.to_dict(),
            "learned": self.learned and str(self.learned),
        }

    def __str__(self) -> str:
        if self.stopped:
            return f"{self.folder}: training stopped; a checkpoint is saved. Resume with the same command."
        lines = [*map(str, filter(None, (self.focused, self.student)))]
        lines.append(f"average: {self.average or _trees(self.folder, 'train')}")
        if self.learned:
            lines.append(f"average of the focused grammar and the student: {self.learned}")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class FocusOptions:
    """What `focus` trains.

    Attributes:
        seeds: number of parsers to train with the recipe.
        variants: settings that replace those of the recipe in further parsers, see `with_overrides`.
        variant_seeds: number of parsers to train with each variant; None: as many as with the recipe.
        also: folders of other models to use as parsers.
        student: recipe of a model to train on the trees of the average: a span parser, whose data are those of the
            parsers, or a language model with `supervision`, which reads the same files in its own way.
        strength: `model.focus` of the focused grammar; None: STRENGTH.
        minutes: time for everything: each training takes an equal share at most; None: the epochs of the recipe.
        jobs: number of parsers to train at the same time.
        keep_all: use all parsers. By default, seeds of one recipe or variant that have collapsed or are outliers among
            its seeds are omitted, unless fewer than two parsers would remain.
    """

    seeds: int = 5
    variants: Sequence[Overrides] = ()
    variant_seeds: int | None = None
    also: Sequence[str | Path] = ()
    student: Recipe | None = None
    strength: float | None = None
    minutes: float | None = None
    jobs: int = 1
    keep_all: bool = False


def focus(
    recipe: Recipe,
    folder: Path,
    options: FocusOptions,
    watching: Watching,
    say: Callable[[str], None] = lambda line: None,
) -> FocusResult:
    """Train parsers, average them, and train single parsers that learn from the trees of the average.

    Args:
        recipe: the recipe of the parsers. If it is of a neural PCFG, a focused grammar is trained by it, too.
        folder: the folder of the results.
        watching: returns a context manager with a progress callback for a recipe.
        say: prints a line of progress; also called with the agreement of the parsers.

    Raises:
        InputError: before training if a model does not parse, if the student does not learn from trees, if the folder
            holds runs with other settings, or if a text is its file agreement.json.
    """
    check_name(folder)
    recipe, runs, parsers, groups = _plan_parsers(recipe, folder, options)
    learners = _learners(recipe, runs, folder, options)
    _check_texts(recipe)
    refuse_run(folder)
    refuse_overwriting(folder / AGREEMENT, recipe.data.files.values())
    _check_runs(runs, options)
    begun = [folder / name for name in learners if (folder / name).exists()]
    _check_parsers(folder, list(parsers), begun)
    make_folder(folder / "trees")
    with locked(folder):
        remove_unfinished(folder)
        remove_unfinished(folder / "trees")
        for part in ("train", "valid"):
            check_stored(_trees(folder, part))
        if train_all(runs, watching, say, options.jobs):
            return FocusResult(folder, list(parsers))
        valid = str(recipe.data.valid)
        models = [read_model(path) for path in parsers.values()]
        agreement = measure_agreement(models, valid, list(parsers), longest=MAX_PARSED_WORDS)
        say(str(agreement))
        reasons = {} if options.keep_all else agreement.reasons_to_omit(groups)
        omitted = {name: reasons[number] for number, name in enumerate(parsers) if number in reasons}
        for name, reason in omitted.items():
            say(f"{name}: omitted, {reason}")
        followed = [path for name, path in parsers.items() if name not in omitted]
        if begun and _stored_origin(_trees(folder, "train")) not in (None, _origin(followed, recipe.data.train)):
            raise _other_parsers(begun[0])
        head = run_head(recipe.run.seed, sha256=fingerprint({"text.valid": valid})["text.valid"])
        write_text(
            to_json(agreement.to_dict() | {"run": head.to_dict()}, indent=2) + "\n", folder / AGREEMENT, stored=True
        )
        bundles = [read_model(path) for path in followed]
        average = _write_average(bundles, folder / AVERAGE, say)
        for part in ("train", "valid") if _learns_from_trees_alone(options.student) else ("train",):
            _write_trees(followed, bundles, getattr(recipe.data, part), _trees(folder, part), say)
        result = FocusResult(folder, list(parsers), agreement, omitted, average)
        learning = {folder / name: learner for name, learner in learners.items()}
        _check_learners(learning)
        with training_recipe(None, ()):  # these have settings of their own
            if train_all(learning, watching, say, options.jobs):
                return result
        trained = {name: read_result(folder / name) for name in learners}
        result = replace(result, focused=trained.get("focused"), student=trained.get("student"))
        if len(learners) > 1 and _learns_from_trees_alone(options.student):
            learned = _write_average([read_model(folder / name) for name in learners], folder / LEARNED, say)
            result = replace(result, learned=learned)
    return replace(result, stopped=False)


def _check_texts(recipe: TextRecipe) -> None:
    """Raise InputError for missing files, texts without words and text.weights, before anything is trained."""
    if (weights := recipe.text.weights) is not None:
        raise InputError(
            f"text.weights: found {weights}; expected null, because the parsers of focus have different settings. Train"
            " the parsers further by syntaxlm train, and name their folders with --also"
        )
    fingerprints_of(recipe)
    normaliser = Normaliser(recipe.data.normaliser)
    for text in (recipe.data.train, str(recipe.data.valid)):
        if not any(normaliser.tokens(line) for _, line in read_sentences(text, normaliser)):
            raise no_sentence(text)


def _check_runs(runs: Mapping[Path, Recipe], options: FocusOptions) -> None:
    """Raise InputError if parsers were trained with other settings."""
    try:
        for path, recipe in runs.items():
            check_settings(path, recipe)
    except InputError as error:
        if options.minutes is None:
            raise
        raise InputError(
            f"{error}\nThe setting schedule.minutes follows from --minutes, --jobs and the number of trainings. To"
            " resume, repeat all of them."
        ) from None


def _check_learners(learners: Mapping[Path, Recipe]) -> None:
    """Raise InputError if parsers that learn from the average were trained with other settings."""
    for path, recipe in learners.items():
        try:
            check_settings(path, recipe)
        except InputError as error:
            raise InputError(f"{error}\nTo train it with other settings, move {path} away first.") from None


def _check_parsers(folder: Path, names: Sequence[str], begun: Sequence[Path]) -> None:
    """Raise InputError if parsers in `begun` have learned from others than these, before anything is trained."""
    stored = folder / AGREEMENT
    if begun and stored.exists() and parse_json(read_stored(stored), str(stored)).get("models") != list(names):
        raise _other_parsers(begun[0])


def _other_parsers(learner: Path) -> InputError:
    return InputError(
        f"{learner}: was trained on the trees of other parsers. Move this folder away, or choose another output folder."
        " The parsers that are trained can be used again."
    )


def _trees(folder: Path, part: str) -> Path:
    """Return the file of the average's trees of `part` of the text: train or valid."""
    return folder / "trees" / (f"{AVERAGE}.mrg" if part == "train" else f"{AVERAGE}-{part}.mrg")


def _learners(
    recipe: TextRecipe, runs: Mapping[Path, Recipe], folder: Path, options: FocusOptions
) -> dict[str, Recipe]:
    """Return the recipes of the parsers that learn from the trees of the average, by name.

    Args:
        runs: the recipes of the parsers to train.

    Raises:
        InputError: for a student that does not learn from trees.
    """
    focus = [str(_trees(folder, "train"))]
    learners: dict[str, Recipe] = {}
    if recipe.model.is_focusable:
        strength = STRENGTH if options.strength is None else options.strength
        learners["focused"] = with_overrides(recipe, {"model.focus": strength, "text.focus": focus})
    elif options.strength is not None:
        raise InputError(f"--strength: {recipe.model.name} models are not focused; omit it, or use a recipe of a PCFG")
    if options.student is not None:
        learners["student"] = _student(recipe, runs, folder, options.student, options)
    return learners


def _learns_from_trees_alone(student: Recipe | None) -> bool:
    return student is not None and MODELS[student.model.name].has(LearnsFromTrees)


def _student(
    recipe: TextRecipe, runs: Mapping[Path, Recipe], folder: Path, student: Recipe, options: FocusOptions
) -> Recipe:
    """Return the recipe of a student on the text and the trees of the parsers.

    A span parser reads text like the parsers. A language model keeps its normaliser and vocabulary, but splits words as
    the parsers do: their trees have these words.

    Raises:
        InputError: for a model that does not learn from trees.
    """
    trees = str(_trees(folder, "train"))
    settings: dict[str, Any] = {"run.seed": recipe.run.seed}
    if options.minutes is not None:
        settings["schedule.minutes"] = recipe.schedule.minutes
    if _learns_from_trees_alone(student):
        teachers = [parser_recipe.model for parser_recipe in runs.values()]
        teachers += [read_model(path).settings.model for path in options.also]
        text = recipe.to_dict()["text"] | {
            "focus": [trees],
            "focus_valid": [str(_trees(folder, "valid"))],
            "test": None,
        }
        marks = any(teacher.training_marks is not None for teacher in teachers)
        return with_overrides(student, settings | {"text": text, "model.marks": marks})
    if not student.model.supervision:
        raise InputError(
            f"--student: {student.model.name} models with these settings do not learn from trees; expected a"
            " span-parser, or a language model with model.supervision, such as transformer-trees-text"
        )
    files = {f"text.{name}": getattr(recipe.data, name) for name in ("train", "valid", "test")}
    files |= {"text.trees": trees, "text.trees_preprocessing": "none"}
    splitting = {"text.normaliser.splitting": recipe.data.normaliser.splitting}
    return with_overrides(student, settings | files | splitting)


class _ParserPlan(NamedTuple):
    """What is trained and averaged.

    Attributes:
        recipe: the recipe, limited by its share of the minutes.
        runs: the recipes of the parsers to train, by their folders.
        folders: the folders of all parsers, by name.
        groups: the indices of the parsers of each recipe or variant.
    """

    recipe: TextRecipe
    runs: dict[Path, Recipe]
    folders: dict[str, Path]
    groups: list[list[int]]


def _plan_parsers(recipe: Recipe, folder: Path, options: FocusOptions) -> _ParserPlan:
    """Return the parsers to train and to average.

    Raises:
        InputError: for a recipe without text, fewer than two parsers, one twice, and models that do not parse.
    """
    name = recipe.model.name
    model_type = MODELS[name]
    parses = model_type.has(ParsesSentences)
    if recipe.model.tree_loss == "states":  # these parse only if they learn from trees
        parses = recipe.model.supervision > 0
    if not isinstance(recipe, TextRecipe) or not parses or model_type.has(LearnsFromTrees):
        fault = "learn from the trees of others" if model_type.has(LearnsFromTrees) else "do not parse"
        raise InputError(
            f"model.name: {name} models {fault}; expected a parser that is trained on text, such as simple-pcfg"
        )
    if options.variant_seeds is not None and not options.variants:
        raise InputError("--variant-seeds: found without --variant; expected both, or neither")
    seeds_per_variant = options.seeds if options.variant_seeds is None else options.variant_seeds
    count = options.seeds + seeds_per_variant * len(options.variants)
    if count + len(options.also) < 2:
        raise InputError(
            f"found {amount(count + len(options.also), 'parser')}; expected two or more. Use --seeds 2 or more, or"
            " --also MODEL"
        )
    if options.minutes is not None:
        learners = recipe.model.is_focusable + (options.student is not None)
        rounds = math.ceil(count / options.jobs) + math.ceil(learners / options.jobs)
        schedule = replace(recipe.schedule, minutes=options.minutes * _TRAINING / rounds)
        recipe = replace(recipe, schedule=schedule)
    recipe_by_prefix: dict[str, Recipe] = {"": recipe}
    first_seed = {"run.seed": recipe.run.seed}
    for number, overrides in enumerate(options.variants, 1):
        variant = with_overrides(recipe, overrides)
        if changed := [name for name in ("text.train", "text.valid") if name in dict(overrides)]:
            raise InputError(
                f"--variant: found {changed[0]}; expected other settings, because variants are trained on the texts of"
                " the recipe"
            )
        if with_overrides(variant, first_seed) in [
            with_overrides(earlier, first_seed) for earlier in recipe_by_prefix.values()
        ]:
            raise InputError(
                f"--variant: variant {number} has the same settings as the recipe or another variant; expected settings"
                " that differ"
            )
        recipe_by_prefix[f"variant-{number}-"] = variant
    runs: dict[Path, Recipe] = {
        folder / "parsers" / f"{kind}{name}": seed_recipe
        for kind, same_kind in recipe_by_prefix.items()
        for name, seed_recipe in seeded(same_kind, seeds_per_variant if kind else options.seeds).items()
    }
    paths = [*runs, *map(Path, options.also)]
    folders = [Path(os.path.abspath(path)) for path in paths]
    if twice := repeated_file(map(find_model, paths)):
        raise InputError(f"--also: found {os.path.abspath(twice[0])} twice; expected each parser once")
    names = [path.name for path in folders[:count]]
    short = Counter(path.name for path in folders)
    for given, place in zip(options.also, folders[count:], strict=True):
        name = place.name if short[place.name] == 1 else str(given)
        names.append(str(place) if name in names else name)
    for path in options.also:
        read_model(path).require(ParsesSentences, f"focusing on the trees of {path}")

    # The runs are in order: first the seeds of the recipe, then those of each variant.
    sizes = [options.seeds, *[seeds_per_variant] * len(options.variants)]
    groups = [list(range(end - size, end)) for size, end in zip(sizes, accumulate(sizes), strict=True) if size]
    if not options.variants:  # other models are compared with the seeds
        groups = [list(range(len(paths)))]
    return _ParserPlan(recipe, runs, dict(zip(names, paths, strict=True)), groups)


def _write_average(bundles: Sequence[ModelBundle], folder: Path, say: Callable[[str], None]) -> Path | None:
    """Write the average of parsers as one model, if a combination can have them and they read text in the same way."""
    if any(bundle.name not in PARSER_TYPES or bundle.normaliser != bundles[0].normaliser for bundle in bundles):
        say(f"{folder}: not written, because not all parsers are PCFGs or span parsers that read text in the same way")
        return None
    remove_unfinished(folder.parent)
    if folder.exists():
        shutil.rmtree(folder)
    write_model(folder, combine(bundles))
    return folder


def _write_trees(
    parsers: Sequence[Path], bundles: Sequence[ModelBundle], text: str, file: Path, say: Callable[[str], None]
) -> None:
    """Write the average trees of a text atomically, one per line with a word, over all words as written: a student may
    read words that the parsers drop. Sentences of more than `MAX_PARSED_WORDS` words get a flat tree.

    Existing trees are kept if parsers and text have not changed. Their hashes are beside the trees.
    """
    if file.exists() and _stored_origin(file) == _origin(parsers, text):
        return
    say(f"{file}: parsing {text}")
    normaliser, flat = bundles[0].parser_normaliser, 0
    lines = (line for _, line in read_sentences(text, normaliser))
    with replaced(file, stored=True) as temporary, open(temporary, "w", encoding="utf-8") as output:
        for parses in parse_text(bundles, text, ParseOptions(**AS_WRITTEN), longest=MAX_PARSED_WORDS):
            for tree, line in zip(parses.brackets(with_unread=True), lines, strict=False):
                if not tree and is_longer(line, MAX_PARSED_WORDS, normaliser):
                    words, flat = tuple(line.split()), flat + 1
                    tree = str(Tree(words, ("",) * len(words), (Constituent("X", 0, len(words)),)))
                if tree:
                    output.write(tree + "\n")
    if flat:
        say(
            f"{file}: {amount(flat, 'sentence')} of more than {MAX_PARSED_WORDS} words are not parsed and have flat"
            " trees"
        )
    write_text(to_json(_origin(parsers, text), indent=2) + "\n", file.with_suffix(".json"), stored=True)


def _stored_origin(file: Path) -> Any:
    """Return the hashes of the parsers and the text of a file of trees; None if they are missing."""
    origin = file.with_suffix(".json")
    with suppress(InputError):
        return parse_json(read_stored(origin), str(origin))
    return None


def _origin(parsers: Sequence[Path], text: str) -> dict[str, Any]:
    models = [model_hashes(find_model(path)) for path in parsers]
    return {"format": 2, "text": fingerprint({"text": text})["text"], "models": models}
