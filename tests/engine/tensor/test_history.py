"""Reading changes no derivative, chains may be of any length, and a history goes once nobody can differentiate it."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State, Tensor, evaluation, history, nn
from trainer.engine.graph.node import topological, uncomputed
from trainer.engine.graph.storage import Storage


def gradient(output: Tensor, by: Tensor) -> list[float]:
    (found,) = engine.gradients(engine.sum(output), [by])
    return np.atleast_1d(found.numpy()).tolist()


@pytest.mark.parametrize(
    "read", [Tensor.numpy, Tensor.tolist, engine.evaluate, np.asarray, repr, lambda x: x[0].item()]
)
def test_reading_a_value_cuts_no_gradient(read: Callable[[Tensor], object]) -> None:
    w = engine.ones((2,))
    y = w * 3
    read(y)
    assert gradient(y * w, w) == [6.0, 6.0]
    u = w * 2
    z = u * u
    read(u)
    assert gradient(z * u, u) == [12.0, 12.0]
    read(z)
    assert gradient(z * u, w) == [24.0, 24.0]


def test_reading_a_state_that_was_assigned_to_cuts_no_gradient() -> None:
    x, state = engine.asarray([1.0, 2.0]), State([0.0, 0.0])
    state.assign(x * 3)
    y = state * 2
    state.numpy()
    assert gradient(y, state) == [2.0, 2.0]
    assert gradient(y * state, x) == [36.0, 72.0]


def test_a_long_chain_that_nobody_reads_is_differentiated_from_end_to_end() -> None:
    x = engine.asarray(1.0, dtype=engine.float64)
    y = x
    for _ in range(5000):
        y = y * 1.0002387
    (found,) = engine.gradients(y, [x])
    assert len(uncomputed([y.node])) < 5000 <= len(topological([y.node]))
    assert found.item() == pytest.approx(1.0002387**5000, rel=1e-9)


def test_long_graphs_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "PIECE", 7)
    x = engine.asarray(np.array([0.5, -1.0]), dtype=engine.float64)
    y = x
    for _ in range(30):
        y = engine.tanh(y) + 0.5 * x
    (found,) = engine.gradients(engine.sum(y), [x])
    values = [node.value for node in topological([found.node]) if node is not found.node and node.inputs]
    found.numpy()
    assert values == [None] * len(values)
    with_history = [node for node in topological([found.node]) if node.inputs and node.value is not None]
    assert with_history == [found.node]

    def plain(at: np.ndarray) -> np.ndarray:
        value = at
        for _ in range(30):
            value = np.tanh(value) + 0.5 * at
        return value

    slope = (plain(x.numpy() + 1e-6) - plain(x.numpy() - 1e-6)) / 2e-6
    np.testing.assert_allclose(found.numpy(), slope, rtol=1e-7)


def test_history_goes_with_the_last_handle_that_it_could_be_differentiated_by() -> None:
    x = engine.asarray([1.0, 2.0])
    y = x * 3
    y.numpy()
    assert len(topological([y.node])) > 1
    del x
    engine.evaluate(y + 1)
    assert topological([y.node]) == [y.node]


def test_constants_and_whole_numbers_leave_no_history() -> None:
    x, counts = engine.asarray([1.0, 2.0]), engine.asarray([1, 2])
    for value in (engine.stop_gradient(x) * 2, x > 1, counts * 2, (x * 2).astype(engine.int32)):
        value.numpy()
        assert topological([value.node]) == [value.node]


def memory_of_terms(add: Callable[[Tensor, Tensor], Tensor], terms: int) -> int:
    """How many of `terms` arrays live at most while they are added up one after the other."""
    alive: weakref.WeakSet[Storage] = weakref.WeakSet()
    total, most = engine.zeros((1 << 18,)), 0
    for term in range(terms):
        big = engine.asarray(np.full(1 << 18, term, np.float32))
        assert big.node.value is not None
        alive.add(big.node.value)
        total = add(total, big)
        most = max(most, len(alive))
    assert total[0].item() == sum(range(terms))
    return most


def test_a_sum_of_large_terms_keeps_few_of_them() -> None:
    few = history.UNREAD_LIMIT * 4096 // (4 << 18) + 4
    assert memory_of_terms(lambda total, big: total + big, 100) <= few

    def read(total: Tensor, big: Tensor) -> Tensor:
        result = total + big
        result.numpy()
        return result

    assert memory_of_terms(read, 20) <= 3


def test_one_large_term_that_is_added_again_and_again_is_kept_once() -> None:
    total, big = engine.zeros((8,)), engine.ones((8,)) * 2
    for _ in range(2 * history.UNREAD_LIMIT):
        total = total + big
    assert len(uncomputed([total.node])) <= history.UNREAD_LIMIT + 2
    assert gradient(total, big) == [2.0 * history.UNREAD_LIMIT] * 8


def test_an_eager_training_loop_keeps_the_history_of_its_last_step_only() -> None:
    w, lengths = State(np.ones(4)), []
    total = engine.zeros((), dtype=engine.float64)
    for _ in range(20):
        loss = engine.sum((w * 3 - 1) ** 2)
        (by_w,) = engine.gradients(loss, [w])
        w.assign(w - by_w * 0.01)
        total = total + loss
        total.numpy()
        w.numpy()
        lengths.append(len(topological([total.node, w.node])))
    assert lengths[-1] == lengths[5]


def test_updates_copy_a_value_only_for_graphs_that_need_it() -> None:
    w = State([1.0, 2.0])
    y = w * 3
    y.numpy()
    assert gradient(y, w) == [3.0, 3.0]
    w.set_value([5.0, 6.0])  # y is known, and no one can differentiate by the value before
    assert topological([y.node]) == [y.node] and y.tolist() == [3.0, 6.0]
    z = w * y
    w.set_value([0.0, 0.0])
    assert z.tolist() == [15.0, 36.0]
    with pytest.raises(TrainerError, match="does not depend"):
        engine.gradients(engine.sum(z), [w])


def test_copies_of_handles_and_models_are_values_of_their_own() -> None:
    x = engine.asarray([1.0, 2.0])
    for twin in (copy.copy(x), copy.deepcopy(x)):
        assert gradient(twin * x, twin) == [1.0, 2.0]
    layer = nn.Linear(2, 2)
    for copied in (lambda: copy.deepcopy(layer).weight, lambda: copy.copy(layer.weight)):
        weight = copied()
        assert isinstance(weight, nn.Parameter) and weight.name == layer.weight.name
        before = weight.tolist()
        assert before == layer.weight.tolist()
        layer.weight.assign(layer.weight + 1)
        assert weight.tolist() == before != layer.weight.tolist()
        weight.set_value(np.zeros((2, 2)))
        assert layer.weight.tolist() != weight.tolist()


def test_tensors_that_a_step_leaves_behind_have_no_value() -> None:
    state, kept = State([1.0, 2.0], "w"), []

    def step(x: Tensor) -> Tensor:
        kept.append(state * 2)
        state.assign(state + x)
        return x

    engine.trace(step)(np.ones(2, np.float32))
    with pytest.raises(TrainerError, match="has no value outside") as caught:
        kept[0].numpy()
    assert caught.value.found == "computed from w"
    assert state.tolist() == [2.0, 3.0]


def test_a_history_of_any_length_is_let_go() -> None:
    x = engine.asarray(1.0)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    assert y.item() == 20_001
    assert gradient(y, x) == [1.0]
    last = weakref.ref(topological([y.node])[10_000])
    del x, y
    gc.collect()
    assert last() is None
