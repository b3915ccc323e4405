"""simplify leaves fewer nodes and every bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.simplify import SPECIAL_NUMBERS, simplify
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.reference import evaluate

SPECIAL = np.array([0.0, -0.0, 1.5, np.inf, np.nan, 1e-40, -1e-40, 3.0], np.float32)


def leaf(values: np.ndarray = SPECIAL) -> Node:
    dtype = dtypes.from_numpy(values.dtype)
    assert dtype is not None
    return p.buffer(Storage.of(values, dtype))


def full(value: float, like: Node) -> Node:
    return p.full_like(like, value)


X = leaf()
COUNTED = leaf(np.arange(8, dtype=np.int32))
TRUTH = leaf(np.arange(8) % 2 == 0)
SUM = p.add(X, leaf(np.ones(8, np.float32)))  # has been through arithmetic
COLUMN = p.reshape(SUM, (8, 1, 1))
CUBE = p.reshape(X, (2, 2, 2))
MEAN = p.reduce_mean(CUBE, (0, 2))

OTHER = p.reshape(SUM, (2, 2, 2))


def part(x: Node, axis: int, before: int, behind: int, value: float = 0.0) -> Node:
    """`x` padded along one axis, as the gradient of a slice is."""
    around = [tuple(extent if each == axis else 0 for each in range(x.ndim)) for extent in (before, behind)]
    return p.pad(x, around[0], around[1], (0,) * x.ndim, value)


def plus_zero(x: Node) -> Node:
    return p.add(x, full(0.0, x))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (p.multiply(SUM, full(1.0, X)), SUM),
        (p.multiply(full(1.0, X), SUM), SUM),
        (p.divide(SUM, full(1.0, X)), SUM),
        (p.add(SUM, full(-0.0, X)), SUM),
        (p.subtract(SUM, full(0.0, X)), SUM),
        (p.add(COUNTED, full(0, COUNTED)), COUNTED),
        (p.negative(p.negative(X)), X),
        (p.cast(p.cast(SUM, dtypes.float64), dtypes.float32), SUM),
        (p.cast(p.cast(COUNTED, dtypes.float64), dtypes.int64), p.cast(COUNTED, dtypes.int64)),
        (p.cast(SUM, dtypes.float32), SUM),
        (p.reshape(p.reshape(CUBE, (4, 2)), (8,)), X),
        (p.permute(p.permute(CUBE, (1, 2, 0)), (2, 0, 1)), CUBE),
        (p.permute(CUBE, (0, 1, 2)), CUBE),
        (p.flip(p.flip(X, (0,)), (0,)), X),
        (p.slice_(X, (0,), (8,), (1,)), X),
        (p.pad(X, (0,), (0,), (0,), 0.0), X),
        (p.concatenate([X, p.slice_(X, (0,), (0,), (1,))], 0), X),
        (
            p.reduce_mean(p.concatenate([CUBE, CUBE], 1), (0, 2)),
            p.concatenate([MEAN, MEAN], 0),
        ),
        (
            p.add(p.add(part(CUBE, 1, 4, 0), part(OTHER, 1, 0, 4)), part(p.flip(CUBE, (0,)), 1, 2, 2)),
            p.concatenate([plus_zero(OTHER), plus_zero(p.flip(CUBE, (0,))), plus_zero(CUBE)], 1),
        ),
        (p.add(part(COUNTED, 0, 0, 8), part(COUNTED, 0, 8, 0)), p.concatenate([COUNTED, COUNTED], 0)),
        (p.where(full(True, TRUTH), X, SUM), X),
        (p.logical_and(TRUTH, full(True, TRUTH)), TRUTH),
        (p.add(full(2.0, X), full(3.0, X)), full(5.0, X)),
        (p.reshape(p.multiply(full(2.0, CUBE), full(3.0, CUBE)), (8,)), full(6.0, X)),
        (
            p.expand(p.expand(p.reshape(SUM, (8, 1, 1)), (8, 2, 1)), (8, 2, 3)),
            p.expand(p.reshape(SUM, (8, 1, 1)), (8, 2, 3)),
        ),
    ],
)
def test_these_become(node: Node, expected: Node) -> None:
    found, wanted = simplify([node, expected])
    assert found is wanted and len(topological([found])) == len(topological([expected]))


@pytest.mark.parametrize(
    "node",
    [
        p.add(SUM, full(0.0, X)),  # makes 0 of -0
        p.subtract(SUM, full(-0.0, X)),
        p.multiply(SUM, full(0.0, X)),  # keeps signs, NaN
        p.multiply(X, full(1.0, X)),  # flushes subnormals, where they are flushed
        p.cast(p.cast(SUM, dtypes.bfloat16), dtypes.float32),  # rounds
        p.cast(p.cast(COUNTED, dtypes.uint8), dtypes.int32),  # wraps
        p.multiply(p.negative(X), full(1.0, X)),  # a sign moves, and nothing is flushed yet
        p.divide(SUM, SUM),
        p.exp(full(1.0, X)),  # each device has its own exp
        p.multiply(full(1e-30, X), full(1e-10, X)),  # subnormal: flushed or not
        p.add(part(X, 0, 0, 7), part(X, 0, 7, 0)),  # overlap
        p.add(part(X, 0, 0, 9), part(X, 0, 9, 0)),  # a gap
        p.add(part(X, 0, 0, 8, 1.0), part(X, 0, 8, 0)),  # not of zeros
        p.add(part(p.reshape(X, (2, 4)), 0, 0, 2), part(p.reshape(X, (4, 2)), 1, 2, 0)),  # along two axes
        p.add(part(X, 0, 0, 8), part(SUM, 0, 8, 0, -0.0)),  # keeps the sign of zero
    ],
    ids=repr,
)
def test_these_stay(node: Node) -> None:
    assert simplify([node]) == [node]


@pytest.mark.parametrize("value", [2.0, -2.0, 0.5, 3.7, 1e-40, 1e30, 255.0, float(np.nextafter(np.float32(1), 2))])
def test_no_rule_looks_at_a_number_that_is_not_special(value: float) -> None:
    number = full(value, X)
    assert value not in SPECIAL_NUMBERS
    for build in (p.add, p.subtract, p.multiply, p.divide, p.maximum, p.minimum, p.power, p.equal, p.less):
        kept = [build(SUM, number), build(number, SUM)]
        assert simplify(kept) == kept
    for whole in (2, -2, 7, 255):
        counted = p.full_like(COUNTED, whole)
        for build in (p.add, p.subtract, p.multiply, p.floor_divide, p.remainder, p.bitwise_and, p.shift_left):
            kept = [build(COUNTED, counted), build(counted, COUNTED)]
            assert simplify(kept) == kept


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, True, False, 0, 1])
def test_these_numbers_are_special(value: float) -> None:
    dtype = {bool: dtypes.bool_, int: dtypes.int64}.get(type(value), dtypes.float32)
    assert p.constant(value, dtype).attributes[0] in SPECIAL_NUMBERS


def test_a_constant_keeps_the_sign_of_zero() -> None:
    (node,) = simplify([p.multiply(full(-1.0, X), full(0.0, X))])
    assert np.signbit(evaluate([node])[0]).all()


_UNARY: list[Callable[[Node], Node]] = [
    p.negative,
    p.abs,
    p.sqrt,
    lambda x: p.cast(x, dtypes.float32),
    lambda x: p.cast(p.cast(x, dtypes.float64), dtypes.float32),
    lambda x: p.cast(p.cast(x, dtypes.bfloat16), dtypes.float32),
    lambda x: p.reshape(p.reshape(x, (2, 4)), (8,)),
    lambda x: p.reshape(p.permute(p.permute(p.reshape(x, (2, 2, 2)), (1, 2, 0)), (0, 2, 1)), (8,)),
    lambda x: p.flip(x, (0,)),
    lambda x: p.add(part(p.slice_(x, (0,), (3,), (1,)), 0, 0, 5), part(p.slice_(x, (3,), (8,), (1,)), 0, 3, 0)),
    lambda x: p.reshape(p.reduce_sum(p.expand(p.expand(p.reshape(x, (8, 1, 1)), (8, 2, 1)), (8, 2, 2)), (1, 2)), (8,)),
]
_BINARY = [p.add, p.subtract, p.multiply, p.divide, p.maximum]
_CONSTANTS = [0.0, -0.0, 1.0, 2.0, -1.0, 1e-30]


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Random graphs over the leaf and constants."""
    pool = [X, SUM, *(full(value, X) for value in _CONSTANTS)]
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            pool.append(draw(st.sampled_from(_UNARY))(draw(st.sampled_from(pool))))
        else:
            pool.append(draw(st.sampled_from(_BINARY))(draw(st.sampled_from(pool)), draw(st.sampled_from(pool))))
    return pool[-3:]


def work(nodes: list[Node]) -> int:
    """Nodes that compute: a folded constant may need a scalar of its own."""
    return sum(node.name not in ("constant", "reshape", "expand") for node in topological(nodes))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs(), st.booleans())
def test_every_bit_stays(nodes: list[Node], flush_subnormals: bool) -> None:
    simpler = simplify(nodes)
    assert work(simpler) <= work(nodes)
    before = evaluate(nodes, flush_subnormals=flush_subnormals)
    after = evaluate(simpler, flush_subnormals=flush_subnormals)
    for expected, found in zip(before, after, strict=True):
        np.testing.assert_array_equal(found, expected)
        held = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[held], np.signbit(expected)[held])
