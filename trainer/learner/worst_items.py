"""The worst items of an evaluation: found during the evaluation, then shown like the task's samples.

in the traced step      Scoring.partial(returned) → the inputs of the scores
between steps           Search.add(part, items, weight)
after the last step     Search.found → pictures by the task's `samples`, a batch of one item each, and a report
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor
from trainer.learner.samples import write_sample
from trainer.learner.task import Task
from trainer.metrics import Report
from trainer.metrics.item_scores import ItemScore, item_score
from trainer.metrics.worst_items import WorstItems

if TYPE_CHECKING:
    from trainer.datasets import Loader

ITEMS = "items"
"""The key of the inputs of the item scores in the result of an evaluation's program."""

WORST_ITEMS = "worst_items"
"""The report's name and kind."""


class Scoring:
    """The traced half; tracing the step sets `score`."""

    __slots__ = ("score",)  # hides it from the guards of a traced step, as in `Tally`

    def __init__(self) -> None:
        self.score: ItemScore | None = None

    def partial(self, returned: Any) -> dict[str, Tensor]:
        """The inputs of the scores of the batch's items; empty if the items have no scores."""
        found = item_score(returned)
        if found is None:
            return {}
        self.score, given = found
        return dict(self.score.partial(given))


class Search:
    """The search for the worst items of one evaluation."""

    def __init__(self, scoring: Scoring, limit: int) -> None:
        self._scoring, self.found = scoring, WorstItems(limit)

    def add(self, part: Mapping[str, Tensor], items: np.ndarray, weight: np.ndarray) -> None:
        """Adds a batch: the step's results, the items of its rows, and their weights, 0 for padding."""
        if not part:
            return
        assert self._scoring.score is not None
        scores = self._scoring.score.scores({name: tensor.numpy() for name, tensor in part.items()})
        counts = weight > 0
        self.found = self.found.with_more(items[counts], scores[counts])


def worst_items_report(
    worst: WorstItems,
    score: ItemScore,
    task: Task,
    loader: Loader,
    folder: Path,
    root: Path,
    *,
    before_each: Callable[[], None],
    complain: Callable[[str], None],
) -> Report:
    """The report of the worst items, with pictures as `folder/N/NAME.png` if the task has samples.

    Args:
        root: the run directory; the report's files are relative to it.
        complain: receives the reason if there are no pictures.
    """
    listed = []
    has_samples = type(task).samples is not Task.samples
    for rank, (item, value) in enumerate(zip(worst.items.tolist(), worst.scores.tolist(), strict=True)):
        entry = {"score": value, "item": item, "source": loader.dataset.source(item)}
        before_each()
        if has_samples:
            try:
                entry |= _shown(task, loader, item, folder / str(rank + 1), root)
            except Exception as error:  # the task's code, on a batch size that it may not support
                has_samples = False
                complain(f"The worst items are listed without pictures: {type(task).__name__}.samples, of a batch of "
                         f"one item, said {type(error).__name__}: {error}")  # fmt: skip
        listed.append(entry)
    return Report(WORST_ITEMS, {"score": score.name, "items": listed})


def _shown(task: Task, loader: Loader, item: int, folder: Path, root: Path) -> dict[str, Any]:
    """Writes the task's samples of one item; returns their captions and their files, relative to `root`."""
    batch = {name: engine.asarray(values) for name, values in loader.single(item).items()}
    with engine.per_item():
        samples = list(task.samples(batch))
    names = tuple(getattr(loader.dataset, "class_names", ()))
    files = [str(write_sample(sample, folder, root, names).relative_to(root)) for sample in samples]
    captions = dict.fromkeys(sample.caption for sample in samples if sample.caption)
    return {"caption": ", ".join(captions), "samples": files}
