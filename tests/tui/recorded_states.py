"""Ten recorded states of a run, which snapshots, the count of used rows and pictures are taken of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import synthetic_run

from trainer.rundir import AutotuneEvent, EndEvent, LogEvent, MetricEvent, PhaseEvent, RequestEvent, RunPaths


def starting(root: Path) -> RunPaths:
    paths = synthetic_run.make_folder(root)
    for at, event in synthetic_run.story():
        if at < 1.0:
            synthetic_run.append(paths, event, at)
    return paths


def tuning(root: Path) -> RunPaths:
    paths = synthetic_run.write_run(root, finished_epochs=1)
    synthetic_run.append(paths, PhaseEvent("autotune", "started", 0, 61, "decisions"), 6.0)
    for index in range(14):
        event = AutotuneEvent(f"k{index}", "conv 3x3", f"8x{32 + index}x56x56", 4.9, 4.9 / (1 + 0.03 * index), 23)
        synthetic_run.append(paths, event, 6.0 + 0.1 * index)
    synthetic_run.append(paths, PhaseEvent("autotune", "progress", 14, 61, "decisions", "matmul 512", 41.0), 8.0)
    return paths


def running(root: Path) -> RunPaths:
    return synthetic_run.write_run(root, finished_epochs=2, has_shown=True)


def paused(root: Path) -> RunPaths:
    paths = running(root)
    synthetic_run.append(paths, RequestEvent("1", "pause", "done"), 9.0)
    return paths


def stopping(root: Path) -> RunPaths:
    paths = running(root)
    synthetic_run.append(paths, RequestEvent("1", "stop", "received"), 9.0)
    return paths


def not_finite(root: Path) -> RunPaths:
    paths = running(root)
    for step in range(244, 300, 4):
        synthetic_run.append(paths, MetricEvent(step, step / 120, "train", {"loss": float("nan")}), 9.0)
    synthetic_run.append(paths, LogEvent("loss is not finite since step 244", level="error"), 9.0)
    return paths


def finished(root: Path) -> RunPaths:
    return synthetic_run.write_run(root, has_shown=True)


def failed(root: Path) -> RunPaths:
    paths = running(root)
    paths.traceback(1).write_text("Traceback (most recent call last):\nZeroDivisionError: division by zero\n")
    end = EndEvent("failed", 1, 240, 9.0, reason="ZeroDivisionError: division by zero", traceback="traceback-1.txt")
    synthetic_run.append(paths, end, 9.0)
    return paths


def empty(root: Path) -> RunPaths:
    return synthetic_run.make_folder(root)


def many_metrics(root: Path) -> RunPaths:
    paths = synthetic_run.make_folder(root)
    for step in range(0, 50, 5):
        values = {f"part{index:02}": index + step / 10 for index in range(100)}
        synthetic_run.append(paths, MetricEvent(step, step / 10, "train", values), 1.0 + step / 10)
    return paths


STATES: dict[str, Callable[[Path], RunPaths]] = {
    made.__name__: made
    for made in (starting, tuning, running, paused, stopping, not_finite, finished, failed, empty, many_metrics)
}
ALIVE = ("starting", "tuning", "running", "paused", "stopping", "not_finite", "many_metrics")
