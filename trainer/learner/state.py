"""The training state: everything that the next step depends on, saved in checkpoints and restored by a resume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import TrainerError
from trainer.engine import State, int64
from trainer.engine.nn import RandomState
from trainer.learner.checkpoints import STATE, checkpoint_folder, read_checkpoint, read_newest, restore
from trainer.learner.deferred_actions import Read, Snapshot
from trainer.learner.ema import Ema
from trainer.learner.measuring import Measuring
from trainer.learner.precision import LossScale
from trainer.learner.progress import Progress
from trainer.learner.task import Task, facts_of, model_states, parts_of, states_within_step, training_states
from trainer.rundir import EventSink, WarningEvent

if TYPE_CHECKING:
    from trainer.learner.plan import DataSplits, Plan


class TrainingState:
    """The states of a task's parts and of the loop, and the progress of the training.

    Attributes:
        parts: the task's modules, optimizers and states.
        progress: the progress. metrics: the latest value of each metric, by "split/name".
        random: the random numbers of layers. number: the step number, as the traced step reads it.
        loss_scale, ema: for float16 and for averaged weights; None if the config has none.
    """

    def __init__(self, task: Task, splits: DataSplits, plan: Plan, measuring: Measuring, tell: EventSink) -> None:
        config = self._config = task.config
        self._task, self._splits = task, splits
        self._plan, self._measuring, self._tell = plan, measuring, tell
        self.parts = parts_of(task)
        self.progress, self.metrics = Progress(), dict[str, float]()
        self.ema = None if config.train.ema is None else Ema(config.train.ema, model_states(self.parts))
        self.random = RandomState(config.seed)
        self.loss_scale = LossScale.for_config(config.train)
        self.number = State(np.zeros((), np.int64), "step", int64)

    def groups(self) -> dict[str, dict[str, State]]:
        """All states, by checkpoint file."""
        training = training_states(self.parts)
        training[self.random.counter.name] = self.random.counter
        training.update(self._measuring.train.tally.named_states())
        if self.loss_scale is not None and self.loss_scale.is_dynamic:
            training.update(self.loss_scale.named_states())
        groups = {"model": model_states(self.parts), "training": training}
        if self.progress.micro_batch:
            training.update(states_within_step(self.parts))
        if self.ema is not None:
            training[self.ema.steps.name] = self.ema.steps
            groups["ema"] = self.ema.averages
        return groups

    def states_elsewhere(self) -> set[str]:
        """The names of the training states that other processes keep (`train.shard_optimizer`)."""
        optimizers = self.parts.optimizers.items()
        return {f"{prefix}.{name}" for prefix, optimizer in optimizers for name in optimizer.states_elsewhere()}

    def own_share(self) -> Iterator[tuple[str, np.ndarray]]:
        """The states of optimizers that this process alone keeps, by name."""
        for prefix, optimizer in self.parts.optimizers.items():
            for name, moments in optimizer.moments.items():
                for moment, state in moments.items():
                    yield f"{prefix}.{name}.{moment}", state.numpy().copy()

    def described(self, progress: Progress) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        """The remaining dependencies of the step after `progress`: for JSON, and arrays by file stem and name."""
        meter = self._measuring.train
        state = progress.to_json(self._config, self._plan, meter.tally.describe(), self.metrics)
        if self._measuring.is_pending(progress.validated_step):  # its pending metrics would be lost otherwise
            state["validated_step"] = -1
        state["facts"] = facts_of(self._task, self._splits)
        return state, {"metrics": meter.folded()}

    def snapshot(self) -> Snapshot:
        """The values that logs and guards read."""
        scale = [] if self.loss_scale is None else [self.loss_scale.factor]
        skipped = [one.skipped_steps for one in self.parts.optimizers.values()]
        return Snapshot([*self._measuring.train.tally.named_states().values(), *skipped, *scale])

    def skipped_steps(self, read: Read = State.numpy) -> int:
        """Number of steps skipped so far because of non-finite gradients."""
        return max((int(read(one.skipped_steps)) for one in self.parts.optimizers.values()), default=0)

    def scaling(self, read: Read) -> dict[str, float]:
        """The loss scale and the number of steps it skipped, by their metric names."""
        if self.loss_scale is None or not self.loss_scale.is_dynamic:
            return {}
        return {"loss_scale": float(read(self.loss_scale.factor)), "skipped_steps": self.skipped_steps(read)}

    def take_up(self, place: Path, *, is_forced: bool) -> Path:
        """Restores a checkpoint, or the latest one of a run directory; returns its folder.

        Args:
            is_forced: restore it even if data position, seed or numerics differ.

        Raises:
            TrainerError: there is no checkpoint, it is damaged, or it doesn't match the config.
        """
        folder, checkpoint = read_newest(place, lambda message: self._tell(WarningEvent(message)))
        try:
            self.progress = Progress.from_json(
                checkpoint.state, self._config, self._plan, self._tell, where=str(folder), is_forced=is_forced
            )
            self.metrics.update({name: float(value) for name, value in checkpoint.state["metrics"].items()})
            self._measuring.train.tally.prepare(checkpoint.state["sums"])
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:  # its hash is correct: it was written this way
            raise TrainerError("invalid state of a training", where=str(folder / STATE),
                               found=f"{type(error).__name__}: {error}"[:200]) from error  # fmt: skip
        folded = checkpoint.arrays.get("metrics", {})
        self._measuring.train.keep({name: array.values for name, array in folded.items()})
        elsewhere = self.states_elsewhere()
        if not elsewhere <= checkpoint.arrays["training"].keys():
            raise TrainerError(
                "the checkpoint belongs to another model", where=str(folder),
                found=f"no {min(elsewhere - checkpoint.arrays['training'].keys())}",
            )  # fmt: skip
        for name in elsewhere:
            del checkpoint.arrays["training"][name]
        restore(checkpoint, self.groups(), where=str(folder))
        self.number.set_value(np.asarray(self.progress.step))
        self.lower_learning_rates()
        return folder

    def take_weights(self, place: Path) -> None:
        """Restores only the weights of a checkpoint."""
        folder = checkpoint_folder(place)
        groups = {stem: group for stem, group in self.groups().items() if stem != "training"}
        restore(read_checkpoint(folder), groups, where=str(folder))

    def lower_learning_rates(self) -> None:
        """Sets the learning-rate factor for the rollbacks so far."""
        scale = np.asarray(self._config.train.rollback_factor**self.progress.rollbacks)
        for optimizer in self.parts.optimizers.values():
            for rate in optimizer.learning_rates().values():
                rate.scale.set_value(scale)
