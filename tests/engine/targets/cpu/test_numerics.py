"""The numerics class of a device: "fast" has bits of its own, which threads, tiles and vector width leave alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.movement import deviation
from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD


def three_steps(device: Any, steps: int = 3) -> tuple[list[np.ndarray], Any]:
    """Losses and weights of a small residual network after three steps, and the traced step."""
    with engine.device(device):
        network = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
            nn.Conv2d(48, 32, 3), nn.ReLU(),
        )  # fmt: skip
        optimizer = SGD(network, 0.1)
        images = np.random.default_rng(0).standard_normal((4, 3, 15, 17), dtype=np.float32)

        def step(image: engine.Tensor) -> engine.Tensor:
            y = network(image)
            loss = engine.mean(y * y)
            optimizer.minimize(loss)
            return loss

        traced = engine.trace(step)
        losses = [np.asarray(traced(images)) for _ in range(steps)]
        return [*losses, *(np.asarray(value) for value in network.state_dict().values())], traced


def last_choice(spec: Any) -> Any:
    """Parameters that the cost model likes least among its candidates."""
    return defaults.candidates(spec)[-1]


def test_fast_is_another_class_and_close_to_exact() -> None:
    exact, plain = three_steps(CpuDevice(threads=1))
    fast, traced = three_steps(CpuDevice(threads=1, numerics="fast"))
    assert "winograd" in engine.explain(traced) and "winograd" not in engine.explain(plain)
    assert "numerics fast" in engine.explain(traced, level=1) and "numerics" not in engine.explain(plain, level=1)
    np.testing.assert_allclose(fast[:3], exact[:3], rtol=1e-3)
    before, _ = three_steps(CpuDevice(threads=1), steps=0)
    deviations = [deviation(*states) for states in zip(before, exact[3:], fast[3:], strict=True)]
    del deviations[3]  # the bias before the norm, which takes it away: its gradient is rounding and nothing else
    assert all(each < 1e-3 for each in deviations)
    assert any(a.tobytes() != b.tobytes() for a, b in zip(exact, fast, strict=True))


@pytest.mark.parametrize(
    "settings",
    [{"threads": 2}, {"threads": 3, "poison": True}, {"threads": 1, "choose": last_choice},
     {"threads": 1, "narrow": True}],
    ids=["two threads", "three threads, poison", "other tiles", "narrow vectors"],
)  # fmt: skip
def test_the_bits_of_fast_are_one_set(settings: dict[str, Any]) -> None:
    expected, _ = three_steps(CpuDevice(threads=1, numerics="fast"))
    found, _ = three_steps(CpuDevice(numerics="fast", **settings))
    assert [value.tobytes() for value in found] == [value.tobytes() for value in expected]


def test_weights_are_transformed_once_for_all_who_read_them() -> None:
    with engine.device(CpuDevice(threads=1, numerics="fast")):
        network = nn.Conv2d(32, 32, 3, padding=1)
        traced = engine.trace(lambda x: network(network(x)))
        traced(np.ones((4, 32, 24, 24), np.float32))
        text = engine.explain(traced)
    assert text.count("transform weights 4x4 (") == 1 and text.count("winograd 4x4") == 2


def test_weights_are_transformed_once_for_all_levels_of_a_pyramid() -> None:
    convolution = nn.Conv2d(32, 32, 3, padding=1)
    levels = [np.random.default_rng(side).normal(size=(4, 32, side, side)).astype(np.float32) for side in (32, 24)]
    with engine.device(CpuDevice(threads=1, numerics="fast")):
        traced = engine.trace(lambda *levels: [convolution(level) for level in levels])
        found = [level.numpy() for level in traced(*map(engine.asarray, levels))]
        text = engine.explain(traced)
    assert text.count("winograd 4x4") == 2 and text.count("transform weights 4x4 (") == 1
    with engine.device("reference"):
        for level, ours in zip(levels, found, strict=True):
            np.testing.assert_allclose(ours, convolution(engine.asarray(level)).numpy(), atol=1e-4)


def test_another_class_is_refused() -> None:
    with pytest.raises(TrainerError, match="unknown numerics class"):
        CpuDevice(threads=1, numerics="loose")  # type: ignore[arg-type]


def test_an_item_s_bits_do_not_depend_on_its_batch_within_per_item() -> None:
    layer = nn.Conv2d(64, 64, 3, padding=1)
    images = np.random.default_rng(3).standard_normal((8, 64, 9, 12), np.float32)

    def convolved(count: int) -> bytes:
        return np.asarray(engine.trace(lambda x: layer(x))(images[:count]))[0].tobytes()

    with engine.device(CpuDevice(threads=1, numerics="fast")):
        assert len({convolved(count) for count in (1, 3, 8)}) > 1  # the algorithm depends on the batch
        with engine.per_item():
            assert len({convolved(count) for count in (1, 3, 8)}) == 1


def test_moments_of_joined_channels_have_the_bits_of_moments_of_the_whole() -> None:
    """The graph joins the parts' moments instead."""
    parts = [np.random.default_rng(3).standard_normal((4, count, 33, 31), np.float32) for count in (5, 16, 3)]
    whole = np.concatenate(parts, 1)
    joined = engine.trace(lambda *arrays: engine.var(engine.concat(arrays, axis=1), axis=(0, 2, 3)))(*parts)
    np.testing.assert_array_equal(joined.numpy(), engine.var(engine.asarray(whole), axis=(0, 2, 3)).numpy())
