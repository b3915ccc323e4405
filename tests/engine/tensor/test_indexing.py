"""`x[key]` and `x[key] = value` equal NumPy's, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.derivatives import check_derivatives
from trainer import TrainerError, engine

KEYS: list[Any] = [
    (slice(None, None, -1), Ellipsis, 0),
    (None, 1, slice(3, 0, -2)),
    np.array([2, -1, 0, 2]),
    (slice(None), np.array([[0, 3], [3, 1]])),
    (np.array([0, 1, -1]), np.array([1, 1, 0])),
    (np.array([[0], [1]]), slice(1, 3), np.array([4, 0])),
    (0, slice(None), np.array([1, 2])),
    (slice(None), 1, np.array([1, 2, 2])),
    (Ellipsis, np.array([], np.int64)),
    (None, np.array([1, 2]), Ellipsis, None, slice(0, 2)),
    ([0, 2], 1),
    np.array([True, False, True]),
    (slice(None), np.array([True, False, True, False])),
    (np.arange(12).reshape(3, 4) % 3 == 0),
    (np.arange(12).reshape(3, 4) % 5 == 0, 2),
    (1, np.zeros(4, bool)),
    True,
    False,
]


def plain() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((3, 4, 5))


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_reading_equals_numpy(key: Any) -> None:
    values = plain()
    found = engine.asarray(values)[key].numpy()
    assert found.shape == values[key].shape
    np.testing.assert_array_equal(found, values[key])


@pytest.mark.parametrize("value", ["number", "array"])
@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_writing_equals_numpy(key: Any, value: str) -> None:
    values, x = plain(), engine.asarray(plain())
    other = np.random.default_rng(4).standard_normal(values[key].shape) if value == "array" else 7.0
    before, x_before = +x, x
    x[key] = other
    values[key] = other
    np.testing.assert_array_equal(x.numpy(), values)
    np.testing.assert_array_equal(before.numpy(), plain())
    assert x_before is x


def test_masks_and_arrays_may_be_tensors() -> None:
    values = plain()
    x = engine.asarray(values)
    np.testing.assert_array_equal(x[x > 0].numpy(), values[values > 0])
    np.testing.assert_array_equal(x[engine.asarray([1, 2]), ..., engine.asarray(0)].numpy(), values[[1, 2], ..., 0])
    x[x > 0] = 0.0
    np.testing.assert_array_equal(x.numpy(), np.minimum(values, 0))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_of_repeated_places_the_last_value_counts(data: st.DataObject) -> None:
    places = np.array(data.draw(st.lists(st.integers(-6, 5), min_size=1, max_size=9)))
    values, x = np.zeros(6), engine.zeros((6,), dtype=engine.float64)
    written = np.arange(1.0, places.size + 1)
    values[places] = written
    x[engine.asarray(places)] = engine.asarray(written)
    np.testing.assert_array_equal(x.numpy(), values)


def test_what_is_out_of_range_reads_the_nearest_and_writes_nothing() -> None:
    x = engine.asarray([1.0, 2.0, 3.0])
    assert x[engine.asarray([5, -7])].tolist() == [3.0, 1.0]
    x[engine.asarray([5, -7, 1])] = 9.0
    assert x.tolist() == [1.0, 9.0, 3.0]


@pytest.mark.parametrize("key", [KEYS[0], KEYS[2], KEYS[5], KEYS[11], KEYS[13]], ids=repr)
def test_derivatives_of_reading_and_writing(key: Any) -> None:
    values = plain()

    def read(x: engine.Tensor) -> engine.Tensor:
        return engine.sum(x[key] ** 3)

    def written(x: engine.Tensor, other: engine.Tensor) -> engine.Tensor:
        y = engine.positive(x)
        y[key] = other * other
        return engine.sum(y**3)

    check_derivatives(read, values)
    check_derivatives(written, values, np.random.default_rng(5).standard_normal(values[key].shape))


def test_assignment_rebinds_and_what_was_computed_keeps_its_value() -> None:
    x = engine.asarray([1.0, 2.0])
    double = 2 * x
    x[0] = 5.0
    x += 1
    assert double.tolist() == [2.0, 4.0] and x.tolist() == [6.0, 3.0]


def test_a_state_is_assigned() -> None:
    state = engine.State(np.zeros(3))
    state[1] = 4.0
    assert state.numpy().tolist() == [0.0, 4.0, 0.0]


def test_a_traced_step_assigns_to_its_own_tensors_and_states() -> None:
    state, outside = engine.State(np.zeros(4, np.float32)), engine.zeros((4,))

    @engine.trace
    def step(x: engine.Tensor, places: engine.Tensor) -> engine.Tensor:
        x[x > 2] = 0.0
        x[places] = 7.0
        state[1:3] = x[:2]
        return x

    given = np.array([1, 2, 3, 4], np.float32)
    assert step(given, np.array([3, -4])).tolist() == [7.0, 2.0, 0.0, 7.0]
    assert state.numpy().tolist() == [0.0, 7.0, 2.0, 0.0] and given.tolist() == [1, 2, 3, 4]

    @engine.trace
    def leaks(x: engine.Tensor) -> engine.Tensor:
        outside[0] = x[0]
        return x

    with pytest.raises(TrainerError, match="created outside of it"):
        leaks(given)


def test_shapes_that_depend_on_values_are_refused_in_a_traced_step() -> None:
    @engine.trace
    def step(x: engine.Tensor) -> engine.Tensor:
        return x[x > 0]

    with pytest.raises(TrainerError, match="depends on values") as caught:
        step(np.ones(3))
    assert "engine.where" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ((0, 0, 0, 0), 1.0, "too many indices"),
        (3, 1.0, "out of range"),
        ((Ellipsis, Ellipsis), 1.0, "two ellipses"),
        (np.ones(2, bool), 1.0, "another shape"),
        (0.5, 1.0, "not an index"),
        (np.array([0.5]), 1.0, "integers"),
        (0, np.ones(3), "does not fit|don't broadcast"),
        (0, 1j, "can't be combined|wider kind"),
    ],
)
def test_mistakes_are_refused(key: Any, value: Any, problem: str) -> None:
    x = engine.asarray(plain())
    with pytest.raises(TrainerError, match=problem):
        x[key] = value
    with pytest.raises(IndexError):
        x[0, 0, 0, 0]
    assert x[np.zeros(0, bool)].shape == (0, 4, 5)
