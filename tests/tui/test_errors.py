"""Predictions next to their ground truth: which samples belong together, and which errors are colored."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.rundir import SampleEvent
from trainer.tui.annotations import Layers
from trainer.tui.errors import CORRECT, MISSED, WRONG, compare_samples, is_error, paired
from trainer.tui.pictures import Sample, render

IMAGE = np.full((40, 40, 3), 100, np.uint8)


def sample(boxes: list[list[float]], classes: list[str], scores: list[float] | None = None) -> Sample:
    annotations = {"boxes": boxes, "classes": classes} | ({"scores": scores} if scores else {})
    return Sample(IMAGE, size=(40, 40), annotations=annotations)


def event(name: str, split: str = "valid") -> SampleEvent:
    return SampleEvent(1, split, name, f"samples/{split}-{name}.png")


@pytest.mark.parametrize(
    ("prediction", "truth"), [("a", "a-right"), ("0-found", "0-right"), ("1-prediction", "1-truth")]
)
def test_a_prediction_is_paired_with_its_ground_truth(prediction: str, truth: str) -> None:
    events = [event(prediction), event(truth), event("other"), event(truth, "test")]
    names = [tuple(one.name for one in group) for group in paired(events)]
    assert names == [(prediction, truth), ("other",), (truth,)]


def test_boxes_are_correct_wrong_or_missed() -> None:
    prediction = sample([[0, 0, 10, 10], [0, 0, 11, 10], [20, 20, 30, 30]], ["cat", "cat", "dog"], [0.9, 0.8, 0.7])
    truth = sample([[0, 0, 10, 10], [20, 20, 30, 30]], ["cat", "bird"])
    found = compare_samples(prediction, truth)
    assert found is not None and found.has_errors
    assert found.prediction.colors == (CORRECT, WRONG, WRONG), "an object is found once, and only as its own class"
    assert found.truth.colors == (CORRECT, MISSED)
    assert found.words == ("1 correct, 2 wrong", "2 objects, 1 missed")


def test_instance_masks_are_compared_by_their_boxes() -> None:
    masks = [{"size": [40, 40], "counts": [0, 400, 1200]}]  # the first ten columns
    found = compare_samples(Sample(IMAGE, annotations={"masks": masks}), Sample(IMAGE, annotations={"masks": masks}))
    assert found is not None and not found.has_errors and found.prediction.colors == (CORRECT,)


def test_wrong_pixels_of_a_mask_are_counted_without_ignored_ones() -> None:
    truth = np.zeros((4, 4), np.uint8)
    truth[0] = 255
    chosen = truth.copy()
    chosen[:2] = 1
    found = compare_samples(Sample(IMAGE, mask=chosen), Sample(IMAGE, mask=truth))
    assert found is not None and found.words[0] == "33.3% of the pixels wrong"
    assert found.prediction.wrong is not None and found.prediction.wrong.sum() == 4


def test_errors_have_their_color_in_the_picture_unless_it_is_off() -> None:
    found = compare_samples(sample([[4, 4, 20, 20]], ["cat"]), sample([], []))
    assert found is not None
    colored, plain = (render(found.prediction, 40, 40, Layers(errors=is_on))[4, 10].tolist() for is_on in (True, False))
    assert colored == list(WRONG) and plain != list(WRONG)


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [
        ("predicted 5, true 8", True),
        ("predicted 5", False),
        ("predicted 5, true 5", False),
        ("input, output, target", None),
    ],
)
def test_the_caption_of_a_classified_image_says_whether_it_is_wrong(caption: str, wanted: bool | None) -> None:
    assert is_error(caption) is wanted
