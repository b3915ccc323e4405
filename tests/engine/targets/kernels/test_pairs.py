"""Products of bfloat16 pairs: bit by bit the chain of multiply-adds that `products.py` states, on every shape.

Values have exponents so close that float64 holds each product and each sum before rounding exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.kernels.conftest import KernelRunner
from tests.engine.targets.kernels.test_contraction import multiply
from trainer.engine.graph import dtypes, half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.machine import AVX512, NARROW
from trainer.engine.targets.cpu.templates.contraction import MatmulParameters, MatmulSpec

HAS_INSTRUCTION = bool(native.host_features().get("avx512bf16"))
WIDENED = CpuDevice(threads=2, narrow=True)
DEVICES = {"host": CpuDevice(threads=2), "narrow": WIDENED}


def draw(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """bfloat16 values of magnitude 2^-5 to 2^5, as float32: their products span so many bits that sums round."""
    random = np.random.default_rng(seed)
    values = np.ldexp(random.uniform(0.5, 1, shape), random.integers(-4, 6, shape))
    return half.rounded(values * random.choice([-1, 1], shape), dtypes.bfloat16)


def leaf(values: np.ndarray) -> Node:
    return p.buffer(Storage.of(half.to_bits(values), dtypes.bfloat16))


def add(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One fused multiply-add in float32."""
    return (total.astype(np.float64) + a.astype(np.float64) * b.astype(np.float64)).astype(np.float32)


def odd_first(count: int) -> list[int]:
    """The order in which a chain takes `count` neighbors."""
    return [term for pair in range(0, count, 2) for term in (pair + 1, pair) if term < count]


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for k in odd_first(a.shape[-1]):
        total = add(total, a[..., k, None], b[..., k, None, :])
    return total


def evaluated(device: CpuDevice, node: Node) -> np.ndarray:
    return device.evaluate([node])[0].view()


@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 2, 17), (33, 17, 5), (29, 131, 70), (64, 64, 48)])
def test_a_matrix_product_is_a_chain_with_the_odd_term_of_each_pair_first(
    device: CpuDevice, m: int, k: int, n: int
) -> None:
    a, b = draw((m, k)), draw((k, n), 1)
    expected = product(a, b)
    operands = {
        "plain": (leaf(a), leaf(b)),
        "transposed": (p.permute(leaf(a.T.copy()), (1, 0)), p.permute(leaf(b.T.copy()), (1, 0))),
    }
    for left, right in operands.values():
        np.testing.assert_array_equal(evaluated(device, p.matmul(left, right, dtypes.bfloat16)), expected)


def test_batches_of_products_are_chains_as_well() -> None:
    a, b = draw((2, 3, 5, 7)), draw((2, 3, 7, 19), 1)
    found = evaluated(DEVICES["host"], p.matmul(leaf(a), leaf(b), dtypes.bfloat16))
    np.testing.assert_array_equal(found, product(a, b))


