"""Convolutions of shapes that no tile fits: forward and both gradients on the cpu device against the reference device.

Each element may err by 4 eps sqrt(K) of the sum of its K products' sizes, which the reference device computes too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from trainer.engine.graph import dtypes, half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.reference import ReferenceDevice

NONE = ((0, 0), (0, 0))
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}
reference = ReferenceDevice()


@dataclass(frozen=True)
class Geometry:
    images: int = 2
    channels: int = 3
    spatial: tuple[int, int] = (9, 8)
    filters: int = 5
    window: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = NONE
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1


def around(rows: int, columns: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (rows, rows), (columns, columns)


QUICK = {
    "17 to 33 channels": Geometry(channels=17, filters=33, padding=around(1, 1)),
    "one channel": Geometry(channels=1, filters=1),
    "one pixel": Geometry(spatial=(1, 1), channels=33, filters=17, padding=around(1, 1)),
    "no image": Geometry(images=0),
    "1x7": Geometry(window=(1, 7), padding=around(0, 3), channels=17),
    "stride beyond the window": Geometry(spatial=(11, 13), window=(2, 2), strides=(3, 5)),
    "dilation and padding": Geometry(spatial=(10, 7), padding=around(3, 2), dilation=(3, 2)),
    "groups": Geometry(channels=15, filters=51, groups=3, padding=around(1, 1)),
    "room to the right": Geometry(spatial=(8, 10), strides=(2, 2), padding=around(1, 1)),
}
"""The last: transposed, it is a convolution with an output padding of 1."""

FULL = {
    **{
        f"{channels} to {filters} channels, {size}x{size}": Geometry(
            channels=channels, filters=filters, window=(size, size), padding=around(size // 2, size // 2)
        )
        for channels in (1, 3, 5, 17, 33)
        for filters in (1, 3, 5, 17, 33)
        for size in (1, 3)
    },
    "7x1": Geometry(window=(7, 1), padding=around(3, 0)),
    "1x7, stride 2": Geometry(window=(1, 7), spatial=(5, 23), strides=(1, 2), padding=around(0, 3)),
    "227x131, 11x11 of stride 4": Geometry(1, 3, (227, 131), 17, (11, 11), (4, 4)),
    "227x131, 3x3": Geometry(1, 5, (227, 131), 3, padding=around(1, 1)),
    "227x131, 7x7 of stride 2": Geometry(2, 3, (227, 131), 33, (7, 7), (2, 2), around(3, 3)),
    "227x131, 1x1": Geometry(1, 33, (227, 131), 17, (1, 1)),
    "one pixel of one image": Geometry(1, 5, (1, 1), 3, (1, 1)),
    "one pixel, stride 2": Geometry(3, 5, (1, 1), 33, (3, 3), (2, 2), around(1, 1)),
    "one row": Geometry(2, 17, (1, 40), 5, (1, 3)),
    "one column": Geometry(2, 17, (40, 1), 5, (3, 1), (2, 1)),
    "no image, strided": Geometry(0, 3, (7, 7), 4, strides=(2, 2)),
    "1x1 with stride 3": Geometry(2, 5, (10, 11), 17, (1, 1), (3, 3)),
    "stride beyond a padded window": Geometry(2, 3, (12, 9), 5, (2, 3), (4, 4), around(1, 1)),
    "dilation beyond the image": Geometry(1, 3, (4, 4), 5, (3, 3), (1, 1), around(5, 5), (5, 5)),
    "stride and dilation": Geometry(2, 5, (17, 16), 3, (3, 2), (2, 3), around(2, 2), (2, 3)),
    "one-sided padding": Geometry(2, 3, (8, 8), 5, (4, 4), (2, 2), ((0, 3), (2, 0))),
    "depthwise": Geometry(2, 33, (9, 7), 33, padding=around(1, 1), groups=33),
    "depthwise, two filters each": Geometry(2, 17, (9, 7), 34, padding=around(1, 1), groups=17),
    "groups of 1 to 3": Geometry(1, 5, (6, 5), 15, groups=5, padding=around(1, 1)),
    "groups, dilated, strided": Geometry(2, 12, (13, 11), 9, (3, 3), (2, 2), around(2, 2), (2, 2), 3),
    "room to the right, 4x4": Geometry(2, 17, (9, 9), 5, (4, 4), (2, 2), around(1, 1)),
    "room to the right, stride 3": Geometry(1, 3, (13, 14), 33, (3, 3), (3, 3), around(1, 1)),
    "even window, odd image": Geometry(2, 3, (15, 13), 5, (4, 2), (1, 1), ((1, 2), (0, 1))),
}


def leaf(values: np.ndarray, dtype: DType) -> Node:
    stored = half.stored(values, dtype).astype(dtype.storage)
    return p.buffer(Storage.of(stored, dtype))


def three(geometry: Geometry, arrays: list[np.ndarray], dtype: DType) -> list[Node]:
    """y, the gradient of x and the gradient of w, of the leaves x, w and dy."""
    x, w, dy = (leaf(array, dtype) for array in arrays)
    numbers = geometry.strides, geometry.padding, geometry.dilation, geometry.groups
    return [
        p.convolution(x, w, *numbers),
        p.convolution_input_gradient(dy, w, *numbers, geometry.spatial),
        p.convolution_weight_gradient(x, dy, *numbers, geometry.window),
    ]


def drawn(geometry: Geometry) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    x_shape = (geometry.images, geometry.channels, *geometry.spatial)
    w_shape = (geometry.filters, geometry.channels // geometry.groups, *geometry.window)
    x, w = random.standard_normal(x_shape), random.standard_normal(w_shape)
    numbers = geometry.strides, geometry.padding, geometry.dilation, geometry.groups
    y = p.convolution(leaf(x, dtypes.float32), leaf(w, dtypes.float32), *numbers)
    return [x, w, random.standard_normal(y.shape)]


def terms(geometry: Geometry, outputs: tuple[int, ...]) -> list[int]:
    """The most products that an element of each of the three sums."""
    taps = math.prod(geometry.window)
    pixels = geometry.images * math.prod(outputs)
    return [taps * geometry.channels // geometry.groups, taps * geometry.filters // geometry.groups, pixels]


def check(geometry: Geometry, device: CpuDevice, dtype: DType) -> None:
    arrays = [array.astype(np.float32).astype(np.float64) for array in drawn(geometry)]
    found = [storage.view() for storage in device.evaluate(three(geometry, arrays, dtype))]
    exact = [storage.view() for storage in reference.evaluate(three(geometry, arrays, dtypes.float64))]
    sizes = three(geometry, [np.abs(array) for array in arrays], dtypes.float64)
    bounds = [storage.view() for storage in reference.evaluate(sizes)]
    counts = terms(geometry, arrays[2].shape[2:])
    for name, ours, wanted, size, count in zip(["y", "dx", "dw"], found, exact, bounds, counts, strict=True):
        assert ours.shape == wanted.shape, name
        beyond = np.abs(ours - wanted) > 4 * EPSILON[dtype.name] * np.sqrt(count) * size
        assert not beyond.any(), f"{name}: {beyond.sum()} of {beyond.size} elements"


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    return CpuDevice(threads=2, poison=True)


@pytest.fixture(scope="module")
def narrow() -> CpuDevice:
    return CpuDevice(threads=2, narrow=True)


@pytest.mark.parametrize("name", QUICK)
def test_forward_and_both_gradients(name: str, cpu: CpuDevice) -> None:
    check(QUICK[name], cpu, dtypes.float32)


@pytest.mark.full
@pytest.mark.parametrize("images", [1, 4])
@pytest.mark.parametrize("name", FULL)
def test_forward_and_both_gradients_of_every_shape(name: str, images: int, cpu: CpuDevice) -> None:
    geometry = FULL[name]
    check(replace(geometry, images=images * geometry.images), cpu, dtypes.float32)


@pytest.mark.full
@pytest.mark.parametrize("name", [*QUICK, *FULL])
def test_forward_and_both_gradients_in_other_settings(name: str, cpu: CpuDevice, narrow: CpuDevice) -> None:
    geometry = {**QUICK, **FULL}[name]
    check(geometry, cpu, dtypes.float64)
    check(geometry, narrow, dtypes.float32)


@pytest.mark.full
@pytest.mark.parametrize("name", [*QUICK, *FULL])
def test_threads_leave_the_bits_alone(name: str) -> None:
    geometry = {**QUICK, **FULL}[name]
    arrays, results = drawn(geometry), set()
    for threads in (1, 2, 5, 8):
        found = _of_threads(threads).evaluate(three(geometry, arrays, dtypes.float32))
        results.add(b"".join(storage.view().tobytes() for storage in found))
    assert len(results) == 1


_devices: dict[int, CpuDevice] = {}


def _of_threads(threads: int) -> CpuDevice:
    if threads not in _devices:
        _devices[threads] = CpuDevice(threads=threads)
    return _devices[threads]


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16], ids=str)
def test_resampled_16_bit_floats_are_rounded_to_the_nearest(dtype: dtypes.DType) -> None:
    """1/4 · 1 + 3/4 · (1 + eps) is nearer to 1 + eps than to 1."""
    epsilon = {"bfloat16": 2.0**-7, "float16": 2.0**-10}[dtype.name]
    pixels = half.stored(np.array([[[[1, 1 + epsilon]]]], np.float32), dtype)
    node = p.resample(p.buffer(Storage.of(pixels, dtype)), (1, ((0, (1.0,)),)), (2, ((0, (0.25, 0.75)),)))
    (found,) = CpuDevice(threads=1).evaluate([node])
    np.testing.assert_array_equal(half.widened(found.view(), dtype), [[[[1 + epsilon]]]])
