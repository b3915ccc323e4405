"""Scores of single items against NumPy, scikit-learn and pycocotools on one item alone; which of them a step gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import jaccard_score, log_loss, mean_absolute_error

from tests.metrics.objects import batches, by_rows
from trainer import engine
from trainer.metrics import Accuracy, Mean, Predictions
from trainer.metrics.coco import Kind
from trainer.metrics.item_scores import item_score

KINDS: tuple[Kind, ...] = ("bbox", "segm")


def given(**roles: np.ndarray) -> Predictions:
    return Predictions(**{name: engine.asarray(values) for name, values in roles.items()})


def scored(returned: dict[str, Any] | Predictions) -> tuple[str, np.ndarray]:
    """What the score of a step's result is called, and those of its rows."""
    found = item_score(returned if isinstance(returned, dict) else {"given": returned})
    assert found is not None
    score, of = found
    return score.name, score.scores({name: value.numpy() for name, value in score.partial(of).items()})


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def test_an_image_of_one_class_is_scored_by_its_log_loss() -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(9, 4)).astype(np.float32), random.integers(0, 4, 9)
    name, scores = scored(given(logits=logits, labels=labels))
    want = [log_loss([label], [row], labels=range(4)) for label, row in zip(labels, softmax(logits), strict=True)]
    assert name == "log loss"
    assert scores == pytest.approx(want, rel=1e-6)


def test_an_item_of_several_labels_is_scored_by_the_mean_log_loss_of_its_classes() -> None:
    random = np.random.default_rng(1)
    logits, hot = random.normal(size=(7, 3)).astype(np.float32), random.integers(0, 2, (7, 3))
    shares = 1 / (1 + np.exp(-logits.astype(np.float64)))
    want = -np.where(hot == 1, np.log(shares), np.log(1 - shares)).mean(1)
    assert scored(given(logits=logits, labels_hot=hot))[1] == pytest.approx(want, rel=1e-6)


def test_a_text_is_scored_by_its_tokens_that_count() -> None:
    random = np.random.default_rng(2)
    logits, labels = random.normal(size=(3, 5, 6)).astype(np.float32), random.integers(0, 5, (3, 6))
    labels[1, 4:] = -1
    shares = np.moveaxis(softmax(logits), 1, 2)
    want = [np.mean([-np.log(share[label]) for share, label in zip(row, known, strict=True) if label >= 0])
            for row, known in zip(shares, labels, strict=True)]  # fmt: skip
    assert scored(given(logits=logits, labels=labels))[1] == pytest.approx(want, rel=1e-6)


def test_a_picture_of_many_classes_is_scored_by_the_overlap_of_those_that_are_there() -> None:
    random = np.random.default_rng(3)
    scores, labels = random.normal(size=(4, 5, 8, 9)).astype(np.float32), random.integers(0, 3, (4, 8, 9))
    labels[:, :2] = 255
    labels[3] = 255  # nothing in it counts: nothing is wrong with it
    name, found = scored(given(scores=scores, labels=labels))
    want = []
    for row, known in zip(scores.argmax(1), labels, strict=True):
        right, chosen = known[known != 255], row[known != 255]
        classes = np.union1d(right, chosen)
        want.append(1 - jaccard_score(right, chosen, labels=classes, average="macro") if len(classes) else 0.0)
    assert name == "1 - mean IoU"
    assert found == pytest.approx(want, rel=1e-12)


def test_of_two_classes_of_pixels_the_overlap_of_the_second_counts() -> None:
    random = np.random.default_rng(4)
    scores, labels = random.random((3, 6, 6)).astype(np.float32), random.integers(0, 2, (3, 6, 6))
    want = [1 - jaccard_score(known.ravel(), row.ravel() >= 0.5) for row, known in zip(scores, labels, strict=True)]
    assert scored(given(scores=scores, labels=labels))[1] == pytest.approx(want, rel=1e-12)


def test_a_made_picture_is_scored_by_its_mean_absolute_error() -> None:
    random = np.random.default_rng(5)
    predicted, target = random.random((2, 4, 3, 5, 5)).astype(np.float32)
    want = [mean_absolute_error(one.ravel().astype(float), other.ravel().astype(float))
            for one, other in zip(predicted, target, strict=True)]  # fmt: skip
    assert scored(given(predicted=predicted, target=target))[1] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_detected_objects_are_scored_by_what_pycocotools_says_of_the_picture_alone(kind: Kind, seed: int) -> None:
    objects = batches(kind, seed)
    objects["true_classes"][3] = -1  # two pictures without objects, one of them with a detection
    objects["true_classes"][4] = -1
    objects["classes"][4] = -1
    name, found = scored(given(**objects))
    want = []
    for row in range(len(objects["classes"])):
        alone = {role: values[row : row + 1] for role, values in objects.items()}
        precision = by_rows(alone, kind)["AP50"]
        surest = np.max(alone["scores"], where=alone["classes"] >= 0, initial=0)
        want.append(1 - precision if precision >= 0 else surest)
    assert name == "1 - AP50"
    assert found == pytest.approx(want, rel=1e-12)
    assert len(set(found.tolist())) > 3


def test_what_the_step_says_itself_comes_before_all_others() -> None:
    logits, labels, own = np.zeros((3, 2), np.float32), np.zeros(3, np.int64), np.array([3.0, 1.0, 2.0], np.float32)
    returned = {"classes": given(logits=logits, labels=labels), "judged": given(item_loss=own)}
    assert scored(returned)[1].tolist() == own.tolist()


def test_without_predictions_the_rows_of_the_loss_tell() -> None:
    values, weight = engine.asarray(np.arange(12.0).reshape(3, 4)), engine.asarray(np.ones(3, np.float32))
    others = {"other": Mean(values * 2, weight), "loss": Mean(values, weight)}
    name, scores = scored(others)
    assert (name, scores.tolist()) == ("loss", [1.5, 5.5, 9.5])


def test_a_mean_of_a_batch_tells_of_no_item() -> None:
    batch_mean = Mean(engine.asarray(np.float32(1.0)), engine.asarray(np.float32(8.0)))
    labels = engine.asarray(np.zeros(2, np.int64))
    measured = Accuracy().on(logits=engine.asarray(np.zeros((2, 2), np.float32)), labels=labels)
    assert item_score({"loss": batch_mean, "accuracy": measured}) is None


def test_scores_of_rows_are_the_same_bits_in_any_batches() -> None:
    boxes, masks = ({name: values for name, values in batches(kind).items() if name != "area"} for kind in KINDS)
    random = np.random.default_rng(6)
    scores, labels = random.normal(size=(12, 3, 7, 7)).astype(np.float32), random.integers(0, 3, (12, 7, 7))
    dense = {"scores": scores, "labels": labels}
    for roles in (boxes, masks, dense):
        whole = scored(given(**roles))[1]
        parts = [scored(given(**{name: values[start:end] for name, values in roles.items()}))[1]
                 for start, end in ((0, 5), (5, 6), (6, 12))]  # fmt: skip
        assert np.array_equal(np.concatenate(parts), whole)
