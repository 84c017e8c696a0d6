"""Training by gradient descent, for language models, sentence-pair classifiers and stop classifiers."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from syntaxlm.core.errors import InputError
from syntaxlm.core.files import keep_freed_memory
from syntaxlm.models.abilities import Loss
from syntaxlm.models.batches import Batch, State
from syntaxlm.training.checkpoint import (
    CHECKPOINT,
    TrainerState,
    own_tensors,
    read_checkpoint,
    read_trainer_state,
    write_checkpoint,
)
from syntaxlm.training.optimisers import Plateau, WeightAverage, build_optimiser
from syntaxlm.training.processes import Processes
from syntaxlm.training.run_folder import RECIPE
from syntaxlm.training.run_log import RunLog
from syntaxlm.training.task import Task, TaskRecipe

EXPLODED = 100.0  # a run has diverged if its loss exceeds this many times the first loss, and this many nats


class _Handed:
    """Holds batch and state in one object, which module wrappers pass on unchanged."""

    def __init__(self, batch: Batch, state: State) -> None:
        self.batch, self.state = batch, state


class _LossModule(nn.Module):
    """Computes a model's loss in the forward pass, as data parallel wrappers require, in the precision of the run."""

    def __init__(self, model: nn.Module, processes: Processes) -> None:
        super().__init__()
        self.model, self._processes = model, processes

    def forward(self, handed: _Handed) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], tuple[int, int]]:
        with self._processes.autocast():
            loss: Loss = self.model.loss(handed.batch, handed.state)  # type: ignore[operator]
        return loss.total.float(), _in_float32(loss.penalties), _in_float32(loss.state or {}), (loss.count, loss.items)


def _in_float32(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.float() if one.is_floating_point() else one for name, one in tensors.items()}


