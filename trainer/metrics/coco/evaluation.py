"""COCO evaluation: average precision and recall of boxes, masks and keypoints, equal to pycocotools bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from trainer.metrics.coco.columns import Detections, Floats, Integers, Kind, Scene, Truths
from trainer.metrics.coco.groups import grouped
from trainer.metrics.coco.matching import match
from trainer.metrics.coco.overlaps import Progress, candidates
from trainer.metrics.coco.precision import Curves, curves
from trainer.metrics.coco.settings import Settings, settings_of

Evaluator = Literal["own", "pycocotools"]

_AREA_LETTER = {"small": "s", "medium": "m", "large": "l"}


@dataclass(frozen=True)
class Row:
    """One line of the summary: average precision or recall at one threshold or over all, in one area range."""

    is_precision: bool
    area: str
    limit: int
    threshold: float | None = None

    @property
    def name(self) -> str:
        """The name in COCO's style: AP, AP50, APs, AR1, …"""
        kind = "AP" if self.is_precision else "AR"
        if self.threshold is not None:
            return f"{kind}{round(100 * self.threshold)}"
        return kind + _AREA_LETTER.get(self.area, "")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of an evaluation, and the metrics derived from it.

    Args:
        scene: the images and categories.
        settings: the settings of the evaluation.
        curves: precision, recall and scores.
        unknown: number of ignored detections of unknown categories.
    """

    scene: Scene
    settings: Settings
    curves: Curves
    unknown: int = 0

    @cached_property
    def stats(self) -> dict[str, float]:
        """The 12 metrics by name (10 for keypoints) in pycocotools' order; -1 if undefined."""
        return {name: self._value(row) for name, row in self._rows()}

    @property
    def names(self) -> tuple[str, ...]:
        return self.scene.names if self.settings.use_categories else ("all",)

    def lines(self) -> list[str]:
        """The summary as pycocotools prints it."""
        first, last = self.settings.iou_thresholds[0], self.settings.iou_thresholds[-1]
        lines = []
        for name, row in self._rows():
            title = "Average Precision  (AP)" if row.is_precision else "Average Recall     (AR)"
            iou = f"{first:.2f}:{last:.2f}" if row.threshold is None else f"{row.threshold:.2f}"
            lines.append(
                f" {title} @[ IoU={iou:<9} | area={row.area:>6s} | maxDets={row.limit:>3d} ] = {self.stats[name]:0.3f}"
            )
        return lines

    def per_class(self) -> list[dict[str, float | int | str]]:
        """A row for each category: truths, AP, AP50, AP75, APs, APm, APl, AR and so on at the highest limit.

        A value is -1 if the category has no truth in the area range.
        """
        highest = self.settings.limits[-1]
        rows = [(name, row) for name, row in self._rows() if row.limit == highest]
        # AR100 (AR at the highest limit) is named AR here: a category has only this one.
        table: list[dict[str, float | int | str]] = []
        for index, label in enumerate(self.names):
            figures = {_without_limit(name, row): self._value(row, index) for name, row in rows}
            table.append({"name": label, "truths": int(self.curves.truths[index, 0]), **figures})
        return table

    def precision_recall(self, threshold: float = 0.5) -> dict[str, dict[str, list[float]]]:
        """For each category with truths: recalls, maximum precisions at that recall or above, and scores that reach it.

        Uses the first area range (all) and the highest limit.
        """
        at = self._threshold(threshold)[0]
        return {
            name: {
                "recall": list(self.settings.recall_thresholds),
                "precision": self.curves.precision[at, :, index, 0, -1].tolist(),
                "score": self.curves.scores[at, :, index, 0, -1].tolist(),
            }
            for index, name in enumerate(self.names)
            if self.curves.truths[index, 0] > 0
        }

    def as_json(self) -> dict[str, Any]:
        """The evaluation as plain data: metrics, the table of categories, and curves at IoU thresholds 0.5 and 0.75."""
        return {
            "objects": self.settings.kind,
            "stats": self.stats,
            "classes": self.per_class(),
            "curves": {str(at): self.precision_recall(at) for at in (0.5, 0.75) if len(self._threshold(at))},
            "unknown_categories": self.unknown,
        }

    def _rows(self) -> list[tuple[str, Row]]:
        limits, areas = self.settings.limits, [name for name, _ in self.settings.areas]
        rows = []
        for is_precision in (True, False):
            rows.append(Row(is_precision, areas[0], limits[-1]))
            if is_precision or self.settings.kind == "keypoints":
                rows += [Row(is_precision, areas[0], limits[-1], threshold) for threshold in (0.5, 0.75)
                         if len(self._threshold(threshold))]  # fmt: skip
            rows += [Row(is_precision, area, limits[-1]) for area in areas[1:]]
        if len(limits) > 1:
            first = next(index for index, row in enumerate(rows) if not row.is_precision)
            rows[first:first] = [Row(False, areas[0], limit) for limit in limits[:-1]]
        several = len(limits) > 1
        return [(f"AR{row.limit}" if several and row.name == "AR" else row.name, row) for row in rows]

    def _value(self, row: Row, category: int | None = None) -> float:
        """The mean of the defined values, or -1. Their order is pycocotools', which determines the last bits."""
        area = [name for name, _ in self.settings.areas].index(row.area)
        table = self.curves.precision if row.is_precision else self.curves.recall
        values: Floats = table[..., area, self.settings.limits.index(row.limit)]
        if row.threshold is not None:
            values = values[self._threshold(row.threshold)]
        if category is not None:
            values = values[..., category]
        values = values[values > -1]
        return float(np.mean(values)) if len(values) else -1.0

    def _threshold(self, threshold: float) -> Integers:
        return np.flatnonzero(np.asarray(self.settings.iou_thresholds) == threshold)


def _without_limit(name: str, row: Row) -> str:
    return "AR" if name == f"AR{row.limit}" and row.threshold is None else name


def evaluate(
    scene: Scene,
    truths: Truths,
    detections: Detections,
    *,
    kind: Kind = "bbox",
    use_categories: bool = True,
    settings: Settings | None = None,
    evaluator: Evaluator = "own",
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluates the detections of some images.

    Args:
        settings: replace COCO's own settings for this kind.
        evaluator: `pycocotools` runs pycocotools instead of the code here: slower, with the same results.
        progress: receives the number of detections done and the total.

    Raises:
        TrainerError: an image is not in `scene`, or a column is missing or has the wrong shape.
    """
    settings = settings or settings_of(kind, use_categories=use_categories)
    unknown = int((~np.isin(detections.category, scene.categories)).sum())
    if evaluator == "pycocotools":
        from trainer.metrics.coco.pycocotools import evaluated

        return Evaluation(scene, settings, evaluated(scene, truths, detections, settings), unknown)
    data = grouped(scene, truths, detections, settings)
    matches = match(data, candidates(data, settings, progress), settings)
    return Evaluation(scene, settings, curves(data, matches, settings), unknown)
