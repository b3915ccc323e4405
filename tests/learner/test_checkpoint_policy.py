"""Which checkpoints are kept and what is worth one, against every history written out."""

from __future__ import annotations

import itertools

import pytest

from trainer.learner.checkpoints.policy import Keep, Saved, is_among_best, ranking, superseded


def history(*values: float | None) -> list[Saved]:
    """Checkpoints of steps 10, 20, … with these values."""
    return [Saved(10 * number, number, value) for number, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("keep", "gone"),
    [
        (Keep(last=2), [10, 20, 30, 40]),
        (Keep(last=9), []),
        (Keep(last=1, best=1, mode="max"), [10, 30, 40, 50]),
        (Keep(last=1, best=2, mode="max"), [10, 30, 40]),
        (Keep(last=1, best=1, mode="min"), [10, 20, 30, 50]),
        (Keep(last=1, every=2), [10, 30, 50]),
        (Keep(last=1, best=1, mode="min", every=3), [10, 20, 50]),
    ],
)
def test_what_goes(keep: Keep, gone: list[int]) -> None:
    assert superseded(history(0.5, 0.9, None, 0.1, 0.7, float("nan")), keep) == gone


def test_the_order_in_which_they_are_listed_is_no_matter() -> None:
    saved = history(0.5, 0.9, None, 0.1)
    for order in itertools.permutations(saved):
        assert superseded(order, Keep(last=1, best=1)) == [10, 30]


def test_of_equal_values_the_earlier_is_the_better() -> None:
    assert [saved.step for saved in ranking(history(1.0, 2.0, 2.0, None), "max")] == [20, 30, 10]
    assert [saved.step for saved in ranking(history(1.0, 2.0, 1.0), "min")] == [10, 30, 20]


def test_what_is_worth_a_checkpoint() -> None:
    saved = history(0.5, 0.9, 0.7)
    assert is_among_best(0.6, saved[:1], Keep(1, best=2)) and not is_among_best(0.6, saved, Keep(1, best=2))
    assert is_among_best(0.8, saved, Keep(1, best=2)) and not is_among_best(0.7, saved, Keep(1, best=2))
    assert is_among_best(0.6, saved, Keep(1, best=2, mode="min"))
    assert not is_among_best(float("nan"), [], Keep(1, best=1)) and not is_among_best(1.0, [], Keep(1))
