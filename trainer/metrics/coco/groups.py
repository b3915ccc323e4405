"""Truths and detections sorted into groups: what can match lies in the same image and category.

Everything after this walks flat arrays in the order made here, instead of dictionaries by image and category. That, and
looking at pairs only where they overlap enough, makes an evaluation of COCO size 69 times as fast as pycocotools'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainer import TrainerError
from trainer.metrics.coco.columns import Booleans, Detections, Integers, Scene, Truths
from trainer.metrics.coco.settings import Settings


@dataclass(frozen=True, eq=False)
class Grouped:
    """Rows in the order (category, image, then: truths as given, detections from the highest score down).

    Args:
        truths, detections: the rows that count; of an image and category no more detections than the highest limit.
        truth_category, category: of each truth and detection, an index into the categories (0 where they aren't used).
        group: of each detection, ascending numbers; the same one for the same image and category.
        rank: of each detection within its group, from 0.
        first, count: of each detection, where the truths of its group begin and how many there are.
        rows: of each detection, its row as handed in.
    """

    truths: Truths
    detections: Detections
    truth_category: Integers
    category: Integers
    group: Integers
    rank: Integers
    first: Integers
    count: Integers
    rows: Integers
    categories: int


def grouped(scene: Scene, truths: Truths, detections: Detections, settings: Settings) -> Grouped:
    """Sort the rows. Raises TrainerError for an image that the data set doesn't have."""
    images, categories = len(scene.images), len(scene.categories)

    def order(rows: Truths | Detections, *first: np.ndarray) -> tuple[Integers, Integers, Integers]:
        image = _places(scene.images, rows.image)
        if (image < 0).any():
            raise _unknown_image(rows, image)
        category = _places(scene.categories, rows.category)
        group = category * images + image if settings.use_categories else image
        # Without categories the rows of an image still count in the order of their categories (it decides ties).
        by = np.lexsort((category, *first, group))
        by = by[category[by] >= 0]
        return by, category[by] if settings.use_categories else np.zeros(len(by), np.int64), group[by]

    truth_order, truth_category, truth_group = order(truths)
    rows, category, group = order(detections, -detections.score)
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    lengths = np.diff(begins, append=len(group))
    rank = np.arange(len(group)) - np.repeat(begins, lengths)
    kept = rank < settings.limits[-1]
    rows, category, group, rank = rows[kept], category[kept], group[kept], rank[kept]
    first = np.searchsorted(truth_group, group, side="left")
    count = np.searchsorted(truth_group, group, side="right") - first
    return Grouped(
        truths.take(truth_order), detections.take(rows), truth_category, category, group, rank, first, count, rows,
        categories if settings.use_categories else 1,
    )  # fmt: skip


def _places(sorted_ids: Integers, ids: Integers) -> Integers:
    """Where each id stands among the sorted ones, -1 for one that isn't there."""
    if not len(sorted_ids):
        return np.full(len(ids), -1)
    places = np.searchsorted(sorted_ids, ids).clip(max=len(sorted_ids) - 1)
    found: Booleans = sorted_ids[places] == ids
    return np.where(found, places, -1)


def _unknown_image(rows: Truths | Detections, image: Integers) -> TrainerError:
    unknown = np.unique(rows.image[image < 0])
    what = type(rows).__name__.lower()
    return TrainerError(
        f"{what} of images that the data set doesn't have",
        where=f"row {int(np.argmax(image < 0))} of the {what}",
        found=f"image ids {', '.join(map(str, unknown[:5].tolist()))}{', …' if len(unknown) > 5 else ''}",
        expected="ids of the evaluated images",
        hint="Are these the results of another split?",
    )
