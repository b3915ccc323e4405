"""When a program is run on one thread alone: only while that is the faster way."""

from __future__ import annotations

from collections.abc import Callable

from trainer.engine.targets.cpu.single_thread import SingleThreadChoice

MILLISECOND = 1e-3


def alone_share(launches: int, together: Callable[[int], float], alone: float, unit: float = MILLISECOND) -> float:
    """The share of launches run alone, where a launch takes `together(number)` or `alone` units of so many seconds."""
    single_thread, count = SingleThreadChoice(), 0
    for number in range(launches):
        count += single_thread.alone
        single_thread.took(unit * (alone if single_thread.alone else together(number)))
    return count / launches


def test_a_program_at_its_usual_speed_is_never_tried_alone() -> None:
    assert alone_share(1000, lambda number: 1.0 + 0.3 * (number % 3), 2.0) == 0


def test_beside_a_busy_process_it_runs_alone_most_of_the_time() -> None:
    assert alone_share(1000, lambda number: 1.0 if number < 100 else 2.5, 2.0) > 0.8


def test_it_stays_together_where_alone_is_slower_still() -> None:
    assert alone_share(1000, lambda number: 1.0 if number < 100 else 1.8, 2.0) < 0.06


def test_it_comes_back_once_the_busy_process_has_gone() -> None:
    share = alone_share(3000, lambda number: 2.5 if 100 <= number < 300 else 1.0, 2.0)
    assert share < 0.12


def test_a_long_step_that_was_held_up_for_a_moment_is_back_at_its_speed_within_seconds() -> None:
    assert alone_share(40, lambda number: 3.0 if 10 <= number < 20 else 1.0, 1.9, unit=0.3) < 0.3
