"""CutMix pastes rectangles of the picture's proportions and mixes classes by the area that is seen."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import engine
from trainer.engine import nn
from trainer.recipes.parts.cutmix import cutmix

COUNT, HEIGHT, WIDTH = 64, 24, 16


pytestmark = pytest.mark.usefixtures("on_the_reference_device")


def mixed(probability: float) -> tuple[np.ndarray, np.ndarray]:
    """Pictures whose every pixel is their number in the batch, and a class each, after the mixing."""
    numbers = np.arange(COUNT, dtype=np.float32)
    images = engine.asarray(np.broadcast_to(numbers[:, None, None, None], (COUNT, 3, HEIGHT, WIDTH)).copy())
    with nn.RandomState(0).step():
        pictures, shares = cutmix(images, engine.asarray(np.eye(COUNT, dtype=np.float32)), probability=probability)
    return pictures.numpy(), shares.numpy()


def test_classes_are_mixed_by_the_area_that_each_picture_has() -> None:
    pictures, shares = mixed(1.0)
    for number in range(COUNT):
        own, other = pictures[number, 0] == number, pictures[number, 0] == COUNT - 1 - number
        assert np.all(own | other)
        assert shares[number, number] == pytest.approx(own.mean(), abs=1e-6)
        assert shares[number, COUNT - 1 - number] == pytest.approx(other.mean(), abs=1e-6)
        rows, columns = other.any(1), other.any(0)
        assert other.sum() == rows.sum() * columns.sum()  # a rectangle
    areas = 1 - shares[np.arange(COUNT), np.arange(COUNT)]
    assert 0.2 < areas.mean() < 0.5 and areas.max() > 0.6 and areas.min() < 0.05


def test_as_many_pictures_are_mixed_as_asked_for() -> None:
    untouched, shares = mixed(0.0)
    np.testing.assert_array_equal(shares, np.eye(COUNT))
    assert np.all(untouched == np.arange(COUNT)[:, None, None, None])
    is_whole = np.diagonal(mixed(0.5)[1]) == 1
    assert 0.3 < is_whole.mean() < 0.75
