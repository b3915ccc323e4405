"""MS-SSIM against its definition with SciPy's filters in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.ndimage import correlate1d

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics.ms_ssim import MsSsim


def images(count: int = 3, size: int = 180) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    y, x = np.mgrid[:size, : size + 7] / 9
    target = 0.5 + 0.3 * np.sin(y + random.random((count, 2, 1, 1)) * 6) * np.cos(x)
    noise = np.array([0.02, 0.2, 0.5])[:count, None, None, None] * random.normal(size=target.shape)
    return {"predicted": (target + noise).clip(0, 1).astype(np.float32), "target": target.astype(np.float32)}


def by_definition(one: np.ndarray, other: np.ndarray, data_range: float = 1.0) -> float:
    """Of a pair [C, H, W]."""
    window = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    window /= window.sum()

    def blurred(values: np.ndarray) -> np.ndarray:
        return correlate1d(correlate1d(values, window, axis=1), window, axis=2)[:, 5:-5, 5:-5]

    score = 1.0
    one, other = one.astype(np.float64), other.astype(np.float64)
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    for scale, weight in enumerate((0.0448, 0.2856, 0.3001, 0.2363, 0.1333)):
        if scale:
            one, other = (values[:, : values.shape[1] // 2 * 2, : values.shape[2] // 2 * 2] for values in (one, other))
            one, other = (
                sum(values[:, a::2, b::2] for a in (0, 1) for b in (0, 1)) / 4 for values in (one, other)
            )  # fmt: skip
        m1, m2 = blurred(one), blurred(other)
        v1, v2, both = blurred(one**2) - m1**2, blurred(other**2) - m2**2, blurred(one * other) - m1 * m2
        structure = (2 * both + c2) / (v1 + v2 + c2)
        if scale == 4:
            structure = structure * (2 * m1 * m2 + c1) / (m1**2 + m2**2 + c1)
        score *= max(structure.mean(), 0) ** weight
    return score


@pytest.mark.parametrize(("sizes", "order"), [((3,), (0,)), ((2, 1), (1, 0))])
def test_the_similarity_is_the_definitions_in_any_batches(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    given = images()
    want = np.mean([by_definition(*pair) for pair in zip(*given.values(), strict=True)])
    assert 0.1 < want < 0.95
    assert split_measured(MsSsim(), sizes, order=order, **given)[""] == pytest.approx(want, rel=1e-4)


def test_equal_images_are_similar_and_inverted_ones_are_not() -> None:
    target = images(1)["target"]
    assert measured(MsSsim(), predicted=target, target=target)[""] == pytest.approx(1, rel=1e-6)
    assert measured(MsSsim(), predicted=1 - target, target=target)[""] == 0.0


def test_values_may_go_to_255() -> None:
    given = images(1)
    wide = {name: values * 255 for name, values in given.items()}
    assert measured(MsSsim(255.0), **wide)[""] == pytest.approx(measured(MsSsim(), **given)[""], rel=1e-4)


def test_small_images_are_refused_and_none_has_no_value() -> None:
    with pytest.raises(TrainerError, match="at least 176"):
        measured(
            MsSsim(), predicted=np.zeros((1, 1, 175, 200), np.float32), target=np.zeros((1, 1, 175, 200), np.float32)
        )
    assert math.isnan(measured(MsSsim(), np.zeros(1, np.float32), **images(1))[""])
