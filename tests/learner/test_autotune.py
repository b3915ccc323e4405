"""Runs under every mode of tuning: decisions are events, and the weights have the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.configs import RunConfig
from trainer.engine.autotune.cache import TuningCache, cache_path
from trainer.learner import Learner
from trainer.rundir import AutotuneEvent, Event, PhaseEvent, StepEvent

MODES = ("off", "background", "upfront", "cached")


@pytest.fixture
def train(blobs: Any, config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Trains on compiled kernels with a cache of the test's own; gives the learner and its events. However small and
    quick to compute they are, all kernels are tried.
    """
    monkeypatch.setattr("trainer.engine.autotune.tuner.NEGLIGIBLE", 0.0)
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))

    def run(**tuning: Any) -> tuple[Learner, list[Event]]:
        events: list[Event] = []
        settings: RunConfig = config(device="cpu", train={"epochs": 2}, autotune=tuning)
        learner = Learner(blobs, settings, sink=events.append)
        learner.run().check()
        return learner, events

    return run


def test_the_bits_are_the_same_in_every_mode(train: Callable[..., Any]) -> None:
    weights = {mode: train(mode=mode, share=1.0)[0].task.net.state_dict() for mode in MODES}
    for mode in MODES[1:]:
        for name, values in weights["off"].items():
            np.testing.assert_array_equal(weights[mode][name], values, err_msg=f"{mode}: {name}")


def test_each_decision_is_an_event_and_is_kept_for_the_next_run(train: Callable[..., Any]) -> None:
    _, events = train(mode="upfront")
    tuned = [event for event in events if isinstance(event, AutotuneEvent)]
    assert tuned and {event.source for event in tuned} == {"measured"}
    assert {event.operation for event in tuned} >= {"matmul"} and len({event.key for event in tuned}) == len(tuned)
    phases = [event for event in events if isinstance(event, PhaseEvent) and event.name == "autotune"]
    assert [phases[0].state, phases[-1].state] == ["started", "finished"] and phases[-1].done == phases[-1].total
    order = [event.name for event in events if isinstance(event, PhaseEvent) and event.state == "started"]
    assert order.index("trace") < order.index("autotune"), (
        "what the process has compiled before has no phase of its own"
    )

    _, again = train(mode="cached")
    known = [event for event in again if isinstance(event, AutotuneEvent)]
    assert {event.key for event in known} == {event.key for event in tuned}
    assert {event.source for event in known} == {"cache"}
    assert not any(isinstance(event, PhaseEvent) and event.name == "autotune" for event in again)


def test_what_each_kernel_takes_of_a_step_is_an_event_measured_now_or_not(train: Callable[..., Any]) -> None:
    for mode in ("upfront", "cached"):
        _, events = train(mode=mode)
        steps = [event for event in events if isinstance(event, StepEvent) and event.updates]
        tuned = {event.key for event in events if isinstance(event, AutotuneEvent)}
        assert steps and set(steps[-1].kernels) <= tuned and steps[-1].kernels
        assert all(ms <= steps[-1].ms for ms in steps[-1].kernels.values())
        programs = {event.program: event.updates for event in events if isinstance(event, StepEvent)}
        assert sorted(programs.values()) == [False, True], "the validation step adds sums up, and trains nothing"


def test_off_tells_of_nothing_and_keeps_nothing(train: Callable[..., Any]) -> None:
    _, events = train(mode="off")
    assert not any(isinstance(event, AutotuneEvent) for event in events)
    assert TuningCache(cache_path()).entries() == []


def test_tuning_alone_decides_the_kernels_of_both_steps_and_trains_nothing(
    blobs: Any, config: Any, train: Callable[..., Any]
) -> None:
    events: list[Event] = []
    learner = Learner(blobs, config(device="cpu"), sink=events.append)
    learner.autotune()
    measured = [event for event in events if isinstance(event, AutotuneEvent)]
    _, after = train(mode="cached")
    assert {event.key for event in measured} == {event.key for event in after if isinstance(event, AutotuneEvent)}
    assert learner.progress.step == 0
