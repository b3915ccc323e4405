"""The errors of a prediction: which objects are correct, wrong or missed, and which pixels are wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainer.rundir import SampleEvent
from trainer.tui.annotations import NO_CLASS, Annotated, objects_of, resized
from trainer.tui.pictures import Sample

OVERLAP = 0.5
"""Minimum intersection over union (IoU) of a correct box of the same class, as in AP50."""

CORRECT, WRONG, MISSED = (0, 158, 115), (213, 40, 40), (240, 170, 0)

TRUTH = re.compile(r"(.+)-(?:truth|ground-truth|target|right)")
PREDICTION = re.compile(r"(.+?)(?:-(?:prediction|predicted|found))?")
"""Names of two samples of one step that belong together; their first groups are equal."""

CLASSIFIED = re.compile(r"predicted (?P<prediction>.+?)(?:, true (?P<truth>.+))?")
"""The caption of a classified image; the prediction is correct without a truth, or with an equal one."""


@dataclass(frozen=True)
class Compared:
    """A prediction and its ground truth with their errors in color, and the caption of each."""

    prediction: Sample
    truth: Sample
    words: tuple[str, str]
    has_errors: bool


def paired(events: Sequence[SampleEvent]) -> list[tuple[SampleEvent, ...]]:
    """The samples of one step, each prediction with its ground truth: (prediction, truth), or one sample alone."""
    truths = {(event.split, found[1]): event for event in events if (found := TRUTH.fullmatch(event.name))}
    groups: list[tuple[SampleEvent, ...]] = []
    used = set()
    for event in events:
        found = None if TRUTH.fullmatch(event.name) else PREDICTION.fullmatch(event.name)
        truth = truths.get((event.split, found[1])) if found is not None else None
        if truth is not None and truth.file not in used:
            used.add(truth.file)
            groups.append((event, truth))
        elif found is not None:
            groups.append((event,))
    alone = [(event,) for event in events if TRUTH.fullmatch(event.name) and event.file not in used]
    return groups + alone


def compare_samples(prediction: Sample, truth: Sample) -> Compared | None:
    """The errors of a prediction; None if the two samples have nothing to compare."""
    if prediction.mask is not None and truth.mask is not None:
        return _compare_masks(prediction, truth)
    found, right = objects_of(prediction.annotations), objects_of(truth.annotations)
    if not found and not right:
        return None
    correct, matched = match(found, right)
    counts = sum(correct), len(found) - sum(correct), len(right) - sum(matched)
    return Compared(
        replace(prediction, colors=tuple(CORRECT if is_correct else WRONG for is_correct in correct)),
        replace(truth, colors=tuple(CORRECT if is_matched else MISSED for is_matched in matched)),
        (f"{counts[0]} correct, {counts[1]} wrong", f"{len(right)} objects, {counts[2]} missed"),
        counts[1] + counts[2] > 0,
    )


def _compare_masks(prediction: Sample, truth: Sample) -> Compared:
    assert prediction.mask is not None and truth.mask is not None
    chosen = resized(prediction.mask, truth.mask.shape)
    counted = truth.mask != NO_CLASS
    wrong = (chosen != truth.mask) & counted
    share = float(wrong.sum() / max(1, counted.sum()))
    return Compared(
        replace(prediction, wrong=wrong), truth, (f"{share:.1%} of the pixels wrong", ""), bool(wrong.any())
    )


def match(found: Sequence[Annotated], right: Sequence[Annotated]) -> tuple[list[bool], list[bool]]:
    """Returns which predictions are correct and which objects are matched: greedily by score, each object once."""
    correct, matched = [False] * len(found), [False] * len(right)
    if not found or not right:
        return correct, matched
    overlaps = intersection_over_union(np.array([item.box for item in found]), np.array([item.box for item in right]))
    same = np.array([[one.name == other.name or not one.name or not other.name for other in right] for one in found])
    overlaps = np.where(same, overlaps, 0.0)
    for index in sorted(range(len(found)), key=lambda index: -found[index].score):
        free = np.where(matched, 0.0, overlaps[index])
        best = int(free.argmax())
        if free[best] >= OVERLAP:
            correct[index] = matched[best] = True
    return correct, matched


def intersection_over_union(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intersection over union of boxes [N, 4] and [M, 4] (left, top, right, bottom), float64 [N, M]."""
    corner = np.maximum(left[:, None, :2], right[None, :, :2])
    far = np.minimum(left[:, None, 2:], right[None, :, 2:])
    shared = np.prod(np.clip(far - corner, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (left, right)]
    return shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-12)


def is_error(caption: str) -> bool | None:
    """Whether the caption of a classified image names a class other than the true one; None for other captions."""
    found = CLASSIFIED.fullmatch(caption)
    return None if found is None else found["truth"] not in (None, found["prediction"])
