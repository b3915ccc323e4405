"""Batch norm: robust statistics, few full-size terms in the gradient, right second derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import engine
from trainer.engine import nn
from trainer.engine.graph.node import topological
from trainer.engine.graph.simplify import simplify


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


def normalized(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    axes = (0, 2, 3)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def test_float32_statistics_hold_at_a_mean_of_a_thousand_deviations():
    x = (np.random.default_rng(0).normal(1000.0, 1.0, (8, 3, 16, 16))).astype(np.float32)
    y = nn.BatchNorm2d(3)(engine.asarray(x)).numpy()
    np.testing.assert_allclose(y, normalized(x), atol=2e-4)


def test_gradient_has_two_full_size_sums_and_few_full_size_terms():
    x = engine.asarray(np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(np.float32))
    probe = engine.asarray(np.random.default_rng(1).normal(size=(8, 3, 16, 16)).astype(np.float32))
    layer = nn.BatchNorm2d(3)
    y = layer(x)
    gradients = engine.gradients(engine.sum(y * probe), [x, layer.weight, layer.bias])
    output, *found = simplify([y.node, *(gradient.node for gradient in gradients)])
    forward = set(topological([output]))
    backward = [node for node in topological(found) if node not in forward]
    sums = [node for node in backward if node.name == "reduce_sum" and node.inputs[0].size == x.size]
    computed = [n for n in backward if n.size == x.size and n.operation.family == "elementwise"]
    assert len(sums) <= 2, sums
    assert len(computed) <= 7, computed  # the cotangent itself, five products and sums, the mean's share


def test_second_derivatives_are_those_of_the_formula():
    generator = np.random.default_rng(3)
    x, probe, direction = generator.normal(size=(3, 4, 2, 2, 2))
    layer = nn.BatchNorm2d(2).astype(engine.float64)

    def gradient(at: np.ndarray) -> engine.Tensor:
        leaf = engine.asarray(at)
        (found,) = engine.gradients(engine.sum(layer(leaf) * engine.asarray(probe)), [leaf])
        return found

    leaf = engine.asarray(x)
    (first,) = engine.gradients(engine.sum(layer(leaf) * engine.asarray(probe)), [leaf])
    (second,) = engine.gradients(engine.sum(first * engine.asarray(direction)), [leaf])
    step = 1e-5
    difference = (gradient(x + step * direction).numpy() - gradient(x - step * direction).numpy()) / (2 * step)
    np.testing.assert_allclose(second.numpy(), difference, rtol=1e-6, atol=1e-7)
