"""States have one layout for every program: weights lie as convolutions read them, and settle once."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import engine
from trainer.engine import State
from trainer.engine.graph.storage import WEIGHTS, Layout
from trainer.engine.targets.cpu.device import CpuDevice

ROW_MAJOR = Layout.row_major(4)
X = np.random.default_rng(0).standard_normal((2, 3, 5, 5)).astype(np.float32)
VALUES = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_device(on_cpu: CpuDevice) -> None:
    pass


def step_of(weight: State, moment: State | None = None, rate: float = 0.1) -> object:
    def step(x: object) -> object:
        loss = engine.sum(engine.square(engine.convolution(x, weight, padding=1)))
        (gradient,) = engine.gradients(loss, [weight])
        if moment is not None:
            moment.assign(moment * 0.9 + gradient)
            gradient = moment + 0
        weight.assign(weight - rate * gradient)
        return loss

    return engine.trace(step)  # type: ignore[arg-type]


def test_weights_and_their_moments_lie_as_the_kernels_read_them() -> None:
    weight, moment, other = State(VALUES), State(np.zeros_like(VALUES)), State(VALUES)
    step_of(weight, moment)(X)  # type: ignore[operator]
    assert weight.storage.layout == moment.storage.layout == WEIGHTS and other.storage.layout == ROW_MAJOR
    assert weight.storage.settled and moment.storage.settled and not other.storage.settled
    assert weight.numpy().flags.c_contiguous and weight.numpy().shape == VALUES.shape


def test_a_layout_stays_once_a_program_is_bound_to_it() -> None:
    weight = State(VALUES)
    total = engine.trace(lambda: engine.sum(weight * engine.asarray(VALUES)))
    total()
    memory = weight.storage.flat()
    step_of(weight)(X)  # type: ignore[operator]
    assert weight.storage.layout == ROW_MAJOR and weight.storage.flat() is memory
    np.testing.assert_allclose(total().item(), np.sum(weight.numpy() * VALUES), rtol=1e-4)


@pytest.mark.parametrize("order", ["step first", "sum first"])
def test_values_do_not_depend_on_the_layout(order: str) -> None:
    weight, moment = State(VALUES), State(np.zeros_like(VALUES))
    step, total = step_of(weight, moment), engine.trace(lambda: engine.sum(weight, axis=(1, 2, 3)))
    for traced, arguments in [(step, (X,)), (total, ())][:: 1 if order == "step first" else -1]:
        traced(*arguments)  # type: ignore[operator]
    with engine.device("reference"):
        expected, expected_moment = State(VALUES), State(np.zeros_like(VALUES))
        step_of(expected, expected_moment)(X)  # type: ignore[operator]
    np.testing.assert_allclose(weight.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total().numpy(), weight.numpy().sum((1, 2, 3)), rtol=1e-4, atol=1e-5)


def test_values_are_set_and_read_in_logical_order() -> None:
    weight = State(VALUES)
    step_of(weight)(X)  # type: ignore[operator]
    weight.set_value(VALUES)
    np.testing.assert_array_equal(weight.numpy(), VALUES)
    np.testing.assert_array_equal((weight[:, 1] + 0).numpy(), VALUES[:, 1])
    weight.assign(weight * 2)
    np.testing.assert_array_equal(weight.numpy(), VALUES * 2)


def test_states_that_are_no_weights_stay_row_major() -> None:
    table = State(VALUES)
    traced = engine.trace(lambda: table.assign(table * 2))
    traced()
    assert table.storage.layout == ROW_MAJOR and table.storage.settled
    np.testing.assert_array_equal(table.numpy(), VALUES * 2)
