"""Weight gradients by Winograd: error against float64, one set of bits for all parameters, a choice by shape alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.targets.cpu.objects import TARGETS, wanted_from_outside
from tests.engine.targets.kernels import test_winograd
from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_convolution import channels_last, draw, trilinear
from tests.engine.targets.kernels.test_winograd import ALGORITHMS, possible
from tests.engine.targets.kernels.winograd_matrices import matrices
from tests.tiers import tiered
from trainer.engine.graph.dtypes import float32
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels import winograd_choice
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_transforms import Algorithm
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.templates import winograd_gradient
from trainer.engine.targets.cpu.templates.winograd_gradient import TILES, WinogradGradientParameters

EPSILON = 2.0**-24
GEOMETRIES = {
    **{name: geometry for name, geometry in test_winograd.GEOMETRIES.items() if name != "one row"},
    "many blocks": (3, 20, (41, 30), 18, ((1, 1), (1, 1)), 3, 1),
}
CHOICES = [
    WinogradGradientParameters(5, 2, 1, 2),
    WinogradGradientParameters(28, 1, 2, 1),
    WinogradGradientParameters(3, 3, 1, 3),
]


def specification(name: str, outputs: int) -> WinogradSpec:
    images, channels, spatial, filters, padding, window, stride = GEOMETRIES[name]
    plain = ConvolutionSpec(
        float32, "weight_gradient", images, channels, spatial, filters, (window,) * 2, (stride,) * 2, padding=padding
    )
    return WinogradSpec(plain, outputs)


def compute(
    run_kernel: KernelRunner, spec: WinogradSpec, parameters: WinogradGradientParameters, x: np.ndarray, dy: np.ndarray
) -> np.ndarray:
    """The gradient and the sum of its groups, in logical axes; tasks run last to first."""
    plain, sums = spec.convolution, winograd_gradient.totals_of(spec)
    parts = run_kernel.empty([sums.size], plain.dtype.storage)
    arrays = [run_kernel.aligned(channels_last(x)), run_kernel.aligned(channels_last(dy)), parts]
    tasks = reversed(range(winograd_gradient.TEMPLATE.tasks(spec, parameters)))
    scratch = winograd_gradient.TEMPLATE.scratch_bytes(spec, parameters)
    run_kernel(winograd_gradient.TEMPLATE.render(spec, parameters, "winograd"), "winograd", arrays, tasks, scratch)
    output = parts
    if sums.is_needed:
        output = run_kernel.empty([plain.weights], plain.dtype.storage)
        run_kernel(sums.render("totals"), "totals", [parts, output, *sums.words], range(sums.tasks))
    return output.reshape(*plain.window, plain.channels, plain.filters).transpose(3, 2, 0, 1)


@pytest.mark.parametrize("name", tiered(GEOMETRIES, (*test_winograd.QUICK, "many blocks")))
def test_it_is_the_weight_gradient_whatever_the_parameters(run_kernel: KernelRunner, name: str) -> None:
    for outputs in possible(*GEOMETRIES[name][-2:]):
        spec = specification(name, outputs)
        x, _, dy = draw(spec.convolution)
        found = compute(run_kernel, spec, defaults.choose(spec), x, dy)
        expected = trilinear(spec.convolution, x=x, y=dy)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.sqrt(dy.size))
        for parameters in CHOICES:
            assert compute(run_kernel, spec, parameters, x, dy).tobytes() == found.tobytes(), parameters


def test_narrow_vectors_give_the_same_bits(run_kernel: KernelRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = specification("same, cut tiles, odd channels", 4)
    x, _, dy = draw(spec.convolution)
    wide = compute(run_kernel, spec, defaults.choose(spec, AVX512), x, dy)
    monkeypatch.setattr(run_kernel, "target", native.host_target(narrow=True))
    narrow = compute(run_kernel, spec, defaults.choose(spec, NARROW), x, dy)
    assert narrow.tobytes() == wide.tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_it_compiles_elsewhere(target: str) -> None:
    spec = specification("same, cut tiles, odd channels", 4)
    ir = winograd_gradient.TEMPLATE.render(spec, defaults.choose(spec, NARROW), "kernel")
    assert wanted_from_outside(ir, target) == set()


def magnitude(algorithm: Algorithm, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """|G^T| (sum over tiles of |B^T||x||B| * |A||dy||A^T|) |G|; x [N, C, H, W] is padded, dy covers whole tiles."""
    filters, data, back = (np.abs(matrix) for matrix in matrices(algorithm))
    m, points = algorithm.outputs, algorithm.points
    total = np.zeros((dy.shape[1], x.shape[1], points, points))
    for top, left in np.ndindex(dy.shape[2] // m, dy.shape[3] // m):
        inputs = np.abs(x[:, :, top * m : top * m + points, left * m : left * m + points]).astype(float)
        outputs = np.abs(dy[:, :, top * m : top * m + m, left * m : left * m + m]).astype(float)
        a = np.einsum("ip,ncpq,jq->ncij", data, inputs, data)
        b = np.einsum("pi,nkpq,qj->nkij", back, outputs, back)
        total += np.einsum("ncij,nkij->kcij", a, b)
    return np.einsum("ir,kcij,js->kcrs", filters, total, filters)


@pytest.mark.parametrize("scale", ["alike", "wide"])
@pytest.mark.parametrize("outputs", [2, 4])
def test_the_error_stays_within_the_stated_bound(run_kernel: KernelRunner, outputs: int, scale: str) -> None:
    spec = WinogradSpec(ConvolutionSpec(float32, "weight_gradient", 3, 17, (34, 26), 20, (3, 3)), outputs)
    x, _, dy = draw(spec.convolution)
    if scale == "wide":  # magnitudes over six decades, so that small tiles lie beside large ones
        x *= np.float32(10) ** np.random.default_rng(3).uniform(-3, 3, x.shape).astype(np.float32)
    found = compute(run_kernel, spec, defaults.choose(spec), x, dy)
    error = np.abs(found - trilinear(spec.convolution, x=x, y=dy))
    assert (error <= 4 * EPSILON * np.sqrt(spec.tiles) * magnitude(spec.algorithm, x, dy)).all()


@pytest.mark.parametrize(
    ("algorithm", "growth"), list(zip(ALGORITHMS, [9, 50.15, 7.11, 45.27, 62.65, 90.59], strict=True)), ids=str
)
def test_magnitudes_exceed_those_of_the_direct_sum_as_forwards(algorithm: Algorithm, growth: float) -> None:
    """For equal |x| and |dy|, at the worst of the weights. F(m, r) has the growth of F(r, m) forwards."""
    points, outputs = algorithm.points, algorithm.outputs
    found = magnitude(algorithm, np.ones((1, 1, points, points)), np.ones((1, 1, outputs, outputs)))
    assert found.max() / outputs**2 == pytest.approx(growth, abs=0.01)


def test_random_data_lose_no_more_than_a_few_units(run_kernel: KernelRunner) -> None:
    errors = {}
    plain = ConvolutionSpec(float32, "weight_gradient", 4, 16, (34, 34), 16, (3, 3))
    x, _, dy = draw(plain)
    expected = trilinear(plain, x=x, y=dy)
    unit = EPSILON * trilinear(plain, x=np.abs(x), y=np.abs(dy))
    for outputs in (2, 4):
        spec = WinogradSpec(plain, outputs)
        found = compute(run_kernel, spec, defaults.choose(spec), x, dy)
        errors[outputs] = float(np.sqrt((((found - expected) / unit) ** 2).mean()))
    assert errors[2] < 0.15 and errors[4] < 0.35, errors  # the direct sum: 0.12


@pytest.mark.parametrize(("spatial", "images"), [((56, 56), 8), ((7, 7), 1), ((33, 5), 64)])
def test_blocks_cover_every_tile_once_and_know_nothing_of_parameters(spatial: tuple[int, int], images: int) -> None:
    plain = ConvolutionSpec(float32, "weight_gradient", images, 64, spatial, 64, (3, 3), padding=((1, 1), (1, 1)))
    spec = WinogradSpec(plain, 4)
    blocks = winograd_gradient.tile_blocks(spec)
    assert (blocks.count - 1) * TILES < spec.tiles <= blocks.count * TILES
    assert (blocks.groups - 1) * blocks.blocks_per_group < blocks.count <= blocks.groups * blocks.blocks_per_group


def layer(channels: int, size: int, images: int = 8) -> ConvolutionSpec:
    same = ((1, 1), (1, 1))
    return ConvolutionSpec(float32, "weight_gradient", images, channels, (size, size), channels, (3, 3), padding=same)


@pytest.mark.parametrize(
    ("spec", "outputs"),
    [
        (layer(64, 56), 4),
        (layer(128, 28), 4),
        (layer(256, 14), 4),
        (layer(512, 7), None),  # so few tiles that going back to weights takes longer than the products
        (layer(512, 7, images=32), 4),
        (layer(64, 4, images=4), None),  # four tiles
        (layer(8, 56), None),
        (replace(layer(64, 56), strides=(2, 2)), None),
        (replace(layer(64, 56), strides=(2, 2), window=(5, 5)), 4),
        (replace(layer(64, 56), window=(5, 5)), 2),
        (replace(layer(64, 56), pairs=True), None),
    ],
)
def test_the_shape_decides_the_algorithm(spec: ConvolutionSpec, outputs: int | None) -> None:
    chosen = winograd_choice.algorithm(spec)
    assert (chosen.outputs if chosen else None) == outputs
