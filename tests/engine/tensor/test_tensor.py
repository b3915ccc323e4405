"""Handles: reading, Python's protocols, exchange with NumPy, and histories that can't leak."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import history
from trainer.engine.graph.node import uncomputed


def test_values_are_computed_when_read() -> None:
    x = engine.asarray([1.0, 2.0])
    y = x * 2 + 1
    assert y.node.value is None
    assert y.numpy().tolist() == [3.0, 5.0]
    assert y.node.value is not None


def test_numpy_hands_out_copies() -> None:
    source = np.array([1.0, 2.0], np.float32)
    x = engine.asarray(source)
    source[0] = 9
    x.numpy()[1] = 9
    assert x.tolist() == [1.0, 2.0]


def test_python_protocols() -> None:
    x = engine.asarray([[1, 2], [3, 4]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert int(x[0, 0]) == 1 and float(x[0, 1]) == 2.0 and bool(x[1, 1]) and operator.index(x[1, 0]) == 3
    assert 4 in x and 5 not in x
    assert [10, 20, 30][engine.asarray(2)] == 30
    assert "".join(str(engine.asarray(1.5)).split()) == "Tensor(1.5,dtype=float32)"
    with pytest.raises(TypeError):
        len(engine.asarray(1))
    with pytest.raises(TrainerError, match="bool: one element is needed"):
        bool(x)
    with pytest.raises(TrainerError, match="index: only integers index"):
        operator.index(engine.asarray(1.0))


def test_handles_are_keys_by_identity() -> None:
    a, b = engine.asarray([1]), engine.asarray([1])
    assert {a: "a", b: "b"}[a] == "a"


def test_numpy_reads_tensors() -> None:
    x = engine.asarray([1.0, 2.0])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, np.float64).tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(np.concatenate([x, x]), [1, 2, 1, 2])


def test_dlpack_both_ways() -> None:
    x = engine.asarray([[1.0, 2.0]])
    np.testing.assert_array_equal(np.from_dlpack(x), x.numpy())
    np.testing.assert_array_equal(engine.from_dlpack(np.arange(6).reshape(2, 3)[:, ::2]).numpy(), [[0, 2], [3, 5]])
    with pytest.raises(TrainerError, match="bfloat16"):
        np.from_dlpack(x.astype(engine.bfloat16))


def test_dlpack_shares_memory_where_nobody_writes_to_it() -> None:
    x, state = engine.asarray([1.0, 2.0]), engine.State(np.zeros(2))
    ours, theirs = np.from_dlpack(x), np.ones(3)
    assert np.shares_memory(ours, np.from_dlpack(x)) and not ours.flags.writeable
    assert np.shares_memory(np.from_dlpack(engine.from_dlpack(theirs)), theirs)
    assert not np.shares_memory(np.from_dlpack(engine.from_dlpack(theirs, copy=True)), theirs)
    assert not np.shares_memory(np.from_dlpack(state), np.from_dlpack(state))
    with pytest.raises(BufferError, match="a state"):
        state.__dlpack__(copy=False)


def test_bfloat16_comes_as_float32() -> None:
    x = engine.asarray([1.00390625, 3.0], dtype=engine.bfloat16)
    assert x.dtype is engine.bfloat16
    assert type(x[0].numpy()) is np.ndarray and x[0].numpy().shape == ()
    assert x.numpy().dtype == np.float32 and x.tolist() == [1.0, 3.0] and x[1].item() == 3.0


def test_the_array_namespace_is_the_engine() -> None:
    x = engine.asarray([4.0])
    assert x.__array_namespace__().sqrt(x).item() == 2.0


BOUND = history.UNREAD_LIMIT * 5 // 4 + 1
"""A history is counted when it may have passed the limit, and again a quarter of the limit later."""


def test_an_unread_sum_does_not_grow_without_bound() -> None:
    total = engine.zeros(())
    one = engine.asarray(1.0)
    longest = 0
    for _ in range(3 * history.UNREAD_LIMIT):
        total = total + one
        if total.node.sequence % 512 == 0:
            longest = max(longest, len(uncomputed([total.node])))
    assert longest <= BOUND
    assert total.item() == 3 * history.UNREAD_LIMIT


def test_an_unread_sum_of_many_terms_does_not_grow_either() -> None:
    total, x = engine.zeros(()), engine.asarray(np.ones(2, np.float32))
    for step in range(600):
        loss = x * float(step)
        for _ in range(10):
            loss = loss + x
        total = total + engine.sum(loss)
    assert len(uncomputed([total.node])) <= BOUND
    assert total.item() == sum(2 * (step + 10) for step in range(600))


def test_reading_a_value_leaves_its_derivatives_alone() -> None:
    x = engine.asarray([1.0, 2.0])
    y = x * x
    y.numpy()
    (found,) = engine.gradients(engine.sum(y * x), [x])
    assert found.tolist() == [3.0, 12.0]
    held = engine.stop_gradient(y)
    (found,) = engine.gradients(engine.sum(held * x), [x])
    assert found.tolist() == [1.0, 4.0]


def test_gradients_errors() -> None:
    x, y = engine.asarray([1.0, 2.0]), engine.asarray([1.0, 2.0])
    with pytest.raises(TrainerError, match="not a floating-point scalar"):
        engine.gradients(x * 2, [x])
    with pytest.raises(TrainerError, match="does not depend") as caught:
        engine.gradients(engine.sum(x), [x, y])
    assert caught.value.found == "number 1 of `wrt`: float32[2]"
    (found,) = engine.gradients(x * x, [x], cotangent=engine.asarray([1.0, 10.0]))
    assert found.tolist() == [2.0, 40.0]


def test_devices() -> None:
    assert engine.asarray(1).device == "reference"
    with pytest.raises(TrainerError, match="unknown device"), engine.device("abacus"):
        pass
