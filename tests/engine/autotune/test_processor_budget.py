"""The helper's budget: a share of wall time, half of idle time, and no more."""

from __future__ import annotations

import pytest

from trainer.engine.autotune.processor_budget import READ_SECONDS, ProcessorBudget, idle_seconds


class Machine:
    """Clocks that a test sets."""

    time = 100.0
    idled = 40.0
    looks = 0

    def now(self) -> float:
        return self.time

    def idle(self) -> float:
        self.looks += 1
        return self.idled


def test_a_busy_machine_gives_the_share_alone() -> None:
    machine = Machine()
    budget = ProcessorBudget(0.05, machine.idle, machine.now)
    assert budget.seconds() == 0
    machine.time += 20
    assert budget.seconds() == pytest.approx(1.0)


def test_half_of_what_idles_is_added() -> None:
    machine = Machine()
    budget = ProcessorBudget(0.05, machine.idle, machine.now)
    machine.time, machine.idled = machine.time + 20, machine.idled + 10
    assert budget.seconds() == pytest.approx(1.0 + 5.0)


def test_the_system_is_asked_a_few_times_a_second() -> None:
    machine = Machine()
    budget = ProcessorBudget(0.05, machine.idle, machine.now)
    looks = machine.looks
    for _ in range(100):
        machine.time += READ_SECONDS / 10
        budget.seconds()
    assert machine.looks - looks <= 10


def test_idle_time_never_runs_backwards() -> None:
    first = idle_seconds()
    assert 0 <= first <= idle_seconds()


def test_processors_that_are_not_all_ours_are_not_held_to_be_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.engine.autotune.processor_budget.available_processors", lambda: 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert idle_seconds() == 0
