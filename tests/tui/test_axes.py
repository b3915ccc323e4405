from __future__ import annotations

import math

import pytest

from trainer.tui.axes import step_range, value_range


@pytest.mark.parametrize("last", [0, 1, 8, 9, 99, 100, 101, 3412, 1_000_000, 123_456_789])
def test_the_step_axis_holds_the_run_and_is_mostly_filled(last: int) -> None:
    end = step_range(last)
    assert end >= last and (last < 8 or last >= end * 8 / 9 - 1e-9)


def test_the_step_axis_moves_seldom() -> None:
    assert len({step_range(last) for last in range(1000, 10_001)}) < 40


@pytest.mark.parametrize(("low", "high", "wanted"), [(0.05, 2.2, (0, 3)), (0.81, 0.97, (0.8, 1.0)), (-3, -1, (-3, -1))])
def test_the_value_axis_ends_on_round_numbers(low: float, high: float, wanted: tuple[float, float]) -> None:
    assert value_range(low, high) == pytest.approx(wanted)


def test_the_value_axis_is_never_empty() -> None:
    for value in (0.0, 1.0, -7.5, 1e-12):
        low, high = value_range(value, value)
        assert low < value < high
    assert value_range(math.nan, math.nan) == (0.0, 1.0)
