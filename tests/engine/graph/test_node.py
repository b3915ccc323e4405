"""Each node is a value of its own until equal ones are merged; nodes hold on to nothing but what they depend on."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest

from trainer import TrainerError
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import merged
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Storage


def is_merged(first: Node, second: Node) -> bool:
    a, b = merged([first, second])
    return a is b


def test_equal_nodes_are_one_node_once_they_are_merged() -> None:
    x = p.buffer(Storage.of(np.ones(3, np.float32), dtypes.float32))
    first, second = (p.add(x, p.full((3,), two, dtypes.float32)) for two in (2.0, 2))
    assert first is not second and is_merged(p.exp(first), p.exp(second))
    assert not is_merged(p.add(x, x), p.multiply(x, x))
    assert not is_merged(p.barrier(x, 1), p.barrier(x, 2))


def test_aliases_and_anchors_are_merged_with_what_they_stand_for() -> None:
    x = p.buffer(Storage.of(np.ones(3, np.float32), dtypes.float32))
    assert p.alias(x) is not x and p.origin(p.alias(p.alias(x))) is x
    assert is_merged(p.exp(p.alias(x)), p.anchor(p.exp(x), p.reduce_sum(x, (0,))))


def test_constants_of_other_bits_are_other_nodes() -> None:
    zero, negative_zero = p.constant(0.0, dtypes.float32), p.constant(-0.0, dtypes.float32)
    assert not is_merged(zero, negative_zero)
    assert math.copysign(1.0, negative_zero.attributes[0]) == -1.0
    assert not is_merged(p.constant(1, dtypes.int32), p.constant(1, dtypes.int64))
    assert is_merged(p.constant(math.nan, dtypes.float32), p.constant(float("nan"), dtypes.float32))


def test_constants_are_rounded_to_their_dtype() -> None:
    assert is_merged(p.constant(0.1, dtypes.float32), p.constant(float(np.float32(0.1)), dtypes.float32))
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
