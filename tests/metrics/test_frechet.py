"""The Fréchet distance against its formula with SciPy's root of a matrix, and where it is known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.linalg import sqrtm

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.configs import load
from trainer.metrics.frechet import FrechetDistance, frechet_distance


def by_formula(one: np.ndarray, other: np.ndarray) -> float:
    one, other = one.astype(np.float64), other.astype(np.float64)
    apart = one.mean(0) - other.mean(0)
    c1, c2 = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    return float(apart @ apart + np.trace(c1 + c2 - 2 * np.real(sqrtm(c1 @ c2))))


def features(rows: int = 50, size: int = 6) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    mixed = random.normal(size=(size, size))
    return {"features": (random.normal(size=(rows, size)) @ mixed + 1).astype(np.float32),
            "target_features": random.normal(size=(rows, size)).astype(np.float32)}  # fmt: skip


@pytest.mark.parametrize(("sizes", "order"), [((50,), (0,)), ((20, 20, 10), (2, 0, 1))])
def test_the_distance_is_the_formulas_in_any_batches(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    given = features()
    want = by_formula(given["features"], given["target_features"])
    assert split_measured(FrechetDistance(), sizes, order=order, **given)[""] == pytest.approx(want, rel=1e-9)


def test_known_distances() -> None:
    """Of normal distributions along one line: (m1 - m2)² + (s1 - s2)²; of one with itself: 0."""
    line = frechet_distance(np.array([1.0]), np.array([[4.0]]), np.array([-2.0]), np.array([[25.0]]))
    assert line == pytest.approx(9 + 9)
    given = features()["features"]
    assert measured(FrechetDistance(), features=given, target_features=given)[""] == pytest.approx(0, abs=1e-9)


def test_fewer_rows_than_features_do() -> None:
    given = features(rows=4)
    want = by_formula(given["features"], given["target_features"])
    assert measured(FrechetDistance(), **given)[""] == pytest.approx(want, rel=1e-6)


def test_a_model_of_the_users_own_makes_the_features(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text(
        "from trainer import engine\nfrom trainer.engine import nn\n\n"
        "class Projection(nn.Module):\n"
        "    def __init__(self, size):\n        super().__init__()\n        self.layer = nn.Linear(12, size)\n\n"
        "    def forward(self, images):\n        return self.layer(engine.reshape(images, (images.shape[0], -1)))\n"
    )
    random = np.random.default_rng(1)
    weight, bias = (random.normal(size=shape).astype(np.float32) for shape in ((5, 12), (5,)))
    save_file({"layer.weight": weight, "layer.bias": bias}, tmp_path / "weights.safetensors")
    images = {name: random.normal(size=(20, 3, 2, 2)).astype(np.float32) for name in ("predicted", "target")}
    metric = FrechetDistance(f"{tmp_path}/near.py:Projection", {"size": 5}, str(tmp_path / "weights.safetensors"))
    rows = [values.reshape(20, 12).astype(np.float64) @ weight.T + bias for values in images.values()]
    assert measured(metric, **images)[""] == pytest.approx(by_formula(*rows), rel=1e-4)


def test_one_row_has_no_distance_and_images_need_a_model() -> None:
    assert math.isnan(measured(FrechetDistance(), **features(rows=1))[""])
    assert FrechetDistance().needs == ("features", "target_features")
    with pytest.raises(TrainerError, match="shape of features"):
        measured(
            FrechetDistance(), features=np.zeros((2, 3, 1), np.float32), target_features=np.zeros((2, 3), np.float32)
        )


def test_a_model_for_features_is_named_from_the_file_that_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "features.py").write_text(
        "from trainer.engine import nn\n\nclass Net(nn.Linear):\n"
        "    def __init__(self, size):\n        super().__init__(4, size)\n"
    )
    (tmp_path / "config.yaml").write_text(
        "extends: lsgan\nmetrics:\n  valid:\n"
        "    - {name: frechet, model: {name: ./features.py:Net, options: {size: 6}, weights: near.safetensors}}\n"
    )
    asked = load(str(tmp_path / "config.yaml"), []).config.metrics.valid[0]
    assert asked.settings() == {
        "model": f"{tmp_path}/features.py:Net", "options": {"size": 6}, "weights": f"{tmp_path}/near.safetensors",
    }  # fmt: skip
