"""The two traced programs of a task: a training step, and the evaluation of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import State, Tensor
from trainer.engine.nn import Parameter, RandomState
from trainer.engine.sharding import Shards, counting, shard_count
from trainer.engine.targets import Fence
from trainer.learner.autotune import running_evaluation
from trainer.learner.ema import Ema
from trainer.learner.precision import LossScale
from trainer.learner.ranks import Group
from trainer.learner.stepping import Stepping, stepping
from trainer.learner.tally import Handed, Tally
from trainer.learner.task import Task, parts_of
from trainer.learner.worst_items import ITEMS, Scoring
from trainer.metrics import Predictions

GRADIENT_NORM = "gradient_norm"
"""The role and the name of the predictions that the loop itself adds to the output of a step."""

Progress = Callable[[int, int, str], None]
"""Receives compilation progress: done, total (0: unknown), current item."""


class Program:
    """A traced step and the mode that the task's modules need for it."""

    def __init__(self, step: engine.Traced[..., Any], task: Task, *, is_training: bool) -> None:
        self.step, self._task, self._is_training = step, task, is_training
        self._variants: set[tuple[Any, ...]] = set()
        self._frozen: tuple[str, ...] = ()

    def has_run(self, *flags: Any) -> bool:
        """Whether it has run with these flags, which means that it is compiled."""
        return (*flags, *self._frozen) in self._variants

    @property
    def fence(self) -> Fence:
        """The end of the last run."""
        return self.step.fence

    def memory(self) -> engine.MemoryReport | None:
        """The memory plan of the program compiled last; None without one."""
        try:
            return engine.memory_report(self.step)
        except TrainerError:
            return None

    def prepare(self, step: int = 0) -> None:
        """Sets the modules to their mode when `step` steps are done; call it before the first of several runs, and when
        parameters are unfrozen.
        """
        frozen = set_mode(self._task, is_training=self._is_training, step=step)
        self._frozen = (" ".join(frozen),) if frozen else ()

    def __call__(self, batch: Mapping[str, np.ndarray], *flags: Any) -> list[Handed]:
        """Runs the step on a batch; each combination of flags is a separate program. Returns the rows of
        each shard to pass on.
        """
        with running_evaluation(not self._is_training), nullcontext() if self._is_training else engine.per_item():
            handed: Any = self.step(batch, *flags, *self._frozen)
        self._variants.add((*flags, *self._frozen))
        return [handed] if self.step.shards is None else handed


def joined(group: Group, handed: Sequence[Handed]) -> list[Handed]:
    """Returns, on rank 0, the rows that the step passed on from all shards, in order; on other ranks, nothing."""
    if group.size == 1 or not any(handed):
        return list(handed)
    own = [{place: {name: _array(value) for name, value in rows.items()} for place, rows in each.items()}
           for each in handed]  # fmt: skip
    return [{place: {name: _tensor(value) for name, value in rows.items()} for place, rows in each.items()}
            for each in group.joined(own)]  # fmt: skip


def _array(value: Any) -> Any:
    return np.array(value.numpy()) if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Any:
    return engine.asarray(value) if isinstance(value, np.ndarray) else value


