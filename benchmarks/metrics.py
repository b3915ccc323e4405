"""Metrics: COCO evaluation compared with pycocotools, and the cost of evaluation during training.

python benchmarks/metrics.py [coco_boxes coco_masks …] [--json] [--rounds N]

coco_boxes, coco_masks   time to evaluate the same rows in the same process, from memory to the summary, without reading
                         files. Our results are compared with pycocotools': a difference ends the benchmark
training_beside_coco     fraction of its speed that training (ResNet-50, batch 8) keeps while the metrics process
                         gathers and evaluates validations of COCO size, one after the other
coco_and_training        time of steps and evaluations at the same time, compared with one after the other
loop_ten_metrics         processor time that ten metrics add to a step outside the program
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Companion, Figure, checkout_environment, run_figures
from workloads.coco_scene import coco_scene, in_batches

from trainer.learner.measuring import ASIDE_NICENESS
from trainer.metrics.coco import Kind, evaluate
from trainer.metrics.coco.pycocotools import as_dataset
from trainer.metrics.detection import CocoFigures
from trainer.metrics.folding import FoldingProcess, Slot
from trainer.metrics.folding.form import Form

LEAST_SPEED = 10.0
"""Minimum speed relative to pycocotools."""

STEPS = 8
"""Training steps per measurement."""


class CocoPair:
    """One scene, evaluated by our metrics and by pycocotools."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    @functools.cached_property
    def scene(self):
        return coco_scene(self.kind)

    @functools.cached_property
    def datasets(self):
        scene, truths, detections = self.scene
        return as_dataset(scene, truths), as_dataset(scene, detections)

    def ours(self) -> float:
        rows = self.scene
        start = time.perf_counter()
        self.stats = list(evaluate(*rows, kind=self.kind).stats.values())
        return time.perf_counter() - start

    def peer(self, python: str) -> float:
        from pycocotools.cocoeval import COCOeval

        truth, detections = self.datasets
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            run = COCOeval(truth, detections, self.kind)
            run.evaluate()
            run.accumulate()
            run.summarize()
        seconds = time.perf_counter() - start
        if run.stats.tolist() != self.stats:
            raise SystemExit(f"the figures differ: {self.stats} and pycocotools' {run.stats.tolist()}")
        return seconds


def coco_figure(name: str, kind: Kind) -> Figure:
    pair = CocoPair(kind)
    return Figure(name, ours=pair.ours, peer=pair.peer, bar=LEAST_SPEED, unit="s", needs_peer_python=False, rounds=3)


def handed_over(batch: dict[str, np.ndarray]) -> tuple[Form, dict[str, Callable[[memoryview], None]]]:
    """Returns a batch's parts of the metric `coco` as the learner passes them to the folding process."""
    form = Form.of({("coco", name): (values.dtype.name, values.shape) for name, values in batch.items()})

    def source(dtype: str) -> Callable[[memoryview], None]:
        run = b"".join(values.tobytes() for values in batch.values() if values.dtype.name == dtype)

        def write(target: memoryview) -> None:
            target[:] = run

        return write

    return form, {dtype: source(dtype) for dtype in form.runs()}


class Beside:
    """A training in a separate process, and validations whose rows are folded and evaluated as in a run."""

    EVALUATIONS = 8

    @functools.cached_property
    def training(self) -> Companion:
        script = Path(__file__).with_name("workloads") / "ours.py"
        return Companion(sys.executable, str(script), "resnet50", f"--steps={STEPS}")

    @functools.cached_property
    def batches(self) -> list[tuple[Form, dict[str, Callable[[memoryview], None]]]]:
        """For each batch, the layout of its parts and, by element type, the functions that write their bytes."""
        return [handed_over(batch) for batch in in_batches(*coco_scene("bbox"))]

    @functools.cached_property
    def folder(self) -> FoldingProcess:
        folder = FoldingProcess(niceness=ASIDE_NICENESS)
        folder.open("valid", {"coco": Slot({"coco": CocoFigures()})})
        self.evaluate(folder)
        return folder

    def evaluate(self, folder: FoldingProcess) -> None:
        """Runs one validation: folds all its batches and computes their metrics."""
        folder.reset("valid")
        for form, sources in self.batches:
            folder.put("valid", form, sources)
        folder.values("valid").result()

    def share(self) -> float:
        """Steps per second during evaluations, relative to steps per second without them."""
        folder, alone = self.folder, self.training()
        is_over = threading.Event()

        def evaluate() -> None:
            while not is_over.is_set():
                self.evaluate(folder)

        thread = threading.Thread(target=evaluate)
        thread.start()
        beside = self.training()
        is_over.set()
        thread.join()
        return alone / beside

    def together(self) -> float:
        """Seconds for the steps and evaluations at the same time."""
        folder = self.folder
        thread = threading.Thread(target=lambda: [self.evaluate(folder) for _ in range(self.EVALUATIONS)])
        start = time.perf_counter()
        thread.start()
        self.training()
        thread.join()
        return time.perf_counter() - start

    def in_turn(self, python: str) -> float:
        """Seconds for the steps and evaluations, one after the other."""
        start = time.perf_counter()
        self.training()
        for _ in range(self.EVALUATIONS):
            self.evaluate(self.folder)
        return time.perf_counter() - start


TEN = "accuracy,top_k,precision,recall,f1,iou,log_loss,confusion_matrix,roc_auc,average_precision"
MOST_MICROSECONDS = 100.0


def ten_metrics() -> float:
    """Processor time that ten metrics add to a step; a separate process folds the rows of two of them."""
    command = (sys.executable, str(Path(__file__).parent / "workloads" / "measured.py"), TEN)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=checkout_environment())
    return float(json.loads(done.stdout)["added_microseconds"])


BESIDE = Beside()
FIGURES = [
    coco_figure("coco_boxes", "bbox"),
    coco_figure("coco_masks", "segm"),
    Figure("training_beside_coco", ours=BESIDE.share, bar=0.5, better="higher", unit="share"),
    Figure("coco_and_training", ours=BESIDE.together, peer=BESIDE.in_turn, bar=1.0, unit="s", needs_peer_python=False),
    Figure("loop_ten_metrics", ours=ten_metrics, bar=MOST_MICROSECONDS, unit="µs", rounds=3),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
