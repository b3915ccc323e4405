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
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_transforms import Algorithm
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.templates import convolution, winograd
from trainer.engine.targets.cpu.templates.winograd import WinogradParameters, WinogradWeights

EPSILON = 2.0**-24
GEOMETRIES = {  # images, channels, spatial, filters, padding
    "same, cut tiles, odd channels": (2, 21, (9, 11), 37, ((1, 1), (1, 1))),
    "no padding, whole tiles": (1, 16, (10, 14), 16, ((0, 0), (0, 0))),
    "padding of two": (1, 32, (8, 7), 16, ((2, 2), (2, 2))),
    "uneven padding": (3, 16, (5, 6), 33, ((0, 2), (1, 0))),
    "one pixel": (2, 17, (1, 1), 16, ((1, 1), (1, 1))),
    "one row": (1, 16, (1, 30), 19, ((1, 1), (1, 1))),
}
CHOICES = [WinogradParameters(5, 2, 10, 2, 2), WinogradParameters(3, 1, 6, 3, 2), WinogradParameters(14, 2, 28, 4, 4)]


def specification(name: str, direction: Direction, outputs: int, epilogue: Epilogue | None = None) -> WinogradSpec:
    images, channels, spatial, filters, padding = GEOMETRIES[name]
    return WinogradSpec(
        ConvolutionSpec(
            float32, direction, images, channels, spatial, filters, (3, 3), padding=padding,
            epilogue=epilogue or Epilogue(),
        ),
        outputs,
    )  # fmt: skip


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


@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("direction", ["forward", "input_gradient"])
@pytest.mark.parametrize("name", tiered(GEOMETRIES, ("same, cut tiles, odd channels", "uneven padding", "one pixel")))
def test_winograd_is_the_convolution_whatever_the_parameters(
    run_kernel: KernelRunner, name: str, direction: Direction, outputs: int
) -> None:
    spec = specification(name, direction, outputs)
    source, weights, expected = operands_of(spec)
    found = compute(run_kernel, spec, defaults.choose(spec), source, weights)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    for parameters in CHOICES:
        assert compute(run_kernel, spec, parameters, source, weights).tobytes() == found.tobytes(), parameters


@pytest.mark.parametrize("outputs", [2, 4])
def test_the_matrices_filter_exactly(outputs: int) -> None:
    filters, data, back = matrices(Algorithm(outputs))
    generator = np.random.default_rng(2)
    g, d = generator.standard_normal((3, 3)), generator.standard_normal((outputs + 2, outputs + 2))
    found = back @ ((filters @ g @ filters.T) * (data @ d @ data.T)) @ back.T
    expected = sum(g[r, s] * d[r : r + outputs, s : s + outputs] for r in range(3) for s in range(3))
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_errors_grow_by_less_than_the_usual_points_would_let_them() -> None:
    assert growth(Algorithm(2)) == pytest.approx(64 / 9)
    assert growth(Algorithm(4)) == pytest.approx(62.65, abs=0.01)  # with 1 and 2 instead of 5/8 and 3/2: 256


def magnitude(algorithm: Algorithm, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """|A^T| (sum over channels of |G||g||G^T| * |B^T||d||B|) |A| of each tile of x."""
    filters, data, back = (np.abs(matrix) for matrix in matrices(algorithm))
    m, points = algorithm.outputs, algorithm.points
    weights = np.einsum("ir,kcrs,js->ijkc", filters, np.abs(w), filters)
    result = np.zeros((w.shape[0], x.shape[1] - 2, x.shape[2] - 2))
    for top, left in np.ndindex(result.shape[1] // m, result.shape[2] // m):
        tile = np.abs(x[:, top * m : top * m + points, left * m : left * m + points])
        inputs = np.einsum("ip,cpq,jq->ijc", data, tile, data)
        products = np.einsum("ijkc,ijc->kij", weights, inputs)
        result[:, top * m : top * m + m, left * m : left * m + m] = back @ products @ back.T
    return result


@pytest.mark.parametrize("scale", ["alike", "wide"])
@pytest.mark.parametrize("outputs", [2, 4])
def test_the_error_stays_within_the_stated_bound(run_kernel: KernelRunner, outputs: int, scale: str) -> None:
    spec = WinogradSpec(ConvolutionSpec(float32, "forward", 1, 160, (18, 26), 32, (3, 3)), outputs)
    x, w, _ = draw(spec.convolution)
    if scale == "wide":  # magnitudes over six decades, so that small outputs lie beside large ones
        x *= np.float32(10) ** np.random.default_rng(3).uniform(-3, 3, x.shape).astype(np.float32)
    found = compute(run_kernel, spec, defaults.choose(spec), x, w)[0]
    error = np.abs(found - trilinear(spec.convolution, x=x, w=w)[0])
    assert (error <= 4 * EPSILON * np.sqrt(160) * magnitude(spec.algorithm, x[0], w)).all()


def test_random_data_lose_no_more_than_a_few_units(run_kernel: KernelRunner) -> None:
    errors = {}
    convolved = ConvolutionSpec(float32, "forward", 1, 64, (34, 34), 32, (3, 3))
    x, w, _ = draw(convolved)
    expected = trilinear(convolved, x=x, w=w)
    unit = EPSILON * trilinear(convolved, x=np.abs(x), w=np.abs(w))
    for outputs in (2, 4):
        spec = WinogradSpec(convolved, outputs)
        found = compute(run_kernel, spec, defaults.choose(spec), x, w)
        errors[outputs] = np.sqrt((((found - expected) / unit) ** 2).mean())
    assert errors[2] < 0.5  # the direct sum: 0.45
    assert errors[4] < 1.2  # points 1 and 2: 1.8


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
        (replace(layer(64, 56), strides=(2, 2)), None),
        (replace(layer(64, 56), dilation=(2, 2)), None),
        (replace(layer(64, 56), groups=2), None),
        (replace(layer(64, 56), window=(5, 5)), None),
    ],
)
def test_the_shape_decides_the_algorithm(spec: ConvolutionSpec, outputs: int | None) -> None:
    chosen = winograd_choice.algorithm(spec)
    assert (chosen.outputs if chosen else None) == outputs
