"""Sums of a traced step: totals of the whole period, and the first step that was not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.learner.meters import Meter
from trainer.learner.tally import Tally
from trainer.metrics import Metric


class Deviation(Metric):
    """A metric of three sums."""

    def partial(self, given):
        x = given["value"]
        return {"n": given.total(), "sum": engine.sum(x), "squares": engine.sum(x * x)}

    def values(self, state):
        return {"": math.sqrt(state["squares"] / state["n"] - (state["sum"] / state["n"]) ** 2)}


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


def add(tally, step, values):
    deviation = Deviation().on(value=engine.asarray(np.asarray(values, np.float64)))
    tally.add({"deviation": deviation}, engine.asarray(np.asarray(step)), by="Own.train_step")


def added(*batches):
    tally = Tally("train")
    for step, values in enumerate(batches, start=1):
        add(tally, step, values)
    return tally


def values(tally):
    return Meter(tally, {}).values()


def test_the_value_is_that_of_all_batches_together():
    tally = added([1.0, 2.0, 3.0], [10.0])
    assert values(tally) == {"deviation": pytest.approx(np.std([1, 2, 3, 10]))}
    assert tally.first_not_finite() is None
    tally.reset()
    add(tally, 3, [5.0, 7.0])
    assert values(tally) == {"deviation": pytest.approx(1.0)}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_first_step_that_is_not_finite_is_kept(bad):
    assert added([1.0], [bad, 2.0], [3.0], [bad]).first_not_finite() == ("deviation", 2)


def test_sums_whose_shape_depends_on_the_batch_are_refused():
    class Ragged(Metric):
        def partial(self, given):
            return {"all": given["value"]}

    tally = Tally("train")
    tally.add({"ragged": Ragged().on(value=engine.asarray(np.ones(3)))}, engine.asarray(0), by="Own.train_step")
    with pytest.raises(TrainerError, match="another shape in this batch"):
        tally.add({"ragged": Ragged().on(value=engine.asarray(np.ones(2)))}, engine.asarray(0), by="Own.train_step")


def test_large_sums_have_a_state_of_their_own():
    class Many(Metric):
        def partial(self, given):
            return {"few": engine.sum(given["value"]), "many": engine.zeros((100, 100)) + engine.sum(given["value"])}

        def values(self, state):
            return {"few": float(state["few"]), "many": state["many"].mean()}

    tally = Tally("train")
    for _ in range(2):
        tally.add({"m": Many().on(value=engine.asarray(np.ones(3)))}, engine.asarray(0), by="Own.train_step")
    assert values(tally) == {"m/few": 6.0, "m/many": 6.0}
    assert tally.named_states()["train.m.many"].shape == (100, 100)
    tally.reset()
    assert values(tally) == {"m/few": 0.0, "m/many": 0.0}


def test_states_can_be_made_before_the_first_step():
    tally, prepared = added([1.0, 4.0]), Tally("train")
    prepared.prepare(tally.describe())
    assert prepared.named_states().keys() == tally.named_states().keys()
    for name, state in prepared.named_states().items():
        state.set_value(tally.named_states()[name].numpy())
    add(prepared, 2, [10.0])
    assert values(prepared) == {"deviation": pytest.approx(np.std([1, 4, 10]))}
