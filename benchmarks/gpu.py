"""Tests `device: cuda` on an NVIDIA GPU, and measures its speed relative to PyTorch on the same GPU.

Usage: python benchmarks/gpu.py [--device cuda:N] [--peer-python PATH] [--json FILE] [--minutes N] [--emulated]

One command, in less than ten minutes:

1. the tests of the engine that apply to a GPU (`TESTS`), on the GPU;
2. the speed of an element-wise step relative to a copy, and the share of a step's time in which the GPU is busy;
3. training steps relative to PyTorch, eager and with channels-last, in float32, TF32 and bfloat16;
4. with two GPUs, a training with one process on each, whose metrics have the bits of one process;
5. short trainings of recipes, with the time of a step;
6. the steps of 3. relative to compiled PyTorch, without and with channels-last.

Anything left when the time is up is listed without a value. Without a GPU, the command prints the reason; its exit code
is 2. `--emulated` runs the command itself without a GPU: tests in the emulator, no timings.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import ROOT, Companion, checkout_environment

from trainer import TrainerError
from trainer.engine.targets.cuda import driver

FOLDER = Path(__file__).parent / "workloads"
TESTS = (
    "tests/engine/targets/cuda/test_primitives.py",
    "tests/learner/test_cuda.py::test_metrics_and_checkpoints_are_those_of_the_cpu",
)
"""Tests that run on the GPU with `TRAINER_TEST_GPU=1`: all primitives, and a training with its checkpoints."""

RECIPES = ("digits", "segmentation", "lsgan", "detection")
RECIPE_STEPS = 30
MOST_WORKERS = 8
"""Maximum number of test processes, each with its own context on the GPU."""

STEPS = 20


@dataclass(frozen=True)
class Row:
    """A line of the table. If nothing was measured, `value` is None and `note` gives the reason."""

    name: str
    unit: str
    value: float | None
    peer: float | None = None
    bar: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Speed relative to PyTorch."""
        return None if self.value is None or self.peer is None else self.peer / self.value

    @property
    def is_reached(self) -> bool | None:
        """Whether the bar is reached; None without a bar or a measurement."""
        figure = self.ratio if self.unit == "ms" else self.value
        return None if self.bar is None or figure is None else figure >= self.bar


@dataclass(frozen=True)
class Comparison:
    """A workload for both sides, and the minimum speed relative to PyTorch's eager mode."""

    workload: str
    batch: int | None
    precision: str
    bar: float | None = None

    @property
    def name(self) -> str:
        return f"{self.workload}{'' if self.batch is None else f'_{self.batch}'}_{self.precision}"

    def words(self, device: str) -> list[str]:
        """Returns the command-line arguments for both sides."""
        words = [self.workload, f"--steps={STEPS}", f"--device={device}", "--threads=4"]
        words += [] if self.batch is None else [f"--batch={self.batch}"]
        return [*words, *(["--bfloat16"] if self.precision == "bfloat16" else [])]

    @property
    def numerics(self) -> str:
        """Our numerics class, which decides whether products run on tensor cores."""
        return "exact" if self.precision == "float32" else "fast"


COMPARISONS = (
    Comparison("resnet50", 256, "bfloat16", 1.0),
    Comparison("lsgan", 128, "tf32", 1.2),
    Comparison("lsgan", 128, "float32", 1.2),
    Comparison("resnet50", 64, "tf32"),
    Comparison("mlp", None, "tf32"),
)
"""float32: both sides compute exact products; tf32: both sides round float32 to TF32."""
PEER_WAYS = {"eager": (), "channels-last": ("--channels-last",), "compiled": ("--compiled",),
             "both": ("--channels-last", "--compiled")}  # fmt: skip


