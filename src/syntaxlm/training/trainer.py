"""The training program, one for every model."""

from __future__ import annotations

import dataclasses
import gc
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import yaml
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy
from torch import Tensor, nn

from syntaxlm.allocation import keep_freed_memory
from syntaxlm.batches.tokens import StreamBatches
from syntaxlm.errors import InputError
from syntaxlm.files import append_stored, read_stored_text, remove_unfinished, to_json, truncate_stored, write_text
from syntaxlm.model_io import LABELS, VOCABULARY, WEIGHTS, ModelSettings, read_model, write_settings, write_weights
from syntaxlm.models.contract import Batch, LanguageModel, State
from syntaxlm.models.registry import build_model
from syntaxlm.scoring.perplexity import Corpus, LanguageModelScore, evaluate_language_model
from syntaxlm.settings import parse_yaml
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.averaging import WeightAverage
from syntaxlm.training.checkpoint import (
    CHECKPOINT,
    Progress,
    own_tensors,
    read_checkpoint,
    read_progress,
    write_checkpoint,
)
from syntaxlm.training.data import fingerprint_texts, read_training_data
from syntaxlm.training.fingerprints import check_fingerprints, write_fingerprints
from syntaxlm.training.recipe import Recipe, recipe_from
from syntaxlm.training.result import RESULT, TrainingResult
from syntaxlm.training.run_folder import INPUTS, METRICS, RECIPE, HeldFolder, claim, held
from syntaxlm.training.schedule import Plateau, build_optimiser

for _name in ("lightning.fabric", "lightning.pytorch"):  # they tell what the recipe says
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True)
class Event:
    """What training tells whoever watches: a step, a validation, or, before all, the trees that it learns from."""

    kind: str
    progress: Progress
    batches: int  # of an epoch
    values: dict[str, Any]


ProgressCallback = Callable[[Event], None]


class _Handed:
    """Batch and state in one object that wrappers of modules pass on untouched."""

    def __init__(self, batch: Batch, state: State) -> None:
        self.batch, self.state = batch, state


class _Loss(nn.Module):
    """A model's training loss, as a module so that data parallel wrappers see one forward."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, handed: _Handed) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Returns the batch's loss in nats, penalties, and the state after it."""
        output, targets = self.model(handed.batch, handed.state), handed.batch.targets
        loss = -output.log_probs(targets).sum() if output.training_loss is None else output.training_loss(targets)
        return loss, output.penalties, output.state or {}


def train(recipe: Recipe, folder: str | Path, watcher: ProgressCallback | None = None) -> TrainingResult:
    """Trains the recipe's model into a new folder.

    Raises InputError when the folder holds a run already, or cannot be written, before anything is read.
    """
    with _processes():
        return _Run(recipe, Path(folder), watcher).begin()


def refuse_run(folder: Path) -> None:
    """Raises InputError when a folder holds a run or a model."""
    if (folder / CHECKPOINT).exists() or (folder / RECIPE).exists():
        raise InputError(f"{folder}: holds a run already. Go on with it by --resume {folder}, or name another folder.")
    if (folder / WEIGHTS).exists():
        raise InputError(f"{folder}: holds a model already. Name another folder.")


def resume(folder: str | Path, watcher: ProgressCallback | None = None) -> TrainingResult:
    """Goes on with a run from its last checkpoint, or from its start when it had none yet."""
    with _processes():
        return _Run(read_run_recipe(folder), Path(folder), watcher).go_on()


def read_run_recipe(folder: str | Path) -> Recipe:
    """The recipe that a run in a folder was started by. Raises InputError where there is none."""
    path = Path(folder) / RECIPE
    if not path.exists():
        raise InputError(f"{folder}: no run to resume: it has no {RECIPE}")
    return recipe_from(parse_yaml(read_stored_text(path), path), str(path))


