"""How far our losses are from PyTorch's, in units of its own spread."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from recipe_parity import Losses, in_spreads


def told(*values: float) -> Losses:
    return [{"loss": value} for value in values]


def test_a_steps_spread_is_the_largest_up_to_it() -> None:
    first, other = told(1.0, 1.0, 1.0, 1.0), told(1.0, 1.25, 1.0, 1.125)
    away = in_spreads([(told(1.5, 1.5, 1.5, 1.5), [first, other])])
    assert away[0] > 1e5, "until the runs come apart there is rounding alone"
    assert away[1:] == pytest.approx([2.0] * 3)


def test_of_several_losses_the_one_that_is_furthest_counts() -> None:
    first, other = [{"a": 1.0, "b": 1.0}], [{"a": 2.0, "b": 1.5}]
    assert in_spreads([([{"a": 2.0, "b": 3.0}], [first, other])]) == pytest.approx([4.0])


def test_of_several_beginnings_the_largest_spread_and_the_largest_difference_count() -> None:
    near, far = (told(1.5), [told(1.0), told(1.25)]), (told(5.0), [told(4.0), told(4.5)])
    assert in_spreads([near]) == in_spreads([near, near]) == pytest.approx([2.0])
    assert in_spreads([near, far]) == pytest.approx([2.0])
    assert in_spreads([near, (told(4.0), [told(4.0), told(4.5)])]) == pytest.approx([1.0])
