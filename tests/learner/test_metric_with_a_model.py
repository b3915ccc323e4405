"""A metric that has a network of its own, inside the traced validation step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.linalg import sqrtm

from trainer import engine
from trainer.learner import Learner
from trainer.metrics import Predictions


def test_features_are_those_of_the_model_with_its_weights(blobs: Any, config: Any, tmp_path: Path) -> None:
    class Given(blobs):  # type: ignore[misc]
        def valid_step(self, batch: Any) -> Any:
            point = batch["point"]
            target = engine.concat([point, point[:, :1] * point[:, 1:]], axis=1)
            pair = Predictions(predicted=self.net(batch["point"]), target=target, weight=batch["weight"])
            return {**super().valid_step(batch), "pairs": pair}

    (tmp_path / "features.py").write_text(
        "from trainer.engine import nn\n\nclass Net(nn.Linear):\n"
        "    def __init__(self):\n        super().__init__(3, 2)\n"
    )
    random = np.random.default_rng(0)
    weight, bias = (random.normal(size=shape).astype(np.float32) for shape in ((2, 3), (2,)))
    save_file({"weight": weight, "bias": bias}, tmp_path / "net.safetensors")
    model = {"name": f"{tmp_path}/features.py:Net", "weights": str(tmp_path / "net.safetensors")}
    settings = config(metrics={"valid": ({"name": "frechet", "model": model},)}, train={"steps": 3})
    learner = Learner(Given, settings)
    outcome = learner.run().check()
    assert learner.training is not None and learner.training.splits.valid is not None
    points = learner.training.splits.valid.dataset.take(np.arange(20))["point"]  # type: ignore[attr-defined]
    with engine.device("reference"):
        logits = learner.task.net.eval()(engine.asarray(points)).numpy()  # type: ignore[attr-defined]
    target = np.concatenate([points, points[:, :1] * points[:, 1:]], axis=1)
    one, other = (rows.astype(np.float64) @ weight.T + bias for rows in (logits, target))
    c1, c2 = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    apart = one.mean(0) - other.mean(0)
    want = apart @ apart + np.trace(c1 + c2 - 2 * np.real(sqrtm(c1 @ c2)))
    assert outcome.metrics["valid/frechet"] == pytest.approx(want, rel=1e-4)
