"""Traced training steps, lowered completely and executed in the emulator, follow the `cpu` and reference devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.ptx.device import EmulatedDevice
from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD, AdamW

STEPS = 2
Step = tuple[nn.Module, Any, Callable[..., Any], tuple[np.ndarray, ...]]


def convolutional() -> Step:
    """The layers of the recipe `digits`, narrower; about a million multiply-adds a step."""
    network = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 1), nn.BatchNorm2d(12), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(12 * 3 * 3, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 10),
    )  # fmt: skip
    random = np.random.default_rng(0)
    images, labels = random.standard_normal((4, 1, 28, 28)).astype(np.float32), random.integers(0, 10, 4)
    return network, AdamW(network, 0.01, epsilon=1e-2, weight_decay=0.01), _classified(network), (images, labels)


def transformer() -> Step:
    """A block of 2 x 32 tokens of width 64, causal, with dropout."""
    block = nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.1, batch_first=True)
    tokens = np.random.default_rng(0).standard_normal((2, 32, 64)).astype(np.float32)
    loss_of = lambda x, wanted: engine.mean((block(x, is_causal=True) - wanted) ** 2)  # noqa: E731
    return block, SGD(block, 0.1, momentum=0.9), loss_of, (tokens, tokens[:, ::-1].copy())


def recurrent() -> Step:
    """A bidirectional LSTM over rows of different lengths, and the classifier of its last states."""
    layer, head = nn.LSTM(5, 6, bidirectional=True), nn.Linear(12, 3)
    random = np.random.default_rng(0)
    x, labels = random.standard_normal((4, 3, 5)).astype(np.float32), random.integers(0, 3, 3)
    lengths = np.array([4, 1, 3], np.int32)

    def loss_of(x: Any, labels: Any, lengths: Any) -> Any:
        _, (h, _) = layer(x, lengths=lengths)
        return engine.mean(nn.cross_entropy(head(engine.concat([h[0], h[1]], axis=1)), labels))

    both = nn.Sequential(layer, head)
    return both, SGD(both, 0.1), loss_of, (x, labels, lengths)


def _classified(network: nn.Module) -> Callable[..., Any]:
    return lambda x, labels: engine.mean(nn.cross_entropy(network(x), labels))


def trained(device: Any, make: Callable[[], Step]) -> list[np.ndarray]:
    """Losses and every state after a few steps."""
    with engine.device(device):
        network, optimizer, loss_of, batch = make()
        network.set_seed(0)
        state = nn.RandomState(0)

        def step(*arrays: Any) -> Any:
            loss = loss_of(*arrays)
            optimizer.minimize(loss)
            return loss

        traced = engine.trace(step)
        losses = []
        for _ in range(STEPS):
            with state.step():
                losses.append(traced(*batch).numpy())
        return losses + [value for _, value in sorted(network.state_dict().items())]


@pytest.mark.full
@pytest.mark.parametrize("make", [convolutional, recurrent, transformer])
def test_a_step_in_the_emulator_follows_the_cpu(make: Callable[[], Step]) -> None:
    ours, expected = trained(EmulatedDevice(), make), trained(CpuDevice(threads=1), make)
    for value, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=2e-4, atol=2e-5)


def test_a_scan_and_its_gradient_have_the_bits_of_the_cpu() -> None:
    random = np.random.default_rng(0)
    x, w = random.standard_normal((5, 3, 8)).astype(np.float32), random.standard_normal((8, 8)).astype(np.float32)

    def step(x: Any, w: Any) -> Any:
        def next_state(h: Any, part: Any) -> tuple[Any, Any]:
            h = engine.tanh(part + h @ w)
            return h, engine.sum(h, axis=-1)

        last, sums = engine.scan(next_state, engine.zeros((3, 8)), x)
        return last, sums, *engine.gradients(engine.sum(sums) + engine.sum(last), [x, w])

    found: list[list[np.ndarray]] = []
    for device in (EmulatedDevice(), CpuDevice(threads=1)):
        with engine.device(device):
            found.append([each.numpy() for each in engine.trace(step)(x, w)])
    for value, other in zip(*found, strict=True):
        np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda x: engine.linalg.svdvals(x), "is a function on the host.*Call it before or after the step"),
        (
            engine.custom(llvm=lambda x: "", result=lambda x: (x.shape, x.dtype), reference=abs, name="mine"),
            "mine .*: it is LLVM IR for a CPU.*Compose it of the engine's operations",
        ),
    ],
)
def test_what_a_gpu_does_not_compute_is_refused_with_the_alternative(operation: Any, message: str) -> None:
    with engine.device(EmulatedDevice()), pytest.raises(TrainerError, match=f"(?s){message}"):
        operation(engine.asarray(np.eye(3, dtype=np.float32))).numpy()
