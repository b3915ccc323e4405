"""States change in place; handles made from an earlier value keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State, float32, float64, tracing
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.state import prepare_run


def test_assignment_is_lazy_and_keeps_the_memory() -> None:
    state = State(np.ones(3, np.float32), "w")
    memory = state.storage.flat()
    state.assign(state * 2)
    state.assign(state + 1)
    assert state.numpy().tolist() == [3.0, 3.0, 3.0]
    assert state.storage.flat() is memory


def test_handles_keep_the_value_that_they_were_made_from() -> None:
    state = State([1.0, 2.0])
    before, alias = state * 10, state[:]
    state.assign(state + 1)
    assert state.tolist() == [2.0, 3.0]
    state.set_value([7.0, 8.0])
    assert (before.tolist(), alias.tolist(), state.tolist()) == ([10.0, 20.0], [1.0, 2.0], [7.0, 8.0])


def test_states_may_swap() -> None:
    a, b = State([1.0]), State([2.0])
    old = a + 0.0
    a.assign(b)
    b.assign(old)
    assert (a.item(), b.item()) == (2.0, 1.0)


def test_preparing_an_update_leaves_the_memory_to_the_state_and_a_copy_to_live_handles() -> None:
    state = State([1.0])
    memory = state.storage.flat()
    view = state[:]
    prepare_run({state}, {state})
    assert state.storage.flat() is memory
    state.storage.view()[...] = 5.0
    assert (view.item(), state.item()) == (1.0, 5.0)


def test_without_live_handles_an_update_copies_nothing() -> None:
    state = State([1.0])
    state.assign(state * 2)
    storage = state.storage
    prepare_run({state}, {state})
    assert state.storage is storage


def test_values_are_converted_only_where_asked() -> None:
    state = State(np.zeros(2), "w", float32)
    assert state.dtype is float32
    state.set_value(np.array([1.5, 2.5]))
    assert state.tolist() == [1.5, 2.5]
    state.assign(3)
    assert state.tolist() == [3.0, 3.0]
    with pytest.raises(TrainerError, match="the state 'w' has another dtype"):
        state.assign(engine.zeros((2,), dtype=float64))
    with pytest.raises(TrainerError, match="the state 'w' has another shape"):
        state.assign(engine.zeros((3,)))
    with pytest.raises(TrainerError, match="the state 'w' has another shape"):
        state.set_value(np.zeros(3))


def test_a_copy_of_the_value_is_taken() -> None:
    source = np.ones(2, np.float32)
    state = State(source)
    source[0] = 5
    state.numpy()[1] = 5
    assert state.tolist() == [1.0, 1.0]


def test_states_are_evaluated_together() -> None:
    a, b = State([1.0]), State([2.0])
    total = a + b
    a.assign(total)
    b.assign(total * 2)
    engine.evaluate(a, b, total)
    assert (a.item(), b.item(), total.item()) == (3.0, 6.0, 3.0)


def test_gradients_by_states() -> None:
    state = State([3.0])
    (found,) = engine.gradients(engine.sum(state * state), [state])
    assert found.tolist() == [6.0]


class Recorder:
    """The least that tracing asks for."""

    def __init__(self) -> None:
        self.assigned: list[tuple[State, Node]] = []
        self.values: dict[int, Node] = {}

    def on_read(self, operation: str) -> None:
        tracing.refuse_read(operation)

    def on_state_read(self, state: State) -> Node:
        return self.values.get(id(state)) or p.buffer(state.storage)

    def on_assign(self, state: State, node: Node) -> None:
        self.assigned.append((state, node))
        self.values[id(state)] = node


@pytest.mark.parametrize(
    "read",
    [bool, float, int, lambda x: x.numpy(), lambda x: x.item(), np.asarray, engine.evaluate],
)
def test_values_read_inside_a_traced_step_raise_with_the_users_line(read: Callable[[Any], Any]) -> None:
    x = engine.asarray([1.0])
    y = x * 2
    with tracing.recording(Recorder()), pytest.raises(TrainerError, match="inside a traced step") as caught:
        read(y)
    assert caught.value.where is not None and "test_state.py" in caught.value.where
    assert "traced" not in repr(x)


def test_shapes_are_known_inside_a_traced_step() -> None:
    x = engine.asarray([1.0])
    with tracing.recording(Recorder()):
        assert len(x) == 1 and [part.shape for part in x] == [()]


def test_assignments_inside_a_traced_step_go_to_the_recorder() -> None:
    state = State([1.0])
    recorder = Recorder()
    with tracing.recording(recorder):
        state.assign(state * 2)
        after = state + 1
        assert repr(after) == "Tensor(shape=(1,), dtype=float32, being traced)"
    ((assigned, node),) = recorder.assigned
    assert assigned is state and p.origin(node).name == "multiply"
    assert node in after.node.inputs
    assert state.tolist() == [1.0]
