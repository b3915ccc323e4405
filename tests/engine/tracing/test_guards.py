"""Python values that a traced step was built from: what changes raises and is named, what has no part in it may."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State

X = np.arange(4, dtype=np.float32)

FACTOR = 2.0
SETTINGS = SimpleNamespace(factor=2.0)
assign = 0
"""Shares its name with a method that steps call, as a loop's variable may."""


@pytest.fixture(autouse=True)
def reference_device() -> Iterator[None]:
    """Guards are the same on every device; this one compiles nothing."""
    with engine.device("reference"):
        yield


class Layer:
    slope = 1.0

    def __init__(self) -> None:
        self.scale = 2.0
        self.unused = 0

    def __call__(self, x: Any) -> Any:
        return x * self.scale * self.slope


class Task:
    def __init__(self) -> None:
        self.layers, self.by_name = [Layer()], {"head": Layer()}
        self.rate, self.steps, self.mask, self.seen = 0.5, 0, X, None
        self.total = State(np.zeros((), np.float32), "total")

    def step(self, x: Any) -> Any:
        return self.by_name["head"](self.layers[0](x)) * self.rate * self.mask

    def counting_step(self, x: Any) -> Any:
        self.steps += 1
        return x * 1.0

    def remembering_step(self, x: Any) -> Any:
        self.seen = "yes"
        return x * 1.0

    def totalling_step(self, x: Any) -> Any:
        self.total.assign(self.total + engine.sum(x))
        return x * 1.0


def of_attribute() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task, "rate", 0.25)


def of_replaced_array() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task, "mask", X + 1)


def of_listed_module() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task.layers[0], "scale", 3.0)


def of_module_in_a_dictionary() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task.by_name["head"], "scale", 3)


def of_class_attribute() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: setattr(task.layers[0], "slope", 0.1)


def of_deleted_attribute() -> tuple[Any, Callable[[], None]]:
    task = Task()
    return task.step, lambda: delattr(task, "rate")


def of_callable() -> tuple[Any, Callable[[], None]]:
    layer = Layer()
    return layer, lambda: setattr(layer, "scale", 3.0)


def of_partial() -> tuple[Any, Callable[[], None]]:
    layer = Layer()
    return functools.partial(lambda layer, x: layer(x), layer), lambda: None


def of_cell() -> tuple[Any, Callable[[], None]]:
    rate = 0.5

    def change() -> None:
        nonlocal rate
        rate = 0.25

    return lambda x: x * rate, change


def of_helpers_cell() -> tuple[Any, Callable[[], None]]:
    rate = 0.5

    def change() -> None:
        nonlocal rate
        rate = 0.25

    def helper(x: Any) -> Any:
        return x * rate

    return lambda x: helper(x), change


def of_nested_step() -> tuple[Any, Callable[[], None]]:
    step, change = of_cell()
    inner = engine.trace(step)
    return lambda x: inner(x) + 1, change


def of_tensor_cell() -> tuple[Any, Callable[[], None]]:
    mask = engine.asarray(X)

    def change() -> None:
        nonlocal mask
        mask = mask + 1

    return lambda x: x * mask, change


def scaled_by_global(x: Any) -> Any:
    return x * FACTOR


def of_global() -> tuple[Any, Callable[[], None]]:
    return scaled_by_global, lambda: globals().update(FACTOR=3.0)


def of_helpers_global() -> tuple[Any, Callable[[], None]]:
    return lambda x: scaled_by_global(x), lambda: globals().update(FACTOR=3.0)


def of_global_object() -> tuple[Any, Callable[[], None]]:
    return lambda x: x * SETTINGS.factor, lambda: setattr(SETTINGS, "factor", 3.0)


@pytest.fixture(autouse=True)
def globals_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    monkeypatch.setattr(SETTINGS, "factor", 2.0)


