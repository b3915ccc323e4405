"""Evaluates the weights of a checkpoint on a split of a data set, without changing its run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError, engine
from trainer.datasets import Subset
from trainer.learner.device import device_for
from trainer.learner.evaluating import Evaluator
from trainer.learner.inference.restoring import built, load_weights, uses_averages
from trainer.learner.measuring import Measuring, Occasion
from trainer.learner.plan import DataSplits
from trainer.learner.running import Runner
from trainer.learner.task import LEARNED, Task, take_facts
from trainer.learner.worst_items import WORST_ITEMS
from trainer.rundir import Event, ReportEvent, RunPaths, write_error

if TYPE_CHECKING:
    from trainer.datasets import Dataset, Loader

Tell = Callable[[Event], None]

TRAIN, VALID = "train", "valid"


def _tell_nobody(event: Event) -> None:
    del event


@dataclass(frozen=True)
class WorstItem:
    """One of the worst items of an evaluation.

    Attributes:
        source: its origin; score: error score, as named by `worst_score` of the report; higher is worse.
        caption: the task's caption; files: its images, in the report's folder.
    """

    source: str
    score: float
    caption: str = ""
    files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class EvaluationReport:
    """The result of an evaluation.

    Attributes:
        split: the evaluated split; items: its number of items.
        metrics: by name, as in the run, without the split: "loss", "coco/AP".
        reports: tables, curves and matrices by name, as in a run directory.
        folder: folder of reports and images; a temporary one is deleted with this object.
    """

    split: str
    items: int
    metrics: Mapping[str, float]
    reports: Mapping[str, Mapping[str, Any]]
    folder: Path
    _kept: Any = field(default=None, repr=False)

    @property
    def worst_score(self) -> str | None:
        """The score that orders the worst items."""
        found = self.reports.get(WORST_ITEMS)
        return None if found is None else str(found["score"])

    def worst(self, count: int | None = None) -> list[WorstItem]:
        """The items with the worst scores, the worst first; at most `validate.worst_items` of them."""
        listed = self.reports.get(WORST_ITEMS, {"items": []})["items"]
        return [
            WorstItem(
                one["source"], float(one["score"]), one.get("caption", ""),
                tuple(self.folder / name for name in one.get("samples", ())),
            )
            for one in listed[:count]
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """All results as JSON types."""
        return {"version": 1, "split": self.split, "items": self.items, "metrics": dict(self.metrics),
                "reports": dict(self.reports)}  # fmt: skip

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"<evaluation of {self.items} items of {self.split}: {numbers}>"


def evaluate_on(
    task: Task,
    folder: Path | None,
    state: Mapping[str, Any],
    *,
    split: str,
    report: Path | None = None,
    tell: Tell = _tell_nobody,
) -> EvaluationReport:
    """Evaluates a checkpoint's weights on a split of the config's data.

    Args:
        task: a new task with the config of the evaluation.
        folder, state: the checkpoint and its state without arrays; None: the task already has its weights.
        split: train, valid, test, or another that the reader finds; the transforms are those of validation.
        report: a folder for reports and images; None: a temporary one.
        tell: receives progress events.

    Raises:
        TrainerError: the split does not exist, or the data doesn't fit the model.
    """
    kept = tempfile.TemporaryDirectory(prefix="trainer-evaluation-") if report is None else None
    place = Path(kept.name) if kept is not None else report
    assert place is not None
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(place, error) from error
    report_events: list[ReportEvent] = []

    def receive(event: Event) -> None:
        if isinstance(event, ReportEvent):
            report_events.append(event)
        tell(event)

    with engine.device(device_for(task.config)):
        loader, splits = _loader(task, split, state["facts"])
        try:
            names = tuple(getattr(loader.dataset, "class_names", ()))
            built(task, state)
            if folder is not None:
                load_weights(task, folder, is_averaged=uses_averages(task.config))
            paths = RunPaths(place)
            measuring = Measuring(task.config, receive, paths)
            try:
                measuring.name_classes(names)
                run = Runner(task.config, receive, lambda: None)
                evaluator = Evaluator(task, measuring, run, receive, paths, lambda: None)
                late: dict[str, float] = {}
                measuring.late = late.update
                occasion = Occasion(int(state["step"]), float(state["epoch"]), split, names)
                values = evaluator(loader, occasion, name="evaluate")
                measuring.settle(wait=True)
            finally:
                measuring.close()
        finally:
            for one in splits.all():
                one.close()
    values |= {name.removeprefix(f"{split}/"): value for name, value in late.items()}
    reports = {event.name: json.loads((place / event.file).read_text(encoding="utf-8")) for event in report_events}
    return EvaluationReport(split, len(loader.dataset), values, reports, place, kept)


def _loader(task: Task, split: str, facts: Mapping[str, Any]) -> tuple[Loader, DataSplits]:
    """The loader of a split as in validation, and all created loaders.

    For tasks that read data with `read_splits`, any split can be evaluated; it replaces the validation split.
    """
    read, found = task.read_splits, dict[str, Any]()
    task.learned_settings = facts.get(LEARNED)

    def only_this(*fields: str) -> dict[str, Dataset]:
        found.update(read(*fields))
        chosen = next(iter(found.values())) if split not in found and len(found) == 1 else found.get(split)
        if chosen is None:
            raise _no_split(split, found)
        return {TRAIN: Subset(chosen, [0]), VALID: chosen}

    task.read_splits = only_this  # type: ignore[method-assign]
    try:
        splits = task.data()
    finally:
        del task.read_splits
    known = facts["task"].get("class_names")
    names = getattr(task, "class_names", known)
    if known is not None and tuple(names) != tuple(known):
        raise TrainerError(
            "the data has other classes than the model", where=str(task.config.data.root),
            found=", ".join(map(str, names[:20])), expected=f"in this order: {', '.join(map(str, known[:20]))}",
            hint="Labels are numbers: they have the same meaning only if the classes are the same.",
        )  # fmt: skip
    take_facts(task, facts)
    if found:
        assert splits.valid is not None
        return splits.valid, splits
    there = {**({} if splits.valid is None else {VALID: splits.valid}), **splits.tests()}
    if split not in there:
        raise _no_split(split, there)
    return there[split], splits


def _no_split(split: str, there: Mapping[str, Any]) -> TrainerError:
    return TrainerError("the data has no such split", found=split, expected=", ".join(there) or "any split")
