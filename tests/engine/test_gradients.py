"""First and second derivatives of every differentiable primitive, against central differences in float64.

Shapes and attributes are those of `samples`; values are drawn where the primitive is smooth.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import Sample, samples
from trainer import engine
from trainer.engine.graph import dtypes, simplify
from trainer.engine.graph import primitives as p
from trainer.engine.graph.derivatives import GRADIENTS
from trainer.engine.graph.differentiate import gradients
from trainer.engine.graph.node import Node, make_node
from trainer.engine.graph.primitives import BUNDLES, TABLE
from trainer.engine.graph.primitives.compose import add_all
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.reference import evaluate

COMPLEX = frozenset({"complex", "real", "imag"})  # see tensor/test_complex.py
DIFFERENTIABLE = sorted(name for name in TABLE if GRADIENTS[name] is not None and name not in COMPLEX)
QUICK = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
STEP = 1e-6

_POSITIVE = frozenset({"log", "log1p", "sqrt", "power", "divide", "remainder"})
_BETWEEN_INTEGERS = frozenset({"floor", "ceil", "round", "trunc", "floor_divide", "sign"})
_EXTREMA = frozenset({"scatter_prod_along", "scatter_max_along", "scatter_min_along"})
_INDEXED = _EXTREMA | {"gather", "gather_sum", "scatter_add", "take_along", "scatter_add_along", "window_max_gradient"}
"""The second input is indices."""


def test_every_primitive_has_a_gradient_or_says_that_it_has_none():
    outside = {"custom", "host_call", "host_effect", "scan", "shard_sum", "with_gradient"}
    assert GRADIENTS.keys() - outside == TABLE.keys() | BUNDLES.keys()


def smooth(sample: Sample, random: np.random.Generator) -> tuple[list[np.ndarray], list[int], tuple[Any, ...]]:
    """Inputs in float64 where the primitive is smooth, which of them are derived by, and attributes."""
    values, places = [], []
    for place, array in enumerate(sample.inputs):
        shape = array.values.shape
        is_data = (place == 1 and sample.name in _INDEXED) or (place == 0 and sample.name == "where")
        if is_data:
            size = sample.attributes[1] if sample.name.startswith("scatter") else shape[0] if shape else 1
            if sample.name == "window_max_gradient":
                size = math.prod(sample.attributes[4])
            if sample.name == "gather_sum":
                size = sample.inputs[0].values.shape[1]
            if sample.name in ("gather", "take_along"):
                size = sample.inputs[0].values.shape[sample.attributes[0]]
            if sample.name in _EXTREMA:  # each place has an update: what combines none is no finite number
                axis = sample.attributes[0]
                numbers = (np.indices(shape)[axis] % max(1, size)).astype(array.held.dtype)
                values.append(numbers)
                continue
            values.append(array.held if sample.name == "where" else np.clip(array.held, 0, max(0, size - 1)))
            continue
        places.append(place)
        if sample.name in _POSITIVE:
            drawn = random.uniform(0.6, 1.9, shape)
        elif sample.name in _BETWEEN_INTEGERS:
            drawn = random.integers(1, 4, shape) + random.uniform(0.2, 0.3, shape) * (1 if place == 0 else 1e-3)
        else:
            drawn = random.standard_normal(shape)
            drawn = drawn + np.sign(drawn) * 0.05  # away from the kink of |x|
        values.append(drawn)
    if sample.name == "remainder":
        values[0] = values[1] * (random.integers(0, 3, values[0].shape) + random.uniform(0.2, 0.8, values[0].shape))
    if sample.name == "cast":
        return values, places, (dtypes.float64,)
    attributes = list(sample.attributes)
    if "precision" in TABLE[sample.name].attributes:  # float64 has none
        attributes[TABLE[sample.name].attributes.index("precision")] = None
    return values, places, tuple(attributes)


def leaf(values: np.ndarray) -> Node:
    dtype = dtypes.from_numpy(values.dtype)
    assert dtype is not None
    return p.buffer(Storage.of(values, dtype))


def scalar_product(x: Node, weights: Node) -> Node:
    return p.reduce_sum(p.multiply(x, weights), tuple(range(x.ndim)))


def directional(output: Node, moved: list[Node], values: list[np.ndarray], direction: list[np.ndarray]) -> float:
    """The derivative of the scalar `output` along `direction`, by central differences."""
    ends = []
    for sign in (1, -1):
        shifted = {node: v + sign * STEP * d for node, v, d in zip(moved, values, direction, strict=True)}
        ends.append(float(evaluate([output], shifted)[0]))
    return (ends[0] - ends[1]) / (2 * STEP)


def analytic(output: Node, moved: list[Node], direction: list[np.ndarray]) -> tuple[float, list[Node]]:
    """The same from the gradients, and the gradients (zeros where there is none)."""
    found = gradients(output, moved, p.full_like(output, 1.0))
    nodes = [p.full_like(x, 0.0) if g is None else g for x, g in zip(moved, found, strict=True)]
    assert [(node.shape, node.dtype) for node in nodes] == [(x.shape, x.dtype) for x in moved]
    return float(sum((g * d).sum() for g, d in zip(evaluate(nodes), direction, strict=True))), nodes


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@QUICK
@given(data=st.data())
def test_first_and_second_derivatives(name: str, data: st.DataObject) -> None:
    sample = data.draw(samples(name))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    values, places, attributes = smooth(sample, random)
    inputs = [leaf(value) for value in values]
    y = make_node(TABLE[name], tuple(inputs), attributes)
    moved, at = [inputs[place] for place in places], [values[place] for place in places]
    direction = [random.standard_normal(value.shape) for value in at]

    first = scalar_product(y, leaf(random.standard_normal(y.shape)))
    slope, found = analytic(first, moved, direction)
    assert slope == pytest.approx(directional(first, moved, at, direction), rel=1e-6, abs=1e-7 * max(1, y.size))

    second = add_all([scalar_product(g, leaf(random.standard_normal(g.shape))) for g in found])
    bend, _ = analytic(second, moved, direction)
    assert bend == pytest.approx(directional(second, moved, at, direction), rel=1e-5, abs=1e-6 * max(1, y.size))

    simplified = simplify.simplify(found)
    for before, after in zip(evaluate(found), evaluate(simplified), strict=True):
        np.testing.assert_array_equal(before, after)


def gradient_of(output: Node, *wrt: Node) -> list[list[float] | None]:
    found = gradients(output, wrt, p.full_like(output, 1.0))
    return [None if g is None else evaluate([g])[0].tolist() for g in found]


def test_ties_of_maximum_share_half_and_half() -> None:
    a, b = leaf(np.array([1.0, 2.0, 3.0])), leaf(np.array([1.0, 3.0, 2.0]))
    total = p.reduce_sum(p.maximum(a, b), (0,))
    assert gradient_of(total, a, b) == [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]


def test_ties_of_reduce_max_share_evenly() -> None:
    x = leaf(np.array([2.0, 1.0, 2.0, 2.0]))
    (found,) = gradient_of(p.reduce_max(x, (0,)), x)
    assert found == pytest.approx([1 / 3, 0.0, 1 / 3, 1 / 3])


def test_products_with_zeros_have_exact_gradients() -> None:
    x = leaf(np.array([[3.0, 0.0, 5.0], [0.0, 0.0, 2.0]]))
    total = p.reduce_sum(p.reduce_prod(x, (1,)), (0,))
    assert gradient_of(total, x) == [[[0.0, 15.0, 0.0], [0.0, 0.0, 0.0]]]


def test_the_gradient_of_a_cast_comes_back_in_the_dtype_of_its_input() -> None:
    x = p.buffer(Storage.of(np.ones(2, np.float32), dtypes.float32))
    (found,) = gradients(p.reduce_sum(p.cast(x, dtypes.float64), (0,)), [x], p.constant(1.0, dtypes.float64))
    assert found is not None and found.dtype is dtypes.float32


def test_a_value_used_twice_gets_the_sum_of_its_cotangents() -> None:
    x = leaf(np.array([2.0, 3.0]))
    assert gradient_of(p.reduce_sum(p.add(p.multiply(x, x), x), (0,)), x) == [[5.0, 7.0]]


def test_where_the_derivative_vanishes_everywhere_there_are_zeros_and_where_there_is_no_path_there_is_none() -> None:
    x, y = leaf(np.array([1.5])), leaf(np.array([1.5]))
    total = p.reduce_sum(p.add(p.floor(x), p.stop_gradient(y)), (0,))
    assert gradient_of(total, x, y) == [[0.0], None]


def test_a_frozen_branch_is_not_visited() -> None:
    x, frozen = leaf(np.ones((4, 4))), leaf(np.ones((4, 4)))
    total = p.reduce_sum(p.matmul(p.matmul(frozen, frozen), x), (0, 1))
    (found,) = gradients(total, [x], p.full_like(total, 1.0))
    assert found is not None
    assert gradient_of(total, x) == [np.full((4, 4), 16.0).tolist()]


@pytest.mark.parametrize("place", [0, 1])
def test_the_gradient_of_a_transposed_operand_needs_no_transposing(place: int) -> None:
    random = np.random.default_rng(0)
    w, x = leaf(random.standard_normal((5, 7))), leaf(random.standard_normal((7, 7)))
    operands = (p.permute(w, (1, 0)), leaf(random.standard_normal((5, 3))))
    product = p.matmul(*operands) if place == 0 else p.matmul(x, operands[0])
    dy = leaf(random.standard_normal(product.shape))
    (gradient,) = gradients(product, [w], dy)
    assert gradient is not None
    (found,) = simplify.simplify([gradient])
    assert found.name == "matmul" and found.shape == w.shape
    dy_values, x_values, other = evaluate([dy, x, operands[1]])
    expected = other @ dy_values.T if place == 0 else dy_values.T @ x_values
    np.testing.assert_allclose(evaluate([found])[0], expected, rtol=1e-12)


def test_equal_operations_are_differentiated_as_one() -> None:
    """So that a graph has the derivatives, to the last bit, that it has with the operation shared."""
    x, a, b = (leaf(np.random.default_rng(seed).standard_normal(9)) for seed in range(3))

    def total(first: Node, second: Node) -> Node:
        return p.reduce_sum(p.add(p.multiply(first, a), p.multiply(p.alias(second), b)), (0,))

    shared = p.tanh(x)
    graphs = [total(shared, shared), total(p.tanh(x), p.tanh(p.alias(x)))]
    (once,), (apart,) = (gradients(graph, [x], p.full_like(graph, 1.0)) for graph in graphs)
    assert once is not None and apart is not None
    first, second = simplify.simplify([once, apart])
    assert first is second


@pytest.mark.parametrize("transposed", [False, True])
def test_a_weight_gradient_over_many_rows_is_the_sum_of_its_blocks(transposed: bool) -> None:
    random = np.random.default_rng(0)
    x, dy = random.standard_normal((4100, 3)), random.standard_normal((4100, 2))
    w = engine.asarray(random.standard_normal((2, 3) if transposed else (3, 2)))
    y = engine.matmul(engine.asarray(x), engine.matrix_transpose(w) if transposed else w)
    (found,) = engine.gradients(engine.sum(y * engine.asarray(dy)), [w])
    expected = dy.T @ x if transposed else x.T @ dy
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11, atol=1e-11)
