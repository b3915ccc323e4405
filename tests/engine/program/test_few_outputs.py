"""Convolutions from and to images reach the template whose vectors run along pixels, with the reference's values."""

from __future__ import annotations

import numpy as np

from trainer import engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice


def test_both_ends_of_a_generator_use_it(on_cpu: CpuDevice) -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 3, 3, padding=1)
    )

    def step(image: engine.Tensor) -> engine.Tensor:
        made = engine.tanh(network(image))
        return engine.gradients(engine.mean(made * made), [image])[0]

    images = np.random.default_rng(0).standard_normal((2, 3, 12, 20), dtype=np.float32)
    traced = engine.trace(step)
    found = np.asarray(traced(images))
    assert engine.explain(traced, level=3).count("FewOutputsSpec") == 2
    with engine.device("reference"):
        expected = np.asarray(engine.trace(step)(images))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
