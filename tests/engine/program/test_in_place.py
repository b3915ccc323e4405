"""Contractions that store over a term of their epilogue: the same bits in less memory, never over their operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.reference import evaluate

POINTWISE = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
PADDED = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


def leaf(*shape: int) -> Node:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return p.buffer(Storage.of(values, float32))


def product() -> Node:
    return p.matmul(leaf(61, 53), leaf(53, 37))


def image() -> Node:
    return p.convolution(leaf(2, 5, 19, 17), leaf(35, 5, 3, 3), **PADDED)


def strided_gradient() -> Node:
    geometry = PADDED | {"strides": (2, 2)}
    return p.convolution_input_gradient(leaf(2, 7, 10, 9), leaf(7, 35, 3, 3), spatial=(19, 17), **geometry)


def depthwise() -> Node:
    return p.convolution(leaf(2, 35, 19, 17), leaf(35, 1, 3, 3), **PADDED | {"groups": 35})


def many_channels() -> Node:
    return p.convolution(leaf(2, 64, 19, 17), leaf(35, 64, 3, 3), **PADDED)


def other(node: Node) -> Node:
    """A second contraction's result, of the same shape."""
    if node.ndim == 2:
        return p.matmul(leaf(node.shape[0], 3), leaf(3, node.shape[1]))
    images, channels, *spatial = node.shape
    return p.convolution(leaf(images, 3, *spatial), leaf(channels, 3, 1, 1), **POINTWISE)


def closing(node: Node) -> Node:
    """What reads `node` from memory."""
    if node.ndim == 2:
        return p.matmul(node, leaf(node.shape[1], 4))
    return p.convolution(node, leaf(4, node.shape[1], 1, 1), **POINTWISE)


def sum_of(device: CpuDevice, total: Node) -> tuple[Launch, bool]:
    """The launch that adds in its epilogue, and whether its output lies where one of its inputs lay."""
    program = device.compile([total], [], [])
    (launch,) = (each for each in program.launches if each.work.in_place)
    offsets = program.memory.offsets
    (output,) = launch.writes
    return launch, any(read.in_arena and offsets[read] == offsets[output] for read in launch.reads)


@pytest.mark.parametrize("contraction", [product, image, strided_gradient, depthwise, many_channels])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_sum_takes_the_place_of_the_term_that_ends_in_it(contraction: Callable[[], Node], threads: int) -> None:
    """Shapes that no tile divides; where memory is poisoned, nothing is overwritten."""
    numerics = "fast" if contraction is many_channels else "exact"
    direct = CpuDevice(threads=threads, poison=False, numerics=numerics)
    apart = CpuDevice(threads=threads, poison=True, numerics=numerics)
    first = contraction()
    total = closing(p.add(first, other(first)))
    assert sum_of(direct, total)[1] and not sum_of(apart, total)[1]
    found, expected = (device.evaluate([total])[0].view() for device in (direct, apart))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, evaluate([total])[0], rtol=1e-4, atol=1e-3)


def test_a_term_that_the_product_itself_reads_is_not_overwritten() -> None:
    term = p.matmul(leaf(37, 3), leaf(3, 37))
    total = closing(p.add(p.matmul(term, leaf(37, 37)), term))
    device = CpuDevice(threads=2, poison=False)
    assert not any(each.work.in_place for each in device.compile([total], [], []).launches)
    np.testing.assert_allclose(device.evaluate([total])[0].view(), evaluate([total])[0], rtol=1e-4, atol=1e-3)


def test_a_term_that_is_read_later_is_not_overwritten() -> None:
    term = p.matmul(leaf(61, 3), leaf(3, 37))
    total = p.add(closing(p.add(product(), term)), p.matmul(term, leaf(37, 4)))
    device = CpuDevice(threads=2, poison=False)
    assert not sum_of(device, total)[1]
    np.testing.assert_allclose(device.evaluate([total])[0].view(), evaluate([total])[0], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("contraction", [product, image, strided_gradient, depthwise, many_channels])
def test_no_candidate_of_a_kernel_writes_an_element_twice(contraction: Callable[[], Node]) -> None:
    """A tile or task that overlapped another would add its term a second time."""
    numerics = "fast" if contraction is many_channels else "exact"
    first = contraction()
    total = closing(p.add(first, other(first)))
    results = []
    for rank in range(0, 8, 3):

        def choose(spec: Any, rank: int = rank) -> Any:
            ranked = defaults.candidates(spec)
            return ranked[min(rank, len(ranked) - 1)]

        device = CpuDevice(threads=2, poison=False, numerics=numerics, choose=choose)
        assert sum_of(device, total)[1]
        results.append(device.evaluate([total])[0].view())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
