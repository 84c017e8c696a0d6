"""The training loops: by gradient descent, and by counting (EM). They train a task: a model with its data."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import swa_utils

from syntaxlm.core.errors import InputError
from syntaxlm.core.progress import progress_bar, status
from syntaxlm.core.systems import keep_freed_memory, release_freed_memory
from syntaxlm.models.abilities import ConstrainsWeights, Loss, TrainsByCounting, TrainsByGradient
from syntaxlm.models.batches import Batch, State
from syntaxlm.models.layers import AdaptiveEmbedding
from syntaxlm.training.checkpoint import (
    Plateau,
    read_checkpoint,
    read_trainer_state,
    tensors_of_process,
    write_checkpoint,
)
from syntaxlm.training.processes import Processes
from syntaxlm.training.recipe import OptimiserSettings, TrainingSettings
from syntaxlm.training.result import CHECKPOINT, RECIPE
from syntaxlm.training.task import RunLog, Task, if_slow

TRAINING_SHARE = 0.8  # of schedule.minutes; the rest is for reading, validation and the final evaluation
_VALID_WORDS_PER_TRAINED = 0.2  # with schedule.minutes: some 3% of the time per validation
_ESTIMATE_AFTER = 5.0  # seconds of training after which its duration is estimated
_RELEASE_AFTER = 30.0  # seconds of training between releases of freed memory; one takes up to a tenth of a second
PARSER_GRADIENT_CLIP = 1.0  # of the second optimiser, as in the released program of PaLM
EXPLODED = 100.0  # a run has diverged if its loss exceeds this many times the first loss, and this many nats


class LossModule(nn.Module):
    """Computes a model's loss in the forward pass, as data parallel wrappers require, in the precision of the run."""

    def __init__(self, model: nn.Module, processes: Processes) -> None:
        super().__init__()
        self.model, self._processes = model, processes

    def forward(
        self, batch: Batch, state: State
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], tuple[int, int]]:
        with self._processes.autocast():
            loss: Loss = self.model.loss(batch, state)  # type: ignore[operator]
        penalties, state = (
            {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}
            for tensors in (loss.penalties, loss.state or {})
        )
        total = loss.total.float()
        if torch.is_grad_enabled() and not total.requires_grad and self._processes.count > 1:
            # The backward pass of all processes averages the gradients of all weights: here, they are 0.
            total = total + sum(0 * weight.float().sum() for weight in self.model.parameters())
        return total, penalties, state, (loss.count, loss.items)