def train_program(
    task: Task,
    random: RandomState,
    tally: Tally,
    progress: Progress,
    number: State,
    *,
    loss_scale: LossScale | None = None,
    ema: Ema | None = None,
    shards: Shards | None = None,
) -> Program:
    """Forward, backward, update and metric sums of one batch as one program.

    Its flag states whether the batch is the last of its step; `number` counts completed steps. Unfreezing frozen
    batch norms makes it another program.
    """
    config = task.config.train

    def train_step(batch: dict[str, Tensor], is_last: bool, frozen: str = "") -> Handed:
        batch, has_rows = _never_empty(batch)
        rows = engine.sum(batch["weight"]) if "weight" in batch else None
        share = None
        if shard_count() > 1:
            share = engine.full((), 1 / shard_count())
            if rows is not None and has_rows is not None:
                own = engine.where(has_rows, rows, 0.0)
                rows = engine.shard_sum(own)
                share = own / rows
        norms: list[Tensor] | None = [] if tally.wants(GRADIENT_NORM) else None
        now = Stepping(config.accumulate, is_last, rows, loss_scale, norms, share)
        with random.step(), stepping(now), engine.autocast(config.precision):
            with counting(None if has_rows is None else has_rows.node):
                returned = task.train_step(batch)
            if now.squared_norms is not None:
                returned = {**returned, GRADIENT_NORM: _norm_of(now.squared_norms)}
            is_good = None
            if loss_scale is not None:
                is_good = loss_scale.update() if is_last else loss_scale.was_finite()
            counts = has_rows if is_good is None else is_good if has_rows is None else is_good & has_rows
            handed = tally.add(returned, number + 1, by=_name(task, "train_step"), only_if=counts)
            if is_last:
                number.assign(number + 1)
                if ema is not None:
                    ema.update()
            random.advance()
        return handed

    return Program(engine.trace(train_step, progress=progress, shards=shards), task, is_training=True)


def evaluation_program(
    task: Task, tally: Tally, progress: Progress, scoring: Scoring | None = None, shards: Shards | None = None
) -> Program:
    """Forward and metric sums of one batch as one program; changes only the sums.

    With `scoring` it also returns, as `ITEMS`, the inputs of the item scores.
    """
    config = task.config.train

    def valid_step(batch: dict[str, Tensor]) -> Handed:
        batch, has_rows = _never_empty(batch)
        with engine.autocast(config.precision), counting(None if has_rows is None else has_rows.node):
            returned = task.valid_step(batch)
        handed = tally.add(returned, tally.batches, by=_name(task, "valid_step"), only_if=has_rows)
        return handed if scoring is None else {**handed, ITEMS: scoring.partial(returned)}

    return Program(engine.trace(valid_step, progress=progress, shards=shards), task, is_training=False)


def _never_empty(batch: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor | None]:
    """The rows of a shard, and whether any row is not padding; None without shards, since a whole batch always has one.

    The mean loss of padding alone is undefined: all rows of a shard with only padding get weight 1, and its loss and
    metrics are ignored.
    """
    if shard_count() == 1 or "weight" not in batch:
        return batch, None
    weight = batch["weight"]
    has_rows = engine.any(weight > 0)
    return {**batch, "weight": engine.where(has_rows, weight, 1.0)}, has_rows


def _norm_of(squared_norms: Sequence[Tensor]) -> Predictions:
    """The norm of all gradients of a step; defined after the last micro-batch."""
    total = engine.zeros((1,))
    for squared in squared_norms:
        total = total + squared.astype(total.dtype)
    return Predictions(gradient_norm=engine.sqrt(total), weight=engine.full((1,), 1.0 if squared_norms else 0.0))


def set_mode(task: Task, *, is_training: bool, step: int = 0) -> list[str]:
    """Sets all modules of the task to training or inference mode.

    Layers with buffers, such as batch norms, whose parameters are frozen after `step` steps stay in inference mode:
    their running statistics are frozen, too. Returns their names.
    """
    parts = parts_of(task)
    optimizers = parts.optimizers.values()
    frozen = {id(parameter) for optimizer in optimizers for parameter in optimizer.target.values()}
    frozen -= {id(parameter) for optimizer in optimizers for parameter in optimizer.trained(step)}
    kept = []
    for module_name, module in parts.modules.items():
        module.train(is_training)
        for path, layer in module.named_modules() if is_training and frozen else ():
            own = [state for name, state in layer.named_states().items() if "." not in name]
            parameters = [state for state in own if isinstance(state, Parameter)]
            if 0 < len(parameters) < len(own) and all(id(parameter) in frozen for parameter in parameters):
                layer.training = False
                kept.append(f"{module_name}.{path}")
    return kept


def _name(task: Task, step: str) -> str:
    return f"{type(task).__name__}.{step}"