class GradientLoop:
    """Trains a model until the schedule ends or a stop is requested, with validations and checkpoints.

    log: the folder and log of the run; without a folder, no checkpoints are written.
    """

    def __init__(self, task: Task, recipe: TaskRecipe, processes: Processes, log: RunLog) -> None:
        self.task, self.recipe, self.processes, self.log = task, recipe, processes, log
        self.state: State = None
        self.stop_requested = False
        self.gradient_norm = torch.zeros(())
        self.optimiser = build_optimiser(task.model, recipe.optimiser)
        self.loss = processes.parallel(_LossModule(task.model, processes))
        self.average = WeightAverage(task.model)
        # Processes have the same initial weights, but must draw different dropout masks.
        torch.manual_seed(recipe.run.seed + 1_000_003 * (1 + processes.rank))
        self.batches = task.batches(processes.rank, processes.count)
        self.epoch_batches = self.batches.count(self.trainer.epoch)

    @property
    def trainer(self) -> TrainerState:
        """The progress of the run."""
        return self.log.trainer

    @property
    def epochs(self) -> float:
        """The number of epochs so far, including the fraction of the present one."""
        return self.trainer.epoch + self.trainer.batch / self.epoch_batches

    def restore(self) -> None:
        """Restore the state of the checkpoint, if there is one."""
        folder = self.log.folder
        if folder is None or not (folder / CHECKPOINT).exists():
            return
        if read_trainer_state(folder).averaging.began is not None:
            self._change_to_sgd()
        place = self.processes.rank, self.processes.count
        self.state, self.log.trainer = read_checkpoint(
            folder, self.task.model, self.optimiser, *place, average=self.average
        )
        self.epoch_batches = self.batches.count(self.trainer.epoch)
        self._check_state(folder / CHECKPOINT)

    def _check_state(self, path: Path) -> None:
        """Raise InputError if the model cannot read the next batch with the carried state of a checkpoint."""
        batch = next(iter(self.batches.iterate(self.trainer.epoch, self.trainer.batch)), None)
        if self.state is None or batch is None:
            return
        device = self.processes.device
        self.loss.eval()
        try:
            with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
                self.loss(_Handed(batch.to(device), self.state))
        except (RuntimeError, KeyError, IndexError, ValueError) as error:
            raise InputError(
                f"{path}: the carried state does not fit the recipe: {str(error).splitlines()[0]}. The file is damaged,"
                f" or {RECIPE} was changed."
            ) from error

    def train(self) -> None:
        """Train until the schedule ends, or until `stop_requested` is true."""
        keep_freed_memory()
        trainer, schedule = self.trainer, self.recipe.schedule
        self._started = time.monotonic() - trainer.seconds
        self._saved = time.monotonic()
        while trainer.epoch < schedule.epochs and not trainer.finished:
            self.epoch_batches = count = self.batches.count(trainer.epoch)
            per_epoch = min(schedule.validations_per_epoch, count)
            validations = {math.ceil(count * part / per_epoch) for part in range(1, per_epoch + 1)}
            for batch in self.batches.iterate(trainer.epoch, trainer.batch):
                self._step(batch)
                if trainer.batch in validations:
                    self._validate()
                    self._save()  # the checkpoint must match the weights that were just kept
                if trainer.finished or self.processes.any_rank(self._out_of_time()):
                    if trainer.loss_count:
                        self._validate()
                    trainer.finished = True
                    break
                if self.processes.any_rank(self.stop_requested):
                    self._save()
                    return
                if self.processes.any_rank(time.monotonic() - self._saved > self.recipe.run.checkpoint_seconds):
                    self._save()
            if not trainer.finished:
                trainer.epoch, trainer.batch = trainer.epoch + 1, 0
        trainer.finished = True
        self._save()

    def _step(self, batch: Batch) -> None:
        """Train on one batch: forward pass, backward pass, optimiser step."""
        trainer, settings, processes = self.trainer, self.recipe.optimiser, self.processes
        self.task.set_epoch(self.epochs)
        self._set_rate(self.task.rate_factor(batch) * min(1.0, (trainer.steps + 1) / max(1, settings.warmup_steps)))
        self.loss.train()
        batch = batch.to(processes.device)
        total, penalties, state, (count, items) = self.loss(_Handed(batch, self.state if batch.carries else None))
        self.state = state if self.batches.carries_state else None
        # Gradients are averaged over processes: dividing by the mean count gives the mean over all.
        mean_count, mean_items, mean_total = processes.mean(count, items, float(total.detach()))
        self._check("the training loss", mean_total / max(1.0, mean_count))
        normaliser = mean_items if settings.loss_normalisation == "sentences" else mean_count
        loss = total / normaliser + sum(penalties.values(), torch.zeros((), device=total.device))
        self.optimiser.zero_grad()
        loss.backward()
        self.gradient_norm = nn.utils.clip_grad_norm_(self.task.model.parameters(), settings.gradient_clip)
        self.optimiser.step()
        trainer.steps += 1
        if averaged := trainer.averaging.count(trainer.steps):
            self.average.add(averaged)
        trainer.batch += 1
        trainer.loss_count += round(mean_count * processes.count)
        trainer.loss_sum += mean_total * processes.count
        trainer.seconds = time.monotonic() - self._started
        if trainer.steps % self.recipe.run.log_steps == 0:
            self._log("step", train_loss=trainer.loss_sum / trainer.loss_count)
        else:
            self.log.report("step", self.epoch_batches, {})

    def _set_rate(self, factor: float = 1.0) -> None:
        """Set the learning rate of the next batch.  factor: see `Task.rate_factor`."""
        trainer, recipe = self.trainer, self.recipe
        rate = trainer.plateau.rate(trainer.averaging.rate(recipe.optimiser), self.epochs, recipe.schedule)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * factor

    def _validate(self) -> None:
        """Validate the model, keeps its weights if they are the best so far, and reduces the rate on a plateau.

        If weights are averaged, the averaged ones are validated and kept.
        """
        trainer, schedule = self.trainer, self.recipe.schedule
        self._check_gradient()
        training_loss = trainer.loss_sum / max(1, trainer.loss_count)
        with self.average.as_weights():
            found = self.processes.from_first(self.task.validate())
            cost = found.cost
            self._check("the validation loss", cost)
            lowest = trainer.best_loss if trainer.lowest_loss is None else trainer.lowest_loss
            best = lowest is None or cost < lowest
            trainer.without_best = 0 if best else trainer.without_best + 1
            if best:
                trainer.lowest_loss = cost
            if best or schedule.keep == "last":
                trainer.best_loss, trainer.best_step, trainer.best_epoch = cost, trainer.steps, self.epochs
                if self.processes.is_first:
                    self.log.keep_weights(self.task)
        fell = trainer.plateau.seen(cost if schedule.plateau_loss == "valid" else training_loss, schedule)
        if schedule.stop_patience is not None and trainer.without_best >= schedule.stop_patience:
            trainer.finished = True
        averaging = self._average_on(cost) if self.recipe.optimiser.averages else {}
        self._set_rate()
        trainer.loss_sum, trainer.loss_count = 0.0, 0
        trainer.seconds = time.monotonic() - self._started
        criterion = f"{found.criterion.name}, {found.criterion.unit}"
        figures = found.figures | {"criterion": criterion, "best": best, "rate_fell": fell}
        self._log("valid", train_loss=training_loss, **figures, **averaging, **self.task.figures())

    def _average_on(self, cost: float) -> dict[str, Any]:
        """Start or restarts averaging, or ends the run, depending on the validation. Returns figures for the log."""
        trainer, settings = self.trainer, self.recipe.optimiser
        count = trainer.averaging.count(trainer.steps)
        change = trainer.averaging.seen(cost, trainer.steps, self.epochs, settings)
        if change == "ends":
            trainer.finished = True
        elif change is not None:
            self.average.begin()
            self._change_to_sgd()
            if settings.average_learning_rate is not None:
                trainer.plateau = Plateau()
        return {"averaged_steps": count, "averaging": change}

    def _change_to_sgd(self) -> None:
        """Replace the optimiser by plain SGD, which averaged SGD uses."""
        self.optimiser = build_optimiser(self.task.model, dataclasses.replace(self.recipe.optimiser, kind="sgd"))

    def _check_gradient(self) -> None:
        """Raise InputError if the norm of the last gradient is not finite; the weights must not be kept then.

        This is not checked at every step, because it waits for the device. The loss of the next step shows it, too.
        """
        if not math.isfinite(norm := float(self.gradient_norm)):
            raise self._diverged("the norm of the gradient", norm, "a finite number")

    def _check(self, what: str, loss: float) -> None:
        """Raise InputError if a loss is not finite or far above the first one.  loss: per token or item."""
        trainer = self.trainer
        if trainer.first_loss is None and math.isfinite(loss):
            trainer.first_loss = loss
        highest = EXPLODED * max(1.0, trainer.first_loss or 0.0)
        if not loss <= highest:
            expected = f"at most {highest:.4g}, {EXPLODED:g} times the first loss" if math.isfinite(loss) else ""
            raise self._diverged(what, loss, expected or "a finite number")

    def _diverged(self, what: str, value: float, expected: str) -> InputError:
        trainer, folder, task = self.trainer, self.log.folder, self.task
        lower = f"a lower {task.rate_setting}" + (f" or {task.clip_setting}" if task.clip_setting else "")
        kept = f"The weights of step {trainer.best_step} are kept. " if trainer.best_step else ""
        advice = f"{kept}Train again with {lower}" + ("." if folder is None else ", into another folder.")
        if folder is not None and (folder / CHECKPOINT).exists():
            last = read_trainer_state(folder).steps
            if last < trainer.steps:  # otherwise it contains the diverged weights
                advice = (
                    f"Earlier checkpoints are intact. To resume from step {last}, set {lower} in {folder / RECIPE} and"
                    " resume the run; or train again, into another folder."
                )
        return InputError(
            f"{folder or 'training'}: training diverged at step {trainer.steps} (epoch {trainer.epoch + 1}, learning"
            f" rate {self.optimiser.param_groups[0]['lr']:g}): {what} is {value:.4g}; expected {expected}.\n{advice}"
        )

    def _log(self, event: str, **values: Any) -> None:
        """Write a line of metrics.jsonl."""
        rate = self.optimiser.param_groups[0]["lr"]
        place = {"step": self.trainer.steps, "epoch": round(self.epochs, 4)}
        self.log.write(event, place, values, rate, self.epoch_batches)

    def _save(self) -> None:
        self._saved = time.monotonic()
        self.trainer.seconds = time.monotonic() - self._started
        self._check_gradient()
        own = self.processes.gathered(own_tensors(self.state))
        if self.processes.is_first and self.log.folder is not None:
            write_checkpoint(self.log.folder, self.task.model, self.optimiser, own, self.trainer, self.average)

    def _out_of_time(self) -> bool:
        minutes = self.recipe.schedule.minutes
        return minutes is not None and time.monotonic() - self._started > 60 * minutes
