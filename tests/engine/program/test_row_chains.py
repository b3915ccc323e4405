"""Loops over the same rows run as one launch, with the bits that they have one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.nn.functional import log_softmax, softmax
from trainer.engine.targets.cpu import target
from trainer.engine.targets.cpu.device import CpuDevice

ROWS = 307
Step = Callable[[Tensor], list[Tensor]]


def values(columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, columns)).astype(np.float32)


def run(step: Step, x: np.ndarray, device: CpuDevice) -> tuple[list[np.ndarray], list[str]]:
    """The step's results, and the labels of its launches."""
    traced = engine.trace(step)
    with engine.device(device):
        results = [result.numpy().copy() for result in traced(x)]
    return results, [launch.label for launch in traced.programs[0].launches]


def apart(step: Step, x: np.ndarray) -> list[np.ndarray]:
    """The step's results where each loop is launched by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "chained", lambda works, features: works)
        results, labels = run(step, x, CpuDevice(threads=1))
    assert not any(label.startswith("rows ") for label in labels)
    return results


def softmax_and_gradient(x: Tensor) -> list[Tensor]:
    y = softmax(x)
    return [y, *engine.gradients(engine.sum(y * y * y), [x])]


def log_softmax_of_bfloat16(x: Tensor) -> list[Tensor]:
    y = log_softmax(x.astype(engine.bfloat16).astype(engine.float32))
    return [y.astype(engine.bfloat16), *engine.gradients(engine.sum(y * x), [x])]


def cross_entropy(x: Tensor) -> list[Tensor]:
    labels = engine.arange(ROWS) % x.shape[1]
    loss = nn.cross_entropy(x, labels, label_smoothing=0.1, ignore_index=3)
    return [loss, *engine.gradients(loss, [x])]


def rows_of_others(x: Tensor) -> list[Tensor]:
    """Each row meets its mirror image's, the one after it, and the first one's."""
    y = softmax(x)
    mirrored = engine.flip(y, axis=0) * engine.sum(y, axis=1, keepdims=True)
    after = y[1:] * engine.max(y, axis=1, keepdims=True)[:-1]
    return [mirrored, after - mirrored[1:], y * engine.exp(y[:1]), engine.sum(y * x, axis=0)]


STEPS: list[tuple[Step, int]] = [
    (softmax_and_gradient, 512),
    (softmax_and_gradient, 523),
    (log_softmax_of_bfloat16, 1300),
    (cross_entropy, 700),
    (rows_of_others, 520),
]


@pytest.mark.parametrize(("step", "columns"), STEPS)
def test_bits_are_those_of_single_loops(step: Step, columns: int) -> None:
    x = values(columns)
    expected = apart(step, x)
    for device in (CpuDevice(threads=1), CpuDevice(threads=3, poison=True)):
        found, labels = run(step, x, device)
        assert any(label.startswith("rows ") for label in labels), labels
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_exponentials_that_only_the_chain_reads_take_no_memory() -> None:
    traced = engine.trace(softmax)
    x = values(640)
    with engine.device("cpu"):
        found = traced(x).numpy()
    (program,) = traced.programs
    assert len(program.launches) == 1 and program.memory.size == 0
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, wide / wide.sum(axis=1, keepdims=True), rtol=2e-6)


def test_layer_norm_and_its_gradients_have_the_bits_of_single_loops() -> None:
    net = nn.LayerNorm(480)
    probe = engine.asarray(values(480, 1))

    def step(x: Tensor) -> list[Tensor]:
        y = net(x)
        return [y, *engine.gradients(engine.sum(y * probe), [x, *net.parameters()])]

    x = values(480)
    found, labels = run(step, x, CpuDevice(threads=2))
    assert any(label.startswith("rows ") for label in labels)
    for ours, theirs in zip(found, apart(step, x), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_state_is_read_by_all_rows_before_it_changes() -> None:
    state = nn.Linear(640, ROWS, bias=False).set_seed(0)

    def step(x: Tensor) -> list[Tensor]:
        y = softmax(state.weight + x)
        state.weight.assign(y)
        return [y, engine.sum(y * state.weight, axis=1)]

    x = values(640)
    results = []
    for together in (True, False):
        state.load_state_dict({"weight": values(640, 2)})
        results.append([*(run(step, x, CpuDevice(threads=2))[0] if together else apart(step, x)), state.weight.numpy()])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)