def build_optimisers(model: nn.Module, settings: OptimiserSettings) -> list[torch.optim.Optimizer]:
    """Return the optimisers of a recipe: fused Adam or AdamW, or plain SGD; then Adam for a parser's weights, if asked.

    Raises:
        InputError: if the recipe has a second optimiser, and the model no weights for it.
    """
    weights = list(model.parameters())
    if settings.parser_learning_rate is None:
        return [_build_optimiser(model, weights, settings)]
    parser_weights = model.parser_weights() if isinstance(model, TrainsByGradient) else []
    if not parser_weights:
        raise InputError(
            f"optimiser.parser_learning_rate: found {settings.parser_learning_rate:g}; expected null, because this"
            " model has no weights that only score spans"
        )
    of_parser = set(map(id, parser_weights))
    others = [weight for weight in weights if id(weight) not in of_parser]
    parser = torch.optim.Adam(
        parser_weights, lr=settings.parser_learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    return [_build_optimiser(model, others, settings), parser]


def _build_optimiser(
    model: nn.Module, parameters: list[nn.Parameter], settings: OptimiserSettings
) -> torch.optim.Optimizer:
    """Return the optimiser of some of a model's parameters."""
    rate = settings.learning_rate
    decay = settings.weight_decay
    betas = (settings.beta1, settings.beta2)
    if settings.kind == "sgd":
        return torch.optim.SGD(parameters, lr=rate, weight_decay=decay)
    if settings.kind == "adam":
        return torch.optim.Adam(parameters, lr=rate, betas=betas, eps=settings.epsilon, weight_decay=decay, fused=True)
    embeddings: set[int] = set()
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            embeddings.add(id(part.weight))
        elif isinstance(part, AdaptiveEmbedding):  # its maps are matrices like others
            embeddings.update(map(id, part.bands))

    # Weight decay applies to matrices only, not to word embeddings of language models, biases and other vectors.
    decayed: list[nn.Parameter] = []
    undecayed: list[nn.Parameter] = []
    for weight in parameters:
        (decayed if weight.ndim > 1 and id(weight) not in embeddings else undecayed).append(weight)
    parts = [
        {"params": weights, "weight_decay": weight_decay}
        for weights, weight_decay in ((decayed, decay), (undecayed, 0.0))
        if weights
    ]
    return torch.optim.AdamW(parts, lr=rate, betas=betas, eps=settings.epsilon, fused=True)


def project(model: nn.Module) -> None:
    """Return weights that an update has moved to those that the model allows, if it constrains them."""
    if isinstance(model, ConstrainsWeights):
        model.project()


class WeightAverage:
    """The average of a model's parameters over optimiser steps. Buffers are not averaged.

    Attributes:
        means: averages by parameter name, tied parameters once; empty before the first step. They are not projected: a
            mean of projected weights is projected when it becomes the model's weights.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.means: dict[str, Tensor] = {}
        self._update = swa_utils.get_swa_multi_avg_fn()

    @torch.no_grad()
    def add(self, count: int) -> None:
        """Add the present weights to the average.

        Args:
            count: number of averaged steps, including this one.
        """
        weights = self._weights()
        if count == 1:
            self.means = {name: weight.clone() for name, weight in weights.items()}
        else:
            self._update(list(self.means.values()), list(weights.values()), count - 1)

    @contextmanager
    def as_weights(self) -> Iterator[None]:
        """Replace the model's weights by the average inside the context. Does nothing if there is no average."""
        own = {name: weight.clone() for name, weight in self._weights().items()} if self.means else {}
        self._put_means()
        try:
            yield
        finally:
            self._put(own)

    def begin(self) -> None:
        """Start a new average. If there is an earlier average, it becomes the model's weights."""
        self._put_means()
        self.means = {}

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.detach() for name, weight in self.model.named_parameters()}

    def _put_means(self) -> None:
        if self.means:
            self._put(self.means)
            project(self.model)

    def _put(self, values: Mapping[str, Tensor]) -> None:
        weights = self._weights()
        for name, value in values.items():
            weights[name].copy_(value)


class Loop:
    """Trains a task until the schedule ends or a stop is requested."""

    def __init__(self, task: Task, recipe: TrainingSettings, processes: Processes, log: RunLog) -> None:
        self.task = task
        self.processes = processes
        self.log = log
        self.settings = recipe.optimiser
        self.schedule = recipe.schedule
        self.run = recipe.run
        self.stop_requested = False
        self._seconds_before = 0.0  # seconds of earlier parts of the run
        self._seconds_at_release = 0.0  # of the whole run, at the last release of freed memory
        self._started = time.monotonic()  # when the run would have started without interruptions

    def request_stop(self) -> None:
        """Stop after the present batch or round, with a checkpoint."""
        self.stop_requested = True

    def _time_used(self) -> float:
        """Return the share of the time for training that has passed, of all parts of the run; 0 without a limit."""
        if self.schedule.minutes is None:
            return 0.0
        return (self._seconds_before + time.monotonic() - self.log.began) / (
            60 * self.schedule.minutes * TRAINING_SHARE
        )

    def _shared_time_used(self) -> float:
        """Return `_time_used` as a mean over all processes, which call this together and have different clocks."""
        return 0.0 if self.schedule.minutes is None else self.processes.mean(self._time_used())[0]

    def _treebank_figures(self) -> dict[str, float]:
        """Return F1 on the treebank of the recipe, for the log only: not even its time may change the training."""
        begun = time.monotonic()
        figures = self.task.treebank_figures()
        seconds = time.monotonic() - begun
        self._started += seconds
        self.log.began += seconds
        return figures

    def _record(self, cost: float, step: int, epochs: float) -> bool:
        """Record a validation after a step, and keep the weights if they are the best or the recipe keeps the last.

        Ends the run if none was better for too long. Returns whether the cost is the lowest.
        """
        trainer, schedule = self.log.trainer, self.schedule
        lowest = trainer.lowest_loss is None or cost < trainer.lowest_loss
        trainer.without_best = 0 if lowest else trainer.without_best + 1
        if lowest:
            trainer.lowest_loss = cost
        if lowest or schedule.keep == "last":
            trainer.best_loss = cost
            trainer.best_step = step
            trainer.best_epoch = epochs
            if self.processes.is_first:
                self.task.write_weights(self.log.folder)
        if schedule.stop_patience is not None and trainer.without_best >= schedule.stop_patience:
            trainer.finished = True
        return lowest


