"""check_gradient passes right gradients and finds wrong ones, of first and second order."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


X = np.random.default_rng(0).uniform(0.5, 1.5, (3, 4))


def test_right_gradients_pass():
    engine.check_gradient(lambda x, w: (engine.tanh(x @ w), engine.exp(x)), X, X.T, order=2)


def test_indices_are_left_alone():
    engine.check_gradient(lambda x, places: engine.take(x, places, axis=1), X, np.array([3, 0, 0]))


@pytest.mark.parametrize("size", [3, 200])
def test_a_wrong_gradient_is_found_with_its_place(size):
    values = np.full(size, 0.7)
    values[1] = 0.2

    def gradient(cotangent, result, x):
        return cotangent * engine.where(x < 0.5, 3.0, 2.0) * x  # wrong where x < 0.5

    square = engine.custom(lambda x: x * x, gradient=gradient)
    with pytest.raises(TrainerError, match=r"gradient of input 0 is wrong (at \[1\]|in a random direction)"):
        engine.check_gradient(square, values)


def test_a_wrong_second_derivative_is_found():
    def gradient(cotangent, result, x):
        return cotangent * engine.stop_gradient(2 * x)

    square = engine.custom(lambda x: x * x, gradient=gradient)
    engine.check_gradient(square, X)
    with pytest.raises(TrainerError, match="second derivative of input 0"):
        engine.check_gradient(lambda x: engine.exp(square(x)), X, order=2)


def test_a_gradient_that_is_nan_is_wrong():
    with pytest.raises(TrainerError, match="is wrong"):
        engine.check_gradient(lambda x: engine.where(x > 0, engine.sqrt(x * 0) + x, x), X)


def test_there_must_be_something_to_differentiate_by():
    with pytest.raises(TrainerError, match="no input can be differentiated"):
        engine.check_gradient(lambda x: x, np.arange(3))
