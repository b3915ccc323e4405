"""tuning: finds faster kernels than the cost model's defaults, in the background and without changing any bit of
results.

    with engine.tuning("background", on_record=print) as tuner:
        for batch in data:
            step(batch)          # a traced step; tuning happens between its runs
        tuner.done               # whether every kernel of every traced step so far is decided

A traced program adds its kernels to the pending decisions. A helper process compiles and checks their candidates and
measures them once; the best are then measured in real steps against the current kernel, and the fastest is used. All
candidates give the same bits, so results do not depend on the decision.
"""

from __future__ import annotations

import dataclasses
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import targets
from trainer.engine.autotune.cache import Entry, TuningCache, cache_path, decision_key
from trainer.engine.autotune.contest import Contest
from trainer.engine.autotune.process import MEMORY_BYTES, Helper
from trainer.engine.autotune.processor_budget import ProcessorBudget, idle_seconds
from trainer.engine.autotune.queue import Decision, Queue
from trainer.engine.autotune.record import MODES, Mode, OnProgress, OnRecord, OnStepTime, Source, StepTime, TuneRecord
from trainer.engine.targets.cpu import choices
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.recording import ProgramRun

DEFAULT_SHARE = 0.05
"""Default of the helper's maximum processor time, as a share of wall time. Measured on two busy cores: a helper of idle
priority that never pauses slows steps by less than their noise.
"""

DEADLINE_SECONDS = 10.0
NEGLIGIBLE = 0.001
"""Kernels that take less than this share of a step keep the default, because no choice would matter."""

RUNS_ALONE = 8
"""Number of unmeasured single-threaded runs after which one run uses all threads, so that tuning ends."""

PATIENCE = 4
"""Number of consecutive candidates without improvement, in the cost model's order, after which the rest is skipped."""

START_SECONDS = 0.4
"""Processor seconds to start a helper."""

WARM_RUNS = 2
"""Runs of a program before its kernels are timed: the first one touches new memory."""

UPFRONT_POLL_SECONDS = 0.05
LOOK_SECONDS = 0.02
"""Seconds between checks for the helper's answers: a check at every step of a millisecond would cost time."""

AT_ONCE = 16
"""Number of kernels measured together in the mode "upfront"; each decided group is written to disk at once."""


def tuning(
    mode: Mode = "background", *, share: float = DEFAULT_SHARE, on_record: OnRecord | None = None,
    on_progress: OnProgress | None = None, on_step_time: OnStepTime | None = None,
    device: str | targets.Device | None = None,
) -> Tuner:  # fmt: skip
    """Tunes the kernels of traced steps that are compiled until the tuner is closed.

    Results have the same bits in every mode.

    Args:
        mode: "background": candidates are tried by a helper process of lowest priority once steps run, and measured in
            the steps themselves. "upfront": the first run of each traced step first decides all its kernels. "cached":
            decisions are read from disk and nothing is measured. "off": the cost model decides, nothing is read.
        share: processor time that the helper may take in "background", as a share of wall time; it may also use half of
            the idle time.
        on_record: called with a `TuneRecord` for each decision, in the thread that runs the step.
        on_progress: called with (finished stages, total stages, current kernels); a decision has two stages. An
            exception that it raises ends a run that is tuning upfront; all states keep their values.
        on_step_time: called with a `StepTime` for each traced step: once it has warmed up, and again when all its
            kernels are decided. Two of its runs are measured for this.
        device: the device whose programs are tuned (default: the current one).

    Raises:
        TrainerError: unknown mode, a share that is not above 0 and at most 1, or the device is being tuned already.
    """
    if mode not in MODES:
        raise TrainerError("unknown tuning mode", found=repr(mode), expected=", ".join(MODES))
    if not 0 < share <= 1:
        raise TrainerError(
            "the tuner's share of wall time is out of range", found=repr(share), expected="0 < share <= 1"
        )
    found = targets.current() if device is None else targets.get(device)
    return Tuner(found, mode, share=share, on_record=on_record, on_progress=on_progress, on_step_time=on_step_time)


