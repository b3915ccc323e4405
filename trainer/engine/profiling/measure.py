"""`engine.profile`: runs a step several times with time stamps, and combines them into a profile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import targets
from trainer.engine.collection import collection_held
from trainer.engine.graph.errors import user_line
from trainer.engine.profiling.modules import modules_of
from trainer.engine.profiling.report import Profile
from trainer.engine.profiling.rows import Row
from trainer.engine.profiling.timeline import Span, Timeline, span_of
from trainer.engine.profiling.workload import extents_of, load_of
from trainer.engine.targets.cpu.barriers import barriers
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.lowering.launch import Launch
from trainer.engine.targets.cpu.peaks import Peaks, peaks
from trainer.engine.targets.cpu.recording import Clock, ProgramRun


def profile(step: Callable[..., Any], *args: Any, steps: int = 5, warm_up: int = 2, **kwargs: Any) -> Profile:
    """Measures the time of each launch of `step(*args, **kwargs)`: the median over `steps` calls.

    The step is a traced function, or any other that evaluates tensors. It runs `warm_up` times (to compile), then
    `steps` times, and updates states each time. Time stamps cost about 0.1 microseconds per launch and change no bits.
    Lazy values that are not read are not evaluated, so read a value in a step that isn't traced.

    Args:
        step: the profiled function, on the current device, which must be `cpu`.
        steps: number of measured calls.
        warm_up: number of calls before the first measured one.

    Raises:
        TrainerError: the device is not `cpu`, the step ran no program, or its calls ran different programs.
    """
    device = targets.current()
    if not isinstance(device, CpuDevice):
        raise _refused("only compiled programs can be profiled", f"device {device.name!r}", "device 'cpu'")
    if steps < 1 or warm_up < 0:
        raise _refused(
            "wrong number of steps",
            f"steps={steps}, warm_up={warm_up}",
            "steps of at least 1, warm_up of at least 0",
        )
    for _ in range(warm_up):
        step(*args, **kwargs)
    limits = peaks(device.pool)
    # a garbage collection in one of few steps would be counted as the step's time
    with collection_held(), device.recorded() as recording:
        calls = []
        for _ in range(steps):
            before, begun = len(recording.runs), time.perf_counter()
            step(*args, **kwargs)
            calls.append(Call(begun, time.perf_counter(), before, len(recording.runs)))
    return put_together(recording.runs, recording.clock(), calls, limits, device.pool.threads)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the step, from `begun` to `finished` seconds; its runs are [first, end) of the recorded ones."""

    begun: float
    finished: float
    first: int
    end: int


def put_together(
    runs: Sequence[ProgramRun[Program]], clock: Clock, calls: Sequence[Call], limits: Peaks, threads: int
) -> Profile:
    """Combines `calls`, each with its part of `runs`, into a profile."""
    waits: dict[Program, tuple[bool, ...]] = {}
    for run in runs:
        if run.program not in waits:
            waits[run.program] = tuple(barriers(run.program.launches, run.program.memory.offsets))
    timelines = tuple(
        Timeline(
            call.begun,
            call.finished,
            tuple(span_of(run, waits[run.program], clock) for run in runs[call.first : call.end]),
        )
        for call in calls
    )
    programs = [[run.program for run in runs[call.first : call.end]] for call in calls]
    if any(found != programs[0] for found in programs):
        raise _refused(
            "the step did not run the same programs in each call", f"{[len(p) for p in programs]} runs", "equal calls"
        )
    if not programs[0]:
        raise _refused("the step ran no compiled program", "nothing evaluated", "a traced step, or one that reads")
    rows: list[Row] = []
    for place, program in enumerate(programs[0]):
        rows += _rows(program.launches, [timeline.spans[place] for timeline in timelines], limits)
    seconds = statistics.median(call.finished - call.begun for call in calls)
    inside = statistics.median(sum(span.finished - span.begun for span in timeline.spans) for timeline in timelines)
    waking = statistics.median(sum(span.waking for span in timeline.spans) for timeline in timelines)
    return Profile(len(calls), threads, seconds, inside, waking, tuple(rows), limits, timelines)


def _rows(launches: Sequence[Launch], spans: Sequence[Span], limits: Peaks) -> list[Row]:
    """Returns a row for each launch, combined from the program's spans in all calls."""
    if not launches:
        return []
    busy = np.median([span.busy.mean(axis=0) for span in spans], axis=0)
    slowest = np.median([span.busy.max(axis=0) for span in spans], axis=0)
    waiting = np.median([span.waiting() for span in spans], axis=0)
    rows = []
    for index, (launch, module) in enumerate(zip(launches, modules_of(launches), strict=True)):
        load = load_of(launch.work)
        kernel, shape = _named(launch)
        arithmetic = (load.operations or 0) / limits.operations(load.dtype)
        rows.append(Row(
            kernel, shape, module, 1, float(busy[index]), float(waiting[index]),
            float(slowest[index] / busy[index] - 1) if busy[index] > 0 else 0.0,
            load.nbytes, load.operations, max(arithmetic, load.nbytes / limits.bandwidth),
        ))  # fmt: skip
    return rows


def _named(launch: Launch) -> tuple[str, str]:
    """Splits a launch's label into kernel and shape; a loop's shape is its iteration space."""
    name, _, rest = launch.label.partition(" ")
    if rest and (rest[0].isdigit() or rest[0] in "(["):
        return name, rest
    return launch.label, "x".join(map(str, extents_of(launch.work)))


def _refused(problem: str, found: str, expected: str) -> TrainerError:
    return TrainerError(f"profile: {problem}", where=user_line(), found=found, expected=expected)
