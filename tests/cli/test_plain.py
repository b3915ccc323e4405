"""Plain lines: what is printed at once, what is thinned out, and how values are written."""

from __future__ import annotations

import math
from itertools import pairwise

from trainer.cli.plain import SECONDS_BETWEEN, PlainLines, key_values
from trainer.rundir import (
    CheckpointEvent,
    EndEvent,
    Event,
    LogEvent,
    MetricEvent,
    PhaseEvent,
    Record,
    RunEvent,
    SystemEvent,
    UnknownEvent,
    WarningEvent,
)


def printed(*timed: tuple[float, Event]) -> list[str]:
    plain = PlainLines()
    return [line for moment, event in timed for line in plain.lines(Record(event, 1e9 + moment, moment, 1))]


def train(step: int) -> MetricEvent:
    return MetricEvent(step, step / 100, "train", {"loss": 1.5})


def test_there_is_at_most_one_line_a_second() -> None:
    lines = printed(*((step / 100, train(step)) for step in range(450)), (4.6, PhaseEvent("train", "finished")))
    steps = [line.split()[1] for line in lines]
    assert steps == ["step=0", f"step={int(100 * SECONDS_BETWEEN)}", f"step={int(200 * SECONDS_BETWEEN)}"]
    others = [MetricEvent(1, 0.1, "valid", {"accuracy": 0.5}), SystemEvent(cpu=5.0), PhaseEvent("data", "progress")]
    plain = PlainLines()
    given = [(moment / 10, event) for moment in range(100) for event in (train(moment), *others)]
    times = [moment for moment, event in given for _ in plain.lines(Record(event, 1e9 + moment, moment, 1))]
    assert len(times) == 10 and all(later - time >= 0.99 for time, later in pairwise(times))


def test_errors_warnings_and_the_end_are_printed_at_once() -> None:
    events = [
        WarningEvent("look here"),
        WarningEvent("and here"),
        LogEvent("broken", level="error"),
        PhaseEvent("data", "failed"),
        EndEvent("failed", 1),
    ]
    assert len(printed(*((0.0, event) for event in events))) == len(events)


def test_a_phase_is_printed_once_it_has_taken_more_than_a_second() -> None:
    short = [(0.0, PhaseEvent("data", "started")), (0.9, PhaseEvent("data", "finished"))]
    assert printed(*short, (5.0, PhaseEvent("other", "started"))) == []
    running = [(0.0, PhaseEvent("compile", "started")), (0.6, PhaseEvent("compile", "progress", done=3))]
    assert printed(*running, (1.2, PhaseEvent("compile", "progress", done=4))) == [
        "time=1.2 phase=compile state=progress done=4"
    ]
    assert printed(*running, (1.2, PhaseEvent("compile", "finished"))) == ["time=1.2 phase=compile state=finished"]


def test_a_silent_phase_is_printed_when_the_clock_says_so() -> None:
    plain = PlainLines()
    assert plain.lines(Record(PhaseEvent("compile", "started"), 1e9, 0.0, 1)) == []
    assert plain.due(0.9) == [] and plain.due(1.1) == ["time=1.1 phase=compile state=started"]
    assert plain.due(9.0) == [], "once"


def test_an_evaluation_and_its_checkpoint_are_one_line_and_come_before_progress() -> None:
    lines = printed(
        (0.0, RunEvent("digits", "digits", "1", 7, "host", "cpu")),
        (0.1, train(250)),
        (0.2, MetricEvent(250, 1.0, "valid", {"accuracy": 0.5})),
        (0.3, CheckpointEvent(250, "checkpoints/step-250", reasons=("latest", "best"))),
        (1.1, SystemEvent(cpu=5.0)),
    )
    assert [line.split(maxsplit=1)[1] for line in lines[1:]] == [
        "step=250 epoch=1 valid/accuracy=0.5 checkpoint=checkpoints/step-250 reasons=latest,best"
    ]


def test_what_is_held_at_the_end_is_in_its_line() -> None:
    told = (MetricEvent(2, 0.2, "valid", {"loss": 0.1}), CheckpointEvent(2, "checkpoints/step-2"))
    line = printed((0.0, train(1)), *((0.5, event) for event in told), (0.6, EndEvent("done", 0)))[-1]
    assert line == "time=0.6 end=done exit_code=0 step=2 epoch=0.2 valid/loss=0.1 checkpoint=checkpoints/step-2"


def test_thirty_metrics_are_one_short_line_that_begins_with_the_monitored_one() -> None:
    values = {f"coco/AR{index}": 0.5 for index in range(30)} | {"loss": 0.8, "ema/coco/AP": 0.25, "coco/APl": math.nan}
    plain = PlainLines("valid/ema/coco/AP")
    told = [train(5), MetricEvent(5, 1.0, "valid", values), EndEvent("done", 0, 5, 2.0, {"test/ema/coco/AP": 0.2})]
    assert [line for event in told for line in plain.lines(Record(event, 1e9, 0.0, 1))] == [
        "time=0 step=5 epoch=0.05 train/loss=1.5",
        "time=0 end=done exit_code=0 step=5 seconds=2 valid/ema/coco/AP=0.25 test/ema/coco/AP=0.2 valid/loss=0.8 "
        "valid/coco/AR0=0.5 valid/coco/AR1=0.5 valid/coco/AR2=0.5 more_metrics=28 epoch=1",
    ]


def test_the_head_has_the_name_of_the_task_and_not_its_file() -> None:
    (line,) = printed((0.0, RunEvent("mine", "/home/me/mine/task.py:Cells", "1", 7, "host", "cpu")))
    assert " task=Cells " in line


def test_what_is_held_when_a_run_is_lost_is_printed() -> None:
    plain = PlainLines()
    for event in (train(1), MetricEvent(2, 0.2, "valid", {"loss": 0.1})):
        plain.lines(Record(event, 1e9, 0.0, 1))
    assert plain.rest() == ["time=0 step=2 epoch=0.2 valid/loss=0.1"] and plain.rest() == []


def test_a_further_attempt_has_a_clock_of_its_own() -> None:
    plain = PlainLines()
    assert len(plain.lines(Record(train(1), 1e9, 50.0, 1))) == 1
    assert plain.lines(Record(train(2), 1e9 + 60, 0.5, 2)) == ["time=0.5 step=2 epoch=0.02 train/loss=1.5"]


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
