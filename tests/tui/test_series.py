from __future__ import annotations

import math

import numpy as np

from trainer.tui.series import SMOOTHING, Series


def test_smoothing_is_the_weighted_mean_of_everything_so_far() -> None:
    series = Series()
    values = [3.0, 1.0, 2.0, 5.0]
    for step, value in enumerate(values):
        series.append(step, value)
    weights = SMOOTHING ** np.arange(len(values))[::-1]
    assert math.isclose(series.smoothed[-1], float(np.average(values, weights=weights)))


def test_a_value_that_is_not_finite_is_kept_but_not_averaged() -> None:
    series = Series()
    for step, value in enumerate([1.0, math.nan, math.inf, 1.0]):
        series.append(step, value)
    assert series.not_finite == 2 and len(series) == 4
    assert math.isclose(series.smoothed[-1], 1.0)


def test_taking_back_equals_never_having_gone_on() -> None:
    resumed, straight = Series(), Series()
    for step in range(10):
        resumed.append(step, step**2)
    before = resumed.version
    resumed.take_back(4)
    for step in range(5):
        straight.append(step, step**2)
    assert (resumed.steps, resumed.values, resumed.smoothed) == (straight.steps, straight.values, straight.smoothed)
    assert resumed.version > before


def test_a_value_told_again_takes_the_place_of_the_one_before() -> None:
    again, once = Series(), Series()
    for step, value in ((1, 3.0), (2, 7.0), (2, 5.0)):
        again.append(step, value)
    for step, value in ((1, 3.0), (2, 5.0)):
        once.append(step, value)
    assert (again.steps, again.values, again.smoothed) == (once.steps, once.values, once.smoothed)


def test_the_best_point_is_the_earliest_of_equals() -> None:
    series = Series()
    for step, value in ((1, 0.5), (2, math.nan), (3, 0.9), (4, 0.9), (5, 0.1)):
        series.append(step, value)
    assert series.best("max") == (3, 0.9) and series.best("min") == (5, 0.1)
    assert Series().best("max") is None