class Clock:
    """The remaining time."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())


def tests(clock: Clock, *, emulated: bool) -> list[Row]:
    """Runs the tests; the value of the row is 1 if all pass."""
    environment = checkout_environment(TRAINER_TEST_GPU="0" if emulated else "1")
    workers = str(min(MOST_WORKERS, os.cpu_count() or 1))
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-m", "full or not full", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *TESTS], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=clock.left,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [Row("tests", "passed", None, note="not finished in time")]
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    failed = [line.partition(" - ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return [Row("tests", "passed", float(done.returncode == 0), bar=1.0, note="; ".join([last, *failed]))]


def recipes(clock: Clock, device: str) -> list[Row]:
    """Milliseconds of a step of each recipe's short training, without the first ones."""
    rows = []
    for name in RECIPES:
        try:
            rows.append(_recipe_row(name, *_trained(clock, name, f"device={device}")))
        except subprocess.TimeoutExpired:
            rows.append(Row(f"recipe {name}", "ms", None, note="not finished in time"))
    return rows


def two_gpus(clock: Clock, gpus: int) -> list[Row]:
    """Whether two processes on two GPUs, which exchange sums by NCCL, train with the bits of one process on one GPU."""
    row = functools.partial(Row, "two GPUs with the bits of one", "passed", bar=1.0)
    if gpus < 2:
        return [row(None, note="there is one GPU")]
    found, times, errors = [], [], ""
    for processes in (1, 2):
        try:
            words = ("device=cuda", "train.shards=2", f"train.processes={processes}")
            events, errors = _trained(clock, "digits", *words)
        except subprocess.TimeoutExpired:
            return [row(None, note="not finished in time")]
        found.append([(event["step"], event["values"]) for event in events if event["kind"] == "metric"])
        times.append(_recipe_row("digits", events, errors))
    if not all(time.value for time in times):
        return [row(0.0, note="; ".join(time.note for time in times if time.note))]
    ms = "one {:.3g} ms, two {:.3g} ms a step".format(*(time.value for time in times))
    return [row(float(found[0] == found[1] != []), note=ms)]


def _trained(clock: Clock, name: str, *settings: str) -> tuple[list[dict[str, Any]], str]:
    """Returns the events of a short training of a recipe, and its standard error output.

    Raises:
        subprocess.TimeoutExpired: the training took longer than the remaining time.
    """
    words = [f"train.steps={RECIPE_STEPS}", "train.epochs=null", "train.log_every_steps=10",
             "schedule.name=constant", "validate.batches=1", "--json"]  # fmt: skip
    command = [sys.executable, "-P", "-m", "trainer.cli", "run", name, *settings, *words]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, env=checkout_environment(), capture_output=True, text=True, timeout=clock.left
        )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def _recipe_row(name: str, events: Sequence[dict[str, Any]], errors: str) -> Row:
    end = next((event for event in reversed(events) if event["kind"] == "end"), None)
    if end is None or end["status"] != "done":
        reason = errors if end is None else str(end["reason"])
        return Row(f"recipe {name}", "ms", None, note=(reason.strip().splitlines() or ["no end event"])[0])
    steps = [(event["step"], event["time"]) for event in events if event["kind"] == "metric"
             and event["split"] == "train"]  # fmt: skip
    (first, began), (last, ended) = steps[0], steps[-1]
    return Row(f"recipe {name}", "ms", 1e3 * (ended - began) / max(1, last - first))


def comparisons(
    clock: Clock, device: str, peer_python: str | None, ways: Sequence[str], known: dict[str, tuple[float | None, str]]
) -> list[Row]:  # fmt: skip
    """Compares our steps with these modes of PyTorch. The bar applies to its eager mode. `known` keeps our times."""
    rows = []
    for each in COMPARISONS:
        words = each.words(device)
        if each.name not in known:
            own = [*words, f"--numerics={each.numerics}", "--measure=submitted_ms"]
            known[each.name] = measured(clock, [sys.executable, str(FOLDER / "ours.py"), *own])
        ours, problem = known[each.name]
        if peer_python is None:
            rows.append(Row(each.name, "ms", ours, note=problem or "no PyTorch: give --peer-python"))
            continue
        for way in ways:
            options = (*PEER_WAYS[way], *(["--tf32"] if each.precision == "tf32" else []))
            peer, peer_problem = measured(clock, [peer_python, str(FOLDER / "torch_peer.py"), *words, *options])
            bar = each.bar if way == "eager" else None
            rows.append(Row(f"{each.name} / {way}", "ms", ours, peer, bar, problem or peer_problem))
    return rows