class Tuner:
    """Decides the kernels of a device's traced programs; see `tuning`. Its decisions remain in place after it is
    closed.

    `records` are the decisions so far. A device without templates (`reference`) has no decisions.
    """

    def __init__(
        self, device: Any, mode: Mode, *, share: float = DEFAULT_SHARE, on_record: OnRecord | None = None,
        on_progress: OnProgress | None = None, on_step_time: OnStepTime | None = None,
        candidates: Callable[[Any], Sequence[Any]] = choices.candidates, memory: int = MEMORY_BYTES,
        deadline: float = DEADLINE_SECONDS, negligible: float | None = None,
    ) -> None:  # fmt: skip
        self.mode, self.records = mode, list[TuneRecord]()
        self._device: CpuDevice = device
        self._share, self._on_record, self._on_progress = share, on_record, on_progress
        self._on_step_time = on_step_time
        self._candidates = candidates
        self._negligible = NEGLIGIBLE if negligible is None else negligible
        self._decided: dict[Any, Any] = {}
        self._open: dict[Any, Decision] = {}
        self._programs: weakref.WeakKeyDictionary[Program, dict[Any, np.ndarray]] = weakref.WeakKeyDictionary()
        self._contests: dict[Any, Decision] = {}
        self._missed: weakref.WeakKeyDictionary[Program, int] = weakref.WeakKeyDictionary()
        self._new: weakref.WeakSet[Program] = weakref.WeakSet()
        self._untimed: weakref.WeakKeyDictionary[Program, int] = weakref.WeakKeyDictionary()
        self._numbers: weakref.WeakKeyDictionary[Program, int] = weakref.WeakKeyDictionary()
        self._reported = (0, 0)
        self._unsaved: list[Entry] = []
        self._next_look = 0.0
        self._budget: ProcessorBudget | None = None
        self._attached = mode != "off" and hasattr(device, "tuner")
        if not self._attached:
            return
        if device.tuner is not None:
            raise TrainerError("this device is being tuned already", hint="Close its tuner first.")
        threads = device.pool.threads
        idle, count = (True, 1) if mode == "background" else (False, threads)
        helpers = [Helper(idle=idle, memory=memory) for _ in range(count)]
        patience = PATIENCE if mode == "background" else None
        self._queue = Queue(helpers, device.kernels.target, threads, deadline, patience)
        self._cache = TuningCache(cache_path())
        device.tuner = self

    @property
    def done(self) -> bool:
        """Whether every kernel of every traced step so far is decided."""
        return not self._open

    def close(self) -> None:
        """Stops deciding: the best parameters so far stay, and the helper processes end."""
        if not self._attached:
            return
        with self._device.pool.lock:
            self._attached, self._device.tuner = False, None
            self._save()
            self._queue.close()
            for spec, decision in self._open.items():
                home = None if decision.home is None else decision.home()
                if home is not None and decision.contest is not None:
                    self._install(home, spec, decision.contest.best)

    def __enter__(self) -> Tuner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Interface to the device

    def choose(self, spec: Any, otherwise: Callable[[Any], Any]) -> Any:
        """Returns the initial parameters: decided already, or cached and still a candidate, or `otherwise(spec)`."""
        if spec in self._decided:
            return self._decided[spec]
        entry = self._cache.get(self._key(spec)) if self._cache.entries() else None
        for parameters in [] if entry is None else self._candidates(spec):
            assert entry is not None
            if dataclasses.asdict(parameters) == entry.parameters:
                self._decided[spec] = parameters
                self._tell(entry, "cache", 0.0)
                return parameters
        return otherwise(spec)

    def adopt(self, program: Program) -> None:
        """Adds the kernels of a program that was just compiled."""
        places: dict[Any, list[int]] = {}
        for index, launch in enumerate(program.launches):
            if launch.tunable is None:
                continue
            spec, parameters = launch.tunable.spec, launch.tunable.parameters
            places.setdefault(spec, []).append(index)
            if self.mode == "cached" or spec in self._decided or spec in self._open:
                continue
            self._open[spec] = Decision(launch.label, launch.tunable, find=partial(self._others, spec, parameters))
        self._programs[program] = {spec: np.array(indices) for spec, indices in places.items()}
        if not self._open.keys().isdisjoint(places):
            self._new.add(program)
        self._numbers[program] = len(self._numbers)
        self._time(program, WARM_RUNS)

    def _others(self, spec: Any, parameters: Any) -> list[Any]:
        return [each for each in self._candidates(spec) if each != parameters]

    def counts(self, program: Program) -> bool:
        """Whether the next run of `program` must be measured: it is new, untimed, or has a contest in progress."""
        return program in self._new or program in self._untimed or self._has_contest(program)

    def wants_all_threads(self, program: Program) -> bool:
        """Whether the next run of `program`, which must be measured, must use all threads, because many single-threaded
        runs decided nothing.
        """
        return self._missed.get(program, 0) >= RUNS_ALONE

    def before(self, program: Program) -> None:
        """Called before a run of a program; in the mode "upfront", decides the program's kernels."""
        if self.mode == "upfront" and not self._open.keys().isdisjoint(self._specs(program)):
            self._tune_upfront(program)

    def after(self, run: ProgramRun[Program]) -> None:
        """Called after a run of a program; prepares the next run, within a few milliseconds."""
        if not self._open and not self._unsaved and not len(run.stamps):
            return
        is_first = self._budget is None
        if len(run.stamps):
            self._learn(run)
        now = time.monotonic()
        if is_first or self.mode != "background" or now < self._next_look:
            return  # the user waits for the first step: decisions are stored and helpers started after a later one
        self._next_look = now + LOOK_SECONDS
        self._save()
        self._take_up(self._queue.poll(self._may_go_on))

    # Trying

    def _may_go_on(self) -> bool:
        """Whether the budget so far covers the next candidate: the mean so far, at first the start of the helper."""
        assert self._budget is not None
        spent, tried = self._queue.processor_seconds, self._queue.tried
        following = spent / tried if tried else START_SECONDS
        return spent + following <= self._budget.seconds()

    def _tune_upfront(self, program: Program) -> None:
        """Decides all kernels of a program in extra runs, and restores the states afterwards."""
        kept = [(memory, memory.copy()) for memory in _written_memory(program)]
        try:
            self._run_for(program)
            while not self._open.keys().isdisjoint(self._specs(program)):
                self._take_up(self._queue.poll(lambda: len(self._contests) < AT_ONCE, UPFRONT_POLL_SECONDS))
                while not self._queue.is_trying and self._has_contest(program):
                    self._run_for(program)
        finally:
            for memory, values in kept:
                memory[:] = values

    def _has_contest(self, program: Program) -> bool:
        return any(self._is_at(*item, program) for item in self._contests.items())

    def _run_for(self, program: Program) -> None:
        self._learn(program.walk(stamped=True, together=True))

    def _specs(self, program: Program) -> list[Any]:
        return list(self._programs.get(program, ()))

    def _is_at(self, spec: Any, decision: Decision, program: Program) -> bool:
        """Whether a contest runs in `program`, or can continue there because its own program no longer exists."""
        home = None if decision.home is None else decision.home()
        return home is program or (home is None and spec in self._programs.get(program, ()))

    def _learn(self, run: ProgramRun[Program]) -> None:
        """Evaluates the time of each kernel in the run that has just ended.

        A single-threaded run is ignored: it does not predict runs on all threads.
        """
        program, seconds = run.program, run.launch_work()
        if len(run.stamps) < self._device.pool.threads and not program.single:
            self._missed[program] = self._missed.get(program, 0) + 1
            return
        self._missed[program] = 0
        places = self._programs.get(program)
        if places is None:
            return  # compiled before the tuner was created
        if program in self._new:
            self._new.discard(program)
            self._budget = self._budget or ProcessorBudget(self._share, idle_seconds)
            for spec in places:
                if spec in self._open and self._open[spec].home is None:
                    spent = float(seconds[places[spec]].sum())
                    self._settle(spec, self._open[spec], program, spent, spent / run.seconds)
        if program in self._untimed:
            self._tell_time(run, seconds, places)
        for spec, decision in list(self._contests.items()):
            if not self._is_at(spec, decision, program):
                continue
            assert decision.contest is not None
            if decision.home is None or decision.home() is None:
                decision.home = weakref.ref(program)
                decision.contest = Contest(decision.default.parameters, decision.contest.left)
            else:
                decision.contest.took(float(seconds[places[spec]].sum()))
            self._install(program, spec, decision.contest.current)
            if decision.contest.is_decided:
                self._decide(spec, decision)
        self._progress()

    def _settle(self, spec: Any, decision: Decision, program: Program, seconds: float, cost: float) -> None:
        """Measures a decision in `program` from now on; kernels that take a negligible share are decided at once."""
        decision.home, decision.cost = weakref.ref(program), cost
        if cost < self._negligible:
            decision.skipped["negligible"] += 1
            decision.contest = Contest(decision.default.parameters, [])
            decision.contest.took(seconds)
            self._decide(spec, decision)
        else:
            self._queue.add(decision)

    def _take_up(self, ready: Sequence[Decision]) -> None:
        """Begins the contests of decisions whose candidates the helper has tried."""
        for decision in ready:
            finalists = decision.finalists()
            for parameters, answer in finalists:
                source = dataclasses.replace(decision.default, parameters=parameters).source
                self._device.kernels.add(source, answer.name, answer.code)
            decision.contest = Contest(decision.default.parameters, [parameters for parameters, _ in finalists])
            self._contests[decision.default.spec] = decision
        if ready:
            self._progress()

    def _install(self, program: Program, spec: Any, parameters: Any) -> None:
        """Makes the next run of `program` compute `spec` with these parameters."""
        for index in self._programs[program].get(spec, ()):
            launch = program.launches[index]
            if launch.tunable is not None and launch.tunable.parameters != parameters:
                launch = launch.with_parameters(parameters)
                program.swap(int(index), launch, self._device.kernels.of([launch])[0])

    def _decide(self, spec: Any, decision: Decision) -> None:
        """Ends a contest: the winner is used everywhere, stored on disk, and reported."""
        contest = decision.contest
        assert contest is not None
        self._decided[spec] = contest.best
        del self._open[spec]
        self._contests.pop(spec, None)
        for program, specs in list(self._programs.items()):
            self._install(program, spec, contest.best)
            if spec in specs and self._open.keys().isdisjoint(specs):
                self._time(program, 1)
        operation, _, shape = decision.label.partition(" ")
        entry = Entry(
            self._key(spec), operation, shape, dataclasses.asdict(contest.best), round(1e3 * contest.default_time, 4),
            round(1e3 * contest.gained_time, 4), decision.tried, dict(decision.skipped),
        )  # fmt: skip
        self._unsaved.append(entry)
        if self.mode != "background":
            self._save()
        self._tell(entry, "measured", decision.seconds)

    def _save(self) -> None:
        """Writes new decisions to disk."""
        if self._unsaved:
            self._cache.add(*self._unsaved)
            self._unsaved.clear()

    # Reporting

    def _tell(self, entry: Entry, source: Source, seconds: float) -> None:
        values = {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)}
        del values["parameters"]
        record = TuneRecord(**values, seconds=round(seconds, 4), source=source)
        self.records.append(record)
        if self._on_record is not None:
            self._on_record(record)

    def _time(self, program: Program, after_runs: int) -> None:
        """Requests a report of the times of a program's kernels, measured in one of its next runs."""
        if self._on_step_time is not None:
            self._untimed[program] = after_runs

    def _tell_time(self, run: ProgramRun[Program], seconds: np.ndarray, places: Mapping[Any, np.ndarray]) -> None:
        program = run.program
        self._untimed[program] -= 1
        if self._untimed[program] >= 0:
            return  # this run touched its memory for the first time, or still used other parameters
        del self._untimed[program]
        assert self._on_step_time is not None
        tuned = np.zeros(len(seconds), bool)
        kernels: dict[str, float] = {}
        for spec, indices in places.items():
            if spec not in self._decided:
                continue
            tuned[indices] = True
            kernels[self._key(spec)] = round(1e3 * float(seconds[indices].sum()), 4)
        others: dict[str, float] = {}
        for index in np.flatnonzero(~tuned).tolist():
            label = program.launches[index].label
            others[label] = others.get(label, 0.0) + 1e3 * float(seconds[index])
        felt = {label: round(ms, 4) for label, ms in others.items() if ms >= 1e3 * run.seconds * self._negligible}
        updates = bool(_written_memory(program))
        self._on_step_time(StepTime(self._numbers[program], updates, round(1e3 * run.seconds, 4), kernels, felt))

    def _progress(self) -> None:
        """Reports the progress if it has changed: each kernel is tried in the helper, then measured in steps."""
        measured = sum(decision.contest is not None for decision in self._open.values())
        decided = sum(record.source == "measured" for record in self.records)
        state = measured + 2 * decided, 2 * (decided + len(self._open))
        if self._on_progress is not None and state != self._reported:
            self._reported = state
            self._on_progress(*state, self._queue.now)

    def _key(self, spec: Any) -> str:
        return decision_key(spec, self._device.kernels.target, self._device.pool.threads)


def _written_memory(program: Program) -> list[np.ndarray]:
    """The memory of the states that a program updates."""
    storages = {buffer.storage: None for launch in program.launches for buffer in launch.writes if buffer.storage}
    return [storage.flat() for storage in storages]
