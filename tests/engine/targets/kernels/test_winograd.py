"""Winograd's convolutions: error against float64, one set of bits for all parameters, and a choice by shape alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_convolution import RECTIFIED, channels_last, draw, trilinear
from tests.engine.targets.kernels.winograd_matrices import growth, matrices
from tests.tiers import tiered
from trainer.engine.graph.dtypes import float32
from trainer.engine.program.spec import Epilogue, EpilogueOperand
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels import winograd_choice
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction, Pair
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_transforms import Algorithm
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.templates import convolution, winograd
from trainer.engine.targets.cpu.templates.winograd import WinogradParameters, WinogradWeights

EPSILON = 2.0**-24
Geometry = tuple[int, int, Pair, int, tuple[Pair, Pair], int, int]
GEOMETRIES: dict[str, Geometry] = {  # images, channels, spatial, filters, padding, window, stride
    "same, cut tiles, odd channels": (2, 21, (9, 11), 37, ((1, 1), (1, 1)), 3, 1),
    "no padding, whole tiles": (1, 16, (10, 14), 16, ((0, 0), (0, 0)), 3, 1),
    "padding of two": (1, 32, (8, 7), 16, ((2, 2), (2, 2)), 3, 1),
    "uneven padding": (3, 16, (5, 6), 33, ((0, 2), (1, 0)), 3, 1),
    "one pixel": (2, 17, (1, 1), 16, ((1, 1), (1, 1)), 3, 1),
    "one row": (1, 16, (1, 30), 19, ((1, 1), (1, 1)), 3, 1),
    "window of two": (1, 16, (8, 9), 17, ((0, 0), (1, 0)), 2, 1),
    "window of four": (1, 17, (13, 9), 16, ((1, 1), (1, 1)), 4, 1),
    "window of five": (2, 16, (7, 9), 35, ((2, 2), (2, 2)), 5, 1),
    "stride": (2, 21, (12, 15), 35, ((1, 1), (1, 1)), 4, 2),
    "stride, window of three": (1, 16, (9, 8), 16, ((1, 1), (1, 1)), 3, 2),
    "stride, window of five": (2, 17, (14, 11), 18, ((2, 2), (2, 1)), 5, 2),
    "stride, window of six": (1, 16, (11, 16), 16, ((0, 3), (2, 2)), 6, 2),
    "stride, window of ten": (1, 16, (21, 12), 16, ((4, 4), (5, 0)), 10, 2),
    "stride, one output": (3, 16, (2, 3), 33, ((1, 1), (1, 0)), 4, 2),
}
QUICK = ("same, cut tiles, odd channels", "uneven padding", "one pixel", "window of five", "stride")
CHOICES = [WinogradParameters(5, 2, 10, 2, 2), WinogradParameters(3, 1, 6, 3, 2), WinogradParameters(14, 2, 28, 4, 4)]


def specification(name: str, direction: Direction, outputs: int, epilogue: Epilogue | None = None) -> WinogradSpec:
    images, channels, spatial, filters, padding, window, stride = GEOMETRIES[name]
    return WinogradSpec(
        ConvolutionSpec(
            float32, direction, images, channels, spatial, filters, (window,) * 2, (stride,) * 2, padding=padding,
            epilogue=epilogue or Epilogue(),
        ),
        outputs,
    )  # fmt: skip


def possible(window: int, stride: int) -> list[int]:
    """Numbers of outputs of a tile along an axis, with four points (if that makes two outputs) and with six."""
    taps = -(-window // stride)
    return [points + 1 - taps for points in (4, 6) if points > taps]


def compute(
    run_kernel: KernelRunner,
    spec: WinogradSpec,
    parameters: WinogradParameters,
    source: np.ndarray,
    weights: np.ndarray,
    operands: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """Packing, the weights' transform and the convolution, in logical axes; tasks run last to first."""
    plain = spec.convolution
    packing = convolution.pack_spec(plain)
    packed = run_kernel.empty([packing.size], plain.dtype.storage)
    stored = run_kernel.aligned(weights.transpose(plain.weight_order))
    run_kernel(packing.render("pack"), "pack", [stored, packed, *packing.words], range(packing.tasks))
    transformed = run_kernel.empty([WinogradWeights(spec).size], plain.dtype.storage)
    tasks = reversed(range(WinogradWeights(spec).tasks))
    run_kernel(WinogradWeights(spec).render("weights"), "weights", [packed, transformed], tasks)
    forward = plain.direction == "forward"
    spatial, channels = (plain.output_spatial, plain.filters) if forward else (plain.spatial, plain.channels)
    output = run_kernel.empty((plain.images, *spatial, channels), plain.dtype.storage)
    arrays = [run_kernel.aligned(channels_last(source)), transformed, output, *operands]
    tasks, scratch = (
        reversed(range(winograd.TEMPLATE.tasks(spec, parameters))),
        winograd.TEMPLATE.scratch_bytes(spec, parameters),
    )
    run_kernel(winograd.TEMPLATE.render(spec, parameters, "winograd"), "winograd", arrays, tasks, scratch)
    return output.transpose(0, 3, 1, 2)


