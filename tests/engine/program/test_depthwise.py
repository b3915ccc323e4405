"""Depthwise convolutions reach their own templates, in every direction, and their weights are never copied."""

from __future__ import annotations

import numpy as np

from trainer import engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD


def test_a_step_of_a_depthwise_layer_needs_no_relayout_and_no_packing(on_cpu: CpuDevice) -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 24, 1), nn.Conv2d(24, 24, 3, padding=1, groups=24, bias=False), nn.Conv2d(24, 4, 1)
    )
    optimizer = SGD(network, 0.1)

    def step(image: engine.Tensor) -> engine.Tensor:
        y = network(image)
        loss = engine.mean(y * y)
        optimizer.minimize(loss)
        return loss

    images = np.random.default_rng(0).standard_normal((2, 3, 9, 11), dtype=np.float32)
    traced = engine.trace(step)
    traced(images)
    text = engine.explain(traced, level=3)
    assert text.count("DepthwiseSpec") == 3  # forward, input gradient, weight gradient
    readers = [line.split("(")[0] for line in engine.explain(traced).splitlines() if " 1.weight " in line]
    assert [line.split()[-3] for line in readers] == ["2x24x9x11", "2x24x9x11", "subtract"]  # "subtract of 5"
