"""Nodes with several outputs: a primitive of the test's own, whose derivative is known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from trainer.engine import history
from trainer.engine.evaluation import PIECE, compute
from trainer.engine.graph import primitives as p
from trainer.engine.graph.common import merged
from trainer.engine.graph.derivatives import GRADIENTS
from trainer.engine.graph.differentiate import gradients
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.reference import evaluate

X = np.float32([1, 2, 3])


def pair(effect: bool = False) -> Primitive:
    """Outputs (2x, 3y) of inputs (x, y)."""
    return Primitive(
        "pair",
        "bundle",
        lambda inputs, attributes: (),
        lambda inputs, attributes: float32,
        lambda attributes, x, y: (2 * x, 3 * y),
        (),
        lambda inputs, attributes: tuple((node.shape, node.dtype) for node in inputs),
        effect,
    )


def pair_gradient(node: Node, cotangents: tuple[Node | None, ...]) -> list[Node | None]:
    return [
        None if dy is None else p.multiply(dy, p.full_like(dy, factor))
        for dy, factor in zip(cotangents, (2.0, 3.0), strict=True)
    ]


@pytest.fixture(autouse=True)
def gradient() -> Iterator[None]:
    GRADIENTS["pair"] = pair_gradient
    yield
    del GRADIENTS["pair"]


def leaf(values: np.ndarray) -> Node:
    return p.buffer(Storage.of(values, float32))


def test_outputs_have_shapes_and_values_of_their_own() -> None:
    bundle = make_node(pair(), (leaf(X), leaf(X[:2])))
    first, second = p.output(bundle, 0), p.output(bundle, 1)
    assert (first.shape, second.shape) == ((3,), (2,))
    for found, expected in zip(evaluate([second, first]), (3 * X[:2], 2 * X), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_equal_bundles_are_merged_and_effects_are_not() -> None:
    x = leaf(X)
    for primitive, count in ((pair(), 1), (pair(effect=True), 2)):
        outputs = [p.output(make_node(primitive, (x, x)), 1) for _ in range(2)]
        for graph in (merged(outputs), simplify(outputs)):
            assert len({node.inputs[0] for node in graph}) == count


def test_cotangents_of_all_uses_of_all_outputs_reach_the_inputs() -> None:
    x, y = leaf(X), leaf(X + 1)
    bundle = make_node(pair(), (p.multiply(x, x), p.multiply(x, y)))
    first, second = p.output(bundle, 0), p.output(bundle, 1)
    output = p.add(p.add(p.multiply(first, second), first), p.output(bundle, 1))
    found = evaluate([node for node in gradients(output, [x, y, second], p.full_like(x, 1.0)) if node is not None])
    a, b = 2 * X * X, 3 * X * (X + 1)
    np.testing.assert_allclose(found[0], (b + 1) * 4 * X + (a + 1) * 3 * (X + 1))
    np.testing.assert_allclose(found[1], (a + 1) * 3 * X)
    np.testing.assert_allclose(found[2], a)


def test_inputs_of_unused_outputs_have_no_cotangent() -> None:
    x, y = leaf(X), leaf(X)
    first = p.output(make_node(pair(), (x, y)), 0)
    used, unused = gradients(first, [x, y], p.full_like(first, 1.0))
    assert used is not None and unused is not None
    np.testing.assert_array_equal(evaluate([used, unused]), [[2, 2, 2], [0, 0, 0]])


def test_graphs_that_are_computed_in_pieces_may_have_bundles_anywhere() -> None:
    from trainer import engine

    with engine.device("reference"):
        x = leaf(X)
        for _ in range(PIECE // 3 + 5):
            bundle = make_node(pair(), (p.multiply(x, p.full_like(x, 0.5)), x))
            x = p.output(bundle, 0)
        y = p.output(bundle, 1)
        compute([x, y])
    np.testing.assert_array_equal(x.value.view(), X)  # type: ignore[union-attr]
    np.testing.assert_array_equal(y.value.view(), 3 * X)  # type: ignore[union-attr]
    assert not x.inputs and history.cost(x)[0] == 1