def operands_of(spec: WinogradSpec) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The input, the weights, and the convolution in float64."""
    x, w, y = draw(spec.convolution)
    if spec.convolution.direction == "forward":
        return x, w, trilinear(spec.convolution, x=x, w=w)
    return y, w, trilinear(spec.convolution, w=w, y=y)


@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
@pytest.mark.parametrize("name", tiered(GEOMETRIES, QUICK))
def test_winograd_is_the_convolution_whatever_the_parameters(
    run_kernel: KernelRunner, name: str, direction: Direction
) -> None:
    for outputs in possible(*GEOMETRIES[name][-2:]):
        spec = specification(name, direction, outputs)
        source, weights, expected = operands_of(spec)
        found = compute(run_kernel, spec, defaults.choose(spec), source, weights)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
        for parameters in CHOICES:
            assert compute(run_kernel, spec, parameters, source, weights).tobytes() == found.tobytes(), parameters


ALGORITHMS = [Algorithm(outputs, taps) for outputs, taps in ((2, 3), (4, 3), (3, 2), (5, 2), (3, 4), (2, 5))]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_the_matrices_filter_exactly(algorithm: Algorithm) -> None:
    filters, data, back = matrices(algorithm)
    generator, taps, outputs = np.random.default_rng(2), algorithm.taps, algorithm.outputs
    g, d = generator.standard_normal((taps, taps)), generator.standard_normal((algorithm.points, algorithm.points))
    found = back @ ((filters @ g @ filters.T) * (data @ d @ data.T)) @ back.T
    expected = sum(g[r, s] * d[r : r + outputs, s : s + outputs] for r in range(taps) for s in range(taps))
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_errors_grow_by_less_than_the_usual_points_would_let_them() -> None:
    found = [growth(algorithm) for algorithm in ALGORITHMS]  # with 1 and 2 instead of 5/8 and 3/2, the second: 256
    assert found == pytest.approx([64 / 9, 62.65, 9, 90.59, 50.15, 45.27], abs=0.01)


def magnitude(spec: WinogradSpec, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """|A^T| (sum over channels of |G||g||G^T| * |B^T||d||B|) |A| of each tile of x [C, H, W], summed over its parts."""
    algorithm, step = spec.algorithm, spec.convolution.strides[0]
    filters, data, back = (np.abs(matrix) for matrix in matrices(algorithm))
    m, points, taps = algorithm.outputs, algorithm.points, algorithm.taps
    result = np.zeros((w.shape[0], *spec.convolution.output_spatial))
    for row, column in spec.parts:
        window = w[:, :, row::step, column::step]
        missing = [(0, taps - extent) for extent in window.shape[2:]]
        window = np.abs(np.pad(window, ((0, 0), (0, 0), *missing)))
        weights = np.einsum("ir,kcrs,js->ijkc", filters, window, filters)
        part = np.abs(x[:, row::step, column::step])
        for top, left in np.ndindex(result.shape[1] // m, result.shape[2] // m):
            tile = part[:, top * m : top * m + points, left * m : left * m + points]
            tile = np.pad(tile, ((0, 0), *((0, points - extent) for extent in tile.shape[1:])))
            inputs = np.einsum("ip,cpq,jq->ijc", data, tile, data)
            products = np.einsum("ijkc,ijc->kij", weights, inputs)
            result[:, top * m : top * m + m, left * m : left * m + m] += back @ products @ back.T
    return result


MEASURED = [(window, stride, outputs) for window, stride in ((3, 1), (2, 1), (4, 1), (5, 1), (4, 2), (5, 2))
            for outputs in possible(window, stride)]  # fmt: skip
"""Window, stride, and outputs of a tile along an axis."""


def measured(window: int, stride: int, outputs: int, channels: int, tiles: int = 4) -> WinogradSpec:
    """A convolution whose output is cut into whole tiles."""
    side = (tiles * outputs - 1) * stride + window
    convolved = ConvolutionSpec(float32, "forward", 1, channels, (side,) * 2, 32, (window,) * 2, (stride,) * 2)
    return WinogradSpec(convolved, outputs)


@pytest.mark.parametrize("scale", ["alike", "wide"])
@pytest.mark.parametrize("case", MEASURED, ids=str)
def test_the_error_stays_within_the_stated_bound(
    run_kernel: KernelRunner, case: tuple[int, int, int], scale: str
) -> None:
    spec = measured(*case, channels=160)
    x, w, _ = draw(spec.convolution)
    if scale == "wide":  # magnitudes over six decades, so that small outputs lie beside large ones
        x *= np.float32(10) ** np.random.default_rng(3).uniform(-3, 3, x.shape).astype(np.float32)
    found = compute(run_kernel, spec, defaults.choose(spec), x, w)[0]
    error = np.abs(found - trilinear(spec.convolution, x=x, w=w)[0])
    assert (error <= 4 * EPSILON * np.sqrt(160 * len(spec.parts)) * magnitude(spec, x[0], w)).all()


def test_random_data_lose_no_more_than_a_few_units(run_kernel: KernelRunner) -> None:
    errors = {}
    for case in MEASURED:
        spec = measured(*case, channels=64, tiles=8)
        x, w, _ = draw(spec.convolution)
        expected = trilinear(spec.convolution, x=x, w=w)
        unit = EPSILON * trilinear(spec.convolution, x=np.abs(x), w=np.abs(w))
        found = compute(run_kernel, spec, defaults.choose(spec), x, w)
        errors[case] = float(np.sqrt((((found - expected) / unit) ** 2).mean()))
    assert errors[3, 1, 2] < 0.5, errors  # the direct sum: 0.45
    assert errors[3, 1, 4] < 1.2, errors  # points 1 and 2: 1.8
    assert max(errors.values()) < 1.5, errors


@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
def test_epilogue_of_bias_residual_and_rectifier(run_kernel: KernelRunner, direction: Direction) -> None:
    epilogue = Epilogue((EpilogueOperand(float32, "channel"), EpilogueOperand(float32, "same")), RECTIFIED)
    spec = specification("same, cut tiles, odd channels", direction, 4, epilogue)
    source, weights, plain = operands_of(spec)
    bias = np.linspace(-1, 1, plain.shape[1], dtype=np.float32)
    residual = np.random.default_rng(1).standard_normal(plain.shape).astype(np.float32)
    arrays = [run_kernel.aligned(bias), run_kernel.aligned(channels_last(residual))]
    found = compute(run_kernel, spec, defaults.choose(spec), source, weights, arrays)
    np.testing.assert_allclose(found, np.maximum(plain + bias[:, None, None] + residual, 0), rtol=0, atol=1e-4)


def test_narrow_vectors_give_the_same_bits(run_kernel: KernelRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = specification("same, cut tiles, odd channels", "forward", 4)
    source, weights, _ = operands_of(spec)
    wide = compute(run_kernel, spec, defaults.choose(spec, AVX512), source, weights)
    monkeypatch.setattr(run_kernel, "target", native.host_target(narrow=True))
    narrow = compute(run_kernel, spec, defaults.choose(spec, NARROW), source, weights)
    assert narrow.tobytes() == wide.tobytes()


def layer(channels: int, size: int, images: int = 8) -> ConvolutionSpec:
    same = ((1, 1), (1, 1))
    return ConvolutionSpec(float32, "forward", images, channels, (size, size), channels, (3, 3), padding=same)


@pytest.mark.parametrize(
    ("spec", "outputs"),
    [
        (layer(64, 56), 4),
        (layer(128, 28), 4),
        (layer(256, 14), 4),
        (layer(512, 7), None),  # its weights outweigh its pixels
        (layer(512, 7, images=32), 4),
        (layer(64, 2, images=256), 2),
        (layer(8, 56), None),
        (replace(layer(64, 56), strides=(2, 2)), None),  # transforms of four parts outweigh what they save
        (replace(layer(256, 56, images=32), strides=(2, 2)), 5),
        (replace(layer(64, 56), strides=(2, 2), window=(5, 5)), 4),
        (replace(layer(64, 56), dilation=(2, 2)), None),
        (replace(layer(64, 56), groups=2), None),
        (replace(layer(64, 56), window=(5, 5)), 2),
        (replace(layer(64, 56), window=(4, 4)), 3),
        (replace(layer(64, 56), window=(6, 6)), None),  # with six points, one output
        (replace(layer(64, 56), window=(1, 1)), None),
        (replace(layer(64, 56), window=(1, 3)), None),
        (replace(layer(64, 56), strides=(3, 3)), None),
    ],
)
def test_the_shape_decides_the_algorithm(spec: ConvolutionSpec, outputs: int | None) -> None:
    chosen = winograd_choice.algorithm(spec)
    assert (chosen.outputs if chosen else None) == outputs
