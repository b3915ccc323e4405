"""Nodes are interned by what they compute, and hold on to nothing else."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest

from trainer import TrainerError
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import topological
from trainer.engine.graph.storage import Storage


def test_equal_nodes_are_one_node() -> None:
    x = p.buffer(Storage.of(np.ones(3, np.float32), dtypes.float32))
    assert p.add(x, p.full((3,), 2.0, dtypes.float32)) is p.add(x, p.full((3,), 2, dtypes.float32))
    assert p.add(x, x) is not p.multiply(x, x)


def test_constants_of_other_bits_are_other_nodes() -> None:
    zero, negative_zero = p.constant(0.0, dtypes.float32), p.constant(-0.0, dtypes.float32)
    assert zero is not negative_zero
    assert math.copysign(1.0, negative_zero.attributes[0]) == -1.0
    assert p.constant(1, dtypes.int32) is not p.constant(1, dtypes.int64)
    assert p.constant(math.nan, dtypes.float32) is p.constant(float("nan"), dtypes.float32)


def test_constants_are_rounded_to_their_dtype() -> None:
    assert p.constant(0.1, dtypes.float32) is p.constant(float(np.float32(0.1)), dtypes.float32)
    assert p.constant(1 + 2.0**-10, dtypes.bfloat16).attributes[0] == 1.0
    with pytest.raises(TrainerError, match="does not fit into uint8"):
        p.constant(256, dtypes.uint8)


def test_memory_goes_with_the_last_handle() -> None:
    import weakref

    storage = Storage.of(np.ones(3, np.float32), dtypes.float32)
    alive = weakref.ref(storage)
    node = p.exp(p.add(p.buffer(storage), p.buffer(storage)))
    del storage
    gc.collect()
    assert alive() is not None
    del node
    gc.collect()
    assert alive() is None


def test_topological_puts_inputs_first_and_each_node_once() -> None:
    x = p.buffer(Storage.of(np.ones(3, np.float32), dtypes.float32))
    y = p.exp(x)
    z = p.add(y, p.multiply(y, x))
    order = topological([z, y])
    assert len(order) == len(set(order)) == 4
    assert all(order.index(source) < order.index(node) for node in order for source in node.inputs)


def test_a_refusal_names_operation_found_expected_and_the_line() -> None:
    a, b = (p.buffer(Storage.of(np.ones(n, np.float32), dtypes.float32)) for n in (2, 3))
    with pytest.raises(TrainerError) as caught:
        p.add(a, b)
    error = caught.value
    assert error.message == "add: shapes differ"
    assert error.found == "float32[2] and float32[3]"
    assert error.expected == "inputs of one shape"
    assert error.where is not None and error.where.rpartition(":")[0].endswith("test_node.py")
