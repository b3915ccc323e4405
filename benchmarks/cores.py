"""Predicts training steps on more cores than this machine has, and checks predictions on the threads that it has.

python benchmarks/cores.py [resnet50_2 …] [--json] [--rounds N]
python benchmarks/cores.py --table [resnet50 mlp …] [--at N] [--cores N] [--limit GB/S] [--rows N]

    NETWORK_1, NETWORK_2, …  the relative error of the predicted step in percent, on one and two threads, and on each
                             further power of two that this machine has cores for

A step is measured task by task on one thread. `simulation.py` predicts from these times and from the costs of two
threads here: a barrier, a claim of a task, waking, bytes per second. `--table` predicts 1 to 64 threads and lists the
launches that lose the most time on N threads (`--at`, default 64). `--cores` splits tasks as on a machine with this
many cores (default 8, also used for fewer). `--limit` is the memory bandwidth of the predicted machine; without it,
bandwidth grows with the cores, as on a server with enough channels.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import Figure, run_figures
from simulation import Costs, Launch, predicted

from trainer import engine
from trainer.engine.graph.storage import aligned_empty
from trainer.engine.profiling.workload import load_of
from trainer.engine.targets.cpu import choices, native
from trainer.engine.targets.cpu.control_block import REPEAT
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.machine import FEWEST_THREADS, for_threads, host_machine
from trainer.engine.targets.cpu.peaks import measure
from trainer.engine.targets.cpu.pool import BARRIER, RECORD_WORDS, SINGLE, Pool
from trainer.engine.targets.cpu.recording import NO_STAMPS, ProgramRun, Recording, room
from trainer.engine.targets.cpu.topology import available_threads

sys.path.insert(0, str(Path(__file__).parent / "workloads"))

STEPS = {"resnet50": 4, "mlp": 200, "transformer": 4, "lsgan": 4}
"""By network, the number of steps measured at a time."""

PREDICTED = (1, 2, 4, 8, 16, 32, 64)
MEASURED = tuple(threads for threads in PREDICTED if threads <= max(2, available_threads()))
BAR = 10.0
ROUNDS = 3
NETWORK_OF = {"transformer": "decoder"}
"""Names in `untuned_networks.py`; other networks have the names in `ours.py`."""

MEETINGS, CLAIMS, WAKINGS, REPETITIONS = 50, 20_000, 50, 200
PAUSE = 2e-4
"""Seconds between wakings, during which the threads sleep."""

_ONE_TASK = """
define void @one(ptr %block, i64 %task, ptr %scratch) {
  %p.arguments = getelementptr i64, ptr %block, i64 1
  %p.number = getelementptr i64, ptr %block, i64 2
  %function = load ptr, ptr %block
  %arguments = load ptr, ptr %p.arguments
  %number = load i64, ptr %p.number
  call void %function(ptr %arguments, i64 %number, ptr %scratch)
  ret void
}
define void @nothing(ptr %block, i64 %task, ptr %scratch) {
  ret void
}
"""


@functools.cache
def _functions() -> native.Library:
    return native.link({"module": native.compile_object(_ONE_TASK)}, exports=("one", "nothing"))


# --- a step, task by task --------------------------------------------------------------------------------------------


class ByTask:
    """A program with one record per task, so that each task gets time stamps."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.launches = program.launches[program.constant :]
        own = program._tape.reshape(-1, RECORD_WORDS)[program.constant : len(program.launches)]
        counts = [1 if record[3] & (SINGLE | REPEAT) else int(record[2]) for record in own]
        self.edges = np.cumsum([0, *counts])
        self.tape = aligned_empty(max(1, int(self.edges[-1])) * RECORD_WORDS, np.dtype(np.int64))
        records = self.tape.reshape(-1, RECORD_WORDS)
        records[:] = 0
        self.blocks = np.zeros((len(records), 3), np.int64)
        for record, count, edge in zip(own, counts, self.edges, strict=False):
            if record[3] & (SINGLE | REPEAT):
                records[edge] = record
                continue
            part = slice(edge, edge + count)
            self.blocks[part] = [(record[0], record[1], task) for task in range(count)]
            records[part, 0] = _functions()["one"]
            records[part, 1] = self.blocks.ctypes.data + 24 * np.arange(edge, edge + count)
            records[part, 2:4] = 1, SINGLE

    def run(self) -> tuple[float, np.ndarray]:
        """Runs all tasks in turn; returns their total seconds and the seconds of each."""
        count = int(self.edges[-1])
        stamps, start = room(1, count), time.perf_counter()
        self.program.device.pool.run(
            self.tape.ctypes.data, count, threads=1, flush=self.program.flush, stamps=stamps.ctypes.data
        )
        spent = time.perf_counter() - start
        ticks = stamps[0, :-1, 2] - stamps[0, :-1, 1]
        return spent, ticks * (spent / max(1, int(stamps[0, -1, 1] - stamps[0, 0, 0])))

    def described(self, seconds: np.ndarray) -> list[Launch]:
        """Returns the launches, from the seconds of their tasks."""
        found = []
        for number, (launch, waits) in enumerate(
            zip(self.launches, self.program.waits[self.program.constant :], strict=True)
        ):
            tasks = tuple(float(each) for each in seconds[self.edges[number] : self.edges[number + 1]])
            meetings = 0
            if launch.body:  # every turn runs the same tasks
                meetings = launch.work.spec.count * (2 + len(launch.body))
                tasks = (tasks[0] / launch.tasks,) * launch.tasks
            found.append(Launch(launch.label, tasks, bool(waits), load_of(launch.work).nbytes, meetings))
        return found


