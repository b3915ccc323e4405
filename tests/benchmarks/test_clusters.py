"""benchmarks/clusters.py: rounds of sums, and what a step costs ranks that wait for each other."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import clusters


def costs(*seconds: float) -> clusters.Measured:
    """Of a step that begins a sum of 1 MB and one of 8 bytes, computes, and needs both; one time before each mark."""
    marks = [["begin", 0, [1 << 20, 4, 4]], ["finish", 0]]
    return clusters.Measured(marks, np.array([seconds]), [], [[64, 1.0, 0.5], [1 << 20, 2.0, 1.0]])


def test_large_sums_take_two_messages_a_round_and_half_the_bytes_each_time() -> None:
    assert clusters.rounds(1 << 20, 8) == [
        clusters.Round(1 << 20, 2, 1), clusters.Round(1 << 19, 2, 2), clusters.Round(1 << 18, 2, 4)
    ]  # fmt: skip
    assert clusters.rounds(64, 4) == [clusters.Round(64, 1, 1), clusters.Round(64, 1, 2)]
    assert clusters.parts([1 << 20, 4, 4]) == [1 << 20, 8]


def test_ranks_exchange_what_they_need_and_gpus_meanwhile_compute() -> None:
    def second(each: clusters.Round) -> float:
        return 1.0

    step = costs(1.0, 3.0, 0.5)
    assert clusters.simulated(step, 2, second) == pytest.approx(1 + 3 + 2 + 0.5), "two arrays, each of one round"
    assert clusters.simulated(step, 4, second, scale=2) == pytest.approx(2 * 4.5 + 2 * 2)
    assert clusters.simulated(step, 2, second, is_aside=True) == pytest.approx(4.5), "one round beside 3 s of computing"
    assert clusters.simulated(step, 16, second, is_aside=True) == pytest.approx(1 + 4 + 0.5)


def test_a_rank_waits_for_the_slowest() -> None:
    marks = [["begin", 0, [4]], ["finish", 0]]
    uneven = clusters.Measured(marks, np.array([[1.0, 0.0, 1.0], [5.0, 0.0, 1.0]]), [], [])
    assert clusters.simulated(uneven, 64, lambda each: 0.0) == pytest.approx(6)


def test_a_link_is_shared_and_costs_are_between_those_that_were_measured() -> None:
    each = clusters.Round(1e6, 2, 4)
    assert clusters.Link(8e9, 1e-3).seconds(each, 2) == pytest.approx(2e-3 + 2e-3)
    found = costs(1.0, 1.0, 1.0)
    assert found.sum_seconds(0) == 1 and found.sum_seconds((64 + (1 << 20)) / 2) == pytest.approx(1.5)
    assert found.sum_seconds(1 << 21) == pytest.approx(4) and found.undisturbed.sum_seconds(0) == 0.5
