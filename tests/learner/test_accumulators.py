"""Accumulated metrics: totals of the whole period, and the first step that was not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer import engine
from trainer.learner.accumulators import Accumulators


class Deviation:
    """A metric of three sums."""

    def __init__(self, values):
        self.values = values

    def partial(self):
        x = engine.asarray(np.asarray(self.values, np.float64))
        return {"n": engine.asarray(float(len(self.values))), "sum": engine.sum(x), "squares": engine.sum(x * x)}

    @classmethod
    def finish(cls, totals):
        n, total, squares = totals["n"], totals["sum"], totals["squares"]
        return math.sqrt(squares / n - (total / n) ** 2)


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


def added(*batches):
    sums = Accumulators("train")
    for step, values in enumerate(batches, start=1):
        sums.add({"deviation": Deviation(values)}, engine.asarray(np.asarray(step)))
    return sums


def test_the_value_is_that_of_all_batches_together():
    sums = added([1.0, 2.0, 3.0], [10.0])
    assert sums.values() == {"deviation": pytest.approx(np.std([1, 2, 3, 10]))}
    assert sums.first_not_finite() is None
    sums.reset()
    sums.add({"deviation": Deviation([5.0, 7.0])}, engine.asarray(np.asarray(3)))
    assert sums.values() == {"deviation": pytest.approx(1.0)}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_first_step_that_is_not_finite_is_kept(bad):
    assert added([1.0], [bad, 2.0], [3.0], [bad]).first_not_finite() == ("deviation", 2)


def test_states_can_be_made_before_the_first_step():
    sums, prepared = added([1.0, 4.0]), Accumulators("train")
    prepared.prepare(sums.describe())
    assert prepared.named_states().keys() == sums.named_states().keys()
    for name, state in prepared.named_states().items():
        state.set_value(sums.named_states()[name].numpy())
    prepared.add({"deviation": Deviation([10.0])}, engine.asarray(np.asarray(2)))
    assert prepared.values() == {"deviation": pytest.approx(np.std([1, 4, 10]))}