@contextmanager
def walking(walk: Callable[..., Any]) -> Iterator[None]:
    """Replaces `Program.walk` with `walk` inside the block."""
    usual = Program.walk
    setattr(Program, "walk", lambda program, **_: walk(program))  # noqa: B010  (which mypy asks for)
    try:
        yield
    finally:
        setattr(Program, "walk", usual)  # noqa: B010


TOGETHER = functools.partial(Program.walk, together=True)


class Network:
    """A network's training step on `threads` threads, with tasks split for `cores` cores."""

    def __init__(self, name: str, threads: int, cores: int) -> None:
        machine = for_threads(host_machine(), cores)
        self.device = CpuDevice(threads=threads, choose=functools.partial(choices.choose, machine=machine))
        if name in NETWORK_OF:
            import untuned

            self.run: Callable[[], float] = untuned.in_trainer(
                untuned.parsed((NETWORK_OF[name], "trainer", f"--threads={threads}"))
            )
        else:
            from ours import WORKLOADS

            with engine.device(self.device):
                self.run = WORKLOADS[name]()
        self._by_task: dict[Program, ByTask] = {}
        for _ in range(3):
            self.seconds()

    def seconds(self, walk: Callable[[Program], Any] = TOGETHER) -> float:
        """Returns the seconds of a step, on all threads even if they are busy."""
        with engine.device(self.device), walking(walk):
            start = time.perf_counter()
            self.run()
            return time.perf_counter() - start

    def tasks(self) -> tuple[float, list[tuple[ByTask, np.ndarray]]]:
        """Runs a step task by task; returns the seconds outside of programs, and those of the tasks of each program."""
        inside, found = 0.0, []

        def walk(program: Program) -> ProgramRun[Program]:
            nonlocal inside
            by_task = self._by_task.get(program)
            if by_task is None:
                by_task = self._by_task[program] = ByTask(program)
            start = time.perf_counter()
            spent, seconds = by_task.run()
            found.append((by_task, seconds))
            inside += time.perf_counter() - start
            return ProgramRun(program, NO_STAMPS, start, spent)

        outside = self.seconds(walk) - inside
        return outside, found


# --- costs of threads ------------------------------------------------------------------------------------------------


@functools.cache
def costs() -> Costs:
    """The costs of two threads on this machine."""
    one, two = Pool(1), Pool(2)
    meeting = _tape(MEETINGS, 1, SINGLE | BARRIER)
    barrier = (min(_seconds(two, meeting, 2)) - min(_seconds(two, meeting, 1))) / MEETINGS
    # not the minimum: in the fastest runs, the other thread comes too late to claim a task
    claim = statistics.median(_seconds(two, _tape(1, CLAIMS, 0), 2)) / CLAIMS
    second = Recording(two).clock().seconds_per_tick
    wakings = []
    for _ in range(WAKINGS):
        time.sleep(PAUSE)
        stamps, start = room(2, 1), two.ticks()
        two.run(_tape(1, 1, SINGLE).ctypes.data, 1, stamps=stamps.ctypes.data)
        wakings.append((int(stamps[1, 0, 0]) - start) * second)
    alone, together = (measure(pool).bandwidth for pool in (one, two))
    return Costs(max(barrier, 0.0), claim, statistics.median(wakings), alone, together)


