"""Evaluates a task on the batches of a loader: metrics, samples and worst items. Independent of training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from trainer import engine
from trainer.engine.sharding import Shards
from trainer.learner.measuring import Measuring, Occasion, report_folder
from trainer.learner.meters import Meter
from trainer.learner.phases import phase
from trainer.learner.plan import DataSplits
from trainer.learner.programs import evaluation_program, joined, set_mode
from trainer.learner.ranks import ALONE, Group
from trainer.learner.running import Runner
from trainer.learner.samples import write_samples
from trainer.learner.tally import Handed
from trainer.learner.task import Task
from trainer.learner.worst_items import ITEMS, WORST_ITEMS, Scoring, Search, worst_items_report
from trainer.rundir import EventSink, RunPaths, WarningEvent

if TYPE_CHECKING:
    from trainer.datasets import Loader


def _do_nothing() -> None:
    """Replaces `between` in code that other processes don't run."""


class Evaluator:
    """Evaluates the current model.

    Args:
        between: called before each batch and each image; its exceptions end the evaluation.
        paths: where samples and reports are written; None: nowhere.
    """

    def __init__(
        self,
        task: Task,
        measuring: Measuring,
        run: Runner,
        tell: EventSink,
        paths: RunPaths | None,
        between: Callable[[], None],
        shards: Shards | None = None,
        group: Group = ALONE,
    ) -> None:
        self._group = group
        self.task, self._measuring, self._run, self._tell, self._paths = task, measuring, run, tell, paths
        self._between = between
        self._limit = task.config.validate.worst_items
        has_folder = group.from_first(paths is not None)
        self._scoring = Scoring() if self._limit and has_folder else None
        self._programs = {
            meter: evaluation_program(task, meter.tally, run.compiling, self._scoring, shards)
            for meter in (measuring.valid, measuring.test)
        }

    def __call__(
        self, loader: Loader, occasion: Occasion, *, name: str, limit: int | None = None, finds_worst: bool = True
    ) -> dict[str, float]:
        """The metrics of the loader's batches (of the first `limit`). `name` is the name of the phase."""
        total = min(loader.steps_per_epoch, limit or loader.steps_per_epoch)
        meter = self._meter(occasion.split)
        program = self._programs[meter]
        with phase(name, self._tell, unit="batch") as running, loader.epoch(0) as batches:
            program.prepare()
            meter.reset()
            search = Search(self._scoring, self._limit) if self._scoring is not None and finds_worst else None

            rows = loader.batch_size // self.task.config.train.shards

            def take(handed: list[Handed], number: int, weight: np.ndarray) -> None:
                items, weights = loader.items_of(0, number), self._group.joined([weight])
                handed = joined(self._group, handed)
                if not self._group.is_first:
                    return
                weight = np.concatenate(weights)
                for first, own in zip(range(0, len(items), rows), handed, strict=True):
                    part, of_shard = own.pop(ITEMS, {}), slice(first, first + rows)
                    if search is not None:
                        search.add(part, items[of_shard], weight[of_shard])
                meter.hand_over(handed, (occasion.split, 0, number), rows)

            for number, batch in zip(range(total), batches, strict=False):
                self._between()
                weight = np.array(batch["weight"])  # so that the memory of the batch can be reused
                self._run(program, "validation step", batch, then=partial(take, number=number, weight=weight))
                running.progress(number + 1, total)
            self._run.deferred.settle()
            values = self._measuring.take(meter, occasion)
            if search is not None:
                running.progress(total, total, "images of the worst items")
                self._show_worst(search, loader, occasion)
            return values

    def rehearse(self, loader: Loader) -> None:
        """Runs the step once, to compile it."""
        program = self._programs[self._measuring.valid]
        program.prepare()
        self._run(program, "validation step", loader.batch(0, 0), then=lambda handed: None)

    def check_metrics(self, splits: DataSplits) -> None:
        """Rejects metrics that can't be computed from the predictions of the validation step.

        The step is neither compiled nor run; only the graph of one batch is built.

        Raises:
            TrainerError: with the metric's position in the config.
        """
        checked: set[Meter] = set()
        for split, loader in {"valid": splits.valid, **splits.tests()}.items():
            meter = self._meter(split)
            if loader is None or meter in checked or not meter.tally.requested:
                continue
            checked.add(meter)
            set_mode(self.task, is_training=False)
            batch = {name: engine.asarray(values) for name, values in loader.batch(0, 0).items()}
            with engine.autocast(self.task.config.train.precision):
                meter.tally.check(self.task.valid_step(batch), by=f"{type(self.task).__name__}.valid_step")

    @property
    def has_samples(self) -> bool:
        """Whether the task has samples and there is a folder for them."""
        return self._paths is not None and type(self.task).samples is not Task.samples

    def show_samples(self, loader: Loader, *, step: int) -> None:
        """Writes the task's samples of the loader's first batch."""
        assert self._paths is not None
        set_mode(self.task, is_training=False)
        batch = {name: engine.asarray(values) for name, values in loader.batch(0, 0).items()}
        with engine.per_item():
            samples = list(self.task.samples(batch))
        names = tuple(getattr(loader.dataset, "class_names", ()))
        write_samples(samples, self._paths, self._tell, step=step, split="valid", class_names=names)

    def _meter(self, split: str) -> Meter:
        return self._measuring.valid if split == "valid" else self._measuring.test

    def _show_worst(self, search: Search, loader: Loader, occasion: Occasion) -> None:
        """Writes and reports the worst items of an evaluation; the model still has the evaluated weights."""
        worst, score = search.found, self._scoring.score if self._scoring is not None else None
        if score is None or self._paths is None or not len(worst.items):
            return
        between = self._between if self._group.size == 1 else _do_nothing
        report = worst_items_report(
            worst, score, self.task, loader,
            report_folder(self._paths, occasion) / f"{occasion.prefix}{WORST_ITEMS}", self._paths.root,
            before_each=between, complain=lambda why: self._tell(WarningEvent(why)),
        )  # fmt: skip
        self._measuring.report({WORST_ITEMS: report}, occasion)
