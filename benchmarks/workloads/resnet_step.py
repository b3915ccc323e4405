"""A sharded training step of ResNet-50, for benchmarks of shards and processes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.sharding import Shards
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner.ranks import ALONE, Group
from trainer.recipes.parts.resnet import Bottleneck, ResNet


def resnet_step(shards: int, batch: int, pixels: int, threads: int, group: Group = ALONE) -> Callable[[], object]:
    """Returns a training step of ResNet-50 with batch norm and SGD, on this process's part of `batch` random images."""
    local = shards // group.size
    parts = Shards(shards, group.rank * local, local, group if group.size > 1 else None)
    net = ResNet((3, 4, 6, 3), Bottleneck, classes=1000)
    net.set_seed(0, "net")
    net.train()
    parameters = list(net.parameters())
    generator = np.random.default_rng(0)
    rows = parts.rows(batch)
    images = generator.normal(size=(batch, 3, pixels, pixels)).astype(np.float32)[rows]
    labels = generator.integers(0, 1000, batch)[rows]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.cross_entropy(net(x), y) / shards
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - 0.01 * engine.shard_sum(gradient))
        return engine.shard_sum(loss)

    device, traced = CpuDevice(threads=threads), engine.trace(step, shards=parts)

    def run() -> object:
        with engine.device(device):
            return traced(images, labels)

    return run
