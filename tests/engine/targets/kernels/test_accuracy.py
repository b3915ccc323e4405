"""Every candidate that the cost model may hand out: its error against float64, and the same bits as all the others.

For sums of K products |y - y64| <= 4 eps sqrt(K) (|A||B|) per element. That is what rounding does to random terms; K
equal terms, whose roundings all point one way, may err by K eps / 2 in one chain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_contraction import multiply
from tests.engine.targets.kernels.test_convolution import correlate, trilinear, weigh
from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec

MACHINES = {"avx512": AVX512, "narrow": NARROW}

PRODUCTS = [(64, 64, 64), (33, 17, 1000), (1, 130, 257), (130, 1, 65), (97, 101, 103), (256, 48, 2048), (7, 3, 5)]
"""Rows, columns, terms."""

ONE = ((1, 1), (1, 1))
CONVOLUTIONS = {  # images, channels, spatial, filters, window, strides, padding, dilation, groups
    "3x3": (2, 24, (14, 13), 40, (3, 3), (1, 1), ONE, (1, 1), 1),
    "3x3 stride 2, odd channels": (1, 17, (15, 11), 33, (3, 3), (2, 2), ONE, (1, 1), 1),
    "1x1": (2, 65, (7, 7), 31, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "7x7 stride 2 of three channels": (1, 3, (33, 29), 19, (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    "4x4 stride 2": (1, 16, (16, 16), 24, (4, 4), (2, 2), ONE, (1, 1), 1),
    "dilated groups": (2, 12, (11, 12), 18, (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 3),
    "depthwise": (2, 33, (9, 10), 33, (3, 3), (1, 1), ONE, (1, 1), 33),
    "many pixels": (3, 8, (40, 40), 16, (3, 3), (1, 1), ONE, (1, 1), 1),
}

Draw = Callable[[tuple[int, ...]], np.ndarray]
DRAWS: dict[str, Draw] = {
    "normal": lambda shape: np.random.default_rng(sum(shape)).standard_normal(shape),
    "positive": lambda shape: np.random.default_rng(sum(shape)).uniform(0, 1, shape),
    "of all sizes": lambda shape: np.ldexp(*_mantissas_and_exponents(shape)),
}


def _mantissas_and_exponents(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(sum(shape))
    return random.uniform(-1, 1, shape), random.integers(-20, 20, shape)


def within(found: np.ndarray, exact: np.ndarray, sizes: np.ndarray, count: int) -> None:
    beyond = np.abs(found - exact) > 4 * 2.0**-23 * math.sqrt(count) * sizes
    assert not beyond.any(), f"{beyond.sum()} of {beyond.size} elements"


def agree(results: dict[Any, np.ndarray]) -> np.ndarray:
    """The one result that all parameters gave."""
    first = next(iter(results.values()))
    for parameters, result in results.items():
        assert result.tobytes() == first.tobytes(), parameters
    return first


@pytest.fixture
def on(request: pytest.FixtureRequest, run_kernel: KernelRunner, monkeypatch: pytest.MonkeyPatch) -> KernelRunner:
    """Kernels compiled for the machine whose candidates they are."""
    monkeypatch.setattr(run_kernel, "target", native.host_target(narrow=request.param == "narrow"))
    return run_kernel


@pytest.mark.full
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("on", "machine"), MACHINES.items(), indirect=["on"], ids=MACHINES)
@pytest.mark.parametrize(("rows", "columns", "depth"), PRODUCTS)
def test_products(on: KernelRunner, machine: Any, rows: int, columns: int, depth: int, draw: str) -> None:
    a, b = (DRAWS[draw](shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
    results = {}
    for packed in (False, True):
        spec = MatmulSpec(float32, rows, columns, depth, (depth, 1), (columns, 1), packed=packed)
        for parameters in defaults.candidates(spec, machine):
            results[packed, parameters] = multiply(on, spec, parameters, on.aligned(a), on.aligned(b))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    within(agree(results), wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b), depth)


@pytest.mark.full
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("on", "machine"), MACHINES.items(), indirect=["on"], ids=MACHINES)
@pytest.mark.parametrize("direction", ["forward", "input_gradient", "weight_gradient"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(on: KernelRunner, machine: Any, name: str, direction: Direction, draw: str) -> None:
    check_convolution(on, machine, name, direction, DRAWS[draw])


@pytest.mark.parametrize(("on", "machine"), [("avx512", AVX512)], indirect=["on"], ids=["avx512"])
@pytest.mark.parametrize("direction", ["forward", "input_gradient", "weight_gradient"])
def test_a_convolution(on: KernelRunner, machine: Any, direction: Direction) -> None:
    check_convolution(on, machine, "3x3 stride 2, odd channels", direction, DRAWS["normal"])


def check_convolution(run: KernelRunner, machine: Any, name: str, direction: Direction, draw: Draw) -> None:
    images, channels, spatial, filters, window, strides, padding, dilation, groups = CONVOLUTIONS[name]
    spec = ConvolutionSpec(
        float32, direction, images, channels, spatial, filters, window, strides, padding, dilation, groups
    )
    x = draw((images, channels, *spatial)).astype(np.float32)
    w = draw((filters, channels // groups, *window)).astype(np.float32)
    y = draw((images, filters, *spec.output_spatial)).astype(np.float32)
    taps = math.prod(window)
    arrays, count = {
        "forward": ({"x": x, "w": w}, taps * channels // groups),
        "input_gradient": ({"w": w, "y": y}, taps * filters // groups),
        "weight_gradient": ({"x": x, "y": y}, images * math.prod(spec.output_spatial)),
    }[direction]
    results = {}
    for parameters in defaults.candidates(spec, machine):
        if direction == "weight_gradient":
            results[parameters] = weigh(run, spec, parameters, x, y)
        else:
            results[parameters] = correlate(run, spec, parameters, x if direction == "forward" else y, w)
    sizes = trilinear(spec, **{key: np.abs(array.astype(np.float64)) for key, array in arrays.items()})
    exact = trilinear(spec, **{key: array.astype(np.float64) for key, array in arrays.items()})
    within(agree(results), exact, sizes, count)
