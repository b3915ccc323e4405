"""Sorting, the greatest k, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorted_values_and_their_gradients_go_back_to_their_places(axis: int, descending: bool) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 5))
    factors = np.random.default_rng(1).normal(size=x.shape)
    tensor = engine.asarray(x)
    ranked = engine.sort(tensor, axis=axis, descending=descending)
    (gradient,) = engine.gradients(engine.sum(ranked * ranked * factors), [tensor])
    (second,) = engine.gradients(engine.sum(gradient), [tensor])
    expected = np.flip(np.sort(x, axis=axis), axis) if descending else np.sort(x, axis=axis)
    np.testing.assert_array_equal(ranked.numpy(), expected)
    places = np.argsort(-x if descending else x, axis=axis)
    wanted = np.zeros_like(x)
    np.put_along_axis(wanted, places, 2 * expected * factors, axis)
    np.testing.assert_allclose(gradient.numpy(), wanted)
    np.put_along_axis(wanted, places, 2 * factors, axis)
    np.testing.assert_allclose(second.numpy(), wanted)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_the_greatest_k_come_first(k: int) -> None:
    x = np.random.default_rng(2).integers(0, 4, (5, 7)).astype(np.float32)
    x[1, 2] = np.nan
    values, places = engine.top_k(x, k)
    rows = [sorted(range(7), key=lambda c, row=row: (not np.isnan(row[c]), -np.nan_to_num(row[c]), c)) for row in x]
    expected = np.array(rows)[:, :k]
    np.testing.assert_array_equal(places.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, 1))


def test_subnormal_numbers_are_told_apart_in_traced_steps() -> None:
    """They are flushed by arithmetic there; sorting only looks at bits."""
    x = np.array([3e-45, 1e-45, -1e-45, 0.0, -0.0], np.float32)
    assert engine.trace(engine.argsort)(x).numpy().tolist() == [2, 3, 4, 1, 0]


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(TrainerError, match="no such number"):
        engine.top_k(np.zeros((2, 3)), 4)
    with pytest.raises(TrainerError, match="square"):
        engine.suppress(np.zeros((2, 3), bool))
