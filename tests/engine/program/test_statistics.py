"""Statistics of a widening 1x1 convolution's result are taken by its own tasks: one pass less, the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine.profiling.workload import load_of
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.bench import Bench
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.cpu.templates.statistics import StatisticsSpec

SHAPES = {  # images, channels, size, filters
    "several blocks, odd everything": (3, 21, (23, 19), 77),
    "one block": (2, 32, (5, 7), 64),
    "a pixel in the last block": (1, 16, (27, 19), 130),
    "one channel": (2, 1, (9, 9), 40),
}


def operands(name: str) -> tuple[np.ndarray, np.ndarray]:
    images, channels, size, filters = SHAPES[name]
    random = np.random.default_rng(0)
    x = random.standard_normal((images, channels, *size), np.float32) + 100  # a mean far from zero
    return x, random.standard_normal((filters, channels, 1, 1), np.float32)


def both(x: engine.Tensor, w: engine.Tensor) -> tuple[engine.Tensor, ...]:
    y = engine.convolution(x, w)
    return (y, *engine.moments(y, axis=(0, 2, 3)))


def traced(device: CpuDevice, name: str, step: Any = both) -> tuple[list[np.ndarray], list[Launch]]:
    with engine.device(device):
        program = engine.trace(step)
        found = [np.asarray(value) for value in program(*operands(name))]
        return found, program.programs[0].launches


def joint(launches: list[Launch]) -> list[Launch]:
    return [launch for launch in launches if launch.tunable and isinstance(launch.tunable.spec, StatisticsSpec)]


def last_choice(spec: Any) -> Any:
    return defaults.candidates(spec)[-1]


@pytest.mark.parametrize("name", SHAPES)
def test_the_bits_are_those_of_a_pass_of_its_own(name: str) -> None:
    found, launches = traced(CpuDevice(threads=2), name)
    assert len(joint(launches)) == 1
    y, mean, variance = found

    def alone(pixels: engine.Tensor) -> tuple[engine.Tensor, ...]:
        return engine.moments(engine.permute_dims(pixels, (0, 3, 1, 2)), axis=(0, 2, 3))

    with engine.device(CpuDevice(threads=1)):
        channels_last = np.ascontiguousarray(y.transpose(0, 2, 3, 1))
        expected = [np.asarray(value) for value in engine.trace(alone)(channels_last)]
    assert mean.tobytes() == expected[0].tobytes()
    assert variance.tobytes() == expected[1].tobytes()
    np.testing.assert_allclose(variance, y.astype(np.float64).var((0, 2, 3)), rtol=1e-4, atol=1e-6)


SETTINGS: dict[str, dict[str, Any]] = {
    "threads": {"threads": 3},
    "tiles": {"threads": 1, "choose": last_choice},
    "poison": {"threads": 2, "poison": True},
    "narrow": {"threads": 1, "narrow": True},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
def test_threads_and_tiles_leave_the_bits_alone(settings: dict[str, Any]) -> None:
    name = "several blocks, odd everything"
    expected, _ = traced(CpuDevice(threads=1), name)
    found, launches = traced(CpuDevice(**settings), name)
    assert joint(launches)
    for a, b in zip(expected, found, strict=True):
        assert a.tobytes() == b.tobytes()


def test_no_launch_reads_the_result_again() -> None:
    _, launches = traced(CpuDevice(threads=1), "several blocks, odd everything")
    (whole,) = joint(launches)
    result = whole.writes[0]
    readers = [launch for launch in launches if result in launch.reads]
    assert not any("reduce" in launch.label for launch in readers)
    images, channels, size, filters = SHAPES["several blocks, odd everything"]
    pixels = images * size[0] * size[1]
    panels, partials = channels * -(-filters // 16) * 16, 2 * -(-pixels // 512) * filters
    assert load_of(whole.work).nbytes == 4 * (pixels * (channels + filters) + panels + partials)


def test_what_follows_the_convolution_may_come_before_its_statistics() -> None:
    """As in batch norm after a convolution with a bias: the statistics are of what is stored."""

    def step(x: engine.Tensor, w: engine.Tensor) -> tuple[engine.Tensor, ...]:
        y = engine.maximum(engine.convolution(x, w) + 1.0, 0.0)
        return (y, *engine.moments(y, axis=(0, 2, 3)))

    (y, mean, _), launches = traced(CpuDevice(threads=2), "one block", step)
    assert joint(launches)
    np.testing.assert_allclose(mean, y.astype(np.float64).mean((0, 2, 3)), rtol=1e-5)


def square(x: engine.Tensor, w: engine.Tensor) -> tuple[engine.Tensor, ...]:
    return both(x, w[:20, :])


def of_images(x: engine.Tensor, w: engine.Tensor) -> tuple[engine.Tensor, ...]:
    y = engine.convolution(x, w)
    return (y, *engine.moments(y, axis=(2, 3)))


@pytest.mark.parametrize(
    "step", [square, of_images], ids=["as many filters as channels", "over the pixels of an image"]
)
def test_other_statistics_are_passes_of_their_own(step: Any) -> None:
    _, launches = traced(CpuDevice(threads=1), "several blocks, odd everything", step)
    assert not joint(launches)
    assert any("reduce" in launch.label for launch in launches)


def test_every_candidate_stays_in_its_bounds_and_gives_the_same_bits() -> None:
    _, launches = traced(CpuDevice(threads=1), "several blocks, odd everything")
    tunable = joint(launches)[0].tunable
    assert tunable is not None
    bench = Bench(tunable, native.host_target())
    assert bench.default.reason == ""
    for parameters in defaults.candidates(tunable.spec):
        assert bench.attempt(parameters).reason == "", parameters


def test_what_reads_a_weight_gradient_of_an_odd_number_of_filters_is_left_alone() -> None:
    """Pairs of bfloat16 are pairs of images there: its shape has no form in pairs of filters."""
    x, dy = np.ones((2, 4, 6, 6), np.float32), np.ones((2, 5, 6, 6), np.float32)

    def step(x: engine.Tensor, dy: engine.Tensor, w: engine.Tensor) -> engine.Tensor:
        with engine.autocast("bfloat16"):
            y = engine.convolution(x, w, padding=1)
        (gradient,) = engine.gradients(engine.sum(y * dy), [w])
        return engine.sum(gradient * gradient, axis=(1, 2, 3))

    with engine.device(CpuDevice(threads=1)):
        found = np.asarray(engine.trace(step)(x, dy, np.ones((5, 4, 3, 3), np.float32)))
    counts = np.outer([10, 12, 10], [5, 6, 5])  # pixels that meet a tap, in both images
    np.testing.assert_array_equal(found, np.full(5, 4 * (counts**2).sum()))
