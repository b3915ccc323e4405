"""Prologues: which element-wise work a convolution does on its input, and that its bits are those of stored inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Storage
from trainer.engine.program.partition import Policy, partition
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.machine import AVX512
from trainer.engine.targets.cpu.target import CpuTarget
from trainer.engine.targets.reference import evaluate

PLAIN: dict[str, Any] = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
GEOMETRIES: dict[str, dict[str, Any]] = {
    "same": PLAIN,
    "stride 2": PLAIN | {"strides": (2, 2)},
    "dilated": PLAIN | {"padding": ((2, 2), (2, 1)), "dilation": (2, 2)},
    "uneven": PLAIN | {"strides": (2, 1), "padding": ((0, 1), (2, 0))},
}
BEFORE = PLAIN | {"padding": ((0, 0), (0, 0))}


def leaf(*shape: int) -> Node:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return p.buffer(Storage.of(values, float32))


def rectified(y: Node) -> Node:
    """Scaled and shifted by channel; what is below zero becomes zero. The shift makes something of padding."""
    scale, shift = (p.expand(leaf(1, y.shape[1], 1, 1), y.shape) for _ in range(2))
    return p.maximum(p.add(p.multiply(y, scale), shift), p.full(y.shape, 0.25, float32))


def step(geometry: dict[str, Any], activation: Callable[[Node], Node] = rectified) -> tuple[Node, list[Node]]:
    """An activation between convolutions, and what a step has of it: the second convolution, its weight gradient, and a
    sum of what the first one left, as a batch norm needs it.
    """
    left = p.convolution(leaf(2, 3, 11, 13), leaf(21, 3, 1, 1), **BEFORE)
    active = activation(left)
    weights = leaf(18, 21, 3, 3)
    result = p.convolution(active, weights, **geometry)
    gradient = p.convolution_weight_gradient(active, leaf(*result.shape), window=(3, 3), **geometry)
    return active, [result, gradient, p.reduce_sum(left, (0, 2, 3))]


def is_stored(node: Node, results: list[Node], **policy: bool) -> bool:
    takes_prologue = CpuTarget(AVX512).takes_prologue
    return node in partition(topological(results), results, Policy(**policy), takes_prologue=takes_prologue).roots


@pytest.mark.parametrize("name", GEOMETRIES)
def test_an_input_made_in_the_window_gives_the_bits_of_a_stored_one(name: str) -> None:
    active, results = step(GEOMETRIES[name])
    assert not is_stored(active, results)
    assert is_stored(active, results, prologues=False)
    found = [CpuDevice(threads=2, policy=Policy(prologues=on)).evaluate(results) for on in (True, False)]
    for made, stored, node, expected in zip(*found, results, evaluate(results), strict=True):
        np.testing.assert_array_equal(made.view(), stored.view())
        np.testing.assert_allclose(made.view(), expected, rtol=1e-4, atol=1e-4, err_msg=node.name)


def test_what_an_epilogue_stores_for_nothing_is_no_prologue() -> None:
    active, (result, *_) = step(PLAIN)
    assert is_stored(active, [result])


def test_costly_work_is_done_once() -> None:
    active, results = step(PLAIN, p.tanh)
    assert is_stored(active, results)


def test_what_reads_two_arrays_is_stored() -> None:
    active, results = step(PLAIN, lambda y: p.add(rectified(y), leaf(*y.shape)))
    assert is_stored(active, results)


def test_what_other_kernels_read_as_well_is_stored() -> None:
    active, results = step(PLAIN)
    assert is_stored(active, [*results, active])


def test_windows_that_are_read_in_place_keep_their_input_stored() -> None:
    active, results = step(BEFORE)
    assert is_stored(active, results)
