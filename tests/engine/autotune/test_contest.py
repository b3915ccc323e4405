"""Contests: the faster one wins, a slow one does not stay long, noise and a machine that slows down decide nothing."""

from __future__ import annotations

from collections.abc import Callable

from trainer.engine.autotune.contest import RUNS, Contest


def played(contest: Contest, time: Callable[[str, int], float], most: int = 200) -> list[str]:
    """Who ran in each step until the contest was decided."""
    ran = []
    while not contest.is_decided:
        assert len(ran) < most
        ran.append(contest.current)
        contest.took(time(contest.current, len(ran)))
    return ran


def test_the_fastest_wins_and_runs_at_the_end() -> None:
    times = {"default": 1.0, "a": 0.9, "b": 0.7, "c": 0.8}
    contest = Contest("default", ["a", "b", "c"])
    played(contest, lambda name, step: times[name])
    assert contest.best == contest.current == "b"
    assert (contest.default_time, contest.gained_time) == (1.0, 0.7)


def test_the_default_stays_where_nothing_is_clearly_better() -> None:
    contest = Contest("default", ["a", "b"])
    played(contest, lambda name, step: {"default": 1.0, "a": 0.99, "b": 1.01}[name])
    assert contest.best == "default" and contest.gained_time == contest.default_time == 1.0


def test_a_hopeless_challenger_runs_once() -> None:
    ran = played(Contest("default", ["slow", "fast"]), lambda name, step: {"slow": 2.0}.get(name, 1.0))
    assert ran.count("slow") == 1 and ran.count("fast") == RUNS


def test_single_disturbed_steps_decide_nothing() -> None:
    contest = Contest("default", ["a"])
    played(contest, lambda name, step: (1.0 if name == "default" else 0.8) + (step % 3 == 2) * 0.15)
    assert contest.best == "a"


def test_a_machine_that_slows_down_decides_nothing() -> None:
    contest = Contest("default", ["a", "b", "c", "d", "e", "f"])
    played(contest, lambda name, step: 1.02**step * (0.97 if name == "default" else 1.0))
    assert contest.best == "default"


def test_a_machine_that_speeds_up_keeps_no_worse_challenger_for_long() -> None:
    contest = Contest("default", ["a", "b"])
    played(contest, lambda name, step: 1.0 if step < 4 else 0.9)
    assert contest.is_decided  # either is as good


def test_a_contest_without_challengers_measures_the_default() -> None:
    contest = Contest("default", [])
    assert played(contest, lambda name, step: 1.0) == ["default"] * RUNS


def test_challengers_that_are_left_can_begin_again() -> None:
    contest = Contest("default", ["a", "b"])
    for _ in range(RUNS + 1):
        contest.took(1.0)
    assert contest.current == "a" and contest.left == ["a", "b"]


def test_a_best_that_is_not_the_default_must_win_again_elsewhere() -> None:
    contest = Contest("default", ["a", "b"])
    while contest.best != "a":
        contest.took(0.5 if contest.current == "a" else 1.0)
    assert contest.left == ["a", "b"]