class GradientLoop(Loop):
    """Trains a model by gradient descent, with validations and checkpoints."""

    def __init__(self, task: Task, recipe: TrainingSettings, processes: Processes, log: RunLog) -> None:
        super().__init__(task, recipe, processes, log)
        self.state: State = None
        self.gradient_norm = torch.zeros(())
        self._largest_norm = torch.zeros(())  # of the gradients since it was last checked
        self._estimated = False  # whether the duration has been estimated
        self._steps_before = 0  # steps of earlier parts of the run
        self._items_since_start = 0  # items since the start, of all epochs
        self.optimisers = build_optimisers(task.model, recipe.optimiser)
        self.loss = processes.parallel(LossModule(task.model, processes))
        self.average = WeightAverage(task.model)
        # Processes have the same initial weights, but must draw different dropout masks.
        torch.manual_seed(recipe.run.seed + 1_000_003 * (1 + processes.rank))
        self.batches = task.batches(processes.rank, processes.count)
        self.epoch_batches = self.batches.count(log.trainer.epoch)

    @property
    def epochs(self) -> float:
        """The number of epochs so far, including the fraction of the present one."""
        return self.log.trainer.epoch + self.log.trainer.batch / self.epoch_batches

    def restore(self) -> None:
        """Restore the state of the checkpoint, if there is one."""
        folder = self.log.folder
        if not self.log.has_checkpoint:
            return
        if read_trainer_state(folder).averaging.began is not None:
            self._change_to_sgd()
        device = self.processes.device
        place = (self.processes.rank, self.processes.count)
        self.state, trainer, self.average.means = read_checkpoint(folder, self.task.model, self.optimisers, *place)
        self.log.trainer, self.epoch_batches = trainer, self.batches.count(trainer.epoch)
        self._seconds_before = trainer.seconds
        if trainer.valid_words is not None:
            self.task.limit_evaluation(trainer.valid_words)
        batch = next(iter(self.batches.iterate(trainer.epoch, trainer.batch)), None)
        if self.state is None or batch is None:
            return
        self.loss.eval()
        try:  # whether the model can read the next batch with the carried state
            with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
                self.loss(batch.to(device), self.state)
        except (RuntimeError, KeyError, IndexError, ValueError) as error:
            raise InputError(
                f"{folder / CHECKPOINT}: the carried state does not fit the recipe: {str(error).splitlines()[0]}. The"
                f" file is damaged, or {RECIPE} was changed."
            ) from error

    def train(self) -> None:
        """Train until the schedule ends, or until `stop_requested` is true."""
        keep_freed_memory()
        with if_slow(self._report_slow):
            self._train()

    def _train(self) -> None:
        trainer, processes = self.log.trainer, self.processes
        self._started = time.monotonic() - trainer.seconds
        self._saved, self._steps_before = time.monotonic(), trainer.steps
        while trainer.epoch < self.schedule.epochs and not trainer.finished:
            # An epoch is validated several times, at equal distances; the last time after its last batch.
            self.epoch_batches = self.batches.count(trainer.epoch)
            per_epoch = min(self.schedule.validations_per_epoch, self.epoch_batches)
            validations = {math.ceil(self.epoch_batches * part / per_epoch) for part in range(1, per_epoch + 1)}

            # A resumed epoch starts after the batches that its checkpoint has seen.
            for batch in self.batches.iterate(trainer.epoch, trainer.batch):
                self._step(batch)

                # Once in a while, validate; the checkpoint must match the weights that were just kept.
                if trainer.batch in validations:
                    self._validate()
                    self._save()

                # The schedule ends here, or the time is used: one more validation if there are new batches.
                if trainer.finished or processes.any_rank(self._time_used() > 1):
                    if trainer.loss_count:
                        self._validate()
                    trainer.finished = True
                    break

                # Ctrl-C, SIGTERM or another process asked to stop: the run can be resumed from here.
                if processes.any_rank(self.stop_requested):
                    self._save()
                    return

                # A killed run loses at most the time between two checkpoints.
                if processes.any_rank(time.monotonic() - self._saved > self.run.checkpoint_seconds):
                    self._save()
            if not trainer.finished:
                trainer.epoch += 1
                trainer.batch = 0
        trainer.finished = True
        self._save()

    def _step(self, batch: Batch) -> None:
        """Train on one batch: forward pass, backward pass, optimiser step."""
        trainer = self.log.trainer
        settings = self.settings
        processes = self.processes

        self.task.set_epoch(self.epochs)
        self._set_rate(self.task.rate_factor(batch))

        # Forward pass. A stream carries its state from batch to batch.
        self.loss.train()
        batch = batch.to(processes.device)
        total, penalties, state, (count, items) = self.loss(batch, self.state if batch.carries else None)
        self.state = state if self.batches.carries_state else None

        # Gradients are averaged over processes: dividing by the mean count gives the mean over all.
        mean_count, mean_items, mean_total = processes.mean(count, items, float(total.detach()))
        self._check_loss("the training loss", mean_total / max(1.0, mean_count))
        # Penalties are means over the tokens of a process, so that they count by its share of all tokens.
        normaliser = mean_items if settings.loss_normalisation == "sentences" else mean_count
        penalty = sum(penalties.values(), torch.zeros((), device=total.device))
        loss = total / (normaliser or 1) + penalty * (count / (mean_count or 1))

        # A loss may have no gradient: no weight of a grammar has a part in a batch of single words.
        if loss.requires_grad:
            self._update(loss)
        else:
            self.gradient_norm = torch.zeros(())
        trainer.steps += 1
        if averaged := trainer.averaging.count(trainer.steps):
            self.average.add(averaged)

        # What the log and the progress display show.
        trainer.batch += 1
        counted = round(mean_count * processes.count)
        trainer.loss_count += counted
        self._items_since_start += counted
        trainer.loss_sum += mean_total * processes.count
        trainer.seconds = time.monotonic() - self._started
        if not self._estimated and trainer.seconds - self._seconds_before > _ESTIMATE_AFTER:
            self._estimate()
        if trainer.steps % self.run.log_steps == 0:
            of_batch = {f"train_{name}": float(value.detach()) for name, value in penalties.items()}
            self._log("step", train_loss=trainer.loss_sum / max(1, trainer.loss_count), **of_batch)
        else:
            self.log.report("step", self.epoch_batches, {})
        if trainer.seconds - self._seconds_at_release > _RELEASE_AFTER:
            self._seconds_at_release = trainer.seconds
            release_freed_memory()

    def _update(self, loss: Tensor) -> None:
        """Compute the gradient of a loss and update the weights."""
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        loss.backward()
        limits = self.settings.gradient_clip, PARSER_GRADIENT_CLIP
        norms = []
        for optimiser, limit in zip(self.optimisers, limits, strict=False):
            weights = [weight for group in optimiser.param_groups for weight in group["params"]]
            norms.append(nn.utils.clip_grad_norm_(weights, limit))
            optimiser.step()
        self.gradient_norm = torch.stack(norms).norm()
        self._largest_norm = torch.maximum(self._largest_norm.to(self.gradient_norm), self.gradient_norm)
        project(self.task.model)

    def _report_slow(self) -> None:
        """Report that the first step takes long, unless it is done. Called in another thread."""
        trainer = self.log.trainer
        if trainer.steps == self._steps_before:
            steps = self.epoch_batches * (self.schedule.epochs - trainer.epoch) - trainer.batch
            parameters = sum(weight.numel() for weight in self.task.model.parameters())
            self.log.report("slow", self.epoch_batches, {"steps": steps, "parameters": parameters})

    def _estimate(self) -> None:
        """Report once how many steps, tokens and minutes the run is expected to take."""
        trainer = self.log.trainer
        self._estimated = True
        done = trainer.steps - self._steps_before
        steps = sum(self.batches.count(epoch) for epoch in range(trainer.epoch, self.schedule.epochs)) - trainer.batch
        minutes = steps * (trainer.seconds - self._seconds_before) / done / 60
        if self.schedule.minutes is not None:
            # A slow step may pass the end of the time, after which no step follows.
            minutes_left = max(0.0, self.schedule.minutes * TRAINING_SHARE * (1 - self._time_used()))
            steps = round(steps * min(1.0, minutes_left / minutes)) if minutes else 0
            minutes = min(minutes, minutes_left)
        self.log.report(
            "plan",
            self.epoch_batches,
            {"steps": steps, "count": steps * self._items_since_start // done, "minutes": minutes},
        )

    def _set_rate(self, factor: float = 1.0) -> None:
        """Set the learning rate of the next batch.

        Args:
            factor: see `Task.rate_factor`.
        """
        trainer = self.log.trainer
        settings = self.settings
        schedule = self.schedule
        averaged = settings.average_learning_rate if trainer.averaging.began is not None else None
        rate = (settings.learning_rate if averaged is None else averaged) * trainer.plateau.scale
        if schedule.decay != "none":
            left = 1 - min(1.0, max(self.epochs / schedule.epochs, self._shared_time_used()))
            left = min(1.0, left / (1 - schedule.decay_from))
            # The cosine falls from 1 to 0.1, so the last learning rate is a tenth of the first.
            rate *= left if schedule.decay == "linear" else 0.55 - 0.45 * math.cos(math.pi * left)
        rate *= min(1.0, (trainer.steps + 1) / max(1, settings.warmup_steps))  # it rises linearly during the warm-up
        for group in self.optimisers[0].param_groups:  # the rate of a parser's weights is constant
            group["lr"] = rate * factor

    def _validate(self) -> None:
        """Validate the model, keep its weights if they are the best so far, and reduce the rate on a plateau.

        If weights are averaged, the averaged ones are validated and kept.
        """
        trainer, schedule = self.log.trainer, self.schedule
        self._check_gradient()
        self._limit_evaluation()
        training_loss = trainer.loss_sum / max(1, trainer.loss_count)
        with self.average.as_weights():
            validation = self.processes.from_first(self.task.validate())
            cost = validation.cost
            self._check_loss("the validation loss", cost)
            best = self._record(cost, trainer.steps, self.epochs)
            trees = self._treebank_figures() | self.task.figures()
        fell = trainer.plateau.seen(cost if schedule.plateau_loss == "valid" else training_loss, schedule)
        averaging: dict[str, Any] = {}
        if self.settings.averages:
            averaging["averaged_steps"] = trainer.averaging.count(trainer.steps)
            averaging["averaging"] = change = trainer.averaging.seen(cost, trainer.steps, self.epochs, self.settings)
            if change == "ends":
                trainer.finished = True
            elif change is not None:
                self.average.begin()
                self._change_to_sgd()
                if self.settings.average_learning_rate is not None:
                    trainer.plateau = Plateau()
        self._set_rate()
        trainer.loss_sum, trainer.loss_count = 0.0, 0
        trainer.seconds = time.monotonic() - self._started
        figures = validation.logged | {"best": best, "rate_fell": fell}
        self._log("valid", train_loss=training_loss, **figures, **averaging, **trees)

    def _limit_evaluation(self) -> None:
        """Before the first validation of a run with a time limit, choose how much of the data is evaluated.

        The number of words is stored, so that later validations, and a resumed run, evaluate the same sentences.
        """
        trainer, minutes = self.log.trainer, self.schedule.minutes
        if minutes is None or trainer.valid_words is not None:
            return
        speed = trainer.loss_count / max(1e-9, time.monotonic() - self._started)
        trainer.valid_words = self.processes.from_first(max(1, int(60 * minutes * speed * _VALID_WORDS_PER_TRAINED)))
        self.task.limit_evaluation(trainer.valid_words)

    def _change_to_sgd(self) -> None:
        """Replace all optimisers by plain SGD of all weights, which averaged SGD uses."""
        settings = dataclasses.replace(self.settings, kind="sgd", parser_learning_rate=None)
        self.optimisers = build_optimisers(self.task.model, settings)

    def _check_gradient(self) -> None:
        """Raise InputError if the norm of a gradient was not finite; the weights must not be kept then.

        This is not checked at every step, because it waits for the device. The loss of the next step often shows it,
        but not if the gradient of a rare word's embedding was infinite.
        """
        if not math.isfinite(norm := float(self._largest_norm)):
            raise self._diverged("the norm of the gradient", norm, "a finite number")
        self._largest_norm = torch.zeros_like(self._largest_norm)

    def _check_loss(self, what: str, loss: float) -> None:
        """Raise InputError if a loss is not finite or far above the first one.

        Args:
            loss: per token or item.
        """
        trainer = self.log.trainer
        if trainer.first_loss is None and math.isfinite(loss):
            trainer.first_loss = loss
        highest = EXPLODED * max(1.0, trainer.first_loss or 0.0)
        if not loss <= highest:
            expected = f"at most {highest:.4g}, {EXPLODED:g} times the first loss" if math.isfinite(loss) else ""
            raise self._diverged(what, loss, expected or "a finite number")

    def _diverged(self, what: str, value: float, expected: str) -> InputError:
        trainer = self.log.trainer
        log = self.log
        lower = f"a lower {self.task.remedies}"
        kept = f"The weights of step {trainer.best_step} are kept. " if trainer.best_step else ""
        advice = f"{kept}Train again with {lower}" + (", into another folder." if log.resumable else ".")
        # A checkpoint of the present step contains the diverged weights.
        if log.has_checkpoint and (last := read_trainer_state(log.folder).steps) < trainer.steps:
            advice = (
                f"Earlier checkpoints are intact. To resume from step {last}, set {lower} in {log.folder / RECIPE} and"
                " resume the run; or train again, into another folder."
            )
        rate = self.optimisers[0].param_groups[0]["lr"]
        return InputError(
            f"{log.folder}: training diverged at step {trainer.steps} (epoch {trainer.epoch + 1}, learning"
            f" rate {rate:g}): {what} is {value:.4g}; expected {expected}.\n{advice}"
        )

    def _log(self, kind: str, **values: Any) -> None:
        place = {"step": self.log.trainer.steps, "epoch": round(self.epochs, 4)}
        rate = {"learning_rate": self.optimisers[0].param_groups[0]["lr"], "gradient_norm": float(self.gradient_norm)}
        self.log.write(kind, self.epoch_batches, place | values | rate)

    def _save(self) -> None:
        trainer, log = self.log.trainer, self.log
        self._saved = time.monotonic()
        trainer.seconds = time.monotonic() - self._started
        self._check_gradient()
        model = None if self.processes.is_first else self.task.model
        processes = self.processes.gathered(tensors_of_process(self.state, model))
        if self.processes.is_first and log.resumable:
            write_checkpoint(log.folder, self.task.model, self.optimisers, processes, trainer, self.average.means)


class CountingLoop(Loop):
    """Trains in rounds: each computes expected counts on all data and sets the parameters from them (EM).

    Also ends when the model needs no more rounds. Only the first process counts.
    """

    def __init__(self, task: Task, recipe: TrainingSettings, processes: Processes, log: RunLog) -> None:
        super().__init__(task, recipe, processes, log)
        self.model: TrainsByCounting = task.model

    @property
    def rounds(self) -> int:
        """The maximum number of rounds."""
        limit = self.schedule.epochs
        return limit if self.model.rounds is None else min(limit, self.model.rounds)

    @property
    def epochs(self) -> float:
        """The number of finished rounds."""
        return float(self.log.trainer.epoch)

    def restore(self) -> None:
        """Restore the state of the checkpoint, if there is one. It is written after every round."""
        if self.log.has_checkpoint:
            _, self.log.trainer, _ = read_checkpoint(self.log.folder, self.task.model)
            self._seconds_before = self.log.trainer.seconds

    def train(self) -> None:
        """Train in the first process, while the others wait."""
        self.processes.on_rank_zero(self._train)
        self.log.trainer = self.processes.from_first(self.log.trainer)

    def _train(self) -> None:
        trainer, log = self.log.trainer, self.log
        self._started = time.monotonic() - trainer.seconds
        while not trainer.finished and not self.stop_requested:
            batches = 0
            with torch.no_grad():
                for batch in progress_bar(self.task.full_pass(), "counting, batches"):
                    self.model.accumulate(batch)
                    batches += 1
                if not batches:
                    expected = "expected training text with one word or more"
                    raise InputError(f"{log.folder}: found nothing to count; {expected}")
                with status("estimating"):
                    trainer.round_figures = self.model.maximise()
            trainer.epoch += 1
            trainer.seconds = time.monotonic() - self._started
            trainer.finished = trainer.epoch >= self.rounds or self._time_used() > 1
            self._validate()
            if self.rounds > 1:
                write_checkpoint(log.folder, self.task.model, (), [tensors_of_process(None)], trainer)

    def _validate(self) -> None:
        trainer, log = self.log.trainer, self.log
        validation = self.task.validate()
        if not math.isfinite(validation.cost):
            raise InputError(
                f"{log.folder}: the {validation.criterion.name} of the validation data is {validation.cost} after round"
                f" {trainer.epoch}; expected a finite number. Earlier checkpoints are intact: resume the run from the"
                " last one with other data or settings."
            )
        best = self._record(validation.cost, trainer.epoch, self.epochs)
        place = {"step": trainer.epoch, "epoch": trainer.epoch}
        figures = trainer.round_figures | validation.logged | {"best": best} | self._treebank_figures()
        log.write("round", self.rounds, place | figures)
