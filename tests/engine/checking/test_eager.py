"""Eager checking computes at once and names lines; find_nan names the first operation and leaves states alone."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from trainer import TrainerError, engine


def line_of(function, text):
    """`file.py:12` of the line of a function that has `text`."""
    lines, first = inspect.getsourcelines(function)
    return f"test_eager.py:{first + next(number for number, line in enumerate(lines) if text in line)}"


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


def test_values_are_there_at_once():
    with engine.eager():
        x = engine.asarray([1.0, 2.0]) * 3
        assert x.node.value is not None
    assert (x * 2).node.value is None


def test_a_traced_step_runs_as_python():
    state, seen = engine.State(np.zeros(2, np.float32)), []

    @engine.trace
    def step(x):
        state.assign(state + x)
        seen.append(state.numpy().tolist())
        return state * 2

    with engine.eager():
        assert step(np.ones(2, np.float32)).numpy().tolist() == [2, 2]
    assert seen == [[1, 1]] and state.numpy().tolist() == [1, 1]


def step(x, scale):
    y = x - 1
    z = engine.log(y)  # the first
    return engine.sum(z * scale)


def test_the_first_nan_is_found_with_its_line():
    found = engine.find_nan(step, np.array([2.0, 0.5]), scale=2.0)
    assert found is not None and found.operation == "log"
    assert found.line is not None and found.line.endswith(line_of(step, "the first"))
    assert "1 NaN" in found.result and "-0.5 to 1.0" in found.inputs[0]
    assert found.line in str(found)
    assert engine.find_nan(step, np.array([2.0, 3.0]), scale=2.0) is None


def test_a_nan_of_a_gradient_names_the_operation_that_it_is_the_gradient_of():
    def loss(x):
        y = engine.sqrt(x)  # differentiated
        (gradient,) = engine.gradients(engine.sum(y * 0), [x])
        return gradient

    found = engine.find_nan(loss, np.zeros(2))
    assert found is not None and found.line is not None
    assert found.line.endswith(line_of(loss, "differentiated"))


def test_a_nan_that_was_given_is_an_input():
    found = engine.find_nan(lambda x: x + 1, np.array([np.nan]))
    assert found is not None and found.operation == "input"


def test_states_get_their_values_back():
    state = engine.State(np.ones(2, np.float32))

    @engine.trace
    def step(x):
        state.assign(state * 2)
        state.assign(engine.sqrt(state - 4))
        return state + x

    assert engine.find_nan(step, np.ones(2, np.float32)).operation == "sqrt"
    np.testing.assert_array_equal(state.numpy(), [1, 1])


def test_checking_for_nan_raises_at_the_line():
    with engine.eager(check_nan=True), pytest.raises(TrainerError, match=r"test_eager\.py") as caught:
        engine.sqrt(engine.asarray([-1.0]))
    assert "sqrt" in str(caught.value)


def test_what_fails_to_compute_names_the_line():
    kernel = engine.custom(llvm="", reference=lambda x: np.linalg.cholesky(x))
    with engine.eager(), pytest.raises(TrainerError, match=r"test_eager\.py") as caught:
        kernel(engine.asarray([[-1.0]]))
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