GEOMETRIES = [
    # images, channels, image, filters, window, strides, padding, dilation, groups
    (2, 3, (9, 11), 17, (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    (1, 1, (5, 4), 1, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    (3, 17, (6, 5), 33, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    (2, 16, (7, 7), 18, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    (1, 4, (8, 9), 6, (1, 7), (1, 2), ((0, 0), (3, 3)), (1, 1), 1),
    (3, 8, (9, 8), 12, (3, 2), (2, 1), ((2, 0), (0, 1)), (2, 2), 2),
    (1, 12, (13, 6), 36, (3, 3), (2, 1), ((1, 2), (1, 1)), (2, 1), 2),
    (1, 4, (2, 3), 6, (5, 1), (1, 1), ((4, 4), (0, 0)), (1, 1), 1),
    (1, 6, (5, 7), 18, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
]


def places(geometry: Any, x: np.ndarray) -> Any:
    """(r, s, the pixels of padded x that meet tap (r, s)) of each tap, ascending."""
    _, _, image, _, window, strides, padding, dilation, _ = geometry
    padded = np.pad(x, ((0, 0), (0, 0), *padding))
    extents = [(image[i] + sum(padding[i]) - dilation[i] * (window[i] - 1) - 1) // strides[i] + 1 for i in (0, 1)]
    for r in range(window[0]):
        for s in range(window[1]):
            top, left = r * dilation[0], s * dilation[1]
            rows = slice(top, top + (extents[0] - 1) * strides[0] + 1, strides[0])
            yield r, s, padded[:, :, rows, left : left + (extents[1] - 1) * strides[1] + 1 : strides[1]]


def operands(geometry: Any) -> tuple[np.ndarray, np.ndarray]:
    n, c, image, k, window, *_, groups = geometry
    return draw((n, c, *image)), draw((k, c // groups, *window), 1)


def forward(geometry: Any, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    groups = geometry[-1]
    results = []
    for xg, wg in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        total: Any = np.float32(0)
        for r, s, pixels in places(geometry, xg):
            for c in odd_first(wg.shape[1]):
                total = add(total, pixels[:, None, c], wg[:, c, r, s][:, None, None])
        results.append(total)
    return np.concatenate(results, 1)


def attributes(geometry: Any) -> tuple[Any, ...]:
    return geometry[5:9]


@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_a_convolution_is_a_chain_over_taps_and_pairs_of_channels(device: CpuDevice, geometry: Any) -> None:
    x, w = operands(geometry)
    found = evaluated(device, p.convolution(leaf(x), leaf(w), *attributes(geometry), dtypes.bfloat16))
    np.testing.assert_array_equal(found, forward(geometry, x, w))


@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_an_input_gradient_is_a_chain_over_pixels_and_pairs_of_filters(device: CpuDevice, geometry: Any) -> None:
    """Pixels of dy ascending are taps descending: in a stride of 1 or more each meets a pixel of x once."""
    _, _, image, _, window, strides, padding, dilation, groups = geometry
    x, w = operands(geometry)
    dy = draw(forward(geometry, x, w).shape, 2)
    shape = (x.shape[0], x.shape[1], *(image[i] + sum(padding[i]) for i in (0, 1)))
    results = []
    for number in range(groups):
        dyg, wg = np.split(dy, groups, 1)[number], np.split(w, groups, 0)[number]
        total = np.zeros((shape[0], wg.shape[1], *shape[2:]), np.float32)
        for r in reversed(range(window[0])):
            for s in reversed(range(window[1])):
                rows, columns = (
                    slice(t * dilation[i], t * dilation[i] + (dy.shape[2 + i] - 1) * strides[i] + 1, strides[i])
                    for i, t in enumerate((r, s))
                )
                for k in odd_first(wg.shape[0]):
                    total[:, :, rows, columns] = add(
                        total[:, :, rows, columns], dyg[:, None, k], wg[k, :, r, s][:, None, None]
                    )
        results.append(total)
    (top, _), (left, _) = padding
    expected = np.concatenate(results, 1)[:, :, top : top + image[0], left : left + image[1]]
    node = p.convolution_input_gradient(leaf(dy), leaf(w), *attributes(geometry), image, dtypes.bfloat16)
    np.testing.assert_array_equal(evaluated(device, node), expected)


@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_a_weight_gradient_is_a_chain_over_pairs_of_images_and_pixels(device: CpuDevice, geometry: Any) -> None:
    """These shapes are one block of pixels each. A single image is paired with itself, half its height further down."""
    x, w = operands(geometry)
    dy = draw(forward(geometry, x, w).shape, 2)
    groups, window = geometry[-1], geometry[4]
    results = []
    for xg, dyg in zip(np.split(x, groups, 1), np.split(dy, groups, 1), strict=True):
        total = np.zeros((dyg.shape[1], xg.shape[1], *window), np.float32)
        for r, s, pixels in places(geometry, xg):
            half_height = -(-dy.shape[2] // 2)
            for pair in range(0, x.shape[0], 2):
                for i, j in np.ndindex(half_height if x.shape[0] == 1 else dy.shape[2], dy.shape[3]):
                    both = [(0, i + half_height), (0, i)] if x.shape[0] == 1 else [(pair + 1, i), (pair, i)]
                    for n, row in both:
                        if n < x.shape[0] and row < dy.shape[2]:
                            factors = pixels[n, None, :, row, j], dyg[n, :, None, row, j]
                            total[:, :, r, s] = add(total[:, :, r, s], *factors)
        results.append(total)
    node = p.convolution_weight_gradient(leaf(x), leaf(dy), *attributes(geometry), window, dtypes.bfloat16)
    np.testing.assert_array_equal(evaluated(device, node), np.concatenate(results, 0))


@pytest.mark.parametrize("depth", [64, 1000, 4096])
def test_errors_stay_within_the_rounding_of_float32(depth: int) -> None:
    """|y − y64| <= 4 eps sqrt(K) (|A||B|): operands are exact, so only sums round."""
    random = np.random.default_rng(0)
    a, b = (half.rounded(random.standard_normal(shape), dtypes.bfloat16) for shape in ((9, depth), (depth, 21)))
    found = evaluated(DEVICES["host"], p.matmul(leaf(a), leaf(b), dtypes.bfloat16))
    bound = 4 * 2.0**-24 * np.sqrt(depth) * (np.abs(a).astype(np.float64) @ np.abs(b))
    assert (np.abs(found - a.astype(np.float64) @ b) <= bound).all()


def test_weight_gradients_of_many_blocks_stay_within_the_rounding_of_float32() -> None:
    random = np.random.default_rng(0)
    x, dy = (half.rounded(random.standard_normal((5, channels, 40, 30)), dtypes.bfloat16) for channels in (6, 20))
    node = p.convolution_weight_gradient(
        leaf(x), leaf(dy), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 1), dtypes.bfloat16
    )
    found = evaluated(DEVICES["host"], node)[:, :, 0, 0]
    exact, size = (
        np.einsum("nchw,nkhw->kc", f(x.astype(np.float64)), f(dy.astype(np.float64))) for f in (np.positive, np.abs)
    )
    assert (np.abs(found - exact) <= 4 * 2.0**-24 * np.sqrt(5 * 40 * 30) * size).all()


@pytest.mark.parametrize("native_product", [False, pytest.param(True, marks=pytest.mark.skipif(
    not HAS_INSTRUCTION, reason="this processor has no AVX-512-BF16"))])  # fmt: skip
def test_parameters_leave_the_bits_alone(run_kernel: KernelRunner, native_product: bool) -> None:
    rows, columns, depth = 45, 75, 130
    spec = MatmulSpec(dtypes.float32, rows, columns, depth, (depth, 1), (columns, 1), pairs=True)
    random = np.random.default_rng(0)
    a, b = (
        run_kernel.aligned(half.to_bits(random.standard_normal(shape))) for shape in ((rows, depth), (depth, columns))
    )
    parameters = [MatmulParameters(5, 3, 10, 3, unroll=3), MatmulParameters(28, 1, 28, 2, pack_rows=True)]
    machine = replace(AVX512, bfloat16=True) if native_product else NARROW
    parameters += defaults.candidates(spec, machine)[:3]
    reference = multiply(run_kernel, spec, replace(parameters[0], native=False), a, b)
    for each in parameters:
        found = multiply(run_kernel, spec, replace(each, native=native_product), a, b)
        assert found.tobytes() == reference.tobytes(), each


def test_the_cost_model_uses_the_instruction_only_where_there_is_one() -> None:
    spec = MatmulSpec(dtypes.float32, 64, 64, 64, (64, 1), (64, 1), pairs=True)
    assert all(each.native for each in defaults.candidates(spec, replace(AVX512, bfloat16=True)))
    assert not any(each.native for machine in (AVX512, NARROW) for each in defaults.candidates(spec, machine))


def test_subnormal_numbers_are_flushed_alike_where_a_program_flushes() -> None:
    """Operands, products and sums around the least normal number, 2^-126."""
    random = np.random.default_rng(0)
    a, b = (
        half.rounded(np.ldexp(random.standard_normal((40, 40)), random.integers(-70, -56, (40, 40))), dtypes.bfloat16)
        for _ in range(2)
    )
    a[:, :4], b[:4] = 1.0, half.rounded(np.ldexp(random.standard_normal((4, 40)), -128), dtypes.bfloat16)
    node = p.matmul(leaf(a), leaf(b), dtypes.bfloat16)
    found = [device.compile([node], flush=True).run([])[0].view() for device in DEVICES.values()]
    assert (found[0] != 0).any()
    np.testing.assert_array_equal(found[0], found[1])
    assert not ((np.abs(found[0]) > 0) & (np.abs(found[0]) < 2.0**-126)).any()
