"""Kills runs by SIGKILL in chosen phases, resumes them, and compares each with a run that was never killed.

A run starts as on a cluster, with `trainer run … --resume auto`, is killed at an instant that a seed decides, and
starts again the same way until it ends. Its events show afterwards in which phase it was killed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from harness import checkout_environment

from trainer.learner.checkpoints import first_difference, pointed, read_checkpoint, steps_in
from trainer.rundir import (
    AutotuneEvent,
    CheckpointEvent,
    EndEvent,
    Event,
    EventTail,
    MetricEvent,
    PhaseEvent,
    Record,
    ReportEvent,
    RunPaths,
    read_events,
)

IN_PROCESS = "--in-process"
WALL_CLOCK = ("samples_per_second",)

PATIENCE_SECONDS = 120.0
SETTINGS = (
    "data.batch_size=48", "data.reader.fractions={valid: 0.15, test: 0.75}",  # an epoch is 11 steps
    "train.steps=42", "train.epochs=null", "train.accumulate=2", "train.ema={decay: 0.99}", "train.log_every_steps=3",
    "schedule={name: plateau, metric: valid/loss, patience: 1, gamma: 0.5}",
    "early_stopping={metric: valid/loss, mode: min, patience: 20, warmup: 1}",
    "metrics.train=[accuracy]", "metrics.valid=[accuracy, f1, average_precision]",
    "validate.every_steps=9", "validate.batches=3",
    "checkpoint={every_steps: 7, keep_last: 2, keep_every: 4, best: {metric: valid/loss, mode: min, keep: 2}}",
    "autotune={mode: background, share: 0.5}", "threads=1",
)  # fmt: skip
PRECISIONS = ("bfloat16", "float16")
WORKERS = (("data.workers=0",), ("data.workers=2", "data.worker_kind=process"))

Sees = Callable[[Event], bool]


def phase(name: str, state: str = "started") -> Sees:
    return lambda event: isinstance(event, PhaseEvent) and (event.name, event.state) == (name, state)


def metrics_of(*splits: str) -> Sees:
    return lambda event: isinstance(event, MetricEvent) and event.split in splits


@dataclass(frozen=True)
class Aim:
    """When to kill in a phase: within `seconds` after one of the first `most` events that `sees` accepts."""

    sees: Sees | None
    seconds: float
    most: int = 1
    needs_cold_cache: bool = False


AIMS = {
    "start-up": Aim(None, 0.25),
    "load": Aim(phase("load"), 0.4),
    "data": Aim(phase("data"), 0.1),
    "compile": Aim(phase("compile"), 0.5, most=3, needs_cold_cache=True),
    "autotune": Aim(lambda event: isinstance(event, CheckpointEvent), 0.01, most=6, needs_cold_cache=True),
    "train": Aim(lambda event: isinstance(event, CheckpointEvent), 0.01, most=6),
    "validate": Aim(phase("validate"), 0.02, most=12),
    "checkpoint": Aim(phase("checkpoint"), 0.02, most=10),
    "evaluate": Aim(phase("evaluate"), 0.15),
    "end": Aim(metrics_of("test"), 0.01),
}
"""Aims by phase, in the order of the phases. With a cold cache, the tuner works between the checkpoints of training."""


@dataclass(frozen=True)
class Workload:
    """A command to kill: arguments of `trainer run`, and settings that vary between runs without changing a bit.

    If `aims` is None, kills come at any instant of the run.
    """

    words: tuple[str, ...]
    precisions: tuple[str, ...]
    workers: tuple[tuple[str, ...], ...]
    aims: Mapping[str, Aim] | None


DIGITS = Workload(("digits", *SETTINGS), PRECISIONS, WORKERS, AIMS)


@dataclass
class Killed:
    """The result of a killed run: the phases of the kills, and a difference from the run without kills ("": none)."""

    folder: Path
    phases: list[str] = field(default_factory=list)
    difference: str = ""


class Kills:
    """Kills runs, with their folders and caches in `folder`; `seed` decides the instants."""

    def __init__(self, folder: Path, seed: int = 0, workload: Workload = DIGITS) -> None:
        self.folder, self._random, self._workload = folder, random.Random(seed), workload
        self._whole: dict[str, Path] = {}
        self._numbers = itertools.count(1)
        self._aims = workload.aims or {"any": Aim(None, self._seconds())}
        self._names = itertools.cycle(self._aims)

    def _seconds(self) -> float:
        """Returns the seconds of a run that is not killed, with its kernels in the cache."""
        started = time.monotonic()
        for name in ("first", "second"):
            started = time.monotonic()
            command = self._command(self.folder / name, self._workload.precisions[0], 0, in_process=True)
            subprocess.run(
                command, env=cache_environment(self.folder / "cache"), check=True, stdout=subprocess.DEVNULL
            )  # fmt: skip
        return time.monotonic() - started

    def _command(self, run: Path, precision: str, number: int, *, in_process: bool) -> list[str]:
        workers = self._workload.workers[number % len(self._workload.workers)]
        words = [*self._workload.words, *workers, f"train.precision={precision}", "--run-dir", str(run)]
        form = IN_PROCESS if in_process else "--plain"
        return [sys.executable, "-P", "-m", "trainer.cli", "run", *words, "--resume", "auto", form]

    def run(self) -> Killed:
        """Kills one more run one to three times; a run that ends before its first kill is not counted."""
        aim = next(self._names)
        while not (killed := self._run(aim)).phases and not killed.difference:
            pass
        return killed

    def _run(self, first_aim: str) -> Killed:
        number, chance = next(self._numbers), self._random
        precision = self._workload.precisions[number % len(self._workload.precisions)]
        whole = self.whole(precision)
        killed = Killed(run := self.folder / f"killed-{number}")
        cache = self.folder / "cache"
        for name in [first_aim, *chance.choices(list(self._aims), k=chance.choice((0, 0, 0, 1, 2)))]:
            aim = self._aims[name]
            if aim.needs_cold_cache:
                cache = self.folder / f"cache-{number}"
            command = self._command(run, precision, number // 2, in_process=chance.random() < 0.5)
            if (found := self._kill(command, RunPaths(run), cache, aim)) is None:
                break
            killed.phases.append(found)
        command = self._command(run, precision, number // 2, in_process=True)
        done = subprocess.run(command, env=cache_environment(cache), capture_output=True, text=True, check=False)
        if done.returncode:
            killed.difference = f"the resumed run ended with {done.returncode}: {done.stderr[-2000:]}"
        else:
            killed.difference = difference(RunPaths(whole), RunPaths(run))
        return killed

    def whole(self, precision: str) -> Path:
        """Returns the run that is never killed, one per precision: workers and caches must not change a bit."""
        if precision not in self._whole:
            run = self.folder / f"whole-{precision}"
            command = self._command(run, precision, 0, in_process=True)
            subprocess.run(command, env=cache_environment(self.folder / "cache"), check=True, stdout=subprocess.DEVNULL)
            self._whole[precision] = run
        return self._whole[precision]

    def _kill(self, command: list[str], paths: RunPaths, cache: Path, aim: Aim) -> str | None:
        """Starts a run and kills it; returns the phase that it was in, or None if it had ended before."""
        attempt = 1 + (paths.last_attempt if paths.root.exists() else 0)
        process = subprocess.Popen(
            command, env=cache_environment(cache), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )  # fmt: skip
        _await(process, paths, attempt, aim, self._random.randint(1, aim.most))
        time.sleep(self._random.uniform(0, aim.seconds))
        try:
            children = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        process.kill()
        if IN_PROCESS not in command:  # a cluster kills the whole job; a run in one process must end its own children
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        was_over = process.wait() >= 0
        _, alive = psutil.wait_procs(children, timeout=PATIENCE_SECONDS)
        assert not alive, f"{[each.cmdline() for each in alive]} outlived their parent"
        return None if was_over else phase_of(record.event for record in records_of(paths) if record.attempt == attempt)


def cache_environment(cache: Path) -> dict[str, str]:
    return checkout_environment(TRAINER_CACHE_DIR=str(cache))


def _await(process: subprocess.Popen[bytes], paths: RunPaths, attempt: int, aim: Aim, count: int) -> None:
    """Waits until the aim accepts `count` events of the attempt, or the process ends."""
    deadline, seen = time.monotonic() + PATIENCE_SECONDS, 0
    with EventTail(paths.events) as tail:
        while aim.sees is not None and seen < count and process.poll() is None and time.monotonic() < deadline:
            seen += sum(record.attempt == attempt and aim.sees(record.event) for record in tail.poll())
            time.sleep(0.001)


def records_of(paths: RunPaths) -> list[Record]:
    with EventTail(paths.events) as tail:
        return tail.poll()


_WITHIN = (
    ("evaluate", "evaluate"), ("validate", "validate"), ("trace", "compile"), ("compile", "compile"),
    ("autotune", "autotune"), ("train", "train"), ("resume", "data"), ("model", "data"), ("data", "data"),
    ("load", "load"),
)  # fmt: skip
"""Phases of events and their names here, inner phases before outer ones."""


def phase_of(events: Iterable[Event]) -> str:
    """Returns the phase of an attempt that has reported these events."""
    running, unwritten, last, is_tuning = set[str](), 0, "", False
    for event in events:
        if isinstance(event, PhaseEvent):
            (running.discard if event.state in ("finished", "failed") else running.add)(event.name)
            unwritten += (event.name, event.state) == ("checkpoint", "started")
        elif isinstance(event, CheckpointEvent):
            unwritten -= 1
        elif isinstance(event, AutotuneEvent):
            is_tuning |= event.source == "measured"
        elif isinstance(event, MetricEvent) and event.split == "test":
            last = "end"
    if last or unwritten:
        return last or "checkpoint"
    if not is_tuning:  # so far, the tuner has found all decisions in the cache
        running.discard("autotune")
    return next((name for known, name in _WITHIN if known in running), "start-up")


# --- comparison of two runs -------------------------------------------------------------------------------------------


def difference(whole: RunPaths, killed: RunPaths) -> str:
    """Describes the first difference between a killed run and the run without kills; "" if they are equal."""
    return next(_differences(whole, killed), "")


def _differences(whole: RunPaths, killed: RunPaths) -> Iterator[str]:
    for name in ("latest", "best"):
        one, other = pointed(whole.checkpoints, name), pointed(killed.checkpoints, name)
        if one is None or other is None or one.name != other.name:
            yield f"{name} is {one} and {other}"
        elif found := first_difference(read_checkpoint(one), read_checkpoint(other)):
            yield f"{name}: {': '.join(found)}"
    if (kept := steps_in(whole.checkpoints)) != (others := steps_in(killed.checkpoints)):
        yield f"checkpoints of {kept} and of {others}"
    if leftovers := [path.name for path in killed.checkpoints.iterdir() if path.name.startswith(".")]:
        yield f"left in checkpoints: {leftovers}"
    if leftovers := [path.name for path in killed.root.iterdir() if path.name.startswith(".")]:
        yield f"left in the run's directory: {leftovers}"
    if killed.lock.exists():
        yield "left behind: run.lock"
    one_run, other_run = reported(whole), reported(killed)
    for key in sorted({*one_run, *other_run}):
        if one_run.get(key) != other_run.get(key):
            yield f"{key}: {one_run.get(key)} and {other_run.get(key)}"


def reported(paths: RunPaths) -> dict[tuple[str, int], list[str]]:
    """Returns all numbers of a run's events that do not depend on the clock, by split and step.

    They are JSON, in which NaN equals NaN. Each metric is a separate entry, because the clock decides whether a metric
    that another process computes is reported with others or later.
    """
    found: dict[tuple[str, int], list[object]] = {}
    for record in read_events(paths.events):
        event = record.event
        if isinstance(event, MetricEvent):
            found.setdefault((event.split, event.step), []).extend(
                (event.epoch, event.final, name, value)
                for name, value in event.values.items()
                if name not in WALL_CLOCK
            )
        elif isinstance(event, ReportEvent):
            content = json.loads((paths.root / event.file).read_text())
            found.setdefault((f"{event.split} {event.name}", event.step), []).append(content)
        elif isinstance(event, EndEvent):
            values = {name: value for name, value in event.metrics.items() if name not in WALL_CLOCK}
            found["end", 0] = [(event.status, event.exit_code, event.step, values)]  # the last attempt's
    return {key: sorted(json.dumps(each, sort_keys=True) for each in values) for key, values in found.items()}
