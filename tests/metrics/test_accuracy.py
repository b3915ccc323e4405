"""Accuracy and top-k against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, top_k_accuracy_score

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics import Accuracy, TopK


def scored(rows: int = 23, classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, classes)).astype(np.float32)
    labels = np.where(random.random(rows) < 0.6, logits.argmax(1), random.integers(0, classes, rows))
    return logits, labels.astype(np.int64)


@pytest.mark.parametrize("sizes", [(23,), (8, 8, 6, 1), (1, 22)])
def test_accuracy_is_scikit_learns_in_any_batches(sizes: tuple[int, ...]) -> None:
    logits, labels = scored()
    expected = accuracy_score(labels, logits.argmax(1))
    assert split_measured(Accuracy(), sizes, logits=logits, labels=labels) == {"": expected}


def test_accuracy_of_pixels_counts_each_pixel_but_the_ignored() -> None:
    random = np.random.default_rng(1)
    logits = random.normal(size=(3, 4, 5, 6)).astype(np.float32)
    labels = random.integers(0, 4, (3, 5, 6)).astype(np.uint8)
    labels[:, 0] = 255
    weight = np.array([1, 0, 1], np.float32)
    expected = accuracy_score(labels[[0, 2], 1:].ravel(), logits.argmax(1)[[0, 2], 1:].ravel())
    assert measured(Accuracy(), weight, logits=logits, labels=labels) == {"": expected}


def test_the_first_of_equal_scores_counts() -> None:
    assert measured(Accuracy(), scores=np.zeros((2, 3), np.float32), labels=np.array([0, 1])) == {"": 0.5}


@pytest.mark.parametrize("shape", [(40,), (40, 1)])
def test_binary_accuracy_has_a_threshold(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(2)
    logits, labels = random.normal(size=shape).astype(np.float32), random.integers(0, 2, 40)
    probabilities = 1 / (1 + np.exp(-logits.ravel().astype(np.float64)))
    expected = accuracy_score(labels, probabilities >= 0.7)
    assert measured(Accuracy(threshold=0.7), logits=logits, labels=labels) == {"": expected}


def test_of_many_labels_all_must_be_right() -> None:
    random = np.random.default_rng(3)
    scores = random.random((50, 3)).astype(np.float32)
    hot = np.where(random.random((50, 3)) < 0.8, scores >= 0.5, random.random((50, 3)) < 0.5).astype(np.float32)
    assert measured(Accuracy(), scores=scores, labels_hot=hot) == {"": accuracy_score(hot, scores >= 0.5)}


@pytest.mark.parametrize("k", [1, 2, 4])
def test_top_k_is_scikit_learns(k: int) -> None:
    logits, labels = scored()
    expected = top_k_accuracy_score(labels, logits, k=k, labels=range(5))
    assert split_measured(TopK(k), (10, 13), logits=logits, labels=labels) == {"": expected}


def test_nothing_counted_is_not_a_number() -> None:
    logits, labels = scored()
    assert math.isnan(measured(Accuracy(), np.zeros(23, np.float32), logits=logits, labels=labels)[""])


def test_a_label_that_is_no_class_is_refused() -> None:
    with pytest.raises(TrainerError, match="not a class"):
        measured(Accuracy(), logits=np.zeros((2, 3), np.float32), labels=np.array([0, 3]))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TrainerError, match=r"labels \[4, 2\] for logits \[4, 3\]"):
        measured(Accuracy(), logits=np.zeros((4, 3), np.float32), labels=np.zeros((4, 2), np.int32))
    with pytest.raises(TrainerError, match=r"logits \[4, 3\], labels \[5\]"):
        measured(Accuracy(), logits=np.zeros((4, 3), np.float32), labels=np.zeros(5, np.int32))
