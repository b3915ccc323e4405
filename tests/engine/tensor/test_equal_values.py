"""A derivative with respect to a value counts the uses of that value, not those of others that are equal to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine import State, Tensor, nn

X = np.array([-1.0, 0.0, 1.0], np.float32)


def gradient(output: Tensor, by: Tensor) -> list[float]:
    (found,) = engine.gradients(engine.sum(output), [by])
    return np.atleast_1d(found.numpy()).tolist()


@pytest.mark.parametrize(
    "create",
    [
        lambda: engine.ones((3,)),
        lambda: engine.full((3,), 1.0),
        lambda: engine.asarray([1.0, 1.0, 1.0]),
        lambda: engine.eye(3)[0],
        lambda: engine.arange(3.0),
        lambda: engine.linspace(0.0, 1.0, 3),
        lambda: engine.zeros_like(engine.asarray(X)),
    ],
)
def test_equal_creations_are_two_values(create: Callable[[], Tensor]) -> None:
    a, b = create(), create()
    assert gradient(a * b, a) == b.tolist()


def test_equal_numbers_are_two_values() -> None:
    a, b = engine.asarray(2.0), engine.asarray(2.0)
    assert gradient(a * b, a) == [2.0]


def test_equal_operations_are_two_values() -> None:
    w = engine.ones((3,))
    u, v = w * 2, w * 2
    assert gradient(u * v, u) == [2.0, 2.0, 2.0]
    assert gradient(u * v, w) == [8.0, 8.0, 8.0]
    a = engine.ones((2,))
    held, other = engine.stop_gradient(a), engine.stop_gradient(a)
    assert gradient(held * other, held) == [1.0, 1.0]


@pytest.mark.parametrize(
    "function", [lambda x: 0.5 * x, nn.functional.gelu, nn.functional.relu, engine.mean, engine.tanh]
)
@pytest.mark.parametrize("value", [0.5, 1.0, 0.0, 3.0, -0.5, 2.0])
def test_constants_of_the_library_are_not_the_users(function: Callable[[Tensor], Tensor], value: float) -> None:
    h = engine.full((3,), value)
    assert gradient(h + function(engine.asarray(X)), h) == [1.0, 1.0, 1.0]
    h = engine.full((), value)
    assert gradient(h + engine.sum(function(engine.asarray(X))), h) == [1.0]


def test_a_tie_with_a_number_of_the_library_shares_half_and_half() -> None:
    d = engine.zeros(3)
    assert gradient(engine.maximum(engine.asarray(X) + d, 0.0), d) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "same",
    [
        engine.positive,
        lambda x: x.reshape((3,)),
        lambda x: x.astype(engine.float32),
        lambda x: engine.astype(x, engine.float32),
        lambda x: engine.asarray(x, copy=True),
        lambda x: engine.pow(x, 1),
        engine.clip,
        lambda x: x[:],
        lambda x: engine.broadcast_to(x, (3,)),
        lambda x: engine.permute_dims(x, (0,)),
        lambda x: engine.flip(x, axis=()),
        lambda x: engine.sum(x, axis=()),
        lambda x: engine.concat([x]),
    ],
)
def test_what_leaves_a_value_as_it_is_gives_another_one(same: Callable[[Tensor], Tensor]) -> None:
    x = engine.asarray([2.0, 3.0, 5.0])
    y = same(x)
    assert gradient(x * y, y) == [2.0, 3.0, 5.0]
    assert gradient(x * y, x) == [4.0, 6.0, 10.0]


def test_derivatives_are_values_of_their_own() -> None:
    a, b = engine.ones((3,)), engine.ones((3,))
    by_a, by_b = engine.gradients(engine.sum(a + b), [a, b])
    assert gradient(by_a * by_b, by_a) == [1.0, 1.0, 1.0]
    first, second = engine.gradients(engine.sum(a * b), [a, a])
    assert gradient(first * second, first) == [1.0, 1.0, 1.0]


def test_a_state_and_what_was_assigned_to_it_are_two_values() -> None:
    state, y = State([1.0, 2.0]), engine.asarray([3.0, 4.0])
    state.assign(y)
    assert gradient(state * y, state) == [3.0, 4.0]
    assert gradient(state * y, y) == [6.0, 8.0]

    def step(x: Any) -> list[Tensor]:
        value = x * 2
        state.assign(value)
        return engine.gradients(engine.sum(state * value), [state])

    assert engine.trace(step)(np.array([1.0, 2.0], np.float32))[0].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: engine.maximum(x, 0.0),
        engine.abs,
        lambda x: engine.where(x > 0, x, 0.1 * x),
        lambda x: engine.clip(x, -0.5, 0.5),
        lambda x: 3 * x + 1,
        lambda x: engine.max(x),
        lambda x: engine.sort(x),
    ],
)
def test_second_derivatives_of_piecewise_linear_functions_are_zero(function: Callable[[Tensor], Tensor]) -> None:
    x = engine.asarray([-1.0, 0.25, 2.0])
    (first,) = engine.gradients(engine.sum(function(x)), [x])
    assert gradient(first, x) == [0.0, 0.0, 0.0]
    (second,) = engine.gradients(engine.sum(first), [x])
    assert gradient(second, x) == [0.0, 0.0, 0.0]


def test_mixed_second_derivatives_of_separate_terms_are_zero() -> None:
    x, y = engine.asarray([1.0, 2.0]), engine.asarray([3.0, 4.0])
    (by_x,) = engine.gradients(engine.sum(x * x + y * y), [x])
    assert gradient(by_x, y) == [0.0, 0.0]
    assert gradient(by_x, x) == [2.0, 2.0]


def test_copies_of_a_state_keep_its_value() -> None:
    state = State([1.0, 2.0])
    copies = [
        engine.asarray(state, copy=True),
        engine.positive(state),
        engine.astype(state, engine.float32, copy=True),
        state.astype(engine.float32),
        engine.clip(state),
        engine.pow(state, 1),
        state.reshape((2,)),
    ]
    assert not any(copy.is_state for copy in copies)
    assert engine.asarray(state) is state and engine.astype(state, engine.float32, copy=False) is state
    state.assign(state + 1)
    state.set_value([7.0, 8.0])
    assert [copy.tolist() for copy in copies] == [[1.0, 2.0]] * len(copies)
