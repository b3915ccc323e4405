"""How far our losses are from PyTorch's, in units of its own spread."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from recipe_parity import NEAR, Losses, in_spreads


def told(*values: float) -> Losses:
    return [{"loss": value} for value in values]


def test_a_steps_spread_is_the_largest_until_a_few_steps_later() -> None:
    steps = NEAR + 4
    first, other = [1.0] * steps, [1.0] * steps
    other[steps - 2] = 1.25
    away = in_spreads(told(*[1.5] * steps), [told(*first), told(*other)])
    assert away[0] > 1e5, "until the runs come apart there is rounding alone"
    assert away[-NEAR - 2 :] == pytest.approx([2.0] * (NEAR + 2))


def test_of_several_losses_the_one_that_is_furthest_counts() -> None:
    first, other = [{"a": 1.0, "b": 1.0}], [{"a": 2.0, "b": 1.5}]
    assert in_spreads([{"a": 2.0, "b": 3.0}], [first, other]) == pytest.approx([4.0])