def _plain(value: Any) -> Any:
    """Tuples as lists: YAML's safe form has no tuples."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


class _Run:
    def __init__(self, recipe: Recipe, folder: Path, watcher: ProgressCallback | None) -> None:
        self.recipe, self.folder = recipe, folder
        parallel = int(os.environ.get("WORLD_SIZE", "1")) > 1
        accelerator = recipe.run.accelerator
        if (accelerator == "cuda" and not torch.cuda.is_available()) or (
            accelerator == "mps" and not torch.backends.mps.is_available()
        ):
            raise InputError(f"run.accelerator: found {accelerator}; this machine has none that torch can use")
        self.fabric = Fabric(
            accelerator=accelerator,
            devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if parallel else 1,
            num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")) if parallel else 1,
            strategy=DDPStrategy(broadcast_buffers=False) if parallel else "auto",
            precision="bf16-mixed" if recipe.run.precision == "bf16-mixed" else "32-true",
        )
        self.fabric.launch()
        self.first = self.fabric.global_rank == 0
        self.watch = watcher if watcher and self.first else lambda event: None
        self.progress = Progress()
        self.state: State = None
        self.stop_asked = False
        self.epoch_batches = 1
        self.gradient_norm = torch.zeros(())
        self.counted: dict[str, Any] | None = None  # what a model that is counted tells of what it found
        self.held: HeldFolder | None = None  # of the first process, while the run is at work

    def begin(self) -> TrainingResult:
        """Trains into a new folder, which is the run's from the first moment: nothing is trained for nothing."""
        with self._holding(self._claim):
            try:
                self._prepare(new=True)
            except BaseException:  # the text cannot be read, perhaps: the folder is as it was before
                if self.held is not None:
                    self.held.abandon()
                raise
            return self._go()

    def go_on(self) -> TrainingResult:
        """Trains on from the folder's checkpoint, or from the start where there is none."""
        with self._holding(self._hold):
            self._on_rank_zero(lambda: remove_unfinished(self.folder))
            self._prepare(new=False)
            self._on_rank_zero(self._check_whole)
            if (self.folder / CHECKPOINT).exists():
                if read_progress(self.folder).averaging.began is not None:
                    self._change_to_sgd()
                model, place = self.model, (self.fabric.global_rank, self.fabric.world_size)
                self.state, self.progress = read_checkpoint(
                    self.folder, model, self.optimiser, *place, average=self.average
                )
            self._on_rank_zero(self._cut_metrics)
            return self._go()

    @contextmanager
    def _holding(self, take: Callable[[], None]) -> Iterator[None]:
        """Keeps other runs out of the folder."""
        try:
            self._on_rank_zero(take)
            yield
        finally:
            if self.held is not None:
                self.held.release()

    def _hold(self) -> None:
        self.held = held(self.folder)

    def _check_whole(self) -> None:
        """A run without a checkpoint starts anew, which must not cost weights that are there; counts are the same."""
        if (self.folder / WEIGHTS).exists() and not (self.folder / CHECKPOINT).exists() and not self.model.is_counted:
            raise InputError(
                f"{self.folder}: has {WEIGHTS} but no {CHECKPOINT}: there is nothing to go on from."
                " The model can be used as it is; train anew in another folder."
            )

    def _on_rank_zero(self, action: Callable[[], None]) -> None:
        """Does something in one process. Its InputError is raised in all, which would wait for it for ever else."""
        fault = None
        if self.first:
            try:
                action()
            except InputError as error:
                fault = str(error)
        fault = self.fabric.broadcast(fault)
        if fault is not None:
            raise InputError(fault)

    def _claim(self) -> None:
        refuse_run(self.folder)
        text = yaml.safe_dump(_plain(self.recipe.as_dict()), sort_keys=False, allow_unicode=True)
        self.held = claim(self.folder, text)

    def _go(self) -> TrainingResult:
        if self.model.is_counted:
            self._on_rank_zero(self._count)
            self.progress.epoch, self.progress.finished = 1, True
            return self._finish()
        with _on_stop_signals(self._ask_to_stop):
            if not self.progress.finished:
                if (supervision := self.material.supervision) is not None:
                    self.watch(Event("trees", self.progress, self.epoch_batches, {"supervision": supervision}))
                self._train()
        return self._finish()

    def _prepare(self, new: bool) -> None:
        """Text, vocabulary, model, optimiser; written is only what all of them let pass."""
        recipe, text = self.recipe, self.recipe.text
        self._on_rank_zero(lambda: self._fingerprint(new))
        self.material = material = read_training_data(recipe)
        for name, found in ((VOCABULARY, material.vocabulary), (LABELS, material.labels)):
            path = self.folder / name
            if not new and found is not None and path.exists() and Vocabulary.read(path) != found:
                kind = "labels" if name == LABELS else "words"
                raise InputError(f"{text.train}: its {kind} are not those of {path}: it changed since the run began")

        torch.manual_seed(recipe.run.seed)
        model = build_model(recipe.model, len(material.vocabulary))
        material.setup(model)
        self.model = self._placed(model)
        if not self.model.is_counted:
            self._prepare_steps()
        settings = ModelSettings(recipe.model, text.normaliser, recipe.batches.mode)
        self._on_rank_zero(lambda: write_settings(self.folder, settings, material.vocabulary, material.labels))

    def _fingerprint(self, new: bool) -> None:
        """Stores the hashes of the texts, or compares them with those at the start of the run."""
        found = fingerprint_texts(self.recipe)
        if new or not any(os.path.lexists(self.folder / name) for name in (INPUTS, CHECKPOINT)):
            write_fingerprints(self.folder, found)
        else:
            check_fingerprints(self.folder, found)

    def _placed(self, model: LanguageModel) -> LanguageModel:
        """A model on the device of the run; one that is counted stays on the processor."""
        return model if model.is_counted else model.to(self.fabric.device)

    def _prepare_steps(self) -> None:
        """Optimiser and batches."""
        recipe = self.recipe
        optimiser = build_optimiser(self.model, recipe.optimiser)
        self.optimiser = optimiser
        self.loss, self.wrapped_optimiser = self.fabric.setup(_Loss(self.model), optimiser)
        self.average = WeightAverage(self.model)
        # Dropout must differ between processes, though weights start the same.
        torch.manual_seed(recipe.run.seed + 1_000_003 * (1 + self.fabric.global_rank))

        place = self.fabric.global_rank, self.fabric.world_size
        self.batches = self.material.batches(recipe, self.model, *place)

    def _count(self) -> None:
        """Learns from the whole text at once."""
        began = time.monotonic()
        self.counted = self.model.count(self.material.once(self.recipe))
        write_weights(self.folder, self.model, self.material.vocabulary)
        self.progress.seconds = time.monotonic() - began

    def _epoch(self) -> Iterator[Batch]:
        """The batches of the epoch that the run is in, from its place on."""
        number, start = self.progress.epoch, self.progress.batch
        if isinstance(self.batches, StreamBatches):
            self.epoch_batches = self.batches.count(number)
            return self.batches.iterate(start, number)
        self.epoch_batches = len(self.batches.epoch(number))
        return self.batches.iterate(number, start)

    def _train(self) -> None:
        keep_freed_memory()
        progress, schedule = self.progress, self.recipe.schedule
        self._started = time.monotonic() - progress.seconds
        self._saved = time.monotonic()
        while progress.epoch < schedule.epochs:
            batches = self._epoch()
            count = self.epoch_batches
            per_epoch = min(schedule.validations_per_epoch, count)
            validations = {math.ceil(count * part / per_epoch) for part in range(1, per_epoch + 1)}
            for batch in batches:
                self._step(batch)
                if progress.batch in validations:
                    self._validate()
                    self._save()  # with the weights just kept: a run killed now goes on from them
                if progress.finished or self._any_rank(self._out_of_time()):
                    if progress.tokens:
                        self._validate()
                    progress.finished = True
                    break
                if self._any_rank(self.stop_asked):
                    self._save()
                    return
                if self._any_rank(time.monotonic() - self._saved > self.recipe.run.checkpoint_seconds):
                    self._save()
            if progress.finished:
                break
            progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.finished = True
        self._save()

    def _step(self, batch: Batch) -> None:
        """One batch: forward, backward, optimiser."""
        progress, settings = self.progress, self.recipe.optimiser
        self._set_rate(batch.targets.shape[0])
        self.loss.train()
        batch = batch.to(self.fabric.device)
        nats, penalties, state = self.loss(_Handed(batch, self.state if batch.carries else None))
        self.state = state if isinstance(self.batches, StreamBatches) else None
        # Gradients are averaged over processes: dividing by the mean number of tokens gives the mean over all.
        tokens, sentences, total = self._mean(batch.token_count(), batch.sentence_count(), float(nats.detach()))
        count = sentences if settings.loss_normalisation == "sentences" else tokens
        loss = nats / count + sum(penalties.values(), torch.zeros((), device=nats.device))
        if not math.isfinite(total):
            raise self._diverged("the training loss", total)
        self.wrapped_optimiser.zero_grad()
        self.fabric.backward(loss)
        norm = self.fabric.clip_gradients(
            self.loss, self.wrapped_optimiser, max_norm=settings.clip, error_if_nonfinite=False
        )
        assert norm is not None
        self.gradient_norm = norm
        self.wrapped_optimiser.step()
        progress.steps += 1
        if averaged := progress.averaging.count(progress.steps):
            self.average.add(averaged)
        progress.batch += 1
        progress.tokens += round(tokens * self.fabric.world_size)
        progress.nats += total * self.fabric.world_size
        progress.seconds = time.monotonic() - self._started
        if progress.steps % self.recipe.run.log_steps == 0:
            self._log("step", train_loss=progress.nats / progress.tokens)
        else:
            self.watch(Event("step", progress, self.epoch_batches, {}))

    def _set_rate(self, steps: int | None = None) -> None:
        """The learning rate of the next batch; steps: its length, which counts where lengths are drawn."""
        progress, recipe = self.progress, self.recipe
        rate = progress.plateau.rate(progress.averaging.rate(recipe.optimiser), self._epochs(), recipe.schedule)
        if recipe.batches.variable_bptt and steps is not None:
            rate *= steps / recipe.batches.bptt
        for group in self.optimiser.param_groups:
            group["lr"] = rate

    def _epochs(self) -> float:
        """How many have passed."""
        return self.progress.epoch + self.progress.batch / self.epoch_batches

    def _check_gradient(self) -> None:
        """Raises InputError when the weights took a gradient without bounds: they must not be kept.

        Not at every step, where it would wait for the device: the next step's loss would tell.
        """
        if not math.isfinite(norm := float(self.gradient_norm)):
            raise self._diverged("the gradient's norm", norm)

    def _diverged(self, what: str, value: float) -> InputError:
        progress = self.progress
        return InputError(
            f"{self.folder}: {what} is {value} at step {progress.steps}, epoch {progress.epoch + 1}."
            " What was saved before is whole. Try a lower optimiser.learning_rate."
        )

    def _validate(self) -> None:
        """Loss on the validation text; the best weights so far are kept; the rate falls on a plateau.

        Once weights are averaged, the averaged ones are measured and kept.
        """
        progress, schedule = self.progress, self.recipe.schedule
        self._check_gradient()
        training_loss = progress.nats / max(1, progress.tokens)
        with self.average.as_weights():
            loss = self.fabric.broadcast(self._score(self.model, self.material.valid).loss)
            if not math.isfinite(loss):
                raise self._diverged("the validation loss", loss)
            best = progress.best_loss is None or loss < progress.best_loss
            if best:
                progress.best_loss, progress.best_step = loss, progress.steps
                if self.first:
                    write_weights(self.folder, self.model, self.material.vocabulary)
        fell = progress.plateau.seen(loss if schedule.plateau_of == "valid" else training_loss, schedule)
        averaging = self._average_on(loss) if self.recipe.optimiser.averages else {}
        trees = {} if self.material.supervision is None else {"supervised": self.material.supervision.count}
        self._set_rate()
        progress.nats, progress.tokens = 0.0, 0
        progress.seconds = time.monotonic() - self._started
        self._log(
            "valid", train_loss=training_loss, valid_loss=loss, valid_perplexity=math.exp(min(loss, 700.0)),
            best=best, rate_fell=fell, **averaging, **trees,
        )  # fmt: skip

    def _score(self, model: LanguageModel, corpus: Corpus) -> LanguageModelScore:
        return evaluate_language_model(model, corpus, self.material.vocabulary, self.recipe.batches.mode)

    def _average_on(self, loss: float) -> dict[str, Any]:
        """Averaging begins, restarts or ends the run, as the validation says. Returns what the log tells of it."""
        progress, settings = self.progress, self.recipe.optimiser
        count = progress.averaging.count(progress.steps)
        change = progress.averaging.seen(loss, progress.steps, self._epochs(), settings)
        if change == "ends":
            progress.finished = True
        elif change is not None:
            self.average.begin()
            self._change_to_sgd()
            if settings.averaged_rate is not None:
                progress.plateau = Plateau()
        return {"averaged_steps": count, "averaging": change}

    def _change_to_sgd(self) -> None:
        """Plain SGD from here on: the steps of averaged SGD."""
        self.optimiser = build_optimiser(self.model, dataclasses.replace(self.recipe.optimiser, kind="sgd"))
        self.wrapped_optimiser = self.fabric.setup_optimizers(self.optimiser)

    def _log(self, kind: str, **values: Any) -> None:
        """A line of metrics.jsonl."""
        progress = self.progress
        rate = self.optimiser.param_groups[0]["lr"]
        if self.first:
            place = {
                "event": kind,
                "step": progress.steps,
                "epoch": round(self._epochs(), 4),
            }
            line = place | values | {"learning_rate": rate, "seconds": round(progress.seconds, 1)}
            data = (to_json(line) + "\n").encode()
            append_stored(data, self.folder / METRICS)
            progress.metrics_bytes += len(data)
        self.watch(Event(kind, progress, self.epoch_batches, values))

    def _cut_metrics(self) -> None:
        """Forgets metrics of steps after the checkpoint: they will be made again."""
        if os.path.lexists(self.folder / METRICS):
            truncate_stored(self.folder / METRICS, self.progress.metrics_bytes)

    def _save(self) -> None:
        self._saved = time.monotonic()
        self.progress.seconds = time.monotonic() - self._started
        self._check_gradient()
        processes = [own_tensors(self.state)] * self.fabric.world_size
        if self.fabric.world_size > 1:
            torch.distributed.all_gather_object(processes, processes[0])
        if self.first:
            write_checkpoint(self.folder, self.model, self.optimiser, processes, self.progress, self.average)

    def _out_of_time(self) -> bool:
        minutes = self.recipe.schedule.minutes
        return minutes is not None and time.monotonic() - self._started > 60 * minutes

    def _ask_to_stop(self) -> None:
        self.stop_asked = True

    def _any_rank(self, wanted: bool) -> bool:
        """Whether any process wants it: all must turn off the loop at one step."""
        return self._mean(float(wanted))[0] > 0

    def _mean(self, *values: float) -> list[float]:
        """Of each value over the processes."""
        if self.fabric.world_size == 1:
            return list(values)
        reduced = self.fabric.all_reduce(torch.tensor(values, dtype=torch.float64), reduce_op="mean")
        assert isinstance(reduced, Tensor)
        return reduced.tolist()

    def _finish(self) -> TrainingResult:
        """Scores of the best weights, or nothing but progress when the run was stopped."""
        progress = self.progress
        if not self.model.is_counted:
            self._epoch()  # for its number of batches: a run that was finished before has not begun one
        place = self.folder, progress.steps, self._epochs(), progress.seconds
        if not progress.finished:
            return TrainingResult(*place, stopped=True)
        self.fabric.barrier()
        best = self._placed(read_model(self.folder).model)
        material = self.material
        valid = self._score(best, material.valid)
        test = None if material.test is None else self._score(best, material.test)
        averaged = progress.averaging.is_averaged(progress.best_step)
        trees = None if material.supervision is None else (material.supervision.count, len(material.train))
        result = TrainingResult(*place, valid, test, averaged=averaged, supervised=trees, counted=self.counted)
        if self.first:
            write_text(to_json(result.as_dict(), indent=2) + "\n", self.folder / RESULT, stored=True)
        return result


@contextmanager
def _processes() -> Iterator[None]:
    """Ends the group of processes that a run inside began: its threads, alive at Python's exit, may abort it."""
    distributed = torch.distributed
    begun_before = distributed.is_available() and distributed.is_initialized()
    try:
        yield
    finally:
        if distributed.is_available() and distributed.is_initialized() and not begun_before:
            gc.collect()  # the wrapped model holds the group, and hooks hold it in cycles
            distributed.destroy_process_group()


@contextmanager
def _on_stop_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Turns SIGTERM and Ctrl-C into a request; a second Ctrl-C interrupts at once. Outside the main thread: nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        ask()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
