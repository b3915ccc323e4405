"""A small training with every template in it, to be run on several devices and compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD


class Training:
    """A small network that is trained on the same batches each time."""

    def __init__(self, device: CpuDevice) -> None:
        with engine.device(device):
            network = self.network = nn.Sequential(
                nn.Conv2d(4, 8, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, stride=2, padding=1),
                nn.Flatten(),
                nn.Linear(16 * 5 * 6, 10),
            ).set_seed(0)
            optimizer = SGD(network, 1e-2, momentum=0.9)

        def step(images: engine.Tensor, labels: engine.Tensor) -> engine.Tensor:
            loss = nn.cross_entropy(network(images), labels)
            optimizer.minimize(loss)
            return loss

        self.device, self.losses = device, list[float]()
        self._random = np.random.default_rng(0)
        self._traced = engine.trace(step)

    def step(self) -> None:
        images = self._random.normal(size=(4, 4, 9, 11)).astype(np.float32)
        with engine.device(self.device):
            self.losses.append(self._traced(images, self._random.integers(0, 10, 4)).item())

    def parameters(self) -> dict[str, np.ndarray]:
        return {name: state.numpy() for name, state in self.network.named_states().items()}

    @property
    def program(self) -> Any:
        return self._traced.programs[0]
