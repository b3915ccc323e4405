"""The thinnest slice of training, convolution - batch norm - ReLU - convolution with SGD, through the whole compiler.

Its bits are decided by the graph: threads, tiles, layouts, recomputation and the host's vector width leave them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine import nn
from trainer.engine.program.partition import Policy
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD

STEPS = 3


def train(device: Any, dtype: type = np.float32) -> list[np.ndarray]:
    """Losses and every state after a few steps, on odd sizes."""
    with engine.device(device):
        network = nn.Sequential(
            nn.Conv2d(3, 20, 3, padding=1, bias=False),
            nn.BatchNorm2d(20),
            nn.ReLU(),
            nn.Conv2d(20, 17, 3, stride=2, padding=1),
        )
        network.set_seed(0)
        optimizer = SGD(network, 0.1, momentum=0.9, weight_decay=1e-3)
        random = np.random.default_rng(0)
        x = random.standard_normal((5, 3, 13, 15)).astype(np.float32)

        def step(image):
            y = network(image)
            loss = engine.mean(y * y)
            optimizer.minimize(loss)
            return loss

        traced = engine.trace(step)
        losses = [traced(x).numpy() for _ in range(STEPS)]
        return losses + [value for _, value in sorted(network.state_dict().items())]


def any_tile(seed: int) -> Callable[[Any], Any]:
    """A chooser that takes some other candidate of the template each time."""
    random = np.random.default_rng(seed)

    def choose(spec: Any) -> Any:
        candidates = defaults.candidates(spec)
        return candidates[int(random.integers(len(candidates)))]

    return choose


@pytest.fixture(scope="module")
def expected() -> list[np.ndarray]:
    return train(CpuDevice(threads=1))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"threads": 2}, id="two threads"),
        pytest.param({"threads": 3}, id="three threads"),
        pytest.param({"threads": 2, "choose": any_tile(0)}, id="tiles 0"),
        pytest.param({"threads": 2, "choose": any_tile(1)}, id="tiles 1"),
        pytest.param({"threads": 2, "policy": Policy(recompute=False)}, id="nothing recomputed"),
        pytest.param({"threads": 2, "policy": Policy(shared_loads=9, shared_operations=99)}, id="all recomputed"),
        pytest.param({"threads": 2, "policy": Policy(channels_last=False)}, id="channels first"),
        pytest.param({"threads": 2, "poison": True}, id="freed memory poisoned"),
        pytest.param({"threads": 2, "narrow": True}, id="narrow vectors"),
    ],
)
def test_bits_do_not_depend_on_how_the_step_is_computed(settings: dict[str, Any], expected: list[np.ndarray]) -> None:
    for value, other in zip(train(CpuDevice(**settings)), expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_the_compiled_step_follows_the_reference_device(expected: list[np.ndarray]) -> None:
    for value, other in zip(expected, train("reference"), strict=True):
        np.testing.assert_allclose(value, other, rtol=2e-4, atol=2e-5)
