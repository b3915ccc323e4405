"""Plain lines: what is printed at once, what is thinned out, and how values are written."""

from __future__ import annotations

import math

from trainer.cli.plain import SECONDS_BETWEEN, PlainLines, key_values
from trainer.rundir import (
    CheckpointEvent,
    EndEvent,
    Event,
    MetricEvent,
    PhaseEvent,
    Record,
    SystemEvent,
    UnknownEvent,
    WarningEvent,
)


def printed(*timed: tuple[float, Event]) -> list[str]:
    plain = PlainLines()
    return [line for moment, event in timed for line in plain.lines(Record(event, 1e9 + moment, moment, 1))]


def train(step: int) -> MetricEvent:
    return MetricEvent(step, step / 100, "train", {"loss": 1.5})


def test_training_metrics_come_every_few_seconds_and_the_last_before_a_change() -> None:
    lines = printed(*((step / 100, train(step)) for step in range(450)), (4.6, PhaseEvent("train", "finished")))
    steps = [line.split()[1] for line in lines[:-1]]
    assert steps == ["step=0", f"step={int(100 * SECONDS_BETWEEN)}", f"step={int(200 * SECONDS_BETWEEN)}", "step=449"]
    assert lines[-1] == "time=4.6 phase=train state=finished"


def test_phases_validation_checkpoints_warnings_and_the_end_are_never_thinned() -> None:
    events = [
        PhaseEvent("data", "started"),
        PhaseEvent("data", "finished"),
        MetricEvent(1, 0.1, "valid", {"accuracy": 0.5}),
        MetricEvent(1, 0.1, "valid", {"accuracy": 0.6}),
        MetricEvent(2, 0.2, "train", {"loss": 0.1}, final=True),
        CheckpointEvent(2, "checkpoints/step-2", reasons=("latest", "best")),
        WarningEvent("look here"),
        WarningEvent("and here"),
        EndEvent("done", 0),
    ]
    assert len(printed(*((0.0, event) for event in events))) == len(events)


def test_progress_is_thinned_for_each_phase_by_itself() -> None:
    lines = printed(
        (0.0, PhaseEvent("compile", "progress", done=1)),
        (0.1, PhaseEvent("autotune", "progress", done=1)),
        (0.2, PhaseEvent("compile", "progress", done=2)),
        (0.3, SystemEvent(cpu=50.0)),
    )
    assert [line.split()[1] for line in lines] == ["phase=compile", "phase=autotune", "cpu=50"]


def test_the_first_progress_is_printed_at_once() -> None:
    assert printed((0.2, PhaseEvent("compile", "progress", done=1, total=61, now="conv"))) == [
        "time=0.2 phase=compile state=progress done=1 total=61 now=conv"
    ]


def test_values_are_written_so_that_a_shell_or_a_script_can_take_them_apart() -> None:
    fields = {
        "a": 0.123456789,
        "b": "two words",
        "c": None,
        "d": 'say "x"',
        "e": math.nan,
        "f": "",
        "g": "1\n  2",
        "h": 3,
    }
    assert key_values(fields) == 'a=0.123457 b="two words" d="say \\"x\\"" e=nan g="1; 2" h=3'


def test_kinds_of_a_later_version_are_passed_over() -> None:
    assert printed((0.0, UnknownEvent("hologram", {"x": 1}))) == []
