"""Phases as events, and the time that counts as training."""

from __future__ import annotations

import pytest

from trainer.learner.inbox import Stopped
from trainer.learner.phases import CompilePhases, Phase, phase
from trainer.learner.stopwatch import Stopwatch


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_estimates_what_remains_and_is_not_chatty():
    events, clock = [], Clock()
    running = Phase("train", events.append, unit="step", clock=clock)
    for done in range(1, 101):
        clock.now += 0.01
        running.progress(done, 200, f"step {done}")
    running.end()
    assert [events[0].state, events[-1].state] == ["started", "finished"]
    assert 9 <= len(events) <= 13
    last = events[-2]
    assert last.remaining == pytest.approx((200 - last.done) * 0.01, rel=0.01)
    assert (last.total, last.unit, last.now) == (200, "step", f"step {last.done}")


def test_an_error_fails_the_phase_and_a_stop_finishes_it():
    events = []
    with pytest.raises(ValueError), phase("data", events.append):
        raise ValueError
    with pytest.raises(Stopped), phase("train", events.append):
        raise Stopped("stopped", 0, "by request")
    assert [(e.name, e.state) for e in events] == [
        ("data", "started"), ("data", "failed"), ("train", "started"), ("train", "finished"),
    ]  # fmt: skip


def test_tracing_becomes_compiling_at_the_first_report():
    events = []
    phases = CompilePhases(events.append)
    with phases.watching("train step"):
        phases.report(0, 2, "convolution")
        phases.report(2, 2, "sum")
    with phases.watching("validation step"):
        pass
    assert [(e.name, e.state) for e in events if e.state != "progress"] == [
        ("trace", "started"), ("trace", "finished"), ("compile", "started"), ("compile", "finished"),
        ("trace", "started"), ("trace", "finished"),
    ]  # fmt: skip
    assert all(e.done == e.total for e in events if e.state == "finished")


def test_planning_is_told_of_before_the_number_of_kernels_is_known():
    events = []
    phases = CompilePhases(events.append)
    with phases.watching("train step"):
        phases._running._last_event = float("-inf")
        phases.report(0, 0, "planning 3 of 9")
        phases.report(0, 2, "convolution")
    assert [(e.name, e.total, e.now) for e in events if e.state == "progress"] == [
        ("trace", 1, "train step"), ("trace", 1, "planning 3 of 9"), ("trace", 1, None), ("compile", 2, "convolution"),
    ]  # fmt: skip


def test_the_stopwatch_leaves_out_what_is_apart():
    clock = Clock()
    watch = Stopwatch(clock)
    with watch.running():
        clock.now += 1
        watch.count(32)
        with watch.paused():
            clock.now += 50
            with watch.paused():
                clock.now += 50
            watch.count(1000)  # a validation batch
        clock.now += 1
        watch.count(32)
    clock.now += 100
    with watch.running():
        clock.now += 2
        watch.count(64)
        reading = watch.take(data_wait=1.0)
        assert watch.take(data_wait=1.0) is None
    assert reading.samples_per_second == pytest.approx(32)
    assert reading.step_ms == pytest.approx(4e3 / 3)
    assert reading.data_wait == pytest.approx(0.25)