@pytest.mark.parametrize(
    ("made", "name", "found", "expected"),
    [
        (of_attribute, "self.rate", "0.25", "0.5"),
        (of_replaced_array, "self.mask", "another one", "the ndarray"),
        (of_listed_module, "self.layers[0].scale", "3.0", "2.0"),
        (of_module_in_a_dictionary, "self.by_name['head'].scale", "3", "2.0"),
        (of_class_attribute, "self.layers[0].slope", "0.1", "1.0"),
        (of_deleted_attribute, "self.rate", "nothing", "0.5"),
        (of_callable, "self.scale", "3.0", "2.0"),
        (of_cell, "rate", "0.25", "0.5"),
        (of_helpers_cell, "rate", "0.25", "0.5"),
        (of_nested_step, "rate", "0.25", "0.5"),
        (of_tensor_cell, "mask", "another one", "the Tensor"),
        (of_global, "FACTOR", "3.0", "2.0"),
        (of_helpers_global, "FACTOR", "3.0", "2.0"),
        (of_global_object, "SETTINGS.factor", "3.0", "2.0"),
    ],
)
def test_a_value_that_changes_raises_and_is_named(
    made: Callable[[], Any], name: str, found: str, expected: str
) -> None:
    step, change = made()
    traced = engine.trace(step)
    for _ in range(2):
        traced(X)
    change()
    with pytest.raises(TrainerError) as caught:
        traced(X)
    error = caught.value
    assert error.message == f"{name} changed after the step that uses it was traced"
    assert (error.found, error.expected) == (found, f"{expected}, as it was when the step was traced")
    assert str(error.where).rpartition(":")[0].endswith("test_guards.py")


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "now"), [(0.0, -0.0), (1, 1.0), (1, True), (1.0, np.float64(1.0)), (b"a", "a")])
def test_plain_values_are_compared_exactly(before: Any, now: Any) -> None:
    holder = SimpleNamespace(value=before)
    traced = engine.trace(lambda x: (x, holder.value)[0] + 0)
    traced(X)
    holder.value = now
    with pytest.raises(TrainerError, match=r"holder\.value changed"):
        traced(X)


@pytest.mark.parametrize("values", [(float("nan"), float("nan") * 2), ((3, 4), (3, 4)), ([1000, "a"], [1000, "a"])])
def test_equal_values_are_as_good(values: tuple[Any, Any]) -> None:
    holder, runs = SimpleNamespace(value=copy.deepcopy(values[0])), []

    def step(x: Any) -> Any:
        runs.append(1)
        return (x, holder.value)[0] + 0

    traced = engine.trace(step)
    for value in values:
        holder.value = copy.deepcopy(value)
        traced(X)
    assert len(runs) == 1


@pytest.mark.parametrize("change", [lambda sizes: sizes.__setitem__(1, 5), lambda sizes: sizes.reverse()])
def test_a_number_in_a_list_raises(change: Callable[[list[int]], None]) -> None:
    sizes = [3, 4]
    traced = engine.trace(lambda x: x * sizes[1])
    traced(X)
    change(sizes)
    with pytest.raises(TrainerError, match=r"sizes\[[01]\] changed after the step"):
        traced(X)


# --- what a step assigns itself ---------------------------------------------------------------------------------------


def test_a_counter_in_an_attribute_raises_when_it_is_traced() -> None:
    with pytest.raises(TrainerError, match=r"self\.steps is assigned inside a traced step") as caught:
        engine.trace(Task().counting_step)(X)
    assert caught.value.found == "0 before and 1 after tracing"


def test_a_counter_in_a_closure_raises_when_it_is_traced() -> None:
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        count += 1
        return x

    with pytest.raises(TrainerError, match="count is assigned inside a traced step"):
        engine.trace(step)(X)


@pytest.mark.parametrize("name", ["step", "remembering_step", "totalling_step"])
def test_a_step_that_keeps_its_values_replays(name: str) -> None:
    task = Task()
    traced = engine.trace(getattr(task, name))
    for _ in range(3):
        traced(X)
        task.layers[0].unused += 1
    assert task.total.item() == (18.0 if name == "totalling_step" else 0.0)


def test_a_global_that_only_shares_its_name_with_a_method_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    total = State(np.zeros((), np.float32))

    def step(x: Any) -> None:
        total.assign(total + engine.sum(x))

    traced = engine.trace(step)
    for value in range(3):
        monkeypatch.setitem(globals(), "assign", value)
        traced(X)
    assert total.item() == 18.0


def test_a_partial_replays() -> None:
    step, _ = of_partial()
    traced = engine.trace(step)
    assert traced(X).tolist() == traced(X).tolist() == (X * 2).tolist()
