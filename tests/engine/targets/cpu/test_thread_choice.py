"""When a program runs on fewer threads than there are: only while that is faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from trainer.engine.targets.cpu.thread_choice import ThreadChoice

MILLISECOND = 1e-3


def alone_share(launches: int, together: Callable[[int], float], alone: float, unit: float = MILLISECOND) -> float:
    """The share of launches run alone, where a launch takes `together(number)` or `alone` units of so many seconds."""
    choice, count = ThreadChoice(2), 0
    for number in range(launches):
        is_alone = choice.threads == 1
        count += is_alone
        choice.took(unit * (alone if is_alone else together(number)))
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


def test_of_eight_threads_those_that_share_cores_with_busy_processes_rest() -> None:
    """From the 100th launch on two of the eight cores are busy: a ninth share of the time goes to finding out."""
    choice, found = ThreadChoice(8), Counter[int]()
    for number in range(1000):
        is_held_up = number >= 100 and choice.threads > 6
        found[choice.threads] += 1
        choice.took(MILLISECOND * (8 / choice.threads) * (2 if is_held_up else 1))
    assert found[6] > 700 and set(found) == {8, 7, 6, 4}


def test_numbers_of_threads_that_may_be_tried_end_at_one() -> None:
    for most in range(2, 70):
        choice, tried = ThreadChoice(most), set()
        for number in range(100):
            tried.add(choice.threads)
            choice.took(1e-3 if number < 3 else 1.0)
        assert max(tried) == most and min(tried) >= 1