@functools.cache
def _tape(records: int, tasks: int, flags: int) -> np.ndarray:
    tape = aligned_empty(records * RECORD_WORDS, np.dtype(np.int64))
    tape[:] = 0
    tape.reshape(-1, RECORD_WORDS)[:, [0, 2, 3]] = _functions()["nothing"], tasks, flags
    return tape


def _seconds(pool: Pool, tape: np.ndarray, threads: int) -> list[float]:
    """Returns the seconds of each of several runs."""
    found = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        pool.run(tape.ctypes.data, len(tape) // RECORD_WORDS, threads=threads)
        found.append(time.perf_counter() - start)
    return found


# --- predictions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Seconds of a step by number of threads, its seconds outside of programs, and the launches of each program."""

    seconds: dict[int, float]
    outside: float
    programs: list[list[Launch]]

    def predicted(self, threads: int, costs: Costs) -> float:
        """Returns the predicted seconds of a step."""
        return self.outside + sum(predicted(program, threads, costs).seconds for program in self.programs)


network = functools.cache(Network)


def measured(name: str, threads: Sequence[int], cores: int = FEWEST_THREADS) -> Measured:
    """Returns medians over several steps for each number of threads and for each task, measured in alternation."""
    seconds: dict[int, list[float]] = {count: [] for count in threads}
    outside: list[float] = []
    tasks: list[list[np.ndarray]] = []
    for _ in range(STEPS[name]):
        spent, found = network(name, 1, cores).tasks()
        outside.append(spent)
        tasks.append([each for _, each in found])
        for count in threads:
            seconds[count].append(network(name, count, cores).seconds())
    usual = [np.median(each, axis=0) for each in zip(*tasks, strict=True)]
    programs = [by_task.described(each) for (by_task, _), each in zip(found, usual, strict=True)]
    medians = {count: statistics.median(each) for count, each in seconds.items()}
    return Measured(medians, statistics.median(outside), programs)


def difference(name: str, threads: int) -> float:
    """Returns the relative error of the predicted step time, in percent."""
    found = measured(name, (threads,))
    return 100 * abs(found.predicted(threads, costs()) / found.seconds[threads] - 1)


FIGURES = [
    Figure(f"{name}_{threads}", functools.partial(difference, name, threads), bar=BAR, unit="%", rounds=ROUNDS)
    for name in STEPS
    for threads in MEASURED
]


def table(name: str, found: Measured, costs: Costs, many: int, rows: int) -> Iterator[str]:
    """Yields lines about a network: predictions, and the launches that lose the most time on `many` threads."""
    one = found.predicted(1, costs)
    launches = [launch for program in found.programs for launch in program]
    yield f"{name}: {len(launches)} launches, {sum(len(launch.tasks) for launch in launches)} tasks"
    yield f"{'threads':>9}{'ms':>10}{'speedup':>9}{'measured':>10}"
    for threads in PREDICTED:
        seconds = found.predicted(threads, costs)
        known = found.seconds.get(threads)
        yield f"{threads:9}{1e3 * seconds:10.2f}{one / seconds:9.2f}{1e3 * known if known else math.nan:10.2f}".replace(
            "nan", "  -"
        )
    ends = [end for program in found.programs for end in predicted(program, many, costs).launches]
    lost = sorted(zip(ends, launches, strict=True), key=lambda pair: pair[1].seconds / many - pair[0])
    yield f"lost ms at {many:2}{'of 1 thread':>14}{'tasks':>8}  launch"
    for end, launch in lost[:rows]:
        yield (
            f"{1e3 * (end - launch.seconds / many):13.3f}{1e3 * launch.seconds:13.3f}{len(launch.tasks):8}"
            f"  {launch.name[:90]}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--limit", type=float, help="GB/s")
    parser.add_argument("--at", type=int, default=PREDICTED[-1])
    parser.add_argument("--cores", type=int, default=FEWEST_THREADS)
    parser.add_argument("--rows", type=int, default=12)
    own, others = parser.parse_known_args()
    if not own.table:
        return run_figures(FIGURES, others)
    if unknown := set(others) - set(STEPS):
        parser.error(f"no such network: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    known = replace(costs(), limit=1e9 * own.limit if own.limit else math.inf)
    print(
        f"two threads: a barrier takes {1e6 * known.barrier:.2f} microseconds, a claim {1e9 * known.claim:.0f} ns, "
        f"waking {1e6 * known.waking:.0f} microseconds; {1e-9 * known.alone:.1f} GB/s alone, "
        f"{1e-9 * known.together:.1f} together"
    )
    for name in others or STEPS:
        print("\n".join(table(name, measured(name, MEASURED, own.cores), known, own.at, own.rows)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