def measured(clock: Clock, command: Sequence[str]) -> tuple[float | None, str]:
    """Returns the median of three answers of a process, or None and the reason. The process ends when time is up."""
    if clock.left < 1:
        return None, "no time left"
    companion = Companion("timeout", f"{clock.left:.0f}", *command)
    try:
        return sorted(companion() for _ in range(3))[1], ""
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        return None, (str(error).strip().splitlines() or [type(error).__name__])[-1]
    finally:
        companion.close()


def bandwidth(index: int) -> list[Row]:
    """Measures an element-wise step, and the time between graphs, by the GPU's own clock."""
    import cupy
    import numpy as np

    from trainer import engine
    from trainer.engine.targets.cuda.device import CudaDevice

    device = engine.targets.get("cuda" if not index else f"cuda:{index}")
    assert isinstance(device, CudaDevice)
    size = 1 << 27
    with cupy.cuda.Device(index), engine.device(device):
        state = engine.State(np.ones(size, np.float32), "state")

        @engine.trace
        def step() -> None:
            state.assign(state * 0.5 + 0.25)

        step()
        (program,) = step.programs
        stream, memory = device.memory.compute, [cupy.cuda.alloc(4 * size) for _ in range(2)]

        def copy() -> None:
            device.memory.move(3, memory[0].ptr, memory[1].ptr, 4 * size, stream)

        runs = {"copy": copy, "step": step, "graph": lambda: program._graph.launch(stream)}
        seconds = {name: _on_gpu(cupy, stream, run) for name, run in runs.items()}
    return [
        Row("element-wise, of a copy's speed", "share", seconds["copy"] / seconds["step"], bar=0.9),
        Row("busy while steps are replayed", "share", seconds["graph"] / seconds["step"], bar=0.98),
    ]


def _on_gpu(cupy: Any, stream: Any, run: Any, repeats: int = 50) -> float:
    """Seconds of a repetition by the GPU's clock."""
    times = []
    for _ in range(3):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        for _ in range(repeats):
            run()
        end.record(stream)
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3 / repeats)
    return min(times)


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    lines = [f"{'':44} {'ours':>10} {'PyTorch':>10} {'ratio':>7} {'bar':>5}"]
    for row in rows:
        numbers = (row.value, row.peer, row.ratio, row.bar)
        cells = ["" if number is None else f"{number:.4g}" for number in numbers]
        reached = {None: "", True: "reached", False: "MISSED"}[row.is_reached]
        lines.append(
            f"{row.name:44} {cells[0]:>10} {cells[1]:>10} {cells[2]:>7} {cells[3]:>5} {row.unit:7} {reached} {row.note}"
        )
    return "\n".join(line.rstrip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--peer-python", metavar="PATH", help="interpreter of an environment with PyTorch for CUDA")
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--emulated", action="store_true")
    arguments = parser.parse_args()
    clock, index = Clock(60 * arguments.minutes), int(arguments.device.partition(":")[2] or 0)
    if arguments.emulated:
        os.environ[driver.VARIABLE] = driver.EMULATED
    try:
        gpu = driver.open_gpu(index)
    except TrainerError as error:
        print(error, file=sys.stderr)
        return 2
    rows = tests(clock, emulated=arguments.emulated)
    if not arguments.emulated:
        rows += bandwidth(index)
        known: dict[str, tuple[float | None, str]] = {}
        rows += comparisons(clock, arguments.device, arguments.peer_python, ("eager", "channels-last"), known)
        rows += two_gpus(clock, len(driver.available()))
        rows += recipes(clock, arguments.device)
        if arguments.peer_python is not None:  # compiling takes a minute
            rows += comparisons(clock, arguments.device, arguments.peer_python, ("compiled", "both"), known)
    print(f"{gpu.name}, {gpu.processor}\n{table(rows)}")
    if arguments.json is not None:
        found = [{**asdict(row), "ratio": row.ratio, "reached": row.is_reached} for row in rows]
        arguments.json.write_text(json.dumps({"gpu": gpu.name, "rows": found}, indent=1) + "\n", encoding="utf-8")
    return int(any(row.is_reached is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
