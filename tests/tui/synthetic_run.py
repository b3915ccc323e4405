"""Writes run directories as a worker would, for tests, for benchmarks, and to look at the dashboard without training.

    python tests/tui/synthetic_run.py FOLDER [--live] [--epochs N]

`--live` keeps writing at the pace of a real run, holds the lock and answers requests.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainer.rundir import (
    AutotuneEvent,
    CheckpointEvent,
    EndEvent,
    Event,
    EventWriter,
    LogEvent,
    MetricEvent,
    PhaseEvent,
    ReportEvent,
    RequestEvent,
    RunEvent,
    RunLock,
    RunPaths,
    SampleEvent,
    StepEvent,
    SystemEvent,
    WarningEvent,
    encode,
    take_requests,
)

START = 1_760_000_000.0
STEPS_PER_EPOCH = 120
CONFIG = """\
task: digits  # config.yaml:1:1
seed: 0  # default
data:
  batch_size: 64  # config.yaml:4:5
optimizer:
  name: adam  # recipe digits
  learning_rate: 0.001  # <cli>
train:
  epochs: 8  # recipe digits
"""


def story(epochs: int = 8, finished_epochs: int | None = None) -> Iterator[tuple[float, Event]]:
    """Events of a run with the seconds since its start; ends before `end` when not all epochs are finished."""
    noise = random.Random(7)
    last_epoch = epochs if finished_epochs is None else finished_epochs
    yield 0.05, RunEvent("digits-7", "digits", "0.1.0", os.getpid(), os.uname().nodename, "cpu", 2)
    for at, name, seconds in ((0.05, "config", 0.1), (0.2, "data", 0.4), (0.6, "model", 0.1), (0.7, "trace", 0.2)):
        yield at, PhaseEvent(name, "started")
        yield at + seconds, PhaseEvent(name, "finished")
    yield 0.9, PhaseEvent("compile", "started", 0, 61, "kernels")
    yield 1.2, PhaseEvent("compile", "progress", 30, 61, "kernels", now="conv 8x64x56x56 3x3")
    yield 1.8, PhaseEvent("compile", "finished", 61, 61, "kernels")
    yield 1.8, PhaseEvent("train", "started", 0, epochs, "epochs")
    yield 1.9, WarningEvent("3 of 10000 pictures are blank", where="data")
    at, best = 2.0, 0.0
    for epoch in range(last_epoch):
        for index in range(0, STEPS_PER_EPOCH, 4):
            step = epoch * STEPS_PER_EPOCH + index + 4
            at += 0.1
            loss = 2.2 * math.exp(-step / 150) + 0.05 + noise.gauss(0, 0.04) * (0.3 + math.exp(-step / 200))
            rate = 1e-3 * min(1, step / 60) * 0.5 * (1 + math.cos(math.pi * step / (epochs * STEPS_PER_EPOCH)))
            accuracy = min(1.0, 1 - 0.9 * math.exp(-step / 120) + noise.gauss(0, 0.01))
            yield (
                at,
                MetricEvent(
                    step, step / STEPS_PER_EPOCH, "train", {"loss": loss, "accuracy": accuracy, "learning_rate": rate}
                ),
            )
            if index % 40 == 0:
                yield at, SystemEvent(cpu=70 + noise.random() * 28, memory=412e6, data_wait=0.06, step_ms=24.3)
        yield at, PhaseEvent("train", "progress", epoch + 1, epochs, "epochs", remaining=(epochs - epoch - 1) * 3.2)
        yield at, PhaseEvent("validate", "started", 0, 8, "batches")
        step = (epoch + 1) * STEPS_PER_EPOCH
        accuracy = 0.985 * (1 - 0.8 * math.exp(-step / 120)) - 0.004 * (epoch == 5)
        yield at + 0.2, MetricEvent(step, epoch + 1.0, "valid", {"loss": 2.1 * math.exp(-step / 170) + 0.07,
                                                                 "accuracy": accuracy})  # fmt: skip
        yield at + 0.2, PhaseEvent("validate", "finished", 8, 8, "batches")
        reasons = ("latest", "best") if accuracy > best else ("latest",)
        best = max(best, accuracy)
        yield at + 0.3, CheckpointEvent(step, f"checkpoints/step-{step}", 1_834_112, 1.2, 0.02, reasons)
        at += 0.3
    if last_epoch == epochs:
        yield at, PhaseEvent("train", "finished", epochs, epochs, "epochs")
        yield at + 0.2, MetricEvent(epochs * STEPS_PER_EPOCH, float(epochs), "test", {"accuracy": 0.9913}, final=True)
        yield at + 0.2, EndEvent("done", 0, epochs * STEPS_PER_EPOCH, at + 0.2, {"test/accuracy": 0.9913})


def make_folder(root: Path) -> RunPaths:
    """The folders and the configuration of a run without events."""
    paths = RunPaths(root)
    for folder in (paths.root, paths.control, paths.checkpoints, paths.samples, paths.reports):
        folder.mkdir(parents=True, exist_ok=True)
    paths.config(1).write_text(CONFIG)
    return paths


def append(paths: RunPaths, event: Event, at: float, attempt: int = 1) -> None:
    """Append one event, `at` seconds after START."""
    with paths.events.open("ab") as file:
        file.write(encode(event, time=START + at, since_start=at, attempt=attempt))


def write_shown(paths: RunPaths, time: float, steps: tuple[int, ...] = (60, 120)) -> None:
    """Samples, reports and tuning decisions of a run, in its files and events."""
    import json

    import numpy as np
    from PIL import Image

    for step in steps:
        folder = paths.samples / f"step-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        for index, name in enumerate(("cells", "plain")):
            ramp = np.linspace(0, 255, 48 * 64 * 3).reshape(48, 64, 3).astype(np.uint8)
            ramp[:, :, index] = step % 256
            Image.fromarray(ramp).save(folder / f"{name}.png")
            boxes = {"boxes": [[8, 8, 40, 32]], "classes": ["red"], "scores": [0.93]} if name == "cells" else {}
            (folder / f"{name}.json").write_text(json.dumps(boxes))
            at = SampleEvent(step, "valid", name, f"samples/step-{step}/{name}.png", f"{name} at {step}")
            append(paths, at, time)
        (folder / "words.txt").write_text("to be or not to be,\nthat is the question\n")
        append(paths, SampleEvent(step, "valid", "words", f"samples/step-{step}/words.txt"), time)
    for rank, item in enumerate(REPORTS["worst_items"]["items"], start=1):
        picture = paths.root / item["samples"][0]
        picture.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.zeros((24, 24, 3), np.uint8)
        pixels[4 * rank : 4 * rank + 4] = 250
        Image.fromarray(pixels).save(picture)
        told = {"caption": item["caption"], "boxes": [[2, 4, 20, 12]], "classes": ["cat"]}
        picture.with_suffix(".json").write_text(json.dumps(told))
    for name, content in REPORTS.items():
        file = paths.reports / f"{name}.json"
        file.write_text(json.dumps(content))
        append(paths, ReportEvent(steps[-1], "valid", name, f"reports/{file.name}"), time)
    for index in range(12):
        skipped = {"out of memory": 1} if index == 3 else None
        event = AutotuneEvent(
            f"key-{index}", "conv 3x3" if index % 2 else "matmul", f"8x{64 << index % 4}x56x56", 4.9, 4.9 - 0.3 * index,
            23, skipped, 0.4, "cache" if index == 5 else "measured",
        )  # fmt: skip
        append(paths, event, time)
    others = {"elementwise 8x64x56x56": 3.0, "reduction 8x64": 0.6}
    append(paths, StepEvent(0, True, 24.0, {f"key-{index}": 0.2 * index for index in range(12)}, others), time)
    append(paths, StepEvent(1, False, 9.0, {"key-1": 9.0}), time)


REPORTS: dict[str, dict[str, Any]] = {
    "confusion": {
        "kind": "confusion_matrix", "class_names": ["cat", "dog", "bird"], "counts": [[8, 2, 0], [1, 9, 0], [0, 0, 5]],
    },
    "roc": {
        "kind": "curve", "class_names": ["cat", "dog"],
        "axes": {"x": "false positive rate", "y": "true positive rate"},
        "curves": [{"x": [0, 0.1, 1], "y": [0, 0.9, 1]}, {"x": [0, 0.5, 1], "y": [0, 0.5, 1]}],
    },
    "classes": {
        "kind": "per_class", "class_names": ["cat", "dog"], "columns": {"recall": [0.8, "nan"], "support": [5, 0]},
    },
    "detections": {
        "kind": "coco", "objects": "boxes", "stats": {"AP": 0.5046, "AP50": 0.697, "APs": -1},
        "classes": [{"name": "cat", "truths": 3, "AP": 0.7}, {"name": "dog", "truths": 2, "AP": 0.31}],
        "curves": {"0.5": {"cat": {"recall": [0, 0.5, 1], "precision": [1, 0.9, 0.2], "score": [1, 0.5, 0]}}},
    },
    "worst_items": {
        "kind": "worst_items", "score": "log loss",
        "items": [
            {
                "score": score, "item": item, "source": f"/data/animals/valid/{item:06}.jpg",
                "caption": f"predicted {predicted}, true cat",
                "samples": [f"reports/step-120/valid/worst_items/{rank}/photo.png"],
            }
            for rank, (item, score, predicted) in enumerate([(17, 6.25, "dog"), (4, 3.5, "bird"), (9, "nan", "dog")], 1)
        ],
    },
}  # fmt: skip


def write_run(root: Path, epochs: int = 8, finished_epochs: int | None = None, *, has_shown: bool = False) -> RunPaths:
    """A run at once, with the times of a real one. Finished unless `finished_epochs` is less than `epochs`.

    With `has_shown` it has samples, reports and tuning decisions too.
    """
    paths = make_folder(root)
    for at, event in story(epochs, finished_epochs):
        if has_shown and isinstance(event, PhaseEvent) and (event.name, event.state) == ("validate", "started"):
            write_shown(paths, at)
            has_shown = False
        append(paths, event, at)
    return paths


PEAK = 0.9999
"""The best validation accuracy of a long run, reported once: who shows it has read the whole run."""


def write_long_run(root: Path, records: int) -> RunPaths:
    """A finished run with a metric record a step; the validation each thousand steps, its PEAK a third of the way."""
    paths = make_folder(root)
    peak_step = records // 3 // 1000 * 1000
    with paths.events.open("ab") as file:

        def put(step: int, event: Event) -> None:
            file.write(encode(event, time=START + step * 0.01, since_start=step * 0.01, attempt=1))

        put(0, RunEvent("long", "digits", "0.1.0", os.getpid(), os.uname().nodename, "cpu", 2))
        put(0, PhaseEvent("train", "started", 0, records, "steps"))
        for step in range(1, records + 1):
            put(step, MetricEvent(step, step / 1000, "train", {"loss": math.exp(-3 * step / records)}))
            if step % 1000 == 0:
                accuracy = PEAK if step == peak_step else 0.9 * step / records
                put(step, MetricEvent(step, step / 1000, "valid", {"accuracy": accuracy}))
        put(records, PhaseEvent("train", "finished", records, records, "steps"))
        put(records, EndEvent("done", 0, records, records * 0.01, {}))
    return paths


def write_live(root: Path, epochs: int, speed: float = 1.0) -> None:
    """A run at its pace; ends early when a stop is requested."""
    paths = make_folder(root)
    start = time.time()
    with EventWriter(paths.events, attempt=1, process_start=start) as sink, RunLock(paths) as lock:
        paused, step = False, 0
        for at, event in story(epochs):
            while time.time() - start < at / speed or paused:
                time.sleep(0.02)
                lock.heartbeat()
                for request in take_requests(paths):
                    sink(RequestEvent(request.id, request.what, "received"))
                    sink(RequestEvent(request.id, request.what, "done"))
                    paused = request.what == "pause" or (paused and request.what != "resume")
                    if request.what in ("stop", "abort"):
                        sink(EndEvent("stopped", 0, step, time.time() - start, {}, reason="requested"))
                        return
            step = getattr(event, "step", step)
            sink(event)
            if random.random() < 0.02:
                sink(LogEvent(f"gradient norm {random.random():.3f}"))


def write_flood(root: Path, rate: int, seconds: float, work: Callable[[], object] | None = None) -> tuple[float, float]:
    """A run that writes `rate` records a second, as it can, for so long.

    Between them it does `work`, which takes about a millisecond, or sleeps.

    Returns:
        The processor time that a record took, in µs, with the work's; and how often a second it did its work.
    """
    paths = make_folder(root)
    begun = time.time()
    with EventWriter(paths.events, attempt=1, process_start=begun) as sink, RunLock(paths) as lock:
        sink(RunEvent("flood", "digits", "0.1.0", os.getpid(), os.uname().nodename, "cpu", 2))
        sink(PhaseEvent("train", "started", unit="steps"))
        step, worked, used = 0, 0, time.process_time()
        while (now := time.time() - begun) < seconds:
            while step < now * rate:
                step += 1
                sink(
                    MetricEvent(
                        step, step / 1000, "train", {"loss": math.exp(-step / 1e5), "accuracy": random.random()}
                    )
                )
            lock.heartbeat()
            if work is None:
                time.sleep(0.01)
                continue
            while time.time() - begun - now < 0.01:
                work()
                worked += 1
        used = time.process_time() - used
        sink(EndEvent("done", 0, step, seconds, {}))
    return 1e6 * used / step, worked / seconds


def training() -> Callable[[], object]:
    """About a millisecond of a training's work, by one thread: products of matrices."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    import numpy as np

    left, right = np.random.default_rng(0).standard_normal((2, 384, 384), dtype=np.float32)
    return lambda: left @ right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--flood", type=int, metavar="RECORDS_PER_SECOND")
    parser.add_argument("--training", action="store_true", help="with --flood: compute between the records")
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.flood:
        work = training() if arguments.training else None
        print(*write_flood(arguments.folder, arguments.flood, arguments.seconds, work))
    elif arguments.live:
        write_live(arguments.folder, arguments.epochs, arguments.speed)
    else:
        write_run(arguments.folder, arguments.epochs)
