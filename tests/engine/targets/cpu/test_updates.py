"""Updates of states in place: whatever a step reads of a state's earlier value, it reads before the value is gone."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import engine
from trainer.engine.targets.cpu.device import CpuDevice


@pytest.mark.parametrize("threads", [1, 2])
def test_earlier_values_are_read_before_they_are_overwritten(threads: int) -> None:
    a, b, x = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) * 10, np.ones((2, 3))
    with engine.device(CpuDevice(threads=threads)):
        first, second = engine.State(a, "first", engine.float64), engine.State(b, "second", engine.float64)

        def step(x):
            before, flat = engine.permute_dims(first, (1, 0)), engine.reshape(second, (6,))
            first.assign(first * 2 + x)
            second.assign(engine.permute_dims(before, (1, 0)) + 1)
            return engine.matmul(before, x), engine.sum(flat), engine.sum(first)

        traced = engine.trace(step)
        for _ in range(3):
            product, total, total_after = (value.numpy() for value in traced(x))
            np.testing.assert_array_equal(product, a.T @ x)
            assert total == b.sum()
            a, b = a * 2 + x, a + 1
            assert total_after == a.sum()
            np.testing.assert_array_equal(first.numpy(), a)
            np.testing.assert_array_equal(second.numpy(), b)


@pytest.mark.parametrize("extent", [5, 100_000])
def test_states_can_be_exchanged(extent: int) -> None:
    with engine.device(CpuDevice(threads=2)):
        states = [engine.State(np.full(extent, number), f"{number}", engine.float64) for number in range(3)]

        def turn():
            for state, value in zip(
                states, [engine.reshape(state, (extent,)) for state in states[1:] + states[:1]], strict=True
            ):
                state.assign(value)

        traced = engine.trace(turn)
        for expected in ([1, 2, 0], [2, 0, 1], [0, 1, 2]):
            traced()
            assert [set(state.numpy()) for state in states] == [{number} for number in expected]


def test_a_product_is_stored_as_a_states_new_value_unless_it_reads_the_old_one() -> None:
    """`direct` adds a product in its epilogue; `crossed` multiplies the state itself, whose rows are read again."""
    values = np.random.default_rng(0).standard_normal((3, 61, 61)).astype(np.float32)
    a, b, start = values
    with engine.device(CpuDevice(threads=2)):
        first, second = engine.State(start, "first"), engine.State(start, "second")
        direct = engine.trace(lambda x, y: first.assign(first - 0.1 * engine.matmul(x, y)))
        crossed = engine.trace(lambda x: second.assign(second - 0.1 * engine.matmul(second, x)))
        direct(a, b)
        crossed(a)
        labels = [[each.label for each in traced.programs[0].launches] for traced in (direct, crossed)]
        assert "update" not in labels[0] and "update" in labels[1]
        np.testing.assert_allclose(first.numpy(), start - 0.1 * (a.astype(float) @ b), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(second.numpy(), start - 0.1 * (start.astype(float) @ a), rtol=1e-4, atol=1e-4)
