"""Error scores of single items, which select the worst items of an evaluation.

Metrics describe a whole split; these scores describe one item, higher is worse. A table selects the score from what the
step returns; a step can override it with the role `item_loss`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from trainer import engine
from trainer.engine import Tensor, float32, float64
from trainer.metrics.classes import examples
from trainer.metrics.coco import Kind
from trainer.metrics.detection import CocoFigures
from trainer.metrics.errors import difference
from trainer.metrics.log_loss import log_losses
from trainer.metrics.metric import WEIGHT, Part
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Mean

ITEM_LOSS = "item_loss"


class ItemScore:
    """Base class: `partial` runs inside the traced step, `scores` on its result as arrays.

    Attributes:
        name: display name of the score.
        needs: the required roles; alternatives as "logits|scores".
    """

    name: ClassVar[str]
    needs: tuple[str, ...]

    def fits(self, given: Predictions) -> bool:
        """Whether this score can be computed from a step's results."""
        return given.has(self.needs)

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        """The inputs of the scores; the batch's rows are the first axis of each."""
        raise NotImplementedError

    def scores(self, part: Part) -> np.ndarray:
        """The score of each row, float64 [B]; higher is worse."""
        raise NotImplementedError


class OwnLoss(ItemScore):
    """The step's own score, or the row means of the `Mean` that is its loss."""

    name, needs = "loss", (ITEM_LOSS,)

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        return {"loss": _mean_of_rows(given[ITEM_LOSS])}

    def scores(self, part: Part) -> np.ndarray:
        return part["loss"].astype(np.float64)


class MissedPrecision(ItemScore):
    """1 - AP50 of detected boxes or masks by COCO's rules, for each image separately.

    For an image without objects, the highest score of a detection.

    Args:
        kind: `bbox` or `segm`.
    """

    name = "1 - AP50"

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.needs = tuple(name for name in CocoFigures(kind).needs if name != "image_id")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        return {name: given[name] for name in (*self.needs, "crowd") if name in given}

    def scores(self, part: Part) -> np.ndarray:
        rows = len(part["classes"])
        surest = part["scores"].max(axis=1, initial=0.0, where=part["classes"] >= 0).astype(np.float64)
        if not (part["true_classes"] >= 0).any():
            return surest
        # Each class of each image is a separate class: one evaluation gives the precision of all of them.
        classes = 1 + int(max(part["classes"].max(initial=0), part["true_classes"].max()))
        first = classes * np.arange(rows)[:, None]
        own = {name: np.where(part[name] >= 0, first + part[name], -1) for name in ("classes", "true_classes")}
        alone = {**part, **own, "image_id": np.arange(rows), WEIGHT: np.ones(rows)}
        figures = CocoFigures(self._kind)
        all_areas = figures.settings.areas[:1]
        figures.settings = replace(figures.settings, iou_thresholds=(0.5,), areas=all_areas, limits=(100,))
        measured = figures.evaluated(figures.fold({}, alone))
        precision = measured.curves.precision[0, :, :, 0, 0].mean(axis=0)
        is_measured = precision > -1
        row = np.array(measured.scene.categories)[is_measured] // classes
        counts = np.bincount(row, minlength=rows)
        sums = np.bincount(row, weights=precision[is_measured], minlength=rows)
        return np.where(counts > 0, 1 - sums / np.maximum(counts, 1), surest)


class MissedOverlap(ItemScore):
    """1 - mean IoU of an image's pixels, over the target and predicted classes; for binary tasks, IoU of class 1.

    Ignored pixels (-1, and 255 unless that is a class) are left out.
    """

    name, needs = "1 - mean IoU", ("logits|scores", "labels")

    def fits(self, given: Predictions) -> bool:
        return super().fits(given) and given["labels"].ndim > 2

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given)
        labels, classes = found.labels, found.numbers
        assert labels is not None
        chosen = engine.squeeze(found.over(0.5), axis=1) if found.is_binary else found.best()
        chosen = chosen.astype(labels.dtype)
        counts = ((labels >= 0) & (labels < classes)).astype(float32)
        is_right = engine.where(chosen == labels, counts, engine.zeros_like(counts))
        first = 1 if found.is_binary else 0
        return {
            "both": engine.bincount(labels, length=classes, weights=is_right)[:, first:],
            "right": engine.bincount(labels, length=classes, weights=counts)[:, first:],
            "chosen": engine.bincount(chosen, length=classes, weights=counts)[:, first:],
        }

    def scores(self, part: Part) -> np.ndarray:
        both = part["both"].astype(np.float64)
        either = part["right"].astype(np.float64) + part["chosen"] - both
        is_there = either > 0
        overlaps = np.divide(both, either, out=np.zeros_like(both), where=is_there)
        return np.where(is_there.any(axis=1), 1 - overlaps.sum(axis=1) / np.maximum(is_there.sum(axis=1), 1), 0.0)


class LogLossOfItems(ItemScore):
    """-log p of the target class, in nats; averaged for multi-label examples and texts."""

    name, needs = "log loss", ("logits|scores", "labels|labels_hot")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given)
        losses = log_losses(found)
        is_counted = engine.full_like(losses, 1.0) > 0 if found.labels is None else found.labels >= 0
        counts = is_counted.astype(float64)
        losses = engine.where(is_counted, losses, engine.zeros_like(losses))
        return {"sum": engine.sum(losses, axis=1), "count": engine.sum(counts, axis=1)}

    def scores(self, part: Part) -> np.ndarray:
        return np.asarray(part["sum"] / np.maximum(part["count"], 1))


class AbsoluteErrorOfItems(ItemScore):
    """The mean of |predicted - target|."""

    name, needs = "mean absolute error", ("predicted", "target")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        return {"error": _mean_of_rows(engine.abs(difference(given)))}

    def scores(self, part: Part) -> np.ndarray:
        return np.asarray(part["error"])


ITEM_SCORES: tuple[ItemScore, ...] = (
    OwnLoss(), MissedPrecision("bbox"), MissedPrecision("segm"), MissedOverlap(), LogLossOfItems(),
    AbsoluteErrorOfItems(),
)  # fmt: skip
"""Item scores in order; the first one that fits is used."""


def item_score(returned: Mapping[str, Any]) -> tuple[ItemScore, Predictions] | None:
    """The item score for a step's results, and its inputs; None if no result describes single items.

    Predictions come first, then a `Mean` with a value per row: "loss", or the first.
    """
    given = [one for one in returned.values() if isinstance(one, Predictions)]
    for score in ITEM_SCORES:
        for one in given:
            if score.fits(one):
                return score, one
    means = {name: one.rows for name, one in returned.items() if isinstance(one, Mean) and one.rows is not None}
    rows = means.get("loss", next(iter(means.values()), None))
    return None if rows is None else (OwnLoss(), Predictions(item_loss=rows))


def _mean_of_rows(values: Tensor) -> Tensor:
    """float64 [B]."""
    return engine.mean(engine.reshape(values.astype(float64), (values.shape[0], -1)), axis=1)
