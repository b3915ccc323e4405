"""Values asked for ahead: order, how far ahead, errors, and what is no longer wanted."""

from __future__ import annotations

import itertools

import pytest

from trainer.datasets.prefetch import Prefetch


class Asked:
    """A value that knows whether it was cancelled; negative ones fail."""

    def __init__(self, value: int) -> None:
        self.value, self.is_cancelled = value, False

    def result(self) -> int:
        if self.value < 0:
            raise KeyError(self.value)
        return self.value

    def cancel(self) -> None:
        self.is_cancelled = True


class Desk:
    """Notes what was asked for."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def __call__(self, key: int) -> Asked:
        self.asked.append(Asked(key))
        return self.asked[-1]


@pytest.mark.parametrize("ahead", [0, 1, 5, 100])
def test_values_come_in_order_and_end_exactly(ahead: int) -> None:
    prefetch = Prefetch(Asked, range(50), ahead)
    assert list(prefetch) == list(range(50))
    assert list(prefetch) == []


def test_so_many_are_asked_for_and_no_more() -> None:
    desk = Desk()
    prefetch = Prefetch(desk, itertools.count(), 3)
    assert len(desk.asked) == 3
    assert [next(prefetch), next(prefetch)] == [0, 1]
    assert len(desk.asked) == 5
    desk = Desk()
    prefetch = Prefetch(desk, itertools.count(), 0)
    assert not desk.asked
    assert next(prefetch) == 0 and len(desk.asked) == 1


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_an_error_comes_after_the_values_before_it_and_ends_all(ahead: int) -> None:
    desk = Desk()
    prefetch = Prefetch(desk, [1, 2, -3, 4, 5, 6], ahead)
    assert [next(prefetch), next(prefetch)] == [1, 2]
    with pytest.raises(KeyError, match="-3"):
        next(prefetch)
    with pytest.raises(StopIteration):
        next(prefetch)
    assert all(asked.is_cancelled for asked in desk.asked[3:])


@pytest.mark.parametrize("by", ["closing", "dropping"])
def test_what_is_no_longer_wanted_is_cancelled(by: str) -> None:
    desk = Desk()
    prefetch = Prefetch(desk, range(50), 3)
    next(prefetch)
    if by == "closing":
        prefetch.close()
        assert list(prefetch) == []
    else:
        del prefetch
    assert [asked.is_cancelled for asked in desk.asked] == [False, True, True, True]


def test_more_are_asked_for_by_and_by_and_fewer_at_once() -> None:
    desk = Desk()
    prefetch = Prefetch(desk, itertools.count(), 2)
    prefetch.ahead = 1_000_000
    for taken in range(1, 50):
        next(prefetch)
        assert len(desk.asked) <= 2 + 2 * taken
    prefetch.ahead = 3
    asked = len(desk.asked)
    next(prefetch)
    assert len(desk.asked) == asked
